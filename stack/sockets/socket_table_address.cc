// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/socket_table_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "netdev/base/byteorder.h"

namespace tapwire::internal {
namespace {

// Without sin6_scope_id, as RFC 2133 had the structure; Linux still takes it.
constexpr socklen_t kMinSockaddr6 = 24;

Endpoint FromSockaddr4(const sockaddr* address) {
  sockaddr_in in;
  std::memcpy(&in, address, sizeof(in));
  return {Ipv4Address::FromHostOrder(ntohl(in.sin_addr.s_addr)), ntohs(in.sin_port), 0};
}

Endpoint FromSockaddr6(const sockaddr* address, socklen_t length) {
  sockaddr_in6 in = {};
  std::memcpy(&in, address, std::min<size_t>(length, sizeof(in)));
  const Ipv6Address v6 = Ipv6Address::FromBytes(in.sin6_addr.s6_addr);
  Endpoint endpoint{v6, ntohs(in.sin6_port), 0};
  if (v6.IsV4Mapped()) {
    endpoint.address = v6.EmbeddedV4();
  } else if (v6.IsLinkLocal() || v6.IsMulticast()) {
    endpoint.zone = in.sin6_scope_id;
  }
  return endpoint;
}

int Parse4(AddressUse use, const sockaddr* address, socklen_t length, Endpoint& out) {
  if (length < sizeof(sockaddr_in)) return -EINVAL;
  if (address->sa_family != AF_INET) {
    if (address->sa_family != AF_UNSPEC || use == AddressUse::kConnect) return -EAFNOSUPPORT;
    if (use == AddressUse::kBind && !FromSockaddr4(address).address.IsUnspecified()) {
      return -EAFNOSUPPORT;
    }
  }
  out = FromSockaddr4(address);
  return 0;
}

sockaddr_in6 ToSockaddr6(const Endpoint& endpoint) {
  sockaddr_in6 out = {};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(endpoint.port);
  out.sin6_scope_id = endpoint.zone;
  const Ipv6Address v6 = endpoint.address.is_v6() ? endpoint.address.v6()
                         : endpoint.address.IsUnspecified()
                             ? Ipv6Address()
                             : Ipv6Address::FromV4Mapped(endpoint.address.v4());
  v6.CopyTo(out.sin6_addr.s6_addr);
  return out;
}

sockaddr_in ToSockaddr4(const Endpoint& endpoint) {
  sockaddr_in out = {};
  out.sin_family = AF_INET;
  out.sin_port = htons(endpoint.port);
  if (endpoint.address.is_v4()) out.sin_addr.s_addr = htonl(endpoint.address.v4().value());
  return out;
}

template <typename Sockaddr>
void Store(const Sockaddr& from, sockaddr* address, socklen_t* length) {
  std::memcpy(address, &from, std::min<size_t>(*length, sizeof(from)));
  *length = sizeof(from);
}

}  // namespace

int ParseAddress(IpFamily family, AddressUse use, const sockaddr* address, socklen_t length,
                 Endpoint& out) {
  if (address == nullptr) return -EFAULT;
  if (length < sizeof(sa_family_t)) return -EINVAL;
  const bool v4_allowed = family == IpFamily::kV6 && use == AddressUse::kSendTo;
  if (family == IpFamily::kV4 || (v4_allowed && address->sa_family == AF_INET)) {
    return Parse4(use, address, length, out);
  }
  if (length < kMinSockaddr6) return -EINVAL;
  if (address->sa_family != AF_INET6) return -EAFNOSUPPORT;
  out = FromSockaddr6(address, length);
  return 0;
}

int StoreAddress(IpFamily family, const Endpoint& endpoint, sockaddr* address, socklen_t* length) {
  if (address == nullptr) return 0;
  if (length == nullptr) return -EFAULT;
  if (static_cast<int>(*length) < 0) return -EINVAL;
  if (family == IpFamily::kV6) {
    Store(ToSockaddr6(endpoint), address, length);
  } else {
    Store(ToSockaddr4(endpoint), address, length);
  }
  return 0;
}

}  // namespace tapwire::internal
