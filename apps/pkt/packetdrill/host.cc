// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/packetdrill/host.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "apps/pkt/datagram.h"
#include "apps/pkt/packetdrill/preload.h"
#include "netdev/base/status_util.h"
#include "netdev/registry.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "stack/sockets/socket_table_address.h"
#include "stack/tcp/tcp.h"
#include "stack/udp/udp.h"

namespace tapwire::packetdrill {
namespace {

// How long a script may wait for a packet. Long enough for keepalives; without timers the wait ends
// at once.
constexpr Duration kLongestSilence = std::chrono::hours(48);
// A script has one or two; the limit is for what is no script.
constexpr size_t kMostAddresses = 64;

std::optional<IpAddress> DestinationOf(std::span<const uint8_t> datagram) {
  const auto v4 = wire::Ipv4Header::Parse(datagram);
  if (v4 && v4->version() == 4) return v4->destination();
  const auto v6 = wire::Ipv6Header::Parse(datagram);
  if (v6 && v6->version() == 6) return v6->destination();
  return std::nullopt;
}

// Of a fragment the transport checksum cannot be told.
bool IsFragment(std::span<const uint8_t> datagram) {
  const auto v4 = wire::Ipv4Header::Parse(datagram);
  return v4 && v4->version() == 4 && (LoadBe16(datagram.data() + 6) & 0x3fff) != 0;
}

std::optional<IpAddress> AddressOf(const sockaddr* address, socklen_t length) {
  if (address == nullptr) return std::nullopt;
  const IpFamily family = address->sa_family == AF_INET6 ? IpFamily::kV6 : IpFamily::kV4;
  Endpoint endpoint;
  if (internal::ParseAddress(family, internal::AddressUse::kBind, address, length, endpoint) != 0) {
    return std::nullopt;
  }
  return endpoint.address;
}

}  // namespace

Host::Host(const Flags& flags, const std::string& settings_path)
    : flags_(flags),
      settings_(settings_path),
      context_(Environment{.clock = &clock_, .random = &random_}),
      waiter_(context_, clock_),
      stack_(std::make_unique<Stack>(context_, pkt::ScriptDevice::QuietStack())) {
  tcp::Tcp::Install(*stack_, flags.tcp);
  Udp::Install(*stack_);
  sockets_ = std::make_unique<SocketTable>(
      *stack_, waiter_, SocketTable::Options{.first_fd = kFirstFd, .max_fds = kFdCount});
}

Host::~Host() {
  sockets_.reset();
  context_.DetachFromThread();
  stack_.reset();
  if (device_ != nullptr) device_->Down();
}

absl::StatusOr<std::unique_ptr<Host>> Host::Create(const Flags& flags,
                                                   const std::string& settings_path) {
  std::unique_ptr<Host> host(new Host(flags, settings_path));
  absl::Status status;
  host->waiter_.Run([&] { status = host->Configure(); });
  if (!status.ok()) return status;
  return host;
}

absl::Status Host::Configure() {
  TW_ASSIGN_OR_RETURN(device_, context_.registry().Register(
                                   std::make_unique<pkt::ScriptDevice>(context_, flags_.mtu)));
  TW_ASSIGN_OR_RETURN(interface_, stack_->AddInterface(*device_));
  TW_RETURN_IF_ERROR(device_->Up());
  TW_RETURN_IF_ERROR(AddWayOut(flags_.gateway4));
  TW_RETURN_IF_ERROR(AddWayOut(flags_.gateway6));
  if (flags_.local4) {
    TW_RETURN_IF_ERROR(interface_->AddAddress({*flags_.local4, 32}, /*skip_dad=*/true));
  }
  if (!flags_.local6) return absl::OkStatus();
  return interface_->AddAddress({*flags_.local6, 128}, /*skip_dad=*/true);
}

absl::Status Host::AddWayOut(const IpAddress& gateway) {
  const IpFamily family = gateway.family();
  TW_RETURN_IF_ERROR(
      interface_->neighbors(family).AddPermanent(gateway, pkt::ScriptDevice::kPeerMac));
  RouteEntry entry;
  entry.prefix = {IpAddress::Unspecified(family), 0};
  entry.gateway = gateway;
  entry.interface = interface_;
  return stack_->AddRoute(entry);
}

// ---- Addresses ----

bool Host::IsFixed(IpFamily family) const {
  return family == IpFamily::kV4 ? flags_.local4.has_value() : flags_.local6.has_value();
}

bool Host::HasAddress(IpFamily family) const {
  return std::any_of(interface_->addresses().begin(), interface_->addresses().end(),
                     [family](const InterfaceAddress& a) { return a.address.family() == family; });
}

void Host::Learn(const IpAddress& address) {
  if (IsFixed(address.family()) || interface_->FindAddress(address) != nullptr) return;
  if (interface_->addresses().size() >= kMostAddresses) return;
  // Refused if it is not the address of one host: then the stack answers as it does.
  (void)interface_->AddAddress({address, address.is_v4() ? 32 : 128}, /*skip_dad=*/true);
}

void Host::PrepareBind(const sockaddr* address, socklen_t length) {
  const std::optional<IpAddress> local = AddressOf(address, length);
  if (!local || local->IsUnspecified()) return;
  waiter_.Run([&] { Learn(*local); });
}

void Host::PrepareConnect(const sockaddr* address, socklen_t length) {
  const std::optional<IpAddress> peer = AddressOf(address, length);
  if (!peer) return;
  waiter_.Run([&] {
    if (HasAddress(peer->family())) return;
    Learn(peer->is_v4() ? IpAddress(kFallbackLocal4) : IpAddress(kFallbackLocal6));
  });
}

void Host::ReadSettings() {
  waiter_.Run([this] { settings_.Apply(tcp::Tcp::Install(*stack_).config()); });
}

// ---- Packets ----

bool Host::Inject(std::span<const uint8_t> datagram) {
  bool taken = false;
  waiter_.Run([&] {
    if (const auto destination = DestinationOf(datagram)) Learn(*destination);
    taken = device_->Inject(datagram);
  });
  return taken;
}

Host::Received Host::Receive(pkt::SentDatagram& out) {
  Received received = Received::kNothing;
  const auto take = [&] {
    while (!device_->sent().empty()) {
      out = std::move(device_->sent().front());
      device_->sent().pop_front();
      received = Received::kDatagram;
      if (IsFragment(out.bytes)) return true;
      const auto parsed = pkt::ParseDatagram(out.bytes);
      // Group membership and neighbours: the program would not understand it.
      if (!parsed) continue;
      if (parsed->damage.empty()) return true;
      received = Received::kDamaged;
      std::fprintf(stderr, "tapwire-packetdrill: the stack sent a bad packet (%s); dropped\n",
                   parsed->damage.c_str());
      return true;
    }
    received = Received::kNothing;
    return false;
  };
  (void)waiter_.PassTimeUntil(take, kLongestSilence);
  return received;
}

}  // namespace tapwire::packetdrill
