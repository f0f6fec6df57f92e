// SPDX-License-Identifier: Apache-2.0
//
// The messages were made by a program of its own, and tcpdump -vv decodes them to the values that
// the tests expect.
#include "netdev/wire/ndp.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

const MacAddress kMac1(2, 0, 0, 0, 0, 1);
const MacAddress kMac2(2, 0, 0, 0, 0, 2);

// fe80::2 to ff02::1: hop limit 64, other configuration, lifetime 1800 s, reachable 30000 ms,
// retransmit 1000 ms; source link address, MTU 1500, prefix 2001:db8::/64 on-link and autonomous,
// DNS server 2001:db8::53, route 2001:db8:1::/64 of high preference.
constexpr const char* kRouterAdvertisement =
    "8600 daf6 40 40 0708 00007530 000003e8"
    "0101 020000000002"
    "0501 0000 000005dc"
    "0304 40 c0 00015180 00003840 00000000 20010db8000000000000000000000000"
    "1903 0000 00000708 20010db8000000000000000000000053"
    "1802 40 08 00000384 20010db800010000";

// Emits, and fills the checksum for these addresses.
template <typename Fields>
std::vector<uint8_t> Emit(const Fields& fields, const Ipv6Address& src, const Ipv6Address& dst) {
  ExactBuffer out(fields.length());
  fields.Emit(out.span());
  FillIcmpv6Checksum(src, dst, out.span());
  return out.vector();
}

TEST(NdpTest, RouterSolicitation) {
  const std::vector<uint8_t> bytes = Hex("8500 7a2c 00000000 0101 020000000001");
  const auto rs = RouterSolicitationHeader::Parse(bytes);
  ASSERT_TRUE(rs);
  EXPECT_EQ(rs->type(), Icmpv6Type::kRouterSolicitation);
  EXPECT_EQ(rs->code(), 0);
  EXPECT_EQ(rs->checksum(), 0x7a2c);
  EXPECT_EQ(NdpOptions::Parse(rs->options())->source_link_address, kMac1);
  EXPECT_EQ(Emit(RouterSolicitationFields{.options = {.source_link_address = kMac1}}, V6("fe80::1"),
                 V6("ff02::2")),
            bytes);
}

TEST(NdpTest, RouterAdvertisement) {
  const std::vector<uint8_t> bytes = Hex(kRouterAdvertisement);
  const auto ra = RouterAdvertisementHeader::Parse(bytes);
  ASSERT_TRUE(ra);
  EXPECT_EQ(ra->cur_hop_limit(), 64);
  EXPECT_FALSE(ra->managed());
  EXPECT_TRUE(ra->other_config());
  EXPECT_EQ(ra->preference(), RoutePreference::kMedium);
  EXPECT_EQ(ra->router_lifetime(), 1800);
  EXPECT_EQ(ra->reachable_time(), 30000u);
  EXPECT_EQ(ra->retrans_timer(), 1000u);

  const auto options = NdpOptions::Parse(ra->options());
  ASSERT_TRUE(options);
  EXPECT_EQ(options->source_link_address, kMac2);
  EXPECT_FALSE(options->target_link_address);
  EXPECT_EQ(options->mtu, 1500u);
  ASSERT_EQ(options->prefixes.size(), 1u);
  EXPECT_EQ(options->prefixes[0], (PrefixInformation{.prefix_length = 64,
                                                     .on_link = true,
                                                     .autonomous = true,
                                                     .valid_lifetime = 86400,
                                                     .preferred_lifetime = 14400,
                                                     .prefix = V6("2001:db8::")}));
  ASSERT_EQ(options->dns_servers.size(), 1u);
  EXPECT_EQ(options->dns_servers[0].lifetime, 1800u);
  EXPECT_EQ(options->dns_servers[0].addresses, (std::vector<Ipv6Address>{V6("2001:db8::53")}));
  ASSERT_EQ(options->routes.size(), 1u);
  EXPECT_EQ(options->routes[0], (RouteInformation{.prefix_length = 64,
                                                  .preference = RoutePreference::kHigh,
                                                  .route_lifetime = 900,
                                                  .prefix = V6("2001:db8:1::")}));
}

