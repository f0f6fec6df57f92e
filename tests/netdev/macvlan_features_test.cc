// SPDX-License-Identifier: Apache-2.0
// What a macvlan claims, what it takes over from its lower device, and who may change it.
#include "netdev/ethtool.h"
#include "netdev/macvlan.h"
#include "netdev/vlan_device.h"
#include "tests/netdev/macvlan_fixture.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using testing::FakeDevice;
using testing::kMacA;
using testing::kMacB;

// Written out, bit by bit, from Linux 6.18.
constexpr FeatureSet kAlwaysOn = {
    kSg,        kHwCsum,       kGsoRobust,       kTso,       kTso6,   kTsoEcn,     kTsoMangleId,
    kGsoSctp,   kGsoUdpL4,     kGsoFragList,     kGsoAccEcn, kGsoGre, kGsoGreCsum, kGsoIpxip4,
    kGsoIpxip6, kGsoUdpTunnel, kGsoUdpTunnelCsum};

class MacvlanFeaturesTest : public testing::MacvlanTest {
 protected:
  // A lower device whose active features are exactly these, all of them changeable.
  FakeDevice& AddLowerWith(FeatureSet features) {
    FakeDevice& lower = AddLower({.name = "eth0",
                                  .features = features,
                                  .hw_features = features,
                                  .vlan_features = features & ~kVlanOffloads,
                                  .queueless = true,
                                  .unicast_filter_slots = 16,
                                  .filters_vlans = true});
    lower.RequestFeatures(kSoftFeatures & ~features, FeatureSet());
    EXPECT_EQ(lower.features(), features) << FeatureSetToString(lower.features());
    return lower;
  }
  Macvlan& CreateOn(const NetDevice& lower, const MacAddress& mac = kMacA) {
    return Create(lower, MacvlanMode::kBridge, mac);
  }
  static constexpr FeatureSet kOldNic = {kSg, kIpCsum, kIpv6Csum, kGso, kGro, kHighDma};
};

// Covers: macvlan:B-01
TEST_F(MacvlanFeaturesTest, LowerWithoutAnyFeatureTakesNothingAway) {
  Macvlan& macvlan = CreateOn(AddLowerWith({}));
  EXPECT_EQ(macvlan.features(), kAlwaysOn) << FeatureSetToString(macvlan.features());
  // GSO and GRO are the lower device's; the wish is there.
  EXPECT_TRUE(macvlan.wanted_features().HasAll(kSoftFeatures));
  EXPECT_TRUE(macvlan.hw_features().Has(kLro));
  EXPECT_FALSE(macvlan.hw_features().HasAny(kAlwaysOn));
  EXPECT_TRUE(macvlan.hw_enc_features().HasAll(kAlwaysOn));
}

// Covers: macvlan:B-02
TEST_F(MacvlanFeaturesTest, GenericChecksumStandsForTheSpecificOnes) {
  Macvlan& macvlan = CreateOn(AddLowerWith(kOldNic));
  EXPECT_EQ(macvlan.features(), kAlwaysOn | FeatureSet({kGso, kGro, kHighDma}))
      << FeatureSetToString(macvlan.features());
}

// Covers: macvlan:B-03
TEST_F(MacvlanFeaturesTest, OffloadsStayWhenTheLowerDeviceLosesAllOfIts) {
  FakeDevice& lower = AddLowerWith(kOldNic);
  Macvlan& macvlan = CreateOn(lower);
  lower.RequestFeatures(kOldNic, FeatureSet());
  EXPECT_EQ(lower.features(), FeatureSet());
  // What was once there of these stays: highdma is nobody's wish.
  EXPECT_EQ(macvlan.features(), kAlwaysOn | FeatureSet(kHighDma))
      << FeatureSetToString(macvlan.features());
  lower.RequestFeatures(kOldNic, kOldNic);
  EXPECT_TRUE(macvlan.features().HasAll(kSoftFeatures));
}

// Covers: macvlan:B-04
TEST_F(MacvlanFeaturesTest, WishForGroIsRecordedAndHasNoEffect) {
  Macvlan& macvlan = CreateOn(AddLowerWith(kOldNic));
  ASSERT_TRUE(SetLegacyFeature(macvlan, LegacyFeature::kGro, false).ok());
  EXPECT_EQ(FeatureStateText(FeatureStateOf(macvlan, kGro)), "on [requested off]");
  ASSERT_TRUE(SetLegacyFeature(macvlan, LegacyFeature::kGso, false).ok());
  EXPECT_EQ(FeatureStateText(FeatureStateOf(macvlan, kGso)), "on [requested off]");
}

