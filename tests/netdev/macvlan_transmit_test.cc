// SPDX-License-Identifier: Apache-2.0
// What a macvlan sends: to the wire, to a neighbour in bridge mode, and in which shape.
#include <utility>

#include "netdev/capture_tap.h"
#include "netdev/dummy.h"
#include "netdev/ethtool.h"
#include "netdev/macvlan.h"
#include "netdev/pcapng_writer.h"
#include "netdev/veth.h"
#include "tests/netdev/macvlan_fixture.h"

namespace tapwire::netdev {
namespace {

using testing::BytesOf;
using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FrameSpec;
using ::testing::IsEmpty;
using testing::kLowerMac;
using testing::kMacA;
using testing::kMacB;
using testing::kMacC;
using testing::kOutside;
using ::testing::SizeIs;

class MacvlanTransmitTest : public testing::MacvlanTest {
 protected:
  // A lower device that can do nothing for its sender, not even gather.
  FakeDevice& AddPlainLower() {
    FakeDevice& lower = AddLower();
    lower.RequestFeatures(kSoftFeatures, FeatureSet());
    EXPECT_EQ(lower.features(), FeatureSet());
    return lower;
  }
  // A TCP super-packet of 60,000 bytes of payload from `source`, sums left to the device.
  PacketPtr SuperPacket(const MacAddress& destination, const NetDevice& source, bool ipv6 = false) {
    PacketPtr packet = testing::MakeGsoPacket(
        context.pool(), {.ipv6 = ipv6, .payload = kPayload, .tcp_flags = 0x18}, kSegment,
        {.head = 200, .piece = 9000});
    testing::SetMacs(*packet, destination, source.mac());
    return packet;
  }
  static constexpr size_t kPayload = 60000;
  static constexpr uint16_t kSegment = 1428;
};

// Covers: macvlan:T-01
TEST_F(MacvlanTransmitTest, BridgePeersAreReachedThroughTheLowerDevicesTaps) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  testing::FakeTap tap;
  lower.AddTap(tap);
  SinkOf(lower);
  EXPECT_EQ(Send(a, kMacB), TxResult::kSent);
  // One hop through the backlog: nothing has happened in the sender's call.
  EXPECT_EQ(Received(b), 0u);
  EXPECT_THAT(tap.seen, IsEmpty());
  Run();
  ASSERT_THAT(SinkOf(b).packets, SizeIs(1));
  EXPECT_EQ(BytesOf(*SinkOf(b).packets[0]), testing::EthernetFrame(kMacB, kMacA));
  EXPECT_EQ(SinkOf(b).packets[0]->meta.link_target, LinkTarget::kHost);
  EXPECT_EQ(SinkOf(b).packets[0]->meta.rx_device, b.ifindex());
  EXPECT_THAT(lower.sent, IsEmpty());
  EXPECT_EQ(Received(lower), 0u);
  ASSERT_THAT(tap.seen, SizeIs(1));
  EXPECT_EQ(tap.seen[0].direction, TapDirection::kReceive);
  EXPECT_EQ(a.stats().tx_packets.value(), 1u);
  EXPECT_EQ(a.stats().tx_bytes.value(), 114u);
  EXPECT_EQ(b.stats().rx_packets.value(), 1u);
  EXPECT_EQ(b.stats().rx_bytes.value(), 114u);
}

// Covers: macvlan:T-02
TEST_F(MacvlanTransmitTest, VepaSendsToTheSwitch) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kVepa, kMacB);
  Send(a, kMacB);
  Run();
  ASSERT_THAT(lower.sent, SizeIs(1));
  EXPECT_EQ(Received(b), 0u);
  Arrive(lower, std::move(lower.sent[0]));  // the switch reflects it
  EXPECT_EQ(Received(b), 1u);
}

// Covers: macvlan:T-03
TEST_F(MacvlanTransmitTest, BridgeToAnotherModeGoesToTheWire) {
  for (const MacvlanMode mode : {MacvlanMode::kVepa, MacvlanMode::kPrivate, MacvlanMode::kSource}) {
    FakeDevice& lower =
        AddLower({.name = "eth" + std::to_string(static_cast<int>(mode)), .queueless = true});
    Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
    Macvlan& b = CreateUp(lower, mode, kMacB);
    Send(a, kMacB);
    Send(b, kMacA);
    Run();
    EXPECT_THAT(lower.sent, SizeIs(2)) << MacvlanModeName(mode);
    EXPECT_EQ(Received(a) + Received(b), 0u);
  }
}

