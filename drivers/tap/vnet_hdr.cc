// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/vnet_hdr.h"

#include <algorithm>

#include "netdev/base/byteorder.h"

namespace tapwire::drivers {
namespace {

constexpr size_t kEthernetLength = 14;
constexpr size_t kUdpHeaderLength = 8;
constexpr size_t kMinTcpHeaderLength = 20;
constexpr uint16_t kTcpChecksumOffset = 16;
constexpr uint16_t kUdpChecksumOffset = 6;
constexpr uint16_t kEtherTypeIpv4 = 0x0800;
constexpr uint16_t kEtherTypeIpv6 = 0x86dd;
constexpr uint16_t kEtherTypeVlan = 0x8100;
constexpr uint16_t kEtherTypeServiceVlan = 0x88a8;
// Linux keeps this size for "cut where the fragments end"; no sender may use it.
constexpr uint16_t kGsoByFrags = 0xffff;

bool IsVlan(uint16_t ether_type) {
  return ether_type == kEtherTypeVlan || ether_type == kEtherTypeServiceVlan;
}

// 0 if the frame is too short to have one.
uint16_t EtherTypeOf(const Packet& packet) {
  return packet.head_length() < kEthernetLength ? uint16_t{0} : LoadBe16(packet.data() + 12);
}

// Segmentation type and checksum field that belong to a header's gso_type; nothing for a type that
// was not agreed on.
struct GsoKind {
  GsoType type;
  uint16_t csum_offset;
};
std::optional<GsoKind> KindOf(const VnetHdr& hdr, const VnetRxPolicy& policy) {
  const bool ecn = (hdr.gso_type & VnetHdr::kGsoEcn) != 0;
  const GsoType extra = GsoType::kDodgy | (ecn ? GsoType::kTcpEcn : GsoType::kNone);
  switch (hdr.gso_kind()) {
    case VnetHdr::kGsoTcpv4:
      if (!policy.tcp) return std::nullopt;
      return GsoKind{GsoType::kTcpv4 | extra, kTcpChecksumOffset};
    case VnetHdr::kGsoTcpv6:
      if (!policy.tcp) return std::nullopt;
      return GsoKind{GsoType::kTcpv6 | extra, kTcpChecksumOffset};
    case VnetHdr::kGsoUdpL4:
      if (!policy.udp || ecn) return std::nullopt;
      return GsoKind{GsoType::kUdpL4 | extra, kUdpChecksumOffset};
    default:
      return std::nullopt;
  }
}

// Whether the network protocol can be the one that the type names.
bool MatchesEtherType(GsoType type, uint16_t ether_type) {
  if (IsVlan(ether_type)) {
    return true;
  }
  if (HasAny(type, GsoType::kTcpv4)) {
    return ether_type == kEtherTypeIpv4;
  }
  if (HasAny(type, GsoType::kTcpv6)) {
    return ether_type == kEtherTypeIpv6;
  }
  return ether_type == kEtherTypeIpv4 || ether_type == kEtherTypeIpv6;
}

// Bytes of the transport header at `start`, as far as the head shows it.
size_t TransportHeaderLength(const Packet& packet, size_t start, bool tcp) {
  if (!tcp) {
    return kUdpHeaderLength;
  }
  if (start + kMinTcpHeaderLength > packet.head_length()) {
    return kMinTcpHeaderLength;
  }
  return std::max<size_t>(kMinTcpHeaderLength, size_t{4} * (packet.data()[start + 12] >> 4));
}

DropReason SetChecksumState(const VnetHdr& hdr, const VnetRxPolicy& policy, Packet& packet) {
  PacketMeta& meta = packet.meta;
  if ((hdr.flags & VnetHdr::kNeedsCsum) == 0) {
    // virtio 1.2 §5.1.6.4.2: "data valid" speaks to the reader, which here is us, of packets that
    // the kernel has verified. (The kernel in turn ignores it in what we write.) With the receive
    // checksum switched off nothing is believed and software verifies.
    const bool valid = (hdr.flags & VnetHdr::kDataValid) != 0 && policy.trust_data_valid;
    meta.csum_state = valid ? CsumState::kUnnecessary : CsumState::kNone;
    return DropReason::kNone;
  }
  // A partial checksum is never also "valid": the first flag wins. Start and field must lie in the
  // head, where every later step expects headers.
  if (hdr.csum_start < kEthernetLength ||
      size_t{hdr.csum_start} + hdr.csum_offset + 2 > packet.length() ||
      !packet.EnsureLinear(size_t{hdr.csum_start} + hdr.csum_offset + 2)) {
    return DropReason::kTapBadVnetHeader;
  }
  meta.csum_state = CsumState::kPartial;
  meta.csum_offset = hdr.csum_offset;
  packet.set_csum_start_in_data(hdr.csum_start);
  return DropReason::kNone;
}

DropReason SetGso(const VnetHdr& hdr, const VnetRxPolicy& policy, Packet& packet) {
  const std::optional<GsoKind> kind = KindOf(hdr, policy);
  if (!kind.has_value()) {
    return DropReason::kTapGsoUnsupported;
  }
  // virtio 1.2 §5.1.6.4.1: a type other than NONE comes with a size and with NEEDS_CSUM.
  const bool partial = packet.meta.csum_state == CsumState::kPartial;
  if (hdr.gso_size == 0 || hdr.gso_size == kGsoByFrags || !partial ||
      hdr.csum_offset != kind->csum_offset || !MatchesEtherType(kind->type, EtherTypeOf(packet))) {
    return DropReason::kTapBadVnetHeader;
  }
  const bool tcp = !HasAny(kind->type, GsoType::kUdpL4);
  const size_t headers = hdr.csum_start + TransportHeaderLength(packet, hdr.csum_start, tcp);
  // Not longer than one segment: an ordinary packet, whatever the header says.
  if (packet.length() <= headers + hdr.gso_size) {
    return DropReason::kNone;
  }
  packet.meta.gso = GsoInfo{.type = kind->type, .size = hdr.gso_size, .segs = 0};
  return DropReason::kNone;
}

}  // namespace

DropReason ToMeta(const VnetHdr& hdr, const VnetRxPolicy& policy, Packet& packet) {
  // hdr_len is a hint and no more; but it cannot be longer than the frame.
  if (hdr.hdr_len > packet.length()) {
    return DropReason::kTapBadVnetHeader;
  }
  if (const DropReason reason = SetChecksumState(hdr, policy, packet);
      reason != DropReason::kNone) {
    return reason;
  }
  return hdr.gso_type == VnetHdr::kGsoNone ? DropReason::kNone : SetGso(hdr, policy, packet);
}

VnetHdr FromMeta(const Packet& packet) {
  const PacketMeta& meta = packet.meta;
  VnetHdr hdr;
  if (meta.csum_state == CsumState::kPartial) {
    hdr.flags = VnetHdr::kNeedsCsum;
    hdr.csum_start = static_cast<uint16_t>(packet.csum_start_in_data());
    hdr.csum_offset = meta.csum_offset;
  } else if (meta.csum_state == CsumState::kUnnecessary) {
    hdr.flags = VnetHdr::kDataValid;
  }
  if (meta.gso.size == 0) {
    return hdr;
  }
  const bool udp = meta.gso.Has(GsoType::kUdpL4);
  hdr.gso_type = udp                             ? VnetHdr::kGsoUdpL4
                 : meta.gso.Has(GsoType::kTcpv6) ? VnetHdr::kGsoTcpv6
                                                 : VnetHdr::kGsoTcpv4;
  if (meta.gso.Has(GsoType::kTcpEcn)) {
    hdr.gso_type |= VnetHdr::kGsoEcn;
  }
  hdr.gso_size = meta.gso.size;
  const size_t start = hdr.csum_start;
  hdr.hdr_len = static_cast<uint16_t>(start + TransportHeaderLength(packet, start, !udp));
  return hdr;
}

}  // namespace tapwire::drivers
