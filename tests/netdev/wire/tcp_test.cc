// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/tcp.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire::wire {
namespace {

// The SYN of a Linux host, as tcpdump shows it: seq 1325435999, win 64240,
// options [mss 1460,sackOK,TS val 2398278674 ecr 0,nop,wscale 10].
constexpr const char* kSyn =
    "b5f4 0051 4f008c5f 00000000 a002 faf0 43c5 0000"
    "020405b4 0402 080a8ef2d41200000000 01 03030a";

TEST(TcpTest, FieldsStandWhereRfc9293PutsThem) {
  const std::vector<uint8_t> bytes = Concat(Hex(kSyn), Hex("0102"));
  const auto tcp = TcpHeader::Parse(bytes);
  ASSERT_TRUE(tcp);
  EXPECT_EQ(tcp->src_port(), 46580);
  EXPECT_EQ(tcp->dst_port(), 81);
  EXPECT_EQ(tcp->seq(), 1325435999u);
  EXPECT_EQ(tcp->ack(), 0u);
  EXPECT_EQ(tcp->data_offset(), 10);
  EXPECT_EQ(tcp->header_length(), 40u);
  EXPECT_EQ(tcp->reserved(), 0);
  EXPECT_EQ(tcp->flags(), TcpFlags::kSyn);
  EXPECT_EQ(tcp->window(), 64240);
  EXPECT_EQ(tcp->checksum(), 0x43c5);
  EXPECT_EQ(tcp->urgent_pointer(), 0);
  EXPECT_EQ(tcp->options().size(), 20u);
  EXPECT_EQ(tcp->payload().size(), 2u);
}

TEST(TcpTest, EmitWritesTheBytesOfLinux) {
  const TcpFields fields{.src_port = 46580,
                         .dst_port = 81,
                         .seq = 1325435999,
                         .flags = TcpFlags::kSyn,
                         .window = 64240,
                         .checksum = 0x43c5,
                         .options = {.mss = 1460,
                                     .window_scale = 10,
                                     .sack_permitted = true,
                                     .timestamps = TcpTimestamps{.tsval = 2398278674}}};
  ASSERT_EQ(fields.length(), 40u);
  ExactBuffer out(40);
  fields.Emit(out.span());
  EXPECT_EQ(out.vector(), Hex(kSyn));
}

TEST(TcpTest, EmitWithoutOptionsIsTwentyBytes) {
  const TcpFields fields{.src_port = 1,
                         .dst_port = 2,
                         .seq = 3,
                         .ack = 4,
                         .reserved = 0x5,
                         .flags = TcpFlags::kAck | TcpFlags::kUrg,
                         .window = 6,
                         .checksum = 7,
                         .urgent_pointer = 8};
  ASSERT_EQ(fields.length(), 20u);
  ExactBuffer out(20);
  fields.Emit(out.span());
  EXPECT_EQ(out.vector(), Hex("0001 0002 00000003 00000004 5530 0006 0007 0008"));
}

// RFC 9293 §3.1: CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from the top.
TEST(TcpTest, FlagBitsHaveTheirPlaces) {
  EXPECT_EQ(TcpFlags::kFin.bits(), 0x01);
  EXPECT_EQ(TcpFlags::kSyn.bits(), 0x02);
  EXPECT_EQ(TcpFlags::kRst.bits(), 0x04);
  EXPECT_EQ(TcpFlags::kPsh.bits(), 0x08);
  EXPECT_EQ(TcpFlags::kAck.bits(), 0x10);
  EXPECT_EQ(TcpFlags::kUrg.bits(), 0x20);
  EXPECT_EQ(TcpFlags::kEce.bits(), 0x40);
  EXPECT_EQ(TcpFlags::kCwr.bits(), 0x80);
  EXPECT_TRUE(TcpFlags(0x01).fin());
  EXPECT_TRUE(TcpFlags(0x02).syn());
  EXPECT_TRUE(TcpFlags(0x04).rst());
  EXPECT_TRUE(TcpFlags(0x08).psh());
  EXPECT_TRUE(TcpFlags(0x10).ack());
  EXPECT_TRUE(TcpFlags(0x20).urg());
  EXPECT_TRUE(TcpFlags(0x40).ece());
  EXPECT_TRUE(TcpFlags(0x80).cwr());
  EXPECT_FALSE(TcpFlags(0xfe).fin());
  EXPECT_FALSE(TcpFlags(0x7f).cwr());
}

TEST(TcpTest, FlagsAreASet) {
  TcpFlags flags = TcpFlags::kSyn | TcpFlags::kAck;
  EXPECT_TRUE(flags.Has(TcpFlags::kSyn | TcpFlags::kAck));
  EXPECT_FALSE(flags.Has(TcpFlags::kSyn | TcpFlags::kFin));
  EXPECT_TRUE(flags.HasAny(TcpFlags::kSyn | TcpFlags::kFin));
  EXPECT_FALSE(flags.HasAny(TcpFlags::kRst | TcpFlags::kFin));
  flags &= ~TcpFlags::kSyn;
  EXPECT_EQ(flags, TcpFlags::kAck);
  flags |= TcpFlags::kPsh;
  EXPECT_EQ(flags.bits(), 0x18);
}

// A data offset of 0..4 words, and one past the segment.
// Covers: bug:B52
TEST(TcpTest, ImpossibleDataOffsetIsRefused) {
  std::vector<uint8_t> bytes = Hex(kSyn);
  for (int offset = 0; offset <= 15; ++offset) {
    bytes[12] = static_cast<uint8_t>(offset << 4);
    const ExactBuffer exact{std::span<const uint8_t>(bytes)};
    EXPECT_EQ(TcpHeader::Parse(exact.span()).has_value(), offset >= 5 && offset <= 10) << offset;
  }
  EXPECT_FALSE(TcpHeader::Parse(std::span(bytes).first(19)));
}

}  // namespace
}  // namespace tapwire::wire
