// SPDX-License-Identifier: Apache-2.0
// Creating, changing and deleting macvlans, and every reason to refuse it.
#include <optional>

#include "netdev/macvlan.h"
#include "tests/netdev/macvlan_fixture.h"

namespace tapwire::netdev {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Command = MacvlanSourceChange::Command;

class MacvlanCreateTest : public testing::MacvlanTest {
 protected:
  static constexpr uint32_t Value(MacvlanMode mode) { return static_cast<uint32_t>(mode); }
  static bool HasPort(const NetDevice& device) {
    return device.is_macvlan_port() || device.rx_handler() != nullptr;
  }
  size_t device_count() { return context.registry().devices().size(); }
};

// Covers: macvlan:V-01
TEST_F(MacvlanCreateTest, ModeIsVepaUnlessGiven) {
  NetDevice& lower = AddLower();
  auto macvlan = TryCreate(lower, {});
  ASSERT_TRUE(macvlan.ok()) << macvlan.status();
  EXPECT_EQ((*macvlan)->mode(), MacvlanMode::kVepa);
  EXPECT_EQ((*macvlan)->name(), "macvlan0");
  EXPECT_EQ((*macvlan)->kind(), "macvlan");
  EXPECT_EQ((*macvlan)->parent_ifindex(), lower.ifindex());
  EXPECT_FALSE((*macvlan)->is_up());
  EXPECT_TRUE((*macvlan)->always_on());
  EXPECT_TRUE((*macvlan)->mac().IsUnicast());
  EXPECT_TRUE((*macvlan)->mac().IsLocal());
  EXPECT_THAT(lower.uppers(), ElementsAre(*macvlan));
  EXPECT_TRUE(lower.is_macvlan_port());
  EXPECT_EQ((*TryCreate(lower, {}))->name(), "macvlan1");
}

TEST(MacvlanModeTest, NamesAreThoseOfLinux) {
  EXPECT_EQ(MacvlanModeName(MacvlanMode::kPassthru), "passthru");
  EXPECT_EQ(MacvlanModeName(static_cast<MacvlanMode>(3)), "");
  for (const uint32_t value : {1U, 2U, 4U, 8U, 16U}) {
    const auto mode = static_cast<MacvlanMode>(value);
    EXPECT_EQ(MacvlanModeByName(MacvlanModeName(mode)), mode);
  }
  EXPECT_EQ(MacvlanModeByName("hairpin"), std::nullopt);
}

// Covers: macvlan:V-02
TEST_F(MacvlanCreateTest, TwoOfOneAddressCanExistWhileDown) {
  NetDevice& lower = AddLower();
  Create(lower, MacvlanMode::kVepa, testing::kMacA);
  Create(lower, MacvlanMode::kVepa, testing::kMacA);
  SinkOf(lower);
  Arrive(lower, testing::kMacA, testing::kOutside);
  EXPECT_EQ(Received(lower), 1u);
}

// Covers: macvlan:V-03
TEST_F(MacvlanCreateTest, LastOneLeavesTheLowerDeviceFree) {
  NetDevice& lower = AddLower();
  Macvlan& first = Create(lower, MacvlanMode::kVepa, testing::kMacA);
  Macvlan& second = CreateUp(lower, MacvlanMode::kBridge, testing::kMacB);
  context.registry().Unregister(first);
  EXPECT_TRUE(lower.is_macvlan_port());
  context.registry().Unregister(second);
  EXPECT_FALSE(HasPort(lower));
  EXPECT_THAT(lower.uppers(), IsEmpty());
  testing::ScriptedHandler bridge;
  EXPECT_TRUE(lower.SetRxHandler(&bridge).ok());
  Run();
  EXPECT_EQ(lower.rx_handler(), &bridge);
  lower.ClearRxHandler();
}

// Covers: macvlan:K-01
TEST_F(MacvlanCreateTest, LowerDeviceOfAnotherUpperIsBusy) {
  NetDevice& lower = AddLower();
  testing::ScriptedHandler bridge;
  ASSERT_TRUE(lower.SetRxHandler(&bridge).ok());
  const auto refused = TryCreate(lower, {});
  EXPECT_EQ(StatusToErrno(refused.status()), EBUSY);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("eth0"));
  EXPECT_EQ(lower.rx_handler(), &bridge);
  EXPECT_EQ(device_count(), 1u);
  lower.ClearRxHandler();
}

