// SPDX-License-Identifier: Apache-2.0
// Reassembly of fragments, without knowing how they look on the wire.
//
// The work per fragment is a binary search and the insertion of a 16-byte piece into an array of at
// most reassembly_max_fragments pieces, whatever the offsets are and in whatever order they come; a
// fragment in order is appended. Completeness is a comparison of two sums, since pieces are
// disjoint.
#include "stack/reassembly.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "netdev/base/timer_queue.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr uint8_t kEcnMask = 0x03;
// One source may have begun this share of the datagrams allowed, so that its flood pushes out its
// own.
constexpr size_t kSourceShare = 4;

struct Piece {
  uint32_t begin = 0;
  uint32_t end = 0;
  PacketPtr packet;
};

bool SameBytes(const Packet& a, const Packet& b) {
  if (a.length() != b.length()) return false;
  std::array<uint8_t, 256> buffer;
  size_t offset = 0;
  bool same = true;
  a.ForEachSpan([&](std::span<const uint8_t> bytes) {
    while (same && !bytes.empty()) {
      const std::span<uint8_t> other =
          std::span(buffer).first(std::min(bytes.size(), buffer.size()));
      b.CopyOut(offset, other);
      same = std::equal(other.begin(), other.end(), bytes.begin());
      bytes = bytes.subspan(other.size());
      offset += other.size();
    }
  });
  return same;
}

size_t CountFrags(const Packet& packet) {
  return packet.frag_count() + (packet.head_length() > 0 ? 1 : 0);
}

}  // namespace

struct Reassembler::Source {
  IntrusiveList<Datagram, SourceTag> datagrams;  // live ones, oldest first
  size_t count = 0;
  size_t bytes = 0;
};

struct Reassembler::Datagram final : Timer, ListHook<AgeTag>, ListHook<SourceTag> {
  Datagram(Reassembler& reassembler, const FragmentKey& k) : owner(reassembler), key(k) {}
  void OnExpired() override { owner.OnTimeout(*this); }
  bool given_up() const { return verdict != DropReason::kNone; }
  bool has_first() const { return !pieces.empty() && pieces.front().begin == 0; }

  Reassembler& owner;
  const FragmentKey key;
  Source* source = nullptr;    // null once given up
  std::vector<Piece> pieces;   // ordered by begin, disjoint
  uint32_t received = 0;       // sum of their lengths
  uint32_t end = 0;            // length of the whole; 0: the last fragment has not come
  uint32_t header_length = 0;  // of the first fragment
  size_t charged = 0;
  IpPacketInfo first_info;
  uint32_t first_ifindex = 0;  // first_info.interface may be gone by the time it is needed
  uint8_t ecn_seen = 0;        // bit n: a fragment had the ECN field n
  DropReason verdict = DropReason::kNone;
};

Reassembler::Reassembler(Stack& stack, IpFamily family) : stack_(stack), family_(family) {}
Reassembler::~Reassembler() = default;

DropReason Reassembler::CheckBounds(const Fragment& fragment) {
  const size_t length = fragment.packet->length();
  if (length == 0) return DropReason::kFragmentEmpty;
  // RFC 791 §3.2, RFC 8200 §4.5: all but the last are a multiple of eight long.
  if (fragment.more && length % 8 != 0) return DropReason::kFragmentBadLength;
  if (size_t{fragment.header_length} + fragment.offset + length > kMaxLength) {
    return DropReason::kFragmentTooBig;
  }
  return DropReason::kNone;
}

