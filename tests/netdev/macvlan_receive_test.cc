// SPDX-License-Identifier: Apache-2.0
// Which macvlan gets a received frame, in which mode, how, and what is counted for it.
#include <string>
#include <utility>

#include "netdev/macvlan.h"
#include "netdev/vlan_device.h"
#include "netdev/wire/ethernet.h"
#include "tests/netdev/macvlan_fixture.h"

namespace tapwire::netdev {
namespace {

using testing::BytesOf;
using ::testing::ElementsAre;
using testing::EthernetFrame;
using testing::FakeDevice;
using ::testing::IsEmpty;
using testing::kLowerMac;
using testing::kMacA;
using testing::kMacB;
using testing::kMacC;
using testing::kMacD;
using testing::kOutside;
using testing::kStranger;
using ::testing::SizeIs;
using Command = MacvlanSourceChange::Command;

constexpr MacAddress kBroadcast = MacAddress::kBroadcast();

// Notes on a shared list the names of the devices it saw frames on.
class NamingTap final : public PacketTap {
 public:
  explicit NamingTap(std::vector<std::string>& seen) : seen_(seen) {}
  void OnFrame(const Packet&, const NetDevice& device, TapDirection, TxResult) override {
    seen_.push_back(device.name());
  }

 private:
  std::vector<std::string>& seen_;
};

class MacvlanReceiveTest : public testing::MacvlanTest {
 protected:
  using MacvlanTest::MacvlanTest;

  Macvlan& CreateSource(const NetDevice& lower, const MacAddress& source, uint16_t flags = 0) {
    return CreateUp(lower, MacvlanMode::kSource, kStranger,
                    {.flags = flags, .source = {{Command::kAdd, source, {}}}});
  }
};

// Covers: macvlan:H-01
TEST_F(MacvlanReceiveTest, UnicastIsReceivedInTheSameCall) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Arrive(lower, kMacA, kOutside);
  ASSERT_THAT(SinkOf(a).packets, SizeIs(1));
  EXPECT_FALSE(context.has_pending_work());
  const Packet& received = *SinkOf(a).packets[0];
  EXPECT_EQ(received.meta.link_target, LinkTarget::kHost);
  EXPECT_EQ(received.meta.rx_device, a.ifindex());
  EXPECT_EQ(BytesOf(received), EthernetFrame(kMacA, kOutside));
  EXPECT_EQ(context.stats().rx_processed.value(), 2u);  // once per device
}

// Covers: macvlan:H-02
TEST_F(MacvlanReceiveTest, CapturesOfBothDevicesSeeTheFrameLowerFirst) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  std::vector<std::string> seen;
  NamingTap tap_a(seen), tap_lower(seen);
  a.AddTap(tap_a);
  lower.AddTap(tap_lower);
  Arrive(lower, kMacA, kOutside);
  EXPECT_THAT(seen, ElementsAre("eth0", "macvlan0"));
}

// Covers: macvlan:H-03
TEST_F(MacvlanReceiveTest, BoundEntryOfTheLowerDeviceGetsItsCopy) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  testing::BoundSink bound(testing::kTestEtherType);
  testing::BoundSink other_type(testing::kTestEtherType + 1);
  testing::FakeSink final_entry(testing::kTestEtherType), own(testing::kTestEtherType);
  lower.AddPacketType(final_entry);
  lower.AddPacketType(other_type);
  lower.AddPacketType(bound);
  a.AddPacketType(own);
  Arrive(lower, kMacA, kOutside);
  EXPECT_THAT(bound.packets, SizeIs(1));
  EXPECT_THAT(own.packets, SizeIs(1));
  EXPECT_THAT(final_entry.packets, IsEmpty());
  EXPECT_THAT(other_type.packets, IsEmpty());
}

// Covers: macvlan:H-04
TEST_F(MacvlanReceiveTest, UnknownAddressIsTheLowerStacksBusiness) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  SinkOf(lower);
  Arrive(lower, kMacB, kOutside);
  Arrive(lower, kLowerMac, kOutside);
  EXPECT_EQ(Received(lower), 2u);
  EXPECT_EQ(SinkOf(lower).packets[0]->meta.link_target, LinkTarget::kByAddress);
  EXPECT_EQ(Received(a), 0u);
  EXPECT_EQ(a.stats().rx_packets.value(), 0u);
}

