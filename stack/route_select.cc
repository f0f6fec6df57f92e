// SPDX-License-Identifier: Apache-2.0
// Stack::FindRoute: interface, next hop, source address and MTU for one destination.
//
//   1. our own address (and all of 127/8)   → kLocal, through loopback: never on a wire
//   2. group                                → kMulticast: an interface named, or the evident one
//   3. 255.255.255.255, subnet broadcast    → kBroadcast, likewise
//   4. IPv6 link-local                      → on-link of the zone
//   5. anything else                        → route table, with a living gateway if there is a
//   choice
//
// RFC 1122 §3.3.1 (next hop), §3.3.4 (several interfaces), RFC 4007 (zones), RFC 6724 §4 (candidate
// source addresses).
#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/gateway_monitor.h"
#include "stack/path_mtu.h"
#include "stack/source_select.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

class RouteFinder {
 public:
  RouteFinder(Stack& stack, GatewayMonitor& gateways, const Stack::RouteRequest& request)
      : stack_(stack), gateways_(gateways), request_(request), to_(request.destination) {}

  absl::StatusOr<Route> Find();
  std::optional<Route> FindForward(const IpAddress& source);

 private:
  absl::Status CheckDestination() const;
  absl::Status CheckInterface();
  absl::Status CheckSource();
  absl::StatusOr<Route> ToLocal();
  absl::StatusOr<Route> ToGroup();
  absl::StatusOr<Route> ToBroadcast(Interface& interface);
  absl::StatusOr<Route> ToLinkLocal();
  absl::StatusOr<Route> ToRouted();
  Interface* EvidentInterface() const;
  Interface* BroadcastInterface() const;
  const RouteEntry* BestRoute() const;
  bool Fits(const RouteEntry& entry) const;
  absl::Status WhyNoRoute() const;
  absl::StatusOr<Route> Complete(RouteKind kind, Interface& interface, const IpAddress& next_hop);
  absl::StatusOr<IpAddress> Source(const Interface& interface, const IpAddress& next_hop) const;
  absl::Status WhyNoSource(const Interface& interface) const;

  Stack& stack_;
  GatewayMonitor& gateways_;
  const Stack::RouteRequest& request_;
  const IpAddress& to_;
  Interface* wanted_ = nullptr;  // by request.ifindex
  Interface* owner_ = nullptr;   // of request.source
};

absl::Status NotAHost(const IpAddress& to, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("route to ", to.ToString(), ": ", why));
}

absl::Status Down(const Interface& interface, const IpAddress& to) {
  return ErrnoStatus(
      ENETDOWN, absl::StrCat("route to ", to.ToString(), ": interface ", interface.device().name(),
                             interface.device().is_up() ? " has no carrier" : " is down"));
}

absl::StatusOr<Route> RouteFinder::Find() {
  TW_RETURN_IF_ERROR(CheckDestination());
  TW_RETURN_IF_ERROR(CheckInterface());
  TW_RETURN_IF_ERROR(CheckSource());
  if (to_.IsMulticast()) return ToGroup();
  if (to_.IsLoopback() || stack_.FindLocalAddress(to_) != nullptr) {
    const bool elsewhere =
        to_.is_v6() && to_.IsLinkLocal() && wanted_ != nullptr && !wanted_->HasUsableAddress(to_);
    if (!elsewhere) return ToLocal();
  }
  if (Interface* interface = BroadcastInterface()) return ToBroadcast(*interface);
  if (to_.IsLimitedBroadcast()) {
    return absl::NotFoundError("route to 255.255.255.255: name the interface to send it through");
  }
  if (to_.is_v6() && to_.IsLinkLocal()) return ToLinkLocal();
  return ToRouted();
}

