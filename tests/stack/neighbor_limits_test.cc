// SPDX-License-Identifier: Apache-2.0
// What a scan, a flood or a small budget does to the neighbour table: through the whole stack, with
// real ARP and Neighbor Discovery frames.
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::Frame;
using testutil::kHost4;
using testutil::kHost6;
using testutil::kHostMac;
using testutil::PeerMacOf;

class NeighborLimitsTest : public testutil::HostFamilyTest {
 protected:
  void Start(size_t entries, size_t incomplete) {
    StackConfig config = Quiet();
    config.neighbor_max_entries = entries;
    config.neighbor_max_incomplete = incomplete;
    Make(config);
    stack->RegisterTransport(testutil::RecordingTransport::kProtocol, &transport);
  }
  void TearDown() override {
    if (stack) stack->RegisterTransport(testutil::RecordingTransport::kProtocol, nullptr);
  }
  NeighborTable& table() { return interface->neighbors(family()); }
  void MakeReachable(uint16_t n) {
    SendTo(peer(n));
    net->Run();
    AnswerFor(peer(n), PeerMacOf(n));
    ASSERT_EQ(table().Find(peer(n))->state, NeighborState::kReachable);
  }
  // Somebody asks for our MAC and names his own.
  void AskUs(const IpAddress& from, const MacAddress& mac) {
    if (v4()) {
      net->Inject(Frame()
                      .Eth(mac, MacAddress::kBroadcast())
                      .Arp({.sender_mac = mac, .sender_ip = from.v4(), .target_ip = kHost4})
                      .Build());
    } else {
      net->Inject(
          Frame()
              .Eth(mac, MulticastMac(kHost6.SolicitedNode()))
              .Ipv6({.source = from.v6(), .destination = kHost6.SolicitedNode(), .hop_limit = 255})
              .NeighborSolicitation({.target = kHost6, .link_address = mac})
              .Build());
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Family, NeighborLimitsTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), testutil::FamilyName);

// Covers: bug:B80 rfc:ND-13 (demand 48, 49)
TEST_P(NeighborLimitsTest, ScanOfAbsentAddressesLeavesReachableNeighboursAlone) {
  Start(64, 128);
  for (uint16_t n = 2; n < 12; ++n) MakeReachable(n);
  net->TakeSent();
  for (uint16_t n = 1000; n < 6000; ++n) {
    SendTo(peer(n));
    if (n % 50 == 0) {
      for (uint16_t good = 2; good < 12; ++good) {
        SendTo(peer(good), 8, static_cast<uint8_t>(good));
        ASSERT_EQ(table().Find(peer(good))->state, NeighborState::kReachable);
        ASSERT_EQ(table().Find(peer(good))->pending, 0u);
      }
      net->Advance(50ms);  // 1000 addresses a second
    }
    ASSERT_LE(table().size(), 64u);
    ASSERT_LE(table().incomplete(), 32u);
  }
  net->Run();
  size_t to_good = 0;
  for (const auto& bytes : TakeFrames()) {
    const MacAddress to = MacAddress::FromBytes(bytes);
    for (uint16_t good = 2; good < 12; ++good) to_good += to == PeerMacOf(good) ? 1 : 0;
  }
  EXPECT_EQ(to_good, 100u * 10u);
  EXPECT_GT(stack->mib().neighbor.incomplete_full.value(), 0u);
  EXPECT_GT(drops(DropReason::kNeighborTableFull), 0u);

  // A new neighbour that exists is found a second into the scan: the oldest question gives way.
  net->Advance(1s);
  SendTo(peer(20));
  net->Run();
  AnswerFor(peer(20), PeerMacOf(20));
  EXPECT_EQ(table().Find(peer(20))->state, NeighborState::kReachable);
}

// Covers: bug:B80 rfc:ND-13: the same from outside, by questions from ever new addresses
TEST_P(NeighborLimitsTest, FloodOfQuestionsDoesNotEvictActiveNeighbours) {
  Start(64, 16);
  for (uint16_t n = 2; n < 12; ++n) MakeReachable(n);
  for (uint16_t n = 1000; n < 6000; ++n) AskUs(peer(n), PeerMacOf(n));
  EXPECT_LE(table().size(), 64u);
  for (uint16_t n = 2; n < 12; ++n) {
    const auto info = table().Find(peer(n));
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->state, NeighborState::kReachable);
    EXPECT_EQ(info->mac, PeerMacOf(n));
  }
  EXPECT_GT(stack->mib().neighbor.evicted.value(), 0u);
}

