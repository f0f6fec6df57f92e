// SPDX-License-Identifier: Apache-2.0
// Opening and closing macvlans, their addresses and lists, and what that asks of the lower device.
#include <limits>
#include <optional>

#include "netdev/macvlan.h"
#include "tests/netdev/macvlan_fixture.h"

namespace tapwire::netdev {
namespace {

using testing::FakeDevice;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGroup4;
using testing::kGroup6;
using testing::kLowerMac;
using testing::kMacA;
using testing::kMacB;
using testing::kMacC;
using testing::kMacD;
using testing::kOutside;
using testing::kStranger;
using ::testing::SizeIs;

class MacvlanAddressTest : public testing::MacvlanTest {};

// Covers: macvlan:I-01
TEST_F(MacvlanAddressTest, SecondOfOneAddressCannotComeUp) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  Macvlan& b = Create(lower, MacvlanMode::kVepa, kMacA);
  const absl::Status refused = b.Up();
  EXPECT_EQ(StatusToErrno(refused), EADDRINUSE);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("02:00:00:00:00:0a"));
  EXPECT_FALSE(b.is_up());
  ASSERT_THAT(lower.unicast_list(), SizeIs(1));
  EXPECT_EQ(lower.unicast_list()[0].references, 1u);
  a.Down();
  EXPECT_TRUE(b.Up().ok());
  EXPECT_EQ(StatusToErrno(a.Up()), EADDRINUSE);
}

// Covers: macvlan:I-02
TEST_F(MacvlanAddressTest, AddressOfTheLowerDeviceIsTaken) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kBridge, kLowerMac);
  EXPECT_EQ(StatusToErrno(a.Up()), EADDRINUSE);
  EXPECT_FALSE(a.is_up());
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
}

// Covers: macvlan:I-03
TEST_F(MacvlanAddressTest, NewAddressTakesTheOldOnesPlace) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  SinkOf(lower);
  ASSERT_TRUE(a.SetMac(kMacB).ok());
  EXPECT_TRUE(lower.HasUnicast(kMacB));
  EXPECT_FALSE(lower.HasUnicast(kMacA));
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(lower), 1u);
  EXPECT_EQ(Received(a), 0u);
  Arrive(lower, kMacB, kOutside);
  EXPECT_EQ(Received(lower), 1u);
  EXPECT_EQ(Received(a), 1u);
  a.Down();
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
}

TEST_F(MacvlanAddressTest, AddressChangeIsCheckedInEveryState) {
  FakeDevice& lower = AddLower();
  CreateUp(lower, MacvlanMode::kVepa, kMacA);
  Macvlan& idle = Create(lower, MacvlanMode::kVepa, kMacB);
  Macvlan& c = Create(lower, MacvlanMode::kVepa, kMacC);
  for (const bool up : {false, true}) {
    SCOPED_TRACE(up);
    if (up) {
      ASSERT_TRUE(c.Up().ok());
    }
    EXPECT_EQ(StatusToErrno(c.SetMac(kMacA)), EADDRINUSE);
    EXPECT_EQ(StatusToErrno(c.SetMac(kLowerMac)), EADDRINUSE);
    EXPECT_EQ(StatusToErrno(c.SetMac(kGroup4)), EADDRNOTAVAIL);
    EXPECT_EQ(StatusToErrno(c.SetMac(MacAddress())), EADDRNOTAVAIL);
    EXPECT_TRUE(c.SetMac(c.mac()).ok());
    EXPECT_EQ(c.mac(), kMacC);
  }
  // Of one that is down it may be had.
  EXPECT_TRUE(c.SetMac(idle.mac()).ok());
  EXPECT_EQ(StatusToErrno(idle.Up()), EADDRINUSE);
}

