// SPDX-License-Identifier: Apache-2.0
// CUBIC in whole segments, rounded where Linux rounds, for Config::linux_habits. What RFC 9438 says
// is in cc_cubic.h.
#pragma once

#include "stack/tcp/congestion_control.h"

namespace tapwire::tcp {

class LinuxCubic final : public CongestionControl {
 public:
  using CongestionControl::CongestionControl;

  absl::string_view name() const override { return "cubic"; }
  void OnAck(const AckSample& sample) override;
  void OnCongestionEvent(uint32_t in_flight, Time now) override;
  void OnRetransmissionTimeout(uint32_t in_flight, bool first, Time now) override;
  void OnIdleRestart(uint32_t initial_window_bytes, Time now) override;

 private:
  void BeginEpoch(uint32_t cwnd, uint32_t acked, Time now);
  uint32_t SegmentsPerIncrease(uint32_t cwnd, Time now) const;
  void BeFriendly(uint32_t cwnd);

  // All in segments, but for k_: 1/1024 s.
  uint32_t per_increase_ = 0;  // so many acknowledged let cwnd grow by one
  uint32_t w_max_ = 0;
  uint32_t plateau_ = 0;
  uint32_t k_ = 0;
  uint32_t friendly_acked_ = 0, friendly_cwnd_ = 0;  // Reno in the same place
  uint32_t acked_ = 0;                               // towards the next increase
  uint32_t last_cwnd_ = 0;
  uint32_t min_rtt_us_ = UINT32_MAX;
  Time epoch_{};  // zero: none
  Time last_{};   // of per_increase_
};

}  // namespace tapwire::tcp
