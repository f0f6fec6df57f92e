// SPDX-License-Identifier: Apache-2.0
// What the tests of the receive core share: handlers, protocols and taps that show what they got.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "netdev/rx_path.h"
#include "tests/netdev/fake_device.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev::testing {

class FakeHandler final : public RxHandler {
 public:
  RxHandlerResult HandleFrame(PacketPtr& packet, NetDevice& device) override {
    ++calls;
    return handle(packet, device);
  }
  int calls = 0;
  std::function<RxHandlerResult(PacketPtr&, NetDevice&)> handle;
};

// A protocol that asked for frames of an upper device too.
class BoundProtocol final : public PacketType {
 public:
  explicit BoundProtocol(uint16_t ether_type) : PacketType(ether_type, Binding::kBound) {}
  void Receive(PacketPtr packet, NetDevice& device) override {
    devices.push_back(device.name());
    packets.push_back(std::move(packet));
    if (on_receive) on_receive();
  }
  std::vector<PacketPtr> packets;
  std::vector<std::string> devices;
  std::function<void()> on_receive;
};

// Shows what taps of several devices see, in order.
class SharedTap final : public PacketTap {
 public:
  explicit SharedTap(std::vector<std::string>& seen) : seen_(seen) {}
  void OnFrame(const Packet& packet, const NetDevice& device, TapDirection, TxResult) override {
    seen_.push_back(device.name() + (packet.meta.vlan_present
                                         ? " tag " + std::to_string(packet.meta.vlan_tci)
                                         : ""));
  }

 private:
  std::vector<std::string>& seen_;
};

class RxFixture : public NetdevTest {
 protected:
  void Receive(FakeDevice& device, PacketPtr packet) {
    device.rx().Add(std::move(packet));
    context.RunOnce();
  }
};

}  // namespace tapwire::netdev::testing
