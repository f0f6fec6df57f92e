// SPDX-License-Identifier: Apache-2.0
// Addresses and groups of an interface. What the link's coming and going does to them is in
// interface_link.cc.
//
// States of an address: kTentative -> kPreferred or kDuplicated by conflict detection (ARP probes,
// RFC 5227; DAD, RFC 4862 §5.4); all but static ones go back to kTentative when the device is taken
// down.
#include "stack/interface.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "netdev/wire/ethernet.h"
#include "stack/arp/arp.h"
#include "stack/eth/eth_output.h"
#include "stack/ipv4/igmp.h"
#include "stack/ipv6/mld.h"
#include "stack/ndp/ndp.h"
#include "stack/path_mtu.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// Why `address` cannot be that of one host; empty if it can.
absl::string_view NotAHost(const IpPrefix& prefix) {
  const IpAddress& address = prefix.address;
  if (address.IsUnspecified()) return "is the unspecified address";
  if (address.IsMulticast()) return "is a multicast group";
  if (address.is_v6()) return address.v6().IsV4Mapped() ? "is an IPv4 address in IPv6 form" : "";
  // RFC 1122 §3.2.1.3, RFC 1112 §4.
  if (address.v4().IsZeroNet()) return "is in 0.0.0.0/8";
  if (address.v4().IsClassE()) return "is in 240.0.0.0/4";
  if (!prefix.Broadcast()) return "";
  if (address.v4() == *prefix.Broadcast()) return "is the broadcast address of its subnet";
  if (address == prefix.Network()) return "is the address of the subnet itself";
  return "";
}

}  // namespace

Interface::Interface(Stack& stack, netdev::NetDevice& device)
    : stack_(stack),
      device_(device),
      alive_(std::make_shared<const Interface*>(this)),
      arp_(std::make_unique<Arp>(*this)),
      ndp_(std::make_unique<Ndp>(*this)),
      neighbors4_(std::make_unique<NeighborTable>(stack, device, *arp_, IpFamily::kV4)),
      neighbors6_(std::make_unique<NeighborTable>(stack, device, *ndp_, IpFamily::kV6)),
      igmp_(std::make_unique<Igmp>(*this)),
      mld_(std::make_unique<Mld>(*this)) {}

Interface::~Interface() = default;

// ---- Addresses ----

absl::Status Interface::CheckAddress(const IpPrefix& prefix) const {
  const IpAddress& address = prefix.address;
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("address ", prefix.ToString(), " dev ", device_.name(), ": ", why));
  };
  const int width = address.is_v4() ? 32 : 128;
  if (prefix.length < 0 || prefix.length > width)
    return refuse(absl::StrCat("the prefix length must be 0 to ", width));
  if (const absl::string_view why = NotAHost(prefix); !why.empty())
    return refuse(absl::StrCat("it ", why));
  // RFC 1122 §3.2.1.3 (g), RFC 4291 §2.5.3.
  if (address.IsLoopback() && !device_.is_loopback())
    return refuse("a loopback address belongs to the loopback interface");
  if (FindAddress(address) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("address ", address.ToString(), " dev ", device_.name(), ": exists already"));
  }
  if (address.is_v6() && !CarriesIpv6()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "address ", prefix.ToString(), " dev ", device_.name(), ": IPv6 needs an MTU of ",
        kIpv6MinimumMtu, ", the device has ", device_.mtu()));
  }
  return absl::OkStatus();
}

absl::Status Interface::AddAddress(const IpPrefix& prefix, bool skip_dad) {
  TW_RETURN_IF_ERROR(CheckAddress(prefix));
  const IpAddress address = prefix.address;
  addresses_.push_back({.address = address,
                        .prefix_length = prefix.length,
                        .state = AddressState::kTentative,
                        .skip_dad = skip_dad});
  AddConnectedRoute(prefix);
  // RFC 4862 §5.4.2: joined before the address is checked, so that the answers arrive.
  if (address.is_v6() && needs_resolution()) Join(address.v6().SolicitedNode(), /*system=*/true);
  stack_.InvalidateRoutes();
  if (!NeedsDetection(addresses_.back())) {
    BecomeUsable(addresses_.back());
  } else if (running_) {
    StartDetection(address);
  }
  return absl::OkStatus();
}

