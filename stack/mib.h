// SPDX-License-Identifier: Apache-2.0
// Counters of one Stack, under the names that nstat prints (RFC 4293, RFC 4113 and Linux).
// Drop reasons stand beside them (Stack::drops()); these count protocol events.
#pragma once

#include "netdev/base/counter.h"

namespace tapwire {

// X(field, "nstat name", "help"). One list per family; the IPv6 names are Ip6….
#define TAPWIRE_IP_COUNTERS(X)                                                                   \
  X(in_receives, "InReceives", "Datagrams received, also those in error")                        \
  X(in_hdr_errors, "InHdrErrors", "Datagrams dropped for errors in their IP header")             \
  X(in_addr_errors, "InAddrErrors", "Datagrams dropped for a destination or source not allowed") \
  X(in_unknown_protos, "InUnknownProtos", "Datagrams for a protocol nobody handles")             \
  X(in_truncated_pkts, "InTruncatedPkts", "Datagrams longer than the frame that brought them")   \
  X(in_csum_errors, "InCsumErrors", "Datagrams with a wrong IP header checksum")                 \
  X(in_discards, "InDiscards", "Datagrams dropped for lack of memory")                           \
  X(in_delivers, "InDelivers", "Datagrams handed to a transport protocol")                       \
  X(in_octets, "InOctets", "Bytes received")                                                     \
  X(in_mcast_pkts, "InMcastPkts", "Multicast datagrams received")                                \
  X(in_bcast_pkts, "InBcastPkts", "Broadcast datagrams received")                                \
  X(out_requests, "OutRequests", "Datagrams given to IP for sending")                            \
  X(out_discards, "OutDiscards", "Datagrams not sent for lack of memory or a refusing device")   \
  X(out_no_routes, "OutNoRoutes", "Datagrams not sent since no route was found")                 \
  X(out_octets, "OutOctets", "Bytes sent")                                                       \
  X(reasm_timeout, "ReasmTimeout", "Reassemblies given up for time")                             \
  X(reasm_reqds, "ReasmReqds", "Fragments received")                                             \
  X(reasm_oks, "ReasmOKs", "Datagrams reassembled")                                              \
  X(reasm_fails, "ReasmFails", "Reassemblies that failed (time, memory, overlap, size)")         \
  X(frag_oks, "FragOKs", "Datagrams fragmented")                                                 \
  X(frag_fails, "FragFails", "Datagrams that would not be fragmented (DF, IPv6 too big)")        \
  X(frag_creates, "FragCreates", "Fragments made")                                               \
  X(forw_datagrams, "ForwDatagrams", "IPv4: datagrams forwarded")                                \
  X(out_forw_datagrams, "OutForwDatagrams", "IPv6: datagrams forwarded")                         \
  X(in_no_routes, "InNoRoutes", "Datagrams not forwarded since no route was found")              \
  X(in_too_big_errors, "InTooBigErrors", "IPv6: datagrams not forwarded since they are too big")
TAPWIRE_COUNTER_STRUCT(IpCounters, TAPWIRE_IP_COUNTERS);

#define TAPWIRE_ICMP_COUNTERS(X)                                                                \
  X(in_msgs, "InMsgs", "ICMP messages received, also those in error")                           \
  X(in_errors, "InErrors", "ICMP messages with errors of their own")                            \
  X(in_csum_errors, "InCsumErrors", "ICMP messages with a wrong checksum")                      \
  X(in_dest_unreachs, "InDestUnreachs", "Destination unreachable received")                     \
  X(in_time_excds, "InTimeExcds", "Time exceeded received")                                     \
  X(in_parm_probs, "InParmProbs", "Parameter problem received")                                 \
  X(in_pkt_too_bigs, "InPktTooBigs", "Packet too big (IPv6) received")                          \
  X(in_redirects, "InRedirects", "Redirects received")                                          \
  X(in_echos, "InEchos", "Echo requests received")                                              \
  X(in_echo_reps, "InEchoReps", "Echo replies received")                                        \
  X(out_msgs, "OutMsgs", "ICMP messages sent")                                                  \
  X(out_errors, "OutErrors", "ICMP messages not sent for lack of memory or a route")            \
  X(out_rate_limited, "OutRateLimitHost", "ICMP errors not sent since the rate was reached")    \
  X(out_dest_unreachs, "OutDestUnreachs", "Destination unreachable sent")                       \
  X(out_time_excds, "OutTimeExcds", "Time exceeded sent")                                       \
  X(out_parm_probs, "OutParmProbs", "Parameter problem sent")                                   \
  X(out_pkt_too_bigs, "OutPktTooBigs", "Packet too big sent")                                   \
  X(out_echos, "OutEchos", "Echo requests sent")                                                \
  X(out_echo_reps, "OutEchoReps", "Echo replies sent")                                          \
  X(in_neighbor_solicits, "InNeighborSolicits", "Neighbor solicitations received")              \
  X(in_neighbor_advertisements, "InNeighborAdvertisements", "Neighbor advertisements received") \
  X(out_neighbor_solicits, "OutNeighborSolicits", "Neighbor solicitations sent")                \
  X(out_neighbor_advertisements, "OutNeighborAdvertisements", "Neighbor advertisements sent")
TAPWIRE_COUNTER_STRUCT(IcmpCounters, TAPWIRE_ICMP_COUNTERS);

#define TAPWIRE_UDP_COUNTERS(X)                                                            \
  X(in_datagrams, "InDatagrams", "Datagrams delivered to a socket")                        \
  X(no_ports, "NoPorts", "Datagrams for a port nobody listens on")                         \
  X(in_errors, "InErrors", "Datagrams that could not be delivered for another reason")     \
  X(out_datagrams, "OutDatagrams", "Datagrams sent")                                       \
  X(rcvbuf_errors, "RcvbufErrors", "Datagrams dropped since the socket's buffer was full") \
  X(sndbuf_errors, "SndbufErrors", "Sends refused for lack of memory")                     \
  X(in_csum_errors, "InCsumErrors", "Datagrams with a wrong checksum")                     \
  X(ignored_multi, "IgnoredMulti", "Multicast datagrams nobody joined for")
TAPWIRE_COUNTER_STRUCT(UdpCounters, TAPWIRE_UDP_COUNTERS);

#define TAPWIRE_TCP_COUNTERS(X)                                                            \
  X(active_opens, "ActiveOpens", "Connections opened by us")                               \
  X(passive_opens, "PassiveOpens", "Connections opened by a peer")                         \
  X(attempt_fails, "AttemptFails", "Connections that failed before they were established") \
  X(estab_resets, "EstabResets", "Established connections that ended by a reset")          \
  X(in_segs, "InSegs", "Segments received, also those in error")                           \
  X(out_segs, "OutSegs", "Segments sent, without retransmissions; a super-packet is one")  \
  X(retrans_segs, "RetransSegs", "Segments sent again")                                    \
  X(in_errs, "InErrs", "Segments received in error")                                       \
  X(out_rsts, "OutRsts", "Resets sent")                                                    \
  X(in_csum_errors, "InCsumErrors", "Segments with a wrong checksum")                      \
  X(out_errors, "OutErrors", "Segments that IP or the device refused")
TAPWIRE_COUNTER_STRUCT(TcpCounters, TAPWIRE_TCP_COUNTERS);

// What Linux prints as TcpExt.
#define TAPWIRE_TCP_EXT_COUNTERS(X)                                                                \
  X(listen_overflows, "ListenOverflows", "Handshakes held back since an accept queue was full")    \
  X(listen_drops, "ListenDrops", "SYNs dropped by listeners")                                      \
  X(delayed_acks, "DelayedACKs", "Acknowledgments sent when their timer ran out")                  \
  X(time_waits, "TW", "Connections that entered TIME-WAIT")                                        \
  X(time_wait_recycled, "TWRecycled", "TIME-WAIT entries reopened by a new SYN (RFC 6191)")        \
  X(time_wait_overflow, "TCPTimeWaitOverflow", "TIME-WAIT entries given up for newer ones")        \
  X(timeouts, "TCPTimeouts", "Retransmission timeouts")                                            \
  X(fast_retrans, "TCPFastRetrans", "Segments sent again before their timeout")                    \
  X(sack_recovery, "TCPSackRecovery", "Recoveries entered with SACK")                              \
  X(reno_recovery, "TCPRenoRecovery", "Recoveries entered without SACK")                           \
  X(challenge_acks, "TCPChallengeACK", "Challenge acknowledgments sent (RFC 5961)")                \
  X(challenge_limited, "TCPACKSkippedChallenge", "Challenge acknowledgments not sent: rate limit") \
  X(paws_estab, "PAWSEstab", "Segments dropped by PAWS on established connections")                \
  X(out_of_order, "TCPOFOQueue", "Segments queued out of order")                                   \
  X(out_of_order_drop, "TCPOFODrop", "Out-of-order segments dropped for want of room")             \
  X(rcv_queue_drop, "TCPRcvQDrop", "Data dropped since the receive buffer or the pool was full")   \
  X(dsack_sent, "TCPDSACKOldSent", "Duplicates reported by D-SACK (RFC 2883)")                     \
  X(abort_on_data, "TCPAbortOnData", "Resets sent since data came after the user closed")          \
  X(abort_on_close, "TCPAbortOnClose", "Resets sent since the user closed with data unread")       \
  X(abort_on_timeout, "TCPAbortOnTimeout", "Connections given up after too many retransmissions")  \
  X(abort_on_linger, "TCPAbortOnLinger", "Connections reset by a zero linger time or Abort")       \
  X(keepalive_probes, "TCPKeepAlive", "Keepalive probes sent")                                     \
  X(window_probes, "TCPWinProbe", "Zero-window probes sent")                                       \
  X(zero_window_adv, "TCPToZeroWindowAdv", "Times a window was closed to zero")                    \
  X(lock_dropped_icmps, "OutOfWindowIcmps", "ICMP errors whose quote is outside the window")       \
  X(syn_retrans, "TCPSynRetrans", "SYN and SYN-ACK segments sent again")                           \
  X(syn_cookies_sent, "SyncookiesSent",                                                            \
    "SYN-ACKs sent with a cookie instead of a half-open entry")                                    \
  X(syn_cookies_received, "SyncookiesRecv", "Connections made from a good cookie")                 \
  X(syn_cookies_failed, "SyncookiesFailed",                                                        \
    "Acknowledgments to a flooded listener without a good cookie")                                 \
  X(abort_on_memory, "TCPAbortOnMemory", "Connections reset since too many had no user any more")
TAPWIRE_COUNTER_STRUCT(TcpExtCounters, TAPWIRE_TCP_EXT_COUNTERS);

#define TAPWIRE_ARP_COUNTERS(X)                                        \
  X(in_requests, "InRequests", "ARP requests received")                \
  X(in_replies, "InReplies", "ARP replies received")                   \
  X(out_requests, "OutRequests", "ARP requests sent, probes included") \
  X(out_replies, "OutReplies", "ARP replies sent")                     \
  X(conflicts, "Conflicts", "Packets that claimed one of our addresses")
TAPWIRE_COUNTER_STRUCT(ArpCounters, TAPWIRE_ARP_COUNTERS);

#define TAPWIRE_NEIGHBOR_COUNTERS(X)                                                     \
  X(created, "Created", "Entries made")                                                  \
  X(failed, "Failed", "Resolutions that got no answer")                                  \
  X(pending_dropped, "PendingDropped", "Packets pushed out of a full pending queue")     \
  X(table_full, "TableFull", "Entries refused since the table was full")                 \
  X(incomplete_full, "IncompleteFull", "Entries refused since too many were incomplete") \
  X(evicted, "Evicted", "Entries removed to make room")                                  \
  X(static_kept, "StaticKept", "Attempts to change a permanent entry")
TAPWIRE_COUNTER_STRUCT(NeighborCounters, TAPWIRE_NEIGHBOR_COUNTERS);

struct Mib {
  IpCounters ip, ip6;
  IcmpCounters icmp, icmp6;
  UdpCounters udp, udp6;
  TcpCounters tcp;  // both families, as in Linux
  TcpExtCounters tcp_ext;
  ArpCounters arp;
  NeighborCounters neighbor;
};

}  // namespace tapwire