// Covers: macvlan:T-04
TEST_F(MacvlanTransmitTest, BroadcastReachesBridgePeersAndTheWireOnce) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  Macvlan& c = CreateUp(lower, MacvlanMode::kBridge, kMacC);
  testing::FakeTap tap;
  lower.AddTap(tap);
  Send(a, MacAddress::kBroadcast());
  Run();
  EXPECT_EQ(Received(a), 0u);
  EXPECT_EQ(Received(b), 1u);
  EXPECT_EQ(Received(c), 1u);
  EXPECT_THAT(lower.sent, SizeIs(1));
  // The copies do not pass the lower device.
  ASSERT_THAT(tap.seen, SizeIs(1));
  EXPECT_EQ(tap.seen[0].direction, TapDirection::kTransmit);
}

// Covers: macvlan:T-05
TEST_F(MacvlanTransmitTest, PeerThatIsDownIsLookedForOnTheWire) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  b.Down();
  Send(a, kMacB);
  Send(a, MacAddress::kBroadcast());
  Run();
  EXPECT_THAT(lower.sent, SizeIs(2));
  EXPECT_EQ(b.stats().rx_errors.value(), 0u);
}

// Covers: macvlan:T-06
TEST_F(MacvlanTransmitTest, LowerDevicesOwnStackIsNotReachedLocally) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  SinkOf(lower);
  Send(a, kLowerMac);
  Send(a, MacAddress::kBroadcast());
  Run();
  EXPECT_THAT(lower.sent, SizeIs(2));
  EXPECT_EQ(Received(lower), 0u);
}

// Addresses that share a bucket of the table, or all but one bit, are not mixed up.
TEST_F(MacvlanTransmitTest, WholeAddressIsCompared) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  std::vector<Macvlan*> peers;
  for (uint16_t i = 0; i < 600; ++i) {
    peers.push_back(
        &CreateUp(lower, MacvlanMode::kBridge,
                  MacAddress(2, 0, 0, 1, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)),
                  {.name = "mv" + std::to_string(i)}));
  }
  // Every third leaves the table again.
  for (size_t i = 0; i < peers.size(); i += 3) peers[i]->Down();
  for (const Macvlan* peer : peers) Send(a, peer->mac());
  Send(a, MacAddress(2, 0, 0, 1, 2, 0xff));
  Run();
  EXPECT_THAT(lower.sent, SizeIs(201));
  for (size_t i = 0; i < peers.size(); ++i) {
    EXPECT_EQ(Received(*peers[i]), i % 3 == 0 ? 0u : 1u) << i;
  }
}

// ---- Super-packets ----

// Covers: macvlan:T-07, macvlan:Y-01
TEST_F(MacvlanTransmitTest, SuperPacketReachesTheBridgePeerWhole) {
  for (const bool ipv6 : {false, true}) {
    SCOPED_TRACE(ipv6);
    FakeDevice& lower = AddLower({.name = ipv6 ? "eth6" : "eth4", .queueless = true});
    lower.RequestFeatures(kSoftFeatures, FeatureSet());
    Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
    Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
    PacketPtr packet = SuperPacket(kMacB, a, ipv6);
    const std::vector<uint8_t> bytes = BytesOf(*packet);
    EXPECT_EQ(TxPath::Transmit(std::move(packet), a), TxResult::kSent);
    Run();
    ASSERT_THAT(SinkOf(b).packets, SizeIs(1));
    const Packet& received = *SinkOf(b).packets[0];
    EXPECT_EQ(BytesOf(received), bytes);  // and so not summed
    EXPECT_EQ(received.meta.csum_state, CsumState::kPartial);
    EXPECT_EQ(received.meta.gso.size, kSegment);
    EXPECT_EQ(a.stats().tx_packets.value(), 1u);
    EXPECT_EQ(a.stats().tx_bytes.value(), bytes.size());
    EXPECT_EQ(b.stats().rx_packets.value(), 1u);
    EXPECT_EQ(a.stats().tx_gso_segmented.value(), 0u);
    EXPECT_THAT(lower.sent, IsEmpty());
  }
}

