// SPDX-License-Identifier: Apache-2.0
#include "netdev/tx_path.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "netdev/gso.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using testing::BytesOf;
using testing::Cut;
using testing::FakeDevice;
using testing::FrameFault;
using testing::FrameSpec;
using testing::Get16;
using testing::MakePacket;
using testing::WireBytesOf;

class TxPathTest : public testing::NetdevTest {
 protected:
  // Sends and flushes.
  TxResult Send(PacketPtr packet, NetDevice& device) {
    const TxResult result = TxPath::Transmit(std::move(packet), device);
    context.RunOnce();
    return result;
  }
  FakeDevice& Device(FeatureSet features, uint32_t mtu = 1500) {
    return AddUpDevice({.features = features, .mtu = mtu});
  }
};

TEST_F(TxPathTest, IncapableDeviceGetsCompleteSegments) {  // Covers: netdev:X-03
  FakeDevice& device = Device({});
  EXPECT_EQ(Send(GsoPacket({.payload = 3000}, 1448, {.head = 54, .piece = 999}), device),
            TxResult::kQueued);
  ASSERT_EQ(device.sent.size(), 3u);
  for (const PacketPtr& frame : device.sent) {
    EXPECT_TRUE(frame->is_linear());
    EXPECT_EQ(FrameFault(BytesOf(*frame)), "");
  }
  EXPECT_EQ(device.more, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(device.stats().tx_packets.value(), 3u);
  EXPECT_EQ(device.stats().tx_bytes.value(), 3000u + 3 * 54);
  EXPECT_EQ(device.stats().tx_gso_segmented.value(), 1u);
  EXPECT_EQ(device.stats().tx_csum_software.value(), 3u);
}

TEST_F(TxPathTest, ChecksummingDeviceGetsPartialSegments) {  // Covers: netdev:X-01
  FakeDevice& device = Device({kSg, kHwCsum});
  Send(GsoPacket({.payload = 3000, .tcp_flags = 0x19}, 1448), device);
  ASSERT_EQ(device.sent.size(), 3u);
  for (const PacketPtr& frame : device.sent) {
    EXPECT_EQ(frame->meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(FrameFault(WireBytesOf(*frame)), "");
  }
  EXPECT_EQ(device.stats().tx_csum_software.value(), 0u);
}

TEST_F(TxPathTest, SegmentingDeviceGetsItWhole) {  // Covers: netdev:X-04
  FakeDevice& device = Device({kSg, kHwCsum, kTso, kTso6, kGsoUdpL4});
  for (const FrameSpec& spec :
       {FrameSpec{.payload = 3000}, FrameSpec{.ipv6 = true, .payload = 3000},
        FrameSpec{.udp = true, .payload = 3000}}) {
    device.sent.clear();
    Send(GsoPacket(spec, 1400), device);
    ASSERT_EQ(device.sent.size(), 1u);
    EXPECT_EQ(device.sent[0]->meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(device.sent[0]->meta.gso.size, 1400);
    EXPECT_EQ(WireBytesOf(*device.sent[0]), testing::BuildFrame(spec));
  }
  EXPECT_EQ(device.stats().tx_gso_segmented.value(), 0u);
}

// Every set of the transmit features against every kind of packet: what the driver gets
// is always something it claimed, and right.
TEST_F(TxPathTest, DriverGetsOnlyWhatItClaims) {
  const Feature features[] = {kSg, kHwCsum, kIpCsum, kIpv6Csum, kTso, kTso6, kGsoUdpL4};
  for (uint32_t bits = 0; bits < 1u << std::size(features); ++bits) {
    FeatureSet set;
    for (size_t i = 0; i < std::size(features); ++i) {
      if (bits >> i & 1) set |= features[i];
    }
    if (FixDependencies(set) != set) continue;
    FakeDevice& device = AddUpDevice({.name = context.registry().FreeName("d"), .features = set});
    for (const bool ipv6 : {false, true}) {
      for (const bool udp : {false, true}) {
        for (const bool gso : {false, true}) {
          for (const bool scattered : {false, true}) {
            const FrameSpec spec{.ipv6 = ipv6, .udp = udp, .payload = gso ? 2001u : 801u};
            const Cut cut{.head = scattered ? testing::LayoutOf(spec).payload : 0, .piece = 77};
            device.sent.clear();
            Send(gso ? GsoPacket(spec, 667, cut) : PartialFrame(spec, cut), device);
            const Feature kind = udp ? kGsoUdpL4 : ipv6 ? kTso6 : kTso;
            const bool whole = !gso || set.Has(kind);
            ASSERT_EQ(device.sent.size(), whole ? 1u : 3u) << FeatureSetToString(set);
            for (const PacketPtr& frame : device.sent) {
              EXPECT_TRUE(set.Has(kSg) || frame->is_linear());
              const bool may_checksum = set.Has(kHwCsum) || set.Has(ipv6 ? kIpv6Csum : kIpCsum);
              EXPECT_EQ(frame->meta.csum_state,
                        may_checksum ? CsumState::kPartial : CsumState::kNone);
              EXPECT_EQ(IsGso(*frame), gso && whole);
              EXPECT_EQ(FrameFault(WireBytesOf(*frame)), "");
            }
          }
        }
      }
    }
  }
}

TEST_F(TxPathTest, UnknownChecksumPlaceIsSummedInSoftware) {  // Covers: netdev:X-06
  FakeDevice& device = Device({kSg, kIpCsum});
  PacketPtr packet = PartialFrame();
  packet->meta.csum_offset = 18;  // the urgent pointer
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 1u);
  EXPECT_EQ(device.sent[0]->meta.csum_state, CsumState::kNone);
  EXPECT_EQ(device.stats().tx_csum_software.value(), 1u);
}

TEST_F(TxPathTest, ExtensionHeadersAreSummedInSoftwareWithoutGenericChecksum) {
  FakeDevice& device = Device({kSg, kIpv6Csum});
  Send(PartialFrame({.ipv6 = true, .dest_options = true}), device);
  Send(PartialFrame({.ipv6 = true}), device);
  ASSERT_EQ(device.sent.size(), 2u);
  EXPECT_EQ(device.sent[0]->meta.csum_state, CsumState::kNone);
  EXPECT_EQ(FrameFault(BytesOf(*device.sent[0])), "");
  EXPECT_EQ(device.sent[1]->meta.csum_state, CsumState::kPartial);
}

TEST_F(TxPathTest, FragmentedPacketIsLinearizedAndStaysPartial) {  // Covers: netdev:X-07
  FakeDevice& device = Device({kHwCsum});
  Send(PartialFrame({.payload = 500}, {.head = 54, .piece = 100}), device);
  ASSERT_EQ(device.sent.size(), 1u);
  EXPECT_TRUE(device.sent[0]->is_linear());
  EXPECT_EQ(device.sent[0]->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(device.stats().tx_linearized.value(), 1u);
}

TEST_F(TxPathTest, DeviceWithoutAbilitiesGetsACompleteChecksum) {  // Covers: netdev:L-03
  FakeDevice& device = Device({});
  for (const FrameSpec& spec : {FrameSpec{}, FrameSpec{.udp = true}, FrameSpec{.ipv6 = true},
                                FrameSpec{.ipv6 = true, .udp = true}}) {
    device.sent.clear();
    Send(PartialFrame(spec, {.head = 80, .piece = 9}), device);
    ASSERT_EQ(device.sent.size(), 1u);
    EXPECT_EQ(BytesOf(*device.sent[0]), testing::BuildFrame(spec));
  }
}

TEST_F(TxPathTest, UntrustedPacketIsCheckedAndCountedThenGoesWhole) {  // Covers: netdev:X-08
  FakeDevice& device = Device({kSg, kHwCsum, kTso});
  PacketPtr packet = GsoPacket({.payload = 3000}, 1448);
  packet->meta.gso.type |= GsoType::kDodgy;
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 1u);
  EXPECT_EQ(device.sent[0]->meta.gso.segs, 3);

  PacketPtr bad = GsoPacket({.payload = 3000}, 1448);
  bad->meta.gso.type |= GsoType::kDodgy;
  bad->data()[23] = 17;  // UDP in a TCP super-packet
  EXPECT_EQ(TxPath::Transmit(std::move(bad), device), TxResult::kQueued);
  context.RunOnce();
  EXPECT_EQ(device.sent.size(), 1u);
  EXPECT_EQ(device.drops().value(DropReason::kTxUntrustedHeaders), 1u);
  EXPECT_EQ(device.stats().tx_dropped.value(), 1u);
}

TEST_F(TxPathTest, TagGoesIntoTheFrame) {  // Covers: netdev:X-09
  FakeDevice& device = Device({kSg, kHwCsum});
  PacketPtr packet = PartialFrame();
  packet->meta.vlan_present = true;
  packet->meta.vlan_tci = 0x6005;
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 1u);
  EXPECT_FALSE(device.sent[0]->meta.vlan_present);
  std::vector<uint8_t> bytes = WireBytesOf(*device.sent[0]);
  EXPECT_EQ(Get16(bytes, 12), 0x8100u);
  EXPECT_EQ(Get16(bytes, 14), 0x6005u);
  bytes.erase(bytes.begin() + 12, bytes.begin() + 16);
  EXPECT_EQ(bytes, testing::BuildFrame({}));
}

TEST_F(TxPathTest, TagStaysInTheMetadataOfADeviceThatInsertsIt) {
  FakeDevice& device =
      AddUpDevice({.features = {kSg, kHwCsum, kHwVlanCtagTx}, .vlan_features = {kHwCsum}});
  PacketPtr packet = PartialFrame();
  packet->meta.vlan_present = true;
  packet->meta.vlan_tci = 9;
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 1u);
  EXPECT_TRUE(device.sent[0]->meta.vlan_present);
  EXPECT_EQ(device.sent[0]->meta.vlan_tci, 9);
}

