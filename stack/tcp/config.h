// SPDX-License-Identifier: Apache-2.0
// Tunables of TCP. Two profiles: `linux` (the default; what scripts and users of Linux expect) and
// `rfc` (the defaults that the RFCs name). Values are read when used.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "netdev/base/time.h"

namespace tapwire::tcp {

// On a path this short the CPU, not a buffer, is what limits: larger ones only leave the cache.
inline constexpr Duration kShortPath = std::chrono::microseconds(200);

// No send buffer is smaller: one of a few bytes would send them one by one (Linux has as much).
inline constexpr size_t kMinSendBuffer = 2304;

// What a connection may still queue, and offer as window, when the pool's memory is tight.
inline constexpr uint32_t kTightQueue = 4096;
inline constexpr uint32_t kTightWindow = 32 << 10;

// SYN cookies (RFC 4987 §3.6), as Linux's tcp_syncookies.
enum class SynCookieMode : uint8_t {
  kNever = 0,
  kOnOverflow = 1,  // while max_half_open is reached
  kAlways = 2,      // for tests: no listener keeps half-open entries
};

// When segments are built larger than the MSS, to be cut by the transmit path.
enum class GsoMode : uint8_t {
  kAlways,  // up to the device's gso_max_size, whatever it can do itself
  kDevice,  // only when the route's device has GSO, or TSO of the family (Linux before 4.17)
};

struct Config {
  // Retransmission (RFC 6298, RFC 9293 §3.8.1 and §3.8.3).
  Duration initial_rto = std::chrono::seconds(1);
  Duration min_rto = std::chrono::milliseconds(200);  // RFC 6298 §2.4: 1 s
  // Floor of the variance term alone, as Linux has it; the RFC has none.
  Duration min_rto_variance = std::chrono::milliseconds(200);
  Duration max_rto = std::chrono::seconds(120);  // RFC 6298 §2.5: at least 60 s
  int retries_1 = 3;                             // then IP is asked for another way (R1, SHLD-10)
  int retries_2 = 15;       // then the connection is given up (R2; about 924 s with Linux's values)
  int syn_retries = 7;      // active open: 247 s with doubling (MUST-23: at least 3 minutes)
  int syn_ack_retries = 5;  // passive open
  int orphan_retries = 8;   // after the user closed and nobody is left to be told

  // Acknowledgments (RFC 9293 §3.8.6.3, RFC 5681 §4.2).
  Duration delayed_ack = std::chrono::milliseconds(40);  // MUST-40: below 0.5 s
  int quick_acks = 16;  // at the start of a connection each segment is acknowledged at once

  // Closing.
  Duration time_wait = std::chrono::seconds(60);   // 2 * MSL
  Duration fin_wait_2 = std::chrono::seconds(60);  // after the user is gone

  // Keepalive defaults (RFC 9293 §3.8.4, RFC 1122 §4.2.3.6).
  Duration keepalive_idle = std::chrono::hours(2);
  Duration keepalive_interval = std::chrono::seconds(75);
  int keepalive_probes = 9;

  // Zero-window probes (RFC 9293 §3.8.6.1) back off from the RTO up to this.
  Duration max_persist = std::chrono::seconds(120);

  // Buffers in bytes; a connection starts with `initial` and grows to `max` while the buffer, not
  // the application or the CPU, is what limits it.
  size_t receive_buffer_initial = 256u << 10;
  size_t receive_buffer_max = 15u << 20;
  size_t send_buffer_initial = 256u << 10;
  size_t send_buffer_max = 4u << 20;
  // A writer is not asked for more while so much is unsent (Linux's tcp_notsent_lowat).
  uint32_t notsent_low_water = UINT32_MAX;

  // Options offered (RFC 7323, RFC 2018).
  bool timestamps = true;
  bool sack = true;
  bool window_scaling = true;
  // Window scale to offer; none: the smallest that covers receive_buffer_max. 0 to 14.
  std::optional<uint8_t> window_scale = {};

  // Congestion control.
  std::string congestion_control = "cubic";
  uint32_t initial_window_segments = 10;  // RFC 6928
  bool slow_start_after_idle = true;      // RFC 5681 §4.1

  GsoMode gso = GsoMode::kAlways;
  uint32_t gso_max_bytes = 65535;  // of payload and headers; the device may allow less

  // At most one challenge acknowledgment per connection in this time (RFC 5961 §7).
  Duration invalid_rate_limit = std::chrono::milliseconds(500);

  // Budgets.
  size_t max_connections = 1u << 20;
  size_t max_half_open = 4096;                             // of one listener, in SYN-RECEIVED
  SynCookieMode syn_cookies = SynCookieMode::kOnOverflow;  // what further SYNs get
  size_t max_orphans = 1u << 16;         // connections whose user is gone; the next one is reset
  size_t max_time_wait = 1u << 18;       // the oldest goes when it is reached
  size_t max_out_of_order_ranges = 256;  // of one connection
  // A peer's MSS below this is taken as this (CVE-2019-11479).
  uint16_t min_mss = 88;

  // Habits of Linux that no RFC asks for and only those see who compare packets: LinuxExact().
  bool push_bursts = false;         // PSH on the last segment of what is handed down at once …
  uint32_t min_burst_segments = 0;  // … which is a millisecond's worth, but so much; 0: no limit
  bool half_window_segments = false;    // no segment above half the largest window offered
  bool whole_first_window = false;      // the window of a SYN is a multiple of the MSS
  bool half_used_window_grows = false;  // in slow start; else a window must be used up to grow
  int syn_linear_timeouts = 0;          // so many SYNs more, at the initial RTO, before it doubles
  Duration syn_retry_after_bad_ack = {};  // the first SYN goes again so soon; 0: at its time
  bool reset_ends_time_wait = false;      // though RFC 1337 advises against it
  bool cork_waits_rto = false;            // else 200 ms
  bool user_timeout_from_resend = false;  // counts from the first retransmission
  // Proportional rate reduction (RFC 9937), ssthresh from cwnd instead of FlightSize, counts of
  // segments where others have bytes, and what TCP_INFO tells of all that: habits.h.
  bool linux_habits = false;
  size_t told_receive_buffer = 0;  // SO_RCVBUF unless set, their overhead included; 0: …
  size_t told_send_buffer = 0;     // … the initial size. The same of SO_SNDBUF
  bool tail_loss_probes = false;   // RFC 8985 §7; with linux_habits

  static Config Linux() { return Config(); }
  // For packet scripts that were written on Linux (6.18).
  static Config LinuxExact() {
    Config c;
    c.push_bursts = true;
    c.min_burst_segments = 2;
    c.half_window_segments = true;
    c.whole_first_window = true;
    c.half_used_window_grows = true;
    c.syn_linear_timeouts = 4;
    c.syn_retries = 6;
    c.syn_retry_after_bad_ack = std::chrono::milliseconds(8);
    c.reset_ends_time_wait = true;
    c.cork_waits_rto = true;
    c.user_timeout_from_resend = true;
    c.linux_habits = true;
    c.told_receive_buffer = 128u << 10;
    c.told_send_buffer = 16u << 10;
    return c;
  }
  static Config Rfc() {
    Config c;
    c.min_rto = std::chrono::seconds(1);
    c.min_rto_variance = Duration::zero();
    c.delayed_ack = std::chrono::milliseconds(200);
    c.quick_acks = 0;
    c.time_wait = std::chrono::seconds(240);
    return c;
  }
};

}  // namespace tapwire::tcp