// Covers: macvlan:T-08, netdev:O-01
TEST_F(MacvlanTransmitTest, SuperPacketIsCutAndSummedAtTheLowerDevice) {
  for (const bool ipv6 : {false, true}) {
    SCOPED_TRACE(ipv6);
    FakeDevice& lower = AddLower({.name = ipv6 ? "eth6" : "eth4", .queueless = true});
    lower.RequestFeatures(kSoftFeatures, FeatureSet());
    Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
    testing::FakeTap tap;
    a.AddTap(tap);
    EXPECT_TRUE(TxOk(TxPath::Transmit(SuperPacket(kOutside, a, ipv6), a)));
    Run();
    ASSERT_THAT(tap.seen, SizeIs(1));
    EXPECT_EQ(tap.seen[0].meta.gso.size, kSegment);
    EXPECT_EQ(a.stats().tx_gso_segmented.value(), 0u);
    EXPECT_EQ(lower.stats().tx_gso_segmented.value(), 1u);
    ASSERT_THAT(lower.sent, SizeIs((kPayload + kSegment - 1) / kSegment));
    for (const PacketPtr& frame : lower.sent) {
      EXPECT_EQ(testing::FrameFault(BytesOf(*frame)), "");
      EXPECT_LE(frame->length(), 1514u);
      EXPECT_TRUE(frame->is_linear());
      EXPECT_EQ(frame->meta.csum_state, CsumState::kNone);
    }
  }
}

TEST_F(MacvlanTransmitTest, LowerDeviceThatCanCutGetsTheSuperPacket) {
  constexpr FeatureSet kAble = {Feature::kSg, Feature::kHwCsum, Feature::kTso};
  FakeDevice& lower = AddLower({.name = "eth0", .features = kAble, .queueless = true});
  Macvlan& a = CreateUp(lower, MacvlanMode::kPrivate, kMacA);
  TxPath::Transmit(SuperPacket(kOutside, a), a);
  ASSERT_THAT(lower.sent, SizeIs(1));
  EXPECT_EQ(lower.sent[0]->meta.csum_state, CsumState::kPartial);
}

// As before Linux 3.14: what the lower device cannot do is done at the macvlan, for local peers
// too.
TEST_F(MacvlanTransmitTest, WithoutAlwaysOnLocalTrafficIsCutToo) {
  FakeDevice& lower = AddPlainLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA, {.always_on = false});
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB, {.always_on = false});
  TxPath::Transmit(SuperPacket(kMacB, a), a);
  Run();
  EXPECT_THAT(SinkOf(b).packets, SizeIs((kPayload + kSegment - 1) / kSegment));
  EXPECT_EQ(a.stats().tx_gso_segmented.value(), 1u);
  for (const PacketPtr& frame : SinkOf(b).packets) {
    EXPECT_EQ(testing::FrameFault(BytesOf(*frame)), "");
  }
}

// Covers: netdev:L-01
TEST_F(MacvlanTransmitTest, ChecksumThatWasNeverMadeIsTrustedByThePeer) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  const FrameSpec spec{.payload = 500};
  PacketPtr packet = Make(testing::BuildFrame(spec));
  testing::MakePartial(*packet, spec);
  testing::SetMacs(*packet, kMacB, kMacA);
  packet->data()[300] ^= 0x40;
  TxPath::Transmit(std::move(packet), a);
  Run();
  ASSERT_THAT(SinkOf(b).packets, SizeIs(1));
  // RxChecksumOk() of the protocols takes this for verified.
  EXPECT_EQ(SinkOf(b).packets[0]->meta.csum_state, CsumState::kPartial);
}

