// SPDX-License-Identifier: Apache-2.0
// IPv6 forwarding (RFC 8200 §3, §4; RFC 4443 §3; RFC 4007 §9) of unicast packets that passed the
// checks every received packet goes through.
//
//   who → hop-by-hop options → next hop → LRO → hop limit → scope → size → hop limit - 1 → Output
//
// Nothing is ever cut: that is the sender's business (RFC 8200 §5), which is told the MTU.
// Redirects are not sent.
#include <algorithm>
#include <optional>
#include <utility>

#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv6_ext.h"
#include "stack/forwarding.h"
#include "stack/interface.h"
#include "stack/ipv6/ipv6.h"
#include "stack/route.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr size_t kHopLimitOffset = 7;
// Bytes that hold the headers of any super-packet, unless a sender is at play.
constexpr size_t kUsualHeaderBytes = 256;

// Of one segment, if it is a super-packet; 0 without memory. What extension headers hide from us
// counts as a header of eight bytes: the device that is to cut it cannot find it either.
size_t TransitLength6(Packet& packet) {
  if (packet.meta.gso.size == 0) return packet.length();
  if (!packet.EnsureLinear(std::min(packet.length(), kUsualHeaderBytes))) return 0;
  const std::span<const uint8_t> bytes = std::as_const(packet).head_bytes();
  wire::Ipv6ExtensionIterator chain(wire::Ipv6Header::Parse(bytes)->next_header(),
                                    bytes.subspan(wire::Ipv6Header::kLength));
  while (chain.Next()) {
  }
  return TransitLength(packet, chain.next_header(), chain.offset());
}

}  // namespace

// RFC 4291 §2.5.5.2 and §2.5.6, and what is an address of ours but cannot be used yet. Groups and
// martian sources have been told apart before.
DropReason Ipv6::CheckTransit(const Packet& packet, const IpPacketInfo& info) const {
  if (packet.meta.link_broadcast || packet.meta.link_multicast) {
    return DropReason::kIpv6LinkGroupUnicast;
  }
  const Ipv6Address destination = info.destination.v6();
  if (destination.IsV4Mapped()) return DropReason::kIpv6MartianDestination;
  if (destination.IsLinkLocal()) return DropReason::kIpv6NotOurs;
  for (const auto& interface : stack_.interfaces()) {
    const InterfaceAddress* own = interface->FindAddress(destination);
    if (own != nullptr && own->state == AddressState::kTentative) {
      return DropReason::kIpv6TentativeDestination;
    }
  }
  return DropReason::kNone;
}

DropReason Ipv6::RefuseTransit(Walk& walk, const TransitProblem& why) {
  why.counter->Inc();
  if (why.kind != IcmpErrorKind::kOther) {
    stack_.SendIcmpError(*walk.packet, walk.info, why.kind, why.value);
  }
  return stack_.Drop(std::move(walk.packet), why.reason);
}

DropReason Ipv6::Forward(Walk& walk) {
  IpCounters& counters = stack_.mib().ip6;
  const IpPacketInfo& info = walk.info;
  if (const DropReason bad = CheckTransit(*walk.packet, info); bad != DropReason::kNone) {
    return RefuseTransit(walk, {bad, &counters.in_addr_errors});
  }
  // RFC 8200 §4: the only header that is of interest on the way.
  if (info.protocol == wire::IpProtocol::kIpv6HopByHop) {
    if (const Problem problem = StepOver(walk)) return Refuse(walk, problem);
  }
  const std::optional<Route> route = stack_.FindForwardRoute(info.source, info.destination);
  if (!route) {
    return RefuseTransit(
        walk, {DropReason::kTxNoRoute, &counters.in_no_routes, IcmpErrorKind::kNetUnreachable});
  }
  if (IsLro(*walk.packet)) {
    return RefuseTransit(walk, {DropReason::kForwardLro, &counters.in_discards});
  }
  if (info.ttl <= 1) {
    return RefuseTransit(walk, {DropReason::kIpv6HopLimitExceeded, &counters.in_hdr_errors,
                                IcmpErrorKind::kTtlExceeded});
  }
  // RFC 4007 §9: on its own link a link-local source is as good as any.
  if (info.source.IsLinkLocal() && route->interface != info.interface) {
    return RefuseTransit(walk, {DropReason::kIpv6BeyondScope, &counters.in_addr_errors,
                                IcmpErrorKind::kBeyondScope});
  }
  const size_t length = TransitLength6(*walk.packet);
  if (length == 0) return RefuseTransit(walk, {DropReason::kLinkNoBuffer, &counters.in_discards});
  if (length > route->mtu) {
    counters.frag_fails.Inc();
    return RefuseTransit(walk, {DropReason::kIpv6TooBig, &counters.in_too_big_errors,
                                IcmpErrorKind::kPacketTooBig, route->mtu});
  }
  LeaveLink(*walk.packet);
  --walk.packet->data()[kHopLimitOffset];
  counters.out_forw_datagrams.Inc();
  Transmit(std::move(walk.packet), *route);
  return DropReason::kNone;  // whoever could not send it has counted that
}

}  // namespace tapwire
