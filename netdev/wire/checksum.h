// SPDX-License-Identifier: Apache-2.0
//
// The Internet checksum: RFC 1071 sums, RFC 1624 incremental update, and the pseudo-headers of
// RFC 9293 §3.1 (IPv4) and RFC 8200 §8.1 (IPv6). Pure arithmetic: whether a checksum must be
// computed at all (offload) is the caller's business.
//
// All 16-bit values here are numbers as they are read from the wire in network order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "netdev/wire/ip_address.h"

namespace tapwire::wire {

// Adds up pieces of a message. Pieces may have any length and alignment: a piece that starts at an
// odd place of the message is summed with its bytes swapped (RFC 1071 §2(B)).
class InternetChecksum {
 public:
  constexpr InternetChecksum() = default;
  // Goes on from a sum (not complemented) that covers an even number of bytes.
  constexpr explicit InternetChecksum(uint16_t sum) : sum_(sum) {}

  void Add(std::span<const uint8_t> piece);
  // Adds a 16- or 32-bit field as if its bytes in network order came next.
  constexpr void AddBe16(uint16_t value) { sum_ += odd_ ? Swap16(value) : value; }
  constexpr void AddBe32(uint32_t value) {
    AddBe16(static_cast<uint16_t>(value >> 16));
    AddBe16(static_cast<uint16_t>(value));
  }
  // The addresses must be of one family. `length` is that of the upper-layer header and data.
  void AddPseudoHeader(const IpAddress& src, const IpAddress& dst, uint8_t protocol,
                       uint32_t length);

  // The one's complement sum so far, not complemented.
  uint16_t Fold() const;
  // What goes into the checksum field: the complement. UDP must turn 0 into 0xffff itself.
  uint16_t Finish() const { return static_cast<uint16_t>(~Fold()); }

 private:
  static constexpr uint16_t Swap16(uint16_t v) {
    return static_cast<uint16_t>((v << 8) | (v >> 8));
  }

  uint64_t sum_ = 0;  // grows by less than 2^16 per call, so it cannot overflow
  bool odd_ = false;  // an odd number of bytes has been added
};

// The finished (complemented) checksum of one contiguous message. Over a message that holds its own
// right checksum the result is 0.
uint16_t ChecksumOf(std::span<const uint8_t> message);

// The not complemented sum of the pseudo-header, which is what a transmitter leaves in the checksum
// field for hardware to finish.
uint16_t PseudoHeaderSum(Ipv4Address src, Ipv4Address dst, uint8_t protocol, uint32_t length);
uint16_t PseudoHeaderSum(const Ipv6Address& src, const Ipv6Address& dst, uint8_t protocol,
                         uint32_t length);
uint16_t PseudoHeaderSum(const IpAddress& src, const IpAddress& dst, uint8_t protocol,
                         uint32_t length);

// The finished checksum of an upper-layer message with its pseudo-header; 0 when it verifies.
uint16_t TransportChecksum(const IpAddress& src, const IpAddress& dst, uint8_t protocol,
                           std::span<const uint8_t> message);

// RFC 1624 §3, equation 3: the new checksum after an aligned field of the message changed.
uint16_t UpdateChecksum16(uint16_t old_checksum, uint16_t old_field, uint16_t new_field);
uint16_t UpdateChecksum32(uint16_t old_checksum, uint32_t old_field, uint32_t new_field);

// The two implementations behind Add(), for tests and benchmarks. Both give the folded sum of the
// bytes as if the first one were at an even place. SumAvx2 may be called only where HasAvx2().
namespace internal {
uint16_t SumScalar(const uint8_t* data, size_t size);
uint16_t SumAvx2(const uint8_t* data, size_t size);
bool HasAvx2();
}  // namespace internal

}  // namespace tapwire::wire
