// SPDX-License-Identifier: Apache-2.0
// What the link layer lets through: RFC 894 and RFC 1042 framing, the MAC filter, and every kind of
// frame that is dropped, each under its reason.
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::ByteVector;
using testutil::Frame;
using testutil::kHost4;
using testutil::kHost6;
using testutil::kHostMac;
using testutil::kOtherMac;
using testutil::kPeer4;
using testutil::kPeer6;
using testutil::kPeerMac;
using testutil::Pattern;
using testutil::RecordingTransport;

class EthInputTest : public testutil::HostFamilyTest {
 protected:
  void SetUp() override {
    Make();
    stack->RegisterTransport(RecordingTransport::kProtocol, &transport);
  }
  void TearDown() override { stack->RegisterTransport(RecordingTransport::kProtocol, nullptr); }

  // An IP datagram of the recording transport with `size` bytes of data.
  ByteVector Datagram(size_t size = 10) const {
    Frame frame;
    if (v4()) {
      frame.Ipv4(
          {.source = kPeer4, .destination = kHost4, .protocol = RecordingTransport::kProtocol});
    } else {
      frame.Ipv6(
          {.source = kPeer6, .destination = kHost6, .next_header = RecordingTransport::kProtocol});
    }
    return frame.Payload(Pattern(size)).Build();
  }
  static uint16_t Type() { return v4() ? 0x0800 : 0x86dd; }
  void Receive(const MacAddress& source, const MacAddress& destination) {
    net->Inject(Frame().Eth(source, destination, Type()).Raw(Datagram()).Build());
  }
};

