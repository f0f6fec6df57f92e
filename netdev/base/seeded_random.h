// SPDX-License-Identifier: Apache-2.0
//
// Deterministic random numbers for tests and the simulator: xoshiro256** (Blackman and Vigna),
// seeded through splitmix64. Predictable by design; never use it on a real network.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "netdev/base/random.h"

namespace tapwire {

// One step of the splitmix64 sequence; advances `state`.
constexpr uint64_t SplitMix64(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The xoshiro256** generator. The state must not be all zero.
class Xoshiro256 {
 public:
  explicit constexpr Xoshiro256(std::array<uint64_t, 4> state) : s_(state) {}

  constexpr uint64_t Next() {
    const uint64_t result = std::rotl(s_[1] * 5, 7) * 9;
    const uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = std::rotl(s_[3], 45);
    return result;
  }

 private:
  std::array<uint64_t, 4> s_;
};

// Same seed, same bytes, on every machine.
class SeededRandom : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : generator_(StateFrom(seed)) {}

  void Fill(std::span<uint8_t> out) override {
    size_t i = 0;
    while (i < out.size()) {
      uint64_t word = generator_.Next();
      for (int byte = 0; byte < 8 && i < out.size(); ++byte, word >>= 8) {
        out[i++] = static_cast<uint8_t>(word);
      }
    }
  }

 private:
  static std::array<uint64_t, 4> StateFrom(uint64_t seed) {
    std::array<uint64_t, 4> state;
    for (uint64_t& word : state) {
      word = SplitMix64(seed);
    }
    return state;
  }

  Xoshiro256 generator_;
};

}  // namespace tapwire
