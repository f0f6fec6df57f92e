// SPDX-License-Identifier: Apache-2.0
#include "netdev/gso.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using testing::BytesOf;
using testing::Cut;
using testing::FrameFault;
using testing::FrameSpec;
using testing::Get16;
using testing::Get32;
using testing::LayoutOf;
using testing::MakePacket;
using testing::WireBytesOf;

constexpr uint8_t kFin = 0x01, kPsh = 0x08, kAck = 0x10, kCwr = 0x80;

std::vector<PacketPtr> Take(SegmentResult result) {
  std::vector<PacketPtr> segments;
  while (PacketPtr packet = result.segments.PopFront()) {
    segments.push_back(std::move(packet));
  }
  return segments;
}

class GsoTest : public testing::NetdevTest {
 protected:
  SegmentResult Segment(const Packet& packet, FeatureSet features) {
    return SegmentPacket(context.pool(), packet, features);
  }
};

TEST_F(GsoTest, RequiredFeaturesFollowTheType) {  // Covers: netdev:F-01
  const auto required = [&](GsoType type) {
    PacketPtr packet = Frame();
    packet->meta.gso = {.type = type, .size = 1};
    return RequiredGsoFeatures(*packet);
  };
  EXPECT_EQ(required(GsoType::kTcpv4 | GsoType::kFixedId), (FeatureSet{kTso, kTsoMangleId}));
  EXPECT_EQ(required(GsoType::kTcpv4 | GsoType::kFixedIdInner), (FeatureSet{kTso, kTsoMangleId}));
  EXPECT_EQ(required(GsoType::kTcpv6 | GsoType::kTcpEcn), (FeatureSet{kTso6, kTsoEcn}));
  EXPECT_EQ(required(GsoType::kUdpL4 | GsoType::kDodgy), (FeatureSet{kGsoUdpL4, kGsoRobust}));
  EXPECT_EQ(required(GsoType::kTcpAccEcn), FeatureSet{kGsoAccEcn});
}

