// SPDX-License-Identifier: Apache-2.0
// `ip neigh` and `ip route`. Layouts: iproute2 6.1.

#include <algorithm>
#include <chrono>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/ctl/ip_view.h"
#include "stack/neighbor.h"
#include "stack/route.h"

namespace tapwire::apps::ctl {
namespace {

using netdev::NetDevice;

// ---- Neighbours ----

bool HasMac(const NeighborInfo& neighbor) {
  return neighbor.state != NeighborState::kIncomplete && neighbor.state != NeighborState::kFailed;
}

// Seconds that have passed; 0 for what never happened.
int64_t SecondsSince(Time now, Time then) {
  if (then == Time() || then > now) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(now - then).count();
}

struct Ages {
  int64_t used, confirmed, updated;
};
Ages AgesOf(const World& world, const NeighborInfo& neighbor) {
  const Time now = world.context.now();
  return {SecondsSince(now, neighbor.used), SecondsSince(now, neighbor.confirmed),
          SecondsSince(now, neighbor.updated)};
}

std::string NeighborText(const World& world, const NeighborInfo& neighbor, const NetDevice& device,
                         bool name_device, const IpFlags& flags) {
  std::string text = neighbor.address.ToString() + " ";
  if (name_device) absl::StrAppend(&text, "dev ", device.name(), " ");
  if (HasMac(neighbor)) absl::StrAppend(&text, "lladdr ", neighbor.mac.ToString(), " ");
  if (neighbor.is_router) text += "router ";
  if (flags.statistics > 0) {
    const Ages ages = AgesOf(world, neighbor);
    absl::StrAppend(&text, " used ", ages.used, "/", ages.confirmed, "/", ages.updated, "probes ",
                    neighbor.probes, " ");
  }
  return absl::StrCat(text, NeighborStateName(neighbor.state), " \n");
}

std::string BriefNeighborText(const NeighborInfo& neighbor, const NetDevice& device) {
  return absl::StrFormat("%-39s %-16s %s\n", neighbor.address.ToString(), device.name(),
                         HasMac(neighbor) ? neighbor.mac.ToString() : std::string());
}

Json NeighborJson(const World& world, const NeighborInfo& neighbor, const NetDevice& device,
                  bool name_device, const IpFlags& flags) {
  Json json = {{"dst", neighbor.address.ToString()}};
  if (name_device || flags.brief) json["dev"] = device.name();
  if (HasMac(neighbor)) json["lladdr"] = neighbor.mac.ToString();
  if (flags.brief) return json;
  if (neighbor.is_router) json["router"] = nullptr;
  if (flags.statistics > 0) {
    const Ages ages = AgesOf(world, neighbor);
    json["used"] = ages.used;
    json["confirmed"] = ages.confirmed;
    json["updated"] = ages.updated;
    json["probes"] = neighbor.probes;
  }
  json["state"] = Json::array({std::string(NeighborStateName(neighbor.state))});
  return json;
}

// ---- Routes ----

// The source address of an on-link route: that of the subnet.
std::optional<IpAddress> PreferredSource(const RouteEntry& route) {
  if (!route.connected) return std::nullopt;
  for (const InterfaceAddress& address : route.interface->addresses()) {
    if (address.usable() && address.address.family() == route.prefix.address.family() &&
        address.prefix_length == route.prefix.length &&
        address.prefix().Network() == route.prefix.address) {
      return address.address;
    }
  }
  return std::nullopt;
}

std::string DestinationText(const IpPrefix& prefix) {
  if (prefix.length == 0) return "default";
  const int width = prefix.address.is_v4() ? 32 : 128;
  return prefix.length == width ? prefix.address.ToString() : prefix.ToString();
}

const char* Protocol(const RouteEntry& route) { return route.connected ? "kernel" : "static"; }

std::string RouteText(const RouteEntry& route, bool name_device, const IpFlags& flags) {
  const bool v4 = route.prefix.address.is_v4();
  std::string text = flags.details ? "unicast " : "";
  absl::StrAppend(&text, DestinationText(route.prefix), " ");
  if (route.gateway) absl::StrAppend(&text, "via ", route.gateway->ToString(), " ");
  if (name_device) absl::StrAppend(&text, "dev ", route.interface->device().name(), " ");
  absl::StrAppend(&text, "proto ", Protocol(route), " ");
  if (v4 && !route.gateway) {
    text += "scope link ";
  } else if (flags.details) {
    text += "scope global ";
  }
  const std::optional<IpAddress> source = v4 ? PreferredSource(route) : std::nullopt;
  if (source) absl::StrAppend(&text, "src ", source->ToString(), " ");
  if (route.metric != 0) absl::StrAppend(&text, "metric ", route.metric, " ");
  return absl::StrCat(text, v4 ? "" : "pref medium", "\n");
}

Json RouteJson(const RouteEntry& route, bool name_device) {
  const bool v4 = route.prefix.address.is_v4();
  Json json = {{"dst", DestinationText(route.prefix)}};
  if (route.gateway) json["gateway"] = route.gateway->ToString();
  if (name_device) json["dev"] = route.interface->device().name();
  json["protocol"] = Protocol(route);
  if (v4 && !route.gateway) json["scope"] = "link";
  const std::optional<IpAddress> source = v4 ? PreferredSource(route) : std::nullopt;
  if (source) json["prefsrc"] = source->ToString();
  if (route.metric != 0) json["metric"] = route.metric;
  json["flags"] = Json::array();
  if (!v4) json["pref"] = "medium";
  return json;
}

// As Linux lists its main table: IPv4 by address with the default route first, IPv6 with it last.
// What concerns loopback is not in that table.
std::vector<RouteEntry> RoutesOf(const Stack& stack, IpFamily family, const NetDevice* only) {
  std::vector<RouteEntry> routes;
  for (const RouteEntry& route : stack.routes().entries()) {
    const NetDevice& device = route.interface->device();
    if (route.prefix.address.family() != family || device.is_loopback()) continue;
    if (only == nullptr || only == &device) routes.push_back(route);
  }
  const auto key = [family](const RouteEntry& route) {
    return std::make_tuple(family == IpFamily::kV6 && route.prefix.length == 0,
                           route.prefix.address, route.prefix.length, route.metric);
  };
  std::stable_sort(routes.begin(), routes.end(),
                   [&](const RouteEntry& a, const RouteEntry& b) { return key(a) < key(b); });
  return routes;
}

}  // namespace

std::string NeighborTable(const World& world, const NetDevice* only, const IpFlags& flags) {
  Json list = Json::array();
  std::string text;
  const bool name_device = only == nullptr;
  const auto add = [&](const NeighborInfo& neighbor, const NetDevice& device) {
    if (flags.json) {
      list.push_back(NeighborJson(world, neighbor, device, name_device, flags));
    } else if (flags.brief) {
      text += BriefNeighborText(neighbor, device);
    } else {
      text += NeighborText(world, neighbor, device, name_device, flags);
    }
  };
  for (const IpFamily family : {IpFamily::kV4, IpFamily::kV6}) {
    if (flags.family.value_or(family) != family) continue;
    for (Stack* stack : StacksOf(world, flags)) {
      for (const auto& interface : stack->interfaces()) {
        const NetDevice& device = interface->device();
        if (device.is_loopback() || (only != nullptr && only != &device)) continue;
        for (const NeighborInfo& neighbor : interface->neighbors(family).Snapshot()) {
          add(neighbor, device);
        }
      }
    }
  }
  return flags.json ? JsonText(list, flags.pretty) : text;
}

std::string RouteTable(const World& world, const NetDevice* only, const IpFlags& flags) {
  Json list = Json::array();
  std::string text;
  for (const Stack* stack : StacksOf(world, flags)) {
    for (const RouteEntry& route : RoutesOf(*stack, flags.family.value_or(IpFamily::kV4), only)) {
      if (flags.json) {
        list.push_back(RouteJson(route, only == nullptr));
      } else {
        text += RouteText(route, only == nullptr, flags);
      }
    }
  }
  return flags.json ? JsonText(list, flags.pretty) : text;
}

}  // namespace tapwire::apps::ctl
