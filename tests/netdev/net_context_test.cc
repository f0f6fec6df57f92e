// SPDX-License-Identifier: Apache-2.0
#include "netdev/net_context.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"

namespace tapwire::netdev {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FakeSink;
using ::testing::IsEmpty;

class Hook final : public FlushHook {
 public:
  explicit Hook(std::function<void()> flush) : flush_(std::move(flush)) {}
  void Flush() override { flush_(); }

 private:
  std::function<void()> flush_;
};

class NetContextTest : public testing::NetdevTest {
 protected:
  std::vector<std::string> log;
};

TEST_F(NetContextTest, IdleContextDoesNothing) {
  EXPECT_EQ(context.next_deadline(), std::nullopt);
  EXPECT_FALSE(context.has_pending_work());
  AddUpDevice();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(context.RunOnce());
  EXPECT_EQ(context.next_deadline(), std::nullopt);
  EXPECT_EQ(context.stats().rounds.value(), 10u) << "one empty round each";
  EXPECT_EQ(context.stats().polls.value(), 0u);
  EXPECT_EQ(context.stats().timers_fired.value(), 0u);
  EXPECT_EQ(context.stats().posted.value(), 0u);
}

TEST_F(NetContextTest, OrderOfABatchIsFixed) {
  FakeDevice& device = AddUpDevice();
  FakeDevice& local = AddUpDevice({.name = "local"});
  FakeSink sink, local_sink;
  device.AddPacketType(sink);
  local.AddPacketType(local_sink);
  sink.on_receive = [&](const Packet&, NetDevice&) { log.push_back("polled"); };
  local_sink.on_receive = [&](const Packet&, NetDevice&) { log.push_back("backlog"); };
  Hook hook([&] { log.push_back("flush"); });
  FunctionTimer timer([&] { log.push_back("timer"); });

  context.ScheduleFlush(hook);
  context.ScheduleFlush(hook);
  context.Defer([&] { log.push_back("deferred"); });
  context.timers().Arm(timer, context.now());
  context.EnqueueBacklog(Frame(), local);
  device.rx().Add(Frame());
  context.Post([&] { log.push_back("posted"); });
  EXPECT_FALSE(context.RunOnce());
  EXPECT_THAT(log, ElementsAre("posted", "polled", "backlog", "timer", "deferred", "flush"));
}

TEST_F(NetContextTest, ClockIsReadOncePerBatch) {
  class CountingClock : public Clock {
   public:
    Time Now() override { return Time(Duration(++reads)); }
    int64_t reads = 0;
  } clock;
  SeededRandom random(1);
  NetContext counted({.clock = &clock, .random = &random});
  const int64_t before = clock.reads;
  for (int i = 0; i < 3; ++i) counted.Defer([] {});
  counted.RunOnce();
  EXPECT_EQ(clock.reads, before + 1);
  EXPECT_EQ(counted.now(), Time(Duration(before + 1)));
  counted.RefreshNow();
  EXPECT_EQ(counted.now(), Time(Duration(before + 2)));
}

TEST_F(NetContextTest, DeadlineIsTheFirstTimerUnlessWorkWaits) {
  FunctionTimer timer([&] { log.push_back("timer"); });
  const Time due = context.now() + milliseconds(30);
  context.timers().Arm(timer, due);
  EXPECT_EQ(context.next_deadline(), due);
  environment.clock.Set(due - Duration(1));
  EXPECT_FALSE(context.RunOnce());
  EXPECT_THAT(log, IsEmpty());
  environment.clock.Set(due);
  EXPECT_FALSE(context.RunOnce());
  EXPECT_THAT(log, ElementsAre("timer"));
  EXPECT_EQ(context.stats().timers_fired.value(), 1u);
  EXPECT_EQ(context.next_deadline(), std::nullopt);
  context.Defer([] {});
  EXPECT_EQ(context.next_deadline(), context.now());
}

TEST_F(NetContextTest, WorkOfEventsAndFlushesIsDoneInTheSameBatch) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  int left = 5;
  sink.on_receive = [&](const Packet&, NetDevice& d) {
    context.Defer([&] {
      if (--left > 0) context.EnqueueBacklog(Frame(), d);
    });
  };
  context.EnqueueBacklog(Frame(), device);
  EXPECT_FALSE(context.RunOnce());
  EXPECT_EQ(left, 0);
}

