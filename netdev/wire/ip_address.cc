// SPDX-License-Identifier: Apache-2.0
//
// Text forms of addresses, prefixes and endpoints. Parsers are strict, because the text comes from
// users and a guess would configure a wrong address: no octal, no missing parts, no blanks.
#include "netdev/wire/ip_address.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tapwire {
namespace {

// Reads an unsigned number without sign, blanks or leading zeros that is at most `max`.
std::optional<uint32_t> ParseDecimal(absl::string_view text, uint32_t max) {
  if (text.empty() || text.size() > 10 || (text[0] == '0' && text.size() > 1)) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  if (value > max) return std::nullopt;
  return static_cast<uint32_t>(value);
}

// Reads one group of one to four hexadecimal digits.
std::optional<uint16_t> ParseHexGroup(absl::string_view text) {
  if (text.empty() || text.size() > 4) return std::nullopt;
  uint32_t value = 0;
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return std::nullopt;
    value = value << 4 | static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return static_cast<uint16_t>(value);
}

// Up to eight groups, as they stand on one side of a "::".
struct Groups {
  std::array<uint16_t, 8> value = {};
  size_t count = 0;
};

// Reads colon-separated groups; the last one may be a dotted quad, which counts for two
// (RFC 4291 §2.2, form 3) when `may_end_in_v4`. Empty text is no groups.
std::optional<Groups> ParseGroups(absl::string_view text, bool may_end_in_v4) {
  Groups groups;
  if (text.empty()) return groups;
  for (;;) {
    const size_t colon = text.find(':');
    const absl::string_view part = text.substr(0, colon);
    const bool last = colon == absl::string_view::npos;
    if (last && may_end_in_v4 && part.find('.') != absl::string_view::npos) {
      const auto v4 = Ipv4Address::Parse(part);
      if (!v4 || groups.count > 6) return std::nullopt;
      groups.value[groups.count++] = static_cast<uint16_t>(v4->value() >> 16);
      groups.value[groups.count++] = static_cast<uint16_t>(v4->value());
      return groups;
    }
    const auto group = ParseHexGroup(part);
    if (!group || groups.count == 8) return std::nullopt;
    groups.value[groups.count++] = *group;
    if (last) return groups;
    text.remove_prefix(colon + 1);
  }
}

// The run of zero groups that "::" stands for, length 0 if none. RFC 5952 §4.2: the longest one of
// at least two groups, and of equal ones the first.
struct ZeroRun {
  size_t start = 0;
  size_t length = 0;
};

ZeroRun FindZeroRun(const std::array<uint16_t, 8>& groups) {
  ZeroRun best;
  for (size_t i = 0; i < 8;) {
    size_t end = i;
    while (end < 8 && groups[end] == 0) ++end;
    if (end - i > best.length) best = {.start = i, .length = end - i};
    i = end + 1;
  }
  return best.length >= 2 ? best : ZeroRun{};
}

// A copy with all bits from `length` on cleared, or with them all set.
template <size_t kSize>
std::array<uint8_t, kSize> FillHostBits(std::span<const uint8_t, kSize> bytes, int length,
                                        bool set) {
  std::array<uint8_t, kSize> result;
  for (size_t i = 0; i < kSize; ++i) {
    const int bits = std::clamp(length - static_cast<int>(8 * i), 0, 8);
    const auto host = static_cast<uint8_t>(0xff >> bits);
    result[i] = static_cast<uint8_t>(set ? bytes[i] | host : bytes[i] & ~host);
  }
  return result;
}

}  // namespace

std::optional<Ipv4Address> Ipv4Address::Parse(absl::string_view text) {
  Ipv4Address address;
  for (size_t i = 0; i < kLength; ++i) {
    const size_t dot = text.find('.');
    if ((dot == absl::string_view::npos) != (i + 1 == kLength)) return std::nullopt;
    const auto octet = ParseDecimal(text.substr(0, dot), 255);
    if (!octet) return std::nullopt;
    address.bytes_[i] = static_cast<uint8_t>(*octet);
    if (i + 1 < kLength) text.remove_prefix(dot + 1);
  }
  return address;
}

std::string Ipv4Address::ToString() const {
  return absl::StrCat(bytes_[0], ".", bytes_[1], ".", bytes_[2], ".", bytes_[3]);
}

