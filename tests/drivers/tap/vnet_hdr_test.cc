// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/vnet_hdr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "netdev/base/seeded_random.h"
#include "netdev/csum_offload.h"

namespace tapwire::drivers {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr VnetHdr kSample = {.flags = VnetHdr::kNeedsCsum,
                             .gso_type = VnetHdr::kGsoTcpv4 | VnetHdr::kGsoEcn,
                             .hdr_len = 0x0102,
                             .gso_size = 0x0304,
                             .csum_start = 0x0506,
                             .csum_offset = 0x0708,
                             .num_buffers = 0x090a};

// Covers: bug:B92 — the order of the bytes is that of the header's definition, not of the machine.
TEST(VnetHdrTest, LittleEndianBytesAreFixed) {
  std::array<uint8_t, 12> bytes;
  kSample.Emit(bytes, VnetOrder::kLittle);
  EXPECT_THAT(bytes,
              ElementsAre(0x01, 0x81, 0x02, 0x01, 0x04, 0x03, 0x06, 0x05, 0x08, 0x07, 0x0a, 0x09));
  EXPECT_EQ(VnetHdr::Parse(bytes, VnetOrder::kLittle), kSample);
}

// Covers: bug:B92 — a legacy header on a big-endian machine.
TEST(VnetHdrTest, BigEndianBytesAreFixed) {
  std::array<uint8_t, 12> bytes;
  kSample.Emit(bytes, VnetOrder::kBig);
  EXPECT_THAT(bytes,
              ElementsAre(0x01, 0x81, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a));
  EXPECT_EQ(VnetHdr::Parse(bytes, VnetOrder::kBig), kSample);
}

// Covers: bug:B92 — the 10-byte form has no num_buffers, and its absence shifts nothing.
TEST(VnetHdrTest, ShortFormEndsBeforeNumBuffers) {
  std::array<uint8_t, 10> bytes;
  kSample.Emit(bytes, VnetOrder::kLittle);
  EXPECT_THAT(bytes, ElementsAre(0x01, 0x81, 0x02, 0x01, 0x04, 0x03, 0x06, 0x05, 0x08, 0x07));
  VnetHdr expected = kSample;
  expected.num_buffers = 0;
  EXPECT_EQ(VnetHdr::Parse(bytes, VnetOrder::kLittle), expected);
}

TEST(VnetHdrTest, TruncatedHeadersAreRefused) {
  const std::array<uint8_t, 12> bytes{};
  for (size_t length = 0; length < 10; ++length) {
    EXPECT_EQ(VnetHdr::Parse(std::span(bytes).first(length), VnetOrder::kLittle), std::nullopt)
        << length;
  }
  EXPECT_TRUE(VnetHdr::Parse(std::span(bytes).first(11), VnetOrder::kLittle).has_value());
}

TEST(VnetHdrTest, BytesBeyondTheHeaderAreNotTouched) {
  std::array<uint8_t, 24> bytes;
  bytes.fill(0xee);
  kSample.Emit(bytes, VnetOrder::kLittle);
  EXPECT_EQ(VnetHdr::Parse(bytes, VnetOrder::kLittle), kSample);
  EXPECT_THAT(std::span(bytes).subspan(12), Each(0xee));
}

TEST(VnetHdrTest, ParseGivesBackWhatEmitWrote) {
  SeededRandom random(7);
  for (int i = 0; i < 1000; ++i) {
    const VnetHdr hdr = {.flags = static_cast<uint8_t>(random.Next32()),
                         .gso_type = static_cast<uint8_t>(random.Next32()),
                         .hdr_len = static_cast<uint16_t>(random.Next32()),
                         .gso_size = static_cast<uint16_t>(random.Next32()),
                         .csum_start = static_cast<uint16_t>(random.Next32()),
                         .csum_offset = static_cast<uint16_t>(random.Next32()),
                         .num_buffers = static_cast<uint16_t>(random.Next32())};
    std::array<uint8_t, 12> bytes;
    const VnetOrder order = i % 2 == 0 ? VnetOrder::kLittle : VnetOrder::kBig;
    hdr.Emit(bytes, order);
    ASSERT_EQ(VnetHdr::Parse(bytes, order), hdr);
  }
}

// ---- Metadata ----

constexpr VnetRxPolicy kAll;

class VnetMetaTest : public ::testing::Test {
 protected:
  // An Ethernet frame of `length` bytes whose transport header is TCP without options if it is
  // where IPv4 (34) or IPv6 (54) would have it.
  PacketPtr Frame(uint16_t ether_type, size_t length) {
    std::vector<uint8_t> bytes(length);
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    if (length >= 14) {
      bytes[12] = static_cast<uint8_t>(ether_type >> 8);
      bytes[13] = static_cast<uint8_t>(ether_type);
    }
    for (const size_t l4 : {size_t{34}, size_t{54}}) {
      if (length > l4 + 12) bytes[l4 + 12] = 0x50;  // data offset 5
    }
    return PacketFromBytes(pool_, bytes);
  }
  PacketPtr Ipv4(size_t length) { return Frame(0x0800, length); }
  PacketPtr Ipv6(size_t length) { return Frame(0x86dd, length); }

