// SPDX-License-Identifier: Apache-2.0
// CUBIC (RFC 9438). After a loss the window follows a cubic function of time that flattens out near
// W_max, the size at which the loss came, and then probes beyond it:
//
//   cwnd                             /     W_cubic(t) = C * (t - K)^3 + W_max
//   W_max - - - - - - - ._____------'      C = 0.4 segments / s^3
//             _.--'"
//   cwnd_epoch         |                   K: when W_max is reached again
//        t = 0         K
//
// Where Reno would be faster, its window W_est is used instead (§4.3). t counts from the first
// acknowledgment of a congestion avoidance stage ("epoch") and leaves out the time in which the
// application, not cwnd, was the limit (§4.2).
//
// Names are those of the RFC; windows are in bytes, so that a change of SMSS does not disturb them.
#pragma once

#include "stack/tcp/congestion_control.h"

namespace tapwire::tcp {

class Cubic final : public CongestionControl {
 public:
  static constexpr double kC = 0.4;          // segments / s^3 (RFC 9438 §5)
  static constexpr double kBetaCubic = 0.7;  // §4.6
  // §4.3: as fast as Reno with its beta of one half.
  static constexpr double kAlphaCubic = 3.0 * (1.0 - kBetaCubic) / (1.0 + kBetaCubic);

  using CongestionControl::CongestionControl;

  absl::string_view name() const override { return "cubic"; }
  void OnAck(const AckSample& sample) override;
  void OnCongestionEvent(uint32_t in_flight, Time now) override;
  void OnRetransmissionTimeout(uint32_t in_flight, bool first, Time now) override;
  void OnIdleRestart(uint32_t initial_window_bytes, Time now) override;

 private:
  uint32_t SsthreshAfterLoss(uint32_t in_flight) const;
  void BeginEpoch(Time now);
  void SkipUnusedTime(const AckSample& sample);
  void CongestionAvoidance(uint32_t acked_bytes, const AckSample& sample);
  // W_cubic at t seconds after the beginning of the epoch.
  double WCubic(double t) const;

  uint32_t cwnd_prior_ = 0;  // cwnd when ssthresh was last set
  Time epoch_start_{};       // t = 0, moved up by the time that does not count
  Time last_ack_{};          // in this epoch
  double w_max_ = 0;         // 0: the next epoch starts on the plateau (K = 0)
  double k_ = 0;             // seconds
  double w_est_ = 0;
  float credit_ = 0;  // the part of a byte that cwnd has grown by
  bool in_epoch_ = false;
};

}  // namespace tapwire::tcp
