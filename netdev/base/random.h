// SPDX-License-Identifier: Apache-2.0
//
// Randomness comes in from outside, like time: secure bytes from the runner, seeded ones from
// tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tapwire {

// Source of random bytes. The numbers are cut from a buffer that one Fill() loads, so a system call
// behind Fill() is paid once per kBufferBytes.
class Random {
 public:
  virtual ~Random() = default;

  // Overwrites all of `out` with random bytes. Must not fail.
  virtual void Fill(std::span<uint8_t> out) = 0;

  uint32_t Next32() { return static_cast<uint32_t>(Take(4)); }
  uint64_t Next64() { return Take(8); }

  // Uniform in [0, n), without modulo bias. n = 0 gives 0.
  uint32_t Uniform(uint32_t n) {
    if (n == 0) {
      return 0;
    }
    // Widening multiplication with rejection (Lemire 2019, "Fast Random Integer Generation in an
    // Interval"): `low` below 2^32 mod n would favour the small results.
    uint64_t product = uint64_t{Next32()} * n;
    auto low = static_cast<uint32_t>(product);
    if (low < n) {
      const uint32_t threshold = (0U - n) % n;
      while (low < threshold) {
        product = uint64_t{Next32()} * n;
        low = static_cast<uint32_t>(product);
      }
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  static constexpr size_t kBufferBytes = 256;

  // Little-endian by definition, so that a seed means the same numbers on every machine.
  uint64_t Take(size_t n) {
    if (kBufferBytes - used_ < n) {
      Fill(buffer_);
      used_ = 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < n; ++i) {
      value |= uint64_t{buffer_[used_ + i]} << (8 * i);
      buffer_[used_ + i] = 0;  // a number that has been given out cannot be read back
    }
    used_ += n;
    return value;
  }

  std::array<uint8_t, kBufferBytes> buffer_{};
  size_t used_ = kBufferBytes;
};

}  // namespace tapwire
