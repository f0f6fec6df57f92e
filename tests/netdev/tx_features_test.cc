// SPDX-License-Identifier: Apache-2.0
// Which features apply to one packet on one device.
#include <vector>

#include "gtest/gtest.h"
#include "netdev/gso.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using testing::FakeDevice;
using testing::FrameSpec;
using testing::MakePacket;

class PacketFeaturesTest : public testing::NetdevTest {
 protected:
  static FeatureSet Of(const PacketPtr& packet, const NetDevice& device) {
    return TxPath::PacketFeatures(*packet, device) & ~kSoftFeatures;
  }
  static bool CanSegment(const PacketPtr& packet, const NetDevice& device) {
    return Of(packet, device).HasAll(RequiredGsoFeatures(*packet));
  }
};

// Covers: netdev:P-01
TEST_F(PacketFeaturesTest, SizeLimitCountsTheLinkHeader) {
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kTso, kTso6}});
  for (const bool ipv6 : {false, true}) {
    const size_t headers = ipv6 ? 74 : 54;
    PacketPtr over = GsoPacket({.ipv6 = ipv6, .payload = 65536 - headers}, 1400);
    ASSERT_EQ(over->length(), 65536u);
    EXPECT_EQ(Of(over, device), (FeatureSet{kSg, kHwCsum}));
    PacketPtr under = GsoPacket({.ipv6 = ipv6, .payload = 65535 - headers}, 1400);
    EXPECT_EQ(Of(under, device), (FeatureSet{kSg, kHwCsum, kTso, kTso6}));
  }
}

TEST_F(PacketFeaturesTest, SizeLimitIsTheOneUsersSet) {
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kTso}});
  ASSERT_TRUE(device.SetGsoMaxSize(2000).ok());
  EXPECT_TRUE(CanSegment(GsoPacket({.payload = 1999 - 54}, 1000), device));
  EXPECT_FALSE(CanSegment(GsoPacket({.payload = 2000 - 54}, 1000), device));
}

// Covers: netdev:P-02
TEST_F(PacketFeaturesTest, SegmentCountLimit) {
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kTso}, .gso_max_segs = 10});
  PacketPtr packet = GsoPacket({.payload = 1100}, 100);
  packet->meta.gso.segs = 11;
  EXPECT_EQ(Of(packet, device), (FeatureSet{kSg, kHwCsum}));
  packet->meta.gso.segs = 10;
  EXPECT_EQ(Of(packet, device), (FeatureSet{kSg, kHwCsum, kTso}));
}

// Covers: netdev:P-03, netdev:P-04
TEST_F(PacketFeaturesTest, ChecksumOfAnotherProtocolTakesSegmentationAlong) {
  FakeDevice& device = AddDevice({.features = {kSg, kIpCsum, kTso}});
  device.set_features(device.features() | kTso6);
  const FeatureSet all{kSg, kIpCsum, kTso, kTso6};
  PacketPtr partial = PartialFrame({.ipv6 = true});
  EXPECT_EQ(Of(partial, device), FeatureSet{kSg});
  PacketPtr complete = Frame({.ipv6 = true});
  EXPECT_EQ(Of(complete, device), all);
  PacketPtr ipv4 = PartialFrame();
  EXPECT_EQ(Of(ipv4, device), all);
  // Whatever is not "nothing to do" counts.
  for (const CsumState state : {CsumState::kUnnecessary, CsumState::kComplete}) {
    complete->meta.csum_state = state;
    EXPECT_EQ(Of(complete, device), FeatureSet{kSg});
  }
}

TEST_F(PacketFeaturesTest, ChecksumOfNoProtocolNeedsTheGenericKind) {
  FakeDevice& generic = AddDevice({.name = "generic", .features = {kSg, kHwCsum}});
  FakeDevice& both = AddDevice({.name = "both", .features = {kSg, kIpCsum, kIpv6Csum}});
  std::vector<uint8_t> bytes(100, 0x5a);  // EtherType 0x5a5a
  PacketPtr packet = MakePacket(context.pool(), bytes);
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(14);
  EXPECT_EQ(Of(packet, generic), (FeatureSet{kSg, kHwCsum}));
  EXPECT_EQ(Of(packet, both), FeatureSet{kSg});
}

