// SPDX-License-Identifier: Apache-2.0
//
// IPv6 extension headers (RFC 8200 §4): options headers (hop-by-hop and destination), routing,
// fragment, and an iterator over the whole chain. Nothing here decides what to do about an unknown
// option or header; it only says where it is, for the pointer of a parameter problem message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "netdev/base/byteorder.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv6.h"

namespace tapwire::wire {

struct Ipv6OptionType {
  static constexpr uint8_t kPad1 = 0;
  static constexpr uint8_t kPadN = 1;
  static constexpr uint8_t kRouterAlert = 5;  // RFC 2711
  static constexpr uint8_t kJumboPayload = 0xc2;
};

// RFC 8200 §4.2: what the two highest bits of an unknown option's type ask for.
enum class Ipv6OptionAction : uint8_t {
  kSkip = 0,
  kDiscard = 1,
  kDiscardAndReport = 2,
  kDiscardAndReportIfUnicast = 3,
};

struct Ipv6Option {
  uint8_t type = 0;
  size_t offset = 0;                   // of the type byte, from the start of the extension header
  std::span<const uint8_t> data = {};  // behind type and length; empty for Pad1

  Ipv6OptionAction action() const { return static_cast<Ipv6OptionAction>(type >> 6); }
  bool IsPadding() const { return type == Ipv6OptionType::kPad1 || type == Ipv6OptionType::kPadN; }
};

// Walks the options of one header, padding included so that a caller can limit it (RFC 8504 §5.3).
class Ipv6OptionIterator {
 public:
  // `header` is the whole extension header, its first two bytes included.
  explicit Ipv6OptionIterator(std::span<const uint8_t> header) : header_(header) {}

  // The next option, or nullopt at the end or at one that runs past the header.
  std::optional<Ipv6Option> Next();
  // An option runs past the header; error_offset() is where it starts.
  bool malformed() const { return malformed_; }
  size_t error_offset() const { return pos_; }

 private:
  std::span<const uint8_t> header_;
  size_t pos_ = 2;
  bool malformed_ = false;
};

// Hop-by-hop options and destination options headers, which look the same.
class Ipv6OptionsHeader {
 public:
  static constexpr size_t kMinLength = 8;

  // nullopt if fewer bytes are there than its length field says.
  static std::optional<Ipv6OptionsHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength || bytes.size() < (bytes[1] + size_t{1}) * 8) return std::nullopt;
    return Ipv6OptionsHeader(bytes.first((bytes[1] + size_t{1}) * 8));
  }

  uint8_t next_header() const { return bytes_[0]; }
  size_t length() const { return bytes_.size(); }  // in bytes, a multiple of eight
  Ipv6OptionIterator options() const { return Ipv6OptionIterator(bytes_); }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit Ipv6OptionsHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Ipv6OptionsFields {
  uint8_t next_header = IpProtocol::kIpv6NoNext;
  // Whole options, at most 2046 bytes. Padded with Pad1 or PadN to a multiple of eight.
  std::vector<uint8_t> options = {};

  size_t length() const { return (options.size() + 2 + 7) & ~size_t{7}; }
  void Emit(std::span<uint8_t> out) const;
  // Keeps padding, so that a parsed header is emitted byte for byte.
  static Ipv6OptionsFields From(const Ipv6OptionsHeader& h);
  bool operator==(const Ipv6OptionsFields&) const = default;
};

// RFC 8200 §4.4.
class Ipv6RoutingHeader {
 public:
  static constexpr size_t kMinLength = 8;

  static std::optional<Ipv6RoutingHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kMinLength || bytes.size() < (bytes[1] + size_t{1}) * 8) return std::nullopt;
    return Ipv6RoutingHeader(bytes.first((bytes[1] + size_t{1}) * 8));
  }

  uint8_t next_header() const { return bytes_[0]; }
  size_t length() const { return bytes_.size(); }
  uint8_t routing_type() const { return bytes_[2]; }
  uint8_t segments_left() const { return bytes_[3]; }
  std::span<const uint8_t> data() const { return bytes_.subspan(4); }  // type-specific
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  explicit Ipv6RoutingHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Ipv6RoutingFields {
  uint8_t next_header = IpProtocol::kIpv6NoNext;
  uint8_t routing_type = 0;
  uint8_t segments_left = 0;
  std::vector<uint8_t> data;  // zero-padded to four more than a multiple of eight

  size_t length() const { return (data.size() + 4 + 7) & ~size_t{7}; }
  void Emit(std::span<uint8_t> out) const;
  static Ipv6RoutingFields From(const Ipv6RoutingHeader& h);
  bool operator==(const Ipv6RoutingFields&) const = default;
};

// RFC 8200 §4.5.
class Ipv6FragmentHeader {
 public:
  static constexpr size_t kLength = 8;
  static constexpr size_t kMinLength = kLength;