absl::Status RouteFinder::CheckDestination() const {
  if (to_.is_v4()) {
    // RFC 1122 §3.2.1.3 (a), (b): 0/8 is no destination; RFC 1112 §4: 240/4 is reserved.
    if (to_.v4().IsZeroNet()) return NotAHost(to_, "0/8 names no host");
    if (to_.v4().IsClassE() && !to_.IsLimitedBroadcast()) return NotAHost(to_, "240/4 is reserved");
    return absl::OkStatus();
  }
  const Ipv6Address v6 = to_.v6();
  if (v6.IsUnspecified()) return NotAHost(to_, ":: names no host");
  // RFC 4291 §2.5.5.2: stands for an IPv4 address inside a host only.
  if (v6.IsV4Mapped()) return NotAHost(to_, "use the IPv4 address it stands for");
  if (v6.IsMulticast() && v6.scope() == 0) return NotAHost(to_, "multicast scope 0 is reserved");
  return absl::OkStatus();
}

absl::Status RouteFinder::CheckInterface() {
  if (request_.ifindex == 0) return absl::OkStatus();
  wanted_ = stack_.FindInterface(request_.ifindex);
  if (wanted_ == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("route to ", to_.ToString(), ": no interface with index ", request_.ifindex));
  }
  if (!wanted_->device().is_running()) return Down(*wanted_, to_);
  return absl::OkStatus();
}

absl::Status RouteFinder::CheckSource() {
  if (!request_.source) return absl::OkStatus();
  const IpAddress& source = *request_.source;
  const bool here = wanted_ != nullptr && wanted_->HasUsableAddress(source);
  owner_ = here ? wanted_ : stack_.FindLocalAddress(source);
  if (owner_ != nullptr && source.family() == to_.family()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("route to ", to_.ToString(), ": source ", source.ToString(),
                   owner_ == nullptr ? " is not a usable address of this host"
                                     : " is of the other address family"));
}

// ---- Inside the host ----

absl::StatusOr<Route> RouteFinder::ToLocal() {
  Interface* loopback = stack_.loopback();
  if (loopback == nullptr || !loopback->device().is_running()) {
    return ErrnoStatus(
        ENETDOWN, absl::StrCat("route to ", to_.ToString(), ": the loopback interface is down"));
  }
  IpAddress source = to_;
  if (request_.source) {
    source = *request_.source;
  } else if (to_.is_v4() && to_.IsLoopback()) {
    source = Ipv4Address::kLoopback;
  }
  return Route{.kind = RouteKind::kLocal,
               .interface = loopback,
               .source = source,
               .destination = to_,
               .next_hop = to_,
               .mtu = loopback->device().mtu(),
               .generation = stack_.route_generation()};
}

// ---- Without a route table ----

// The interface for a destination that has no place of its own: the one that has the source, the
// one of the matching route, or the only one there is.
Interface* RouteFinder::EvidentInterface() const {
  if (wanted_ != nullptr) return wanted_;
  if (owner_ != nullptr && owner_ != stack_.loopback()) return owner_;
  if (to_.is_v4()) {
    if (const RouteEntry* entry = stack_.routes().Lookup(to_)) return entry->interface;
  }
  Interface* only = nullptr;
  for (const auto& interface : stack_.interfaces()) {
    if (interface.get() == stack_.loopback() || !interface->device().is_running()) {
      continue;
    }
    if (only != nullptr) return nullptr;
    only = interface.get();
  }
  return only;
}

absl::StatusOr<Route> RouteFinder::ToGroup() {
  // RFC 4291 §2.7: interface-local groups do not leave the node.
  const bool inside = to_.is_v6() && to_.v6().scope() == Ipv6Scope::kInterfaceLocal;
  Interface* interface = inside ? stack_.loopback() : EvidentInterface();
  if (interface == nullptr) {
    return absl::NotFoundError(absl::StrCat("route to ", to_.ToString(),
                                            ": name the interface to send to the group through"));
  }
  return Complete(RouteKind::kMulticast, *interface, to_);
}

Interface* RouteFinder::BroadcastInterface() const {
  if (!to_.is_v4()) return nullptr;
  if (to_.IsLimitedBroadcast()) return EvidentInterface();
  for (const auto& interface : stack_.interfaces()) {
    if (wanted_ != nullptr && interface.get() != wanted_) continue;
    if (interface->IsSubnetBroadcast(to_.v4())) return interface.get();
  }
  return nullptr;
}