TEST_P(NeighborLimitsTest, EvictionTakesFailedThenUnprovenThenOldest) {
  Start(16, 8);
  for (uint16_t n = 2; n < 8; ++n) {  // six that were used, and are STALE later
    MakeReachable(n);
    net->Advance(1s);
  }
  net->Advance(60s);
  for (uint16_t n = 20; n < 28; ++n) AskUs(peer(n), PeerMacOf(n));  // eight that never answered us
  SendTo(peer(30));
  SendTo(peer(31));
  net->Advance(3s);  // two that failed
  ASSERT_EQ(table().size(), 16u);
  ASSERT_EQ(table().Find(peer(30))->state, NeighborState::kFailed);

  const auto newcomer = [&](uint16_t n) { AskUs(peer(n), PeerMacOf(n)); };
  newcomer(40);
  newcomer(41);
  EXPECT_EQ(table().Find(peer(30)), std::nullopt);
  EXPECT_EQ(table().Find(peer(31)), std::nullopt);
  for (uint16_t n = 42; n < 50; ++n) {  // takes the place of one of the eight, becoming one
    newcomer(n);
    for (uint16_t used = 2; used < 8; ++used) {
      EXPECT_TRUE(table().Find(peer(used)).has_value()) << used;
    }
  }
  // Once the others have answered, the used ones must go, the longest unused first.
  for (const NeighborInfo& row : table().Snapshot()) {
    if (row.confirmed != Time()) continue;
    SendTo(row.address);
    net->Run();
    AnswerFor(row.address, row.mac);
  }
  newcomer(60);
  EXPECT_EQ(table().Find(peer(2)), std::nullopt);
  EXPECT_TRUE(table().Find(peer(3)).has_value());
  EXPECT_TRUE(table().Find(peer(60)).has_value());
}

// Covers: bug:B80: a full table of neighbours in use refuses, and says so
TEST_P(NeighborLimitsTest, FullTableOfReachableNeighboursRefusesNewOnes) {
  Start(4, 4);
  for (uint16_t n = 2; n < 6; ++n) MakeReachable(n);
  EXPECT_EQ(SendTo(peer(6)), netdev::TxResult::kNoBuffer);
  EXPECT_EQ(drops(DropReason::kNeighborTableFull), 1u);
  EXPECT_EQ(stack->mib().neighbor.table_full.value(), 1u);
  EXPECT_EQ(interface->neighbors(family()).AddPermanent(peer(7), PeerMacOf(7)).code(),
            absl::StatusCode::kResourceExhausted);
  // A question is answered all the same.
  net->TakeSent();
  AskUs(peer(8), PeerMacOf(8));
  EXPECT_EQ(table().Find(peer(8)), std::nullopt);
  if (v4()) {
    EXPECT_THAT(TakeFrames(), SizeIs(1));
  }
  net->Advance(50s);  // they are STALE now
  EXPECT_TRUE(netdev::TxOk(SendTo(peer(6))));
}

TEST_P(NeighborLimitsTest, BudgetOfZeroRefusesAndOfOneWorks) {
  Start(0, 0);
  EXPECT_EQ(SendTo(peer()), netdev::TxResult::kNoBuffer);
  AskUs(peer(3), PeerMacOf(3));
  EXPECT_EQ(table().size(), 0u);

  stack->config().neighbor_max_entries = 1;
  stack->config().neighbor_max_incomplete = 0;
  EXPECT_EQ(SendTo(peer()), netdev::TxResult::kNoBuffer);
  stack->config().neighbor_max_incomplete = 1;
  net->Advance(1ms);
  MakeReachable(2);
  EXPECT_EQ(SendTo(peer(3)), netdev::TxResult::kNoBuffer);
  EXPECT_EQ(table().size(), 1u);
}

