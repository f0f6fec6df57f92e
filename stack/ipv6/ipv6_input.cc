// SPDX-License-Identifier: Apache-2.0
// IPv6 input: the fixed header and the addresses, and delivery once the extension headers have been
// walked (ipv6_extensions.cc). Nothing here looks at the hop limit: it limits forwarding, not
// delivery (RFC 8200 §3).
#include <utility>

#include "netdev/csum_offload.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/forwarding.h"
#include "stack/interface.h"
#include "stack/ipv6/ipv6.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// RFC 4291 §2.7: scope 0 is reserved and never arrives, scope 1 does not leave an interface.
bool IsImpossibleScope(const Ipv6Address& group, bool loopback) {
  return group.scope() == 0 || (group.scope() == Ipv6Scope::kInterfaceLocal && !loopback);
}

bool IsOnLink(const Ipv6Address& address, const Interface& interface) {
  if (address.IsLinkLocal()) return true;
  for (const InterfaceAddress& a : interface.addresses()) {
    if (a.prefix().Contains(address)) return true;
  }
  return false;
}

}  // namespace

Ipv6::Ipv6(Stack& stack)
    : stack_(stack),
      reassembler_(stack, IpFamily::kV6),
      flow_label_key_(SipKey::Generate(stack.random())) {}
Ipv6::~Ipv6() = default;

DropReason Ipv6::Input(PacketPtr packet, Interface& interface) {
  IpCounters& counters = stack_.mib().ip6;
  counters.in_receives.Inc();
  counters.in_octets.Inc(packet->length());
  const DropReason bad = CheckHeader(*packet);
  if (bad == DropReason::kNone) return InputValid(std::move(packet), interface);
  (bad == DropReason::kLinkNoBuffer ? counters.in_discards : counters.in_hdr_errors).Inc();
  return stack_.Drop(std::move(packet), bad);
}

// Leaves the fixed header in the linear part and the packet without link padding.
DropReason Ipv6::CheckHeader(Packet& packet) {
  if (packet.length() < wire::Ipv6Header::kLength) return DropReason::kIpv6Truncated;
  if (!packet.EnsureLinear(wire::Ipv6Header::kLength)) return DropReason::kLinkNoBuffer;
  const wire::Ipv6Header header = *wire::Ipv6Header::Parse(packet.head_bytes());
  if (header.version() != 6) return DropReason::kIpv6BadVersion;
  const size_t total = wire::Ipv6Header::kLength + header.payload_length();
  if (total > packet.length()) {
    stack_.mib().ip6.in_truncated_pkts.Inc();
    return DropReason::kIpv6BadPayloadLength;
  }
  // RFC 2675 §3: what a jumbogram looks like. It needs links with an MTU above 65,575; ours are
  // not.
  if (header.payload_length() == 0 && header.next_header() == wire::IpProtocol::kIpv6HopByHop) {
    return DropReason::kIpv6Jumbogram;
  }
  packet.Trim(total);
  return DropReason::kNone;
}

DropReason Ipv6::InputValid(PacketPtr packet, Interface& interface) {
  packet->set_l3_here();
  const wire::Ipv6Header header = *wire::Ipv6Header::Parse(packet->head_bytes());
  Walk walk;
  walk.info = {.source = header.source(),
               .destination = header.destination(),
               .protocol = header.next_header(),
               .ttl = header.hop_limit(),
               .tos = header.traffic_class(),
               .link_broadcast = packet->meta.link_broadcast || packet->meta.link_multicast,
               .interface = &interface};
  DropReason bad = CheckSource(header, interface);
  if (bad == DropReason::kNone) {
    bad = CheckDestination(header, *packet, interface, walk.info.delivery);
  }
  const bool elsewhere = bad == DropReason::kIpv6NotOurs || bad == DropReason::kIpv6ForwardingOff;
  if (elsewhere && ForwardsFrom(interface)) {
    walk.packet = std::move(packet);
    return Forward(walk);
  }
  if (bad != DropReason::kNone) {
    stack_.mib().ip6.in_addr_errors.Inc();
    return stack_.Drop(std::move(packet), bad);
  }
  if (walk.info.delivery == IpDelivery::kMulticast) stack_.mib().ip6.in_mcast_pkts.Inc();
  walk.packet = std::move(packet);
  return WalkHeaders(walk);
}