std::optional<Ipv6Address> Ipv6Address::Parse(absl::string_view text) {
  const size_t gap = text.find("::");
  if (gap == absl::string_view::npos) {
    const auto groups = ParseGroups(text, /*may_end_in_v4=*/true);
    if (!groups || groups->count != 8) return std::nullopt;
    return FromGroups(groups->value);
  }
  const auto head = ParseGroups(text.substr(0, gap), /*may_end_in_v4=*/false);
  const auto tail = ParseGroups(text.substr(gap + 2), /*may_end_in_v4=*/true);
  // RFC 4291 §2.2: "::" stands for one or more groups.
  if (!head || !tail || head->count + tail->count > 7) return std::nullopt;
  std::array<uint16_t, 8> groups = head->value;
  std::copy_n(tail->value.begin(), tail->count,
              groups.end() - static_cast<std::ptrdiff_t>(tail->count));
  return FromGroups(groups);
}

std::string Ipv6Address::ToString() const {
  if (IsV4Mapped()) return absl::StrCat("::ffff:", EmbeddedV4().ToString());
  std::array<uint16_t, 8> groups;
  for (size_t i = 0; i < 8; ++i) groups[i] = LoadBe16(&bytes_[2 * i]);
  const ZeroRun run = FindZeroRun(groups);
  std::string text;
  for (size_t i = 0; i < 8; ++i) {
    if (run.length != 0 && i == run.start) {
      text += "::";
      i += run.length - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    absl::StrAppendFormat(&text, "%x", groups[i]);
  }
  return text;
}

std::optional<IpAddress> IpAddress::Parse(absl::string_view text) {
  if (const auto v4 = Ipv4Address::Parse(text)) return IpAddress(*v4);
  if (const auto v6 = Ipv6Address::Parse(text)) return IpAddress(*v6);
  return std::nullopt;
}

std::string IpAddress::ToString() const { return is_v4() ? v4().ToString() : v6().ToString(); }

std::optional<IpPrefix> IpPrefix::Parse(absl::string_view text) {
  const size_t slash = text.find('/');
  if (slash == absl::string_view::npos) return std::nullopt;
  const auto address = IpAddress::Parse(text.substr(0, slash));
  if (!address) return std::nullopt;
  const auto length = ParseDecimal(text.substr(slash + 1), address->is_v4() ? 32 : 128);
  if (!length) return std::nullopt;
  return IpPrefix{.address = *address, .length = static_cast<int>(*length)};
}

bool IpPrefix::Contains(const IpAddress& other) const {
  if (other.family() != address.family()) return false;
  return IpPrefix{.address = other, .length = length}.Network() == Network();
}

IpAddress IpPrefix::Network() const {
  if (address.is_v4()) {
    return Ipv4Address::FromBytes(FillHostBits(address.v4().bytes(), length, false));
  }
  return Ipv6Address(FillHostBits(address.v6().bytes(), length, false));
}

IpAddress IpPrefix::Netmask() const {
  if (address.is_v4()) {
    return Ipv4Address::FromBytes(
        FillHostBits(Ipv4Address::kLimitedBroadcast.bytes(), length, false));
  }
  Ipv6Address ones =
      Ipv6Address::FromGroups({0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff});
  return Ipv6Address(FillHostBits(ones.bytes(), length, false));
}

std::optional<Ipv4Address> IpPrefix::Broadcast() const {
  if (address.is_v6() || length >= 31) return std::nullopt;
  return Ipv4Address::FromBytes(FillHostBits(address.v4().bytes(), length, true));
}

std::string IpPrefix::ToString() const { return absl::StrCat(address.ToString(), "/", length); }

std::optional<Endpoint> Endpoint::Parse(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return std::nullopt;
  const auto port = ParseDecimal(text.substr(colon + 1), 65535);
  if (!port) return std::nullopt;
  Endpoint endpoint{.port = static_cast<uint16_t>(*port)};

  absl::string_view host = text.substr(0, colon);
  if (host.front() != '[') {
    const auto v4 = Ipv4Address::Parse(host);
    if (!v4) return std::nullopt;
    endpoint.address = *v4;
    return endpoint;
  }
  if (host.back() != ']') return std::nullopt;
  host = host.substr(1, host.size() - 2);
  const size_t percent = host.find('%');
  if (percent != absl::string_view::npos) {
    const auto zone = ParseDecimal(host.substr(percent + 1), 0xffffffff);
    if (!zone) return std::nullopt;
    endpoint.zone = *zone;
    host = host.substr(0, percent);
  }
  const auto v6 = Ipv6Address::Parse(host);
  if (!v6) return std::nullopt;
  endpoint.address = *v6;
  return endpoint;
}

std::string Endpoint::ToString() const {
  if (address.is_v4()) return absl::StrCat(address.ToString(), ":", port);
  if (zone == 0) return absl::StrCat("[", address.ToString(), "]:", port);
  return absl::StrCat("[", address.ToString(), "%", zone, "]:", port);
}

}  // namespace tapwire
