// SPDX-License-Identifier: Apache-2.0
// The neighbour table by itself, with a resolver that only takes notes. Times are those of RFC 4861
// §10 and RFC 7048 §5, counted by hand.
#include "stack/neighbor.h"

#include <set>

#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::ByteVector;
using testutil::HostTest;
using testutil::kHostMac;
using testutil::kOtherMac;
using testutil::kPeerMac;
using testutil::PeerMacOf;

class NotingResolver final : public NeighborResolver {
 public:
  struct Question {
    Time time;
    IpAddress target;
    std::optional<MacAddress> unicast_to;
  };
  explicit NotingResolver(testutil::NetHarness& net) : net_(net) {}

  void Solicit(const IpAddress& target, std::optional<MacAddress> unicast_to,
               const IpAddress& source) override {
    questions.push_back({net_.now(), target, unicast_to});
    sources.push_back(source);
  }
  void ReportUnreachable(PacketPtr packet, const IpAddress& target) override {
    ByteVector bytes(packet->length());
    packet->CopyOut(0, bytes);
    reported.push_back(bytes.back());
    report_targets.insert(target);
  }

  std::vector<Question> questions;
  std::vector<IpAddress> sources;
  std::vector<int> reported;  // last byte of each packet
  std::set<IpAddress> report_targets;

 private:
  testutil::NetHarness& net_;
};

class NeighborTest : public testutil::HostFamilyTest {
 protected:
  void SetUp() override { Start(Quiet()); }

  void Start(StackConfig config) {
    table.reset();
    interface = nullptr;
    stack.reset();
    Make(config);
    resolver = std::make_unique<NotingResolver>(*net);
    table = std::make_unique<NeighborTable>(*stack, device(), *resolver, family());
    start = net->now();
  }

  // One small packet whose last byte is `tag`.
  PacketPtr MakePacket(uint8_t tag) {
    testutil::Frame frame;
    if (v4()) {
      frame.Ipv4({.source = testutil::kHost4, .destination = testutil::kPeer4, .protocol = 253});
    } else {
      frame.Ipv6({.source = testutil::kHost6, .destination = testutil::kPeer6, .next_header = 253});
    }
    return PacketFromBytes(stack->pool(), frame.Payload(ByteVector{0, 0, 0, tag}).Build());
  }
  netdev::TxResult Send(const IpAddress& to, uint8_t tag = 0) {
    const netdev::TxResult result = table->Output(MakePacket(tag), to, host());
    net->Run();
    return result;
  }
  void Advertise(const IpAddress& ip, const MacAddress& mac, bool solicited = true,
                 bool override = true) {
    table->OnAdvertisement(
        {.address = ip, .mac = mac, .solicited = solicited, .override = override});
    net->Run();
  }
  // Makes `ip` reachable at `mac`.
  void MakeReachable(const IpAddress& ip, const MacAddress& mac) {
    Send(ip);
    Advertise(ip, mac);
    net->TakeSent();
    resolver->questions.clear();
  }
  NeighborState StateOf(const IpAddress& ip) {
    const auto info = table->Find(ip);
    return info ? info->state : NeighborState::kFailed;
  }
  // Seconds since the start of the test at which questions were asked.
  std::vector<double> QuestionTimes() {
    std::vector<double> times;
    for (const auto& q : resolver->questions) {
      times.push_back(std::chrono::duration<double>(q.time - start).count());
    }
    return times;
  }
  // Destination MAC and last byte of the frames sent.
  std::vector<std::pair<MacAddress, int>> TakeTagged() {
    std::vector<std::pair<MacAddress, int>> result;
    for (const ByteVector& bytes : TakeFrames()) {
      result.emplace_back(MacAddress::FromBytes(bytes), bytes.back());
    }
    return result;
  }

  std::unique_ptr<NotingResolver> resolver;
  std::unique_ptr<NeighborTable> table;
  Time start;
};

