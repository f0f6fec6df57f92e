// SPDX-License-Identifier: Apache-2.0
// IPv4 forwarding (RFC 1812 §5.2 and §5.3) of unicast packets that passed the checks every received
// packet goes through.
//
//   who → options → next hop → LRO → TTL → size ─┬─► TTL - 1 → Interface::Output
//                                                └─► segments → fragments → Interface::Output
//
// Everything is judged before anything is written, so that an error quotes what was received.
// Redirects are not sent (RFC 1812 §5.2.7.2 has it as a SHOULD); record route and timestamp options
// are served.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/csum_offload.h"
#include "netdev/gso.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ethernet.h"
#include "stack/forwarding.h"
#include "stack/interface.h"
#include "stack/ipv4/ipv4.h"
#include "stack/ipv4/ipv4_options.h"
#include "stack/route.h"
#include "stack/stack.h"
#include "stack/wire_length.h"

namespace tapwire {
namespace {

using wire::Ipv4Header;

constexpr size_t kTtlOffset = 8;
constexpr size_t kChecksumOffset = 10;
constexpr uint16_t kMoreFragments = 0x2000;
constexpr uint16_t kOffsetMask = 0x1fff;

Ipv4Header HeaderOf(const Packet& packet) { return *Ipv4Header::Parse(packet.head_bytes()); }

// RFC 1812 §5.3.1, with the checksum brought up to date (RFC 1624).
void DecrementTtl(Packet& packet) {
  uint8_t* const header = packet.data();
  const uint16_t before = LoadBe16(header + kTtlOffset);  // with the protocol
  --header[kTtlOffset];
  StoreBe16(header + kChecksumOffset,
            wire::UpdateChecksum16(LoadBe16(header + kChecksumOffset), before,
                                   LoadBe16(header + kTtlOffset)));
}

void RenewChecksum(std::span<uint8_t> header) {
  StoreBe16(header.data() + kChecksumOffset, 0);
  StoreBe16(header.data() + kChecksumOffset, wire::ChecksumOf(header));
}

// The address a recorded route gets: one of the interface the packet leaves by (RFC 791 §3.1).
Ipv4Address AddressOf(const Interface& interface) {
  for (const InterfaceAddress& a : interface.addresses()) {
    if (a.address.is_v4() && a.usable()) return a.address.v4();
  }
  return Ipv4Address();
}

void ServeOptions(Packet& packet, const Interface& out, Time now) {
  const std::span<uint8_t> header = packet.head_bytes().first(HeaderOf(packet).header_length());
  if (header.size() == Ipv4Header::kMinLength) return;
  if (RecordHop(header.subspan(Ipv4Header::kMinLength), AddressOf(out), now)) RenewChecksum(header);
}

// One fragment in transit: the header as it came, with the place of the piece in the datagram,
// which may have been a fragment itself.
class FragmentHeader {
 public:
  explicit FragmentHeader(const Ipv4Header& original)
      : length_(original.header_length()),
        offset_(original.fragment_offset()),
        more_(original.more_fragments()) {
    std::copy_n(original.bytes().begin(), length_, bytes_.begin());
  }
  size_t length() const { return length_; }

  // Before the payload of `piece`, which starts `at` bytes behind that of the original.
  void Push(Packet& piece, size_t at, bool last) {
    const std::span<uint8_t> header(bytes_.data(), length_);
    if (at != 0) BlankUncopiedOptions(header.subspan(Ipv4Header::kMinLength));
    StoreBe16(&bytes_[2], static_cast<uint16_t>(length_ + piece.length()));
    const auto units = static_cast<uint16_t>(((offset_ + at) / 8) & kOffsetMask);
    const uint16_t more = more_ || !last ? kMoreFragments : 0;
    const auto reserved = static_cast<uint16_t>(LoadBe16(&bytes_[6]) & 0x8000);
    StoreBe16(&bytes_[6], static_cast<uint16_t>(reserved | more | units));
    RenewChecksum(header);
    std::copy(header.begin(), header.end(), piece.Push(length_).begin());
  }

