// SPDX-License-Identifier: Apache-2.0
//
// Protocol numbers shared by the IPv4 Protocol field and the IPv6 Next Header field (IANA).
#pragma once

#include <cstdint>

namespace tapwire::wire {

struct IpProtocol {
  static constexpr uint8_t kIpv6HopByHop = 0;
  static constexpr uint8_t kIcmp = 1;
  static constexpr uint8_t kIgmp = 2;
  static constexpr uint8_t kIpv4 = 4;
  static constexpr uint8_t kTcp = 6;
  static constexpr uint8_t kUdp = 17;
  static constexpr uint8_t kIpv6 = 41;
  static constexpr uint8_t kIpv6Routing = 43;
  static constexpr uint8_t kIpv6Fragment = 44;
  static constexpr uint8_t kEsp = 50;
  static constexpr uint8_t kAh = 51;
  static constexpr uint8_t kIcmpv6 = 58;
  static constexpr uint8_t kIpv6NoNext = 59;
  static constexpr uint8_t kIpv6DestOpts = 60;
};

// RFC 3168 §5: the two ECN bits of the IPv4 TOS and the IPv6 Traffic Class byte.
struct Ecn {
  static constexpr uint8_t kNotEct = 0;
  static constexpr uint8_t kEct1 = 1;
  static constexpr uint8_t kEct0 = 2;
  static constexpr uint8_t kCe = 3;
};

}  // namespace tapwire::wire
