// SPDX-License-Identifier: Apache-2.0
// What becomes of macvlans when their lower device changes or goes, and that nothing is left of
// either.
#include <utility>

#include "netdev/base/seeded_random.h"
#include "netdev/macvlan.h"
#include "tests/netdev/macvlan_fixture.h"

namespace tapwire::netdev {
namespace {

using ::testing::ElementsAre;
using testing::EthernetFrame;
using testing::FakeDevice;
using ::testing::IsEmpty;
using testing::kMacA;
using testing::kMacB;
using testing::kMacC;
using testing::kOutside;

class MacvlanEventsTest : public testing::MacvlanTest {};

// Covers: macvlan:J-01
TEST_F(MacvlanEventsTest, CarrierIsTheLowerDevices) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = Create(lower, MacvlanMode::kVepa, kMacB);
  testing::FakeObserver observer;
  a.AddObserver(observer);
  EXPECT_EQ(a.oper_state(), OperState::kUp);
  lower.SetCarrier(false);
  for (const Macvlan* macvlan : {&a, &b}) EXPECT_FALSE(macvlan->has_carrier());
  EXPECT_TRUE(a.is_up());
  EXPECT_EQ(a.oper_state(), OperState::kLowerLayerDown);
  EXPECT_THAT(observer.events, ElementsAre("macvlan0 change"));
  lower.SetCarrier(true);
  EXPECT_TRUE(a.is_running());
  EXPECT_EQ(a.oper_state(), OperState::kUp);
}

TEST_F(MacvlanEventsTest, DormantAndTestingAreTheLowerDevices) {
  FakeDevice& lower = AddLower();
  lower.SetDormant(true);
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  EXPECT_EQ(a.oper_state(), OperState::kDormant);
  lower.SetTesting(true);
  EXPECT_EQ(a.oper_state(), OperState::kTesting);
  lower.SetTesting(false);
  lower.SetDormant(false);
  EXPECT_EQ(a.oper_state(), OperState::kUp);
}

// Covers: macvlan:J-02
TEST_F(MacvlanEventsTest, WithoutTheLowerDevicesCarrierThereIsNoneFromTheStart) {
  FakeDevice& lower = AddLower();
  lower.SetCarrier(false);
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  EXPECT_FALSE(a.has_carrier());
  EXPECT_TRUE(a.is_up());
  EXPECT_EQ(a.oper_state(), OperState::kLowerLayerDown);
}

// Covers: macvlan:J-03
TEST_F(MacvlanEventsTest, MtuFollowsDownwardsOnly) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = Create(lower, MacvlanMode::kBridge, kMacB, {.mtu = 1300});
  ASSERT_TRUE(lower.SetMtu(1400).ok());
  EXPECT_EQ(a.mtu(), 1400u);
  EXPECT_EQ(b.mtu(), 1300u);
  ASSERT_TRUE(lower.SetMtu(1500).ok());
  EXPECT_EQ(a.mtu(), 1400u);
  EXPECT_EQ(b.mtu(), 1300u);
}

// Covers: macvlan:J-04
TEST_F(MacvlanEventsTest, AllGoWithTheLowerDevice) {
  FakeDevice& lower = AddLower();
  testing::FakeObserver observer;
  context.registry().AddObserver(observer);
  bool destroyed = false;
  lower.on_destroy = [&] { destroyed = true; };
  for (const MacAddress& mac : {kMacA, kMacB, kMacC}) {
    CreateUp(lower, MacvlanMode::kBridge, mac);
  }
  observer.events.clear();
  context.registry().Unregister(lower);
  EXPECT_THAT(context.registry().devices(), IsEmpty());
  for (const char* name : {"macvlan0", "macvlan1", "macvlan2"}) {
    EXPECT_THAT(observer.events, ::testing::Contains(std::string(name) + " unregister"));
  }
  EXPECT_FALSE(lower.is_macvlan_port());
  EXPECT_EQ(lower.rx_handler(), nullptr);
  EXPECT_FALSE(destroyed);
  Run();
  EXPECT_TRUE(destroyed);
}

// Covers: macvlan:J-06
TEST_F(MacvlanEventsTest, LowerDeviceGoingDownLeavesThemUp) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  lower.Down();
  EXPECT_TRUE(a.is_up());
  ASSERT_TRUE(lower.Up().ok());
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(a), 1u);
}

// Covers: macvlan:J-07
TEST_F(MacvlanEventsTest, LowerDeviceMustStayEthernet) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kBridge, kMacA);
  const absl::Status refused = lower.ChangeLinkType(LinkType::kOther);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("eth0"));
  EXPECT_EQ(lower.link_type(), LinkType::kEthernet);
  context.registry().Unregister(a);
  EXPECT_TRUE(lower.ChangeLinkType(LinkType::kOther).ok());
}

TEST_F(MacvlanEventsTest, AnnouncementsArePassedUp) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kBridge, kMacA);
  testing::FakeObserver observer;
  a.AddObserver(observer);
  lower.SendEvent(NetdevEvent::kNotifyPeers);
  lower.SendEvent(NetdevEvent::kBondingFailover);
  lower.SendEvent(NetdevEvent::kResendIgmp);
  EXPECT_THAT(observer.events, ElementsAre("macvlan0 notify-peers", "macvlan0 bonding-failover",
                                           "macvlan0 resend-igmp"));
}