 private:
  std::array<uint8_t, Ipv4Header::kMaxLength> bytes_{};
  size_t length_;
  size_t offset_;
  bool more_;
};

// Cuts behind the IP header at data(). All of them or none.
bool CutInTransit(const Packet& packet, size_t piece_bytes, PacketList& out) {
  FragmentHeader header(HeaderOf(packet));
  const size_t payload = packet.length() - header.length();
  for (size_t at = 0; at < payload; at += piece_bytes) {
    const size_t piece_length = std::min(piece_bytes, payload - at);
    PacketPtr piece = packet.Slice(header.length() + at, piece_length);
    if (piece == nullptr || !piece->EnsureHeadroom(header.length() + kLinkHeadroom)) return false;
    piece->meta.csum_state = CsumState::kNone;
    header.Push(*piece, at, at + piece_length == payload);
    out.PushBack(std::move(piece));
  }
  return true;
}

// The segments of a super-packet (data() at its IP header), their checksums complete: a fragment
// can have none left to a device. Segmentation works on frames, whatever link header this one had.
netdev::SegmentResult SegmentInTransit(SlabPool& pool, Packet& packet) {
  if (!packet.EnsureHeadroom(wire::EthernetHeader::kLength)) {
    return {.segments = {}, .error = DropReason::kTxNoBuffer};
  }
  const wire::EthernetFields link{.ether_type = wire::EtherType::kIpv4};
  link.Emit(packet.Push(wire::EthernetHeader::kLength));
  const DropReason bad = netdev::PrepareGso(packet);
  if (bad != DropReason::kNone) return {.segments = {}, .error = bad};
  return netdev::SegmentPacket(pool, packet, netdev::FeatureSet());
}

}  // namespace

// RFC 1812 §5.3.4, RFC 3927 §7, and what is an address of ours but cannot be used yet. Broadcasts,
// groups and martians have been told apart before.
DropReason Ipv4::CheckTransit(const Packet& packet, const IpPacketInfo& info) const {
  if (packet.meta.link_broadcast || packet.meta.link_multicast) {
    return DropReason::kIpv4LinkBroadcastUnicast;
  }
  if (info.source.IsLinkLocal() || info.destination.IsLinkLocal()) {
    return DropReason::kIpv4LinkLocalForward;
  }
  for (const auto& interface : stack_.interfaces()) {
    const InterfaceAddress* own = interface->FindAddress(info.destination);
    if (own != nullptr && own->state == AddressState::kTentative) return DropReason::kIpv4NotOurs;
  }
  return DropReason::kNone;
}

DropReason Ipv4::RefuseTransit(PacketPtr packet, const IpPacketInfo& info,
                               const TransitProblem& why) {
  why.counter->Inc();
  if (why.kind != IcmpErrorKind::kOther) {
    stack_.SendIcmpError(*packet, info, why.kind, why.value);
  }
  return stack_.Drop(std::move(packet), why.reason);
}

DropReason Ipv4::Forward(PacketPtr packet, const IpPacketInfo& info) {
  IpCounters& counters = stack_.mib().ip;
  const auto refuse = [&](const TransitProblem& why) {
    return RefuseTransit(std::move(packet), info, why);
  };
  if (const DropReason bad = CheckTransit(*packet, info); bad != DropReason::kNone) {
    return refuse({bad, &counters.in_addr_errors});
  }
  const Ipv4OptionsVerdict options = CheckIpv4Options(HeaderOf(*packet));
  if (options.reason != DropReason::kNone) {
    return InputBadOptions(std::move(packet), info, options.reason, options.pointer);
  }
  const std::optional<Route> route = stack_.FindForwardRoute(info.source, info.destination);
  if (!route) {
    // RFC 1812 §5.2.7.1.
    return refuse({DropReason::kTxNoRoute, &counters.in_no_routes, IcmpErrorKind::kNetUnreachable});
  }
  if (IsLro(*packet)) return refuse({DropReason::kForwardLro, &counters.in_discards});
  if (info.ttl <= 1) {
    return refuse(
        {DropReason::kIpv4TtlExceeded, &counters.in_hdr_errors, IcmpErrorKind::kTtlExceeded});
  }
  const size_t length = TransitLength(*packet, info.protocol, HeaderOf(*packet).header_length());
  if (length == 0) return refuse({DropReason::kLinkNoBuffer, &counters.in_discards});
  const bool fits = length <= route->mtu;
  if (!fits && HeaderOf(*packet).dont_fragment()) {
    // RFC 1812 §4.3.3.3, RFC 1191 §4: with the MTU of the next hop.
    return refuse({DropReason::kIpv4FragmentationNeeded, &counters.frag_fails,
                   IcmpErrorKind::kPacketTooBig, route->mtu});
  }
  LeaveLink(*packet);
  DecrementTtl(*packet);
  ServeOptions(*packet, *route->interface, stack_.now());
  counters.forw_datagrams.Inc();
  if (!fits) return ForwardTooBig(std::move(packet), *route);
  Transmit(std::move(packet), *route);
  return DropReason::kNone;  // whoever could not send it has counted that
}

// RFC 1812 §5.2.6: cut for the next link. A super-packet becomes the segments its sender made
// first, since each is a datagram of its own.
DropReason Ipv4::ForwardTooBig(PacketPtr packet, const Route& route) {
  if (packet->meta.gso.size == 0) {
    ForwardFragments(std::move(packet), route);
    return DropReason::kNone;
  }
  netdev::SegmentResult cut = SegmentInTransit(stack_.pool(), *packet);
  if (cut.error != DropReason::kNone) {
    stack_.mib().ip.frag_fails.Inc();
    return stack_.Drop(std::move(packet), cut.error);
  }
  packet.reset();
  while (PacketPtr segment = cut.segments.PopFront()) {
    static_cast<void>(segment->Pull(wire::EthernetHeader::kLength));
    if (segment->length() > route.mtu) {
      ForwardFragments(std::move(segment), route);
    } else {
      Transmit(std::move(segment), route);
    }
  }
  return DropReason::kNone;
}

netdev::TxResult Ipv4::ForwardFragments(PacketPtr packet, const Route& route) {
  IpCounters& counters = stack_.mib().ip;
  const size_t header_length = HeaderOf(*packet).header_length();
  const size_t piece_bytes =
      route.mtu > header_length ? (route.mtu - header_length) & ~size_t{7} : 0;
  if (piece_bytes == 0) {
    counters.frag_fails.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kTooBig,
                  DropReason::kIpv4FragmentationNeeded);
  }
  PacketList fragments;
  if (!netdev::ChecksumHelp(*packet) || !CutInTransit(*packet, piece_bytes, fragments)) {
    counters.frag_fails.Inc();
    counters.out_discards.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kNoBuffer, DropReason::kTxNoBuffer);
  }
  counters.frag_oks.Inc();
  counters.frag_creates.Inc(fragments.size());
  netdev::TxResult result = netdev::TxResult::kSent;
  // Once one is lost, the rest would only cost the receiver memory.
  while (netdev::TxOk(result) && !fragments.empty()) {
    result = Transmit(fragments.PopFront(), route);
  }
  return result;
}

}  // namespace tapwire
