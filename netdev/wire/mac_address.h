// SPDX-License-Identifier: Apache-2.0
//
// MacAddress: an IEEE 802 48-bit address as a plain value.
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

namespace tapwire {

class MacAddress {
 public:
  static constexpr size_t kLength = 6;

  // The all-zero address, which names no station.
  constexpr MacAddress() = default;
  constexpr explicit MacAddress(const std::array<uint8_t, 6>& bytes) : bytes_(bytes) {}
  constexpr MacAddress(uint8_t b0, uint8_t b1, uint8_t b2, uint8_t b3, uint8_t b4, uint8_t b5)
      : bytes_{b0, b1, b2, b3, b4, b5} {}

  // Takes the first six bytes. Fewer leave the rest zero, so no input can read outside.
  static constexpr MacAddress FromBytes(std::span<const uint8_t> bytes) {
    MacAddress mac;
    std::copy_n(bytes.begin(), std::min(bytes.size(), kLength), mac.bytes_.begin());
    return mac;
  }

  // Accepts exactly six two-digit groups parted by ':' or by '-' (not mixed), in either case.
  static std::optional<MacAddress> Parse(absl::string_view text);

  // ff:ff:ff:ff:ff:ff.
  static constexpr MacAddress kBroadcast() { return {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}; }

  constexpr bool IsZero() const { return *this == MacAddress(); }
  constexpr bool IsBroadcast() const { return *this == kBroadcast(); }
  // IEEE 802 group bit; the broadcast address counts as multicast.
  constexpr bool IsMulticast() const { return (bytes_[0] & 0x01) != 0; }
  // May be the address of one station: neither a group nor zero.
  constexpr bool IsUnicast() const { return !IsMulticast() && !IsZero(); }
  // Locally administered (universal/local bit set).
  constexpr bool IsLocal() const { return (bytes_[0] & 0x02) != 0; }

  constexpr std::span<const uint8_t, kLength> bytes() const { return bytes_; }
  constexpr void CopyTo(uint8_t* out) const { std::copy_n(bytes_.begin(), kLength, out); }

  // "02:00:00:00:00:01".
  std::string ToString() const;

  constexpr auto operator<=>(const MacAddress&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, const MacAddress& mac) {
    return H::combine(std::move(h), mac.bytes_);
  }

 private:
  std::array<uint8_t, kLength> bytes_ = {};
};

}  // namespace tapwire