TEST_F(NetContextTest, FlushThatSchedulesFlushesRunsThemToo) {
  Hook third([&] { log.push_back("third"); });
  Hook second([&] {
    log.push_back("second");
    context.ScheduleFlush(third);
  });
  Hook first([&] {
    log.push_back("first");
    context.ScheduleFlush(second);
  });
  context.ScheduleFlush(first);
  EXPECT_FALSE(context.RunOnce());
  EXPECT_THAT(log, ElementsAre("first", "second", "third"));
  EXPECT_EQ(context.stats().rounds.value(), 1u);
}

// An accepted connection's own events, for example: what they send leaves in the same flush.
TEST_F(NetContextTest, EventsOfEventsRunBeforeTheFlush) {
  Hook flush([&] { log.push_back("flush"); });
  context.Defer([&] {
    log.push_back("accept");
    context.ScheduleFlush(flush);
    context.Defer([&] {
      log.push_back("read");
      context.Defer([&] { log.push_back("write"); });
    });
  });
  EXPECT_FALSE(context.RunOnce());
  EXPECT_THAT(log, ElementsAre("accept", "read", "write", "flush"));
  EXPECT_EQ(context.stats().rounds.value(), 1u);
}

TEST_F(NetContextTest, DestroyedHooksAreNotFlushed) {
  auto doomed = std::make_unique<Hook>([&] { log.push_back("doomed"); });
  Hook killer([&] { doomed.reset(); });
  context.ScheduleFlush(killer);
  context.ScheduleFlush(*doomed);
  context.RunOnce();
  auto other = std::make_unique<Hook>([&] { log.push_back("other"); });
  context.ScheduleFlush(*other);
  other.reset();
  EXPECT_FALSE(context.has_pending_work());
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(NetContextTest, EndlessWorkDoesNotHoldTheHost) {
  int deferrals = 0, flushes = 0;
  std::function<void()> again = [&] {
    ++deferrals;
    context.Defer(again);
  };
  context.Defer(again);
  EXPECT_TRUE(context.RunOnce());
  EXPECT_EQ(deferrals, 64 * 4);
  Hook hook([&] {
    ++flushes;
    context.ScheduleFlush(hook);
  });
  context.ScheduleFlush(hook);
  EXPECT_TRUE(context.RunOnce());
  EXPECT_EQ(deferrals, 2 * 64 * 4);
  EXPECT_GT(flushes, 0);
  EXPECT_LE(flushes, 64 * 8);
  EXPECT_EQ(context.next_deadline(), context.now());
}

TEST_F(NetContextTest, BudgetLimitsTheBatch) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  for (int i = 0; i < 600; ++i) device.rx().Add(Frame({.payload = 1}));
  EXPECT_TRUE(context.RunOnce());
  EXPECT_EQ(sink.packets.size(), 256u);
  EXPECT_THAT(device.rx().budgets, ElementsAre(64, 64, 64, 64));
  EXPECT_TRUE(context.RunOnce(100));
  EXPECT_EQ(sink.packets.size(), 356u);
  EXPECT_TRUE(context.RunOnce(0));
  EXPECT_EQ(sink.packets.size(), 356u);
  EXPECT_FALSE(context.RunOnce(1000));
  EXPECT_EQ(sink.packets.size(), 600u);
}

