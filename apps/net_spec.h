// SPDX-License-Identifier: Apache-2.0
// One `--net` flag: a device and what it is like. Parsing only; apps/topology.h makes the device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/tap/tap_device.h"
#include "netdev/gro.h"
#include "netdev/macvlan.h"
#include "netdev/vlan_device.h"

namespace tapwire::apps {

enum class DeviceKind : uint8_t { kTap, kVeth, kDummy, kMacvlan, kVlan };
absl::string_view DeviceKindName(DeviceKind kind);  // as in the flag

// The text of --help.
extern const char kNetHelp[];

struct NetSpec {
  std::string text = "tap";  // as given
  DeviceKind kind = DeviceKind::kTap;
  drivers::TapOptions tap;         // name, mac and mtu are those of every kind; mtu 0 is unset
  bool offloads = true;            // veth, dummy: csum=off or tso=off turn them all off
  std::string lower;               // macvlan, vlan: the device below
  netdev::MacvlanOptions macvlan;  // without name, mac and mtu
  netdev::VlanOptions vlan;        // likewise
  std::optional<netdev::GroMode> gro;

  const std::string& name() const { return tap.name; }  // empty: chosen when the device is made
  uint32_t mtu() const { return tap.mtu; }
  bool has_lower() const { return kind == DeviceKind::kMacvlan || kind == DeviceKind::kVlan; }
};

// "tap,name=tw0,mtu=1500,csum=off". Each key once, but for kernel=. kInvalidArgument with a message
// that names the flag, the value and what it should have been.
absl::StatusOr<NetSpec> ParseNetSpec(absl::string_view text);

}  // namespace tapwire::apps
