// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/ndp.h"

#include <algorithm>

namespace tapwire::wire {
namespace {

constexpr size_t kLinkAddressLength = 8;
constexpr size_t kMtuLength = 8;

constexpr size_t RoundUp8(size_t n) { return (n + 7) & ~size_t{7}; }

// Type and length bytes of an option; `length` is in bytes.
void EmitOptionHeader(uint8_t* out, uint8_t type, size_t length) {
  out[0] = type;
  out[1] = static_cast<uint8_t>(length / 8);
}

// RFC 4191 §2.1: two bits, 01 high, 00 medium, 11 low, 10 reserved.
constexpr uint8_t PreferenceBits(RoutePreference preference) {
  switch (preference) {
    case RoutePreference::kHigh:
      return 1;
    case RoutePreference::kLow:
      return 3;
    case RoutePreference::kMedium:
      break;
  }
  return 0;
}

constexpr RoutePreference PreferenceFromBits(uint8_t bits) {
  if (bits == 1) return RoutePreference::kHigh;
  if (bits == 3) return RoutePreference::kLow;
  return RoutePreference::kMedium;
}

// Bytes of a route's prefix that the option carries: RFC 4191 §2.3 asks for option length 1, 2 or 3
// (units of eight) at least for prefix lengths 0, 1..64, 65..128.
constexpr size_t RoutePrefixBytes(uint8_t prefix_length) {
  if (prefix_length == 0) return 0;
  return prefix_length <= 64 ? 8 : 16;
}

template <typename T>
void Append(std::vector<T>& list, std::optional<T> item) {
  if (item) list.push_back(*std::move(item));
}

void TakeLinkAddress(std::span<const uint8_t> bytes, std::optional<MacAddress>& address) {
  if (!address && bytes.size() == kLinkAddressLength) {
    address = MacAddress::FromBytes(bytes.subspan(2));
  }
}

void TakeOption(const NdpOption& option, NdpOptions& options) {
  const std::span<const uint8_t> bytes = option.bytes;
  switch (option.type) {
    case NdpOptionType::kSourceLinkAddress:
      return TakeLinkAddress(bytes, options.source_link_address);
    case NdpOptionType::kTargetLinkAddress:
      return TakeLinkAddress(bytes, options.target_link_address);
    case NdpOptionType::kPrefixInformation:
      return Append(options.prefixes, PrefixInformation::Parse(bytes));
    case NdpOptionType::kRedirectedHeader:
      // RFC 4861 §4.6.3: six reserved bytes, then the packet.
      if (options.redirected_packet.empty()) {
        options.redirected_packet.assign(bytes.begin() + 8, bytes.end());
      }
      return;
    case NdpOptionType::kMtu:
      if (!options.mtu && bytes.size() == kMtuLength) options.mtu = LoadBe32(bytes.data() + 4);
      return;
    case NdpOptionType::kNonce:
      if (options.nonce.empty()) options.nonce.Assign(bytes.subspan(2));
      return;
    case NdpOptionType::kRouteInformation:
      return Append(options.routes, RouteInformation::Parse(bytes));
    case NdpOptionType::kRdnss:
      return Append(options.dns_servers, RecursiveDnsServers::Parse(bytes));
    default:
      return;
  }
}

// Writes options one behind the other.
class OptionWriter {
 public:
  explicit OptionWriter(std::span<uint8_t> out) : rest_(out) {}

  // Space for one option of `length` bytes, zeroed, with its first two bytes written.
  std::span<uint8_t> Begin(uint8_t type, size_t length) {
    const std::span<uint8_t> option = rest_.first(length);
    std::fill(option.begin(), option.end(), uint8_t{0});
    EmitOptionHeader(option.data(), type, length);
    rest_ = rest_.subspan(length);
    return option;
  }

  template <typename T>
  void EmitAll(uint8_t type, const std::vector<T>& list, size_t (*length)(const T&)) {
    for (const T& item : list) item.Emit(Begin(type, length(item)));
  }