// Covers: macvlan:H-05
TEST_F(MacvlanReceiveTest, FrameForADeletedMacvlanIsPassedOn) {
  FakeDevice& lower = AddLower();
  CreateUp(lower, MacvlanMode::kBridge, kMacB);
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  SinkOf(lower).on_receive = [](const Packet&, NetDevice&) {};
  // It goes while a frame is on its stack.
  SinkOf(a).on_receive = [&](const Packet&, NetDevice& device) {
    context.registry().Unregister(device);
  };
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(a), 1u);
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(lower), 1u);
  Run();
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(lower), 2u);
}

// Covers: macvlan:H-06
TEST_F(MacvlanReceiveTest, VlanDeviceOfTheLowerDeviceComesFirst) {
  FakeDevice& lower = AddLower();
  auto vlan = CreateVlan(context, lower.ifindex(), {.vlan_id = 5});
  ASSERT_TRUE(vlan.ok()) << vlan.status();
  ASSERT_TRUE((*vlan)->Up().ok());
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  SinkOf(**vlan);
  const auto tagged = [](uint16_t id) {
    std::vector<uint8_t> frame = EthernetFrame(kMacA, kOutside, 114, 0x8100);
    testing::Put16(frame, 14, id);
    testing::Put16(frame, 16, testing::kTestEtherType);
    return frame;
  };
  Arrive(lower, Make(tagged(5)));
  EXPECT_EQ(Received(**vlan), 1u);
  EXPECT_EQ(Received(a), 0u);
  Arrive(lower, Make(tagged(6)));
  EXPECT_EQ(Received(**vlan), 1u);
  ASSERT_THAT(SinkOf(a).packets, SizeIs(1));
  const PacketMeta& meta = SinkOf(a).packets[0]->meta;
  EXPECT_TRUE(meta.vlan_present);
  EXPECT_EQ(meta.vlan_tci, 6);
  EXPECT_EQ(meta.ether_type, testing::kTestEtherType);
  EXPECT_EQ(meta.link_target, LinkTarget::kOtherHost);
}

// Covers: macvlan:H-07
TEST_F(MacvlanReceiveTest, OtherHolderOfASharedFrameKeepsItsOwn) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  PacketPtr frame = testing::MakePacket(context.pool(), EthernetFrame(kMacA, kOutside, 1000),
                                        {.head = 100, .piece = 0});
  PacketPtr held = frame->Clone();
  const PacketMeta meta = held->meta;
  Arrive(lower, std::move(frame));
  ASSERT_THAT(SinkOf(a).packets, SizeIs(1));
  for (uint8_t& byte : SinkOf(a).packets[0]->head_bytes()) byte = 0xee;
  EXPECT_EQ(BytesOf(*held), EthernetFrame(kMacA, kOutside, 1000));
  EXPECT_EQ(held->meta, meta);
}

// Covers: macvlan:H-08
TEST_F(MacvlanReceiveTest, FrameLeftToBoundEntriesOfWhichThereIsNone) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  testing::ScriptedHandler handler;
  handler.result = RxHandlerResult::kExact;
  ASSERT_TRUE(a.SetRxHandler(&handler).ok());
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(a), 0u);
  EXPECT_EQ(a.stats().rx_nohandler.value(), 1u);
  EXPECT_EQ(a.stats().rx_dropped.value(), 0u);
  EXPECT_EQ(a.stats().rx_packets.value(), 1u);
  a.ClearRxHandler();
}

// Covers: macvlan:H-09
TEST_F(MacvlanReceiveTest, ReflectedBroadcastOfAPrivateOneIsItsOwn) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPrivate, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kVepa, kMacB);
  SinkOf(lower);
  Arrive(lower, kBroadcast, kMacA);
  Run();
  EXPECT_EQ(Received(a), 1u);
  EXPECT_EQ(Received(b), 0u);
  EXPECT_EQ(Received(lower), 0u);
  EXPECT_TRUE(SinkOf(a).packets[0]->meta.link_broadcast);
  // Counted as Linux does: a packet, without its bytes.
  EXPECT_EQ(a.stats().rx_packets.value(), 1u);
  EXPECT_EQ(a.stats().rx_bytes.value(), 0u);
  EXPECT_EQ(a.stats().rx_multicast.value(), 0u);
}