TEST_F(GsoTest, TcpSegmentsCarryLengthsSequenceIdsAndFlags) {  // Covers: netdev:X-01, bug:B89
  const FrameSpec spec{
      .payload = 3000, .tcp_flags = kAck | kPsh | kFin, .seq = 0xfffffc00, .ip_id = 0xffff};
  PacketPtr packet = GsoPacket(spec, 1448);
  const auto segments = Take(Segment(*packet, {kSg, kHwCsum}));
  ASSERT_EQ(segments.size(), 3u);
  const size_t sizes[] = {1448, 1448, 104};
  for (size_t i = 0; i < 3; ++i) {
    const Packet& segment = *segments[i];
    const std::vector<uint8_t> bytes = BytesOf(segment);
    EXPECT_EQ(bytes.size(), 54 + sizes[i]);
    EXPECT_EQ(Get16(bytes, 16), 40 + sizes[i]) << "total length";
    EXPECT_EQ(Get16(bytes, 18), (0xffffu + i) & 0xffff) << "identification wraps";
    EXPECT_EQ(Get32(bytes, 38), static_cast<uint32_t>(0xfffffc00 + i * 1448)) << "sequence wraps";
    EXPECT_EQ(bytes[47], i == 2 ? kAck | kPsh | kFin : kAck);
    EXPECT_EQ(segment.meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(segment.meta.gso, GsoInfo()) << "a segment is no super-packet";
    EXPECT_EQ(segment.l3_in_data(), 14);
    EXPECT_EQ(segment.l4_in_data(), 34);
    EXPECT_EQ(FrameFault(WireBytesOf(segment)), "");
  }
}

TEST_F(GsoTest, CwrStandsOnTheFirstSegmentOnly) {  // Covers: netdev:X-02
  for (const GsoType modifier : {GsoType::kNone, GsoType::kTcpEcn}) {
    PacketPtr packet = GsoPacket({.payload = 300, .tcp_flags = kAck | kCwr}, 100);
    packet->meta.gso.type |= modifier;
    const auto segments = Take(Segment(*packet, {kSg, kHwCsum}));
    ASSERT_EQ(segments.size(), 3u);
    EXPECT_EQ(segments[0]->data()[47], kAck | kCwr);
    EXPECT_EQ(segments[1]->data()[47], kAck);
    EXPECT_EQ(segments[2]->data()[47], kAck);
  }
}

TEST_F(GsoTest, AccurateEcnKeepsCwrOnAll) {
  PacketPtr packet = GsoPacket({.payload = 300, .tcp_flags = kAck | kCwr}, 100);
  packet->meta.gso.type |= GsoType::kTcpAccEcn;
  for (const PacketPtr& segment : Take(Segment(*packet, {kSg, kHwCsum}))) {
    EXPECT_EQ(segment->data()[47], kAck | kCwr);
  }
}

TEST_F(GsoTest, FixedIdentificationIsRepeated) {
  PacketPtr packet = GsoPacket({.payload = 300, .ip_id = 42}, 100);
  packet->meta.gso.type |= GsoType::kFixedId;
  const auto segments = Take(Segment(*packet, {kSg, kHwCsum}));
  ASSERT_EQ(segments.size(), 3u);
  for (const PacketPtr& segment : segments) {
    EXPECT_EQ(Get16(segment->head_bytes(), 18), 42u);
    EXPECT_EQ(FrameFault(WireBytesOf(*segment)), "");
  }
}

TEST_F(GsoTest, WithoutFeaturesSegmentsAreLinearAndComplete) {  // Covers: netdev:X-03
  PacketPtr packet = GsoPacket({.payload = 3000}, 1448, {.head = 54, .piece = 700});
  const auto segments = Take(Segment(*packet, {}));
  ASSERT_EQ(segments.size(), 3u);
  for (const PacketPtr& segment : segments) {
    EXPECT_TRUE(segment->is_linear());
    EXPECT_EQ(segment->meta.csum_state, CsumState::kNone);
    EXPECT_EQ(FrameFault(BytesOf(*segment)), "");
  }
}

TEST_F(GsoTest, ScatterGatherSharesThePayload) {
  PacketPtr packet = GsoPacket({.payload = 3000}, 1448, {.head = 54, .piece = 2000});
  const auto segments = Take(Segment(*packet, {kSg, kHwCsum}));
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0]->head_length(), 54u);
  ASSERT_EQ(segments[1]->frag_count(), 2u);
  EXPECT_EQ(segments[1]->frag_ref(0).slab, packet->frag_ref(0).slab);
  EXPECT_EQ(segments[1]->frag_ref(1).slab, packet->frag_ref(1).slab);
}

TEST_F(GsoTest, IPv4HeaderChecksumIsFilledWhateverTheSenderLeft) {  // Covers: bug:B87
  PacketPtr packet = GsoPacket({.payload = 3000, .ip_options = 8}, 1448);
  packet->data()[24] = packet->data()[25] = 0;
  const auto segments = Take(Segment(*packet, {kSg, kHwCsum}));
  ASSERT_EQ(segments.size(), 3u);
  for (const PacketPtr& segment : segments) {
    EXPECT_EQ(FrameFault(WireBytesOf(*segment)), "");
  }
}

