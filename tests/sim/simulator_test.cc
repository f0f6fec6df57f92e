// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/sim/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "netdev/tx_path.h"
#include "tests/testutil/matchers.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/tshark.h"

namespace tapwire::testutil {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A UDP "program" without a stack: sends numbered datagrams, notes what arrives and when, and may
// answer each by exchanging the MAC addresses.
class Node final : public netdev::PacketType {
 public:
  Node(SimDevice& device, Simulator& simulator, bool echo = false)
      : PacketType(kAllTypes), device_(device), simulator_(simulator), echo_(echo) {
    device.AddPacketType(*this);
  }

  void Send(const MacAddress& to, uint16_t number, size_t payload = 100) {
    Transmit(Frame()
                 .Eth(device_.mac(), to)
                 .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}, .id = number})
                 .Udp({.source_port = 1, .destination_port = 2})
                 .Payload(Pattern(payload))
                 .Build());
  }
  void Transmit(const ByteVector& frame) {
    static_cast<void>(
        netdev::TxPath::Transmit(PacketFromBytes(device_.context().pool(), frame), device_));
  }
  void Receive(PacketPtr packet, netdev::NetDevice& /*device*/) override {
    ByteVector frame(packet->length());
    packet->CopyOut(0, frame);
    numbers.push_back(static_cast<uint16_t>(frame[18] << 8 | frame[19]));
    times.push_back(simulator_.now());
    if (!echo_) return;
    std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
    Transmit(frame);
  }

  std::vector<uint16_t> numbers;
  std::vector<Time> times;

 private:
  SimDevice& device_;
  Simulator& simulator_;
  bool echo_;
};

TEST(SimulatorTest, FrameTakesDelayAndTimeOnTheWire) {
  Simulator sim;
  SimHost& a = sim.AddHost("a");
  SimHost& b = sim.AddHost("b");
  // 1250 bytes at 10 Mbit/s take 1 ms.
  const auto link = sim.AddLink(a, b, {.rate_bits_per_s = 10'000'000, .delay = milliseconds(20)});
  Node node_a(*link.a, sim), node_b(*link.b, sim);
  const Time start = sim.now();
  for (uint16_t i = 0; i < 3; ++i) node_a.Send(link.b->mac(), i, 1250 - 42);
  sim.RunFor(seconds(1));
  EXPECT_THAT(node_b.numbers, ElementsAre(0, 1, 2));
  EXPECT_THAT(node_b.times, ElementsAre(start + milliseconds(21), start + milliseconds(22),
                                        start + milliseconds(23)));
  EXPECT_EQ(sim.now() - start, seconds(1));
}

TEST(SimulatorTest, DirectionsDoNotDisturbEachOther) {
  Simulator sim;
  SimHost& a = sim.AddHost("a");
  const auto link = sim.AddLink(a, sim.AddHost("b"), {.rate_bits_per_s = 10'000'000});
  Node node_a(*link.a, sim), node_b(*link.b, sim, /*echo=*/true);
  const Time start = sim.now();
  for (uint16_t i = 0; i < 2; ++i) node_a.Send(link.b->mac(), i, 1250 - 42);
  EXPECT_TRUE(sim.RunUntilIdle(seconds(1)));
  EXPECT_THAT(node_a.times, ElementsAre(start + milliseconds(2), start + milliseconds(3)));
}

TEST(SimulatorTest, QueueDropsItsTail) {
  Simulator sim;
  SimHost& a = sim.AddHost("a");
  const auto link =
      sim.AddLink(a, sim.AddHost("b"), {.rate_bits_per_s = 1'000'000, .queue_packets = 5});
  Node node_a(*link.a, sim), node_b(*link.b, sim);
  for (uint16_t i = 0; i < 9; ++i) node_a.Send(link.b->mac(), i);
  EXPECT_TRUE(sim.RunUntilIdle(seconds(1)));
  EXPECT_THAT(node_b.numbers, ElementsAre(0, 1, 2, 3, 4));
}

