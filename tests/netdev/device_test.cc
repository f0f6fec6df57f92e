// SPDX-License-Identifier: Apache-2.0
#include "netdev/device.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/base/log.h"
#include "tests/netdev/fake_device.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FakeObserver;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DeviceTest : public testing::NetdevTest {};

TEST_F(DeviceTest, UpAndDownRunTheDriverAndTellObservers) {
  FakeDevice& device = AddDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  EXPECT_FALSE(device.is_up());
  ASSERT_TRUE(device.Up().ok());
  EXPECT_TRUE(device.is_running());
  EXPECT_TRUE(device.Up().ok()) << "again";
  device.Down();
  device.Down();
  EXPECT_FALSE(device.is_up());
  EXPECT_THAT(device.calls, ElementsAre("up", "rx-mode", "down"));
  EXPECT_THAT(observer.events, ElementsAre("fake0 up", "fake0 going-down", "fake0 down"));
}

TEST_F(DeviceTest, FailedUpLeavesItDown) {
  FakeDevice& device = AddDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  device.up_status = absl::UnavailableError("no such hardware");
  EXPECT_EQ(device.Up(), device.up_status);
  EXPECT_FALSE(device.is_up());
  EXPECT_THAT(observer.events, IsEmpty());
}

TEST_F(DeviceTest, UnregisteredDeviceDoesNotComeUp) {
  FakeDevice alone(context, {});
  const absl::Status status = alone.Up();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("fake0"));
  EXPECT_TRUE(alone.calls.empty());
}

