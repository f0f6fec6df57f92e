// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/rx_path.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"
#include "tests/netdev/rx_fixture.h"

namespace tapwire::netdev {
namespace {

using testing::BoundProtocol;
using testing::BytesOf;
using ::testing::ElementsAre;
using testing::FakeDevice;
using testing::FakeHandler;
using testing::FakeSink;
using testing::FrameSpec;
using testing::SharedTap;

constexpr uint16_t kIpv4 = 0x0800, kIpv6 = 0x86dd;

// A lower device with one upper, as a macvlan is: its handler hands over the frames to one MAC.
class UpperDeviceTest : public testing::RxFixture {
 protected:
  static constexpr MacAddress kUpperMac{2, 0, 0, 0, 0, 7};

  UpperDeviceTest() {
    lower.AddPacketType(lower_sink);
    upper.AddPacketType(upper_sink);
    lower.AddTap(lower_tap);
    upper.AddTap(upper_tap);
    handler.handle = [this](PacketPtr& packet, NetDevice&) {
      const auto frame = packet->head_bytes();
      if (upper_gone || MacAddress::FromBytes(frame.first(6)) != kUpperMac) {
        return RxHandlerResult::kPass;
      }
      backlog_seen = context.has_pending_work();
      packet->meta.rx_device = upper.ifindex();
      packet->meta.link_target = LinkTarget::kHost;
      return RxHandlerResult::kAnother;
    };
    EXPECT_TRUE(lower.SetRxHandler(&handler).ok());
  }
  ~UpperDeviceTest() override { lower.ClearRxHandler(); }

  PacketPtr ToUpper(const FrameSpec& spec = {}) {
    PacketPtr packet = Frame(spec);
    kUpperMac.CopyTo(packet->data());
    return packet;
  }
  // A device that takes the frames of one VLAN id from another.
  FakeDevice& AddVlan(FakeDevice& below, uint16_t id, uint16_t protocol = 0x8100) {
    FakeDevice& vlan = AddUpDevice({.name = below.name() + "." + std::to_string(id)});
    EXPECT_TRUE(below.LinkUpper(vlan).ok());
    below.AddVlanUpper(protocol, id, vlan);
    return vlan;
  }
  // In this very call, without a batch.
  void ReceiveNow(PacketPtr packet) {
    packet->meta.rx_device = lower.ifindex();
    RxPath::Receive(context, std::move(packet));
  }