TEST_P(NeighborLimitsTest, WaitingPacketsAreLimitedToTheNewest) {
  Start(16, 8);
  stack->config().neighbor_max_pending_packets = 1;
  SendTo(peer(), 8, 100);
  SendTo(peer(), 8, 200);
  EXPECT_EQ(drops(DropReason::kNeighborQueueOverflow), 1u);
  net->Run();
  net->TakeSent();
  AnswerFor(peer(), PeerMacOf(2));
  const auto frames = TakeFrames();
  ASSERT_THAT(frames, SizeIs(1));
  EXPECT_EQ(frames[0].back(), 207);

  stack->config().neighbor_max_pending_packets = 0;
  EXPECT_EQ(SendTo(peer(3)), netdev::TxResult::kNoBuffer);
}

// Covers: rfc:ARP-6: a large datagram to a neighbour not yet known arrives whole
TEST_P(NeighborLimitsTest, FragmentsOfALargeDatagramAllWait) {
  Start(16, 8);
  SendTo(peer(), 60000);
  net->Run();
  net->TakeSent();
  AnswerFor(peer(), PeerMacOf(2));
  size_t bytes = 0;
  for (const auto& frame : TakeFrames()) {
    testutil::FrameView view = testutil::Dissect(frame);
    EXPECT_TRUE(view.is_fragment);
    bytes += view.upper.size();
  }
  EXPECT_GE(bytes, 60000u);
  EXPECT_EQ(drops(DropReason::kNeighborQueueOverflow), 0u);
}

// ---- Failure is told to the sender ----

// Covers: rfc:ND-04 RFC 4861 §7.2.2: code 3 for each packet that waits; RFC 1122 §2.3.2.1 for ARP
TEST_P(NeighborLimitsTest, UnansweredDatagramsAreReportedToTheirTransport) {
  Start(16, 8);
  SendTo(peer(), 8, 1);
  SendTo(peer(), 8, 101);
  net->Advance(3s);
  ASSERT_THAT(transport.errors, SizeIs(2));
  const IcmpErrorInfo& error = transport.errors[0];
  EXPECT_EQ(error.kind, IcmpErrorKind::kHostUnreachable);
  EXPECT_EQ(error.type, v4() ? 3 : 1);
  EXPECT_EQ(error.code, v4() ? 1 : 3);
  EXPECT_EQ(error.reporter, host());
  EXPECT_EQ(error.source, host());
  EXPECT_EQ(error.destination, peer());
  EXPECT_EQ(error.protocol, testutil::RecordingTransport::kProtocol);
  EXPECT_EQ(error.interface, interface);
  EXPECT_EQ(transport.quotes[0], testutil::Pattern(8, 1));
  EXPECT_EQ(transport.quotes[1], testutil::Pattern(8, 101));
  EXPECT_EQ(drops(DropReason::kNeighborUnresolved), 2u);
}

TEST_P(NeighborLimitsTest, OnlyTheFirstFragmentIsReported) {
  Start(16, 8);
  SendTo(peer(), 4000);
  net->Advance(3s);
  EXPECT_THAT(transport.errors, SizeIs(1));
  EXPECT_EQ(drops(DropReason::kNeighborUnresolved), 3u);
}

// Covers: rfc:ARP-4 RFC 1122 §2.3.2.1: a neighbour that changes its MAC silently is found again
TEST_P(NeighborLimitsTest, NeighbourWithANewMacIsFoundAgain) {
  Start(16, 8);
  MakeReachable(2);
  size_t to_new = 0;
  for (int second = 0; second < 60; ++second) {
    SendTo(peer());
    net->Advance(1s);
    for (const auto& bytes : TakeFrames()) {
      const testutil::FrameView view = testutil::Dissect(bytes);
      // From now on only PeerMacOf(99) answers; questions to the old MAC are lost.
      const bool asks = view.arp || view.type == 135;
      if (asks && view.link_destination.IsMulticast()) AnswerFor(peer(), PeerMacOf(99));
      if (view.link_destination == PeerMacOf(99)) ++to_new;
    }
  }
  EXPECT_EQ(table().Find(peer())->mac, PeerMacOf(99));
  EXPECT_GT(to_new, 4u);
}

}  // namespace
}  // namespace tapwire
