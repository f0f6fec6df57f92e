// SPDX-License-Identifier: Apache-2.0
// IPv6 input: the fixed header and the addresses. Extension headers and fragments have tests of
// their own.
#include <algorithm>
#include <string>

#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using ::testing::IsEmpty;

const Ipv6Address kGroup6 = *Ipv6Address::Parse("ff05::1234");

class Ipv6InputTest : public IpTestBase {
 protected:
  Frame Packet6(Ipv6Args args = {}) {
    if (args.source.IsUnspecified()) args.source = kPeer6;
    if (args.destination.IsUnspecified()) args.destination = kHost6;
    if (!args.next_header) args.next_header = kTestProtocol;
    return FromPeer().Ipv6(args);
  }
  static Frame ToGroup(const Ipv6Address& source, const Ipv6Address& group) {
    return Frame()
        .Eth(kPeerMac, MulticastMac(group))
        .Ipv6({.source = source, .destination = group, .next_header = kTestProtocol});
  }
  void ExpectDropped(const ByteVector& frame, DropReason reason, const std::string& what = "") {
    const uint64_t before = Drops(reason);
    net_.Inject(frame);
    EXPECT_EQ(Drops(reason), before + 1) << DropReasonName(reason) << " " << what;
    EXPECT_THAT(transport_.received, IsEmpty()) << what;
    EXPECT_THAT(net_.TakeSent(), IsEmpty()) << what;
    transport_.received.clear();
  }
  void ExpectDelivered(const ByteVector& frame, const std::string& what = "") {
    const uint64_t dropped = stack_->drops().total();
    net_.Inject(frame);
    EXPECT_EQ(transport_.received.size(), 1u) << what;
    EXPECT_EQ(stack_->drops().total(), dropped) << what;
    transport_.received.clear();
  }
};

TEST_F(Ipv6InputTest, PacketReachesItsTransportWithTheFactsOfItsHeader) {
  net_.Inject(Packet6({.hop_limit = 7, .traffic_class = 0xb8, .flow_label = 0x12345})
                  .Payload("hello")
                  .Build());
  ASSERT_EQ(transport_.received.size(), 1u);
  const auto& got = transport_.received[0];
  EXPECT_EQ(got.bytes, (ByteVector{'h', 'e', 'l', 'l', 'o'}));
  EXPECT_EQ(got.info.source, IpAddress(kPeer6));
  EXPECT_EQ(got.info.destination, IpAddress(kHost6));
  EXPECT_EQ(got.info.protocol, kTestProtocol);
  EXPECT_EQ(got.info.ttl, 7);
  EXPECT_EQ(got.info.tos, 0xb8);
  EXPECT_EQ(got.info.delivery, IpDelivery::kUnicast);
  EXPECT_EQ(got.info.next_header_offset, 6);
  EXPECT_EQ(got.info.interface, interface_);
  EXPECT_EQ(stack_->mib().ip6.in_receives.value(), 1u);
  EXPECT_EQ(stack_->mib().ip6.in_octets.value(), 45u);
  EXPECT_EQ(stack_->mib().ip6.in_delivers.value(), 1u);
}

TEST_F(Ipv6InputTest, MalformedHeadersAreDropped) {  // Covers: bug:B65, bug:B66
  for (const uint8_t version : ByteVector{0, 4, 5, 7, 15}) {
    ExpectDropped(Packet6({.version = version}).Payload("x").Build(), DropReason::kIpv6BadVersion);
  }
  for (const uint16_t length : std::vector<uint16_t>{5, 1500, 65535}) {
    ExpectDropped(Packet6({.payload_length = length}).Payload("four").Build(),
                  DropReason::kIpv6BadPayloadLength);
  }
  EXPECT_EQ(stack_->mib().ip6.in_truncated_pkts.value(), 3u);
  for (const size_t length : std::vector<size_t>{0, 1, 20, 39}) {
    ByteVector frame = Packet6().Build();
    frame.resize(14 + length);
    ExpectDropped(frame, DropReason::kIpv6Truncated, std::to_string(length));
  }
  EXPECT_EQ(stack_->mib().ip6.in_hdr_errors.value(), 12u);
}

TEST_F(Ipv6InputTest, LinkPaddingIsCutOff) {  // Covers: rfc:LNK-2
  net_.Inject(Packet6().Payload("x").Trailer(Pattern(30, 77)).Build());
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].bytes, ByteVector{'x'});
  transport_.received.clear();
  ExpectDelivered(Packet6().Build(), "no data at all");
}

TEST_F(Ipv6InputTest, JumbogramIsDropped) {
  // RFC 2675 §2: payload length 0 and the option in a hop-by-hop header.
  ExpectDropped(Packet6({.next_header = 0, .payload_length = 0})
                    .HopByHop({.options = {0xc2, 4, 0, 1, 0, 0}, .next_header = kTestProtocol})
                    .Payload(Pattern(100))
                    .Build(),
                DropReason::kIpv6Jumbogram);
}

