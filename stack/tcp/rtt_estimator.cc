// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/rtt_estimator.h"

#include <algorithm>

namespace tapwire::tcp {
namespace {

// 8 * SRTT must fit in 32 bits, and 4 * RTTVAR too.
constexpr int64_t kMaxSampleUs = 500'000'000;

// value + delta / divisor, rounded to the nearest: cutting off would pull every average down.
uint32_t Approach(uint32_t value, int64_t delta, int64_t divisor) {
  const int64_t half = delta < 0 ? -(divisor / 2) : divisor / 2;
  return static_cast<uint32_t>(value + (delta + half) / divisor);
}

}  // namespace

void RttEstimator::OnSample(Duration rtt, uint32_t samples_per_rtt) {
  const int64_t us = std::clamp<int64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(rtt).count(), 1, kMaxSampleUs);
  const auto sample = static_cast<uint32_t>(us);
  min_rtt_us_ = min_rtt_us_ == 0 ? sample : std::min(min_rtt_us_, sample);
  backoff_ = 0;
  if (!has_sample()) {
    srtt_us_ = sample * 8;
    rttvar_us_ = sample * 2;  // R / 2, times 4
    return;
  }
  // RFC 7323 appendix G: alpha = 1/8 and beta = 1/4 hold for one sample in each RTT.
  const int64_t samples = std::max<uint32_t>(samples_per_rtt, 1);
  // RTTVAR first: it is the deviation from the SRTT before this sample.
  const int64_t error = us * 8 - srtt_us_;  // * 8
  const int64_t deviation = error < 0 ? -error : error;
  rttvar_us_ = Approach(rttvar_us_, deviation - int64_t{rttvar_us_} * 2, 8 * samples);
  srtt_us_ = std::max<uint32_t>(Approach(srtt_us_, error, 8 * samples), 1);
}

Duration RttEstimator::BaseRto(const Limits& limits) const {
  if (has_sample()) {
    // rttvar_us_ holds 4 * RTTVAR.
    const Duration variation = std::max<Duration>(
        {kClockGranularity, limits.min_variance, std::chrono::microseconds(rttvar_us_)});
    return std::max(srtt() + variation, limits.min_rto);
  }
  const bool syn_lost = handshake_done_ && syn_retransmitted_;
  return syn_lost ? std::max(limits.initial_rto, kRtoAfterSynLoss) : limits.initial_rto;
}

Duration RttEstimator::Rto(const Limits& limits) const {
  const Duration base = BaseRto(limits);
  // Compared before it is doubled: 31 doublings of seconds do not fit in 64 bits of nanoseconds.
  if (base >= limits.max_rto / (int64_t{1} << backoff_)) return limits.max_rto;
  return base * (int64_t{1} << backoff_);
}

}  // namespace tapwire::tcp
