// SPDX-License-Identifier: Apache-2.0
// Against numbers worked out by hand and a printed table of Student's t.

#include "apps/lab/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tapwire::apps::lab {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LabStatisticsTest, MedianOfOddAndEvenNumbers) {
  const Summary odd = Summarize({3, 1, 9});
  EXPECT_DOUBLE_EQ(odd.median, 3);
  EXPECT_DOUBLE_EQ(odd.min, 1);
  EXPECT_DOUBLE_EQ(odd.max, 9);
  EXPECT_DOUBLE_EQ(Summarize({4, 1, 2, 9}).median, 3);
  EXPECT_DOUBLE_EQ(Summarize({7}).median, 7);
  EXPECT_DOUBLE_EQ(Summarize({}).median, 0);
}

TEST(LabStatisticsTest, RatiosAreOfNeighbours) {
  EXPECT_THAT(PairedRatios({2, 6, 5}, {1, 2, 10}),
              ElementsAre(DoubleEq(2), DoubleEq(3), DoubleEq(0.5)));
  // Not the ratio of the medians, which would be 1.
  EXPECT_DOUBLE_EQ(Summarize(PairedRatios({1, 2, 3}, {2, 3, 1})).median, 2.0 / 3);
  EXPECT_THAT(PairedRatios({1, 2}, {1}), ElementsAre(DoubleEq(1)));
  EXPECT_THAT(PairedRatios({1, 2}, {0, 1}), IsEmpty());
}

TEST(LabStatisticsTest, StudentsTAsInTables) {
  EXPECT_NEAR(StudentT975(1), 12.706, 1e-3);
  EXPECT_NEAR(StudentT975(4), 2.776, 1e-3);
  EXPECT_NEAR(StudentT975(10), 2.228, 1e-3);
  EXPECT_NEAR(StudentT975(11), 2.201, 1e-3);
  EXPECT_NEAR(StudentT975(30), 2.042, 1e-3);
  EXPECT_NEAR(StudentT975(1000), 1.962, 1e-3);
}

// Logarithms 0, L, 2 L with L = ln 1.1: their mean is L, their deviation L, its error L / sqrt 3;
// times 4.3027 that is 0.23677.
TEST(LabStatisticsTest, ConfidenceOfTheGeometricMean) {
  const auto mean = ConfidenceOfMean({1.0, 1.1, 1.21});
  ASSERT_TRUE(mean.has_value());
  EXPECT_NEAR(mean->mean, 1.1, 1e-9);
  EXPECT_NEAR(mean->low, 0.86809, 1e-4);
  EXPECT_NEAR(mean->high, 1.39386, 1e-4);
}

TEST(LabStatisticsTest, EqualRatiosLeaveNoDoubt) {
  const auto mean = ConfidenceOfMean({2, 2, 2, 2, 2});
  ASSERT_TRUE(mean.has_value());
  EXPECT_NEAR(mean->low, 2, 1e-12);
  EXPECT_NEAR(mean->high, 2, 1e-12);
}

TEST(LabStatisticsTest, NoConfidenceInOneRunOrInNonsense) {
  EXPECT_FALSE(ConfidenceOfMean({1.5}).has_value());
  EXPECT_FALSE(ConfidenceOfMean({}).has_value());
  EXPECT_FALSE(ConfidenceOfMean({1, 0}).has_value());
  EXPECT_FALSE(ConfidenceOfMean({1, -1}).has_value());
}

}  // namespace
}  // namespace tapwire::apps::lab
