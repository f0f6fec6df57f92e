// SPDX-License-Identifier: Apache-2.0
#include "netdev/vlan_device.h"

#include <cerrno>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/base/status_util.h"
#include "netdev/tx_path.h"
#include "netdev/veth.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/vlan_fixture.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FakeObserver;
using ::testing::IsEmpty;

constexpr MacAddress kLowerMac{2, 0, 0, 0, 0, 1};
constexpr MacAddress kOwnMac{2, 0, 0, 0, 0, 0x55};
constexpr MacAddress kOtherMac{2, 0, 0, 0, 0, 0x66};
constexpr MacAddress kGroup{0x01, 0, 0x5e, 1, 2, 3};

class VlanTest : public testing::VlanFixture {};

// ---- Creation ----

TEST_F(VlanTest, IsCreatedDownWithTheLowersAddressAndMtu) {
  FakeDevice& lower = AddDevice({.mtu = 1400});
  NetDevice& vlan = Vlan(lower, {.vlan_id = 5});
  EXPECT_EQ(vlan.name(), "fake0.5");
  EXPECT_EQ(vlan.kind(), "vlan");
  EXPECT_EQ(vlan.parent_ifindex(), lower.ifindex());
  EXPECT_EQ(vlan.mac(), kLowerMac);
  EXPECT_EQ(vlan.mtu(), 1400u);
  EXPECT_FALSE(vlan.is_up());
  EXPECT_EQ(lower.VlanUpper(0x8100, 5), &vlan);
  EXPECT_THAT(lower.uppers(), ElementsAre(&vlan));
  ASSERT_TRUE(VlanTagOf(vlan).has_value());
  EXPECT_EQ(VlanTagOf(vlan)->vlan_id, 5);
  EXPECT_EQ(VlanTagOf(vlan)->protocol, 0x8100);
  EXPECT_FALSE(VlanTagOf(lower).has_value());
}

TEST_F(VlanTest, SameIdInBothTagTypes) {
  FakeDevice& lower = AddDevice();
  NetDevice& c = Vlan(lower, {.name = "c", .vlan_id = 5});
  NetDevice& s = Vlan(lower, {.name = "s", .vlan_id = 5, .protocol = 0x88a8});
  EXPECT_EQ(lower.VlanUpper(0x8100, 5), &c);
  EXPECT_EQ(lower.VlanUpper(0x88a8, 5), &s);
}

TEST_F(VlanTest, ImpossibleRequestsHaveLinuxsErrors) {
  FakeDevice& lower = AddDevice({.mtu = 1400});
  FakeDevice& challenged = AddDevice({.name = "fake1", .features = {kVlanChallenged}});
  FakeDevice& other = AddDevice({.name = "fake2", .link_type = LinkType::kOther});
  NetDevice& loopback = **CreateLoopback(context, "lo");
  EXPECT_EQ(Error(0, {}), EINVAL);
  EXPECT_EQ(Error(99, {}), ENODEV);
  EXPECT_EQ(Error(lower.ifindex(), {.vlan_id = 4095}), ERANGE);
  EXPECT_EQ(Error(lower.ifindex(), {.vlan_id = 0xffff}), ERANGE);
  EXPECT_EQ(Error(lower.ifindex(), {.protocol = 0x0800}), EPROTONOSUPPORT);
  EXPECT_EQ(Error(lower.ifindex(), {.mac = kGroup}), EADDRNOTAVAIL);
  EXPECT_EQ(Error(lower.ifindex(), {.mac = MacAddress()}), EADDRNOTAVAIL);
  EXPECT_EQ(Error(lower.ifindex(), {.mtu = 1401}), EINVAL);
  EXPECT_EQ(Error(challenged.ifindex(), {}), EOPNOTSUPP);
  EXPECT_EQ(Error(other.ifindex(), {}), EOPNOTSUPP);
  EXPECT_EQ(Error(loopback.ifindex(), {}), EOPNOTSUPP);
  EXPECT_EQ(Error(lower.ifindex(), {.name = "fake1"}), EEXIST);
  Vlan(lower, {.vlan_id = 0});
  EXPECT_EQ(Error(lower.ifindex(), {.name = "x", .vlan_id = 0}), EEXIST);
  Vlan(lower, {.vlan_id = 4094});
  EXPECT_THAT(lower.filter_calls, IsEmpty());
}

