// SPDX-License-Identifier: Apache-2.0
// What the checks of the protocols share while one frame is under the glass. Internal to
// apps/capture.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "apps/capture/bytes.h"
#include "apps/capture/checker.h"
#include "apps/capture/fragment_tracker.h"
#include "apps/capture/ipv4_id_tracker.h"
#include "apps/capture/tcp_tracker.h"

namespace tapwire::capture {

// IANA protocol numbers the checks tell apart.
struct Protocol {
  static constexpr uint8_t kHopByHop = 0, kIcmp = 1, kIgmp = 2, kTcp = 6, kUdp = 17, kRouting = 43,
                           kFragment = 44;
  static constexpr uint8_t kEsp = 50, kAh = 51, kIcmpv6 = 58, kNoNext = 59,
                           kDestinationOptions = 60;
};

// The frame under test, the state that outlives it, and the place for findings.
struct Inspection {
  const Frame& frame;
  const CheckerOptions& options;
  CheckReport& report;
  FragmentTracker& fragments;
  Ipv4IdTracker& ids;
  TcpTracker& flows;

  uint64_t number = 0;
  bool snapped = false;
  bool loopback = false;
  bool has_link = false;  // eth_destination and eth_source are there
  Bytes eth_destination;
  Bytes eth_source;
  uint32_t link_length = 0;  // bytes before the network header

  void Report(Rule rule, std::string reason);
  bool link_broadcast() const {
    return has_link && eth_destination.U32(0) == 0xffffffff && eth_destination.U16(4) == 0xffff;
  }
  bool link_multicast() const { return has_link && (eth_destination.U8(0) & 1) != 0; }
};

// The network layer as the transports see it.
struct IpPacket {
  Address source;
  Address destination;  // the final one if a routing header names another
  uint8_t protocol = 0;
  uint8_t ttl = 0;  // hop limit
  uint8_t tos = 0;  // traffic class
  bool was_fragmented = false;
  bool router_alert = false;
  uint32_t header_length = 0;  // of the network header with options and extension headers
  uint32_t length = 0;  // of the payload as the header says; payload.size() is less if snapped
  Bytes payload;
};

void CheckArp(Inspection& inspection, Bytes packet);
void CheckIpv4(Inspection& inspection, Bytes packet);
void CheckIpv6(Inspection& inspection, Bytes packet);
// Whole datagrams only: fragments come here after reassembly.
void CheckTransport(Inspection& inspection, const IpPacket& ip);

void CheckUdp(Inspection& inspection, const IpPacket& ip);
void CheckTcp(Inspection& inspection, const IpPacket& ip);
// What the segment says, for the rules that follow connections; its sender is not judged.
void ObserveTcp(Inspection& inspection, const IpPacket& ip);
void CheckIcmpv4(Inspection& inspection, const IpPacket& ip);
void CheckIcmpv6(Inspection& inspection, const IpPacket& ip);
void CheckIgmp(Inspection& inspection, const IpPacket& ip);
// Types 133–137 and 130–132, 143 of ICMPv6.
void CheckNd(Inspection& inspection, const IpPacket& ip);
void CheckMld(Inspection& inspection, const IpPacket& ip);

// The transport checksum at `field` of the payload, with the pseudo-header (ICMPv4 and IGMP:
// without).
struct ChecksumField {
  const char* name;
  uint32_t field;
  bool pseudo_header;
};
void CheckChecksum(Inspection& inspection, const IpPacket& ip, const ChecksumField& checksum);
// The marks of a super-packet whose transport header has `transport_header` bytes.
void CheckGso(Inspection& inspection, const IpPacket& ip, uint32_t transport_header);

// Padding and surplus behind the network packet; `packet_length` from its header.
void CheckTrailer(Inspection& inspection, Bytes packet, uint32_t packet_length);
// The packet against the MTU; segments of a super-packet by their size.
void CheckMtu(Inspection& inspection, uint32_t packet_length);
// Whether link and network destination fit, and whether either address may be seen on a wire.
void CheckAddresses(Inspection& inspection, const IpPacket& ip);

}  // namespace tapwire::capture
