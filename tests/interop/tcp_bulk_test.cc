// SPDX-License-Identifier: Apache-2.0
// Bulk transfers over TCP between the kernel's socat and the stack, both ways: the sha256sum of
// what arrives is that of what was sent.

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/lab.h"
#include "tests/interop/program.h"
#include "tests/interop/transfer.h"
#include "tests/interop/verdict.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testutil::Command;
using testutil::CommandResult;

constexpr size_t kSize = 16 << 20;
// Where every frame is a small one, and has to be judged.
constexpr size_t kSmallSize = 4 << 20;

class InteropTcpBulkTest : public testutil::NetnsFixture {
 protected:
  std::unique_ptr<Lab> Create(LabOptions options = {}) {
    options.node = tun_node();
    auto lab = Lab::Create(options);
    EXPECT_TRUE(lab.ok()) << lab.status();
    return lab.ok() ? *std::move(lab) : nullptr;
  }
  static void TransferBothWays(Lab& lab, size_t size) {
    const DataFile file(size);
    for (const IpFamily family : kFamilies) {
      SCOPED_TRACE(StackAddress(family).ToString());
      KernelSendsFile(lab, family, file);
      StackSendsFile(lab, family, file);
    }
  }
};

TEST_F(InteropTcpBulkTest, WithOffloads) {
  auto lab = Create();
  ASSERT_NE(lab, nullptr);
  TransferBothWays(*lab, kSize);
  EXPECT_GT(lab->tap().tap_stats().rx_gso_frames.value(), 0u);
  ExpectClean(*lab);
}

TEST_F(InteropTcpBulkTest, WithoutOffloads) {
  auto lab = Create({.offloads = false});
  ASSERT_NE(lab, nullptr);
  TransferBothWays(*lab, kSmallSize);
  EXPECT_EQ(lab->tap().tap_stats().rx_gso_frames.value(), 0u);
  ExpectClean(*lab);
}

TEST_F(InteropTcpBulkTest, OverAWireThatLosesAndReorders) {
  const netdev::FaultSettings bad = {.loss = 0.01, .reorder = 0.01};
  auto lab = Create({.faults = netdev::FaultInjector::Options{
                         .transmit = bad, .receive = bad, .seed = 20'261'130}});
  ASSERT_NE(lab, nullptr);
  TransferBothWays(*lab, kSmallSize);
  for (const netdev::FaultStats* stats :
       {&lab->faults()->transmit_stats(), &lab->faults()->receive_stats()}) {
    EXPECT_GT(stats->lost.value(), 30u);
    EXPECT_GT(stats->reordered.value(), 30u);
  }
  ExpectClean(*lab);
}

// The program's echo: both directions of one connection at once.
TEST_F(InteropTcpBulkTest, ThroughTheEchoOfTheProgram) {
  const testutil::TempFile pcap(".pcapng");
  std::vector<std::string> arguments = {
      "run", "--addr", "10.9.0.2/24", "--addr", "fd00:9::2/64", "--dad",
      "off", "--echo", "7",           "--pcap", pcap.path()};
  for (const std::string& flag : NetFlags(tun_node())) arguments.push_back(flag);
  Command run(Tapwire(arguments));
  ASSERT_TRUE(run.WaitForOutput("ready: ")) << run.output();
  const DataFile file(kSize);
  for (const IpFamily family : kFamilies) {
    const CommandResult echo = Run(EchoCommand(family, file, 7));
    EXPECT_EQ(echo.output, absl::StrCat(file.hash(), "  -\n"));
  }
  run.Signal(SIGINT);
  const CommandResult ended = run.Wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_NE(ended.output.find(absl::StrCat("echo: 2 connections, ", 2 * kSize, " bytes, 0 errors")),
            std::string::npos)
      << ended.output;
  const CaptureVerdict verdict = JudgeCapture(pcap.path());
  EXPECT_EQ(verdict.complaints, "");
  EXPECT_GT(verdict.good_checksums, 0u);
  for (const auto& [counter, errors] : KernelCsumErrors()) EXPECT_EQ(errors, 0u) << counter;
}

}  // namespace
}  // namespace tapwire::interop
