// SPDX-License-Identifier: Apache-2.0
// An idle stack on a TAP sleeps: it wakes for frames and for nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/lab.h"
#include "tests/interop/program.h"

namespace tapwire::interop {
namespace {

using std::chrono::seconds;

// Long enough for announcements, group reports and probes of both ends to have ended.
constexpr seconds kSettle{3};
constexpr seconds kIdle{3};

class InteropIdleTest : public testutil::NetnsFixture {};

TEST_F(InteropIdleTest, ThreadRunnerSleepsOnATap) {
  auto lab = Lab::Create({.node = tun_node()});
  ASSERT_TRUE(lab.ok()) << lab.status();
  (*lab)->RunFor(kSettle);

  (*lab)->context().DetachFromThread();
  const auto frames = [&] { return (*lab)->tap().tap_stats().rx_reads.value(); };
  const uint64_t frames_before = frames();
  const uint64_t wakeups_before = (*lab)->runner().stats().wakeups.value();
  std::thread thread([&] {
    (*lab)->runner().Run();
    (*lab)->context().DetachFromThread();
  });
  std::this_thread::sleep_for(kIdle);
  (*lab)->runner().Stop();
  thread.join();
  const uint64_t wakeups = (*lab)->runner().stats().wakeups.value() - wakeups_before;
  // The last one was to stop it.
  EXPECT_LE(wakeups, frames() - frames_before + 1) << "frames: " << frames() - frames_before;
  EXPECT_EQ((*lab)->runner().stats().spurious_wakeups.value(), 0u);
}

// "voluntary_ctxt_switches:	12": how often the process has gone to sleep.
uint64_t TimesAsleep(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  uint64_t value = 0;
  while (std::getline(file, line)) {
    absl::string_view text = line;
    if (!absl::ConsumePrefix(&text, "voluntary_ctxt_switches:")) continue;
    EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << line;
  }
  return value;
}

// Frames that the kernel has handed to the TAP, by /proc/net/dev: "tw0: 8 numbers in, 8 numbers
// out".
uint64_t FramesToTap() {
  for (const absl::string_view line : absl::StrSplit(ProcNet("dev"), '\n')) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(entry.first) != kTapName) continue;
    const std::vector<absl::string_view> numbers =
        absl::StrSplit(entry.second, ' ', absl::SkipEmpty());
    uint64_t sent = 0;
    EXPECT_TRUE(numbers.size() > 9 && absl::SimpleAtoi(numbers[9], &sent)) << line;
    return sent;
  }
  ADD_FAILURE() << "no " << kTapName;
  return 0;
}

TEST_F(InteropIdleTest, ProgramSleepsOnATap) {
  std::vector<std::string> arguments = {"run",    "--addr", "10.9.0.2/24", "--addr", "fd00:9::2/64",
                                        "--echo", "7"};
  for (const std::string& flag : NetFlags(tun_node())) arguments.push_back(flag);
  testutil::Command run(Tapwire(arguments));
  ASSERT_TRUE(run.WaitForOutput("ready: ")) << run.output();
  ASSERT_TRUE(WriteSysctl(absl::StrCat("ipv6/conf/", kTapName, "/accept_ra"), "0").ok());
  std::this_thread::sleep_for(kSettle);
  const uint64_t asleep = TimesAsleep(run.pid());
  const uint64_t frames = FramesToTap();
  std::this_thread::sleep_for(kIdle);
  EXPECT_LE(TimesAsleep(run.pid()) - asleep, FramesToTap() - frames);
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait().exit_code, 0);
}

}  // namespace
}  // namespace tapwire::interop
