// SPDX-License-Identifier: Apache-2.0
// The checker's rules for link, IPv4, IPv6 and UDP. Frames come from the packet builder, which
// shares no code with the checker; a sample of the verdicts is compared with tshark in
// checker_file_test.cc.
#include "apps/capture/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/checker_util.h"

namespace tapwire::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testutil::Hex;
using testutil::Pattern;

TEST(CheckerLinkTest, GoodFramesAreClean) {
  EXPECT_THAT(Breaches(Udp4().Payload(Pattern(100)).Build()), IsEmpty());
  EXPECT_THAT(Breaches(Udp6().Payload(Pattern(101)).Build()), IsEmpty());
  EXPECT_THAT(Breaches(Udp4().Payload("x").Pad().Build()), IsEmpty());
  EXPECT_THAT(Breaches(Build()
                           .Eth(kMacA, kMacB)
                           .Vlan({.vid = 7})
                           .Ipv4({.source = kA, .destination = kB})
                           .Udp({.source_port = 1, .destination_port = 2})
                           .Pad(64)
                           .Build()),
              IsEmpty());
}

// Covers: rfc:LNK-2
TEST(CheckerLinkTest, BytesBehindThePacketAreJudged) {
  EXPECT_THAT(Breaches(Udp4().Payload(Pattern(100)).Trailer(Hex("00")).Build()),
              ElementsAre("trailer"));
  EXPECT_THAT(Breaches(Udp4().Trailer(Hex("0000 5a")).Pad().Build()), ElementsAre("padding"));
}

TEST(CheckerLinkTest, ImpossibleLinkHeadersAreFound) {
  EXPECT_THAT(Breaches(Hex("0200000000bb 0200000000aa 08")), ElementsAre("frame-short"));
  EXPECT_THAT(Breaches(Build()
                           .Eth(MacAddress(3, 0, 0, 0, 0, 1), kMacB)
                           .Ipv4({.source = kA, .destination = kB})
                           .Udp({.source_port = 1, .destination_port = 2})
                           .Build()),
              ElementsAre("eth-source"));
  EXPECT_THAT(Breaches(Build().Eth(kMacA, kMacB, 0x05f0).Payload(Pattern(60)).Build()),
              ElementsAre("eth-length"));
  EXPECT_THAT(Breaches(Build().Eth(kMacA, kMacB, 200).Payload(Pattern(60)).Build()),
              ElementsAre("eth-length"));
  EXPECT_THAT(Breaches(Build().Eth(kMacA, kMacB, 60).Payload(Pattern(60)).Build()), IsEmpty());
}

TEST(CheckerLinkTest, VlanTagsAreJudged) {
  const auto tagged = [](uint16_t vid, int tags) {
    Build frame;
    frame.Eth(kMacA, kMacB);
    for (int i = 0; i < tags; ++i) frame.Vlan({.vid = vid});
    return frame.Ipv4({.source = kA, .destination = kB})
        .Udp({.source_port = 1, .destination_port = 2})
        .Payload(Pattern(60))
        .Build();
  };
  EXPECT_THAT(Breaches(tagged(5, 2)), IsEmpty());
  EXPECT_THAT(Breaches(tagged(4095, 1)), ElementsAre("vlan"));
  EXPECT_THAT(Breaches(tagged(5, 3)), ElementsAre("vlan"));
  EXPECT_THAT(Breaches(Build().Eth(kMacA, kMacB, 0x8100).Payload(Hex("0001")).Build()),
              ElementsAre("frame-short"));
}

TEST(CheckerLinkTest, PacketBeyondTheMtuNeedsASegmentationMark) {
  const ByteVector frame = Tcp4({}).Payload(Pattern(1461)).Build();
  EXPECT_THAT(Breaches(frame, {.mtu = 1501}), IsEmpty());
  EXPECT_THAT(Breaches(frame, {.mtu = 1500}), ElementsAre("mtu"));
  EXPECT_THAT(Breaches(frame), IsEmpty());
  EXPECT_THAT(Breaches(frame, {.mtu = 1500, .gso_size = 1460}), IsEmpty());
  EXPECT_THAT(Breaches(frame, {.mtu = 1499, .gso_size = 1460}), ElementsAre("mtu"));
  EXPECT_THAT(Breaches(frame, {.mtu = 1500, .gso_size = 1461}), ElementsAre("gso", "mtu"));
  // A peer's MTU may be larger.
  EXPECT_THAT(Breaches(frame, {.direction = Direction::kReceive, .mtu = 1400}), IsEmpty());
}