  FakeDevice& lower = AddUpDevice({.name = "lower"});
  FakeDevice& upper = AddUpDevice({.name = "upper", .mac = kUpperMac});
  FakeSink lower_sink{kIpv4}, upper_sink{kIpv4};
  std::vector<std::string> seen;
  SharedTap lower_tap{seen}, upper_tap{seen};
  FakeHandler handler;
  bool upper_gone = false;
  bool backlog_seen = false;
};

// Covers: macvlan:H-01
TEST_F(UpperDeviceTest, FrameReachesTheUpperDeviceInTheSameCall) {
  ReceiveNow(ToUpper());
  ASSERT_EQ(upper_sink.packets.size(), 1u);
  EXPECT_FALSE(backlog_seen);
  EXPECT_FALSE(context.has_pending_work());
  EXPECT_EQ(upper_sink.packets[0]->meta.rx_device, upper.ifindex());
  EXPECT_EQ(upper_sink.packets[0]->meta.link_target, LinkTarget::kHost);
  EXPECT_TRUE(lower_sink.packets.empty());
  EXPECT_EQ(context.stats().rx_processed.value(), 2u) << "one round for each device";
}

// Covers: macvlan:H-02
TEST_F(UpperDeviceTest, CaptureOnAllDevicesSeesTheFrameTwice) {
  ReceiveNow(ToUpper());
  EXPECT_THAT(seen, ElementsAre("lower", "upper"));
}

// Covers: macvlan:H-03
TEST_F(UpperDeviceTest, BoundProtocolOfTheLowerDeviceGetsTheFrameToo) {
  BoundProtocol bound(kIpv4), other(kIpv6);
  lower.AddPacketType(bound);
  lower.AddPacketType(other);
  ReceiveNow(ToUpper());
  ASSERT_EQ(bound.packets.size(), 1u);
  ASSERT_EQ(upper_sink.packets.size(), 1u);
  EXPECT_THAT(bound.devices, ElementsAre("lower"));
  EXPECT_EQ(BytesOf(*bound.packets[0]), BytesOf(*upper_sink.packets[0]));
  // Each has a head of its own.
  bound.packets[0]->data()[20] ^= 0xff;
  EXPECT_NE(BytesOf(*bound.packets[0]), BytesOf(*upper_sink.packets[0]));
  EXPECT_TRUE(other.packets.empty());
  // On the lower device itself both kinds take what stays there, once each.
  ReceiveNow(Frame());
  EXPECT_EQ(bound.packets.size(), 2u);
  EXPECT_EQ(lower_sink.packets.size(), 1u);
}

// Covers: macvlan:H-04
TEST_F(UpperDeviceTest, OtherFramesStayOnTheLowerDevice) {
  ReceiveNow(Frame());
  EXPECT_EQ(lower_sink.packets.size(), 1u);
  EXPECT_EQ(lower_sink.packets[0]->meta.link_target, LinkTarget::kByAddress);
  EXPECT_TRUE(upper_sink.packets.empty());
}

// Covers: macvlan:H-05
TEST_F(UpperDeviceTest, RemovedUpperDeviceLeavesItsFramesToTheLowerOne) {
  for (int i = 0; i < 3; ++i) lower.rx().Add(ToUpper());
  upper_sink.on_receive = [&](const Packet&, NetDevice& device) {
    upper_gone = true;
    context.registry().Unregister(device);
  };
  context.RunOnce();
  EXPECT_EQ(upper_sink.packets.size(), 1u);
  EXPECT_EQ(lower_sink.packets.size(), 2u);
}

// Covers: macvlan:H-06
TEST_F(UpperDeviceTest, VlanDeviceOfTheLowerDeviceComesBeforeTheHandler) {
  FakeDevice& vlan = AddVlan(lower, 100);
  FakeSink vlan_sink(kIpv4);
  vlan.AddPacketType(vlan_sink);
  ReceiveNow(ToUpper({.tags = 1}));  // id 100
  ASSERT_EQ(vlan_sink.packets.size(), 1u);
  EXPECT_EQ(handler.calls, 0);
  const Packet& packet = *vlan_sink.packets[0];
  EXPECT_EQ(BytesOf(packet), BytesOf(*ToUpper())) << "without its tag";
  EXPECT_FALSE(packet.meta.vlan_present);
  EXPECT_EQ(packet.l2_in_data(), 0);
  EXPECT_EQ(packet.meta.ether_type, kIpv4);
  EXPECT_EQ(packet.meta.rx_device, vlan.ifindex());
  EXPECT_THAT(seen, ElementsAre("lower tag 100"));

  PacketPtr six = ToUpper({.tags = 1});
  six->data()[15] = 6;
  ReceiveNow(std::move(six));
  EXPECT_EQ(handler.calls, 1);
  ASSERT_EQ(upper_sink.packets.size(), 1u) << "the protocol drops it, as it does another host's";
  EXPECT_EQ(upper_sink.packets[0]->meta.link_target, LinkTarget::kOtherHost);
  EXPECT_TRUE(upper_sink.packets[0]->meta.vlan_present);
  EXPECT_EQ(upper_sink.packets[0]->meta.vlan_tci, 6);
  EXPECT_EQ(upper_sink.packets[0]->meta.vlan_proto, 0x8100);

  FakeSink six_sink(kIpv4);
  AddVlan(upper, 6).AddPacketType(six_sink);
  PacketPtr again = ToUpper({.tags = 1});
  again->data()[15] = 6;
  ReceiveNow(std::move(again));
  ASSERT_EQ(six_sink.packets.size(), 1u) << "now the upper device has one";
  EXPECT_NE(six_sink.packets[0]->meta.link_target, LinkTarget::kOtherHost);
}

// Covers: macvlan:H-07
TEST_F(UpperDeviceTest, HandlerMayReplaceASharedPacketByItsOwnCopy) {
  PacketPtr held;  // another holder of the payload
  handler.handle = [&](PacketPtr& packet, NetDevice&) {
    held = packet->Clone();
    packet = packet->CopyDeep();
    packet->meta.rx_device = upper.ifindex();
    return RxHandlerResult::kAnother;
  };
  upper_sink.on_receive = [](const Packet& packet, NetDevice&) {
    const_cast<Packet&>(packet).data()[50] ^= 0xff;
  };
  PacketPtr shared = Frame({.payload = 3000}, {.head = 54, .piece = 1000});
  const auto bytes = BytesOf(*shared);
  ReceiveNow(std::move(shared));
  ASSERT_EQ(upper_sink.packets.size(), 1u);
  EXPECT_NE(BytesOf(*upper_sink.packets[0]), bytes);
  EXPECT_EQ(BytesOf(*held), bytes);
  for (size_t i = 0; i < upper_sink.packets[0]->frag_count(); ++i) {
    EXPECT_NE(upper_sink.packets[0]->frag_ref(i).slab, held->frag_ref(0).slab);
  }
  held.reset();
}

// Covers: macvlan:H-08
TEST_F(UpperDeviceTest, ExactLeavesTheFrameToBoundProtocolsOnly) {
  handler.handle = [](PacketPtr&, NetDevice&) { return RxHandlerResult::kExact; };
  FakeSink all;
  lower.AddPacketType(all);
  ReceiveNow(Frame());
  EXPECT_EQ(lower.stats().rx_nohandler.value(), 1u);
  EXPECT_EQ(lower.stats().rx_dropped.value(), 0u);
  EXPECT_EQ(lower.drops().total(), 1u);
  BoundProtocol bound(kIpv4);
  lower.AddPacketType(bound);
  ReceiveNow(Frame());
  EXPECT_EQ(bound.packets.size(), 1u);
  EXPECT_EQ(lower.stats().rx_nohandler.value(), 1u);
  EXPECT_TRUE(lower_sink.packets.empty());
  EXPECT_TRUE(all.packets.empty());
}

TEST_F(UpperDeviceTest, ProtocolMayRemoveTheNextOne) {
  BoundProtocol first(kIpv4);
  auto second = std::make_unique<BoundProtocol>(kIpv4);
  lower.AddPacketType(first);
  lower.AddPacketType(*second);
  first.on_receive = [&] { second.reset(); };
  ReceiveNow(ToUpper());
  EXPECT_EQ(first.packets.size(), 1u);
  // The entries behind it have moved up by one.
  EXPECT_LE(upper_sink.packets.size(), 1u);
  ReceiveNow(ToUpper());
  EXPECT_EQ(first.packets.size(), 2u);
  EXPECT_GE(upper_sink.packets.size(), 1u);
  first.packets.clear();
  upper_sink.packets.clear();
  EXPECT_EQ(context.pool().stats().packets_in_use, 0u);
}

TEST_F(UpperDeviceTest, HandlerThatForgetsToSayItTookThePacketIsHarmless) {
  for (const RxHandlerResult result : {RxHandlerResult::kPass, RxHandlerResult::kAnother,
                                       RxHandlerResult::kExact, RxHandlerResult::kConsumed}) {
    handler.handle = [&](PacketPtr& packet, NetDevice&) {
      packet.reset();
      return result;
    };
    ReceiveNow(Frame());
  }
  EXPECT_TRUE(lower_sink.packets.empty());
}

TEST_F(UpperDeviceTest, TagOutsideTheDataLeadsToItsVlanDevice) {
  FakeDevice& vlan = AddVlan(lower, 5, 0x88a8);
  FakeSink sink(kIpv4);
  vlan.AddPacketType(sink);
  const auto receive = [&](uint16_t protocol, uint16_t tci) {
    PacketPtr packet = Frame();
    packet->meta.vlan_present = true;
    packet->meta.vlan_proto = protocol;
    packet->meta.vlan_tci = tci;
    ReceiveNow(std::move(packet));
  };
  receive(0x88a8, 0xa005);  // with a priority
  EXPECT_EQ(sink.packets.size(), 1u);
  receive(0x8100, 5);
  EXPECT_EQ(sink.packets.size(), 1u) << "another protocol";
  vlan.Down();
  receive(0x88a8, 5);
  EXPECT_EQ(vlan.drops().value(DropReason::kLinkDeviceDown), 1u);
}

TEST_F(UpperDeviceTest, PriorityTagIsDropped) {
  PacketPtr packet = Frame({.tags = 1});
  packet->data()[14] = 0xe0;
  packet->data()[15] = 0;
  ReceiveNow(std::move(packet));
  ASSERT_EQ(lower_sink.packets.size(), 1u);
  EXPECT_EQ(BytesOf(*lower_sink.packets[0]), testing::BuildFrame({}));
  EXPECT_FALSE(lower_sink.packets[0]->meta.vlan_present);
  EXPECT_EQ(lower_sink.packets[0]->meta.link_target, LinkTarget::kByAddress);
  // One behind it may name a VLAN.
  FakeDevice& vlan = AddVlan(lower, 101);
  FakeSink sink(kIpv6);
  vlan.AddPacketType(sink);
  PacketPtr two = Frame({.ipv6 = true, .tags = 2});  // 100, 101
  two->data()[14] = two->data()[15] = 0;
  ReceiveNow(std::move(two));
  ASSERT_EQ(sink.packets.size(), 1u);
  EXPECT_EQ(BytesOf(*sink.packets[0]), testing::BuildFrame({.ipv6 = true}));
}

TEST_F(UpperDeviceTest, StackedTagsLeadThroughStackedDevices) {
  FakeDevice& outer = AddVlan(lower, 100);
  FakeDevice& inner = AddVlan(outer, 101);
  FakeSink sink(kIpv4);
  inner.AddPacketType(sink);
  ReceiveNow(Frame({.tags = 2}));
  EXPECT_EQ(sink.packets.size(), 1u);
  EXPECT_EQ(context.stats().rx_processed.value(), 3u);
}

TEST_F(UpperDeviceTest, FrameThatEndsInItsTagKeepsIt) {
  FakeSink all;
  lower.AddPacketType(all);
  for (const size_t length : {14u, 16u, 17u}) {
    PacketPtr packet = Frame({.tags = 1});
    packet->Trim(length);
    ReceiveNow(std::move(packet));
    ASSERT_FALSE(all.packets.empty());
    EXPECT_EQ(all.packets.back()->meta.ether_type, 0x8100);
    EXPECT_FALSE(all.packets.back()->meta.vlan_present);
    EXPECT_EQ(all.packets.back()->length(), length);
  }
}

TEST_F(UpperDeviceTest, ScatteredTagIsMovedToo) {
  FakeDevice& vlan = AddVlan(lower, 100);
  FakeSink sink(kIpv4);
  vlan.AddPacketType(sink);
  ReceiveNow(Frame({.tags = 1}, {.head = 14, .piece = 3}));
  ASSERT_EQ(sink.packets.size(), 1u);
  EXPECT_EQ(BytesOf(*sink.packets[0]), testing::BuildFrame({}));
}

// Covers: netdev:C-03
TEST_F(UpperDeviceTest, CompleteSumLosesTheTag) {
  FakeDevice& vlan = AddVlan(lower, 100);
  FakeSink sink(kIpv4);
  vlan.AddPacketType(sink);
  PacketPtr packet = Frame({.tags = 1});
  packet->meta.csum_state = CsumState::kComplete;
  packet->meta.csum_value =
      static_cast<uint16_t>(testing::NaiveSum(packet->head_bytes().subspan(14)));
  ReceiveNow(std::move(packet));
  ASSERT_EQ(sink.packets.size(), 1u);
  EXPECT_EQ(sink.packets[0]->meta.csum_value,
            testing::NaiveSum(sink.packets[0]->head_bytes().subspan(14)));
}

TEST_F(UpperDeviceTest, TapCountsAsAReceiverWhereNobodyElseIs) {
  lower.ClearRxHandler();
  ReceiveNow(Frame({.ipv6 = true}));
  EXPECT_EQ(lower.stats().rx_dropped.value(), 0u) << "the tap has it";
  EXPECT_EQ(lower.drops().value(DropReason::kLinkUnknownEtherType), 1u);
  ASSERT_TRUE(lower.SetRxHandler(&handler).ok());
  ReceiveNow(Frame({.ipv6 = true}));
  EXPECT_EQ(lower.stats().rx_dropped.value(), 1u);
}

TEST_F(UpperDeviceTest, SeveralProtocolsOfOneTypeAllGetTheFrame) {
  FakeSink second(kIpv4), all;
  lower.AddPacketType(all);
  lower.AddPacketType(second);
  ReceiveNow(Frame());
  EXPECT_EQ(lower_sink.packets.size(), 1u);
  EXPECT_EQ(second.packets.size(), 1u);
  EXPECT_TRUE(all.packets.empty());
}

}  // namespace
}  // namespace tapwire::netdev
