// SPDX-License-Identifier: Apache-2.0
//
// IP addresses, prefixes and endpoints as plain values, with their text forms: dotted quad for IPv4
// and RFC 5952 for IPv6. Knows address *classes* (RFC 1122 §3.2.1.3, RFC 4291 §2.4); what an
// interface does with them is decided elsewhere.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "netdev/base/byteorder.h"
#include "netdev/wire/mac_address.h"

namespace tapwire {

class Ipv4Address {
 public:
  static constexpr size_t kLength = 4;

  // 0.0.0.0.
  constexpr Ipv4Address() = default;
  constexpr Ipv4Address(uint8_t a, uint8_t b, uint8_t c, uint8_t d) : bytes_{a, b, c, d} {}
  static constexpr Ipv4Address FromHostOrder(uint32_t value) {
    Ipv4Address address;
    StoreBe32(address.bytes_.data(), value);
    return address;
  }
  // Takes the first four bytes; missing ones are zero.
  static constexpr Ipv4Address FromBytes(std::span<const uint8_t> bytes) {
    Ipv4Address address;
    std::copy_n(bytes.begin(), std::min(bytes.size(), kLength), address.bytes_.begin());
    return address;
  }
  // Strict dotted quad: four decimal numbers 0..255 without leading zeros.
  static std::optional<Ipv4Address> Parse(absl::string_view text);

  static const Ipv4Address kUnspecified;       // 0.0.0.0
  static const Ipv4Address kLoopback;          // 127.0.0.1
  static const Ipv4Address kLimitedBroadcast;  // 255.255.255.255
  static const Ipv4Address kAllSystems;        // 224.0.0.1 (RFC 1112 §4)
  static const Ipv4Address kAllRouters;        // 224.0.0.2
  static const Ipv4Address kIgmpv3Routers;     // 224.0.0.22 (RFC 9776)

  constexpr uint32_t value() const { return LoadBe32(bytes_.data()); }
  constexpr std::span<const uint8_t, kLength> bytes() const { return bytes_; }
  constexpr void CopyTo(uint8_t* out) const { std::copy_n(bytes_.begin(), kLength, out); }

  constexpr bool IsUnspecified() const { return value() == 0; }
  constexpr bool IsZeroNet() const { return bytes_[0] == 0; }
  constexpr bool IsLoopback() const { return bytes_[0] == 127; }
  constexpr bool IsMulticast() const { return (bytes_[0] & 0xf0) == 0xe0; }
  constexpr bool IsLinkLocalMulticast() const { return (value() >> 8) == 0xe00000; }
  constexpr bool IsLimitedBroadcast() const { return value() == 0xffffffff; }
  // RFC 3927: 169.254/16.
  constexpr bool IsLinkLocal() const { return (value() >> 16) == 0xa9fe; }
  // 240/4, which by number includes the limited broadcast address.
  constexpr bool IsClassE() const { return (bytes_[0] & 0xf0) == 0xf0; }

  std::string ToString() const;

  constexpr auto operator<=>(const Ipv4Address&) const = default;
  constexpr bool operator==(const Ipv4Address& other) const { return value() == other.value(); }
  template <typename H>
  friend H AbslHashValue(H h, const Ipv4Address& address) {
    return H::combine(std::move(h), address.value());
  }

 private:
  std::array<uint8_t, kLength> bytes_ = {};
};

inline constexpr Ipv4Address Ipv4Address::kUnspecified{0, 0, 0, 0};
inline constexpr Ipv4Address Ipv4Address::kLoopback{127, 0, 0, 1};
inline constexpr Ipv4Address Ipv4Address::kLimitedBroadcast{255, 255, 255, 255};
inline constexpr Ipv4Address Ipv4Address::kAllSystems{224, 0, 0, 1};
inline constexpr Ipv4Address Ipv4Address::kAllRouters{224, 0, 0, 2};
inline constexpr Ipv4Address Ipv4Address::kIgmpv3Routers{224, 0, 0, 22};

// Scope values of RFC 4291 §2.7, used for unicast too as RFC 6724 §3.1 maps them.
struct Ipv6Scope {
  static constexpr uint8_t kInterfaceLocal = 0x1;
  static constexpr uint8_t kLinkLocal = 0x2;
  static constexpr uint8_t kAdminLocal = 0x4;
  static constexpr uint8_t kSiteLocal = 0x5;
  static constexpr uint8_t kOrganizationLocal = 0x8;
  static constexpr uint8_t kGlobal = 0xe;
};

class Ipv6Address {
 public:
  static constexpr size_t kLength = 16;