// Covers: rfc:LNK-5, rfc:LNK-3
TEST(CheckerLinkTest, LinkAndIpDestinationMustFit) {
  const auto to = [](const MacAddress& mac, const Ipv4Address& ip) {
    return Build()
        .Eth(kMacA, mac)
        .Ipv4({.source = kA, .destination = ip})
        .Udp({.source_port = 1, .destination_port = 2})
        .Payload(Pattern(30))
        .Build();
  };
  const Ipv4Address group(239, 129, 2, 3);
  EXPECT_THAT(Breaches(to(MacAddress::kBroadcast(), Ipv4Address::kLimitedBroadcast)), IsEmpty());
  EXPECT_THAT(Breaches(to(MacAddress::kBroadcast(), Ipv4Address(10, 0, 0, 255))), IsEmpty());
  EXPECT_THAT(Breaches(to(MacAddress::kBroadcast(), group)), IsEmpty());
  EXPECT_THAT(Breaches(to(MacAddress::kBroadcast(), kB)), ElementsAre("link-destination"));
  EXPECT_THAT(Breaches(to(MacAddress(1, 0, 0x5e, 1, 2, 3), group)), IsEmpty());
  EXPECT_THAT(Breaches(to(MacAddress(1, 0, 0x5e, 1, 2, 4), group)),
              ElementsAre("link-destination"));
  EXPECT_THAT(Breaches(to(MacAddress(1, 0, 0x5e, 1, 2, 3), kB)), ElementsAre("link-destination"));
}

TEST(CheckerLinkTest, Ipv6GroupsHaveTheirMac) {
  const Ipv6Address group = Ipv6Address::FromGroups({0xff05, 0, 0, 0, 0, 0, 0x1234, 0x5678});
  const auto to = [&](const MacAddress& mac) {
    return Build()
        .Eth(kMacA, mac)
        .Ipv6({.source = kA6, .destination = group})
        .Udp({.source_port = 1, .destination_port = 2})
        .Build();
  };
  EXPECT_THAT(Breaches(to(MacAddress(0x33, 0x33, 0x12, 0x34, 0x56, 0x78))), IsEmpty());
  EXPECT_THAT(Breaches(to(MacAddress(0x33, 0x33, 0, 0, 0, 1))), ElementsAre("link-destination"));
  EXPECT_THAT(Breaches(to(MacAddress::kBroadcast())), ElementsAre("link-destination"));
}

TEST(CheckerArpTest, GoodArpIsClean) {
  const auto arp = [](const testutil::ArpArgs& args, const MacAddress& to) {
    return Build().Eth(kMacA, to).Arp(args).Pad().Build();
  };
  const MacAddress all = MacAddress::kBroadcast();
  EXPECT_THAT(Breaches(arp({.sender_mac = kMacA, .sender_ip = kA, .target_ip = kB}, all)),
              IsEmpty());
  // Covers: rfc:ARP-9 (the shape of probe and announcement)
  EXPECT_THAT(Breaches(arp({.sender_mac = kMacA, .target_ip = kA}, all)), IsEmpty());
  EXPECT_THAT(Breaches(arp({.sender_mac = kMacA, .sender_ip = kA, .target_ip = kA}, all)),
              IsEmpty());
  EXPECT_THAT(Breaches(arp({.operation = 2,
                            .sender_mac = kMacA,
                            .sender_ip = kA,
                            .target_mac = kMacB,
                            .target_ip = kB},
                           kMacB)),
              IsEmpty());
}

