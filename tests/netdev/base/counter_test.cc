// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/drop_reason.h"

namespace tapwire {
namespace {

using ::testing::ElementsAre;

#define SAMPLE_COUNTERS(X)                    \
  X(in_frames, "InFrames", "Frames received") \
  X(out_frames, "OutFrames", "Frames sent")
TAPWIRE_COUNTER_STRUCT(SampleCounters, SAMPLE_COUNTERS);

TEST(CounterTest, StructFromListVisitsFieldsInOrder) {
  SampleCounters counters;
  counters.in_frames.Inc();
  counters.in_frames.Inc(4);
  std::vector<std::string> lines;
  counters.ForEach([&](absl::string_view name, absl::string_view help, uint64_t value) {
    lines.push_back(absl::StrCat(name, "|", help, "|", value));
  });
  EXPECT_THAT(lines, ElementsAre("InFrames|Frames received|5", "OutFrames|Frames sent|0"));
}

enum class Fruit : uint8_t { kApple, kPear };

TEST(CounterTest, EnumCountersAreSeparate) {
  EnumCounters<Fruit, 2> counters;
  counters.Inc(Fruit::kPear);
  counters.Inc(Fruit::kPear, 2);
  EXPECT_EQ(counters.value(Fruit::kApple), 0U);
  EXPECT_EQ(counters.value(Fruit::kPear), 3U);
  EXPECT_EQ(counters.total(), 3U);
  std::vector<uint64_t> values;
  counters.ForEach([&](Fruit, uint64_t value) { values.push_back(value); });
  EXPECT_THAT(values, ElementsAre(0, 3));
}

TEST(DropReasonTest, EveryReasonHasItsOwnNameAndHelp) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kDropReasonCount; ++i) {
    const auto reason = static_cast<DropReason>(i);
    const std::string name(DropReasonName(reason));
    EXPECT_FALSE(DropReasonHelp(reason).empty()) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos)
        << name;
    EXPECT_THAT(names, ::testing::Not(::testing::Contains(name)));
    names.push_back(name);
  }
  EXPECT_EQ(DropReasonName(DropReason::kNone), "none");
  EXPECT_EQ(static_cast<int>(DropReason::kNone), 0);
  EXPECT_EQ(DropReasonName(DropReason::kIpv4BadChecksum), "ipv4_bad_csum");
}

TEST(DropReasonTest, CountersHoldEveryReason) {
  DropCounters counters;
  const auto last = static_cast<DropReason>(kDropReasonCount - 1);
  counters.Inc(last);
  EXPECT_EQ(counters.value(last), 1U);
  EXPECT_EQ(counters.total(), 1U);
}

}  // namespace
}  // namespace tapwire
