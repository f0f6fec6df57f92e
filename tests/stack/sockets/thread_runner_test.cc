// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/thread_runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "stack/sockets/system_environment.h"
#include "tests/testutil/socket_device.h"

namespace tapwire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testutil::SocketDevice;

class CountingSink final : public netdev::PacketType {
 public:
  CountingSink() : PacketType(kAllTypes) {}
  void Receive(PacketPtr /*packet*/, netdev::NetDevice& /*device*/) override {
    ++frames;
    if (on_frame) on_frame();
  }
  int frames = 0;
  std::function<void()> on_frame;
};

class ThreadRunnerTest : public ::testing::Test {
 protected:
  ThreadRunnerTest() : context_(system_.environment()) {
    runner_ = *ThreadRunner::Create(&context_);
  }

  SocketDevice* AddDevice(const std::string& name) {
    auto device = context_.registry().Register(std::make_unique<SocketDevice>(context_, name));
    EXPECT_TRUE(device.ok());
    EXPECT_TRUE((*device)->Up().ok());
    (*device)->AddPacketType(sink_);
    return *device;
  }

  static void WriteFrame(int fd) {
    const std::array<uint8_t, 60> frame = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1};
    EXPECT_EQ(write(fd, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }

  void RunUntilStoppedByAnotherThread() {
    bool ran = false;
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(20));
      context_.Post([&] { ran = true; });
      std::this_thread::sleep_for(milliseconds(20));
      runner_->Stop();
    });
    runner_->Run();
    other.join();
    EXPECT_TRUE(ran);
  }

  SystemEnvironment system_;
  CountingSink sink_;
  netdev::NetContext context_;
  std::unique_ptr<ThreadRunner> runner_;
};

TEST_F(ThreadRunnerTest, ReceivesFrames) {
  SocketDevice* device = AddDevice("s0");
  WriteFrame(device->peer());
  EXPECT_TRUE(runner_->RunUntil([this] { return sink_.frames == 1; }, seconds(5)));
}

TEST_F(ThreadRunnerTest, RunUntilGivesUpAtItsLimit) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(runner_->RunUntil([] { return false; }, milliseconds(30)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(30));
}

TEST_F(ThreadRunnerTest, TimersAreNeverEarlyAndWakeOnce) {
  std::vector<Time> due;
  std::vector<Time> fired;
  std::vector<std::unique_ptr<FunctionTimer>> timers;
  const Time start = context_.RefreshNow();
  for (int i = 1; i <= 10; ++i) {
    due.push_back(start + std::chrono::microseconds(1300 * i));
    timers.push_back(
        std::make_unique<FunctionTimer>([&] { fired.push_back(system_.clock().Now()); }));
    context_.timers().Arm(*timers.back(), due.back());
  }
  EXPECT_TRUE(runner_->RunUntil([&] { return fired.size() == 10; }, seconds(5)));
  for (size_t i = 0; i < fired.size(); ++i) EXPECT_GE(fired[i], due[i]);
  EXPECT_LE(runner_->stats().wakeups.value(), 10u);
  EXPECT_EQ(runner_->stats().spurious_wakeups.value(), 0u);
}

// Covers: demand:19
TEST_F(ThreadRunnerTest, IdleContextNeverWakes) {
  AddDevice("s0");
  FunctionTimer far([] {});
  context_.timers().Arm(far, context_.RefreshNow() + seconds(3600));
  runner_->RunFor(milliseconds(500));
  EXPECT_LE(runner_->stats().wakeups.value(), 1u) << "the limit of the run itself";
}

TEST_F(ThreadRunnerTest, PostAndStopFromAnotherThread) { RunUntilStoppedByAnotherThread(); }

TEST_F(ThreadRunnerTest, StopBeforeRunEndsTheNextRun) {
  runner_->Stop();
  runner_->Run();
  int batches = 0;
  EXPECT_TRUE(runner_->RunUntil([&] { return ++batches == 1; }, seconds(5)));
}

// Covers: demand:61
TEST_F(ThreadRunnerTest, RemovedDeviceIsNotWatched) {
  SocketDevice* device = AddDevice("s0");
  runner_->RunFor(milliseconds(1));
  const int peer = dup(device->peer());
  sink_.on_frame = [&] { context_.registry().Unregister(*device); };
  WriteFrame(peer);
  runner_->RunFor(milliseconds(10));
  EXPECT_EQ(sink_.frames, 1);
  EXPECT_EQ(context_.registry().Find("s0"), nullptr);
  const uint64_t wakeups = runner_->stats().wakeups.value();
  close(peer);
  runner_->RunFor(milliseconds(30));
  EXPECT_LE(runner_->stats().wakeups.value(), wakeups + 1);
}

