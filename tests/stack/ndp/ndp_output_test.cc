// SPDX-License-Identifier: Apache-2.0
// The solicitations that a resolution sends (RFC 4861 §7.2.2, §7.3.3), byte for byte.
#include <chrono>

#include "stack/ndp/ndp.h"
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::ByteVector;
using testutil::Frame;
using testutil::IsFrame;
using testutil::IsNs;
using testutil::kHost6;
using testutil::kHostMac;
using testutil::kPeer6;
using testutil::kPeerMac;
using testutil::SrcIs;

const Ipv6Address kPeerSolicitedNode = *Ipv6Address::Parse("ff02::1:ff00:2");
constexpr MacAddress kPeerSolicitedNodeMac{0x33, 0x33, 0xff, 0, 0, 2};
const Ipv6Address kLinkLocal = *Ipv6Address::Parse("fe80::1");
const Ipv6Address kPeerLinkLocal = *Ipv6Address::Parse("fe80::2");

// A question for the MAC of `target`: to its group, or to itself when `unicast`.
ByteVector Question(const Ipv6Address& source, const Ipv6Address& target, bool unicast = false) {
  return Frame()
      .Eth(kHostMac, unicast ? kPeerMac : kPeerSolicitedNodeMac)
      .Ipv6({.source = source,
             .destination = unicast ? target : kPeerSolicitedNode,
             .hop_limit = 255})
      .NeighborSolicitation({.target = target, .link_address = kHostMac})
      .Build();
}

class NdpOutputTest : public testutil::HostTest {
 protected:
  void SetUp() override { Make(); }
  NeighborTable& neighbors() { return interface->neighbors(IpFamily::kV6); }
  std::vector<ByteVector> RunAndTake() {
    net->Run();
    return net->TakeSent();
  }
};

// Covers: rfc:ND-04
TEST_F(NdpOutputTest, AsksThreeTimesASecondApartThenReports) {
  stack->RegisterTransport(testutil::RecordingTransport::kProtocol, &transport);
  const Time start = net->now();
  SendTo(kPeer6, 100);
  net->Advance(2999ms);
  std::vector<testutil::SentFrame> sent = net->TakeSentFrames();
  ASSERT_THAT(sent, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sent[i].time - start, i * 1s);
    EXPECT_THAT(sent[i].bytes, IsFrame(Question(kHost6, kPeer6)));
  }
  EXPECT_THAT(transport.errors, IsEmpty());
  net->Advance(1ms);
  ASSERT_THAT(transport.errors, SizeIs(1));
  // RFC 4443 §3.1: address unreachable.
  EXPECT_EQ(transport.errors[0].kind, IcmpErrorKind::kHostUnreachable);
  EXPECT_EQ(transport.errors[0].type, 1);
  EXPECT_EQ(transport.errors[0].code, 3);
  EXPECT_EQ(transport.errors[0].destination, IpAddress(kPeer6));
  EXPECT_EQ(drops(DropReason::kNeighborUnresolved), 1u);
  EXPECT_EQ(stack->mib().icmp6.out_neighbor_solicits.value(), 3u);
}

// Covers: rfc:ND-05: a neighbour that is doubted is asked by itself
TEST_F(NdpOutputTest, ProbesAreUnicast) {
  SendTo(kPeer6);
  AnswerFor(kPeer6, kPeerMac);
  net->Advance(60s);  // no longer REACHABLE
  SendTo(kPeer6);
  RunAndTake();
  net->Advance(5s);  // DELAY_FIRST_PROBE_TIME
  EXPECT_THAT(net->TakeSent(), ElementsAre(IsFrame(Question(kHost6, kPeer6, /*unicast=*/true))));
}

// RFC 4861 §7.2.2: the source of the packet that asks if it is ours, else any of the interface's.
TEST_F(NdpOutputTest, QuestionComesFromTheAddressOfTheWaitingPacket) {
  const Ipv6Address second = *Ipv6Address::Parse("2001:db8::5");
  ASSERT_TRUE(interface->AddAddress({second, 64}).ok());
  ASSERT_TRUE(interface->AddAddress({kLinkLocal, 64}).ok());
  Settle();
  const auto route = stack->FindRoute({.destination = kPeer6, .source = second});
  ASSERT_TRUE(route.ok()) << route.status();
  stack->SendIp(PacketFromBytes(stack->pool(), testutil::Pattern(8)), *route,
                {.protocol = testutil::RecordingTransport::kProtocol});
  EXPECT_THAT(RunAndTake(), ElementsAre(IsFrame(Question(second, kPeer6))));
}

TEST_F(NdpOutputTest, QuestionWithoutAPacketComesFromTheLinkLocalAddress) {
  ASSERT_TRUE(interface->AddAddress({kLinkLocal, 64}).ok());
  Settle();
  neighbors().Resolve(kPeerLinkLocal, Ipv6Address());
  EXPECT_THAT(RunAndTake(), ElementsAre(IsFrame(Question(kLinkLocal, kPeerLinkLocal))));
}

TEST_F(NdpOutputTest, QuestionWithoutALinkLocalAddressComesFromAnother) {
  neighbors().Resolve(kPeer6, Ipv6Address());
  EXPECT_THAT(RunAndTake(), ElementsAre(IsFrame(Question(kHost6, kPeer6))));
}

// RFC 4862 §5.4: a tentative address is no source, and :: is for its detection alone.
TEST_F(NdpOutputTest, NoUsableAddressNoQuestion) {
  StackConfig config;
  config.link_local_address = false;
  Make(config, /*addresses=*/false);
  ASSERT_TRUE(interface->AddAddress({kHost6, 64}).ok());
  neighbors().Resolve(kPeer6, Ipv6Address());
  net->Run();
  EXPECT_THAT(TakeFrames(), IsEmpty());
  net->Advance(10s);
  EXPECT_FALSE(neighbors().Find(kPeer6).has_value());
}

TEST_F(NdpOutputTest, LinkLocalNeighbourIsAskedFromALinkLocalAddress) {
  ASSERT_TRUE(interface->AddAddress({kLinkLocal, 64}).ok());
  Settle();
  const auto route =
      stack->FindRoute({.destination = kPeerLinkLocal, .ifindex = interface->index()});
  ASSERT_TRUE(route.ok()) << route.status();
  stack->SendIp(PacketFromBytes(stack->pool(), testutil::Pattern(8)), *route,
                {.protocol = testutil::RecordingTransport::kProtocol});
  EXPECT_THAT(RunAndTake(), ElementsAre(IsFrame(Question(kLinkLocal, kPeerLinkLocal))));
}

// No memory for a question: the next one, a second later, does as well.
TEST_F(NdpOutputTest, LostQuestionIsAskedAgain) {
  device().FailSends(netdev::TxResult::kNoBuffer);
  SendTo(kPeer6);
  EXPECT_THAT(RunAndTake(), IsEmpty());
  device().StopFailing();
  net->Advance(1s);
  EXPECT_THAT(net->TakeSent(), ElementsAre(IsNs(SrcIs(kHost6))));
}

}  // namespace
}  // namespace tapwire
