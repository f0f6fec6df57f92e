// SPDX-License-Identifier: Apache-2.0
// The table of held packets, and what becomes of a frame that is offered.
//
//   frame --> not TCP or UDP ------------------------------------------------> up
//         --> cannot be merged ------------------> its flow's held packet up, it behind
//         --> flow not held, may wait for more --> held (the oldest of a full bucket up)
//         --> flow held, continues it -----------> appended (both up if it is the last)
//
// Held packets of a bucket stand in the order of their arrival.
#include "netdev/gro.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "netdev/csum_offload.h"
#include "netdev/device.h"
#include "netdev/gro_protocol.h"
#include "netdev/wire/ip_protocol.h"

namespace tapwire::netdev {

using internal::GroHeaders;
using internal::GroHeld;
using internal::GroKind;
using internal::IdPattern;

namespace {

// Bytes that hold the headers of any packet that is merged, unless a sender is at play.
constexpr size_t kHeaderBytes = 256;
constexpr size_t kLinkBytes = 14;

GroKind ParseAndLinearize(Packet& packet, GroHeaders& headers) {
  GroKind kind = ParseGroHeaders(packet, headers);
  if (kind == GroKind::kRegular || packet.is_linear() || packet.head_length() >= kHeaderBytes) {
    return kind;
  }
  if (!packet.EnsureLinear(std::min(packet.length(), kHeaderBytes))) return kind;
  headers = GroHeaders();
  return ParseGroHeaders(packet, headers);
}

bool MayHold(const Packet& packet, const GroHeaders& headers) {
  return headers.udp ? UdpMayHold(packet, headers) : TcpMayHold(packet, headers);
}

PseudoHeader PseudoHeaderOf(const Packet& packet, const GroHeaders& headers) {
  const std::span<const uint8_t> ip = packet.head_bytes().subspan(headers.l3);
  PseudoHeader pseudo;
  pseudo.protocol = headers.udp ? wire::IpProtocol::kUdp : wire::IpProtocol::kTcp;
  if (headers.ipv6) {
    pseudo.source = Ipv6Address::FromBytes(ip.subspan(8, 16));
    pseudo.destination = Ipv6Address::FromBytes(ip.subspan(24, 16));
  } else {
    pseudo.source = Ipv4Address::FromBytes(ip.subspan(12, 4));
    pseudo.destination = Ipv4Address::FromBytes(ip.subspan(16, 4));
  }
  return pseudo;
}

// VerifyTransportChecksum() with data() at the Ethernet header.
bool VerifyAtLink(Packet& packet, const GroHeaders& headers) {
  const PseudoHeader pseudo = PseudoHeaderOf(packet, headers);
  const uint16_t sum = packet.meta.csum_value;
  RemoveFromCompleteSum(packet, packet.head_bytes().subspan(kLinkBytes, headers.l4 - kLinkBytes));
  static_cast<void>(packet.Pull(headers.l4));
  const bool good = VerifyTransportChecksum(packet, pseudo, static_cast<uint32_t>(packet.length()));
  packet.Push(headers.l4);
  packet.meta.csum_value = sum;
  return good;
}

}  // namespace

absl::string_view GroModeName(GroMode mode) {
  switch (mode) {
    case GroMode::kAuto:
      return "auto";
    case GroMode::kOn:
      return "on";
    case GroMode::kOff:
      return "off";
  }
  return "?";
}

struct Gro::Bucket {
  std::array<GroHeld, kPerBucket> held;
  size_t size = 0;
};

Gro::Gro(const NetDevice& device)
    : device_(device), buckets_(std::make_unique<Bucket[]>(kBuckets)) {}

Gro::~Gro() = default;

bool Gro::IsWanted(const NetDevice& device) {
  if (!device.features().Has(Feature::kGro)) return false;
  switch (device.gro_mode()) {
    case GroMode::kAuto:
      return device.features().Has(Feature::kRxCsum) && !device.is_forwarding();
    case GroMode::kOn:
      return true;
    case GroMode::kOff:
      return false;
  }
  return false;
}

void Gro::Offer(PacketPtr packet, PacketList& out) {
  GroHeaders headers;
  const GroKind kind = ParseAndLinearize(*packet, headers);
  if (kind == GroKind::kIrregular && holds_any()) FlushHosts(*packet, headers, out);
  const bool considered =
      kind == GroKind::kRegular && (!headers.udp || device_.features().Has(Feature::kGroUdpFwd));
  if (!considered) return out.PushBack(std::move(packet));

  const uint32_t key = GroFlowKey(*packet, headers);
  const Place place = Find(*packet, headers, key);
  const bool may_hold = MayHold(*packet, headers);
  if (place.bucket == nullptr && !may_hold) return out.PushBack(std::move(packet));
  const Verdict verdict = Verify(*packet, headers);
  // Nobody will see a damaged packet, and it may not even be of this flow.
  if (verdict == Verdict::kBad) return out.PushBack(std::move(packet));
  if (place.bucket != nullptr) {
    GroHeld& held = place.bucket->held[place.index];
    if (verdict == Verdict::kGood && Merge(held, packet, headers)) {
      const bool last =
          headers.udp ? UdpEndsSuperPacket(held, headers) : TcpEndsSuperPacket(held, headers);
      if (last) Complete(place, out);
      return;
    }
    stats_.refused.Inc();
    Complete(place, out);
  }
  if (!may_hold || verdict != Verdict::kGood) return out.PushBack(std::move(packet));
  Hold(std::move(packet), headers, key, out);
}

Gro::Place Gro::Find(const Packet& packet, const GroHeaders& headers, uint32_t key) {
  if (held_ == 0) return {};
  Bucket& bucket = buckets_[key % kBuckets];
  for (size_t i = 0; i < bucket.size; ++i) {
    if (bucket.held[i].key == key && SameGroFlow(bucket.held[i], packet, headers)) {
      return {&bucket, i};
    }
  }
  return {};
}

// What has been verified is noted in the packet, so that it is not done again.
Gro::Verdict Gro::Verify(Packet& packet, const GroHeaders& headers) {
  if (!headers.ipv6 && !Ipv4HeaderSumOk(packet, headers)) return Verdict::kUnverified;
  PacketMeta& meta = packet.meta;
  switch (meta.csum_state) {
    case CsumState::kUnnecessary:
    case CsumState::kPartial:  // of this very header: ParseGroHeaders() looked
      return Verdict::kGood;
    case CsumState::kNone:
      if (device_.gro_mode() != GroMode::kOn) return Verdict::kUnverified;
      stats_.summed.Inc();
      break;
    case CsumState::kComplete:
      break;
  }
  if (!VerifyAtLink(packet, headers)) return Verdict::kBad;
  meta.csum_state = CsumState::kNone;
  meta.csum_value = 0;
  NoteVerifiedChecksum(packet);
  return Verdict::kGood;
}

size_t Gro::ByteLimit() const { return std::min<size_t>(device_.gro_max_size(), kMaxBytes); }

bool Gro::Merge(GroHeld& held, PacketPtr& packet, const GroHeaders& headers) {
  IdPattern pattern = held.id_pattern;
  if (!NetworkMayMerge(held, *packet, headers, pattern)) return false;
  if (headers.udp ? !UdpMayMerge(held, headers) : !TcpMayMerge(held, *packet, headers)) {
    return false;
  }
  if (held.packet->length() - held.headers.l3 + headers.payload_bytes >= ByteLimit()) return false;
  const uint8_t flags = headers.udp ? uint8_t{0} : TcpFlagsOf(*packet, headers);
  const bool late = packet->meta.late;
  packet->TrimFront(headers.payload);
  if (!held.packet->AppendPacket(packet)) {
    packet->Push(headers.payload);  // too many pieces: the headers are still there
    return false;
  }
  held.headers.payload_bytes += headers.payload_bytes;
  held.headers.segments += headers.segments;
  held.id_pattern = pattern;
  held.merged = true;
  held.packet->meta.late = held.packet->meta.late || late;
  if (!headers.udp) MergeTcpFlags(held, flags);
  stats_.merged.Inc();
  return true;
}

void Gro::Hold(PacketPtr packet, const GroHeaders& headers, uint32_t key, PacketList& out) {
  Bucket& bucket = buckets_[key % kBuckets];
  if (bucket.size == kPerBucket) Complete({&bucket, 0}, out);
  GroHeld& held = bucket.held[bucket.size++];
  held.id_pattern = IdPatternOf(*packet, headers);
  held.packet = std::move(packet);
  held.headers = headers;
  held.key = key;
  held.merged = false;
  ++held_;
}

void Gro::Complete(Place place, PacketList& out) {
  Bucket& bucket = *place.bucket;
  GroHeld& held = bucket.held[place.index];
  if (held.merged) {
    FinishSuperPacket(held);
    stats_.packets.Inc();
  }
  out.PushBack(std::move(held.packet));
  const auto first = bucket.held.begin() + static_cast<std::ptrdiff_t>(place.index);
  std::move(first + 1, bucket.held.begin() + static_cast<std::ptrdiff_t>(bucket.size), first);
  --bucket.size;
  --held_;
}

void Gro::FlushHosts(const Packet& packet, const GroHeaders& headers, PacketList& out) {
  for (size_t b = 0; b < kBuckets; ++b) {
    Bucket& bucket = buckets_[b];
    for (size_t i = 0; i < bucket.size;) {
      if (SameGroHosts(bucket.held[i], packet, headers)) {
        stats_.refused.Inc();
        Complete({&bucket, i}, out);
      } else {
        ++i;
      }
    }
  }
}

void Gro::Flush(PacketList& out) {
  for (size_t b = 0; b < kBuckets && held_ > 0; ++b) {
    while (buckets_[b].size > 0) Complete({&buckets_[b], 0}, out);
  }
}

void ForEachGroStat(std::span<const Gro* const> queues,
                    const std::function<void(absl::string_view, uint64_t)>& fn) {
  std::vector<std::pair<absl::string_view, uint64_t>> sums;
  GroStats().ForEach([&](absl::string_view name, absl::string_view, uint64_t zero) {
    sums.emplace_back(name, zero);
  });
  for (const Gro* gro : queues) {
    if (gro == nullptr) continue;
    auto sum = sums.begin();
    gro->stats().ForEach(
        [&](absl::string_view, absl::string_view, uint64_t value) { (sum++)->second += value; });
  }
  for (const auto& [name, sum] : sums) fn(name, sum);
}

}  // namespace tapwire::netdev
