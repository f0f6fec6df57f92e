// SPDX-License-Identifier: Apache-2.0
#include "netdev/fault_injector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/poll.h"
#include "netdev/registry.h"
#include "netdev/tx_path.h"
#include "netdev/veth.h"
#include "tests/testutil/matchers.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/stack_harness.h"

namespace tapwire::netdev {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testutil::ByteVector;
using testutil::NetHarness;
using testutil::Pattern;
using testutil::SentFrame;

constexpr MacAddress kPeerMac(2, 0, 0, 0, 0, 0x99);

class Sink final : public PacketType {
 public:
  explicit Sink(NetDevice& device) : PacketType(kAllTypes) { device.AddPacketType(*this); }
  void Receive(PacketPtr packet, NetDevice& device) override {
    frames.emplace_back(packet->length());
    packet->CopyOut(0, frames.back());
    times.push_back(device.context().now());
    states.push_back(packet->meta.csum_state);
  }
  std::vector<ByteVector> frames;
  std::vector<Time> times;
  std::vector<CsumState> states;
};

class FaultInjectorTest : public ::testing::Test {
 protected:
  void Make(FaultInjector::Options options) {
    if (!options.seed.has_value()) options.seed = 42;
    // Broken frames leave the lower device on purpose here.
    net_ = std::make_unique<NetHarness>(
        NetHarness::Options{.device = device_options_, .up = false, .ignored_rules = AllRules()});
    auto made = FaultInjector::Create(net_->context(), net_->device(), std::move(options));
    ASSERT_TRUE(made.ok()) << made.status();
    fault_ = *made;
    ASSERT_TRUE(fault_->Up().ok());
    sink_ = std::make_unique<Sink>(*fault_);
    net_->Run();
  }
  static std::set<capture::Rule> AllRules() {
    std::set<capture::Rule> rules;
    for (size_t i = 0; i < capture::kRuleCount; ++i) rules.insert(static_cast<capture::Rule>(i));
    return rules;
  }
  // A UDP frame whose IPv4 identification is its number.
  static ByteVector Numbered(uint16_t number, size_t payload = 100) {
    return testutil::Frame()
        .Eth(MacAddress(2, 0, 0, 0, 0, 1), kPeerMac)
        .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}, .id = number})
        .Udp({.source_port = 1, .destination_port = 2})
        .Payload(Pattern(payload))
        .Build();
  }
  static uint16_t NumberOf(const ByteVector& frame) { return LoadBe16(&frame[18]); }
  void Send(uint16_t number, size_t payload = 100) {
    EXPECT_TRUE(TxOk(TxPath::Transmit(
        PacketFromBytes(net_->context().pool(), Numbered(number, payload)), *fault_)));
  }
  void SendMany(uint16_t count) {
    for (uint16_t i = 0; i < count; ++i) {
      Send(i);
      net_->Run();
    }
  }
  std::vector<uint16_t> SentNumbers() {
    std::vector<uint16_t> numbers;
    for (const ByteVector& frame : net_->TakeSent()) numbers.push_back(NumberOf(frame));
    return numbers;
  }

  testutil::TestDevice::Options device_options_;
  std::unique_ptr<NetHarness> net_;
  FaultInjector* fault_ = nullptr;
  std::unique_ptr<Sink> sink_;
};

TEST_F(FaultInjectorTest, WithoutSettingsFramesPassUntouched) {
  Make({});
  Send(7);
  net_->Run();
  net_->Inject(Numbered(8));
  EXPECT_THAT(net_->TakeSent(), ElementsAre(Numbered(7)));
  EXPECT_THAT(sink_->frames, ElementsAre(Numbered(8)));
  EXPECT_EQ(fault_->transmit_stats().passed.value(), 1u);
  EXPECT_EQ(fault_->receive_stats().passed.value(), 1u);
}