TEST_F(DeviceTest, StateChangesDoNotNest) {
  FakeDevice& device = AddUpDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  absl::Status nested;
  observer.on_event = [&](NetDevice& d, NetdevEvent event) {
    if (event == NetdevEvent::kGoingDown) {
      d.Down();
      nested = d.Up();
    }
  };
  device.Down();
  EXPECT_EQ(nested.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(device.is_up());
  EXPECT_THAT(device.calls, ElementsAre("down"));
  // After the change was announced it may be reversed at once.
  observer.on_event = [&](NetDevice& d, NetdevEvent event) {
    if (event == NetdevEvent::kUp) d.Down();
  };
  ASSERT_TRUE(device.Up().ok());
  EXPECT_FALSE(device.is_up());
}

TEST_F(DeviceTest, MtuIsValidated) {
  FakeDevice& device = AddDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  for (const uint32_t bad : {0u, 67u, 65536u, 0xffffffffu}) {
    const absl::Status status = device.SetMtu(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("68..65535"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("fake0"));
  }
  EXPECT_TRUE(device.SetMtu(1500).ok()) << "no change";
  EXPECT_THAT(observer.events, IsEmpty());
  EXPECT_TRUE(device.SetMtu(9000).ok());
  EXPECT_EQ(device.mtu(), 9000u);
  device.mtu_status = absl::UnavailableError("refused");
  EXPECT_EQ(device.SetMtu(1280), device.mtu_status);
  EXPECT_EQ(device.mtu(), 9000u);
  EXPECT_THAT(observer.events, ElementsAre("fake0 change-mtu"));
}

TEST_F(DeviceTest, MacIsValidated) {
  FakeDevice& device = AddDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  for (const MacAddress& bad :
       {MacAddress(), MacAddress::kBroadcast(), MacAddress(1, 0, 0x5e, 0, 0, 1)}) {
    EXPECT_EQ(device.SetMac(bad).code(), absl::StatusCode::kInvalidArgument) << bad.ToString();
  }
  EXPECT_TRUE(device.SetMac(device.mac()).ok());
  EXPECT_THAT(observer.events, IsEmpty());
  const MacAddress mac(2, 2, 2, 2, 2, 2);
  EXPECT_TRUE(device.SetMac(mac).ok());
  EXPECT_EQ(device.mac(), mac);
  device.mac_status = absl::UnavailableError("refused");
  EXPECT_FALSE(device.SetMac(MacAddress(2, 0, 0, 0, 0, 9)).ok());
  EXPECT_EQ(device.mac(), mac);
  EXPECT_THAT(observer.events, ElementsAre("fake0 change-addr"));
}

TEST_F(DeviceTest, ZeroMacMeansARandomLocalOne) {
  FakeDevice a(context, {.mac = MacAddress()});
  FakeDevice b(context, {.mac = MacAddress()});
  EXPECT_TRUE(a.mac().IsUnicast());
  EXPECT_TRUE(a.mac().IsLocal());
  EXPECT_NE(a.mac(), b.mac());
}

TEST_F(DeviceTest, CarrierChangesAreToldOnceWhileUp) {
  FakeDevice& device = AddDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  device.SetCarrier(false);
  EXPECT_THAT(observer.events, IsEmpty()) << "down anyway";
  ASSERT_TRUE(device.Up().ok());
  EXPECT_FALSE(device.is_running());
  device.SetCarrier(true);
  device.SetCarrier(true);
  EXPECT_TRUE(device.is_running());
  EXPECT_THAT(observer.events, ElementsAre("fake0 up", "fake0 change"));
}

TEST_F(DeviceTest, ReceiveFilterIsReferenceCounted) {
  FakeDevice& device = AddUpDevice();
  const MacAddress group(1, 0, 0x5e, 0, 0, 5);
  EXPECT_FALSE(device.Accepts(group));
  device.AddMulticast(group);
  device.AddMulticast(group);
  EXPECT_TRUE(device.Accepts(group));
  device.RemoveMulticast(group);
  EXPECT_TRUE(device.HasMulticast(group));
  device.RemoveMulticast(group);
  EXPECT_FALSE(device.HasMulticast(group));
  device.RemoveMulticast(group);
  EXPECT_THAT(device.calls, ElementsAre("rx-mode", "rx-mode"));
  device.AddMulticast(group);
  EXPECT_TRUE(device.HasMulticast(group)) << "a surplus removal left no debt";
}

TEST_F(DeviceTest, AcceptsOwnAddressBroadcastAndAllWhilePromiscuous) {
  FakeDevice& device = AddUpDevice();
  const MacAddress other(2, 9, 9, 9, 9, 9);
  EXPECT_TRUE(device.Accepts(device.mac()));
  EXPECT_TRUE(device.Accepts(MacAddress::kBroadcast()));
  EXPECT_FALSE(device.Accepts(other));
  device.SetPromiscuous(true);
  device.SetPromiscuous(true);
  EXPECT_TRUE(device.Accepts(other));
  device.SetPromiscuous(false);
  EXPECT_TRUE(device.is_promiscuous());
  device.SetPromiscuous(false);
  device.SetPromiscuous(false);
  EXPECT_FALSE(device.Accepts(other));
  EXPECT_THAT(device.calls, ElementsAre("rx-mode", "rx-mode"));
}

TEST_F(DeviceTest, OneRxHandlerAtATime) {
  class Handler : public RxHandler {
    RxHandlerResult HandleFrame(PacketPtr&, NetDevice&) override { return RxHandlerResult::kPass; }
  } first, second;
  FakeDevice& device = AddDevice();
  EXPECT_TRUE(device.SetRxHandler(&first).ok());
  EXPECT_TRUE(device.SetRxHandler(&first).ok());
  EXPECT_EQ(device.SetRxHandler(&second).code(), absl::StatusCode::kAlreadyExists);
  device.ClearRxHandler();
  EXPECT_TRUE(device.SetRxHandler(&second).ok());
}

TEST_F(DeviceTest, DropsAreCountedByReasonAndDirection) {
  FakeDevice& device = AddDevice();
  device.DropRx(Frame(), DropReason::kLinkNoSink);
  device.DropTx(Frame(), DropReason::kTxQueueFull);
  device.FailRx(Frame(), DropReason::kRxBadMetadata);
  device.FailTx(Frame(), DropReason::kTxWriteError);
  EXPECT_EQ(device.stats().rx_dropped.value(), 1u);
  EXPECT_EQ(device.stats().tx_dropped.value(), 1u);
  EXPECT_EQ(device.stats().rx_errors.value(), 1u);
  EXPECT_EQ(device.stats().tx_errors.value(), 1u);
  EXPECT_EQ(device.drops().total(), 4u);
  EXPECT_EQ(device.drops().value(DropReason::kTxWriteError), 1u);
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

TEST_F(DeviceTest, EveryResultAndEventHasAName) {
  EXPECT_EQ(TxResultName(TxResult::kSent), "sent");
  EXPECT_EQ(TxResultName(TxResult::kQueued), "queued");
  EXPECT_EQ(TxResultName(TxResult::kNoBuffer), "no-buffer");
  EXPECT_EQ(TxResultName(TxResult::kNoRoute), "no-route");
  EXPECT_EQ(TxResultName(TxResult::kDeviceDown), "device-down");
  EXPECT_EQ(TxResultName(TxResult::kTooBig), "too-big");
  EXPECT_EQ(TxResultName(TxResult::kDropped), "dropped");
  EXPECT_EQ(NetdevEventName(NetdevEvent::kRegister), "register");
  EXPECT_EQ(NetdevEventName(NetdevEvent::kUnregister), "unregister");
  EXPECT_TRUE(TxOk(TxResult::kQueued));
  EXPECT_FALSE(TxOk(TxResult::kTooBig));
}

class ObserverTest : public testing::NetdevTest {};

TEST_F(ObserverTest, MayLeaveTheListWhileItIsTold) {
  FakeDevice& device = AddDevice();
  FakeObserver first, last;
  auto middle = std::make_unique<FakeObserver>();
  auto fourth = std::make_unique<FakeObserver>();
  device.AddObserver(first);
  device.AddObserver(*middle);
  device.AddObserver(*fourth);
  device.AddObserver(last);
  // Destroys its neighbours on both sides and leaves itself.
  middle->on_event = [&](NetDevice&, NetdevEvent) {
    fourth.reset();
    first.Unlink();
    middle->Unlink();
  };
  ASSERT_TRUE(device.Up().ok());
  EXPECT_THAT(first.events, ElementsAre("fake0 up"));
  EXPECT_THAT(last.events, ElementsAre("fake0 up"));
  device.Down();
  EXPECT_EQ(first.events.size(), 1u);
  EXPECT_EQ(middle->events.size(), 1u);
  EXPECT_EQ(last.events.size(), 3u);
}

TEST_F(ObserverTest, MayDestroyItselfWhileItIsTold) {
  FakeDevice& device = AddDevice();
  auto observer = std::make_unique<FakeObserver>();
  FakeObserver last;
  device.AddObserver(*observer);
  device.AddObserver(last);
  class SelfDestroyer : public NetdevObserver {
   public:
    explicit SelfDestroyer(bool* gone) : gone_(gone) {}
    ~SelfDestroyer() override { *gone_ = true; }
    void OnNetdevEvent(NetDevice&, NetdevEvent) override { delete this; }

   private:
    bool* gone_;
  };
  bool gone = false;
  device.AddObserver(*new SelfDestroyer(&gone));
  ASSERT_TRUE(device.Up().ok());
  EXPECT_TRUE(gone);
  EXPECT_EQ(last.events.size(), 1u);
}

TEST_F(ObserverTest, NestedEventsReachEverybody) {
  FakeDevice& device = AddDevice();
  FakeObserver first, second;
  device.AddObserver(first);
  device.AddObserver(second);
  first.on_event = [](NetDevice& d, NetdevEvent event) {
    if (event == NetdevEvent::kUp) {
      EXPECT_TRUE(d.SetMtu(1400).ok());
    }
  };
  ASSERT_TRUE(device.Up().ok());
  EXPECT_THAT(first.events, ElementsAre("fake0 up", "fake0 change-mtu"));
  EXPECT_THAT(second.events, ElementsAre("fake0 change-mtu", "fake0 up"));
}

TEST_F(ObserverTest, RegistryObserverHearsOfEveryDevice) {
  FakeObserver observer;
  context.registry().AddObserver(observer);
  FakeDevice& a = AddUpDevice({.name = "a"});
  AddUpDevice({.name = "b"});
  context.registry().Unregister(a);
  EXPECT_THAT(observer.events, ElementsAre("a register", "a up", "b register", "b up",
                                           "a going-down", "a down", "a unregister"));
}

TEST_F(ObserverTest, MayUnregisterTheDevice) {
  FakeDevice& device = AddDevice();
  FakeObserver first, second;
  device.AddObserver(first);
  device.AddObserver(second);
  first.on_event = [&](NetDevice& d, NetdevEvent event) {
    if (event == NetdevEvent::kGoingDown) context.registry().Unregister(d);
  };
  ASSERT_TRUE(device.Up().ok());
  device.Down();
  EXPECT_THAT(second.events,
              ElementsAre("fake0 up", "fake0 going-down", "fake0 down", "fake0 unregister"));
  EXPECT_EQ(context.registry().Find("fake0"), nullptr);
  context.RunOnce();
}

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

}  // namespace
}  // namespace tapwire::netdev
