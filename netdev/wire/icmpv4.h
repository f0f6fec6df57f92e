// SPDX-License-Identifier: Apache-2.0
//
// ICMP for IPv4 (RFC 792, RFC 1191 §4 for the next-hop MTU). One header of eight bytes serves all
// messages; the meaning of its second half depends on the type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::wire {

struct Icmpv4Type {
  static constexpr uint8_t kEchoReply = 0;
  static constexpr uint8_t kDestUnreachable = 3;
  static constexpr uint8_t kSourceQuench = 4;
  static constexpr uint8_t kRedirect = 5;
  static constexpr uint8_t kEchoRequest = 8;
  static constexpr uint8_t kRouterAdvertisement = 9;
  static constexpr uint8_t kRouterSolicitation = 10;
  static constexpr uint8_t kTimeExceeded = 11;
  static constexpr uint8_t kParameterProblem = 12;
  static constexpr uint8_t kTimestampRequest = 13;
  static constexpr uint8_t kTimestampReply = 14;
  static constexpr uint8_t kInformationRequest = 15;
  static constexpr uint8_t kInformationReply = 16;
  static constexpr uint8_t kAddressMaskRequest = 17;
  static constexpr uint8_t kAddressMaskReply = 18;
};

// Codes of kDestUnreachable: RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1.
struct Icmpv4UnreachableCode {
  static constexpr uint8_t kNet = 0;
  static constexpr uint8_t kHost = 1;
  static constexpr uint8_t kProtocol = 2;
  static constexpr uint8_t kPort = 3;
  static constexpr uint8_t kFragmentationNeeded = 4;
  static constexpr uint8_t kSourceRouteFailed = 5;
  static constexpr uint8_t kNetUnknown = 6;
  static constexpr uint8_t kHostUnknown = 7;
  static constexpr uint8_t kSourceHostIsolated = 8;
  static constexpr uint8_t kNetProhibited = 9;
  static constexpr uint8_t kHostProhibited = 10;
  static constexpr uint8_t kNetForTos = 11;
  static constexpr uint8_t kHostForTos = 12;
  static constexpr uint8_t kAdminProhibited = 13;
  static constexpr uint8_t kHostPrecedenceViolation = 14;
  static constexpr uint8_t kPrecedenceCutoff = 15;
};

struct Icmpv4RedirectCode {
  static constexpr uint8_t kNet = 0;
  static constexpr uint8_t kHost = 1;
  static constexpr uint8_t kNetForTos = 2;
  static constexpr uint8_t kHostForTos = 3;
};

struct Icmpv4TimeExceededCode {
  static constexpr uint8_t kTtl = 0;
  static constexpr uint8_t kReassembly = 1;
};

struct Icmpv4ParameterProblemCode {
  static constexpr uint8_t kPointer = 0;
  static constexpr uint8_t kMissingOption = 1;  // RFC 1122 §3.2.2.5
  static constexpr uint8_t kBadLength = 2;
};

// RFC 1122 §3.2.2: never answered by another error.
constexpr bool IsIcmpv4Error(uint8_t type) {
  return type == Icmpv4Type::kDestUnreachable || type == Icmpv4Type::kSourceQuench ||
         type == Icmpv4Type::kRedirect || type == Icmpv4Type::kTimeExceeded ||
         type == Icmpv4Type::kParameterProblem;
}

class Icmpv4Header {
 public:
  static constexpr size_t kLength = 8;
  static constexpr size_t kMinLength = kLength;

  static std::optional<Icmpv4Header> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return Icmpv4Header(bytes);
  }

  uint8_t type() const { return bytes_[0]; }
  uint8_t code() const { return bytes_[1]; }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  // Bytes 4..7 as one number, and the names the message types give their parts.
  uint32_t rest() const { return LoadBe32(bytes_.data() + 4); }
  uint16_t identifier() const { return LoadBe16(bytes_.data() + 4); }
  uint16_t sequence() const { return LoadBe16(bytes_.data() + 6); }
  uint16_t mtu() const { return LoadBe16(bytes_.data() + 6); }  // RFC 1191 §4; 0 from old routers
  uint8_t pointer() const { return bytes_[4]; }
  Ipv4Address gateway() const { return Ipv4Address::FromBytes(bytes_.subspan(4, 4)); }

  // RFC 792: the sum runs over the whole message given to Parse().
  bool ChecksumOk() const { return ChecksumOf(bytes_) == 0; }

  // The whole message.
  std::span<const uint8_t> bytes() const { return bytes_; }
  // Echo data, or the quoted datagram of an error.
  std::span<const uint8_t> payload() const { return bytes_.subspan(kLength); }

 private:
  explicit Icmpv4Header(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

// The eight header bytes. The checksum is written as given: fill it with FillIcmpv4Checksum() once
// the payload is in place.
struct Icmpv4Fields {
  uint8_t type = 0;
  uint8_t code = 0;
  uint16_t checksum = 0;
  uint32_t rest = 0;

  static constexpr Icmpv4Fields Echo(uint8_t type, uint16_t identifier, uint16_t sequence) {
    return {.type = type, .code = 0, .checksum = 0, .rest = uint32_t{identifier} << 16 | sequence};
  }
  static constexpr Icmpv4Fields FragmentationNeeded(uint16_t mtu) {
    return {.type = Icmpv4Type::kDestUnreachable,
            .code = Icmpv4UnreachableCode::kFragmentationNeeded,
            .checksum = 0,
            .rest = mtu};
  }
  static constexpr Icmpv4Fields ParameterProblem(uint8_t code, uint8_t pointer) {
    return {.type = Icmpv4Type::kParameterProblem,
            .code = code,
            .checksum = 0,
            .rest = uint32_t{pointer} << 24};
  }

  static constexpr size_t length() { return Icmpv4Header::kLength; }
  void Emit(std::span<uint8_t> out) const {
    out[0] = type;
    out[1] = code;
    StoreBe16(out.data() + 2, checksum);
    StoreBe32(out.data() + 4, rest);
  }
  static Icmpv4Fields From(const Icmpv4Header& h) {
    return {.type = h.type(), .code = h.code(), .checksum = h.checksum(), .rest = h.rest()};
  }
  bool operator==(const Icmpv4Fields&) const = default;
};

// Computes and stores the checksum of a whole message of at least four bytes.
inline void FillIcmpv4Checksum(std::span<uint8_t> message) {
  StoreBe16(message.data() + 2, 0);
  StoreBe16(message.data() + 2, ChecksumOf(message));
}

}  // namespace tapwire::wire