// What hears of a change may remove the next macvlan to be told, or the lower device.
TEST_F(MacvlanEventsTest, ObserversMayRemoveDevicesDuringAnEvent) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  Macvlan& c = CreateUp(lower, MacvlanMode::kBridge, kMacC);
  testing::FakeObserver observer, last;
  a.AddObserver(observer);
  c.AddObserver(last);
  observer.on_event = [&](NetDevice&, NetdevEvent event) {
    if (event != NetdevEvent::kChange) return;
    context.registry().Unregister(b);
    context.registry().Unregister(a);
  };
  lower.SetCarrier(false);
  EXPECT_THAT(last.events, ElementsAre("macvlan2 change"));
  last.on_event = [&](NetDevice&, NetdevEvent event) {
    if (event == NetdevEvent::kChange) context.registry().Unregister(lower);
  };
  lower.SetCarrier(true);
  EXPECT_THAT(context.registry().devices(), IsEmpty());
  Run();
}

TEST_F(MacvlanEventsTest, LowerDeviceRemovedInTheMiddleOfAMacvlansChange) {
  for (const NetdevEvent moment : {NetdevEvent::kGoingDown, NetdevEvent::kDown,
                                   NetdevEvent::kChangeAddr, NetdevEvent::kChangeMtu}) {
    SCOPED_TRACE(NetdevEventName(moment));
    FakeDevice& lower = AddLower();
    Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
    testing::FakeObserver observer;
    a.AddObserver(observer);
    observer.on_event = [&](NetDevice&, NetdevEvent event) {
      if (event == moment) context.registry().Unregister(lower);
    };
    a.SetMac(kMacB).IgnoreError();
    a.SetMtu(1000).IgnoreError();
    a.Down();
    Run();
    EXPECT_THAT(context.registry().devices(), IsEmpty());
  }
}

// ---- Under load ----

// One life of a lower device with macvlans, with frames at every place where they can wait when
// devices go: the backlog, the broadcast queue, the transmit queue of the lower device.
class Life {
 public:
  Life(NetContext& context, Random& random) : context_(context), random_(random) {}

  void Run() {
    auto lower = context_.registry().Register(std::make_unique<FakeDevice>(
        context_, FakeDevice::Options{.name = "eth0",
                                      .queueless = random_.Uniform(2) == 0,
                                      .unicast_filter_slots = random_.Uniform(4)}));
    ASSERT_TRUE(lower.ok());
    ASSERT_TRUE((*lower)->Up().ok());
    for (uint8_t i = 0; i < 3; ++i) Add(**lower, i);
    for (int round = 0; round < 2; ++round) {
      Load(**lower);
      if (random_.Uniform(3) == 0) context_.RunOnce();
      const uint32_t victim = random_.Uniform(4);
      if (victim < macvlans_.size()) Remove(victim);
    }
    context_.registry().Unregister(**lower);
    context_.RunOnce();
  }

 private:
  static MacAddress Mac(uint8_t i) { return {2, 0, 0, 0, 7, i}; }

  void Add(NetDevice& lower, uint8_t i) {
    constexpr std::array<MacvlanMode, 4> kModes = {MacvlanMode::kPrivate, MacvlanMode::kVepa,
                                                   MacvlanMode::kBridge, MacvlanMode::kSource};
    const MacvlanMode mode = kModes[random_.Uniform(kModes.size())];
    MacvlanOptions options{.mode = static_cast<uint32_t>(mode), .mac = Mac(i)};
    if (mode == MacvlanMode::kSource) {
      options.source = {MacvlanSourceChange::Command::kAdd, kOutside, {}};
    }
    auto macvlan = CreateMacvlan(context_, lower.ifindex(), options);
    ASSERT_TRUE(macvlan.ok()) << macvlan.status();
    ASSERT_TRUE((*macvlan)->Up().ok());
    (*macvlan)->AddMulticast(testing::kGroup6);
    macvlans_.push_back((*macvlan)->ifindex());
  }
  void Remove(uint32_t which) {
    if (NetDevice* device = context_.registry().Find(macvlans_[which])) {
      context_.registry().Unregister(*device);
    }
  }
  void Load(NetDevice& lower) {
    for (const MacAddress& to : {Mac(0), Mac(1), MacAddress::kBroadcast(), testing::kGroup6}) {
      for (const MacAddress& from : {kOutside, Mac(1)}) {
        PacketPtr packet = testing::MakePacket(context_.pool(), EthernetFrame(to, from));
        packet->meta.rx_device = lower.ifindex();
        RxPath::Receive(context_, std::move(packet));
      }
      for (const uint32_t index : macvlans_) {
        NetDevice* device = context_.registry().Find(index);
        if (device == nullptr) continue;
        TxPath::Transmit(testing::MakePacket(context_.pool(), EthernetFrame(to, device->mac())),
                         *device);
      }
    }
  }

  NetContext& context_;
  Random& random_;
  std::vector<uint32_t> macvlans_;
};

TEST(MacvlanStressTest, TenThousandLivesUnderTrafficLeaveNothing) {
  SeededRandom random(4);
  for (int batch = 0; batch < 50; ++batch) {
    TestEnvironment environment(static_cast<uint64_t>(batch));
    NetContext context(environment.environment(), {.backlog_limit_packets = 20});
    for (int i = 0; i < 200; ++i) {
      Life(context, random).Run();
      if (::testing::Test::HasFatalFailure()) return;
    }
    while (context.RunOnce()) {
    }
    EXPECT_THAT(context.registry().devices(), IsEmpty());
    EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
    EXPECT_EQ(context.pool().stats().slabs_in_use(), 0u);
  }
}

}  // namespace
}  // namespace tapwire::netdev
