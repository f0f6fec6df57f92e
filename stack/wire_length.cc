// SPDX-License-Identifier: Apache-2.0
#include "stack/wire_length.h"

#include <algorithm>

#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "stack/interface.h"
#include "stack/route.h"

namespace tapwire {

size_t WireLength(const Packet& packet, uint8_t protocol, size_t ip_header_length) {
  const size_t whole = ip_header_length + packet.length();
  if (packet.meta.gso.size == 0) return whole;
  size_t transport_header = wire::UdpHeader::kLength;
  if (protocol == wire::IpProtocol::kTcp) {
    const auto tcp = wire::TcpHeader::Parse(packet.head_bytes());
    transport_header = tcp ? tcp->header_length() : wire::TcpHeader::kMinLength;
  }
  return std::min(whole, ip_header_length + transport_header + packet.meta.gso.size);
}

uint32_t RouteMtu(const Route& route) {
  return route.mtu != 0 ? route.mtu : route.interface->device().mtu();
}

}  // namespace tapwire