TEST_F(FaultInjectorTest, LossIsNearItsProbabilityAndCounted) {
  Make({.transmit = {.loss = 0.25}});
  SendMany(4000);
  const size_t sent = SentNumbers().size();
  // 1000 expected, standard deviation 27: five of them.
  EXPECT_NEAR(static_cast<double>(4000 - sent), 1000, 137);
  EXPECT_EQ(fault_->transmit_stats().lost.value(), 4000 - sent);
  EXPECT_EQ(fault_->drops().value(DropReason::kFaultInjected), 4000 - sent);
  // The other direction has its own settings.
  for (uint16_t i = 0; i < 50; ++i) net_->Inject(Numbered(i));
  EXPECT_EQ(sink_->frames.size(), 50u);
}

TEST_F(FaultInjectorTest, CertainLossLosesEverything) {
  Make({.receive = {.loss = 1}});
  for (uint16_t i = 0; i < 50; ++i) net_->Inject(Numbered(i));
  EXPECT_THAT(sink_->frames, IsEmpty());
  EXPECT_EQ(fault_->receive_stats().lost.value(), 50u);
}

TEST_F(FaultInjectorTest, DuplicatesAreExactCopies) {
  Make({.transmit = {.duplicate = 1}, .receive = {.duplicate = 1}});
  Send(1);
  Send(2);
  net_->Run();
  net_->Inject(Numbered(3));
  EXPECT_THAT(net_->TakeSent(), ElementsAre(Numbered(1), Numbered(1), Numbered(2), Numbered(2)));
  EXPECT_THAT(sink_->frames, ElementsAre(Numbered(3), Numbered(3)));
  EXPECT_EQ(fault_->transmit_stats().duplicated.value(), 2u);
}

TEST_F(FaultInjectorTest, CorruptionFlipsExactlyOneBit) {
  Make({.transmit = {.corrupt = 1}, .receive = {.corrupt = 1}});
  const auto flipped = [](const ByteVector& a, const ByteVector& b) {
    int bits = 0;
    for (size_t i = 0; i < a.size(); ++i) bits += std::popcount(static_cast<uint8_t>(a[i] ^ b[i]));
    return bits;
  };
  std::set<std::pair<size_t, int>> places;
  for (uint16_t i = 0; i < 200; ++i) {
    Send(5);
    net_->Run();
    const std::vector<ByteVector> sent = net_->TakeSent();
    ASSERT_EQ(sent.size(), 1u);
    ASSERT_EQ(sent[0].size(), Numbered(5).size());
    EXPECT_EQ(flipped(sent[0], Numbered(5)), 1);
    const auto place = std::mismatch(sent[0].begin(), sent[0].end(), Numbered(5).begin()).first;
    places.insert({place - sent[0].begin(), 0});
  }
  EXPECT_GT(places.size(), 50u);  // spread over the frame's 142 bytes
  net_->Inject(Numbered(6));
  ASSERT_EQ(sink_->frames.size(), 1u);
  EXPECT_EQ(flipped(sink_->frames[0], Numbered(6)), 1);
}

// A device that has verified or not computed the checksum must not hide the flip.
TEST_F(FaultInjectorTest, CorruptedFrameIsLeftToSoftwareVerification) {
  Make({.receive = {.corrupt = 1}});
  net_->device().Inject(Numbered(1),
                        [](Packet& packet) { packet.meta.csum_state = CsumState::kUnnecessary; });
  ByteVector partial = Numbered(2);
  partial[40] = 0x14;  // 0a00 0001 0a00 0002 0011 006c sum to 0x1480
  partial[41] = 0x80;
  net_->device().Inject(partial, [](Packet& packet) {
    packet.meta.csum_state = CsumState::kPartial;
    packet.set_csum_start_in_data(34);
    packet.meta.csum_offset = 6;
  });
  net_->Run();
  EXPECT_THAT(sink_->states, ElementsAre(CsumState::kNone, CsumState::kNone));
  int bits = 0;
  for (size_t i = 0; i < partial.size(); ++i) {
    bits += std::popcount(static_cast<uint8_t>(sink_->frames[1][i] ^ Numbered(2)[i]));
  }
  EXPECT_EQ(bits, 1);  // of the completed frame
}