// Covers: netdev:L-02
TEST_F(MacvlanTransmitTest, RoutedOnToPlainHardwareTheChecksumIsMade) {
  FakeDevice& lower = AddLower();
  FakeDevice& nic = AddLower({.name = "eth1", .queueless = true, .mac = kOutside});
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  for (const bool super : {false, true}) {
    SCOPED_TRACE(super);
    const FrameSpec spec{.payload = super ? 4000u : 500u};
    PacketPtr packet = Make(testing::BuildFrame(spec));
    testing::MakePartial(*packet, spec);
    if (super) packet->meta.gso = {.type = GsoType::kTcpv4, .size = 1448, .segs = 3};
    testing::SetMacs(*packet, kMacB, kMacA);
    packet->data()[300] ^= 0x40;
    TxPath::Transmit(std::move(packet), a);
    Run();
    ASSERT_THAT(SinkOf(b).packets, SizeIs(1));
    TxPath::Transmit(std::move(SinkOf(b).packets[0]), nic);
    EXPECT_THAT(nic.sent, SizeIs(super ? 3 : 1));
    for (const PacketPtr& frame : nic.sent) EXPECT_EQ(testing::FrameFault(BytesOf(*frame)), "");
    nic.sent.clear();
    ForgetReceived();
    SinkOf(b).packets.clear();
  }
}

// Frames of a memory capture, in order.
std::vector<std::vector<uint8_t>> CapturedFrames(const std::vector<uint8_t>& file) {
  // pcapng, an enhanced packet block: type 6, length, interface, time, captured length.
  const auto word = [&](size_t at) {
    return static_cast<uint32_t>(file[at]) | static_cast<uint32_t>(file[at + 1]) << 8 |
           static_cast<uint32_t>(file[at + 2]) << 16 | static_cast<uint32_t>(file[at + 3]) << 24;
  };
  std::vector<std::vector<uint8_t>> frames;
  for (size_t at = 0; at + 12 <= file.size(); at += word(at + 4)) {
    if (word(at) != 6) continue;
    const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at + 28);
    frames.emplace_back(begin, begin + word(at + 20));
  }
  return frames;
}

