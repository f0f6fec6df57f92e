// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/uv/uv_runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <uv.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/tx_path.h"
#include "stack/sockets/system_environment.h"
#include "tests/testutil/socket_device.h"

namespace tapwire {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::SocketDevice;

// A uv_timer_t of the test that ends the loop.
class LoopEnd {
 public:
  LoopEnd(uv_loop_t* loop, uint64_t ms) : timer_(new uv_timer_t) {
    uv_timer_init(loop, timer_);
    uv_timer_start(
        timer_, [](uv_timer_t* timer) { uv_stop(timer->loop); }, ms, 0);
  }
  ~LoopEnd() {
    uv_close(reinterpret_cast<uv_handle_t*>(timer_),
             [](uv_handle_t* handle) { delete reinterpret_cast<uv_timer_t*>(handle); });
  }

 private:
  uv_timer_t* timer_;
};

// Counts the turns of a loop.
class TurnCounter {
 public:
  explicit TurnCounter(uv_loop_t* loop) : check_(new uv_check_t) {
    uv_check_init(loop, check_);
    check_->data = this;
    uv_check_start(check_,
                   [](uv_check_t* check) { ++static_cast<TurnCounter*>(check->data)->turns; });
    uv_unref(reinterpret_cast<uv_handle_t*>(check_));
  }
  ~TurnCounter() {
    uv_close(reinterpret_cast<uv_handle_t*>(check_),
             [](uv_handle_t* handle) { delete reinterpret_cast<uv_check_t*>(handle); });
  }
  int turns = 0;

 private:
  uv_check_t* check_;
};

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

class UvRunnerTest : public ::testing::Test {
 protected:
  UvRunnerTest() {
    uv_loop_init(&loop_);
    context_ = std::make_unique<netdev::NetContext>(system_.environment());
    Attach();
  }
  ~UvRunnerTest() override {
    runner_.reset();
    context_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
  }

  void Attach() {
    auto runner = UvRunner::Attach(&loop_, context_.get());
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
  }

  void RunFor(milliseconds time) {
    LoopEnd end(&loop_, static_cast<uint64_t>(time.count()));
    uv_run(&loop_, UV_RUN_DEFAULT);
  }

  SocketDevice* AddDevice(const std::string& name) {
    auto device = context_->registry().Register(std::make_unique<SocketDevice>(*context_, name));
    EXPECT_TRUE(device.ok());
    EXPECT_TRUE((*device)->Up().ok());
    (*device)->AddPacketType(sink_);
    return *device;
  }

