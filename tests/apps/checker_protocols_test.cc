// SPDX-License-Identifier: Apache-2.0
// The checker's rules for TCP, ICMP, neighbour discovery and group membership.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/checker_util.h"

namespace tapwire::capture {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testutil::Hex;
using testutil::Pattern;

// Covers: RFC 9293 MUST-2
TEST(CheckerTcpTest, HeaderAndChecksumAreJudged) {
  EXPECT_THAT(Breaches(Tcp4({}).Payload("abc").Build()), IsEmpty());
  EXPECT_THAT(Breaches(Ip6({}).Tcp({.source_port = 1, .destination_port = 2}).Build()), IsEmpty());
  EXPECT_THAT(Breaches(Tcp4({.checksum = 1}).Build()), ElementsAre("checksum"));
  EXPECT_THAT(
      Breaches(Ip6({}).Tcp({.source_port = 1, .destination_port = 2, .checksum = 1}).Build()),
      ElementsAre("checksum"));
  EXPECT_THAT(Breaches(Tcp4({.data_offset = 4}).Build()), ElementsAre("tcp-header"));
  EXPECT_THAT(Breaches(Tcp4({.data_offset = 6}).Build()), ElementsAre("tcp-header"));
  EXPECT_THAT(Breaches(Ip4({}).Tcp({.source_port = 1}).Build()), ElementsAre("tcp-header"));
  EXPECT_THAT(Breaches(Build()
                           .Eth(kMacA, MacAddress::kBroadcast())
                           .Ipv4({.source = kA, .destination = Ipv4Address::kLimitedBroadcast})
                           .Tcp({.source_port = 1, .destination_port = 2})
                           .Build()),
              ElementsAre("tcp-header"));
}

TEST(CheckerTcpTest, FlagsThatNeverGoTogetherAreFound) {
  const auto flags = [](absl::string_view letters) {
    return Breaches(Tcp4({.flags = letters}).Build());
  };
  for (const char* good : {"S", "SA", "A", "PA", "FA", "R", "RA", "UA", "SEC", "SAE"}) {
    EXPECT_THAT(flags(good), IsEmpty()) << good;
  }
  for (const char* bad : {"", "EC", "SF", "SR", "RF", "F", "P", "FPU"}) {
    EXPECT_THAT(flags(bad), ElementsAre("tcp-flags")) << bad;
  }
}

// Covers: RFC 9293 MUST-65, RFC 9293 MUST-68, RFC 9293 MUST-69
TEST(CheckerTcpTest, OptionsAreJudged) {
  const auto options = [](absl::string_view letters, absl::string_view bytes) {
    return Breaches(Tcp4({.flags = letters, .options = Hex(bytes)}).Build());
  };
  EXPECT_THAT(options("S", "020405b4 0402 080a 01020304 00000000 01 030307"), IsEmpty());
  EXPECT_THAT(options("A", "0101 080a 01020304 05060708"), IsEmpty());
  EXPECT_THAT(options("A", "0101 050a 00000001 00000002"), IsEmpty());
  EXPECT_THAT(options("A", "0101 050a ffffffff 00000002"), IsEmpty());
  EXPECT_THAT(options("A", "020405b4"), ElementsAre("tcp-syn-option"));
  EXPECT_THAT(options("A", "01 030307"), ElementsAre("tcp-syn-option"));
  EXPECT_THAT(options("A", "0101 0402"), ElementsAre("tcp-syn-option"));
  EXPECT_THAT(options("S", "01 03030f"), ElementsAre("tcp-options"));
  EXPECT_THAT(options("S", "0204 0000"), ElementsAre("tcp-options"));
  EXPECT_THAT(options("S", "020405b4 020405b4"), ElementsAre("tcp-options"));
  EXPECT_THAT(options("S", "0101 080a 01020304 05060708"), ElementsAre("tcp-options"));
  EXPECT_THAT(options("A", "0101 050a 00000002 00000002"), ElementsAre("tcp-options"));
  EXPECT_THAT(options("A", "010101 08"), ElementsAre("tcp-options"));
  EXPECT_THAT(options("A", "0101 fe00"), ElementsAre("tcp-options"));
  EXPECT_THAT(options("A", "fe05 0000"), ElementsAre("tcp-options"));
  EXPECT_THAT(options("A", "01 00 00 01"), ElementsAre("tcp-padding"));
}

TEST(CheckerTcpTest, SuperPacketCarriesNeitherSynNorRst) {
  EXPECT_THAT(Breaches(Tcp4({.flags = "SA"}).Payload(Pattern(3000)).Build(), {.gso_size = 1448}),
              ElementsAre("gso"));
  EXPECT_THAT(Breaches(Tcp4({}).Payload(Pattern(3000)).Build(), {.gso_size = 1448}), IsEmpty());
}

TEST(CheckerIcmpv4Test, MessagesAreJudged) {
  EXPECT_THAT(Breaches(Ip4({}).Echo4({}).Payload(Pattern(55)).Build()), IsEmpty());
  EXPECT_THAT(Breaches(Ip4({}).Echo4({.checksum = 1}).Build()), ElementsAre("checksum"));
  EXPECT_THAT(Breaches(Ip4({}).Echo4({.code = 1}).Build()), ElementsAre("icmp-header"));
  EXPECT_THAT(Breaches(Ip4({.protocol = 1}).Payload(Hex("0800f7ff000000")).Build()),
              ElementsAre("icmp-header"));
  // Covers: rfc:ICMP-12
  EXPECT_THAT(Breaches(Ip4({}).Icmpv4({.type = 17}).Payload(Pattern(4)).Build()),
              ElementsAre("icmp-header"));
  EXPECT_THAT(Breaches(Ip4({}).Icmpv4({.type = 200}).Build()), IsEmpty());
}

ByteVector Quoted4(const testutil::Ipv4Args& args) {
  testutil::Ipv4Args ip = args;
  if (ip.source == Ipv4Address()) ip.source = kB;
  if (ip.destination == Ipv4Address()) ip.destination = kA;
  return Build()
      .Ipv4(ip)
      .Udp({.source_port = 5, .destination_port = 6})
      .Payload(Pattern(30))
      .Build();
}
std::vector<std::string> Error4(std::span<const uint8_t> quote,
                                testutil::IcmpArgs icmp = {.type = 3, .code = 3}) {
  return Breaches(Ip4({}).Icmpv4(icmp).Payload(quote).Build());
}

// Covers: rfc:ICMP-03
TEST(CheckerIcmpv4Test, ErrorQuotesHeaderAndEightBytes) {
  const ByteVector quote = Quoted4({});
  EXPECT_THAT(Error4(quote), IsEmpty());
  EXPECT_THAT(Error4(First(quote, 28)), IsEmpty());
  EXPECT_THAT(Error4(First(quote, 27)), ElementsAre("icmp-quote"));
  EXPECT_THAT(Error4(First(quote, 19)), ElementsAre("icmp-quote"));
  ByteVector longer = quote;
  longer.push_back(0);
  EXPECT_THAT(Error4(longer), ElementsAre("icmp-quote"));
  // To somebody else than the one who sent it.
  EXPECT_THAT(Error4(Quoted4({.source = Ipv4Address(10, 0, 0, 3)})), ElementsAre("icmp-quote"));
}

// Covers: rfc:ICMP-02, rfc:IP-27
TEST(CheckerIcmpv4Test, ErrorsAboutWhatMustNotCauseOneAreFound) {
  EXPECT_THAT(Error4(Quoted4({.dont_fragment = false, .offset = 8})), ElementsAre("icmp-about"));
  EXPECT_THAT(Error4(Quoted4({.destination = Ipv4Address::kLimitedBroadcast})),
              ElementsAre("icmp-about"));
  EXPECT_THAT(Error4(Quoted4({.destination = Ipv4Address(224, 0, 0, 9)})),
              ElementsAre("icmp-about"));
  EXPECT_THAT(Error4(Build()
                         .Ipv4({.source = kB, .destination = kA})
                         .Icmpv4({.type = 11})
                         .Payload(Pattern(28))
                         .Build()),
              ElementsAre("icmp-about"));
  // An echo is no error.
  EXPECT_THAT(Error4(Build().Ipv4({.source = kB, .destination = kA}).Echo4({}).Build()), IsEmpty());
  EXPECT_THAT(Breaches(Build()
                           .Eth(kMacA, kMacB)
                           .Ipv4({.source = kA, .destination = Ipv4Address(127, 0, 0, 1)})
                           .Icmpv4({.type = 3, .code = 3})
                           .Payload(Quoted4({.source = Ipv4Address(127, 0, 0, 1)}))
                           .Build()),
              ElementsAre("martian-destination", "icmp-about"));
}

// Covers: rfc:ICMP-07
TEST(CheckerIcmpv4Test, SourceQuenchAndTinyMtuAreFound) {
  EXPECT_THAT(Error4(Quoted4({}), {.type = 4}), ElementsAre("icmp-header"));
  EXPECT_THAT(Error4(Quoted4({}), {.type = 3, .code = 4, .rest = 67}), ElementsAre("icmp-header"));
  EXPECT_THAT(Error4(Quoted4({}), {.type = 3, .code = 4, .rest = 68}), IsEmpty());
  EXPECT_THAT(Error4(Quoted4({}), {.type = 3, .code = 16}), ElementsAre("icmp-header"));
}

TEST(CheckerIcmpv6Test, MessagesAreJudged) {
  EXPECT_THAT(Breaches(Ip6({}).Echo6({}).Payload(Pattern(55)).Build()), IsEmpty());
  EXPECT_THAT(Breaches(Ip6({}).Echo6({.checksum = 1}).Build()), ElementsAre("checksum"));
  EXPECT_THAT(Breaches(Ip6({}).Echo6({.code = 1}).Build()), ElementsAre("icmp-header"));
}

std::vector<std::string> Error6(std::span<const uint8_t> quote,
                                testutil::IcmpArgs icmp = {.type = 1, .code = 4}) {
  return Breaches(Ip6({}).Icmpv6(icmp).Payload(quote).Build());
}

// Covers: rfc:IC6-2
TEST(CheckerIcmpv6Test, ErrorQuotesAsMuchAsFits) {
  const auto quoted = [](size_t payload) {
    return Build()
        .Ipv6({.source = kB6, .destination = kA6})
        .Udp({.destination_port = 9})
        .Payload(Pattern(payload))
        .Build();
  };
  EXPECT_THAT(Error6(quoted(100)), IsEmpty());
  EXPECT_THAT(Error6(First(quoted(100), 100)), ElementsAre("icmp-quote"));
  // 40 + 8 + 1232 bytes of a larger packet.
  EXPECT_THAT(Error6(First(quoted(2000), 1232)), IsEmpty());
  EXPECT_THAT(Error6(First(quoted(2000), 1231)), ElementsAre("icmp-quote"));
  EXPECT_THAT(Error6(First(quoted(2000), 1233)), ElementsAre("icmp-quote"));
  EXPECT_THAT(Error6(First(quoted(100), 39)), ElementsAre("icmp-quote"));
}

// Covers: rfc:IC6-1
TEST(CheckerIcmpv6Test, ErrorsAboutWhatMustNotCauseOneAreFound) {
  const auto multicast = Build()
                             .Ipv6({.source = kB6, .destination = Ipv6Address::AllNodes()})
                             .Udp({.destination_port = 9})
                             .Build();
  EXPECT_THAT(Error6(multicast), ElementsAre("icmp-about"));
  EXPECT_THAT(Error6(multicast, {.type = 2, .rest = 1280}), IsEmpty());
  EXPECT_THAT(Error6(multicast, {.type = 4, .code = 2, .rest = 40}), IsEmpty());
  EXPECT_THAT(Error6(multicast, {.type = 4, .code = 1, .rest = 6}), ElementsAre("icmp-about"));
  const auto about = [](uint8_t type) {
    return Build()
        .Ipv6({.source = kB6, .destination = kA6})
        .HopByHop({})
        .Icmpv6({.type = type})
        .Build();
  };
  EXPECT_THAT(Error6(about(1)), ElementsAre("icmp-about"));
  EXPECT_THAT(Error6(about(137)), ElementsAre("icmp-about"));
  EXPECT_THAT(Error6(about(128)), IsEmpty());
  EXPECT_THAT(Error6(about(128), {.type = 2, .rest = 1279}), ElementsAre("icmp-header"));
}

Build NdFrame(const Ipv6Address& source, const Ipv6Address& destination, uint8_t hop_limit = 255) {
  const MacAddress mac = destination.IsMulticast() ? MulticastMac(destination) : kMacB;
  return Build()
      .Eth(kMacA, mac)
      .Ipv6({.source = source, .destination = destination, .hop_limit = hop_limit});
}

// Covers: rfc:ND-01, rfc:ND-11, rfc:ND-14
TEST(CheckerNdTest, SolicitationsAreJudged) {
  const Ipv6Address group = kB6.SolicitedNode();
  const testutil::NdArgs good{.target = kB6, .link_address = kMacA};
  const auto ns = [&](Build frame, const testutil::NdArgs& args) {
    return Breaches(frame.NeighborSolicitation(args).Build());
  };
  EXPECT_THAT(ns(NdFrame(kA6, group), good), IsEmpty());
  EXPECT_THAT(ns(NdFrame(kA6, kB6), {.target = kB6}), IsEmpty());
  EXPECT_THAT(ns(NdFrame(Ipv6Address(), group), {.target = kB6}), IsEmpty());
  EXPECT_THAT(ns(NdFrame(kA6, group, 64), good), ElementsAre("nd-hop-limit"));
  EXPECT_THAT(ns(NdFrame(kA6, group), {.target = kB6}), ElementsAre("nd-message"));
  EXPECT_THAT(ns(NdFrame(kA6, kA6.SolicitedNode()), good), ElementsAre("nd-message"));
  EXPECT_THAT(ns(NdFrame(Ipv6Address(), group), good), ElementsAre("nd-message"));
  EXPECT_THAT(ns(NdFrame(Ipv6Address(), kB6), {.target = kB6}), ElementsAre("nd-message"));
  EXPECT_THAT(ns(NdFrame(kA6, kB6), {.target = Ipv6Address::AllNodes()}),
              ElementsAre("nd-message"));
  EXPECT_THAT(ns(NdFrame(kA6, kB6), {.target = kB6, .code = 1}), ElementsAre("nd-message"));
  EXPECT_THAT(ns(NdFrame(kA6, group), {.target = kB6, .link_address = kMacB}),
              ElementsAre("nd-message"));
  EXPECT_THAT(ns(NdFrame(kA6, kB6), {.target = kB6, .more_options = Hex("0100")}),
              ElementsAre("nd-option"));
  EXPECT_THAT(ns(NdFrame(kA6, kB6), {.target = kB6, .more_options = Hex("0102 000000000000")}),
              ElementsAre("nd-option"));
  Build fragmented = NdFrame(kA6, kB6);
  fragmented.NeighborSolicitation(
      {.target = kB6, .more_options = testutil::ByteVector(Hex("fd01 000000000000"))});
  EXPECT_THAT(Breaches(fragmented.BuildFragments(24, 1)),
              ElementsAre("fragment-needless", "nd-fragment"));
}

TEST(CheckerNdTest, AdvertisementsAreJudged) {
  const auto na = [&](Build frame, const testutil::NdArgs& args) {
    return Breaches(frame.NeighborAdvertisement(args).Build());
  };
  EXPECT_THAT(na(NdFrame(kA6, kB6), {.target = kA6, .link_address = kMacA, .solicited = true}),
              IsEmpty());
  EXPECT_THAT(na(NdFrame(kA6, Ipv6Address::AllNodes()),
                 {.target = kA6, .link_address = kMacA, .override_flag = true}),
              IsEmpty());
  EXPECT_THAT(na(NdFrame(kA6, Ipv6Address::AllNodes()), {.target = kA6, .solicited = true}),
              ElementsAre("nd-message"));
  EXPECT_THAT(na(NdFrame(kA6, kB6), {.target = Ipv6Address::AllNodes()}),
              ElementsAre("nd-message"));
  EXPECT_THAT(Breaches(NdFrame(kA6, kB6).Icmpv6({.type = 136}).Payload(Pattern(15)).Build()),
              ElementsAre("nd-message"));
}

TEST(CheckerNdTest, RouterMessagesAreJudged) {
  EXPECT_THAT(
      Breaches(NdFrame(kLinkLocal, Ipv6Address::AllRouters()).Icmpv6({.type = 133}).Build()),
      IsEmpty());
  EXPECT_THAT(Breaches(NdFrame(Ipv6Address(), Ipv6Address::AllRouters())
                           .Icmpv6({.type = 133})
                           .Payload(Hex("0101 0200000000aa"))
                           .Build()),
              ElementsAre("nd-message"));
  EXPECT_THAT(Breaches(NdFrame(kLinkLocal, Ipv6Address::AllNodes())
                           .Icmpv6({.type = 134})
                           .Payload(Hex("0000000000000000"))
                           .Build()),
              IsEmpty());
  EXPECT_THAT(Breaches(NdFrame(kA6, Ipv6Address::AllNodes())
                           .Icmpv6({.type = 134})
                           .Payload(Hex("0000000000000000"))
                           .Build()),
              ElementsAre("nd-message"));
}

// Covers: rfc:MLD-1, rfc:MLD-2
TEST(CheckerMldTest, ReportsAreJudged) {
  const Ipv6Address routers = Ipv6Address::AllMldv2Routers();
  const ByteVector record = Hex("04000000 ff0200000000000000000001ff000002");
  const auto report = [&](const Ipv6Address& source, uint8_t hop_limit, bool alert,
                          std::span<const uint8_t> records) {
    Build frame = NdFrame(source, routers, hop_limit);
    if (alert) frame.RouterAlert6();
    // The checksum covers the records: ICMPv6 header and rest go in as one piece.
    return Breaches(frame.Icmpv6({.type = 143, .rest = 1}).Payload(records).Build());
  };
  EXPECT_THAT(report(kLinkLocal, 1, true, record), IsEmpty());
  EXPECT_THAT(report(Ipv6Address(), 1, true, record), IsEmpty());
  EXPECT_THAT(report(kA6, 1, true, record), ElementsAre("mld"));
  EXPECT_THAT(report(kLinkLocal, 255, true, record), ElementsAre("mld"));
  EXPECT_THAT(report(kLinkLocal, 1, false, record), ElementsAre("mld"));
  EXPECT_THAT(report(kLinkLocal, 1, true, First(record, 19)), ElementsAre("mld"));
  EXPECT_THAT(report(kLinkLocal, 1, true, Hex("04000000 ff020000000000000000000000000001")),
              ElementsAre("mld"));
  EXPECT_THAT(report(kLinkLocal, 1, true, Hex("07000000 ff0200000000000000000001ff000002")),
              ElementsAre("mld"));
}

// Covers: rfc:IGMP-1
TEST(CheckerIgmpTest, ReportsAreJudged) {
  const auto report = [](const testutil::Ipv4Args& ip, const testutil::IgmpArgs& igmp,
                         std::span<const uint8_t> more) {
    return Breaches(
        Build().Eth(kMacA, MulticastMac(ip.destination)).Ipv4(ip).Igmp(igmp).Payload(more).Build());
  };
  const ByteVector record = Hex("04000000 ef010203");
  const testutil::Ipv4Args good{.source = kA,
                                .destination = Ipv4Address::kIgmpv3Routers,
                                .ttl = 1,
                                .tos = 0xc0,
                                .options = Hex("94040000")};
  const testutil::IgmpArgs v3{.type = 0x22, .group = {0, 0, 0, 1}};
  EXPECT_THAT(report(good, v3, record), IsEmpty());
  testutil::Ipv4Args bad = good;
  bad.ttl = 2;
  EXPECT_THAT(report(bad, v3, record), ElementsAre("igmp"));
  bad = good;
  bad.options.clear();
  EXPECT_THAT(report(bad, v3, record), ElementsAre("igmp"));
  bad = good;
  bad.tos = 0;
  EXPECT_THAT(report(bad, v3, record), ElementsAre("igmp"));
  bad = good;
  bad.destination = Ipv4Address(224, 0, 0, 2);
  EXPECT_THAT(report(bad, v3, record), ElementsAre("igmp"));
  EXPECT_THAT(report(good, v3, First(record, 7)), ElementsAre("igmp"));
  EXPECT_THAT(report(good, {.type = 0x22, .group = {0, 0, 0, 1}, .checksum = 1}, record),
              ElementsAre("checksum"));
  // Version 2: to the group itself; leaving goes to all routers.
  bad = good;
  bad.destination = Ipv4Address(239, 1, 2, 3);
  EXPECT_THAT(report(bad, {.type = 0x16, .group = {239, 1, 2, 3}}, {}), IsEmpty());
  EXPECT_THAT(report(bad, {.type = 0x16, .group = {239, 1, 2, 4}}, {}), ElementsAre("igmp"));
  EXPECT_THAT(report(bad, {.type = 0x17, .group = {239, 1, 2, 3}}, {}), ElementsAre("igmp"));
}

}  // namespace
}  // namespace tapwire::capture
