// SPDX-License-Identifier: Apache-2.0
//
// IPv4 header (RFC 791 §3.1): view, fields, the options' iterator, and the receive rules of
// RFC 1122 §3.2.1 that a header alone decides. Reassembly and addresses' meaning are elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"
#include "netdev/wire/inline_bytes.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/ip_protocol.h"

namespace tapwire::wire {

// Option type bytes (copied flag, class and number together), RFC 791 §3.1 and RFC 2113.
struct Ipv4OptionType {
  static constexpr uint8_t kEndOfList = 0;
  static constexpr uint8_t kNop = 1;
  static constexpr uint8_t kRecordRoute = 7;
  static constexpr uint8_t kTimestamp = 68;
  static constexpr uint8_t kLooseSourceRoute = 131;
  static constexpr uint8_t kStrictSourceRoute = 137;
  static constexpr uint8_t kRouterAlert = 148;
};

struct Ipv4Option {
  uint8_t type = 0;
  size_t offset = 0;  // of the type byte, from the start of the options
  // Behind type and length; empty for a no-operation.
  std::span<const uint8_t> data = {};

  // RFC 791 §3.1: the copied flag says that every fragment carries the option.
  bool copied() const { return (type & 0x80) != 0; }
};

// Walks options one by one, no-operations included, and stops at the end-of-list option.
class Ipv4OptionIterator {
 public:
  explicit Ipv4OptionIterator(std::span<const uint8_t> options) : options_(options) {}

  // The next option, or nullopt at the end or at one whose length is impossible.
  std::optional<Ipv4Option> Next();
  // An impossible length was met; error_offset() is where its option starts.
  bool malformed() const { return malformed_; }
  size_t error_offset() const { return pos_; }

 private:
  std::span<const uint8_t> options_;
  size_t pos_ = 0;
  bool malformed_ = false;
};

class Ipv4Header {
 public:
  static constexpr size_t kMinLength = 20;
  static constexpr size_t kMaxLength = 60;

  // nullopt if truncated or the header length is below 20. Looks neither at version, total length
  // nor checksum: see ValidateIpv4Header().
  static std::optional<Ipv4Header> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    const size_t length = size_t{4} * (bytes[0] & 0x0f);
    if (length < kMinLength || length > bytes.size()) return std::nullopt;
    return Ipv4Header(bytes);
  }

  uint8_t version() const { return bytes_[0] >> 4; }
  uint8_t ihl() const { return bytes_[0] & 0x0f; }  // in 32-bit words
  size_t header_length() const { return size_t{4} * ihl(); }
  uint8_t tos() const { return bytes_[1]; }
  uint8_t dscp() const { return tos() >> 2; }   // RFC 2474 §3
  uint8_t ecn() const { return tos() & 0x03; }  // RFC 3168 §5
  uint16_t total_length() const { return LoadBe16(bytes_.data() + 2); }
  uint16_t identification() const { return LoadBe16(bytes_.data() + 4); }
  bool dont_fragment() const { return (bytes_[6] & 0x40) != 0; }
  bool more_fragments() const { return (bytes_[6] & 0x20) != 0; }
  // In bytes, 0..65528 (the field counts units of eight).
  size_t fragment_offset() const { return size_t{8} * (LoadBe16(bytes_.data() + 6) & 0x1fffu); }
  bool IsFragment() const { return more_fragments() || fragment_offset() != 0; }
  uint8_t ttl() const { return bytes_[8]; }
  uint8_t protocol() const { return bytes_[9]; }
  uint16_t header_checksum() const { return LoadBe16(bytes_.data() + 10); }
  Ipv4Address source() const { return Ipv4Address::FromBytes(bytes_.subspan(12, 4)); }
  Ipv4Address destination() const { return Ipv4Address::FromBytes(bytes_.subspan(16, 4)); }
  std::span<const uint8_t> options() const { return bytes().subspan(kMinLength); }

  // RFC 1122 §3.2.1.2.
  bool HeaderChecksumOk() const;

  // The header's own bytes, options included.
  std::span<const uint8_t> bytes() const { return bytes_.first(header_length()); }
  // What the total length says is data, as far as it is present: link padding is left out.
  std::span<const uint8_t> payload() const {
    const size_t end = std::clamp<size_t>(total_length(), header_length(), bytes_.size());
    return bytes_.subspan(header_length(), end - header_length());
  }

 private:
  explicit Ipv4Header(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Ipv4Fields {
  uint8_t tos = 0;
  uint16_t total_length = 0;  // header and payload, in bytes
  uint16_t identification = 0;
  bool dont_fragment = false;
  bool more_fragments = false;
  size_t fragment_offset = 0;  // in bytes, a multiple of eight
  uint8_t ttl = 64;
  uint8_t protocol = 0;
  Ipv4Address source = {};
  Ipv4Address destination = {};
  // Zero bytes (end of list) are added up to a multiple of four.
  InlineBytes<40> options = {};

  size_t length() const { return Ipv4Header::kMinLength + ((options.size() + 3) & ~size_t{3}); }
  // Writes length() bytes, with the header checksum computed.
  void Emit(std::span<uint8_t> out) const;
  static Ipv4Fields From(const Ipv4Header& h);
  bool operator==(const Ipv4Fields&) const = default;
};

enum class Ipv4HeaderError : uint8_t {
  kNone,
  kTruncated,    // fewer than 20 bytes, or less than the header length says
  kVersion,      // RFC 1122 §3.2.1.1: version is not 4
  kIhl,          // header length below 20
  kTotalLength,  // total length below the header length, or above the bytes
                 // present
};

// The receive rules for version and lengths over the bytes of one received datagram, which may have
// padding behind it. The checksum is not looked at (it may have been verified by hardware).
Ipv4HeaderError ValidateIpv4Header(std::span<const uint8_t> bytes);

}  // namespace tapwire::wire
