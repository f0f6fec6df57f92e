// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/ipv6.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

constexpr const char* kHeader =
    "6bb abcde 0004 11 3f 20010db8000000000000000000000001 fe800000000000000000000000000002";

TEST(Ipv6Test, FieldsStandWhereRfc8200PutsThem) {
  const std::vector<uint8_t> bytes = Concat(Hex(kHeader), Hex("01020304 0000"));
  const auto ip = Ipv6Header::Parse(bytes);
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->version(), 6);
  EXPECT_EQ(ip->traffic_class(), 0xbb);
  EXPECT_EQ(ip->dscp(), 46);
  EXPECT_EQ(ip->ecn(), Ecn::kCe);
  EXPECT_EQ(ip->flow_label(), 0xabcdeu);
  EXPECT_EQ(ip->payload_length(), 4);
  EXPECT_EQ(ip->next_header(), IpProtocol::kUdp);
  EXPECT_EQ(ip->hop_limit(), 63);
  EXPECT_EQ(ip->source(), V6("2001:db8::1"));
  EXPECT_EQ(ip->destination(), V6("fe80::2"));
  EXPECT_EQ(ip->payload().size(), 4u);
}

TEST(Ipv6Test, EmitWritesTheSameBytes) {
  ExactBuffer out(40);
  Ipv6Fields{.traffic_class = 0xbb,
             .flow_label = 0xfabcde,  // only 20 bits go out
             .payload_length = 4,
             .next_header = IpProtocol::kUdp,
             .hop_limit = 63,
             .source = V6("2001:db8::1"),
             .destination = V6("fe80::2")}
      .Emit(out.span());
  EXPECT_EQ(out.vector(), Hex(kHeader));
}

// Covers: bug:B65
TEST(Ipv6Test, TwentyBytesAreRefused) {
  std::vector<uint8_t> bytes = Hex(kHeader);
  bytes.resize(20);
  const ExactBuffer exact{std::span<const uint8_t>(bytes)};
  EXPECT_FALSE(Ipv6Header::Parse(exact.span()));
  EXPECT_EQ(ValidateIpv6Header(exact.span()), Ipv6HeaderError::kTruncated);
}

// Covers: bug:B66
TEST(Ipv6Test, PayloadLengthBeyondTheFrameIsToldAndNotRead) {
  const ExactBuffer exact{std::span<const uint8_t>(Concat(Hex(kHeader), Hex("010203")))};
  EXPECT_EQ(ValidateIpv6Header(exact.span()), Ipv6HeaderError::kPayloadLength);
  EXPECT_EQ(Ipv6Header::Parse(exact.span())->payload().size(), 3u);
}

TEST(Ipv6Test, ValidationNamesWhatIsWrong) {
  std::vector<uint8_t> bytes = Concat(Hex(kHeader), Hex("01020304"));
  EXPECT_EQ(ValidateIpv6Header(bytes), Ipv6HeaderError::kNone);
  EXPECT_EQ(ValidateIpv6Header(Concat(bytes, Hex("0000"))), Ipv6HeaderError::kNone);
  bytes[0] = 0x4b;
  EXPECT_EQ(ValidateIpv6Header(bytes), Ipv6HeaderError::kVersion);
}

}  // namespace
}  // namespace tapwire::wire
