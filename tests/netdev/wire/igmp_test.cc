// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/igmp.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

template <typename Fields>
std::vector<uint8_t> Emit(const Fields& fields) {
  ExactBuffer out(fields.length());
  fields.Emit(out.span());
  return out.vector();
}

// RFC 2236 §2; the checksums were computed by another program.
TEST(IgmpTest, Version2ReportAndLeave) {
  const std::vector<uint8_t> bytes = Hex("1600 f9fc ef010101");
  const auto report = IgmpHeader::Parse(bytes);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->type(), IgmpType::kV2Report);
  EXPECT_EQ(report->checksum(), 0xf9fc);
  EXPECT_EQ(report->group_address(), Ipv4Address(239, 1, 1, 1));
  EXPECT_TRUE(report->ChecksumOk());
  EXPECT_EQ(Emit(IgmpFields{.group_address = Ipv4Address(239, 1, 1, 1)}), bytes);
  EXPECT_EQ(
      Emit(IgmpFields{.type = IgmpType::kV2Leave, .group_address = Ipv4Address(239, 1, 1, 1)}),
      Hex("1700 f8fc ef010101"));
  EXPECT_FALSE(IgmpHeader::Parse(std::span(bytes).first(7)));
}

TEST(IgmpTest, DamagedMessageFailsItsChecksum) {
  EXPECT_FALSE(IgmpHeader::Parse(Hex("1600 f9fc ef010102"))->ChecksumOk());
}

// RFC 9776 §7.1.
TEST(IgmpTest, QueryVersionFollowsLengthAndCode) {
  EXPECT_EQ(IgmpHeader::Parse(Hex("1100 eeff 00000000"))->query_version(), IgmpQueryVersion::kV1);
  EXPECT_EQ(IgmpHeader::Parse(Hex("1164 ee9b 00000000"))->query_version(), IgmpQueryVersion::kV2);
  EXPECT_EQ(IgmpHeader::Parse(Hex("1164 ec1e 00000000 027d 0000"))->query_version(),
            IgmpQueryVersion::kV3);
  EXPECT_EQ(IgmpHeader::Parse(Hex("1164 0000 00000000 027d"))->query_version(),
            IgmpQueryVersion::kInvalid);
}

// RFC 9776 §4.1: general query, 10 s, robustness 2, query interval 125 s.
TEST(IgmpTest, Version3GeneralQuery) {
  const std::vector<uint8_t> bytes = Hex("1164 ec1e 00000000 02 7d 0000");
  const auto query = Igmpv3QueryHeader::Parse(bytes);
  ASSERT_TRUE(query);
  EXPECT_EQ(query->max_resp_time(), 100u);
  EXPECT_TRUE(query->group_address().IsUnspecified());
  EXPECT_FALSE(query->suppress_router_processing());
  EXPECT_EQ(query->qrv(), 2);
  EXPECT_EQ(query->qqic(), 125);
  EXPECT_EQ(Emit(Igmpv3QueryFields{}), bytes);
}

TEST(IgmpTest, Version3QueryWithSources) {
  const Igmpv3QueryFields fields{.max_resp_code = 0x8f,
                                 .group_address = Ipv4Address(239, 1, 1, 1),
                                 .suppress_router_processing = true,
                                 .qrv = 1,
                                 .qqic = 20,
                                 .sources = {Ipv4Address(10, 0, 0, 1), Ipv4Address(10, 0, 0, 2)}};
  const std::vector<uint8_t> bytes = Emit(fields);
  EXPECT_EQ(bytes[8], 0x09);
  const auto query = Igmpv3QueryHeader::Parse(bytes);
  ASSERT_TRUE(query);
  EXPECT_EQ(query->source(1), Ipv4Address(10, 0, 0, 2));
  EXPECT_EQ(Igmpv3QueryFields::From(*query), fields);
  EXPECT_EQ(NaiveSum(bytes), 0xffff);
  EXPECT_FALSE(Igmpv3QueryHeader::Parse(std::span(bytes).first(bytes.size() - 1)));
}

// RFC 9776 §4.1.1: below 128 the value itself, else (mantissa | 0x10) << (exponent + 3).
TEST(IgmpTest, ResponseCodeIsDecoded) {
  EXPECT_EQ(DecodeGroupTime8(127), 127u);
  EXPECT_EQ(DecodeGroupTime8(0x80), 128u);
  EXPECT_EQ(DecodeGroupTime8(0x8f), 248u);
  EXPECT_EQ(DecodeGroupTime8(0xff), 31744u);
}

// RFC 9776 §4.2: change to exclude, as a host sends when it joins.
TEST(IgmpTest, Version3Report) {
  const std::vector<uint8_t> bytes = Hex("2200 e9fb 0000 0001 04 00 0000 ef010101");
  const auto report = Igmpv3ReportHeader::Parse(bytes);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->type(), IgmpType::kV3Report);
  EXPECT_EQ(report->number_of_records(), 1);
  auto records = report->records();
  const auto record = records.Next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->record_type(), GroupRecordType::kChangeToExclude);
  EXPECT_EQ(record->multicast_address(), Ipv4Address(239, 1, 1, 1));
  EXPECT_FALSE(records.Next());
  EXPECT_EQ(Emit(Igmpv3ReportFields{.records = {{.record_type = GroupRecordType::kChangeToExclude,
                                                 .multicast_address = Ipv4Address(239, 1, 1, 1)}}}),
            bytes);
}

TEST(IgmpTest, RecordPastTheMessageIsMalformed) {
  const std::vector<uint8_t> whole =
      Hex("2200 0000 0000 0001 02 01 0001 ef010101 0a000001 aaaaaaaa");
  for (size_t size = 8; size <= whole.size(); ++size) {
    const ExactBuffer exact{std::span(whole).first(size)};
    auto records = Igmpv3ReportHeader::Parse(exact.span())->records();
    EXPECT_EQ(records.Next().has_value(), size == whole.size());
    EXPECT_EQ(records.malformed(), size != whole.size()) << size;
  }
  const auto fields = Igmpv3ReportFields::From(*Igmpv3ReportHeader::Parse(whole));
  EXPECT_EQ(fields.records[0].sources, (std::vector<Ipv4Address>{Ipv4Address(10, 0, 0, 1)}));
}

}  // namespace
}  // namespace tapwire::wire
