// SPDX-License-Identifier: Apache-2.0
// The part of segmentation that all protocols share: what must hold of a super-packet, replication
// of headers, network headers, payload, checksums.
//
//   super-packet   | Ethernet | IP | TCP or UDP |        payload, gso.size * n + rest        |
//   segment i      | Ethernet | IP'| TCP' or UDP' | payload [i * gso.size, …) |
//
// The headers of a super-packet are read from its bytes, since its metadata may come from an
// untrusted source (a TAP's other side). Pseudo-header sums are computed from the addresses and not
// derived from the old checksum field, for the same reason. Payload bytes are shared if the device
// gathers and the bytes lie in slabs; those in the super-packet's own head are always copied.
//
// IPv4 identification rises by one per segment (RFC 6864 §4: only a datagram that may be fragmented
// needs a unique one, but receivers of segments that were merged expect one or the other pattern).
#include "netdev/gso.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/csum_offload.h"
#include "netdev/frame_headers.h"
#include "netdev/gso_protocol.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv6.h"

namespace tapwire::netdev {
namespace {

using internal::SegmentPosition;
using wire::EtherType;
using wire::IpProtocol;

constexpr int kTypeToFeatureShift = 16;
constexpr size_t kMaxIpPacketBytes = 65535;
// Bytes that hold any header this layer can parse, unless a sender is at play.
constexpr size_t kUsualHeaderBytes = 256;

constexpr GsoType kKinds = GsoType::kTcpv4 | GsoType::kTcpv6 | GsoType::kUdpL4;
constexpr GsoType kModifiers = GsoType::kDodgy | GsoType::kTcpEcn | GsoType::kFixedId |
                               GsoType::kTcpAccEcn | GsoType::kPartial;

// The features that the modifiers need. A type of nothing else says how, but not what to cut.
constexpr FeatureSet kModifierFeatures{Feature::kGsoRobust, Feature::kTsoEcn, Feature::kTsoMangleId,
                                       Feature::kGsoAccEcn, Feature::kGsoPartial};

// A super-packet whose headers have been found to agree with its type.
struct SuperPacket {
  TransportHeaders headers;
  size_t payload_bytes = 0;
  size_t segments = 0;
};

bool TypeFits(const GsoInfo& gso, const TransportHeaders& headers) {
  const bool tcp = headers.protocol == IpProtocol::kTcp;
  switch (gso.type & ~kModifiers) {
    case GsoType::kTcpv4:
      return tcp && headers.ether_type == EtherType::kIpv4;
    case GsoType::kTcpv6:
      return tcp && headers.ether_type == EtherType::kIpv6;
    case GsoType::kUdpL4:
      return !tcp;
    default:
      return false;
  }
}

DropReason CheckChecksumPosition(const Packet& packet, const TransportHeaders& headers) {
  if (packet.meta.csum_state != CsumState::kPartial) {
    // TCP's can be set up from the headers. Whether a UDP sender wanted one at all
    // cannot be known.
    return headers.protocol == IpProtocol::kTcp ? DropReason::kNone
                                                : DropReason::kTxBadChecksumMetadata;
  }
  const bool fits = packet.csum_start_in_data() == static_cast<int32_t>(headers.l4) &&
                    packet.meta.csum_offset == headers.checksum_offset();
  return fits ? DropReason::kNone : DropReason::kTxBadChecksumMetadata;
}

// On success fills `out`.
DropReason Examine(const Packet& packet, SuperPacket& out) {
  const GsoInfo& gso = packet.meta.gso;
  if (gso.size == 0 || !HasAny(gso.type, kKinds)) {
    return DropReason::kTxBadGsoMetadata;
  }
  const auto headers = ParseTransportHeaders(packet.head_bytes());
  if (!headers || packet.meta.encapsulated || !TypeFits(gso, *headers)) {
    return gso.Has(GsoType::kDodgy) ? DropReason::kTxUntrustedHeaders
                                    : DropReason::kTxSegmentationFailed;
  }
  if (const DropReason reason = CheckChecksumPosition(packet, *headers);
      reason != DropReason::kNone) {
    return reason;
  }
  // The largest segment must fit the length fields of its headers.
  if (headers->payload - headers->l3 + gso.size > kMaxIpPacketBytes) {
    return DropReason::kTxBadGsoMetadata;
  }
  out.headers = *headers;
  out.payload_bytes = packet.length() - headers->payload;
  out.segments = (out.payload_bytes + gso.size - 1) / gso.size;
  // One segment is no super-packet, and a count beyond the field no sane one.
  if (out.segments < 2 || out.segments > std::numeric_limits<uint16_t>::max()) {
    return DropReason::kTxSegmentationFailed;
  }
  return DropReason::kNone;
}

uint16_t PseudoSum(const TransportHeaders& headers, std::span<const uint8_t> frame, size_t length) {
  const AddressPair addresses = AddressesOf(headers, frame);
  return wire::PseudoHeaderSum(addresses.source, addresses.destination, headers.protocol,
                               static_cast<uint32_t>(length));
}

void SetPartial(Packet& packet, const TransportHeaders& headers, uint16_t sum) {
  StoreBe16(packet.data() + headers.l4 + headers.checksum_offset(), sum);
  packet.meta.csum_state = CsumState::kPartial;
  packet.meta.csum_offset = static_cast<uint16_t>(headers.checksum_offset());
  packet.set_csum_start_in_data(static_cast<int32_t>(headers.l4));
}

// Whether the device sums a transport with these headers.
bool DeviceChecksums(const TransportHeaders& headers, FeatureSet features) {
  return features.Has(Feature::kHwCsum) ||
         (CanChecksum(features, headers.ether_type) && !headers.ipv6_extensions);
}

// How many segments the device takes at once when their headers are prepared, as kGsoPartial says:
// all that are whole, or one. It must leave the payload alone: share it, and sum it itself.
size_t SegmentsPerPiece(const Packet& packet, const SuperPacket& super, FeatureSet features,
                        FeatureSet with_help) {
  const FeatureSet all = features | with_help | Feature::kGsoRobust;
  const bool prepared = features.HasAll({Feature::kGsoPartial, Feature::kSg}) &&
                        DeviceChecksums(super.headers, features) &&
                        all.HasAll(RequiredGsoFeatures(packet));
  return prepared ? super.payload_bytes / packet.meta.gso.size : 1;
}

// Cuts one super-packet into pieces of one segment, or of several, which leaves super-packets.
class Segmenter {
 public:
  Segmenter(SlabPool& pool, const Packet& packet, const SuperPacket& super, FeatureSet features,
            size_t segments_per_piece)
      : pool_(pool),
        packet_(packet),
        headers_(super.headers),
        super_(super),
        segments_per_piece_(segments_per_piece),
        share_payload_(features.Has(Feature::kSg)),
        keep_partial_(DeviceChecksums(headers_, features)),
        pseudo_sum_(PseudoSum(headers_, packet.head_bytes(), 0)) {}