  SlabPool pool_;
};

VnetHdr Tcp4Gso(uint16_t gso_size) {
  return {.flags = VnetHdr::kNeedsCsum,
          .gso_type = VnetHdr::kGsoTcpv4,
          .hdr_len = 54,
          .gso_size = gso_size,
          .csum_start = 34,
          .csum_offset = 16};
}

// Covers: bug:B95 — a partial sum is good inside; it is not "valid" even if the flag says so too.
TEST_F(VnetMetaTest, NeedsCsumIsPartial) {
  PacketPtr packet = Ipv4(60);
  const VnetHdr hdr = {
      .flags = VnetHdr::kNeedsCsum | VnetHdr::kDataValid, .csum_start = 34, .csum_offset = 6};
  ASSERT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(packet->csum_start_in_data(), 34);
  EXPECT_EQ(packet->meta.csum_offset, 6);
  EXPECT_EQ(packet->meta.gso, GsoInfo());
}

// Covers: bug:B95 — what the kernel verified need not be verified again, unless nothing is
// believed.
TEST_F(VnetMetaTest, DataValidIsUnnecessaryOnlyWhereTrusted) {
  const VnetHdr hdr = {.flags = VnetHdr::kDataValid};
  PacketPtr packet = Ipv4(60);
  ASSERT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.csum_state, CsumState::kUnnecessary);
  EXPECT_EQ(packet->meta.csum_level, 0);

