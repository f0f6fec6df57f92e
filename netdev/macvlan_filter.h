// SPDX-License-Identifier: Apache-2.0
// The group filter of a macvlan or of its port: 256 bits, one for each value of a hash of the
// address. Passes everything that was added, and now and then something else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "netdev/base/byteorder.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::netdev {

class MacvlanFilter {
 public:
  static constexpr size_t kBits = 256;

  // The last four bytes only: those before are the same in all groups of one protocol (RFC 1112
  // §6.4, RFC 2464 §7). The salt makes two groups that collide in one filter differ in another.
  static uint8_t IndexOf(const MacAddress& address, uint32_t salt) {
    const uint32_t low = LoadBe32(address.bytes().data() + 2) ^ salt;
    return static_cast<uint8_t>((low * 0x9e3779b1U) >> 24);
  }

  bool Has(uint8_t index) const { return ((bits_[index / 64] >> (index % 64)) & 1) != 0; }
  void Add(uint8_t index) { bits_[index / 64] |= uint64_t{1} << (index % 64); }
  void Clear() { bits_.fill(0); }
  void Fill() { bits_.fill(~uint64_t{0}); }

 private:
  std::array<uint64_t, kBits / 64> bits_{};
};

}  // namespace tapwire::netdev