absl::StatusOr<Route> RouteFinder::ToBroadcast(Interface& interface) {
  return Complete(RouteKind::kBroadcast, interface, to_);
}

// RFC 4861 §5.1: the link-local prefix is always on-link.
absl::StatusOr<Route> RouteFinder::ToLinkLocal() {
  const bool source_names_zone = request_.source && request_.source->IsLinkLocal();
  Interface* interface = wanted_ != nullptr  ? wanted_
                         : source_names_zone ? owner_
                                             : EvidentInterface();
  if (interface == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "route to ", to_.ToString(), ": a link-local address needs its interface, for example ",
        to_.ToString(), "%tw0"));
  }
  return Complete(RouteKind::kUnicast, *interface, to_);
}

// ---- By the route table ----

bool RouteFinder::Fits(const RouteEntry& entry) const {
  return entry.prefix.Contains(to_) && (wanted_ == nullptr || entry.interface == wanted_);
}

// The longest prefix decides; among equal ones the interface that has the given source, so that two
// interfaces in one subnet each answer for themselves, and a gateway that answers.
const RouteEntry* RouteFinder::BestRoute() const {
  const RouteEntry* first = stack_.routes().Lookup(to_, wanted_);
  if (first == nullptr) return nullptr;
  const auto& entries = stack_.routes().entries();
  const RouteEntry* end = entries.data() + entries.size();
  const RouteEntry* best = nullptr;
  int best_faults = 0;
  for (const RouteEntry* e = first; e != end && e->prefix.length == first->prefix.length; ++e) {
    if (!Fits(*e) || !e->interface->device().is_running()) continue;
    int faults = 0;
    if (e->gateway && gateways_.IsDead(*e->interface, *e->gateway)) faults += 2;
    if (request_.source && !e->interface->HasUsableAddress(*request_.source)) faults += 1;
    if (best == nullptr || faults < best_faults) {
      best = e;
      best_faults = faults;
    }
    if (best_faults == 0) break;
  }
  return best;
}

// RFC 1812 §5.2.4: by the table alone. No source address is chosen, and no path MTU known: those of
// the sender count.
std::optional<Route> RouteFinder::FindForward(const IpAddress& source) {
  const RouteEntry* entry = BestRoute();
  if (entry == nullptr || entry->interface->device().is_loopback()) return std::nullopt;
  const uint32_t mtu = entry->interface->device().mtu();
  if (to_.is_v6() && mtu < kIpv6MinimumMtu) return std::nullopt;  // RFC 8200 §5
  return Route{.kind = RouteKind::kUnicast,
               .interface = entry->interface,
               .source = source,
               .destination = to_,
               .next_hop = entry->gateway.value_or(to_),
               .mtu = mtu,
               .generation = stack_.route_generation()};
}

absl::Status RouteFinder::WhyNoRoute() const {
  for (const RouteEntry& entry : stack_.routes().entries()) {
    if (Fits(entry)) return Down(*entry.interface, to_);
  }
  return absl::NotFoundError(
      absl::StrCat("route to ", to_.ToString(), ": no route; add one, or a default gateway"));
}

absl::StatusOr<Route> RouteFinder::ToRouted() {
  for (const auto& interface : stack_.interfaces()) {
    const InterfaceAddress* own = interface->FindAddress(to_);
    if (own != nullptr && own->state == AddressState::kTentative) {
      return absl::UnavailableError(
          absl::StrCat("route to ", to_.ToString(), ": it is an address of ",
                       interface->device().name(), " that is not usable yet"));
    }
  }
  const RouteEntry* entry = BestRoute();
  if (entry == nullptr) return WhyNoRoute();
  return Complete(RouteKind::kUnicast, *entry->interface, entry->gateway.value_or(to_));
}

// ---- Source, MTU ----

