// SPDX-License-Identifier: Apache-2.0
// Routes of both families: longest prefix match with metric, and the result of a look-up.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "netdev/wire/ip_address.h"

namespace tapwire {

class Interface;

// One line of the routing table, as `ip route` shows it.
struct RouteEntry {
  IpPrefix prefix;                        // length 0: default route
  std::optional<IpAddress> gateway = {};  // none: on-link
  Interface* interface = nullptr;
  uint32_t metric = 0;     // lower wins among equal prefixes; then the older one
  bool connected = false;  // made by an address, goes with it
};

enum class RouteKind : uint8_t { kUnicast, kLocal, kBroadcast, kMulticast };

// Where a datagram goes: resolved once per send or kept by a connected socket until
// generation != Stack::route_generation().
struct Route {
  RouteKind kind = RouteKind::kUnicast;
  Interface* interface = nullptr;  // the one it leaves by (the loopback one for kLocal)
  IpAddress source;
  IpAddress destination;
  IpAddress next_hop;  // gateway or destination
  uint32_t mtu = 0;    // bytes of IP packet: min(device, path MTU)
  uint32_t generation = 0;
};

class RouteTable {
 public:
  // Host bits of the prefix are cleared. kAlreadyExists for an equal prefix, gateway, interface and
  // metric; kInvalidArgument for a missing interface, an impossible prefix length or a gateway that
  // is of another family, unspecified or a group.
  absl::Status Add(const RouteEntry& entry);
  // The entry with this prefix, gateway, interface and metric; kNotFound.
  absl::Status Remove(const RouteEntry& entry);
  void RemoveInterface(const Interface& interface);
  // Longest prefix, lowest metric, oldest; only through interfaces that run. `interface` restricts.
  const RouteEntry* Lookup(const IpAddress& destination,
                           const Interface* interface = nullptr) const;
  const std::vector<RouteEntry>& entries() const { return entries_; }
  uint32_t generation() const { return generation_; }
  void Touch() { ++generation_; }  // something a Route depends on has changed

 private:
  std::vector<RouteEntry> entries_;  // sorted: longest prefix first, then metric, then age
  uint32_t generation_ = 1;
};

}  // namespace tapwire
