// SPDX-License-Identifier: Apache-2.0
// Frames through VLAN devices, both ways.
#include <vector>

#include "gtest/gtest.h"
#include "netdev/dummy.h"
#include "netdev/tx_path.h"
#include "netdev/vlan_device.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/vlan_fixture.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using testing::BytesOf;
using testing::FakeDevice;
using testing::FakeSink;
using testing::FrameFault;
using testing::FrameSpec;
using testing::Get16;
using testing::WireBytesOf;

// Without the tag behind the addresses; `tci` is what it said.
std::vector<uint8_t> Untagged(std::vector<uint8_t> bytes, uint16_t protocol, uint16_t tci) {
  EXPECT_EQ(Get16(bytes, 12), protocol);
  EXPECT_EQ(Get16(bytes, 14), tci);
  bytes.erase(bytes.begin() + 12, bytes.begin() + 16);
  return bytes;
}

// ---- Transmit ----

class VlanTransmitTest : public testing::VlanFixture {
 protected:
  NetDevice& UpVlan(FakeDevice& lower, VlanOptions options = {.vlan_id = 5}) {
    NetDevice& vlan = Vlan(lower, options);
    EXPECT_TRUE(vlan.Up().ok());
    return vlan;
  }
};

TEST_F(VlanTransmitTest, FrameLeavesWithItsTag) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& c = UpVlan(lower);
  NetDevice& s = UpVlan(lower, {.name = "s", .vlan_id = 4094, .protocol = 0x88a8});
  for (const bool ipv6 : {false, true}) {
    lower.sent.clear();
    EXPECT_EQ(Send(Frame({.ipv6 = ipv6}), c), TxResult::kQueued);
    EXPECT_EQ(Send(Frame({.ipv6 = ipv6}), s), TxResult::kQueued);
    ASSERT_EQ(lower.sent.size(), 2u);
    EXPECT_EQ(Untagged(BytesOf(*lower.sent[0]), 0x8100, 5), testing::BuildFrame({.ipv6 = ipv6}));
    EXPECT_EQ(Untagged(BytesOf(*lower.sent[1]), 0x88a8, 4094), testing::BuildFrame({.ipv6 = ipv6}));
    EXPECT_FALSE(lower.sent[0]->meta.vlan_present);
  }
  EXPECT_EQ(c.stats().tx_packets.value(), 2u);
  EXPECT_EQ(c.stats().tx_bytes.value(), 154u + 174u) << "without the tag";
  EXPECT_EQ(lower.stats().tx_bytes.value(), 2 * (158u + 178u));
}

TEST_F(VlanTransmitTest, DeviceThatInsertsTagsGetsThemInTheMetadata) {
  const FeatureSet set{kSg, kHwCsum, kTso, kHwVlanCtagTx};
  FakeDevice& lower = AddUpDevice({.features = set, .vlan_features = {kSg, kHwCsum, kTso}});
  NetDevice& vlan = UpVlan(lower);
  Send(GsoPacket({.payload = 3000}, 1400), vlan);
  ASSERT_EQ(lower.sent.size(), 1u);
  EXPECT_TRUE(lower.sent[0]->meta.vlan_present);
  EXPECT_EQ(lower.sent[0]->meta.vlan_tci, 5);
  EXPECT_EQ(lower.sent[0]->meta.vlan_proto, 0x8100);
  EXPECT_EQ(lower.sent[0]->meta.gso.size, 1400);
  EXPECT_EQ(WireBytesOf(*lower.sent[0]), testing::BuildFrame({.payload = 3000}));
}

TEST_F(VlanTransmitTest, SuperPacketIsCutOnceAtTheLower) {
  const FeatureSet csum{kSg, kIpCsum};
  FakeDevice& lower = AddUpDevice({.features = csum, .vlan_features = csum});
  NetDevice& vlan = UpVlan(lower);
  for (const FrameSpec& spec :
       {FrameSpec{.payload = 3000}, FrameSpec{.ipv6 = true, .payload = 3000},
        FrameSpec{.udp = true, .payload = 3000},
        FrameSpec{.ipv6 = true, .udp = true, .payload = 3000}}) {
    lower.sent.clear();
    Send(GsoPacket(spec, 1400), vlan);
    ASSERT_EQ(lower.sent.size(), 3u);
    for (const PacketPtr& frame : lower.sent) {
      EXPECT_EQ(FrameFault(Untagged(WireBytesOf(*frame), 0x8100, 5)), "");
      EXPECT_EQ(frame->meta.csum_state, spec.ipv6 ? CsumState::kNone : CsumState::kPartial);
    }
  }
  EXPECT_EQ(vlan.stats().tx_packets.value(), 4u);
  EXPECT_EQ(vlan.stats().tx_gso_segmented.value(), 0u);
  EXPECT_EQ(lower.stats().tx_gso_segmented.value(), 4u);
}