// Covers: macvlan:K-02
TEST_F(MacvlanCreateTest, LowerDeviceMustBeEthernet) {
  NetDevice& loopback = AddLower({.name = "lo", .link_type = LinkType::kLoopback});
  NetDevice& tunnel = AddLower({.name = "tun0", .link_type = LinkType::kOther});
  EXPECT_EQ(CreateError(loopback, {}), EINVAL);
  EXPECT_EQ(CreateError(tunnel, {}), EINVAL);
  EXPECT_FALSE(HasPort(loopback));
}

TEST_F(MacvlanCreateTest, LowerDeviceMustBeNamedAndExist) {
  EXPECT_EQ(StatusToErrno(CreateMacvlan(context, 0, {}).status()), EINVAL);
  const auto refused = CreateMacvlan(context, 4711, {.name = "mv"});
  EXPECT_EQ(StatusToErrno(refused.status()), ENODEV);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("mv: "));
}

// Covers: macvlan:K-03
TEST_F(MacvlanCreateTest, MacvlanOnMacvlanStandsOnTheLowerDevice) {
  NetDevice& lower = AddLower();
  Macvlan& first = Create(lower, MacvlanMode::kVepa, testing::kMacA);
  Macvlan& second =
      Create(first, MacvlanMode::kVepa, testing::kMacB, {.broadcast_queue_packets = 7000});
  EXPECT_EQ(&second.lower(), &lower);
  EXPECT_THAT(lower.uppers(), ElementsAre(&first, &second));
  EXPECT_THAT(first.uppers(), IsEmpty());
  // One port: what one wishes both use.
  EXPECT_EQ(first.used_broadcast_queue_packets(), 7000u);
}

// Covers: macvlan:K-04
TEST_F(MacvlanCreateTest, MtuIsAtMostThatOfTheLowerDevice) {
  NetDevice& lower = AddLower({.name = "eth0", .mtu = 1400});
  EXPECT_EQ(CreateError(lower, {.mtu = 1500}), EINVAL);
  EXPECT_FALSE(HasPort(lower));
  EXPECT_EQ((*TryCreate(lower, {}))->mtu(), 1400u);
  EXPECT_EQ((*TryCreate(lower, {.mtu = 1300}))->mtu(), 1300u);
  EXPECT_EQ(CreateError(lower, {.mtu = 67}), EINVAL);
  EXPECT_EQ((*TryCreate(lower, {.mtu = 68}))->mtu(), 68u);
}

// Covers: macvlan:K-05
TEST_F(MacvlanCreateTest, PassthruNeedsTheLowerDeviceForItself) {
  NetDevice& lower = AddLower();
  Macvlan& vepa = CreateUp(lower, MacvlanMode::kVepa, testing::kMacA);
  EXPECT_EQ(CreateError(lower, {.mode = Value(MacvlanMode::kPassthru)}), EINVAL);
  Arrive(lower, testing::kMacA, testing::kOutside);
  EXPECT_EQ(Received(vepa), 1u);
  EXPECT_EQ(CreateError(lower, {}), 0);
}

// Covers: macvlan:K-06
TEST_F(MacvlanCreateTest, NothingGoesBesidesPassthru) {
  NetDevice& lower = AddLower();
  Macvlan& passthru = Create(lower, MacvlanMode::kPassthru, testing::kMacA);
  // It is the lower device, whatever address it was to have.
  EXPECT_EQ(passthru.mac(), testing::kLowerMac);
  for (const uint32_t mode : {1U, 2U, 4U, 8U, 16U}) {
    EXPECT_EQ(CreateError(lower, {.mode = mode}), EINVAL) << mode;
  }
  EXPECT_TRUE(lower.is_macvlan_port());
}

// Covers: macvlan:K-07
TEST_F(MacvlanCreateTest, RefusalLeavesNoPort) {
  NetDevice& lower = AddLower();
  const MacvlanSourceChange add{.command = Command::kAdd, .address = testing::kOutside, .list = {}};
  EXPECT_EQ(CreateError(lower, {.mode = Value(MacvlanMode::kBridge), .source = add}), EINVAL);
  EXPECT_FALSE(HasPort(lower));
  // A source mode's list goes with the device that was not to be.
  EXPECT_EQ(
      CreateError(lower, {.name = "bad name", .mode = Value(MacvlanMode::kSource), .source = add}),
      EINVAL);
  EXPECT_EQ(CreateError(lower, {.name = "eth0"}), EEXIST);
  EXPECT_FALSE(HasPort(lower));
  EXPECT_EQ(device_count(), 1u);
  SinkOf(lower);
  Arrive(lower, testing::kLowerMac, testing::kOutside);
  EXPECT_EQ(Received(lower), 1u);
}

