// SPDX-License-Identifier: Apache-2.0
// IPv4 input: one function per group of checks (RFC 791 §3.1, RFC 1122 §3.2.1), then reassembly and
// delivery. Nothing here looks at the TTL: it is no reason to drop what has arrived (RFC 1122
// §3.2.1.7).
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/csum_offload.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/forwarding.h"
#include "stack/interface.h"
#include "stack/ipv4/ipv4.h"
#include "stack/ipv4/ipv4_options.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// Unspecified as a source is used by a host without an address: for DHCP (to everybody, RFC 2131
// §4.1) and by IGMP queriers and snooping switches (RFC 4541 §2.1.1).
bool UnspecifiedSourceAllowed(const wire::Ipv4Header& header) {
  return header.destination().IsLimitedBroadcast() ||
         (header.protocol() == wire::IpProtocol::kIgmp && header.destination().IsMulticast());
}

// RFC 1122 §3.3.6: all zeros SHOULD be recognised too; hosts of old sent it.
bool IsBroadcast(Ipv4Address destination, const Interface& interface) {
  return destination.IsLimitedBroadcast() || destination.IsUnspecified() ||
         interface.IsSubnetBroadcast(destination);
}

bool IsOnLink(Ipv4Address address, const Interface& interface) {
  for (const InterfaceAddress& a : interface.addresses()) {
    if (a.prefix().Contains(address)) return true;
  }
  return false;
}

bool IsBroadcastElsewhere(Ipv4Address destination, const Stack& stack) {
  for (const auto& interface : stack.interfaces()) {
    if (interface->IsSubnetBroadcast(destination)) return true;
  }
  return false;
}

// Makes the first fragment's header that of the datagram, so that an error about it quotes a packet
// that could have been sent.
void PatchReassembledHeader(Packet& packet, uint8_t tos) {
  const std::span<uint8_t> header = packet.l3_bytes();
  const auto header_length = static_cast<size_t>(-packet.l3_in_data());
  header[1] = tos;
  StoreBe16(header.data() + 2, static_cast<uint16_t>(header_length + packet.length()));
  StoreBe16(header.data() + 6, static_cast<uint16_t>(LoadBe16(header.data() + 6) & 0x4000));
  StoreBe16(header.data() + 10, 0);
  StoreBe16(header.data() + 10, wire::ChecksumOf(header.first(header_length)));
}

}  // namespace

Ipv4::Ipv4(Stack& stack)
    : stack_(stack), reassembler_(stack, IpFamily::kV4), ids_(stack.random()) {}
Ipv4::~Ipv4() = default;

DropReason Ipv4::Input(PacketPtr packet, Interface& interface) {
  IpCounters& counters = stack_.mib().ip;
  counters.in_receives.Inc();
  counters.in_octets.Inc(packet->length());
  const DropReason bad = CheckHeader(*packet);
  if (bad == DropReason::kNone) return InputValid(std::move(packet), interface);
  (bad == DropReason::kLinkNoBuffer ? counters.in_discards : counters.in_hdr_errors).Inc();
  return stack_.Drop(std::move(packet), bad);
}

DropReason Ipv4::InputValid(PacketPtr packet, Interface& interface) {
  packet->set_l3_here();
  const wire::Ipv4Header header = *wire::Ipv4Header::Parse(packet->head_bytes());
  IpPacketInfo info{.source = header.source(),
                    .destination = header.destination(),
                    .protocol = header.protocol(),
                    .ttl = header.ttl(),
                    .tos = header.tos(),
                    .link_broadcast = packet->meta.link_broadcast || packet->meta.link_multicast,
                    .interface = &interface};
  DropReason bad = CheckSource(header, interface);
  if (bad == DropReason::kNone) bad = CheckDestination(header, *packet, interface, info.delivery);
  const bool elsewhere = bad == DropReason::kIpv4NotOurs || bad == DropReason::kIpv4ForwardingOff;
  if (elsewhere && ForwardsFrom(interface)) return Forward(std::move(packet), info);
  if (bad != DropReason::kNone) {
    stack_.mib().ip.in_addr_errors.Inc();
    return stack_.Drop(std::move(packet), bad);
  }
  CountGroupInput(info.delivery);
  const Ipv4OptionsVerdict options = CheckIpv4Options(header);
  if (options.reason != DropReason::kNone) {
    return InputBadOptions(std::move(packet), info, options.reason, options.pointer);
  }
  // RFC 6864 §4: DF and identification say nothing about whether this is a fragment.
  if (header.IsFragment()) return InputFragment(std::move(packet), header, info);
  netdev::PullAdjustingChecksum(*packet, header.header_length());
  packet->set_l4_here();
  return stack_.DeliverTransport(std::move(packet), info);
}

DropReason Ipv4::InputBadOptions(PacketPtr packet, const IpPacketInfo& info, DropReason reason,
                                 uint8_t pointer) {
  stack_.mib().ip.in_hdr_errors.Inc();
  if (reason == DropReason::kIpv4BadOptions) {
    stack_.SendIcmpError(*packet, info, IcmpErrorKind::kParameterProblem, pointer);
  }
  return stack_.Drop(std::move(packet), reason);
}

