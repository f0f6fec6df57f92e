// SPDX-License-Identifier: Apache-2.0
#include "netdev/ethtool.h"

#include <cerrno>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "tests/netdev/fake_device.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FakeObserver;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EthtoolTest : public testing::NetdevTest {
 protected:
  FakeDevice& Add(FeatureSet features, FeatureSet hw_features) {
    FakeDevice& device = AddDevice({.features = features, .hw_features = hw_features});
    device.AddObserver(observer);
    return device;
  }
  static std::string Shown(const NetDevice& device, Feature feature) {
    return FeatureStateText(FeatureStateOf(device, feature));
  }
  FakeObserver observer;
};

// Covers: netdev:E-01
TEST_F(EthtoolTest, WhatUsersCannotChangeIsFixed) {
  FakeDevice& device = Add({kSg, kHwCsum, kTso, kVlanChallenged}, kVlanChallenged);
  EXPECT_EQ(Shown(device, kTso), "on [fixed]");
  EXPECT_EQ(Shown(device, kLro), "off [fixed]");
  EXPECT_EQ(Shown(device, kVlanChallenged), "on [fixed]") << "whatever the driver says";
  EXPECT_EQ(Shown(device, kGro), "on");
  EXPECT_EQ(Shown(device, kGroFragList), "off");
}

// Covers: netdev:E-02
TEST_F(EthtoolTest, RequestThatWaitsIsShownAndGranted) {
  const FeatureSet all{kSg, kHwCsum, kTso};
  FakeDevice& device = Add(all, all);
  EXPECT_TRUE(SetLegacyFeature(device, LegacyFeature::kSg, false).ok());
  EXPECT_EQ(Shown(device, kTso), "off [requested on]");
  EXPECT_EQ(Shown(device, kSg), "off");
  EXPECT_TRUE(SetLegacyFeature(device, LegacyFeature::kSg, true).ok());
  EXPECT_EQ(Shown(device, kTso), "on");
  device.fix_features = [](FeatureSet f) { return f | kSg; };
  EXPECT_TRUE(SetLegacyFeature(device, LegacyFeature::kSg, false).ok());
  EXPECT_EQ(Shown(device, kSg), "on [requested off]");
}

// Covers: netdev:E-03
TEST_F(EthtoolTest, OldCommandWithoutAChangeableBitIsNotSupported) {
  FakeDevice& device = Add({kSg, kHwCsum, kTso}, {kSg, kHwCsum});
  const absl::Status status = SetLegacyFeature(device, LegacyFeature::kTso, false);
  EXPECT_EQ(StatusToErrno(status), EOPNOTSUPP);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("fake0: tso"));
  EXPECT_TRUE(device.features().Has(kTso));
}

// Covers: netdev:E-04
TEST_F(EthtoolTest, OldCommandSwitchesAllBitsOfItsGroup) {
  FakeDevice& device = Add({kSg, kHwCsum}, {kTso, kTso6, kTsoMangleId});
  EXPECT_FALSE(GetLegacyFeature(device, LegacyFeature::kTso));
  EXPECT_TRUE(SetLegacyFeature(device, LegacyFeature::kTso, true).ok());
  EXPECT_TRUE(device.wanted_features().HasAll({kTso, kTso6, kTsoMangleId}));
  EXPECT_FALSE(device.wanted_features().Has(kTsoEcn)) << "not changeable";
  EXPECT_TRUE(GetLegacyFeature(device, LegacyFeature::kTso));
}

TEST_F(EthtoolTest, OldCommandsAndTheirBits) {
  struct Case {
    LegacyFeature feature;
    const char* name;
    FeatureSet mask;
  };
  for (const Case& c :
       {Case{LegacyFeature::kRxCsum, "rx", kRxCsum},
        Case{LegacyFeature::kTxCsum, "tx", {kIpCsum, kIpv6Csum, kHwCsum, kFcoeCrc, kSctpCrc}},
        Case{LegacyFeature::kSg, "sg", {kSg, kFragList}},
        Case{LegacyFeature::kTso, "tso", {kTso, kTso6, kTsoEcn, kTsoMangleId}},
        Case{LegacyFeature::kGso, "gso", kGso}, Case{LegacyFeature::kGro, "gro", kGro},
        Case{LegacyFeature::kLro, "lro", kLro}}) {
    EXPECT_EQ(LegacyFeatureName(c.feature), c.name);
    EXPECT_EQ(LegacyFeatureMask(c.feature), c.mask) << c.name;
  }
}

