// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/icmpv4.h"

#include <vector>

#include "gtest/gtest.h"
#include "netdev/wire/ipv4.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

// An echo request of id 32701, seq 1 with eight zero bytes; tcpdump -v accepts its checksum.
constexpr const char* kEcho = "0800 7841 7fbd 0001 0000000000000000";
// Fragmentation needed, MTU 1400, about a UDP datagram.
constexpr const char* kTooBig =
    "0304 d09f 0000 0578 4500001f00000000401166320a4d00010a4d00020fa00051000b16e8";

TEST(Icmpv4Test, EchoFields) {
  const std::vector<uint8_t> bytes = Hex(kEcho);
  const auto icmp = Icmpv4Header::Parse(bytes);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type(), Icmpv4Type::kEchoRequest);
  EXPECT_EQ(icmp->code(), 0);
  EXPECT_EQ(icmp->checksum(), 0x7841);
  EXPECT_EQ(icmp->identifier(), 32701);
  EXPECT_EQ(icmp->sequence(), 1);
  EXPECT_EQ(icmp->payload().size(), 8u);
}

TEST(Icmpv4Test, ErrorFields) {
  const std::vector<uint8_t> bytes = Hex(kTooBig);
  const auto icmp = Icmpv4Header::Parse(bytes);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type(), Icmpv4Type::kDestUnreachable);
  EXPECT_EQ(icmp->code(), Icmpv4UnreachableCode::kFragmentationNeeded);
  EXPECT_EQ(icmp->mtu(), 1400);
  EXPECT_EQ(Ipv4Header::Parse(icmp->payload())->destination(), Ipv4Address(10, 77, 0, 2));
  EXPECT_EQ(Icmpv4Header::Parse(Hex("0c00 0000 14000000"))->pointer(), 20);
  EXPECT_EQ(Icmpv4Header::Parse(Hex("0501 0000 0a4d00fe"))->gateway(), Ipv4Address(10, 77, 0, 254));
}

// Covers: rfc:ICMP-10
TEST(Icmpv4Test, ChecksumCoversTheWholeMessage) {
  for (const char* hex : {kEcho, kTooBig}) {
    std::vector<uint8_t> bytes = Hex(hex);
    EXPECT_TRUE(Icmpv4Header::Parse(bytes)->ChecksumOk());
    bytes.back() ^= 1;
    EXPECT_FALSE(Icmpv4Header::Parse(bytes)->ChecksumOk());
  }
}

TEST(Icmpv4Test, EmitAndFillWriteTheSameBytes) {
  ExactBuffer out(16);
  Icmpv4Fields::Echo(Icmpv4Type::kEchoRequest, 32701, 1).Emit(out.span());
  FillIcmpv4Checksum(out.span());
  EXPECT_EQ(out.vector(), Hex(kEcho));

  ExactBuffer header(8);
  Icmpv4Fields::FragmentationNeeded(1400).Emit(header.span());
  EXPECT_EQ(header.vector(), Hex("0304 0000 0000 0578"));
  Icmpv4Fields::ParameterProblem(Icmpv4ParameterProblemCode::kPointer, 20).Emit(header.span());
  EXPECT_EQ(header.vector(), Hex("0c00 0000 14000000"));
}

// The old sum in the field must not count.
// Covers: bug:B86
TEST(Icmpv4Test, FillIgnoresWhatStoodInTheField) {
  ExactBuffer bytes{std::span<const uint8_t>(Hex(kEcho))};
  bytes.span()[2] = 0xde;
  bytes.span()[3] = 0xad;
  FillIcmpv4Checksum(bytes.span());
  EXPECT_EQ(bytes.vector(), Hex(kEcho));
}

// Covers: bug:B65
TEST(Icmpv4Test, ShortQuotesAndMessagesStayInside) {
  for (size_t size = 0; size < 16; ++size) {
    std::vector<uint8_t> bytes = Hex(kTooBig);
    bytes.resize(size);
    const ExactBuffer exact{std::span<const uint8_t>(bytes)};
    const auto icmp = Icmpv4Header::Parse(exact.span());
    ASSERT_EQ(icmp.has_value(), size >= 8);
    if (icmp) {
      EXPECT_FALSE(Ipv4Header::Parse(icmp->payload()));
    }
  }
}

// RFC 1122 §3.2.2 lists five error types; all others are queries.
TEST(Icmpv4Test, ErrorTypesAreTheFiveOfRfc1122) {
  for (int type = 0; type < 256; ++type) {
    const bool error = type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
    EXPECT_EQ(IsIcmpv4Error(static_cast<uint8_t>(type)), error) << type;
  }
}

}  // namespace
}  // namespace tapwire::wire
