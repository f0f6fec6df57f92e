// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores of big-endian ("network order", RFC 791 Appendix B) integers at any alignment.
// Written as shifts: both compilers turn each into one load or store plus a byte swap, and they
// work in constant expressions. There are deliberately no overlay structs and no casts.
#pragma once

#include <cstdint>

namespace tapwire {

// Each load reads exactly the bytes of its width at p; each store writes exactly those.
constexpr uint16_t LoadBe16(const uint8_t* p) {
  return static_cast<uint16_t>((uint32_t{p[0]} << 8) | p[1]);
}

constexpr uint32_t LoadBe32(const uint8_t* p) {
  return (uint32_t{p[0]} << 24) | (uint32_t{p[1]} << 16) | (uint32_t{p[2]} << 8) | p[3];
}

constexpr uint64_t LoadBe64(const uint8_t* p) {
  return (uint64_t{LoadBe32(p)} << 32) | LoadBe32(p + 4);
}

constexpr void StoreBe16(uint8_t* p, uint16_t v) {
  p[0] = static_cast<uint8_t>(v >> 8);
  p[1] = static_cast<uint8_t>(v);
}

constexpr void StoreBe32(uint8_t* p, uint32_t v) {
  p[0] = static_cast<uint8_t>(v >> 24);
  p[1] = static_cast<uint8_t>(v >> 16);
  p[2] = static_cast<uint8_t>(v >> 8);
  p[3] = static_cast<uint8_t>(v);
}

constexpr void StoreBe64(uint8_t* p, uint64_t v) {
  StoreBe32(p, static_cast<uint32_t>(v >> 32));
  StoreBe32(p + 4, static_cast<uint32_t>(v));
}

}  // namespace tapwire
