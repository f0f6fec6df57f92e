// SPDX-License-Identifier: Apache-2.0
// IPv4 input against frames made byte by byte: what is delivered, what is dropped under which name.
#include <algorithm>
#include <string>

#include "stack/ipv4/ipv4_options.h"
#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Ipv4InputTest : public IpTestBase {
 protected:
  Frame Datagram(Ipv4Args args = {}) {
    if (args.source.IsUnspecified()) args.source = kPeer4;
    if (args.destination.IsUnspecified()) args.destination = kHost4;
    if (!args.protocol) args.protocol = kTestProtocol;
    return FromPeer().Ipv4(args);
  }
  // Injects and expects that nothing but a count under `reason` comes of it.
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

// Covers: rfc:IP-21, rfc:IP-08
TEST_F(Ipv4InputTest, DatagramReachesItsTransportWithTheFactsOfItsHeader) {
  net_.Inject(Datagram({.ttl = 7, .tos = 0xb8}).Payload("hello").Build());
  ASSERT_EQ(transport_.received.size(), 1u);
  const auto& got = transport_.received[0];
  EXPECT_EQ(got.bytes, (ByteVector{'h', 'e', 'l', 'l', 'o'}));
  EXPECT_EQ(got.info.source, IpAddress(kPeer4));
  EXPECT_EQ(got.info.destination, IpAddress(kHost4));
  EXPECT_EQ(got.info.protocol, kTestProtocol);
  EXPECT_EQ(got.info.ttl, 7);
  EXPECT_EQ(got.info.tos, 0xb8);
  EXPECT_EQ(got.info.delivery, IpDelivery::kUnicast);
  EXPECT_FALSE(got.info.link_broadcast);
  EXPECT_FALSE(got.info.reassembled);
  EXPECT_EQ(got.info.interface, interface_);
  EXPECT_EQ(stack_->mib().ip.in_receives.value(), 1u);
  EXPECT_EQ(stack_->mib().ip.in_octets.value(), 25u);
  EXPECT_EQ(stack_->mib().ip.in_delivers.value(), 1u);
}

TEST_F(Ipv4InputTest, WrongVersionIsDropped) {  // Covers: rfc:IP-01
  for (const uint8_t version : ByteVector{0, 3, 5, 6, 15}) {
    ExpectDropped(Datagram({.version = version}).Payload("x").Build(), DropReason::kIpv4BadVersion);
  }
  EXPECT_EQ(stack_->mib().ip.in_hdr_errors.value(), 5u);
}

TEST_F(Ipv4InputTest, WrongHeaderChecksumIsDropped) {  // Covers: rfc:IP-02
  ByteVector frame = Datagram().Payload("x").Build();
  frame[14 + 8] ^= 0x01;  // TTL, as if a router had forgotten the sum
  ExpectDropped(frame, DropReason::kIpv4BadChecksum);
  EXPECT_EQ(stack_->mib().ip.in_csum_errors.value(), 1u);
}

TEST_F(Ipv4InputTest, ImpossibleLengthsAreDropped) {  // Covers: rfc:IP-03, bug:B67, bug:B65
  for (const uint8_t ihl : ByteVector{0, 1, 2, 3, 4}) {
    ExpectDropped(Datagram({.ihl = ihl}).Payload(Pattern(40)).Build(),
                  DropReason::kIpv4BadHeaderLength);
  }
  // 15 words of header in a packet of 24 bytes.
  ExpectDropped(Datagram({.ihl = 15}).Payload(Pattern(4)).Build(),
                DropReason::kIpv4BadHeaderLength);
  // Total length below the header, and beyond the frame.
  for (const uint16_t total : std::vector<uint16_t>{0, 19}) {
    ExpectDropped(Datagram({.total_length = total}).Payload(Pattern(40)).Build(),
                  DropReason::kIpv4BadTotalLength);
  }
  ExpectDropped(Datagram({.ihl = 6, .total_length = 23}).Payload(Pattern(40)).Build(),
                DropReason::kIpv4BadTotalLength);
  for (const uint16_t total : std::vector<uint16_t>{61, 1500, 65535}) {
    ExpectDropped(Datagram({.total_length = total}).Payload(Pattern(40)).Build(),
                  DropReason::kIpv4BadTotalLength);
  }
  EXPECT_EQ(stack_->mib().ip.in_truncated_pkts.value(), 3u);
  for (const size_t length : std::vector<size_t>{0, 1, 19}) {
    ByteVector frame = Datagram().Build();
    frame.resize(14 + length);
    ExpectDropped(frame, DropReason::kIpv4Truncated);
  }
}

