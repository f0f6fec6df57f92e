// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/gro.h"
#include "tests/netdev/gro_frames.h"

namespace tapwire::netdev {
namespace {

using testing::BuildFrame;
using testing::Bytes;
using ::testing::ElementsAre;
using testing::FakeSink;
using testing::FrameLayout;
using testing::FrameSpec;
using testing::LayoutOf;
using testing::MakePacket;
using testing::MakePartial;
using testing::NaivePseudoSum;
using testing::Piece;
using testing::Put16;
using testing::WireBytesOf;

constexpr size_t kMss = testing::kGroMss;

class GroInputTest : public testing::GroFamilyFixture {};
INSTANTIATE_TEST_SUITE_P(Families, GroInputTest, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "Ipv6" : "Ipv4"; });

// Covers: netdev:C-04
TEST_P(GroInputTest, ChecksumStatesOfAllKindsCountAsGood) {
  std::vector<Bytes> frames;
  for (size_t i = 0; i < 4; ++i) {
    frames.push_back(Nth(Spec(), i, kMss));
    PacketPtr packet = MakePacket(context.pool(), frames.back());
    if (i == 1) packet->meta.csum_state = CsumState::kUnnecessary;
    if (i == 2) MakePartial(*packet, Spec());
    if (i == 3) {
      packet->meta.csum_state = CsumState::kComplete;
      packet->meta.csum_value = static_cast<uint16_t>(
          testing::NaiveSum(std::span<const uint8_t>(frames.back()).subspan(14)));
    }
    Offer(std::move(packet));
  }
  EXPECT_EQ(gro.stats().summed.value(), 1u) << "the first alone";
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(4));
  EXPECT_EQ(FramesUp(), frames);
}

TEST_P(GroInputTest, PartialChecksumOfSomethingElseIsLeftAlone) {
  for (const int shift : {-14, 2, 2000}) {
    PacketPtr packet = MakePacket(context.pool(), Nth(Spec(), 0, kMss));
    MakePartial(*packet, Spec());
    packet->meta.csum_start += shift;
    Offer(std::move(packet));
  }
  EXPECT_EQ(up.size(), 3u);
}

TEST_P(GroInputTest, FrameLongerThanItsPacketIsNotMerged) {  // Covers: netdev:G-09
  const size_t payload = v4() ? 4 : 1;
  const Bytes held = Nth(Spec(), 0, kMss);
  FrameSpec spec = Spec();
  spec.ip_id = 8;
  Bytes padded = Piece(spec, kMss, payload);
  padded.resize(padded.size() + 2);
  Offer(held);
  Offer(padded);
  EXPECT_THAT(FramesUp(), ElementsAre(held, padded));
}

// Covers: bug:B96
TEST_P(GroInputTest, MalformedPacketsPassAndNothingIsHeld) {
  const Bytes good = Nth(Spec(), 0, 100);
  const FrameLayout at = LayoutOf(Spec());
  // Cut anywhere.
  for (size_t length = 0; length < good.size(); ++length) {
    Offer(Bytes(good.begin(), good.begin() + static_cast<long>(length)));
    ASSERT_EQ(up.size(), 1u) << length;
    EXPECT_EQ(up[0]->length(), length);
    up.clear();
  }
  const auto passes = [&](const std::string& what, const Edit& edit) {
    Bytes frame = good;
    edit(frame, at);
    Offer(frame);
    EXPECT_THAT(FramesUp(), ElementsAre(frame)) << what;
    EXPECT_FALSE(gro.holds_any()) << what;
    up.clear();
  };
  passes("version", [](Bytes& f, const FrameLayout& l) { f[l.l3] ^= 0x20; });
  passes("length too long",
         [](Bytes& f, const FrameLayout& l) { ++f[l.l3 + (f[14] >> 4 == 6 ? 5 : 3)]; });
  passes("length zero",
         [](Bytes& f, const FrameLayout& l) { Put16(f, l.l3 + (f[14] >> 4 == 6 ? 4 : 2), 0); });
  for (const int words : {0, 4, 15}) {
    passes("data offset", [&](Bytes& f, const FrameLayout& l) {
      f.resize(l.payload + 10);
      Put16(f, l.l3 + (f[14] >> 4 == 6 ? 4 : 2), f.size() - (f[14] >> 4 == 6 ? 54 : 14));
      f[l.l4 + 12] = static_cast<uint8_t>(words << 4);
    });
  }
  passes("checksum", [](Bytes& f, const FrameLayout& l) { ++f[l.checksum]; });
  passes("all ones as a checksum", [](Bytes& f, const FrameLayout& l) {
    Put16(f, l.checksum, 0);
    // Bytes that make the sum come out as zero.
    const uint32_t pseudo = NaivePseudoSum(f, l.l3, 6, f.size() - l.l4);
    Put16(f, l.payload, 0);
    Put16(f, l.payload, 0xffff - testing::NaiveSum(std::span(f).subspan(l.l4), pseudo));
    Put16(f, l.checksum, 0xffff);
  });
}