// Covers: macvlan:H-10
TEST_F(MacvlanReceiveTest, ReflectedBroadcastOfAVepaOne) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kVepa, kMacB);
  Macvlan& c = CreateUp(lower, MacvlanMode::kBridge, kMacC);
  Macvlan& d = CreateUp(lower, MacvlanMode::kPrivate, kMacD);
  SinkOf(lower);
  Arrive(lower, kBroadcast, kMacA);
  Run();
  EXPECT_EQ(Received(a), 0u);
  EXPECT_EQ(Received(b), 1u);
  EXPECT_EQ(Received(c), 1u);
  EXPECT_EQ(Received(d), 0u);
  EXPECT_EQ(Received(lower), 1u);
}

// Covers: macvlan:H-11
TEST_F(MacvlanReceiveTest, ReflectedBroadcastOfABridgeOne) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  Macvlan& c = CreateUp(lower, MacvlanMode::kVepa, kMacC);
  SinkOf(lower);
  Arrive(lower, kBroadcast, kMacA);
  Run();
  EXPECT_EQ(Received(a), 0u);
  EXPECT_EQ(Received(b), 0u);
  EXPECT_EQ(Received(c), 1u);
  EXPECT_EQ(Received(lower), 1u);
}

// Covers: macvlan:H-12
TEST_F(MacvlanReceiveTest, OutsideBroadcastReachesAllButSourceMode) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPrivate, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kVepa, kMacB);
  Macvlan& c = CreateUp(lower, MacvlanMode::kBridge, kMacC);
  Macvlan& d = CreateUp(lower, MacvlanMode::kSource, kMacD);
  SinkOf(lower);
  Arrive(lower, kBroadcast, kOutside);
  Run();
  EXPECT_EQ(Received(a), 1u);
  EXPECT_EQ(Received(b), 1u);
  EXPECT_EQ(Received(c), 1u);
  EXPECT_EQ(Received(d), 0u);
  EXPECT_EQ(Received(lower), 1u);
}

// No source check on unicast: what a switch reflects is delivered.
TEST_F(MacvlanReceiveTest, ReflectedUnicastOfAPrivateOneIsDelivered) {
  FakeDevice& lower = AddLower();
  CreateUp(lower, MacvlanMode::kPrivate, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kPrivate, kMacB);
  Arrive(lower, kMacB, kMacA);
  EXPECT_EQ(Received(b), 1u);
}

// Covers: macvlan:H-13
TEST_F(MacvlanReceiveTest, SourceModeGetsACopyBesidesTheDestination) {
  FakeDevice& lower = AddLower();
  Macvlan& source = CreateSource(lower, kOutside);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  Arrive(lower, kMacB, kOutside);
  EXPECT_EQ(Received(b), 1u);
  EXPECT_EQ(Received(source), 0u);  // through the backlog
  Run();
  EXPECT_EQ(Received(source), 1u);
  EXPECT_EQ(SinkOf(source).packets[0]->meta.link_target, LinkTarget::kByAddress);
  EXPECT_EQ(source.stats().rx_packets.value(), 1u);
  EXPECT_EQ(source.stats().rx_bytes.value(), 114u);
  // Its own address gets it nothing.
  SinkOf(lower);
  Arrive(lower, kStranger, kMacC);
  Run();
  EXPECT_EQ(Received(source), 1u);
  EXPECT_EQ(Received(lower), 1u);
}