TEST_F(VlanTransmitTest, LowerWithoutFeaturesGetsFinishedFrames) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = UpVlan(lower);
  for (const bool ipv6 : {false, true}) {
    lower.sent.clear();
    Send(GsoPacket({.ipv6 = ipv6, .payload = 3000}, 1400), vlan);
    ASSERT_EQ(lower.sent.size(), 3u);
    for (const PacketPtr& frame : lower.sent) {
      EXPECT_EQ(frame->meta.csum_state, CsumState::kNone);
      EXPECT_TRUE(frame->is_linear());
      EXPECT_EQ(FrameFault(Untagged(BytesOf(*frame), 0x8100, 5)), "");
    }
  }
}

TEST_F(VlanTransmitTest, InnerTagStandsBehindTheOuter) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& outer = UpVlan(lower, {.vlan_id = 10, .protocol = 0x88a8});
  NetDevice& inner = Vlan(outer, {.vlan_id = 20});
  ASSERT_TRUE(inner.Up().ok());
  // A full-sized frame: tags do not count as payload.
  EXPECT_EQ(Send(Frame({.payload = 1460}), inner), TxResult::kQueued);
  ASSERT_EQ(lower.sent.size(), 1u);
  EXPECT_EQ(Untagged(Untagged(BytesOf(*lower.sent[0]), 0x88a8, 10), 0x8100, 20),
            testing::BuildFrame({.payload = 1460}));
}

// Covers: bug:B91: the greatest packet the length fields can tell, and all headers before it
TEST_F(VlanTransmitTest, GreatestSuperPacketIsCutAndNotLost) {
  const FeatureSet set{kSg, kHwCsum, kTso, kTso6};
  FakeDevice& lower = AddUpDevice({.features = set, .vlan_features = set});
  NetDevice& vlan = UpVlan(lower);
  for (const bool ipv6 : {false, true}) {
    lower.sent.clear();
    const size_t headers = ipv6 ? 74 : 54;
    const size_t payload = 65535 + (ipv6 ? 40 : 0) - (headers - 14);
    EXPECT_TRUE(TxOk(Send(GsoPacket({.ipv6 = ipv6, .payload = payload}, 1400), vlan)));
    size_t bytes = 0;
    for (const PacketPtr& frame : lower.sent) {
      EXPECT_EQ(FrameFault(Untagged(WireBytesOf(*frame), 0x8100, 5)), "");
      bytes += frame->length() - headers - 4;
    }
    EXPECT_EQ(bytes, payload);
    EXPECT_EQ(lower.sent.size(), (payload + 1399) / 1400);
  }
  EXPECT_EQ(lower.drops().total() + vlan.drops().total(), 0u);
}

TEST_F(VlanTransmitTest, LossBelowIsCountedHereToo) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = UpVlan(lower);
  lower.StopTxQueue();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(TxPath::Transmit(Frame(), vlan), TxResult::kQueued);
  EXPECT_EQ(TxPath::Transmit(Frame(), vlan), TxResult::kNoBuffer);
  EXPECT_EQ(vlan.stats().tx_packets.value(), 1000u);
  EXPECT_EQ(vlan.stats().tx_dropped.value(), 1u);
  EXPECT_EQ(vlan.drops().total(), 0u) << "the reason is the lower's";
  EXPECT_EQ(lower.drops().value(DropReason::kTxQueueFull), 1u);
}

