// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/cc_cubic.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tapwire::tcp {
namespace {

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

double Cubic::WCubic(double t) const {
  const double from_plateau = t - k_;
  return kC * smss_ * from_plateau * from_plateau * from_plateau + w_max_;
}

// RFC 9438 §4.6, in integers: 0.7 has no exact double.
uint32_t Cubic::SsthreshAfterLoss(uint32_t in_flight) const {
  return std::max(static_cast<uint32_t>(uint64_t{in_flight} * 7 / 10),
                  kMinSsthreshSegments * smss_);
}

void Cubic::OnAck(const AckSample& sample) {
  if (sample.newly_acked_bytes == 0) return;
  if (in_epoch_) SkipUnusedTime(sample);
  // RFC 7661 §3: a window that was not used has not been shown to fit the path.
  if (!sample.cwnd_limited) return;
  uint32_t acked = sample.newly_acked_bytes;
  if (in_slow_start()) {
    // Deviation: no limit L as in RFC 3465 §2.3 (Linux has none either). One acknowledgment for a
    // super-packet of 64 KiB is the rule here, and a limit would make slow start linear.
    acked = SlowStart(acked, acked);
    if (acked == 0) return;
  }
  CongestionAvoidance(acked, sample);
}

// RFC 9438 §4.2: t does not include periods in which the application was the limit. While cwnd is
// used, acknowledgments are no further apart than a round trip; what exceeds it was idle time.
void Cubic::SkipUnusedTime(const AckSample& sample) {
  const Duration gap = sample.now - last_ack_;
  last_ack_ = sample.now;
  if (!sample.cwnd_limited) {
    epoch_start_ += gap;
  } else if (sample.srtt > Duration::zero()) {
    epoch_start_ += std::max(gap - std::max(sample.srtt, sample.rtt), Duration::zero());
  }
}

void Cubic::BeginEpoch(Time now) {
  in_epoch_ = true;
  epoch_start_ = now;
  last_ack_ = now;
  credit_ = 0;
  const double cwnd_epoch = cwnd_;
  w_est_ = cwnd_epoch;
  if (cwnd_epoch < w_max_) {
    k_ = std::cbrt((w_max_ - cwnd_epoch) / (kC * smss_));
  } else {
    // §4.8 after a timeout, §4.10 after slow start without loss, and a window that has outgrown
    // W_max: the curve starts at its plateau.
    k_ = 0;
    w_max_ = cwnd_epoch;
  }
}

void Cubic::CongestionAvoidance(uint32_t acked_bytes, const AckSample& sample) {
  if (!in_epoch_) BeginEpoch(sample.now);
  const double cwnd = cwnd_;
  // More than a window cannot be acknowledged by fair means.
  const double windows_acked = std::min(acked_bytes / cwnd, 1.0);
  const double t = Seconds(sample.now - epoch_start_);

  // §4.3: once W_est is back at the window before the loss, it grows like Reno's.
  const double alpha = w_est_ >= cwnd_prior_ ? 1.0 : kAlphaCubic;
  w_est_ += alpha * windows_acked * smss_;

  double grown = cwnd + static_cast<double>(credit_);
  if (WCubic(t) < w_est_) {
    grown = std::max(grown, w_est_);
  } else {
    // §4.4 and §4.5: towards the window of one RTT from now, at most by half in one RTT. The RFC
    // adds (target - cwnd) / cwnd for each acknowledged segment; one acknowledgment stands for all
    // the segments that it covers.
    const double target = std::clamp(WCubic(t + Seconds(sample.srtt)), cwnd, 1.5 * cwnd);
    grown += (target - cwnd) * windows_acked;
  }
  const double whole = std::floor(std::min<double>(grown - cwnd, kMaxCwnd));
  credit_ = static_cast<float>(std::min(grown - cwnd - whole, 0.999));
  Grow(static_cast<uint32_t>(whole));
}

void Cubic::OnCongestionEvent(uint32_t in_flight, Time) {
  // §4.7, fast convergence: a flow that lost before it was back at its old W_max gives way to
  // others by aiming lower.
  const double cwnd = cwnd_;
  w_max_ = cwnd < w_max_ ? cwnd * (1.0 + kBetaCubic) / 2.0 : cwnd;
  cwnd_prior_ = cwnd_;
  ssthresh_ = SsthreshAfterLoss(in_flight);
  cwnd_ = ssthresh_;
  in_epoch_ = false;
}

void Cubic::OnRetransmissionTimeout(uint32_t in_flight, bool first, Time) {
  if (first) {
    cwnd_prior_ = cwnd_;
    ssthresh_ = SsthreshAfterLoss(in_flight);
  }
  cwnd_ = smss_;
  // §4.8: K is 0 and W_max the window at the start of the stage that follows.
  w_max_ = 0;
  in_epoch_ = false;
}

void Cubic::OnIdleRestart(uint32_t initial_window_bytes, Time) {
  if (cwnd_ <= initial_window_bytes) return;
  cwnd_ = initial_window_bytes;
  in_epoch_ = false;  // slow start comes first; then a stage of its own
}

}  // namespace tapwire::tcp
