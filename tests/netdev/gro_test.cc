// SPDX-License-Identifier: Apache-2.0
#include "netdev/gro.h"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/netdev/gro_frames.h"

namespace tapwire::netdev {
namespace {

using testing::BuildFrame;
using testing::Bytes;
using testing::BytesOf;
using ::testing::ElementsAre;
using testing::FrameLayout;
using testing::FrameSpec;
using testing::Get16;
using testing::kAck;
using testing::kCwr;
using testing::kEce;
using testing::kFin;
using testing::kPsh;
using testing::kRst;
using testing::kSyn;
using testing::kUrg;
using testing::LayoutOf;
using testing::MakePacket;
using testing::NaivePseudoSum;
using testing::Piece;
using testing::Put16;
using testing::WireBytesOf;

constexpr size_t kMss = testing::kGroMss;

class GroTest : public testing::GroFamilyFixture {};
INSTANTIATE_TEST_SUITE_P(Families, GroTest, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "Ipv6" : "Ipv4"; });

// Covers: netdev:G-01
TEST_P(GroTest, SegmentsOfOneRoundBecomeOneSuperPacket) {
  for (size_t i = 0; i < 3; ++i) Offer(Nth(Spec(), i, kMss));
  EXPECT_TRUE(up.empty());
  EXPECT_EQ(gro.held(), 1u);
  Flush();
  ASSERT_EQ(up.size(), 1u);
  const Packet& packet = *up[0];
  FrameSpec whole = Spec();
  whole.payload = 4344;
  EXPECT_EQ(packet.length(), LayoutOf(whole).payload + 4344);
  EXPECT_EQ(packet.meta.gso.size, 1448);
  EXPECT_EQ(packet.meta.gso.segs, 3);
  EXPECT_EQ(packet.meta.gso.type, v4() ? GsoType::kTcpv4 : GsoType::kTcpv6);
  ASSERT_EQ(packet.meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(packet.csum_start_in_data(), static_cast<int32_t>(LayoutOf(whole).l4));
  EXPECT_EQ(packet.meta.csum_offset, 16);
  const Bytes bytes = BytesOf(packet);
  EXPECT_EQ(Get16(bytes, LayoutOf(whole).checksum),
            NaivePseudoSum(bytes, 14, 6, bytes.size() - LayoutOf(whole).l4));
  EXPECT_EQ(WireBytesOf(packet), BuildFrame(whole)) << "as if it had been sent in one piece";
  EXPECT_EQ(gro.stats().merged.value(), 2u);
  EXPECT_EQ(gro.stats().packets.value(), 1u);
  EXPECT_EQ(gro.stats().refused.value(), 0u);
  EXPECT_EQ(gro.stats().summed.value(), 3u);
}

TEST_P(GroTest, StatisticsAreSummedOverQueues) {
  for (size_t i = 0; i < 3; ++i) Offer(Nth(Spec(), i, kMss));
  Flush();
  std::map<std::string, uint64_t> found;
  const std::array<const Gro*, 3> queues = {&gro, nullptr, &gro};
  ForEachGroStat(queues,
                 [&](absl::string_view name, uint64_t value) { found.emplace(name, value); });
  EXPECT_EQ(found, (std::map<std::string, uint64_t>{{"rx_gro_merged", 4},
                                                    {"rx_gro_packets", 2},
                                                    {"rx_gro_refused", 0},
                                                    {"rx_gro_summed", 6}}));
}

TEST_P(GroTest, LonePacketGoesUpAsItCame) {
  const Bytes frame = Nth(Spec(), 0, kMss);
  Offer(frame);
  Flush();
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(BytesOf(*up[0]), frame);
  EXPECT_EQ(up[0]->meta.gso, GsoInfo());
  EXPECT_EQ(up[0]->meta.csum_state, CsumState::kUnnecessary) << "not to be verified again";
  EXPECT_EQ(up[0]->meta.csum_level, 0);
  EXPECT_EQ(gro.stats().packets.value(), 0u);
}

// Covers: netdev:G-04
TEST_P(GroTest, PushCompletesAtOnce) {
  Offer(Nth(Spec(), 0, kMss));
  FrameSpec pushed = Spec();
  pushed.tcp_flags |= kPsh;
  Offer(Nth(pushed, 1, kMss));
  ASSERT_THAT(Sizes(), ElementsAre(2));
  FrameSpec whole = pushed;
  whole.payload = 2 * kMss;
  EXPECT_EQ(WireBytesOf(*up[0]), BuildFrame(whole));
  EXPECT_FALSE(gro.holds_any());
}

TEST_P(GroTest, FinIsKeptOnTheSuperPacket) {
  Offer(Nth(Spec(), 0, kMss));
  FrameSpec last = Spec();
  last.tcp_flags |= kFin | kPsh;
  Offer(Nth(last, 1, kMss));
  ASSERT_THAT(Sizes(), ElementsAre(2));
  EXPECT_EQ(up[0]->data()[LayoutOf(last).l4 + 13], kAck | kFin | kPsh);
}

// Covers: netdev:G-05
TEST_P(GroTest, ShorterSegmentIsTheLast) {
  Offer(Nth(Spec(), 0, kMss));
  FrameSpec shorter = Spec();
  shorter.ip_id = 8;
  Offer(Piece(shorter, kMss, 500));
  ASSERT_THAT(Sizes(), ElementsAre(2));
  EXPECT_EQ(up[0]->meta.gso.size, kMss);
  FrameSpec whole = Spec();
  whole.payload = kMss + 500;
  EXPECT_EQ(WireBytesOf(*up[0]), BuildFrame(whole));
}

// Covers: netdev:G-06, bug:B96
TEST_P(GroTest, LongerSegmentStartsAnew) {
  const Bytes first = Nth(Spec(), 0, kMss);
  FrameSpec longer = Spec();
  longer.ip_id = 8;
  const Bytes second = Piece(longer, kMss, kMss + 1);
  Offer(first);
  Offer(second);
  ASSERT_EQ(up.size(), 1u) << "the held one";
  EXPECT_EQ(BytesOf(*up[0]), first);
  EXPECT_EQ(gro.held(), 1u);
  Flush();
  EXPECT_THAT(FramesUp(), ElementsAre(first, second));
}

// Covers: netdev:G-07, bug:B96
TEST_P(GroTest, EveryFieldThatSegmentationCopiesMustBeEqual) {
  ExpectRefused("TTL",
                [](Bytes& f, const FrameLayout& at) { --f[at.l3 + (f[14] >> 4 == 6 ? 7 : 8)]; });
  ExpectRefused("TOS", [](Bytes& f, const FrameLayout& at) {
    f[at.l3 + 1] = static_cast<uint8_t>(f[at.l3 + 1] ^ (f[14] >> 4 == 6 ? 0x10 : 0x03));
  });
  ExpectRefused("acknowledgment", [](Bytes& f, const FrameLayout& at) { ++f[at.l4 + 11]; });
  ExpectRefused("window", [](Bytes& f, const FrameLayout& at) { ++f[at.l4 + 15]; });
  ExpectRefused("reserved bits", [](Bytes& f, const FrameLayout& at) { f[at.l4 + 12] |= 1; });
  ExpectRefused("urgent pointer", [](Bytes& f, const FrameLayout& at) { ++f[at.l4 + 19]; });
  ExpectRefused("sequence too high", [](Bytes& f, const FrameLayout& at) { ++f[at.l4 + 7]; });
  ExpectRefused("sequence too low", [](Bytes& f, const FrameLayout& at) { --f[at.l4 + 7]; });
  ExpectRefused("a retransmission", [](Bytes& f, const FrameLayout& at) {
    Put16(f, at.l4 + 4, 0);
    Put16(f, at.l4 + 6, 1000);
  });
  for (const uint8_t flag : {kUrg, kRst, kSyn, kEce, kCwr, kAck}) {
    ExpectRefused("flag " + std::to_string(flag), [&](Bytes& f, const FrameLayout& at) {
      f[at.l4 + 13] = static_cast<uint8_t>(f[at.l4 + 13] ^ flag);
    });
  }
  EXPECT_EQ(gro.stats().merged.value(), 0u);
}

// Covers: bug:B96
TEST_P(GroTest, OptionsMustBeEqual) {
  FrameSpec spec = Spec();
  spec.tcp_options = 12;
  const auto stamped = [&](size_t i, uint8_t stamp) {
    return Edited(Nth(spec, i, kMss), spec, [&](Bytes& f, const FrameLayout& at) {
      const uint8_t option[] = {1, 1, 8, 10, 0, 0, 0, stamp, 0, 0, 0, 1};
      std::copy(std::begin(option), std::end(option), f.begin() + static_cast<long>(at.l4) + 20);
    });
  };
  Offer(stamped(0, 7));
  Offer(stamped(1, 7));
  Offer(stamped(2, 8));  // the time stamp moved on
  Offer(stamped(3, 8));
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(2, 2));
  EXPECT_THAT(FramesUp(), ElementsAre(stamped(0, 7), stamped(1, 7), stamped(2, 8), stamped(3, 8)));
  up.clear();
  // Without options behind one with: another header length.
  Offer(stamped(0, 7));
  Offer(Nth(Spec(), 1, kMss));
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
}

// Bytes that are no options at all are compared like others.
TEST_P(GroTest, GarbageInOptionsIsOnlyBytes) {
  FrameSpec spec = Spec();
  spec.tcp_options = 40;
  const auto garbage = [&](size_t i, uint8_t seed) {
    return Edited(Nth(spec, i, 100), spec, [&](Bytes& f, const FrameLayout& at) {
      for (size_t k = 0; k < 40; ++k) f[at.l4 + 20 + k] = static_cast<uint8_t>(seed - k * 13);
    });
  };
  Offer(garbage(0, 1));
  Offer(garbage(1, 1));
  Offer(garbage(2, 2));
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(2, 1));
  EXPECT_THAT(FramesUp(), ElementsAre(garbage(0, 1), garbage(1, 1), garbage(2, 2)));
}