TEST(CheckerArpTest, WrongFieldsAreFound) {
  const testutil::ArpArgs good = {.sender_mac = kMacA, .sender_ip = kA, .target_ip = kB};
  const auto arp = [](const testutil::ArpArgs& args) {
    return Breaches(Build().Eth(kMacA, MacAddress::kBroadcast()).Arp(args).Build());
  };
  testutil::ArpArgs bad = good;
  bad.hardware_type = 6;
  EXPECT_THAT(arp(bad), ElementsAre("arp"));
  bad = good;
  bad.protocol_length = 16;
  EXPECT_THAT(arp(bad), ElementsAre("arp"));
  bad = good;
  bad.operation = 3;
  EXPECT_THAT(arp(bad), ElementsAre("arp"));
  bad = good;
  bad.sender_mac = kMacB;
  EXPECT_THAT(arp(bad), ElementsAre("arp-sender"));
  bad = good;
  bad.sender_ip = Ipv4Address(224, 0, 0, 1);
  EXPECT_THAT(arp(bad), ElementsAre("arp-sender"));
  bad = good;
  bad.operation = 2;
  bad.sender_ip = Ipv4Address();  // a probe is a request
  EXPECT_THAT(arp(bad), ElementsAre("arp-sender"));
  bad = good;
  bad.target_ip = Ipv4Address::kLimitedBroadcast;
  EXPECT_THAT(arp(bad), ElementsAre("arp"));
  EXPECT_THAT(Breaches(Build().Eth(kMacA, kMacB, 0x0806).Payload(Pattern(27)).Build()),
              ElementsAre("frame-short"));
}

TEST(CheckerIpv4Test, HeaderLengthsAreJudged) {
  EXPECT_THAT(Breaches(Ip4({.version = 5}).Payload("x").Build()), ElementsAre("ipv4-header"));
  EXPECT_THAT(Breaches(Ip4({.ihl = 4}).Payload("x").Build()), ElementsAre("ipv4-header"));
  EXPECT_THAT(Breaches(Ip4({.total_length = 19}).Payload("x").Build()), ElementsAre("ipv4-header"));
  EXPECT_THAT(Breaches(Ip4({.total_length = 22}).Payload("x").Build()), ElementsAre("ipv4-header"));
  EXPECT_THAT(Breaches(Build().Eth(kMacA, kMacB, 0x0800).Payload(Hex("45")).Build()),
              ElementsAre("frame-short"));
}

TEST(CheckerIpv4Test, WrongHeaderChecksumIsFoundAndTheRightOneTold) {
  CaptureChecker checker;
  const ByteVector frame = Ip4({.checksum = 0x1234}).Udp({.destination_port = 9}).Build();
  checker.Check({.bytes = frame});
  ASSERT_EQ(checker.report().findings.size(), 1u);
  // By hand: 4500 001c 0000 4000 4011 0a00 0001 0a00 0002 sum to 0xd930 folded, so 0x26cf.
  EXPECT_THAT(checker.report().findings[0].ToString(),
              HasSubstr("frame 1: error: ipv4-checksum: is 0x1234, should be 0x26cf"));
}

TEST(CheckerIpv4Test, FlagsThatContradictAreFound) {
  EXPECT_THAT(Breaches(Ip4({.reserved_flag = true}).Udp({.destination_port = 9}).Build()),
              ElementsAre("ipv4-flags"));
  EXPECT_THAT(Breaches(Ip4({.dont_fragment = true, .more_fragments = true, .protocol = 17})
                           .Payload(Pattern(8))
                           .Build()),
              ElementsAre("ipv4-flags"));
}

// Covers: rfc:IP-20
TEST(CheckerIpv4Test, TtlZeroIsFound) {
  EXPECT_THAT(Breaches(Ip4({.ttl = 0}).Udp({.destination_port = 9}).Build()), ElementsAre("ttl"));
  EXPECT_THAT(Breaches(Ip6({.hop_limit = 0}).Udp({.destination_port = 9}).Build()),
              ElementsAre("ttl"));
}

TEST(CheckerIpv4Test, MalformedOptionsAreFound) {
  const auto with = [](absl::string_view options) {
    return Breaches(Ip4({.options = Hex(options)}).Udp({.destination_port = 9}).Build());
  };
  EXPECT_THAT(with("94040000"), IsEmpty());
  EXPECT_THAT(with("01 07 07 04 00000000"), IsEmpty());
  EXPECT_THAT(with("94 00 0000"), ElementsAre("ipv4-options"));
  EXPECT_THAT(with("94 01 0000"), ElementsAre("ipv4-options"));
  EXPECT_THAT(with("94 05 0000"), ElementsAre("ipv4-options"));
  EXPECT_THAT(with("07 07 03 00000000"), ElementsAre("ipv4-options"));
  EXPECT_THAT(with("44 04 04 00"), ElementsAre("ipv4-options"));
  EXPECT_THAT(with("01 00 01 01"), ElementsAre("ipv4-options"));
}

