// SPDX-License-Identifier: Apache-2.0
// Group frames: filters, the queue and its worker, and what is copied at once.
#include <utility>

#include "netdev/macvlan.h"
#include "netdev/macvlan_filter.h"
#include "tests/netdev/macvlan_fixture.h"

namespace tapwire::netdev {
namespace {

using testing::EthernetFrame;
using testing::FakeDevice;
using ::testing::IsEmpty;
using testing::kGroup4;
using testing::kGroup6;
using testing::kMacA;
using testing::kMacB;
using testing::kMacC;
using testing::kOutside;
using ::testing::SizeIs;

constexpr MacAddress kBroadcast = MacAddress::kBroadcast();

TEST(MacvlanFilterTest, PassesWhatWasAdded) {
  MacvlanFilter filter;
  for (const uint32_t salt : {0U, 0x12345678U, 0xffffffffU}) {
    filter.Clear();
    for (const MacAddress& group : {kGroup4, kGroup6, kBroadcast}) {
      EXPECT_FALSE(filter.Has(MacvlanFilter::IndexOf(group, salt)));
      filter.Add(MacvlanFilter::IndexOf(group, salt));
      EXPECT_TRUE(filter.Has(MacvlanFilter::IndexOf(group, salt)));
    }
  }
  filter.Fill();
  for (int i = 0; i < 256; ++i) EXPECT_TRUE(filter.Has(static_cast<uint8_t>(i)));
}

// The last four bytes decide, and the salt makes collisions differ.
TEST(MacvlanFilterTest, IndexIsOfTheLastFourBytesAndTheSalt) {
  EXPECT_EQ(MacvlanFilter::IndexOf(MacAddress(1, 0, 0x5e, 1, 2, 3), 9),
            MacvlanFilter::IndexOf(MacAddress(3, 4, 0x5e, 1, 2, 3), 9));
  std::vector<bool> used(256);
  size_t same_after_salt = 0, collisions = 0;
  for (int i = 0; i < 1000; ++i) {
    const MacAddress group(0x33, 0x33, 0xff, 0, static_cast<uint8_t>(i >> 8),
                           static_cast<uint8_t>(i));
    used[MacvlanFilter::IndexOf(group, 0)] = true;
    if (MacvlanFilter::IndexOf(group, 0) != MacvlanFilter::IndexOf(kGroup6, 0)) continue;
    ++collisions;
    const uint32_t salt = 0xdeadbeef;
    same_after_salt +=
        MacvlanFilter::IndexOf(group, salt) == MacvlanFilter::IndexOf(kGroup6, salt) ? 1 : 0;
  }
  EXPECT_GT(std::count(used.begin(), used.end(), true), 200);
  EXPECT_LT(same_after_salt, collisions);
}

class MacvlanMulticastTest : public testing::MacvlanTest {
 protected:
  void ArriveGroup(NetDevice& lower, const MacAddress& group) { Arrive(lower, group, kOutside); }
  // Copies that were counted, whether or not the backlog has been worked on.
  static uint64_t Copies(const Macvlan& macvlan) { return macvlan.stats().rx_multicast.value(); }
};

// Covers: macvlan:Q-01
TEST_F(MacvlanMulticastTest, GreatestWishIsTheQueueLength) {
  FakeDevice& lower = AddLower();
  Macvlan& a = Create(lower, MacvlanMode::kBridge, kMacA, {.broadcast_queue_packets = 10});
  EXPECT_EQ(a.used_broadcast_queue_packets(), 10u);
  Macvlan& b = Create(lower, MacvlanMode::kBridge, kMacB, {.broadcast_queue_packets = 500});
  EXPECT_EQ(a.used_broadcast_queue_packets(), 500u);
  EXPECT_EQ(b.used_broadcast_queue_packets(), 500u);
  EXPECT_EQ(a.broadcast_queue_packets(), 10u);
  ASSERT_TRUE(a.Change({.broadcast_queue_packets = 600}).ok());
  EXPECT_EQ(b.used_broadcast_queue_packets(), 600u);
  ASSERT_TRUE(a.Change({.broadcast_queue_packets = 10}).ok());
  context.registry().Unregister(b);
  EXPECT_EQ(a.used_broadcast_queue_packets(), 10u);
  EXPECT_EQ(Create(lower, MacvlanMode::kVepa, kMacC).broadcast_queue_packets(), 1000u);
}

// Covers: macvlan:Q-02
TEST_F(MacvlanMulticastTest, FullQueueDropsAtTheLowerDevice) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA, {.broadcast_queue_packets = 3});
  SinkOf(lower);
  // All of one receive round: the worker has not had its turn.
  for (int i = 0; i < 5; ++i) ArriveGroup(lower, kBroadcast);
  EXPECT_EQ(Received(lower), 5u);
  EXPECT_EQ(lower.stats().rx_dropped.value(), 2u);
  EXPECT_EQ(lower.drops().value(DropReason::kLinkBroadcastQueueFull), 2u);
  EXPECT_EQ(Copies(a), 0u);
  Run();
  EXPECT_EQ(Received(a), 3u);
  EXPECT_EQ(a.stats().rx_errors.value() + a.stats().rx_dropped.value(), 0u);
  ArriveGroup(lower, kBroadcast);
  Run();
  EXPECT_EQ(Received(a), 4u);
}

