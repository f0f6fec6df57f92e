// SPDX-License-Identifier: Apache-2.0
// Devices that need no driver: a veth pair (what one end sends the other receives, through the
// backlog, metadata kept) and the loopback device.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "netdev/device.h"
#include "netdev/registry.h"

namespace tapwire::netdev {

struct VethOptions {
  std::string name_a = "veth0";
  std::string name_b = "veth1";
  MacAddress mac_a{}, mac_b{};  // zero: random
  uint32_t mtu = 1500;
  // false: the pair claims no offloads, every frame is segmented and checksummed in software.
  bool offloads = true;
};
// Creates and registers both ends. A frame is received only while both ends are up (carrier).
absl::StatusOr<std::pair<NetDevice*, NetDevice*>> CreateVethPair(NetContext& context,
                                                                 const VethOptions& options);

// Creates and registers a loopback device (MTU 65536, zero MAC); what it sends it receives.
absl::StatusOr<NetDevice*> CreateLoopback(NetContext& context, absl::string_view name);

}  // namespace tapwire::netdev