TEST_F(VlanTest, RegistersItsIdWithAFilteringDevice) {
  FakeDevice& lower = AddDevice({.features = {kHwVlanCtagFilter}, .filters_vlans = true});
  lower.vlan_status = ErrnoStatus(ENOSPC, "full");
  lower.refused_vlan_id = 6;
  EXPECT_EQ(Error(lower.ifindex(), {.vlan_id = 6}), ENOSPC);
  NetDevice& vlan = Vlan(lower, {.vlan_id = 5});
  EXPECT_THAT(lower.filter_calls, ElementsAre("+vlan 5"));
  context.registry().Unregister(vlan);
  EXPECT_THAT(lower.filter_calls, ElementsAre("+vlan 5", "-vlan 5"));
  lower.filter_calls.clear();
  EXPECT_EQ(Error(lower.ifindex(), {.name = "fake0", .vlan_id = 7}), EEXIST);
  EXPECT_THAT(lower.filter_calls, IsEmpty());
}

TEST_F(VlanTest, StackIsAtMostEightHigh) {
  NetDevice* top = &AddDevice();
  for (uint16_t id = 1; id <= 7; ++id) {
    top = &Vlan(*top, {.name = "v" + std::to_string(id), .vlan_id = id});
  }
  EXPECT_EQ(Error(top->ifindex(), {.name = "v8", .vlan_id = 8}), EMLINK);
  EXPECT_EQ(top->VlanUpper(0x8100, 8), nullptr);
}

// ---- Features ----

// Covers: netdev:A-08
TEST_F(VlanTest, SoftwareSegmentationIsKeptWhateverTheLowerHas) {
  const FeatureSet lower_set{kSg, kIpCsum, kTso};
  FakeDevice& lower = AddDevice({.features = lower_set, .vlan_features = lower_set});
  NetDevice& vlan = Vlan(lower);
  const FeatureSet all{kHwCsum, kSg, kTso, kTso6, kGso, kGsoUdpL4};
  EXPECT_TRUE(vlan.features().HasAll(all)) << FeatureSetToString(vlan.features());
  EXPECT_FALSE(vlan.features().HasAny({kIpCsum, kIpv6Csum, kFragList}));
  // The wish of the case, in full.
  vlan.RequestFeatures(vlan.hw_features(), {kHwCsum, kSg, kTso6, kGso});
  EXPECT_EQ(vlan.features() & (all | kGro), (FeatureSet{kHwCsum, kSg, kTso6, kGso}));
}

TEST_F(VlanTest, FeaturesAreThoseForTaggedPackets) {
  const FeatureSet full{kSg, kHwCsum, kTso, kTso6, kHighDma, kFragList, kRxCsum};
  FakeDevice& lower = AddDevice({.features = full, .hw_features = full, .vlan_features = {kSg}});
  NetDevice& vlan = Vlan(lower);
  EXPECT_TRUE(vlan.features().HasAll({kSg, kHighDma, kGso, kGro}));
  EXPECT_FALSE(vlan.features().HasAny({kHwCsum, kFragList, kTso, kTso6}));
  EXPECT_FALSE(vlan.features().Has(kRxCsum)) << "not among what it starts with";
  EXPECT_EQ(vlan.vlan_features(), (FeatureSet{kSg, kHighDma}));
  // Linux's list of what users may switch.
  EXPECT_TRUE(vlan.hw_features().HasAll(
      kGsoSoftware | kGsoEncapAll |
      FeatureSet{kHwCsum, kSg, kFragList, kHighDma, kSctpCrc, kGso, kGro}));
  EXPECT_FALSE(vlan.hw_features().HasAny(kVlanOffloads | FeatureSet{kRxCsum, kLro, kFcoeCrc}));
}

TEST_F(VlanTest, FeaturesFollowTheLower) {
  const FeatureSet set{kSg, kIpCsum, kTso};
  FakeDevice& lower = AddDevice({.features = set, .hw_features = set, .vlan_features = set});
  NetDevice& vlan = Vlan(lower);
  FakeObserver observer;
  vlan.AddObserver(observer);
  ASSERT_TRUE(lower.RequestFeatures(kIpCsum, {}).empty());
  EXPECT_FALSE(vlan.features().HasAny(FeatureSet(kHwCsum) | kAllTso));
  EXPECT_TRUE(vlan.features().HasAll({kSg, kGso}));
  EXPECT_THAT(observer.events, ElementsAre("fake0.1 feat-change"));
  lower.RequestFeatures(kSg, {});
  EXPECT_FALSE(vlan.features().HasAny({kSg, kGso}));
  lower.RequestFeatures(set, set);
  EXPECT_TRUE(vlan.features().HasAll({kHwCsum, kSg, kTso, kGso}));
}