// Covers: netdev:G-08, bug:B96
TEST_P(GroTest, OtherLinkHeaderIsAnotherFlow) {
  std::vector<Bytes> frames;
  for (size_t i = 0; i < 2; ++i) {
    frames.push_back(Nth(Spec(), i, kMss));
    frames.push_back(frames.back());
    ++frames.back()[5];  // destination MAC
  }
  for (const Bytes& frame : frames) Offer(frame);
  EXPECT_TRUE(up.empty());
  EXPECT_EQ(gro.held(), 2u);
  Flush();
  EXPECT_THAT(FramesUp(), ElementsAre(frames[0], frames[2], frames[1], frames[3]));
  EXPECT_THAT(Sizes(), ElementsAre(2, 2));
}

// Covers: bug:B96
TEST_P(GroTest, VlanTagsMustBeEqual) {
  for (const bool in_data : {false, true}) {
    const auto tagged = [&](size_t i, uint16_t tci) {
      FrameSpec spec = Spec();
      spec.tags = in_data ? 1 : 0;
      PacketPtr packet = MakePacket(context.pool(), Nth(spec, i, kMss));
      if (in_data) {
        packet->data()[15] = static_cast<uint8_t>(tci);
      } else {
        packet->meta.vlan_present = true;
        packet->meta.vlan_tci = tci;
      }
      return packet;
    };
    Offer(tagged(0, 5));
    Offer(tagged(0, 6));
    Offer(tagged(1, 5));
    Offer(tagged(1, 6));
    if (!in_data) Offer(Nth(Spec(), 0, kMss));
    Flush();
    if (in_data) {
      EXPECT_THAT(Sizes(), ElementsAre(2, 2));
    } else {
      EXPECT_THAT(Sizes(), ElementsAre(2, 2, 1));
      EXPECT_EQ(up[1]->meta.vlan_tci, 6);
      EXPECT_FALSE(up[2]->meta.vlan_present);
    }
    up.clear();
  }
}

