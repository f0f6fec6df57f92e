// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/icmpv6.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

const Ipv6Address kSrc = V6("2001:db8::1");
const Ipv6Address kDst = V6("2001:db8::2");

// From kSrc to kDst: echo request id 5, seq 6. From kDst to kSrc: packet too big, MTU 1400.
constexpr const char* kEcho = "8000 2435 0005 0006 0000000000000000";
constexpr const char* kTooBig =
    "0200 2b6d 00000578"
    "60000000000c1140 20010db8000000000000000000000001 20010db8000000000000000000000002"
    "0fa00051000ccfa961626364";

TEST(Icmpv6Test, EchoFields) {
  const std::vector<uint8_t> bytes = Hex(kEcho);
  const auto icmp = Icmpv6Header::Parse(bytes);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type(), Icmpv6Type::kEchoRequest);
  EXPECT_EQ(icmp->identifier(), 5);
  EXPECT_EQ(icmp->sequence(), 6);
  EXPECT_EQ(icmp->payload().size(), 8u);
  EXPECT_TRUE(icmp->ChecksumOk(kSrc, kDst));
}

TEST(Icmpv6Test, ErrorFields) {
  const std::vector<uint8_t> bytes = Hex(kTooBig);
  const auto icmp = Icmpv6Header::Parse(bytes);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->type(), Icmpv6Type::kPacketTooBig);
  EXPECT_EQ(icmp->mtu(), 1400u);
  EXPECT_EQ(icmp->payload().size(), 52u);
  EXPECT_TRUE(icmp->ChecksumOk(kDst, kSrc));
  EXPECT_EQ(Icmpv6Header::Parse(Hex("0401 0000 00010028"))->pointer(), 0x10028u);
}

// RFC 4443 §2.3: the pseudo-header counts.
TEST(Icmpv6Test, ChecksumNeedsTheRightAddresses) {
  std::vector<uint8_t> bytes = Hex(kEcho);
  EXPECT_FALSE(Icmpv6Header::Parse(bytes)->ChecksumOk(kSrc, V6("2001:db8::3")));
  bytes[15] ^= 1;
  EXPECT_FALSE(Icmpv6Header::Parse(bytes)->ChecksumOk(kSrc, kDst));
}

TEST(Icmpv6Test, EmitAndFillWriteTheSameBytes) {
  ExactBuffer out(16);
  Icmpv6Fields::Echo(Icmpv6Type::kEchoRequest, 5, 6).Emit(out.span());
  out.span()[2] = 0xde;  // whatever stood there must not count
  FillIcmpv6Checksum(kSrc, kDst, out.span());
  EXPECT_EQ(out.vector(), Hex(kEcho));

  ExactBuffer header(8);
  Icmpv6Fields::PacketTooBig(1280).Emit(header.span());
  EXPECT_EQ(header.vector(), Hex("0200 0000 00000500"));
  Icmpv6Fields::ParameterProblem(Icmpv6ParameterProblemCode::kUnknownNextHeader, 40)
      .Emit(header.span());
  EXPECT_EQ(header.vector(), Hex("0401 0000 00000028"));
}

TEST(Icmpv6Test, ShortMessageIsRefused) {
  EXPECT_FALSE(Icmpv6Header::Parse(Hex("8000 2435 000500")));
  EXPECT_FALSE(Icmpv6Header::Parse({}));
}

// RFC 4443 §2.1.
TEST(Icmpv6Test, ErrorsHaveTheTopBitClear) {
  EXPECT_TRUE(IsIcmpv6Error(Icmpv6Type::kParameterProblem));
  EXPECT_TRUE(IsIcmpv6Error(127));
  EXPECT_FALSE(IsIcmpv6Error(Icmpv6Type::kEchoRequest));
  EXPECT_FALSE(IsIcmpv6Error(Icmpv6Type::kRedirect));
}

}  // namespace
}  // namespace tapwire::wire
