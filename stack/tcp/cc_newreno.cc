// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/cc_newreno.h"

#include <algorithm>

namespace tapwire::tcp {

// RFC 5681 equation 4.
uint32_t NewReno::SsthreshAfterLoss(uint32_t in_flight) const {
  return std::max(in_flight / 2, kMinSsthreshSegments * smss_);
}

void NewReno::OnAck(const AckSample& sample) {
  // RFC 7661 §3: a window that was not used has not been shown to fit the path.
  if (sample.newly_acked_bytes == 0 || !sample.cwnd_limited) return;
  uint32_t acked = sample.newly_acked_bytes;
  if (in_slow_start()) {
    // RFC 3465 §2.3: L is two segments, to make up for delayed acknowledgments. After a timeout it
    // is one: there an acknowledgment may cover much that left the network long ago.
    acked = SlowStart(acked, unlimited_growth_ ? acked : (after_timeout_ ? 1 : 2) * smss_);
    if (in_slow_start()) return;
    bytes_acked_ = 0;
  }
  after_timeout_ = false;
  // RFC 3465 §2.1: one segment for each window acknowledged, and never more than one at a time.
  bytes_acked_ += std::min(acked, cwnd_);
  if (bytes_acked_ >= cwnd_) {
    bytes_acked_ -= cwnd_;
    Grow(smss_);
  }
}

void NewReno::OnCongestionEvent(uint32_t in_flight, Time) {
  ssthresh_ = SsthreshAfterLoss(in_flight);
  cwnd_ = ssthresh_;
  bytes_acked_ = 0;
}

void NewReno::OnRetransmissionTimeout(uint32_t in_flight, bool first, Time) {
  // RFC 5681 §3.1: "the value of ssthresh is held constant" when the same data times out again.
  if (first) ssthresh_ = SsthreshAfterLoss(in_flight);
  cwnd_ = smss_;
  bytes_acked_ = 0;
  after_timeout_ = true;
}

void NewReno::OnIdleRestart(uint32_t initial_window_bytes, Time) {
  cwnd_ = std::min(cwnd_, initial_window_bytes);
  bytes_acked_ = 0;
}

}  // namespace tapwire::tcp
