// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/ipv6_ext.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

struct SeenOption {
  uint8_t type;
  size_t offset;
  size_t data_size;
  bool operator==(const SeenOption&) const = default;
};

std::vector<SeenOption> Walk(Ipv6OptionIterator& it) {
  std::vector<SeenOption> seen;
  while (const auto option = it.Next()) {
    seen.push_back({option->type, option->offset, option->data.size()});
  }
  return seen;
}

// An option of twelve bytes as in the first example of RFC 8200 Appendix A, and padding of both
// kinds. Covers: rfc:V6-04
TEST(Ipv6OptionTest, WalksOptionsAndPadding) {
  const std::vector<uint8_t> bytes = Hex("3b 02 1e0c 11111111 2222222222222222 0104 00000000 0000");
  ASSERT_EQ(bytes.size(), 24u);
  const auto header = Ipv6OptionsHeader::Parse(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->next_header(), IpProtocol::kIpv6NoNext);
  EXPECT_EQ(header->length(), 24u);
  Ipv6OptionIterator it = header->options();
  // PadN of four bytes, then two Pad1.
  EXPECT_EQ(Walk(it), (std::vector<SeenOption>{{0x1e, 2, 12}, {1, 16, 4}, {0, 22, 0}, {0, 23, 0}}));
  EXPECT_FALSE(it.malformed());
}

// RFC 8200 §4.2.
// Covers: rfc:V6-03
TEST(Ipv6OptionTest, ActionIsInTheTopBits) {
  EXPECT_EQ((Ipv6Option{.type = 0x1e}).action(), Ipv6OptionAction::kSkip);
  EXPECT_EQ((Ipv6Option{.type = 0x5e}).action(), Ipv6OptionAction::kDiscard);
  EXPECT_EQ((Ipv6Option{.type = 0x9e}).action(), Ipv6OptionAction::kDiscardAndReport);
  EXPECT_EQ((Ipv6Option{.type = 0xde}).action(), Ipv6OptionAction::kDiscardAndReportIfUnicast);
  EXPECT_TRUE((Ipv6Option{.type = Ipv6OptionType::kPad1}).IsPadding());
  EXPECT_TRUE((Ipv6Option{.type = Ipv6OptionType::kPadN}).IsPadding());
  EXPECT_FALSE((Ipv6Option{.type = Ipv6OptionType::kRouterAlert}).IsPadding());
}

// Covers: bug:B66
TEST(Ipv6OptionTest, OptionPastTheHeaderEndsTheWalk) {
  struct Case {
    const char* bytes;
    size_t error_offset;
    size_t options_before;
  };
  for (const Case& c : {Case{"3b00 05ff 00000000", 2, 0}, Case{"3b00 0505 00000000", 2, 0},
                        Case{"3b00 0103 000000 05", 7, 1}, Case{"3b00 0502 0000 1e01", 6, 1}}) {
    const ExactBuffer exact{std::span<const uint8_t>(Hex(c.bytes))};
    Ipv6OptionIterator it = Ipv6OptionsHeader::Parse(exact.span())->options();
    EXPECT_EQ(Walk(it).size(), c.options_before) << c.bytes;
    EXPECT_TRUE(it.malformed()) << c.bytes;
    EXPECT_EQ(it.error_offset(), c.error_offset) << c.bytes;
  }
}

// Options of length zero are legal and make progress.
// Covers: bug:B66
TEST(Ipv6OptionTest, EmptyOptionsMakeProgress) {
  const std::vector<uint8_t> bytes = Hex("3b00 1e00 1e00 0100");
  Ipv6OptionIterator it = Ipv6OptionsHeader::Parse(bytes)->options();
  EXPECT_EQ(Walk(it).size(), 3u);
  EXPECT_FALSE(it.malformed());
}

TEST(Ipv6OptionsHeaderTest, LengthBeyondTheBytesIsRefused) {
  EXPECT_FALSE(Ipv6OptionsHeader::Parse(Hex("3b01 0104 00000000")));
  EXPECT_FALSE(Ipv6OptionsHeader::Parse(Hex("3bff 0104 00000000")));
  EXPECT_FALSE(Ipv6OptionsHeader::Parse(Hex("3b00 0104 000000")));
}

// RFC 2711 §2.1: router alert with value 0, as MLD sends it, is four bytes and needs two of PadN.
TEST(Ipv6OptionsHeaderTest, EmitPadsToEight) {
  ExactBuffer out(8);
  Ipv6OptionsFields{.next_header = IpProtocol::kIcmpv6, .options = Hex("0502 0000")}.Emit(
      out.span());
  EXPECT_EQ(out.vector(), Hex("3a00 0502 0000 0100"));
  Ipv6OptionsFields{.options = Hex("1e03 000000")}.Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("3b00 1e03 000000 00"));
  const Ipv6OptionsFields empty;
  ASSERT_EQ(empty.length(), 8u);
  empty.Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("3b00 0104 00000000"));
}