// Covers: netdev:A-09
TEST_F(VlanTest, SizeLimitsAreInheritedAndNeverRaised) {
  FakeDevice& lower = AddDevice({.gso_max_size = 32768, .gso_max_segs = 20});
  NetDevice& vlan = Vlan(lower);
  EXPECT_EQ(vlan.gso_max_size(), 32768u);
  EXPECT_EQ(vlan.gso_max_segs(), 20u);
  lower.set_tso_limits(65536, 40);
  lower.ChangeFeatures();
  EXPECT_EQ(vlan.tso_max_size(), 65536u);
  EXPECT_EQ(vlan.gso_max_size(), 32768u);
  EXPECT_EQ(vlan.gso_max_segs(), 20u);
}

TEST_F(VlanTest, TunnelFeaturesNeedSegmentationAndChecksum) {
  FakeDevice& both = AddDevice({.name = "a", .hw_enc_features = {kIpCsum, kGsoGre, kTso, kRxHash}});
  FakeDevice& one = AddDevice({.name = "b", .hw_enc_features = {kIpCsum, kTso}});
  EXPECT_TRUE(Vlan(both).hw_enc_features().HasAll({kHwCsum, kGsoGre, kTso}));
  EXPECT_FALSE(
      Vlan(both, {.name = "x", .vlan_id = 2}).hw_enc_features().HasAny({kIpCsum, kRxHash}));
  EXPECT_EQ(Vlan(one).hw_enc_features(), (FeatureSet{kSg, kGsoPartial}));
}

// ---- State ----

TEST_F(VlanTest, NeedsALowerThatIsUp) {
  FakeDevice& lower = AddDevice();
  NetDevice& vlan = Vlan(lower);
  EXPECT_EQ(StatusToErrno(vlan.Up()), ENETDOWN);
  ASSERT_TRUE(lower.Up().ok());
  EXPECT_TRUE(vlan.is_up()) << "comes up with it";
}

TEST_F(VlanTest, GoesDownAndComesUpWithTheLower) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower);
  NetDevice& inner = Vlan(vlan, {.vlan_id = 2});
  ASSERT_TRUE(vlan.Up().ok());
  ASSERT_TRUE(inner.Up().ok());
  lower.Down();
  EXPECT_FALSE(vlan.is_up());
  EXPECT_FALSE(inner.is_up());
  ASSERT_TRUE(lower.Up().ok());
  EXPECT_TRUE(vlan.is_running());
  EXPECT_TRUE(inner.is_running());
}

TEST_F(VlanTest, LinkStateIsTheLowers) {
  FakeDevice& lower = AddUpDevice();
  lower.SetCarrier(false);
  NetDevice& vlan = Vlan(lower);
  EXPECT_FALSE(vlan.has_carrier());
  ASSERT_TRUE(vlan.Up().ok());
  EXPECT_EQ(vlan.oper_state(), OperState::kLowerLayerDown);
  lower.SetCarrier(true);
  EXPECT_EQ(vlan.oper_state(), OperState::kUp);
  lower.SetDormant(true);
  EXPECT_EQ(vlan.oper_state(), OperState::kDormant);
  lower.SetDormant(false);
  lower.SetTesting(true);
  EXPECT_EQ(vlan.oper_state(), OperState::kTesting);
  lower.SetTesting(false);
  EXPECT_EQ(vlan.oper_state(), OperState::kUp);
  vlan.Down();
  EXPECT_FALSE(vlan.has_carrier());
  ASSERT_TRUE(vlan.Up().ok());
  EXPECT_TRUE(vlan.has_carrier());
}

