// SPDX-License-Identifier: Apache-2.0
//
// Multicast Listener Discovery: MLDv1 messages (RFC 2710 §3), MLDv2 query and report (RFC 9777 §5).
// Views start at the ICMPv6 type byte. Fields write a zero checksum: FillIcmpv6Checksum() fills it
// in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "netdev/base/byteorder.h"
#include "netdev/wire/group_record.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::wire {

// RFC 2710 §3.6: query, report and done have one form. An MLDv2 query starts the same way, and its
// length (28 or more) tells it apart (RFC 9777 §8.1).
class MldHeader {
 public:
  static constexpr size_t kLength = 24;
  static constexpr size_t kMinLength = kLength;

  static std::optional<MldHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return MldHeader(bytes);
  }

  uint8_t type() const { return bytes_[0]; }
  uint8_t code() const { return bytes_[1]; }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  uint16_t maximum_response_delay() const { return LoadBe16(bytes_.data() + 4); }  // milliseconds
  Ipv6Address multicast_address() const { return Ipv6Address::FromBytes(bytes_.subspan(8, 16)); }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit MldHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct MldFields {
  uint8_t type = Icmpv6Type::kMldv1Report;
  uint16_t maximum_response_delay = 0;  // milliseconds, in queries
  Ipv6Address multicast_address = {};

  static constexpr size_t length() { return MldHeader::kLength; }
  void Emit(std::span<uint8_t> out) const {
    out[0] = type;
    out[1] = 0;
    StoreBe16(out.data() + 2, 0);
    StoreBe16(out.data() + 4, maximum_response_delay);
    StoreBe16(out.data() + 6, 0);
    multicast_address.CopyTo(out.data() + 8);
  }
  static MldFields From(const MldHeader& h) {
    return {.type = h.type(),
            .maximum_response_delay = h.maximum_response_delay(),
            .multicast_address = h.multicast_address()};
  }
  bool operator==(const MldFields&) const = default;
};

// RFC 9777 §5.1.
class Mldv2QueryHeader {
 public:
  static constexpr size_t kMinLength = 28;

  // nullopt also if the sources run past the end.
  static std::optional<Mldv2QueryHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    if (kMinLength + size_t{16} * LoadBe16(bytes.data() + 26) > bytes.size()) return std::nullopt;
    return Mldv2QueryHeader(bytes);
  }

  uint8_t type() const { return bytes_[0]; }
  uint8_t code() const { return bytes_[1]; }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  uint16_t maximum_response_code() const { return LoadBe16(bytes_.data() + 4); }
  uint32_t maximum_response_delay_ms() const { return DecodeGroupTime16(maximum_response_code()); }
  Ipv6Address multicast_address() const { return Ipv6Address::FromBytes(bytes_.subspan(8, 16)); }
  bool suppress_router_processing() const { return (bytes_[24] & 0x08) != 0; }
  uint8_t qrv() const { return bytes_[24] & 0x07; }
  uint8_t qqic() const { return bytes_[25]; }
  uint16_t number_of_sources() const { return LoadBe16(bytes_.data() + 26); }
  // `i` < number_of_sources().
  Ipv6Address source(size_t i) const {
    return Ipv6Address::FromBytes(bytes_.subspan(kMinLength + 16 * i, 16));
  }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit Mldv2QueryHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Mldv2QueryFields {
  uint16_t maximum_response_code = 0;
  Ipv6Address multicast_address = {};  // "::" in a general query
  bool suppress_router_processing = false;
  uint8_t qrv = 2;
  uint8_t qqic = 125;
  std::vector<Ipv6Address> sources = {};

  size_t length() const { return Mldv2QueryHeader::kMinLength + 16 * sources.size(); }
  void Emit(std::span<uint8_t> out) const;
  static Mldv2QueryFields From(const Mldv2QueryHeader& h);
  bool operator==(const Mldv2QueryFields&) const = default;
};

// One multicast address record of a report, in place (RFC 9777 §5.2).
class Mldv2RecordView {
 public:
  static constexpr size_t kMinLength = 20;

  explicit Mldv2RecordView(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint8_t record_type() const { return bytes_[0]; }
  uint16_t number_of_sources() const { return LoadBe16(bytes_.data() + 2); }
  Ipv6Address multicast_address() const { return Ipv6Address::FromBytes(bytes_.subspan(4, 16)); }
  // `i` < number_of_sources().
  Ipv6Address source(size_t i) const {
    return Ipv6Address::FromBytes(bytes_.subspan(kMinLength + 16 * i, 16));
  }
  // The whole record, auxiliary data included.
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

class Mldv2RecordIterator {
 public:
  Mldv2RecordIterator(std::span<const uint8_t> records, size_t count)
      : rest_(records), left_(count) {}

  // The next record, or nullopt behind the last one or at one that runs past the end.
  std::optional<Mldv2RecordView> Next();
  bool malformed() const { return malformed_; }

 private:
  std::span<const uint8_t> rest_;
  size_t left_;
  bool malformed_ = false;
};

// RFC 9777 §5.2.
class Mldv2ReportHeader {
 public:
  static constexpr size_t kMinLength = 8;

  static std::optional<Mldv2ReportHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    return Mldv2ReportHeader(bytes);
  }

  uint8_t type() const { return bytes_[0]; }
  uint8_t code() const { return bytes_[1]; }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  uint16_t number_of_records() const { return LoadBe16(bytes_.data() + 6); }
  Mldv2RecordIterator records() const { return {bytes_.subspan(kMinLength), number_of_records()}; }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit Mldv2ReportHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Mldv2Record {
  uint8_t record_type = GroupRecordType::kModeIsExclude;
  Ipv6Address multicast_address = {};
  std::vector<Ipv6Address> sources = {};

  size_t length() const { return Mldv2RecordView::kMinLength + 16 * sources.size(); }
  bool operator==(const Mldv2Record&) const = default;
};

struct Mldv2ReportFields {
  std::vector<Mldv2Record> records = {};

  size_t length() const;
  void Emit(std::span<uint8_t> out) const;
  // Keeps the records in front of a malformed one; auxiliary data is dropped.
  static Mldv2ReportFields From(const Mldv2ReportHeader& h);
  bool operator==(const Mldv2ReportFields&) const = default;
};

}  // namespace tapwire::wire