// A packet of another form of the same flow does not overtake what is held of it.
TEST_P(GroInputTest, IrregularPacketsOfTheSameHostsFlushTheHeldOnes) {
  const Bytes held = Nth(Spec(), 0, kMss);
  const auto overtaken_by = [&](const std::string& what, const Bytes& frame) {
    Offer(held);
    ASSERT_TRUE(gro.holds_any());
    Offer(frame);
    EXPECT_THAT(FramesUp(), ElementsAre(held, frame)) << what;
    up.clear();
  };
  if (v4()) {
    FrameSpec options = Spec();
    options.ip_options = 8;
    overtaken_by("IP options", Nth(options, 1, kMss));
    Bytes fragment = Nth(Spec(), 1, kMss);
    fragment[20] = 0x20;
    overtaken_by("first fragment", fragment);
    fragment[21] = 0xb9;
    overtaken_by("later fragment", fragment);
    Bytes reserved = Nth(Spec(), 1, kMss);
    reserved[20] |= 0x80;
    overtaken_by("reserved bit", reserved);
    Bytes damaged = Nth(Spec(), 1, kMss);
    ++damaged[24];
    overtaken_by("header checksum", damaged);
  } else {
    FrameSpec extended = Spec();
    extended.dest_options = true;
    Bytes fragment = Nth(extended, 1, kMss);
    fragment[20] = 44;
    overtaken_by("fragment", fragment);
    fragment[20] = 51;
    fragment[55] = 0;
    overtaken_by("authentication header", fragment);
  }
  // Other hosts' do not.
  Offer(held);
  Bytes other = Nth(Spec(), 1, kMss);
  other[LayoutOf(Spec()).l4 - 1] ^= 1;  // destination
  other[v4() ? 16 : 18] ^= 1;           // and a length that lies
  Offer(other);
  EXPECT_EQ(up.size(), 1u);
  EXPECT_TRUE(gro.holds_any());
}

// A super-packet that a device made is continued, unless nobody vouches for its headers.
TEST_P(GroInputTest, SuperPacketsOfTrustedDevicesAreContinued) {
  FrameSpec first = Spec();
  first.payload = 2 * kMss;
  for (const bool dodgy : {false, true}) {
    PacketPtr super = GsoPacket(first, kMss);
    if (dodgy) super->meta.gso.type |= GsoType::kDodgy;
    Offer(std::move(super));
    EXPECT_EQ(gro.holds_any(), !dodgy);
    Offer(Nth(Spec(), 2, kMss));  // its identification is that of the third
    Flush();
    if (dodgy) {
      ASSERT_EQ(up.size(), 2u);
      EXPECT_EQ(up[0]->meta.gso.segs, 0) << "as it came";
    } else {
      EXPECT_THAT(Sizes(), ElementsAre(3));
      FrameSpec whole = Spec();
      whole.payload = 3 * kMss;
      EXPECT_EQ(WireBytesOf(*up[0]), BuildFrame(whole));
    }
    up.clear();
  }
}