// Every protocol, layout and ability with odd sizes: what comes out is what one frame
// per piece would have been.
TEST_F(GsoTest, SegmentsEqualFramesBuiltOneByOne) {  // Covers: bug:B85
  const FeatureSet abilities[] = {
      {}, {kSg}, {kHwCsum}, {kSg, kHwCsum}, {kSg, kIpCsum}, {kSg, kIpv6Csum}};
  for (FrameSpec spec : {FrameSpec{}, FrameSpec{.udp = true}, FrameSpec{.ipv6 = true},
                         FrameSpec{.ipv6 = true, .udp = true}, FrameSpec{.tcp_options = 12},
                         FrameSpec{.ip_options = 4}, FrameSpec{.ipv6 = true, .dest_options = true},
                         FrameSpec{.tags = 1}}) {
    for (const size_t payload : {3u, 101u, 999u}) {
      for (const size_t size : {1u, 2u, 7u, 50u, 333u}) {
        if (size >= payload || payload / size > 200) continue;
        for (const FeatureSet features : abilities) {
          spec.payload = payload;
          const size_t headers = LayoutOf(spec).payload;
          for (const Cut cut :
               {Cut{}, Cut{.head = headers, .piece = 17}, Cut{.head = headers + 5, .piece = 113}}) {
            if (cut.piece == 17 && payload > 1000) continue;
            PacketPtr packet = GsoPacket(spec, static_cast<uint16_t>(size), cut);
            const std::vector<uint8_t> before = BytesOf(*packet);
            const auto segments = Take(Segment(*packet, features));
            EXPECT_EQ(BytesOf(*packet), before) << "the packet itself is not changed";
            ASSERT_EQ(segments.size(), (payload + size - 1) / size);
            const std::vector<uint8_t> whole = testing::BuildFrame(spec);
            for (size_t i = 0; i < segments.size(); ++i) {
              // The expected frame: same builder, then the right payload.
              FrameSpec one = spec;
              one.payload = std::min(size, payload - i * size);
              one.seq = static_cast<uint32_t>(spec.seq + i * size);
              one.ip_id = static_cast<uint16_t>(spec.ip_id + i);
              std::vector<uint8_t> expected = testing::BuildFrame(one);
              std::copy_n(whole.begin() + static_cast<long>(headers + i * size), one.payload,
                          expected.begin() + static_cast<long>(headers));
              std::vector<uint8_t> actual = WireBytesOf(*segments[i]);
              const size_t field = LayoutOf(spec).checksum;
              if (spec.tags == 0) {
                EXPECT_EQ(FrameFault(actual), "");
              }
              testing::Put16(expected, field, Get16(actual, field));
              EXPECT_EQ(actual, expected);
            }
          }
        }
      }
    }
  }
}

TEST_F(GsoTest, ProtocolChecksumIsLeftOnlyToADeviceThatHasIt) {
  const auto state = [&](const FrameSpec& spec, FeatureSet features) {
    PacketPtr packet = GsoPacket(spec, 50);
    const auto segments = Take(Segment(*packet, features));
    return segments.empty() ? CsumState::kComplete : segments[0]->meta.csum_state;
  };
  EXPECT_EQ(state({}, {kSg, kIpCsum}), CsumState::kPartial);
  EXPECT_EQ(state({}, {kSg, kIpv6Csum}), CsumState::kNone);
  EXPECT_EQ(state({.ipv6 = true}, {kSg, kIpCsum}), CsumState::kNone);
  EXPECT_EQ(state({.ipv6 = true}, {kSg, kIpv6Csum}), CsumState::kPartial);
  EXPECT_EQ(state({.ipv6 = true, .dest_options = true}, {kSg, kIpv6Csum}), CsumState::kNone);
  EXPECT_EQ(state({.ipv6 = true, .dest_options = true}, {kSg, kHwCsum}), CsumState::kPartial);
}

TEST_F(GsoTest, UdpDatagramWhoseSumIsZeroCarriesAllOnes) {
  // The first datagram's last word is chosen so that its sum comes out as 0xffff.
  const FrameSpec spec{.udp = true, .payload = 60};
  std::vector<uint8_t> first = testing::BuildFrame({.udp = true, .payload = 40});
  testing::Put16(first, 42 + 38, 0);
  testing::Put16(first, 40, 0);
  const uint32_t pseudo = testing::NaivePseudoSum(first, 14, 17, 48);
  const uint32_t word = 0xffff - testing::NaiveSum(std::span(first).subspan(34), pseudo);
  PacketPtr packet = GsoPacket(spec, 40);
  packet->data()[42 + 38] = static_cast<uint8_t>(word >> 8);
  packet->data()[42 + 39] = static_cast<uint8_t>(word);
  const auto segments = Take(Segment(*packet, {}));
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(Get16(segments[0]->head_bytes(), 40), 0xffffu);
}