  SegmentResult Run() {
    SegmentResult result;
    const size_t size = packet_.meta.gso.size;
    for (size_t i = 0; i < super_.segments; i += segments_per_piece_) {
      const size_t left = super_.payload_bytes - i * size;
      const SegmentPosition position{.index = i,
                                     .offset = i * size,
                                     .payload_bytes = std::min(segments_per_piece_ * size, left),
                                     .last = i + segments_per_piece_ >= super_.segments};
      PacketPtr segment = MakeSegment(position);
      if (segment == nullptr) {
        return {.segments = {}, .error = DropReason::kTxNoBuffer};
      }
      result.segments.PushBack(std::move(segment));
    }
    return result;
  }

 private:
  // Null if there is no memory.
  PacketPtr MakeSegment(const SegmentPosition& position) {
    const size_t linear =
        headers_.payload + (share_payload_ ? LinearPayload(position) : position.payload_bytes);
    PacketPtr segment = pool_.AllocatePacket(linear);
    if (segment == nullptr) return nullptr;
    std::memcpy(segment->Put(headers_.payload).data(), packet_.data(), headers_.payload);
    SetMeta(*segment, position);
    if (!AddPayload(*segment, position)) return nullptr;
    EditNetworkHeader(*segment, position);
    EditTransportHeader(*segment, position);
    if (!keep_partial_ && !ChecksumHelp(*segment)) return nullptr;
    return segment;
  }

