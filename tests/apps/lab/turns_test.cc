// SPDX-License-Identifier: Apache-2.0
#include "apps/lab/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "apps/lab/process.h"

namespace tapwire::apps::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Answers with the number of the call, and writes its name down.
Variant Counting(std::string name, std::string& log) {
  return {.name = name, .run = [name, &log, calls = 0.0](const RunTime&) mutable {
            log += name;
            return absl::StatusOr<double>(calls++);
          }};
}

TEST(LabTurnsTest, VariantsTakeTurnsAfterAWarmUpThatDoesNotCount) {
  const Interruption interruption;
  std::string log;
  std::vector<Variant> variants;
  variants.push_back(Counting("A", log));
  variants.push_back(Counting("B", log));
  const auto series = Turns(3).Measure(variants, 0.01);
  ASSERT_TRUE(series.ok());
  EXPECT_EQ(log, "ABABABAB");
  EXPECT_THAT((*series)[0].values, ElementsAre(1, 2, 3));
  EXPECT_THAT((*series)[1].values, ElementsAre(1, 2, 3));
}

TEST(LabTurnsTest, OptionalVariantFailsAlone) {
  const Interruption interruption;
  std::string log;
  std::vector<Variant> variants;
  variants.push_back(Counting("A", log));
  variants.push_back({.name = "kernel",
                      .run = [calls = 0](const RunTime&) mutable -> absl::StatusOr<double> {
                        if (calls++ < 2) return 5.0;
                        return absl::NotFoundError("gone");
                      },
                      .optional = true});
  const auto series = Turns(3).Measure(variants, 0.01);
  ASSERT_TRUE(series.ok());
  EXPECT_THAT((*series)[0].values, ElementsAre(1, 2, 3));
  EXPECT_THAT((*series)[1].values, IsEmpty());
  EXPECT_EQ((*series)[1].problem, "gone");
}

TEST(LabTurnsTest, FailureOfOursEndsTheLab) {
  const Interruption interruption;
  std::vector<Variant> variants;
  variants.push_back({.name = "ours", .run = [](const RunTime&) -> absl::StatusOr<double> {
                        return absl::NotFoundError("gone");
                      }});
  EXPECT_EQ(Turns(1).Measure(variants, 0.01).status().message(), "gone");
}

TEST(LabTurnsTest, TimeIsShared) {
  const Interruption interruption;
  std::vector<double> times;
  std::vector<Variant> variants;
  variants.push_back({.name = "half",
                      .run =
                          [&](const RunTime& time) {
                            times.push_back(time.measured_s);
                            return absl::StatusOr<double>(1);
                          },
                      .time_share = 0.5});
  ASSERT_TRUE(Turns(1).Measure(variants, 3).ok());
  ASSERT_EQ(times.size(), 2u);
  EXPECT_LE(times[0], 0.1);  // the warm-up
  EXPECT_EQ(times[1], 1.5);
}

TEST(LabTurnsTest, InterruptionEndsIt) {
  const Interruption interruption;
  std::vector<Variant> variants;
  variants.push_back({.name = "A", .run = [](const RunTime&) {
                        std::raise(SIGINT);
                        return absl::StatusOr<double>(1);
                      }});
  EXPECT_EQ(Turns(2).Measure(variants, 0.01).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace tapwire::apps::lab