TEST_F(EthtoolTest, AnyBitOfTheGroupCountsAsOn) {
  FakeDevice& device = Add({kSg, kIpv6Csum, kTso6}, {});
  EXPECT_TRUE(GetLegacyFeature(device, LegacyFeature::kTso));
  EXPECT_TRUE(GetLegacyFeature(device, LegacyFeature::kTxCsum));
  EXPECT_FALSE(GetLegacyFeature(device, LegacyFeature::kRxCsum));
}

// Covers: netdev:E-05
TEST_F(EthtoolTest, RequestThatNamesAnAttributeIsRefusedWhole) {
  FakeDevice& device = Add({kSg, kHwCsum, kTso}, {kSg, kHwCsum, kTso});
  for (const auto& set : {SetFeaturesBulk, SetFeaturesNetlink}) {
    const auto result = set(device, {kTso, kVlanChallenged}, {});
    EXPECT_EQ(StatusToErrno(result.status()), EINVAL);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("vlan-challenged"));
    EXPECT_TRUE(device.features().Has(kTso));
    EXPECT_TRUE(device.wanted_features().Has(kTso));
  }
}

// Covers: netdev:E-06
TEST_F(EthtoolTest, BulkRequestAppliesWhatItCan) {
  FakeDevice& device = Add({kSg, kHwCsum, kTso}, kTso);
  const auto result = SetFeaturesBulk(device, {kTso, kSg}, {});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->unsupported);
  EXPECT_FALSE(result->wish);
  EXPECT_EQ(result->changed, FeatureSet{kTso});
  EXPECT_FALSE(device.features().Has(kTso));
  EXPECT_TRUE(device.features().Has(kSg));
  EXPECT_THAT(observer.events, ElementsAre("fake0 feat-change"));
}

TEST_F(EthtoolTest, BulkRequestThatWaitsIsAWish) {
  FakeDevice& device = Add(kHwCsum, {kSg, kTso});
  const auto waits = SetFeaturesBulk(device, kTso, kTso);
  ASSERT_TRUE(waits.ok());
  EXPECT_TRUE(waits->wish);
  EXPECT_FALSE(waits->unsupported);
  EXPECT_TRUE(waits->changed.empty());
  EXPECT_THAT(observer.events, IsEmpty());
  const auto granted = SetFeaturesBulk(device, kSg, kSg);
  ASSERT_TRUE(granted.ok());
  EXPECT_FALSE(granted->wish);
  EXPECT_EQ(granted->changed, (FeatureSet{kSg, kTso, kGso}));
}

TEST_F(EthtoolTest, NetlinkRequestMasksWhatCannotBeChanged) {
  FakeDevice& device = Add({kSg, kHwCsum, kTso}, kTso);
  const auto result = SetFeaturesNetlink(device, {kTso, kSg}, {});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->unsupported) << "silently";
  EXPECT_TRUE(result->wish) << "requested, but different";
  EXPECT_EQ(result->changed, FeatureSet{kTso});
  EXPECT_TRUE(device.features().Has(kSg));
}

TEST_F(EthtoolTest, RepeatedNetlinkRequestComputesNothing) {
  FakeDevice& device = Add({kSg, kHwCsum}, {kTso});
  int runs = 0;
  device.fix_features = [&](FeatureSet f) {
    ++runs;
    return f & ~FeatureSet(kTso);
  };
  EXPECT_TRUE(SetFeaturesNetlink(device, kTso, kTso)->wish);
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(SetFeaturesNetlink(device, kTso, kTso)->wish);
  EXPECT_EQ(runs, 1);
  // The bulk command does try again.
  device.fix_features = nullptr;
  EXPECT_EQ(SetFeaturesNetlink(device, kTso, kTso)->changed, FeatureSet());
  EXPECT_EQ(SetFeaturesBulk(device, kTso, kTso)->changed, FeatureSet{kTso});
}

// What the driver refuses is logged, not returned; no change is no event.
TEST_F(EthtoolTest, ErrorOfTheDriverDoesNotReachTheCaller) {
  struct Quiet : LogSink {
    void Write(LogLevel, const char*, int, absl::string_view text) override {
      lines.emplace_back(text);
    }
    std::vector<std::string> lines;
  } sink;
  FakeDevice& device = Add({kSg, kHwCsum, kTso}, kTso);
  device.features_status = absl::InternalError("register stuck");
  LogSink* const before = SetLogSink(&sink);
  EXPECT_TRUE(SetLegacyFeature(device, LegacyFeature::kTso, false).ok());
  SetLogSink(before);
  EXPECT_THAT(sink.lines, ElementsAre(HasSubstr("register stuck")));
  EXPECT_TRUE(device.features().Has(kTso));
  EXPECT_EQ(Shown(device, kTso), "on [requested off]");
  EXPECT_THAT(observer.events, IsEmpty());
}

}  // namespace
}  // namespace tapwire::netdev
