// SPDX-License-Identifier: Apache-2.0
//
// Neighbor Discovery messages and options (RFC 4861 §4, RFC 4191 §2, RFC 8106 §5.1, nonce of
// RFC 3971 §5.3.2 as RFC 7527 uses it). Views start at the ICMPv6 type byte, as the RFC draws them.
// Fields write a zero checksum: FillIcmpv6Checksum() fills it in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "netdev/base/byteorder.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/inline_bytes.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::wire {

struct NdpOptionType {
  static constexpr uint8_t kSourceLinkAddress = 1;
  static constexpr uint8_t kTargetLinkAddress = 2;
  static constexpr uint8_t kPrefixInformation = 3;
  static constexpr uint8_t kRedirectedHeader = 4;
  static constexpr uint8_t kMtu = 5;
  static constexpr uint8_t kNonce = 14;
  static constexpr uint8_t kRouteInformation = 24;
  static constexpr uint8_t kRdnss = 25;
};

struct NdpOption {
  uint8_t type = 0;
  std::span<const uint8_t> bytes = {};  // the whole option, a multiple of eight
};

// Walks options of a message.
class NdpOptionIterator {
 public:
  explicit NdpOptionIterator(std::span<const uint8_t> options) : rest_(options) {}

  // The next option, or nullopt at the end or at one of length zero or past the end.
  std::optional<NdpOption> Next();
  // RFC 4861 §4.6: a packet with such an option must be discarded silently.
  bool malformed() const { return malformed_; }

 private:
  std::span<const uint8_t> rest_;
  bool malformed_ = false;
};

// RFC 4861 §4.6.2.
struct PrefixInformation {
  static constexpr size_t kLength = 32;

  uint8_t prefix_length = 0;  // as received: more than 128 is the caller's to refuse
  bool on_link = false;
  bool autonomous = false;
  uint32_t valid_lifetime = 0;      // seconds; 0xffffffff is forever
  uint32_t preferred_lifetime = 0;  // likewise
  Ipv6Address prefix = {};

  // `bytes` is a whole option; nullopt unless it has 32 bytes.
  static std::optional<PrefixInformation> Parse(std::span<const uint8_t> bytes);
  void Emit(std::span<uint8_t> out) const;
  bool operator==(const PrefixInformation&) const = default;
};

// RFC 4191 §2.2: preference of a router or route; the reserved value 2 is read as medium.
enum class RoutePreference : int8_t { kLow = -1, kMedium = 0, kHigh = 1 };

// RFC 4191 §2.3.
struct RouteInformation {
  uint8_t prefix_length = 0;  // 0..128
  RoutePreference preference = RoutePreference::kMedium;
  uint32_t route_lifetime = 0;  // seconds
  Ipv6Address prefix = {};      // bits beyond prefix_length are zero after parsing

  // nullopt if the option's length does not fit the prefix length or the preference is the reserved
  // one (the option must then be ignored).
  static std::optional<RouteInformation> Parse(std::span<const uint8_t> bytes);
  // 8, 16 or 24: the shortest form that holds the prefix.
  size_t length() const;
  void Emit(std::span<uint8_t> out) const;
  bool operator==(const RouteInformation&) const = default;
};

// RFC 8106 §5.1.
struct RecursiveDnsServers {
  uint32_t lifetime = 0;  // seconds
  std::vector<Ipv6Address> addresses = {};

  // nullopt if the option holds no whole number of addresses or none.
  static std::optional<RecursiveDnsServers> Parse(std::span<const uint8_t> bytes);
  size_t length() const { return 8 + 16 * addresses.size(); }
  void Emit(std::span<uint8_t> out) const;
  bool operator==(const RecursiveDnsServers&) const = default;
};

// All the options of one message that we know. Unknown ones are skipped (RFC 4861 §4.6).
struct NdpOptions {
  std::optional<MacAddress> source_link_address = {};
  std::optional<MacAddress> target_link_address = {};
  std::optional<uint32_t> mtu = {};
  InlineBytes<30> nonce = {};  // empty when absent; 8n-2 bytes, usually six
  std::vector<PrefixInformation> prefixes = {};
  std::vector<RouteInformation> routes = {};
  std::vector<RecursiveDnsServers> dns_servers = {};
  // The quoted packet of a redirect, padded to a multiple of eight with zeros.
  std::vector<uint8_t> redirected_packet = {};

  // nullopt if an option is malformed (RFC 4861: discard the message). A known option of the wrong
  // length is ignored as if unknown; of repeated single options the first counts.
  static std::optional<NdpOptions> Parse(std::span<const uint8_t> options);
  size_t length() const;
  void Emit(std::span<uint8_t> out) const;
  bool operator==(const NdpOptions&) const = default;
};

// Common to all views below: the whole message and what stands in front of the options.
class NdpMessage {
 public:
  uint8_t type() const { return bytes_[0]; }
  uint8_t code() const { return bytes_[1]; }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  std::span<const uint8_t> options() const { return bytes_.subspan(fixed_length_); }
  std::span<const uint8_t> bytes() const { return bytes_; }

 protected:
  NdpMessage(std::span<const uint8_t> bytes, size_t fixed_length)
      : bytes_(bytes), fixed_length_(fixed_length) {}
  std::span<const uint8_t> bytes_;
  size_t fixed_length_;
};