INSTANTIATE_TEST_SUITE_P(Family, NeighborTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

// ---- Resolution ----

// Covers: rfc:ARP-6 rfc:ND-04 RFC 4861 §7.2.2, RFC 1122 §2.3.2.2
TEST_P(NeighborTest, FirstPacketWaitsForTheAnswerAndIsSent) {
  EXPECT_EQ(Send(peer(), 7), netdev::TxResult::kQueued);
  EXPECT_THAT(TakeFrames(), IsEmpty());
  ASSERT_THAT(resolver->questions, SizeIs(1));
  EXPECT_EQ(resolver->questions[0].target, peer());
  EXPECT_EQ(resolver->questions[0].unicast_to, std::nullopt);
  EXPECT_EQ(resolver->sources[0], host());
  EXPECT_EQ(StateOf(peer()), NeighborState::kIncomplete);

  net->Advance(300ms);
  Advertise(peer(), kPeerMac);
  EXPECT_THAT(TakeTagged(), ElementsAre(std::pair(kPeerMac, 7)));
  EXPECT_EQ(StateOf(peer()), NeighborState::kReachable);
}

// Covers: bug:B79 rfc:ARP-5 rfc:ND-04
TEST_P(NeighborTest, FloodToASilentAddressAsksOncePerSecondAndReportsTheNewest) {
  const size_t limit = stack->config().neighbor_max_pending_packets;
  for (int i = 0; i < 10000; ++i) Send(peer(), static_cast<uint8_t>(i));
  EXPECT_THAT(resolver->questions, SizeIs(1));
  EXPECT_EQ(table->Find(peer())->pending, limit);
  EXPECT_EQ(drops(DropReason::kNeighborQueueOverflow), 10000 - limit);
  EXPECT_EQ(stack->mib().neighbor.pending_dropped.value(), 10000 - limit);

  net->Advance(10s);
  EXPECT_THAT(QuestionTimes(), ElementsAre(0.0, 1.0, 2.0));
  // 9999 is 15 modulo 256: the newest packets are the ones reported, in order.
  ASSERT_THAT(resolver->reported, SizeIs(limit));
  EXPECT_EQ(resolver->reported.back(), 9999 % 256);
  EXPECT_EQ(resolver->reported.front(), static_cast<int>((10000 - limit) % 256));
  EXPECT_THAT(resolver->report_targets, ElementsAre(peer()));
}

// Covers: bug:B79 rfc:ARP-5
TEST_P(NeighborTest, FailureIsHeldForOneSecondThenAskedAgain) {
  Send(peer(), 1);
  net->Advance(3s);
  EXPECT_THAT(resolver->reported, ElementsAre(1));
  EXPECT_EQ(StateOf(peer()), NeighborState::kFailed);
  EXPECT_EQ(stack->mib().neighbor.failed.value(), 1u);

  EXPECT_EQ(Send(peer(), 2), netdev::TxResult::kNoRoute);
  EXPECT_EQ(drops(DropReason::kNeighborUnresolved), 1u);
  EXPECT_THAT(resolver->questions, SizeIs(3));

  net->Advance(1s);
  EXPECT_EQ(table->Find(peer()), std::nullopt);
  EXPECT_EQ(Send(peer(), 3), netdev::TxResult::kQueued);
  EXPECT_THAT(QuestionTimes(), ElementsAre(0.0, 1.0, 2.0, 4.0));
}

// Covers: rfc:ARP-5 RFC 1122 §2.3.2.1: "at most one per second per destination"
TEST_P(NeighborTest, NeverAsksMoreThanOncePerSecondHoweverLongItGoesOn) {
  for (int i = 0; i < 600; ++i) {  // a minute of ten packets a second
    Send(peer());
    net->Advance(100ms);
  }
  for (size_t i = 1; i < resolver->questions.size(); ++i) {
    EXPECT_GE(resolver->questions[i].time - resolver->questions[i - 1].time, 1s);
  }
  EXPECT_GE(resolver->questions.size(), 40u);
}

TEST_P(NeighborTest, LateAnswerDuringTheHoldTimeCounts) {
  Send(peer());
  net->Advance(3500ms);
  ASSERT_EQ(StateOf(peer()), NeighborState::kFailed);
  Advertise(peer(), kPeerMac);
  EXPECT_EQ(StateOf(peer()), NeighborState::kReachable);
}

TEST_P(NeighborTest, ResolveAsksWithoutAPacket) {
  table->Resolve(peer(), host());
  table->Resolve(peer(), host());
  EXPECT_THAT(resolver->questions, SizeIs(1));
  Advertise(peer(), kPeerMac);
  EXPECT_EQ(StateOf(peer()), NeighborState::kReachable);
  EXPECT_THAT(TakeFrames(), IsEmpty());
}

// ---- Ageing and reachability ----

// Covers: rfc:ND-05 RFC 4861 §6.3.2: uniform between 0.5 and 1.5 times 30 s
TEST_P(NeighborTest, ReachableTimeIsRandomAroundThirtySeconds) {
  std::set<int64_t> seen;
  Duration shortest = 1h, longest = 0s;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    table.reset();
    stack.reset();
    testutil::NetHarness::Options options;
    options.seed = seed;
    Make(Quiet(), true, options);
    resolver = std::make_unique<NotingResolver>(*net);
    table = std::make_unique<NeighborTable>(*stack, device(), *resolver, family());
    MakeReachable(peer(), kPeerMac);
    Duration age = 0s;
    while (StateOf(peer()) == NeighborState::kReachable && age < 1min) {
      net->Advance(100ms);
      age += 100ms;
    }
    EXPECT_EQ(StateOf(peer()), NeighborState::kStale);
    shortest = std::min(shortest, age);
    longest = std::max(longest, age);
    seen.insert(age.count());
  }
  EXPECT_GE(shortest, 15s);
  EXPECT_LE(longest, 45s + 100ms);
  // Of 40 uniform values some lie in the outer thirds, and hardly two are equal.
  EXPECT_LT(shortest, 25s);
  EXPECT_GT(longest, 35s);
  EXPECT_GT(seen.size(), 20u);
}