TEST_F(TxPathTest, SegmentsOfATaggedPacketAreTagged) {
  FakeDevice& device = Device({});
  PacketPtr packet = GsoPacket({.payload = 3000}, 1448);
  packet->meta.vlan_present = true;
  packet->meta.vlan_tci = 9;
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 3u);
  for (const PacketPtr& frame : device.sent) {
    std::vector<uint8_t> bytes = BytesOf(*frame);
    EXPECT_EQ(Get16(bytes, 12), 0x8100u);
    bytes.erase(bytes.begin() + 12, bytes.begin() + 16);
    EXPECT_EQ(FrameFault(bytes), "");
  }
}

TEST_F(TxPathTest, OneSegmentSuperPacketIsDropped) {  // Covers: netdev:X-10
  FakeDevice& device = Device({});
  EXPECT_EQ(Send(GsoPacket({.payload = 1448}, 1448), device), TxResult::kQueued);
  EXPECT_TRUE(device.sent.empty());
  EXPECT_EQ(device.stats().tx_dropped.value(), 1u);
  EXPECT_EQ(device.drops().value(DropReason::kTxSegmentationFailed), 1u);
  EXPECT_EQ(device.drops().total(), 1u);
}

TEST_F(TxPathTest, TcpWithoutPartialIsSetUpForTheDevice) {  // Covers: netdev:X-11
  FakeDevice& device = Device({kSg, kHwCsum, kTso});
  PacketPtr packet = Frame({.payload = 3000});
  packet->meta.gso = {.type = GsoType::kTcpv4, .size = 1448};
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 1u);
  EXPECT_EQ(device.sent[0]->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(Get16(device.sent[0]->head_bytes(), 50),
            testing::NaivePseudoSum(device.sent[0]->head_bytes(), 14, 6, 3020));
}