  // "::".
  constexpr Ipv6Address() = default;
  constexpr explicit Ipv6Address(const std::array<uint8_t, 16>& bytes) : bytes_(bytes) {}
  // Takes the first sixteen bytes; missing ones are zero.
  static constexpr Ipv6Address FromBytes(std::span<const uint8_t> bytes) {
    Ipv6Address address;
    std::copy_n(bytes.begin(), std::min(bytes.size(), kLength), address.bytes_.begin());
    return address;
  }
  // Eight 16-bit groups in the order they are written.
  static constexpr Ipv6Address FromGroups(const std::array<uint16_t, 8>& groups) {
    Ipv6Address address;
    for (size_t i = 0; i < 8; ++i) StoreBe16(&address.bytes_[2 * i], groups[i]);
    return address;
  }
  // ::ffff:a.b.c.d (RFC 4291 §2.5.5.2).
  static constexpr Ipv6Address FromV4Mapped(Ipv4Address v4) {
    Ipv6Address address;
    address.bytes_[10] = address.bytes_[11] = 0xff;
    v4.CopyTo(&address.bytes_[12]);
    return address;
  }
  // All forms of RFC 4291 §2.2, without zone and without brackets.
  static std::optional<Ipv6Address> Parse(absl::string_view text);

  static const Ipv6Address kUnspecified;  // ::
  static const Ipv6Address kLoopback;     // ::1
  // RFC 4291 §2.7.1, link-local scope.
  static constexpr Ipv6Address AllNodes() { return LinkLocalMulticast(1); }          // ff02::1
  static constexpr Ipv6Address AllRouters() { return LinkLocalMulticast(2); }        // ff02::2
  static constexpr Ipv6Address AllMldv2Routers() { return LinkLocalMulticast(22); }  // ff02::16

  constexpr std::span<const uint8_t, kLength> bytes() const { return bytes_; }
  constexpr void CopyTo(uint8_t* out) const { std::copy_n(bytes_.begin(), kLength, out); }

  constexpr bool IsUnspecified() const { return high() == 0 && low() == 0; }
  constexpr bool IsLoopback() const { return high() == 0 && low() == 1; }
  constexpr bool IsMulticast() const { return bytes_[0] == 0xff; }
  // fe80::/10.
  constexpr bool IsLinkLocal() const { return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80; }
  // RFC 4193: fc00::/7.
  constexpr bool IsUniqueLocal() const { return (bytes_[0] & 0xfe) == 0xfc; }
  constexpr bool IsV4Mapped() const { return high() == 0 && (low() >> 32) == 0xffff; }
  // ff02::1:ff00:0/104 (RFC 4291 §2.7.1).
  constexpr bool IsSolicitedNode() const {
    return high() == 0xff02'0000'0000'0000 && (low() >> 24) == 0x1ff;
  }
  // A multicast address' own scope field, or the scope RFC 6724 §3.1 gives a unicast address.
  constexpr uint8_t scope() const {
    if (IsMulticast()) return bytes_[1] & 0x0f;
    if (IsLinkLocal() || IsLoopback()) return Ipv6Scope::kLinkLocal;
    if (bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0xc0) return Ipv6Scope::kSiteLocal;
    return Ipv6Scope::kGlobal;
  }
  // The address' solicited-node group, ff02::1:ffXX:XXXX.
  constexpr Ipv6Address SolicitedNode() const {
    Ipv6Address group = LinkLocalMulticast(0);
    group.bytes_[11] = 0x01;
    group.bytes_[12] = 0xff;
    std::copy_n(&bytes_[13], 3, &group.bytes_[13]);
    return group;
  }
  // The last four bytes; the IPv4 address when IsV4Mapped().
  constexpr Ipv4Address EmbeddedV4() const {
    return {bytes_[12], bytes_[13], bytes_[14], bytes_[15]};
  }

  // The one RFC 5952 §4 text form, with the dotted quad of §5 for v4-mapped addresses.
  std::string ToString() const;

  constexpr auto operator<=>(const Ipv6Address&) const = default;
  constexpr bool operator==(const Ipv6Address& other) const {
    return high() == other.high() && low() == other.low();
  }
  template <typename H>
  friend H AbslHashValue(H h, const Ipv6Address& address) {
    return H::combine(std::move(h), address.high(), address.low());
  }

 private:
  static constexpr Ipv6Address LinkLocalMulticast(uint8_t last) {
    Ipv6Address address;
    address.bytes_[0] = 0xff;
    address.bytes_[1] = 0x02;
    address.bytes_[15] = last;
    return address;
  }
  constexpr uint64_t high() const { return LoadBe64(bytes_.data()); }
  constexpr uint64_t low() const { return LoadBe64(bytes_.data() + 8); }