  static void WriteFrame(int fd) {
    const std::array<uint8_t, 60> frame = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1};
    EXPECT_EQ(write(fd, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }

  SystemEnvironment system_;
  CountingSink sink_;
  uv_loop_t loop_;
  std::unique_ptr<netdev::NetContext> context_;
  std::unique_ptr<UvRunner> runner_;
};

// ---- Lifetime ----

TEST_F(UvRunnerTest, DoesNotKeepTheLoopAlive) {
  AddDevice("s0");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(uv_run(&loop_, UV_RUN_DEFAULT), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(1));
}

TEST_F(UvRunnerTest, RefKeepsTheLoopAliveUntilUnref) {
  runner_->Ref();
  runner_->Ref();
  EXPECT_NE(uv_loop_alive(&loop_), 0);
  FunctionTimer timer([this] { runner_->Unref(); });
  context_->timers().Arm(timer, context_->RefreshNow() + milliseconds(20));
  EXPECT_EQ(uv_run(&loop_, UV_RUN_DEFAULT), 0);
  EXPECT_EQ(uv_loop_alive(&loop_), 0);
}

TEST_F(UvRunnerTest, LoopCanBeStoppedAndStartedAgain) {
  SocketDevice* device = AddDevice("s0");
  for (int i = 1; i <= 3; ++i) {
    WriteFrame(device->peer());
    RunFor(milliseconds(5));
    EXPECT_EQ(sink_.frames, i);
  }
}

TEST_F(UvRunnerTest, DetachedContextIsLeftAlone) {
  SocketDevice* device = AddDevice("s0");
  RunFor(milliseconds(5));
  runner_.reset();
  WriteFrame(device->peer());
  context_->Post([] { ADD_FAILURE() << "nobody runs the context"; });
  RunFor(milliseconds(20));
  EXPECT_EQ(sink_.frames, 0);
  // Takes back what was posted, uncalled.
  context_.reset();
}

TEST_F(UvRunnerTest, CanBeAttachedAgain) {
  SocketDevice* device = AddDevice("s0");
  RunFor(milliseconds(5));
  runner_.reset();
  Attach();  // before the first one's handles are closed
  WriteFrame(device->peer());
  RunFor(milliseconds(20));
  EXPECT_EQ(sink_.frames, 1);
}

TEST_F(UvRunnerTest, MayBeDestroyedByACallbackOfItsContext) {
  SocketDevice* device = AddDevice("s0");
  sink_.on_frame = [this] { context_->Defer([this] { runner_.reset(); }); };
  WriteFrame(device->peer());
  RunFor(milliseconds(20));
  EXPECT_EQ(runner_, nullptr);
  EXPECT_EQ(sink_.frames, 1);
}

TEST_F(UvRunnerTest, ManyContextsShareALoop) {
  netdev::NetContext other(system_.environment());
  auto runner = UvRunner::Attach(&loop_, &other);
  ASSERT_TRUE(runner.ok());
  int ran = 0;
  other.Post([&] { ++ran; });
  context_->Post([&] { ++ran; });
  RunFor(milliseconds(20));
  EXPECT_EQ(ran, 2);
}

// ---- Descriptors ----

TEST_F(UvRunnerTest, FramesAreReceivedAndSent) {
  SocketDevice* device = AddDevice("s0");
  // The answer is sent from the batch in which the frame came.
  sink_.on_frame = [this, device] {
    context_->Defer([this, device] {
      const std::vector<uint8_t> reply(60, 1);
      EXPECT_TRUE(
          TxOk(netdev::TxPath::Transmit(PacketFromBytes(context_->pool(), reply), *device)));
    });
  };
  WriteFrame(device->peer());
  RunFor(milliseconds(20));
  EXPECT_EQ(sink_.frames, 1);
  std::array<uint8_t, 100> answer;
  EXPECT_EQ(read(device->peer(), answer.data(), answer.size()), 60);
}

// What a program sends outside of any callback of ours leaves before the loop blocks.
TEST_F(UvRunnerTest, CallsFromOutsideAreFlushedBeforeBlocking) {
  SocketDevice* device = AddDevice("s0");
  const std::vector<uint8_t> frame(60, 1);
  EXPECT_EQ(netdev::TxPath::Transmit(PacketFromBytes(context_->pool(), frame), *device),
            netdev::TxResult::kQueued);
  RunFor(milliseconds(5));
  std::array<uint8_t, 100> got;
  EXPECT_EQ(read(device->peer(), got.data(), got.size()), 60);
}

TEST_F(UvRunnerTest, WorkBeyondTheBudgetGoesOnWithoutBlocking) {
  SocketDevice* device = AddDevice("s0");
  int sent = 0;
  const std::array<uint8_t, 60> frame{};
  // More than one batch's budget, or as much as the socket takes.
  while (sent < 1000 && write(device->peer(), frame.data(), frame.size()) > 0) ++sent;
  ASSERT_GT(sent, 256);
  RunFor(milliseconds(50));
  EXPECT_EQ(sink_.frames, sent);
  EXPECT_EQ(runner_->stats().spurious_timer_wakeups.value(), 0u);
}

TEST_F(UvRunnerTest, DevicesComeAndGo) {
  SocketDevice* first = AddDevice("s0");
  RunFor(milliseconds(5));
  SocketDevice* second = AddDevice("s1");
  CountingSink first_sink;
  first->AddPacketType(first_sink);
  RunFor(milliseconds(5));
  WriteFrame(first->peer());
  WriteFrame(second->peer());
  RunFor(milliseconds(10));
  EXPECT_EQ(first_sink.frames, 1);
  EXPECT_EQ(sink_.frames, 1);
  first->Down();
  WriteFrame(first->peer());
  RunFor(milliseconds(10));
  EXPECT_EQ(first_sink.frames, 1);
  ASSERT_TRUE(first->Up().ok());
  RunFor(milliseconds(10));
  EXPECT_EQ(first_sink.frames, 2);
}

// Covers: demand:61 — the descriptor's number is reused at once; the new file must not inherit
// anything, nor the old one be polled.
TEST_F(UvRunnerTest, DescriptorIsNotPolledAnyMoreWhenItsDeviceClosesIt) {
  SocketDevice* device = AddDevice("s0");
  RunFor(milliseconds(5));
  const int fd = device->fd();
  int reused = -1;
  context_->Post([&] { context_->registry().Unregister(*device); });
  context_->Post([] {});
  RunFor(milliseconds(5));
  reused = open("/dev/zero", O_RDONLY);
  ASSERT_EQ(reused, fd) << "the number was not free";
  uv_poll_t poll;  // EEXIST, or an abort inside libuv, if it still had the old one
  ASSERT_EQ(fcntl(reused, F_GETFD) >= 0, true);
  int pair[2];
  ASSERT_EQ(pipe2(pair, O_NONBLOCK), 0);
  ASSERT_EQ(dup2(pair[0], reused), reused);
  ASSERT_EQ(uv_poll_init(&loop_, &poll, reused), 0);
  const uint64_t wakeups = runner_->stats().wakeups();
  ASSERT_EQ(write(pair[1], "x", 1), 1);
  RunFor(milliseconds(20));
  EXPECT_EQ(runner_->stats().wakeups(), wakeups);
  uv_close(reinterpret_cast<uv_handle_t*>(&poll), nullptr);
  uv_run(&loop_, UV_RUN_NOWAIT);
  close(pair[0]);
  close(pair[1]);
  close(reused);
}

// Covers: demand:61, bug:B94 — an end of file stays readable; the device's silence about it must
// not cost more than one poll per turn, and none once the device is down.
TEST_F(UvRunnerTest, DeviceThatGoesDownInItsPollIsNotPolledAgain) {
  SocketDevice* device = AddDevice("s0");
  RunFor(milliseconds(5));
  sink_.on_frame = [device] { device->Down(); };
  WriteFrame(device->peer());
  device->ClosePeer();
  RunFor(milliseconds(20));
  const int polls = device->polls();
  const uint64_t wakeups = runner_->stats().wakeups();
  RunFor(milliseconds(50));
  EXPECT_EQ(device->polls(), polls);
  EXPECT_EQ(runner_->stats().wakeups(), wakeups);
}

TEST_F(UvRunnerTest, WritableIsWatchedOnlyWhileWanted) {
  SocketDevice* device = AddDevice("s0");
  RunFor(milliseconds(10));
  EXPECT_EQ(device->polls(), 0) << "writable all the time, and not asked for";
  device->SetWantWrite(true);
  LoopEnd end(&loop_, 1000);
  while (device->polls() == 0) uv_run(&loop_, UV_RUN_ONCE);
  device->SetWantWrite(false);
  uv_run(&loop_, UV_RUN_NOWAIT);
  const int polls = device->polls();
  RunFor(milliseconds(10));
  EXPECT_LE(device->polls(), polls + 1);
}

// ---- Timers ----

class UvRunnerTimerTest : public UvRunnerTest {
 protected:
  // How late a timer of `delay` comes; never negative. The best of a few, since the machine may be
  // busy with other things.
  Duration Lateness(Duration delay) {
    Duration best = seconds(10);
    for (int i = 0; i < 5; ++i) {
      std::optional<Time> fired;
      FunctionTimer timer([&] {
        fired = system_.clock().Now();
        uv_stop(&loop_);
      });
      const Time due = context_->RefreshNow() + delay;
      context_->timers().Arm(timer, due);
      LoopEnd end(&loop_, 2000);
      uv_run(&loop_, UV_RUN_DEFAULT);
      EXPECT_TRUE(fired.has_value());
      if (!fired.has_value()) return best;
      EXPECT_GE(*fired, due);
      best = std::min(best, *fired - due);
    }
    return best;
  }
};

TEST_F(UvRunnerTimerTest, NearDeadlinesAreFinerThanAMillisecond) {
  EXPECT_LT(Lateness(microseconds(100)), microseconds(900));
  EXPECT_LT(Lateness(microseconds(1500)), microseconds(900));
  EXPECT_EQ(runner_->stats().spurious_timer_wakeups.value(), 0u);
}

TEST_F(UvRunnerTimerTest, FartherOnesAreRoundedUpToTheNextMillisecond) {
  EXPECT_LT(Lateness(microseconds(2500)), milliseconds(2));
  EXPECT_LT(Lateness(microseconds(20'300)), milliseconds(3));
  EXPECT_EQ(runner_->stats().spurious_timer_wakeups.value(), 0u);
}

TEST_F(UvRunnerTimerTest, EveryDeadlineWakesOnce) {
  int fired = 0;
  std::vector<std::unique_ptr<FunctionTimer>> timers;
  const Time start = context_->RefreshNow();
  for (int i = 1; i <= 10; ++i) {
    timers.push_back(std::make_unique<FunctionTimer>([&] { ++fired; }));
    context_->timers().Arm(*timers.back(), start + milliseconds(7 * i));
  }
  RunFor(milliseconds(100));
  EXPECT_EQ(fired, 10);
  EXPECT_LE(runner_->stats().timer_wakeups.value(), 10u);
  EXPECT_EQ(runner_->stats().spurious_timer_wakeups.value(), 0u);
}

TEST_F(UvRunnerTimerTest, MovedAndCancelledDeadlinesWakeNobody) {
  FunctionTimer moved([] { ADD_FAILURE() << "too early"; });
  FunctionTimer cancelled([] { ADD_FAILURE() << "was cancelled"; });
  const Time now = context_->RefreshNow();
  context_->timers().Arm(moved, now + milliseconds(30));
  context_->timers().Arm(cancelled, now + milliseconds(20));
  RunFor(milliseconds(5));
  context_->timers().Cancel(cancelled);
  context_->timers().Arm(moved, now + seconds(60));
  RunFor(milliseconds(60));
  EXPECT_EQ(runner_->stats().timer_wakeups.value(), 0u);
  context_->timers().Cancel(moved);
}

TEST_F(UvRunnerTimerTest, DeadlineInThePastIsServedAtOnce) {
  int fired = 0;
  FunctionTimer timer([&] { ++fired; });
  context_->timers().Arm(timer, context_->RefreshNow() - seconds(1));
  RunFor(milliseconds(10));
  EXPECT_EQ(fired, 1);
}

// A program's own callback arms a timer of the stack without any other work.
TEST_F(UvRunnerTimerTest, DeadlineSetFromAForeignCallbackCounts) {
  int fired = 0;
  FunctionTimer timer([&] { ++fired; });
  std::pair<netdev::NetContext*, FunctionTimer*> both(context_.get(), &timer);
  uv_timer_t foreign;
  uv_timer_init(&loop_, &foreign);
  foreign.data = &both;
  uv_timer_start(
      &foreign,
      [](uv_timer_t* handle) {
        auto [context, own] =
            *static_cast<std::pair<netdev::NetContext*, FunctionTimer*>*>(handle->data);
        context->timers().Arm(*own, context->RefreshNow() + milliseconds(3));
      },
      5, 0);
  RunFor(milliseconds(40));
  EXPECT_EQ(fired, 1);
  uv_close(reinterpret_cast<uv_handle_t*>(&foreign), nullptr);
  uv_run(&loop_, UV_RUN_NOWAIT);
}

// ---- Idle ----

// Turns of a loop that runs nothing but the timer which ends it.
int TurnsWithoutAnything(milliseconds time) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  int turns = 0;
  {
    TurnCounter counter(&loop);
    LoopEnd end(&loop, static_cast<uint64_t>(time.count()));
    uv_run(&loop, UV_RUN_DEFAULT);
    turns = counter.turns;
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
  return turns;
}

// Covers: demand:19 — an idle context never wakes the loop: it turns as often as without one.
TEST_F(UvRunnerTest, IdleContextNeverWakesTheLoop) {
  AddDevice("s0");
  FunctionTimer far([] {});
  context_->timers().Arm(far, context_->RefreshNow() + seconds(3600));
  RunFor(milliseconds(20));
  uv_run(&loop_, UV_RUN_NOWAIT);
  const uint64_t batches = runner_->stats().batches.value();
  TurnCounter counter(&loop_);
  RunFor(milliseconds(1000));
  EXPECT_EQ(counter.turns, TurnsWithoutAnything(milliseconds(50)));
  EXPECT_EQ(runner_->stats().wakeups(), 0u);
  EXPECT_EQ(runner_->stats().batches.value(), batches);
}

// ---- Busy polling ----

TEST_F(UvRunnerTest, BusyPollKeepsTheLoopTurningForItsBudget) {
  SocketDevice* device = AddDevice("s0");
  runner_->SetBusyPoll(milliseconds(10));
  WriteFrame(device->peer());
  TurnCounter counter(&loop_);
  RunFor(milliseconds(200));
  EXPECT_EQ(sink_.frames, 1);
  EXPECT_GT(runner_->stats().busy_turns.value(), 20u);
  EXPECT_GE(static_cast<uint64_t>(counter.turns), runner_->stats().busy_turns.value());
}

// Covers: demand:19 — polling ends with its budget: after that an idle context costs nothing.
TEST_F(UvRunnerTest, IdleContextLetsTheLoopSleepAfterOneBudget) {
  AddDevice("s0");
  runner_->SetBusyPoll(milliseconds(5));
  RunFor(milliseconds(100));
  uv_run(&loop_, UV_RUN_NOWAIT);
  const uint64_t busy = runner_->stats().busy_turns.value();
  TurnCounter counter(&loop_);
  RunFor(milliseconds(300));
  EXPECT_EQ(runner_->stats().busy_turns.value(), busy);
  EXPECT_EQ(counter.turns, TurnsWithoutAnything(milliseconds(50)));
}

TEST_F(UvRunnerTest, BusyPollDoesNotKeepTheLoopAlive) {
  SocketDevice* device = AddDevice("s0");
  runner_->SetBusyPoll(seconds(60));
  WriteFrame(device->peer());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(uv_run(&loop_, UV_RUN_DEFAULT), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
}

TEST_F(UvRunnerTest, BusyPollIsOffUnlessAskedFor) {
  SocketDevice* device = AddDevice("s0");
  WriteFrame(device->peer());
  RunFor(milliseconds(10));
  runner_->SetBusyPoll(milliseconds(-1));
  WriteFrame(device->peer());
  RunFor(milliseconds(10));
  EXPECT_EQ(sink_.frames, 2);
  EXPECT_EQ(runner_->stats().busy_turns.value(), 0u);
}

// ---- Post ----

TEST_F(UvRunnerTest, PostFromAnotherThreadWakesTheLoop) {
  std::optional<std::thread::id> ran_on;
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    context_->Post([&] {
      ran_on = std::this_thread::get_id();
      uv_stop(&loop_);
    });
  });
  RunFor(milliseconds(5000));
  other.join();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_GE(runner_->stats().post_wakeups.value(), 1u);
}

TEST_F(UvRunnerTest, PostsFromManyThreadsAllRun) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 500;
  int ran = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        context_->Post([&] {
          if (++ran == kThreads * kPosts) uv_stop(&loop_);
        });
      }
    });
  }
  RunFor(milliseconds(20'000));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, kThreads * kPosts);
}

TEST_F(UvRunnerTest, DestructionRacesWithPost) {
  for (int i = 0; i < 20; ++i) {
    std::thread other([&] {
      for (int k = 0; k < 50; ++k) context_->Post([] {});
    });
    uv_run(&loop_, UV_RUN_NOWAIT);
    runner_.reset();
    uv_run(&loop_, UV_RUN_NOWAIT);
    other.join();
    Attach();
  }
}

}  // namespace
}  // namespace tapwire
