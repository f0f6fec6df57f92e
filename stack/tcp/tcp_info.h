// SPDX-License-Identifier: Apache-2.0
// TcpInfo: a snapshot of one connection, under the names of Linux's struct tcp_info without their
// prefix. Times in microseconds, sizes in bytes unless the name says segments.
#pragma once

#include <cstdint>
#include <string>

#include "stack/tcp/state.h"

namespace tapwire::tcp {

// As Linux's tcpi_ca_state.
enum class RecoveryState : uint8_t { kOpen = 0, kDisorder = 1, kCwr = 2, kRecovery = 3, kLoss = 4 };

struct TcpInfo {
  State state = State::kClosed;
  RecoveryState ca_state = RecoveryState::kOpen;
  uint8_t retransmits = 0;  // unanswered retransmission timeouts in a row
  uint8_t probes = 0;       // unanswered zero-window or keepalive probes
  uint8_t backoff = 0;
  bool timestamps = false, sack = false, window_scaling = false;
  uint8_t snd_wscale = 0, rcv_wscale = 0;
  uint32_t rto_us = 0, ato_us = 0;
  uint32_t snd_mss = 0, rcv_mss = 0, advmss = 0, pmtu = 0;
  uint32_t unacked_segs = 0, sacked_segs = 0, lost_segs = 0, retrans_segs = 0;
  uint32_t rtt_us = 0, rttvar_us = 0, min_rtt_us = 0;
  uint32_t snd_cwnd_bytes = 0, snd_ssthresh_bytes = 0;
  uint32_t snd_wnd = 0, rcv_wnd = 0, rcv_space = 0;
  uint32_t notsent_bytes = 0;
  uint64_t bytes_acked = 0, bytes_received = 0, bytes_sent = 0, bytes_retrans = 0;
  uint32_t segs_out = 0, segs_in = 0, data_segs_out = 0, data_segs_in = 0;
  uint32_t total_retrans_segs = 0, delivered_segs = 0;
  uint32_t out_of_order_segs = 0, dsacks = 0;
  uint32_t timeouts = 0, timeout_recoveries = 0, timeout_ms = 0;
  uint64_t busy_us = 0, window_limited_us = 0, buffer_limited_us = 0;
  uint32_t rcv_ssthresh = 0;
  bool linux_habits = false;  // Config::linux_habits
  uint32_t last_data_sent_ms = 0, last_data_recv_ms = 0, last_ack_recv_ms = 0;
  std::string congestion_control;
};

}  // namespace tapwire::tcp
