// SPDX-License-Identifier: Apache-2.0
//
// UDP header (RFC 768).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"

namespace tapwire::wire {

class UdpHeader {
 public:
  static constexpr size_t kLength = 8;
  static constexpr size_t kMinLength = kLength;

  // nullopt if truncated. A length field below 8 or above the bytes present is the caller's to
  // refuse.
  static std::optional<UdpHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return UdpHeader(bytes);
  }

  uint16_t src_port() const { return LoadBe16(bytes_.data()); }
  uint16_t dst_port() const { return LoadBe16(bytes_.data() + 2); }
  uint16_t length() const { return LoadBe16(bytes_.data() + 4); }  // header and data
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 6); }

  std::span<const uint8_t> bytes() const { return bytes_.first(kLength); }
  // What the length field covers, as far as it is present; surplus bytes (RFC 9868) are left out.
  std::span<const uint8_t> payload() const {
    const size_t end = std::clamp<size_t>(length(), kLength, bytes_.size());
    return bytes_.subspan(kLength, end - kLength);
  }

 private:
  explicit UdpHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct UdpFields {
  uint16_t src_port = 0;
  uint16_t dst_port = 0;
  uint16_t length = 0;    // header and data, the RFC 768 field
  uint16_t checksum = 0;  // written as it is; 0 means "none" to an IPv4 receiver

  void Emit(std::span<uint8_t> out) const {
    StoreBe16(out.data(), src_port);
    StoreBe16(out.data() + 2, dst_port);
    StoreBe16(out.data() + 4, length);
    StoreBe16(out.data() + 6, checksum);
  }
  static UdpFields From(const UdpHeader& h) {
    return {.src_port = h.src_port(),
            .dst_port = h.dst_port(),
            .length = h.length(),
            .checksum = h.checksum()};
  }
  bool operator==(const UdpFields&) const = default;
};

}  // namespace tapwire::wire
