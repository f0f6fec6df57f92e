// SPDX-License-Identifier: Apache-2.0
// VLAN devices on fake ones, for tests of the device layer.
#pragma once

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"
#include "netdev/base/status_util.h"
#include "netdev/tx_path.h"
#include "netdev/vlan_device.h"
#include "tests/netdev/fake_device.h"

namespace tapwire::netdev::testing {

class VlanFixture : public NetdevTest {
 protected:
  NetDevice& Vlan(NetDevice& lower, VlanOptions options = {}) {
    auto device = CreateVlan(context, lower.ifindex(), options);
    EXPECT_TRUE(device.ok()) << device.status();
    return **device;
  }
  int Error(uint32_t lower, VlanOptions options) {
    const size_t before = context.registry().devices().size();
    const auto device = CreateVlan(context, lower, options);
    EXPECT_EQ(context.registry().devices().size(), before) << "nothing is left behind";
    return StatusToErrno(device.status());
  }
  TxResult Send(PacketPtr packet, NetDevice& device) {
    const TxResult result = TxPath::Transmit(std::move(packet), device);
    Run();
    return result;
  }
  void Run() {
    while (context.RunOnce()) {
    }
  }
};

}  // namespace tapwire::netdev::testing
