// SPDX-License-Identifier: Apache-2.0
// The tables of `ip`: links, addresses, neighbours and routes as text in iproute2's layout, or as
// its JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ctl/ctl.h"
#include "apps/ctl/json_text.h"
#include "netdev/device.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::apps::ctl {

// The options before the object.
struct IpFlags {
  int statistics = 0;  // -s, -s -s
  bool details = false, json = false, pretty = false, brief = false, oneline = false;
  std::optional<IpFamily> family;  // -4, -6
  std::string stack;               // -n NAME: of this stack only
};

using Devices = std::vector<const netdev::NetDevice*>;

std::string LinkTable(const World& world, const Devices& devices, const IpFlags& flags);
std::string AddressTable(const World& world, const Devices& devices, const IpFlags& flags);
// `only`: of this device; its name is left out then.
std::string NeighborTable(const World& world, const netdev::NetDevice* only, const IpFlags& flags);
std::string RouteTable(const World& world, const netdev::NetDevice* only, const IpFlags& flags);

// ---- Parts, for the files of this folder ----

// The stacks that `flags` leave.
std::vector<Stack*> StacksOf(const World& world, const IpFlags& flags);
Interface* InterfaceOf(const World& world, const netdev::NetDevice& device);
// One record of a table: with -o its lines are joined by backslashes.
std::string Record(std::string text, const IpFlags& flags);

enum class LinkLine { kLink, kAddress };  // `ip link` says more than `ip addr`
std::string LinkText(const World& world, const netdev::NetDevice& device, const IpFlags& flags,
                     LinkLine line);
std::string StatisticsText(const netdev::NetDevice& device, int level);
// "mv0@low"
std::string NameWithParent(const World& world, const netdev::NetDevice& device);
absl::string_view StateText(const netdev::NetDevice& device);
Json LinkJson(const World& world, const netdev::NetDevice& device, const IpFlags& flags,
              LinkLine line);
Json StatisticsJson(const netdev::NetDevice& device, int level);

}  // namespace tapwire::apps::ctl