// Covers: macvlan:B-05, netdev:O-02
TEST_F(MacvlanFeaturesTest, WhatIsAlwaysOnCannotBeSwitchedOff) {
  Macvlan& macvlan = CreateOn(AddLowerWith({}));
  for (const LegacyFeature feature :
       {LegacyFeature::kTxCsum, LegacyFeature::kSg, LegacyFeature::kTso}) {
    const absl::Status refused = SetLegacyFeature(macvlan, feature, false);
    EXPECT_EQ(StatusToErrno(refused), EOPNOTSUPP) << refused;
  }
  for (const Feature feature : {kHwCsum, kSg, kTso, kTso6}) {
    EXPECT_EQ(FeatureStateText(FeatureStateOf(macvlan, feature)), "on [fixed]");
  }
  const auto result = SetFeaturesBulk(macvlan, kAllTso, FeatureSet());
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->unsupported);
  EXPECT_TRUE(result->changed.empty());
  EXPECT_EQ(macvlan.features(), kAlwaysOn);
}

TEST_F(MacvlanFeaturesTest, WhatTheLowerDeviceCannotInheritIsNeverOn) {
  constexpr FeatureSet kForeign = {kRxHash,    kHwVlanCtagTx, kHwVlanCtagRx, kNtuple, kGroFragList,
                                   kGroUdpFwd, kNocacheCopy,  kGsoPartial,   kGroHw,  kRxCsum};
  Macvlan& macvlan = CreateOn(AddLowerWith(kForeign));
  EXPECT_EQ(macvlan.features(), kAlwaysOn | FeatureSet(kRxCsum));
  SetFeaturesBulk(macvlan, kGroFragList, kGroFragList).IgnoreError();
  EXPECT_EQ(FeatureStateText(FeatureStateOf(macvlan, kGroFragList)), "off [requested on]");
  EXPECT_EQ(FeatureStateText(FeatureStateOf(macvlan, kRxHash)), "off [fixed]");
}

// Covers: macvlan:B-06
TEST_F(MacvlanFeaturesTest, ReceiveChecksumAndVlanFilterComeAndGoWithTheLowerDevice) {
  constexpr FeatureSet kFollowed = {kRxCsum, kHwVlanCtagFilter};
  FakeDevice& lower = AddLowerWith(kFollowed);
  lower.RequestFeatures(kFollowed, FeatureSet());
  Macvlan& macvlan = CreateOn(lower);
  EXPECT_FALSE(macvlan.features().HasAny(kFollowed));
  lower.RequestFeatures(kFollowed, kFollowed);
  EXPECT_TRUE(macvlan.features().HasAll(kFollowed));
  lower.RequestFeatures(kFollowed, FeatureSet());
  EXPECT_FALSE(macvlan.features().HasAny(kFollowed));
}

TEST_F(MacvlanFeaturesTest, VlanIdsAreTheLowerDevicesToFilter) {
  FakeDevice& lower = AddLowerWith({kHwVlanCtagFilter});
  Macvlan& macvlan = CreateOn(lower);
  lower.filter_calls.clear();
  ASSERT_TRUE(macvlan.AddVlanId(0x8100, 7).ok());
  macvlan.RemoveVlanId(0x8100, 7);
  EXPECT_THAT(lower.filter_calls, ::testing::ElementsAre("+vlan 7", "-vlan 7"));
}

// Covers: macvlan:B-07
TEST_F(MacvlanFeaturesTest, LroOffOnOneIsOffForAll) {
  FakeDevice& lower = AddLowerWith({kLro});
  Macvlan& first = CreateOn(lower, kMacA);
  Macvlan& second = CreateOn(lower, kMacB);
  EXPECT_TRUE(first.features().Has(kLro));
  EXPECT_TRUE(second.features().Has(kLro));
  first.RequestFeatures(kLro, FeatureSet());
  EXPECT_FALSE(first.features().Has(kLro));
  EXPECT_FALSE(lower.features().Has(kLro));
  EXPECT_FALSE(second.features().Has(kLro));
  EXPECT_TRUE(second.wanted_features().Has(kLro));
}