DropReason Ipv6::CheckSource(const wire::Ipv6Header& header, const Interface& interface) const {
  const Ipv6Address source = header.source();
  // RFC 4291 §2.7: a group is never a source. An IPv4-mapped address belongs into programs, not
  // onto wires.
  if (source.IsMulticast() || source.IsV4Mapped()) return DropReason::kIpv6MartianSource;
  // RFC 4291 §2.5.2: unspecified is the source of a host that is getting its address; those
  // messages go to groups. Deliver() asks that they are ICMPv6.
  if (source.IsUnspecified() && !header.destination().IsMulticast()) {
    return DropReason::kIpv6MartianSource;
  }
  if (interface.device().is_loopback()) return DropReason::kNone;
  if (source.IsLoopback()) return DropReason::kIpv6LoopbackFromWire;  // RFC 4291 §2.5.3
  if (stack_.FindLocalAddress(source) != nullptr &&
      (!source.IsLinkLocal() || interface.HasUsableAddress(source))) {
    return DropReason::kIpv6SourceOwn;
  }
  return DropReason::kNone;
}

DropReason Ipv6::CheckDestination(const wire::Ipv6Header& header, const Packet& packet,
                                  const Interface& interface, IpDelivery& delivery) const {
  const Ipv6Address destination = header.destination();
  const bool loopback = interface.device().is_loopback();
  if (destination.IsMulticast()) {
    delivery = IpDelivery::kMulticast;
    if (IsImpossibleScope(destination, loopback)) return DropReason::kIpv6MartianDestination;
    return interface.InGroup(destination) ? DropReason::kNone : DropReason::kIpv6MulticastFilter;
  }
  if (destination.IsUnspecified()) return DropReason::kIpv6MartianDestination;
  if (destination.IsLoopback()) {
    return loopback ? DropReason::kNone : DropReason::kIpv6LoopbackFromWire;
  }
  return CheckUnicastDestination(destination, packet, interface);
}

DropReason Ipv6::CheckUnicastDestination(const Ipv6Address& destination, const Packet& packet,
                                         const Interface& interface) const {
  // The weak model, as for IPv4; but a link-local address means something on its own link only.
  // What we send to ourselves comes in by the loopback interface, whatever the address.
  const bool this_link_only = destination.IsLinkLocal() && !interface.device().is_loopback();
  const bool ours = this_link_only ? interface.HasUsableAddress(destination)
                                   : stack_.FindLocalAddress(destination) != nullptr;
  if (ours) {
    const bool to_group = packet.meta.link_broadcast || packet.meta.link_multicast;
    return to_group ? DropReason::kIpv6LinkGroupUnicast : DropReason::kNone;
  }
  const InterfaceAddress* own = interface.FindAddress(destination);
  if (own != nullptr && own->state == AddressState::kTentative) {
    return DropReason::kIpv6TentativeDestination;  // RFC 4862 §5.4
  }
  return IsOnLink(destination, interface) ? DropReason::kIpv6NotOurs
                                          : DropReason::kIpv6ForwardingOff;
}

DropReason Ipv6::Deliver(Walk& walk) {
  if (walk.info.source.IsUnspecified() && walk.info.protocol != wire::IpProtocol::kIcmpv6) {
    stack_.mib().ip6.in_addr_errors.Inc();
    return stack_.Drop(std::move(walk.packet), DropReason::kIpv6MartianSource);
  }
  netdev::PullAdjustingChecksum(*walk.packet, walk.offset);
  walk.packet->set_l4_here();
  return stack_.DeliverTransport(std::move(walk.packet), walk.info);
}

}  // namespace tapwire