TEST(NdpTest, RouterAdvertisementEmitKeepsAllValues) {
  const std::vector<uint8_t> bytes = Hex(kRouterAdvertisement);
  const auto fields = RouterAdvertisementFields::From(*RouterAdvertisementHeader::Parse(bytes));
  const std::vector<uint8_t> again = Emit(fields, V6("fe80::2"), V6("ff02::1"));
  EXPECT_EQ(RouterAdvertisementFields::From(*RouterAdvertisementHeader::Parse(again)), fields);
  // Options may move (routes stand before DNS servers here), which changes neither the fixed part
  // nor, as the sum is over the same words, the checksum.
  EXPECT_EQ(again.size(), bytes.size());
  EXPECT_TRUE(std::equal(again.begin(), again.begin() + 64, bytes.begin()));
}

// RFC 4191 §2.2: 01 high, 00 medium, 11 low, 10 reserved and read as medium.
TEST(NdpTest, RouterPreferenceHasTwoBits) {
  std::vector<uint8_t> bytes = Hex("8600 0000 00 00 0000 00000000 00000000");
  const auto preference = [&](uint8_t flags) {
    bytes[5] = flags;
    return RouterAdvertisementHeader::Parse(bytes)->preference();
  };
  EXPECT_EQ(preference(0x08), RoutePreference::kHigh);
  EXPECT_EQ(preference(0xe7), RoutePreference::kMedium);
  EXPECT_EQ(preference(0x18), RoutePreference::kLow);
  EXPECT_EQ(preference(0x10), RoutePreference::kMedium);

  ExactBuffer out(16);
  RouterAdvertisementFields{.managed = true, .preference = RoutePreference::kLow}.Emit(out.span());
  EXPECT_EQ(out.span()[5], 0x98);
}

TEST(NdpTest, NeighborSolicitation) {
  const std::vector<uint8_t> bytes =
      Hex("8700 7a97 00000000 fe800000000000000000000000000002 0101 020000000001");
  const auto ns = NeighborSolicitationHeader::Parse(bytes);
  ASSERT_TRUE(ns);
  EXPECT_EQ(ns->target_address(), V6("fe80::2"));
  EXPECT_EQ(NdpOptions::Parse(ns->options())->source_link_address, kMac1);
  EXPECT_EQ(Emit(NeighborSolicitationFields{.target_address = V6("fe80::2"),
                                            .options = {.source_link_address = kMac1}},
                 V6("fe80::1"), V6("ff02::1:ff00:2")),
            bytes);
}

TEST(NdpTest, NeighborAdvertisement) {
  const std::vector<uint8_t> bytes =
      Hex("8800 181a 60000000 fe800000000000000000000000000002 0201 020000000002");
  const auto na = NeighborAdvertisementHeader::Parse(bytes);
  ASSERT_TRUE(na);
  EXPECT_FALSE(na->router());
  EXPECT_TRUE(na->solicited());
  EXPECT_TRUE(na->override_flag());
  EXPECT_EQ(na->target_address(), V6("fe80::2"));
  EXPECT_EQ(NdpOptions::Parse(na->options())->target_link_address, kMac2);
  EXPECT_EQ(Emit(NeighborAdvertisementFields{.solicited = true,
                                             .override_flag = true,
                                             .target_address = V6("fe80::2"),
                                             .options = {.target_link_address = kMac2}},
                 V6("fe80::2"), V6("fe80::1")),
            bytes);
}

// RFC 4861 §4.4: R, S, O from the top.
TEST(NdpTest, NeighborAdvertisementFlagsHaveTheirPlaces) {
  const auto flags = [](NeighborAdvertisementFields fields) {
    ExactBuffer out(fields.length());
    fields.Emit(out.span());
    return out.span()[4];
  };
  EXPECT_EQ(flags({.router = true}), 0x80);
  EXPECT_EQ(flags({.solicited = true}), 0x40);
  EXPECT_EQ(flags({.override_flag = true}), 0x20);
}