// Covers: macvlan:B-08
TEST_F(MacvlanFeaturesTest, LroComesBackWhenEverybodyWantsItAndTheLowerDeviceIsAsked) {
  FakeDevice& lower = AddLowerWith({kLro});
  lower.RequestFeatures(kLro, FeatureSet());
  Macvlan& macvlan = CreateOn(lower);
  EXPECT_FALSE(macvlan.wanted_features().Has(kLro));
  ASSERT_TRUE(SetFeaturesBulk(lower, kLro, kLro).ok());
  EXPECT_FALSE(lower.features().Has(kLro));
  EXPECT_TRUE(lower.wanted_features().Has(kLro));
  ASSERT_TRUE(SetFeaturesBulk(macvlan, kLro, kLro).ok());
  EXPECT_FALSE(lower.features().Has(kLro));
  EXPECT_FALSE(macvlan.features().Has(kLro));
  // The same netlink request again changes no wish and does nothing.
  ASSERT_TRUE(SetFeaturesNetlink(lower, kLro, kLro).ok());
  EXPECT_FALSE(lower.features().Has(kLro));
  ASSERT_TRUE(SetFeaturesBulk(lower, kLro, kLro).ok());
  EXPECT_TRUE(lower.features().Has(kLro));
  EXPECT_TRUE(macvlan.features().Has(kLro));
}

TEST_F(MacvlanFeaturesTest, UserMaskTakesLroAway) {
  Macvlan& macvlan = CreateOn(AddLowerWith({kLro, kGro, kSg, kGso}));
  ASSERT_TRUE(macvlan.features().Has(kLro));
  macvlan.SetUserFeatures({kSg, kHwCsum, kGso, kTso, kTso6});
  EXPECT_FALSE(macvlan.features().Has(kLro));
  EXPECT_EQ(macvlan.features(), kAlwaysOn | kSoftFeatures);
}

// Covers: macvlan:B-09
TEST_F(MacvlanFeaturesTest, SizeLimitsFollowTheLowerDeviceDownwards) {
  FakeDevice& lower = AddLowerWith(kOldNic);
  Macvlan& macvlan = CreateOn(lower);
  EXPECT_EQ(macvlan.gso_max_size(), NetDevice::kDefaultGsoMaxSize);
  lower.set_tso_limits(16384, 20);
  lower.ChangeFeatures();
  EXPECT_EQ(macvlan.tso_max_size(), 16384u);
  EXPECT_LE(macvlan.gso_max_size(), 16384u);
  EXPECT_EQ(macvlan.gso_max_segs(), 20u);
  lower.set_tso_limits(65536, 65535);
  lower.ChangeFeatures();
  EXPECT_EQ(macvlan.tso_max_size(), 65536u);
  EXPECT_EQ(macvlan.gso_max_size(), 16384u);
  EXPECT_EQ(CreateOn(lower, kMacB).gso_max_size(), 65536u);
}

// Covers: macvlan:B-10
TEST_F(MacvlanFeaturesTest, VlanDevicesAboveHaveTheSameSoftwareBelow) {
  Macvlan& macvlan = CreateOn(AddLowerWith({}));
  EXPECT_TRUE(macvlan.vlan_features().HasAll(kAlwaysOn));
  auto vlan = CreateVlan(context, macvlan.ifindex(), {.vlan_id = 9});
  ASSERT_TRUE(vlan.ok()) << vlan.status();
  EXPECT_TRUE((*vlan)->features().HasAll(FeatureSet{kSg, kHwCsum} | kGsoSoftware))
      << FeatureSetToString((*vlan)->features());
}

// As before Linux 3.14.
TEST_F(MacvlanFeaturesTest, WithoutAlwaysOnTheLowerDevicesFeaturesAreCopied) {
  FakeDevice& lower = AddLowerWith(kOldNic | FeatureSet({kTso, kRxHash}));
  Macvlan& macvlan = Create(lower, MacvlanMode::kBridge, kMacA, {.always_on = false});
  EXPECT_FALSE(macvlan.always_on());
  EXPECT_EQ(macvlan.features(), kOldNic | FeatureSet(kTso))
      << FeatureSetToString(macvlan.features());
  lower.RequestFeatures(kOldNic, kSg);
  EXPECT_EQ(macvlan.features(), FeatureSet(kSg)) << FeatureSetToString(macvlan.features());
  lower.RequestFeatures(kOldNic, kOldNic);
  EXPECT_EQ(macvlan.features(), kOldNic | FeatureSet(kTso));
  FakeDevice& bare = AddLower({.name = "eth1"});
  bare.RequestFeatures(kSoftFeatures, FeatureSet());
  EXPECT_EQ(Create(bare, MacvlanMode::kBridge, kMacA, {.always_on = false}).features(),
            FeatureSet());
}

}  // namespace
}  // namespace tapwire::netdev