TEST_F(GsoTest, MetadataSurvives) {
  PacketPtr packet = GsoPacket({.payload = 300}, 100);
  packet->meta.rx_time = Time(Duration(777));
  packet->meta.flow_hash = 99;
  packet->meta.rx_device = 3;
  packet->meta.ether_type = 0x0800;
  packet->meta.vlan_present = true;
  packet->meta.vlan_tci = 5;
  packet->meta.link_multicast = true;
  packet->meta.late = true;
  for (const PacketPtr& segment : Take(Segment(*packet, {kSg, kHwCsum}))) {
    // What segmentation sets itself.
    PacketMeta meta = segment->meta;
    meta.gso = packet->meta.gso;
    meta.l2_offset = packet->meta.l2_offset;
    meta.l3_offset = packet->meta.l3_offset;
    meta.l4_offset = packet->meta.l4_offset;
    meta.csum_start = packet->meta.csum_start;
    EXPECT_EQ(meta, packet->meta);
    EXPECT_EQ(segment->l2_in_data(), 0);
  }
}

TEST_F(GsoTest, TcpWithoutPartialIsSummedFromTheHeaders) {
  for (const CsumState state : {CsumState::kNone, CsumState::kUnnecessary}) {
    PacketPtr packet = Frame({.payload = 300});
    packet->meta.gso = {.type = GsoType::kTcpv4, .size = 100};
    packet->meta.csum_state = state;
    const auto segments = Take(Segment(*packet, {}));
    ASSERT_EQ(segments.size(), 3u);
    for (const PacketPtr& segment : segments) {
      EXPECT_EQ(FrameFault(BytesOf(*segment)), "");
      EXPECT_EQ(segment->meta.csum_state, CsumState::kNone);
    }
  }
}

TEST_F(GsoTest, CapableDeviceGetsItWhole) {
  PacketPtr packet = GsoPacket({.payload = 300}, 100);
  const SegmentResult whole = Segment(*packet, {kSg, kHwCsum, kTso});
  EXPECT_EQ(whole.error, DropReason::kNone);
  EXPECT_TRUE(whole.segments.empty());
  // Headers were looked at, so the source's trustworthiness does not matter.
  packet->meta.gso.type |= GsoType::kDodgy;
  EXPECT_TRUE(Segment(*packet, {kSg, kHwCsum, kTso}).segments.empty());
  packet->meta.gso.type |= GsoType::kTcpEcn;
  EXPECT_EQ(Segment(*packet, {kSg, kHwCsum, kTso}).segments.size(), 3u);
}

TEST_F(GsoTest, OneSegmentIsRefused) {  // Covers: netdev:X-10
  for (const uint16_t size : {uint16_t{300}, uint16_t{301}, uint16_t{60000}}) {
    PacketPtr packet = GsoPacket({.payload = 300}, size);
    EXPECT_EQ(Segment(*packet, {}).error, DropReason::kTxSegmentationFailed);
    EXPECT_EQ(PrepareGso(*packet), DropReason::kTxSegmentationFailed);
  }
  PacketPtr empty = GsoPacket({.payload = 0}, 100);
  EXPECT_EQ(Segment(*empty, {}).error, DropReason::kTxSegmentationFailed);
}

TEST_F(GsoTest, MetadataThatContradictsTheFrameIsRefused) {  // Covers: bug:B89
  const auto error = [&](const FrameSpec& spec, auto spoil) {
    PacketPtr packet = GsoPacket(spec, 100);
    spoil(*packet);
    const SegmentResult result = Segment(*packet, {kSg, kHwCsum, kTso, kGsoUdpL4});
    EXPECT_TRUE(result.segments.empty());
    EXPECT_EQ(PrepareGso(*packet), result.error);
    return result.error;
  };
  const FrameSpec tcp{.payload = 300};
  const FrameSpec udp{.udp = true, .payload = 300};
  EXPECT_EQ(error(tcp, [](Packet& p) { p.meta.gso.size = 0; }), DropReason::kTxBadGsoMetadata);
  EXPECT_EQ(error(tcp, [](Packet& p) { p.meta.gso.type = GsoType::kNone; }),
            DropReason::kTxBadGsoMetadata);
  for (const GsoType unknown : {GsoType::kUdp, GsoType::kSctp, GsoType::kDodgy, GsoType::kGre}) {
    EXPECT_EQ(error(tcp, [&](Packet& p) { p.meta.gso.type = unknown; }),
              DropReason::kTxBadGsoMetadata);
  }
  for (const GsoType wrong : {GsoType::kTcpv6, GsoType::kUdpL4, GsoType::kTcpv4 | GsoType::kTcpv6,
                              GsoType::kTcpv4 | GsoType::kGre}) {
    EXPECT_EQ(error(tcp, [&](Packet& p) { p.meta.gso.type = wrong; }),
              DropReason::kTxSegmentationFailed);
  }
  EXPECT_EQ(error(tcp, [](Packet& p) { p.meta.encapsulated = true; }),
            DropReason::kTxSegmentationFailed);
  EXPECT_EQ(error(tcp, [](Packet& p) { p.set_csum_start_in_data(33); }),
            DropReason::kTxBadChecksumMetadata);
  EXPECT_EQ(error(tcp, [](Packet& p) { p.meta.csum_offset = 6; }),
            DropReason::kTxBadChecksumMetadata);
  // Nobody knows whether a UDP sender wanted a checksum.
  for (const CsumState state : {CsumState::kNone, CsumState::kUnnecessary, CsumState::kComplete}) {
    EXPECT_EQ(error(udp, [&](Packet& p) { p.meta.csum_state = state; }),
              DropReason::kTxBadChecksumMetadata);
  }
}