// Covers: bug:B96
TEST_P(GroTest, InterleavedFlowsMergeEachForItself) {
  std::vector<Bytes> a, b;
  for (size_t i = 0; i < 4; ++i) {
    a.push_back(Nth(Spec(), i, kMss));
    b.push_back(Edited(a.back(), Spec(), [](Bytes& f, const FrameLayout& at) { ++f[at.l4 + 1]; }));
    Offer(a.back());
    Offer(b.back());
  }
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(4, 4));
  ASSERT_EQ(up.size(), 2u);
  for (const PacketPtr& packet : up) {
    const bool is_a = packet->data()[LayoutOf(Spec()).l4 + 1] == a[0][LayoutOf(Spec()).l4 + 1];
    EXPECT_EQ(FramesOf(*packet), is_a ? a : b);
  }
}

// Covers: bug:B96
TEST_P(GroTest, PushInTheMiddleEndsOneSuperPacketAndStartsAnother) {
  std::vector<Bytes> frames;
  for (size_t i = 0; i < 5; ++i) {
    FrameSpec spec = Spec();
    if (i == 2) spec.tcp_flags |= kPsh;
    frames.push_back(Nth(spec, i, kMss));
    Offer(frames.back());
  }
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(3, 2));
  EXPECT_EQ(FramesUp(), frames);
}

