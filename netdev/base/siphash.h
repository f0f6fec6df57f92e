// SPDX-License-Identifier: Apache-2.0
//
// SipHash (Aumasson and Bernstein, 2012): a keyed 64-bit hash that a peer who does not know the key
// cannot steer. RFC 9293 §3.4.1 (initial sequence numbers) and RFC 6056 §3.3 (ports) need such a
// function. Variant 1-3 is for hash tables, 2-4 for values a peer gets to see.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "netdev/base/random.h"

namespace tapwire {

struct SipKey {
  uint64_t k0 = 0;
  uint64_t k1 = 0;

  static SipKey Generate(Random& random) {
    SipKey key;
    key.k0 = random.Next64();
    key.k1 = random.Next64();
    return key;
  }
};

namespace internal {

struct SipState {
  uint64_t v0, v1, v2, v3;

  explicit constexpr SipState(const SipKey& key)
      : v0(key.k0 ^ 0x736f6d6570736575),
        v1(key.k1 ^ 0x646f72616e646f6d),
        v2(key.k0 ^ 0x6c7967656e657261),
        v3(key.k1 ^ 0x7465646279746573) {}

  template <int kRounds>
  constexpr void Mix() {
    for (int i = 0; i < kRounds; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }
};

// Up to 8 bytes, little-endian. Compilers turn the constant case into one load.
constexpr uint64_t SipLoad(const uint8_t* p, size_t n) {
  uint64_t word = 0;
  for (size_t i = 0; i < n; ++i) {
    word |= uint64_t{p[i]} << (8 * i);
  }
  return word;
}

template <int kCompressionRounds, int kFinalRounds>
constexpr uint64_t SipHash(const SipKey& key, std::span<const uint8_t> data) {
  SipState state(key);
  const uint8_t* p = data.data();
  const size_t tail = data.size() % 8;
  for (size_t left = data.size() - tail; left > 0; left -= 8, p += 8) {
    const uint64_t word = uint64_t{p[0]} | uint64_t{p[1]} << 8 | uint64_t{p[2]} << 16 |
                          uint64_t{p[3]} << 24 | uint64_t{p[4]} << 32 | uint64_t{p[5]} << 40 |
                          uint64_t{p[6]} << 48 | uint64_t{p[7]} << 56;
    state.v3 ^= word;
    state.template Mix<kCompressionRounds>();
    state.v0 ^= word;
  }
  const uint64_t last = SipLoad(p, tail) | uint64_t{data.size()} << 56;
  state.v3 ^= last;
  state.template Mix<kCompressionRounds>();
  state.v0 ^= last;
  state.v2 ^= 0xff;
  state.template Mix<kFinalRounds>();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace internal

constexpr uint64_t SipHash13(const SipKey& key, std::span<const uint8_t> data) {
  return internal::SipHash<1, 3>(key, data);
}

constexpr uint64_t SipHash24(const SipKey& key, std::span<const uint8_t> data) {
  return internal::SipHash<2, 4>(key, data);
}

}  // namespace tapwire