  packet = Ipv4(60);
  ASSERT_EQ(ToMeta(hdr, {.trust_data_valid = false}, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.csum_state, CsumState::kNone);
}

// Covers: bug:B95
TEST_F(VnetMetaTest, NoFlagMeansToBeVerified) {
  PacketPtr packet = Ipv4(60);
  ASSERT_EQ(ToMeta(VnetHdr(), kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.csum_state, CsumState::kNone);
}

TEST_F(VnetMetaTest, ChecksumMustLieInsideTheFrame) {
  struct Case {
    size_t length;
    uint16_t start, offset;
    bool good;
  };
  for (const Case& c : {Case{60, 34, 24, true}, Case{60, 34, 25, false}, Case{60, 58, 0, true},
                        Case{60, 59, 0, false}, Case{60, 0xffff, 0, false},
                        Case{60, 34, 0xffff, false}, Case{60, 0xffff, 0xffff, false},
                        Case{60, 14, 10, true}, Case{60, 13, 10, false}, Case{60, 0, 4, false}}) {
    PacketPtr packet = Ipv4(c.length);
    const VnetHdr hdr = {
        .flags = VnetHdr::kNeedsCsum, .csum_start = c.start, .csum_offset = c.offset};
    EXPECT_EQ(ToMeta(hdr, kAll, *packet),
              c.good ? DropReason::kNone : DropReason::kTapBadVnetHeader)
        << c.start << "+" << c.offset;
  }
}

TEST_F(VnetMetaTest, HeaderLengthBeyondTheFrameIsRefused) {
  PacketPtr packet = Ipv4(60);
  EXPECT_EQ(ToMeta({.hdr_len = 60}, kAll, *packet), DropReason::kNone);
  packet = Ipv4(60);
  EXPECT_EQ(ToMeta({.hdr_len = 61}, kAll, *packet), DropReason::kTapBadVnetHeader);
}

TEST_F(VnetMetaTest, SuperPacketKeepsTypeAndSizeAndIsUntrusted) {
  PacketPtr packet = Ipv4(54 + 3000);
  VnetHdr hdr = Tcp4Gso(1448);
  hdr.gso_type |= VnetHdr::kGsoEcn;
  ASSERT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.gso.type, GsoType::kTcpv4 | GsoType::kTcpEcn | GsoType::kDodgy);
  EXPECT_EQ(packet->meta.gso.size, 1448);
  EXPECT_EQ(packet->meta.gso.segs, 0);
}

TEST_F(VnetMetaTest, Ipv6SuperPacketIsTcpv6) {
  PacketPtr packet = Ipv6(74 + 3000);
  const VnetHdr hdr = {.flags = VnetHdr::kNeedsCsum,
                       .gso_type = VnetHdr::kGsoTcpv6,
                       .hdr_len = 74,
                       .gso_size = 1428,
                       .csum_start = 54,
                       .csum_offset = 16};
  ASSERT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.gso.type, GsoType::kTcpv6 | GsoType::kDodgy);
}

TEST_F(VnetMetaTest, UdpSuperPacketIsUdpL4InBothFamilies) {
  for (const uint16_t l4 : {uint16_t{34}, uint16_t{54}}) {
    PacketPtr packet = l4 == 34 ? Ipv4(3000) : Ipv6(3000);
    const VnetHdr hdr = {.flags = VnetHdr::kNeedsCsum,
                         .gso_type = VnetHdr::kGsoUdpL4,
                         .gso_size = 1000,
                         .csum_start = l4,
                         .csum_offset = 6};
    ASSERT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kNone);
    EXPECT_EQ(packet->meta.gso.type, GsoType::kUdpL4 | GsoType::kDodgy);
  }
}

// Covers: bug:B89 (metadata side): a type without a size would be divided by.
TEST_F(VnetMetaTest, GsoTypeWithoutSizeIsRefused) {
  PacketPtr packet = Ipv4(3000);
  EXPECT_EQ(ToMeta(Tcp4Gso(0), kAll, *packet), DropReason::kTapBadVnetHeader);
  packet = Ipv4(3000);
  EXPECT_EQ(ToMeta(Tcp4Gso(0xffff), kAll, *packet), DropReason::kTapBadVnetHeader);
}

TEST_F(VnetMetaTest, SizeWithoutTypeMeansNothing) {
  PacketPtr packet = Ipv4(3000);
  EXPECT_EQ(ToMeta({.gso_size = 1000}, kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.gso, GsoInfo());
}

// A payload of one segment is an ordinary packet: TCP header of 20 bytes, payload = gso_size.
TEST_F(VnetMetaTest, PacketOfOneSegmentIsNotGso) {
  PacketPtr packet = Ipv4(54 + 1448);
  ASSERT_EQ(ToMeta(Tcp4Gso(1448), kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.gso, GsoInfo());
  EXPECT_EQ(packet->meta.csum_state, CsumState::kPartial);

  packet = Ipv4(54 + 1449);
  ASSERT_EQ(ToMeta(Tcp4Gso(1448), kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.gso.size, 1448);
}

TEST_F(VnetMetaTest, GsoNeedsAPartialChecksumOfItsProtocol) {
  VnetHdr hdr = Tcp4Gso(1000);
  hdr.flags = 0;
  PacketPtr packet = Ipv4(3000);
  EXPECT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kTapBadVnetHeader);
  hdr.flags = VnetHdr::kDataValid;
  packet = Ipv4(3000);
  EXPECT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kTapBadVnetHeader);
  hdr = Tcp4Gso(1000);
  hdr.csum_offset = 6;  // UDP's
  packet = Ipv4(3000);
  EXPECT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kTapBadVnetHeader);
  packet = Ipv6(3000);  // not the protocol of the type
  EXPECT_EQ(ToMeta(Tcp4Gso(1000), kAll, *packet), DropReason::kTapBadVnetHeader);
  packet = Frame(0x0806, 3000);
  EXPECT_EQ(ToMeta(Tcp4Gso(1000), kAll, *packet), DropReason::kTapBadVnetHeader);
}