TEST(SimulatorTest, ChosenFramesAreDropped) {
  Simulator sim;
  SimHost& a = sim.AddHost("a");
  const auto link = sim.AddLink(
      a, sim.AddHost("b"),
      {.drop_if = [](std::span<const uint8_t>, uint64_t number) { return number == 1; }});
  Node node_a(*link.a, sim), node_b(*link.b, sim);
  for (uint16_t i = 0; i < 3; ++i) node_a.Send(link.b->mac(), i);
  EXPECT_TRUE(sim.RunUntilIdle(seconds(1)));
  EXPECT_THAT(node_b.numbers, ElementsAre(0, 2));
}

TEST(SimulatorTest, ImpairmentsAreNearTheirProbability) {
  Simulator sim;
  SimHost& a = sim.AddHost("a");
  const auto link = sim.AddLink(
      a, sim.AddHost("b"),
      {.loss = 0.2, .duplicate = 0.1, .reorder = 0.1, .reorder_delay = microseconds(500)});
  Node node_a(*link.a, sim), node_b(*link.b, sim);
  for (uint16_t i = 0; i < 2000; ++i) {
    node_a.Send(link.b->mac(), i);
    sim.RunFor(microseconds(100));
  }
  EXPECT_TRUE(sim.RunUntilIdle(seconds(1)));
  // Lost 400 ± 5 × 18; of the others doubled 160 ± 5 × 12.
  std::set<uint16_t> distinct(node_b.numbers.begin(), node_b.numbers.end());
  EXPECT_NEAR(static_cast<double>(2000 - distinct.size()), 400, 90);
  EXPECT_NEAR(static_cast<double>(node_b.numbers.size() - distinct.size()), 160, 60);
  EXPECT_FALSE(std::is_sorted(node_b.numbers.begin(), node_b.numbers.end()));
}

TEST(SimulatorTest, UnpluggedEndNeitherSendsNorReceives) {
  Simulator sim;
  SimHost& a = sim.AddHost("a");
  const auto link = sim.AddLink(a, sim.AddHost("b"));
  Node node_a(*link.a, sim), node_b(*link.b, sim);
  link.b->SetLinkUp(false);
  node_a.Send(link.b->mac(), 1);
  node_b.Send(link.a->mac(), 2);
  EXPECT_TRUE(sim.RunUntilIdle(seconds(1)));
  link.b->SetLinkUp(true);
  node_a.Send(link.b->mac(), 3);
  EXPECT_TRUE(sim.RunUntilIdle(seconds(1)));
  EXPECT_THAT(node_b.numbers, ElementsAre(3));
  EXPECT_THAT(node_a.numbers, IsEmpty());
}

TEST(SimulatorTest, HostsOnOneContextWork) {
  Simulator sim;
  SimHost& both = sim.AddHost("both");
  const auto link = sim.AddLink(both, both, {.delay = milliseconds(1)});
  EXPECT_EQ(link.a->name(), "both-0");
  EXPECT_EQ(link.b->name(), "both-1");
  Node node_a(*link.a, sim), node_b(*link.b, sim, /*echo=*/true);
  node_a.Send(link.b->mac(), 1);
  EXPECT_TRUE(sim.RunUntilIdle(seconds(1)));
  EXPECT_THAT(node_a.numbers, ElementsAre(1));
}