// Covers: netdev:X-08
TEST_F(TxPathTest, UntrustedPacketThatTheDeviceCanCutIsCheckedAndCounted) {
  FakeDevice& device = Device({kSg, kHwCsum, kTso, kTso6, kGsoUdpL4});
  for (const FrameSpec& spec :
       {FrameSpec{.payload = 3000}, FrameSpec{.ipv6 = true, .payload = 3000},
        FrameSpec{.udp = true, .payload = 3000},
        FrameSpec{.ipv6 = true, .udp = true, .payload = 3000}}) {
    device.sent.clear();
    PacketPtr packet = GsoPacket(spec, 1400);
    packet->meta.gso.type |= GsoType::kDodgy;
    ASSERT_EQ(packet->meta.gso.segs, 0);
    Send(std::move(packet), device);
    ASSERT_EQ(device.sent.size(), 1u);
    EXPECT_EQ(device.sent[0]->meta.gso.segs, 3);
    EXPECT_EQ(device.sent[0]->meta.gso.size, 1400);
    EXPECT_EQ(device.sent[0]->meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(WireBytesOf(*device.sent[0]), testing::BuildFrame(spec));
  }
  EXPECT_EQ(device.stats().tx_gso_segmented.value(), 0u);
}

TEST_F(TxPathTest, UntrustedPacketIsCutForADeviceThatCannot) {
  FakeDevice& device = Device({kSg, kHwCsum});
  PacketPtr packet = GsoPacket({.payload = 3000}, 1448);
  packet->meta.gso.type |= GsoType::kDodgy;
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 3u);
  EXPECT_EQ(device.sent[0]->meta.gso, GsoInfo());
}

