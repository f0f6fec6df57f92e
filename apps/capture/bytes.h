// SPDX-License-Identifier: Apache-2.0
// Bounded reading of captured bytes. The checker shares no parser with the stack it judges: a
// misunderstanding in a common parser would hide itself.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tapwire::capture {

// A view of captured bytes. Reading outside gives 0, so a check that forgot to test the length is
// wrong about the frame but never about memory.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}  // NOLINT: a view of a view

  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  std::span<const uint8_t> span() const { return bytes_; }

  uint8_t U8(size_t at) const { return at < size() ? bytes_[at] : uint8_t{0}; }
  uint16_t U16(size_t at) const { return static_cast<uint16_t>(U8(at) << 8 | U8(at + 1)); }
  uint32_t U32(size_t at) const { return uint32_t{U16(at)} << 16 | U16(at + 2); }

  Bytes From(size_t at) const { return bytes_.subspan(std::min(at, size())); }
  Bytes First(size_t count) const { return bytes_.first(std::min(count, size())); }
  bool AllZero() const {
    return std::all_of(bytes_.begin(), bytes_.end(), [](uint8_t byte) { return byte == 0; });
  }

 private:
  std::span<const uint8_t> bytes_;
};

// An IPv4 or IPv6 address as it stands on the wire; the unused tail of an IPv4 one is zero.
struct Address {
  bool v6 = false;
  std::array<uint8_t, 16> octets{};

  static Address V4(Bytes bytes);
  static Address V6(Bytes bytes);
  uint32_t v4() const { return Bytes(octets).U32(0); }
  size_t size() const { return v6 ? 16 : 4; }
  std::span<const uint8_t> span() const { return std::span<const uint8_t>(octets).first(size()); }

  bool is_unspecified() const { return Bytes(octets).AllZero(); }
  bool is_multicast() const { return v6 ? octets[0] == 0xff : octets[0] >> 4 == 0xe; }
  bool is_loopback() const;
  // fe80::/10; an IPv4 address never is one here.
  bool is_link_local() const { return v6 && octets[0] == 0xfe && (octets[1] & 0xc0) == 0x80; }
  std::string ToString() const;

  friend bool operator==(const Address&, const Address&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Address& address) {
    return H::combine(std::move(state), address.v6, address.octets);
  }
};

std::string MacToString(Bytes mac);

// One's complement sum of 16-bit words, folded, not complemented; `sum` is what was summed before.
// The plain loop of RFC 1071 §4.1, on purpose: it is the judge of the fast ones.
uint16_t OnesSum(Bytes bytes, uint32_t sum = 0);
// Sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1), not complemented.
uint16_t PseudoHeaderSum(const Address& source, const Address& destination, uint8_t protocol,
                         uint32_t length);

}  // namespace tapwire::capture
