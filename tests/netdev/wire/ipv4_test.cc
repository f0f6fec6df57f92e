// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/ipv4.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

// A header whose checksum 0xb861 is widely published.
constexpr const char* kHeader = "4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7";

TEST(Ipv4Test, FieldsStandWhereRfc791PutsThem) {
  const std::vector<uint8_t> bytes = Concat(Hex(kHeader), std::vector<uint8_t>(95, 0xab));
  const auto ip = Ipv4Header::Parse(bytes);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->version(), 4);
  EXPECT_EQ(ip->ihl(), 5);
  EXPECT_EQ(ip->header_length(), 20u);
  EXPECT_EQ(ip->total_length(), 0x73);
  EXPECT_EQ(ip->identification(), 0);
  EXPECT_TRUE(ip->dont_fragment());
  EXPECT_FALSE(ip->more_fragments());
  EXPECT_EQ(ip->fragment_offset(), 0u);
  EXPECT_FALSE(ip->IsFragment());
  EXPECT_EQ(ip->ttl(), 64);
  EXPECT_EQ(ip->protocol(), IpProtocol::kUdp);
  EXPECT_EQ(ip->header_checksum(), 0xb861);
  EXPECT_EQ(ip->source(), Ipv4Address(192, 168, 0, 1));
  EXPECT_EQ(ip->destination(), Ipv4Address(192, 168, 0, 199));
  EXPECT_TRUE(ip->options().empty());
  EXPECT_EQ(ip->payload().size(), 95u);
}

TEST(Ipv4Test, EmitComputesTheChecksum) {
  ExactBuffer out(20);
  Ipv4Fields{.total_length = 0x73,
             .dont_fragment = true,
             .ttl = 64,
             .protocol = IpProtocol::kUdp,
             .source = Ipv4Address(192, 168, 0, 1),
             .destination = Ipv4Address(192, 168, 0, 199)}
      .Emit(out.span());
  EXPECT_EQ(out.vector(), Hex(kHeader));
}

// RFC 1071 §1: a right header sums to all ones, here by a loop that is not the library's.
TEST(Ipv4Test, EmittedChecksumCoversEveryField) {
  const Ipv4Fields fields{.tos = 0xb8,
                          .total_length = 0x1234,
                          .identification = 0xabcd,
                          .more_fragments = true,
                          .fragment_offset = 1480,
                          .ttl = 3,
                          .protocol = 0x99,
                          .source = Ipv4Address(192, 0, 2, 7),
                          .destination = Ipv4Address(198, 51, 100, 9),
                          .options = {0x94, 0x04, 0x00, 0x00}};
  ExactBuffer out(fields.length());
  fields.Emit(out.span());
  EXPECT_EQ(NaiveSum(out.span()), 0xffff);
}