// RFC 4861 §4.1.
class RouterSolicitationHeader : public NdpMessage {
 public:
  static constexpr size_t kMinLength = 8;
  static std::optional<RouterSolicitationHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    return RouterSolicitationHeader(bytes);
  }

 private:
  explicit RouterSolicitationHeader(std::span<const uint8_t> b) : NdpMessage(b, kMinLength) {}
};

// RFC 4861 §4.2, with the preference of RFC 4191 §2.2.
class RouterAdvertisementHeader : public NdpMessage {
 public:
  static constexpr size_t kMinLength = 16;
  static std::optional<RouterAdvertisementHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    return RouterAdvertisementHeader(bytes);
  }
  uint8_t cur_hop_limit() const { return bytes_[4]; }
  bool managed() const { return (bytes_[5] & 0x80) != 0; }
  bool other_config() const { return (bytes_[5] & 0x40) != 0; }
  RoutePreference preference() const;
  uint16_t router_lifetime() const { return LoadBe16(bytes_.data() + 6); }  // seconds
  uint32_t reachable_time() const { return LoadBe32(bytes_.data() + 8); }   // milliseconds
  uint32_t retrans_timer() const { return LoadBe32(bytes_.data() + 12); }   // milliseconds

 private:
  explicit RouterAdvertisementHeader(std::span<const uint8_t> b) : NdpMessage(b, kMinLength) {}
};

// RFC 4861 §4.3.
class NeighborSolicitationHeader : public NdpMessage {
 public:
  static constexpr size_t kMinLength = 24;
  static std::optional<NeighborSolicitationHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    return NeighborSolicitationHeader(bytes);
  }
  Ipv6Address target_address() const { return Ipv6Address::FromBytes(bytes_.subspan(8, 16)); }

 private:
  explicit NeighborSolicitationHeader(std::span<const uint8_t> b) : NdpMessage(b, kMinLength) {}
};

// RFC 4861 §4.4.
class NeighborAdvertisementHeader : public NdpMessage {
 public:
  static constexpr size_t kMinLength = 24;
  static std::optional<NeighborAdvertisementHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    return NeighborAdvertisementHeader(bytes);
  }
  bool router() const { return (bytes_[4] & 0x80) != 0; }
  bool solicited() const { return (bytes_[4] & 0x40) != 0; }
  bool override_flag() const { return (bytes_[4] & 0x20) != 0; }  // "override" is a keyword
  Ipv6Address target_address() const { return Ipv6Address::FromBytes(bytes_.subspan(8, 16)); }

 private:
  explicit NeighborAdvertisementHeader(std::span<const uint8_t> b) : NdpMessage(b, kMinLength) {}
};

// RFC 4861 §4.5.
class RedirectHeader : public NdpMessage {
 public:
  static constexpr size_t kMinLength = 40;
  static std::optional<RedirectHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    return RedirectHeader(bytes);
  }
  Ipv6Address target_address() const { return Ipv6Address::FromBytes(bytes_.subspan(8, 16)); }
  Ipv6Address destination_address() const { return Ipv6Address::FromBytes(bytes_.subspan(24, 16)); }

 private:
  explicit RedirectHeader(std::span<const uint8_t> b) : NdpMessage(b, kMinLength) {}
};

// From() of the following leaves `options` empty when the message's options are malformed.

struct RouterSolicitationFields {
  NdpOptions options = {};

  size_t length() const { return RouterSolicitationHeader::kMinLength + options.length(); }
  void Emit(std::span<uint8_t> out) const;
  static RouterSolicitationFields From(const RouterSolicitationHeader& h);
  bool operator==(const RouterSolicitationFields&) const = default;
};

struct RouterAdvertisementFields {
  uint8_t cur_hop_limit = 0;
  bool managed = false;
  bool other_config = false;
  RoutePreference preference = RoutePreference::kMedium;
  uint16_t router_lifetime = 0;  // seconds
  uint32_t reachable_time = 0;   // milliseconds
  uint32_t retrans_timer = 0;    // milliseconds
  NdpOptions options = {};

  size_t length() const { return RouterAdvertisementHeader::kMinLength + options.length(); }
  void Emit(std::span<uint8_t> out) const;
  static RouterAdvertisementFields From(const RouterAdvertisementHeader& h);
  bool operator==(const RouterAdvertisementFields&) const = default;
};

struct NeighborSolicitationFields {
  Ipv6Address target_address = {};
  NdpOptions options = {};

  size_t length() const { return NeighborSolicitationHeader::kMinLength + options.length(); }
  void Emit(std::span<uint8_t> out) const;
  static NeighborSolicitationFields From(const NeighborSolicitationHeader& h);
  bool operator==(const NeighborSolicitationFields&) const = default;
};

struct NeighborAdvertisementFields {
  bool router = false;
  bool solicited = false;
  bool override_flag = false;
  Ipv6Address target_address = {};
  NdpOptions options = {};

  size_t length() const { return NeighborAdvertisementHeader::kMinLength + options.length(); }
  void Emit(std::span<uint8_t> out) const;
  static NeighborAdvertisementFields From(const NeighborAdvertisementHeader& h);
  bool operator==(const NeighborAdvertisementFields&) const = default;
};

struct RedirectFields {
  Ipv6Address target_address = {};
  Ipv6Address destination_address = {};
  NdpOptions options = {};

  size_t length() const { return RedirectHeader::kMinLength + options.length(); }
  void Emit(std::span<uint8_t> out) const;
  static RedirectFields From(const RedirectHeader& h);
  bool operator==(const RedirectFields&) const = default;
};

}  // namespace tapwire::wire
