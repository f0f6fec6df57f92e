// SPDX-License-Identifier: Apache-2.0
//
// Ethernet II framing (RFC 894, RFC 2464) and recognition of RFC 1042 LLC/SNAP encapsulation. The
// frame check sequence is never part of the bytes seen here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/byteorder.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::wire {

struct EtherType {
  static constexpr uint16_t kIpv4 = 0x0800;
  static constexpr uint16_t kArp = 0x0806;
  static constexpr uint16_t kVlan = 0x8100;
  static constexpr uint16_t kIpv6 = 0x86dd;
  static constexpr uint16_t kQinQ = 0x88a8;
};

// Shortest frame without its check sequence; shorter ones are padded by the sender (RFC 894).
inline constexpr size_t kEthernetMinFrame = 60;
// Values up to this one in the type field are IEEE 802.3 lengths.
inline constexpr uint16_t kEthernetMaxLengthField = 1500;

class EthernetHeader {
 public:
  static constexpr size_t kLength = 14;
  static constexpr size_t kMinLength = kLength;

  static std::optional<EthernetHeader> Parse(std::span<const uint8_t> bytes) {
    if (bytes.size() < kLength) return std::nullopt;
    return EthernetHeader(bytes);
  }

  MacAddress destination() const { return MacAddress::FromBytes(bytes_.first(6)); }
  MacAddress source() const { return MacAddress::FromBytes(bytes_.subspan(6, 6)); }
  uint16_t ether_type() const { return LoadBe16(bytes_.data() + 12); }
  bool IsLengthField() const { return ether_type() <= kEthernetMaxLengthField; }

  std::span<const uint8_t> bytes() const { return bytes_.first(kLength); }
  // Everything behind the header, padding included.
  std::span<const uint8_t> payload() const { return bytes_.subspan(kLength); }

 private:
  explicit EthernetHeader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes_;
};

struct EthernetFields {
  MacAddress destination = {};
  MacAddress source = {};
  uint16_t ether_type = 0;

  static constexpr size_t length() { return EthernetHeader::kLength; }
  // `out` holds at least length() bytes; bytes beyond are not touched. So for every Emit here.
  void Emit(std::span<uint8_t> out) const {
    destination.CopyTo(out.data());
    source.CopyTo(out.data() + 6);
    StoreBe16(out.data() + 12, ether_type);
  }
  static EthernetFields From(const EthernetHeader& h) {
    return {.destination = h.destination(), .source = h.source(), .ether_type = h.ether_type()};
  }
  bool operator==(const EthernetFields&) const = default;
};

// What an IEEE 802.3 frame with an RFC 1042 LLC/SNAP header carries.
struct SnapPayload {
  uint16_t ether_type = 0;
  std::span<const uint8_t> payload = {};  // cut to the 802.3 length
};

inline constexpr size_t kSnapHeaderLength = 8;

// RFC 1122 §2.3.3: a host SHOULD be able to receive RFC 1042 packets (K1=170, K2=0). Gives the
// inner type if the frame has a plausible length field and AA-AA-03-00-00-00 behind it.
inline std::optional<SnapPayload> ParseSnap(const EthernetHeader& ethernet) {
  const std::span<const uint8_t> rest = ethernet.payload();
  const size_t length = ethernet.ether_type();
  if (!ethernet.IsLengthField() || length < kSnapHeaderLength || length > rest.size())
    return std::nullopt;
  if (LoadBe32(rest.data()) != 0xaaaa0300 || LoadBe16(rest.data() + 4) != 0) return std::nullopt;
  return SnapPayload{.ether_type = LoadBe16(rest.data() + 6),
                     .payload = rest.subspan(kSnapHeaderLength, length - kSnapHeaderLength)};
}

}  // namespace tapwire::wire
