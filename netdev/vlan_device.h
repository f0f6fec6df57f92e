// SPDX-License-Identifier: Apache-2.0
// The 802.1Q upper device: sends and receives the frames of one VLAN id of its lower device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "netdev/device.h"
#include "netdev/registry.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::netdev {

struct VlanOptions {
  std::string name = {};                       // empty: "<lower>.<id>"
  uint16_t vlan_id = 1;                        // 0..4094
  uint16_t protocol = wire::EtherType::kVlan;  // or kQinQ
  std::optional<MacAddress> mac = {};          // unset: the lower's, and follows it
  std::optional<uint32_t> mtu = {};            // bytes; unset: the lower's
};

// Makes and registers a VLAN device on the device with that index; it stays down. The registry owns
// it; it goes with its lower device. Errors: EINVAL (no lower, MTU above its own), ENODEV,
// EOPNOTSUPP (a VLAN-challenged or non-Ethernet lower), EEXIST (that id or name is taken), ERANGE
// (id), EPROTONOSUPPORT (tag type), EADDRNOTAVAIL (MAC), EMLINK (too many devices on each other).
absl::StatusOr<NetDevice*> CreateVlan(NetContext& context, uint32_t lower_ifindex,
                                      VlanOptions options);
// The id and protocol of a device made by CreateVlan(); nullopt for any other.
struct VlanTag {
  uint16_t protocol = 0;
  uint16_t vlan_id = 0;
};
std::optional<VlanTag> VlanTagOf(const NetDevice& device);

}  // namespace tapwire::netdev