absl::StatusOr<Route> RouteFinder::Complete(RouteKind kind, Interface& interface,
                                            const IpAddress& next_hop) {
  const netdev::NetDevice& device = interface.device();
  if (!device.is_running()) return Down(interface, to_);
  // RFC 8200 §5: IPv6 needs links that carry 1280 bytes.
  if (to_.is_v6() && device.mtu() < kIpv6MinimumMtu) {
    return absl::UnavailableError(absl::StrCat("route to ", to_.ToString(), ": interface ",
                                               device.name(), " has an MTU of ", device.mtu(),
                                               "; IPv6 needs ", kIpv6MinimumMtu));
  }
  TW_ASSIGN_OR_RETURN(const IpAddress source, Source(interface, next_hop));
  return Route{.kind = kind,
               .interface = &interface,
               .source = source,
               .destination = to_,
               .next_hop = next_hop,
               .mtu = stack_.path_mtu().Get(to_, device.mtu()),
               .generation = stack_.route_generation()};
}

// RFC 6724 §4: to a group or a link-local address only addresses of the link itself; elsewhere no
// address that means nothing outside its own link.
bool MayBeCandidate(const InterfaceAddress& address, const IpAddress& to, bool outgoing) {
  if (!address.usable()) return false;
  if (outgoing) return true;
  if (to.is_v6() && (to.IsMulticast() || to.IsLinkLocal())) return false;
  return !address.address.IsLinkLocal() && !address.address.IsLoopback();
}

absl::StatusOr<IpAddress> RouteFinder::Source(const Interface& interface,
                                              const IpAddress& next_hop) const {
  const bool on_wire = &interface != stack_.loopback();
  if (request_.source) {
    const IpAddress& source = *request_.source;
    // RFC 1122 §3.2.1.3 (g), RFC 4291 §2.5.3: must not appear outside a host.
    if (on_wire && source.IsLoopback()) {
      return NotAHost(to_, absl::StrCat("source ", source.ToString(), " must not leave this host"));
    }
    if (source.is_v6() && source.IsLinkLocal() && !interface.HasUsableAddress(source)) {
      return NotAHost(to_,
                      absl::StrCat("source ", source.ToString(), " belongs to another link than ",
                                   interface.device().name()));
    }
    return source;
  }
  absl::InlinedVector<SourceCandidate, 8> candidates;
  for (const auto& other : stack_.interfaces()) {
    const bool outgoing = other.get() == &interface;
    for (const InterfaceAddress& a : other->addresses()) {
      if (!MayBeCandidate(a, to_, outgoing)) continue;
      candidates.push_back({.address = a.address,
                            .prefix_length = a.prefix_length,
                            .deprecated = a.state == AddressState::kDeprecated,
                            .on_outgoing_interface = outgoing});
    }
  }
  const auto chosen = SelectSource({to_, next_hop}, candidates);
  if (!chosen) return WhyNoSource(interface);
  return candidates[*chosen].address;
}

absl::Status RouteFinder::WhyNoSource(const Interface& interface) const {
  std::string why =
      absl::StrCat("route to ", to_.ToString(), ": no usable ", to_.is_v4() ? "IPv4" : "IPv6",
                   " source address on ", interface.device().name());
  for (const InterfaceAddress& a : interface.addresses()) {
    if (a.address.family() != to_.family()) continue;
    absl::StrAppend(&why, "; ", a.address.ToString(),
                    a.state == AddressState::kDuplicated ? " is in use by another host"
                                                         : " is still being checked");
  }
  return absl::FailedPreconditionError(why);
}

}  // namespace

absl::StatusOr<Route> Stack::FindRoute(const RouteRequest& request) {
  return RouteFinder(*this, *gateways_, request).Find();
}

std::optional<Route> Stack::FindForwardRoute(const IpAddress& source,
                                             const IpAddress& destination) {
  const RouteRequest request{.destination = destination};
  return RouteFinder(*this, *gateways_, request).FindForward(source);
}

}  // namespace tapwire
