// SPDX-License-Identifier: Apache-2.0
#include "netdev/pipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/base/seeded_random.h"
#include "netdev/packet_copy.h"
#include "netdev/poll.h"
#include "netdev/registry.h"
#include "netdev/tx_path.h"
#include "tests/netdev/gro_frames.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire::netdev {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testutil::ByteVector;
using testutil::Pattern;

class RealClock final : public Clock {
 public:
  Time Now() override {
    return Time(
        std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
  }
};

// Takes every frame of a device.
class Sink final : public PacketType {
 public:
  explicit Sink(NetDevice& device) : PacketType(kAllTypes) { device.AddPacketType(*this); }
  void Receive(PacketPtr packet, NetDevice& device) override {
    ++count;
    if (on_packet) return on_packet(std::move(packet), device);
    frames.emplace_back(packet->length());
    packet->CopyOut(0, frames.back());
    last_meta = packet->meta;
    last_csum_start = packet->meta.csum_start < 0 ? -1 : packet->csum_start_in_data();
    last_frags = packet->frag_count();
  }

  std::function<void(PacketPtr, NetDevice&)> on_packet;
  size_t count = 0;
  std::vector<ByteVector> frames;
  PacketMeta last_meta;
  int32_t last_csum_start = -1;
  size_t last_frags = 0;
};

// A context with one end of a pipe. All calls on one thread unless said otherwise.
struct Side {
  explicit Side(PipeEnd end, const PipeDeviceOptions& options = {}, size_t pool_bytes = 32u << 20)
      : random(7), context({&clock, &random}, {.pool = {.budget_bytes = pool_bytes}}) {
    device = *AttachPipe(context, std::move(end), options);
    sink = std::make_unique<Sink>(*device);
  }
  // Watches the descriptors as a host's loop does; true if any was readable.
  bool Wait(int timeout_ms, int extra_fd = -1) {
    std::vector<pollfd> fds;
    const std::vector<PollFd> watched = context.CollectPollFds();
    for (const PollFd& fd : watched) fds.push_back({.fd = fd.fd, .events = POLLIN, .revents = 0});
    if (extra_fd >= 0) fds.push_back({.fd = extra_fd, .events = POLLIN, .revents = 0});
    if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return false;
    for (size_t i = 0; i < watched.size(); ++i) {
      if (fds[i].revents != 0) watched[i].poll->Schedule();
    }
    return true;
  }
  void Send(std::span<const uint8_t> frame) {
    static_cast<void>(TxPath::Transmit(PacketFromBytes(context.pool(), frame), *device));
  }

  RealClock clock;
  SeededRandom random;
  NetContext context;
  NetDevice* device = nullptr;
  std::unique_ptr<Sink> sink;
};

// Runs both until neither has anything to do.
void Pump(Side& a, Side& b) {
  bool busy = true;
  while (busy) {
    busy = false;
    for (Side* side : {&a, &b}) {
      busy = side->Wait(0) || busy;
      while (side->context.has_pending_work()) {
        side->context.RunOnce();
        busy = true;
      }
    }
  }
}

ByteVector TestFrame(size_t payload) {
  return testutil::Frame()
      .Eth(MacAddress(2, 0, 0, 0, 0, 1), MacAddress(2, 0, 0, 0, 0, 2))
      .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}})
      .Tcp({.source_port = 1, .destination_port = 2})
      .Payload(Pattern(payload))
      .Build();
}

class PipeTest : public ::testing::Test {
 protected:
  void Connect(const PipeOptions& options = {}) {
    auto ends = CreatePipe(options);
    ASSERT_TRUE(ends.ok()) << ends.status();
    a_ = std::make_unique<Side>(std::move(ends->first));
    b_ = std::make_unique<Side>(std::move(ends->second));
  }
  void Up() {
    ASSERT_TRUE(a_->device->Up().ok());
    ASSERT_TRUE(b_->device->Up().ok());
    Pump(*a_, *b_);
  }

  std::unique_ptr<Side> a_, b_;
};