// Covers: macvlan:Q-03
TEST_F(MacvlanMulticastTest, QueueOfNoLengthTakesNothing) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA, {.broadcast_queue_packets = 0});
  Macvlan& b = CreateUp(lower, MacvlanMode::kVepa, kMacB, {.broadcast_queue_packets = 0});
  ArriveGroup(lower, kBroadcast);
  Run();
  EXPECT_EQ(Received(a) + Received(b), 0u);
  // The second is the lower stack's, of which there is none.
  EXPECT_EQ(lower.drops().value(DropReason::kLinkBroadcastQueueFull), 1u);
  EXPECT_EQ(a.stats().rx_dropped.value() + b.stats().rx_dropped.value(), 0u);
}

class MacvlanGroupTest : public MacvlanMulticastTest,
                         public ::testing::WithParamInterface<MacAddress> {
 protected:
  MacAddress group() const { return GetParam(); }
  // Of the same kind, in other filter bits than the group, broadcast and each other.
  MacAddress Other(uint8_t number) const {
    std::vector<uint8_t> taken = {MacvlanFilter::IndexOf(group(), 0),
                                  MacvlanFilter::IndexOf(kBroadcast, 0)};
    for (uint8_t last = 1;; ++last) {
      std::array<uint8_t, 6> bytes;
      group().CopyTo(bytes.data());
      bytes[4] = 0x77;
      bytes[5] = last;
      const uint8_t index = MacvlanFilter::IndexOf(MacAddress(bytes), 0);
      if (std::find(taken.begin(), taken.end(), index) != taken.end()) continue;
      taken.push_back(index);
      if (number-- == 0) return MacAddress(bytes);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Family, MacvlanGroupTest, ::testing::Values(kGroup4, kGroup6),
                         [](const auto& param) {
                           return std::string(param.param == kGroup4 ? "Ipv4" : "Ipv6");
                         });

// Covers: macvlan:Q-04
TEST_P(MacvlanGroupTest, JoinedGroupAndBroadcastAreDelivered) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  a.AddMulticast(group());
  EXPECT_TRUE(lower.HasMulticast(group()));
  ArriveGroup(lower, group());
  ArriveGroup(lower, Other(0));
  ArriveGroup(lower, kBroadcast);
  Run();
  ASSERT_EQ(Received(a), 2u);
  EXPECT_TRUE(SinkOf(a).packets[0]->meta.link_multicast);
  EXPECT_TRUE(SinkOf(a).packets[1]->meta.link_broadcast);
  a.RemoveMulticast(group());
  EXPECT_FALSE(lower.HasMulticast(group()));
  ArriveGroup(lower, group());
  Run();
  EXPECT_EQ(Received(a), 2u);
}

// Covers: macvlan:Q-05
TEST_P(MacvlanGroupTest, AllMultiAndPromiscuousGetEveryGroup) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  ASSERT_TRUE(a.ChangeAllMulti(1).ok());
  EXPECT_TRUE(lower.is_allmulti());
  ArriveGroup(lower, Other(0));
  Run();
  EXPECT_EQ(Received(a), 1u);
  ASSERT_TRUE(a.ChangeAllMulti(-1).ok());
  EXPECT_FALSE(lower.is_allmulti());
  ArriveGroup(lower, Other(0));
  Run();
  EXPECT_EQ(Received(a), 1u);
  ASSERT_TRUE(a.ChangePromiscuity(1).ok());
  ArriveGroup(lower, Other(1));
  Run();
  EXPECT_EQ(Received(a), 2u);
}