 private:
  std::span<uint8_t> rest_;
};

// The eight bytes all messages begin with: type, code 0, checksum 0, and the word behind.
void EmitMessageHeader(std::span<uint8_t> out, uint8_t type, uint32_t rest) {
  Icmpv6Fields{.type = type, .rest = rest}.Emit(out);
}

NdpOptions OptionsOf(const NdpMessage& message) {
  return NdpOptions::Parse(message.options()).value_or(NdpOptions{});
}

}  // namespace

std::optional<NdpOption> NdpOptionIterator::Next() {
  if (malformed_ || rest_.empty()) return std::nullopt;
  const size_t length = rest_.size() >= 2 ? size_t{8} * rest_[1] : 0;
  if (length == 0 || length > rest_.size()) {
    malformed_ = true;
    return std::nullopt;
  }
  const NdpOption option{.type = rest_[0], .bytes = rest_.first(length)};
  rest_ = rest_.subspan(length);
  return option;
}

std::optional<PrefixInformation> PrefixInformation::Parse(std::span<const uint8_t> bytes) {
  if (bytes.size() != kLength) return std::nullopt;
  return PrefixInformation{.prefix_length = bytes[2],
                           .on_link = (bytes[3] & 0x80) != 0,
                           .autonomous = (bytes[3] & 0x40) != 0,
                           .valid_lifetime = LoadBe32(bytes.data() + 4),
                           .preferred_lifetime = LoadBe32(bytes.data() + 8),
                           .prefix = Ipv6Address::FromBytes(bytes.subspan(16))};
}

void PrefixInformation::Emit(std::span<uint8_t> out) const {
  EmitOptionHeader(out.data(), NdpOptionType::kPrefixInformation, kLength);
  out[2] = prefix_length;
  out[3] = static_cast<uint8_t>((on_link ? 0x80 : 0) | (autonomous ? 0x40 : 0));
  StoreBe32(out.data() + 4, valid_lifetime);
  StoreBe32(out.data() + 8, preferred_lifetime);
  StoreBe32(out.data() + 12, 0);
  prefix.CopyTo(out.data() + 16);
}

std::optional<RouteInformation> RouteInformation::Parse(std::span<const uint8_t> bytes) {
  if (bytes.size() < 8 || bytes.size() > 24) return std::nullopt;
  const uint8_t prefix_length = bytes[2];
  const uint8_t preference_bits = bytes[3] >> 3 & 0x03;
  if (prefix_length > 128 || preference_bits == 2) return std::nullopt;
  if (bytes.size() < 8 + RoutePrefixBytes(prefix_length)) return std::nullopt;
  const Ipv6Address prefix = Ipv6Address::FromBytes(bytes.subspan(8));
  return RouteInformation{
      .prefix_length = prefix_length,
      .preference = PreferenceFromBits(preference_bits),
      .route_lifetime = LoadBe32(bytes.data() + 4),
      .prefix = IpPrefix{.address = prefix, .length = prefix_length}.Network().v6()};
}

size_t RouteInformation::length() const { return 8 + RoutePrefixBytes(prefix_length); }

void RouteInformation::Emit(std::span<uint8_t> out) const {
  EmitOptionHeader(out.data(), NdpOptionType::kRouteInformation, length());
  out[2] = prefix_length;
  out[3] = static_cast<uint8_t>(PreferenceBits(preference) << 3);
  StoreBe32(out.data() + 4, route_lifetime);
  std::copy_n(prefix.bytes().begin(), RoutePrefixBytes(prefix_length), out.data() + 8);
}

std::optional<RecursiveDnsServers> RecursiveDnsServers::Parse(std::span<const uint8_t> bytes) {
  // RFC 8106 §5.3.1: the length is valid if it is 3 or more and odd.
  if (bytes.size() < 24 || (bytes.size() - 8) % 16 != 0) return std::nullopt;
  RecursiveDnsServers servers{.lifetime = LoadBe32(bytes.data() + 4)};
  for (size_t i = 8; i < bytes.size(); i += 16) {
    servers.addresses.push_back(Ipv6Address::FromBytes(bytes.subspan(i, 16)));
  }
  return servers;
}

void RecursiveDnsServers::Emit(std::span<uint8_t> out) const {
  EmitOptionHeader(out.data(), NdpOptionType::kRdnss, length());
  StoreBe16(out.data() + 2, 0);
  StoreBe32(out.data() + 4, lifetime);
  uint8_t* p = out.data() + 8;
  for (const Ipv6Address& address : addresses) {
    address.CopyTo(p);
    p += Ipv6Address::kLength;
  }
}

std::optional<NdpOptions> NdpOptions::Parse(std::span<const uint8_t> bytes) {
  NdpOptions options;
  NdpOptionIterator it(bytes);
  while (const auto option = it.Next()) TakeOption(*option, options);
  if (it.malformed()) return std::nullopt;
  return options;
}

size_t NdpOptions::length() const {
  size_t total = 0;
  if (source_link_address) total += kLinkAddressLength;
  if (target_link_address) total += kLinkAddressLength;
  if (mtu) total += kMtuLength;
  if (!nonce.empty()) total += RoundUp8(2 + nonce.size());
  total += prefixes.size() * PrefixInformation::kLength;
  for (const RouteInformation& route : routes) total += route.length();
  for (const RecursiveDnsServers& servers : dns_servers) total += servers.length();
  if (!redirected_packet.empty()) total += 8 + RoundUp8(redirected_packet.size());
  return total;
}

void NdpOptions::Emit(std::span<uint8_t> out) const {
  OptionWriter writer(out);
  if (source_link_address) {
    source_link_address->CopyTo(
        writer.Begin(NdpOptionType::kSourceLinkAddress, kLinkAddressLength).data() + 2);
  }
  if (target_link_address) {
    target_link_address->CopyTo(
        writer.Begin(NdpOptionType::kTargetLinkAddress, kLinkAddressLength).data() + 2);
  }
  if (mtu) StoreBe32(writer.Begin(NdpOptionType::kMtu, kMtuLength).data() + 4, *mtu);
  if (!nonce.empty()) {
    const auto option = writer.Begin(NdpOptionType::kNonce, RoundUp8(2 + nonce.size()));
    std::copy_n(nonce.data(), nonce.size(), option.data() + 2);
  }
  writer.EmitAll<PrefixInformation>(NdpOptionType::kPrefixInformation, prefixes,
                                    [](const auto&) { return PrefixInformation::kLength; });
  writer.EmitAll<RouteInformation>(NdpOptionType::kRouteInformation, routes,
                                   [](const auto& route) { return route.length(); });
  writer.EmitAll<RecursiveDnsServers>(NdpOptionType::kRdnss, dns_servers,
                                      [](const auto& servers) { return servers.length(); });
  if (!redirected_packet.empty()) {
    const auto option =
        writer.Begin(NdpOptionType::kRedirectedHeader, 8 + RoundUp8(redirected_packet.size()));
    std::copy(redirected_packet.begin(), redirected_packet.end(), option.data() + 8);
  }
}

RoutePreference RouterAdvertisementHeader::preference() const {
  // RFC 4191 §2.2: the reserved value MUST be treated as medium.
  return PreferenceFromBits(bytes_[5] >> 3 & 0x03);
}

void RouterSolicitationFields::Emit(std::span<uint8_t> out) const {
  EmitMessageHeader(out, Icmpv6Type::kRouterSolicitation, 0);
  options.Emit(out.subspan(RouterSolicitationHeader::kMinLength));
}

RouterSolicitationFields RouterSolicitationFields::From(const RouterSolicitationHeader& h) {
  return {.options = OptionsOf(h)};
}

void RouterAdvertisementFields::Emit(std::span<uint8_t> out) const {
  const uint32_t flags = (managed ? 0x80u : 0u) | (other_config ? 0x40u : 0u) |
                         static_cast<uint32_t>(PreferenceBits(preference) << 3);
  EmitMessageHeader(out, Icmpv6Type::kRouterAdvertisement,
                    uint32_t{cur_hop_limit} << 24 | flags << 16 | router_lifetime);
  StoreBe32(out.data() + 8, reachable_time);
  StoreBe32(out.data() + 12, retrans_timer);
  options.Emit(out.subspan(RouterAdvertisementHeader::kMinLength));
}

RouterAdvertisementFields RouterAdvertisementFields::From(const RouterAdvertisementHeader& h) {
  return {.cur_hop_limit = h.cur_hop_limit(),
          .managed = h.managed(),
          .other_config = h.other_config(),
          .preference = h.preference(),
          .router_lifetime = h.router_lifetime(),
          .reachable_time = h.reachable_time(),
          .retrans_timer = h.retrans_timer(),
          .options = OptionsOf(h)};
}

void NeighborSolicitationFields::Emit(std::span<uint8_t> out) const {
  EmitMessageHeader(out, Icmpv6Type::kNeighborSolicitation, 0);
  target_address.CopyTo(out.data() + 8);
  options.Emit(out.subspan(NeighborSolicitationHeader::kMinLength));
}

NeighborSolicitationFields NeighborSolicitationFields::From(const NeighborSolicitationHeader& h) {
  return {.target_address = h.target_address(), .options = OptionsOf(h)};
}

void NeighborAdvertisementFields::Emit(std::span<uint8_t> out) const {
  EmitMessageHeader(out, Icmpv6Type::kNeighborAdvertisement,
                    (router ? 0x80000000u : 0u) | (solicited ? 0x40000000u : 0u) |
                        (override_flag ? 0x20000000u : 0u));
  target_address.CopyTo(out.data() + 8);
  options.Emit(out.subspan(NeighborAdvertisementHeader::kMinLength));
}

NeighborAdvertisementFields NeighborAdvertisementFields::From(
    const NeighborAdvertisementHeader& h) {
  return {.router = h.router(),
          .solicited = h.solicited(),
          .override_flag = h.override_flag(),
          .target_address = h.target_address(),
          .options = OptionsOf(h)};
}

void RedirectFields::Emit(std::span<uint8_t> out) const {
  EmitMessageHeader(out, Icmpv6Type::kRedirect, 0);
  target_address.CopyTo(out.data() + 8);
  destination_address.CopyTo(out.data() + 24);
  options.Emit(out.subspan(RedirectHeader::kMinLength));
}

RedirectFields RedirectFields::From(const RedirectHeader& h) {
  return {.target_address = h.target_address(),
          .destination_address = h.destination_address(),
          .options = OptionsOf(h)};
}

}  // namespace tapwire::wire