  static std::optional<Ipv6FragmentHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return Ipv6FragmentHeader(bytes);
  }

  uint8_t next_header() const { return bytes_[0]; }
  // In bytes, 0..65528: the field's thirteen bits stand at the top of the word already.
  size_t fragment_offset() const { return LoadBe16(bytes_.data() + 2) & 0xfff8u; }
  bool more_fragments() const { return (bytes_[3] & 0x01) != 0; }
  uint32_t identification() const { return LoadBe32(bytes_.data() + 4); }
  // RFC 6946: a packet with a fragment header that is not a fragment.
  bool IsAtomic() const { return fragment_offset() == 0 && !more_fragments(); }

  std::span<const uint8_t> bytes() const { return bytes_.first(kLength); }
  std::span<const uint8_t> payload() const { return bytes_.subspan(kLength); }

 private:
  explicit Ipv6FragmentHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct Ipv6FragmentFields {
  uint8_t next_header = IpProtocol::kIpv6NoNext;
  size_t fragment_offset = 0;  // in bytes, a multiple of eight
  bool more_fragments = false;
  uint32_t identification = 0;

  static constexpr size_t length() { return Ipv6FragmentHeader::kLength; }
  void Emit(std::span<uint8_t> out) const {
    out[0] = next_header;
    out[1] = 0;
    StoreBe16(out.data() + 2,
              static_cast<uint16_t>((fragment_offset & 0xfff8) | (more_fragments ? 1 : 0)));
    StoreBe32(out.data() + 4, identification);
  }
  static Ipv6FragmentFields From(const Ipv6FragmentHeader& h) {
    return {.next_header = h.next_header(),
            .fragment_offset = h.fragment_offset(),
            .more_fragments = h.more_fragments(),
            .identification = h.identification()};
  }
  bool operator==(const Ipv6FragmentFields&) const = default;
};

// Whether the chain goes on behind a header of this type: hop-by-hop, routing, fragment,
// destination options, and the authentication header (RFC 4302), which has a readable length.
constexpr bool IsIpv6Extension(uint8_t next_header) {
  return next_header == IpProtocol::kIpv6HopByHop || next_header == IpProtocol::kIpv6Routing ||
         next_header == IpProtocol::kIpv6Fragment || next_header == IpProtocol::kIpv6DestOpts ||
         next_header == IpProtocol::kAh;
}

struct Ipv6Extension {
  uint8_t type = 0;                     // its own number, e.g. IpProtocol::kIpv6Fragment
  size_t offset = 0;                    // of its first byte, from the start of the IPv6 header
  size_t next_header_offset = 0;        // of the byte that named it, likewise
  std::span<const uint8_t> bytes = {};  // the whole extension header
};

enum class Ipv6ChainEnd : uint8_t {
  kNone,             // not finished yet
  kUpperLayer,       // next_header() is not an extension header we know; it may be
                     // unknown
  kNoNextHeader,     // RFC 8200 §4.7
  kFragmentPayload,  // behind a fragment header with an offset: the rest is no
                     // header
  kTruncated,        // a header runs past the packet
  kTooManyHeaders,   // more extension headers than allowed
};

// Walks the extension headers of a packet in order, at most `max_headers` of them.
class Ipv6ExtensionIterator {
 public:
  static constexpr size_t kDefaultMaxHeaders = 16;

  explicit Ipv6ExtensionIterator(const Ipv6Header& header, size_t max_headers = kDefaultMaxHeaders)
      : Ipv6ExtensionIterator(header.next_header(), header.payload(), max_headers) {}
  // Starts in front of `payload`, the bytes behind a fixed header naming `next_header`. Offsets
  // count from the start of that fixed header.
  Ipv6ExtensionIterator(uint8_t next_header, std::span<const uint8_t> payload,
                        size_t max_headers = kDefaultMaxHeaders)
      : rest_(payload), headers_left_(max_headers), next_header_(next_header) {}

  // The next extension header, or nullopt at the end of the chain (then end() says why).
  std::optional<Ipv6Extension> Next();

  Ipv6ChainEnd end() const { return end_; }
  // Type of what comes next; at the end, of the upper layer.
  uint8_t next_header() const { return next_header_; }
  // Offset of the byte that holds next_header(), from the start of the IPv6 header.
  size_t next_header_offset() const { return next_header_offset_; }
  // Offset of what comes next, from the start of the IPv6 header.
  size_t offset() const { return offset_; }
  // What comes next: at the end, the upper-layer message.
  std::span<const uint8_t> payload() const { return rest_; }

 private:
  std::optional<Ipv6Extension> Stop(Ipv6ChainEnd why) {
    end_ = why;
    return std::nullopt;
  }

  std::span<const uint8_t> rest_;
  size_t headers_left_;
  size_t offset_ = Ipv6Header::kLength;
  size_t next_header_offset_ = 6;
  uint8_t next_header_;
  bool non_first_fragment_ = false;
  Ipv6ChainEnd end_ = Ipv6ChainEnd::kNone;
};

}  // namespace tapwire::wire
