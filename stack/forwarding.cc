// SPDX-License-Identifier: Apache-2.0
#include "stack/forwarding.h"

#include <algorithm>
#include <span>
#include <utility>

#include "netdev/csum_offload.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// What an error about the packet has to know; false if it has no IP header.
bool Describe(const Packet& packet, IpPacketInfo& info) {
  const std::span<const uint8_t> bytes = packet.head_bytes();
  if (bytes.empty()) return false;
  if (bytes[0] >> 4 == 4) {
    const auto header = wire::Ipv4Header::Parse(bytes);
    if (!header) return false;
    info.source = header->source();
    info.destination = header->destination();
    info.protocol = header->protocol();
    return true;
  }
  const auto header = wire::Ipv6Header::Parse(bytes);
  if (!header) return false;
  info.source = header->source();
  info.destination = header->destination();
  info.protocol = header->next_header();
  return true;
}

}  // namespace

bool ForwardsFrom(const Interface& interface) {
  return interface.stack().forwarding() && !interface.device().is_loopback();
}

bool IsTransit(const Stack& stack, const Packet& packet) {
  if (packet.meta.rx_device == 0) return false;
  IpPacketInfo info;
  return Describe(packet, info) && stack.FindLocalAddress(info.source) == nullptr;
}

void ReportTransitUnreachable(Stack& stack, PacketPtr packet) {
  IpPacketInfo info;
  info.interface = stack.FindInterface(packet->meta.rx_device);
  packet->set_l3_here();
  if (info.interface != nullptr && Describe(*packet, info)) {
    stack.SendIcmpError(*packet, info, IcmpErrorKind::kHostUnreachable);
  }
  stack.Drop(std::move(packet), DropReason::kNeighborUnresolved);
}

size_t TransitLength(Packet& packet, uint8_t protocol, size_t l4_offset) {
  const size_t whole = packet.length();
  if (packet.meta.gso.size == 0) return whole;
  size_t transport_header = wire::UdpHeader::kLength;
  if (protocol == wire::IpProtocol::kTcp) {
    if (!packet.EnsureLinear(std::min(whole, l4_offset + wire::TcpHeader::kMaxLength))) return 0;
    const auto tcp = wire::TcpHeader::Parse(std::as_const(packet).head_bytes().subspan(l4_offset));
    transport_header = tcp ? tcp->header_length() : wire::TcpHeader::kMinLength;
  }
  return std::min(whole, l4_offset + transport_header + packet.meta.gso.size);
}

void LeaveLink(Packet& packet) {
  netdev::ForwardChecksumState(packet);
  PacketMeta& meta = packet.meta;
  meta.vlan_present = false;
  meta.link_target = LinkTarget::kByAddress;
  meta.tx_queue = 0;
}

}  // namespace tapwire
