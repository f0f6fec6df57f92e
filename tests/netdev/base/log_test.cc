// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tapwire {
namespace {

using ::testing::ElementsAre;

class LogTest : public ::testing::Test, public LogSink {
 protected:
  LogTest() : previous_(SetLogSink(this)) { SetLogVerbosity(LogLevel::kInfo); }
  ~LogTest() override {
    SetLogSink(previous_);
    SetLogVerbosity(LogLevel::kWarning);
  }

  void Write(LogLevel level, const char* file, int line, absl::string_view text) override {
    lines_.push_back(absl::StrCat(LogLevelName(level), ": ", text));
    EXPECT_NE(std::string(file).find("log_test"), std::string::npos);
    EXPECT_GT(line, 0);
  }

  std::vector<std::string> lines_;
  LogSink* previous_;
};

TEST_F(LogTest, WritesLevelsUpToTheVerbosity) {
  TW_LOG(kError) << "a " << 1;
  TW_LOG(kInfo) << "b";
  TW_LOG(kDebug) << "c";
  EXPECT_THAT(lines_, ElementsAre("error: a 1", "info: b"));
}

TEST_F(LogTest, DisabledLineEvaluatesNothing) {
  int evaluated = 0;
  TW_LOG(kDebug) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST_F(LogTest, IsOneStatement) {
  bool other = false;
  if (lines_.empty())
    TW_LOG(kInfo) << "then";
  else
    other = true;
  EXPECT_FALSE(other);
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(LogTest, EveryNCountsPerState) {
  LogEveryN first, second;
  for (int i = 0; i < 7; ++i) {
    TW_LOG_EVERY_N(kWarning, first, 3) << i;
  }
  TW_LOG_EVERY_N(kWarning, second, 3) << "other";
  EXPECT_THAT(lines_, ElementsAre("warning: 0", "warning: 3", "warning: 6", "warning: other"));
  EXPECT_EQ(first.calls(), 7U);
}

TEST_F(LogTest, EveryZeroIsEveryOne) {
  LogEveryN state;
  TW_LOG_EVERY_N(kWarning, state, 0) << "x";
  TW_LOG_EVERY_N(kWarning, state, 0) << "y";
  EXPECT_EQ(lines_.size(), 2U);
}

TEST_F(LogTest, DefaultSinkIsStandardError) {
  SetLogSink(nullptr);
  ::testing::internal::CaptureStderr();
  TW_LOG(kWarning) << "tap0: gone";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "warning: tap0: gone\n");
  SetLogSink(this);
}

}  // namespace
}  // namespace tapwire