// Covers: netdev:P-05
TEST_F(PacketFeaturesTest, TagLimitsToVlanFeatures) {
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kTso}, .vlan_features = {kSg}});
  PacketPtr in_data = PartialFrame({.tags = 1});
  EXPECT_EQ(Of(in_data, device), FeatureSet{kSg});
  PacketPtr in_meta = PartialFrame();
  in_meta->meta.vlan_present = true;
  EXPECT_EQ(Of(in_meta, device), FeatureSet{kSg}) << "no tag insertion either";
}

// Covers: netdev:P-06
TEST_F(PacketFeaturesTest, TagMakesGenericChecksumSpecific) {
  FakeDevice& device = AddDevice(
      {.features = {kHwCsum, kSg, kTso, kHwVlanCtagTx}, .vlan_features = {kIpCsum, kSg, kTso}});
  PacketPtr packet = PartialFrame();
  packet->meta.vlan_present = true;
  EXPECT_EQ(Of(packet, device), (FeatureSet{kIpCsum, kSg, kTso, kHwVlanCtagTx}));
  PacketPtr ipv6 = PartialFrame({.ipv6 = true});
  ipv6->meta.vlan_present = true;
  EXPECT_EQ(Of(ipv6, device), (FeatureSet{kSg, kHwVlanCtagTx})) << "and that is IPv4's";
}

// Covers: netdev:P-07
TEST_F(PacketFeaturesTest, ManyTagsStopProtocolOffloads) {
  const FeatureSet set{kSg, kIpCsum, kTso, kHwVlanCtagTx};
  FakeDevice& device = AddDevice({.features = set, .vlan_features = set});
  PacketPtr packet = GsoPacket({.payload = 3000, .tags = 2}, 1448);
  EXPECT_EQ(Of(packet, device), (FeatureSet{kSg, kHwVlanCtagTx}));
  PacketPtr one_each = GsoPacket({.payload = 3000, .tags = 1}, 1448);
  EXPECT_EQ(Of(one_each, device), set);
  one_each->meta.vlan_present = true;
  EXPECT_EQ(Of(one_each, device), (FeatureSet{kSg, kHwVlanCtagTx}));

  FakeDevice& upper = AddDevice(
      {.name = "upper", .features = set, .vlan_features = set, .pass_all_features = true});
  EXPECT_EQ(Of(packet, upper), set);
}

// Covers: netdev:P-07
TEST_F(PacketFeaturesTest, ManyTagsLeaveGenericChecksumming) {
  const FeatureSet set{kSg, kHwCsum, kTso, kTso6, kGsoUdpL4};
  FakeDevice& device = AddDevice({.features = set, .vlan_features = set});
  for (const bool ipv6 : {false, true}) {
    PacketPtr packet = GsoPacket({.ipv6 = ipv6, .payload = 3000, .tags = 2}, 1400);
    EXPECT_EQ(Of(packet, device), (FeatureSet{kSg, kHwCsum}));
  }
}

TEST_F(PacketFeaturesTest, TunnelledPacketIsLimitedToItsOwnSet) {
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kTso}, .hw_enc_features = {kHwCsum}});
  PacketPtr packet = PartialFrame();
  packet->meta.encapsulated = true;
  EXPECT_EQ(Of(packet, device), (FeatureSet{kSg, kHwCsum})) << "registration adds SG";
}

// Covers: netdev:P-10
TEST_F(PacketFeaturesTest, FixedIdentificationNeedsDontFragment) {
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kTso, kTsoMangleId}});
  PacketPtr packet = GsoPacket({.payload = 300, .df = false}, 100);
  packet->meta.gso.type |= GsoType::kFixedId;
  EXPECT_FALSE(Of(packet, device).Has(kTsoMangleId));
  EXPECT_FALSE(CanSegment(packet, device));
  PacketPtr with_df = GsoPacket({.payload = 300, .df = true}, 100);
  with_df->meta.gso.type |= GsoType::kFixedId;
  EXPECT_TRUE(CanSegment(with_df, device));
}