INSTANTIATE_TEST_SUITE_P(Family, EthInputTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

// Covers: rfc:LNK-1 RFC 894
TEST_P(EthInputTest, EthernetIIFrameForUsIsDelivered) {
  Receive(kPeerMac, kHostMac);
  EXPECT_THAT(transport.lengths, ElementsAre(10));
  EXPECT_EQ(stack->drops().total(), 0u);
}

// Covers: rfc:LNK-2: padding to 60 bytes is no data
TEST_P(EthInputTest, PaddingDoesNotReachTheTransport) {
  net->Inject(Frame().Eth(kPeerMac, kHostMac, Type()).Raw(Datagram(1)).Pad(80).Build());
  EXPECT_THAT(transport.lengths, ElementsAre(1));
}

// 802.3 frame with an LLC/SNAP header: length, AA-AA-03-00-00-00, EtherType (RFC 1042).
ByteVector SnapFrame(uint16_t length, const ByteVector& llc, uint16_t type,
                     const ByteVector& data) {
  ByteVector inner = llc;
  inner.push_back(static_cast<uint8_t>(type >> 8));
  inner.push_back(static_cast<uint8_t>(type));
  inner.insert(inner.end(), data.begin(), data.end());
  return Frame().Eth(kPeerMac, kHostMac, length).Raw(inner).Pad().Build();
}
const ByteVector kLlc = {0xaa, 0xaa, 0x03, 0, 0, 0};

// Covers: rfc:LNK-1 RFC 1122 §2.3.3: RFC 1042 encapsulation SHOULD be received
TEST_P(EthInputTest, SnapFrameIsDelivered) {
  const ByteVector data = Datagram(3);
  net->Inject(SnapFrame(static_cast<uint16_t>(8 + data.size()), kLlc, Type(), data));
  EXPECT_THAT(transport.lengths, ElementsAre(3));
}

// Covers: rfc:LNK-1: K1 = 6 (RFC 1122 §2.3.3) and other LLC frames are not taken for IP
TEST_P(EthInputTest, OtherLlcFramesAreUnknown) {
  const ByteVector data = Datagram();
  const auto length = static_cast<uint16_t>(8 + data.size());
  net->Inject(SnapFrame(length, {0x06, 0x06, 0x03, 0, 0, 0}, Type(), data));
  net->Inject(SnapFrame(length, {0x42, 0x42, 0x03, 0, 0, 0}, Type(), data));  // spanning tree
  net->Inject(SnapFrame(length, {0xaa, 0xaa, 0x03, 0, 0, 1}, Type(), data));  // another OUI
  EXPECT_EQ(drops(DropReason::kLinkUnknownEtherType), 3u);
  EXPECT_THAT(transport.lengths, IsEmpty());
}

TEST_P(EthInputTest, SnapFrameWithAnImpossibleLengthIsUnknown) {
  const ByteVector data = Datagram();
  for (const uint16_t length : {uint16_t{0}, uint16_t{7}, uint16_t{1500}}) {
    net->Inject(SnapFrame(length, kLlc, Type(), data));
  }
  EXPECT_EQ(drops(DropReason::kLinkUnknownEtherType), 3u);
  // Every truncation of a good one: dropped under some reason, never delivered as longer.
  const ByteVector good = SnapFrame(static_cast<uint16_t>(8 + data.size()), kLlc, Type(), data);
  for (size_t n = 14; n < 22 + data.size(); ++n) {
    net->Inject(ByteVector(good.begin(), good.begin() + static_cast<ptrdiff_t>(n)));
  }
  EXPECT_THAT(transport.lengths, IsEmpty());
}

// Covers: rfc:LNK-3
TEST_P(EthInputTest, FrameForAnotherStationIsDroppedEvenWhenPromiscuous) {
  Receive(kPeerMac, kOtherMac);
  device().SetPromiscuous(true);
  Receive(kPeerMac, kOtherMac);
  device().SetPromiscuous(false);
  EXPECT_EQ(drops(DropReason::kLinkOtherHost), 2u);
  EXPECT_THAT(transport.lengths, IsEmpty());
}

// Covers: rfc:LNK-3 RFC 1122 §3.3.6: unicast IP in a broadcast frame is discarded
TEST_P(EthInputTest, UnicastDatagramInABroadcastFrameIsDropped) {
  Receive(kPeerMac, MacAddress::kBroadcast());
  EXPECT_EQ(drops(v4() ? DropReason::kIpv4LinkBroadcastUnicast : DropReason::kIpv6LinkGroupUnicast),
            1u);
  EXPECT_THAT(transport.lengths, IsEmpty());
}

TEST_P(EthInputTest, OnlyJoinedGroupMacsPass) {
  const IpAddress group =
      v4() ? IpAddress(Ipv4Address(239, 1, 2, 3)) : IpAddress(*Ipv6Address::Parse("ff05::1:3"));
  const auto receive = [&] {
    Frame frame;
    frame.Eth(kPeerMac, MulticastMac(group), Type());
    if (v4()) {
      frame.Ipv4(
          {.source = kPeer4, .destination = group.v4(), .protocol = RecordingTransport::kProtocol});
    } else {
      frame.Ipv6({.source = kPeer6,
                  .destination = group.v6(),
                  .next_header = RecordingTransport::kProtocol});
    }
    net->Inject(frame.Payload("to the group").Build());
  };
  receive();
  EXPECT_EQ(drops(DropReason::kLinkMulticastFilter), 1u);
  ASSERT_TRUE(interface->JoinGroup(group).ok());
  receive();
  EXPECT_THAT(transport.infos, SizeIs(1));
  EXPECT_EQ(transport.infos.at(0).delivery, IpDelivery::kMulticast);
  ASSERT_TRUE(interface->LeaveGroup(group).ok());
  receive();
  EXPECT_EQ(drops(DropReason::kLinkMulticastFilter), 2u);
  // A promiscuous device lets the frame in, but IP knows that nobody joined.
  device().SetPromiscuous(true);
  receive();
  device().SetPromiscuous(false);
  EXPECT_EQ(drops(v4() ? DropReason::kIpv4MulticastFilter : DropReason::kIpv6MulticastFilter), 1u);
  EXPECT_THAT(transport.infos, SizeIs(1));
}

// Spoofed sources.
TEST_P(EthInputTest, SourceMustBeAnotherStation) {
  Receive(kHostMac, kHostMac);
  EXPECT_EQ(drops(DropReason::kLinkSourceOwn), 1u);
  Receive(MacAddress::kBroadcast(), kHostMac);
  Receive(MacAddress(0x01, 0, 0x5e, 0, 0, 1), kHostMac);
  EXPECT_EQ(drops(DropReason::kLinkSourceMulticast), 2u);
  EXPECT_THAT(transport.lengths, IsEmpty());
  EXPECT_THAT(TakeFrames(), IsEmpty());
}

// Covers: rfc:LNK-4
TEST_P(EthInputTest, TaggedFramesAreIgnored) {
  for (const uint16_t tpid : {uint16_t{0x8100}, uint16_t{0x88a8}}) {
    net->Inject(Frame()
                    .Eth(kPeerMac, kHostMac)
                    .Vlan({.vid = 5, .tpid = tpid, .ether_type = Type()})
                    .Raw(Datagram())
                    .Build());
  }
  EXPECT_EQ(drops(DropReason::kLinkVlanUnknown), 2u);
  // A tag outside the data, as devices with tag offload deliver it.
  device().Inject(Frame().Eth(kPeerMac, kHostMac, Type()).Raw(Datagram()).Build(), [](Packet& p) {
    p.meta.vlan_present = true;
    p.meta.vlan_tci = 5;
  });
  net->Run();
  EXPECT_EQ(drops(DropReason::kLinkVlanUnknown), 3u);
  net->Inject(Frame().Eth(kPeerMac, kHostMac, 0x8100).Raw(ByteVector{0, 5, 8}).Build());
  EXPECT_EQ(drops(DropReason::kLinkVlanMalformed), 1u);
  EXPECT_THAT(transport.lengths, IsEmpty());
}

TEST_P(EthInputTest, UnknownEtherTypeIsCounted) {
  net->Inject(Frame().Eth(kPeerMac, kHostMac, 0x88cc).Raw(Pattern(46)).Build());
  EXPECT_EQ(drops(DropReason::kLinkUnknownEtherType), 1u);
}

TEST_P(EthInputTest, FrameShorterThanAHeaderNeverGetsHere) {
  net->Inject(Pattern(13));
  EXPECT_EQ(device().drops().value(DropReason::kLinkRunt), 1u);
  net->Inject(Frame().Eth(kPeerMac, kHostMac, Type()).Build());  // a header and nothing else
  EXPECT_EQ(drops(v4() ? DropReason::kIpv4Truncated : DropReason::kIpv6Truncated), 1u);
}

TEST_P(EthInputTest, DetachedInterfaceTakesNothing) {
  stack->RemoveInterface(*interface);
  interface = nullptr;
  Receive(kPeerMac, kHostMac);
  EXPECT_EQ(device().drops().value(DropReason::kLinkNoSink), 1u);
}

}  // namespace
}  // namespace tapwire
