// SPDX-License-Identifier: Apache-2.0
// What a user may set on a socket; a listener hands its own on to the connections it makes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "netdev/base/time.h"

namespace tapwire::tcp {

struct SocketOptions {
  bool nodelay = false;                         // TCP_NODELAY: no Nagle (RFC 9293 MUST-17)
  bool cork = false;                            // TCP_CORK: only full segments, for at most 200 ms
  bool quick_ack = false;                       // TCP_QUICKACK: acknowledge each segment at once
  bool keepalive = false;                       // SO_KEEPALIVE (MUST-24, MUST-25)
  std::optional<Duration> keepalive_idle = {};  // TCP_KEEPIDLE; none: the configuration's
  std::optional<Duration> keepalive_interval = {};  // TCP_KEEPINTVL
  std::optional<int> keepalive_probes = {};         // TCP_KEEPCNT
  // TCP_USER_TIMEOUT (MUST-21, RFC 5482): unacknowledged data or probes for so long end the
  // connection; 0: the retry limits do.
  Duration user_timeout{0};
  std::optional<Duration> linger = {};  // SO_LINGER; 0: Close() resets
  uint16_t max_segment = 0;             // TCP_MAXSEG: upper bound of both directions; 0: none
  uint8_t ttl = 0;                      // 0: the stack's default (MUST-49)
  uint8_t tos = 0;                      // MUST-48
  // Fixed buffer sizes in bytes (SO_SNDBUF, SO_RCVBUF: user bytes, not doubled); 0: automatic.
  size_t send_buffer = 0;
  size_t receive_buffer = 0;
  uint32_t window_clamp = 0;            // TCP_WINDOW_CLAMP; 0: none
  std::string congestion_control = {};  // TCP_CONGESTION; empty: the configuration's
  bool reuse_address = false;           // SO_REUSEADDR
  bool v6_only = false;                 // an IPv6 wildcard listener takes IPv4 too unless set
  uint32_t ifindex = 0;                 // SO_BINDTODEVICE
  int syn_retries = 0;                  // TCP_SYNCNT; 0: the configuration's
  // TCP_DEFER_ACCEPT: a handshake ends only with data until so many SYN-ACKs were sent again.
  int defer_accept = 0;
  std::optional<Duration> fin_wait_2 = {};  // TCP_LINGER2; none: the configuration's, < 0: none
  uint32_t notsent_low_water = 0;           // TCP_NOTSENT_LOWAT; 0: the configuration's
  bool save_syn = false;                    // TCP_SAVE_SYN

  friend bool operator==(const SocketOptions&, const SocketOptions&) = default;
};

}  // namespace tapwire::tcp
