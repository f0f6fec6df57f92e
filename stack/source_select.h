// SPDX-License-Identifier: Apache-2.0
// Choice of the source address of a datagram: RFC 6724 §5 for IPv6, RFC 1122 §3.3.4.3 for IPv4.
// Pure functions of the candidates; Stack::FindRoute collects them. Destination address selection
// (RFC 6724 §6) belongs to a resolver and is not here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/wire/ip_address.h"

namespace tapwire {

// A usable unicast address of this host.
struct SourceCandidate {
  IpAddress address;
  int prefix_length = 0;
  bool deprecated = false;
  bool on_outgoing_interface = true;
  bool temporary = false;               // RFC 8981
  bool advertised_by_next_hop = false;  // its prefix came from the router we send to (rule 5.5)
};

struct SourceRequest {
  IpAddress destination;
  IpAddress next_hop;  // IPv4: the gateway or the destination
};

// Index of the candidate to use; nullopt if there is none that may be used. Candidates of the other
// family are passed over. Ties go to the first.
std::optional<size_t> SelectSource(const SourceRequest& request,
                                   std::span<const SourceCandidate> candidates);

// RFC 6724 §2.1: a line of the policy table.
struct AddressPolicy {
  IpPrefix prefix;
  uint8_t precedence = 0;
  uint8_t label = 0;
};

// The default policy of `address`, by longest prefix.
const AddressPolicy& PolicyOf(const Ipv6Address& address);

// RFC 6724 §2.2: leading bits that `source` and `destination` share, not more than the prefix
// length of the source.
int CommonPrefixLength(const Ipv6Address& source, const Ipv6Address& destination,
                       int source_prefix_length);

}  // namespace tapwire
