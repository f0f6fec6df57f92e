// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <memory>
#include <random>
#include <string>
#include <utility>
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

class LogCapture : public LogSink {
 public:
  LogCapture() : before_(SetLogSink(this)) {}
  ~LogCapture() override { SetLogSink(before_); }
  void Write(LogLevel, const char*, int, absl::string_view text) override {
    lines.emplace_back(text);
  }
  std::vector<std::string> lines;

 private:
  LogSink* before_;
};

class DeviceFeaturesTest : public testing::NetdevTest {
 protected:
  static constexpr FeatureSet kAll{kSg, kHwCsum, kTso};
};

TEST_F(DeviceFeaturesTest, RegistrationAddsSoftFeatures) {  // Covers: netdev:R-01
  FakeObserver observer;
  context.registry().AddObserver(observer);
  FakeDevice& device = AddDevice();
  EXPECT_TRUE(device.hw_features().HasAll({kGso, kGro, kGroFragList, kGroUdpFwd}));
  EXPECT_TRUE(device.features().Has(kGro));
  EXPECT_FALSE(device.features().Has(kGso)) << "needs scatter-gather";
  EXPECT_TRUE(device.wanted_features().HasAll({kGso, kGro}));
  EXPECT_FALSE(device.wanted_features().HasAny({kGroFragList, kGroUdpFwd}));
  EXPECT_THAT(observer.events, ElementsAre("fake0 register")) << "no feature event";
}

TEST_F(DeviceFeaturesTest, RegistrationAddsMangleIdWhereTsoIs) {  // Covers: netdev:R-02
  FakeDevice& device = AddDevice({.features = {kSg, kIpCsum, kTso}, .hw_features = {kTso}});
  EXPECT_TRUE(device.hw_features().Has(kTsoMangleId));
  EXPECT_FALSE(device.features().Has(kTsoMangleId));
  EXPECT_FALSE(device.wanted_features().Has(kTsoMangleId));
  EXPECT_EQ(device.vlan_features(), FeatureSet{kHighDma});
  EXPECT_TRUE(device.hw_enc_features().HasAll({kSg, kGsoPartial}));
}

TEST_F(DeviceFeaturesTest, ToggledFeatureIsAppliedAndToldOnce) {  // Covers: netdev:U-04
  FakeDevice& device = AddDevice({.features = kAll, .hw_features = kAll});
  FakeObserver observer;
  device.AddObserver(observer);
  device.calls.clear();
  EXPECT_EQ(device.RequestFeatures({kTso}, {}), FeatureSet());
  EXPECT_FALSE(device.features().Has(kTso));
  EXPECT_TRUE(device.features().HasAll({kSg, kHwCsum}));
  EXPECT_THAT(observer.events, ElementsAre("fake0 feat-change"));
  EXPECT_EQ(device.calls.size(), 1u);
  device.RequestFeatures({kTso}, {});
  EXPECT_EQ(device.calls.size(), 1u) << "nothing changed";
  EXPECT_EQ(observer.events.size(), 1u);
}

TEST_F(DeviceFeaturesTest, RequestIsRememberedWhileAPrerequisiteIsMissing) {  // Covers: netdev:E-02
  FakeDevice& device = AddDevice({.features = kAll, .hw_features = kAll});
  device.RequestFeatures({kSg}, {});
  EXPECT_FALSE(device.features().HasAny({kSg, kTso, kGso}));
  EXPECT_TRUE(device.wanted_features().Has(kTso));
  device.RequestFeatures({kSg}, {kSg});
  EXPECT_TRUE(device.features().HasAll({kSg, kTso, kGso}));
}

TEST_F(DeviceFeaturesTest, UnchangeableBitsAreNamedAndKept) {  // Covers: netdev:E-01
  FakeDevice& device = AddDevice({.features = kAll, .hw_features = {kTso}});
  EXPECT_EQ(device.RequestFeatures({kTso, kSg}, {}), FeatureSet{kSg});
  EXPECT_TRUE(device.features().HasAll({kSg, kHwCsum}));
  EXPECT_FALSE(device.features().Has(kTso));
}