TEST_F(FaultInjectorTest, DelayIsKeptToTheNanosecond) {
  Make({.transmit = {.delay = milliseconds(30)}, .receive = {.delay = milliseconds(5)}});
  const Time start = net_->now();
  Send(1);
  net_->Inject(Numbered(2));
  net_->Advance(milliseconds(1));
  Send(3);
  net_->Advance(milliseconds(100));
  const std::vector<SentFrame> sent = net_->TakeSentFrames();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].time - start, milliseconds(30));
  EXPECT_EQ(sent[1].time - start, milliseconds(31));
  ASSERT_EQ(sink_->times.size(), 1u);
  EXPECT_EQ(sink_->times[0] - start, milliseconds(5));
  EXPECT_EQ(fault_->transmit_stats().delayed.value(), 2u);
}

TEST_F(FaultInjectorTest, JitterSpreadsAndKeepsTheOrder) {
  Make({.transmit = {.delay = milliseconds(10), .jitter = milliseconds(10)}});
  const Time start = net_->now();
  SendMany(200);
  net_->Advance(milliseconds(50));
  const std::vector<SentFrame> sent = net_->TakeSentFrames();
  ASSERT_EQ(sent.size(), 200u);
  EXPECT_TRUE(std::is_sorted(sent.begin(), sent.end(), [](const SentFrame& a, const SentFrame& b) {
    return NumberOf(a.bytes) < NumberOf(b.bytes);
  }));
  EXPECT_GE(sent.front().time - start, milliseconds(10));
  EXPECT_LE(sent.back().time - start, milliseconds(20));
  EXPECT_GT(sent.back().time, sent.front().time);
}

TEST_F(FaultInjectorTest, RateSpacesFrames) {
  // 1250 bytes at 10 Mbit/s take exactly 1 ms.
  Make({.transmit = {.rate_bits_per_s = 10'000'000}});
  const Time start = net_->now();
  for (uint16_t i = 0; i < 3; ++i) Send(i, 1250 - 42);
  net_->Advance(milliseconds(10));
  Send(3, 1250 - 42);
  net_->Advance(milliseconds(10));
  std::vector<Duration> times;
  for (const SentFrame& frame : net_->TakeSentFrames()) times.push_back(frame.time - start);
  EXPECT_THAT(times,
              ElementsAre(milliseconds(1), milliseconds(2), milliseconds(3), milliseconds(11)));
}

TEST_F(FaultInjectorTest, QueueIsBoundedAndOverflowCounted) {
  Make({.transmit = {.delay = milliseconds(1), .queue_packets = 10}});
  SendMany(25);
  net_->Advance(milliseconds(5));
  EXPECT_EQ(SentNumbers().size(), 10u);
  EXPECT_EQ(fault_->transmit_stats().overflowed.value(), 15u);
  EXPECT_EQ(fault_->drops().value(DropReason::kTxQueueFull), 15u);
}

TEST_F(FaultInjectorTest, QueueOfZeroPassesOnlyWhatNeedNotWait) {
  Make({.transmit = {.queue_packets = 0}});
  SendMany(3);
  EXPECT_EQ(SentNumbers().size(), 3u);
  ASSERT_TRUE(fault_->SetTransmit({.delay = milliseconds(1), .queue_packets = 0}).ok());
  SendMany(3);
  net_->Advance(milliseconds(5));
  EXPECT_THAT(SentNumbers(), IsEmpty());
}

TEST_F(FaultInjectorTest, HeldFrameIsOvertakenByTheGivenNumber) {
  Make({.transmit = {.reorder = 1, .reorder_depth = 2, .reorder_hold = milliseconds(50)}});
  Send(1);
  ASSERT_TRUE(fault_->SetTransmit({}).ok());
  for (uint16_t number = 2; number <= 4; ++number) Send(number);
  net_->Run();
  EXPECT_THAT(SentNumbers(), ElementsAre(2, 3, 1, 4));
  EXPECT_EQ(fault_->transmit_stats().reordered.value(), 1u);
}