// A robust device gets it unseen: it checks by itself.
TEST_F(TxPathTest, RobustDeviceGetsUntrustedPacketsAsTheyAre) {
  FakeDevice& device = Device({kSg, kHwCsum, kTso, kGsoRobust});
  PacketPtr packet = GsoPacket({.payload = 3000}, 1448);
  packet->meta.gso.type |= GsoType::kDodgy;
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 1u);
  EXPECT_EQ(device.sent[0]->meta.gso.segs, 0);
}

// Nobody knows whether a UDP sender wanted a checksum, so only what needs no repair goes on.
TEST_F(TxPathTest, UdpThatIsNotPartialIsNeverRepaired) {
  FakeDevice& able = AddUpDevice({.name = "able", .features = {kSg, kHwCsum, kGsoUdpL4}});
  FakeDevice& plain = AddUpDevice({.name = "plain", .features = {kSg, kHwCsum}});
  const auto send = [&](CsumState state, FakeDevice& device, bool ipv6) {
    device.sent.clear();
    PacketPtr packet = Frame({.ipv6 = ipv6, .udp = true, .payload = 300});
    packet->meta.gso = {.type = GsoType::kUdpL4, .size = 100};
    packet->meta.csum_state = state;
    Send(std::move(packet), device);
    return device.sent.size();
  };
  for (const bool ipv6 : {false, true}) {
    EXPECT_EQ(send(CsumState::kUnnecessary, able, ipv6), 1u);
    EXPECT_EQ(send(CsumState::kNone, able, ipv6), 0u);
    EXPECT_EQ(send(CsumState::kUnnecessary, plain, ipv6), 0u);
    EXPECT_EQ(send(CsumState::kNone, plain, ipv6), 0u);
  }
  EXPECT_EQ(able.drops().value(DropReason::kTxBadChecksumMetadata), 2u);
  EXPECT_EQ(able.stats().tx_dropped.value(), 2u);
  EXPECT_EQ(plain.drops().value(DropReason::kTxBadChecksumMetadata), 4u);
  EXPECT_EQ(plain.stats().tx_dropped.value(), 4u);
}

// Linux 6.18: cut with equal identifications, DF or not.
TEST_F(TxPathTest, FixedIdentificationWithoutDontFragmentIsCutInSoftware) {
  FakeDevice& device = Device({kSg, kHwCsum, kTso, kTsoMangleId});
  PacketPtr packet = GsoPacket({.payload = 300, .ip_id = 42, .df = false}, 100);
  packet->meta.gso.type |= GsoType::kFixedId;
  Send(std::move(packet), device);
  ASSERT_EQ(device.sent.size(), 3u);
  for (const PacketPtr& frame : device.sent) EXPECT_EQ(Get16(frame->head_bytes(), 18), 42u);
}