// Covers: rfc:IP-02
TEST(Ipv4Test, EveryFlippedBitBreaksTheChecksum) {
  const std::vector<uint8_t> good = Hex(kHeader);
  EXPECT_TRUE(Ipv4Header::Parse(good)->HeaderChecksumOk());
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    if (bit / 8 == 0) continue;  // version and header length
    std::vector<uint8_t> bad = good;
    bad[bit / 8] = static_cast<uint8_t>(bad[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(Ipv4Header::Parse(bad)->HeaderChecksumOk()) << bit;
  }
}

TEST(Ipv4Test, FragmentFieldsCountBytes) {
  const std::vector<uint8_t> fragment_bytes =
      Hex("4500 05dc abcd 20b9 4001 0000 0a000001 0a000002");
  const auto fragment = Ipv4Header::Parse(fragment_bytes);
  EXPECT_EQ(fragment->fragment_offset(), 1480u);
  EXPECT_TRUE(fragment->more_fragments());
  EXPECT_TRUE(fragment->IsFragment());
  const std::vector<uint8_t> last_bytes = Hex("4500 001c abcd 1fff 4001 0000 0a000001 0a000002");
  const auto last = Ipv4Header::Parse(last_bytes);
  EXPECT_EQ(last->fragment_offset(), 65528u);
  EXPECT_FALSE(last->more_fragments());
  EXPECT_TRUE(last->IsFragment());

  ExactBuffer out(20);
  Ipv4Fields{.more_fragments = true, .fragment_offset = 65528}.Emit(out.span());
  EXPECT_EQ(out.span()[6], 0x3f);
  EXPECT_EQ(out.span()[7], 0xff);
}

TEST(Ipv4Test, TosSplitsIntoDscpAndEcn) {
  const std::vector<uint8_t> ip_bytes = Hex("45bb 0014 0000 0000 4001 0000 0a000001 0a000002");
  const auto ip = Ipv4Header::Parse(ip_bytes);
  EXPECT_EQ(ip->dscp(), 46);
  EXPECT_EQ(ip->ecn(), Ecn::kCe);
}

// Covers: rfc:LNK-2, rfc:IP-04
TEST(Ipv4Test, PaddingIsNotPayload) {
  const std::vector<uint8_t> bytes =
      Concat(Hex("4500 0015 0000 0000 4011 0000 0a000001 0a000002 41"), std::vector<uint8_t>(25));
  const auto ip = Ipv4Header::Parse(bytes);
  ASSERT_EQ(ip->payload().size(), 1u);
  EXPECT_EQ(ip->payload()[0], 0x41);
}

TEST(Ipv4Test, PayloadStaysInsideWhateverTheTotalLength) {
  for (const char* total : {"0000", "0013", "0014", "ffff"}) {
    const std::vector<uint8_t> bytes =
        Concat(Concat(Hex("4500"), Hex(total)), Hex("0000 0000 4011 0000 0a000001 0a000002 41"));
    EXPECT_LE(Ipv4Header::Parse(bytes)->payload().size(), 1u) << total;
  }
}

// Covers: rfc:IP-01, rfc:IP-03
TEST(Ipv4Test, ValidationNamesWhatIsWrong) {
  const auto check = [](const char* start, size_t size) {
    std::vector<uint8_t> bytes = Hex(start);
    bytes.resize(size);
    return ValidateIpv4Header(ExactBuffer{std::span<const uint8_t>(bytes)}.span());
  };
  EXPECT_EQ(check("4500 0014", 20), Ipv4HeaderError::kNone);
  EXPECT_EQ(check("4500 0014", 46), Ipv4HeaderError::kNone);
  EXPECT_EQ(check("4f00 003c", 60), Ipv4HeaderError::kNone);
  EXPECT_EQ(check("", 0), Ipv4HeaderError::kTruncated);
  EXPECT_EQ(check("4500 0014", 19), Ipv4HeaderError::kTruncated);
  EXPECT_EQ(check("4600 0018", 20), Ipv4HeaderError::kTruncated);
  EXPECT_EQ(check("6500 0014", 20), Ipv4HeaderError::kVersion);
  EXPECT_EQ(check("4400 0014", 20), Ipv4HeaderError::kIhl);
  EXPECT_EQ(check("4000 0014", 20), Ipv4HeaderError::kIhl);
  EXPECT_EQ(check("4500 0013", 20), Ipv4HeaderError::kTotalLength);
  EXPECT_EQ(check("4600 0014", 24), Ipv4HeaderError::kTotalLength);
  EXPECT_EQ(check("4500 0015", 20), Ipv4HeaderError::kTotalLength);
  EXPECT_EQ(check("4500 0000", 20), Ipv4HeaderError::kTotalLength);
}

TEST(Ipv4Test, ParseIsTolerantButNotOfImpossibleLengths) {
  EXPECT_TRUE(Ipv4Header::Parse(Hex("6500 ffff 0000 0000 4011 0000 0a000001 0a000002")));
  EXPECT_FALSE(Ipv4Header::Parse(Hex("4400 0014 0000 0000 4011 0000 0a000001 0a000002")));
  EXPECT_FALSE(Ipv4Header::Parse(Hex("4600 0018 0000 0000 4011 0000 0a000001 0a000002")));
  EXPECT_FALSE(Ipv4Header::Parse(Hex("4500 0014 0000 0000 4011 0000 0a000001 0a0000")));
}

TEST(Ipv4Test, OptionsArePaddedWithEndOfList) {
  // Router alert (RFC 2113 §2.1) and one no-operation: five bytes become eight.
  const Ipv4Fields fields{.total_length = 28, .options = {0x94, 0x04, 0x00, 0x00, 0x01}};
  ASSERT_EQ(fields.length(), 28u);
  ExactBuffer out(28);
  fields.Emit(out.span());
  EXPECT_EQ(out.span()[0], 0x47);
  EXPECT_TRUE(std::ranges::equal(out.span().subspan(20), Hex("94040000 01000000")));
  EXPECT_TRUE(Ipv4Header::Parse(out.span())->HeaderChecksumOk());
}

struct SeenOption {
  uint8_t type;
  size_t offset;
  size_t data_size;
  bool operator==(const SeenOption&) const = default;
};

std::vector<SeenOption> Walk(Ipv4OptionIterator& it) {
  std::vector<SeenOption> seen;
  while (const auto option = it.Next()) {
    seen.push_back({option->type, option->offset, option->data.size()});
  }
  return seen;
}

// Covers: rfc:IP-22
TEST(Ipv4OptionTest, WalksKnownAndUnknownOptions) {
  // No-operation, record route with one slot, an unknown option, end of list, rubbish behind.
  const std::vector<uint8_t> bytes = Hex("01 070704 0a000001 5e03aa 00 ff");
  Ipv4OptionIterator it(bytes);
  EXPECT_EQ(Walk(it), (std::vector<SeenOption>{{1, 0, 0}, {7, 1, 5}, {0x5e, 8, 1}}));
  EXPECT_FALSE(it.malformed());
  EXPECT_FALSE(it.Next());
}

TEST(Ipv4OptionTest, CopiedFlagIsTheTopBit) {
  EXPECT_TRUE((Ipv4Option{.type = Ipv4OptionType::kStrictSourceRoute}).copied());
  EXPECT_TRUE((Ipv4Option{.type = Ipv4OptionType::kRouterAlert}).copied());
  EXPECT_FALSE((Ipv4Option{.type = Ipv4OptionType::kRecordRoute}).copied());
  EXPECT_FALSE((Ipv4Option{.type = Ipv4OptionType::kTimestamp}).copied());
}

// Covers: rfc:IP-22
TEST(Ipv4OptionTest, ImpossibleLengthsEndTheWalkAndSayWhere) {
  struct Case {
    const char* bytes;
    size_t error_offset;
    size_t options_before;
  };
  for (const Case& c :
       {Case{"07", 0, 0}, Case{"0700", 0, 0}, Case{"0701", 0, 0}, Case{"070304", 3, 1},
        Case{"0101 44ff0000", 2, 2}, Case{"94040000 83", 4, 1}}) {
    std::vector<uint8_t> bytes = Hex(c.bytes);
    if (c.error_offset == 3) bytes.push_back(0x88);  // a type as the last byte
    const ExactBuffer exact{std::span<const uint8_t>(bytes)};
    Ipv4OptionIterator it(exact.span());
    EXPECT_EQ(Walk(it).size(), c.options_before) << c.bytes;
    EXPECT_TRUE(it.malformed()) << c.bytes;
    EXPECT_EQ(it.error_offset(), c.error_offset) << c.bytes;
    EXPECT_FALSE(it.Next());
  }
}

}  // namespace
}  // namespace tapwire::wire