// Covers: macvlan:Q-06
TEST_P(MacvlanGroupTest, GroupThatNoMacvlanJoinedIsLeftAlone) {
  FakeDevice& lower = AddLower();
  CreateUp(lower, MacvlanMode::kVepa, kMacA, {.broadcast_queue_packets = 0});
  // The lower device's own subscriptions are no macvlan's.
  lower.AddMulticast(group());
  SinkOf(lower);
  ArriveGroup(lower, group());
  EXPECT_EQ(Received(lower), 1u);
  EXPECT_EQ(lower.stats().rx_dropped.value(), 0u);  // the queue would have refused it
  EXPECT_FALSE(context.has_pending_work());
}

// Covers: macvlan:Q-07
TEST_P(MacvlanGroupTest, PauseFramesAreNeverCopied) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  a.AddMulticast(group());
  b.AddMulticast(group());
  Arrive(lower, Make(EthernetFrame(group(), kOutside, 60, 0x8808)));
  TxPath::Transmit(Make(EthernetFrame(group(), kMacA, 60, 0x8808)), a);
  Run();
  EXPECT_EQ(Received(a) + Received(b), 0u);
  EXPECT_THAT(lower.sent, SizeIs(1));
  Arrive(lower, Make(EthernetFrame(group(), kOutside, 60, 0x8809)));
  Run();
  EXPECT_EQ(Received(a) + Received(b), 2u);
}

// Covers: macvlan:Q-08
TEST_P(MacvlanGroupTest, OnlyTheSubscriberIsServedAndCounted) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  a.AddMulticast(group());
  ArriveGroup(lower, group());
  Run();
  EXPECT_EQ(a.stats().rx_packets.value(), 1u);
  EXPECT_EQ(Copies(a), 1u);
  EXPECT_EQ(b.stats().rx_packets.value(), 0u);
  EXPECT_EQ(Copies(b), 0u);
}

// Covers: macvlan:Q-09
TEST_P(MacvlanGroupTest, MoreSubscribersThanTheCutoffGoThroughTheWorker) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kVepa, kMacB);
  a.AddMulticast(group());
  ArriveGroup(lower, group());
  EXPECT_EQ(Copies(a), 1u);  // in the receive context
  b.AddMulticast(group());
  ArriveGroup(lower, group());
  EXPECT_EQ(Copies(a), 1u);
  Run();
  EXPECT_EQ(Copies(a), 2u);
  EXPECT_EQ(Copies(b), 1u);
  ASSERT_TRUE(a.Change({.broadcast_cutoff = 2}).ok());
  ArriveGroup(lower, group());
  EXPECT_EQ(Copies(a), 3u);
  // Broadcast has everybody for a subscriber; only a negative cutoff keeps it from the queue.
  ArriveGroup(lower, kBroadcast);
  EXPECT_EQ(Copies(a), 3u);
  ASSERT_TRUE(a.Change({.broadcast_cutoff = -1}).ok());
  ArriveGroup(lower, kBroadcast);
  EXPECT_EQ(Copies(a), 4u);
  Run();
  EXPECT_EQ(Received(a), 5u);
}

// Linux: with a lower device that cannot filter, everything is queued.
TEST_P(MacvlanGroupTest, PromiscuousLowerDeviceQueuesEverything) {
  FakeDevice& lower = AddLower({.name = "tap0", .queueless = true, .mac = testing::kLowerMac});
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  EXPECT_TRUE(lower.is_promiscuous());
  a.AddMulticast(group());
  ArriveGroup(lower, group());
  EXPECT_EQ(Copies(a), 0u);
  Run();
  EXPECT_EQ(Copies(a), 1u);
}

