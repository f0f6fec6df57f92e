// SPDX-License-Identifier: Apache-2.0
// Tunables of a Stack with their defaults. Units are in the names; every limit is a bound on what a
// peer can make us keep. Values are read when used, so a change takes effect at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "netdev/base/time.h"

namespace tapwire {

struct StackConfig {
  // IP. RFC 1122 §3.2.1.7 and RFC 8200: both settable; 64 is the assigned default.
  uint8_t default_ttl = 64;
  uint8_t default_hop_limit = 64;
  // A router (RFC 1812): unicast packets for others are passed on between the interfaces. As it is
  // when the stack is made; Stack::SetForwarding() changes it later, for the devices hear of it.
  bool forwarding = false;

  // Reassembly (RFC 1122 §3.3.2: 60–120 s for IPv4; RFC 8200 §4.5: 60 s).
  Duration reassembly_timeout = std::chrono::seconds(60);
  size_t reassembly_max_bytes = 4u << 20;             // all datagrams of one family
  size_t reassembly_max_bytes_per_source = 1u << 20;  // so that one sender cannot starve others
  size_t reassembly_max_datagrams = 256;
  size_t reassembly_max_fragments = 256;  // of one datagram; 64 KiB at MTU 576 is 119

  // Neighbours (RFC 4861 §10; ARP uses the same machine).
  Duration reachable_time_base = std::chrono::seconds(30);  // REACHABLE lasts 0.5–1.5 times this
  Duration retrans_timer = std::chrono::seconds(1);
  Duration delay_first_probe = std::chrono::seconds(5);
  int max_multicast_solicit = 3;
  int max_unicast_solicit = 3;
  size_t neighbor_max_entries = 1024;
  size_t neighbor_max_incomplete = 128;  // of them, and never more than half: the share of a scan
  // Waiting for one neighbour; the newest stay. Enough for a 64 KiB datagram in fragments of 1500.
  size_t neighbor_max_pending_packets = 64;
  Duration neighbor_failed_hold = std::chrono::seconds(1);  // sends fail at once for so long

  // Address conflict detection. Off: addresses are usable at once. As Linux, IPv6 addresses are
  // checked (RFC 4862 §5.4, about 2 s) and IPv4 ones are not (RFC 5227 §2.1, up to 9 s).
  bool duplicate_address_detection = true;
  bool arp_probe = false;
  int dad_transmits = 1;
  bool announce_addresses = true;  // gratuitous ARP / unsolicited NA when an address becomes usable
  bool link_local_address = true;  // an fe80::/64 address per interface

  // ICMP errors (RFC 4443 §2.4(f) token bucket; used for IPv4 too).
  uint32_t icmp_error_rate_per_second = 100;
  uint32_t icmp_error_burst = 50;
  bool icmp_echo_ignore_broadcasts = true;  // RFC 1122 §3.2.2.6 leaves it open; Linux default

  // Path MTU (RFC 1191, RFC 8201).
  Duration path_mtu_timeout = std::chrono::minutes(10);
  size_t path_mtu_max_entries = 1024;
  uint32_t min_path_mtu_v4 = 552;  // as Linux: a lower report is taken as this

  // Group membership (RFC 9776, RFC 9777).
  size_t max_groups_per_interface = 64;

  // UDP.
  size_t udp_receive_buffer_bytes = 1u << 20;  // per socket default, true memory charged
  size_t max_udp_sockets = 65536;
  uint16_t ephemeral_port_low = 32768;  // as Linux ip_local_port_range
  uint16_t ephemeral_port_high = 60999;
};

}  // namespace tapwire
