// SPDX-License-Identifier: Apache-2.0
// The dummy device: an Ethernet device that has a link and no far end. What it is given to send is
// counted and gone. As a lower device it carries macvlans that talk to each other only.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "netdev/device.h"
#include "netdev/registry.h"

namespace tapwire::netdev {

struct DummyOptions {
  std::string name = {};  // empty: the first free of dummy0, dummy1, …
  MacAddress mac{};       // zero: random
  uint32_t mtu = 1500;
  bool offloads = true;  // false: claims no feature at all, as plain hardware
};
absl::StatusOr<NetDevice*> CreateDummy(NetContext& context, DummyOptions options);

}  // namespace tapwire::netdev
