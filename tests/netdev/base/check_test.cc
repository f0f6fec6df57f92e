// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/check.h"

#include <gtest/gtest.h>

namespace tapwire {
namespace {

TEST(CheckTest, TrueConditionIsEvaluatedOnce) {
  int evaluated = 0;
  TW_CHECK(++evaluated == 1);
  TW_CHECK(++evaluated == 2, "message");
  EXPECT_EQ(evaluated, 2);
}

TEST(CheckDeathTest, FalseConditionNamesPlaceExpressionAndMessage) {
  const int left = 1;
  EXPECT_DEATH(TW_CHECK(left == 2), "check_test.cc:[0-9]+: check failed: left == 2");
  EXPECT_DEATH(TW_CHECK(left == 3, "no third"), "left == 3: no third");
}

TEST(CheckDeathTest, DebugCheckFollowsTheBuildType) {
  int evaluated = 0;
#ifdef NDEBUG
  TW_DCHECK(++evaluated == 7);
  EXPECT_EQ(evaluated, 0);
#else
  EXPECT_DEATH(TW_DCHECK(++evaluated == 7, "debug"), "debug");
#endif
}

}  // namespace
}  // namespace tapwire
