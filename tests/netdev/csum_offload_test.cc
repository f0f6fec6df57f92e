// SPDX-License-Identifier: Apache-2.0
#include "netdev/csum_offload.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "netdev/wire/ip_address.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev {
namespace {

using testing::BuildFrame;
using testing::BytesOf;
using testing::Cut;
using testing::FrameFault;
using testing::FrameSpec;
using testing::Get16;
using testing::LayoutOf;
using testing::MakePacket;
using testing::MakePartial;
using testing::NaiveSum;

const PseudoHeader kTcp4{
    .source = Ipv4Address(10, 0, 0, 1), .destination = Ipv4Address(10, 0, 0, 2), .protocol = 6};

class ChecksumHelpTest : public testing::NetdevTest {};

TEST_F(ChecksumHelpTest, CompletesEveryLayoutOfEveryKind) {  // Covers: bug:B85
  for (const bool ipv6 : {false, true}) {
    for (const bool udp : {false, true}) {
      for (size_t payload = 1; payload <= 64; ++payload) {
        for (const size_t piece : {0u, 1u, 3u, 7u, 32u}) {
          const FrameSpec spec{.ipv6 = ipv6, .udp = udp, .payload = payload};
          const Cut cut{.head = piece == 0 ? 0 : LayoutOf(spec).payload, .piece = piece};
          if (piece != 0 && payload / piece > 60) continue;
          PacketPtr packet = PartialFrame(spec, cut);
          ASSERT_TRUE(ChecksumHelp(*packet));
          EXPECT_EQ(packet->meta.csum_state, CsumState::kNone);
          EXPECT_EQ(BytesOf(*packet), BuildFrame(spec)) << payload << " in " << piece;
        }
      }
    }
  }
}

TEST_F(ChecksumHelpTest, ZeroBecomesAllOnes) {  // Covers: netdev:X-05
  // Choose the last two payload bytes so that the sum comes out as 0xffff.
  const FrameSpec spec{.udp = true, .payload = 20};
  std::vector<uint8_t> frame = BuildFrame(spec);
  const size_t l4 = LayoutOf(spec).l4;
  testing::Put16(frame, frame.size() - 2, 0);
  testing::Put16(frame, l4 + 6, 0);
  const uint32_t pseudo = testing::NaivePseudoSum(frame, 14, 17, frame.size() - l4);
  const uint32_t sum = NaiveSum(std::span(frame).subspan(l4), pseudo);
  testing::Put16(frame, frame.size() - 2, 0xffff - sum);
  PacketPtr packet = MakePacket(context.pool(), frame);
  MakePartial(*packet, spec);
  ASSERT_TRUE(ChecksumHelp(*packet));
  EXPECT_EQ(Get16(packet->head_bytes(), l4 + 6), 0xffffu);
}

// To TCP 0 is a checksum as any other, and what captures show is compared with it.
TEST_F(ChecksumHelpTest, ZeroStaysZeroForTcp) {
  const FrameSpec spec{.payload = 20};
  std::vector<uint8_t> frame = BuildFrame(spec);
  const size_t l4 = LayoutOf(spec).l4;
  testing::Put16(frame, frame.size() - 2, 0);
  testing::Put16(frame, l4 + 16, 0);
  const uint32_t pseudo = testing::NaivePseudoSum(frame, 14, 6, frame.size() - l4);
  const uint32_t sum = NaiveSum(std::span(frame).subspan(l4), pseudo);
  testing::Put16(frame, frame.size() - 2, 0xffff - sum);
  PacketPtr packet = MakePacket(context.pool(), frame);
  MakePartial(*packet, spec);
  ASSERT_TRUE(ChecksumHelp(*packet));
  EXPECT_EQ(Get16(packet->head_bytes(), l4 + 16), 0u);
}

TEST_F(ChecksumHelpTest, OtherStatesAreLeftAlone) {
  for (const CsumState state : {CsumState::kNone, CsumState::kUnnecessary, CsumState::kComplete}) {
    PacketPtr packet = Frame();
    packet->meta.csum_state = state;
    const std::vector<uint8_t> before = BytesOf(*packet);
    EXPECT_TRUE(ChecksumHelp(*packet));
    EXPECT_EQ(packet->meta.csum_state, state);
    EXPECT_EQ(BytesOf(*packet), before);
  }
}

TEST_F(ChecksumHelpTest, ImpossibleMetadataIsRefused) {
  const auto refused = [&](auto spoil) {
    PacketPtr packet = PartialFrame();
    spoil(*packet);
    const std::vector<uint8_t> before = BytesOf(*packet);
    EXPECT_FALSE(ChecksumHelp(*packet));
    EXPECT_EQ(packet->meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(BytesOf(*packet), before);
  };
  refused([](Packet& p) { p.meta.csum_start = PacketMeta::kUnset; });
  refused([](Packet& p) { p.set_csum_start_in_data(-1); });
  refused([](Packet& p) { p.set_csum_start_in_data(static_cast<int32_t>(p.length())); });
  refused([](Packet& p) { p.meta.csum_offset = 0xffff; });
  refused([](Packet& p) {
    p.meta.csum_offset = static_cast<uint16_t>(p.length() - 34 - 1);  // one byte short
  });
  refused([](Packet& p) { p.meta.gso = {.type = GsoType::kTcpv4, .size = 10}; });
}

TEST_F(ChecksumHelpTest, FieldInAFragmentIsMadeLinear) {
  const FrameSpec spec{.payload = 40};
  const std::vector<uint8_t> frame = BuildFrame(spec);
  PacketPtr reference = PartialFrame(spec);
  PacketPtr packet = MakePacket(context.pool(), BytesOf(*reference), {.head = 20, .piece = 5});
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 16;
  ASSERT_TRUE(ChecksumHelp(*packet));
  EXPECT_EQ(BytesOf(*packet), frame);
}

class VerifyChecksumTest : public testing::NetdevTest {
 protected:
  // A TCP packet pulled up to its transport header.
  PacketPtr Pulled(const std::vector<uint8_t>& frame, Cut cut = {}) {
    PacketPtr packet = MakePacket(context.pool(), frame, cut);
    packet->Pull(34);
    return packet;
  }
  static bool Verify(const Packet& packet) {
    return VerifyTransportChecksum(packet, kTcp4, static_cast<uint32_t>(packet.length()));
  }
};

TEST_F(VerifyChecksumTest, UnnecessaryIsBelieved) {  // Covers: netdev:C-01, netdev:C-07
  std::vector<uint8_t> frame = BuildFrame({});
  frame.back() ^= 1;
  PacketPtr packet = Pulled(frame);
  packet->meta.csum_state = CsumState::kUnnecessary;
  EXPECT_TRUE(Verify(*packet));
}

TEST_F(VerifyChecksumTest, NoneIsVerified) {  // Covers: netdev:C-02
  std::vector<uint8_t> frame = BuildFrame({});
  EXPECT_TRUE(Verify(*Pulled(frame)));
  EXPECT_TRUE(Verify(*Pulled(frame, {.head = 40, .piece = 9})));
  for (size_t i = 34; i < frame.size(); i += 5) {
    frame[i] ^= 0x10;
    EXPECT_FALSE(Verify(*Pulled(frame))) << "byte " << i;
    EXPECT_FALSE(Verify(*Pulled(frame, {.head = 40, .piece = 9}))) << "byte " << i;
    frame[i] ^= 0x10;
  }
}

TEST_F(VerifyChecksumTest, Ipv6NoneIsVerified) {
  const FrameSpec spec{.ipv6 = true, .udp = true, .payload = 33};
  std::vector<uint8_t> frame = BuildFrame(spec);
  const PseudoHeader pseudo{.source = Ipv6Address::FromBytes(std::span(frame).subspan(22, 16)),
                            .destination = Ipv6Address::FromBytes(std::span(frame).subspan(38, 16)),
                            .protocol = 17};
  PacketPtr packet = MakePacket(context.pool(), frame);
  packet->Pull(54);
  EXPECT_TRUE(VerifyTransportChecksum(*packet, pseudo, 41));
  packet->data()[20] ^= 4;
  EXPECT_FALSE(VerifyTransportChecksum(*packet, pseudo, 41));
}

TEST_F(VerifyChecksumTest, PaddingBehindTheMessageDoesNotCount) {
  std::vector<uint8_t> frame = BuildFrame({.payload = 1});
  const auto length = static_cast<uint32_t>(frame.size() - 34);
  frame.resize(frame.size() + 5, 0xee);
  PacketPtr packet = Pulled(frame);
  EXPECT_TRUE(VerifyTransportChecksum(*packet, kTcp4, length));
  EXPECT_FALSE(VerifyTransportChecksum(*packet, kTcp4, length + 6)) << "beyond the packet";
}

TEST_F(VerifyChecksumTest, CompleteSurvivesRemovalOfATag) {  // Covers: netdev:C-03
  const FrameSpec spec{.tags = 1};
  PacketPtr packet = MakePacket(context.pool(), BuildFrame(spec));
  packet->Pull(14);
  packet->meta.csum_state = CsumState::kComplete;
  packet->meta.csum_value = static_cast<uint16_t>(NaiveSum(packet->head_bytes()));
  // The tag's value and the type behind it, then the IPv4 header.
  ASSERT_TRUE(PullAdjustingChecksum(*packet, 4));
  ASSERT_TRUE(PullAdjustingChecksum(*packet, 20));
  EXPECT_EQ(packet->meta.csum_value, NaiveSum(packet->head_bytes()));
  EXPECT_TRUE(Verify(*packet));
}

TEST_F(VerifyChecksumTest, CompleteSurvivesOddPulls) {
  std::vector<uint8_t> bytes(101);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = testing::PayloadByte(9, i);
  PacketPtr packet = MakePacket(context.pool(), bytes);
  packet->meta.csum_state = CsumState::kComplete;
  packet->meta.csum_value = static_cast<uint16_t>(NaiveSum(bytes));
  for (const size_t n : {1u, 2u, 3u, 5u, 8u}) {
    const auto pulled = PullAdjustingChecksum(*packet, n);
    ASSERT_TRUE(pulled);
    EXPECT_EQ(pulled->size(), n);
    EXPECT_EQ(packet->meta.csum_value, NaiveSum(packet->head_bytes())) << n;
  }
  EXPECT_FALSE(PullAdjustingChecksum(*packet, 1000));
}

TEST_F(VerifyChecksumTest, CompleteThatDisagreesLetsTheBytesDecide) {
  std::vector<uint8_t> frame = BuildFrame({});
  PacketPtr good = Pulled(frame);
  good->meta.csum_state = CsumState::kComplete;
  good->meta.csum_value = 0x1234;
  EXPECT_TRUE(Verify(*good)) << "the device was wrong";
  frame.back() ^= 1;
  PacketPtr bad = Pulled(frame);
  bad->meta.csum_state = CsumState::kComplete;
  bad->meta.csum_value = static_cast<uint16_t>(NaiveSum(bad->head_bytes()));
  EXPECT_FALSE(Verify(*bad));
}

TEST_F(VerifyChecksumTest, PartialBehindTheFrontIsTrusted) {  // Covers: netdev:C-04
  PacketPtr packet = PartialFrame();
  EXPECT_TRUE(ChecksumUnnecessary(*packet));
  ASSERT_TRUE(PullAdjustingChecksum(*packet, 34));
  EXPECT_EQ(packet->meta.csum_state, CsumState::kPartial) << "start is just here";
  EXPECT_TRUE(Verify(*packet));
  ASSERT_TRUE(PullAdjustingChecksum(*packet, 1));
  EXPECT_EQ(packet->meta.csum_state, CsumState::kNone);

  PacketPtr plainly = PartialFrame();
  plainly->Pull(35);
  EXPECT_EQ(plainly->meta.csum_state, CsumState::kPartial) << "a plain pull changes nothing";
  EXPECT_FALSE(ChecksumUnnecessary(*plainly));
}

TEST_F(VerifyChecksumTest, NoneIsNotUnnecessary) {
  PacketPtr packet = Frame();
  EXPECT_FALSE(ChecksumUnnecessary(*packet));
  packet->meta.csum_state = CsumState::kComplete;
  EXPECT_FALSE(ChecksumUnnecessary(*packet));
}

// Covers: netdev:C-05
TEST_F(VerifyChecksumTest, CompleteEndsWithForwarding) {
  for (const CsumState state :
       {CsumState::kNone, CsumState::kUnnecessary, CsumState::kComplete, CsumState::kPartial}) {
    PacketPtr packet = PartialFrame();
    packet->meta.csum_state = state;
    packet->meta.csum_level = state == CsumState::kUnnecessary ? 2 : 0;
    const std::vector<uint8_t> before = BytesOf(*packet);
    ForwardChecksumState(*packet);
    EXPECT_EQ(packet->meta.csum_state, state == CsumState::kComplete ? CsumState::kNone : state);
    EXPECT_EQ(packet->meta.csum_level, state == CsumState::kUnnecessary ? 2 : 0);
    EXPECT_EQ(BytesOf(*packet), before) << "the field is not touched";
  }
}

// Covers: netdev:C-06
TEST_F(VerifyChecksumTest, ConsumedChecksumsLeaveThoseInside) {
  PacketPtr packet = Frame();
  packet->meta.csum_state = CsumState::kUnnecessary;
  packet->meta.csum_level = 1;
  ConsumeChecksum(*packet);  // the outer UDP header's
  EXPECT_EQ(packet->meta.csum_state, CsumState::kUnnecessary);
  EXPECT_EQ(packet->meta.csum_level, 0);
  EXPECT_TRUE(ChecksumUnnecessary(*packet)) << "for the inner transport";
  ConsumeChecksum(*packet);
  EXPECT_EQ(packet->meta.csum_state, CsumState::kNone);
  EXPECT_FALSE(ChecksumUnnecessary(*packet));
  ConsumeChecksum(*packet);
  EXPECT_EQ(packet->meta.csum_state, CsumState::kNone);
  PacketPtr partial = PartialFrame();
  ConsumeChecksum(*partial);
  EXPECT_EQ(partial->meta.csum_state, CsumState::kPartial);
}

TEST_F(VerifyChecksumTest, ChecksumsVerifiedInSoftwareAreNoted) {
  PacketPtr packet = Frame();
  for (const int level : {0, 1, 2, 3, 3}) {
    NoteVerifiedChecksum(*packet);
    EXPECT_EQ(packet->meta.csum_state, CsumState::kUnnecessary);
    EXPECT_EQ(packet->meta.csum_level, level);
  }
}

TEST_F(VerifyChecksumTest, CompleteGrowsWithHeadersPutInFront) {
  for (const size_t n : {1u, 2u, 7u, 14u, 20u}) {
    PacketPtr packet = Frame();
    packet->Pull(40);
    packet->meta.csum_state = CsumState::kComplete;
    packet->meta.csum_value = static_cast<uint16_t>(NaiveSum(packet->head_bytes()));
    AddToCompleteSum(*packet, packet->Push(n));
    EXPECT_EQ(packet->meta.csum_value, NaiveSum(packet->head_bytes())) << n;
  }
}

class SetPartialChecksumTest : public testing::NetdevTest {};

TEST_F(SetPartialChecksumTest, LeavesWhatChecksumHelpCompletes) {
  const std::vector<uint8_t> frame = BuildFrame({.payload = 77});
  PacketPtr packet = MakePacket(context.pool(), frame, {.head = 54, .piece = 10});
  packet->Pull(34);
  SetPartialChecksum(*packet, kTcp4, 16);
  EXPECT_EQ(packet->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(packet->meta.csum_offset, 16);
  EXPECT_EQ(packet->csum_start_in_data(), 0);
  EXPECT_EQ(Get16(packet->head_bytes(), 16), testing::NaivePseudoSum(frame, 14, 6, 97));
  // Headers put in front do not disturb the position.
  packet->Push(34);
  EXPECT_EQ(packet->csum_start_in_data(), 34);
  ASSERT_TRUE(ChecksumHelp(*packet));
  EXPECT_EQ(BytesOf(*packet), frame);
}

}  // namespace
}  // namespace tapwire::netdev