TEST(NdpTest, Redirect) {
  const std::vector<uint8_t> bytes =
      Hex("8900 4947 00000000 fe800000000000000000000000000003 20010db8000000000000000000000009"
          "0201 020000000002");
  const auto redirect = RedirectHeader::Parse(bytes);
  ASSERT_TRUE(redirect);
  EXPECT_EQ(redirect->target_address(), V6("fe80::3"));
  EXPECT_EQ(redirect->destination_address(), V6("2001:db8::9"));
  EXPECT_EQ(Emit(RedirectFields{.target_address = V6("fe80::3"),
                                .destination_address = V6("2001:db8::9"),
                                .options = {.target_link_address = kMac2}},
                 V6("fe80::2"), V6("fe80::1")),
            bytes);
}

// RFC 4861 §4.6.3: six reserved bytes in front of the packet.
TEST(NdpTest, RedirectedPacketIsQuotedAndPadded) {
  const NdpOptions options{.redirected_packet = {0x60, 1, 2, 3, 4}};
  ASSERT_EQ(options.length(), 16u);
  ExactBuffer out(16);
  options.Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("0402 000000000000 6001020304000000"));
  EXPECT_EQ(NdpOptions::Parse(out.span())->redirected_packet, Hex("6001020304000000"));
}

// RFC 3971 §5.3.2: type 14, at least six bytes.
TEST(NdpTest, NonceIsKept) {
  const auto options = NdpOptions::Parse(Hex("0e01 010203040506"));
  ASSERT_TRUE(options);
  EXPECT_EQ(options->nonce, (InlineBytes<30>{1, 2, 3, 4, 5, 6}));
  ExactBuffer out(8);
  options->Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("0e01 010203040506"));
}

TEST(NdpTest, ShortMessagesAreRefused) {
  EXPECT_FALSE(RouterSolicitationHeader::Parse(std::vector<uint8_t>(7)));
  EXPECT_FALSE(RouterAdvertisementHeader::Parse(std::vector<uint8_t>(15)));
  EXPECT_FALSE(NeighborSolicitationHeader::Parse(std::vector<uint8_t>(23)));
  EXPECT_FALSE(NeighborAdvertisementHeader::Parse(std::vector<uint8_t>(23)));
  EXPECT_FALSE(RedirectHeader::Parse(std::vector<uint8_t>(39)));
}

// Covers: rfc:ND-01
TEST(NdpOptionTest, LengthZeroOrPastTheEndIsMalformed) {
  for (const char* bad : {"0100 020000000001", "01", "0e00", "0102 020000000001",
                          "fd00 000000000000", "fdff 000000000000", "0101 0200000000"}) {
    for (const char* before : {"", "0501 0000 000005dc"}) {
      const ExactBuffer exact{std::span<const uint8_t>(Concat(Hex(before), Hex(bad)))};
      NdpOptionIterator it(exact.span());
      size_t count = 0;
      while (it.Next()) ++count;
      EXPECT_TRUE(it.malformed()) << bad;
      EXPECT_EQ(count, before[0] == '\0' ? 0u : 1u);
      EXPECT_FALSE(NdpOptions::Parse(exact.span())) << bad;
    }
  }
}

TEST(NdpOptionTest, MalformedOptionsLeaveTheFieldsEmpty) {
  const auto ns = NeighborSolicitationFields::From(*NeighborSolicitationHeader::Parse(
      Hex("8700 0000 00000000 fe800000000000000000000000000002 0101 020000000001 0100")));
  EXPECT_EQ(ns.target_address, V6("fe80::2"));
  EXPECT_EQ(ns.options, NdpOptions{});
}