TEST_F(DeviceFeaturesTest, AttributesAreUnchangeableWhateverTheDriverSays) {
  FakeDevice& device = AddDevice({.features = kVlanChallenged, .hw_features = kVlanChallenged});
  EXPECT_EQ(device.RequestFeatures({kVlanChallenged}, {}), FeatureSet{kVlanChallenged});
  EXPECT_TRUE(device.features().Has(kVlanChallenged));
}

TEST_F(DeviceFeaturesTest, BaseKeepsFixedBitsAndTakesWantedOnes) {  // Covers: netdev:S-01
  FakeDevice& device = AddDevice({.features = kAll, .hw_features = {kTso}});
  FeatureSet seen;
  device.fix_features = [&](FeatureSet wanted) { return seen = wanted; };
  device.RequestFeatures({kTso, kGso, kGro}, {});
  EXPECT_EQ(seen, (FeatureSet{kSg, kHwCsum}));
}

TEST_F(DeviceFeaturesTest, DependenciesComeAfterTheDriversOwnRules) {
  FakeDevice& device = AddDevice({.features = kAll, .hw_features = kAll});
  device.fix_features = [](FeatureSet wanted) { return wanted & ~FeatureSet(kHwCsum); };
  device.UpdateFeatures();
  EXPECT_FALSE(device.features().HasAny({kTso, kHwCsum}));
  EXPECT_TRUE(device.features().Has(kSg));
}

TEST_F(DeviceFeaturesTest, BaseTakesSoftFeaturesFromTheRequestOnly) {  // Covers: netdev:S-02
  FakeDevice& device = AddDevice({.features = kSg});
  FeatureSet seen;
  device.RequestFeatures(kGso, {});
  device.fix_features = [&](FeatureSet wanted) { return seen = wanted; };
  device.UpdateFeatures();
  EXPECT_EQ(device.wanted_features(), FeatureSet{kGro});
  EXPECT_EQ(seen, (FeatureSet{kSg, kGro}));
}

// Covers: netdev:R-03
TEST_F(DeviceFeaturesTest, NocacheCopyIsOffAndForAllButLoopback) {
  FakeDevice& device = AddDevice({.name = "a"});
  FakeDevice& loopback = AddDevice({.name = "b", .link_type = LinkType::kLoopback});
  EXPECT_TRUE(device.hw_features().Has(kNocacheCopy));
  EXPECT_FALSE(device.features().Has(kNocacheCopy));
  EXPECT_FALSE(device.wanted_features().Has(kNocacheCopy));
  EXPECT_FALSE(loopback.hw_features().Has(kNocacheCopy));
  EXPECT_TRUE(loopback.is_loopback());
}

TEST_F(DeviceFeaturesTest, MangleIdJoinsTheOtherSetsWithTso) {
  FakeDevice& device = AddDevice({.vlan_features = kTso, .hw_enc_features = kTso});
  EXPECT_EQ(device.vlan_features(), (FeatureSet{kTso, kTsoMangleId, kHighDma}));
  EXPECT_EQ(device.hw_enc_features(), (FeatureSet{kTso, kTsoMangleId, kSg, kGsoPartial}));
  EXPECT_FALSE(device.hw_features().Has(kTsoMangleId));
}

TEST_F(DeviceFeaturesTest, DriverThatFailsKeepsItsFeatures) {  // Covers: netdev:U-02
  LogCapture log;
  FakeDevice& device = AddDevice({.features = kAll, .hw_features = kAll});
  FakeObserver observer;
  device.AddObserver(observer);
  device.features_status = absl::InternalError("register stuck");
  device.RequestFeatures({kSg}, {});
  EXPECT_TRUE(device.features().Has(kSg));
  EXPECT_FALSE(device.wanted_features().Has(kSg));
  EXPECT_THAT(observer.events, ElementsAre("fake0 feat-change"));
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("register stuck")));
}

