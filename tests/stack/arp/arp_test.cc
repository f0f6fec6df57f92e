// SPDX-License-Identifier: Apache-2.0
// ARP input and output against RFC 826, RFC 1122 §2.3.2 and RFC 5227, frame by frame.
#include "stack/arp/arp.h"

#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::ArpArgs;
using testutil::ByteVector;
using testutil::EthDstIs;
using testutil::EthSrcIs;
using testutil::Frame;
using testutil::IsArpReply;
using testutil::IsArpRequest;
using testutil::kHost4;
using testutil::kHostMac;
using testutil::kOtherMac;
using testutil::kPeer4;
using testutil::kPeerMac;
using testutil::SenderIpIs;
using testutil::SenderMacIs;
using testutil::TargetIpIs;
using testutil::TargetMacIs;

constexpr Ipv4Address kForeign{192, 0, 2, 77};

class ArpTest : public testutil::HostTest {
 protected:
  void SetUp() override { Make(); }

  NeighborTable& table() { return interface->neighbors(IpFamily::kV4); }
  void Receive(const ArpArgs& arp, const MacAddress& to = MacAddress::kBroadcast()) {
    net->Inject(Frame().Eth(kPeerMac, to).Arp(arp).Pad().Build());
  }
  // A request of the peer for `target`.
  void Request(const Ipv4Address& target) {
    Receive({.sender_mac = kPeerMac, .sender_ip = kPeer4, .target_ip = target});
  }
  std::optional<NeighborState> PeerState() {
    const auto info = table().Find(kPeer4);
    return info ? std::optional(info->state) : std::nullopt;
  }
  void MakePeerReachable() {
    SendTo(kPeer4);
    net->Run();
    AnswerFor(kPeer4, kPeerMac);
    net->TakeSent();
  }
};

// Covers: rfc:ARP-1 RFC 826: "Swap hardware and protocol fields … send the packet to the (new)
// target"
TEST_F(ArpTest, RequestForOurAddressIsAnsweredUnicast) {
  Request(kHost4);
  // The fields of RFC 826, written down by hand.
  const ByteVector expected = testutil::Hex(
      "020000000002 020000000001 0806"
      "0001 0800 06 04 0002"
      "020000000001 c0000201 020000000002 c0000202");
  const auto sent = net->TakeSent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(ByteVector(sent[0].begin(), sent[0].begin() + 42), expected);
  EXPECT_EQ(stack->mib().arp.in_requests.value(), 1u);
  EXPECT_EQ(stack->mib().arp.out_replies.value(), 1u);
}

// Covers: rfc:ARP-1 rfc:ARP-2
TEST_F(ArpTest, RequestForAnotherAddressIsNotAnsweredAndNotLearned) {
  Request(kForeign);
  EXPECT_THAT(net->TakeSent(), IsEmpty());
  EXPECT_EQ(PeerState(), std::nullopt);
  EXPECT_EQ(drops(DropReason::kArpNotForUs), 1u);
}

// Covers: rfc:ARP-2 RFC 826: "if the target protocol address is mine: … add the triplet"
TEST_F(ArpTest, SenderOfARequestForUsIsLearned) {
  Request(kHost4);
  EXPECT_EQ(PeerState(), NeighborState::kStale);
  net->TakeSent();
  SendTo(kPeer4);
  net->Run();
  EXPECT_THAT(TakeFrames(), ElementsAre(testutil::IsIpv4()));
}

// Covers: rfc:ARP-2: the merge comes before the target is looked at
TEST_F(ArpTest, KnownSenderIsUpdatedByAnyPacket) {
  MakePeerReachable();
  Receive({.sender_mac = kOtherMac, .sender_ip = kPeer4, .target_ip = kForeign});
  EXPECT_EQ(table().Find(kPeer4)->mac, kOtherMac);
  EXPECT_EQ(PeerState(), NeighborState::kStale);
  EXPECT_EQ(drops(DropReason::kArpNotForUs), 0u);
  // And before the opcode: 9 is none of RFC 826's.
  Receive({.operation = 9, .sender_mac = kPeerMac, .sender_ip = kPeer4, .target_ip = kHost4});
  EXPECT_EQ(table().Find(kPeer4)->mac, kPeerMac);
  EXPECT_EQ(drops(DropReason::kArpMalformed), 1u);
  EXPECT_THAT(net->TakeSent(), IsEmpty());
}

// RFC 5227 §1.1: a gratuitous request or reply updates an entry, and makes none.
TEST_F(ArpTest, GratuitousArpUpdatesAnExistingEntryOnly) {
  for (const uint16_t operation : {uint16_t{1}, uint16_t{2}}) {
    const ArpArgs gratuitous = {
        .operation = operation, .sender_mac = kOtherMac, .sender_ip = kPeer4, .target_ip = kPeer4};
    Receive(gratuitous);
    EXPECT_EQ(PeerState(), std::nullopt);
    MakePeerReachable();
    Receive(gratuitous);
    EXPECT_EQ(table().Find(kPeer4)->mac, kOtherMac);
    EXPECT_EQ(PeerState(), NeighborState::kStale);
    ASSERT_TRUE(table().Remove(kPeer4).ok());
  }
  EXPECT_EQ(drops(DropReason::kArpNotForUs), 2u);
}