TEST_F(Ipv4InputTest, LinkPaddingIsCutOff) {  // Covers: rfc:IP-04, rfc:LNK-2
  net_.Inject(Datagram().Payload("x").Trailer(Pattern(25, 77)).Build());
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].bytes, ByteVector{'x'});
}

TEST_F(Ipv4InputTest, DatagramWithoutDataIsDelivered) { ExpectDelivered(Datagram().Pad().Build()); }

TEST_F(Ipv4InputTest, SourceThatIsNoHostIsDropped) {  // Covers: rfc:IP-05
  const Ipv4Address martians[] = {{255, 255, 255, 255}, {224, 0, 0, 1}, {239, 1, 2, 3},
                                  {240, 0, 0, 1},       {0, 0, 0, 1},   {0, 1, 2, 3},
                                  {10, 0, 0, 255},      {10, 0, 0, 0}};
  for (const Ipv4Address source : martians) {
    ExpectDropped(Datagram({.source = source}).Payload("x").Build(), DropReason::kIpv4MartianSource,
                  source.ToString());
  }
  ExpectDropped(FromPeer().Ipv4({.destination = kHost4, .protocol = kTestProtocol}).Build(),
                DropReason::kIpv4MartianSource, "unspecified");
  EXPECT_EQ(stack_->mib().ip.in_addr_errors.value(), 9u);
}

// Covers: rfc:IP-07, bug:B75
TEST_F(Ipv4InputTest, LoopbackAddressesFromTheWireAreDropped) {
  ExpectDropped(Datagram({.source = {127, 0, 0, 1}}).Build(), DropReason::kIpv4LoopbackFromWire);
  ExpectDropped(Datagram({.source = {127, 255, 0, 3}}).Build(), DropReason::kIpv4LoopbackFromWire);
  ExpectDropped(Datagram({.destination = {127, 0, 0, 1}}).Build(),
                DropReason::kIpv4LoopbackFromWire);
  ExpectDropped(Datagram({.destination = {127, 0, 0, 2}}).Build(),
                DropReason::kIpv4LoopbackFromWire);
}

TEST_F(Ipv4InputTest, OwnAddressAsSourceIsDropped) {  // Covers: rfc:IP-05
  ExpectDropped(Datagram({.source = kHost4}).Build(), DropReason::kIpv4SourceOwn);
  ExpectDropped(
      Frame()
          .Eth(kPeerMac, kBroadcastMac)
          .Ipv4({.source = kHost4, .destination = {10, 0, 0, 255}, .protocol = kTestProtocol})
          .Build(),
      DropReason::kIpv4SourceOwn);
}

TEST_F(Ipv4InputTest, HostWithoutAddressMaySpeakToEverybody) {  // Covers: rfc:IP-05
  const Ipv4Address none;
  ExpectDelivered(
      Frame()
          .Eth(kPeerMac, kBroadcastMac)
          .Ipv4({.source = none, .destination = {255, 255, 255, 255}, .protocol = kTestProtocol})
          .Build());
  // bug:B76: an IGMP query from 0.0.0.0 must reach IGMP; other multicast must not get so far.
  const MacAddress group_mac{0x01, 0, 0x5e, 0, 0, 1};
  ExpectDropped(
      Frame()
          .Eth(kPeerMac, group_mac)
          .Ipv4({.source = none, .destination = {224, 0, 0, 1}, .protocol = kTestProtocol})
          .Build(),
      DropReason::kIpv4MartianSource);
  const uint64_t martians = Drops(DropReason::kIpv4MartianSource);
  net_.Inject(
      Frame()
          .Eth(kPeerMac, group_mac)
          .Ipv4(
              {.source = none, .destination = {224, 0, 0, 1}, .ttl = 1, .options = {0x94, 4, 0, 0}})
          .Igmp({.max_response = 100})
          .Build());
  EXPECT_EQ(Drops(DropReason::kIpv4MartianSource), martians);
  net_.Advance(std::chrono::seconds(20));
}

