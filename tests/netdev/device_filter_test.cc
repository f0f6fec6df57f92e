// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/base/status_util.h"
#include "tests/netdev/fake_device.h"

namespace tapwire::netdev {
namespace {

using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FakeObserver;
using ::testing::IsEmpty;

MacAddress Unicast(uint8_t last) { return MacAddress(2, 0, 0, 0, 1, last); }

class DeviceFilterTest : public testing::NetdevTest {};

TEST_F(DeviceFilterTest, GroupsAreReferenceCounted) {
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

TEST_F(DeviceFilterTest, GroupsOfUpperDevicesAreCountedApart) {
  FakeDevice& device = AddUpDevice();
  const MacAddress group(0x33, 0x33, 0, 0, 0, 1);
  device.SyncMulticast(group);
  device.SyncMulticast(group);
  device.AddMulticast(group);
  ASSERT_EQ(device.multicast_list().size(), 1u);
  EXPECT_EQ(device.multicast_list()[0].references, 3u);
  EXPECT_EQ(device.multicast_list()[0].synced, 2u);
  device.RemoveMulticast(group);
  device.RemoveMulticast(group);
  EXPECT_EQ(device.multicast_list()[0].references, 2u) << "those of others are not taken back";
  device.UnsyncMulticast(group);
  EXPECT_EQ(device.multicast_list()[0].synced, 1u);
  device.UnsyncMulticast(group);
  EXPECT_FALSE(device.HasMulticast(group));
  device.UnsyncMulticast(group);
  EXPECT_THAT(device.multicast_list(), IsEmpty());
}

TEST_F(DeviceFilterTest, AcceptsOwnAddressBroadcastAndAllWhilePromiscuous) {
  FakeDevice& device = AddUpDevice({.unicast_filter_slots = 4});
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
  EXPECT_FALSE(device.Accepts(other));
  EXPECT_THAT(device.calls, ElementsAre("rx-mode", "rx-mode"));
  EXPECT_THAT(device.filter_calls, ElementsAre("+promisc", "-promisc"));
  ASSERT_TRUE(device.AddUnicast(other).ok());
  EXPECT_TRUE(device.Accepts(other));
  EXPECT_FALSE(device.is_promiscuous());
}

TEST_F(DeviceFilterTest, AllMultiAcceptsEveryGroupAndNothingElse) {
  FakeDevice& device = AddUpDevice();
  ASSERT_TRUE(device.ChangeAllMulti(1).ok());
  ASSERT_TRUE(device.ChangeAllMulti(1).ok());
  EXPECT_EQ(device.allmulti(), 2u);
  EXPECT_TRUE(device.Accepts(MacAddress(1, 0, 0x5e, 1, 2, 3)));
  EXPECT_FALSE(device.Accepts(Unicast(1)));
  ASSERT_TRUE(device.ChangeAllMulti(-1).ok());
  ASSERT_TRUE(device.ChangeAllMulti(-1).ok());
  EXPECT_FALSE(device.is_allmulti());
  EXPECT_THAT(device.filter_calls, ElementsAre("+allmulti", "-allmulti"));
  EXPECT_THAT(device.calls, ElementsAre("rx-mode", "rx-mode"));
}

TEST_F(DeviceFilterTest, CountersWrapBelowZeroAndRefuseToOverflow) {
  FakeDevice& device = AddUpDevice();
  ASSERT_TRUE(device.ChangePromiscuity(-1).ok());
  EXPECT_EQ(device.promiscuity(), 0xffffffffu);
  EXPECT_TRUE(device.is_promiscuous());
  const absl::Status promiscuous = device.ChangePromiscuity(1);
  EXPECT_EQ(StatusToErrno(promiscuous), EOVERFLOW) << promiscuous;
  EXPECT_EQ(device.promiscuity(), 0xffffffffu) << "no change";
  ASSERT_TRUE(device.ChangeAllMulti(-1).ok());
  EXPECT_EQ(StatusToErrno(device.ChangeAllMulti(1)), EOVERFLOW);
  EXPECT_EQ(device.allmulti(), 0xffffffffu);
  ASSERT_TRUE(device.ChangePromiscuity(-1).ok());
  EXPECT_EQ(device.promiscuity(), 0xfffffffeu);
}

TEST_F(DeviceFilterTest, NothingIsToldToADriverThatIsDown) {
  FakeDevice& device = AddDevice({.unicast_filter_slots = 1});
  FakeObserver observer;
  device.AddObserver(observer);
  ASSERT_TRUE(device.AddUnicast(Unicast(1)).ok());
  ASSERT_TRUE(device.AddUnicast(Unicast(2)).ok());
  ASSERT_TRUE(device.ChangeAllMulti(1).ok());
  EXPECT_TRUE(device.is_promiscuous());
  EXPECT_THAT(device.calls, IsEmpty());
  EXPECT_THAT(device.filter_calls, IsEmpty());
  ASSERT_TRUE(device.Up().ok());
  EXPECT_THAT(device.calls, ElementsAre("up", "rx-mode")) << "coming up sets all of it";
  EXPECT_THAT(observer.events, ElementsAre("fake0 up")) << "filters are no event";
}

TEST_F(DeviceFilterTest, OnlyUnicastAddressesJoinTheList) {
  FakeDevice& device = AddDevice();
  for (const MacAddress& bad : {MacAddress(), MacAddress::kBroadcast()}) {
    EXPECT_EQ(StatusToErrno(device.AddUnicast(bad)), EINVAL) << bad.ToString();
  }
  EXPECT_THAT(device.unicast_list(), IsEmpty());
}

TEST_F(DeviceFilterTest, AddressIsKeptWhileAnyoneWantsIt) {
  FakeDevice& device = AddUpDevice({.unicast_filter_slots = 4});
  ASSERT_TRUE(device.AddUnicast(Unicast(1)).ok());
  ASSERT_TRUE(device.AddUnicast(Unicast(1)).ok());
  device.RemoveUnicast(Unicast(1));
  EXPECT_TRUE(device.HasUnicast(Unicast(1)));
  device.RemoveUnicast(Unicast(1));
  EXPECT_FALSE(device.HasUnicast(Unicast(1)));
  device.RemoveUnicast(Unicast(1));
  EXPECT_THAT(device.calls, ElementsAre("rx-mode", "rx-mode"));
}

TEST_F(DeviceFilterTest, DeviceWithoutAFilterIsPromiscuousWhileItHasFurtherAddresses) {
  FakeDevice& device = AddUpDevice();
  ASSERT_TRUE(device.AddUnicast(Unicast(1)).ok());
  EXPECT_EQ(device.promiscuity(), 1u);
  device.SetPromiscuous(true);
  device.RemoveUnicast(Unicast(1));
  EXPECT_EQ(device.promiscuity(), 1u) << "the other reason remains";
  device.SetPromiscuous(false);
  EXPECT_FALSE(device.is_promiscuous());
}

// Covers: bug:B98
TEST_F(DeviceFilterTest, FullFilterMeansPromiscuousUntilTheAddressesFitAgain) {
  FakeDevice& device = AddUpDevice({.unicast_filter_slots = 2});
  const MacAddress own = device.mac();
  for (uint8_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(device.AddUnicast(Unicast(i)).ok());
    EXPECT_EQ(device.is_promiscuous(), i > 2) << int{i};
    EXPECT_TRUE(device.Accepts(Unicast(i))) << int{i};
  }
  EXPECT_EQ(device.promiscuity(), 1u);
  device.RemoveUnicast(Unicast(1));
  EXPECT_TRUE(device.is_promiscuous());
  device.RemoveUnicast(Unicast(2));
  EXPECT_FALSE(device.is_promiscuous());
  // One of the remaining changes its address: first the new one, then without the old.
  ASSERT_TRUE(device.AddUnicast(Unicast(5)).ok());
  device.RemoveUnicast(Unicast(3));
  EXPECT_FALSE(device.is_promiscuous());
  EXPECT_TRUE(device.Accepts(Unicast(4)));
  EXPECT_TRUE(device.Accepts(Unicast(5)));
  EXPECT_FALSE(device.Accepts(Unicast(3)));
  EXPECT_EQ(device.mac(), own);
  EXPECT_THAT(device.filter_calls, ElementsAre("+promisc", "-promisc", "+promisc", "-promisc"));
}

TEST_F(DeviceFilterTest, FallBackDoesNotOverflowTheCounter) {
  FakeDevice& device = AddUpDevice();
  ASSERT_TRUE(device.ChangePromiscuity(-1).ok());
  ASSERT_TRUE(device.AddUnicast(Unicast(1)).ok());
  EXPECT_EQ(device.promiscuity(), 0xffffffffu);
  device.RemoveUnicast(Unicast(1));
  EXPECT_EQ(device.promiscuity(), 0xffffffffu) << "what was not taken is not given back";
}

}  // namespace
}  // namespace tapwire::netdev