TEST_F(VnetMetaTest, TaggedSuperPacketIsAccepted) {
  PacketPtr packet = Frame(0x8100, 3000);
  VnetHdr hdr = Tcp4Gso(1000);
  hdr.csum_start = 38;
  ASSERT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kNone);
  EXPECT_EQ(packet->meta.gso.size, 1000);
}

TEST_F(VnetMetaTest, TypesNotAgreedOnAreRefusedUnderTheirOwnReason) {
  PacketPtr packet = Ipv4(3000);
  EXPECT_EQ(ToMeta(Tcp4Gso(1000), {.tcp = false}, *packet), DropReason::kTapGsoUnsupported);
  VnetHdr hdr = Tcp4Gso(1000);
  // UFO, unknown ones, ECN without a type, UDP with ECN.
  for (const int type : {0x03, 0x02, 0x06, 0x7f, 0x80, 0x85, 0xff}) {
    hdr.gso_type = static_cast<uint8_t>(type);
    packet = Ipv4(3000);
    EXPECT_EQ(ToMeta(hdr, kAll, *packet), DropReason::kTapGsoUnsupported) << type;
  }
  hdr.gso_type = VnetHdr::kGsoUdpL4;
  hdr.csum_offset = 6;
  packet = Ipv4(3000);
  EXPECT_EQ(ToMeta(hdr, {.udp = false}, *packet), DropReason::kTapGsoUnsupported);
}

// No header and no frame may lead outside the data, whatever they say.
TEST_F(VnetMetaTest, RandomHeadersNeverGiveImpossibleMetadata) {
  SeededRandom random(11);
  for (int i = 0; i < 5000; ++i) {
    const size_t length = random.Uniform(4000);
    PacketPtr packet = Frame(random.Uniform(2) == 0 ? 0x0800 : 0x86dd, length);
    std::array<uint8_t, 12> bytes;
    random.Fill(bytes);
    bytes[1] &= 0x87;
    bytes[7] &= 0x0f;
    bytes[9] &= 0x0f;
    const std::optional<VnetHdr> hdr = VnetHdr::Parse(bytes, VnetOrder::kLittle);
    if (ToMeta(*hdr, kAll, *packet) != DropReason::kNone) {
      continue;
    }
    EXPECT_EQ(packet->length(), length);
    const PacketMeta& meta = packet->meta;
    EXPECT_EQ(meta.gso.type == GsoType::kNone, meta.gso.size == 0);
    if (meta.csum_state == CsumState::kPartial) {
      ASSERT_GE(packet->csum_start_in_data(), 14);
      ASSERT_LE(static_cast<size_t>(packet->csum_start_in_data()) + meta.csum_offset + 2, length);
    }
    if (meta.gso.size != 0) {
      EXPECT_EQ(meta.csum_state, CsumState::kPartial);
      EXPECT_GT(length, size_t{meta.gso.size});
    }
  }
}

// ---- The way out ----

TEST_F(VnetMetaTest, PlainPacketHasAnEmptyHeader) { EXPECT_EQ(FromMeta(*Ipv4(60)), VnetHdr()); }