TEST_F(VlanTransmitTest, CanSitOnADummy) {
  NetDevice& lower = **CreateDummy(context, {});
  ASSERT_TRUE(lower.Up().ok());
  NetDevice& vlan = Vlan(lower, {.vlan_id = 7});
  ASSERT_TRUE(vlan.Up().ok());
  EXPECT_EQ(Send(GsoPacket({.payload = 3000}, 1400), vlan), TxResult::kSent);
  EXPECT_EQ(lower.stats().tx_packets.value(), 3u) << "it has no features for tagged packets";
}

// ---- Receive ----

class VlanReceiveTest : public testing::VlanFixture {
 protected:
  void Receive(FakeDevice& device, const FrameSpec& spec, uint16_t tci, uint16_t protocol = 0x8100,
               bool in_meta = false) {
    std::vector<uint8_t> bytes = testing::BuildFrame(spec);
    if (!in_meta) {
      const uint8_t tag[] = {static_cast<uint8_t>(protocol >> 8), static_cast<uint8_t>(protocol),
                             static_cast<uint8_t>(tci >> 8), static_cast<uint8_t>(tci)};
      bytes.insert(bytes.begin() + 12, std::begin(tag), std::end(tag));
    }
    PacketPtr packet = testing::MakePacket(context.pool(), bytes);
    packet->meta.vlan_present = in_meta;
    packet->meta.vlan_tci = in_meta ? tci : 0;
    packet->meta.vlan_proto = protocol;
    device.rx().Add(std::move(packet));
    Run();
  }
};

TEST_F(VlanReceiveTest, FramesOfItsIdArriveWithoutTheTag) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower, {.vlan_id = 5});
  ASSERT_TRUE(vlan.Up().ok());
  FakeSink sink, below;
  vlan.AddPacketType(sink);
  lower.AddPacketType(below);
  for (const bool ipv6 : {false, true}) {
    for (const bool in_meta : {false, true}) {
      sink.packets.clear();
      Receive(lower, {.ipv6 = ipv6}, 0x6005, 0x8100, in_meta);
      ASSERT_EQ(sink.packets.size(), 1u);
      EXPECT_EQ(BytesOf(*sink.packets[0]), testing::BuildFrame({.ipv6 = ipv6}));
      EXPECT_FALSE(sink.packets[0]->meta.vlan_present);
      EXPECT_EQ(sink.packets[0]->meta.ether_type, ipv6 ? 0x86dd : 0x0800);
      EXPECT_EQ(sink.packets[0]->meta.rx_device, vlan.ifindex());
    }
  }
  EXPECT_TRUE(below.packets.empty());
  EXPECT_EQ(vlan.stats().rx_packets.value(), 4u);
}

TEST_F(VlanReceiveTest, FramesOfOtherIdsDoNot) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower, {.vlan_id = 5});
  ASSERT_TRUE(vlan.Up().ok());
  FakeSink sink;
  vlan.AddPacketType(sink);
  Receive(lower, {}, 6);
  Receive(lower, {}, 5, 0x88a8);
  lower.rx().Add(Frame());
  Run();
  EXPECT_TRUE(sink.packets.empty());
  EXPECT_EQ(vlan.stats().rx_packets.value(), 0u);
}

TEST_F(VlanReceiveTest, VlanThatIsDownTakesNothing) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& vlan = Vlan(lower, {.vlan_id = 5});
  FakeSink sink, below;
  vlan.AddPacketType(sink);
  lower.AddPacketType(below);
  Receive(lower, {}, 5);
  EXPECT_TRUE(sink.packets.empty());
  EXPECT_TRUE(below.packets.empty()) << "the frame is the VLAN's";
}

TEST_F(VlanReceiveTest, TwoTagsReachTheInnerDevice) {
  FakeDevice& lower = AddUpDevice();
  NetDevice& outer = Vlan(lower, {.vlan_id = 10, .protocol = 0x88a8});
  NetDevice& inner = Vlan(outer, {.vlan_id = 100});
  ASSERT_TRUE(outer.Up().ok());
  ASSERT_TRUE(inner.Up().ok());
  FakeSink sink;
  inner.AddPacketType(sink);
  Receive(lower, {.tags = 1}, 10, 0x88a8);  // the builder's own tag has id 100
  ASSERT_EQ(sink.packets.size(), 1u);
  EXPECT_EQ(BytesOf(*sink.packets[0]), testing::BuildFrame({}));
}

}  // namespace
}  // namespace tapwire::netdev