absl::Status Interface::RemoveAddress(const IpAddress& address) {
  InterfaceAddress* found = FindMutable(address);
  if (found == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("address ", address.ToString(), " dev ", device_.name(), ": no such address"));
  }
  const IpAddress removed = found->address;  // `address` may be the one in the list
  const IpPrefix prefix = found->prefix();
  CancelDetection(removed);
  addresses_.erase(addresses_.begin() + (found - addresses_.data()));
  RemoveConnectedRoute(prefix);
  if (removed.is_v6() && needs_resolution()) {
    if (Group* group = FindGroup(removed.v6().SolicitedNode())) Leave(*group, /*system=*/true);
  }
  if (own_link_local_ == removed) own_link_local_.reset();
  stack_.InvalidateRoutes();
  return absl::OkStatus();
}

const InterfaceAddress* Interface::FindAddress(const IpAddress& address) const {
  for (const InterfaceAddress& a : addresses_) {
    if (a.address == address) return &a;
  }
  return nullptr;
}

InterfaceAddress* Interface::FindMutable(const IpAddress& address) {
  for (InterfaceAddress& a : addresses_) {
    if (a.address == address) return &a;
  }
  return nullptr;
}

bool Interface::HasUsableAddress(const IpAddress& address) const {
  const InterfaceAddress* found = FindAddress(address);
  if (found != nullptr) return found->usable();
  return address.is_v4() && address.IsLoopback() && device_.is_loopback();
}

bool Interface::IsSubnetBroadcast(const Ipv4Address& address) const {
  for (const InterfaceAddress& a : addresses_) {
    if (!a.address.is_v4() || a.state == AddressState::kDuplicated) continue;
    if (a.prefix_length >= 31) continue;  // RFC 3021: these have none
    const uint32_t host_bits = UINT32_MAX >> a.prefix_length;
    if (((address.value() ^ a.address.v4().value()) & ~host_bits) != 0) continue;
    const uint32_t host = address.value() & host_bits;
    if (host == host_bits || host == 0) return true;
  }
  return false;
}

std::optional<IpAddress> Interface::link_local() const {
  for (const InterfaceAddress& a : addresses_) {
    if (a.address.is_v6() && a.address.IsLinkLocal() && a.usable()) return a.address;
  }
  return std::nullopt;
}

bool Interface::NeedsDetection(const InterfaceAddress& address) const {
  const StackConfig& config = stack_.config();
  if (address.skip_dad || device_.is_loopback() || !config.duplicate_address_detection)
    return false;
  // RFC 4862 §5.1: DupAddrDetectTransmits 0 switches it off.
  return address.address.is_v4() ? config.arp_probe : config.dad_transmits > 0;
}

// The connected route of a prefix is there once, however many addresses it has.
void Interface::AddConnectedRoute(const IpPrefix& prefix) {
  if (prefix.length == (prefix.address.is_v4() ? 32 : 128)) return;
  static_cast<void>(stack_.routes_.Add({.prefix = prefix,
                                        .gateway = std::nullopt,
                                        .interface = this,
                                        .metric = 0,
                                        .connected = true}));
}

void Interface::RemoveConnectedRoute(const IpPrefix& prefix) {
  const IpAddress network = prefix.Network();
  for (const InterfaceAddress& a : addresses_) {
    if (a.prefix_length == prefix.length && a.prefix().Network() == network) return;
  }
  static_cast<void>(stack_.routes_.Remove({.prefix = prefix,
                                           .gateway = std::nullopt,
                                           .interface = this,
                                           .metric = 0,
                                           .connected = true}));
}

void Interface::OnAddressChecked(const IpAddress& address, bool duplicate) {
  InterfaceAddress* found = FindMutable(address);
  if (found == nullptr || found->state == AddressState::kDuplicated) return;
  if (duplicate) {
    BecomeDuplicated(*found);
  } else if (found->state == AddressState::kTentative) {
    BecomeUsable(*found);
  }
}

void Interface::BecomeUsable(InterfaceAddress& address) {
  const IpAddress usable = address.address;
  const bool had_link_local = link_local().has_value();
  address.state = AddressState::kPreferred;
  stack_.InvalidateRoutes();
  NotifyAddress(usable, /*duplicate=*/false);
  if (!running_) return;
  // RFC 3590 §4: routers have discarded what was reported from the unspecified address.
  if (!had_link_local && link_local().has_value() && needs_resolution()) mld_->OnUp();
  Announce(usable);
}

