// SPDX-License-Identifier: Apache-2.0
// A frame taken apart as far as it can be read: what the matchers look at.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"
#include "netdev/wire/tcp_options.h"

namespace tapwire::testutil {

struct FrameView {
  std::span<const uint8_t> bytes;  // the whole frame, or the packet if there is no link header

  bool has_link = false;
  MacAddress link_source, link_destination;
  uint16_t ether_type = 0;  // behind tags
  std::optional<uint16_t> vlan_tci;

  struct Arp {
    uint16_t operation = 0;
    MacAddress sender_mac, target_mac;
    Ipv4Address sender_ip, target_ip;
  };
  std::optional<Arp> arp;

  // Of the IP header; 0 if there is none.
  int version = 0;
  IpAddress source, destination;
  uint8_t ttl = 0;  // hop limit
  uint8_t tos = 0;  // traffic class
  uint32_t packet_length = 0;
  bool dont_fragment = false;
  // A fragment header or fragment bits; offset in bytes.
  bool is_fragment = false;
  uint32_t id = 0;
  uint32_t fragment_offset = 0;
  bool more_fragments = false;
  bool router_alert = false;
  uint32_t flow_label = 0;
  uint8_t protocol = 0;            // of the upper layer
  std::span<const uint8_t> upper;  // upper-layer header and data

  // UDP, TCP.
  uint16_t source_port = 0, destination_port = 0;
  uint32_t seq = 0, ack = 0;
  uint8_t tcp_flags = 0;
  uint16_t window = 0;
  wire::TcpOptions tcp_options;
  // ICMP, IGMP.
  uint8_t type = 0, code = 0;
  uint32_t rest = 0;  // the four bytes behind the checksum
  uint16_t checksum = 0;
  std::span<const uint8_t> payload;  // behind the upper-layer header (8 bytes of ICMP)

  bool is_v4() const { return version == 4; }
  bool is_v6() const { return version == 6; }
};

// `frame` must outlive the view.
FrameView Dissect(std::span<const uint8_t> frame);
// Starts at the IP header.
FrameView DissectIp(std::span<const uint8_t> packet);

// One group record of an IGMPv3 or MLDv2 report.
struct GroupRecordView {
  uint8_t type = 0;
  IpAddress group;
  std::vector<IpAddress> sources;
};
std::vector<GroupRecordView> GroupRecords(const FrameView& view);

// The link-layer address option of the given kind (1: source, 2: target) of an ND message.
std::optional<MacAddress> NdLinkAddress(const FrameView& view, uint8_t kind);

}  // namespace tapwire::testutil