TEST_P(GroInputTest, SuperPacketMustBeWholeAndOfTheSameSizeToBeContinued) {
  FrameSpec super = Spec();
  super.payload = 2 * kMss + 1;
  Offer(GsoPacket(super, kMss));
  EXPECT_EQ(up.size(), 1u) << "its last segment is shorter: nothing can follow";
  up.clear();
  Offer(Nth(Spec(), 0, kMss));
  FrameSpec next = Spec();
  next.payload = 2 * kMss - 2;
  next.seq += kMss;
  next.ip_id += 1;
  Offer(GsoPacket(next, kMss - 1));
  ASSERT_EQ(up.size(), 1u) << "other segments";
  Flush();
  EXPECT_EQ(up.size(), 2u);
  up.clear();
  // With the right size it is the end, for its last segment is shorter.
  Offer(Nth(Spec(), 0, kMss));
  Offer(GsoPacket(next, kMss));
  EXPECT_THAT(Sizes(), ElementsAre(3));
  EXPECT_FALSE(gro.holds_any());
}

TEST_P(GroInputTest, ImpossibleMetadataPasses) {
  const auto passes = [&](const auto& spoil) {
    PacketPtr packet = MakePacket(context.pool(), Nth(Spec(), 0, kMss));
    MakePartial(*packet, Spec());
    spoil(packet->meta);
    const PacketMeta meta = packet->meta;
    Offer(std::move(packet));
    ASSERT_EQ(up.size(), 1u);
    EXPECT_EQ(up[0]->meta.gso, meta.gso);
    up.clear();
  };
  passes([](PacketMeta& m) { m.gso = {.type = GsoType::kTcpv4, .size = 0}; });
  passes([](PacketMeta& m) { m.gso = {.type = GsoType::kNone, .size = 10}; });
  passes([](PacketMeta& m) { m.gso = {.type = GsoType::kTcpv4 | GsoType::kTcpv6, .size = 10}; });
  passes([](PacketMeta& m) { m.gso = {.type = GsoType::kUdpL4, .size = 10}; });
  passes([](PacketMeta& m) { m.gso = {.type = GsoType::kGre, .size = 10}; });
  passes([](PacketMeta& m) { m.gso = {.type = GsoType::kTcpv4, .size = 60000}; });
  passes([](PacketMeta& m) { m.encapsulated = true; });
  passes([](PacketMeta& m) { m.csum_start = PacketMeta::kUnset; });
}

// Covers: netdev:G-13
TEST_P(GroInputTest, WithoutTheFeatureEveryPacketGoesUpAlone) {
  const auto receive = [&] {
    FakeSink sink;
    device.AddPacketType(sink);
    for (size_t i = 0; i < 3; ++i) {
      device.rx().Add(MakePacket(context.pool(), Nth(Spec(), i, kMss)));
    }
    context.RunOnce();
    return sink.packets.size();
  };
  ASSERT_TRUE(device.features().Has(Feature::kGro)) << "on by default";
  EXPECT_EQ(receive(), 1u);
  device.RequestFeatures(Feature::kGro, {});
  EXPECT_EQ(receive(), 3u);
  device.RequestFeatures(Feature::kGro, Feature::kGro);
  device.SetGroMode(GroMode::kOff);
  EXPECT_EQ(receive(), 3u);
}

TEST_P(GroInputTest, NothingStaysHeldAtTheEndOfARound) {
  FakeSink sink;
  device.AddPacketType(sink);
  // The budget of a round is 64: the second round's packets do not wait for those of the first.
  for (size_t i = 0; i < 70; ++i) {
    device.rx().Add(MakePacket(context.pool(), Nth(Spec(), i, 100)));
  }
  context.RunOnce();
  ASSERT_EQ(sink.packets.size(), 2u);
  EXPECT_EQ(sink.packets[0]->meta.gso.segs, 64);
  EXPECT_EQ(sink.packets[1]->meta.gso.segs, 6);
  EXPECT_EQ(device.stats().rx_packets.value(), 2u) << "a merged packet is one";
  ASSERT_NE(device.rx().gro(), nullptr);
  EXPECT_EQ(device.rx().gro()->stats().merged.value(), 68u);
}