Reassembler::Result Reassembler::Add(Fragment fragment) {
  IpCounters& counters = stack_.ip_counters(family_);
  counters.reasm_reqds.Inc();
  if (const DropReason bad = CheckBounds(fragment); bad != DropReason::kNone) {
    counters.in_hdr_errors.Inc();
    return Refuse(std::move(fragment.packet), bad);
  }
  Datagram* datagram = FindOrCreate(fragment.key);
  if (datagram == nullptr) {
    counters.reasm_fails.Inc();
    return Refuse(std::move(fragment.packet), DropReason::kFragmentMemoryLimit);
  }
  const DropReason reason = Check(*datagram, fragment);
  if (reason == DropReason::kFragmentDuplicate || datagram->given_up()) {
    return Refuse(std::move(fragment.packet), reason);
  }
  if (reason != DropReason::kNone) {
    GiveUp(*datagram, reason);
    return Refuse(std::move(fragment.packet), reason);
  }
  const size_t charge = fragment.packet->true_size();
  if (!MakeRoomForBytes(*datagram, charge)) {
    return Refuse(std::move(fragment.packet), DropReason::kFragmentMemoryLimit);
  }
  Interface* const interface = fragment.info.interface;
  const Time rx_time = fragment.packet->meta.rx_time;
  Insert(*datagram, std::move(fragment), charge);
  if (datagram->end == 0 || datagram->received != datagram->end) return {};
  datagram->pieces.front().packet->meta.rx_time = rx_time;  // the datagram is here only now
  return Finish(*datagram, interface);
}

Reassembler::Datagram* Reassembler::FindOrCreate(const FragmentKey& key) {
  if (auto it = datagrams_.find(key); it != datagrams_.end()) return it->second.get();
  if (!MakeRoomForDatagram(key)) return nullptr;
  auto& slot = datagrams_[key];
  slot = std::make_unique<Datagram>(*this, key);
  auto& source = sources_[key.source];
  if (source == nullptr) source = std::make_unique<Source>();
  slot->source = source.get();
  source->datagrams.PushBack(*slot);
  ++source->count;
  live_.PushBack(*slot);
  // RFC 1122 §3.3.2: the time is fixed; RFC 8200 §4.5: it counts from the first-arriving fragment.
  stack_.timers().Arm(*slot, stack_.now() + stack_.config().reassembly_timeout);
  return slot.get();
}

bool Reassembler::MakeRoomForDatagram(const FragmentKey& key) {
  const size_t limit = stack_.config().reassembly_max_datagrams;
  if (limit == 0) return false;
  const auto source = sources_.find(key.source);
  if (source != sources_.end() &&
      source->second->count >= std::max<size_t>(limit / kSourceShare, 1)) {
    Evict(*source->second->datagrams.front());
  }
  while (datagrams_.size() >= limit) {
    if (!given_up_.empty()) {
      Erase(*given_up_.front());
    } else {
      Evict(*live_.front());
    }
  }
  return true;
}

// False when the datagram itself had to go.
bool Reassembler::MakeRoomForBytes(Datagram& datagram, size_t charge) {
  const StackConfig& config = stack_.config();
  const auto evict = [&](Datagram& oldest) {
    const bool itself = &oldest == &datagram;
    Evict(oldest);
    return !itself;
  };
  while (datagram.source->bytes + charge > config.reassembly_max_bytes_per_source) {
    if (!evict(*datagram.source->datagrams.front())) return false;
  }
  while (bytes_ + charge > config.reassembly_max_bytes) {
    if (!evict(*live_.front())) return false;
  }
  return true;
}

