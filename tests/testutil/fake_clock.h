// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "netdev/base/environment.h"
#include "netdev/base/seeded_random.h"
#include "netdev/base/time.h"

namespace tapwire {

// A clock that stands still until a test moves it. Starts at one second, so that Time{} is past.
class FakeClock : public Clock {
 public:
  Time Now() override { return now_; }

  void Set(Time now) { now_ = now; }
  void Advance(Duration by) { now_ += by; }

 private:
  Time now_{std::chrono::seconds(1)};
};

// Clock and seeded randomness in one object, and the Environment that points to them.
class TestEnvironment {
 public:
  explicit TestEnvironment(uint64_t seed = 1) : random(seed) {}
  TestEnvironment(const TestEnvironment&) = delete;
  TestEnvironment& operator=(const TestEnvironment&) = delete;

  Environment environment() { return Environment{&clock, &random}; }

  FakeClock clock;
  SeededRandom random;
};

}  // namespace tapwire
