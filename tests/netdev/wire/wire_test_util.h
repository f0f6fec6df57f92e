// SPDX-License-Identifier: Apache-2.0
//
// Small helpers of the wire tests: bytes from hexadecimal text, and buffers of exactly the right
// size so that the address sanitizer sees every read outside.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::wire {

// Bytes of text such as "45 00 0054"; blanks are ignored.
inline std::vector<uint8_t> Hex(absl::string_view text) {
  std::vector<uint8_t> bytes;
  int digits = 0;
  int value = 0;
  for (const char c : text) {
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) continue;
    value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    if (++digits % 2 == 0) {
      bytes.push_back(static_cast<uint8_t>(value));
      value = 0;
    }
  }
  return bytes;
}

// A heap copy with not one byte of slack (std::vector may have capacity to spare).
class ExactBuffer {
 public:
  explicit ExactBuffer(std::span<const uint8_t> bytes) : ExactBuffer(bytes.size()) {
    if (!bytes.empty()) std::memcpy(data_.get(), bytes.data(), size_);
  }
  explicit ExactBuffer(size_t size) : data_(new uint8_t[size]()), size_(size) {}

  std::span<uint8_t> span() { return {data_.get(), size_}; }
  std::span<const uint8_t> span() const { return {data_.get(), size_}; }
  std::vector<uint8_t> vector() const { return {data_.get(), data_.get() + size_}; }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t size_;
};

inline std::vector<uint8_t> Concat(std::vector<uint8_t> a, std::span<const uint8_t> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::vector<uint8_t> RandomBytes(std::mt19937& random, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// RFC 1071 §1 read literally, independent of the library: 16-bit words in network order, an odd
// last byte padded with zero, carries added at the end.
inline uint16_t NaiveSum(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += (i % 2 == 0) ? bytes[i] * 256u : bytes[i];
  while (sum > 0xffff) sum = (sum >> 16) + (sum & 0xffff);
  return static_cast<uint16_t>(sum);
}

inline Ipv6Address V6(absl::string_view text) { return *Ipv6Address::Parse(text); }

}  // namespace tapwire::wire