TEST_F(Ipv4InputTest, DestinationThatIsNotOursIsDropped) {  // Covers: rfc:IP-06
  ExpectDropped(Datagram({.destination = {10, 0, 0, 3}}).Build(), DropReason::kIpv4NotOurs,
                "a neighbour's");
  ExpectDropped(Datagram({.destination = kFar4}).Build(), DropReason::kIpv4ForwardingOff,
                "beyond us");
  ExpectDropped(Datagram({.destination = {240, 0, 0, 1}}).Build(),
                DropReason::kIpv4MartianDestination);
  ExpectDropped(Datagram({.destination = {0, 0, 0, 9}}).Build(),
                DropReason::kIpv4MartianDestination);
}

TEST_F(Ipv4InputTest, TentativeAddressIsNotOursYet) {
  stack_->config().duplicate_address_detection = true;
  stack_->config().arp_probe = true;
  ASSERT_TRUE(interface_->AddAddress({Ipv4Address{10, 0, 0, 77}, 24}).ok());
  ExpectDropped(Datagram({.destination = {10, 0, 0, 77}}).Build(), DropReason::kIpv4NotOurs);
  net_.Advance(std::chrono::seconds(30));
  net_.TakeSent();
}

TEST_F(Ipv4InputTest, AddressOfAnotherInterfaceIsOurs) {  // RFC 1122 §3.3.4.2, weak model
  TestDevice& other = net_.AddDevice({.name = "test1", .mac = {2, 0, 0, 0, 0, 2}});
  Interface* interface = *stack_->AddInterface(other);
  ASSERT_TRUE(interface->AddAddress({Ipv4Address{10, 7, 0, 1}, 24}).ok());
  ExpectDelivered(Datagram({.destination = {10, 7, 0, 1}}).Build());
  // The broadcast address of the subnet over there is not for us to spread.
  ExpectDropped(Datagram({.destination = {10, 7, 0, 255}}).Build(),
                DropReason::kIpv4DirectedBroadcast);
  net_.Advance(std::chrono::seconds(20));
}

TEST_F(Ipv4InputTest, UnicastInALinkBroadcastIsDropped) {  // Covers: rfc:LNK-3
  ExpectDropped(Frame()
                    .Eth(kPeerMac, kBroadcastMac)
                    .Ipv4({.source = kPeer4, .destination = kHost4, .protocol = kTestProtocol})
                    .Build(),
                DropReason::kIpv4LinkBroadcastUnicast);
  ExpectDropped(Frame()
                    .Eth(kPeerMac, {0x01, 0, 0x5e, 0, 0, 1})
                    .Ipv4({.source = kPeer4, .destination = kHost4, .protocol = kTestProtocol})
                    .Build(),
                DropReason::kIpv4LinkBroadcastUnicast);
}

TEST_F(Ipv4InputTest, AllFormsOfBroadcastAreReceived) {  // Covers: rfc:IP-24, rfc:IP-06
  const Ipv4Address forms[] = {{255, 255, 255, 255}, {10, 0, 0, 255}, {10, 0, 0, 0}, {0, 0, 0, 0}};
  for (const Ipv4Address destination : forms) {
    net_.Inject(Frame()
                    .Eth(kPeerMac, kBroadcastMac)
                    .Ipv4({.source = kPeer4, .destination = destination, .protocol = kTestProtocol})
                    .Build());
    ASSERT_EQ(transport_.received.size(), 1u) << destination.ToString();
    EXPECT_EQ(transport_.received[0].info.delivery, IpDelivery::kBroadcast);
    EXPECT_TRUE(transport_.received[0].info.link_broadcast);
    transport_.received.clear();
  }
  EXPECT_EQ(stack_->mib().ip.in_bcast_pkts.value(), 4u);
}

