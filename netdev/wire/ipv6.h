// SPDX-License-Identifier: Apache-2.0
//
// The IPv6 fixed header (RFC 8200 §3). Extension headers are in ipv6_ext.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/ip_protocol.h"

namespace tapwire::wire {

// RFC 8200 §5: every link carries packets of this size.
inline constexpr size_t kIpv6MinMtu = 1280;

class Ipv6Header {
 public:
  static constexpr size_t kLength = 40;
  static constexpr size_t kMinLength = kLength;

  // nullopt if truncated. Looks neither at version nor payload length.
  static std::optional<Ipv6Header> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return Ipv6Header(bytes);
  }

  uint8_t version() const { return bytes_[0] >> 4; }
  uint8_t traffic_class() const { return static_cast<uint8_t>(LoadBe16(bytes_.data()) >> 4); }
  uint8_t dscp() const { return traffic_class() >> 2; }
  uint8_t ecn() const { return traffic_class() & 0x03; }
  uint32_t flow_label() const { return LoadBe32(bytes_.data()) & 0xfffff; }
  uint16_t payload_length() const { return LoadBe16(bytes_.data() + 4); }
  uint8_t next_header() const { return bytes_[6]; }
  uint8_t hop_limit() const { return bytes_[7]; }
  Ipv6Address source() const { return Ipv6Address::FromBytes(bytes_.subspan(8, 16)); }
  Ipv6Address destination() const { return Ipv6Address::FromBytes(bytes_.subspan(24, 16)); }

  std::span<const uint8_t> bytes() const { return bytes_.first(kLength); }
  // What the payload length covers, as far as it is present: link padding is left out.
  std::span<const uint8_t> payload() const {
    return bytes_.subspan(kLength, std::min<size_t>(payload_length(), bytes_.size() - kLength));
  }

 private:
  explicit Ipv6Header(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Ipv6Fields {
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;  // 20 bits
  uint16_t payload_length = 0;
  uint8_t next_header = IpProtocol::kIpv6NoNext;
  uint8_t hop_limit = 64;
  Ipv6Address source = {};
  Ipv6Address destination = {};

  static constexpr size_t length() { return Ipv6Header::kLength; }
  void Emit(std::span<uint8_t> out) const {
    StoreBe32(out.data(), 6u << 28 | uint32_t{traffic_class} << 20 | (flow_label & 0xfffff));
    StoreBe16(out.data() + 4, payload_length);
    out[6] = next_header;
    out[7] = hop_limit;
    source.CopyTo(out.data() + 8);
    destination.CopyTo(out.data() + 24);
  }
  static Ipv6Fields From(const Ipv6Header& h) {
    return {.traffic_class = h.traffic_class(),
            .flow_label = h.flow_label(),
            .payload_length = h.payload_length(),
            .next_header = h.next_header(),
            .hop_limit = h.hop_limit(),
            .source = h.source(),
            .destination = h.destination()};
  }
  bool operator==(const Ipv6Fields&) const = default;
};

enum class Ipv6HeaderError : uint8_t {
  kNone,
  kTruncated,      // fewer than 40 bytes
  kVersion,        // version is not 6
  kPayloadLength,  // payload length above the bytes present
};

// The receive rules for version and length over the bytes of one received packet, which may have
// padding behind it. A payload length of zero is accepted as an empty payload: jumbograms
// (RFC 2675) are not supported.
inline Ipv6HeaderError ValidateIpv6Header(std::span<const uint8_t> bytes) {
  const auto header = Ipv6Header::Parse(bytes);
  if (!header) return Ipv6HeaderError::kTruncated;
  if (header->version() != 6) return Ipv6HeaderError::kVersion;
  if (Ipv6Header::kLength + header->payload_length() > bytes.size())
    return Ipv6HeaderError::kPayloadLength;
  return Ipv6HeaderError::kNone;
}

}  // namespace tapwire::wire