// Covers: rfc:ARP-8: recorded hardening, see stack/arp/arp.cc
TEST_F(ArpTest, UnaskedReplyMakesNoEntry) {
  Receive({.operation = 2,
           .sender_mac = kPeerMac,
           .sender_ip = kPeer4,
           .target_mac = kHostMac,
           .target_ip = kHost4},
          kHostMac);
  EXPECT_EQ(PeerState(), std::nullopt);
  EXPECT_EQ(drops(DropReason::kArpUnsolicited), 1u);
  EXPECT_EQ(stack->mib().arp.in_replies.value(), 1u);
}

TEST_F(ArpTest, BroadcastReplyIsNoProofOfReachability) {
  SendTo(kPeer4);
  net->Run();
  net->TakeSent();
  Receive({.operation = 2, .sender_mac = kPeerMac, .sender_ip = kPeer4, .target_ip = kHost4});
  EXPECT_EQ(PeerState(), NeighborState::kDelay);  // STALE, in use by the packet that waited
  EXPECT_THAT(TakeFrames(), SizeIs(1));
}

TEST_F(ArpTest, RequestFromTheHostWeAskForResolvesIt) {
  SendTo(kPeer4);
  net->Run();
  net->TakeSent();
  Request(kHost4);
  EXPECT_THAT(TakeFrames(), ::testing::UnorderedElementsAre(testutil::IsIpv4(), IsArpReply()));
}

// ---- What is sent ----

// RFC 826, RFC 894: the question goes to everybody, with our mapping and no target MAC.
TEST_F(ArpTest, QuestionIsBroadcastWithOurMapping) {
  SendTo(kPeer4);
  net->Run();
  EXPECT_THAT(TakeFrames(),
              ElementsAre(IsArpRequest(EthDstIs(MacAddress::kBroadcast()), EthSrcIs(kHostMac),
                                       SenderMacIs(kHostMac), SenderIpIs(kHost4),
                                       TargetMacIs(MacAddress()), TargetIpIs(kPeer4))));
  EXPECT_EQ(stack->mib().arp.out_requests.value(), 1u);
}

// Covers: rfc:ARP-4 RFC 1122 §2.3.2.1 (2): unicast poll
TEST_F(ArpTest, ProbeOfAKnownNeighbourIsUnicast) {
  MakePeerReachable();
  net->Advance(46s);
  SendTo(kPeer4);
  net->Advance(5s);
  const auto frames = TakeFrames();
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_THAT(frames[1], IsArpRequest(EthDstIs(kPeerMac), TargetIpIs(kPeer4), SenderIpIs(kHost4)));
}

// Covers: rfc:ARP-5 bug:B79
TEST_F(ArpTest, FloodToAnAbsentAddressCostsOneRequestPerSecond) {
  for (int i = 0; i < 10000; ++i) SendTo(kForeign);
  net->Advance(2500ms);
  EXPECT_THAT(TakeFrames(),
              ElementsAre(IsArpRequest(), IsArpRequest(), IsArpRequest()));  // at 0, 1, 2 s
}

TEST_F(ArpTest, QuestionUsesTheAddressInTheSubnetOfTheTarget) {
  ASSERT_TRUE(interface->AddAddress({Ipv4Address(10, 1, 1, 1), 24}).ok());
  interface->arp().Solicit(Ipv4Address(10, 1, 1, 9), std::nullopt, Ipv4Address());
  interface->arp().Solicit(kPeer4, std::nullopt, Ipv4Address());
  interface->arp().Solicit(kPeer4, std::nullopt, Ipv4Address(10, 1, 1, 1));
  interface->arp().Solicit(kPeer4, std::nullopt, Ipv4Address(8, 8, 8, 8));  // not ours: not used
  net->Run();
  EXPECT_THAT(TakeFrames(), ElementsAre(IsArpRequest(SenderIpIs(Ipv4Address(10, 1, 1, 1))),
                                        IsArpRequest(SenderIpIs(kHost4)),
                                        IsArpRequest(SenderIpIs(Ipv4Address(10, 1, 1, 1))),
                                        IsArpRequest(SenderIpIs(kHost4))));
}

TEST_F(ArpTest, WithoutAnAddressNothingIsAsked) {
  Make(Quiet(), /*addresses=*/false);
  interface->arp().Solicit(kPeer4, std::nullopt, Ipv4Address());
  net->Run();
  EXPECT_THAT(TakeFrames(), IsEmpty());
}

// ---- Bad input ----

