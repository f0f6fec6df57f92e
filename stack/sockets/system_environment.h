// SPDX-License-Identifier: Apache-2.0
//
// The real clock and the real random source, for programs that run a context on this machine.
//
//   SystemEnvironment system;
//   netdev::NetContext context(system.environment());
#pragma once

#include "netdev/base/environment.h"
#include "netdev/base/random.h"
#include "netdev/base/time.h"

namespace tapwire {

// CLOCK_BOOTTIME: monotonic, and goes on while the machine sleeps, so that what should have
// happened meanwhile is due on waking.
class SystemClock final : public Clock {
 public:
  Time Now() override;
};

// getrandom(2), through the buffer of the base class. Must not be shared by threads.
class SystemRandom final : public Random {
 public:
  void Fill(std::span<uint8_t> out) override;
};

// Both together. Outlives the contexts that use it.
class SystemEnvironment {
 public:
  Environment environment() { return {.clock = &clock_, .random = &random_}; }
  SystemClock& clock() { return clock_; }
  SystemRandom& random() { return random_; }

 private:
  SystemClock clock_;
  SystemRandom random_;
};

}  // namespace tapwire