// The device rewrites the transport header only: it is given whole segments with the network header
// of the first one, and the rest as a frame. IPv4 total length, by hand: 20 + 20 + 1000.
TEST_F(TxPathTest, PartialSegmentationPreparesHeadersOnce) {
  for (const bool ipv6 : {false, true}) {
    const Feature kind = ipv6 ? kTso6 : kTso;
    FakeDevice& device = AddUpDevice({.name = context.registry().FreeName("part"),
                                      .features = {kSg, kHwCsum, kGsoPartial, kind},
                                      .gso_partial_features = kind});
    PacketPtr packet = GsoPacket({.ipv6 = ipv6, .payload = 3100, .tcp_flags = 0x98}, 1000);
    packet->meta.gso.type |= GsoType::kDodgy;
    Send(std::move(packet), device);
    ASSERT_EQ(device.sent.size(), 2u);
    const GsoInfo& gso = device.sent[0]->meta.gso;
    EXPECT_EQ(gso.type, (ipv6 ? GsoType::kTcpv6 : GsoType::kTcpv4) | GsoType::kPartial);
    EXPECT_EQ(gso.size, 1000);
    EXPECT_EQ(gso.segs, 3);
    EXPECT_EQ(device.sent[1]->meta.gso, GsoInfo());
    const std::vector<uint8_t> first = BytesOf(*device.sent[0]);
    const std::vector<uint8_t> rest = BytesOf(*device.sent[1]);
    const size_t headers = ipv6 ? 74 : 54;
    EXPECT_EQ(first.size(), headers + 3000);
    EXPECT_EQ(rest.size(), headers + 100);
    EXPECT_EQ(Get16(first, ipv6 ? 18 : 16), ipv6 ? 1020u : 1040u);
    EXPECT_EQ(first[headers - 7], 0x90) << "CWR and ACK, PSH is on the last";
    EXPECT_EQ(rest[headers - 7], 0x18);
    EXPECT_EQ(testing::Get32(rest, headers - 16), 1000u + 3000);
    if (!ipv6) {
      EXPECT_EQ(Get16(rest, 18), 7u + 3) << "three identifications went before";
    }
    EXPECT_EQ(FrameFault(WireBytesOf(*device.sent[1])), "");
  }
}

TEST_F(TxPathTest, ImpossibleMetadataIsDropped) {  // Covers: bug:B89
  FakeDevice& device = Device({kSg, kHwCsum, kTso});
  uint64_t dropped = 0;
  const auto expect_drop = [&](DropReason reason, auto spoil) {
    PacketPtr packet = PartialFrame({.payload = 300});
    spoil(*packet);
    const uint64_t before = device.drops().value(reason);
    EXPECT_EQ(Send(std::move(packet), device), TxResult::kDropped);
    EXPECT_EQ(device.drops().value(reason), before + 1) << DropReasonName(reason);
    EXPECT_EQ(device.drops().total(), ++dropped);
    EXPECT_EQ(device.stats().tx_dropped.value(), dropped);
  };
  expect_drop(DropReason::kTxBadGsoMetadata,
              [](Packet& p) { p.meta.gso = {.type = GsoType::kTcpv4, .size = 0}; });
  expect_drop(DropReason::kTxBadGsoMetadata,
              [](Packet& p) { p.meta.gso = {.type = GsoType::kNone, .size = 9}; });
  expect_drop(DropReason::kTxBadChecksumMetadata, [](Packet& p) { p.meta.csum_offset = 9999; });
  expect_drop(DropReason::kTxBadLength, [](Packet& p) {
    p.meta = PacketMeta();
    p.Trim(13);
  });
  EXPECT_TRUE(device.sent.empty());
}

