// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/mld.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

template <typename Fields>
std::vector<uint8_t> Emit(const Fields& fields, const Ipv6Address& dst) {
  ExactBuffer out(fields.length());
  fields.Emit(out.span());
  FillIcmpv6Checksum(V6("fe80::1"), dst, out.span());
  return out.vector();
}

// RFC 2710 §3.
TEST(MldTest, Version1Report) {
  const std::vector<uint8_t> bytes = Hex("8300 7e2f 0000 0000 ff0200000000000000000000000000fb");
  const auto report = MldHeader::Parse(bytes);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->type(), Icmpv6Type::kMldv1Report);
  EXPECT_EQ(report->code(), 0);
  EXPECT_EQ(report->checksum(), 0x7e2f);
  EXPECT_EQ(report->maximum_response_delay(), 0);
  EXPECT_EQ(report->multicast_address(), V6("ff02::fb"));
  EXPECT_EQ(Emit(MldFields{.multicast_address = V6("ff02::fb")}, V6("ff02::fb")), bytes);
  EXPECT_FALSE(MldHeader::Parse(std::span(bytes).first(23)));
}

// RFC 9777 §5.1: general query, 10 s, robustness 2, query interval 125 s.
TEST(MldTest, Version2GeneralQuery) {
  const std::vector<uint8_t> bytes =
      Hex("8200 5696 2710 0000 00000000000000000000000000000000 02 7d 0000");
  const auto query = Mldv2QueryHeader::Parse(bytes);
  ASSERT_TRUE(query);
  EXPECT_EQ(query->type(), Icmpv6Type::kMldQuery);
  EXPECT_EQ(query->maximum_response_delay_ms(), 10000u);
  EXPECT_TRUE(query->multicast_address().IsUnspecified());
  EXPECT_FALSE(query->suppress_router_processing());
  EXPECT_EQ(query->qrv(), 2);
  EXPECT_EQ(query->qqic(), 125);
  EXPECT_EQ(query->number_of_sources(), 0);
  EXPECT_EQ(Emit(Mldv2QueryFields{.maximum_response_code = 10000}, V6("ff02::1")), bytes);
}

TEST(MldTest, Version2QueryWithSources) {
  const Mldv2QueryFields fields{.maximum_response_code = 0x8000,
                                .multicast_address = V6("ff05::7"),
                                .suppress_router_processing = true,
                                .qrv = 7,
                                .sources = {V6("2001:db8::1"), V6("2001:db8::2")}};
  const std::vector<uint8_t> bytes = Emit(fields, V6("ff05::7"));
  EXPECT_EQ(bytes[24], 0x0f);
  const auto query = Mldv2QueryHeader::Parse(bytes);
  ASSERT_TRUE(query);
  EXPECT_EQ(query->source(1), V6("2001:db8::2"));
  EXPECT_EQ(Mldv2QueryFields::From(*query), fields);
  // A source list that runs past the message.
  EXPECT_FALSE(Mldv2QueryHeader::Parse(std::span(bytes).first(bytes.size() - 1)));
}

// RFC 9777 §5.1.3: below 32768 the value itself, else (mantissa | 0x1000) << (exponent + 3).
TEST(MldTest, ResponseCodeIsDecoded) {
  EXPECT_EQ(DecodeGroupTime16(0x7fff), 32767u);
  EXPECT_EQ(DecodeGroupTime16(0x8000), 32768u);
  EXPECT_EQ(DecodeGroupTime16(0x8001), 32776u);
  EXPECT_EQ(DecodeGroupTime16(0xffff), 8387584u);
}

// RFC 9777 §5.2: change to exclude, as a host sends when it joins.
TEST(MldTest, Version2Report) {
  const std::vector<uint8_t> bytes =
      Hex("8f00 7107 0000 0001 04 00 0000 ff0200000000000000000001ff000001");
  const auto report = Mldv2ReportHeader::Parse(bytes);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->number_of_records(), 1);
  auto records = report->records();
  const auto record = records.Next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->record_type(), GroupRecordType::kChangeToExclude);
  EXPECT_EQ(record->multicast_address(), V6("ff02::1:ff00:1"));
  EXPECT_EQ(record->number_of_sources(), 0);
  EXPECT_FALSE(records.Next());
  EXPECT_FALSE(records.malformed());
  EXPECT_EQ(Emit(Mldv2ReportFields{.records = {{.record_type = GroupRecordType::kChangeToExclude,
                                                .multicast_address = V6("ff02::1:ff00:1")}}},
                 V6("ff02::16")),
            bytes);
}

// RFC 9777 §5.2.6: auxiliary data is skipped by its length in words.
TEST(MldTest, AuxiliaryDataIsSkipped) {
  const std::vector<uint8_t> bytes =
      Hex("8f00 0000 0000 0002"
          "02 01 0001 ff0200000000000000000000000000fb 20010db8000000000000000000000001 aaaaaaaa"
          "01 00 0000 ff0200000000000000000000000000fc");
  const auto fields = Mldv2ReportFields::From(*Mldv2ReportHeader::Parse(bytes));
  ASSERT_EQ(fields.records.size(), 2u);
  EXPECT_EQ(fields.records[0].sources, (std::vector<Ipv6Address>{V6("2001:db8::1")}));
  EXPECT_EQ(fields.records[1].multicast_address, V6("ff02::fc"));
}

TEST(MldTest, RecordPastTheMessageIsMalformed) {
  const std::vector<uint8_t> whole =
      Hex("8f00 0000 0000 0001 02 01 0001 ff0200000000000000000000000000fb"
          "20010db8000000000000000000000001 aaaaaaaa");
  for (size_t size = 8; size <= whole.size(); ++size) {
    const ExactBuffer exact{std::span(whole).first(size)};
    auto records = Mldv2ReportHeader::Parse(exact.span())->records();
    EXPECT_EQ(records.Next().has_value(), size == whole.size());
    EXPECT_EQ(records.malformed(), size != whole.size()) << size;
  }
}

// A count far above what is there must not cost more than what is there.
TEST(MldTest, RecordCountIsNotTrusted) {
  const auto fields = Mldv2ReportFields::From(*Mldv2ReportHeader::Parse(
      Hex("8f00 0000 0000 ffff 04 00 0000 ff0200000000000000000001ff000001")));
  EXPECT_EQ(fields.records.size(), 1u);
}

}  // namespace
}  // namespace tapwire::wire
