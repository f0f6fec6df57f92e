// SPDX-License-Identifier: Apache-2.0
#include "netdev/veth.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/csum_offload.h"
#include "netdev/gso.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev {
namespace {

using enum Feature;
using testing::BytesOf;
using ::testing::ElementsAre;
using testing::FakeSink;
using testing::FrameFault;
using testing::FrameSpec;
using ::testing::HasSubstr;

class VethTest : public testing::NetdevTest {
 protected:
  std::pair<NetDevice*, NetDevice*> Pair(const VethOptions& options = {}) {
    auto pair = CreateVethPair(context, options);
    EXPECT_TRUE(pair.ok()) << pair.status();
    pair->second->AddPacketType(sink);
    return *pair;
  }
  std::pair<NetDevice*, NetDevice*> UpPair(const VethOptions& options = {}) {
    const auto pair = Pair(options);
    EXPECT_TRUE(pair.first->Up().ok());
    EXPECT_TRUE(pair.second->Up().ok());
    return pair;
  }
  TxResult Send(PacketPtr packet, NetDevice& device) {
    const TxResult result = TxPath::Transmit(std::move(packet), device);
    context.RunOnce();
    return result;
  }

  FakeSink sink;  // of the second end
};

TEST_F(VethTest, EndsHaveNamesMacsAndMtu) {
  const auto [a, b] =
      Pair({.name_a = "x", .name_b = "y", .mac_a = MacAddress(2, 0, 0, 0, 0, 7), .mtu = 9000});
  EXPECT_EQ(a->name(), "x");
  EXPECT_EQ(b->name(), "y");
  EXPECT_EQ(a->mac(), MacAddress(2, 0, 0, 0, 0, 7));
  EXPECT_TRUE(b->mac().IsUnicast());
  EXPECT_EQ(a->mtu(), 9000u);
  EXPECT_EQ(a->kind(), "veth");
  EXPECT_FALSE(a->is_loopback());
}

TEST_F(VethTest, CarrierFollowsThePeer) {
  const auto [a, b] = Pair();
  EXPECT_FALSE(a->has_carrier());
  testing::FakeObserver observer_a, observer_b;
  a->AddObserver(observer_a);
  b->AddObserver(observer_b);
  ASSERT_TRUE(a->Up().ok());
  EXPECT_FALSE(a->is_running());
  ASSERT_TRUE(b->Up().ok());
  EXPECT_TRUE(a->is_running());
  EXPECT_TRUE(b->is_running());
  b->Down();
  EXPECT_FALSE(a->is_running());
  EXPECT_THAT(observer_a.events, ElementsAre("veth0 up", "veth0 change", "veth0 change"));
  EXPECT_THAT(observer_b.events, ElementsAre("veth1 up", "veth1 going-down", "veth1 down"));
}

TEST_F(VethTest, FrameArrivesThroughTheBacklogWithItsMetadata) {
  const auto [a, b] = UpPair();
  for (const FrameSpec& spec : {FrameSpec{}, FrameSpec{.ipv6 = true, .udp = true}}) {
    PacketPtr packet = PartialFrame(spec, {.head = 80, .piece = 10});
    packet->meta.flow_hash = 5;
    const PacketMeta sent = packet->meta;
    const std::vector<uint8_t> bytes = BytesOf(*packet);
    sink.packets.clear();
    EXPECT_EQ(TxPath::Transmit(std::move(packet), *a), TxResult::kSent);
    EXPECT_TRUE(sink.packets.empty()) << "not inside the sender's call";
    context.RunOnce();
    ASSERT_EQ(sink.packets.size(), 1u);
    const Packet& got = *sink.packets[0];
    EXPECT_EQ(BytesOf(got), bytes);
    EXPECT_EQ(got.meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(got.meta.csum_start, sent.csum_start);
    EXPECT_EQ(got.meta.csum_offset, sent.csum_offset);
    EXPECT_EQ(got.meta.flow_hash, 5u);
    EXPECT_EQ(got.meta.rx_device, b->ifindex());
    EXPECT_EQ(got.meta.rx_time, context.now());
  }
  EXPECT_EQ(a->stats().tx_packets.value(), 2u);
  EXPECT_EQ(b->stats().rx_packets.value(), 2u);
  EXPECT_EQ(a->stats().tx_bytes.value(), b->stats().rx_bytes.value());
}

TEST_F(VethTest, SuperPacketsArriveWhole) {
  const auto [a, b] = UpPair();
  for (const FrameSpec& spec :
       {FrameSpec{.payload = 60000}, FrameSpec{.ipv6 = true, .payload = 60000},
        FrameSpec{.udp = true, .payload = 60000}}) {
    sink.packets.clear();
    Send(GsoPacket(spec, 1400, {.head = 80, .piece = 4000}), *a);
    ASSERT_EQ(sink.packets.size(), 1u);
    EXPECT_EQ(sink.packets[0]->meta.gso.size, 1400);
    EXPECT_EQ(sink.packets[0]->meta.gso.type, testing::KindOf(spec));
    EXPECT_EQ(sink.packets[0]->length(), testing::BuildFrame(spec).size());
  }
}

TEST_F(VethTest, CorruptedPayloadIsAcceptedSinceNoChecksumWasEverMade) {  // Covers: netdev:L-01
  const auto [a, b] = UpPair();
  Send(PartialFrame({.payload = 100}), *a);
  ASSERT_EQ(sink.packets.size(), 1u);
  sink.packets[0]->data()[100] ^= 0x55;
  sink.packets[0]->Pull(34);
  EXPECT_TRUE(ChecksumUnnecessary(*sink.packets[0]));
}

TEST_F(VethTest, WithoutOffloadsEveryFrameIsComplete) {
  const auto [a, b] = UpPair({.offloads = false});
  EXPECT_FALSE(a->features().HasAny(kCsumMask | kGsoMask | FeatureSet{kSg, kGso}));
  for (const FrameSpec& spec :
       {FrameSpec{.payload = 3000}, FrameSpec{.ipv6 = true, .payload = 3000},
        FrameSpec{.udp = true, .payload = 3000}}) {
    sink.packets.clear();
    EXPECT_EQ(Send(GsoPacket(spec, 1400, {.head = 80, .piece = 700}), *a), TxResult::kSent);
    ASSERT_EQ(sink.packets.size(), 3u);
    for (const PacketPtr& frame : sink.packets) {
      EXPECT_EQ(frame->meta.csum_state, CsumState::kNone);
      EXPECT_FALSE(IsGso(*frame));
      EXPECT_TRUE(frame->is_linear());
      EXPECT_EQ(FrameFault(BytesOf(*frame)), "");
    }
  }
  sink.packets.clear();
  Send(PartialFrame({.ipv6 = true}), *a);
  ASSERT_EQ(sink.packets.size(), 1u);
  EXPECT_EQ(FrameFault(BytesOf(*sink.packets[0])), "");
}

TEST_F(VethTest, OffloadsCanBeSwitchedOff) {
  const auto [a, b] = UpPair();
  EXPECT_EQ(a->RequestFeatures(kAllTso | FeatureSet{kHwCsum, kSg}, {}), FeatureSet());
  Send(GsoPacket({.payload = 3000}, 1448), *a);
  ASSERT_EQ(sink.packets.size(), 3u);
  EXPECT_EQ(FrameFault(BytesOf(*sink.packets[2])), "");
}

// A tag in the metadata crosses there, unless the user wants it in the data. Either way the far end
// sees the same frame.
TEST_F(VethTest, TagCrossesInTheMetadata) {
  const auto [a, b] = UpPair();
  testing::FakeTap sent, received;
  a->AddTap(sent);
  b->AddTap(received);
  for (const bool offload : {true, false}) {
    for (const uint16_t protocol : {uint16_t{0x8100}, uint16_t{0x88a8}}) {
      a->RequestFeatures({kHwVlanCtagTx, kHwVlanStagTx}, offload ? kVlanOffloads : FeatureSet());
      PacketPtr packet = GsoPacket({.payload = 3000}, 1448);
      packet->meta.vlan_present = true;
      packet->meta.vlan_proto = protocol;
      packet->meta.vlan_tci = 0xa005;
      Send(std::move(packet), *a);
      ASSERT_EQ(received.seen.size(), 1u);
      EXPECT_EQ(sent.seen[0].meta.vlan_present, offload);
      EXPECT_TRUE(received.seen[0].meta.vlan_present);
      EXPECT_EQ(received.seen[0].meta.vlan_proto, protocol);
      EXPECT_EQ(received.seen[0].meta.vlan_tci, 0xa005);
      EXPECT_EQ(received.seen[0].meta.gso.size, 1448) << "whole";
      EXPECT_EQ(received.seen[0].bytes.size(), 14u + 20u + 20u + 3000u);
      sent.seen.clear();
      received.seen.clear();
    }
  }
}

TEST_F(VethTest, ClaimsWhatThePeerUnderstands) {
  const auto [a, b] = Pair();
  EXPECT_TRUE(a->features().HasAll(kGsoSoftware))
      << FeatureSetToString(kGsoSoftware & ~a->features());
  EXPECT_TRUE(a->hw_features().HasAll(kGsoSoftware));
  EXPECT_FALSE(a->vlan_features().HasAny(kVlanOffloads));
  EXPECT_FALSE(a->features().HasAny({kHwVlanCtagFilter, kHwVlanStagFilter, kLro, kGsoRobust}));
}

TEST_F(VethTest, FramesForADownPeerAreDroppedAndCountedOnce) {
  const auto [a, b] = UpPair();
  static_cast<void>(TxPath::Transmit(Frame(), *a));  // in the backlog when the peer goes
  b->Down();
  EXPECT_EQ(Send(Frame(), *a), TxResult::kCongested);
  EXPECT_TRUE(sink.packets.empty());
  EXPECT_EQ(b->drops().value(DropReason::kLinkDeviceDown), 1u);
  EXPECT_EQ(b->drops().total(), 1u);
  EXPECT_EQ(a->drops().value(DropReason::kTxCarrierOff), 1u);
  EXPECT_EQ(a->drops().total(), 1u);
}

TEST_F(VethTest, FullBacklogIsCountedOnce) {
  const auto [a, b] = UpPair();
  for (int i = 0; i < 1002; ++i) static_cast<void>(TxPath::Transmit(Frame({.payload = 1}), *a));
  EXPECT_EQ(b->drops().value(DropReason::kLinkBacklogFull), 2u);
  EXPECT_EQ(a->drops().total() + b->drops().total(), 2u);
  while (context.RunOnce()) {
  }
  EXPECT_EQ(sink.packets.size(), 1000u);
}

TEST_F(VethTest, FarEndsMtuCounts) {
  const auto [a, b] = UpPair();
  ASSERT_TRUE(b->SetMtu(1000).ok());
  Send(PartialFrame({.payload = 960}), *a);
  Send(PartialFrame({.payload = 961}), *a);
  Send(GsoPacket({.payload = 5000}, 960), *a);
  Send(GsoPacket({.payload = 5000}, 1400), *a);
  EXPECT_EQ(sink.packets.size(), 2u);
  EXPECT_EQ(b->drops().value(DropReason::kLinkOverMtu), 2u);
  EXPECT_EQ(a->drops().total(), 0u);
}

TEST_F(VethTest, RemovingOneEndRemovesTheOther) {
  const auto [a, b] = UpPair();
  static_cast<void>(TxPath::Transmit(Frame(), *a));
  context.registry().Unregister(*b);
  EXPECT_TRUE(context.registry().devices().empty());
  EXPECT_EQ(TxPath::Transmit(Frame(), *a), TxResult::kCongested);
  EXPECT_FALSE(context.RunOnce());
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

TEST_F(VethTest, FailedCreationLeavesNothing) {
  AddDevice({.name = "veth1"});
  const auto pair = CreateVethPair(context, {});
  EXPECT_EQ(pair.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(context.registry().Find("veth0"), nullptr);
  context.RunOnce();
  EXPECT_EQ(CreateVethPair(context, {.name_a = "a b"}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateVethPair(context, {.name_a = "p", .name_b = "p"}).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CreateVethPair(context, {.name_a = "p", .name_b = "q", .mtu = 10}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(context.registry().devices().size(), 1u);
}

TEST_F(VethTest, EndsAnswerEachOtherInOneBatch) {
  const auto [a, b] = UpPair();
  FakeSink back;
  a->AddPacketType(back);
  sink.on_receive = [&](const Packet& packet, NetDevice& device) {
    EXPECT_EQ(TxPath::Transmit(packet.CopyDeep(), device), TxResult::kSent);
  };
  Send(Frame(), *a);
  EXPECT_EQ(back.packets.size(), 1u);
}

TEST_F(VethTest, TapKeepsItsViewWhateverTheReceiverDoes) {
  const auto [a, b] = UpPair();
  testing::FakeTap tap;
  a->AddTap(tap);
  sink.on_receive = [](const Packet& packet, NetDevice&) {
    const_cast<Packet&>(packet).data()[0] = 0xee;
  };
  Send(Frame(), *a);
  ASSERT_EQ(tap.seen.size(), 1u);
  EXPECT_EQ(tap.seen[0].bytes, testing::BuildFrame({}));
}

class LoopbackTest : public testing::NetdevTest {};

TEST_F(LoopbackTest, ReceivesWhatItSends) {
  auto device = CreateLoopback(context, "lo");
  ASSERT_TRUE(device.ok());
  NetDevice& lo = **device;
  EXPECT_TRUE(lo.is_loopback());
  EXPECT_EQ(lo.kind(), "loopback");
  EXPECT_EQ(lo.mtu(), 65536u);
  EXPECT_TRUE(lo.mac().IsZero());
  EXPECT_EQ(lo.link_type(), LinkType::kLoopback);
  EXPECT_TRUE(lo.features().Has(kVlanChallenged)) << "no VLAN on a loopback device";
  EXPECT_FALSE(lo.hw_features().Has(kNocacheCopy));
  FakeSink sink;
  lo.AddPacketType(sink);
  ASSERT_TRUE(lo.Up().ok());
  EXPECT_EQ(TxPath::Transmit(PartialFrame({.payload = 20000}), lo), TxResult::kSent);
  EXPECT_EQ(TxPath::Transmit(GsoPacket({.ipv6 = true, .payload = 50000}, 1400), lo),
            TxResult::kSent);
  context.RunOnce();
  ASSERT_EQ(sink.packets.size(), 2u);
  EXPECT_EQ(sink.packets[0]->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(sink.packets[1]->meta.gso.size, 1400);
  EXPECT_EQ(lo.stats().rx_bytes.value(), lo.stats().tx_bytes.value());
}

TEST_F(LoopbackTest, HasNoAddressToSet) {
  auto device = CreateLoopback(context, "lo");
  ASSERT_TRUE(device.ok());
  const absl::Status status = (*device)->SetMac(MacAddress(2, 0, 0, 0, 0, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lo"));
  EXPECT_EQ(CreateLoopback(context, "lo").status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace tapwire::netdev
