// SPDX-License-Identifier: Apache-2.0
// NewReno: slow start and congestion avoidance of RFC 5681 §3.1, counting bytes (RFC 3465). Fast
// recovery itself (RFC 6582, RFC 6675) is in recovery.cc.
#pragma once

#include "stack/tcp/congestion_control.h"

namespace tapwire::tcp {

class NewReno final : public CongestionControl {
 public:
  using CongestionControl::CongestionControl;

  absl::string_view name() const override { return "reno"; }
  void OnAck(const AckSample& sample) override;
  void OnCongestionEvent(uint32_t in_flight, Time now) override;
  void OnRetransmissionTimeout(uint32_t in_flight, bool first, Time now) override;
  void OnIdleRestart(uint32_t initial_window_bytes, Time now) override;
  void set_unlimited_growth(bool unlimited) override { unlimited_growth_ = unlimited; }

 private:
  uint32_t SsthreshAfterLoss(uint32_t in_flight) const;

  uint32_t bytes_acked_ = 0;  // towards the next segment of congestion avoidance
  bool unlimited_growth_ = false;
  bool after_timeout_ = false;  // this slow start follows a timeout
};

}  // namespace tapwire::tcp