TEST_F(PipeTest, FramesArriveInOrderInBothDirections) {
  Connect();
  Up();
  for (size_t i = 0; i < 3; ++i) a_->Send(TestFrame(i));
  b_->Send(TestFrame(9));
  Pump(*a_, *b_);
  EXPECT_THAT(b_->sink->frames, ElementsAre(TestFrame(0), TestFrame(1), TestFrame(2)));
  EXPECT_THAT(a_->sink->frames, ElementsAre(TestFrame(9)));
  EXPECT_EQ(a_->device->stats().tx_packets.value(), 3u);
  EXPECT_EQ(b_->device->stats().rx_packets.value(), 3u);
}

TEST_F(PipeTest, MergedFramesAreInTheStatistics) {
  Connect();
  Up();
  b_->device->SetGroMode(GroMode::kOn);
  for (uint16_t i = 0; i < 3; ++i) {
    a_->Send(testing::Piece({.ip_id = i}, size_t{1448} * i, 1448));
  }
  Pump(*a_, *b_);
  EXPECT_EQ(b_->sink->count, 1u);
  uint64_t merged = 0;
  b_->device->ForEachDriverStat([&](absl::string_view name, uint64_t value) {
    if (name == "rx_gro_merged") merged = value;
  });
  EXPECT_EQ(merged, 2u);
}

