// SPDX-License-Identifier: Apache-2.0
//
// The one list of reasons why a frame or datagram went nowhere. A reason is counted exactly once,
// in the place that decides. A new reason is one line in the group of the layer that decides it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "netdev/base/counter.h"

// X(id, "name as printed", "help text for operators, with the RFC section that asks for the drop")
// clang-format off
#define TAPWIRE_DROP_REASONS(X)                                                                        \
  X(kNone, "none", "Not dropped")                                                                      \
  /* Link layer, receive. */                                                                           \
  X(kLinkRunt, "link_runt", "Frame shorter than its Ethernet header")                                  \
  X(kLinkUnknownEtherType, "link_unknown_ethertype", "No protocol for the EtherType (RFC 1122 §2.3.3)") \
  X(kLinkOtherHost, "link_other_host", "Unicast frame for a MAC address that is not ours")             \
  X(kLinkMulticastFilter, "link_multicast_filter", "Group MAC address that nobody here has joined")    \
  X(kLinkVlanUnknown, "link_vlan_unknown", "VLAN tag without an interface for that VLAN")              \
  X(kLinkVlanMalformed, "link_vlan_malformed", "Frame ends inside a VLAN tag, or too many tags")       \
  X(kLinkSourceOwn, "link_source_own", "Source MAC address is our own: loop or spoof")                 \
  X(kLinkSourceMulticast, "link_source_multicast", "Source MAC address has the group bit")             \
  X(kLinkOverMtu, "link_over_mtu", "Received frame larger than the device's MTU allows")               \
  X(kLinkDeviceDown, "link_device_down", "Frame arrived on a device that is down")                     \
  X(kLinkNoSink, "link_no_sink", "No protocol registered on the device")                               \
  X(kLinkBacklogFull, "link_backlog_full", "Receive backlog at its limit")                             \
  X(kLinkBroadcastQueueFull, "link_broadcast_queue_full", "Broadcast queue of the device's macvlans at its limit") \
  X(kLinkUpperDown, "link_upper_down", "The upper device that owns the frame is down")                 \
  X(kLinkHandlerLoop, "link_handler_loop", "Upper devices hand the frame on in a circle")              \
  X(kLinkNoBuffer, "link_no_buffer", "Buffer pool at its budget on receive")                           \
  /* Devices and drivers, receive. */                                                                  \
  X(kTapShortHeader, "tap_short_header", "Read shorter than the virtio-net header")                    \
  X(kTapBadVnetHeader, "tap_bad_vnet_header", "virtio-net header contradicts the frame")               \
  X(kTapGsoUnsupported, "tap_gso_unsupported", "virtio-net segmentation type that was not agreed on")  \
  X(kTapOversize, "tap_oversize", "Frame larger than the receive buffers")                             \
  X(kRxBadMetadata, "rx_bad_metadata", "Driver handed up impossible checksum or segmentation metadata") \
  X(kFaultInjected, "fault_injected", "Lost on purpose by the fault injector")                         \
  /* Transmit. */                                                                                      \
  X(kTxNoRoute, "tx_no_route", "No route to the destination (RFC 1122 §3.3.1)")                        \
  X(kTxNoBuffer, "tx_no_buffer", "Buffer pool at its budget on transmit")                              \
  X(kTxQueueFull, "tx_queue_full", "Transmit queue at its limit")                                      \
  X(kTxDeviceDown, "tx_device_down", "Transmit on a device that is down")                              \
  X(kTxCarrierOff, "tx_carrier_off", "Transmit without carrier")                                       \
  X(kTxOverMtu, "tx_over_mtu", "Frame larger than the MTU and not to be segmented")                    \
  X(kTxBadLength, "tx_bad_length", "Frame shorter than a link header or with no data")                 \
  X(kTxBadChecksumMetadata, "tx_bad_csum_metadata", "Partial checksum with a start or offset outside the data") \
  X(kTxBadGsoMetadata, "tx_bad_gso_metadata", "Segmentation type without size, or contradicting types") \
  X(kTxBadHeaderOffsets, "tx_bad_header_offsets", "Header offsets missing or outside the data")        \
  X(kTxUntrustedHeaders, "tx_untrusted_headers", "Headers of an untrusted super-packet failed the check") \
  X(kTxChecksumFailed, "tx_csum_failed", "Software checksum could not be computed")                    \
  X(kTxSegmentationFailed, "tx_segmentation_failed", "Software segmentation failed")                   \
  X(kTxLinearizeFailed, "tx_linearize_failed", "No memory to make the frame contiguous")               \
  X(kTxVlanFailed, "tx_vlan_failed", "VLAN tag could not be inserted")                                 \
  X(kTxWriteError, "tx_write_error", "The device or system call refused the frame")                    \
  X(kTxRecursion, "tx_recursion", "Too many stacked devices transmit into each other")                 \
  /* ARP. */                                                                                           \
  X(kArpMalformed, "arp_malformed", "Truncated, or not Ethernet and IPv4 (RFC 826)")                   \
  X(kArpNotForUs, "arp_not_for_us", "Target address is not ours and the sender is unknown (RFC 826)")  \
  X(kArpConflict, "arp_conflict", "Sender claims one of our addresses (RFC 5227 §2.4)")                \
  X(kArpBadSenderMac, "arp_bad_sender_mac", "Sender MAC is zero, group or broadcast")                  \
  X(kArpBadSenderIp, "arp_bad_sender_ip", "Sender IP is multicast, broadcast or loopback")             \
  X(kArpStaticEntry, "arp_static_entry", "A static entry was not changed by ARP")                      \
  X(kArpUnsolicited, "arp_unsolicited", "Unsolicited reply without an entry, ignored by configuration") \
  /* Neighbour resolution, both families. */                                                           \
  X(kNeighborQueueOverflow, "neighbor_queue_overflow", "Packet pushed out of a resolution queue (RFC 1122 §2.3.2.2)") \
  X(kNeighborUnresolved, "neighbor_unresolved", "Neighbour did not answer (RFC 1122 §2.3.2.1, RFC 4861 §7.2.2)") \
  X(kNeighborTableFull, "neighbor_table_full", "Neighbour table at its limit and nothing to evict")    \
  /* IPv4. */                                                                                          \
  X(kIpv4Truncated, "ipv4_truncated", "Frame shorter than the IPv4 header (RFC 791 §3.1)")             \
  X(kIpv4BadVersion, "ipv4_bad_version", "Version is not 4 (RFC 1122 §3.2.1.1)")                       \
  X(kIpv4BadHeaderLength, "ipv4_bad_ihl", "IHL below 5 or beyond the frame (RFC 791 §3.1)")            \
  X(kIpv4BadTotalLength, "ipv4_bad_total_length", "Total length below the header or beyond the frame (RFC 791 §3.1)") \
  X(kIpv4BadChecksum, "ipv4_bad_csum", "Header checksum failed (RFC 1122 §3.2.1.2)")                   \
  X(kIpv4MartianSource, "ipv4_martian_source", "Source is multicast, broadcast, zero or class E (RFC 1122 §3.2.1.3)") \
  X(kIpv4SourceOwn, "ipv4_source_own", "Source is one of our own addresses: loop or spoof")            \
  X(kIpv4LoopbackFromWire, "ipv4_loopback_from_wire", "127/8 outside a host (RFC 1122 §3.2.1.3 (g))")  \
  X(kIpv4MartianDestination, "ipv4_martian_destination", "Destination is zero or class E (RFC 1122 §3.2.1.3)") \
  X(kIpv4NotOurs, "ipv4_not_ours", "Destination is not ours (RFC 1122 §3.2.1.3)")                      \
  X(kIpv4LinkBroadcastUnicast, "ipv4_link_broadcast_unicast", "Link broadcast with a unicast destination (RFC 1122 §3.3.6)") \
  X(kIpv4MulticastFilter, "ipv4_multicast_filter", "Group that no one here has joined (RFC 1112 §7.2)") \
  X(kIpv4BadOptions, "ipv4_bad_options", "Malformed IP option (RFC 1122 §3.2.1.8)")                    \
  X(kIpv4SourceRoute, "ipv4_source_route", "Source-routed packet refused (RFC 1122 §3.2.1.8 (c), RFC 7126 §4.3)") \
  X(kIpv4ForwardingOff, "ipv4_forwarding_off", "Would have to be forwarded, and forwarding is off (RFC 1122 §3.3.4.2)") \
  X(kIpv4FragmentationNeeded, "ipv4_frag_needed", "Larger than the path MTU with DF set (RFC 1191 §4)") \
  X(kIpv4DirectedBroadcast, "ipv4_directed_broadcast", "Directed broadcast not forwarded (RFC 2644)")  \
  X(kIpv4TtlExceeded, "ipv4_ttl_exceeded", "TTL used up on the way through us (RFC 1812 §5.3.1)") \
  X(kIpv4LinkLocalForward, "ipv4_link_local_forward", "Link-local address that would leave its link (RFC 3927 §7)") \
  X(kForwardLro, "forward_lro", "Merged by a device in a way that cannot be undone (LRO), so it cannot be forwarded") \
  /* Reassembly, both families. */                                                                     \
  X(kFragmentTooBig, "frag_too_big", "Fragments add up to more than 65535 bytes (RFC 8200 §4.5)")      \
  X(kFragmentBadLength, "frag_bad_length", "Non-last fragment not a multiple of 8 bytes (RFC 8200 §4.5)") \
  X(kFragmentEmpty, "frag_empty", "Fragment without data")                                             \
  X(kFragmentOverlap, "frag_overlap", "Overlapping fragments (RFC 5722 §3, RFC 8200 §4.5)")            \
  X(kFragmentDuplicate, "frag_duplicate", "Exact duplicate of a fragment held already (RFC 8200 §4.5)") \
  X(kFragmentEndMismatch, "frag_end_mismatch", "Last fragments disagree about the total length")       \
  X(kFragmentMemoryLimit, "frag_memory_limit", "Reassembly memory at its limit (RFC 1122 §3.3.2)")     \
  X(kFragmentTimeout, "frag_timeout", "Not complete in time (RFC 1122 §3.3.2, RFC 8200 §4.5)")         \
  X(kFragmentTooMany, "frag_too_many", "More fragments per datagram than allowed")                     \
  X(kFragmentTinyFirst, "frag_tiny_first", "First fragment too small for the headers (RFC 1858 §3, RFC 8200 §4.5)") \
  X(kFragmentHeaderChain, "frag_header_chain", "First fragment lacks part of the header chain (RFC 7112 §5)") \
  X(kFragmentEcnMix, "frag_ecn_mix", "Fragments mix Not-ECT with CE (RFC 3168 §5.3)")                  \
  /* IPv6. */                                                                                          \
  X(kIpv6Truncated, "ipv6_truncated", "Frame shorter than the IPv6 header (RFC 8200 §3)")              \
  X(kIpv6BadVersion, "ipv6_bad_version", "Version is not 6 (RFC 8200 §3)")                             \
  X(kIpv6BadPayloadLength, "ipv6_bad_payload_length", "Payload length beyond the frame (RFC 8200 §3)") \
  X(kIpv6Jumbogram, "ipv6_jumbogram", "Jumbo payload option is not supported (RFC 2675)")              \
  X(kIpv6MartianSource, "ipv6_martian_source", "Source is multicast, or unspecified where it must not be (RFC 4291 §2.7)") \
  X(kIpv6SourceOwn, "ipv6_source_own", "Source is one of our own addresses: loop or spoof")            \
  X(kIpv6MartianDestination, "ipv6_martian_destination", "Destination is unspecified or of a scope that cannot arrive (RFC 4291 §2.5.2, §2.7)") \
  X(kIpv6LoopbackFromWire, "ipv6_loopback_from_wire", "::1 outside a host (RFC 4291 §2.5.3)")          \
  X(kIpv6LinkGroupUnicast, "ipv6_link_group_unicast", "Link group address with a unicast destination") \
  X(kIpv6NotOurs, "ipv6_not_ours", "Destination is not ours, and this is a host (RFC 8200 §4.4)")      \
  X(kIpv6MulticastFilter, "ipv6_multicast_filter", "Group that no one here has joined (RFC 4291 §2.8)") \
  X(kIpv6TentativeDestination, "ipv6_tentative_destination", "Destination is still tentative (RFC 4862 §5.4)") \
  X(kIpv6ForwardingOff, "ipv6_forwarding_off", "Would have to be forwarded, and forwarding is off")    \
  X(kIpv6TooBig, "ipv6_too_big", "Larger than the path MTU (RFC 8200 §5)")                             \
  X(kIpv6HopLimitExceeded, "ipv6_hop_limit_exceeded", "Hop limit used up on the way through us (RFC 8200 §3)") \
  X(kIpv6BeyondScope, "ipv6_beyond_scope", "Link-local source that would leave its link (RFC 4443 §3.1)") \
  X(kIpv6OptionDiscard, "ipv6_option_discard", "Unknown option asks for a silent discard (RFC 8200 §4.2)") \
  X(kIpv6OptionProblem, "ipv6_option_problem", "Unknown option asks for a Parameter Problem (RFC 8200 §4.2)") \
  X(kIpv6BadExtensionHeader, "ipv6_bad_ext_header", "Extension header truncated or malformed (RFC 8200 §4)") \
  X(kIpv6HopByHopNotFirst, "ipv6_hbh_not_first", "Hop-by-Hop header not right after the IPv6 header (RFC 8200 §4.1)") \
  X(kIpv6ExtensionChainTooLong, "ipv6_ext_chain_too_long", "More extension headers or options than the limit (RFC 8504 §5.3)") \
  X(kIpv6RoutingHeader, "ipv6_routing_header", "Routing header with segments left (RFC 5095 §3, RFC 8200 §4.4)") \
  X(kIpv6NoNextHeader, "ipv6_no_next_header", "No Next Header: nothing to deliver (RFC 8200 §4.7)")    \
  X(kIpv6AtomicFragmentBad, "ipv6_atomic_fragment", "Malformed atomic fragment (RFC 6946 §4)")         \
  /* Transport selection. */                                                                           \
  X(kUnknownProtocol, "unknown_protocol", "No transport for the protocol (RFC 1122 §3.2.2.1, RFC 8200 §4)") \
  /* ICMP, both families. */                                                                           \
  X(kIcmpTruncated, "icmp_truncated", "Message shorter than its fixed part (RFC 792, RFC 4443 §2.1)")  \
  X(kIcmpBadChecksum, "icmp_bad_csum", "ICMP checksum failed (RFC 792, RFC 4443 §2.3)")                \
  X(kIcmpUnknownType, "icmp_unknown_type", "Unknown message type (RFC 1122 §3.2.2, RFC 4443 §2.4 (b))") \
  X(kIcmpUnknownCode, "icmp_unknown_code", "Unknown code of a known type")                             \
  X(kIcmpEchoIgnored, "icmp_echo_ignored", "Echo ignored by configuration, or to a group (RFC 1122 §3.2.2.6)") \
  X(kIcmpEchoReplyUnmatched, "icmp_echo_reply_unmatched", "Echo reply that no one waits for")          \
  X(kIcmpQuoteTruncated, "icmp_quote_truncated", "Error quotes too little of the packet (RFC 1122 §3.2.2)") \
  X(kIcmpQuoteMismatch, "icmp_quote_mismatch", "Error quotes nothing we sent (RFC 5927 §4.1)")         \
  X(kIcmpBadSource, "icmp_bad_source", "Message from an address that may not send it")                 \
  X(kIcmpRedirectIgnored, "icmp_redirect_ignored", "Redirect refused (RFC 1122 §3.2.2.2, RFC 4861 §8.1)") \
  X(kIcmpSourceQuench, "icmp_source_quench", "Source Quench is ignored (RFC 6633 §3)")                 \
  X(kIcmpDeprecated, "icmp_deprecated", "Deprecated message type (RFC 6918 §2)")                       \
  X(kIcmpPacketTooBigInvalid, "icmp_ptb_invalid", "Packet Too Big below the minimum or not smaller (RFC 1191 §3, RFC 8201 §4)") \
  X(kIcmpRateLimited, "icmp_rate_limited", "Message not sent: rate limit (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f))") \
  X(kIcmpErrorSuppressed, "icmp_error_suppressed", "Error not sent about such a packet (RFC 1122 §3.2.2, RFC 4443 §2.4 (e))") \
  X(kIcmpTimestampIgnored, "icmp_timestamp_ignored", "Timestamp request ignored by configuration")     \
  /* Neighbour Discovery. */                                                                           \
  X(kNdpTruncated, "ndp_truncated", "Message shorter than its fixed part (RFC 4861 §6.1, §7.1)")       \
  X(kNdpBadHopLimit, "ndp_bad_hop_limit", "Hop limit is not 255 (RFC 4861 §6.1, §7.1, §8.1)")          \
  X(kNdpBadCode, "ndp_bad_code", "Code is not 0 (RFC 4861 §6.1, §7.1, §8.1)")                          \
  X(kNdpBadOption, "ndp_bad_option", "Option of length 0 or beyond the message (RFC 4861 §4.6)")       \
  X(kNdpBadTarget, "ndp_bad_target", "Target address is multicast (RFC 4861 §7.1)")                    \
  X(kNdpBadDestination, "ndp_bad_destination", "Destination not allowed for the message (RFC 4861 §7.1)") \
  X(kNdpFragmented, "ndp_fragmented", "Neighbour Discovery in fragments (RFC 6980 §5)")                \
  X(kNdpNotForUs, "ndp_not_for_us", "Target address is not ours (RFC 4861 §7.2.3)")                    \
  X(kNdpNoEntry, "ndp_no_entry", "Advertisement for a neighbour we do not ask for (RFC 4861 §7.2.5)")  \
  X(kNdpIgnored, "ndp_ignored", "Advertisement that changes nothing (RFC 4861 §7.2.5)")                \
  X(kNdpNotARouter, "ndp_not_a_router", "Router Solicitation at a host (RFC 4861 §6.2.6)")             \
  X(kNdpRouterAdIgnored, "ndp_ra_ignored", "Router Advertisement ignored by configuration")            \
  X(kNdpDadConflict, "ndp_dad_conflict", "Another node has or wants our tentative address (RFC 4862 §5.4)") \
  X(kNdpDadLoopback, "ndp_dad_loopback", "Our own probe came back (RFC 7527 §4.2)")                    \
  /* Group membership: IGMP and MLD. */                                                                \
  X(kIgmpMalformed, "igmp_malformed", "Truncated or bad checksum (RFC 9776 §4)")                       \
  X(kIgmpNotForUs, "igmp_not_for_us", "For a router, or a group not joined here")                      \
  X(kIgmpBadTtl, "igmp_bad_ttl", "TTL is not 1, or no Router Alert (RFC 9776 §4)")                     \
  X(kMldMalformed, "mld_malformed", "Truncated message (RFC 9777 §5)")                                 \
  X(kMldNotForUs, "mld_not_for_us", "For a router, or a group not joined here")                        \
  X(kMldBadSource, "mld_bad_source", "Source not link-local, hop limit not 1 or no Router Alert (RFC 9777 §6.2)") \
  /* UDP. */                                                                                           \
  X(kUdpTruncated, "udp_truncated", "Shorter than the UDP header (RFC 768)")                           \
  X(kUdpBadLength, "udp_bad_length", "Length below 8 or beyond the packet (RFC 768)")                  \
  X(kUdpBadChecksum, "udp_bad_csum", "UDP checksum failed (RFC 1122 §4.1.3.4)")                        \
  X(kUdpZeroChecksum6, "udp_zero_csum6", "IPv6 without a UDP checksum (RFC 8200 §8.1)")                \
  X(kUdpNoPort, "udp_no_port", "No socket on the port: unreachable is sent (RFC 1122 §4.1.3.1)")       \
  X(kUdpNoMatch, "udp_no_match", "Group or broadcast datagram that no socket takes (RFC 1122 §4.1.3.1)") \
  X(kUdpReceiveBufferFull, "udp_rcvbuf_full", "Receive buffer of the socket is full")                  \
  /* TCP. */                                                                                           \
  X(kTcpTruncated, "tcp_truncated", "Shorter than the TCP header or its data offset (RFC 9293 §3.1)")  \
  X(kTcpBadChecksum, "tcp_bad_csum", "TCP checksum failed (RFC 9293 MUST-3)")                          \
  X(kTcpNotUnicast, "tcp_not_unicast", "From or to a group or broadcast address (RFC 9293 MUST-57, MUST-63)") \
  X(kTcpNoPort, "tcp_no_port", "No socket for the segment: answered by a reset (RFC 9293 §3.10.7.1)")  \
  X(kTcpBadFlags, "tcp_bad_flags", "Flags that start or belong to nothing, as SYN with FIN or no ACK") \
  X(kTcpOutOfWindow, "tcp_out_of_window", "Sequence not acceptable (RFC 9293 §3.10.7.4, first)")       \
  X(kTcpPaws, "tcp_paws", "Timestamp older than the last one (RFC 7323 §5.3)")                         \
  X(kTcpBadAck, "tcp_bad_ack", "Acknowledges what was never sent, or far too old (RFC 5961 §5.2)")     \
  X(kTcpUnacceptableReset, "tcp_unacceptable_reset", "Reset that is not exactly at RCV.NXT (RFC 5961 §3.2)") \
  X(kTcpUnexpectedSyn, "tcp_unexpected_syn", "SYN on a synchronized connection (RFC 5961 §4.2)")       \
  X(kTcpListenQueueFull, "tcp_listen_queue_full", "SYN for a listener whose queues are full")          \
  X(kTcpAcceptQueueFull, "tcp_accept_queue_full", "Last acknowledgment of a handshake while the accept queue is full") \
  X(kTcpTooMany, "tcp_too_many", "SYN beyond the limit of connections or memory")                      \
  X(kTcpReceiveBufferFull, "tcp_rcvbuf_full", "No room in the receive buffer or its out-of-order queue") \
  X(kTcpAfterClose, "tcp_after_close", "Data for a connection whose user is gone: reset (RFC 9293 §3.6.1)") \
  X(kTcpTimeWait, "tcp_time_wait", "Segment for a connection in TIME-WAIT (RFC 9293 §3.10.7.4)")       \
  /* Sockets. */                                                                                       \
  X(kSocketFilter, "socket_filter", "The socket is tied to another interface (SO_BINDTODEVICE)")       \
  X(kPingQueueFull, "ping_queue_full", "Echo reply beyond what a ping socket keeps for its callback")
// clang-format on

namespace tapwire {

enum class DropReason : uint8_t {
#define TAPWIRE_DROP_REASON_ID_(id, name, help) id,
  TAPWIRE_DROP_REASONS(TAPWIRE_DROP_REASON_ID_)
#undef TAPWIRE_DROP_REASON_ID_
};

#define TAPWIRE_DROP_REASON_ONE_(id, name, help) +1
inline constexpr size_t kDropReasonCount = 0 TAPWIRE_DROP_REASONS(TAPWIRE_DROP_REASON_ONE_);
#undef TAPWIRE_DROP_REASON_ONE_
static_assert(kDropReasonCount <= 256);

using DropCounters = EnumCounters<DropReason, kDropReasonCount>;

// Stable short name, as printed by statistics: "ipv4_bad_csum".
absl::string_view DropReasonName(DropReason reason);

// One line for operators.
absl::string_view DropReasonHelp(DropReason reason);

}  // namespace tapwire
