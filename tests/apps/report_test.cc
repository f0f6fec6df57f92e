// SPDX-License-Identifier: Apache-2.0
#include "apps/report.h"

#include <gtest/gtest.h>

#include <string>

namespace tapwire::apps {
namespace {

TEST(ReportTest, ControlCharactersStayOnTheLine) {
  EXPECT_EQ(OneLine("a\nb\tc\r\x1b[31m\x7f"), "a\\nb\\tc\\x0d\\x1b[31m\\x7f");
  EXPECT_EQ(OneLine(std::string("nul\0", 4)), "nul\\x00");
  EXPECT_EQ(OneLine("plain 'text', größer…"), "plain 'text', größer…");
  EXPECT_EQ(OneLine(""), "");
}

}  // namespace
}  // namespace tapwire::apps