TEST_F(GsoTest, MalformedHeadersAreRefused) {
  const auto error = [&](size_t at, uint8_t value, const FrameSpec& spec = {.payload = 300}) {
    PacketPtr packet = GsoPacket(spec, 100);
    packet->data()[at] = value;
    packet->meta.gso.type |= GsoType::kDodgy;
    return Segment(*packet, {}).error;
  };
  EXPECT_EQ(error(46, 0x40), DropReason::kTxUntrustedHeaders) << "TCP header of 16 bytes";
  EXPECT_EQ(error(14, 0x44), DropReason::kTxUntrustedHeaders) << "IPv4 header of 16 bytes";
  EXPECT_EQ(error(14, 0x65), DropReason::kTxUntrustedHeaders) << "version 6 in IPv4";
  EXPECT_EQ(error(20, 0x20), DropReason::kTxUntrustedHeaders) << "more fragments";
  EXPECT_EQ(error(21, 0x01), DropReason::kTxUntrustedHeaders) << "fragment offset";
  EXPECT_EQ(error(23, 1), DropReason::kTxUntrustedHeaders) << "ICMP";
  EXPECT_EQ(error(12, 0x12), DropReason::kTxUntrustedHeaders) << "EtherType";
  const FrameSpec v6{.ipv6 = true, .payload = 300, .dest_options = true};
  EXPECT_EQ(error(14, 0x40, v6), DropReason::kTxUntrustedHeaders) << "version 4 in IPv6";
  EXPECT_EQ(error(54, 44, v6), DropReason::kTxUntrustedHeaders) << "fragment header";
  EXPECT_EQ(error(55, 255, v6), DropReason::kTxUntrustedHeaders) << "extension beyond the frame";
  EXPECT_EQ(error(54, 59, v6), DropReason::kTxUntrustedHeaders) << "no next header";
}

TEST_F(GsoTest, RoutingHeaderWithSegmentsLeftIsRefused) {
  // The destination of the checksum would not be the one in the fixed header.
  PacketPtr packet = GsoPacket({.ipv6 = true, .payload = 300, .dest_options = true}, 100);
  packet->data()[20] = 43;
  EXPECT_EQ(Segment(*packet, {}).segments.size(), 0u) << "option bytes say 4 segments left";
  packet->data()[57] = 0;
  EXPECT_EQ(Segment(*packet, {}).segments.size(), 3u);
}

TEST_F(GsoTest, SegmentBeyondTheLengthFieldIsRefused) {
  PacketPtr packet = GsoPacket({.payload = 65535 + 100}, 65535);
  EXPECT_EQ(Segment(*packet, {kSg}).error, DropReason::kTxBadGsoMetadata);
  PacketPtr fits = GsoPacket({.payload = 65535 + 100}, 65535 - 40);
  EXPECT_EQ(Segment(*fits, {kSg}).segments.size(), 2u);
}

TEST_F(GsoTest, MoreSegmentsThanCanBeCountedAreRefused) {
  PacketPtr packet = GsoPacket({.payload = 65536}, 1);
  EXPECT_EQ(Segment(*packet, {kSg}).error, DropReason::kTxSegmentationFailed);
}