TEST_F(TxPathTest, FrameOverTheMtuIsDropped) {
  FakeDevice& device = Device({kSg, kHwCsum}, 1000);
  EXPECT_EQ(Send(PartialFrame({.payload = 960}), device), TxResult::kQueued) << "1000 bytes of IP";
  EXPECT_EQ(Send(PartialFrame({.payload = 961}), device), TxResult::kTooBig);
  EXPECT_EQ(Send(PartialFrame({.payload = 960, .tags = 1}), device), TxResult::kQueued)
      << "a tag is extra";
  EXPECT_EQ(Send(PartialFrame({.payload = 961, .tags = 1}), device), TxResult::kTooBig);
  EXPECT_EQ(Send(PartialFrame({.payload = 960, .tags = 2}), device), TxResult::kQueued);
  EXPECT_EQ(Send(PartialFrame({.payload = 961, .tags = 2}), device), TxResult::kTooBig);
  EXPECT_EQ(Send(PartialFrame({.ipv6 = true, .payload = 940}), device), TxResult::kQueued);
  EXPECT_EQ(Send(PartialFrame({.ipv6 = true, .payload = 941}), device), TxResult::kTooBig);
  EXPECT_EQ(device.sent.size(), 4u);
  EXPECT_EQ(device.drops().value(DropReason::kTxOverMtu), 4u);
}

// Covers: bug:B91
TEST_F(TxPathTest, MtuIsJudgedBySegmentSize) {
  FakeDevice& device = Device({kSg, kHwCsum, kTso}, 1000);
  EXPECT_EQ(Send(GsoPacket({.payload = 60000}, 960), device), TxResult::kQueued);
  EXPECT_EQ(Send(GsoPacket({.payload = 60000}, 961), device), TxResult::kTooBig);
  EXPECT_EQ(Send(GsoPacket({.payload = 60000, .tcp_options = 4}, 957), device), TxResult::kTooBig);
  EXPECT_EQ(Send(GsoPacket({.ipv6 = true, .payload = 60000}, 941), device), TxResult::kTooBig);
  EXPECT_EQ(device.sent.size(), 1u);
  EXPECT_EQ(device.drops().value(DropReason::kTxOverMtu), 3u);
}

TEST_F(TxPathTest, ScatteredHeadersAreFoundForTheMtuCheck) {
  FakeDevice& device = Device({kSg, kHwCsum, kTso}, 1000);
  const auto scattered = [&](uint16_t size) {
    PacketPtr packet = MakePacket(context.pool(), BytesOf(*PartialFrame({.payload = 1500})),
                                  {.head = 20, .piece = 100});
    packet->meta.csum_state = CsumState::kPartial;
    packet->set_csum_start_in_data(34);
    packet->meta.csum_offset = 16;
    packet->meta.gso = {.type = GsoType::kTcpv4, .size = size};
    return packet;
  };
  EXPECT_EQ(Send(scattered(961), device), TxResult::kTooBig);
  EXPECT_EQ(Send(scattered(960), device), TxResult::kQueued);
  EXPECT_EQ(device.sent.size(), 1u);

  PacketPtr nonsense = MakePacket(context.pool(), std::vector<uint8_t>(2000, 0xaa));
  nonsense->meta.gso = {.type = GsoType::kTcpv4, .size = 500};
  EXPECT_EQ(Send(std::move(nonsense), device), TxResult::kDropped);
  EXPECT_EQ(device.drops().value(DropReason::kTxBadHeaderOffsets), 1u);
}

// The dead queue: what an upper device sent counts as sent, and is counted as dropped here.
TEST_F(TxPathTest, DeviceThatDoesNotRunDrops) {
  FakeDevice& device = AddDevice();
  EXPECT_EQ(Send(Frame(), device), TxResult::kCongested);
  EXPECT_EQ(device.drops().value(DropReason::kTxDeviceDown), 1u);
  ASSERT_TRUE(device.Up().ok());
  device.SetCarrier(false);
  EXPECT_EQ(Send(Frame(), device), TxResult::kCongested);
  EXPECT_EQ(device.drops().value(DropReason::kTxCarrierOff), 1u);
  EXPECT_EQ(device.stats().tx_dropped.value(), 2u);
  device.SetCarrier(true);
  EXPECT_EQ(Send(Frame(), device), TxResult::kQueued);
  context.registry().Unregister(device);
  EXPECT_EQ(TxPath::Transmit(Frame(), device), TxResult::kCongested);
  EXPECT_EQ(device.stats().tx_dropped.value(), 3u);
  EXPECT_EQ(device.stats().tx_packets.value(), 1u);
}