// RFC 8200 §4.4.
TEST(Ipv6RoutingHeaderTest, FieldsStandWhereTheRfcPutsThem) {
  const std::vector<uint8_t> bytes = Hex("1102 0001 00000000 20010db8000000000000000000000003");
  const auto routing = Ipv6RoutingHeader::Parse(bytes);
  ASSERT_TRUE(routing);
  EXPECT_EQ(routing->next_header(), IpProtocol::kUdp);
  EXPECT_EQ(routing->routing_type(), 0);
  EXPECT_EQ(routing->segments_left(), 1);
  EXPECT_EQ(routing->length(), 24u);
  EXPECT_EQ(routing->data().size(), 20u);
  EXPECT_FALSE(Ipv6RoutingHeader::Parse(std::span(bytes).first(23)));

  ExactBuffer out(24);
  Ipv6RoutingFields::From(*routing).Emit(out.span());
  EXPECT_EQ(out.vector(), bytes);
}

// RFC 8200 §4.5: offset 13 bits in units of eight, two reserved bits, M.
TEST(Ipv6FragmentHeaderTest, OffsetIsInBytes) {
  const std::vector<uint8_t> fragment_bytes = Hex("1100 05a9 12345678");
  const auto fragment = Ipv6FragmentHeader::Parse(fragment_bytes);
  ASSERT_TRUE(fragment);
  EXPECT_EQ(fragment->next_header(), IpProtocol::kUdp);
  EXPECT_EQ(fragment->fragment_offset(), 1448u);
  EXPECT_TRUE(fragment->more_fragments());
  EXPECT_EQ(fragment->identification(), 0x12345678u);
  EXPECT_EQ(Ipv6FragmentHeader::Parse(Hex("1100 fffe 00000000"))->fragment_offset(), 65528u);
  EXPECT_FALSE(Ipv6FragmentHeader::Parse(Hex("1100 fffe 00000000"))->more_fragments());
  EXPECT_FALSE(Ipv6FragmentHeader::Parse(Hex("1100 05a9 123456")));
}

// Covers: rfc:V6-09
TEST(Ipv6FragmentHeaderTest, AtomicMeansNoOffsetAndNoMore) {
  EXPECT_TRUE(Ipv6FragmentHeader::Parse(Hex("1100 0000 12345678"))->IsAtomic());
  EXPECT_TRUE(Ipv6FragmentHeader::Parse(Hex("1100 0006 12345678"))->IsAtomic());
  EXPECT_FALSE(Ipv6FragmentHeader::Parse(Hex("1100 0001 12345678"))->IsAtomic());
  EXPECT_FALSE(Ipv6FragmentHeader::Parse(Hex("1100 0008 12345678"))->IsAtomic());
}

TEST(Ipv6FragmentHeaderTest, EmitWritesTheSameBytes) {
  ExactBuffer out(8);
  Ipv6FragmentFields{.next_header = IpProtocol::kUdp,
                     .fragment_offset = 1448,
                     .more_fragments = true,
                     .identification = 0x12345678}
      .Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("1100 05a9 12345678"));
}

std::vector<uint8_t> Chain(Ipv6ExtensionIterator& chain) {
  std::vector<uint8_t> types;
  while (const auto extension = chain.Next()) types.push_back(extension->type);
  return types;
}

// Covers: rfc:V6-01
TEST(Ipv6ExtensionTest, WalksAllKindsAndKnowsTheirPlaces) {
  const std::vector<uint8_t> payload =
      Hex("2b00 050200000100"                                     // hop-by-hop at 40
          "2c00 0000 00000000"                                    // routing at 48
          "3300 0001 00000007"                                    // first fragment at 56
          "3c04 0000 00000001 00000001 000000000000000000000000"  // authentication at 64, 24 bytes
          "0600 010400000000"                                     // destination options at 88
          "abcd");                                                // TCP at 96
  Ipv6ExtensionIterator chain(IpProtocol::kIpv6HopByHop, payload);
  EXPECT_EQ(chain.end(), Ipv6ChainEnd::kNone);

  struct Expected {
    uint8_t type;
    size_t offset;
    size_t next_header_offset;
    size_t size;
  };
  for (const Expected& e : {Expected{0, 40, 6, 8}, Expected{43, 48, 40, 8}, Expected{44, 56, 48, 8},
                            Expected{51, 64, 56, 24}, Expected{60, 88, 64, 8}}) {
    const auto extension = chain.Next();
    ASSERT_TRUE(extension);
    EXPECT_EQ(extension->type, e.type);
    EXPECT_EQ(extension->offset, e.offset);
    EXPECT_EQ(extension->next_header_offset, e.next_header_offset);
    EXPECT_EQ(extension->bytes.size(), e.size);
  }
  EXPECT_FALSE(chain.Next());
  EXPECT_EQ(chain.end(), Ipv6ChainEnd::kUpperLayer);
  EXPECT_EQ(chain.next_header(), IpProtocol::kTcp);
  EXPECT_EQ(chain.next_header_offset(), 88u);
  EXPECT_EQ(chain.offset(), 96u);
  EXPECT_TRUE(std::ranges::equal(chain.payload(), Hex("abcd")));
  EXPECT_FALSE(chain.Next());
}