TEST_F(FaultInjectorTest, HeldFrameLeavesAfterItsTime) {
  Make({.receive = {.reorder = 1, .reorder_depth = 2, .reorder_hold = milliseconds(50)}});
  const Time start = net_->now();
  net_->Inject(Numbered(1));
  net_->Advance(milliseconds(200));
  EXPECT_THAT(sink_->times, ElementsAre(start + milliseconds(50)));
}

TEST_F(FaultInjectorTest, ReorderingLosesNothing) {
  Make({.transmit = {.reorder = 0.3, .delay = microseconds(10)}});
  SendMany(500);
  net_->Advance(milliseconds(50));
  std::vector<uint16_t> numbers = SentNumbers();
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  std::sort(numbers.begin(), numbers.end());
  ASSERT_EQ(numbers.size(), 500u);
  for (uint16_t i = 0; i < 500; ++i) EXPECT_EQ(numbers[i], i);
}

TEST_F(FaultInjectorTest, SameSeedGivesTheSameFaults) {
  const FaultSettings bad{.loss = 0.1,
                          .duplicate = 0.1,
                          .corrupt = 0.1,
                          .reorder = 0.1,
                          .delay = milliseconds(1),
                          .jitter = milliseconds(3)};
  const auto run = [&](uint64_t seed) {
    Make({.transmit = bad, .seed = seed});
    SendMany(300);
    net_->Advance(milliseconds(100));
    std::vector<std::pair<Time, ByteVector>> sent;
    for (SentFrame& frame : net_->TakeSentFrames())
      sent.emplace_back(frame.time, std::move(frame.bytes));
    sink_.reset();
    net_.reset();
    return sent;
  };
  const auto first = run(5);
  EXPECT_EQ(first, run(5));
  EXPECT_NE(first, run(6));
}

TEST_F(FaultInjectorTest, SuperPacketIsCutBeforeTheFaults) {
  Make({.transmit = {.duplicate = 1}});
  const ByteVector frame = testutil::Frame()
                               .Eth(fault_->mac(), kPeerMac)
                               .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}})
                               .Tcp({.source_port = 1, .destination_port = 2})
                               .Payload(Pattern(3000))
                               .Build();
  PacketPtr packet = PacketFromBytes(net_->context().pool(), frame);
  packet->set_l3_in_data(14);
  packet->set_l4_in_data(34);
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 16;
  packet->meta.gso = {.type = GsoType::kTcpv4, .size = 1448, .segs = 3};
  EXPECT_TRUE(TxOk(TxPath::Transmit(std::move(packet), *fault_)));
  net_->Run();
  std::vector<size_t> sizes;
  for (const ByteVector& sent : net_->TakeSent()) sizes.push_back(sent.size());
  EXPECT_THAT(sizes, ElementsAre(1502, 1502, 1502, 1502, 158, 158));
}

TEST_F(FaultInjectorTest, ReceivedSuperPacketIsCutOnlyIfThereAreFaults) {
  Make({});
  const ByteVector frame = testutil::Frame()
                               .Eth(kPeerMac, fault_->mac())
                               .Ipv4({.source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}})
                               .Tcp({.source_port = 1, .destination_port = 2})
                               .Payload(Pattern(3000))
                               .Build();
  const auto super = [](Packet& packet) {
    packet.set_l3_in_data(14);
    packet.set_l4_in_data(34);
    packet.meta.csum_state = CsumState::kPartial;
    packet.set_csum_start_in_data(34);
    packet.meta.csum_offset = 16;
    packet.meta.gso = {.type = GsoType::kTcpv4, .size = 1448, .segs = 3};
  };
  net_->device().Inject(frame, super);
  net_->Run();
  EXPECT_THAT(sink_->states, ElementsAre(CsumState::kPartial));
  ASSERT_TRUE(fault_->SetReceive({.delay = milliseconds(1)}).ok());
  net_->device().Inject(frame, super);
  net_->Advance(milliseconds(2));
  ASSERT_EQ(sink_->frames.size(), 4u);
  EXPECT_EQ(sink_->frames[1].size(), 1502u);
  EXPECT_EQ(sink_->frames[3].size(), 158u);
}

