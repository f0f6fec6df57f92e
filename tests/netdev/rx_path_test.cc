// SPDX-License-Identifier: Apache-2.0
#include "netdev/rx_path.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"
#include "tests/netdev/rx_fixture.h"

namespace tapwire::netdev {
namespace {

using testing::BytesOf;
using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FakeHandler;
using testing::FakeSink;

constexpr uint16_t kIpv4 = 0x0800, kIpv6 = 0x86dd;

class RxPathTest : public testing::RxFixture {};

TEST_F(RxPathTest, FrameGoesToTheProtocolOfItsType) {
  FakeDevice& device = AddUpDevice();
  FakeSink v4(kIpv4), v6(kIpv6);
  device.AddPacketType(v4);
  device.AddPacketType(v6);
  environment.clock.Advance(std::chrono::seconds(5));
  Receive(device, Frame());
  Receive(device, Frame({.ipv6 = true}));
  ASSERT_EQ(v4.packets.size(), 1u);
  ASSERT_EQ(v6.packets.size(), 1u);
  const Packet& packet = *v4.packets[0];
  EXPECT_EQ(BytesOf(packet), testing::BuildFrame({}));
  EXPECT_EQ(packet.l2_in_data(), 0);
  EXPECT_EQ(packet.meta.ether_type, kIpv4);
  EXPECT_EQ(packet.meta.rx_device, device.ifindex());
  EXPECT_EQ(device.stats().rx_packets.value(), 2u);
  EXPECT_EQ(device.stats().rx_bytes.value(), v4.packets[0]->length() + v6.packets[0]->length());
}

TEST_F(RxPathTest, CatchAllGetsOnlyTheRest) {
  FakeDevice& device = AddUpDevice();
  FakeSink all, v4(kIpv4);
  device.AddPacketType(all);
  device.AddPacketType(v4);
  Receive(device, Frame());
  Receive(device, Frame({.ipv6 = true}));
  EXPECT_EQ(v4.packets.size(), 1u);
  ASSERT_EQ(all.packets.size(), 1u);
  EXPECT_EQ(all.packets[0]->meta.ether_type, kIpv6);
}

TEST_F(RxPathTest, FrameWithoutTakerIsDropped) {
  FakeDevice& device = AddUpDevice();
  Receive(device, Frame());
  EXPECT_EQ(device.drops().value(DropReason::kLinkNoSink), 1u);
  FakeSink v6(kIpv6);
  device.AddPacketType(v6);
  Receive(device, Frame());
  EXPECT_EQ(device.drops().value(DropReason::kLinkUnknownEtherType), 1u);
  EXPECT_EQ(device.drops().total(), 2u);
  EXPECT_EQ(device.stats().rx_dropped.value(), 2u);
  EXPECT_EQ(device.stats().rx_packets.value(), 2u);
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

TEST_F(RxPathTest, DestinationAddressIsClassified) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  const auto receive = [&](const MacAddress& destination) -> const PacketMeta& {
    PacketPtr packet = Frame();
    packet->meta.link_broadcast = packet->meta.link_multicast = true;  // stale
    destination.CopyTo(packet->data());
    Receive(device, std::move(packet));
    return sink.packets.back()->meta;
  };
  EXPECT_TRUE(receive(MacAddress::kBroadcast()).link_broadcast);
  EXPECT_FALSE(sink.packets.back()->meta.link_multicast);
  EXPECT_TRUE(receive(MacAddress(0x33, 0x33, 0, 0, 0, 1)).link_multicast);
  EXPECT_FALSE(sink.packets.back()->meta.link_broadcast);
  EXPECT_FALSE(receive(device.mac()).link_multicast);
  EXPECT_FALSE(sink.packets.back()->meta.link_broadcast);
  EXPECT_EQ(device.stats().rx_multicast.value(), 1u);
}

TEST_F(RxPathTest, RuntIsAnError) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  for (const size_t size : {0u, 1u, 13u}) {
    PacketPtr packet = Frame();
    packet->Trim(size);
    Receive(device, std::move(packet));
  }
  EXPECT_EQ(device.drops().value(DropReason::kLinkRunt), 3u);
  EXPECT_EQ(device.stats().rx_errors.value(), 3u);
  EXPECT_EQ(device.stats().rx_packets.value(), 0u);
  PacketPtr just = Frame();
  just->Trim(14);
  Receive(device, std::move(just));
  EXPECT_EQ(sink.packets.size(), 1u);
}

TEST_F(RxPathTest, ImpossibleMetadataIsAnError) {  // Covers: bug:B89
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  const auto receive = [&](auto spoil) {
    PacketPtr packet = PartialFrame({.payload = 900});
    spoil(*packet);
    Receive(device, std::move(packet));
  };
  receive([](Packet& p) { p.meta.gso = {.type = GsoType::kTcpv4, .size = 0}; });
  receive([](Packet& p) { p.meta.gso = {.type = GsoType::kNone, .size = 1}; });
  receive([](Packet& p) { p.meta.csum_offset = 5000; });
  receive([](Packet& p) { p.set_csum_start_in_data(3); });
  EXPECT_EQ(device.drops().value(DropReason::kRxBadMetadata), 4u);
  EXPECT_EQ(device.stats().rx_errors.value(), 4u);
  EXPECT_TRUE(sink.packets.empty());
}

TEST_F(RxPathTest, OneSegmentIsNoSuperPacket) {  // Covers: bug:B89
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  Receive(device, GsoPacket({.payload = 900}, 900));
  Receive(device, GsoPacket({.payload = 900}, 899));
  Receive(device, GsoPacket({.udp = true, .payload = 900}, 300));
  ASSERT_EQ(sink.packets.size(), 3u);
  EXPECT_EQ(sink.packets[0]->meta.gso, GsoInfo());
  EXPECT_EQ(sink.packets[0]->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(sink.packets[1]->meta.gso.size, 899);
  EXPECT_EQ(sink.packets[2]->meta.gso.type, GsoType::kUdpL4) << "kept for the protocol";
}

TEST_F(RxPathTest, ScatteredLinkHeaderIsMadeLinear) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink(kIpv4);
  device.AddPacketType(sink);
  Receive(device, Frame({}, {.head = 5, .piece = 20}));
  ASSERT_EQ(sink.packets.size(), 1u);
  EXPECT_GE(sink.packets[0]->head_length(), 14u);
}

TEST_F(RxPathTest, DownDeviceReceivesNothing) {
  FakeDevice& device = AddDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  context.EnqueueBacklog(Frame(), device);
  context.RunOnce();
  EXPECT_EQ(device.drops().value(DropReason::kLinkDeviceDown), 1u);
  EXPECT_TRUE(sink.packets.empty());
}

TEST_F(RxPathTest, PacketsOfARemovedDeviceAreDropped) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  context.EnqueueBacklog(Frame(), device);
  context.registry().Unregister(device);
  AddUpDevice({.name = "next"}).AddPacketType(sink);
  context.RunOnce();
  EXPECT_TRUE(sink.packets.empty());
  EXPECT_EQ(context.stats().rx_no_device.value(), 1u);
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

TEST_F(RxPathTest, TapsSeeFramesBeforeHandlersAndProtocols) {
  FakeDevice& device = AddUpDevice();
  FakeHandler handler;
  testing::FakeTap tap;
  device.AddTap(tap);
  handler.handle = [&](PacketPtr& packet, NetDevice&) {
    EXPECT_EQ(tap.seen.size(), 1u);
    packet.reset();
    return RxHandlerResult::kConsumed;
  };
  ASSERT_TRUE(device.SetRxHandler(&handler).ok());
  Receive(device, PartialFrame());
  ASSERT_EQ(tap.seen.size(), 1u);
  EXPECT_EQ(tap.seen[0].direction, TapDirection::kReceive);
  EXPECT_EQ(tap.seen[0].meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(handler.calls, 1);
  EXPECT_EQ(device.drops().total(), 0u) << "the handler's business";
}

TEST_F(RxPathTest, HandlerMayPassOnToAnotherDevice) {
  FakeDevice& lower = AddUpDevice({.name = "lower"});
  FakeDevice& upper = AddUpDevice({.name = "upper"});
  FakeSink lower_sink, upper_sink;
  lower.AddPacketType(lower_sink);
  upper.AddPacketType(upper_sink);
  FakeHandler handler;
  bool steal = false;
  handler.handle = [&](PacketPtr& packet, NetDevice&) {
    if (!steal) return RxHandlerResult::kPass;
    packet->meta.rx_device = upper.ifindex();
    return RxHandlerResult::kAnother;
  };
  ASSERT_TRUE(lower.SetRxHandler(&handler).ok());
  Receive(lower, Frame());
  steal = true;
  Receive(lower, Frame());
  EXPECT_THAT(lower_sink.devices, ElementsAre("lower"));
  EXPECT_THAT(upper_sink.devices, ElementsAre("upper"));
  EXPECT_EQ(lower.stats().rx_packets.value(), 2u);
  EXPECT_EQ(upper.stats().rx_packets.value(), 1u);
  upper.Down();
  Receive(lower, Frame());
  EXPECT_EQ(upper.drops().value(DropReason::kLinkDeviceDown), 1u);
}

TEST_F(RxPathTest, CircleOfHandlersIsCutAfterEightRounds) {
  FakeDevice& a = AddUpDevice({.name = "a"});
  FakeDevice& b = AddUpDevice({.name = "b"});
  FakeHandler handler;
  handler.handle = [&](PacketPtr& packet, NetDevice& device) {
    packet->meta.rx_device = (&device == &a ? b : a).ifindex();
    return RxHandlerResult::kAnother;
  };
  ASSERT_TRUE(a.SetRxHandler(&handler).ok());
  ASSERT_TRUE(b.SetRxHandler(&handler).ok());
  Receive(a, Frame());
  EXPECT_EQ(handler.calls, 8);
  EXPECT_EQ(a.drops().value(DropReason::kLinkHandlerLoop), 1u);
  EXPECT_EQ(a.drops().total() + b.drops().total(), 1u);
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

TEST_F(RxPathTest, HandlerMayNameADeviceThatIsGone) {
  FakeDevice& device = AddUpDevice();
  FakeHandler handler;
  handler.handle = [&](PacketPtr& packet, NetDevice&) {
    packet->meta.rx_device = 4711;
    return RxHandlerResult::kAnother;
  };
  ASSERT_TRUE(device.SetRxHandler(&handler).ok());
  Receive(device, Frame());
  EXPECT_EQ(context.stats().rx_no_device.value(), 1u);
}

TEST_F(RxPathTest, ReceiverMayTransmit) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  sink.on_receive = [&](const Packet& packet, NetDevice& d) {
    EXPECT_EQ(TxPath::Transmit(packet.CopyDeep(), d), TxResult::kQueued);
    EXPECT_TRUE(device.sent.empty());
  };
  Receive(device, Frame());
  ASSERT_EQ(device.sent.size(), 1u) << "in the same batch";
  EXPECT_EQ(BytesOf(*device.sent[0]), testing::BuildFrame({}));
}

TEST_F(RxPathTest, ReceiverMayUnregisterItsDevice) {
  FakeDevice& device = AddUpDevice();
  bool destroyed = false;
  device.on_destroy = [&] { destroyed = true; };
  FakeSink sink;
  device.AddPacketType(sink);
  sink.on_receive = [&](const Packet&, NetDevice& d) {
    d.DropRx(nullptr, DropReason::kSocketFilter);
    context.registry().Unregister(d);
    EXPECT_FALSE(destroyed);
  };
  for (int i = 0; i < 3; ++i) device.rx().Add(Frame());
  static_cast<void>(TxPath::Transmit(Frame(), device));
  EXPECT_FALSE(context.RunOnce());
  EXPECT_EQ(sink.packets.size(), 1u);
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(context.stats().rx_no_device.value(), 2u);
}

TEST_F(RxPathTest, ReceiverMayDestroyTheReceiveQueue) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  sink.on_receive = [&](const Packet&, NetDevice&) { device.DropRxQueue(); };
  // A full budget, so that the queue is scheduled again before it is destroyed.
  for (int i = 0; i < 64; ++i) device.rx().Add(Frame());
  EXPECT_FALSE(context.RunOnce());
  EXPECT_EQ(sink.packets.size(), 64u);
}

TEST_F(RxPathTest, ReceiverMayRegisterADevice) {
  FakeDevice& device = AddUpDevice();
  FakeSink sink;
  device.AddPacketType(sink);
  sink.on_receive = [&](const Packet&, NetDevice&) {
    for (int i = 0; i < 50; ++i) AddUpDevice({.name = context.registry().FreeName("new")});
  };
  Receive(device, Frame());
  EXPECT_EQ(context.registry().devices().size(), 51u);
}

}  // namespace
}  // namespace tapwire::netdev
