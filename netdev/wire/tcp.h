// SPDX-License-Identifier: Apache-2.0
//
// TCP header (RFC 9293 §3.1): view, fields and flags. Options are in tcp_options.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"
#include "netdev/wire/tcp_options.h"

namespace tapwire::wire {

// The eight control bits of RFC 9293 §3.1 as a set.
class TcpFlags {
 public:
  constexpr TcpFlags() = default;
  constexpr explicit TcpFlags(uint8_t bits) : bits_(bits) {}

  static const TcpFlags kFin;
  static const TcpFlags kSyn;
  static const TcpFlags kRst;
  static const TcpFlags kPsh;
  static const TcpFlags kAck;
  static const TcpFlags kUrg;
  static const TcpFlags kEce;
  static const TcpFlags kCwr;

  constexpr uint8_t bits() const { return bits_; }
  constexpr bool fin() const { return (bits_ & 0x01) != 0; }
  constexpr bool syn() const { return (bits_ & 0x02) != 0; }
  constexpr bool rst() const { return (bits_ & 0x04) != 0; }
  constexpr bool psh() const { return (bits_ & 0x08) != 0; }
  constexpr bool ack() const { return (bits_ & 0x10) != 0; }
  constexpr bool urg() const { return (bits_ & 0x20) != 0; }
  constexpr bool ece() const { return (bits_ & 0x40) != 0; }
  constexpr bool cwr() const { return (bits_ & 0x80) != 0; }

  constexpr bool Has(TcpFlags all) const { return (bits_ & all.bits_) == all.bits_; }
  constexpr bool HasAny(TcpFlags any) const { return (bits_ & any.bits_) != 0; }

  constexpr TcpFlags operator|(TcpFlags o) const {
    return TcpFlags(static_cast<uint8_t>(bits_ | o.bits_));
  }
  constexpr TcpFlags operator&(TcpFlags o) const {
    return TcpFlags(static_cast<uint8_t>(bits_ & o.bits_));
  }
  constexpr TcpFlags operator~() const { return TcpFlags(static_cast<uint8_t>(~bits_)); }
  constexpr TcpFlags& operator|=(TcpFlags o) { return *this = *this | o; }
  constexpr TcpFlags& operator&=(TcpFlags o) { return *this = *this & o; }
  constexpr bool operator==(const TcpFlags&) const = default;

 private:
  uint8_t bits_ = 0;
};

inline constexpr TcpFlags TcpFlags::kFin{0x01};
inline constexpr TcpFlags TcpFlags::kSyn{0x02};
inline constexpr TcpFlags TcpFlags::kRst{0x04};
inline constexpr TcpFlags TcpFlags::kPsh{0x08};
inline constexpr TcpFlags TcpFlags::kAck{0x10};
inline constexpr TcpFlags TcpFlags::kUrg{0x20};
inline constexpr TcpFlags TcpFlags::kEce{0x40};
inline constexpr TcpFlags TcpFlags::kCwr{0x80};

class TcpHeader {
 public:
  static constexpr size_t kMinLength = 20;
  static constexpr size_t kMaxLength = 60;
  static constexpr uint16_t kChecksumOffset = 16;

  // nullopt if truncated or the data offset is impossible. Does not verify the checksum.
  static std::optional<TcpHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength) return std::nullopt;
    const size_t length = size_t{4} * (bytes[12] >> 4);
    if (length < kMinLength || length > bytes.size()) return std::nullopt;
    return TcpHeader(bytes);
  }

  uint16_t src_port() const { return LoadBe16(bytes_.data()); }
  uint16_t dst_port() const { return LoadBe16(bytes_.data() + 2); }
  uint32_t seq() const { return LoadBe32(bytes_.data() + 4); }
  uint32_t ack() const { return LoadBe32(bytes_.data() + 8); }
  uint8_t data_offset() const { return bytes_[12] >> 4; }  // in 32-bit words
  size_t header_length() const { return size_t{4} * data_offset(); }
  uint8_t reserved() const { return bytes_[12] & 0x0f; }
  TcpFlags flags() const { return TcpFlags(bytes_[13]); }
  uint16_t window() const { return LoadBe16(bytes_.data() + 14); }
  uint16_t checksum() const { return LoadBe16(bytes_.data() + 16); }
  uint16_t urgent_pointer() const { return LoadBe16(bytes_.data() + 18); }
  std::span<const uint8_t> options() const { return bytes().subspan(kMinLength); }

  // The header's own bytes, options included.
  std::span<const uint8_t> bytes() const { return bytes_.first(header_length()); }
  std::span<const uint8_t> payload() const { return bytes_.subspan(header_length()); }

 private:
  explicit TcpHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct TcpFields {
  uint16_t src_port = 0;
  uint16_t dst_port = 0;
  uint32_t seq = 0;
  uint32_t ack = 0;
  uint8_t reserved = 0;  // four bits, zero when sent (RFC 9293 §3.1)
  TcpFlags flags = {};
  uint16_t window = 0;  // the field, not shifted
  uint16_t checksum = 0;
  uint16_t urgent_pointer = 0;
  TcpOptions options = {};

  size_t length() const { return TcpHeader::kMinLength + options.length(); }
  // Writes length() bytes; the data offset follows from the options.
  void Emit(std::span<uint8_t> out) const {
    const size_t header_length = length();
    StoreBe16(out.data(), src_port);
    StoreBe16(out.data() + 2, dst_port);
    StoreBe32(out.data() + 4, seq);
    StoreBe32(out.data() + 8, ack);
    out[12] = static_cast<uint8_t>((header_length / 4) << 4 | (reserved & 0x0fu));
    out[13] = flags.bits();
    StoreBe16(out.data() + 14, window);
    StoreBe16(out.data() + 16, checksum);
    StoreBe16(out.data() + 18, urgent_pointer);
    options.Emit(out.subspan(TcpHeader::kMinLength));
  }
  // Unknown options are not kept.
  static TcpFields From(const TcpHeader& h) {
    return {.src_port = h.src_port(),
            .dst_port = h.dst_port(),
            .seq = h.seq(),
            .ack = h.ack(),
            .reserved = h.reserved(),
            .flags = h.flags(),
            .window = h.window(),
            .checksum = h.checksum(),
            .urgent_pointer = h.urgent_pointer(),
            .options = TcpOptions::Parse(h.options())};
  }
  bool operator==(const TcpFields&) const = default;
};

}  // namespace tapwire::wire