TEST_F(PipeTest, MetadataSurvivesTheCopy) {
  Connect();
  Up();
  const ByteVector frame = TestFrame(40'000);
  PacketPtr packet = PacketFromBytes(a_->context.pool(), frame);
  packet->set_l3_in_data(14);
  packet->set_l4_in_data(34);
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 16;
  packet->meta.gso = {.type = GsoType::kTcpv4, .size = 1448, .segs = 28};
  packet->meta.flow_hash = 4711;
  EXPECT_TRUE(TxOk(TxPath::Transmit(std::move(packet), *a_->device)));
  Pump(*a_, *b_);
  ASSERT_THAT(b_->sink->frames, ElementsAre(frame));
  EXPECT_EQ(b_->sink->last_meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(b_->sink->last_csum_start, 34);
  EXPECT_EQ(b_->sink->last_meta.csum_offset, 16);
  EXPECT_EQ(b_->sink->last_meta.gso, (GsoInfo{.type = GsoType::kTcpv4, .size = 1448, .segs = 28}));
  EXPECT_EQ(b_->sink->last_meta.flow_hash, 4711u);
  EXPECT_GT(b_->sink->last_frags, 0u);
}

TEST_F(PipeTest, WithoutOffloadsFramesAreCutBeforehand) {
  auto ends = CreatePipe({});
  a_ = std::make_unique<Side>(std::move(ends->first), PipeDeviceOptions{.offloads = false});
  b_ = std::make_unique<Side>(std::move(ends->second));
  Up();
  PacketPtr packet = PacketFromBytes(a_->context.pool(), TestFrame(3000));
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 16;
  packet->meta.gso = {.type = GsoType::kTcpv4, .size = 1448, .segs = 3};
  EXPECT_TRUE(TxOk(TxPath::Transmit(std::move(packet), *a_->device)));
  Pump(*a_, *b_);
  EXPECT_EQ(b_->sink->count, 3u);
  EXPECT_EQ(b_->sink->last_meta.csum_state, CsumState::kNone);
}

TEST_F(PipeTest, CarrierFollowsBothEnds) {
  Connect();
  ASSERT_TRUE(a_->device->Up().ok());
  Pump(*a_, *b_);
  EXPECT_FALSE(a_->device->has_carrier());
  ASSERT_TRUE(b_->device->Up().ok());
  Pump(*a_, *b_);
  EXPECT_TRUE(a_->device->is_running());
  EXPECT_TRUE(b_->device->is_running());
  b_->device->Down();
  Pump(*a_, *b_);
  EXPECT_FALSE(a_->device->has_carrier());
  ASSERT_TRUE(b_->device->Up().ok());
  Pump(*a_, *b_);
  EXPECT_TRUE(a_->device->is_running());
}

TEST_F(PipeTest, IdleEndsAreNotWoken) {
  Connect();
  Up();
  a_->Send(TestFrame(1));
  Pump(*a_, *b_);
  EXPECT_FALSE(a_->Wait(20));
  EXPECT_FALSE(b_->Wait(0));
  EXPECT_FALSE(a_->context.has_pending_work());
  EXPECT_FALSE(b_->context.has_pending_work());
}

TEST_F(PipeTest, FullRingHoldsTheQueueBackAndLosesNothing) {
  Connect({.ring_packets = 8});
  Up();
  for (size_t i = 0; i < 100; ++i) a_->Send(TestFrame(i));
  a_->context.RunOnce();
  EXPECT_LT(a_->device->stats().tx_packets.value(), 9u);
  Pump(*a_, *b_);
  EXPECT_EQ(b_->sink->count, 100u);
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(b_->sink->frames[i], TestFrame(i));
  EXPECT_EQ(a_->device->stats().tx_dropped.value(), 0u);
}

TEST_F(PipeTest, RingIsBoundedByBytes) {
  Connect({.ring_packets = 1024, .ring_bytes = 10'000});
  Up();
  for (size_t i = 0; i < 50; ++i) a_->Send(TestFrame(1400));
  a_->context.RunOnce();
  EXPECT_EQ(a_->device->stats().tx_packets.value(), 7u);  // the seventh reaches 10,000
  Pump(*a_, *b_);
  EXPECT_EQ(b_->sink->count, 50u);
}

TEST_F(PipeTest, SmallestRingWorks) {
  Connect({.ring_packets = 0, .ring_bytes = 0});
  Up();
  for (size_t i = 0; i < 5; ++i) a_->Send(TestFrame(i));
  Pump(*a_, *b_);
  EXPECT_EQ(b_->sink->count, 5u);
}

TEST_F(PipeTest, ReceiverWithoutMemoryDropsAndCounts) {
  auto ends = CreatePipe({});
  a_ = std::make_unique<Side>(std::move(ends->first));
  b_ = std::make_unique<Side>(std::move(ends->second), PipeDeviceOptions{}, 2u << 20);
  Up();
  std::vector<PacketPtr> kept;
  b_->sink->on_packet = [&](PacketPtr packet, NetDevice&) { kept.push_back(std::move(packet)); };
  const size_t sent = 2000;
  for (size_t i = 0; i < sent; ++i) {
    a_->Send(TestFrame(1000));
    Pump(*a_, *b_);
  }
  EXPECT_LT(kept.size(), sent);
  EXPECT_EQ(kept.size() + b_->device->drops().value(DropReason::kLinkNoBuffer), sent);
  kept.clear();
  EXPECT_EQ(b_->context.pool().stats().packets_in_use, 0u);
}

TEST_F(PipeTest, FrameBeyondTheReceiversMtuIsDroppedThere) {
  auto ends = CreatePipe({});
  a_ = std::make_unique<Side>(std::move(ends->first), PipeDeviceOptions{.mtu = 9000});
  b_ = std::make_unique<Side>(std::move(ends->second));
  Up();
  a_->Send(TestFrame(1460));
  a_->Send(TestFrame(1461));
  Pump(*a_, *b_);
  EXPECT_EQ(b_->sink->count, 1u);
  EXPECT_EQ(b_->device->drops().value(DropReason::kLinkOverMtu), 1u);
}

TEST_F(PipeTest, FramesOfATimeWhenTheReceiverWasDownAreOld) {
  Connect();
  Up();
  b_->device->Down();
  // The sender has not noticed yet.
  a_->Send(TestFrame(1));
  a_->context.RunOnce();
  ASSERT_TRUE(b_->device->Up().ok());
  Pump(*a_, *b_);
  EXPECT_EQ(b_->sink->count, 0u);
  a_->Send(TestFrame(2));
  Pump(*a_, *b_);
  EXPECT_THAT(b_->sink->frames, ElementsAre(TestFrame(2)));
}

TEST_F(PipeTest, SenderMayBeDestroyedWithFramesOnTheWay) {
  Connect();
  Up();
  for (size_t i = 0; i < 5; ++i) a_->Send(TestFrame(100));
  a_->context.RunOnce();
  a_->sink.reset();
  a_.reset();  // its pool checks that everything came back
  b_->Wait(0);
  while (b_->context.has_pending_work()) b_->context.RunOnce();
  EXPECT_EQ(b_->sink->count, 0u);
  EXPECT_FALSE(b_->device->has_carrier());
}

TEST_F(PipeTest, ReceiverMayBeDestroyedWithFramesOnTheWay) {
  Connect({.ring_packets = 4});
  Up();
  for (size_t i = 0; i < 20; ++i) a_->Send(TestFrame(100));
  a_->context.RunOnce();
  b_->sink.reset();
  b_.reset();
  a_->Wait(0);
  while (a_->context.has_pending_work()) a_->context.RunOnce();
  EXPECT_FALSE(a_->device->has_carrier());
  a_->Send(TestFrame(1));
  EXPECT_EQ(a_->device->drops().value(DropReason::kTxCarrierOff), 17u);
}

TEST_F(PipeTest, EndThatIsDroppedLeavesTheOtherWithoutCarrier) {
  auto ends = CreatePipe({});
  a_ = std::make_unique<Side>(std::move(ends->first));
  { PipeEnd gone = std::move(ends->second); }
  ASSERT_TRUE(a_->device->Up().ok());
  a_->context.RunOnce();
  EXPECT_FALSE(a_->device->has_carrier());
}

TEST_F(PipeTest, NameInUseIsRefused) {
  auto ends = CreatePipe({});
  a_ = std::make_unique<Side>(std::move(ends->first));
  EXPECT_EQ(AttachPipe(a_->context, std::move(ends->second), {}).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(PacketCopyTest, BytesAndPositionsAreThoseOfTheOriginal) {
  SlabPool from, to;
  const ByteVector bytes = Pattern(30'000);
  for (const size_t pulled : {size_t{0}, size_t{14}, size_t{500}}) {
    PacketPtr packet = PacketFromBytes(from, bytes);
    packet->set_l2_here();
    packet->set_l4_in_data(34);
    ASSERT_TRUE(packet->Pull(pulled).has_value());
    const PacketPtr copy = CopyPacketTo(to, *packet);
    ASSERT_NE(copy, nullptr);
    ByteVector out(copy->length());
    copy->CopyOut(0, out);
    EXPECT_EQ(out, ByteVector(bytes.begin() + static_cast<std::ptrdiff_t>(pulled), bytes.end()));
    if (pulled <= kDefaultHeadroom) {
      EXPECT_EQ(copy->l2_in_data(), packet->l2_in_data());
      EXPECT_EQ(copy->l4_in_data(), packet->l4_in_data());
    }
  }
}

TEST(PacketCopyTest, PoolAtItsBudgetGivesNothing) {
  SlabPool from, to({.budget_bytes = 0});
  EXPECT_EQ(CopyPacketTo(to, *PacketFromBytes(from, Pattern(100))), nullptr);
  EXPECT_EQ(to.stats().packets_in_use, 0u);
}

// ---- Two threads ----

// A side on a thread of its own: made, run and destroyed there.
class SideThread {
 public:
  SideThread(PipeEnd end, std::function<void(Side&)> start, std::function<bool(Side&)> done,
             const PipeDeviceOptions& options = {})
      : options_(options),
        stop_fd_(eventfd(0, EFD_CLOEXEC)),
        thread_([this, end = std::move(end), start = std::move(start),
                 done = std::move(done)]() mutable { Run(std::move(end), start, done); }) {}
  ~SideThread() {
    Stop();
    thread_.join();
    close(stop_fd_);
  }
  void Stop() {
    stop_.store(true);
    const uint64_t one = 1;
    EXPECT_EQ(write(stop_fd_, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }
  bool finished() const { return finished_.load(); }
  void WaitFinished() const {
    for (int i = 0; i < 20'000 && !finished(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(finished());
  }

 private:
  void Run(PipeEnd end, const std::function<void(Side&)>& start,
           const std::function<bool(Side&)>& done) {
    Side side(std::move(end), options_);
    start(side);
    while (!stop_.load()) {
      while (side.context.has_pending_work()) side.context.RunOnce();
      if (done(side)) finished_.store(true);
      side.Wait(side.context.has_pending_work() ? 0 : -1, stop_fd_);
    }
    side.sink.reset();
  }

  PipeDeviceOptions options_;
  int stop_fd_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> finished_{false};
  std::thread thread_;
};

ByteVector Numbered(uint32_t number, size_t payload) {
  ByteVector frame = TestFrame(payload + 4);
  StoreBe32(&frame[54], number);
  return frame;
}

// Adds one to the number of each frame and sends it back until `last`.
void BouncePlusOne(Side& side, uint32_t last, std::atomic<uint32_t>& reached) {
  side.sink->on_packet = [&side, last, &reached](PacketPtr packet, NetDevice& device) {
    ASSERT_TRUE(packet->EnsureLinear(58));
    const uint32_t number = LoadBe32(packet->data() + 54);
    reached.store(number);
    if (number >= last) return;
    StoreBe32(packet->data() + 54, number + 1);
    static_cast<void>(TxPath::Transmit(std::move(packet), device));
    static_cast<void>(side);
  };
  EXPECT_TRUE(side.device->Up().ok());
}

TEST(PipeThreadTest, PingPongWakesEachSideEveryTime) {
  constexpr uint32_t kLast = 2000;
  auto ends = CreatePipe({});
  std::atomic<uint32_t> reached_a{0}, reached_b{0};
  bool begun = false;
  SideThread b(
      std::move(ends->second), [&](Side& side) { BouncePlusOne(side, kLast, reached_b); },
      [&](Side&) { return false; });
  SideThread a(
      std::move(ends->first), [&](Side& side) { BouncePlusOne(side, kLast, reached_a); },
      [&](Side& side) {
        if (!begun && side.device->is_running()) {
          begun = true;
          side.Send(Numbered(1, 100));
          side.context.RunOnce();
        }
        return std::max(reached_a.load(), reached_b.load()) >= kLast;
      });
  for (int i = 0; i < 20'000 && std::max(reached_a.load(), reached_b.load()) < kLast; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(std::max(reached_a.load(), reached_b.load()), kLast);
}

// Sends numbered frames of changing size as fast as the ring takes them; the receiver checks bytes
// and order.
TEST(PipeThreadTest, BulkTransferArrivesWholeAndInOrder) {
  constexpr uint32_t kCount = 4000;
  auto ends = CreatePipe({.ring_packets = 64, .ring_bytes = 1 << 20});
  const auto size_of = [](uint32_t number) {
    return size_t{number % 7 == 0 ? 1400u : number % 200};
  };
  std::atomic<uint32_t> received{0};
  std::atomic<uint32_t> wrong{0};
  SideThread b(
      std::move(ends->second),
      [&](Side& side) {
        side.sink->on_packet = [&](PacketPtr packet, NetDevice&) {
          ByteVector bytes(packet->length());
          packet->CopyOut(0, bytes);
          const uint32_t expected = received.load();
          if (bytes != Numbered(expected, size_of(expected))) wrong.fetch_add(1);
          received.store(expected + 1);
        };
        EXPECT_TRUE(side.device->Up().ok());
      },
      [&](Side&) { return received.load() == kCount; });
  uint32_t next = 0;
  SideThread a(
      std::move(ends->first), [&](Side& side) { EXPECT_TRUE(side.device->Up().ok()); },
      [&](Side& side) {
        if (!side.device->is_running()) return false;
        // As much as the transmit queue holds; the rest when it was sent.
        const uint64_t waiting_limit = next + 500;
        while (next < kCount && next < waiting_limit &&
               next - side.device->stats().tx_packets.value() < 900) {
          side.Send(Numbered(next, size_of(next)));
          ++next;
        }
        return next == kCount;
      });
  b.WaitFinished();
  EXPECT_EQ(received.load(), kCount);
  EXPECT_EQ(wrong.load(), 0u);
}

// The first frame of each pair takes long to copy, the second comes while the receiver is at it: a
// wake-up that gets lost there shows as an answer that never comes.
TEST(PipeThreadTest, NoWakeUpIsLostWhileFallingAsleep) {
  const PipeDeviceOptions kJumbo{.mtu = 65'535};
  auto ends = CreatePipe({});
  SideThread b(
      std::move(ends->second),
      [](Side& side) {
        side.sink->on_packet = [](PacketPtr packet, NetDevice& device) {
          static_cast<void>(TxPath::Transmit(std::move(packet), device));
        };
        EXPECT_TRUE(side.device->Up().ok());
      },
      [](Side&) { return false; }, kJumbo);
  Side a(std::move(ends->first), kJumbo);
  ASSERT_TRUE(a.device->Up().ok());
  const auto spin_until = [&a](const std::function<bool()>& done, Duration limit) {
    const Time end = a.clock.Now() + limit;
    while (!done() && a.clock.Now() < end) {
      a.context.CollectPollFds().at(0).poll->Schedule();
      a.context.RunOnce();
    }
    return done();
  };
  ASSERT_TRUE(spin_until([&] { return a.device->is_running(); }, std::chrono::seconds(5)));
  for (size_t round = 1; round <= 150; ++round) {
    a.Send(TestFrame(60'000));
    a.context.RunOnce();
    const Time second = a.clock.Now() + std::chrono::nanoseconds(a.random.Uniform(200'000));
    while (a.clock.Now() < second) {
    }
    a.Send(TestFrame(10));
    a.context.RunOnce();
    ASSERT_TRUE(spin_until([&] { return a.sink->count == 2 * round; }, std::chrono::seconds(5)))
        << "round " << round;
  }
}

// One end goes down and up all the time while both send large frames, whose copying takes its time;
// then either end is destroyed while the other runs on.
TEST(PipeThreadTest, EndsMayGoAtAnyTime) {
  const ByteVector frame = TestFrame(60'000);
  const PipeDeviceOptions jumbo{.mtu = 65'535};
  for (int round = 0; round < 10; ++round) {
    auto ends = CreatePipe({.ring_packets = 16});
    std::atomic<uint64_t> received_a{0}, received_b{0};
    const auto start = [](std::atomic<uint64_t>& received) {
      return [&received](Side& side) {
        side.sink->on_packet = [&received](PacketPtr, NetDevice&) { received.fetch_add(1); };
        EXPECT_TRUE(side.device->Up().ok());
      };
    };
    const auto send = [&frame](Side& side) {
      // Never idle, so that each turn sends more.
      side.context.Post([] {});
      if (!side.device->is_running() || side.context.pool().stats().packets_in_use > 64)
        return false;
      for (int i = 0; i < 4; ++i) side.Send(frame);
      return false;
    };
    uint64_t next_flap = 8;
    const auto flap_and_send = [&](Side& side) {
      if (received_a.load() >= next_flap) {
        next_flap += 8;
        side.device->Down();
        EXPECT_TRUE(side.device->Up().ok());
      }
      return send(side);
    };
    auto a = std::make_unique<SideThread>(std::move(ends->first), start(received_a), flap_and_send,
                                          jumbo);
    auto b = std::make_unique<SideThread>(std::move(ends->second), start(received_b), send, jumbo);
    for (int i = 0; i < 10'000 && (received_a.load() < 30 || received_b.load() < 30); ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    EXPECT_GE(received_a.load(), 30u);
    EXPECT_GE(received_b.load(), 30u);
    std::unique_ptr<SideThread>& first = round % 2 == 0 ? a : b;
    first.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (round % 2 == 0 ? b : a).reset();
  }
}

}  // namespace
}  // namespace tapwire::netdev