// Covers: netdev:U-03
TEST_F(DeviceFeaturesTest, DriverMayWriteTheActiveSetItself) {
  FakeDevice& device = AddDevice({.features = kAll, .hw_features = kAll});
  FakeObserver observer;
  device.AddObserver(observer);
  device.handles_features = true;
  device.RequestFeatures(kTso, {});
  EXPECT_TRUE(device.features().Has(kTso)) << "the driver did not write it";
  EXPECT_THAT(observer.events, ElementsAre("fake0 feat-change"));
  device.on_set_features = [&](FeatureSet f) { device.set_features(f | kRxCsum); };
  device.UpdateFeatures();
  EXPECT_FALSE(device.features().Has(kTso));
  EXPECT_TRUE(device.features().Has(kRxCsum)) << "kept as the driver wrote it";
  EXPECT_EQ(observer.events.size(), 2u);
}

// Covers: netdev:U-05
TEST_F(DeviceFeaturesTest, NoChangeIsToldByChangeOnly) {
  FakeDevice& device = AddDevice({.features = kAll, .hw_features = kAll});
  FakeObserver observer;
  device.AddObserver(observer);
  device.UpdateFeatures();
  EXPECT_THAT(observer.events, IsEmpty());
  device.ChangeFeatures();
  EXPECT_THAT(observer.events, ElementsAre("fake0 feat-change"));
  EXPECT_THAT(device.calls, IsEmpty()) << "the driver has nothing to do";
}

TEST_F(DeviceFeaturesTest, UnchangeableBitThatTheDriverRemovedStaysAway) {
  FakeDevice& device = AddDevice({.features = kAll});
  device.fix_features = [](FeatureSet f) { return f & ~FeatureSet(kTso); };
  device.UpdateFeatures();
  EXPECT_FALSE(device.features().Has(kTso));
  device.fix_features = nullptr;
  device.UpdateFeatures();
  EXPECT_FALSE(device.features().Has(kTso)) << "nobody asks for it";
  device.fix_features = [](FeatureSet f) { return f | kTso; };
  device.UpdateFeatures();
  EXPECT_TRUE(device.features().Has(kTso));
}

TEST_F(DeviceFeaturesTest, KindsThatNeedPartialSegmentationGoWithIt) {
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kGsoGre, kGsoPartial},
                                  .hw_features = kGsoPartial,
                                  .gso_partial_features = kGsoGre});
  EXPECT_TRUE(device.features().HasAll({kGsoGre, kGsoPartial}));
  device.RequestFeatures(kGsoPartial, {});
  EXPECT_FALSE(device.features().HasAny({kGsoGre, kGsoPartial}));
}

TEST_F(DeviceFeaturesTest, BothWaysOfChecksummingAreWarnedAbout) {
  LogCapture log;
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kIpCsum}});
  EXPECT_EQ(device.features() & kCsumMask, FeatureSet{kHwCsum});
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("fake0: generic and protocol-specific")));
  device.UpdateFeatures();
  EXPECT_EQ(log.lines.size(), 1u);
}

class StackedFeaturesTest : public testing::NetdevTest {
 protected:
  void SetUp() override {
    lower = &AddDevice({.name = "lower", .features = kLro, .hw_features = kLro});
    upper = &AddDevice({.name = "upper", .features = kLro, .hw_features = kLro});
    ASSERT_TRUE(lower->LinkUpper(*upper).ok());
  }
  FakeDevice* lower = nullptr;
  FakeDevice* upper = nullptr;
};

