// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/world.h"

#include <algorithm>
#include <utility>

#include "apps/pkt/settings.h"
#include "netdev/registry.h"
#include "stack/tcp/tcp.h"
#include "stack/udp/udp.h"

namespace tapwire::pkt {
std::optional<IpVersion> ParseIpVersion(absl::string_view text) {
  if (text == "ipv4") return IpVersion::kIpv4;
  if (text == "ipv6") return IpVersion::kIpv6;
  if (text == "ipv4-mapped-ipv6") return IpVersion::kIpv4Mapped;
  return std::nullopt;
}

NetSetup::NetSetup()
    : local6(Ipv6Address::FromGroups({0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 2})),
      gateway6(Ipv6Address::FromGroups({0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1})),
      remote6(Ipv6Address::FromGroups({0x2001, 0x0db8, 0, 0, 0, 0, 0, 1})) {}

World::World(const NetSetup& setup, const tcp::Config& config, Waiter& waiter)
    : context_(Environment{.clock = &clock_, .random = &random_}) {
  stack_ = std::make_unique<Stack>(context_, ScriptDevice::QuietStack());
  tcp::Tcp::Install(*stack_, config);
  Udp::Install(*stack_);
  sockets_ = std::make_unique<SocketTable>(*stack_, waiter);
  calls_ = std::make_unique<TableCalls>(*sockets_);
  status_ = Configure(setup);
}

World::~World() { Destroy(); }

tcp::Config& World::tcp_config() { return tcp::Tcp::Install(*stack_).config(); }

absl::Status World::Configure(const NetSetup& setup) {
  absl::StatusOr<ScriptDevice*> device =
      context_.registry().Register(std::make_unique<ScriptDevice>(context_, setup.mtu));
  if (!device.ok()) return device.status();
  device_ = *device;
  absl::StatusOr<Interface*> interface = stack_->AddInterface(*device_);
  if (!interface.ok()) return interface.status();
  if (absl::Status up = device_->Up(); !up.ok()) return up;
  absl::Status v4 = AddFamily(**interface, {setup.local4, 24}, setup.gateway4);
  if (!v4.ok()) return v4;
  absl::Status v6 = setup.mtu < 1280 ? absl::OkStatus()
                                     : AddFamily(**interface, {setup.local6, 64}, setup.gateway6);
  Settle();
  return v6;
}

absl::Status World::AddFamily(Interface& interface, const IpPrefix& local,
                              const IpAddress& gateway) {
  if (absl::Status added = interface.AddAddress(local, /*skip_dad=*/true); !added.ok()) {
    return added;
  }
  const IpFamily family = gateway.family();
  absl::Status known = interface.neighbors(family).AddPermanent(gateway, ScriptDevice::kPeerMac);
  if (!known.ok()) return known;
  RouteEntry entry;
  entry.prefix = {IpAddress::Unspecified(family), 0};
  entry.gateway = gateway;
  entry.interface = &interface;
  return stack_->AddRoute(entry);
}

bool World::Settle() {
  constexpr int kMaxBatches = 100'000;
  for (int i = 0; i < kMaxBatches; ++i) {
    context_.RunOnce();
    if (!context_.has_pending_work()) return true;
  }
  return false;
}

void World::SetTime(Time time) { clock_.Set(std::max(time, clock_.Now())); }

std::optional<std::string> World::Apply(absl::string_view command) {
  return ApplyCommand(command, tcp_config());
}

size_t World::Destroy() {
  if (stack_ == nullptr) return 0;
  sockets_.reset();
  Settle();
  stack_.reset();
  if (device_ != nullptr) device_->Down();
  Settle();
  return context_.pool().stats().packets_in_use;
}

}  // namespace tapwire::pkt