// Covers: netdev:P-11
TEST_F(PacketFeaturesTest, UntrustedPacketNeedsARobustDevice) {
  FakeDevice& device = AddDevice({.name = "a", .features = {kSg, kHwCsum, kTso, kTso6}});
  FakeDevice& robust =
      AddDevice({.name = "b", .features = {kSg, kHwCsum, kTso, kTso6, kGsoRobust}});
  for (const bool ipv6 : {false, true}) {
    PacketPtr packet = GsoPacket({.ipv6 = ipv6, .payload = 300}, 100);
    packet->meta.gso.type |= GsoType::kDodgy;
    EXPECT_FALSE(CanSegment(packet, device));
    EXPECT_TRUE(CanSegment(packet, robust));
  }
}

TEST_F(PacketFeaturesTest, CongestionBitsNeedADeviceThatKnowsThem) {
  FakeDevice& plain = AddDevice({.name = "a", .features = {kSg, kHwCsum, kTso}});
  FakeDevice& able = AddDevice({.name = "b", .features = {kSg, kHwCsum, kTso, kTsoEcn}});
  PacketPtr packet = GsoPacket({.payload = 300, .tcp_flags = 0x90}, 100);
  packet->meta.gso.type |= GsoType::kTcpEcn;
  EXPECT_FALSE(CanSegment(packet, plain));
  EXPECT_TRUE(CanSegment(packet, able));
  packet->meta.gso.type = GsoType::kTcpv4 | GsoType::kTcpAccEcn;
  EXPECT_FALSE(CanSegment(packet, able));
}

TEST_F(PacketFeaturesTest, ExtensionHeadersStopIpv6Offloads) {
  const FeatureSet set{kSg, kIpCsum, kIpv6Csum, kTso6, kGsoUdpL4};
  FakeDevice& device = AddDevice({.name = "a", .features = set});
  for (const bool udp : {false, true}) {
    PacketPtr packet =
        GsoPacket({.ipv6 = true, .udp = udp, .payload = 300, .dest_options = true}, 100);
    EXPECT_FALSE(Of(packet, device).HasAny({kTso6, kIpv6Csum, kGsoUdpL4}));
    EXPECT_FALSE(CanSegment(packet, device));
    PacketPtr plain = GsoPacket({.ipv6 = true, .udp = udp, .payload = 300}, 100);
    EXPECT_EQ(Of(plain, device), set);
    EXPECT_TRUE(CanSegment(plain, device));
  }
  // The reason is protocol-specific checksumming; generic checksumming does not look at headers.
  FakeDevice& generic = AddDevice({.name = "b", .features = {kSg, kHwCsum, kTso6}});
  PacketPtr packet = GsoPacket({.ipv6 = true, .payload = 300, .dest_options = true}, 100);
  EXPECT_TRUE(CanSegment(packet, generic));
}

TEST_F(PacketFeaturesTest, KindsThatNeedPreparedHeadersAreOffUntilTheyArePrepared) {
  FakeDevice& device = AddDevice(
      {.features = {kSg, kHwCsum, kTso, kTso6, kGsoPartial}, .gso_partial_features = {kTso6}});
  PacketPtr packet = GsoPacket({.ipv6 = true, .payload = 300}, 100);
  EXPECT_EQ(Of(packet, device), (FeatureSet{kSg, kHwCsum, kTso, kGsoPartial}));
  packet->meta.gso.type |= GsoType::kPartial;
  EXPECT_EQ(Of(packet, device), (FeatureSet{kSg, kHwCsum, kTso, kTso6, kGsoPartial}));
  EXPECT_TRUE(CanSegment(packet, device));
  PacketPtr frame = PartialFrame({.ipv6 = true});
  EXPECT_TRUE(Of(frame, device).Has(kTso6)) << "only super-packets are looked at";
}

TEST_F(PacketFeaturesTest, HeadersThatAreNotUnderstoodAreNotForTheDevice) {
  FakeDevice& device = AddDevice({.features = {kSg, kHwCsum, kTso}});
  PacketPtr packet = GsoPacket({.payload = 300}, 100);
  packet->data()[14] = 0x35;  // version 3
  EXPECT_EQ(Of(packet, device), (FeatureSet{kSg, kHwCsum}));
  PacketPtr typeless = GsoPacket({.payload = 300}, 100);
  typeless->meta.gso.type = GsoType::kNone;
  EXPECT_EQ(Of(typeless, device), (FeatureSet{kSg, kHwCsum}));
}

}  // namespace
}  // namespace tapwire::netdev