// Covers: netdev:G-10
TEST_P(GroTest, PureAcknowledgmentFollowsTheDataBeforeIt) {
  const Bytes data = Nth(Spec(), 0, kMss);
  const Bytes ack = Nth(Spec(), 1, 0);
  Offer(data);
  Offer(ack);
  EXPECT_THAT(FramesUp(), ElementsAre(data, ack));
  EXPECT_FALSE(gro.holds_any());
  // A second one does not merge with the first either.
  Offer(ack);
  EXPECT_EQ(up.size(), 3u);
}

TEST_P(GroTest, PacketsThatEndSomethingAreNeverHeld) {
  for (const uint8_t flag : {kPsh, kFin, kSyn, kRst, kUrg}) {
    FrameSpec spec = Spec();
    spec.tcp_flags = kAck | flag;
    Offer(Nth(spec, 0, kMss));
    EXPECT_EQ(up.size(), 1u) << int{flag};
    up.clear();
  }
  EXPECT_EQ(gro.stats().summed.value(), 0u) << "and cost nothing";
}

// Covers: netdev:G-11, bug:B96
TEST_P(GroTest, DamagedPacketGoesUpAloneAndDoesNotFlush) {
  const Bytes first = Nth(Spec(), 0, kMss), second = Nth(Spec(), 1, kMss);
  Bytes third = Nth(Spec(), 2, kMss);
  third.back() ^= 1;
  Offer(first);
  Offer(second);
  Offer(third);
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(BytesOf(*up[0]), third);
  EXPECT_EQ(up[0]->meta.csum_state, CsumState::kNone) << "for TCP to count";
  EXPECT_EQ(gro.held(), 1u);
  Flush();
  EXPECT_THAT(FramesUp(), ElementsAre(third, first, second));
}

