// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/kernel_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace tapwire::pkt {
namespace {

using ::testing::HasSubstr;

constexpr char kHandshake[] = R"(
0    socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0   bind(3, ..., ...) = 0
+0   listen(3, 1) = 0
+.01 < S 0:0(0) win 65535 <mss 1000>
+0   > S. 0:0(0) ack 1 <mss 1460>
)";

std::vector<RunResult> Play(const std::vector<KernelScript>& scripts) {
  std::vector<RunResult> results;
  KernelRunOptions options;
  options.run.tolerance = std::chrono::milliseconds(50);
  RunAgainstKernel(scripts, options, [&](const KernelScript&, const RunResult& result) {
    results.push_back(result);
  });
  return results;
}

TEST(PktKernelRunTest, TheKernelPassesAndFailsScripts) {
  if (const auto why = WhyNoKernel()) GTEST_SKIP() << *why;
  const std::string wrong = std::string(kHandshake) + "+0 listen(3, 1) = 1\n";
  const std::vector<RunResult> results = Play({{"right", kHandshake}, {"wrong", wrong}});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].verdict, Verdict::kPass) << results[0].message;
  EXPECT_EQ(results[1].verdict, Verdict::kFail);
  EXPECT_EQ(results[1].pos.line, 7);
  EXPECT_THAT(results[1].message, HasSubstr("listen() gave 0, expected 1"));
}

TEST(PktKernelRunTest, BlockingCallsRunBesideTheScript) {
  if (const auto why = WhyNoKernel()) GTEST_SKIP() << *why;
  const std::vector<RunResult> results = Play({{"blocking", R"(
0       socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0...0.1 connect(3, ..., ...) = 0
+0      > S 0:0(0) <...>
+.1     < S. 0:0(0) ack 1 win 5792 <mss 1460>
+0      > . 1:1(0) ack 1
)"}});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].verdict, Verdict::kPass) << results[0].message;
}

TEST(PktKernelRunTest, CommandsAreNeverRun) {
  if (const auto why = WhyNoKernel()) GTEST_SKIP() << *why;
  const std::vector<RunResult> results =
      Play({{"command", "0 `touch /tmp/should-not-exist`\n+0 socket(..., SOCK_STREAM, 0) = 3\n"},
            {"path", "0 `sysctl -w kernel.hostname=x`\n+0 socket(..., SOCK_STREAM, 0) = 3\n"}});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].verdict, Verdict::kUnsupported);
  EXPECT_EQ(results[1].verdict, Verdict::kUnsupported);
}

TEST(PktKernelRunTest, QuickScripts) {
  EXPECT_TRUE(IsQuickForKernel(kHandshake, {}, 1));
  EXPECT_FALSE(IsQuickForKernel(kHandshake, {}, 0.005));
  const std::string long_one = std::string(kHandshake) + "+3 listen(3, 1) = 0\n";
  EXPECT_FALSE(IsQuickForKernel(long_one, {}, 2));
  EXPECT_TRUE(IsQuickForKernel(long_one, {}, 4));
  EXPECT_FALSE(IsQuickForKernel(std::string("// X\n// kernel: no, why\n") + kHandshake, {}, 9));
  EXPECT_FALSE(IsQuickForKernel(std::string("--profile=rfc\n") + kHandshake, {}, 9));
}

}  // namespace
}  // namespace tapwire::pkt