TEST_F(VlanTest, MtuStaysWithinTheLowers) {
  FakeDevice& lower = AddDevice({.mtu = 1500});
  NetDevice& vlan = Vlan(lower);
  NetDevice& small = Vlan(lower, {.vlan_id = 2, .mtu = 1000});
  EXPECT_EQ(StatusToErrno(vlan.SetMtu(1501)), ERANGE);
  EXPECT_TRUE(vlan.SetMtu(1500).ok());
  ASSERT_TRUE(lower.SetMtu(1200).ok());
  EXPECT_EQ(vlan.mtu(), 1200u);
  EXPECT_EQ(small.mtu(), 1000u);
  ASSERT_TRUE(lower.SetMtu(1500).ok());
  EXPECT_EQ(vlan.mtu(), 1200u) << "raised by users only";
  EXPECT_TRUE(vlan.SetMtu(1500).ok());
}

TEST_F(VlanTest, NotificationsForPeersArePassedOn) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower);
  FakeObserver observer;
  vlan.AddObserver(observer);
  lower.SendEvent(NetdevEvent::kNotifyPeers);
  lower.SendEvent(NetdevEvent::kResendIgmp);
  EXPECT_THAT(observer.events, ElementsAre("fake0.1 notify-peers", "fake0.1 resend-igmp"));
}

TEST_F(VlanTest, LinkTypeOfTheLowerIsFrozen) {
  FakeDevice& lower = AddDevice();
  NetDevice& vlan = Vlan(lower);
  EXPECT_EQ(StatusToErrno(lower.ChangeLinkType(LinkType::kOther)), EBUSY);
  context.registry().Unregister(vlan);
  EXPECT_TRUE(lower.ChangeLinkType(LinkType::kOther).ok());
}

TEST_F(VlanTest, GoesWithTheLower) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower);
  NetDevice& inner = Vlan(vlan, {.vlan_id = 2});
  ASSERT_TRUE(vlan.Up().ok());
  ASSERT_TRUE(inner.Up().ok());
  static_cast<void>(TxPath::Transmit(Frame(), inner));  // waits in the lower's queue
  context.registry().Unregister(lower);
  EXPECT_THAT(context.registry().devices(), IsEmpty());
  Run();
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

// Observers may remove either device in the middle of a change of either.
TEST_F(VlanTest, MayBeRemovedInTheMiddleOfAChange) {
  for (const NetdevEvent when : {NetdevEvent::kGoingDown, NetdevEvent::kDown, NetdevEvent::kUp,
                                 NetdevEvent::kChange, NetdevEvent::kChangeAddr}) {
    for (const bool watch_lower : {false, true}) {
      for (const bool remove_lower : {false, true}) {
        FakeDevice& lower = AddUpDevice();
        NetDevice& vlan = Vlan(lower);
        ASSERT_TRUE(vlan.Up().ok());
        vlan.AddMulticast(kGroup);
        FakeObserver observer;
        (watch_lower ? static_cast<NetDevice&>(lower) : vlan).AddObserver(observer);
        observer.on_event = [&](NetDevice&, NetdevEvent event) {
          if (event == when) {
            context.registry().Unregister(remove_lower ? static_cast<NetDevice&>(lower) : vlan);
          }
        };
        lower.SetCarrier(false);
        static_cast<void>(lower.SetMac(kOtherMac));
        lower.Down();
        static_cast<void>(lower.Up());
        context.registry().Unregister(lower);
        EXPECT_THAT(context.registry().devices(), IsEmpty());
        Run();
      }
    }
  }
}

TEST_F(VlanTest, LeavesTheLowerAsItWas) {
  FakeDevice& lower = AddUpDevice();
  for (int i = 0; i < 100; ++i) {
    NetDevice& vlan = Vlan(lower, {.mac = kOwnMac});
    ASSERT_TRUE(vlan.Up().ok());
    vlan.AddMulticast(kGroup);
    ASSERT_TRUE(vlan.AddUnicast(kOtherMac).ok());
    vlan.SetPromiscuous(true);
    ASSERT_TRUE(vlan.ChangeAllMulti(1).ok());
    context.registry().Unregister(vlan);
    Run();
    ASSERT_THAT(lower.uppers(), IsEmpty());
    ASSERT_EQ(lower.VlanUpper(0x8100, 1), nullptr);
    ASSERT_THAT(lower.unicast_list(), IsEmpty());
    ASSERT_THAT(lower.multicast_list(), IsEmpty());
    ASSERT_EQ(lower.promiscuity(), 0u);
    ASSERT_EQ(lower.allmulti(), 0u);
  }
}

// ---- Addresses ----

