// SPDX-License-Identifier: Apache-2.0
// Round-trip time and retransmission timeout (RFC 6298; with timestamps RFC 7323 §4). Karn's rule
// (no sample from a segment that was sent more than once) is the caller's.
#pragma once

#include <cstdint>

#include "netdev/base/time.h"

namespace tapwire::tcp {

class RttEstimator {
 public:
  // G of RFC 6298: retransmission timers run in steps of a millisecond.
  static constexpr Duration kClockGranularity = std::chrono::milliseconds(1);
  // RFC 6298 §5.7.
  static constexpr Duration kRtoAfterSynLoss = std::chrono::seconds(3);

  struct Limits {
    Duration initial_rto;  // RFC 6298 §2.1: 1 s
    Duration min_rto;      // RFC 6298 §2.4: 1 s; Linux 200 ms
    Duration max_rto;      // RFC 6298 §2.5: at least 60 s
    // Linux takes 4 * RTTVAR for this much at least; RFC 6298: 0.
    Duration min_variance = Duration::zero();
  };

  // RFC 6298 §2.2 for the first sample, §2.3 for the others. A sample also ends the back-off
  // (§5, last paragraph). `samples_per_rtt` ≥ 1 weakens each sample when many are taken in one RTT
  // (RFC 7323 §4.2, appendix G). A sample below 1 µs counts as 1 µs, one above 500 s as 500 s.
  void OnSample(Duration rtt, uint32_t samples_per_rtt = 1);
  // RFC 6298 §5.5: doubles the RTO up to the maximum.
  void BackOff() {
    if (backoff_ < 31) ++backoff_;
  }
  // A SYN or SYN-ACK was retransmitted. Changes nothing yet: the handshake goes on backing off.
  void OnSynRetransmitted() { syn_retransmitted_ = true; }
  // The handshake is done. RFC 6298 §5.7: if the SYN was retransmitted, data starts with an RTO of
  // at least 3 s, unless there is a sample already (timestamps give one).
  void OnHandshakeDone() {
    handshake_done_ = true;
    backoff_ = 0;
  }

  // The RTO with back-off. RFC 6298 §2.3: SRTT + max(G, 4 * RTTVAR), within the limits.
  Duration Rto(const Limits& limits) const;
  bool has_sample() const { return srtt_us_ != 0; }
  Duration srtt() const { return std::chrono::nanoseconds(int64_t{srtt_us_} * 1000 / 8); }
  Duration rttvar() const { return std::chrono::nanoseconds(int64_t{rttvar_us_} * 1000 / 4); }
  // Smallest sample of the connection; 0: none yet.
  Duration min_rtt() const { return std::chrono::microseconds(min_rtt_us_); }
  uint8_t backoff() const { return backoff_; }

 private:
  Duration BaseRto(const Limits& limits) const;

  uint32_t srtt_us_ = 0;    // microseconds * 8
  uint32_t rttvar_us_ = 0;  // microseconds * 4
  uint32_t min_rtt_us_ = 0;
  uint8_t backoff_ = 0;  // doublings since the last sample
  bool syn_retransmitted_ = false;
  bool handshake_done_ = false;
};

static_assert(sizeof(RttEstimator) <= 16);

}  // namespace tapwire::tcp