class Ipv4IdTest : public testing::GroFixture {
 protected:
  void OfferIds(std::initializer_list<uint16_t> ids, bool df = true) {
    size_t i = 0;
    for (const uint16_t id : ids) {
      FrameSpec spec{.ip_id = id, .df = df};
      frames.push_back(Piece(spec, 100 * i++, 100));
      Offer(frames.back());
    }
    Flush();
    EXPECT_EQ(FramesUp(), frames) << "identifications come back";
  }
  std::vector<Bytes> frames;
};

// Covers: netdev:G-02
TEST_F(Ipv4IdTest, EqualIdsMakeAFixedIdFlow) {
  OfferIds({7, 7, 7});
  EXPECT_THAT(Sizes(), ElementsAre(3));
  EXPECT_EQ(up[0]->meta.gso.type, GsoType::kTcpv4 | GsoType::kFixedId);
}

TEST_F(Ipv4IdTest, EqualIdsAreFixedWithoutDontFragmentToo) {
  OfferIds({7, 7, 7}, false);
  EXPECT_THAT(Sizes(), ElementsAre(3));
  EXPECT_TRUE(up[0]->meta.gso.Has(GsoType::kFixedId));
}

// Covers: netdev:G-03
TEST_F(Ipv4IdTest, FixedFlowDoesNotTakeAnotherId) {
  OfferIds({7, 7, 8});
  EXPECT_THAT(Sizes(), ElementsAre(2, 1));
}

TEST_F(Ipv4IdTest, IncrementingFlowWrapsAndTakesNoOther) {
  OfferIds({0xfffe, 0xffff, 0, 1});
  EXPECT_THAT(Sizes(), ElementsAre(4));
  EXPECT_FALSE(up[0]->meta.gso.Has(GsoType::kFixedId));
  up.clear();
  frames.clear();
  OfferIds({7, 8, 8});
  EXPECT_THAT(Sizes(), ElementsAre(2, 1));
  up.clear();
  frames.clear();
  OfferIds({7, 9});
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
  up.clear();
  frames.clear();
  OfferIds({7, 6});
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
}

// Covers: bug:B96
TEST_F(Ipv4IdTest, DontFragmentMustBeEqual) {
  const Bytes first = Piece({.ip_id = 7, .df = true}, 0, 100);
  const Bytes second = Piece({.ip_id = 8, .df = false}, 100, 100);
  Offer(first);
  Offer(second);
  Flush();
  EXPECT_THAT(FramesUp(), ElementsAre(first, second));
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
}

TEST_F(Ipv4IdTest, SuperPacketMustGoOnInTheSameWay) {
  const auto super = [&](uint16_t id, size_t offset, bool fixed) {
    PacketPtr packet =
        GsoPacket({.payload = 200, .seq = static_cast<uint32_t>(1000 + offset), .ip_id = id}, 100);
    if (fixed) packet->meta.gso.type |= GsoType::kFixedId;
    return packet;
  };
  for (const bool fixed : {false, true}) {
    Offer(super(7, 0, fixed));
    Offer(super(fixed ? 7 : 9, 200, fixed));
    Offer(super(fixed ? 7 : 11, 400, !fixed));
    Flush();
    EXPECT_THAT(Sizes(), ElementsAre(4, 0)) << "the second is as it came, without a count";
    EXPECT_EQ(up[0]->meta.gso.Has(GsoType::kFixedId), fixed);
    up.clear();
  }
}

class Ipv6GroTest : public testing::GroFixture {};

