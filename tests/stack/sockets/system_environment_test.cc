// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/system_environment.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

namespace tapwire {
namespace {

// Covers: demand:85 — the clock counts the time that the machine sleeps.
TEST(SystemClockTest, IsTheBootTimeOfTheKernel) {
  SystemClock clock;
  timespec before;
  timespec after;
  clock_gettime(CLOCK_BOOTTIME, &before);
  const auto now = clock.Now().time_since_epoch();
  clock_gettime(CLOCK_BOOTTIME, &after);
  const auto nanos = [](const timespec& t) {
    return std::chrono::nanoseconds(int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec);
  };
  EXPECT_GE(now, nanos(before));
  EXPECT_LE(now, nanos(after));
}

TEST(SystemClockTest, NeverGoesBack) {
  SystemClock clock;
  Time last = clock.Now();
  for (int i = 0; i < 10'000; ++i) {
    const Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(SystemRandomTest, FillsAllOfLargeAndSmallBuffers) {
  SystemRandom random;
  std::array<uint8_t, 100'000> large{};
  random.Fill(large);
  // Each byte value is expected 390 times, with a deviation of 20.
  std::array<int, 256> histogram{};
  for (const uint8_t byte : large) ++histogram[byte];
  EXPECT_GT(*std::min_element(histogram.begin(), histogram.end()), 200);
  EXPECT_LT(*std::max_element(histogram.begin(), histogram.end()), 600);
  random.Fill({});
}

TEST(SystemRandomTest, NumbersDiffer) {
  SystemRandom random;
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.Next64());
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace tapwire
