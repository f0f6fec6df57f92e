// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/code.h"

#include <gtest/gtest.h>

#include <string>

namespace tapwire::pkt {
namespace {

CodeResult RunText(absl::string_view code, CodeVariables* variables = nullptr) {
  CodeVariables own;
  return RunCode(code, variables != nullptr ? *variables : own,
                 [](absl::string_view name) -> std::optional<CodeValue> {
                   if (name == "tcpi_rtt") return CodeValue::Integer(100'000);
                   if (name == "tcpi_snd_cwnd") return CodeValue::Integer(10);
                   return std::nullopt;
                 });
}

// The expected values are Python's.
TEST(CodeTest, HoldsWhatPythonHolds) {
  constexpr const char* kTrue[] = {
      "tcpi_snd_cwnd == 10",
      "tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
      "90000 <= tcpi_rtt <= 110000",
      "not 1 > 2",
      "1 + 2 * 3 == 7",
      "tcpi_snd_cwnd in (9, 10)",
      "tcpi_snd_cwnd not in [1, 2,]",
      "not 3 in ()",
      "'b' in 'abc'",
      "(1 + 2) * 3 == 9",
      "-7 // 2 == -4",
      "-7 % 3 == 2",
      "7 % -3 == -2",
      "7 / 2 == 3.5",
      "7 // 2 == 3",
      "1 == 1.0",
      "abs(tcpi_rtt - 99999) < 2",
      "min(3, 1, 2) == 1 and max(1, 2.5) == 2.5",
      "int(2.9) == 2 and round(2.5) == 2 and float(1) == 1",
      "0x10 == 16",
      "1 << 4 | 1 == 17",
      "6 & 3 == 2 or True",
      "~0 == -1",
      "'a' + 'b' == \"ab\"",
      "False or not False",
      "(1 ==\n 1)",
  };
  for (const char* text : kTrue) {
    const CodeResult result = RunText(std::string("assert ") + text);
    EXPECT_EQ(result.outcome, CodeOutcome::kPassed) << text << ": " << result.message;
  }
}

TEST(CodeTest, FailuresShowTheValues) {
  const CodeResult result = RunText("\nassert tcpi_snd_cwnd == 11, 'window'\n");
  EXPECT_EQ(result.outcome, CodeOutcome::kFailed);
  EXPECT_EQ(result.message, "assertion failed: tcpi_snd_cwnd == 11; tcpi_snd_cwnd is 10; window");
  EXPECT_EQ(result.line, 1);
  for (const char* text : {"1 > 2", "1 < 2 < 2", "0", "''", "1 == 'a'", "1/0", "1 %", "(", "\"a"}) {
    EXPECT_EQ(RunText(std::string("assert ") + text).outcome, CodeOutcome::kFailed) << text;
  }
}

TEST(CodeTest, VariablesStayBetweenPieces) {
  CodeVariables variables;
  EXPECT_EQ(RunText("x = tcpi_rtt; y = x * 2", &variables).outcome, CodeOutcome::kPassed);
  EXPECT_EQ(RunText("assert y == 200000", &variables).outcome, CodeOutcome::kPassed);
  EXPECT_EQ(RunText("print 'x', x\nprint(y)\npass # nothing\n", &variables).outcome,
            CodeOutcome::kPassed);
}

TEST(CodeTest, OtherPythonIsUnsupported) {
  for (const char* text : {"import os", "for x in y: pass", "if x: pass", "assert unknown_name",
                           "assert len('a')", "assert 1 in x", "assert (1, 2)", "x.y = 1"}) {
    EXPECT_EQ(RunText(text).outcome, CodeOutcome::kUnsupported) << text;
  }
}

TEST(CodeTest, NothingOverflows) {
  const std::string deep(100'000, '(');
  EXPECT_NE(RunText("assert " + deep).outcome, CodeOutcome::kPassed);
  EXPECT_EQ(RunText("assert -9223372036854775807 - 1 < 0").outcome, CodeOutcome::kPassed);
  RunText("x = (-9223372036854775807 - 1) // -1");
  RunText("x = (-9223372036854775807 - 1) % -1");
  RunText("x = abs(-9223372036854775807 - 1)");
  RunText("x = 9223372036854775807 * 9223372036854775807");
  RunText("x = 1 << 62 << 62");
  RunText("x = int(1e300)");
  RunText("x = ~~~~1");
  RunText("x = -~9223372036854775807");
}

}  // namespace
}  // namespace tapwire::pkt