TEST_F(TxPathTest, CongestedDriverCountsAsSent) {
  FakeDevice& device = AddUpDevice({.queueless = true});
  device.answer = TxResult::kCongested;
  EXPECT_EQ(TxPath::Transmit(Frame(), device), TxResult::kCongested);
  EXPECT_TRUE(TxOk(TxResult::kCongested));
  EXPECT_EQ(device.stats().tx_packets.value(), 1u);
  EXPECT_EQ(device.drops().total(), 0u);
}

TEST_F(TxPathTest, FailedSendIsCountedByTheDriverOnly) {
  FakeDevice& device = Device({});
  device.answer = TxResult::kDropped;
  testing::FakeTap tap;
  device.AddTap(tap);
  Send(Frame(), device);
  EXPECT_EQ(device.stats().tx_errors.value(), 1u);
  EXPECT_EQ(device.stats().tx_dropped.value(), 0u);
  EXPECT_EQ(device.stats().tx_packets.value(), 0u);
  EXPECT_EQ(device.drops().total(), 1u);
  EXPECT_TRUE(tap.seen.empty()) << "shown only what was accepted";
}

TEST_F(TxPathTest, TapsSeeWhatTheDriverTook) {
  FakeDevice& device = Device({kSg, kHwCsum});
  testing::FakeTap tap;
  device.AddTap(tap);
  device.answer = TxResult::kQueued;
  EXPECT_EQ(TxPath::Transmit(GsoPacket({.payload = 3000}, 1448), device), TxResult::kQueued);
  EXPECT_TRUE(tap.seen.empty());
  context.RunOnce();
  ASSERT_EQ(tap.seen.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tap.seen[i].bytes, BytesOf(*device.sent[i]));
    EXPECT_EQ(tap.seen[i].meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(tap.seen[i].direction, TapDirection::kTransmit);
    EXPECT_EQ(tap.seen[i].result, TxResult::kQueued);
  }
}

TEST_F(TxPathTest, QueuelessDeviceSendsAtOnceAndAnswersForTheFirstSegment) {
  FakeDevice& device = AddUpDevice({.features = {kSg, kHwCsum}, .queueless = true});
  EXPECT_EQ(TxPath::Transmit(GsoPacket({.payload = 3000}, 1448), device), TxResult::kSent);
  EXPECT_EQ(device.sent.size(), 3u);
  int calls = 0;
  device.on_xmit = [&] { device.answer = ++calls == 1 ? TxResult::kSent : TxResult::kDropped; };
  EXPECT_EQ(TxPath::Transmit(GsoPacket({.payload = 3000}, 1448), device), TxResult::kSent);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(device.stats().tx_errors.value(), 2u);
}

TEST_F(TxPathTest, QueuelessDeviceGoingDownDropsTheRest) {
  FakeDevice& device = AddUpDevice({.features = {kSg, kHwCsum}, .queueless = true});
  device.on_xmit = [&] { device.Down(); };
  EXPECT_EQ(TxPath::Transmit(GsoPacket({.payload = 3000}, 1448), device), TxResult::kSent);
  EXPECT_EQ(device.sent.size(), 1u);
  EXPECT_EQ(device.drops().value(DropReason::kTxDeviceDown), 2u);
}

TEST_F(TxPathTest, DevicesThatSendThroughEachOtherForEverAreStopped) {
  FakeDevice& a = AddUpDevice({.name = "a", .queueless = true});
  FakeDevice& b = AddUpDevice({.name = "b", .queueless = true});
  int depth = 0;
  TxResult deepest = TxResult::kSent;
  const auto send_on = [&](FakeDevice& next) {
    ++depth;
    const TxResult result = TxPath::Transmit(Frame(), next);
    if (!TxOk(result)) deepest = result;
  };
  a.on_xmit = [&] { send_on(b); };
  b.on_xmit = [&] { send_on(a); };
  EXPECT_EQ(TxPath::Transmit(Frame(), a), TxResult::kSent);
  EXPECT_EQ(depth, 8);
  EXPECT_EQ(deepest, TxResult::kDeviceDown);
  EXPECT_EQ(a.stats().tx_dropped.value() + b.stats().tx_dropped.value(), 1u);
  EXPECT_EQ(a.drops().value(DropReason::kTxRecursion) + b.drops().value(DropReason::kTxRecursion),
            1u);
  // The count is back at zero.
  depth = 0;
  EXPECT_EQ(TxPath::Transmit(Frame(), a), TxResult::kSent);
  EXPECT_EQ(depth, 8);
}

