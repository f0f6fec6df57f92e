// SPDX-License-Identifier: Apache-2.0
//
// Time as the stack sees it. Nothing below a runner reads a clock: time is handed in, read once per
// batch, so that the same code runs on a real clock and in a simulator.
#pragma once

#include <chrono>
#include <cstdint>

namespace tapwire {

// Tag of the stack's time line. It has no now() on purpose: a call to a global clock does not
// compile. The zero point is the runner's choice; only differences mean anything.
struct MonotonicClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicClock, duration>;
  static constexpr bool is_steady = true;
};

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<MonotonicClock, Duration>;

// A deadline that never comes.
inline constexpr Time kInfiniteFuture = Time::max();

// Source of time, implemented by runners and by tests.
class Clock {
 public:
  virtual ~Clock() = default;

  // The present time. Never goes back; may jump forward by any amount (suspend).
  virtual Time Now() = 0;
};

}  // namespace tapwire