TEST_F(Ipv4InputTest, OnlyJoinedGroupsAreReceived) {  // Covers: rfc:IP-25
  const Ipv4Address group{239, 1, 2, 3};
  const auto frame = [&](Ipv4Address destination) {
    return Frame()
        .Eth(kPeerMac, MulticastMac(destination))
        .Ipv4({.source = kPeer4, .destination = destination, .protocol = kTestProtocol})
        .Build();
  };
  net_.device().SetPromiscuous(true);  // a filter of the device may be imperfect; ours is not
  ExpectDropped(frame(group), DropReason::kIpv4MulticastFilter);
  ExpectDelivered(frame({224, 0, 0, 1}), "all systems");
  ASSERT_TRUE(interface_->JoinGroup(group).ok());
  net_.Inject(frame(group));
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].info.delivery, IpDelivery::kMulticast);
  transport_.received.clear();
  // Same MAC, another group (RFC 1112 §6.4 maps 32 groups to one).
  net_.TakeSent();
  ExpectDropped(frame({224, 129, 2, 3}), DropReason::kIpv4MulticastFilter);
  EXPECT_EQ(stack_->mib().ip.in_mcast_pkts.value(), 2u);
  ASSERT_TRUE(interface_->LeaveGroup(group).ok());
  net_.Advance(std::chrono::seconds(20));
}

TEST_F(Ipv4InputTest, SmallTtlIsNoReasonToDrop) {  // Covers: rfc:IP-20
  ExpectDelivered(Datagram({.ttl = 1}).Build());
  ExpectDelivered(Datagram({.ttl = 0}).Build());
}

TEST_F(Ipv4InputTest, OddFlagsAreNoReasonToDrop) {  // Covers: rfc:IP-18
  ExpectDelivered(Datagram({.reserved_flag = true}).Build());
  ExpectDelivered(Datagram({.id = 0, .dont_fragment = true}).Build());
  ExpectDelivered(Datagram({.id = 0, .dont_fragment = false}).Build());
}

TEST_F(Ipv4InputTest, HeaderSpreadOverSlabsIsRead) {
  // A device may hand up three bytes in the head and the rest in a fragment.
  const ByteVector bytes = Frame()
                               .Ipv4({.source = kPeer4,
                                      .destination = kHost4,
                                      .options = ByteVector(40, 1),
                                      .protocol = kTestProtocol})
                               .Payload("data")
                               .Build();
  PacketPtr packet = stack_->pool().AllocatePacket(3);
  std::ranges::copy(std::span(bytes).first(3), packet->Put(3).begin());
  SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kSmall);
  std::ranges::copy(std::span(bytes).subspan(3), slab.data());
  ASSERT_TRUE(packet->AddFrag(slab, 0, bytes.size() - 3));
  EXPECT_EQ(stack_->ipv4().Input(std::move(packet), *interface_), DropReason::kNone);
  ASSERT_EQ(transport_.received.size(), 1u);
  EXPECT_EQ(transport_.received[0].bytes, (ByteVector{'d', 'a', 't', 'a'}));
}

TEST_F(Ipv4InputTest, UnknownOptionsAreIgnored) {  // Covers: rfc:IP-22
  ExpectDelivered(Datagram({.options = {1, 1, 1, 1}}).Build(), "no-operation");
  ExpectDelivered(Datagram({.options = {0x9e, 4, 1, 2}}).Build(), "unknown, copied");
  ExpectDelivered(Datagram({.options = {0x1e, 3, 7, 0}}).Build(), "unknown");
  ExpectDelivered(Datagram({.options = {0, 0xff, 0xff, 0xff}}).Build(),
                  "what follows the end of the list");
  ExpectDelivered(Datagram({.options = {0x94, 4, 0, 0}}).Build(), "router alert");
}