  // Whether the piece still holds several segments.
  bool IsSuperPacket(const SegmentPosition& position) const {
    return position.payload_bytes > packet_.meta.gso.size;
  }

  void SetMeta(Packet& segment, const SegmentPosition& position) const {
    segment.meta = packet_.meta;
    GsoInfo& gso = segment.meta.gso;
    if (IsSuperPacket(position)) {
      gso.type = (gso.type | GsoType::kPartial) & ~GsoType::kDodgy;
      gso.segs = static_cast<uint16_t>((position.payload_bytes + gso.size - 1) / gso.size);
    } else {
      gso = GsoInfo();
    }
    segment.meta.inner_l3_offset = PacketMeta::kUnset;
    segment.meta.inner_l4_offset = PacketMeta::kUnset;
    segment.set_l2_here();
    segment.set_l3_in_data(static_cast<int32_t>(headers_.l3));
    segment.set_l4_in_data(static_cast<int32_t>(headers_.l4));
  }

  // How much of the segment's payload lies in the super-packet's own head, which
  // cannot be shared.
  size_t LinearPayload(const SegmentPosition& position) const {
    const size_t in_head = packet_.head_length() - headers_.payload;
    return position.offset < in_head ? std::min(position.payload_bytes, in_head - position.offset)
                                     : 0;
  }

  // Positions come in order, so the walk over the fragments goes on where it stopped.
  bool AddPayload(Packet& segment, const SegmentPosition& position) {
    const size_t linear = LinearPayload(position);
    if (linear > 0) {
      std::memcpy(segment.Put(linear).data(), packet_.data() + headers_.payload + position.offset,
                  linear);
    }
    size_t left = position.payload_bytes - linear;
    while (left > 0) {
      const PacketFrag& frag = packet_.frag_ref(frag_);
      const size_t taken = std::min<size_t>(left, frag.length - frag_offset_);
      if (!AddPiece(segment, frag, taken)) return false;
      left -= taken;
      frag_offset_ += taken;
      if (frag_offset_ == frag.length) {
        ++frag_;
        frag_offset_ = 0;
      }
    }
    return true;
  }

  bool AddPiece(Packet& segment, const PacketFrag& frag, size_t length) const {
    if (length == 0) return true;
    const size_t offset = frag.offset + frag_offset_;
    if (share_payload_) return segment.AddFrag(frag.slab, offset, length);
    std::memcpy(segment.Put(length).data(), frag.slab.data() + offset, length);
    return true;
  }

  void EditNetworkHeader(Packet& segment, const SegmentPosition& position) const {
    uint8_t* ip = segment.data() + headers_.l3;
    const size_t payload = std::min<size_t>(position.payload_bytes, packet_.meta.gso.size);
    const size_t total = headers_.payload - headers_.l3 + payload;
    if (headers_.ether_type == EtherType::kIpv6) {
      StoreBe16(ip + 4, static_cast<uint16_t>(total - wire::Ipv6Header::kLength));
      return;
    }
    StoreBe16(ip + 2, static_cast<uint16_t>(total));
    if (!packet_.meta.gso.Has(GsoType::kFixedId)) {
      StoreBe16(ip + 4, static_cast<uint16_t>(LoadBe16(ip + 4) + position.index));
    }
    // The sender may have left the header checksum to be filled in.
    StoreBe16(ip + 10, 0);
    StoreBe16(ip + 10, wire::ChecksumOf({ip, headers_.network_header_length()}));
  }