TEST_F(GsoTest, PoolAtItsBudgetFailsWhole) {
  TestEnvironment other;
  NetContext small(other.environment(), {.pool = {.budget_bytes = 4u << 20}});
  PacketPtr packet = testing::MakeGsoPacket(small.pool(), {.payload = 60000}, 1);
  const SegmentResult result = SegmentPacket(small.pool(), *packet, {});
  EXPECT_EQ(result.error, DropReason::kTxNoBuffer);
  EXPECT_TRUE(result.segments.empty());
  EXPECT_EQ(small.pool().stats().packets_in_use, 1u);
}

TEST_F(GsoTest, PrepareCountsSegmentsAndWritesThePseudoHeaderSum) {
  for (const bool ipv6 : {false, true}) {
    const FrameSpec spec{.ipv6 = ipv6, .payload = 3000};
    PacketPtr packet = Frame(spec);
    packet->meta.gso = {.type = testing::KindOf(spec), .size = 1448};
    ASSERT_EQ(PrepareGso(*packet), DropReason::kNone);
    EXPECT_EQ(packet->meta.gso.segs, 3);
    EXPECT_EQ(packet->meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(WireBytesOf(*packet), testing::BuildFrame(spec));
  }
}

TEST_F(GsoTest, PrepareMakesScatteredHeadersLinear) {
  PacketPtr packet = MakePacket(context.pool(), BytesOf(*GsoPacket({.payload = 300}, 100)),
                                {.head = 20, .piece = 11});
  packet->meta.gso = {.type = GsoType::kTcpv4, .size = 100};
  EXPECT_EQ(Segment(*packet, {}).error, DropReason::kTxSegmentationFailed);
  ASSERT_EQ(PrepareGso(*packet), DropReason::kNone);
  EXPECT_EQ(Segment(*packet, {}).segments.size(), 3u);
}

TEST_F(GsoTest, HeadersInPlaceAreNotMoved) {
  PacketPtr packet = GsoPacket({.payload = 3000}, 1448, {.head = 54, .piece = 1000});
  ASSERT_EQ(PrepareGso(*packet), DropReason::kNone);
  EXPECT_EQ(packet->head_length(), 54u);
}

TEST_F(GsoTest, OffloadMetadataMustBePossible) {
  const auto check = [&](auto spoil) {
    PacketPtr packet = PartialFrame();
    spoil(*packet);
    return CheckOffloadMetadata(*packet);
  };
  EXPECT_EQ(check([](Packet&) {}), DropReason::kNone);
  EXPECT_EQ(check([](Packet& p) { p.meta.gso = {.type = GsoType::kTcpv4, .size = 0}; }),
            DropReason::kTxBadGsoMetadata);
  EXPECT_EQ(check([](Packet& p) { p.meta.gso = {.type = GsoType::kNone, .size = 100}; }),
            DropReason::kTxBadGsoMetadata);
  EXPECT_EQ(check([](Packet& p) {
              p.meta.gso = {.type = GsoType::kDodgy | GsoType::kTcpEcn, .size = 100};
            }),
            DropReason::kTxBadGsoMetadata)
      << "says how, but not what to cut";
  EXPECT_EQ(
      check([](Packet& p) { p.meta.gso = {.type = static_cast<GsoType>(1U << 25), .size = 100}; }),
      DropReason::kTxBadGsoMetadata);
  EXPECT_EQ(check([](Packet& p) { p.meta.csum_start = PacketMeta::kUnset; }),
            DropReason::kTxBadChecksumMetadata);
  EXPECT_EQ(check([](Packet& p) { p.set_csum_start_in_data(13); }),
            DropReason::kTxBadChecksumMetadata);
  EXPECT_EQ(check([](Packet& p) { p.meta.csum_offset = 0xffff; }),
            DropReason::kTxBadChecksumMetadata);
  EXPECT_EQ(check([](Packet& p) { p.Trim(34 + 17); }), DropReason::kTxBadChecksumMetadata);
  EXPECT_EQ(check([](Packet& p) { p.Trim(34 + 18); }), DropReason::kNone);
}

}  // namespace
}  // namespace tapwire::netdev