// Covers: macvlan:I-04
TEST_F(MacvlanAddressTest, PassthruLendsItsAddressToTheLowerDevice) {
  for (const bool up : {false, true}) {
    FakeDevice& lower = AddLower({.name = up ? "eth1" : "eth0", .mac = kLowerMac});
    Macvlan& a = Create(lower, MacvlanMode::kPassthru, kMacA);
    if (up) {
      ASSERT_TRUE(a.Up().ok());
    }
    ASSERT_TRUE(a.SetMac(kMacB).ok());
    EXPECT_EQ(a.mac(), kMacB);
    EXPECT_EQ(lower.mac(), kMacB);
    context.registry().Unregister(a);
    EXPECT_EQ(lower.mac(), kLowerMac);
  }
}

TEST_F(MacvlanAddressTest, AddressTheLowerDeviceRefusesIsRefused) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPassthru, kMacA);
  lower.mac_status = ErrnoStatus(EBUSY, "eth0: not now");
  EXPECT_EQ(StatusToErrno(a.SetMac(kMacB)), EBUSY);
  EXPECT_EQ(a.mac(), kLowerMac);
  lower.mac_status = absl::OkStatus();
  // The failed attempt left no trace: a later change of the lower device is followed.
  ASSERT_TRUE(lower.SetMac(kMacC).ok());
  EXPECT_EQ(a.mac(), kMacC);
}

// Covers: macvlan:I-05
TEST_F(MacvlanAddressTest, PassthruFollowsTheLowerDevice) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPassthru, kMacA);
  testing::FakeObserver observer;
  a.AddObserver(observer);
  ASSERT_TRUE(lower.SetMac(kMacB).ok());
  EXPECT_EQ(a.mac(), kMacB);
  EXPECT_THAT(observer.events, ::testing::ElementsAre("macvlan0 change-addr"));
  // The table too.
  Arrive(lower, kMacB, kOutside);
  EXPECT_EQ(Received(a), 1u);
  context.registry().Unregister(a);
  EXPECT_EQ(lower.mac(), kMacB);
}

TEST_F(MacvlanAddressTest, OtherModesIgnoreTheLowerDevicesAddress) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  ASSERT_TRUE(lower.SetMac(kStranger).ok());
  EXPECT_EQ(a.mac(), kMacA);
  context.registry().Unregister(a);
  EXPECT_EQ(lower.mac(), kStranger);
}

// ---- Promiscuity ----

// Covers: macvlan:I-06
TEST_F(MacvlanAddressTest, PassthruIsPromiscuousUnlessToldNotTo) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPassthru, kMacA);
  EXPECT_EQ(lower.promiscuity(), 1u);
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
  a.Down();
  EXPECT_EQ(lower.promiscuity(), 0u);
  FakeDevice& other = AddLower({.name = "eth1", .mac = kStranger});
  Macvlan& quiet = CreateUp(other, MacvlanMode::kPassthru, kMacB, {.flags = kMacvlanNoPromisc});
  EXPECT_EQ(other.promiscuity(), 0u);
  quiet.Down();
  EXPECT_EQ(other.promiscuity(), 0u);
}

TEST_F(MacvlanAddressTest, NoPromiscTakesEffectAtOnce) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPassthru, kMacA);
  ASSERT_TRUE(a.Change({.flags = kMacvlanNoPromisc}).ok());
  EXPECT_EQ(lower.promiscuity(), 0u);
  ASSERT_TRUE(a.Change({.flags = kMacvlanNoPromisc | kMacvlanNoDst}).ok());
  EXPECT_EQ(lower.promiscuity(), 0u);
  ASSERT_TRUE(a.Change({.flags = 0}).ok());
  EXPECT_EQ(lower.promiscuity(), 1u);
  a.Down();
  EXPECT_EQ(lower.promiscuity(), 0u);
  // An oddity of Linux: also while the macvlan is down and had none to give back.
  ASSERT_TRUE(a.Change({.flags = kMacvlanNoPromisc}).ok());
  EXPECT_EQ(lower.promiscuity(), std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(StatusToErrno(lower.ChangePromiscuity(1)), EOVERFLOW);
  EXPECT_EQ(StatusToErrno(a.Change({.flags = 0})), EOVERFLOW);
  EXPECT_EQ(a.flags(), kMacvlanNoPromisc);
}