TEST(SimulatorTest, SuperPacketCrossesALinkWithOffloads) {
  using netdev::Feature;
  Simulator sim;
  SimHost& a = sim.AddHost("a");
  const netdev::FeatureSet offloads{Feature::kSg, Feature::kHwCsum, Feature::kTso};
  const auto whole = sim.AddLink(a, sim.AddHost("b"), {.features = offloads});
  const auto cut = sim.AddLink(a, sim.AddHost("c"));
  Node node_b(*whole.b, sim), node_c(*cut.b, sim);
  for (SimDevice* device : {whole.a, cut.a}) {
    ByteVector frame = Frame()
                           .Eth(device->mac(), MacAddress(2, 0, 0, 0, 0, 9))
                           .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}})
                           .Tcp({.source_port = 1, .destination_port = 2})
                           .Payload(Pattern(3000))
                           .Build();
    // 0a00 0001 0a00 0002 0006 0bcc (20 + 3000) sum to 0x1fd5.
    frame[50] = 0x1f;
    frame[51] = 0xd5;
    PacketPtr packet = PacketFromBytes(a.context().pool(), frame);
    packet->set_l3_in_data(14);
    packet->set_l4_in_data(34);
    packet->meta.csum_state = CsumState::kPartial;
    packet->set_csum_start_in_data(34);
    packet->meta.csum_offset = 16;
    packet->meta.gso = {.type = GsoType::kTcpv4, .size = 1448, .segs = 3};
    EXPECT_TRUE(netdev::TxOk(netdev::TxPath::Transmit(std::move(packet), *device)));
  }
  EXPECT_TRUE(sim.RunUntilIdle(seconds(1)));
  EXPECT_THAT(node_b.numbers, SizeIs(1));
  EXPECT_THAT(node_c.numbers, SizeIs(3));
}

// The determinism contract: same seed, same program, same bytes of capture.
std::vector<uint8_t> LossyRun(uint64_t seed) {
  Simulator sim({.seed = seed});
  SimHost& a = sim.AddHost("a");
  const auto link = sim.AddLink(a, sim.AddHost("b"),
                                {.rate_bits_per_s = 5'000'000,
                                 .delay = milliseconds(3),
                                 .loss = 0.1,
                                 .duplicate = 0.05,
                                 .reorder = 0.05});
  Node node_a(*link.a, sim), node_b(*link.b, sim, /*echo=*/true);
  for (uint16_t i = 0; i < 200; ++i) {
    node_a.Send(link.b->mac(), i, sim.random().Uniform(1000));
    sim.RunFor(microseconds(sim.random().Uniform(3000)));
  }
  EXPECT_TRUE(sim.RunUntilIdle(seconds(5)));
  return sim.capture();
}

TEST(SimulatorTest, SameSeedGivesTheSameCapture) {
  const std::vector<uint8_t> first = LossyRun(1);
  EXPECT_GT(first.size(), 50'000u);
  EXPECT_TRUE(first == LossyRun(1));
  EXPECT_FALSE(first == LossyRun(2));
}

TEST(SimulatorTest, BrokenFrameFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(
      {
        Simulator sim;
        SimHost& a = sim.AddHost("a");
        const auto link = sim.AddLink(a, sim.AddHost("b"));
        Node node_a(*link.a, sim);
        node_a.Transmit(Frame()
                            .Eth(link.a->mac(), link.b->mac())
                            .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}, .ttl = 0})
                            .Udp({.destination_port = 2})
                            .Build());
        sim.RunFor(seconds(1));
      },
      "TTL is 0");
}

TEST(SimulatorTest, ArmedTimerAndKeptPacketFailTheTest) {
  EXPECT_NONFATAL_FAILURE(
      {
        FunctionTimer timer([] {});
        Simulator sim;
        SimHost& a = sim.AddHost("a");
        a.context().timers().Arm(timer, sim.now() + seconds(1));
      },
      "timers are armed on a");
}

TEST(SimulatorTest, RunUntilTrueStopsAtTheEvent) {
  Simulator sim;
  SimHost& a = sim.AddHost("a");
  const auto link = sim.AddLink(a, sim.AddHost("b"), {.delay = milliseconds(7)});
  Node node_a(*link.a, sim), node_b(*link.b, sim);
  const Time start = sim.now();
  node_a.Send(link.b->mac(), 1);
  EXPECT_TRUE(sim.RunUntilTrue([&] { return !node_b.numbers.empty(); }, seconds(1)));
  EXPECT_EQ(sim.now() - start, milliseconds(7));
  EXPECT_FALSE(sim.RunUntilTrue([&] { return node_b.numbers.size() > 1; }, seconds(1)));
  EXPECT_EQ(sim.now() - start, milliseconds(1007));
}

}  // namespace
}  // namespace tapwire::testutil
