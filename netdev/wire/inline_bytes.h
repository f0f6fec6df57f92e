// SPDX-License-Identifier: Apache-2.0
//
// A short byte string held inside its owner, for the bounded variable parts of headers (IPv4
// options, an ND nonce). It never allocates, so that Fields stay cheap values.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace tapwire::wire {

template <size_t kCapacity>
class InlineBytes {
 public:
  constexpr InlineBytes() = default;
  constexpr InlineBytes(std::initializer_list<uint8_t> bytes) {
    Assign({bytes.begin(), bytes.size()});
  }
  constexpr explicit InlineBytes(std::span<const uint8_t> bytes) { Assign(bytes); }

  // Keeps the first kCapacity bytes; a longer input is cut, because it comes from peers and the
  // capacities are the maxima of the formats.
  constexpr void Assign(std::span<const uint8_t> bytes) {
    size_ = std::min(bytes.size(), kCapacity);
    std::copy_n(bytes.begin(), size_, bytes_.begin());
    std::fill(bytes_.begin() + static_cast<std::ptrdiff_t>(size_), bytes_.end(), uint8_t{0});
  }

  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const uint8_t* data() const { return bytes_.data(); }
  constexpr std::span<const uint8_t> span() const { return {bytes_.data(), size_}; }

  // Bytes past size() are always zero, so comparing everything compares the contents.
  constexpr bool operator==(const InlineBytes&) const = default;

 private:
  std::array<uint8_t, kCapacity> bytes_ = {};
  size_t size_ = 0;
};

}  // namespace tapwire::wire