// Covers: macvlan:I-07
TEST_F(MacvlanAddressTest, PromiscuousMacvlanNeedsAPromiscuousLowerDevice) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  ASSERT_TRUE(a.ChangePromiscuity(1).ok());
  EXPECT_EQ(lower.promiscuity(), 1u);
  ASSERT_TRUE(a.ChangePromiscuity(1).ok());
  EXPECT_EQ(lower.promiscuity(), 1u);
  ASSERT_TRUE(a.ChangeAllMulti(1).ok());
  EXPECT_EQ(lower.allmulti(), 1u);
  a.Down();
  EXPECT_EQ(lower.promiscuity(), 0u);
  EXPECT_EQ(lower.allmulti(), 0u);
  // Asked for before, it is had from the start.
  ASSERT_TRUE(a.Up().ok());
  EXPECT_EQ(lower.promiscuity(), 1u);
  EXPECT_EQ(lower.allmulti(), 1u);
  context.registry().Unregister(a);
  EXPECT_EQ(lower.promiscuity(), 0u);
  EXPECT_EQ(lower.allmulti(), 0u);
}

// Oddities of Linux in passthru mode: promiscuity is had anyway, allmulti is not given back.
TEST_F(MacvlanAddressTest, FlagsOfPassthru) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kPassthru, kMacA);
  ASSERT_TRUE(a.ChangePromiscuity(1).ok());
  EXPECT_EQ(lower.promiscuity(), 1u);
  ASSERT_TRUE(a.ChangeAllMulti(1).ok());
  EXPECT_EQ(lower.allmulti(), 1u);
  a.Down();
  EXPECT_EQ(lower.promiscuity(), 0u);
  EXPECT_EQ(lower.allmulti(), 1u);
}

// Covers: macvlan:I-08
TEST_F(MacvlanAddressTest, FailedOpenLeavesTheLowerDeviceAsItWas) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kVepa, kMacA);
  a.AddMulticast(kGroup4);
  ASSERT_TRUE(a.ChangeAllMulti(1).ok());
  ASSERT_TRUE(a.ChangePromiscuity(1).ok());
  ASSERT_TRUE(lower.ChangePromiscuity(-1).ok());  // 2^32 - 1: full
  EXPECT_EQ(StatusToErrno(a.Up()), EOVERFLOW);
  EXPECT_FALSE(a.is_up());
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
  EXPECT_THAT(lower.multicast_list(), IsEmpty());
  EXPECT_EQ(lower.allmulti(), 0u);
  // Nor is it in the table of addresses.
  SinkOf(lower);
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(lower), 1u);
  // Passthru fails the same way.
  FakeDevice& other = AddLower({.name = "eth1", .mac = kStranger});
  Macvlan& passthru = Create(other, MacvlanMode::kPassthru, kMacB);
  ASSERT_TRUE(other.ChangePromiscuity(-1).ok());
  EXPECT_EQ(StatusToErrno(passthru.Up()), EOVERFLOW);
}

// Covers: bug:B98
TEST_F(MacvlanAddressTest, FullUnicastFilterFallsBackToPromiscuousAndReturns) {
  FakeDevice& lower =
      AddLower({.name = "eth0", .queueless = true, .mac = kLowerMac, .unicast_filter_slots = 2});
  std::vector<Macvlan*> all;
  for (const MacAddress& mac : {kMacA, kMacB, kMacC, kMacD}) {
    all.push_back(&CreateUp(lower, MacvlanMode::kBridge, mac));
  }
  EXPECT_TRUE(lower.is_promiscuous());
  for (Macvlan* macvlan : all) {
    EXPECT_TRUE(lower.Accepts(macvlan->mac()));
    Arrive(lower, macvlan->mac(), kOutside);
    EXPECT_EQ(Received(*macvlan), 1u);
  }
  context.registry().Unregister(*all[0]);
  EXPECT_TRUE(lower.is_promiscuous());
  context.registry().Unregister(*all[1]);
  EXPECT_FALSE(lower.is_promiscuous());
  ASSERT_TRUE(all[2]->SetMac(kMacA).ok());
  EXPECT_FALSE(lower.is_promiscuous());
  EXPECT_TRUE(lower.Accepts(kMacA));
  EXPECT_FALSE(lower.Accepts(kMacC));
  EXPECT_EQ(lower.mac(), kLowerMac);
  EXPECT_THAT(lower.unicast_list(), SizeIs(2));
}

