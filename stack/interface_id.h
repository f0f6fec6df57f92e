// SPDX-License-Identifier: Apache-2.0
// Interface identifiers: the low 64 bits of an automatic IPv6 address. Opaque and stable as RFC
// 7217 §5 makes them, so that an address does not tell the MAC (RFC 8064 §3).
#pragma once

#include <cstdint>

#include "netdev/base/siphash.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"

namespace tapwire {

struct InterfaceIdInput {
  Ipv6Address prefix;       // its first 64 bits count
  MacAddress mac;           // stands for RFC 7217's Net_Iface
  uint8_t dad_counter = 0;  // addresses given up before this one
};

// The address in prefix/64 for `input`: the same for the same input and secret, unpredictable
// without the secret. SipHash-2-4 is RFC 7217's F(). Never a reserved identifier (RFC 5453).
Ipv6Address OpaqueAddress(const InterfaceIdInput& input, const SipKey& secret);

// RFC 5453 and the IANA registry: identifiers that no node may give itself.
bool IsReservedInterfaceId(uint64_t id);

}  // namespace tapwire