// Covers: netdev:U-01
TEST_F(StackedFeaturesTest, LroWaitsUntilAllUppersWantIt) {
  lower->RequestFeatures(kLro, {});
  upper->RequestFeatures(kLro, {});
  lower->RequestFeatures(kLro, kLro);
  EXPECT_FALSE(lower->features().Has(kLro));
  EXPECT_TRUE(lower->wanted_features().Has(kLro));
  upper->RequestFeatures(kLro, kLro);
  EXPECT_FALSE(lower->features().Has(kLro)) << "nobody asked the lower device";
  lower->UpdateFeatures();
  EXPECT_TRUE(lower->features().Has(kLro));
}

// Covers: netdev:U-08
TEST_F(StackedFeaturesTest, DriverCannotForceLroPastAnUpperDevice) {
  upper->RequestFeatures(kLro, {});
  EXPECT_FALSE(lower->features().Has(kLro));
  lower->fix_features = [](FeatureSet f) { return f | kLro; };
  lower->UpdateFeatures();
  EXPECT_FALSE(lower->features().Has(kLro));
}

// Covers: netdev:U-06
TEST_F(StackedFeaturesTest, LowerFollowsThoughTheUpperDoesNotChange) {
  FakeDevice& top = AddDevice({.name = "top"});
  EXPECT_FALSE(top.features().Has(kLro));
  ASSERT_TRUE(lower->LinkUpper(top).ok());
  FakeObserver on_lower, on_top;
  lower->AddObserver(on_lower);
  top.AddObserver(on_top);
  top.UpdateFeatures();
  EXPECT_FALSE(lower->features().Has(kLro));
  EXPECT_FALSE(lower->wanted_features().Has(kLro));
  EXPECT_THAT(on_lower.events, ElementsAre("lower feat-change"));
  EXPECT_THAT(on_top.events, IsEmpty());
  EXPECT_THAT(top.calls, IsEmpty());
}

TEST_F(StackedFeaturesTest, LowerThatKeepsLroIsWarnedAbout) {
  LogCapture log;
  lower->fix_features = [](FeatureSet f) { return f | kLro; };
  // As a driver whose hardware does not let go of it.
  lower->features_status = absl::InternalError("stuck");
  FakeObserver observer;
  lower->AddObserver(observer);
  upper->RequestFeatures(kLro, {});
  EXPECT_TRUE(lower->features().Has(kLro));
  EXPECT_THAT(observer.events, IsEmpty());
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("stuck"), HasSubstr("lower: keeps rx-lro")));
}

TEST_F(StackedFeaturesTest, FailureAboveLeavesTheLowerAlone) {
  LogCapture log;
  upper->features_status = absl::InternalError("stuck");
  upper->RequestFeatures(kLro, {});
  EXPECT_TRUE(lower->features().Has(kLro));
  EXPECT_TRUE(upper->features().Has(kLro));
  EXPECT_FALSE(upper->wanted_features().Has(kLro));
}

// The lower device's event, sent before the upper one has stored its set, updates the upper again.
TEST_F(StackedFeaturesTest, RippleMayReenterTheDeviceThatStartedIt) {
  FakeObserver observer, on_upper;
  lower->AddObserver(observer);
  upper->AddObserver(on_upper);
  observer.on_event = [&](NetDevice&, NetdevEvent event) {
    if (event == NetdevEvent::kFeatChange) upper->UpdateFeatures();
  };
  upper->calls.clear();
  upper->RequestFeatures(kLro, {});
  EXPECT_FALSE(upper->features().Has(kLro));
  EXPECT_FALSE(lower->features().Has(kLro));
  EXPECT_THAT(on_upper.events, ElementsAre("upper feat-change", "upper feat-change"));
  EXPECT_EQ(upper->calls.size(), 2u) << "the outer run puts the same set into effect again";
}

TEST_F(StackedFeaturesTest, ObserverOfTheLowerMayRemoveTheUpper) {
  FakeObserver observer;
  lower->AddObserver(observer);
  observer.on_event = [&](NetDevice&, NetdevEvent event) {
    if (event == NetdevEvent::kFeatChange) context.registry().Unregister(*upper);
  };
  upper->RequestFeatures(kLro, {});
  EXPECT_EQ(context.registry().Find("upper"), nullptr);
  EXPECT_THAT(lower->uppers(), IsEmpty());
  context.RunOnce();
}

