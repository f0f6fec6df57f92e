// SPDX-License-Identifier: Apache-2.0
// Endpoints as the kernel's socket calls want them.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "netdev/wire/ip_address.h"

namespace tapwire::interop {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

inline SocketAddress ToKernel(const Endpoint& endpoint) {
  SocketAddress address;
  if (endpoint.address.is_v4()) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    endpoint.address.v4().CopyTo(reinterpret_cast<uint8_t*>(&v4->sin_addr));
    address.length = sizeof(sockaddr_in);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(endpoint.port);
    v6->sin6_scope_id = endpoint.zone;
    endpoint.address.v6().CopyTo(v6->sin6_addr.s6_addr);
    address.length = sizeof(sockaddr_in6);
  }
  return address;
}

inline Endpoint FromKernel(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&v4->sin_addr);
    return {Ipv4Address::FromBytes({bytes, Ipv4Address::kLength}), ntohs(v4->sin_port), 0};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return {Ipv6Address::FromBytes(v6->sin6_addr.s6_addr), ntohs(v6->sin6_port), v6->sin6_scope_id};
}

}  // namespace tapwire::interop