// RFC 1122 §3.2.2.5 and RFC 792: the pointer names the byte at fault.
TEST_F(Ipv4InputTest, MalformedOptionsAreAnsweredWithAPointer) {  // Covers: rfc:IP-22, bug:B67
  const struct {
    ByteVector options;
    uint8_t pointer;
    const char* what;
  } cases[] = {
      {{0x9e, 0, 0, 0}, 20, "length 0"},
      {{0x9e, 1, 0, 0}, 20, "length 1"},
      {{1, 0x9e, 4, 0}, 21, "beyond the header"},
      {{1, 1, 1, 0x9e}, 23, "no room for a length"},
      {ByteVector(40, 0x9e), 20, "15 words, all of them garbage"},
      {{7, 2, 1, 1}, 21, "record route without a pointer"},
      {{7, 7, 3, 0, 0, 0, 0, 0}, 22, "record route pointer into its own header"},
      {{68, 3, 5, 0}, 21, "timestamp too short"},
      {{68, 8, 4, 0, 0, 0, 0, 0}, 22, "timestamp pointer into its own header"},
  };
  for (const auto& c : cases) {
    const uint64_t before = Drops(DropReason::kIpv4BadOptions);
    net_.Inject(Datagram({.options = c.options}).Payload(Pattern(8)).Build());
    EXPECT_EQ(Drops(DropReason::kIpv4BadOptions), before + 1) << c.what;
    EXPECT_THAT(net_.TakeSent(),
                ElementsAre(IsIpv4(DstIs(kPeer4), IsIcmpv4(TypeIs(12), CodeIs(0),
                                                           RestIs(uint32_t{c.pointer} << 24)))))
        << c.what;
  }
  EXPECT_THAT(transport_.received, IsEmpty());
}

TEST_F(Ipv4InputTest, SourceRoutesAreRefused) {  // Covers: rfc:IP-22
  // Loose and strict, with a hop left and completed.
  ExpectDropped(Datagram({.options = {131, 7, 4, 10, 0, 0, 9, 0}}).Build(),
                DropReason::kIpv4SourceRoute);
  ExpectDropped(Datagram({.options = {137, 7, 4, 10, 0, 0, 9, 0}}).Build(),
                DropReason::kIpv4SourceRoute);
  ExpectDropped(Datagram({.options = {131, 7, 8, 10, 0, 0, 9, 0}}).Build(),
                DropReason::kIpv4SourceRoute);
}

TEST_F(Ipv4InputTest, FullRecordRouteIsNotOverrun) {  // Covers: rfc:IP-22
  // Pointer behind the last slot, and far behind: nothing to write, nothing written.
  ExpectDelivered(Datagram({.options = {7, 7, 8, 1, 2, 3, 4, 0}}).Build());
  ExpectDelivered(Datagram({.options = {7, 7, 255, 1, 2, 3, 4, 0}}).Build());
  ExpectDelivered(Datagram({.options = {7, 7, 4, 0, 0, 0, 0, 0}}).Build());
  ExpectDelivered(Datagram({.options = {68, 8, 9, 0xf1, 1, 2, 3, 4}}).Build());
}

TEST_F(Ipv4InputTest, NoMemoryToReadAHeaderIsCounted) {
  const ByteVector bytes =
      Frame()
          .Ipv4({.source = kPeer4, .destination = kHost4, .protocol = kTestProtocol})
          .Payload("data")
          .Build();
  // Head slab full to the last byte, the header behind it in a fragment: it has to move.
  PacketPtr packet = stack_->pool().AllocatePacket(1, kSmallSlabBytes - 1);
  packet->Put(1)[0] = bytes[0];
  SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kSmall);
  std::ranges::copy(std::span(bytes).subspan(1), slab.data());
  ASSERT_TRUE(packet->AddFrag(slab, 0, bytes.size() - 1));
  std::vector<SlabRef> hoard;
  for (const SlabClass c : {SlabClass::kJumbo, SlabClass::kLarge, SlabClass::kSmall}) {
    while (SlabRef taken = stack_->pool().AllocateSlab(c)) hoard.push_back(std::move(taken));
  }
  EXPECT_EQ(stack_->ipv4().Input(std::move(packet), *interface_), DropReason::kLinkNoBuffer);
  EXPECT_EQ(stack_->mib().ip.in_discards.value(), 1u);
}

}  // namespace
}  // namespace tapwire