TEST_F(Ipv6InputTest, SourceThatIsNoNodeIsDropped) {
  ExpectDropped(Packet6({.source = *Ipv6Address::Parse("ff02::1")}).Build(),
                DropReason::kIpv6MartianSource);
  ExpectDropped(Packet6({.source = Ipv6Address::FromV4Mapped(kPeer4)}).Build(),
                DropReason::kIpv6MartianSource);
  const Ipv6Args from_nobody{.destination = kHost6, .next_header = kTestProtocol};
  ExpectDropped(FromPeer().Ipv6(from_nobody).Build(), DropReason::kIpv6MartianSource,
                "to one host");
  ExpectDropped(ToGroup(Ipv6Address(), Ipv6Address::AllNodes()).Build(),
                DropReason::kIpv6MartianSource, "not ICMPv6");
  EXPECT_EQ(stack_->mib().ip6.in_addr_errors.value(), 4u);
}

TEST_F(Ipv6InputTest, LoopbackAddressFromTheWireIsDropped) {  // Covers: bug:B75
  ExpectDropped(Packet6({.source = Ipv6Address::kLoopback}).Build(),
                DropReason::kIpv6LoopbackFromWire);
  ExpectDropped(Packet6({.destination = Ipv6Address::kLoopback}).Build(),
                DropReason::kIpv6LoopbackFromWire);
}

TEST_F(Ipv6InputTest, OwnAddressAsSourceIsDropped) {
  ExpectDropped(Packet6({.source = kHost6}).Build(), DropReason::kIpv6SourceOwn);
  ExpectDropped(Packet6({.source = kHostLinkLocal6}).Build(), DropReason::kIpv6SourceOwn);
}

TEST_F(Ipv6InputTest, DestinationThatIsNotOursIsDropped) {
  ExpectDropped(Packet6({.destination = *Ipv6Address::Parse("fd00::3")}).Build(),
                DropReason::kIpv6NotOurs);
  ExpectDropped(Packet6({.destination = *Ipv6Address::Parse("fe80::3")}).Build(),
                DropReason::kIpv6NotOurs);
  ExpectDropped(Packet6({.destination = kFar6}).Build(), DropReason::kIpv6ForwardingOff);
  ExpectDropped(FromPeer().Ipv6({.source = kPeer6, .next_header = kTestProtocol}).Build(),
                DropReason::kIpv6MartianDestination);
}

TEST_F(Ipv6InputTest, TentativeAddressGetsNothing) {  // RFC 4862 §5.4
  stack_->config().duplicate_address_detection = true;
  const Ipv6Address address = *Ipv6Address::Parse("fd00::77");
  ASSERT_TRUE(interface_->AddAddress({address, 64}).ok());
  net_.Run();
  net_.TakeSent();
  ExpectDropped(Packet6({.destination = address}).Build(), DropReason::kIpv6TentativeDestination);
  net_.Advance(std::chrono::seconds(5));
  net_.TakeSent();
  ExpectDelivered(Packet6({.destination = address}).Build());
}

TEST_F(Ipv6InputTest, LinkLocalAddressCountsOnItsOwnLinkOnly) {  // RFC 4007 §6
  TestDevice& other = net_.AddDevice({.name = "test1", .mac = {2, 0, 0, 0, 0, 2}});
  Interface* interface = *stack_->AddInterface(other);
  const Ipv6Address there = *Ipv6Address::Parse("fe80::22");
  const Ipv6Address global = *Ipv6Address::Parse("fd07::1");
  ASSERT_TRUE(interface->AddAddress({there, 64}).ok());
  ASSERT_TRUE(interface->AddAddress({global, 64}).ok());
  ExpectDropped(Packet6({.source = kPeerLinkLocal6, .destination = there}).Build(),
                DropReason::kIpv6NotOurs);
  ExpectDelivered(Packet6({.destination = global}).Build(), "weak model");
  // The same address at a neighbour of this link is not us.
  ExpectDelivered(Packet6({.source = there, .destination = kHostLinkLocal6}).Build());
  net_.Advance(std::chrono::seconds(20));
}

TEST_F(Ipv6InputTest, UnicastInALinkGroupIsDropped) {  // Covers: rfc:LNK-3
  for (const MacAddress& mac : {kBroadcastMac, MulticastMac(Ipv6Address::AllNodes())}) {
    ExpectDropped(Frame()
                      .Eth(kPeerMac, mac)
                      .Ipv6({.source = kPeer6, .destination = kHost6, .next_header = kTestProtocol})
                      .Build(),
                  DropReason::kIpv6LinkGroupUnicast);
  }
}