TEST_F(NetContextTest, BusyDevicesTakeTurns) {
  std::vector<FakeDevice*> devices;
  std::vector<std::unique_ptr<FakeSink>> sinks;
  for (int i = 0; i < 6; ++i) {
    FakeDevice& device = AddUpDevice({.name = context.registry().FreeName("d")});
    sinks.push_back(std::make_unique<FakeSink>());
    device.AddPacketType(*sinks.back());
    for (int n = 0; n < 500; ++n) device.rx().Add(Frame({.payload = 1}));
    devices.push_back(&device);
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(context.RunOnce(256));
  for (const auto& sink : sinks) EXPECT_EQ(sink->packets.size(), 128u);
}

TEST_F(NetContextTest, BusyDevicesDoNotStarveTheBacklog) {
  FakeDevice& device = AddUpDevice();
  FakeDevice& local = AddUpDevice({.name = "local"});
  FakeSink sink, local_sink;
  device.AddPacketType(sink);
  local.AddPacketType(local_sink);
  for (int n = 0; n < 300; ++n) device.rx().Add(Frame({.payload = 1}));
  context.EnqueueBacklog(Frame(), local);
  EXPECT_TRUE(context.RunOnce(64));
  EXPECT_EQ(local_sink.packets.size(), 1u);
}

TEST_F(NetContextTest, BacklogIsBoundedAndTheDropCountedAtTheDevice) {
  TestEnvironment other;
  NetContext bounded(other.environment(), {.backlog_limit_packets = 3});
  auto added =
      bounded.registry().Register(std::make_unique<FakeDevice>(bounded, FakeDevice::Options{}));
  ASSERT_TRUE(added.ok());
  FakeDevice& device = **added;
  ASSERT_TRUE(device.Up().ok());
  FakeSink sink;
  device.AddPacketType(sink);
  for (int i = 0; i < 5; ++i) {
    bounded.EnqueueBacklog(testing::MakePacket(bounded.pool(), testing::BuildFrame({})), device);
  }
  EXPECT_EQ(device.drops().value(DropReason::kLinkBacklogFull), 2u);
  EXPECT_EQ(device.stats().rx_dropped.value(), 2u);
  EXPECT_EQ(bounded.stats().backlog_dropped.value(), 2u);
  bounded.RunOnce();
  EXPECT_EQ(sink.packets.size(), 3u);
  EXPECT_EQ(device.drops().total(), 2u);
}

TEST_F(NetContextTest, BacklogStampsArrivalAndDevice) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  PacketPtr packet = Frame();
  packet->meta.rx_time = Time();
  packet->meta.rx_device = 99;
  context.EnqueueBacklog(std::move(packet), device);
  context.RunOnce();
  ASSERT_EQ(sink.packets.size(), 1u);
  EXPECT_EQ(sink.packets[0]->meta.rx_time, context.now());
  EXPECT_EQ(sink.packets[0]->meta.rx_device, device.ifindex());
}

TEST_F(NetContextTest, DeferIsBounded) {
  TestEnvironment other;
  NetContext bounded(other.environment(), {.deferred_limit = 2});
  int calls = 0;
  for (int i = 0; i < 5; ++i) bounded.Defer([&] { ++calls; });
  bounded.RunOnce();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(bounded.stats().deferred_dropped.value(), 3u);
}

TEST_F(NetContextTest, NestedRunDoesNothing) {
  bool nested = false;
  context.Defer([&] {
    context.Defer([&] { nested = true; });
    EXPECT_TRUE(context.RunOnce()) << "says that work is left";
    EXPECT_FALSE(nested);
  });
  EXPECT_FALSE(context.RunOnce());
  EXPECT_TRUE(nested);
}

TEST_F(NetContextTest, WorkLeftAtTheEndIsDestroyedUncalled) {
  auto token = std::make_shared<int>(0);
  {
    TestEnvironment other;
    NetContext short_lived(other.environment());
    short_lived.Defer([token] { ++*token; });
    short_lived.Post([token] { ++*token; });
    // Holds a packet of the pool, which must be alive until then.
    PacketPtr packet = testing::MakePacket(short_lived.pool(), testing::BuildFrame({}));
    short_lived.Defer([kept = std::move(packet)] {});
  }
  EXPECT_EQ(*token, 0);
  EXPECT_EQ(token.use_count(), 1);
}

TEST_F(NetContextTest, FramesLeftAtTheEndAreFreed) {
  TestEnvironment other;
  NetContext short_lived(other.environment());
  auto device = short_lived.registry().Register(
      std::make_unique<FakeDevice>(short_lived, FakeDevice::Options{}));
  ASSERT_TRUE((*device)->Up().ok());
  const auto frame = [&] {
    return testing::MakePacket(short_lived.pool(), testing::BuildFrame({}));
  };
  short_lived.EnqueueBacklog(frame(), **device);
  static_cast<void>(TxPath::Transmit(frame(), **device));
  (*device)->rx().Add(frame());
}

TEST_F(NetContextTest, DescriptorsOfDevicesThatAreUp) {
  FakeDevice& a = AddDevice({.name = "a"});
  FakeDevice& b = AddDevice({.name = "b"});
  a.fds = {{.fd = 7, .poll = &a.rx()}};
  b.fds = {{.fd = 8, .poll = &b.rx()}, {.fd = 9, .poll = &b.rx()}};
  EXPECT_THAT(context.CollectPollFds(), IsEmpty());
  const uint64_t before = context.poll_fds_generation();
  ASSERT_TRUE(b.Up().ok());
  EXPECT_NE(context.poll_fds_generation(), before);
  const std::vector<PollFd> fds = context.CollectPollFds();
  ASSERT_EQ(fds.size(), 2u);
  EXPECT_EQ(fds[1].fd, 9);
  EXPECT_EQ(fds[1].poll, &b.rx());
  const uint64_t up = context.poll_fds_generation();
  context.RunOnce();
  EXPECT_EQ(context.poll_fds_generation(), up);
  b.Down();
  EXPECT_NE(context.poll_fds_generation(), up);
  EXPECT_THAT(context.CollectPollFds(), IsEmpty());
}