void Interface::BecomeDuplicated(InterfaceAddress& address) {
  const IpAddress duplicate = address.address;
  address.state = AddressState::kDuplicated;
  // ARP has counted its own conflict.
  if (duplicate.is_v6()) stack_.mib().arp.conflicts.Inc();
  TW_LOG(kWarning) << device_.name() << ": " << duplicate.ToString()
                   << " is in use by another host and will not be used here";
  CancelDetection(duplicate);
  stack_.InvalidateRoutes();
  NotifyAddress(duplicate, /*duplicate=*/true);
  if (own_link_local_ == duplicate) OnLinkLocalDuplicated(duplicate);
}

void Interface::SetAddressCallback(AddressCallback callback) {
  address_callback_ = callback ? std::make_shared<AddressCallback>(std::move(callback)) : nullptr;
}

void Interface::NotifyAddress(const IpAddress& address, bool duplicate) {
  stack_.context().Defer([weak = std::weak_ptr(alive_), this, address, duplicate] {
    if (weak.expired()) return;
    const std::shared_ptr<AddressCallback> callback = address_callback_;
    if (callback != nullptr) (*callback)(address, duplicate);
  });
}

// ---- Groups ----

Interface::Group* Interface::FindGroup(const IpAddress& group) {
  for (Group& g : groups_) {
    if (g.address == group) return &g;
  }
  return nullptr;
}

bool Interface::InGroup(const IpAddress& group) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const Group& g) { return g.address == group; });
}

absl::Status Interface::JoinGroup(const IpAddress& group) {
  if (!group.IsMulticast()) {
    return absl::InvalidArgumentError(absl::StrCat("join ", group.ToString(), " dev ",
                                                   device_.name(), ": not a multicast group"));
  }
  const size_t limit = stack_.config().max_groups_per_interface;
  const Group* found = FindGroup(group);
  if ((found == nullptr || found->users == 0) && user_groups_ >= limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("join ", group.ToString(), " dev ", device_.name(), ": ", limit,
                     " groups are joined already; raise max_groups_per_interface"));
  }
  Join(group, /*system=*/false);
  return absl::OkStatus();
}

absl::Status Interface::LeaveGroup(const IpAddress& group) {
  Group* found = FindGroup(group);
  if (found == nullptr || found->users == 0) {
    return absl::NotFoundError(
        absl::StrCat("leave ", group.ToString(), " dev ", device_.name(), ": not joined"));
  }
  Leave(*found, /*system=*/false);
  return absl::OkStatus();
}

void Interface::Join(const IpAddress& group, bool system) {
  Group* found = FindGroup(group);
  const bool first = found == nullptr;
  if (first) found = &groups_.emplace_back(Group{.address = group});
  if (!system && found->users++ == 0) ++user_groups_;
  if (system) ++found->system_users;
  if (!first) return;
  device_.AddMulticast(MulticastMac(group));
  if (device_.is_loopback()) return;  // nobody to report to
  if (group.is_v4()) {
    igmp_->OnJoin(group.v4());
  } else {
    mld_->OnJoin(group.v6());
  }
}

void Interface::Leave(Group& group, bool system) {
  if (!system && --group.users == 0) --user_groups_;
  if (system) --group.system_users;
  if (group.users > 0 || group.system_users > 0) return;
  const IpAddress address = group.address;
  groups_.erase(groups_.begin() + (&group - groups_.data()));
  device_.RemoveMulticast(MulticastMac(address));
  if (device_.is_loopback()) return;
  if (address.is_v4()) {
    igmp_->OnLeave(address.v4());
  } else {
    mld_->OnLeave(address.v6());
  }
}

// ---- Output ----

netdev::TxResult Interface::Output(PacketPtr packet, const Route& route) {
  const uint16_t type = route.destination.is_v4() ? wire::EtherType::kIpv4 : wire::EtherType::kIpv6;
  if (!needs_resolution()) return EthOutput(std::move(packet), device_, device_.mac(), type);
  switch (route.kind) {
    case RouteKind::kMulticast:
      return EthOutput(std::move(packet), device_, MulticastMac(route.destination), type);
    case RouteKind::kBroadcast:
      return EthOutput(std::move(packet), device_, MacAddress::kBroadcast(), type);
    case RouteKind::kUnicast:
    case RouteKind::kLocal:
      break;
  }
  return neighbors(route.destination.family())
      .Output(std::move(packet), route.next_hop, route.source);
}

}  // namespace tapwire
