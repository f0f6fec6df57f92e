// SPDX-License-Identifier: Apache-2.0
#include "stack/gateway_monitor.h"

#include <algorithm>

#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr Duration kAskAgainAfter = std::chrono::seconds(30);

// The address to ask for `gateway` from: one in its subnet, else any.
IpAddress SourceFor(const Interface& interface, const IpAddress& gateway) {
  IpAddress any = IpAddress::Unspecified(gateway.family());
  for (const InterfaceAddress& a : interface.addresses()) {
    if (!a.usable() || a.address.family() != gateway.family()) continue;
    if (a.prefix().Contains(gateway)) return a.address;
    if (any.IsUnspecified()) any = a.address;
  }
  return any;
}

}  // namespace

bool GatewayMonitor::IsGateway(uint32_t ifindex, const IpAddress& address) const {
  const auto& routes = stack_.routes().entries();
  return std::any_of(routes.begin(), routes.end(), [&](const RouteEntry& r) {
    return r.gateway == address && r.interface->index() == ifindex;
  });
}

GatewayMonitor::DeadGateway* GatewayMonitor::Find(uint32_t ifindex, const IpAddress& address) {
  for (DeadGateway& d : dead_) {
    if (d.ifindex == ifindex && d.address == address) return &d;
  }
  return nullptr;
}

void GatewayMonitor::OnReachability(uint32_t ifindex, const IpAddress& address, bool reachable) {
  DeadGateway* dead = Find(ifindex, address);
  if (reachable) {
    if (dead == nullptr) return;
    *dead = dead_.back();
    dead_.pop_back();
    stack_.InvalidateRoutes();
  } else if (dead == nullptr && IsGateway(ifindex, address)) {
    dead_.push_back({ifindex, address, stack_.now()});
    stack_.InvalidateRoutes();
  }
}

bool GatewayMonitor::IsDead(Interface& interface, const IpAddress& gateway) {
  DeadGateway* dead = Find(interface.index(), gateway);
  if (dead == nullptr) return false;
  if (stack_.now() - dead->asked >= kAskAgainAfter) {
    dead->asked = stack_.now();
    interface.neighbors(gateway.family()).Resolve(gateway, SourceFor(interface, gateway));
  }
  return true;
}

void GatewayMonitor::Forget(uint32_t ifindex) {
  std::erase_if(dead_, [&](const DeadGateway& d) { return d.ifindex == ifindex; });
}

}  // namespace tapwire
