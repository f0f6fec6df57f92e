// SPDX-License-Identifier: Apache-2.0
// Between sockaddr and Endpoint. In the table an IPv4-mapped IPv6 address is the IPv4 address it
// stands for; users of AF_INET6 sockets see it mapped (RFC 3493 §3.7).
#pragma once

#include <sys/socket.h>

#include "netdev/wire/ip_address.h"

namespace tapwire::internal {

enum class AddressUse : uint8_t {
  kBind,     // AF_UNSPEC with 0.0.0.0 counts as AF_INET
  kConnect,  // exactly the socket's family
  kSendTo,   // AF_UNSPEC counts as AF_INET; AF_INET6 sockets take AF_INET too
};

// Reads an address for a socket of `family`; 0, -EINVAL (too short) or -EAFNOSUPPORT, as Linux.
int ParseAddress(IpFamily family, AddressUse use, const sockaddr* address, socklen_t length,
                 Endpoint& out);
// Writes as much as *length allows and sets it to the full size. Nothing if `address` is null.
// 0, -EFAULT (length missing) or -EINVAL (negative).
int StoreAddress(IpFamily family, const Endpoint& endpoint, sockaddr* address, socklen_t* length);

}  // namespace tapwire::internal
