// SPDX-License-Identifier: Apache-2.0
// Macvlans on a scripted lower device: frames to and from each, and what each of them received.
#pragma once

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netdev/base/status_util.h"
#include "netdev/macvlan.h"
#include "netdev/rx_path.h"
#include "netdev/tx_path.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire::netdev::testing {

inline constexpr MacAddress kLowerMac(2, 0, 0, 0, 0, 1);
inline constexpr MacAddress kMacA(2, 0, 0, 0, 0, 0xa), kMacB(2, 0, 0, 0, 0, 0xb);
inline constexpr MacAddress kMacC(2, 0, 0, 0, 0, 0xc), kMacD(2, 0, 0, 0, 0, 0xd);
inline constexpr MacAddress kOutside(2, 0, 0, 0, 0, 0x99), kStranger(2, 0, 0, 0, 0, 0x98);
inline constexpr MacAddress kGroup4(1, 0, 0x5e, 0, 0, 0xfb);     // RFC 1112 §6.4: 224.0.0.251
inline constexpr MacAddress kGroup6(0x33, 0x33, 0, 0, 0, 0xfb);  // RFC 2464 §7: ff02::fb
inline constexpr uint16_t kTestEtherType = 0x88b5;               // IEEE 802: local experiments

inline std::vector<uint8_t> EthernetFrame(const MacAddress& destination, const MacAddress& source,
                                          size_t length = 114,
                                          uint16_t ether_type = kTestEtherType) {
  std::vector<uint8_t> frame(length);
  for (size_t i = 14; i < length; ++i) frame[i] = PayloadByte(3, i);
  destination.CopyTo(frame.data());
  source.CopyTo(frame.data() + 6);
  Put16(frame, 12, ether_type);
  return frame;
}

inline void SetMacs(Packet& packet, const MacAddress& destination, const MacAddress& source) {
  destination.CopyTo(packet.data());
  source.CopyTo(packet.data() + 6);
}

// Takes frames that went on to an upper device too.
class BoundSink final : public PacketType {
 public:
  explicit BoundSink(uint16_t ether_type) : PacketType(ether_type, Binding::kBound) {}
  void Receive(PacketPtr packet, NetDevice&) override { packets.push_back(std::move(packet)); }
  std::vector<PacketPtr> packets;
};

class ScriptedHandler final : public RxHandler {
 public:
  RxHandlerResult HandleFrame(PacketPtr& packet, NetDevice&) override {
    if (on_frame) on_frame(*packet);
    if (result == RxHandlerResult::kConsumed) packet.reset();
    return result;
  }
  RxHandlerResult result = RxHandlerResult::kPass;
  std::function<void(Packet&)> on_frame;
};

class MacvlanTest : public ::testing::Test {
 protected:
  explicit MacvlanTest(size_t backlog_limit = 1000)
      : context(environment.environment(), {.backlog_limit_packets = backlog_limit}) {}

  // A lower device, up. By default it filters unicast, so it is not promiscuous for macvlans.
  FakeDevice& AddLower(FakeDevice::Options options = {.name = "eth0",
                                                      .queueless = true,
                                                      .mac = kLowerMac,
                                                      .unicast_filter_slots = 16}) {
    auto device =
        context.registry().Register(std::make_unique<FakeDevice>(context, std::move(options)));
    EXPECT_TRUE(device.ok()) << device.status();
    EXPECT_TRUE((*device)->Up().ok());
    return **device;
  }

  absl::StatusOr<Macvlan*> TryCreate(const NetDevice& lower, MacvlanOptions options) {
    return CreateMacvlan(context, lower.ifindex(), std::move(options));
  }
  // The errno of a refusal, 0 if there was none.
  int CreateError(const NetDevice& lower, MacvlanOptions options) {
    return StatusToErrno(TryCreate(lower, std::move(options)).status());
  }
  Macvlan& Create(const NetDevice& lower, MacvlanMode mode, const MacAddress& mac,
                  MacvlanOptions options = {}) {
    options.mode = static_cast<uint32_t>(mode);
    options.mac = mac;
    auto macvlan = TryCreate(lower, std::move(options));
    EXPECT_TRUE(macvlan.ok()) << macvlan.status();
    return **macvlan;
  }
  Macvlan& CreateUp(const NetDevice& lower, MacvlanMode mode, const MacAddress& mac,
                    MacvlanOptions options = {}) {
    Macvlan& macvlan = Create(lower, mode, mac, std::move(options));
    EXPECT_TRUE(macvlan.Up().ok());
    SinkOf(macvlan);
    return macvlan;
  }

  // What a protocol on the device received; attached by the first call.
  FakeSink& SinkOf(NetDevice& device) {
    std::unique_ptr<FakeSink>& sink = sinks_[device.ifindex()];
    if (sink == nullptr) {
      sink = std::make_unique<FakeSink>();
      device.AddPacketType(*sink);
    }
    return *sink;
  }
  size_t Received(NetDevice& device) { return SinkOf(device).packets.size(); }
  void ForgetReceived() {
    for (auto& [ifindex, sink] : sinks_) sink->packets.clear();
  }

  PacketPtr Make(const std::vector<uint8_t>& bytes) { return MakePacket(context.pool(), bytes); }
  // A frame from the wire, through the receive core in this very call.
  void Arrive(NetDevice& device, PacketPtr packet) {
    packet->meta.rx_device = device.ifindex();
    RxPath::Receive(context, std::move(packet));
  }
  void Arrive(NetDevice& device, const MacAddress& destination, const MacAddress& source) {
    Arrive(device, Make(EthernetFrame(destination, source)));
  }
  TxResult Send(NetDevice& device, const MacAddress& destination, size_t length = 114) {
    return TxPath::Transmit(Make(EthernetFrame(destination, device.mac(), length)), device);
  }
  void Run() {
    while (context.RunOnce()) {
    }
  }

  TestEnvironment environment;
  NetContext context;

 private:
  std::map<uint32_t, std::unique_ptr<FakeSink>> sinks_;  // by ifindex
};

}  // namespace tapwire::netdev::testing