TEST_P(GroTest, MergingIsBoundedPerBucket) {
  // Nine flows with one hash: the ninth pushes the first out.
  for (uint8_t flow = 0; flow < 9; ++flow) {
    PacketPtr packet = MakePacket(
        context.pool(), Edited(Nth(Spec(), 0, kMss), Spec(),
                               [&](Bytes& f, const FrameLayout& at) { f[at.l4 + 1] = flow; }));
    packet->meta.flow_hash = 0x80;
    Offer(std::move(packet));
  }
  EXPECT_EQ(gro.held(), 8u);
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0]->data()[LayoutOf(Spec()).l4 + 1], 0);
  // Another bucket has its own room.
  PacketPtr other = MakePacket(context.pool(), Nth(Spec(), 0, kMss));
  other->meta.flow_hash = 0x81;
  Offer(std::move(other));
  EXPECT_EQ(gro.held(), 9u);
  EXPECT_EQ(up.size(), 1u);
}

TEST_P(GroTest, OtherHashIsAnotherFlow) {
  for (size_t i = 0; i < 2; ++i) {
    PacketPtr packet = MakePacket(context.pool(), Nth(Spec(), i, kMss));
    packet->meta.flow_hash = static_cast<uint32_t>(0x100 + 8 * i);
    Offer(std::move(packet));
  }
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
}

// Covers: netdev:G-14
TEST_P(GroTest, SizeStaysBelowTheLimit) {
  const size_t headers = LayoutOf(Spec()).payload - 14;
  for (const size_t total : {size_t{65535}, size_t{65536}}) {
    const size_t payload = total - headers;
    const size_t half = (payload + 1) / 2;
    FrameSpec second = Spec();
    second.ip_id = 8;
    Offer(Piece(Spec(), 0, half));
    Offer(Piece(second, half, payload - half));
    Flush();
    if (total == 65535) {
      EXPECT_THAT(Sizes(), ElementsAre(2));
      EXPECT_EQ(up[0]->length(), 14 + total);
    } else {
      EXPECT_THAT(Sizes(), ElementsAre(1, 1));
    }
    up.clear();
  }
}

TEST_P(GroTest, PacketRefusedForSizeIsHeldInTurn) {
  std::vector<Bytes> frames;
  for (size_t i = 0; i < 60; ++i) {
    frames.push_back(Nth(Spec(), i, kMss));
    Offer(frames.back());
  }
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(45, 15)) << "45 * 1448 + headers < 65536";
  EXPECT_EQ(FramesUp(), frames);
}

TEST_P(GroTest, TooManyPiecesEndASuperPacket) {
  // Each in a slab of its own, with no room for the next.
  std::vector<Bytes> frames;
  for (size_t i = 0; i < 70; ++i) {
    frames.push_back(Nth(Spec(), i, 20));
    Offer(frames.back(), {.head = LayoutOf(Spec()).payload, .piece = 10});
  }
  Flush();
  EXPECT_GT(up.size(), 1u);
  EXPECT_EQ(FramesUp(), frames);
}

TEST_P(GroTest, ArrivalOfTheFirstFrameIsKept) {
  const Time start = context.now();
  for (int i = 0; i < 3; ++i) {
    PacketPtr packet = MakePacket(context.pool(), Nth(Spec(), static_cast<size_t>(i), kMss));
    packet->meta.rx_time = start + std::chrono::microseconds(i);
    packet->meta.late = i == 1;
    Offer(std::move(packet));
  }
  Flush();
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0]->meta.rx_time, start);
  EXPECT_TRUE(up[0]->meta.late) << "no RTT from it if any of its frames was late";
}

TEST_P(GroTest, ScatteredPacketsMerge) {
  std::vector<Bytes> frames;
  const size_t payload = LayoutOf(Spec()).payload;
  for (size_t i = 0; i < 4; ++i) {
    frames.push_back(Nth(Spec(), i, kMss));
    Offer(frames.back(), {.head = i % 2 == 0 ? payload : 20, .piece = 400});
  }
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(4));
  EXPECT_EQ(FramesUp(), frames);
}

}  // namespace
}  // namespace tapwire::netdev
