// SPDX-License-Identifier: Apache-2.0
#include "apps/topology.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "drivers/tap/tap_device.h"
#include "netdev/base/status_util.h"
#include "netdev/dummy.h"
#include "netdev/macvlan.h"
#include "netdev/registry.h"
#include "netdev/veth.h"
#include "netdev/vlan_device.h"
#include "stack/path_mtu.h"
#include "stack/tcp/tcp.h"
#include "stack/udp/udp.h"

namespace tapwire::apps {
namespace {

// Whatever its code: what a software device refuses is in the flags.
absl::Status Refusal(absl::string_view flag, absl::string_view text, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", text, ": ", status.message()));
}

template <typename Device>
absl::StatusOr<netdev::NetDevice*> AsDevice(const NetSpec& spec,
                                            const absl::StatusOr<Device>& made) {
  if (!made.ok()) return Refusal("--net", spec.text, made.status());
  return static_cast<netdev::NetDevice*>(*made);
}

std::optional<MacAddress> GivenMac(const NetSpec& spec) {
  return spec.tap.mac.IsZero() ? std::nullopt : std::optional<MacAddress>(spec.tap.mac);
}
std::optional<uint32_t> GivenMtu(const NetSpec& spec) {
  return spec.mtu() == 0 ? std::nullopt : std::optional<uint32_t>(spec.mtu());
}

// Of the veth whose far end is nobody else's.
StackSpec PeerSpec(const netdev::NetDevice& device) {
  StackSpec spec;
  spec.name = device.name();
  spec.devices.push_back({.name = device.name()});
  std::vector<IpPrefix>& addresses = spec.devices.front().addresses;
  addresses.push_back(*IpPrefix::Parse(kVethPeer4));
  // RFC 8200 §5: a smaller link carries IPv4 only.
  if (device.mtu() >= kIpv6MinimumMtu) addresses.push_back(*IpPrefix::Parse(kVethPeer6));
  return spec;
}

std::string NamesOf(const netdev::Registry& registry) {
  std::string names;
  for (const netdev::NetDevice* device : registry.devices()) {
    if (!device->is_loopback()) absl::StrAppend(&names, names.empty() ? "" : ", ", device->name());
  }
  return names.empty() ? "none" : names;
}

}  // namespace

void InstallTransports(Stack& stack) {
  Udp::Install(stack);
  tcp::Tcp::Install(stack);
}

absl::Status AddGateways(Stack& stack, Interface& interface, const std::vector<IpAddress>& gateways,
                         absl::string_view flag) {
  for (const IpAddress& gateway : gateways) {
    RouteEntry entry{.prefix = {IpAddress::Unspecified(gateway.family()), 0},
                     .gateway = gateway,
                     .interface = gateway.IsLinkLocal() ? &interface : nullptr};
    const absl::Status status = stack.AddRoute(entry);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(flag, gateway.ToString(), ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

Topology::Topology(netdev::NetContext& context, TopologyOptions options)
    : context_(context), options_(std::move(options)) {}
Topology::~Topology() = default;

// ---- Devices ----

absl::Status Topology::CreateDevices(TapCallback on_tap) {
  for (const NetSpec& spec : options_.devices) {
    TW_ASSIGN_OR_RETURN(netdev::NetDevice * device, Create(spec, on_tap));
    if (spec.gro) device->SetGroMode(*spec.gro);
    made_.push_back({&spec, device, std::exchange(far_end_, nullptr)});
  }
  return ChooseOwn();
}

absl::StatusOr<netdev::NetDevice*> Topology::Create(const NetSpec& spec, TapCallback& on_tap) {
  switch (spec.kind) {
    case DeviceKind::kTap:
      return CreateTap(spec, on_tap);
    case DeviceKind::kVeth:
      return CreateVeth(spec);
    case DeviceKind::kDummy:
      return CreateDummy(spec);
    case DeviceKind::kMacvlan:
    case DeviceKind::kVlan:
      break;
  }
  return CreateUpper(spec);
}

absl::StatusOr<netdev::NetDevice*> Topology::CreateTap(const NetSpec& spec, TapCallback& on_tap) {
  absl::StatusOr<std::unique_ptr<drivers::TapDevice>> tap =
      drivers::TapDevice::Open(context_, spec.tap);
  // The flags were right, whatever the errno's code says: no usage error.
  if (!tap.ok()) return absl::FailedPreconditionError(tap.status().message());
  if (on_tap) on_tap(**tap);
  TW_ASSIGN_OR_RETURN(drivers::TapDevice * device, context_.registry().Register(*std::move(tap)));
  return static_cast<netdev::NetDevice*>(device);
}

absl::StatusOr<netdev::NetDevice*> Topology::CreateVeth(const NetSpec& spec) {
  netdev::VethOptions veth;
  const netdev::Registry& registry = context_.registry();
  if (!spec.name().empty()) {
    veth.name_a = spec.name();
  } else if (registry.Find(veth.name_a) != nullptr) {
    veth.name_a = registry.FreeName("veth");
  }
  veth.name_b = registry.FreeName("peer");
  veth.mac_a = spec.tap.mac;
  if (spec.mtu() != 0) veth.mtu = spec.mtu();
  veth.offloads = spec.offloads;
  const auto pair = netdev::CreateVethPair(context_, veth);
  if (!pair.ok()) return Refusal("--net", spec.text, pair.status());
  far_end_ = pair->second;
  return pair->first;
}

absl::StatusOr<netdev::NetDevice*> Topology::CreateDummy(const NetSpec& spec) {
  netdev::DummyOptions dummy;
  dummy.name = spec.name();
  dummy.mac = spec.tap.mac;
  if (spec.mtu() != 0) dummy.mtu = spec.mtu();
  dummy.offloads = spec.offloads;
  return AsDevice(spec, netdev::CreateDummy(context_, std::move(dummy)));
}

absl::StatusOr<netdev::NetDevice*> Topology::CreateUpper(const NetSpec& spec) {
  const netdev::NetDevice* lower = context_.registry().Find(spec.lower);
  if (lower == nullptr) {
    return Refusal(
        "--net", spec.text,
        absl::NotFoundError(absl::StrCat(
            "lower=", spec.lower, ": there is no such device; ",
            "a --net before this one must make it (so far: ", NamesOf(context_.registry()), ")")));
  }
  if (spec.kind == DeviceKind::kVlan) {
    netdev::VlanOptions vlan = spec.vlan;
    vlan.name = spec.name();
    vlan.mac = GivenMac(spec);
    vlan.mtu = GivenMtu(spec);
    return AsDevice(spec, netdev::CreateVlan(context_, lower->ifindex(), std::move(vlan)));
  }
  netdev::MacvlanOptions macvlan = spec.macvlan;
  macvlan.name = spec.name();
  macvlan.mac = GivenMac(spec);
  macvlan.mtu = GivenMtu(spec);
  return AsDevice(spec, netdev::CreateMacvlan(context_, lower->ifindex(), std::move(macvlan)));
}

absl::Status Topology::ChooseOwn() {
  own_ = options_.on.empty() ? made_.back().device : context_.registry().Find(options_.on);
  if (own_ == nullptr || own_->is_loopback()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--on ", options_.on,
                     ": there is no such device; there are: ", NamesOf(context_.registry())));
  }
  return absl::OkStatus();
}

absl::Status Topology::Up() {
  for (const MadeDevice& made : made_) {
    const absl::Status status = made.device->Up();
    if (!status.ok()) {
      return made.spec->kind == DeviceKind::kTap ? status
                                                 : Refusal("--net", made.spec->text, status);
    }
    // Before the devices that stand on it.
    if (made.far_end != nullptr) TW_RETURN_IF_ERROR(made.far_end->Up());
  }
  return absl::OkStatus();
}

// ---- Stacks ----

bool Topology::IsUsed(const netdev::NetDevice& device) const {
  const auto names_it = [&](const StackSpec::Device& named) { return named.name == device.name(); };
  return &device == own_ || !device.uppers().empty() ||
         std::any_of(options_.stacks.begin(), options_.stacks.end(), [&](const StackSpec& spec) {
           return std::any_of(spec.devices.begin(), spec.devices.end(), names_it);
         });
}

absl::Status Topology::CreateStacks(const StackConfig& config) {
  for (const StackSpec& spec : options_.stacks) {
    TW_RETURN_IF_ERROR(CreateStack(config, spec, /*automatic=*/false));
  }
  for (const MadeDevice& made : made_) {
    if (made.far_end != nullptr && !IsUsed(*made.far_end)) {
      TW_RETURN_IF_ERROR(CreateStack(config, PeerSpec(*made.far_end), /*automatic=*/true));
    }
  }
  return absl::OkStatus();
}

absl::Status Topology::CreateStack(const StackConfig& base, const StackSpec& spec, bool automatic) {
  if (spec.name == kOwnStackName) {
    return Refusal("--stack", spec.text,
                   absl::AlreadyExistsError(
                       absl::StrCat("name=", spec.name, " is that of the command's own stack")));
  }
  for (const auto& other : stacks_) {
    if (other->spec.name == spec.name) {
      return Refusal("--stack", spec.text,
                     absl::AlreadyExistsError(absl::StrCat("there is a stack named ", spec.name)));
    }
  }
  StackConfig config = base;
  config.forwarding = spec.forwarding;
  if (automatic) config.duplicate_address_detection = false;
  auto named = std::make_unique<NamedStack>();
  named->spec = spec;
  named->automatic = automatic;
  named->stack = std::make_unique<Stack>(context_, config);
  InstallTransports(*named->stack);
  for (const StackSpec::Device& wanted : spec.devices) {
    const absl::StatusOr<netdev::NetDevice*> device = FindForStack(wanted.name);
    if (!device.ok()) return Refusal("--stack", spec.text, device.status());
    const absl::StatusOr<Interface*> interface = named->stack->AddInterface(**device);
    if (!interface.ok()) return Refusal("--stack", spec.text, interface.status());
    named->ifindexes.push_back((*interface)->index());
  }
  stacks_.push_back(std::move(named));
  return absl::OkStatus();
}

absl::StatusOr<netdev::NetDevice*> Topology::FindForStack(const std::string& name) const {
  netdev::NetDevice* device = context_.registry().Find(name);
  if (device == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "dev=", name, ": there is no such device; there are: ", NamesOf(context_.registry())));
  }
  if (device == own_) {
    return absl::AlreadyExistsError(absl::StrCat(
        "dev=", name, ": the command's own stack is there; --on NAME puts it elsewhere"));
  }
  return device;
}

absl::Status Topology::AddAddresses() {
  for (const auto& named : stacks_) {
    for (size_t i = 0; i < named->ifindexes.size(); ++i) {
      const StackSpec::Device& wanted = named->spec.devices[i];
      Interface& interface = *named->stack->FindInterface(named->ifindexes[i]);
      for (const IpPrefix& address : wanted.addresses) {
        const absl::Status status = interface.AddAddress(address);
        if (!status.ok()) return Refusal("--stack", named->spec.text, status);
      }
      TW_RETURN_IF_ERROR(AddGateways(*named->stack, interface, wanted.gateways,
                                     absl::StrCat("--stack ", named->spec.text, ": gateway=")));
    }
  }
  return absl::OkStatus();
}

Stack* Topology::peer_stack() const {
  for (const auto& named : stacks_) {
    if (named->automatic) return named->stack.get();
  }
  return nullptr;
}

}  // namespace tapwire::apps