TEST_F(NetContextTest, PostWakesOnlyASleepingHostAndOnlyOnce) {
  int wakeups = 0;
  context.SetWakeup([&] { ++wakeups; });
  context.Post([&] {
    log.push_back("first");
    context.Post([&] { log.push_back("from inside"); });
  });
  context.Post([&] { log.push_back("second"); });
  EXPECT_EQ(wakeups, 1);
  EXPECT_EQ(context.next_deadline(), context.now());
  EXPECT_TRUE(context.RunOnce()) << "posted from inside: told by the return value";
  EXPECT_EQ(wakeups, 1) << "the host is awake";
  EXPECT_FALSE(context.RunOnce());
  EXPECT_THAT(log, ElementsAre("first", "second", "from inside"));
  EXPECT_EQ(context.stats().posted.value(), 3u);
  context.SetWakeup(nullptr);
  context.Post([] {});
  EXPECT_EQ(wakeups, 1);
}

TEST(PollContextTest, MayBeDestroyedWhileScheduled) {
  TestEnvironment environment;
  NetContext context(environment.environment());
  FakeDevice device(context, {});
  {
    testing::FakeRxQueue queue(context, device);
    queue.Schedule();
    queue.Schedule();
    EXPECT_TRUE(queue.scheduled());
    EXPECT_TRUE(context.has_pending_work());
  }
  EXPECT_FALSE(context.has_pending_work());
}

TEST(PollContextTest, LeavesTheListWhenDrained) {
  TestEnvironment environment;
  NetContext context(environment.environment());
  FakeDevice device(context, {});
  testing::FakeRxQueue queue(context, device);
  queue.Schedule();
  EXPECT_FALSE(context.RunOnce());
  EXPECT_FALSE(queue.scheduled());
  EXPECT_THAT(queue.budgets, ElementsAre(64));
}

// A host's loop as a runner would write it: sleeps while next_deadline() is nothing.
class LoopHost {
 public:
  explicit LoopHost(NetContext& context) : context_(context) {
    context_.SetWakeup([this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      woken_ = true;
      condition_.notify_one();
    });
  }
  ~LoopHost() { context_.SetWakeup(nullptr); }

  void RunUntil(const std::function<bool()>& done) {
    while (!done()) {
      if (context_.RunOnce()) continue;
      if (done()) return;
      std::unique_lock<std::mutex> lock(mutex_);
      condition_.wait(lock, [this] { return woken_; });
      woken_ = false;
    }
  }

 private:
  NetContext& context_;
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
};

TEST(NetContextThreadTest, EveryPostFromManyThreadsRunsOnce) {
  constexpr int kThreads = 4, kPosts = 5000;
  TestEnvironment environment;
  NetContext context(environment.environment());
  LoopHost host(context);
  int runs = 0;  // touched on this thread only
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        context.Post([&] { ++runs; });
        // Lets the host fall asleep now and then: no wake-up may be lost.
        if (i % 97 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
  }
  host.RunUntil([&] { return runs == kThreads * kPosts; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, kThreads * kPosts);
  EXPECT_EQ(context.stats().posted.value(), static_cast<uint64_t>(kThreads * kPosts));
}

TEST(NetContextThreadTest, PostedWorkMayPostBackAndForth) {
  TestEnvironment environment_a, environment_b(2);
  NetContext a(environment_a.environment());
  NetContext b(environment_b.environment());
  std::atomic<bool> done{false};
  int hops = 0;  // handed over with each message
  std::function<void()> ping, pong;
  ping = [&] {
    if (++hops == 2000) {
      done = true;
      b.Post([] {});
      return;
    }
    b.Post([&] { pong(); });
  };
  pong = [&] { a.Post([&] { ping(); }); };
  std::thread other([&] {
    b.DetachFromThread();
    LoopHost host(b);
    host.RunUntil([&] { return done.load(); });
    b.DetachFromThread();
  });
  a.Post([&] { ping(); });
  {
    LoopHost host(a);
    host.RunUntil([&] { return done.load(); });
  }
  other.join();
  EXPECT_EQ(hops, 2000);
}

}  // namespace
}  // namespace tapwire::netdev
