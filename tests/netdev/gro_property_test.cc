// SPDX-License-Identifier: Apache-2.0
// What merging must keep whatever comes: bytes, frames, order.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "netdev/gro.h"
#include "netdev/gso.h"
#include "tests/netdev/gro_frames.h"

namespace tapwire::netdev {
namespace {

using testing::Bytes;
using testing::BytesOf;
using testing::FrameLayout;
using testing::FrameSpec;
using testing::kAck;
using testing::kFin;
using testing::kPsh;
using testing::LayoutOf;
using testing::MakePacket;

class GroPropertyTest : public testing::GroFixture {
 protected:
  GroPropertyTest() { device.RequestFeatures(Feature::kGroUdpFwd, Feature::kGroUdpFwd); }

  size_t Random(size_t below) { return environment.random.Uniform(static_cast<uint32_t>(below)); }
  bool Chance(size_t in) { return Random(in) == 0; }

  FrameSpec RandomSpec() {
    FrameSpec spec{.ipv6 = Chance(2), .udp = Chance(3)};
    spec.df = Chance(2);
    spec.ip_id = static_cast<uint16_t>(Random(65536));
    spec.seq = static_cast<uint32_t>(Random(1u << 31) * 2 + Random(2));
    if (!spec.udp) spec.tcp_options = 4 * Random(11);
    spec.dest_options = spec.ipv6 && Chance(4);
    spec.tags = Chance(4) ? 1 : 0;
    if (!spec.udp && Chance(2)) spec.tcp_flags = kAck | kPsh;
    if (!spec.udp && Chance(8)) spec.tcp_flags |= kFin;
    spec.payload_seed = static_cast<uint8_t>(Random(256));
    return spec;
  }
};

// Cutting and merging again gives the same super-packet: headers, payload, type, size and count.
TEST_F(GroPropertyTest, MergingUndoesSegmentation) {
  for (int round = 0; round < 600; ++round) {
    FrameSpec spec = RandomSpec();
    const size_t size = 1 + Random(Chance(3) ? 100 : 1448);
    // More pieces than a packet can have fragments would end a super-packet early.
    const size_t room = (65535 - (LayoutOf(spec).payload - LayoutOf(spec).l3)) / size;
    const size_t segments = 2 + Random(std::min<size_t>(room - 1, 60) - 1);
    spec.payload = (segments - 1) * size + 1 + Random(size);
    PacketPtr super = GsoPacket(spec, static_cast<uint16_t>(size),
                                {.head = LayoutOf(spec).payload, .piece = 1 + spec.payload / 8});
    ASSERT_NE(super, nullptr);
    if (!spec.ipv6 && Chance(3)) super->meta.gso.type |= GsoType::kFixedId;
    const FeatureSet abilities[] = {
        {}, Feature::kSg, {Feature::kSg, Feature::kHwCsum}, Feature::kHwCsum};
    SegmentResult cut = SegmentPacket(context.pool(), *super, abilities[Random(4)]);
    ASSERT_EQ(cut.segments.size(), segments);
    while (PacketPtr segment = cut.segments.PopFront()) Offer(std::move(segment));
    Flush();
    ASSERT_EQ(up.size(), 1u) << "round " << round << ", " << segments << " of " << size;
    EXPECT_EQ(BytesOf(*up[0]), BytesOf(*super)) << "round " << round;
    EXPECT_EQ(up[0]->meta.gso.type, super->meta.gso.type);
    EXPECT_EQ(up[0]->meta.gso.size, size);
    EXPECT_EQ(up[0]->meta.gso.segs, segments);
    EXPECT_EQ(up[0]->meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(up[0]->csum_start_in_data(), super->csum_start_in_data());
    EXPECT_EQ(up[0]->meta.csum_offset, super->meta.csum_offset);
    up.clear();
  }
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

// Many flows with loss, repetition, reordering and headers that change: each flow's frames go up
// once, unchanged and in the order of their arrival. Damaged ones may overtake.
TEST_F(GroPropertyTest, NoFrameIsLostRepeatedOrReorderedInItsFlow) {
  using Flow = std::vector<Bytes>;
  for (int round = 0; round < 40; ++round) {
    std::vector<FrameSpec> specs;
    std::vector<size_t> next;
    for (size_t i = 0; i < 12; ++i) {
      specs.push_back(RandomSpec());
      specs.back().tcp_flags = kAck;
      next.push_back(0);
    }
    const size_t size = 50 + Random(1300);
    std::map<size_t, Flow> sent, received;
    std::vector<Bytes> damaged, damaged_up;
    // The flow is told by its source port.
    const auto flow_of = [&](const Bytes& frame) {
      const size_t tags = testing::Get16(frame, 12) == 0x8100 ? 4 : 0;
      const bool ipv6 = testing::Get16(frame, 12 + tags) == 0x86dd;
      const size_t l3 = 14 + tags;
      const size_t l4 = l3 + (ipv6 ? (frame[l3 + 6] == 60 ? 48 : 40) : 20);
      return size_t{testing::Get16(frame, l4)};
    };
    const auto take = [&] {
      for (Bytes& frame : FramesUp()) {
        if (std::find(damaged.begin(), damaged.end(), frame) != damaged.end()) {
          damaged_up.push_back(std::move(frame));
        } else {
          received[flow_of(frame)].push_back(std::move(frame));
        }
      }
      up.clear();
    };
    for (int n = 0; n < 400; ++n) {
      const size_t flow = Random(specs.size());
      FrameSpec spec = specs[flow];
      if (Chance(10)) ++next[flow];                    // lost
      if (Chance(10) && next[flow] > 0) --next[flow];  // again
      if (Chance(15) && !spec.udp) spec.tcp_flags |= kPsh;
      const size_t length = Chance(12) ? Random(size + 1) : size;
      const size_t index = next[flow]++;
      Bytes frame = Nth(spec, index, length);
      // Nth() counts in whole pieces; a shorter one leaves a hole behind it.
      const auto port = static_cast<uint16_t>(2000 + flow);
      const bool other_ttl = Chance(20);
      frame = Edited(std::move(frame), spec, [&](Bytes& f, const FrameLayout& at) {
        testing::Put16(f, at.l4, port);
        if (other_ttl) --f[at.l3 + (spec.ipv6 ? 7 : 8)];
      });
      if (Chance(25) && length > 0) {
        frame.back() ^= static_cast<uint8_t>(1 + Random(255));
        frame[LayoutOf(spec).payload] ^= 0x55;  // and so told from its good copies
        damaged.push_back(frame);
      } else {
        sent[port].push_back(frame);
      }
      Offer(frame, {.head = Chance(2) ? 0 : LayoutOf(spec).payload, .piece = 1 + size / 3});
      if (Chance(40)) Flush();
      take();
    }
    Flush();
    take();
    EXPECT_EQ(received, sent) << "round " << round;
    EXPECT_EQ(damaged_up, damaged);
  }
  EXPECT_GT(gro.stats().merged.value(), 1000u) << "there was something to test";
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

// The order of a whole round: every frame of a shuffled burst is there afterwards.
TEST_F(GroPropertyTest, ShuffledBurstsComeOutWhole) {
  for (int round = 0; round < 50; ++round) {
    FrameSpec spec = RandomSpec();
    spec.tcp_flags = kAck;
    std::vector<Bytes> frames;
    for (size_t i = 0; i < 30; ++i) frames.push_back(Nth(spec, i, 700));
    for (size_t i = frames.size() - 1; i > 0; --i) std::swap(frames[i], frames[Random(i + 1)]);
    for (const Bytes& frame : frames) Offer(frame);
    Flush();
    EXPECT_EQ(FramesUp(), frames);
    up.clear();
  }
}

}  // namespace
}  // namespace tapwire::netdev