// Covers: macvlan:H-14
TEST_F(MacvlanReceiveTest, NoDstKeepsTheFrameFromTheDestination) {
  FakeDevice& lower = AddLower();
  Macvlan& source = CreateSource(lower, kOutside, kMacvlanNoDst);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  SinkOf(lower);
  Arrive(lower, kMacB, kOutside);
  Arrive(lower, kBroadcast, kOutside);
  Run();
  EXPECT_EQ(Received(source), 2u);
  EXPECT_EQ(Received(b), 0u);
  EXPECT_EQ(Received(lower), 0u);
  Arrive(lower, kMacB, kMacC);
  Run();
  EXPECT_EQ(Received(source), 2u);
  EXPECT_EQ(Received(b), 1u);
  // Linux: also while the macvlan is down.
  source.Down();
  Arrive(lower, kMacB, kOutside);
  Run();
  EXPECT_EQ(Received(source), 2u);
  EXPECT_EQ(Received(b), 1u);
}

TEST_F(MacvlanReceiveTest, OneSourceMayBeOnSeveralLists) {
  FakeDevice& lower = AddLower();
  Macvlan& first = CreateSource(lower, kOutside);
  Macvlan& second = CreateUp(lower, MacvlanMode::kSource, kMacD,
                             {.source = {{Command::kSet, std::nullopt, {kMacC, kOutside}}}});
  Arrive(lower, kLowerMac, kOutside);
  Arrive(lower, kLowerMac, kMacC);
  Run();
  EXPECT_EQ(Received(first), 1u);
  EXPECT_EQ(Received(second), 2u);
  context.registry().Unregister(first);
  Arrive(lower, kLowerMac, kOutside);
  Run();
  EXPECT_EQ(Received(second), 3u);
}

// Covers: macvlan:H-15
TEST_F(MacvlanReceiveTest, PassthruTakesEveryUnicastFrame) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPassthru, kMacA);
  SinkOf(lower);
  for (const MacAddress& destination : {kLowerMac, kStranger, kMacA}) {
    Arrive(lower, destination, kOutside);
  }
  ASSERT_EQ(Received(a), 3u);
  for (const PacketPtr& packet : SinkOf(a).packets) {
    EXPECT_EQ(packet->meta.link_target, LinkTarget::kHost);
  }
  EXPECT_EQ(Received(lower), 0u);
  // Group frames are for both.
  Arrive(lower, kBroadcast, kOutside);
  Run();
  EXPECT_EQ(Received(a), 4u);
  EXPECT_EQ(Received(lower), 1u);
  // A macvlan that is down keeps what would be its own, uncounted.
  a.Down();
  Arrive(lower, kLowerMac, kOutside);
  EXPECT_EQ(Received(a), 4u);
  EXPECT_EQ(Received(lower), 1u);
  EXPECT_EQ(a.stats().rx_dropped.value() + lower.stats().rx_dropped.value(), 0u);
}

// ---- The second way: through the backlog, as before Linux 3.18 ----

TEST_F(MacvlanReceiveTest, QueuedReceptionTakesTheBacklogAndCountsTheSame) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA, {.rx = MacvlanRx::kQueue});
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(a), 0u);
  EXPECT_TRUE(context.has_pending_work());
  EXPECT_EQ(a.stats().rx_packets.value(), 1u);
  Run();
  ASSERT_EQ(Received(a), 1u);
  EXPECT_EQ(SinkOf(a).packets[0]->meta.link_target, LinkTarget::kHost);
  EXPECT_EQ(a.stats().rx_packets.value(), 1u);
  EXPECT_EQ(a.stats().rx_bytes.value(), 114u);
}

TEST_F(MacvlanReceiveTest, QueuedReceptionInPassthruKeepsForeignFrames) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPassthru, kMacA, {.rx = MacvlanRx::kQueue});
  Arrive(lower, kStranger, kOutside);
  Run();
  ASSERT_EQ(Received(a), 1u);
  EXPECT_EQ(SinkOf(a).packets[0]->meta.link_target, LinkTarget::kHost);
}

class MacvlanFullBacklogTest : public MacvlanReceiveTest {
 protected:
  MacvlanFullBacklogTest() : MacvlanReceiveTest(/*backlog_limit=*/0) {}
};