// Covers: macvlan:K-08
TEST_F(MacvlanCreateTest, AddressMustBeOfOneStation) {
  NetDevice& lower = AddLower();
  for (const MacAddress& mac : {MacAddress(), testing::kGroup4, MacAddress::kBroadcast()}) {
    EXPECT_EQ(CreateError(lower, {.mac = mac}), EADDRNOTAVAIL) << mac.ToString();
    for (const MacvlanSourceChange& change :
         {MacvlanSourceChange{Command::kAdd, mac, {}},
          MacvlanSourceChange{Command::kSet, std::nullopt, {testing::kOutside, mac}}}) {
      EXPECT_EQ(CreateError(lower, {.mode = Value(MacvlanMode::kSource), .source = change}),
                EADDRNOTAVAIL);
    }
  }
  EXPECT_FALSE(HasPort(lower));
}

// Covers: macvlan:K-09
TEST_F(MacvlanCreateTest, UnknownValuesAreRefused) {
  NetDevice& lower = AddLower();
  for (const uint32_t mode : {0U, 3U, 32U}) EXPECT_EQ(CreateError(lower, {.mode = mode}), EINVAL);
  EXPECT_EQ(CreateError(lower, {.flags = 4}), EINVAL);
  const MacvlanSourceChange unknown{static_cast<Command>(9), std::nullopt, {}};
  const MacvlanSourceChange nothing{Command::kAdd, std::nullopt, {testing::kOutside}};
  for (const MacvlanSourceChange& change : {unknown, nothing}) {
    EXPECT_EQ(CreateError(lower, {.mode = Value(MacvlanMode::kSource), .source = change}), EINVAL);
  }
  // The values are looked at before the lower device is.
  EXPECT_EQ(StatusToErrno(CreateMacvlan(context, 4711, {.mode = 3}).status()), EINVAL);
  Macvlan& macvlan = Create(lower, MacvlanMode::kVepa, testing::kMacA);
  EXPECT_EQ(StatusToErrno(macvlan.Change({.mode = 3})), EINVAL);
  EXPECT_EQ(StatusToErrno(macvlan.Change({.flags = 8})), EINVAL);
  EXPECT_EQ(macvlan.flags(), 0);
}

// A stack of more than eight devices, the bottom one counted.
TEST_F(MacvlanCreateTest, StackOfTooManyDevicesIsRefusedWithoutTrace) {
  NetDevice* top = &AddLower({.name = "dev1"});
  for (int i = 2; i <= 8; ++i) {
    NetDevice& next = AddLower({.name = "dev" + std::to_string(i)});
    ASSERT_TRUE(top->LinkUpper(next).ok());
    if (i == 8) {
      EXPECT_EQ(CreateError(*top, {.name = "fits"}), 0);
    }
    top = &next;
  }
  const size_t before = device_count();
  EXPECT_EQ(CreateError(*top, {.name = "high"}), EMLINK);
  EXPECT_EQ(device_count(), before);
  EXPECT_FALSE(HasPort(*top));
  EXPECT_THAT(top->uppers(), IsEmpty());
}

TEST_F(MacvlanCreateTest, RemovalByAnObserverOfTheBirthIsAnError) {
  NetDevice& lower = AddLower();
  testing::FakeObserver observer;
  context.registry().AddObserver(observer);
  observer.on_event = [&](NetDevice& device, NetdevEvent event) {
    if (event == NetdevEvent::kRegister) context.registry().Unregister(device);
  };
  EXPECT_EQ(CreateError(lower, {.name = "mv"}), ENODEV);
  EXPECT_FALSE(HasPort(lower));
  observer.on_event = [&](NetDevice&, NetdevEvent event) {
    if (event == NetdevEvent::kRegister) context.registry().Unregister(lower);
  };
  EXPECT_EQ(CreateError(lower, {.name = "mv"}), ENODEV);
  Run();
  EXPECT_EQ(device_count(), 0u);
}

// ---- Changes ----

// Covers: macvlan:K-10
TEST_F(MacvlanCreateTest, LeavingSourceModeForgetsTheList) {
  NetDevice& lower = AddLower();
  Macvlan& macvlan = CreateUp(
      lower, MacvlanMode::kSource, testing::kMacA,
      {.source = {{Command::kSet, testing::kOutside, {testing::kStranger, testing::kOutside}}}});
  EXPECT_THAT(macvlan.sources(), ElementsAre(testing::kOutside, testing::kStranger));
  ASSERT_TRUE(macvlan.Change({.mode = Value(MacvlanMode::kBridge)}).ok());
  EXPECT_EQ(macvlan.mode(), MacvlanMode::kBridge);
  EXPECT_THAT(macvlan.sources(), IsEmpty());
  ASSERT_TRUE(macvlan.Change({.mode = Value(MacvlanMode::kSource)}).ok());
  Arrive(lower, testing::kLowerMac, testing::kOutside);
  Run();
  EXPECT_EQ(Received(macvlan), 0u);
}

