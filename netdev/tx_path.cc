// SPDX-License-Identifier: Apache-2.0
// Transmit validation and the software fallbacks. What happens to a packet, in order:
//
//   Transmit   device running? metadata possible? segments within the MTU?
//   queue      unless the device is queue-less
//   Prepare    features that apply to this packet
//              tag from metadata into the data           unless the device inserts it
//              segmentation                              unless the device segments this kind
//              one linear buffer                         unless the device gathers
//              transport checksum                        unless the device sums this protocol
//   Send       StartXmit, counters, taps
//
// Features are looked at in Prepare, as late as possible, so a packet may wait in a queue while
// they change. Segments need no further step: they leave segmentation as the device wants them.
// Stacked devices do all this once each, with their own features: a software device that claims
// everything passes super-packets on, and the last one on the way cuts them.
#include "netdev/tx_path.h"

#include <cstring>
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/csum_offload.h"
#include "netdev/frame_headers.h"
#include "netdev/gso.h"
#include "netdev/tx_queue.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/vlan.h"

namespace tapwire::netdev {
namespace {

// Linux: more devices stacked on each other are taken for a loop.
constexpr int kMaxTransmitDepth = 8;

constexpr FeatureSet kTagInsertion{Feature::kHwVlanCtagTx, Feature::kHwVlanStagTx};

// What the device cannot segment, by properties that differ from packet to packet. A packet whose
// headers are not understood is left to software, which refuses it by name.
FeatureSet GsoFeatures(const Packet& packet, const NetDevice& device, FeatureSet f) {
  const GsoInfo& gso = packet.meta.gso;
  if (gso.segs > device.gso_max_segs() || packet.length() >= device.gso_max_size() ||
      gso.type == GsoType::kNone) {
    return f & ~kGsoMask;
  }
  const auto headers = ParseTransportHeaders(packet.head_bytes());
  if (!headers) return f & ~kGsoMask;
  if (!gso.Has(GsoType::kPartial)) f &= ~device.gso_partial_features();
  // RFC 6864 §4: only an atomic datagram may carry any identification.
  if (gso.Has(GsoType::kTcpv4) && !headers->dont_fragment) {
    f &= ~FeatureSet(Feature::kTsoMangleId);
  }
  // Protocol-specific hardware looks for the transport right behind the header.
  if (headers->ipv6_extensions && f.Has(Feature::kIpv6Csum)) {
    f &= ~FeatureSet{Feature::kIpv6Csum, Feature::kTso6, Feature::kGsoUdpL4};
  }
  return f;
}

// Whether a device without generic checksumming finds the checksum's place: TCP's or
// UDP's field, right behind an IP header without extensions.
bool PlainTransportChecksum(const Packet& packet, const LinkHeaders& link) {
  const uint16_t field = packet.meta.csum_offset;
  if (field != 16 && field != 6) return false;
  if (link.ether_type != wire::EtherType::kIpv6) return true;
  return packet.csum_start_in_data() ==
         static_cast<int32_t>(link.length + wire::Ipv6Header::kLength);
}

// Moves the tag from the metadata into the data.
bool InsertVlanTag(Packet& packet) {
  constexpr size_t kAddresses = 2 * MacAddress::kLength;
  if (!packet.EnsureLinear(wire::EthernetHeader::kLength) ||
      !packet.EnsureHeadroom(wire::VlanHeader::kLength)) {
    return false;
  }
  uint8_t* front = packet.Push(wire::VlanHeader::kLength).data();
  std::memmove(front, front + wire::VlanHeader::kLength, kAddresses);
  StoreBe16(front + kAddresses, packet.meta.vlan_proto);
  StoreBe16(front + kAddresses + 2, packet.meta.vlan_tci);
  packet.set_l2_here();
  packet.meta.vlan_present = false;
  packet.meta.vlan_tci = 0;
  return true;
}

bool CanInsertTag(FeatureSet f, uint16_t protocol) {
  return f.Has(protocol == wire::EtherType::kQinQ ? Feature::kHwVlanStagTx
                                                  : Feature::kHwVlanCtagTx);
}

// Cuts the packet if the device cannot. Afterwards `out` has the segments, or `packet`
// is still set and ready for the device.
DropReason SegmentIfNeeded(PacketPtr& packet, NetDevice& device, FeatureSet f, PacketList& out) {
  const CsumState state = packet->meta.csum_state;
  const bool checksum_ready = state == CsumState::kPartial || state == CsumState::kUnnecessary;
  if (checksum_ready && f.HasAll(RequiredGsoFeatures(*packet))) {
    return DropReason::kNone;
  }
  if (const DropReason reason = PrepareGso(*packet); reason != DropReason::kNone) {
    return reason;
  }
  const FeatureSet with_help = device.features() & device.gso_partial_features();
  SegmentResult result = SegmentPacket(packet->pool(), *packet, f, with_help);
  if (result.error != DropReason::kNone || result.segments.empty()) {
    return result.error;
  }
  device.stats().tx_gso_segmented.Inc();
  if (result.segments.front()->meta.csum_state != CsumState::kPartial) {
    device.stats().tx_csum_software.Inc(result.segments.size());
  }
  packet.reset();
  out.Splice(std::move(result.segments));
  return DropReason::kNone;
}

// Completes in software what the device cannot do for this packet.
DropReason CompleteInSoftware(Packet& packet, NetDevice& device, FeatureSet f) {
  if (!packet.is_linear() && !f.Has(Feature::kSg)) {
    if (!packet.Linearize()) return DropReason::kTxLinearizeFailed;
    device.stats().tx_linearized.Inc();
  }
  if (packet.meta.csum_state != CsumState::kPartial || IsGso(packet) || f.Has(Feature::kHwCsum)) {
    return DropReason::kNone;
  }
  const LinkHeaders link = ParseLinkHeaders(packet.head_bytes());
  if (CanChecksum(f, link.ether_type) && PlainTransportChecksum(packet, link)) {
    return DropReason::kNone;
  }
  if (!ChecksumHelp(packet)) return DropReason::kTxChecksumFailed;
  device.stats().tx_csum_software.Inc();
  return DropReason::kNone;
}

DropReason CheckSize(const Packet& packet, const NetDevice& device) {
  size_t limit = size_t{device.mtu()} + NetDevice::kLinkHeaderLength;
  if (packet.length() <= limit) return DropReason::kNone;
  size_t frame_bytes = packet.length();
  int tags = 0;  // in the data
  if (IsGso(packet)) {
    const auto headers = ParseTransportHeaders(packet.head_bytes());
    if (!headers) return DropReason::kTxBadHeaderOffsets;
    frame_bytes = headers->payload + packet.meta.gso.size;
    tags = headers->tags;
  } else {
    tags = ParseLinkHeaders(packet.head_bytes()).tags;
  }
  // IEEE 802.1Q: a tag does not count as payload.
  limit += static_cast<size_t>(tags) * wire::VlanHeader::kLength;
  return frame_bytes <= limit ? DropReason::kNone : DropReason::kTxOverMtu;
}

}  // namespace

FeatureSet NetDevice::FeaturesCheck(const Packet& packet, FeatureSet features) const {
  constexpr FeatureSet kFitForManyTags =
      FeatureSet{Feature::kSg, Feature::kHighDma, Feature::kHwCsum, Feature::kFragList} |
      kTagInsertion;
  const int tags = ParseLinkHeaders(packet.head_bytes()).tags + (packet.meta.vlan_present ? 1 : 0);
  return tags >= 2 ? features & kFitForManyTags : features;
}

// Devices here reach all memory of the pool, so kHighDma narrows nothing.
FeatureSet TxPath::PacketFeatures(const Packet& packet, const NetDevice& device) {
  FeatureSet f = device.features();
  if (IsGso(packet)) f = GsoFeatures(packet, device, f);
  if (packet.meta.encapsulated) f &= device.hw_enc_features();
  const LinkHeaders link = ParseLinkHeaders(packet.head_bytes());
  if (packet.meta.vlan_present || link.tags > 0) {
    f = IntersectFeatures(f, device.vlan_features() | kTagInsertion);
  }
  f = device.FeaturesCheck(packet, f);
  if (packet.meta.csum_state != CsumState::kNone && !CanChecksum(f, link.ether_type)) {
    f &= ~(kCsumMask | kGsoMask);
  }
  return f;
}

DropReason TxPath::CheckMetadata(const Packet& packet, const NetDevice& device) {
  if (packet.head_length() < wire::EthernetHeader::kLength) {
    return DropReason::kTxBadLength;
  }
  if (const DropReason reason = CheckOffloadMetadata(packet); reason != DropReason::kNone) {
    return reason;
  }
  return CheckSize(packet, device);
}

TxResult TxPath::Transmit(PacketPtr packet, NetDevice& device) {
  if (!device.is_running()) {
    // As Linux's queue of a device without link: upper devices count the packet as sent.
    device.DropTx(std::move(packet),
                  device.is_up() ? DropReason::kTxCarrierOff : DropReason::kTxDeviceDown);
    return TxResult::kCongested;
  }
  DropReason reason = DropReason::kNone;
  if (IsGso(*packet) && !LinearizeHeaders(*packet)) {
    reason = DropReason::kTxLinearizeFailed;
  } else {
    reason = CheckMetadata(*packet, device);
  }
  if (reason != DropReason::kNone) {
    device.DropTx(std::move(packet), reason);
    return reason == DropReason::kTxOverMtu ? TxResult::kTooBig : TxResult::kDropped;
  }
  if (device.queueless_) return SendNow(std::move(packet), device);
  if (!device.tx_queue_->Enqueue(packet)) {
    device.DropTx(std::move(packet), DropReason::kTxQueueFull);
    return TxResult::kNoBuffer;
  }
  return TxResult::kQueued;
}

TxResult TxPath::SendNow(PacketPtr packet, NetDevice& device) {
  NetContext& context = device.context();
  if (context.transmit_depth_ >= kMaxTransmitDepth) {
    device.DropTx(std::move(packet), DropReason::kTxRecursion);
    return TxResult::kDeviceDown;
  }
  PacketList ready;
  if (!Prepare(std::move(packet), device, ready)) return TxResult::kDropped;
  ++context.transmit_depth_;
  PacketPtr frame = ready.PopFront();
  const TxResult result = Send(std::move(frame), device, !ready.empty());
  while (device.is_running() && (frame = ready.PopFront()) != nullptr) {
    static_cast<void>(Send(std::move(frame), device, !ready.empty()));
  }
  --context.transmit_depth_;
  DropAll(std::move(ready), device);
  return result;
}

bool TxPath::Prepare(PacketPtr packet, NetDevice& device, PacketList& out) {
  const FeatureSet f = PacketFeatures(*packet, device);
  DropReason reason = DropReason::kNone;
  if (packet->meta.vlan_present && !CanInsertTag(f, packet->meta.vlan_proto) &&
      !InsertVlanTag(*packet)) {
    reason = DropReason::kTxVlanFailed;
  }
  if (reason == DropReason::kNone && IsGso(*packet)) {
    reason = SegmentIfNeeded(packet, device, f, out);
    if (packet == nullptr) return true;
  }
  if (reason == DropReason::kNone) {
    reason = CompleteInSoftware(*packet, device, f);
  }
  if (reason != DropReason::kNone) {
    device.DropTx(std::move(packet), reason);
    return false;
  }
  out.PushBack(std::move(packet));
  return true;
}

TxResult TxPath::Send(PacketPtr frame, NetDevice& device, bool more) {
  const size_t length = frame->length();
  // The driver consumes the frame, so what the taps are shown is a copy.
  PacketPtr shown;
  if (device.has_taps()) {
    shown = frame->Clone();
    if (shown == nullptr) device.context().stats_.taps_missed.Inc();
  }
  const TxResult result = device.StartXmit(std::move(frame), more);
  if (!TxOk(result)) return result;
  device.stats_.tx_packets.Inc();
  device.stats_.tx_bytes.Inc(length);
  if (shown != nullptr) {
    for (PacketTap& tap : device.taps_) {
      tap.OnFrame(*shown, device, TapDirection::kTransmit, result);
    }
  }
  return result;
}

void TxPath::DropAll(PacketList frames, NetDevice& device) {
  const DropReason reason = device.is_up() ? DropReason::kTxCarrierOff : DropReason::kTxDeviceDown;
  while (PacketPtr frame = frames.PopFront()) {
    device.DropTx(std::move(frame), reason);
  }
}

}  // namespace tapwire::netdev