// Covers: rfc:ND-05 rfc:ARP-4 RFC 4861 §7.3.3
TEST_P(NeighborTest, UseOfAStaleEntryIsFollowedByUnicastProbesAfterFiveSeconds) {
  MakeReachable(peer(), kPeerMac);
  net->Advance(46s);
  ASSERT_EQ(StateOf(peer()), NeighborState::kStale);
  start = net->now();
  Send(peer(), 1);
  EXPECT_THAT(TakeTagged(), ElementsAre(std::pair(kPeerMac, 1)));  // at once, to the cached MAC
  EXPECT_EQ(StateOf(peer()), NeighborState::kDelay);
  EXPECT_THAT(resolver->questions, IsEmpty());

  net->Advance(7500ms);
  EXPECT_EQ(StateOf(peer()), NeighborState::kProbe);
  EXPECT_THAT(QuestionTimes(), ElementsAre(5.0, 6.0, 7.0));
  for (const auto& q : resolver->questions) EXPECT_EQ(q.unicast_to, kPeerMac);
  Send(peer(), 2);
  EXPECT_THAT(TakeTagged(), ElementsAre(std::pair(kPeerMac, 2)));

  Advertise(peer(), kPeerMac);
  EXPECT_EQ(StateOf(peer()), NeighborState::kReachable);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
}

// Covers: rfc:ND-05 RFC 4861 §7.3.1: "forward progress" makes probes unnecessary
TEST_P(NeighborTest, ConfirmationFromAboveEndsTheDelay) {
  MakeReachable(peer(), kPeerMac);
  net->Advance(46s);
  Send(peer());
  net->Advance(3s);
  table->Confirm(peer());
  EXPECT_EQ(StateOf(peer()), NeighborState::kReachable);
  net->Advance(10s);
  EXPECT_THAT(resolver->questions, IsEmpty());
}

// Covers: bug:B81
TEST_P(NeighborTest, LongConfirmedFlowNeverStallsNorAsks) {
  MakeReachable(peer(), kPeerMac);
  for (int i = 0; i < 6000; ++i) {  // ten minutes
    Send(peer(), 9);
    ASSERT_EQ(table->Find(peer())->pending, 0u);
    if (i % 10 == 0) table->Confirm(peer());
    net->Advance(100ms);
  }
  EXPECT_THAT(TakeFrames(), SizeIs(6000));
  EXPECT_THAT(resolver->questions, IsEmpty());
}

// Covers: bug:B81
TEST_P(NeighborTest, LongUnconfirmedFlowIsKeptUpByProbes) {
  MakeReachable(peer(), kPeerMac);
  for (int i = 0; i < 6000; ++i) {
    Send(peer(), 9);
    ASSERT_EQ(table->Find(peer())->pending, 0u);
    if (!resolver->questions.empty() && StateOf(peer()) == NeighborState::kProbe) {
      EXPECT_EQ(resolver->questions.back().unicast_to, kPeerMac);
      Advertise(peer(), kPeerMac);
    }
    net->Advance(100ms);
  }
  EXPECT_THAT(TakeFrames(), SizeIs(6000));
  EXPECT_THAT(resolver->questions.size(), ::testing::AllOf(::testing::Ge(11u), ::testing::Le(30u)));
}

