// SPDX-License-Identifier: Apache-2.0
// The vocabulary between IP (both families) and what lies above it: what a transport protocol is
// told about a received datagram, how it sends one, and ICMP errors in both directions. Transports
// include this file and never ipv4/ or ipv6/.
#pragma once

#include <cstdint>
#include <span>

#include "netdev/base/drop_reason.h"
#include "netdev/device.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/ip_address.h"

namespace tapwire {

class Interface;
struct Route;

// How the destination address of a received datagram relates to us.
enum class IpDelivery : uint8_t { kUnicast, kBroadcast, kMulticast };

// Facts about one received datagram. The Packet's data() is at the transport header and its length
// is the transport length (padding trimmed); meta l3_offset still names the IP header.
struct IpPacketInfo {
  IpAddress source;
  IpAddress destination;
  uint8_t protocol = 0;  // after extension headers
  uint8_t ttl = 0;       // or hop limit
  uint8_t tos = 0;       // or traffic class
  IpDelivery delivery = IpDelivery::kUnicast;
  bool link_broadcast = false;  // the frame was for a broadcast or multicast MAC
  bool reassembled = false;     // came with a fragment header, that of an atomic fragment included
  // IPv6: where the next-header byte that named `protocol` lies, from the IP header (for parameter
  // problem code 1).
  uint16_t next_header_offset = 6;
  Interface* interface = nullptr;
};

// ICMP errors, named once for both families (RFC 792, RFC 4443).
enum class IcmpErrorKind : uint8_t {
  kNetUnreachable,         // 3/0,  1/0 (no route)
  kHostUnreachable,        // 3/1,  1/3 (address unreachable)
  kProtocolUnreachable,    // 3/2,  4/1 (parameter problem, next header)
  kPortUnreachable,        // 3/3,  1/4
  kPacketTooBig,           // 3/4,  2/0; value = MTU
  kAdminProhibited,        // 3/13 (and 9, 10), 1/1
  kTtlExceeded,            // 11/0, 3/0
  kReassemblyTimeout,      // 11/1, 3/1
  kParameterProblem,       // 12/0, 4/0; value = pointer
  kUnrecognizedOption,     // –,    4/2; value = pointer
  kIncompleteHeaderChain,  // –,    4/3; value = pointer (RFC 7112)
  kBeyondScope,            // –,    1/2; sent only: received it counts as kNetUnreachable
  kOther,                  // any other error type: passed up, never sent
};

// A received ICMP error that quotes a datagram of ours.
struct IcmpErrorInfo {
  IcmpErrorKind kind = IcmpErrorKind::kOther;
  uint8_t type = 0, code = 0;
  uint32_t value = 0;     // MTU or pointer, by kind
  IpAddress reporter;     // who sent the error
  IpAddress source;       // of the quoted datagram: us
  IpAddress destination;  // of the quoted datagram: the peer
  uint8_t protocol = 0;
  std::span<const uint8_t>
      transport;  // quoted transport bytes, ≥ 8 for IPv4; valid during the call
  Interface* interface = nullptr;
};

// A transport protocol as IP sees it (UDP, TCP, ICMP itself). Registered with
// Stack::RegisterTransport(); the stack does not own it. Called on the context's thread.
class TransportProtocol {
 public:
  virtual ~TransportProtocol() = default;
  // Consumes the packet. Returns kNone when delivered; anything else has been counted by the
  // protocol (Stack::Drop) and is returned for tracing only.
  virtual DropReason Input(PacketPtr packet, const IpPacketInfo& info) = 0;
  // An ICMP error about a datagram this protocol sent, as far as IP can tell. The protocol decides
  // whether the quote fits one of its flows (RFC 5927); true if it did, so that a path MTU may be
  // learned from it.
  virtual bool OnIcmpError(const IcmpErrorInfo& error) = 0;
};

// How a transport sends one datagram.
struct IpSendOptions {
  uint8_t protocol = 0;
  uint8_t ttl = 0;  // 0: the stack's default (a TTL of 0 is never sent, RFC 1122 §3.2.1.7)
  uint8_t tos = 0;
  bool dont_fragment = false;  // IPv4 DF; IPv6 and IPv4 alike then answer kTooBig over the path MTU
  bool router_alert = false;   // IGMP, MLD (RFC 2113, RFC 2711)
  uint32_t flow_label = 0;     // IPv6, 20 bits
  // UDP to a group or broadcast address we listen to ourselves: deliver a copy (IP_MULTICAST_LOOP).
  bool multicast_loop = true;
};

}  // namespace tapwire
