// SPDX-License-Identifier: Apache-2.0
//
// The virtio-net header that stands before every frame on a TAP opened with IFF_VNET_HDR: codec,
// and translation from and to packet metadata (virtio 1.2 §5.1.6). Our own declaration: the
// kernel's linux/virtio_net.h has members that are keywords of C++.
//
//   offset  0      1         2        4         6           8            10
//           flags  gso_type  hdr_len  gso_size  csum_start  csum_offset  num_buffers
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/base/drop_reason.h"
#include "netdev/packet/packet.h"

namespace tapwire::drivers {

// Byte order of the 16-bit fields: little endian as of virtio 1.0, which a TAP uses after
// TUNSETVNETLE; the order of the machine otherwise.
enum class VnetOrder : uint8_t { kLittle, kBig };
inline constexpr VnetOrder kNativeVnetOrder =
    std::endian::native == std::endian::little ? VnetOrder::kLittle : VnetOrder::kBig;

struct VnetHdr {
  static constexpr size_t kLegacyLength = 10;  // without num_buffers
  static constexpr size_t kLength = 12;

  // flags.
  static constexpr uint8_t kNeedsCsum =
      1;  // sum from csum_start, store at csum_start + csum_offset
  static constexpr uint8_t kDataValid = 2;  // the sender has verified the checksum
  // gso_type.
  static constexpr uint8_t kGsoNone = 0;
  static constexpr uint8_t kGsoTcpv4 = 1;
  static constexpr uint8_t kGsoUdp = 3;  // UFO
  static constexpr uint8_t kGsoTcpv6 = 4;
  static constexpr uint8_t kGsoUdpL4 = 5;   // USO
  static constexpr uint8_t kGsoEcn = 0x80;  // added to a TCP type: CWR on the first segment only

  uint8_t flags = 0;
  uint8_t gso_type = kGsoNone;
  uint16_t hdr_len = 0;      // a hint: bytes of all headers of a super-packet
  uint16_t gso_size = 0;     // payload bytes of each segment
  uint16_t csum_start = 0;   // from the start of the frame
  uint16_t csum_offset = 0;  // from csum_start
  uint16_t num_buffers = 0;  // absent in the 10-byte form, and not written by a TAP

  // Reads the 10-byte form, or the 12-byte one if `bytes` is that long. nullopt if shorter.
  static std::optional<VnetHdr> Parse(std::span<const uint8_t> bytes, VnetOrder order) {
    if (bytes.size() < kLegacyLength) {
      return std::nullopt;
    }
    const uint8_t* p = bytes.data();
    return VnetHdr{.flags = p[0],
                   .gso_type = p[1],
                   .hdr_len = Load16(p + 2, order),
                   .gso_size = Load16(p + 4, order),
                   .csum_start = Load16(p + 6, order),
                   .csum_offset = Load16(p + 8, order),
                   .num_buffers = bytes.size() < kLength ? uint16_t{0} : Load16(p + 10, order)};
  }
  // `out` has kLegacyLength or at least kLength bytes; bytes beyond are not touched.
  void Emit(std::span<uint8_t> out, VnetOrder order) const {
    uint8_t* p = out.data();
    p[0] = flags;
    p[1] = gso_type;
    Store16(p + 2, hdr_len, order);
    Store16(p + 4, gso_size, order);
    Store16(p + 6, csum_start, order);
    Store16(p + 8, csum_offset, order);
    if (out.size() >= kLength) {
      Store16(p + 10, num_buffers, order);
    }
  }

  uint8_t gso_kind() const { return gso_type & static_cast<uint8_t>(~kGsoEcn); }
  bool operator==(const VnetHdr&) const = default;

 private:
  static uint16_t Load16(const uint8_t* p, VnetOrder order) {
    return order == VnetOrder::kLittle ? static_cast<uint16_t>(p[0] | p[1] << 8)
                                       : static_cast<uint16_t>(p[0] << 8 | p[1]);
  }
  static void Store16(uint8_t* p, uint16_t value, VnetOrder order) {
    const auto low = static_cast<uint8_t>(value);
    const auto high = static_cast<uint8_t>(value >> 8);
    p[0] = order == VnetOrder::kLittle ? low : high;
    p[1] = order == VnetOrder::kLittle ? high : low;
  }
};

// What the reader of a TAP has agreed to take (TUNSETOFFLOAD).
struct VnetRxPolicy {
  bool trust_data_valid = true;
  bool tcp = true;
  bool udp = true;
};

// Checks the header of a received frame against the frame (data() at the Ethernet header, no
// metadata yet) and sets checksum state and segmentation.
//   kTapBadVnetHeader   it contradicts the frame
//   kTapGsoUnsupported  a segmentation type that is unknown or was not agreed on
// On kNone the packet is ready for the receive core; otherwise its metadata is unspecified.
[[nodiscard]] DropReason ToMeta(const VnetHdr& hdr, const VnetRxPolicy& policy, Packet& packet);

// The header for a frame to be written. The packet has passed the transmit path for a device with
// the matching features, so checksum start and field lie inside the head.
VnetHdr FromMeta(const Packet& packet);

}  // namespace tapwire::drivers
