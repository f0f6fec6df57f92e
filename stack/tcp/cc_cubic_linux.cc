// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/cc_cubic_linux.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tapwire::tcp {
namespace {

constexpr uint32_t kBeta = 717;          // of 1024
constexpr uint32_t kFriendlyScale = 15;  // of 8: 8 * (1024 + beta) / 3 / (1024 - beta)
constexpr double kC = 410.0 / 1024.0;    // 0.4 in tenths of 41
constexpr Duration kStill = std::chrono::microseconds(31'250);

}  // namespace

void LinuxCubic::OnAck(const AckSample& sample) {
  if (sample.rtt > Duration::zero()) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(sample.rtt).count();
    min_rtt_us_ = std::min(min_rtt_us_, static_cast<uint32_t>(std::max<int64_t>(us, 1)));
  }
  if (sample.newly_acked_bytes == 0 || !sample.cwnd_limited) return;
  uint32_t bytes = sample.newly_acked_bytes;
  if (in_slow_start()) bytes = SlowStart(bytes, bytes);
  const uint32_t acked = (bytes + smss_ - 1) / smss_;
  if (acked == 0) return;
  const uint32_t cwnd = std::max(cwnd_ / smss_, 1u);
  friendly_acked_ += acked;
  const bool still = last_cwnd_ == cwnd && sample.now - last_ <= kStill;
  if (!still || epoch_ == Time()) {
    last_cwnd_ = cwnd;
    last_ = sample.now;
    if (epoch_ == Time()) BeginEpoch(cwnd, acked, sample.now);
    per_increase_ = SegmentsPerIncrease(cwnd, sample.now);
    BeFriendly(cwnd);
  }
  if (acked_ >= per_increase_) {
    acked_ = 0;
    Grow(smss_);
  }
  acked_ += acked;
  if (acked_ < per_increase_) return;
  Grow(acked_ / per_increase_ * smss_);
  acked_ %= per_increase_;
}

void LinuxCubic::BeginEpoch(uint32_t cwnd, uint32_t acked, Time now) {
  epoch_ = now;
  friendly_acked_ = acked;
  friendly_cwnd_ = cwnd;
  k_ = 0;
  plateau_ = cwnd;
  if (w_max_ <= cwnd) return;
  k_ = static_cast<uint32_t>(std::cbrt((w_max_ - cwnd) / kC) * 1024.0);
  plateau_ = w_max_;
}

uint32_t LinuxCubic::SegmentsPerIncrease(uint32_t cwnd, Time now) const {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(now - epoch_).count();
  const int64_t rtt = min_rtt_us_ == UINT32_MAX ? 0 : int64_t{min_rtt_us_};
  const double t = static_cast<double>(since + rtt) * 1024.0 / 1e6;
  const double off = std::fabs(t - k_) / 1024.0;
  const auto delta = static_cast<uint32_t>(std::min(kC * off * off * off, 1e9));
  const uint32_t target = t < k_ ? plateau_ - std::min(delta, plateau_) : plateau_ + delta;
  const uint32_t count = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
  return w_max_ == 0 ? std::min(count, 20u) : count;
}

void LinuxCubic::BeFriendly(uint32_t cwnd) {
  const uint32_t step = std::max(cwnd * kFriendlyScale / 8, 1u);
  const uint32_t steps = friendly_acked_ > step ? (friendly_acked_ - 1) / step : 0;
  friendly_acked_ -= steps * step;
  friendly_cwnd_ += steps;
  if (friendly_cwnd_ > cwnd) {
    per_increase_ = std::min(per_increase_, cwnd / (friendly_cwnd_ - cwnd));
  }
  per_increase_ = std::max(per_increase_, 2u);
}

// RFC 9438 §4.6, §4.7. `in_flight` is cwnd here.
void LinuxCubic::OnCongestionEvent(uint32_t in_flight, Time) {
  const uint32_t cwnd = in_flight / smss_;
  epoch_ = Time();
  w_max_ = cwnd < w_max_ ? cwnd * (1024 + kBeta) / 2048 : cwnd;
  acked_ = 0;
  ssthresh_ = std::max(cwnd * kBeta / 1024, kMinSsthreshSegments) * smss_;
  cwnd_ = ssthresh_;
}

void LinuxCubic::OnRetransmissionTimeout(uint32_t in_flight, bool first, Time now) {
  if (first) OnCongestionEvent(in_flight, now);
  cwnd_ = smss_;
  per_increase_ = w_max_ = last_cwnd_ = friendly_acked_ = acked_ = 0;
  epoch_ = Time();
}

void LinuxCubic::OnIdleRestart(uint32_t initial_window_bytes, Time) {
  cwnd_ = std::min(cwnd_, initial_window_bytes);
}

}  // namespace tapwire::tcp