TEST_F(VlanTest, AddressFollowsTheLowerUntilItIsSet) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower);
  ASSERT_TRUE(vlan.Up().ok());
  FakeObserver observer;
  vlan.AddObserver(observer);
  ASSERT_TRUE(lower.SetMac(kOtherMac).ok());
  EXPECT_EQ(vlan.mac(), kOtherMac);
  EXPECT_THAT(observer.events, ElementsAre("fake0.1 change-addr"));
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
  ASSERT_TRUE(vlan.SetMac(kOwnMac).ok());
  EXPECT_TRUE(lower.HasUnicast(kOwnMac));
  ASSERT_TRUE(lower.SetMac(kLowerMac).ok());
  EXPECT_EQ(vlan.mac(), kOwnMac);
  EXPECT_TRUE(lower.HasUnicast(kOwnMac));
}

TEST_F(VlanTest, AddressIsFollowedWhenItComesUp) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower);
  ASSERT_TRUE(lower.SetMac(kOtherMac).ok());
  EXPECT_EQ(vlan.mac(), kLowerMac);
  ASSERT_TRUE(vlan.Up().ok());
  EXPECT_EQ(vlan.mac(), kOtherMac);
}

TEST_F(VlanTest, OwnAddressIsInTheLowersFilterWhileItDiffers) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower, {.mac = kOwnMac});
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
  ASSERT_TRUE(vlan.Up().ok());
  EXPECT_TRUE(lower.HasUnicast(kOwnMac));
  ASSERT_TRUE(vlan.SetMac(kOtherMac).ok());
  EXPECT_FALSE(lower.HasUnicast(kOwnMac));
  EXPECT_TRUE(lower.HasUnicast(kOtherMac));
  ASSERT_TRUE(lower.SetMac(kOtherMac).ok());  // both the same now
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
  ASSERT_TRUE(lower.SetMac(kLowerMac).ok());
  EXPECT_TRUE(lower.HasUnicast(kOtherMac));
  vlan.Down();
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
  EXPECT_EQ(StatusToErrno(vlan.SetMac(kGroup)), EADDRNOTAVAIL);
  ASSERT_TRUE(vlan.SetMac(kOwnMac).ok());
  EXPECT_THAT(lower.unicast_list(), IsEmpty());
}

TEST_F(VlanTest, FiltersAreSyncedWhileUp) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower);
  vlan.AddMulticast(kGroup);
  ASSERT_TRUE(vlan.AddUnicast(kOtherMac).ok());
  vlan.SetPromiscuous(true);
  ASSERT_TRUE(vlan.ChangeAllMulti(1).ok());
  EXPECT_FALSE(lower.HasMulticast(kGroup));
  EXPECT_FALSE(lower.is_promiscuous());
  ASSERT_TRUE(vlan.Up().ok());
  EXPECT_TRUE(lower.HasMulticast(kGroup));
  ASSERT_EQ(lower.multicast_list().size(), 1u);
  EXPECT_EQ(lower.multicast_list()[0].synced, 1u);
  EXPECT_TRUE(lower.HasUnicast(kOtherMac));
  EXPECT_TRUE(lower.is_allmulti());
  EXPECT_EQ(lower.promiscuity(), 2u) << "and one for want of a unicast filter";
  vlan.SetPromiscuous(false);
  EXPECT_EQ(lower.promiscuity(), 1u);
  ASSERT_TRUE(vlan.ChangeAllMulti(-1).ok());
  EXPECT_FALSE(lower.is_allmulti());
  vlan.RemoveUnicast(kOtherMac);
  EXPECT_FALSE(lower.HasUnicast(kOtherMac));
  EXPECT_EQ(lower.promiscuity(), 0u);
  vlan.RemoveMulticast(kGroup);
  EXPECT_FALSE(lower.HasMulticast(kGroup));
}

// The lower's own membership is not touched.
TEST_F(VlanTest, GroupsOfTheLowerAreItsOwn) {
  FakeDevice& lower = AddUpDevice();
  lower.AddMulticast(kGroup);
  NetDevice& vlan = Vlan(lower);
  ASSERT_TRUE(vlan.Up().ok());
  vlan.AddMulticast(kGroup);
  vlan.Down();
  EXPECT_TRUE(lower.HasMulticast(kGroup));
  EXPECT_EQ(lower.multicast_list()[0].synced, 0u);
}

}  // namespace
}  // namespace tapwire::netdev