// Covers: rfc:ND-15 RFC 7048 §3 and §5: threefold back-off up to 60 s, multicast, MAC kept
TEST_P(NeighborTest, UnreachableKeepsTheMacAndBacksOffWhileThereIsTraffic) {
  MakeReachable(peer(), kPeerMac);
  net->Advance(46s);
  start = net->now();
  for (int i = 0; i < 240; ++i) {
    Send(peer(), 5);
    net->Advance(1s);
  }
  // Delay 5 s, three unicast probes, then multicast with waits of 3, 9, 27, 60, 60 s.
  EXPECT_THAT(QuestionTimes(), ElementsAre(5, 6, 7, 8, 11, 20, 47, 107, 167, 227));
  for (size_t i = 0; i < resolver->questions.size(); ++i) {
    EXPECT_EQ(resolver->questions[i].unicast_to.has_value(), i < 3) << i;
  }
  EXPECT_TRUE(table->Find(peer())->unreachable);
  const auto sent = TakeTagged();
  EXPECT_THAT(sent, SizeIs(240));
  EXPECT_THAT(sent, ::testing::Each(std::pair(kPeerMac, 5)));
  EXPECT_THAT(resolver->reported, IsEmpty());

  // The neighbour came back with another network card: the multicast question finds it.
  Advertise(peer(), kOtherMac);
  EXPECT_EQ(StateOf(peer()), NeighborState::kReachable);
  Send(peer(), 6);
  EXPECT_THAT(TakeTagged(), ElementsAre(std::pair(kOtherMac, 6)));
}

TEST_P(NeighborTest, UnreachableWithoutTrafficIsForgotten) {
  MakeReachable(peer(), kPeerMac);
  net->Advance(46s);
  Send(peer());
  net->Advance(9s);
  EXPECT_EQ(table->Find(peer()), std::nullopt);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
}

// Covers: bug:B109
TEST_P(NeighborTest, ClockJumpOfEightHoursChecksTheNeighbourAgainOnce) {
  MakeReachable(peer(2), kPeerMac);
  MakeReachable(peer(3), kOtherMac);
  net->Advance(46s);
  Send(peer(2));  // DELAY, its timer armed
  net->clock().Advance(8h);
  start = net->now();
  net->Run();
  EXPECT_THAT(QuestionTimes(), ElementsAre(0.0));  // once, not once per second missed
  EXPECT_EQ(StateOf(peer(2)), NeighborState::kProbe);
  EXPECT_EQ(StateOf(peer(3)), NeighborState::kStale);
  Send(peer(3));
  EXPECT_EQ(StateOf(peer(3)), NeighborState::kDelay);
  net->Advance(5s);
  EXPECT_EQ(StateOf(peer(3)), NeighborState::kProbe);
}

TEST_P(NeighborTest, SendingToAReachableNeighbourTouchesNoTimer) {
  MakeReachable(peer(), kPeerMac);
  ASSERT_EQ(net->context().timers().armed_count(), 0u);
  for (int i = 0; i < 1000; ++i) {
    Send(peer());
    ASSERT_EQ(net->context().timers().armed_count(), 0u);
  }
  EXPECT_EQ(net->context().next_deadline(), std::nullopt);
}

// ---- What must not be learned ----

// Covers: rfc:ARP-7
TEST_P(NeighborTest, NeverLearnsAMacThatIsNoOtherStation) {
  const MacAddress bad[] = {MacAddress(), MacAddress::kBroadcast(),
                            MacAddress(0x01, 0, 0x5e, 0, 0, 1), kHostMac};
  Send(peer());
  for (const MacAddress& mac : bad) {
    table->OnSolicited(peer(), mac, true);
    EXPECT_EQ(StateOf(peer()), NeighborState::kIncomplete) << mac.ToString();
    EXPECT_NE(table->OnAdvertisement(
                  {.address = peer(), .mac = mac, .solicited = true, .override = true}),
              DropReason::kNone);
    EXPECT_EQ(StateOf(peer()), NeighborState::kIncomplete) << mac.ToString();
    table->OnSolicited(peer(9), mac, true);
    EXPECT_EQ(table->Find(peer(9)), std::nullopt);
    EXPECT_EQ(table->AddPermanent(peer(9), mac).ok(), mac == kHostMac) << mac.ToString();
    static_cast<void>(table->Remove(peer(9)));
  }
}