TEST_F(Ipv6GroTest, ExtensionHeadersMustBeEqual) {
  const FrameSpec spec{.ipv6 = true, .dest_options = true};
  const auto frame = [&](size_t i, uint8_t pad) {
    return Edited(Nth(spec, i, 100), spec,
                  [&](Bytes& f, const FrameLayout& at) { f[at.l4 - 1] = pad; });
  };
  Offer(frame(0, 0));
  Offer(frame(1, 0));
  Offer(frame(2, 1));
  Offer(Nth({.ipv6 = true}, 3, 100));
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(2, 1, 1));
  EXPECT_THAT(FramesUp(),
              ElementsAre(frame(0, 0), frame(1, 0), frame(2, 1), Nth({.ipv6 = true}, 3, 100)));
}

TEST_F(Ipv6GroTest, FlowLabelMustBeEqual) {
  const FrameSpec spec{.ipv6 = true};
  const Bytes first = Nth(spec, 0, 100);
  const Bytes second =
      Edited(Nth(spec, 1, 100), spec, [](Bytes& f, const FrameLayout& at) { ++f[at.l3 + 3]; });
  Offer(first);
  Offer(second);
  Flush();
  EXPECT_THAT(FramesUp(), ElementsAre(first, second)) << "in order: a sender may change its label";
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
}

class GroModeTest : public testing::GroFixture {
 protected:
  void SetUp() override {
    device.SetGroMode(GroMode::kAuto);
    EXPECT_EQ(device.gro_mode(), GroMode::kAuto);
  }
  void OfferThree(CsumState state) {
    for (size_t i = 0; i < 3; ++i) {
      PacketPtr packet = MakePacket(context.pool(), Nth({}, i, 100));
      packet->meta.csum_state = state;
      Offer(std::move(packet));
    }
    Flush();
  }
};

TEST_F(GroModeTest, NamesAreThoseOfTheConfiguration) {
  EXPECT_EQ(GroModeName(GroMode::kAuto), "auto");
  EXPECT_EQ(GroModeName(GroMode::kOn), "on");
  EXPECT_EQ(GroModeName(GroMode::kOff), "off");
}

TEST_F(GroModeTest, AutoNeverSumsPayload) {
  OfferThree(CsumState::kNone);
  EXPECT_THAT(Sizes(), ElementsAre(1, 1, 1));
  EXPECT_EQ(gro.stats().summed.value(), 0u);
  up.clear();
  OfferThree(CsumState::kUnnecessary);
  EXPECT_THAT(Sizes(), ElementsAre(3));
}

TEST_F(GroModeTest, AutoKeepsOrderOfVerifiedAndUnverifiedFrames) {
  std::vector<Bytes> frames;
  for (size_t i = 0; i < 4; ++i) {
    frames.push_back(Nth({}, i, 100));
    PacketPtr packet = MakePacket(context.pool(), frames.back());
    if (i != 2) packet->meta.csum_state = CsumState::kUnnecessary;
    Offer(std::move(packet));
  }
  Flush();
  EXPECT_THAT(Sizes(), ElementsAre(2, 1, 1));
  EXPECT_EQ(FramesUp(), frames);
}

TEST_F(GroModeTest, AutoWantsReceiveChecksumsAndNoForwarding) {
  EXPECT_FALSE(Gro::IsWanted(device)) << "no rx-checksum";
  auto& able = AddUpDevice({.name = "able", .hw_features = Feature::kRxCsum});
  able.RequestFeatures(Feature::kRxCsum, Feature::kRxCsum);
  ASSERT_TRUE(able.features().Has(Feature::kRxCsum));
  EXPECT_TRUE(Gro::IsWanted(able));
  able.SetForwarding(true);
  EXPECT_FALSE(Gro::IsWanted(able));
  able.SetGroMode(GroMode::kOn);
  EXPECT_TRUE(Gro::IsWanted(able));
  able.RequestFeatures(Feature::kGro, {});
  EXPECT_FALSE(Gro::IsWanted(able));
}

}  // namespace
}  // namespace tapwire::netdev