TEST_F(FaultInjectorTest, DownForgetsWhatWaits) {
  Make({.transmit = {.delay = milliseconds(10)}, .receive = {.reorder = 1}});
  Send(1);
  net_->Inject(Numbered(2));
  fault_->Down();
  net_->Advance(milliseconds(100));
  EXPECT_THAT(SentNumbers(), IsEmpty());
  EXPECT_THAT(sink_->frames, IsEmpty());
  EXPECT_EQ(fault_->drops().value(DropReason::kTxDeviceDown), 1u);
  EXPECT_EQ(fault_->drops().value(DropReason::kLinkDeviceDown), 1u);
  net_->Inject(Numbered(3));
  EXPECT_EQ(fault_->drops().value(DropReason::kLinkUpperDown), 1u);
  ASSERT_TRUE(fault_->Up().ok());
  EXPECT_TRUE(fault_->is_running());
}

TEST_F(FaultInjectorTest, FollowsItsLowerDevice) {
  Make({});
  EXPECT_EQ(fault_->mac(), net_->device().mac());
  EXPECT_EQ(fault_->mtu(), 1500u);
  EXPECT_TRUE(net_->device().is_promiscuous());
  net_->device().Down();
  EXPECT_FALSE(fault_->has_carrier());
  ASSERT_TRUE(net_->device().Up().ok());
  EXPECT_TRUE(fault_->has_carrier());
  ASSERT_TRUE(net_->device().SetMtu(1400).ok());
  EXPECT_EQ(fault_->mtu(), 1400u);
  EXPECT_FALSE(fault_->SetMtu(1401).ok());
  fault_->Down();
  EXPECT_FALSE(net_->device().is_promiscuous());
}

TEST_F(FaultInjectorTest, IsLinkedAboveItsLowerDevice) {
  Make({});
  ASSERT_EQ(net_->device().uppers().size(), 1u);
  EXPECT_EQ(net_->device().uppers()[0], fault_);
  EXPECT_EQ(fault_->parent_ifindex(), net_->device().ifindex());
  EXPECT_EQ(fault_->oper_state(), OperState::kUp);
  net_->device().SetCarrier(false);
  EXPECT_EQ(fault_->oper_state(), OperState::kLowerLayerDown);
}

TEST_F(FaultInjectorTest, GoesWithItsLowerDevice) {
  Make({.transmit = {.delay = milliseconds(10)}});
  const std::string name = fault_->name();
  Send(1);
  sink_.reset();
  net_->context().registry().Unregister(net_->device());
  net_->Run();
  EXPECT_EQ(net_->context().registry().Find(name), nullptr);
  net_->AllowLeaks();
}

TEST_F(FaultInjectorTest, RemovalFreesTheLowerDevice) {
  Make({});
  sink_.reset();
  net_->context().registry().Unregister(*fault_);
  net_->Run();
  EXPECT_FALSE(net_->device().is_promiscuous());
  auto again = FaultInjector::Create(net_->context(), net_->device(), {.name = "fault1"});
  ASSERT_TRUE(again.ok()) << again.status();
}

TEST_F(FaultInjectorTest, BadRequestsAreRefused) {
  Make({});
  EXPECT_EQ(FaultInjector::Create(net_->context(), net_->device(), {.name = "x"}).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(fault_->SetTransmit({.loss = 1.5}).message()), HasSubstr("loss=1.5"));
  EXPECT_FALSE(fault_->SetReceive({.corrupt = -0.1}).ok());
  EXPECT_FALSE(fault_->SetReceive({.delay = milliseconds(-1)}).ok());
  EXPECT_EQ(fault_->transmit().loss, 0);
}

TEST_F(FaultInjectorTest, StatisticsHaveNamesPerDirection) {
  Make({.transmit = {.loss = 1}});
  Send(1);
  std::map<std::string, uint64_t> stats;
  fault_->ForEachDriverStat(
      [&](absl::string_view name, uint64_t value) { stats[std::string(name)] = value; });
  EXPECT_EQ(stats["tx_fault_lost"], 1u);
  EXPECT_EQ(stats.count("rx_fault_corrupted"), 1u);
}

}  // namespace
}  // namespace tapwire::netdev
