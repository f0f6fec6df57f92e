// SPDX-License-Identifier: Apache-2.0
// TCP against the kernel at length: large transfers compared by sha256sum, over a good wire and a
// bad one, a program that is stopped in the middle, and many connections that do nothing.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "stack/sockets/tcp_listener.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/kernel_tcp.h"
#include "tests/interop/lab.h"
#include "tests/interop/program.h"
#include "tests/interop/transfer.h"
#include "tests/interop/verdict.h"
#include "tests/soak/soak.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testutil::Command;
using testutil::CommandResult;
using testutil::SoakCount;

class TcpKernelSoakTest : public testutil::NetnsFixture {
 protected:
  std::unique_ptr<Lab> Create(LabOptions options) {
    options.node = tun_node();
    options.judge_at_once = true;
    auto lab = Lab::Create(options);
    EXPECT_TRUE(lab.ok()) << lab.status();
    return lab.ok() ? *std::move(lab) : nullptr;
  }
  void TransferBothWays(Lab& lab, const DataFile& file) {
    for (const IpFamily family : kFamilies) {
      SCOPED_TRACE(StackAddress(family).ToString());
      KernelSendsFile(lab, family, file);
      StackSendsFile(lab, family, file);
    }
    ExpectGoodChecksums(lab);
    EXPECT_TRUE(lab.checker_report().clean()) << lab.checker_report().ToString();
  }
};

TEST_F(TcpKernelSoakTest, LargeTransfersArriveWhole) {
  const DataFile file(SoakCount(256 << 20));
  for (const bool offloads : {true, false}) {
    SCOPED_TRACE(offloads);
    auto lab = Create({.offloads = offloads});
    ASSERT_NE(lab, nullptr);
    TransferBothWays(*lab, file);
  }
}

TEST_F(TcpKernelSoakTest, LargeTransfersArriveWholeOverABadWire) {
  const DataFile file(SoakCount(64 << 20));
  const netdev::FaultSettings bad = {.loss = 0.01, .duplicate = 0.005, .reorder = 0.01};
  auto lab = Create({.faults = netdev::FaultInjector::Options{
                         .transmit = bad, .receive = bad, .seed = 20'261'130}});
  ASSERT_NE(lab, nullptr);
  TransferBothWays(*lab, file);
}

// The kernel's window closes, its probes go unanswered, and then everything goes on.
TEST_F(TcpKernelSoakTest, StoppedProgramGoesOnWhereItWas) {
  const uint64_t stopped_ms = std::clamp<uint64_t>(SoakCount(10'000), 1'500, 10'000);
  const DataFile file(std::max<uint64_t>(SoakCount(512 << 20), 64 << 20));
  std::vector<std::string> arguments = {"echo",         "--addr", "10.9.0.2/24", "--addr",
                                        "fd00:9::2/64", "--dad",  "off"};
  for (const std::string& flag : NetFlags(tun_node())) arguments.push_back(flag);
  Command echo(Tapwire(arguments), {.timeout = seconds(200)});
  ASSERT_TRUE(echo.WaitForOutput("ready: ")) << echo.output();
  Command socat(EchoCommand(IpFamily::kV4, file, 7), {.timeout = seconds(180)});
  std::this_thread::sleep_for(milliseconds(100));
  ASSERT_TRUE(socat.Running());
  ASSERT_EQ(socat.output(), "");
  echo.Signal(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(stopped_ms));
  EXPECT_TRUE(socat.Running());
  echo.Signal(SIGCONT);
  EXPECT_EQ(socat.Wait().output, absl::StrCat(file.hash(), "  -\n"));
  echo.Signal(SIGINT);
  const CommandResult ended = echo.Wait();
  EXPECT_EQ(ended.exit_code, 0);
  const std::string echoed =
      absl::StrCat("echo: 1 connections, ", file.bytes().size(), " bytes, 0 errors");
  EXPECT_NE(ended.output.find(echoed), std::string::npos) << ended.output;
  for (const auto& [counter, errors] : KernelCsumErrors()) EXPECT_EQ(errors, 0u) << counter;
}

// ---- Idle ----

void AllowDescriptors(rlim_t count) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur >= count) return;
  limit.rlim_cur = std::min(limit.rlim_max, count);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_cur < count) GTEST_SKIP() << "at most " << limit.rlim_max << " descriptors";
}

TEST_F(TcpKernelSoakTest, ThousandIdleConnectionsWakeNobody) {
  constexpr size_t kConnections = 1000;
  AllowDescriptors(kConnections + 100);
  if (IsSkipped() || HasFatalFailure()) return;
  const auto idle = milliseconds(std::clamp<uint64_t>(SoakCount(10'000), 3'000, 10'000));
  // Both ends make sure of their neighbour once more some time after the last traffic (RFC 4861
  // §7.3.3, DELAY_FIRST_PROBE_TIME): soon, so that it is over before the measurement.
  LabOptions options;
  options.config.delay_first_probe = milliseconds(300);
  auto lab = Create(options);
  ASSERT_NE(lab, nullptr);
  for (const char* family : {"ipv4", "ipv6"}) {
    Sysctl(absl::StrCat(family, "/neigh/", kTapName, "/delay_first_probe_time"), "1");
  }
  std::vector<std::unique_ptr<TcpListener>> listeners;
  std::vector<std::unique_ptr<TcpSocket>> accepted;
  std::vector<KernelTcp> clients;
  for (const IpFamily family : kFamilies) {
    auto listener = TcpListener::Listen(lab->stack(), {StackAddress(family), 7, 0});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listeners.push_back(*std::move(listener));
    for (size_t i = 0; i < kConnections / 2; ++i) {
      clients.push_back(KernelTcp::Connect({StackAddress(family), 7, 0}));
      if (i % 50 != 49) continue;
      ASSERT_TRUE(lab->RunUntil([&] {
        while (auto socket = listeners.back()->TryAccept()) accepted.push_back(std::move(socket));
        return accepted.size() == clients.size();
      }));
    }
  }
  // Group reports, neighbour probes and the like have ended.
  const auto wakeups = [&] { return lab->runner().stats().wakeups.value(); };
  const auto run_for = [&](milliseconds time) {
    lab->context().DetachFromThread();
    std::thread thread([&] {
      lab->runner().Run();
      lab->context().DetachFromThread();
    });
    std::this_thread::sleep_for(time);
    lab->runner().Stop();
    thread.join();
  };
  run_for(milliseconds(2500));
  const uint64_t frames = lab->tap().tap_stats().rx_reads.value();
  const uint64_t before = wakeups();
  run_for(idle);
  // The last one was to stop it; frames are the kernel's business.
  EXPECT_LE(wakeups() - before, lab->tap().tap_stats().rx_reads.value() - frames + 1);
  EXPECT_LE(lab->tap().tap_stats().rx_reads.value() - frames, 4u);
  for (KernelTcp& client : clients) EXPECT_FALSE(client.Receive());
}

}  // namespace
}  // namespace tapwire::interop