TEST(Ipv6ExtensionTest, NoExtensionsIsTheUpperLayerAtOnce) {
  const std::vector<uint8_t> payload = Hex("0102");
  Ipv6ExtensionIterator chain(IpProtocol::kUdp, payload);
  EXPECT_FALSE(chain.Next());
  EXPECT_EQ(chain.end(), Ipv6ChainEnd::kUpperLayer);
  EXPECT_EQ(chain.next_header_offset(), 6u);
  EXPECT_EQ(chain.offset(), 40u);
}

// Covers: rfc:V6-06
TEST(Ipv6ExtensionTest, NoNextHeaderEndsTheChain) {
  const std::vector<uint8_t> payload = Hex("3b00 010400000000 ffff");
  Ipv6ExtensionIterator chain(IpProtocol::kIpv6DestOpts, payload);
  EXPECT_EQ(Chain(chain).size(), 1u);
  EXPECT_EQ(chain.end(), Ipv6ChainEnd::kNoNextHeader);
}

// Covers: rfc:V6-02
TEST(Ipv6ExtensionTest, UnknownHeaderIsLeftToTheCallerWithItsPlace) {
  const std::vector<uint8_t> payload = Hex("fd00 010400000000 00");
  Ipv6ExtensionIterator chain(IpProtocol::kIpv6DestOpts, payload);
  EXPECT_EQ(Chain(chain).size(), 1u);
  EXPECT_EQ(chain.end(), Ipv6ChainEnd::kUpperLayer);
  EXPECT_EQ(chain.next_header(), 0xfd);
  EXPECT_EQ(chain.next_header_offset(), 40u);
}

// A hop-by-hop header in the middle shows as such, for the caller to refuse.
// Covers: rfc:V6-16
TEST(Ipv6ExtensionTest, LateHopByHopIsShownWithTheByteThatNamedIt) {
  const std::vector<uint8_t> payload = Hex("0000 010400000000 3b00 010400000000");
  Ipv6ExtensionIterator chain(IpProtocol::kIpv6DestOpts, payload);
  chain.Next();
  const auto late = chain.Next();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->type, IpProtocol::kIpv6HopByHop);
  EXPECT_EQ(late->next_header_offset, 40u);
}

// RFC 8200 §4.5: only the first fragment has the headers behind the fragment header.
TEST(Ipv6ExtensionTest, LaterFragmentHasNoFurtherHeaders) {
  const std::vector<uint8_t> payload = Hex("3c00 05a8 00000001 3c00 010400000000");
  Ipv6ExtensionIterator chain(IpProtocol::kIpv6Fragment, payload);
  EXPECT_EQ(Chain(chain), (std::vector<uint8_t>{IpProtocol::kIpv6Fragment}));
  EXPECT_EQ(chain.end(), Ipv6ChainEnd::kFragmentPayload);
  EXPECT_EQ(chain.payload().size(), 8u);
}

// Covers: bug:B66
TEST(Ipv6ExtensionTest, ChainOfHundredHeadersIsBounded) {
  std::vector<uint8_t> payload;
  for (int i = 0; i < 100; ++i) payload = Concat(payload, Hex("3c00 010400000000"));
  Ipv6ExtensionIterator chain(IpProtocol::kIpv6DestOpts, payload);
  EXPECT_EQ(Chain(chain).size(), Ipv6ExtensionIterator::kDefaultMaxHeaders);
  EXPECT_EQ(chain.end(), Ipv6ChainEnd::kTooManyHeaders);
  Ipv6ExtensionIterator two(IpProtocol::kIpv6DestOpts, payload, 2);
  EXPECT_EQ(Chain(two).size(), 2u);
  Ipv6ExtensionIterator all(IpProtocol::kIpv6DestOpts, payload, 200);
  EXPECT_EQ(Chain(all).size(), 100u);
  EXPECT_EQ(all.end(), Ipv6ChainEnd::kTruncated);
}

// Covers: bug:B66
TEST(Ipv6ExtensionTest, HeaderPastThePacketIsTruncated) {
  for (const char* bytes :
       {"", "3b", "3b00 0104 000000", "3bff 010400000000", "3b01 010400000000 00000000000000"}) {
    const ExactBuffer exact{std::span<const uint8_t>(Hex(bytes))};
    for (const uint8_t type :
         {IpProtocol::kIpv6HopByHop, IpProtocol::kIpv6Routing, IpProtocol::kIpv6DestOpts}) {
      Ipv6ExtensionIterator chain(type, exact.span());
      EXPECT_FALSE(chain.Next()) << bytes;
      EXPECT_EQ(chain.end(), Ipv6ChainEnd::kTruncated) << bytes;
    }
  }
}

}  // namespace
}  // namespace tapwire::wire