// RFC 4861 §4.6: unknown options are skipped; so are known ones of a length they cannot have.
TEST(NdpOptionTest, UnknownAndMissizedOptionsAreSkipped) {
  const auto options =
      NdpOptions::Parse(Hex("fd02 0000000000000000000000000000"
                            "0102 0200000000010000000000000000"
                            "0502 0000 000005dc 0000000000000000"
                            "0303 0000000000000000000000000000000000000000000000"
                            "1902 0000 00000708 0000000000000000"
                            "0201 020000000002"));
  ASSERT_FALSE(options);  // the prefix option above is one byte short of its length
  const auto good =
      NdpOptions::Parse(Hex("fd02 0000000000000000000000000000"
                            "0102 0200000000010000000000000000"
                            "0502 0000 000005dc 0000000000000000"
                            "0303 00000000000000000000000000000000000000000000"
                            "1902 0000 00000708 0000000000000000"
                            "0201 020000000002"));
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, (NdpOptions{.target_link_address = kMac2}));
}

TEST(NdpOptionTest, FirstOfRepeatedSingleOptionsCounts) {
  const auto options = NdpOptions::Parse(
      Hex("0101 020000000001 0101 020000000002 0501 0000 000005dc 0501 0000 00000500"));
  EXPECT_EQ(options->source_link_address, kMac1);
  EXPECT_EQ(options->mtu, 1500u);
}

// RFC 4191 §2.3: option length 1, 2 or 3 by prefix length; the reserved preference and a prefix
// longer than the option are ignored.
TEST(NdpOptionTest, RouteInformationLengthsAreChecked) {
  const auto parse = [](const char* hex) {
    return RouteInformation::Parse(ExactBuffer{std::span<const uint8_t>(Hex(hex))}.span());
  };
  const auto default_route = parse("1801 00 18 0000000a");
  ASSERT_TRUE(default_route);
  EXPECT_EQ(default_route->preference, RoutePreference::kLow);
  EXPECT_EQ(default_route->length(), 8u);
  EXPECT_FALSE(parse("1801 40 00 0000000a"));
  EXPECT_FALSE(parse("1802 41 00 0000000a 20010db800010000"));
  EXPECT_FALSE(parse("1802 40 10 0000000a 20010db800010000"));
  EXPECT_FALSE(parse("1803 81 00 0000000a 20010db8000100000000000000000000"));
  const auto host = parse("1803 80 00 0000000a 20010db8000100000000000000000001");
  ASSERT_TRUE(host);
  EXPECT_EQ(host->prefix, V6("2001:db8:1::1"));
  EXPECT_EQ(host->length(), 24u);
  // Bits beyond the prefix length are not significant.
  EXPECT_EQ(parse("1802 20 00 0000000a 20010db800010000")->prefix, V6("2001:db8::"));
}

// RFC 8106 §5.3.1: length at least 3 and odd.
TEST(NdpOptionTest, DnsServerLengthsAreChecked) {
  const auto parse = [](std::vector<uint8_t> bytes) {
    bytes[1] = static_cast<uint8_t>(bytes.size() / 8);
    return RecursiveDnsServers::Parse(bytes);
  };
  EXPECT_FALSE(parse(std::vector<uint8_t>(8)));
  EXPECT_FALSE(parse(std::vector<uint8_t>(16)));
  EXPECT_EQ(parse(std::vector<uint8_t>(24))->addresses.size(), 1u);
  EXPECT_FALSE(parse(std::vector<uint8_t>(32)));
  EXPECT_EQ(parse(std::vector<uint8_t>(40))->addresses.size(), 2u);
}

// RFC 4861 §4.6.2: L and A are the two top bits, all others reserved.
TEST(NdpOptionTest, PrefixFlagsHaveTheirPlaces) {
  std::vector<uint8_t> bytes = Hex("0304 40 80 00000001 ffffffff 00000000");
  bytes.resize(32);
  EXPECT_TRUE(PrefixInformation::Parse(bytes)->on_link);
  EXPECT_FALSE(PrefixInformation::Parse(bytes)->autonomous);
  EXPECT_EQ(PrefixInformation::Parse(bytes)->valid_lifetime, 1u);
  EXPECT_EQ(PrefixInformation::Parse(bytes)->preferred_lifetime, 0xffffffffu);
  bytes[3] = 0x7f;
  EXPECT_FALSE(PrefixInformation::Parse(bytes)->on_link);
  EXPECT_TRUE(PrefixInformation::Parse(bytes)->autonomous);
}

}  // namespace
}  // namespace tapwire::wire