// Covers: rfc:IP-07, rfc:IP-26
TEST(CheckerIpv4Test, AddressesThatNeverGoOnAWireAreFound) {
  const auto from = [](const Ipv4Address& source, const Ipv4Address& destination) {
    return Breaches(Build()
                        .Eth(kMacA, kMacB)
                        .Ipv4({.source = source, .destination = destination})
                        .Udp({.source_port = 1, .destination_port = 2})
                        .Build());
  };
  EXPECT_THAT(from(Ipv4Address(127, 0, 0, 1), kB), ElementsAre("martian-source"));
  EXPECT_THAT(from(Ipv4Address(224, 0, 0, 1), kB), ElementsAre("martian-source"));
  EXPECT_THAT(from(Ipv4Address::kLimitedBroadcast, kB), ElementsAre("martian-source"));
  EXPECT_THAT(from(Ipv4Address(), kB), ElementsAre("martian-source"));
  EXPECT_THAT(from(Ipv4Address(0, 1, 2, 3), kB), ElementsAre("martian-source"));
  EXPECT_THAT(from(Ipv4Address(250, 1, 2, 3), kB), ElementsAre("martian-source"));
  EXPECT_THAT(from(kA, Ipv4Address(127, 0, 0, 1)), ElementsAre("martian-destination"));
  EXPECT_THAT(from(kA, Ipv4Address()), ElementsAre("martian-destination"));
  EXPECT_THAT(from(kA, Ipv4Address(240, 0, 0, 1)), ElementsAre("martian-destination"));
  EXPECT_THAT(from(kA, kA), ElementsAre("martian-destination"));
}

TEST(CheckerIpv4Test, LoopbackInterfaceMayCarryLoopbackAddresses) {
  const ByteVector frame = Build()
                               .Eth(MacAddress(), MacAddress())
                               .Ipv4({.source = {127, 0, 0, 1}, .destination = {127, 0, 0, 1}})
                               .Udp({.source_port = 1, .destination_port = 2})
                               .Build();
  EXPECT_THAT(Breaches(frame), IsEmpty());
}

TEST(CheckerIpv4Test, DhcpMaySendFromTheUnspecifiedAddress) {
  EXPECT_THAT(Breaches(Build()
                           .Eth(kMacA, MacAddress::kBroadcast())
                           .Ipv4({.destination = Ipv4Address::kLimitedBroadcast})
                           .Udp({.source_port = 68, .destination_port = 67})
                           .Build()),
              IsEmpty());
}