// Leaves the header in the linear part and the packet without link padding.
DropReason Ipv4::CheckHeader(Packet& packet) {
  IpCounters& counters = stack_.mib().ip;
  if (packet.length() < wire::Ipv4Header::kMinLength) return DropReason::kIpv4Truncated;
  if (!packet.EnsureLinear(wire::Ipv4Header::kMinLength)) return DropReason::kLinkNoBuffer;
  // RFC 1122 §3.2.1.1: silently discarded.
  if (packet.data()[0] >> 4 != 4) return DropReason::kIpv4BadVersion;
  const size_t header_length = size_t{4} * (packet.data()[0] & 0x0f);
  if (header_length < wire::Ipv4Header::kMinLength || header_length > packet.length()) {
    return DropReason::kIpv4BadHeaderLength;
  }
  if (!packet.EnsureLinear(header_length)) return DropReason::kLinkNoBuffer;
  const wire::Ipv4Header header = *wire::Ipv4Header::Parse(packet.head_bytes());
  if (header.total_length() < header_length) return DropReason::kIpv4BadTotalLength;
  if (header.total_length() > packet.length()) {
    counters.in_truncated_pkts.Inc();
    return DropReason::kIpv4BadTotalLength;
  }
  // RFC 1122 §3.2.1.2. Never left to the device: none says anything about this checksum.
  if (!header.HeaderChecksumOk()) {
    counters.in_csum_errors.Inc();
    return DropReason::kIpv4BadChecksum;
  }
  packet.Trim(header.total_length());  // RFC 894: padding is not part of the packet
  return DropReason::kNone;
}

// RFC 1122 §3.2.1.3: a source must be able to name one host, and not us.
DropReason Ipv4::CheckSource(const wire::Ipv4Header& header, const Interface& interface) const {
  const Ipv4Address source = header.source();
  if (source.IsUnspecified() && UnspecifiedSourceAllowed(header)) return DropReason::kNone;
  if (source.IsZeroNet() || source.IsMulticast() || source.IsClassE() ||
      interface.IsSubnetBroadcast(source)) {
    return DropReason::kIpv4MartianSource;
  }
  if (interface.device().is_loopback()) return DropReason::kNone;
  if (source.IsLoopback()) return DropReason::kIpv4LoopbackFromWire;
  if (stack_.FindLocalAddress(source) != nullptr) return DropReason::kIpv4SourceOwn;
  return DropReason::kNone;
}

// RFC 1122 §3.2.1.3: one of our addresses, a broadcast, or a group we are in.
DropReason Ipv4::CheckDestination(const wire::Ipv4Header& header, const Packet& packet,
                                  const Interface& interface, IpDelivery& delivery) const {
  const Ipv4Address destination = header.destination();
  if (destination.IsMulticast()) {
    delivery = IpDelivery::kMulticast;
    return interface.InGroup(destination) ? DropReason::kNone : DropReason::kIpv4MulticastFilter;
  }
  if (IsBroadcast(destination, interface)) {
    delivery = IpDelivery::kBroadcast;
    return DropReason::kNone;
  }
  if (destination.IsZeroNet() || destination.IsClassE()) return DropReason::kIpv4MartianDestination;
  if (destination.IsLoopback()) {
    return interface.device().is_loopback() ? DropReason::kNone : DropReason::kIpv4LoopbackFromWire;
  }
  return CheckUnicastDestination(destination, packet, interface);
}

DropReason Ipv4::CheckUnicastDestination(Ipv4Address destination, const Packet& packet,
                                         const Interface& interface) const {
  // RFC 1122 §3.3.4.2: the weak model, as Linux: any of our addresses will do.
  if (stack_.FindLocalAddress(destination) != nullptr) {
    const bool to_group = packet.meta.link_broadcast || packet.meta.link_multicast;
    // RFC 1122 §3.3.6: SHOULD be discarded.
    return to_group ? DropReason::kIpv4LinkBroadcastUnicast : DropReason::kNone;
  }
  if (IsBroadcastElsewhere(destination, stack_)) return DropReason::kIpv4DirectedBroadcast;
  // A neighbour's packet that strayed to us, or somebody who takes us for a router.
  return IsOnLink(destination, interface) ? DropReason::kIpv4NotOurs
                                          : DropReason::kIpv4ForwardingOff;
}

void Ipv4::CountGroupInput(IpDelivery delivery) {
  if (delivery == IpDelivery::kMulticast) stack_.mib().ip.in_mcast_pkts.Inc();
  if (delivery == IpDelivery::kBroadcast) stack_.mib().ip.in_bcast_pkts.Inc();
}

DropReason Ipv4::InputFragment(PacketPtr packet, const wire::Ipv4Header& header,
                               const IpPacketInfo& info) {
  Reassembler::Fragment fragment;
  fragment.key = {.source = info.source,
                  .destination = info.destination,
                  .identification = header.identification(),
                  .protocol = info.protocol};
  fragment.offset = static_cast<uint32_t>(header.fragment_offset());
  fragment.more = header.more_fragments();
  fragment.header_length = static_cast<uint32_t>(header.header_length());
  fragment.info = info;
  packet->Pull(fragment.header_length);
  fragment.packet = std::move(packet);
  Reassembler::Result result = reassembler_.Add(std::move(fragment));
  if (result.datagram == nullptr) return result.reason;
  PatchReassembledHeader(*result.datagram, result.info.tos);
  result.datagram->set_l4_here();
  return stack_.DeliverTransport(std::move(result.datagram), result.info);
}

}  // namespace tapwire
