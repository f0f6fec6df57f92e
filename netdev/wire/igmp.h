// SPDX-License-Identifier: Apache-2.0
//
// IGMP: versions 1 and 2 (RFC 2236 §2) and version 3 query and report (RFC 9776 §4). Emit()
// computes the checksum, which covers the IGMP message alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "netdev/base/byteorder.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/group_record.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::wire {

struct IgmpType {
  static constexpr uint8_t kQuery = 0x11;
  static constexpr uint8_t kV1Report = 0x12;
  static constexpr uint8_t kV2Report = 0x16;
  static constexpr uint8_t kV2Leave = 0x17;
  static constexpr uint8_t kV3Report = 0x22;
};

// RFC 9776 §7.1 tells query versions apart by length and Max Resp Code.
enum class IgmpQueryVersion : uint8_t { kV1, kV2, kV3, kInvalid };

// The eight bytes that all but the version 3 report begin with.
class IgmpHeader {
 public:
  static constexpr size_t kLength = 8;
  static constexpr size_t kMinLength = kLength;

  // `bytes` must be the whole message for ChecksumOk() and query_version() to be right.
  static std::optional<IgmpHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return IgmpHeader(bytes);
  }

  uint8_t type() const { return bytes_[0]; }
  uint8_t max_resp_code() const { return bytes_[1]; }  // tenths of a second; in v3 a code
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  Ipv4Address group_address() const { return Ipv4Address::FromBytes(bytes_.subspan(4, 4)); }
  bool ChecksumOk() const { return ChecksumOf(bytes_) == 0; }
  // Meaningful for queries.
  IgmpQueryVersion query_version() const {
    if (bytes_.size() >= 12) return IgmpQueryVersion::kV3;
    if (bytes_.size() != kLength) return IgmpQueryVersion::kInvalid;
    return max_resp_code() == 0 ? IgmpQueryVersion::kV1 : IgmpQueryVersion::kV2;
  }
  // The whole message.
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit IgmpHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct IgmpFields {
  uint8_t type = IgmpType::kV2Report;
  uint8_t max_resp_code = 0;
  Ipv4Address group_address = {};

  static constexpr size_t length() { return IgmpHeader::kLength; }
  void Emit(std::span<uint8_t> out) const;
  static IgmpFields From(const IgmpHeader& h) {
    return {
        .type = h.type(), .max_resp_code = h.max_resp_code(), .group_address = h.group_address()};
  }
  bool operator==(const IgmpFields&) const = default;
};

// RFC 9776 §4.1.
class Igmpv3QueryHeader {
 public:
  static constexpr size_t kMinLength = 12;

  // nullopt also if the sources run past the end.
  static std::optional<Igmpv3QueryHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    if (kMinLength + size_t{4} * LoadBe16(bytes.data() + 10) > bytes.size()) return std::nullopt;
    return Igmpv3QueryHeader(bytes);
  }

  uint8_t type() const { return bytes_[0]; }
  uint8_t max_resp_code() const { return bytes_[1]; }
  // In tenths of a second.
  uint32_t max_resp_time() const { return DecodeGroupTime8(max_resp_code()); }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  Ipv4Address group_address() const { return Ipv4Address::FromBytes(bytes_.subspan(4, 4)); }
  bool suppress_router_processing() const { return (bytes_[8] & 0x08) != 0; }
  uint8_t qrv() const { return bytes_[8] & 0x07; }
  uint8_t qqic() const { return bytes_[9]; }
  uint16_t number_of_sources() const { return LoadBe16(bytes_.data() + 10); }
  // `i` < number_of_sources().
  Ipv4Address source(size_t i) const {
    return Ipv4Address::FromBytes(bytes_.subspan(kMinLength + 4 * i, 4));
  }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit Igmpv3QueryHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Igmpv3QueryFields {
  uint8_t max_resp_code = 100;
  Ipv4Address group_address = {};  // 0.0.0.0 in a general query
  bool suppress_router_processing = false;
  uint8_t qrv = 2;
  uint8_t qqic = 125;
  std::vector<Ipv4Address> sources = {};

  size_t length() const { return Igmpv3QueryHeader::kMinLength + 4 * sources.size(); }
  void Emit(std::span<uint8_t> out) const;
  static Igmpv3QueryFields From(const Igmpv3QueryHeader& h);
  bool operator==(const Igmpv3QueryFields&) const = default;
};

// One group record of a report, in place (RFC 9776 §4.2.4).
class Igmpv3RecordView {
 public:
  static constexpr size_t kMinLength = 8;

  explicit Igmpv3RecordView(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint8_t record_type() const { return bytes_[0]; }
  uint16_t number_of_sources() const { return LoadBe16(bytes_.data() + 2); }
  Ipv4Address multicast_address() const { return Ipv4Address::FromBytes(bytes_.subspan(4, 4)); }
  // `i` < number_of_sources().
  Ipv4Address source(size_t i) const {
    return Ipv4Address::FromBytes(bytes_.subspan(kMinLength + 4 * i, 4));
  }
  // The whole record, auxiliary data included.
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

class Igmpv3RecordIterator {
 public:
  Igmpv3RecordIterator(std::span<const uint8_t> records, size_t count)
      : rest_(records), left_(count) {}

  // The next record, or nullopt behind the last one or at one that runs past the end.
  std::optional<Igmpv3RecordView> Next();
  bool malformed() const { return malformed_; }

 private:
  std::span<const uint8_t> rest_;
  size_t left_;
  bool malformed_ = false;
};

// RFC 9776 §4.2.
class Igmpv3ReportHeader {
 public:
  static constexpr size_t kMinLength = 8;

  static std::optional<Igmpv3ReportHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    return Igmpv3ReportHeader(bytes);
  }

  uint8_t type() const { return bytes_[0]; }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 2); }
  uint16_t number_of_records() const { return LoadBe16(bytes_.data() + 6); }
  Igmpv3RecordIterator records() const { return {bytes_.subspan(kMinLength), number_of_records()}; }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit Igmpv3ReportHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Igmpv3Record {
  uint8_t record_type = GroupRecordType::kModeIsExclude;
  Ipv4Address multicast_address = {};
  std::vector<Ipv4Address> sources = {};

  size_t length() const { return Igmpv3RecordView::kMinLength + 4 * sources.size(); }
  bool operator==(const Igmpv3Record&) const = default;
};

struct Igmpv3ReportFields {
  std::vector<Igmpv3Record> records = {};

  size_t length() const;
  void Emit(std::span<uint8_t> out) const;
  // Keeps the records in front of a malformed one; auxiliary data is dropped.
  static Igmpv3ReportFields From(const Igmpv3ReportHeader& h);
  bool operator==(const Igmpv3ReportFields&) const = default;
};

}  // namespace tapwire::wire
