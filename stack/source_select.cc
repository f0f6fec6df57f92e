// SPDX-License-Identifier: Apache-2.0
#include "stack/source_select.h"

#include <algorithm>
#include <array>
#include <bit>

namespace tapwire {
namespace {

// RFC 6724 §2.1, default policy table, longest prefixes first.
constexpr std::array<AddressPolicy, 9> kDefaultPolicies = {{
    {{Ipv6Address::kLoopback, 128}, 50, 0},
    {{Ipv6Address::FromV4Mapped(Ipv4Address()), 96}, 35, 4},
    {{Ipv6Address::kUnspecified, 96}, 1, 3},                                // v4-compatible
    {{Ipv6Address::FromGroups({0x2001, 0, 0, 0, 0, 0, 0, 0}), 32}, 5, 5},   // Teredo
    {{Ipv6Address::FromGroups({0x2002, 0, 0, 0, 0, 0, 0, 0}), 16}, 30, 2},  // 6to4
    {{Ipv6Address::FromGroups({0x3ffe, 0, 0, 0, 0, 0, 0, 0}), 16}, 1, 12},  // 6bone
    {{Ipv6Address::FromGroups({0xfec0, 0, 0, 0, 0, 0, 0, 0}), 10}, 1, 11},  // site-local
    {{Ipv6Address::FromGroups({0xfc00, 0, 0, 0, 0, 0, 0, 0}), 7}, 3, 13},   // unique local
    {{Ipv6Address::kUnspecified, 0}, 40, 1},
}};

// A result below zero: the first is better; above: the second; zero: the next rule decides.
using Order = int;

Order Prefer(bool a, bool b) { return static_cast<int>(b) - static_cast<int>(a); }

// RFC 6724 §5 rule 2.
Order SmallerSufficientScope(uint8_t a, uint8_t b, uint8_t destination) {
  if (a == b) return 0;
  if (a < b) return a < destination ? 1 : -1;
  return b < destination ? -1 : 1;
}

// RFC 6724 §5, rules 1 to 8 in order. Rule 4 (home addresses) has nothing to decide: there is no
// mobility.
Order CompareV6(const SourceCandidate& a, const SourceCandidate& b,
                const Ipv6Address& destination) {
  const Ipv6Address source_a = a.address.v6();
  const Ipv6Address source_b = b.address.v6();
  if (const Order o = Prefer(source_a == destination, source_b == destination)) {
    return o;
  }
  if (const Order o =
          SmallerSufficientScope(source_a.scope(), source_b.scope(), destination.scope())) {
    return o;
  }
  if (const Order o = Prefer(!a.deprecated, !b.deprecated)) return o;
  if (const Order o = Prefer(a.on_outgoing_interface, b.on_outgoing_interface)) return o;
  if (const Order o = Prefer(a.advertised_by_next_hop, b.advertised_by_next_hop)) {
    return o;
  }
  const uint8_t label = PolicyOf(destination).label;
  if (const Order o =
          Prefer(PolicyOf(source_a).label == label, PolicyOf(source_b).label == label)) {
    return o;
  }
  if (const Order o = Prefer(a.temporary, b.temporary)) return o;
  return CommonPrefixLength(source_b, destination, b.prefix_length) -
         CommonPrefixLength(source_a, destination, a.prefix_length);
}

bool InSubnetOf(const SourceCandidate& candidate, const IpAddress& address) {
  return IpPrefix{candidate.address, candidate.prefix_length}.Contains(address);
}

// RFC 1122 §3.3.4.3 leaves the choice open but for the interface. A link-local address (RFC 3927
// §2.6) cannot be answered from beyond the link.
Order CompareV4(const SourceCandidate& a, const SourceCandidate& b, const SourceRequest& request) {
  if (const Order o = Prefer(a.address == request.destination, b.address == request.destination)) {
    return o;
  }
  const bool local = request.destination.IsLinkLocal();
  if (const Order o = Prefer(a.address.IsLinkLocal() == local, b.address.IsLinkLocal() == local)) {
    return o;
  }
  if (const Order o = Prefer(a.on_outgoing_interface, b.on_outgoing_interface)) return o;
  if (const Order o = Prefer(!a.deprecated, !b.deprecated)) return o;
  return Prefer(InSubnetOf(a, request.next_hop), InSubnetOf(b, request.next_hop));
}

}  // namespace

std::optional<size_t> SelectSource(const SourceRequest& request,
                                   std::span<const SourceCandidate> candidates) {
  const IpAddress& destination = request.destination;
  std::optional<size_t> best;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].address.family() != destination.family()) continue;
    if (!best) {
      best = i;
      continue;
    }
    const Order order = destination.is_v4()
                            ? CompareV4(candidates[*best], candidates[i], request)
                            : CompareV6(candidates[*best], candidates[i], destination.v6());
    if (order > 0) best = i;
  }
  return best;
}

const AddressPolicy& PolicyOf(const Ipv6Address& address) {
  for (const AddressPolicy& policy : kDefaultPolicies) {
    if (policy.prefix.Contains(address)) return policy;
  }
  return kDefaultPolicies.back();
}

int CommonPrefixLength(const Ipv6Address& source, const Ipv6Address& destination,
                       int source_prefix_length) {
  const auto a = source.bytes();
  const auto b = destination.bytes();
  for (size_t i = 0; i < Ipv6Address::kLength; ++i) {
    const auto difference = static_cast<uint8_t>(a[i] ^ b[i]);
    if (difference == 0) continue;
    const int common = static_cast<int>(8 * i) + std::countl_zero(difference);
    return std::min(common, source_prefix_length);
  }
  return std::min(128, source_prefix_length);
}

}  // namespace tapwire