// Covers: macvlan:Y-02
TEST_F(MacvlanFullBacklogTest, UnicastFromTheWireNeedsNoRoomThere) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(a), 1u);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB, {.rx = MacvlanRx::kQueue});
  Arrive(lower, kMacB, kOutside);
  Run();
  EXPECT_EQ(Received(b), 0u);
  EXPECT_EQ(b.stats().rx_packets.value(), 0u);
  EXPECT_EQ(b.stats().rx_errors.value(), 1u);
  EXPECT_EQ(b.stats().rx_dropped.value(), 2u);
}

TEST_F(MacvlanFullBacklogTest, LocalUnicastIsLostAtTheLowerDevice) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  CreateUp(lower, MacvlanMode::kBridge, kMacB);
  EXPECT_EQ(Send(a, kMacB), TxResult::kSent);
  EXPECT_EQ(lower.stats().rx_dropped.value(), 1u);
  EXPECT_EQ(lower.drops().value(DropReason::kLinkBacklogFull), 1u);
  EXPECT_EQ(a.stats().tx_packets.value(), 1u);
}

// Covers: macvlan:N-02
TEST_F(MacvlanFullBacklogTest, RefusedCopyIsOneErrorAndTwoDrops) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPrivate, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  Macvlan& source = CreateSource(lower, kMacC);
  Arrive(lower, kBroadcast, kMacC);  // a copy for each of the three
  Run();
  for (const Macvlan* macvlan : {&a, &b, &source}) {
    EXPECT_EQ(macvlan->stats().rx_errors.value(), 1u);
    EXPECT_EQ(macvlan->stats().rx_dropped.value(), 2u);
    EXPECT_EQ(macvlan->stats().rx_packets.value(), 0u);
    EXPECT_EQ(macvlan->stats().rx_multicast.value(), 0u);
    EXPECT_EQ(macvlan->drops().value(DropReason::kLinkBacklogFull), 1u);
  }
}

// ---- Counters ----

// Covers: macvlan:N-01
TEST_F(MacvlanReceiveTest, BytesAreThePayloadAndALinkHeader) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  PacketPtr packet = Make(testing::BuildFrame({.udp = true, .payload = 72}));
  ASSERT_EQ(packet->length(), 14u + 100u);
  testing::SetMacs(*packet, kMacA, kOutside);
  Arrive(lower, std::move(packet));
  EXPECT_EQ(a.stats().rx_packets.value(), 1u);
  EXPECT_EQ(a.stats().rx_bytes.value(), 114u);
}

// Covers: macvlan:N-03
TEST_F(MacvlanReceiveTest, MulticastCountsCopiesOnly) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Arrive(lower, kMacA, kOutside);
  Arrive(lower, kBroadcast, kOutside);
  Run();
  EXPECT_EQ(a.stats().rx_packets.value(), 2u);
  EXPECT_EQ(a.stats().rx_multicast.value(), 1u);
  EXPECT_EQ(a.stats().rx_bytes.value(), 228u);
}

TEST_F(MacvlanReceiveTest, FrameThatNobodyTakesIsDroppedAtTheMacvlan) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kBridge, kMacA);
  ASSERT_TRUE(a.Up().ok());
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(a.stats().rx_packets.value(), 1u);
  EXPECT_EQ(a.stats().rx_dropped.value(), 1u);
  EXPECT_EQ(a.stats().rx_errors.value(), 0u);
}

// No room for the copies: the frame itself still arrives.
TEST_F(MacvlanReceiveTest, LackOfMemoryIsCountedAtWhoDoesNotGetItsCopy) {
  FakeDevice& lower = AddLower();
  Macvlan& source = CreateSource(lower, kOutside);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  PacketPtr frame = Make(EthernetFrame(kMacB, kOutside));
  std::vector<SlabRef> hoard;
  while (SlabRef slab = context.pool().AllocateSlab(SlabClass::kSmall)) {
    hoard.push_back(std::move(slab));
  }
  Arrive(lower, std::move(frame));
  hoard.clear();
  Run();
  EXPECT_EQ(Received(b), 1u);
  EXPECT_EQ(Received(source), 0u);
  EXPECT_EQ(source.stats().rx_errors.value(), 1u);
  EXPECT_EQ(source.drops().value(DropReason::kLinkNoBuffer), 1u);
}

}  // namespace
}  // namespace tapwire::netdev
