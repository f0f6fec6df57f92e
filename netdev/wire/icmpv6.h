// SPDX-License-Identifier: Apache-2.0
//
// ICMPv6 (RFC 4443): the general header and the error and echo messages. Neighbor Discovery is in
// ndp.h, listener discovery in mld.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/ip_protocol.h"

namespace tapwire::wire {

struct Icmpv6Type {
  static constexpr uint8_t kDestUnreachable = 1;
  static constexpr uint8_t kPacketTooBig = 2;
  static constexpr uint8_t kTimeExceeded = 3;
  static constexpr uint8_t kParameterProblem = 4;
  static constexpr uint8_t kEchoRequest = 128;
  static constexpr uint8_t kEchoReply = 129;
  static constexpr uint8_t kMldQuery = 130;     // RFC 2710 and RFC 9777
  static constexpr uint8_t kMldv1Report = 131;  // RFC 2710
  static constexpr uint8_t kMldv1Done = 132;
  static constexpr uint8_t kRouterSolicitation = 133;  // RFC 4861 §4
  static constexpr uint8_t kRouterAdvertisement = 134;
  static constexpr uint8_t kNeighborSolicitation = 135;
  static constexpr uint8_t kNeighborAdvertisement = 136;
  static constexpr uint8_t kRedirect = 137;
  static constexpr uint8_t kMldv2Report = 143;  // RFC 9777
};

// RFC 4443 §3.1.
struct Icmpv6UnreachableCode {
  static constexpr uint8_t kNoRoute = 0;
  static constexpr uint8_t kAdminProhibited = 1;
  static constexpr uint8_t kBeyondScope = 2;
  static constexpr uint8_t kAddress = 3;
  static constexpr uint8_t kPort = 4;
  static constexpr uint8_t kSourcePolicy = 5;
  static constexpr uint8_t kRejectRoute = 6;
};

// RFC 4443 §3.3.
struct Icmpv6TimeExceededCode {
  static constexpr uint8_t kHopLimit = 0;
  static constexpr uint8_t kReassembly = 1;
};

// RFC 4443 §3.4; code 3 is RFC 7112 §5.
struct Icmpv6ParameterProblemCode {
  static constexpr uint8_t kErroneousField = 0;
  static constexpr uint8_t kUnknownNextHeader = 1;
  static constexpr uint8_t kUnknownOption = 2;
  static constexpr uint8_t kIncompleteHeaderChain = 3;
};

// RFC 4443 §2.1: error messages have types 0..127.
constexpr bool IsIcmpv6Error(uint8_t type) { return type < 128; }

class Icmpv6Header {
 public:
  // The four bytes common to all, and the four every defined message has behind them.
  static constexpr size_t kLength = 8;
  static constexpr size_t kMinLength = kLength;

  static std::optional<Icmpv6Header> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return Icmpv6Header(bytes);
  }

  uint8_t type() const { return bytes_[0]; }
  uint8_t code() const { return bytes_[1]; }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  // Bytes 4..7 as one number, and the names the message types give them.
  uint32_t rest() const { return LoadBe32(bytes_.data() + 4); }
  uint16_t identifier() const { return LoadBe16(bytes_.data() + 4); }
  uint16_t sequence() const { return LoadBe16(bytes_.data() + 6); }
  uint32_t mtu() const { return rest(); }
  uint32_t pointer() const { return rest(); }

  // RFC 4443 §2.3: the sum runs over the pseudo-header and the whole message given to Parse().
  bool ChecksumOk(const Ipv6Address& src, const Ipv6Address& dst) const {
    return TransportChecksum(src, dst, IpProtocol::kIcmpv6, bytes_) == 0;
  }

  // The whole message.
  std::span<const uint8_t> bytes() const { return bytes_; }
  // Behind the eight bytes: echo data, or the quoted packet of an error.
  std::span<const uint8_t> payload() const { return bytes_.subspan(kLength); }

 private:
  explicit Icmpv6Header(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

// The eight header bytes. The checksum is written as given: fill it with FillIcmpv6Checksum() once
// the payload is in place.
struct Icmpv6Fields {
  uint8_t type = 0;
  uint8_t code = 0;
  uint16_t checksum = 0;
  uint32_t rest = 0;  // MTU, pointer, or identifier and sequence

  static constexpr Icmpv6Fields Echo(uint8_t type, uint16_t identifier, uint16_t sequence) {
    return {.type = type, .code = 0, .checksum = 0, .rest = uint32_t{identifier} << 16 | sequence};
  }
  static constexpr Icmpv6Fields PacketTooBig(uint32_t mtu) {
    return {.type = Icmpv6Type::kPacketTooBig, .code = 0, .checksum = 0, .rest = mtu};
  }
  static constexpr Icmpv6Fields ParameterProblem(uint8_t code, uint32_t pointer) {
    return {.type = Icmpv6Type::kParameterProblem, .code = code, .checksum = 0, .rest = pointer};
  }

  static constexpr size_t length() { return Icmpv6Header::kLength; }
  void Emit(std::span<uint8_t> out) const {
    out[0] = type;
    out[1] = code;
    StoreBe16(out.data() + 2, checksum);
    StoreBe32(out.data() + 4, rest);
  }
  static Icmpv6Fields From(const Icmpv6Header& h) {
    return {.type = h.type(), .code = h.code(), .checksum = h.checksum(), .rest = h.rest()};
  }
  bool operator==(const Icmpv6Fields&) const = default;
};

// Computes and stores the checksum of a whole message of at least four bytes.
inline void FillIcmpv6Checksum(const Ipv6Address& src, const Ipv6Address& dst,
                               std::span<uint8_t> message) {
  StoreBe16(message.data() + 2, 0);
  StoreBe16(message.data() + 2, TransportChecksum(src, dst, IpProtocol::kIcmpv6, message));
}

}  // namespace tapwire::wire