// Covers: rfc:IP-19
TEST(CheckerIpv4Test, IdentificationOfNonAtomicDatagramsMustNotRepeat) {
  const auto datagram = [](uint16_t id, bool df, absl::string_view payload) {
    return Ip4({.id = id, .dont_fragment = df})
        .Udp({.source_port = 1, .destination_port = 2})
        .Payload(payload)
        .Build();
  };
  EXPECT_THAT(Breaches({datagram(7, false, "a"), datagram(8, false, "b")}), IsEmpty());
  EXPECT_THAT(Breaches({datagram(7, false, "a"), datagram(7, false, "b")}), ElementsAre("ipv4-id"));
  // A copy under the same identification is a breach of its sender only.
  EXPECT_THAT(Breaches({datagram(7, false, "a"), datagram(7, false, "a")}), ElementsAre("ipv4-id"));
  EXPECT_THAT(Breaches({datagram(7, false, "a"), datagram(7, false, "a")},
                       {.direction = Direction::kReceive}),
              IsEmpty());
  // Atomic datagrams may carry anything.
  EXPECT_THAT(Breaches({datagram(7, true, "a"), datagram(7, true, "b")}), IsEmpty());
  EXPECT_THAT(Breaches({datagram(7, false, "a"), datagram(7, false, "b")}, {},
                       {.ipv4_id_window_ns = 1'000}),
              IsEmpty());
}

TEST(CheckerFragmentTest, ImpossibleFragmentsAreFound) {
  const auto piece = [](uint16_t offset, bool more, size_t length) {
    return Breaches(Ip4({.id = 1,
                         .dont_fragment = false,
                         .more_fragments = more,
                         .offset = offset,
                         .protocol = 17})
                        .Payload(Pattern(length))
                        .Build());
  };
  EXPECT_THAT(piece(0, true, 16), IsEmpty());
  EXPECT_THAT(piece(0, true, 17), ElementsAre("fragment"));
  EXPECT_THAT(piece(8, false, 0), ElementsAre("fragment"));
  // Covers: rfc:IP-14
  EXPECT_THAT(piece(65504, false, 11), IsEmpty());
  EXPECT_THAT(piece(65504, false, 12), ElementsAre("fragment"));
}

TEST(CheckerFragmentTest, ReassembledDatagramIsJudgedAsAWhole) {
  Build good = Ip4({}).Udp({.source_port = 1, .destination_port = 2}).Payload(Pattern(100));
  Build bad = Ip4({}).Udp({.source_port = 1, .destination_port = 2, .checksum = 0x1234});
  bad.Payload(Pattern(100));
  std::vector<ByteVector> frames = good.BuildFragments(32, 5);
  EXPECT_THAT(Breaches(frames), IsEmpty());
  std::reverse(frames.begin(), frames.end());
  EXPECT_THAT(Breaches(frames), IsEmpty());
  EXPECT_THAT(Breaches(bad.BuildFragments(32, 5)), ElementsAre("checksum"));
  EXPECT_THAT(Breaches(Udp6().Payload(Pattern(1300)).BuildFragments(1232, 9)), IsEmpty());
}

TEST(CheckerFragmentTest, OverlapsAreFoundAndCopiesNoted) {
  Build whole = Ip4({}).Udp({.source_port = 1, .destination_port = 2}).Payload(Pattern(100));
  const std::vector<ByteVector> frames = whole.BuildFragments(32, 5);
  EXPECT_THAT(Breaches({frames[1], frames[1], frames[0], frames[2], frames[3]}), IsEmpty());
  const std::vector<ByteVector> other = whole.BuildFragments(40, 5);
  EXPECT_THAT(Breaches({frames[1], other[0]}), ElementsAre("fragment-overlap"));
  // Same place, other bytes.
  ByteVector changed = frames[2];
  changed.back() ^= 1;
  EXPECT_THAT(Breaches({frames[2], changed}), ElementsAre("fragment-overlap"));
  // Two different ends.
  Build longer = Ip4({}).Udp({.source_port = 1, .destination_port = 2}).Payload(Pattern(136));
  EXPECT_THAT(Breaches({frames[3], longer.BuildFragments(32, 5)[4]}),
              ElementsAre("fragment-overlap"));
}

TEST(CheckerIpv6Test, HeaderAndChainAreJudged) {
  EXPECT_THAT(Breaches(Ip6({.version = 4}).Udp({.destination_port = 9}).Build()),
              ElementsAre("ipv6-header"));
  EXPECT_THAT(Breaches(Ip6({.payload_length = 9}).Udp({.destination_port = 9}).Build()),
              ElementsAre("ipv6-header"));
  const auto udp = [](Build frame) { return Breaches(frame.Udp({.destination_port = 9}).Build()); };
  EXPECT_THAT(udp(Ip6({}).HopByHop({}).DestinationOptions({})), IsEmpty());
  // Covers: rfc:V6-16
  EXPECT_THAT(udp(Ip6({}).DestinationOptions({}).HopByHop({})), ElementsAre("ipv6-extension"));
  EXPECT_THAT(udp(Ip6({}).DestinationOptions({.options = Hex("1e05 00000000")})),
              ElementsAre("ipv6-extension"));
  EXPECT_THAT(udp(Ip6({}).DestinationOptions({.length = 9})), ElementsAre("ipv6-extension"));
  EXPECT_THAT(udp(Ip6({}).Routing({.type = 0})), ElementsAre("ipv6-extension"));
  EXPECT_THAT(udp(Ip6({}).HopByHop({.options = Hex("0104 00000100")})), ElementsAre("padding"));
}

// Covers: rfc:V6-12
TEST(CheckerIpv6Test, AtomicAndNeedlessFragmentsAreFound) {
  EXPECT_THAT(Breaches(Ip6({}).Fragment6({}).Udp({.destination_port = 9}).Build()),
              ElementsAre("ipv6-atomic"));
  // 40 + 8 + 1232 = 1280 fits the smallest link; one byte more does not.
  EXPECT_THAT(Breaches(Udp6().Payload(Pattern(1232)).BuildFragments(1000, 9)),
              ElementsAre("fragment-needless"));
  EXPECT_THAT(Breaches(Udp6().Payload(Pattern(1233)).BuildFragments(1000, 9)), IsEmpty());
}

TEST(CheckerIpv6Test, FirstFragmentHoldsTheHeaderChain) {
  // Covers: rfc:V6-11
  EXPECT_THAT(
      Breaches(Ip6({}).Fragment6({.more = true, .next_header = 6}).Payload(Pattern(16)).Build()),
      ElementsAre("fragment"));
  EXPECT_THAT(
      Breaches(Ip6({}).Fragment6({.more = true, .next_header = 17}).Payload(Pattern(16)).Build()),
      IsEmpty());
  EXPECT_THAT(Breaches(Ip6({})
                           .Fragment6({.more = true, .next_header = 60})
                           .Payload(Hex("11 01 010c 000000000000000000000000"))
                           .Build()),
              ElementsAre("fragment"));
}

TEST(CheckerIpv6Test, AddressesThatNeverGoOnAWireAreFound) {
  const auto from = [](const Ipv6Address& source, const Ipv6Address& destination) {
    const MacAddress mac = destination.IsMulticast() ? MulticastMac(destination) : kMacB;
    return Breaches(Build()
                        .Eth(kMacA, mac)
                        .Ipv6({.source = source, .destination = destination})
                        .Udp({.source_port = 1, .destination_port = 2})
                        .Build());
  };
  EXPECT_THAT(from(Ipv6Address(), kB6), ElementsAre("martian-source"));
  EXPECT_THAT(from(Ipv6Address::kLoopback, kB6), ElementsAre("martian-source"));
  EXPECT_THAT(from(Ipv6Address::AllNodes(), kB6), ElementsAre("martian-source"));
  EXPECT_THAT(from(Ipv6Address::FromV4Mapped(kA), kB6), ElementsAre("martian-source"));
  EXPECT_THAT(from(kA6, Ipv6Address()), ElementsAre("martian-destination"));
  EXPECT_THAT(from(kA6, Ipv6Address::kLoopback), ElementsAre("martian-destination"));
  EXPECT_THAT(from(kA6, kA6), ElementsAre("martian-destination"));
  EXPECT_THAT(from(kA6, Ipv6Address::FromGroups({0xff01, 0, 0, 0, 0, 0, 0, 1})),
              ElementsAre("martian-destination"));
  EXPECT_THAT(from(kA6, Ipv6Address::AllNodes()), IsEmpty());
}

TEST(CheckerUdpTest, LengthsAreJudged) {
  const auto udp = [](std::optional<uint16_t> length, uint16_t port) {
    testutil::UdpArgs args{.source_port = 1, .destination_port = port};
    args.length = length;
    args.checksum = 0;
    return Breaches(Ip4({}).Udp(args).Payload(Pattern(10)).Build());
  };
  EXPECT_THAT(udp(18, 9), IsEmpty());
  EXPECT_THAT(udp(7, 9), ElementsAre("udp-length"));
  EXPECT_THAT(udp(19, 9), ElementsAre("udp-length"));
  EXPECT_THAT(udp(17, 9), ElementsAre("udp-surplus"));
  EXPECT_THAT(udp(18, 0), ElementsAre("udp-port"));
  EXPECT_THAT(Breaches(Ip4({.protocol = 17}).Payload(Pattern(7)).Build()),
              ElementsAre("udp-length"));
}

TEST(CheckerUdpTest, ChecksumsAreJudgedInBothFamilies) {
  EXPECT_THAT(Breaches(Ip4({}).Udp({.destination_port = 9, .checksum = 1}).Build()),
              ElementsAre("checksum"));
  EXPECT_THAT(Breaches(Ip6({}).Udp({.destination_port = 9, .checksum = 1}).Build()),
              ElementsAre("checksum"));
  EXPECT_THAT(Breaches(Ip4({}).Udp({.destination_port = 9, .checksum = 0}).Build()), IsEmpty());
  // Covers: rfc:V6-14
  EXPECT_THAT(Breaches(Ip6({}).Udp({.destination_port = 9, .checksum = 0}).Build()),
              ElementsAre("checksum"));
}

// Covers: bug:B95
TEST(CheckerPartialTest, DeclaredPartialChecksumMustBeThePseudoHeaderSum) {
  // 0a00 0001 0a00 0002 0011 0009 sum to 0x141d.
  const ByteVector frame = Ip4({})
                               .Udp({.source_port = 1, .destination_port = 2, .checksum = 0x141d})
                               .Payload("x")
                               .Build();
  const Frame::Partial right{.start = 34, .offset = 6};
  EXPECT_THAT(Breaches(frame, {.partial = right}), IsEmpty());
  EXPECT_THAT(Breaches(frame, {.partial = Frame::Partial{.start = 35, .offset = 6}}),
              ElementsAre("partial-sum"));
  EXPECT_THAT(Breaches(frame, {.partial = Frame::Partial{.start = 34, .offset = 16}}),
              ElementsAre("partial-sum"));
  ByteVector garbage = frame;
  garbage[41] ^= 0xff;
  EXPECT_THAT(Breaches(garbage, {.partial = right}), ElementsAre("partial-sum"));
  // Undeclared it is an error, unless the user says where the capture was taken.
  EXPECT_THAT(Breaches(frame), ElementsAre("checksum"));
  EXPECT_THAT(Breaches(frame, {}, {.accept_pseudo_sums = true}), IsEmpty());
  EXPECT_THAT(Breaches(garbage, {}, {.accept_pseudo_sums = true}), ElementsAre("checksum"));
}

TEST(CheckerReportTest, SnappedFramesAreNotedAndTheRestJudged) {
  ByteVector frame = Udp4().Payload(Pattern(100)).Build();
  frame[24] ^= 1;
  const auto whole = static_cast<uint32_t>(frame.size());
  frame.resize(60);
  CaptureChecker checker;
  checker.Check({.original_length = whole, .bytes = frame});
  EXPECT_EQ(checker.report().snapped, 1u);
  EXPECT_EQ(checker.report().count(Rule::kSnapped), 1u);
  EXPECT_EQ(checker.report().count(Rule::kIpv4Checksum), 1u);
  EXPECT_EQ(checker.report().errors(), 1u);
  // Without the mark it is a broken frame.
  EXPECT_THAT(Breaches(frame), ElementsAre("ipv4-header"));
}

TEST(CheckerReportTest, FindingsAreBoundedAndCounted) {
  CaptureChecker checker({.max_findings = 3});
  const ByteVector frame = Ip4({.ttl = 0}).Udp({.destination_port = 9}).Build();
  for (int i = 0; i < 10; ++i) checker.Check({.bytes = frame});
  EXPECT_EQ(checker.report().findings.size(), 3u);
  EXPECT_EQ(checker.report().count(Rule::kTtl), 10u);
  EXPECT_THAT(checker.report().ToString(), HasSubstr("… and 7 more"));
  EXPECT_THAT(checker.report().ToString(), HasSubstr("10 frames: 10 errors, 0 warnings, 0 notes"));
}

TEST(CheckerReportTest, EveryRuleHasANameOfItsOwn) {
  std::set<std::string> names;
  for (size_t i = 0; i < kRuleCount; ++i) {
    const Rule rule = static_cast<Rule>(i);
    EXPECT_TRUE(names.emplace(RuleName(rule)).second) << RuleName(rule);
    EXPECT_FALSE(RuleHelp(rule).empty());
    EXPECT_EQ(RuleByName(RuleName(rule)), rule);
  }
  EXPECT_EQ(RuleByName("no-such-rule"), std::nullopt);
}

TEST(CheckerReportTest, ArbitraryBytesNeverBreakIt) {
  // A cheap fuzz: every prefix and every single-byte change of some frames.
  const std::vector<ByteVector> seeds = {
      Udp4().Payload(Pattern(20)).Build(),
      Ip6({})
          .HopByHop({.options = Hex("05020000")})
          .Fragment6({.more = true})
          .Payload(Pattern(16))
          .Build(),
      Tcp4({.options = Hex("020405b4 0402 080a0102030400000000 0303 07")}).Payload("ab").Build(),
      Ip4({}).Icmpv4({.type = 3, .code = 3}).Payload(Udp4().Build()).Build(),
  };
  CaptureChecker checker;
  for (const ByteVector& seed : seeds) {
    for (size_t i = 0; i < seed.size(); ++i) {
      checker.Check({.bytes = std::span(seed).first(i)});
      for (const int change : {0x01, 0x80, 0xff}) {
        ByteVector frame = seed;
        frame[i] = static_cast<uint8_t>(frame[i] ^ change);
        checker.Check({.bytes = frame});
      }
    }
  }
  EXPECT_GT(checker.report().errors(), 0u);
}

}  // namespace
}  // namespace tapwire::capture