// Forwards to a buffer that outlives the writer.
class SharedSink final : public ByteSink {
 public:
  explicit SharedSink(std::vector<uint8_t>& bytes) : bytes_(bytes) {}
  absl::Status Write(std::span<const uint8_t> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  absl::Status Flush() override { return absl::OkStatus(); }

 private:
  std::vector<uint8_t>& bytes_;
};

// Covers: bug:B97, netdev:L-03: DHCP over macvlans died of the partial sum
TEST_F(MacvlanTransmitTest, RawReadersOfBothMacvlansSeeFinishedChecksums) {
  FakeDevice& lower = AddPlainLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  std::vector<uint8_t> file;
  PcapngWriter writer(std::make_unique<SharedSink>(file), {});
  CaptureTap capture(writer, {});
  capture.Attach(a);
  capture.Attach(b);
  capture.Attach(lower);
  for (const bool ipv6 : {false, true}) {
    for (const MacAddress& to : {kMacB, MacAddress::kBroadcast(), kOutside}) {
      const FrameSpec spec{.ipv6 = ipv6, .udp = true, .payload = 301};
      PacketPtr packet = Make(testing::BuildFrame(spec));
      testing::MakePartial(*packet, spec);
      testing::SetMacs(*packet, to, kMacA);
      TxPath::Transmit(std::move(packet), a);
      Run();
    }
  }
  ASSERT_TRUE(writer.Flush().ok());
  const auto frames = CapturedFrames(file);
  // To b: a, the lower device, b. Broadcast: a, b, the lower device. Outside: a, the lower device.
  EXPECT_THAT(frames, SizeIs(2 * (3 + 3 + 2)));
  for (const auto& frame : frames) EXPECT_EQ(testing::FrameFault(frame), "");
  // A reader below without offloads, as a TAP, is written whole frames.
  ASSERT_THAT(lower.sent, SizeIs(4));
  for (const PacketPtr& frame : lower.sent) EXPECT_EQ(testing::FrameFault(BytesOf(*frame)), "");
  // The packets themselves went on as they were.
  for (const PacketPtr& packet : SinkOf(b).packets) {
    EXPECT_EQ(packet->meta.csum_state, CsumState::kPartial);
  }
}

// ---- Losses ----

// Covers: macvlan:T-09
TEST_F(MacvlanTransmitTest, LowerDeviceThatIsDownLosesWhatWasSent) {
  NetDevice& dummy = **CreateDummy(context, {});
  ASSERT_TRUE(dummy.Up().ok());
  Macvlan& a = CreateUp(dummy, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(dummy, MacvlanMode::kBridge, kMacB);
  dummy.Down();
  EXPECT_TRUE(a.has_carrier());
  EXPECT_EQ(Send(a, kMacB), TxResult::kSent);
  Run();
  EXPECT_EQ(Received(b), 0u);
  EXPECT_EQ(dummy.stats().rx_dropped.value(), 1u);
  EXPECT_EQ(a.stats().tx_packets.value(), 1u);
  EXPECT_EQ(a.stats().tx_dropped.value(), 0u);
  // To the wire: the lower device's dead queue says "congested".
  EXPECT_TRUE(TxOk(Send(a, kOutside)));
  EXPECT_EQ(a.stats().tx_packets.value(), 2u);
  EXPECT_EQ(dummy.stats().tx_dropped.value(), 1u);
}

// Covers: macvlan:T-09
TEST_F(MacvlanTransmitTest, WithoutTheLowerDevicesCarrierNothingIsSent) {
  const auto pair = *CreateVethPair(context, {});
  ASSERT_TRUE(pair.first->Up().ok());
  ASSERT_TRUE(pair.second->Up().ok());
  Macvlan& a = CreateUp(*pair.first, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(*pair.first, MacvlanMode::kBridge, kMacB);
  ASSERT_TRUE(a.is_running());
  pair.first->Down();
  EXPECT_FALSE(a.has_carrier());
  Send(a, kMacB);
  Run();
  EXPECT_EQ(Received(b), 0u);
  EXPECT_EQ(pair.first->stats().rx_dropped.value(), 0u);
  EXPECT_EQ(a.stats().tx_packets.value(), 0u);
  EXPECT_EQ(a.stats().tx_dropped.value(), 1u);
}

// Covers: macvlan:T-10
TEST_F(MacvlanTransmitTest, RefusalBelowIsADropAndCongestionIsNot) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kVepa, kMacA);
  lower.answer = TxResult::kDropped;
  EXPECT_EQ(Send(a, kOutside), TxResult::kDropped);
  EXPECT_EQ(a.stats().tx_dropped.value(), 1u);
  EXPECT_EQ(a.stats().tx_packets.value(), 0u);
  lower.answer = TxResult::kCongested;
  EXPECT_TRUE(TxOk(Send(a, kOutside)));
  EXPECT_EQ(a.stats().tx_dropped.value(), 1u);
  EXPECT_EQ(a.stats().tx_packets.value(), 1u);
  EXPECT_EQ(a.stats().tx_bytes.value(), 114u);
}

// A local frame has to fit the lower device too, and a local copy the peer.
TEST_F(MacvlanTransmitTest, FrameTooLongForTheWayIsDropped) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  Macvlan& b = CreateUp(lower, MacvlanMode::kBridge, kMacB);
  ASSERT_TRUE(b.SetMtu(1000).ok());
  Send(a, kMacB, 1514);
  Run();
  EXPECT_EQ(Received(b), 1u);  // as in Linux: nobody asks for b's MTU on this way
  Send(a, MacAddress::kBroadcast(), 1514);
  Send(a, MacAddress::kBroadcast(), 1019);
  Send(a, MacAddress::kBroadcast(), 1018);  // MTU, link header and a tag
  Run();
  EXPECT_EQ(Received(b), 2u);
  EXPECT_EQ(b.stats().rx_errors.value(), 2u);
  EXPECT_EQ(b.stats().rx_dropped.value(), 4u);
  EXPECT_EQ(lower.sent.size(), 3u);
}

TEST_F(MacvlanTransmitTest, SenderMayRemoveEverythingWhileItSends) {
  FakeDevice& lower = AddLower();
  Macvlan& a = CreateUp(lower, MacvlanMode::kBridge, kMacA);
  CreateUp(lower, MacvlanMode::kBridge, kMacB);
  lower.on_xmit = [&] { context.registry().Unregister(lower); };
  Send(a, MacAddress::kBroadcast());
  Run();
  EXPECT_THAT(context.registry().devices(), IsEmpty());
}

}  // namespace
}  // namespace tapwire::netdev