// An oddity of Linux: what makes the lower device promiscuous later shows when a macvlan's own
// lists or flags change.
TEST_P(MacvlanGroupTest, FiltersFollowTheMacvlansNotTheLowerDevice) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  a.AddMulticast(group());
  ASSERT_TRUE(lower.ChangePromiscuity(1).ok());
  ArriveGroup(lower, group());
  EXPECT_EQ(Copies(a), 1u);
  a.AddMulticast(Other(0));
  ArriveGroup(lower, group());
  EXPECT_EQ(Copies(a), 1u);
  Run();
  EXPECT_EQ(Copies(a), 2u);
}

TEST_P(MacvlanGroupTest, GroupsLeaveTheLowerDeviceWithTheirSubscribers) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kVepa, kMacB);
  lower.AddMulticast(group());
  for (Macvlan* macvlan : {&a, &b}) {
    macvlan->AddMulticast(group());
    macvlan->AddMulticast(group());  // a second subscriber above
  }
  ASSERT_THAT(lower.multicast_list(), SizeIs(1));
  EXPECT_EQ(lower.multicast_list()[0].references, 3u);
  EXPECT_EQ(lower.multicast_list()[0].synced, 2u);
  a.RemoveMulticast(group());
  EXPECT_EQ(lower.multicast_list()[0].synced, 2u);
  a.Down();
  EXPECT_EQ(lower.multicast_list()[0].synced, 1u);
  ASSERT_TRUE(a.Up().ok());
  EXPECT_EQ(lower.multicast_list()[0].synced, 2u);
  context.registry().Unregister(a);
  context.registry().Unregister(b);
  EXPECT_EQ(lower.multicast_list()[0].references, 1u);
  EXPECT_EQ(lower.multicast_list()[0].synced, 0u);
}

TEST_P(MacvlanGroupTest, LocalGroupFramesReachSubscribedPeers) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  Macvlan& c = CreateUp(lower, MacvlanMode::kBridge, kMacC);
  a.AddMulticast(group());
  b.AddMulticast(group());
  Send(a, group(), 74);
  EXPECT_EQ(Received(b), 0u);
  Run();
  EXPECT_EQ(Received(a), 0u);
  EXPECT_EQ(Received(b), 1u);
  EXPECT_EQ(Received(c), 0u);
  EXPECT_THAT(lower.sent, SizeIs(1));
  // Counted as Linux does: the whole frame and one more link header.
  EXPECT_EQ(b.stats().rx_bytes.value(), 88u);
  EXPECT_EQ(Copies(b), 1u);
}

// ---- Ends while frames wait ----

TEST_F(MacvlanMulticastTest, QueuedReflectionOutlivesItsSender) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kVepa, kMacB);
  Macvlan& c = CreateUp(lower, MacvlanMode::kPrivate, kMacC);
  Arrive(lower, kBroadcast, kMacA);
  context.registry().Unregister(a);
  Run();
  EXPECT_EQ(Received(b), 1u);
  EXPECT_EQ(Received(c), 0u);
}

TEST_F(MacvlanMulticastTest, QueueGoesWithTheLastMacvlan) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  ArriveGroup(lower, kBroadcast);
  EXPECT_EQ(context.pool().stats().packets_in_use, 1u);
  context.registry().Unregister(a);
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
  EXPECT_EQ(lower.stats().rx_dropped.value(), 1u);  // the lower stack's own: there is none
  Run();
}

TEST_F(MacvlanMulticastTest, CopyForAMacvlanThatWentDownIsDropped) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA, {.broadcast_cutoff = -1});
  ArriveGroup(lower, kBroadcast);  // its copy waits in the backlog
  a.Down();
  Run();
  EXPECT_EQ(Received(a), 0u);
  EXPECT_EQ(a.drops().value(DropReason::kLinkDeviceDown), 1u);
  ArriveGroup(lower, kBroadcast);
  Run();
  EXPECT_EQ(a.stats().rx_errors.value(), 0u);
}

}  // namespace
}  // namespace tapwire::netdev
