// SPDX-License-Identifier: Apache-2.0
// What merging reads of packets and what each protocol asks for. Internal to netdev/gro*.
#pragma once

#include <cstddef>
#include <cstdint>

#include "netdev/packet/packet.h"

namespace tapwire::netdev::internal {

// A received TCP or UDP packet as merging sees it. Offsets count from the Ethernet header.
struct GroHeaders {
  bool ipv6 = false;
  bool udp = false;
  uint16_t l3 = 0;
  uint16_t l4 = 0;
  uint16_t payload = 0;
  uint16_t segment_bytes = 0;  // payload of each segment but the last
  uint32_t segments = 0;       // 1, or more if a device merged the packet
  uint32_t payload_bytes = 0;

  size_t checksum_offset() const { return udp ? 6 : 16; }  // RFC 768; RFC 9293 §3.1; from l4
};

enum class GroKind : uint8_t {
  kOther,      // neither TCP nor UDP: does not belong to a flow that is held
  kIrregular,  // TCP or UDP in a form that cannot be merged; only ipv6, udp, l3 are set
  kRegular,
};
// Reads the linear part of `packet`. A regular packet has its headers there, unfragmented, with
// lengths that agree with the bytes present; its checksums have not been looked at.
GroKind ParseGroHeaders(const Packet& packet, GroHeaders& out);

// How the IPv4 identification goes on from segment to segment.
enum class IdPattern : uint8_t { kUnknown, kFixed, kIncrementing };

// A packet that waits for its continuation.
struct GroHeld {
  PacketPtr packet;
  GroHeaders headers;  // of its first frame; payload_bytes, segments: of all
  uint32_t key = 0;    // of its flow
  IdPattern id_pattern = IdPattern::kUnknown;
  bool merged = false;  // something was appended
};

// The flow that a packet belongs to, roughly: equal for packets of one flow.
uint32_t GroFlowKey(const Packet& packet, const GroHeaders& headers);
// One flow: link header, tag, addresses, protocol and ports are equal.
bool SameGroFlow(const GroHeld& held, const Packet& packet, const GroHeaders& headers);
bool SameGroHosts(const GroHeld& held, const Packet& packet, const GroHeaders& headers);

// RFC 1122 §3.2.1.2, for a header without options; the sum must be in the form that senders
// compute.
bool Ipv4HeaderSumOk(const Packet& packet, const GroHeaders& headers);
// What a super-packet's type says, kUnknown for a packet of one segment.
IdPattern IdPatternOf(const Packet& packet, const GroHeaders& headers);
// Whether the network header lets a packet of the held one's flow follow it; `pattern` is that of
// the held one and becomes that of both.
bool NetworkMayMerge(const GroHeld& held, const Packet& packet, const GroHeaders& headers,
                     IdPattern& pattern);
// The same for the transport header; nor is it asked whether the checksum is right.
bool TcpMayMerge(const GroHeld& held, const Packet& packet, const GroHeaders& headers);
bool UdpMayMerge(const GroHeld& held, const GroHeaders& headers);
// Whether the packet may wait for more. One that its sender marks as an end of data, or that has
// none, may not.
bool TcpMayHold(const Packet& packet, const GroHeaders& headers);
bool UdpMayHold(const Packet& packet, const GroHeaders& headers);
// Whether nothing can follow the packet with these headers once it is merged into `held`.
bool TcpEndsSuperPacket(const GroHeld& held, const GroHeaders& headers);
bool UdpEndsSuperPacket(const GroHeld& held, const GroHeaders& headers);
// Takes over into the held header what a later segment's says.
void MergeTcpFlags(GroHeld& held, uint8_t flags);
inline uint8_t TcpFlagsOf(const Packet& packet, const GroHeaders& headers) {
  return packet.data()[headers.l4 + 13];
}

// Makes the headers of a merged packet those of a super-packet, to be cut into the same frames.
void FinishSuperPacket(GroHeld& held);

}  // namespace tapwire::netdev::internal