  std::array<uint8_t, kLength> bytes_ = {};
};

inline constexpr Ipv6Address Ipv6Address::kUnspecified{};
inline constexpr Ipv6Address Ipv6Address::kLoopback =
    Ipv6Address::FromGroups({0, 0, 0, 0, 0, 0, 0, 1});

enum class IpFamily : uint8_t { kV4, kV6 };

// An address of either family. The default is the IPv4 unspecified address.
class IpAddress {
 public:
  constexpr IpAddress() = default;
  // Implicit on purpose: an address of one family is an address.
  constexpr IpAddress(Ipv4Address v4)
      : family_(IpFamily::kV4) {  // NOLINT(google-explicit-constructor)
    v4.CopyTo(bytes_.data());
  }
  constexpr IpAddress(const Ipv6Address& v6)
      : family_(IpFamily::kV6) {  // NOLINT(google-explicit-constructor)
    v6.CopyTo(bytes_.data());
  }
  // Tries the dotted quad, then IPv6 text.
  static std::optional<IpAddress> Parse(absl::string_view text);
  // "::" or "0.0.0.0".
  static constexpr IpAddress Unspecified(IpFamily family) {
    return family == IpFamily::kV4 ? IpAddress(Ipv4Address()) : IpAddress(Ipv6Address());
  }

  constexpr IpFamily family() const { return family_; }
  constexpr bool is_v4() const { return family_ == IpFamily::kV4; }
  constexpr bool is_v6() const { return family_ == IpFamily::kV6; }
  // Meaningful only for the family asked; of the other one they give the raw leading bytes.
  constexpr Ipv4Address v4() const { return Ipv4Address::FromBytes(bytes_); }
  constexpr Ipv6Address v6() const { return Ipv6Address(bytes_); }
  // Four or sixteen bytes in network order.
  constexpr std::span<const uint8_t> bytes() const {
    return std::span<const uint8_t>(bytes_).first(is_v4() ? size_t{4} : size_t{16});
  }

  constexpr bool IsUnspecified() const {
    return is_v4() ? v4().IsUnspecified() : v6().IsUnspecified();
  }
  constexpr bool IsLoopback() const { return is_v4() ? v4().IsLoopback() : v6().IsLoopback(); }
  constexpr bool IsMulticast() const { return is_v4() ? v4().IsMulticast() : v6().IsMulticast(); }
  constexpr bool IsLinkLocal() const { return is_v4() ? v4().IsLinkLocal() : v6().IsLinkLocal(); }
  constexpr bool IsLimitedBroadcast() const { return is_v4() && v4().IsLimitedBroadcast(); }

  std::string ToString() const;

  constexpr auto operator<=>(const IpAddress&) const = default;
  // Two words instead of memcmp: each received packet makes several such comparisons.
  constexpr bool operator==(const IpAddress& other) const {
    return family_ == other.family_ && v6() == other.v6();
  }
  template <typename H>
  friend H AbslHashValue(H h, const IpAddress& address) {
    // The family comes last, so that no hash input is the end of another.
    if (address.is_v4()) return H::combine(std::move(h), address.v4(), IpFamily::kV4);
    return H::combine(std::move(h), address.v6(), IpFamily::kV6);
  }

 private:
  IpFamily family_ = IpFamily::kV4;
  std::array<uint8_t, 16> bytes_ = {};  // an IPv4 address uses the first four, the rest is zero
};

// An address with a prefix length ("10.0.0.1/24"): host bits are kept, Network() clears them.
struct IpPrefix {
  IpAddress address = {};
  int length = 0;  // 0..32 or 0..128

  // "ADDRESS/LENGTH"; a missing length, or one beyond the family's width, is refused.
  static std::optional<IpPrefix> Parse(absl::string_view text);

  // False for an address of the other family.
  bool Contains(const IpAddress& other) const;
  // The address with all host bits zero.
  IpAddress Network() const;
  // As many leading ones as the length says, in the family of the address.
  IpAddress Netmask() const;
  // The subnet-directed broadcast address; none for IPv6 and for /31 and /32 (RFC 3021 §2.1).
  std::optional<Ipv4Address> Broadcast() const;
  std::string ToString() const;

  bool operator==(const IpPrefix&) const = default;
};

// A transport address. `zone` is an interface index, zero for none (RFC 4007 §11 "%zone" text).
struct Endpoint {
  IpAddress address = {};
  uint16_t port = 0;
  uint32_t zone = 0;

  // "10.0.0.1:80", "[fe80::1]:80", "[fe80::1%2]:80". Port and zone are decimal.
  static std::optional<Endpoint> Parse(absl::string_view text);
  std::string ToString() const;

  constexpr auto operator<=>(const Endpoint&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Endpoint& endpoint) {
    return H::combine(std::move(h), endpoint.address, endpoint.port, endpoint.zone);
  }
};

// RFC 1112 §6.4: 01:00:5e and the low 23 bits of the group.
constexpr MacAddress MulticastMac(Ipv4Address group) {
  const auto b = group.bytes();
  return {0x01, 0x00, 0x5e, static_cast<uint8_t>(b[1] & 0x7f), b[2], b[3]};
}

// RFC 2464 §7: 33:33 and the low 32 bits of the group.
constexpr MacAddress MulticastMac(const Ipv6Address& group) {
  const auto b = group.bytes();
  return {0x33, 0x33, b[12], b[13], b[14], b[15]};
}

constexpr MacAddress MulticastMac(const IpAddress& group) {
  return group.is_v4() ? MulticastMac(group.v4()) : MulticastMac(group.v6());
}

}  // namespace tapwire
