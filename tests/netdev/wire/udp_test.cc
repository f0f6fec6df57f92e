// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/udp.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

TEST(UdpTest, FieldsStandWhereRfc768PutsThem) {
  const std::vector<uint8_t> bytes = Hex("0fa0 0007 000c cff3 61626364");
  const auto udp = UdpHeader::Parse(bytes);
  ASSERT_TRUE(udp);
  EXPECT_EQ(udp->src_port(), 4000);
  EXPECT_EQ(udp->dst_port(), 7);
  EXPECT_EQ(udp->length(), 12);
  EXPECT_EQ(udp->checksum(), 0xcff3);
  EXPECT_EQ(udp->payload().size(), 4u);
  EXPECT_EQ(udp->payload()[0], 'a');
}

TEST(UdpTest, EmitWritesTheSameBytes) {
  ExactBuffer out(8);
  UdpFields{.src_port = 4000, .dst_port = 7, .length = 12, .checksum = 0xcff3}.Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("0fa0 0007 000c cff3"));
}

TEST(UdpTest, SevenBytesAreRefused) { EXPECT_FALSE(UdpHeader::Parse(Hex("0fa0 0007 000c cf"))); }

// Covers: rfc:UDP-2, rfc:UDP-7
TEST(UdpTest, SurplusBytesAreNotPayload) {
  EXPECT_EQ(UdpHeader::Parse(Hex("0fa0 0007 000a 0000 61626364"))->payload().size(), 2u);
}

// Covers: rfc:UDP-2
TEST(UdpTest, ImpossibleLengthsStayInside) {
  EXPECT_EQ(UdpHeader::Parse(Hex("0fa0 0007 0000 0000 61626364"))->payload().size(), 0u);
  EXPECT_EQ(UdpHeader::Parse(Hex("0fa0 0007 0007 0000 61626364"))->payload().size(), 0u);
  EXPECT_EQ(UdpHeader::Parse(Hex("0fa0 0007 ffff 0000 61626364"))->payload().size(), 4u);
}

}  // namespace
}  // namespace tapwire::wire