// ---- Lists ----

// Covers: macvlan:I-09
TEST_F(MacvlanAddressTest, FilterEntriesAreOfGroupsUnlessPassthru) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  EXPECT_EQ(StatusToErrno(a.AddFdb(kMacB)), EOPNOTSUPP);
  EXPECT_EQ(StatusToErrno(a.DeleteFdb(kMacB)), EOPNOTSUPP);
  EXPECT_EQ(StatusToErrno(a.AddFdb(MacAddress())), EINVAL);
  for (const MacAddress& group : {kGroup4, kGroup6}) {
    ASSERT_TRUE(a.AddFdb(group).ok());
    EXPECT_TRUE(lower.HasMulticast(group));
    EXPECT_EQ(StatusToErrno(a.AddFdb(group)), EEXIST);
    ASSERT_TRUE(a.DeleteFdb(group).ok());
    EXPECT_FALSE(lower.HasMulticast(group));
    EXPECT_EQ(StatusToErrno(a.DeleteFdb(group)), ENOENT);
  }
  FakeDevice& other = AddLower({.name = "eth1", .mac = kStranger, .unicast_filter_slots = 4});
  Macvlan& passthru = CreateUp(other, MacvlanMode::kPassthru, kMacB);
  ASSERT_TRUE(passthru.AddFdb(kMacC).ok());
  EXPECT_TRUE(other.HasUnicast(kMacC));
  EXPECT_EQ(StatusToErrno(passthru.AddFdb(kMacC)), EEXIST);
  ASSERT_TRUE(passthru.DeleteFdb(kMacC).ok());
  EXPECT_FALSE(other.HasUnicast(kMacC));
}

TEST_F(MacvlanAddressTest, ListsAreTheLowerDevicesWhileUpOnly) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kVepa, kMacA);
  a.AddMulticast(kGroup6);
  ASSERT_TRUE(a.AddUnicast(kMacB).ok());
  EXPECT_THAT(lower.multicast_list(), IsEmpty());
  ASSERT_TRUE(a.Up().ok());
  EXPECT_TRUE(lower.HasMulticast(kGroup6));
  EXPECT_TRUE(lower.HasUnicast(kMacB));
  a.Down();
  EXPECT_THAT(lower.multicast_list(), IsEmpty());
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
}

TEST_F(MacvlanAddressTest, LowerDeviceNeedNotBeUp) {
  FakeDevice& lower = AddLower();
  lower.Down();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  EXPECT_TRUE(a.is_up());
  ASSERT_TRUE(lower.Up().ok());
  Arrive(lower, kMacA, kOutside);
  EXPECT_EQ(Received(a), 1u);
}

// ---- MTU ----

// Covers: macvlan:I-10
TEST_F(MacvlanAddressTest, MtuStaysWithinTheLowerDevices) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kVepa, kMacA);
  const absl::Status refused = a.SetMtu(1501);
  EXPECT_EQ(StatusToErrno(refused), EINVAL);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1500"));
  EXPECT_EQ(StatusToErrno(a.SetMtu(67)), EINVAL);
  EXPECT_TRUE(a.SetMtu(68).ok());
  EXPECT_TRUE(a.SetMtu(1500).ok());
  ASSERT_TRUE(lower.SetMtu(9000).ok());
  EXPECT_TRUE(a.SetMtu(9000).ok());
}

}  // namespace
}  // namespace tapwire::netdev