// Covers: netdev:W-04
TEST_F(StackedFeaturesTest, ForwardingEndsLroHereAndBelowForGood) {
  upper->SetForwarding(true);
  EXPECT_TRUE(upper->is_forwarding());
  for (FakeDevice* device : {upper, lower}) {
    EXPECT_FALSE(device->features().Has(kLro)) << device->name();
    EXPECT_FALSE(device->wanted_features().Has(kLro)) << device->name();
  }
  upper->SetForwarding(false);
  EXPECT_FALSE(upper->is_forwarding());
  for (FakeDevice* device : {upper, lower}) {
    device->UpdateFeatures();
    EXPECT_FALSE(device->features().Has(kLro)) << device->name();
  }
}

TEST_F(StackedFeaturesTest, ForwardingReachesLowersPastADeviceThatFails) {
  LogCapture quiet;
  upper->features_status = absl::InternalError("stuck");
  upper->SetForwarding(true);
  EXPECT_TRUE(upper->features().Has(kLro));
  EXPECT_FALSE(lower->features().Has(kLro));
  EXPECT_FALSE(lower->wanted_features().Has(kLro));
}

TEST_F(StackedFeaturesTest, ForwardingOnADeviceThatKeepsLroIsWarnedAbout) {
  FakeDevice& fixed = AddDevice({.name = "fixed", .features = kLro});
  LogCapture log;
  fixed.SetForwarding(true);
  EXPECT_TRUE(fixed.features().Has(kLro));
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("fixed: cannot switch rx-lro off")));
}

// One capable device below is enough: the other segments in software.
// Covers: netdev:A-07
TEST_F(StackedFeaturesTest, BondKeepsWhatOneLowerDeviceCan) {
  FakeDevice& able = AddDevice({.name = "able", .features = {kSg, kHwCsum}});
  FakeDevice& plain = AddDevice({.name = "plain"});
  const FeatureSet asked{kSg, kHwCsum, kTso, kGso, kGro};
  FakeDevice& bond = AddDevice({.name = "bond", .features = asked, .hw_features = asked});
  ASSERT_TRUE(able.LinkUpper(bond).ok());
  ASSERT_TRUE(plain.LinkUpper(bond).ok());
  bond.fix_features = [&](FeatureSet f) {
    const FeatureSet mask = f;
    f = BaseFeatures(f);
    for (const NetDevice* device : bond.lowers()) {
      f = IncrementFeatures(f, device->features(), mask);
    }
    return AddTsoFeatures(f, mask);
  };
  bond.UpdateFeatures();
  EXPECT_TRUE(bond.features().HasAll(asked)) << FeatureSetToString(bond.features());
  EXPECT_FALSE(bond.features().HasAny(kAllForAll)) << "not all devices have them";
}

class VlanFilterTest : public testing::NetdevTest {};

TEST_F(VlanFilterTest, IdsReachADeviceThatFilters) {
  FakeDevice& device = AddDevice(
      {.features = kHwVlanCtagFilter, .hw_features = kHwVlanCtagFilter, .filters_vlans = true});
  EXPECT_TRUE(device.AddVlanId(0x8100, 5).ok());
  EXPECT_TRUE(device.AddVlanId(0x8100, 5).ok());
  EXPECT_TRUE(device.AddVlanId(0x88a8, 6).ok());
  EXPECT_THAT(device.filter_calls, ElementsAre("+vlan 5")) << "service tags are not filtered";
  device.RemoveVlanId(0x8100, 5);
  EXPECT_EQ(device.filter_calls.size(), 1u);
  device.RemoveVlanId(0x8100, 5);
  device.RemoveVlanId(0x8100, 5);
  device.RemoveVlanId(0x88a8, 6);
  EXPECT_THAT(device.filter_calls, ElementsAre("+vlan 5", "-vlan 5"));
}

