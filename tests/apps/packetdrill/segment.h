// SPDX-License-Identifier: Apache-2.0
// TCP segments and UDP datagrams as bytes, for tests of the plug-in. Written for these tests alone:
// the program that they are linked into has no sanitizers and so none of the project's libraries,
// and checksums that the stack's own code computed would prove nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapwire::packetdrill {

using Bytes = std::vector<uint8_t>;

struct Segment {
  static constexpr uint8_t kFin = 1, kSyn = 2, kRst = 4, kPsh = 8, kAck = 16;

  std::string source, destination;  // addresses as text; one with ':' is IPv6
  uint16_t source_port = 0, destination_port = 0;
  bool udp = false;
  uint32_t seq = 0, ack = 0;
  uint8_t flags = 0;
  uint16_t window = 65535;
  Bytes options = {};
  Bytes payload = {};
  bool sound = true;  // ParseSegment: lengths and checksums are right
};

Bytes BuildSegment(const Segment& segment);
// `sound` is false also for what is neither TCP nor UDP.
Segment ParseSegment(const Bytes& datagram);

// The one's complement sum of RFC 1071 §1 over 16-bit words, complemented.
uint16_t Checksum(const Bytes& bytes);

}  // namespace tapwire::packetdrill