  void EditTransportHeader(Packet& segment, const SegmentPosition& position) const {
    const std::span<uint8_t> header =
        segment.head_bytes().subspan(headers_.l4, headers_.payload - headers_.l4);
    if (headers_.protocol == IpProtocol::kTcp) {
      internal::EditTcpHeader(header, packet_.meta.gso, position);
    } else {
      internal::EditUdpHeader(header, position);
    }
    wire::InternetChecksum sum(pseudo_sum_);
    sum.AddBe32(static_cast<uint32_t>(header.size() + position.payload_bytes));
    SetPartial(segment, headers_, sum.Fold());
  }

  SlabPool& pool_;
  const Packet& packet_;
  const TransportHeaders& headers_;
  const SuperPacket& super_;
  const size_t segments_per_piece_;
  const bool share_payload_;
  const bool keep_partial_;
  const uint16_t pseudo_sum_;  // with length 0
  size_t frag_ = 0;            // where the payload of the next segment starts
  size_t frag_offset_ = 0;
};

}  // namespace

FeatureSet RequiredGsoFeatures(const Packet& packet) {
  GsoType type = packet.meta.gso.type;
  // Both kinds of fixed identification need the same ability.
  if (HasAny(type, GsoType::kFixedIdInner)) {
    type = (type & ~GsoType::kFixedIdInner) | GsoType::kFixedId;
  }
  return FeatureSet::FromBits(uint64_t{static_cast<uint32_t>(type)} << kTypeToFeatureShift) &
         kGsoMask;
}

DropReason CheckOffloadMetadata(const Packet& packet) {
  const PacketMeta& meta = packet.meta;
  const bool has_type = meta.gso.type != GsoType::kNone;
  if (has_type != (meta.gso.size != 0)) return DropReason::kTxBadGsoMetadata;
  if (has_type && (RequiredGsoFeatures(packet) & ~kModifierFeatures).empty()) {
    return DropReason::kTxBadGsoMetadata;
  }
  if (meta.csum_state != CsumState::kPartial) return DropReason::kNone;
  if (meta.csum_start < 0) return DropReason::kTxBadChecksumMetadata;
  const int64_t start = packet.csum_start_in_data();
  const auto length = static_cast<int64_t>(packet.length());
  const bool inside = start >= static_cast<int64_t>(wire::EthernetHeader::kLength) &&
                      start + meta.csum_offset + 2 <= length;
  return inside ? DropReason::kNone : DropReason::kTxBadChecksumMetadata;
}

bool LinearizeHeaders(Packet& packet) {
  if (packet.is_linear() || ParseTransportHeaders(packet.head_bytes())) {
    return true;
  }
  return packet.EnsureLinear(std::min(packet.length(), kUsualHeaderBytes));
}

DropReason PrepareGso(Packet& packet) {
  if (!LinearizeHeaders(packet)) return DropReason::kTxLinearizeFailed;
  SuperPacket super;
  if (const DropReason reason = Examine(packet, super); reason != DropReason::kNone) {
    return reason;
  }
  packet.meta.gso.segs = static_cast<uint16_t>(super.segments);
  if (packet.meta.csum_state != CsumState::kPartial) {
    const size_t l4_length = packet.length() - super.headers.l4;
    SetPartial(packet, super.headers, PseudoSum(super.headers, packet.head_bytes(), l4_length));
  }
  return DropReason::kNone;
}

SegmentResult SegmentPacket(SlabPool& pool, const Packet& packet, FeatureSet features,
                            FeatureSet with_help) {
  SuperPacket super;
  if (const DropReason reason = Examine(packet, super); reason != DropReason::kNone) {
    return {.segments = {}, .error = reason};
  }
  // An untrusted packet whose headers were found right may go to the device.
  const FeatureSet required = RequiredGsoFeatures(packet) & ~FeatureSet(Feature::kGsoRobust);
  if (features.HasAll(required)) return {};
  return Segmenter(pool, packet, super, features,
                   SegmentsPerPiece(packet, super, features, with_help))
      .Run();
}

}  // namespace tapwire::netdev