TEST_F(Ipv6InputTest, OnlyJoinedGroupsAreReceived) {
  net_.device().SetPromiscuous(true);
  ExpectDropped(ToGroup(kPeer6, kGroup6).Build(), DropReason::kIpv6MulticastFilter);
  ExpectDelivered(ToGroup(kPeer6, Ipv6Address::AllNodes()).Build());
  // RFC 4291 §2.7.1: the solicited-node group of our address is joined with it.
  ExpectDelivered(ToGroup(kPeer6, *Ipv6Address::Parse("ff02::1:ff00:2")).Build());
  ASSERT_TRUE(interface_->JoinGroup(kGroup6).ok());
  net_.Inject(ToGroup(kPeer6, kGroup6).Build());
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].info.delivery, IpDelivery::kMulticast);
  EXPECT_TRUE(transport_.received[0].info.link_broadcast);
  EXPECT_EQ(stack_->mib().ip6.in_mcast_pkts.value(), 3u);
  ASSERT_TRUE(interface_->LeaveGroup(kGroup6).ok());
  net_.Advance(std::chrono::seconds(20));
}

TEST_F(Ipv6InputTest, GroupsOfImpossibleScopeAreDropped) {  // RFC 4291 §2.7
  net_.device().SetPromiscuous(true);
  ExpectDropped(ToGroup(kPeer6, *Ipv6Address::Parse("ff00::1")).Build(),
                DropReason::kIpv6MartianDestination);
  ExpectDropped(ToGroup(kPeer6, *Ipv6Address::Parse("ff01::1")).Build(),
                DropReason::kIpv6MartianDestination);
}

TEST_F(Ipv6InputTest, SmallHopLimitIsNoReasonToDrop) {  // Covers: rfc:V6-13
  ExpectDelivered(Packet6({.hop_limit = 1}).Build());
  ExpectDelivered(Packet6({.hop_limit = 0}).Build());
}

TEST_F(Ipv6InputTest, HeadersSpreadOverSlabsAreRead) {
  const ByteVector bytes =
      Frame()
          .Ipv6({.source = kPeer6, .destination = kHost6})
          .DestinationOptions({.options = ByteVector(300, 0), .next_header = kTestProtocol})
          .Payload("data")
          .Build();
  for (const size_t in_head : std::vector<size_t>{3, 40, 41, 50, 300}) {
    PacketPtr packet = stack_->pool().AllocatePacket(in_head);
    std::ranges::copy(std::span(bytes).first(in_head), packet->Put(in_head).begin());
    SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kSmall);
    std::ranges::copy(std::span(bytes).subspan(in_head), slab.data());
    ASSERT_TRUE(packet->AddFrag(slab, 0, bytes.size() - in_head));
    EXPECT_EQ(stack_->ipv6().Input(std::move(packet), *interface_), DropReason::kNone);
    ASSERT_EQ(transport_.received.size(), 1u) << in_head;
    EXPECT_EQ(transport_.received[0].bytes, (ByteVector{'d', 'a', 't', 'a'}));
    transport_.received.clear();
  }
}

TEST_F(Ipv6InputTest, NoMemoryToReadAHeaderIsCounted) {
  const ByteVector bytes =
      Frame()
          .Ipv6({.source = kPeer6, .destination = kHost6})
          .DestinationOptions({.options = ByteVector(300, 0), .next_header = kTestProtocol})
          .Build();
  std::vector<PacketPtr> packets;
  for (const size_t in_head :
       std::vector<size_t>{1, 40, 44}) {  // fixed header, minimum of the next, all of the next
    // Head slab full to the last byte: more bytes do not fit without another one.
    packets.push_back(stack_->pool().AllocatePacket(in_head, kSmallSlabBytes - in_head));
    std::ranges::copy(std::span(bytes).first(in_head), packets.back()->Put(in_head).begin());
    SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kSmall);
    std::ranges::copy(std::span(bytes).subspan(in_head), slab.data());
    ASSERT_TRUE(packets.back()->AddFrag(slab, 0, bytes.size() - in_head));
  }
  std::vector<SlabRef> hoard;
  for (const SlabClass c : {SlabClass::kJumbo, SlabClass::kLarge, SlabClass::kSmall}) {
    while (SlabRef taken = stack_->pool().AllocateSlab(c)) hoard.push_back(std::move(taken));
  }
  for (PacketPtr& packet : packets) {
    EXPECT_EQ(stack_->ipv6().Input(std::move(packet), *interface_), DropReason::kLinkNoBuffer);
    hoard.push_back(stack_->pool().AllocateSlab(SlabClass::kSmall));  // what the packet gave back
    hoard.push_back(stack_->pool().AllocateSlab(SlabClass::kSmall));
  }
  EXPECT_EQ(stack_->mib().ip6.in_discards.value(), 3u);
}

}  // namespace
}  // namespace tapwire