// Covers: demand:61, bug:B94 — hang-up is permanent; it is reported once and not watched on.
TEST_F(ThreadRunnerTest, HangUpIsNoBusyLoop) {
  SocketDevice* device = AddDevice("s0");
  device->ClosePeer();
  runner_->RunFor(milliseconds(50));
  EXPECT_EQ(device->polls(), 1);
}

TEST_F(ThreadRunnerTest, WritableIsWatchedOnlyWhileWanted) {
  SocketDevice* device = AddDevice("s0");
  runner_->RunFor(milliseconds(5));
  EXPECT_EQ(device->polls(), 0);
  device->SetWantWrite(true);
  EXPECT_TRUE(runner_->RunUntil([&] { return device->polls() > 0; }, seconds(5)));
  device->SetWantWrite(false);
  runner_->RunFor(milliseconds(5));
  const int polls = device->polls();
  runner_->RunFor(milliseconds(20));
  EXPECT_EQ(device->polls(), polls);
}

// ---- Busy polling ----

// Processor time of this thread: what a busy loop uses, whatever else the machine does.
Duration ThreadCpuTime() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST_F(ThreadRunnerTest, BusyPollFindsAFrameWithoutBlocking) {
  runner_->SetBusyPoll(seconds(20));
  SocketDevice* device = AddDevice("s0");
  std::thread other([peer = device->peer()] {
    std::this_thread::sleep_for(milliseconds(20));
    WriteFrame(peer);
  });
  EXPECT_TRUE(runner_->RunUntil([this] { return sink_.frames == 1; }, seconds(20)));
  other.join();
  EXPECT_EQ(runner_->stats().wakeups.value(), 0u);
  EXPECT_EQ(runner_->stats().busy_poll_hits.value(), 1u);
}

TEST_F(ThreadRunnerTest, BusyPollEndsForPostAndStop) {
  runner_->SetBusyPoll(seconds(20));
  RunUntilStoppedByAnotherThread();
  EXPECT_EQ(runner_->stats().wakeups.value(), 0u);
}

TEST_F(ThreadRunnerTest, BusyPollServesTimers) {
  runner_->SetBusyPoll(seconds(20));
  std::optional<Time> fired;
  FunctionTimer timer([&] { fired = system_.clock().Now(); });
  const Time due = context_.RefreshNow() + milliseconds(15);
  context_.timers().Arm(timer, due);
  EXPECT_TRUE(runner_->RunUntil([&] { return fired.has_value(); }, seconds(20)));
  EXPECT_GE(*fired, due);
  EXPECT_EQ(runner_->stats().wakeups.value(), 0u);
}

// Covers: demand:19 — polling ends with its budget: after that an idle context costs nothing.
TEST_F(ThreadRunnerTest, IdleContextBlocksAfterOneBudget) {
  AddDevice("s0");
  runner_->SetBusyPoll(milliseconds(10));
  const Duration before = ThreadCpuTime();
  runner_->RunFor(milliseconds(400));
  EXPECT_LT(ThreadCpuTime() - before, milliseconds(100));
  EXPECT_GT(runner_->stats().busy_polls.value(), 0u);
  EXPECT_EQ(runner_->stats().busy_poll_hits.value(), 0u);
  EXPECT_LE(runner_->stats().wakeups.value(), 1u) << "the limit of the run itself";
}

TEST_F(ThreadRunnerTest, BusyPollIsOffUnlessAskedFor) {
  SocketDevice* device = AddDevice("s0");
  WriteFrame(device->peer());
  runner_->RunFor(milliseconds(20));
  runner_->SetBusyPoll(milliseconds(-5));
  WriteFrame(device->peer());
  runner_->RunFor(milliseconds(20));
  EXPECT_EQ(sink_.frames, 2);
  EXPECT_EQ(runner_->stats().busy_polls.value(), 0u);
}

TEST_F(ThreadRunnerTest, AContextCanMoveToAThread) {
  SocketDevice* device = AddDevice("s0");
  context_.DetachFromThread();
  std::thread thread([this] { runner_->Run(); });
  WriteFrame(device->peer());
  std::atomic<int> seen{0};
  while (seen == 0) {
    context_.Post([&] { seen = sink_.frames; });
    std::this_thread::sleep_for(milliseconds(1));
  }
  context_.Post([this] { context_.DetachFromThread(); });
  runner_->Stop();
  thread.join();
}

}  // namespace
}  // namespace tapwire