// Covers: bug:B95 — "data valid" is never claimed for a partial checksum.
TEST_F(VnetMetaTest, PartialPacketAsksForItsChecksum) {
  PacketPtr packet = Ipv4(60);
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 6;
  EXPECT_EQ(FromMeta(*packet), (VnetHdr{.flags = 1, .csum_start = 34, .csum_offset = 6}));
}

TEST_F(VnetMetaTest, VerifiedPacketIsDataValid) {
  PacketPtr packet = Ipv4(60);
  packet->meta.csum_state = CsumState::kUnnecessary;
  EXPECT_EQ(FromMeta(*packet), VnetHdr{.flags = 2});
}

// Covers: bug:B87 (position): start and field follow the VLAN tag, which is four bytes more.
TEST_F(VnetMetaTest, ChecksumStartCountsFromTheFrontOfTheData) {
  PacketPtr packet = Ipv4(60);
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 16;
  packet->Push(4);
  EXPECT_EQ(FromMeta(*packet).csum_start, 38);
  EXPECT_EQ(FromMeta(*packet).csum_offset, 16);
}

TEST_F(VnetMetaTest, SuperPacketsNameTheirKindAndHeaders) {
  struct Case {
    GsoType type;
    uint16_t start, offset;
    uint8_t wire_type;
    uint16_t hdr_len;
  };
  for (const Case& c :
       {Case{GsoType::kTcpv4, 34, 16, 0x01, 54},
        Case{GsoType::kTcpv4 | GsoType::kTcpEcn, 34, 16, 0x81, 54},
        Case{GsoType::kTcpv6, 54, 16, 0x04, 74}, Case{GsoType::kUdpL4, 34, 6, 0x05, 42},
        Case{GsoType::kTcpv4 | GsoType::kDodgy, 34, 16, 0x01, 54}}) {
    PacketPtr packet = Ipv4(4000);
    packet->meta.csum_state = CsumState::kPartial;
    packet->set_csum_start_in_data(c.start);
    packet->meta.csum_offset = c.offset;
    packet->meta.gso = {.type = c.type, .size = 1000};
    EXPECT_EQ(FromMeta(*packet), (VnetHdr{.flags = 1,
                                          .gso_type = c.wire_type,
                                          .hdr_len = c.hdr_len,
                                          .gso_size = 1000,
                                          .csum_start = c.start,
                                          .csum_offset = c.offset}));
  }
}

TEST_F(VnetMetaTest, HeaderLengthCountsTcpOptions) {
  PacketPtr packet = Ipv4(4000);
  packet->data()[34 + 12] = 0x80;  // 32 bytes: timestamps
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 16;
  packet->meta.gso = {.type = GsoType::kTcpv4, .size = 1000};
  EXPECT_EQ(FromMeta(*packet).hdr_len, 66);
}

// What goes out through one TAP comes in through another as it was, but untrusted.
TEST_F(VnetMetaTest, MetadataSurvivesTheHeader) {
  PacketPtr sent = Ipv6(5000);
  sent->meta.csum_state = CsumState::kPartial;
  sent->set_csum_start_in_data(54);
  sent->meta.csum_offset = 16;
  sent->meta.gso = {.type = GsoType::kTcpv6 | GsoType::kTcpEcn, .size = 1300, .segs = 4};
  PacketPtr received = Ipv6(5000);
  ASSERT_EQ(ToMeta(FromMeta(*sent), kAll, *received), DropReason::kNone);
  EXPECT_EQ(received->meta.gso.type, sent->meta.gso.type | GsoType::kDodgy);
  EXPECT_EQ(received->meta.gso.size, sent->meta.gso.size);
  EXPECT_EQ(received->csum_start_in_data(), sent->csum_start_in_data());
  EXPECT_EQ(received->meta.csum_offset, sent->meta.csum_offset);
}

}  // namespace
}  // namespace tapwire::drivers
