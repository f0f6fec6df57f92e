// SPDX-License-Identifier: Apache-2.0
//
// What IGMPv3 (RFC 9776) and MLDv2 (RFC 9777) share: record types and the two floating-point-like
// codes for times.
#pragma once

#include <cstdint>

namespace tapwire::wire {

// RFC 9776 §4.2.13 and RFC 9777 §5.2.12.
struct GroupRecordType {
  static constexpr uint8_t kModeIsInclude = 1;
  static constexpr uint8_t kModeIsExclude = 2;
  static constexpr uint8_t kChangeToInclude = 3;
  static constexpr uint8_t kChangeToExclude = 4;
  static constexpr uint8_t kAllowNewSources = 5;
  static constexpr uint8_t kBlockOldSources = 6;
};

// The 8-bit code of IGMPv3's Max Resp Code and of both QQICs: values from 128 on hold a mantissa of
// four and an exponent of three bits.
constexpr uint32_t DecodeGroupTime8(uint8_t code) {
  if (code < 0x80) return code;
  return ((code & 0x0fu) | 0x10u) << (((code >> 4) & 0x07) + 3);
}

// The 16-bit code of MLDv2's Maximum Response Code: from 32768 on twelve and three bits.
constexpr uint32_t DecodeGroupTime16(uint16_t code) {
  if (code < 0x8000) return code;
  return ((code & 0x0fffu) | 0x1000u) << (((code >> 12) & 0x07) + 3);
}

}  // namespace tapwire::wire