TEST_F(TxPathTest, NoMemoryDropsAndCounts) {
  TestEnvironment other;
  NetContext small(other.environment(), {.pool = {.budget_bytes = 4u << 20}});
  auto added =
      small.registry().Register(std::make_unique<FakeDevice>(small, FakeDevice::Options{}));
  ASSERT_TRUE(added.ok());
  FakeDevice& device = **added;
  ASSERT_TRUE(device.Up().ok());
  PacketPtr packet = testing::MakeGsoPacket(small.pool(), {.payload = 60000}, 1);
  EXPECT_EQ(TxPath::Transmit(std::move(packet), device), TxResult::kQueued);
  small.RunOnce();
  EXPECT_EQ(device.drops().value(DropReason::kTxNoBuffer), 1u);
  EXPECT_EQ(small.pool().stats().packets_in_use, 0u);
}

// A pool at its budget, and a packet that fills its head: whatever must grow it fails.
class TxExhaustionTest : public testing::NetdevTest {
 protected:
  // `head` bytes of an unknown protocol, and 100 more in a fragment, without room anywhere.
  PacketPtr FullPacket() {
    PacketPtr packet = context.pool().AllocatePacket(1);
    const size_t room = packet->tailroom();
    std::fill_n(packet->Put(room).begin(), room, uint8_t{0x5a});
    const size_t headroom = packet->headroom();
    std::fill_n(packet->Push(headroom).begin(), headroom, uint8_t{0x5a});
    packet->set_l2_here();
    SlabRef slab = context.pool().AllocateSlab(SlabClass::kLarge);
    std::fill_n(slab.data(), 100, uint8_t{0x5a});
    EXPECT_TRUE(packet->AddFrag(std::move(slab), 0, 100));
    return packet;
  }
  void UseUpThePool() {
    while (PacketPtr packet = context.pool().AllocatePacket(16000))
      hog_.push_back(std::move(packet));
    while (PacketPtr packet = context.pool().AllocatePacket(1)) hog_.push_back(std::move(packet));
  }
  std::vector<PacketPtr> hog_;
};

TEST_F(TxExhaustionTest, FragmentsThatCannotBeJoined) {
  FakeDevice& device = AddUpDevice({.queueless = true, .mtu = 9000});
  PacketPtr packet = FullPacket();
  UseUpThePool();
  EXPECT_EQ(TxPath::Transmit(std::move(packet), device), TxResult::kDropped);
  EXPECT_EQ(device.drops().value(DropReason::kTxLinearizeFailed), 1u);
}

TEST_F(TxExhaustionTest, TagThatFindsNoRoom) {
  FakeDevice& device = AddUpDevice({.features = {kSg}, .queueless = true, .mtu = 9000});
  PacketPtr packet = FullPacket();
  packet->meta.vlan_present = true;
  UseUpThePool();
  EXPECT_EQ(TxPath::Transmit(std::move(packet), device), TxResult::kDropped);
  EXPECT_EQ(device.drops().value(DropReason::kTxVlanFailed), 1u);
}

TEST_F(TxExhaustionTest, ChecksumFieldThatCannotBeReached) {
  FakeDevice& device = AddUpDevice({.features = {kSg}, .queueless = true, .mtu = 9000});
  PacketPtr packet = FullPacket();
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(static_cast<int32_t>(packet->head_length()) - 4);
  packet->meta.csum_offset = 16;  // in the fragment
  UseUpThePool();
  EXPECT_EQ(TxPath::Transmit(std::move(packet), device), TxResult::kDropped);
  EXPECT_EQ(device.drops().value(DropReason::kTxChecksumFailed), 1u);
}

}  // namespace
}  // namespace tapwire::netdev
