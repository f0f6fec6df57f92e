// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/congestion_control.h"

#include <algorithm>

#include "stack/tcp/cc_cubic.h"
#include "stack/tcp/cc_cubic_linux.h"
#include "stack/tcp/cc_newreno.h"

namespace tapwire::tcp {

void CongestionControl::Grow(uint32_t bytes) {
  const uint64_t grown = uint64_t{cwnd_} + bytes;
  cwnd_ = std::max(cwnd_, static_cast<uint32_t>(std::min<uint64_t>(grown, kMaxCwnd)));
}

uint32_t CongestionControl::SlowStart(uint32_t acked_bytes, uint32_t limit) {
  const uint32_t used = std::min(acked_bytes, ssthresh_ - cwnd_);
  Grow(std::min(used, limit));
  return acked_bytes - used;
}

bool CongestionControlSlot::Emplace(absl::string_view name, uint32_t smss,
                                    uint32_t initial_window_bytes) {
  if (name == "cubic") {
    Make<Cubic>(smss, initial_window_bytes);
  } else if (name == "cubic of Linux") {
    Make<LinuxCubic>(smss, initial_window_bytes);
  } else if (name == "reno") {
    Make<NewReno>(smss, initial_window_bytes);
  } else {
    return false;
  }
  return true;
}

}  // namespace tapwire::tcp