// Covers: macvlan:K-11
TEST_F(MacvlanCreateTest, PassthruIsForLife) {
  NetDevice& lower = AddLower();
  Macvlan& vepa = Create(lower, MacvlanMode::kVepa, testing::kMacA);
  EXPECT_EQ(StatusToErrno(vepa.Change({.mode = Value(MacvlanMode::kPassthru)})), EINVAL);
  EXPECT_EQ(vepa.mode(), MacvlanMode::kVepa);
  NetDevice& other = AddLower({.name = "eth1", .mac = testing::kStranger});
  Macvlan& passthru = Create(other, MacvlanMode::kPassthru, testing::kMacB);
  EXPECT_EQ(StatusToErrno(passthru.Change({.mode = Value(MacvlanMode::kVepa)})), EINVAL);
  EXPECT_TRUE(passthru.Change({.mode = Value(MacvlanMode::kPassthru)}).ok());
}

// Covers: macvlan:K-12
TEST_F(MacvlanCreateTest, SourceCommandsEditTheList) {
  constexpr MacAddress a = testing::kMacA, b = testing::kMacB, c = testing::kMacC;
  NetDevice& lower = AddLower();
  Macvlan& macvlan =
      Create(lower, MacvlanMode::kSource, testing::kStranger, {.source = {{Command::kAdd, a, {}}}});
  const auto change = [&](Command command, std::optional<MacAddress> address,
                          std::vector<MacAddress> list) {
    return StatusToErrno(macvlan.Change({.source = {{command, address, std::move(list)}}}));
  };
  EXPECT_EQ(change(Command::kSet, std::nullopt, {b, c}), 0);
  EXPECT_THAT(macvlan.sources(), ElementsAre(b, c));
  EXPECT_EQ(change(Command::kAdd, b, {}), 0);
  EXPECT_EQ(change(Command::kDel, testing::kMacD, {}), 0);
  EXPECT_THAT(macvlan.sources(), ElementsAre(b, c));
  EXPECT_EQ(change(Command::kDel, std::nullopt, {}), EINVAL);
  EXPECT_EQ(change(Command::kDel, b, {}), 0);
  EXPECT_THAT(macvlan.sources(), ElementsAre(c));
  EXPECT_EQ(change(Command::kFlush, std::nullopt, {}), 0);
  EXPECT_THAT(macvlan.sources(), IsEmpty());
}

TEST_F(MacvlanCreateTest, WhatWasChangedBeforeAnErrorStays) {
  NetDevice& lower = AddLower();
  Macvlan& macvlan = Create(lower, MacvlanMode::kSource, testing::kMacA,
                            {.source = {{Command::kAdd, testing::kOutside, {}}}});
  const MacvlanChange change{.mode = Value(MacvlanMode::kVepa),
                             .flags = kMacvlanNoDst,
                             .broadcast_queue_packets = 5,
                             .broadcast_cutoff = -1,
                             .source = {{Command::kAdd, testing::kOutside, {}}}};
  EXPECT_EQ(StatusToErrno(macvlan.Change(change)), EINVAL);
  EXPECT_EQ(macvlan.mode(), MacvlanMode::kVepa);
  EXPECT_EQ(macvlan.flags(), kMacvlanNoDst);
  EXPECT_EQ(macvlan.used_broadcast_queue_packets(), 5u);
  EXPECT_EQ(macvlan.broadcast_cutoff(), -1);
  EXPECT_THAT(macvlan.sources(), IsEmpty());
}

TEST_F(MacvlanCreateTest, CutoffBelongsToThePort) {
  NetDevice& lower = AddLower();
  Macvlan& first = Create(lower, MacvlanMode::kVepa, testing::kMacA);
  EXPECT_EQ(first.broadcast_cutoff(), 1);
  Create(lower, MacvlanMode::kVepa, testing::kMacB, {.broadcast_cutoff = 5});
  EXPECT_EQ(first.broadcast_cutoff(), 5);
}

TEST_F(MacvlanCreateTest, ModeChangeTakesEffectAtOnce) {
  testing::FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, testing::kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, testing::kMacB);
  Send(a, testing::kMacB);
  EXPECT_EQ(lower.sent.size(), 1u);
  ASSERT_TRUE(a.Change({.mode = Value(MacvlanMode::kBridge)}).ok());
  Send(a, testing::kMacB);
  Run();
  EXPECT_EQ(lower.sent.size(), 1u);
  EXPECT_EQ(Received(b), 1u);
}

}  // namespace
}  // namespace tapwire::netdev
