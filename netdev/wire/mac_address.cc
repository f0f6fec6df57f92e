// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/mac_address.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace tapwire {
namespace {

// The value of a hexadecimal digit that absl::ascii_isxdigit() accepted.
constexpr int HexValue(char c) {
  if (c <= '9') return c - '0';
  return (c | 0x20) - 'a' + 10;
}

}  // namespace

std::optional<MacAddress> MacAddress::Parse(absl::string_view text) {
  if (text.size() != 3 * kLength - 1) return std::nullopt;
  const char separator = text[2];
  if (separator != ':' && separator != '-') return std::nullopt;
  MacAddress mac;
  for (size_t i = 0; i < kLength; ++i) {
    const auto high = static_cast<unsigned char>(text[3 * i]);
    const auto low = static_cast<unsigned char>(text[3 * i + 1]);
    if (!absl::ascii_isxdigit(high) || !absl::ascii_isxdigit(low)) return std::nullopt;
    if (i + 1 < kLength && text[3 * i + 2] != separator) return std::nullopt;
    mac.bytes_[i] = static_cast<uint8_t>(HexValue(text[3 * i]) << 4 | HexValue(text[3 * i + 1]));
  }
  return mac;
}

std::string MacAddress::ToString() const {
  return absl::StrFormat("%02x:%02x:%02x:%02x:%02x:%02x", bytes_[0], bytes_[1], bytes_[2],
                         bytes_[3], bytes_[4], bytes_[5]);
}

}  // namespace tapwire