// How the fragment fits what is there. kFragmentDuplicate harms nothing but the fragment; any other
// reason is the end of the datagram.
DropReason Reassembler::Check(Datagram& datagram, const Fragment& fragment) {
  if (datagram.given_up()) return datagram.verdict;
  const uint32_t begin = fragment.offset;
  const uint32_t end = begin + static_cast<uint32_t>(fragment.packet->length());
  const std::vector<Piece>& pieces = datagram.pieces;
  const bool beyond_end =
      datagram.end != 0 && (fragment.more ? end >= datagram.end : end != datagram.end);
  const bool cuts_off = !fragment.more && !pieces.empty() && end < pieces.back().end;
  if (beyond_end || cuts_off) return DropReason::kFragmentEndMismatch;

  const auto next =
      std::lower_bound(pieces.begin(), pieces.end(), begin, [&](const Piece& p, uint32_t b) {
        ++work_;
        return p.begin < b;
      });
  if (next != pieces.end() && next->begin == begin && next->end == end &&
      SameBytes(*next->packet, *fragment.packet)) {
    return DropReason::kFragmentDuplicate;  // RFC 8200 §4.5 allows to drop just the copy
  }
  const bool hits_next = next != pieces.end() && next->begin < end;
  const bool hits_previous = next != pieces.begin() && std::prev(next)->end > begin;
  if (hits_next || hits_previous) return DropReason::kFragmentOverlap;
  if (pieces.size() >= stack_.config().reassembly_max_fragments)
    return DropReason::kFragmentTooMany;
  return DropReason::kNone;
}

void Reassembler::Insert(Datagram& datagram, Fragment fragment, size_t charge) {
  const uint32_t begin = fragment.offset;
  const auto length = static_cast<uint32_t>(fragment.packet->length());
  datagram.charged += charge;
  datagram.source->bytes += charge;
  bytes_ += charge;
  datagram.received += length;
  datagram.ecn_seen |= static_cast<uint8_t>(1u << (fragment.info.tos & kEcnMask));
  if (!fragment.more) datagram.end = begin + length;
  if (begin == 0) {
    datagram.first_info = fragment.info;
    datagram.first_ifindex =
        fragment.info.interface != nullptr ? fragment.info.interface->index() : 0;
    datagram.header_length = fragment.header_length;
  }
  std::vector<Piece>& pieces = datagram.pieces;
  auto at = pieces.end();
  if (!pieces.empty() && pieces.back().begin > begin) {
    at = std::lower_bound(pieces.begin(), pieces.end(), begin,
                          [](const Piece& p, uint32_t b) { return p.begin < b; });
  }
  work_ += 1 + static_cast<uint64_t>(pieces.end() - at);
  pieces.insert(at, Piece{begin, begin + length, std::move(fragment.packet)});
}

Reassembler::Result Reassembler::Finish(Datagram& datagram, Interface* arrival) {
  IpCounters& counters = stack_.ip_counters(family_);
  Result result;
  result.info = datagram.first_info;
  result.info.reassembled = true;
  result.info.interface = InterfaceOf(datagram.first_ifindex, arrival);
  // RFC 3168 §5.3: a CE mark is never lost; but with a Not-ECT fragment beside it, drop the packet.
  const bool ce = (datagram.ecn_seen & 1u << wire::Ecn::kCe) != 0;
  if (ce && (datagram.ecn_seen & 1u << wire::Ecn::kNotEct) != 0) {
    result.reason = DropReason::kFragmentEcnMix;
  } else if (datagram.header_length + datagram.end > kMaxLength) {
    // The first fragment may carry more options than the later ones that passed CheckBounds().
    result.reason = DropReason::kFragmentTooBig;
  } else {
    result.datagram = Join(datagram);
    if (result.datagram == nullptr) result.reason = DropReason::kFragmentMemoryLimit;
  }
  if (result.datagram == nullptr) {
    counters.reasm_fails.Inc();
    DropPieces(datagram, result.reason);
  } else {
    counters.reasm_oks.Inc();
    if (ce) result.info.tos |= wire::Ecn::kCe;
  }
  Erase(datagram);
  return result;
}

