// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/gro.h"
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
using testing::LayoutOf;
using testing::MakePacket;
using testing::Piece;
using testing::Put16;
using testing::WireBytesOf;

constexpr size_t kSize = 1200;

// The parameter is "IPv6".
class GroUdpTest : public testing::GroFixture, public ::testing::WithParamInterface<bool> {
 protected:
  GroUdpTest() { device.RequestFeatures(Feature::kGroUdpFwd, Feature::kGroUdpFwd); }
  FrameSpec Spec() const { return {.ipv6 = GetParam(), .udp = true, .payload = kSize}; }
};
INSTANTIATE_TEST_SUITE_P(Families, GroUdpTest, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "Ipv6" : "Ipv4"; });

// Covers: netdev:G-12
TEST_P(GroUdpTest, DatagramsAreMergedOnRequestOnly) {
  ASSERT_TRUE(device.features().Has(Feature::kGroUdpFwd));
  for (size_t i = 0; i < 3; ++i) Offer(Nth(Spec(), i, kSize));
  Flush();
  ASSERT_THAT(Sizes(), ElementsAre(3));
  up.clear();
  device.RequestFeatures(Feature::kGroUdpFwd, {});
  for (size_t i = 0; i < 3; ++i) {
    Offer(Nth(Spec(), i, kSize));
    EXPECT_EQ(up.size(), i + 1) << "at once";
  }
  EXPECT_EQ(gro.stats().summed.value(), 3u) << "of the first three";
}

TEST_P(GroUdpTest, EqualDatagramsBecomeOneSuperPacket) {
  for (size_t i = 0; i < 3; ++i) Offer(Nth(Spec(), i, kSize));
  Flush();
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0]->meta.gso.type, GsoType::kUdpL4);
  EXPECT_EQ(up[0]->meta.gso.size, kSize);
  EXPECT_EQ(up[0]->meta.gso.segs, 3);
  EXPECT_EQ(up[0]->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(up[0]->meta.csum_offset, 6);
  FrameSpec whole = Spec();
  whole.payload = 3 * kSize;
  EXPECT_EQ(WireBytesOf(*up[0]), BuildFrame(whole));
  EXPECT_EQ(FramesUp().size(), 3u);
}

TEST_P(GroUdpTest, ShorterDatagramIsTheLastAndALongerOneStartsAnew) {
  FrameSpec second = Spec(), third = Spec();
  second.ip_id = 8;
  third.ip_id = 9;
  Offer(Piece(Spec(), 0, kSize));
  Offer(Piece(second, kSize, 1));
  ASSERT_THAT(Sizes(), ElementsAre(2));
  EXPECT_FALSE(gro.holds_any());
  up.clear();
  const Bytes shorter = Piece(Spec(), 0, kSize), longer = Piece(second, kSize, kSize + 1);
  Offer(shorter);
  Offer(longer);
  EXPECT_THAT(FramesUp(), ElementsAre(shorter));
  Offer(Piece(third, 2 * kSize + 1, kSize + 1));
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(1, 2));
}

TEST_P(GroUdpTest, SixtyFourDatagramsAreTheMost) {
  std::vector<Bytes> frames;
  for (size_t i = 0; i < 65; ++i) {
    frames.push_back(Nth(Spec(), i, 100));
    Offer(frames.back());
    EXPECT_EQ(up.size(), i < 63 ? 0u : 1u);
  }
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(64, 1));
  EXPECT_EQ(FramesUp(), frames);
}

// What cannot be merged is not overtaken by what comes behind it, nor overtakes itself.
TEST_P(GroUdpTest, DatagramsInOtherFormsPassInOrder) {
  const Bytes held = Nth(Spec(), 0, kSize);
  const auto passes = [&](const std::string& what, const Bytes& frame) {
    Offer(held);
    Offer(frame);
    EXPECT_THAT(FramesUp(), ElementsAre(held, frame)) << what;
    EXPECT_FALSE(gro.holds_any()) << what;
    up.clear();
  };
  passes("empty", Nth(Spec(), 1, 0));
  Bytes unsummed = Nth(Spec(), 1, kSize);
  Put16(unsummed, LayoutOf(Spec()).checksum, 0);
  passes("without checksum", unsummed);
  for (const int change : {-1, 1, -1200}) {
    Bytes lying = Nth(Spec(), 1, kSize);
    const size_t at = LayoutOf(Spec()).l4 + 4;
    Put16(lying, at, Get16(lying, at) + static_cast<size_t>(change));
    passes("length", lying);
  }
  PacketPtr super = GsoPacket(Spec(), 100);
  const Bytes bytes = BytesOf(*super);
  Offer(held);
  Offer(std::move(super));
  ASSERT_EQ(up.size(), 2u);
  EXPECT_EQ(BytesOf(*up[1]), bytes);
  EXPECT_EQ(up[1]->meta.gso.size, 100);
}

TEST_P(GroUdpTest, DamagedDatagramGoesUpAlone) {
  const Bytes good = Nth(Spec(), 0, kSize);
  Bytes bad = Nth(Spec(), 1, kSize);
  bad.back() ^= 0x40;
  Offer(good);
  Offer(bad);
  EXPECT_THAT(FramesUp(), ElementsAre(bad));
  EXPECT_TRUE(gro.holds_any());
}

TEST_P(GroUdpTest, DatagramsToGroupsAreNeverMerged) {
  for (size_t i = 0; i < 2; ++i) {
    Bytes frame = Nth(Spec(), i, kSize);
    frame[0] = 0x33;
    Offer(frame);
  }
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
}

TEST_P(GroUdpTest, PortsAndHostsMakeTheFlow) {
  for (size_t i = 0; i < 2; ++i) {
    const Bytes a = Nth(Spec(), i, kSize);
    Offer(a);
    Offer(Edited(a, Spec(), [](Bytes& f, const FrameLayout& at) { ++f[at.l4 + 3]; }));
    Offer(Edited(a, Spec(), [](Bytes& f, const FrameLayout& at) { ++f[at.l4 - 1]; }));
  }
  EXPECT_TRUE(up.empty());
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(2, 2, 2));
}

TEST_P(GroUdpTest, NetworkHeadersMustBeEqual) {
  const bool v6 = GetParam();
  const Bytes first = Nth(Spec(), 0, kSize);
  const Bytes second = Edited(Nth(Spec(), 1, kSize), Spec(), [&](Bytes& f, const FrameLayout& at) {
    --f[at.l3 + (v6 ? 7 : 8)];  // TTL
  });
  Offer(first);
  Offer(second);
  Flush();
  EXPECT_THAT(FramesUp(), ElementsAre(first, second));
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
}

TEST_P(GroUdpTest, SizeStaysBelowTheLimitOfTheLengthFields) {
  const size_t payload = 65536 - (LayoutOf(Spec()).payload - 14);
  FrameSpec second = Spec();
  second.ip_id = 8;
  Offer(Piece(Spec(), 0, payload / 2 + 1));
  Offer(Piece(second, payload / 2 + 1, payload - payload / 2 - 1));
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
}

}  // namespace
}  // namespace tapwire::netdev
