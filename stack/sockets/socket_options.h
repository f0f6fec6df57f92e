// SPDX-License-Identifier: Apache-2.0
// The map between getsockopt/setsockopt and the stack's options, and the layout of TCP_INFO.
//
//   SOL_SOCKET    SO_ERROR SO_TYPE SO_DOMAIN SO_PROTOCOL SO_ACCEPTCONN SO_REUSEADDR SO_REUSEPORT
//                 SO_KEEPALIVE SO_LINGER SO_SNDBUF SO_RCVBUF SO_RCVTIMEO SO_SNDTIMEO SO_BROADCAST
//                 SO_RCVLOWAT SO_SNDLOWAT (read only) SO_OOBINLINE SO_PRIORITY (kept, no effect)
//   IPPROTO_IP    IP_TOS IP_TTL IP_MTU IP_MTU_DISCOVER IP_RECVERR (kept, no effect)
//   IPPROTO_IPV6  IPV6_V6ONLY IPV6_UNICAST_HOPS IPV6_TCLASS IPV6_MTU (read only) IPV6_MTU_DISCOVER
//                 IPV6_RECVERR (kept, no effect)
//   IPPROTO_TCP   socket_options_tcp.cc
//
// SO_REUSEPORT is taken and kept, and does nothing. Unknown ones are ENOPROTOOPT.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "netdev/base/time.h"
#include "netdev/wire/ip_address.h"
#include "stack/tcp/config.h"
#include "stack/tcp/options.h"
#include "stack/tcp/tcp_info.h"

namespace tapwire::internal {

// getsockopt's arguments; the functions give its result.
struct OptionBuffer {
  int level = 0;
  int name = 0;
  void* value = nullptr;
  socklen_t* length = nullptr;

  int Put(const void* from, size_t size) const;
  int PutInt(int n) const { return Put(&n, sizeof(n)); }
  // As Linux's IP level: a buffer shorter than an int gets one byte if the value fits.
  int PutSmall(int n) const;
};

// setsockopt's.
struct OptionInput {
  int level = 0;
  int name = 0;
  const void* value = nullptr;
  socklen_t length = 0;

  // 0, -EINVAL too short, -EFAULT.
  int Get(void* into, size_t size) const;
  int GetInt(int& n) const { return Get(&n, sizeof(n)); }
};

// What is the same for every kind of socket.
struct CommonOptions {
  IpFamily family = IpFamily::kV4;
  int type = SOCK_STREAM;
  int protocol = 0;
  bool reuse_address = false;
  bool reuse_port = false;
  bool broadcast = false;
  bool oob_inline = false;
  bool keepalive = false;
  bool v6_only = false;
  bool receive_errors = false;
  int priority = 0;
  int receive_low_water = 1;
  Duration receive_timeout{0};
  Duration send_timeout{0};
  std::optional<Duration> linger = {};
  size_t send_buffer = 0;     // user bytes; 0: automatic
  size_t receive_buffer = 0;  // the same
  int ttl = -1;               // -1: the stack's default
  int hop_limit = -1;
  int tos = 0;
  int traffic_class = 0;
  int mtu_discover = 1;  // IP_PMTUDISC_WANT
};

// What getsockopt tells beyond CommonOptions.
struct SocketFacts {
  int error = 0;           // SO_ERROR; the caller clears it
  bool listening = false;  // SO_ACCEPTCONN
  bool bound = false;      // IPV6_V6ONLY cannot be changed any more
  size_t send_buffer = 0;  // SO_SNDBUF, SO_RCVBUF as they are
  size_t receive_buffer = 0;
  size_t send_buffer_max = 0;  // a larger SO_SNDBUF is cut to this, as by net.core.wmem_max
  size_t receive_buffer_max = 0;
  int default_ttl = 64;
  int default_hop_limit = 64;
  std::optional<uint32_t> path_mtu = {};  // IP_MTU; none: not connected
};

// -ENOPROTOOPT for a level or name that is not here.
int GetCommonOption(const OptionBuffer& out, const CommonOptions& options,
                    const SocketFacts& facts);
int SetCommonOption(const OptionInput& in, CommonOptions& options, const SocketFacts& facts);

// Linux's struct tcp_info with the tail of 6.18 (AccECN): 280 bytes. Where we keep no such count
// the field is 0.
struct LinuxTcpInfo {
  uint8_t state, ca_state, retransmits, probes, backoff, options;
  uint8_t wscale;  // snd in the low four bits, rcv in the high four
  uint8_t flags;   // delivery_rate_app_limited, fastopen_client_fail
  uint32_t rto, ato, snd_mss, rcv_mss;
  uint32_t unacked, sacked, lost, retrans, fackets;
  uint32_t last_data_sent, last_ack_sent, last_data_recv, last_ack_recv;
  uint32_t pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss, reordering;
  uint32_t rcv_rtt, rcv_space, total_retrans;
  uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
  uint32_t segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out;
  uint64_t delivery_rate, busy_time, rwnd_limited, sndbuf_limited;
  uint32_t delivered, delivered_ce;
  uint64_t bytes_sent, bytes_retrans;
  uint32_t dsack_dups, reord_seen, rcv_ooopack, snd_wnd;
  uint32_t rcv_wnd, rehash;
  uint16_t total_rto, total_rto_recoveries;
  uint32_t total_rto_time, received_ce;
  uint32_t delivered_e1_bytes, delivered_e0_bytes, delivered_ce_bytes;
  uint32_t received_e1_bytes, received_e0_bytes, received_ce_bytes;
  uint32_t accecn;  // ecn_mode:2, accecn_opt_seen:2, accecn_fail_mode:4, options2:24
};
static_assert(sizeof(LinuxTcpInfo) == 280);
static_assert(offsetof(LinuxTcpInfo, snd_wnd) == 228);
static_assert(offsetof(LinuxTcpInfo, accecn) == 276);

LinuxTcpInfo ToLinux(const tcp::TcpInfo& info);
// State numbers of Linux's tcp_info: 1 ESTABLISHED … 7 CLOSE, 10 LISTEN, 11 CLOSING.
inline constexpr uint8_t kLinuxTcpClose = 7;
inline constexpr uint8_t kLinuxTcpListen = 10;

// IPPROTO_TCP, kept by the socket beside tcp::SocketOptions.
struct TcpOptionState {
  tcp::SocketOptions socket;
  std::optional<int> linger2_s = {};  // TCP_LINGER2; < 0: FIN-WAIT-2 is left out
  bool tell_unread = false;           // TCP_INQ
  bool quick_ack_told = true;         // TCP_QUICKACK as getsockopt tells it; Linux starts with 1
};
struct TcpFacts {
  const tcp::Config* config = nullptr;
  bool closed = true;  // CLOSE: TCP_WINDOW_CLAMP may be cleared, TCP_MAXSEG is the user's
  bool listening = false;
  uint32_t mss = 536;  // of the connection
  LinuxTcpInfo info = {};
  // TCP_SAVED_SYN; called at most once.
  std::function<std::vector<uint8_t>()> take_saved_syn = {};
};
int GetTcpOption(const OptionBuffer& out, const TcpOptionState& options, const TcpFacts& facts);
int SetTcpOption(const OptionInput& in, TcpOptionState& options, const TcpFacts& facts);

}  // namespace tapwire::internal