// Covers: rfc:ARP-3 bug:B65: "ARP of 10 bytes"
TEST_F(ArpTest, EveryTruncatedPacketIsMalformed) {
  const ByteVector whole =
      Frame()
          .Eth(kPeerMac, MacAddress::kBroadcast())
          .Arp({.sender_mac = kPeerMac, .sender_ip = kPeer4, .target_ip = kHost4})
          .Build();
  uint64_t expected = 0;
  for (size_t length = 14; length < 42; ++length) {
    net->Inject(ByteVector(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)));
    EXPECT_EQ(drops(DropReason::kArpMalformed), ++expected) << length;
  }
  EXPECT_THAT(net->TakeSent(), IsEmpty());
  EXPECT_EQ(table().size(), 0u);
}

// Covers: rfc:ARP-3
TEST_F(ArpTest, OtherHardwareOrProtocolIsMalformed) {
  const ArpArgs good = {.sender_mac = kPeerMac, .sender_ip = kPeer4, .target_ip = kHost4};
  ArpArgs hardware = good, protocol = good, hlen = good, plen = good;
  hardware.hardware_type = 6;
  protocol.protocol_type = 0x86dd;
  hlen.hardware_length = 8;
  plen.protocol_length = 16;
  for (const ArpArgs& bad : {hardware, protocol, hlen, plen}) Receive(bad);
  EXPECT_EQ(drops(DropReason::kArpMalformed), 4u);
  EXPECT_THAT(net->TakeSent(), IsEmpty());
  EXPECT_EQ(table().size(), 0u);
}

// Covers: rfc:ARP-7
TEST_F(ArpTest, SenderMacMustBeAStation) {
  MakePeerReachable();
  for (const MacAddress& mac :
       {MacAddress(), MacAddress::kBroadcast(), MacAddress(0x01, 0, 0x5e, 0, 0, 1)}) {
    for (const uint16_t operation : {uint16_t{1}, uint16_t{2}}) {
      Receive({.operation = operation,
               .sender_mac = mac,
               .sender_ip = kPeer4,
               .target_mac = kHostMac,
               .target_ip = kHost4});
    }
  }
  EXPECT_EQ(drops(DropReason::kArpBadSenderMac), 6u);
  EXPECT_EQ(table().Find(kPeer4)->mac, kPeerMac);
  EXPECT_THAT(net->TakeSent(), IsEmpty());
}

TEST_F(ArpTest, OurOwnMacAsSenderIsALoop) {
  Receive({.sender_mac = kHostMac, .sender_ip = kHost4, .target_ip = kHost4});
  EXPECT_EQ(drops(DropReason::kLinkSourceOwn), 1u);
  EXPECT_EQ(stack->mib().arp.conflicts.value(), 0u);
  EXPECT_THAT(net->TakeSent(), IsEmpty());
}

// Covers: rfc:IP-05 for ARP's sender
TEST_F(ArpTest, SenderIpMustBeAHost) {
  for (const Ipv4Address& ip :
       {Ipv4Address(224, 0, 0, 1), Ipv4Address(255, 255, 255, 255), Ipv4Address(240, 0, 0, 1),
        Ipv4Address(127, 0, 0, 1), Ipv4Address(0, 0, 0, 7), Ipv4Address(192, 0, 255, 255),
        Ipv4Address(192, 0, 0, 0)}) {
    Receive({.sender_mac = kPeerMac, .sender_ip = ip, .target_ip = kHost4});
    EXPECT_EQ(table().Find(ip), std::nullopt) << ip.ToString();
  }
  EXPECT_EQ(drops(DropReason::kArpBadSenderIp), 7u);
  EXPECT_THAT(net->TakeSent(), IsEmpty());
}

// Covers: bug:B78
TEST_F(ArpTest, StaticEntryIsKept) {
  ASSERT_TRUE(table().AddPermanent(kPeer4, kPeerMac).ok());
  Receive({.operation = 2,
           .sender_mac = kOtherMac,
           .sender_ip = kPeer4,
           .target_mac = kHostMac,
           .target_ip = kHost4},
          kHostMac);
  Receive({.sender_mac = kOtherMac, .sender_ip = kPeer4, .target_ip = kPeer4});
  EXPECT_EQ(table().Find(kPeer4)->mac, kPeerMac);
  EXPECT_EQ(PeerState(), NeighborState::kPermanent);
  EXPECT_EQ(drops(DropReason::kArpStaticEntry), 1u);
  EXPECT_EQ(stack->mib().neighbor.static_kept.value(), 2u);
}

TEST_F(ArpTest, NoMemoryForAReplyIsCounted) {
  testutil::NetHarness::Options options;
  options.context.pool.budget_bytes = size_t{2} << 20;
  Make(Quiet(), true, options);
  std::vector<PacketPtr> hoard;
  while (PacketPtr packet = stack->pool().AllocatePacket(100)) hoard.push_back(std::move(packet));
  interface->arp().Solicit(kPeer4, std::nullopt, kHost4);
  EXPECT_EQ(drops(DropReason::kTxNoBuffer), 1u);
  hoard.clear();
}

}  // namespace
}  // namespace tapwire
