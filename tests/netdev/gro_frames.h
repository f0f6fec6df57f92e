// SPDX-License-Identifier: Apache-2.0
// Frames for the tests of merging: pieces of one stream, edited headers with checksums made right
// again, and a fixture that offers them to a Gro.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/gro.h"
#include "netdev/gso.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev::testing {

inline constexpr uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kPsh = 0x08, kAck = 0x10,
                         kUrg = 0x20, kEce = 0x40, kCwr = 0x80;

using Bytes = std::vector<uint8_t>;

// Writes both checksums of a frame with this layout anew.
inline void FixChecksums(Bytes& frame, const FrameSpec& spec) {
  const FrameLayout at = LayoutOf(spec);
  const std::span<const uint8_t> view(frame);
  if (!spec.ipv6) {
    Put16(frame, at.l3 + 10, 0);
    Put16(frame, at.l3 + 10, ~NaiveSum(view.subspan(at.l3, at.l4 - at.l3)) & 0xffff);
  }
  Put16(frame, at.checksum, 0);
  const uint32_t pseudo = NaivePseudoSum(view, at.l3, spec.udp ? 17 : 6, frame.size() - at.l4);
  const uint32_t sum = ~NaiveSum(view.subspan(at.l4), pseudo) & 0xffff;
  Put16(frame, at.checksum, sum == 0 && spec.udp ? 0xffff : sum);
}

// The frame that carries `spec.payload` bytes of the stream from `offset` on. BuildFrame() with the
// whole stream is what such frames merge into.
inline Bytes Piece(FrameSpec spec, size_t offset, size_t length) {
  spec.payload = length;
  spec.seq += static_cast<uint32_t>(offset);
  Bytes frame = BuildFrame(spec);
  for (size_t i = 0; i < length; ++i) {
    frame[LayoutOf(spec).payload + i] = PayloadByte(spec.payload_seed, offset + i);
  }
  FixChecksums(frame, spec);
  return frame;
}

class GroFixture : public NetdevTest {
 protected:
  using Edit = std::function<void(Bytes& frame, const FrameLayout& at)>;

  GroFixture() { device.SetGroMode(GroMode::kOn); }

  // The i-th of equal pieces: sequence and identification go on.
  Bytes Nth(const FrameSpec& spec, size_t i, size_t length) {
    FrameSpec piece = spec;
    piece.ip_id = static_cast<uint16_t>(spec.ip_id + i);
    return Piece(piece, i * length, length);
  }
  static Bytes Edited(Bytes frame, const FrameSpec& spec, const Edit& edit) {
    edit(frame, LayoutOf(spec));
    FixChecksums(frame, spec);
    return frame;
  }

  void Offer(PacketPtr packet) {
    if (packet->meta.rx_time == Time()) packet->meta.rx_time = context.now();
    packet->meta.rx_device = device.ifindex();
    gro.Offer(std::move(packet), out_);
    Take();
  }
  void Offer(const Bytes& frame, Cut cut = {}) { Offer(MakePacket(context.pool(), frame, cut)); }
  void Flush() {
    gro.Flush(out_);
    Take();
  }

  // The frames that `packet` is made of, as segmentation sees it.
  std::vector<Bytes> FramesOf(const Packet& packet) {
    if (packet.meta.gso.size == 0) return {BytesOf(packet)};
    SegmentResult result = SegmentPacket(context.pool(), packet, {});
    EXPECT_EQ(result.error, DropReason::kNone);
    EXPECT_EQ(result.segments.size(), packet.meta.gso.segs);
    std::vector<Bytes> frames;
    while (PacketPtr segment = result.segments.PopFront()) frames.push_back(BytesOf(*segment));
    return frames;
  }
  std::vector<Bytes> FramesUp() {
    std::vector<Bytes> frames;
    for (const PacketPtr& packet : up) {
      for (Bytes& frame : FramesOf(*packet)) frames.push_back(std::move(frame));
    }
    return frames;
  }
  // Segments of each packet that went up.
  std::vector<size_t> Sizes() const {
    std::vector<size_t> sizes;
    for (const PacketPtr& packet : up) {
      sizes.push_back(packet->meta.gso.size == 0 ? 1 : packet->meta.gso.segs);
    }
    return sizes;
  }

  FakeDevice& device = AddUpDevice();
  Gro gro{device};
  std::vector<PacketPtr> up;

 private:
  void Take() {
    while (PacketPtr packet = out_.PopFront()) up.push_back(std::move(packet));
  }
  PacketList out_;
};

inline constexpr size_t kGroMss = 1448;

// Every rule with both families: the parameter is "IPv6".
class GroFamilyFixture : public GroFixture, public ::testing::WithParamInterface<bool> {
 protected:
  FrameSpec Spec() const { return {.ipv6 = GetParam(), .payload = kGroMss}; }
  bool v4() const { return !GetParam(); }

  // Two frames that would merge, the second edited: they do not, and stay in order.
  void ExpectRefused(const std::string& what, const Edit& edit) {
    const Bytes first = Nth(Spec(), 0, kGroMss);
    const Bytes second = Edited(Nth(Spec(), 1, kGroMss), Spec(), edit);
    Offer(first);
    Offer(second);
    Flush();
    EXPECT_THAT(FramesUp(), ::testing::ElementsAre(first, second)) << what;
    EXPECT_THAT(Sizes(), ::testing::ElementsAre(1, 1)) << what;
    up.clear();
  }
};

}  // namespace tapwire::netdev::testing