TEST_F(VlanFilterTest, IdThatTheDriverRefusesIsNotKept) {
  FakeDevice& device = AddDevice(
      {.features = kHwVlanCtagFilter, .hw_features = kHwVlanCtagFilter, .filters_vlans = true});
  device.vlan_status = ErrnoStatus(ENOSPC, "table full");
  device.refused_vlan_id = 5;
  EXPECT_EQ(device.AddVlanId(0x8100, 5), device.vlan_status);
  device.RemoveVlanId(0x8100, 5);
  EXPECT_THAT(device.filter_calls, IsEmpty());
}

TEST_F(VlanFilterTest, SwitchingTheFilterPushesAndWithdrawsIds) {
  FakeDevice& device = AddDevice({.hw_features = kVlanOffloads, .filters_vlans = true});
  EXPECT_TRUE(device.AddVlanId(0x8100, 5).ok());
  EXPECT_TRUE(device.AddVlanId(0x88a8, 6).ok());
  EXPECT_THAT(device.filter_calls, IsEmpty());
  std::vector<bool> seen;
  device.on_vlan_change = [&](uint16_t) {
    seen.push_back(device.features().Has(kHwVlanCtagFilter));
  };
  device.RequestFeatures(kHwVlanCtagFilter, kHwVlanCtagFilter);
  EXPECT_THAT(device.filter_calls, ElementsAre("+vlan 5"));
  device.RequestFeatures(kHwVlanCtagFilter, {});
  EXPECT_THAT(device.filter_calls, ElementsAre("+vlan 5", "-vlan 5"));
  EXPECT_THAT(seen, ElementsAre(true, true)) << "the feature is on during both";
  device.RequestFeatures(kHwVlanStagFilter, kHwVlanStagFilter);
  EXPECT_THAT(device.filter_calls, ElementsAre("+vlan 5", "-vlan 5", "+vlan 6"));
}

TEST_F(VlanFilterTest, FailedPushIsUndoneAndNotToldAsAChange) {
  LogCapture log;
  FakeDevice& device = AddDevice({.hw_features = kHwVlanCtagFilter, .filters_vlans = true});
  EXPECT_TRUE(device.AddVlanId(0x8100, 5).ok());
  EXPECT_TRUE(device.AddVlanId(0x8100, 7).ok());
  device.vlan_status = absl::ResourceExhaustedError("table full");
  device.refused_vlan_id = 7;
  FakeObserver observer;
  device.AddObserver(observer);
  device.RequestFeatures(kHwVlanCtagFilter, kHwVlanCtagFilter);
  EXPECT_TRUE(device.features().Has(kHwVlanCtagFilter)) << "the set is stored in any case";
  EXPECT_THAT(observer.events, IsEmpty());
  EXPECT_THAT(device.filter_calls, ElementsAre("+vlan 5", "-vlan 5"));
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("table full")));
}

class SizeLimitsTest : public testing::NetdevTest {};

// Covers: netdev:A-09
TEST_F(SizeLimitsTest, InheritedLimitsLowerAndNeverRaise) {
  FakeDevice& lower = AddDevice({.name = "lower", .gso_max_size = 32768, .gso_max_segs = 10});
  FakeDevice& upper = AddDevice({.name = "upper"});
  upper.InheritTsoLimits(lower);
  EXPECT_EQ(upper.tso_max_size(), 32768u);
  EXPECT_EQ(upper.gso_max_size(), 32768u);
  EXPECT_EQ(upper.gso_max_segs(), 10u);
  lower.set_tso_limits(65536, 100);
  EXPECT_EQ(lower.gso_max_size(), 32768u);
  upper.InheritTsoLimits(lower);
  EXPECT_EQ(upper.tso_max_size(), 65536u);
  EXPECT_EQ(upper.tso_max_segs(), 100u);
  EXPECT_EQ(upper.gso_max_size(), 32768u);
  EXPECT_EQ(upper.gso_max_segs(), 10u);
}

