// SPDX-License-Identifier: Apache-2.0
// Congestion control as a policy: how large cwnd is. When a loss counts as a congestion event is
// decided by recovery.cc. All windows in bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/strings/string_view.h"
#include "netdev/base/time.h"
#include "stack/tcp/seq.h"

namespace tapwire::tcp {

// Facts about one received acknowledgment, gathered once in ack.cc.
struct AckSample {
  Time now{};
  uint32_t newly_acked_bytes = 0;   // SND.UNA moved by so much
  uint32_t newly_sacked_bytes = 0;  // reported by SACK blocks for the first time
  uint32_t prior_in_flight = 0;     // pipe before this acknowledgment
  Duration rtt{-1};                 // negative: no sample
  Duration srtt{0};
  bool cwnd_limited = true;  // cwnd, not the application, bounded what was sent (RFC 7661 §4.1)
};

class CongestionControl {
 public:
  static constexpr uint32_t kInfiniteSsthresh = UINT32_MAX;

  explicit CongestionControl(uint32_t smss, uint32_t initial_window_bytes)
      : cwnd_(initial_window_bytes), smss_(smss) {}
  virtual ~CongestionControl() = default;

  // "reno", "cubic": as Linux's tcp_congestion_control.
  virtual absl::string_view name() const = 0;
  // New data was acknowledged outside of fast recovery. Must not lower cwnd.
  virtual void OnAck(const AckSample& sample) = 0;
  // A loss: sets ssthresh, and cwnd to it (RFC 5681 §3.2 step 2, RFC 9438 §4.6). Once per window.
  virtual void OnCongestionEvent(uint32_t in_flight, Time now) = 0;
  // RFC 5681 §3.1 equation 4: ssthresh, if this is the first timeout for that data; cwnd to one
  // segment.
  virtual void OnRetransmissionTimeout(uint32_t in_flight, bool first, Time now) = 0;
  // RFC 5681 §4.1: nothing was sent for longer than an RTO; cwnd to min(cwnd, initial_window).
  virtual void OnIdleRestart(uint32_t initial_window_bytes, Time now) = 0;

  uint32_t cwnd() const { return cwnd_; }
  uint32_t ssthresh() const { return ssthresh_; }
  uint32_t smss() const { return smss_; }
  bool in_slow_start() const { return cwnd_ < ssthresh_; }
  // The path's segment size changed; cwnd keeps its bytes, but never less than one segment.
  void set_smss(uint32_t smss) {
    smss_ = smss;
    if (cwnd_ < smss) cwnd_ = smss;
  }
  // What was decided elsewhere (Config::linux_habits).
  void SetWindow(uint32_t cwnd, uint32_t ssthresh) {
    cwnd_ = cwnd;
    ssthresh_ = ssthresh;
  }
  // As Linux: in slow start cwnd grows by all that was acknowledged (no limit L of RFC 3465 §2.3).
  virtual void set_unlimited_growth(bool /*unlimited*/) {}
  // The path takes smaller segments than was thought: cwnd keeps its count of segments, not of
  // bytes, lest a burst of small ones follow (RFC 5681 §3.1).
  void OnSmallerSegments(uint32_t before, uint32_t after) {
    cwnd_ = std::max(static_cast<uint32_t>(uint64_t{cwnd_} * after / before), smss_);
  }

 protected:
  // RFC 5681 equation 4: max(FlightSize / 2, 2 * SMSS).
  static constexpr uint32_t kMinSsthreshSegments = 2;
  // No window is larger (RFC 7323 §2.3), so no more can be in flight.
  static constexpr uint32_t kMaxCwnd = 1U << 30;

  void Grow(uint32_t bytes);
  // RFC 5681 §3.1 with bytes instead of acknowledgments (RFC 3465 §2.2): up to ssthresh, cwnd grows
  // by what was acknowledged, but by no more than `limit` at once. Returns the acknowledged bytes
  // that are left for congestion avoidance. Only while in_slow_start().
  uint32_t SlowStart(uint32_t acked_bytes, uint32_t limit);

  uint32_t cwnd_;
  uint32_t ssthresh_ = kInfiniteSsthresh;
  uint32_t smss_;
};

// Room for any of the algorithms inside a connection, so that choosing one costs no allocation.
class CongestionControlSlot {
 public:
  static constexpr size_t kBytes = 72;

  CongestionControlSlot() = default;
  CongestionControlSlot(const CongestionControlSlot&) = delete;
  CongestionControlSlot& operator=(const CongestionControlSlot&) = delete;
  ~CongestionControlSlot() { Reset(); }

  // Puts the algorithm of that name here, starting afresh. False, and no change, if none has it.
  bool Emplace(absl::string_view name, uint32_t smss, uint32_t initial_window_bytes);
  static bool IsKnown(absl::string_view name) { return name == "reno" || name == "cubic"; }

  CongestionControl* operator->() { return cc_; }
  const CongestionControl* operator->() const { return cc_; }
  CongestionControl& operator*() { return *cc_; }
  explicit operator bool() const { return cc_ != nullptr; }

 private:
  template <typename T>
  void Make(uint32_t smss, uint32_t initial_window_bytes) {
    static_assert(sizeof(T) <= kBytes && alignof(T) <= alignof(double));
    Reset();
    cc_ = new (storage_.data()) T(smss, initial_window_bytes);
  }
  void Reset() {
    if (cc_ != nullptr) std::exchange(cc_, nullptr)->~CongestionControl();
  }

  alignas(double) std::array<std::byte, kBytes> storage_;
  CongestionControl* cc_ = nullptr;
};

}  // namespace tapwire::tcp
