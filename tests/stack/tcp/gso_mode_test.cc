// SPDX-License-Identifier: Apache-2.0
// When TCP builds super-packets, and how large.
#include <algorithm>

#include "netdev/features.h"
#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::testutil {
namespace {

using netdev::Feature;
using netdev::FeatureSet;
using tcp::GsoMode;

class TcpGsoModeTest : public TcpHostTest {
 protected:
  // A host whose device has `features`, and GSO if it can have it and `gso` says so.
  void StartOn(GsoMode mode, FeatureSet features, bool gso) {
    tcp::Config config = Plain();
    config.gso = mode;
    config.initial_window_segments = 200;
    NetHarness::Options options;
    options.device.features = features;
    Start(config, std::move(options));
    if (!gso) device().RequestFeatures(Feature::kGso, {});
  }
  // Bytes of the longest frame, and the segment size of the super-packets, of a long write.
  struct Sent {
    size_t longest = 0;
    size_t super_packets = 0;
    size_t segment_size = 0;
  };
  Sent WriteMuch(uint16_t peer_mss = 1000) {
    tcp::Connection* c = Connect(SynOptions(peer_mss, true, 7));
    Send({.seq = 1, .ack = 1, .window = 65535});  // now scaled
    Write(*c, 190'000);
    Sent sent;
    for (const SentFrame& frame : net->TakeSentFrames()) {
      sent.longest = std::max(sent.longest, frame.bytes.size());
      if (frame.gso.size == 0) continue;
      ++sent.super_packets;
      sent.segment_size = std::max<size_t>(sent.segment_size, frame.gso.size);
    }
    cut_in_software_ = device().stats().tx_gso_segmented.value();
    Reset(c);
    return sent;
  }
  Feature tso() const { return v4() ? Feature::kTso : Feature::kTso6; }
  Feature other_tso() const { return v4() ? Feature::kTso6 : Feature::kTso; }
  size_t headers() const { return v4() ? 54 : 74; }

  uint64_t cut_in_software_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Families, TcpGsoModeTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

TEST_P(TcpGsoModeTest, AlwaysNeedsNothingOfTheDevice) {
  StartOn(GsoMode::kAlways, {}, false);
  const Sent sent = WriteMuch();
  EXPECT_EQ(sent.longest, headers() + 1000);
  EXPECT_GT(cut_in_software_, 0u);
  EXPECT_LT(cut_in_software_, 10u) << "in large pieces";
}

TEST_P(TcpGsoModeTest, DeviceModeWantsGsoOrSegmentationOfTheFamily) {
  const FeatureSet base{Feature::kSg, Feature::kHwCsum};
  StartOn(GsoMode::kDevice, {}, true);
  WriteMuch();
  EXPECT_EQ(cut_in_software_, 0u) << "without scatter-gather there is no GSO";
  StartOn(GsoMode::kDevice, base, true);
  WriteMuch();
  EXPECT_GT(cut_in_software_, 0u) << "GSO";
  StartOn(GsoMode::kDevice, base, false);
  WriteMuch();
  EXPECT_EQ(cut_in_software_, 0u);
  StartOn(GsoMode::kDevice, base | other_tso(), false);
  Sent sent = WriteMuch();
  EXPECT_EQ(cut_in_software_, 0u);
  EXPECT_EQ(sent.super_packets, 0u);
  StartOn(GsoMode::kDevice, base | tso(), false);
  sent = WriteMuch();
  EXPECT_GT(sent.super_packets, 0u);
}

// A running connection follows the switch.
TEST_P(TcpGsoModeTest, DeviceModeFollowsTheDevice) {
  StartOn(GsoMode::kDevice, {Feature::kSg, Feature::kHwCsum}, true);
  tcp::Connection* c = Connect(SynOptions(1000));
  Write(*c, 5000);
  EXPECT_EQ(device().stats().tx_gso_segmented.value(), 1u);
  device().RequestFeatures(Feature::kGso, {});
  Write(*c, 5000);
  EXPECT_EQ(device().stats().tx_gso_segmented.value(), 1u);
  Reset(c);
}

// Covers: bug:B89
TEST_P(TcpGsoModeTest, PayloadOfOneSegmentIsNoSuperPacket) {
  StartOn(GsoMode::kAlways, {Feature::kSg, Feature::kHwCsum, tso()}, true);
  tcp::Connection* c = Connect(SynOptions(1000));
  uint32_t acked = 0;
  for (const size_t bytes : {size_t{1000}, size_t{1001}, size_t{999}}) {
    Write(*c, bytes);
    const auto sent = net->TakeSentFrames();
    ASSERT_FALSE(sent.empty());
    EXPECT_EQ(sent[0].gso.size, bytes > 1000 ? 1000 : 0) << bytes;
    EXPECT_EQ(sent[0].bytes.size(), headers() + bytes);
    acked += static_cast<uint32_t>(bytes);
    Send({.ack = 1 + acked});
  }
  Reset(c);
}

// Covers: bug:B91
TEST_P(TcpGsoModeTest, SegmentsFitThePathWhateverThePeerSays) {
  StartOn(GsoMode::kAlways, {Feature::kSg, Feature::kHwCsum, tso()}, true);
  const Sent sent = WriteMuch(/*peer_mss=*/65000);
  EXPECT_GT(sent.super_packets, 0u);
  EXPECT_EQ(sent.segment_size, 1514 - headers());
  EXPECT_EQ(device().drops().total(), 0u);
}

// Covers: bug:B91: the limit is one of the whole frame, so nothing is cut in software
TEST_P(TcpGsoModeTest, SuperPacketsStayBelowTheDevicesLimitWithAllHeaders) {
  for (const uint32_t limit : {65536u, 20'000u, 5000u, 3117u}) {
    for (const uint16_t mss : std::initializer_list<uint16_t>{1460, 1201, 700}) {
      StartOn(GsoMode::kAlways, {Feature::kSg, Feature::kHwCsum, tso()}, true);
      ASSERT_TRUE(device().SetGsoMaxSize(limit).ok());
      const Sent sent = WriteMuch(mss);
      EXPECT_GT(sent.super_packets, 0u) << limit << ' ' << mss;
      EXPECT_LT(sent.longest, limit);
      EXPECT_LE(sent.longest - 14, 65535u) << "the length field";
      EXPECT_GE(sent.longest + mss + 64, limit - 18) << "as large as it may be";
      EXPECT_EQ(cut_in_software_, 0u);
    }
  }
}

TEST_P(TcpGsoModeTest, SuperPacketsStayWithinTheDevicesSegmentCount) {
  StartOn(GsoMode::kAlways, {Feature::kSg, Feature::kHwCsum, tso()}, true);
  ASSERT_TRUE(device().SetGsoMaxSegs(4).ok());
  const Sent sent = WriteMuch();
  EXPECT_EQ(sent.longest, headers() + 4000);
  EXPECT_EQ(cut_in_software_, 0u);
}

// One segment is one packet: `gso_max_segs 1` switches it off.
TEST_P(TcpGsoModeTest, OneSegmentMeansNone) {
  StartOn(GsoMode::kAlways, {Feature::kSg, Feature::kHwCsum, tso()}, true);
  ASSERT_TRUE(device().SetGsoMaxSegs(1).ok());
  const Sent sent = WriteMuch();
  EXPECT_EQ(sent.super_packets, 0u);
  EXPECT_EQ(cut_in_software_, 0u);
}

}  // namespace
}  // namespace tapwire::testutil
