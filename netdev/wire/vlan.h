// SPDX-License-Identifier: Apache-2.0
//
// The IEEE 802.1Q tag: the four bytes behind EtherType kVlan or kQinQ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"

namespace tapwire::wire {

inline constexpr uint16_t kVlanMaxId = 0x0fff;

class VlanHeader {
 public:
  static constexpr size_t kLength = 4;
  static constexpr size_t kMinLength = kLength;

  // `bytes` start behind the outer EtherType.
  static std::optional<VlanHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return VlanHeader(bytes);
  }

  uint16_t tci() const { return LoadBe16(bytes_.data()); }
  uint8_t pcp() const { return static_cast<uint8_t>(tci() >> 13); }
  bool dei() const { return (tci() & 0x1000) != 0; }
  uint16_t vid() const { return tci() & kVlanMaxId; }
  // Type of what follows the tag.
  uint16_t ether_type() const { return LoadBe16(bytes_.data() + 2); }

  std::span<const uint8_t> bytes() const { return bytes_.first(kLength); }
  std::span<const uint8_t> payload() const { return bytes_.subspan(kLength); }

 private:
  explicit VlanHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct VlanFields {
  uint8_t pcp = 0;  // 0..7
  bool dei = false;
  uint16_t vid = 0;  // 0..4095
  uint16_t ether_type = 0;

  constexpr uint16_t tci() const {
    return static_cast<uint16_t>((pcp & 7) << 13 | (dei ? 0x1000 : 0) | (vid & kVlanMaxId));
  }
  static constexpr size_t length() { return VlanHeader::kLength; }
  void Emit(std::span<uint8_t> out) const {
    StoreBe16(out.data(), tci());
    StoreBe16(out.data() + 2, ether_type);
  }
  static VlanFields From(const VlanHeader& h) {
    return {.pcp = h.pcp(), .dei = h.dei(), .vid = h.vid(), .ether_type = h.ether_type()};
  }
  bool operator==(const VlanFields&) const = default;
};

}  // namespace tapwire::wire
