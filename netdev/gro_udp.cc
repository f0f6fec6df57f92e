// SPDX-License-Identifier: Apache-2.0
// What UDP asks of datagrams that are merged (RFC 768). Each stays a datagram of its own.
#include "netdev/gro.h"
#include "netdev/gro_protocol.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::netdev::internal {

// Datagrams to groups have several receivers, each of which would have to cut them up again.
bool UdpMayHold(const Packet& packet, const GroHeaders& headers) {
  const auto ethernet = wire::EthernetHeader::Parse(packet.head_bytes());
  return headers.payload_bytes > 0 && !ethernet->destination().IsMulticast();
}

bool UdpMayMerge(const GroHeld& held, const GroHeaders& headers) {
  return headers.payload_bytes > 0 && headers.payload_bytes <= held.headers.segment_bytes;
}

bool UdpEndsSuperPacket(const GroHeld& held, const GroHeaders& headers) {
  return headers.payload_bytes < held.headers.segment_bytes ||
         held.headers.segments >= Gro::kMaxUdpSegments;
}

}  // namespace tapwire::netdev::internal
