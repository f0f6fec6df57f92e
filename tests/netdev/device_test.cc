// SPDX-License-Identifier: Apache-2.0
#include "netdev/device.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
    const absl::Status status = device.SetMac(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.ToString();
    EXPECT_EQ(StatusToErrno(status), EADDRNOTAVAIL) << bad.ToString();
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

// RFC 2863 §3.1.14
TEST_F(DeviceTest, OperationalStateNamesWhatIsInTheWay) {
  FakeDevice& device = AddDevice();
  EXPECT_EQ(device.oper_state(), OperState::kDown);
  ASSERT_TRUE(device.Up().ok());
  EXPECT_EQ(device.oper_state(), OperState::kUp);
  device.SetDormant(true);
  EXPECT_EQ(device.oper_state(), OperState::kDormant);
  EXPECT_TRUE(device.is_running()) << "dormant devices carry frames";
  device.SetCarrier(false);
  EXPECT_EQ(device.oper_state(), OperState::kDown);
  device.parent = device.ifindex() + 1;
  EXPECT_EQ(device.oper_state(), OperState::kLowerLayerDown);
  device.SetTesting(true);
  EXPECT_EQ(device.oper_state(), OperState::kTesting);
  device.Down();
  EXPECT_EQ(device.oper_state(), OperState::kDown);
}

TEST_F(DeviceTest, OperationalStatesHaveTheNamesOfIpLink) {
  EXPECT_EQ(OperStateName(OperState::kDown), "DOWN");
  EXPECT_EQ(OperStateName(OperState::kLowerLayerDown), "LOWERLAYERDOWN");
  EXPECT_EQ(OperStateName(OperState::kTesting), "TESTING");
  EXPECT_EQ(OperStateName(OperState::kDormant), "DORMANT");
  EXPECT_EQ(OperStateName(OperState::kUp), "UP");
}

TEST_F(DeviceTest, DormantAndTestingAreToldOnceWhileUp) {
  FakeDevice& device = AddDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  device.SetDormant(true);
  EXPECT_THAT(observer.events, IsEmpty()) << "down anyway";
  ASSERT_TRUE(device.Up().ok());
  device.SetDormant(false);
  device.SetDormant(false);
  device.SetTesting(true);
  EXPECT_THAT(observer.events, ElementsAre("fake0 up", "fake0 change", "fake0 change"));
}

TEST_F(DeviceTest, LinkTypeChangeMayBeVetoed) {
  FakeDevice& device = AddDevice();
  FakeObserver first, second, everywhere;
  device.AddObserver(first);
  device.AddObserver(second);
  context.registry().AddObserver(everywhere);
  first.answer = absl::FailedPreconditionError("a macvlan needs Ethernet");
  EXPECT_EQ(device.ChangeLinkType(LinkType::kOther), first.answer);
  EXPECT_EQ(device.link_type(), LinkType::kEthernet);
  EXPECT_THAT(second.asked, IsEmpty()) << "the first veto decides";
  EXPECT_THAT(first.events, IsEmpty());
  first.answer = absl::OkStatus();
  everywhere.answer = absl::FailedPreconditionError("nor here");
  EXPECT_EQ(device.ChangeLinkType(LinkType::kOther), everywhere.answer);
  everywhere.answer = absl::OkStatus();
  EXPECT_TRUE(device.ChangeLinkType(LinkType::kOther).ok());
  EXPECT_EQ(device.link_type(), LinkType::kOther);
  EXPECT_THAT(second.events, ElementsAre("fake0 pre-type-change"));
  EXPECT_TRUE(device.ChangeLinkType(LinkType::kOther).ok()) << "no change";
  EXPECT_EQ(second.events.size(), 1u);
}

TEST_F(DeviceTest, ObserverSeesTheNewAddressAndItsErrorIsReturned) {
  FakeDevice& device = AddDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  observer.answer = absl::ResourceExhaustedError("no room in the filter");
  const MacAddress mac(2, 2, 2, 2, 2, 2);
  EXPECT_EQ(device.SetMac(mac), observer.answer);
  EXPECT_EQ(device.mac(), mac);
  EXPECT_THAT(observer.events, ElementsAre("fake0 change-addr"));
  EXPECT_THAT(observer.asked, ElementsAre("fake0 change-addr"));
}

TEST_F(DeviceTest, EventsOfOthersCanBeSentOn) {
  FakeDevice& device = AddDevice();
  FakeObserver observer;
  device.AddObserver(observer);
  device.SendEvent(NetdevEvent::kNotifyPeers);
  EXPECT_THAT(observer.events, ElementsAre("fake0 notify-peers"));
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
  EXPECT_EQ(TxResultName(TxResult::kCongested), "congested");
  EXPECT_EQ(TxResultName(TxResult::kNoBuffer), "no-buffer");
  EXPECT_EQ(TxResultName(TxResult::kNoRoute), "no-route");
  EXPECT_EQ(TxResultName(TxResult::kDeviceDown), "device-down");
  EXPECT_EQ(TxResultName(TxResult::kTooBig), "too-big");
  EXPECT_EQ(TxResultName(TxResult::kDropped), "dropped");
  EXPECT_EQ(NetdevEventName(NetdevEvent::kRegister), "register");
  EXPECT_EQ(NetdevEventName(NetdevEvent::kUnregister), "unregister");
  EXPECT_EQ(NetdevEventName(NetdevEvent::kPreTypeChange), "pre-type-change");
  EXPECT_EQ(NetdevEventName(NetdevEvent::kNotifyPeers), "notify-peers");
  EXPECT_EQ(NetdevEventName(NetdevEvent::kBondingFailover), "bonding-failover");
  EXPECT_EQ(NetdevEventName(NetdevEvent::kResendIgmp), "resend-igmp");
  EXPECT_TRUE(TxOk(TxResult::kQueued));
  EXPECT_TRUE(TxOk(TxResult::kCongested));
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

}  // namespace
}  // namespace tapwire::netdev