// Covers: rfc:ND-06 rfc:ARP-8
TEST_P(NeighborTest, AdvertisementMakesNoEntry) {
  EXPECT_EQ(table->OnAdvertisement(
                {.address = peer(), .mac = kPeerMac, .solicited = true, .override = true}),
            v4() ? DropReason::kArpUnsolicited : DropReason::kNdpNoEntry);
  EXPECT_EQ(table->size(), 0u);
}

// Covers: bug:B78
TEST_P(NeighborTest, PermanentEntryNeverChanges) {
  ASSERT_TRUE(table->AddPermanent(peer(), kPeerMac).ok());
  table->OnSolicited(peer(), kOtherMac, true);
  EXPECT_EQ(table->OnAdvertisement(
                {.address = peer(), .mac = kOtherMac, .solicited = true, .override = true}),
            v4() ? DropReason::kArpStaticEntry : DropReason::kNdpIgnored);
  table->Flush();
  net->Advance(10min);
  Send(peer(), 3);
  EXPECT_THAT(TakeTagged(), ElementsAre(std::pair(kPeerMac, 3)));
  EXPECT_EQ(StateOf(peer()), NeighborState::kPermanent);
  EXPECT_EQ(stack->mib().neighbor.static_kept.value(), 2u);
  EXPECT_THAT(resolver->questions, IsEmpty());
  EXPECT_TRUE(table->Remove(peer()).ok());
  EXPECT_EQ(table->Remove(peer()).code(), absl::StatusCode::kNotFound);
}

TEST_P(NeighborTest, PermanentEntryReleasesWhatWaits) {
  Send(peer(), 4);
  ASSERT_TRUE(table->AddPermanent(peer(), kPeerMac).ok());
  net->Run();
  EXPECT_THAT(TakeTagged(), ElementsAre(std::pair(kPeerMac, 4)));
}

TEST_P(NeighborTest, PermanentEntryForAWrongAddressIsRefused) {
  const IpFamily other = v4() ? IpFamily::kV6 : IpFamily::kV4;
  for (const IpAddress& ip :
       {testutil::PeerIp(other), IpAddress::Unspecified(family()),
        v4() ? IpAddress(Ipv4Address::kAllSystems) : IpAddress(Ipv6Address::AllNodes())}) {
    EXPECT_EQ(table->AddPermanent(ip, kPeerMac).code(), absl::StatusCode::kInvalidArgument)
        << ip.ToString();
  }
}

TEST_P(NeighborTest, FlushDropsWhatWaitsUnderAReason) {
  Send(peer(2));
  MakeReachable(peer(3), kOtherMac);
  table->Flush();
  EXPECT_EQ(table->size(), 0u);
  EXPECT_EQ(table->incomplete(), 0u);
  EXPECT_EQ(drops(DropReason::kNeighborUnresolved), 1u);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
}

TEST_P(NeighborTest, NothingIsQueuedForADeviceThatIsDown) {
  device().Down();
  EXPECT_EQ(Send(peer()), netdev::TxResult::kDeviceDown);
  EXPECT_EQ(table->size(), 0u);
  EXPECT_EQ(drops(DropReason::kTxDeviceDown), 1u);
  ASSERT_TRUE(device().Up().ok());
  device().SetCarrier(false);
  EXPECT_EQ(Send(peer()), netdev::TxResult::kDeviceDown);
  EXPECT_EQ(drops(DropReason::kTxCarrierOff), 1u);
}

TEST_P(NeighborTest, SnapshotIsOrderedByAddress) {
  for (const uint16_t n : std::initializer_list<uint16_t>{9, 3, 7, 5})
    table->OnSolicited(peer(n), PeerMacOf(n), true);
  std::vector<IpAddress> order;
  for (const NeighborInfo& row : table->Snapshot()) order.push_back(row.address);
  EXPECT_THAT(order, ElementsAre(peer(3), peer(5), peer(7), peer(9)));
}

}  // namespace
}  // namespace tapwire
