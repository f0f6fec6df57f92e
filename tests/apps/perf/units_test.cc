// SPDX-License-Identifier: Apache-2.0
#include "apps/perf/units.h"

#include <gtest/gtest.h>

namespace tapwire::apps::perf {
namespace {

TEST(UnitsTest, BytesHaveThreeDigitsAndStepsOf1024) {
  const std::pair<double, const char*> cases[] = {
      {0, "0.00 Bytes"},
      {9, "9.00 Bytes"},
      {10, "10.0 Bytes"},
      {999, " 999 Bytes"},
      {1023, "1023 Bytes"},
      {1024, "1.00 KBytes"},
      {655360, " 640 KBytes"},
      {98304, "96.0 KBytes"},
      {1024 * 1000, "1000 KBytes"},
      {2097152, "2.00 MBytes"},
      {1371668480, "1.28 GBytes"},
      {9.994 * 1024, "9.99 KBytes"},
      {9.996 * 1024, "10.0 KBytes"},
      {99.96 * 1024, " 100 KBytes"},
      {5e15, "4547 TBytes"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(FormatBytes(bytes), text);
}

TEST(UnitsTest, RatesHaveStepsOf1000OrAFixedUnit) {
  EXPECT_EQ(FormatRate(0), "0.00 bits");
  EXPECT_EQ(FormatRate(819'200), " 819 Kbits");
  EXPECT_EQ(FormatRate(5.01e9), "5.01 Gbits");
  EXPECT_EQ(FormatRate(10'485'000, 'k'), "10485 Kbits");
  EXPECT_EQ(FormatRate(10'485'760, 'M'), "1.25 MBytes");
  EXPECT_EQ(FormatRate(10'485'760, 'g'), "0.01 Gbits");
}

TEST(UnitsTest, AmountsTakeSuffixes) {
  EXPECT_EQ(*ParseAmount("131072", 1024), 131'072u);
  EXPECT_EQ(*ParseAmount("128K", 1024), 131'072u);
  EXPECT_EQ(*ParseAmount("1.5m", 1000), 1'500'000u);
  EXPECT_EQ(*ParseAmount("2G", 1000), 2'000'000'000u);
  EXPECT_EQ(*ParseAmount("1T", 1024), uint64_t{1} << 40);
}

TEST(UnitsTest, WhatIsNoAmountIsAnError) {
  for (const char* text : {"", "K", "-1", "1x", "1e9", "inf", "nan", "0x10", "1 K", "9999999999T",
                           "1..2", "99999999999999999999"}) {
    EXPECT_EQ(ParseAmount(text, 1024).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace tapwire::apps::perf