TEST_F(SizeLimitsTest, InheritedSizeIsCapped) {
  FakeDevice& lower = AddDevice({.name = "lower", .gso_max_size = 0xffffffff});
  FakeDevice& upper = AddDevice({.name = "upper"});
  upper.InheritTsoLimits(lower);
  EXPECT_EQ(upper.tso_max_size(), 524280u);
}

TEST_F(SizeLimitsTest, SoftLimitsStayWithinTheDevicesOwn) {
  FakeDevice& device = AddDevice({.gso_max_size = 32768, .gso_max_segs = 10});
  for (const absl::Status& status :
       {device.SetGsoMaxSize(32769), device.SetGsoMaxSegs(11), device.SetGsoMaxSegs(0)}) {
    EXPECT_EQ(StatusToErrno(status), EINVAL);
    EXPECT_THAT(std::string(status.message()), HasSubstr("fake0"));
  }
  EXPECT_TRUE(device.SetGsoMaxSize(1000).ok());
  EXPECT_TRUE(device.SetGsoMaxSegs(2).ok());
  EXPECT_EQ(device.gso_max_size(), 1000u);
  EXPECT_EQ(device.gso_max_segs(), 2u);
  EXPECT_TRUE(device.SetGsoMaxSize(32768).ok()) << "users may raise again";
}

// A bottom device, two on it, one on both, each following the ones below as Linux's do.
class FeatureRippleTest : public testing::NetdevTest {
 protected:
  static constexpr FeatureSet kPlayed{kSg,  kHwCsum, kIpCsum, kIpv6Csum, kTso,     kTso6,
                                      kLro, kGroHw,  kRxCsum, kRxFcs,    kGsoUdpL4};

  class Follower final : public NetdevObserver {
   public:
    void OnNetdevEvent(NetDevice& device, NetdevEvent event) override {
      if (event != NetdevEvent::kFeatChange) return;
      const std::vector<NetDevice*> uppers = device.uppers();
      for (NetDevice* upper : uppers) upper->UpdateFeatures();
    }
  };

  void SetUp() override {
    for (const char* name : {"bottom", "left", "right", "top"}) {
      devices.push_back(&AddDevice({.name = name, .features = kPlayed, .hw_features = kPlayed}));
    }
    for (const auto& [below, above] : {std::pair{0, 1}, {0, 2}, {1, 3}, {2, 3}}) {
      ASSERT_TRUE(At(below).LinkUpper(At(above)).ok());
    }
    context.registry().AddObserver(follower);
  }
  FakeDevice& At(int i) { return *devices[static_cast<size_t>(i)]; }

  void ExpectConsistent() {
    for (const FakeDevice* device : devices) {
      const FeatureSet f = device->features();
      ASSERT_EQ(FixDependencies(f), f) << device->name();
      ASSERT_TRUE(device->hw_features().HasAll(device->wanted_features())) << device->name();
      for (const NetDevice* upper : device->uppers()) {
        ASSERT_FALSE(f.Has(kLro) && !upper->wanted_features().Has(kLro)) << device->name();
      }
      for (const NetDevice* below : device->lowers()) {
        ASSERT_FALSE(below->features().Has(kLro) && !f.Has(kLro)) << device->name();
      }
    }
  }

  LogCapture quiet;  // both ways of checksumming at once are warned about
  std::vector<FakeDevice*> devices;
  Follower follower;
};

TEST_F(FeatureRippleTest, AnyTogglesEndInConsistentSets) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 20000; ++round) {
    FakeDevice& device = At(static_cast<int>(random() % devices.size()));
    const FeatureSet mask = FeatureSet::FromBits(random() & random()) & kPlayed;
    device.RequestFeatures(mask, FeatureSet::FromBits(random()));
    ExpectConsistent();
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace tapwire::netdev