// The first fragment's packet with the data of the others behind its own.
PacketPtr Reassembler::Join(Datagram& datagram) {
  std::vector<Piece>& pieces = datagram.pieces;
  size_t frags = 0;
  for (const Piece& piece : pieces) frags += CountFrags(*piece.packet);
  PacketPtr joined =
      frags > Packet::kMaxFrags ? Repack(datagram) : std::move(pieces.front().packet);
  if (joined == nullptr) return nullptr;
  if (frags <= Packet::kMaxFrags) {
    for (size_t i = 1; i < pieces.size(); ++i) {
      if (!joined->AppendPacket(pieces[i].packet)) {
        pieces.front().packet = std::move(joined);
        return nullptr;
      }
    }
  }
  // What a device said about one fragment says nothing about the whole.
  joined->meta.csum_state = CsumState::kNone;
  joined->meta.csum_start = PacketMeta::kUnset;
  joined->meta.gso = {};
  return joined;
}

// Many small pieces: copied, so that they fill whole slabs.
PacketPtr Reassembler::Repack(Datagram& datagram) {
  PacketPtr packed = datagram.pieces.front().packet->CopyDeep();
  for (size_t i = 1; packed != nullptr && i < datagram.pieces.size(); ++i) {
    bool ok = true;
    datagram.pieces[i].packet->ForEachSpan(
        [&](std::span<const uint8_t> bytes) { ok = ok && packed->AppendBytes(bytes); });
    if (!ok) packed = nullptr;
  }
  return packed;
}

void Reassembler::OnTimeout(Datagram& datagram) {
  if (datagram.given_up()) return Erase(datagram);
  IpCounters& counters = stack_.ip_counters(family_);
  counters.reasm_timeout.Inc();
  counters.reasm_fails.Inc();
  // RFC 1122 §3.3.2, RFC 8200 §4.5: time exceeded, code 1, if the first fragment has come.
  if (datagram.has_first()) {
    IpPacketInfo info = datagram.first_info;
    info.interface = InterfaceOf(datagram.first_ifindex, nullptr);
    if (info.interface != nullptr) {
      stack_.SendIcmpError(*datagram.pieces.front().packet, info,
                           IcmpErrorKind::kReassemblyTimeout);
    }
  }
  DropPieces(datagram, DropReason::kFragmentTimeout);
  Erase(datagram);
}

Reassembler::Result Reassembler::Refuse(PacketPtr packet, DropReason reason) {
  Result result;
  result.reason = stack_.Drop(std::move(packet), reason);
  return result;
}

void Reassembler::DropPieces(Datagram& datagram, DropReason reason) {
  for (Piece& piece : datagram.pieces) {
    if (piece.packet != nullptr) stack_.Drop(std::move(piece.packet), reason);
  }
  datagram.pieces.clear();
  datagram.pieces.shrink_to_fit();
}

// Drops what is there but keeps the key until the timer runs, so that nothing is built from what
// comes later (RFC 5722 §4: including those not yet received).
void Reassembler::GiveUp(Datagram& datagram, DropReason reason) {
  stack_.ip_counters(family_).reasm_fails.Inc();
  DropPieces(datagram, reason);
  Uncharge(datagram);
  datagram.verdict = reason;
  given_up_.PushBack(datagram);
}

// Makes room: the datagram is gone, and its later fragments would begin a new one.
void Reassembler::Evict(Datagram& datagram) {
  stack_.ip_counters(family_).reasm_fails.Inc();
  DropPieces(datagram, DropReason::kFragmentMemoryLimit);
  Erase(datagram);
}

void Reassembler::Uncharge(Datagram& datagram) {
  Source* source = std::exchange(datagram.source, nullptr);
  if (source == nullptr) return;
  bytes_ -= datagram.charged;
  source->bytes -= datagram.charged;
  datagram.charged = 0;
  source->datagrams.Remove(datagram);
  if (--source->count == 0) sources_.erase(datagram.key.source);
}

void Reassembler::Erase(Datagram& datagram) {
  Uncharge(datagram);
  datagrams_.erase(FragmentKey(datagram.key));
}

Interface* Reassembler::InterfaceOf(uint32_t ifindex, Interface* otherwise) const {
  Interface* interface = stack_.FindInterface(ifindex);
  return interface != nullptr ? interface : otherwise;
}

}  // namespace tapwire
