// SPDX-License-Identifier: Apache-2.0
// Reception: checks, counting, taps, upper devices, protocols. A device is looked up by the index
// in the metadata for every frame and round, since whoever saw the one before may have removed it.
#include "netdev/rx_path.h"

#include <cstring>
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/csum_offload.h"
#include "netdev/device.h"
#include "netdev/frame_headers.h"
#include "netdev/gso.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/vlan.h"

namespace tapwire::netdev {
namespace {

// Upper devices stacked on each other; more are taken for a loop.
constexpr int kMaxHandlerRounds = 8;

bool HasOneSegment(const Packet& packet) {
  const auto headers = ParseTransportHeaders(packet.head_bytes());
  const size_t header_bytes = headers ? headers->payload : wire::EthernetHeader::kLength;
  return packet.length() <= header_bytes + packet.meta.gso.size;
}

// kNone if the frame can be passed on.
DropReason CheckFrame(Packet& packet) {
  if (packet.length() < wire::EthernetHeader::kLength) {
    return DropReason::kLinkRunt;
  }
  if (!packet.EnsureLinear(wire::EthernetHeader::kLength)) {
    return DropReason::kLinkNoBuffer;
  }
  if (CheckOffloadMetadata(packet) != DropReason::kNone) {
    return DropReason::kRxBadMetadata;
  }
  // Whatever its sender says: protocols rely on at least two segments.
  if (IsGso(packet) && HasOneSegment(packet)) packet.meta.gso = GsoInfo();
  return DropReason::kNone;
}

void Classify(Packet& packet) {
  const auto ethernet = wire::EthernetHeader::Parse(packet.head_bytes());
  PacketMeta& meta = packet.meta;
  packet.set_l2_here();
  meta.ether_type = ethernet->ether_type();
  const MacAddress destination = ethernet->destination();
  meta.link_broadcast = destination.IsBroadcast();
  meta.link_multicast = destination.IsMulticast() && !meta.link_broadcast;
}

void Count(const Packet& packet, DeviceStats& stats) {
  stats.rx_packets.Inc();
  stats.rx_bytes.Inc(packet.length());
  if (packet.meta.link_multicast) stats.rx_multicast.Inc();
}

bool IsTag(uint16_t ether_type) {
  return ether_type == wire::EtherType::kVlan || ether_type == wire::EtherType::kQinQ;
}

// Takes the tag behind the MAC addresses out of the data. A frame that ends inside it stays as it
// is, for its protocol entry to drop.
void MoveTagToMeta(Packet& packet) {
  constexpr size_t kMacs = 2 * MacAddress::kLength;
  constexpr size_t kTagged = wire::EthernetHeader::kLength + wire::VlanHeader::kLength;
  if (packet.length() < kTagged || !packet.EnsureLinear(kTagged)) return;
  uint8_t* frame = packet.data();
  PacketMeta& meta = packet.meta;
  meta.vlan_proto = LoadBe16(frame + kMacs);
  meta.vlan_tci = LoadBe16(frame + kMacs + 2);
  meta.vlan_present = true;
  meta.ether_type = LoadBe16(frame + kMacs + 4);
  RemoveFromCompleteSum(packet, {frame + wire::EthernetHeader::kLength, wire::VlanHeader::kLength});
  std::memmove(frame + wire::VlanHeader::kLength, frame, kMacs);
  static_cast<void>(packet.Pull(wire::VlanHeader::kLength));
  packet.set_l2_here();
}

// Whether a VLAN device above `device` takes the tag in the metadata: then the frame is its own.
bool MoveToVlanDevice(PacketMeta& meta, const NetDevice& device) {
  const NetDevice* upper = device.VlanUpper(meta.vlan_proto, meta.vlan_tci & wire::kVlanMaxId);
  if (upper == nullptr) return false;
  meta.rx_device = upper->ifindex();
  meta.vlan_present = false;
  meta.vlan_tci = 0;
  if (meta.link_target == LinkTarget::kOtherHost) meta.link_target = LinkTarget::kByAddress;
  return true;
}

// What becomes of a tag that no upper device took. IEEE 802.1Q: id 0 only carries a priority, and
// the frame belongs to the device itself. True if a tag behind that one leads to a VLAN device.
bool SettleTag(Packet& packet, const NetDevice& device) {
  PacketMeta& meta = packet.meta;
  while (meta.vlan_present) {
    if ((meta.vlan_tci & wire::kVlanMaxId) != 0) {
      meta.link_target = LinkTarget::kOtherHost;
      return false;
    }
    meta.vlan_present = false;
    meta.vlan_tci = 0;
    if (!IsTag(meta.ether_type)) return false;
    MoveTagToMeta(packet);
    if (meta.vlan_present && MoveToVlanDevice(meta, device)) return true;
  }
  return false;
}

}  // namespace

void RxPath::ReceiveList(NetContext& context, PacketList packets) {
  while (PacketPtr packet = packets.PopFront()) {
    Receive(context, std::move(packet));
  }
}

void RxPath::Receive(NetContext& context, PacketPtr packet) {
  NetDevice* original = nullptr;
  for (int round = 0;; ++round) {
    NetDevice* device = context.registry().Find(packet->meta.rx_device);
    if (device == nullptr) {
      context.stats_.rx_no_device.Inc();
      return;
    }
    if (!Admit(packet, *device, round)) return;
    if (original == nullptr) original = device;
    context.stats_.rx_processed.Inc();
    const RxHandlerResult result = RunRound(packet, *device);
    // A handler that took the packet says so; one that forgot to must not crash us.
    if (packet == nullptr || result == RxHandlerResult::kConsumed) return;
    if (result == RxHandlerResult::kAnother) continue;
    return Deliver(std::move(packet), {*device, *original, result == RxHandlerResult::kExact});
  }
}

// Whether a round on `device` may begin; takes the packet if not.
bool RxPath::Admit(PacketPtr& packet, NetDevice& device, int round) {
  if (!device.is_up()) {
    device.DropRx(std::move(packet), DropReason::kLinkDeviceDown);
    return false;
  }
  if (round == 0) {
    const DropReason reason = CheckFrame(*packet);
    if (reason != DropReason::kNone) device.FailRx(std::move(packet), reason);
    return reason == DropReason::kNone;
  }
  if (round == kMaxHandlerRounds) {
    device.DropRx(std::move(packet), DropReason::kLinkHandlerLoop);
    return false;
  }
  return true;
}

// Never kConsumed with a packet left.
RxHandlerResult RxPath::RunRound(PacketPtr& packet, NetDevice& device) {
  Classify(*packet);
  if (!device.counts_received_) Count(*packet, device.stats_);
  if (IsTag(packet->meta.ether_type) && !packet->meta.vlan_present) [[unlikely]] {
    MoveTagToMeta(*packet);
  }
  for (PacketTap& tap : device.taps_) {
    tap.OnFrame(*packet, device, TapDirection::kReceive, TxResult::kSent);
  }
  const bool tagged = packet->meta.vlan_present;
  if (tagged && MoveToVlanDevice(packet->meta, device)) [[unlikely]] {
    return RxHandlerResult::kAnother;
  }
  RxHandlerResult result = RxHandlerResult::kPass;
  if (device.rx_handler_ != nullptr) {
    result = device.rx_handler_->HandleFrame(packet, device);
    if (result == RxHandlerResult::kConsumed) packet.reset();
    if (packet == nullptr || result == RxHandlerResult::kAnother) return result;
  }
  if (packet->meta.vlan_present && SettleTag(*packet, device)) [[unlikely]] {
    return RxHandlerResult::kAnother;
  }
  return result;
}

void RxPath::Deliver(PacketPtr packet, const Destination& to) {
  PacketType* taker = nullptr;
  bool several = &to.device != &to.original || to.exact;
  for (PacketType& type : to.device.packet_types_) {
    if (type.ether_type() != packet->meta.ether_type) continue;
    several = several || taker != nullptr;
    taker = &type;
  }
  if (taker == nullptr || several) [[unlikely]] {
    return DeliverToAll(std::move(packet), to);
  }
  taker->Receive(std::move(packet), to.device);
}

// What an entry does may remove any other, so each is looked for afresh, by its number.
void RxPath::DeliverToAll(PacketPtr packet, const Destination& to) {
  const uint16_t ether_type = packet->meta.ether_type;
  Taker taker = FindTaker(to, ether_type, 0);
  if (taker.type == nullptr) taker = FindCatchAll(to);
  if (taker.type == nullptr) return DropUntaken(std::move(packet), to);
  for (size_t n = 1; FindTaker(to, ether_type, n).type != nullptr; ++n) {
    if (PacketPtr copy = packet->Clone()) {
      taker.type->Receive(std::move(copy), *taker.device);
    } else {
      taker.device->DropRx(nullptr, DropReason::kLinkNoBuffer);
    }
    taker = FindTaker(to, ether_type, n);
    if (taker.type == nullptr) return;
  }
  taker.type->Receive(std::move(packet), *taker.device);
}

// The n-th entry, from 0, that takes a frame of this type.
RxPath::Taker RxPath::FindTaker(const Destination& to, uint16_t ether_type, size_t n) {
  const auto bound = [](const PacketType& type) {
    return type.binding() == PacketType::Binding::kBound;
  };
  if (&to.original != &to.device) {
    for (PacketType& type : to.original.packet_types_) {
      if (type.ether_type() == ether_type && bound(type) && n-- == 0) return {&type, &to.original};
    }
  }
  for (PacketType& type : to.device.packet_types_) {
    const bool takes = type.ether_type() == ether_type && (!to.exact || bound(type));
    if (takes && n-- == 0) return {&type, &to.device};
  }
  return {};
}

RxPath::Taker RxPath::FindCatchAll(const Destination& to) {
  for (PacketType& type : to.device.packet_types_) {
    const bool may = !to.exact || type.binding() == PacketType::Binding::kBound;
    if (type.ether_type() == PacketType::kAllTypes && may) return {&type, &to.device};
  }
  return {};
}

void RxPath::DropUntaken(PacketPtr packet, const Destination& to) {
  NetDevice& device = to.device;
  const DropReason reason =
      device.packet_types_.empty() ? DropReason::kLinkNoSink : DropReason::kLinkUnknownEtherType;
  // As in Linux: a tap of a device without upper devices has received the frame.
  const bool tapped = !device.taps_.empty() && device.rx_handler_ == nullptr &&
                      packet->meta.link_target != LinkTarget::kOtherHost;
  if (!to.exact && !tapped) return device.DropRx(std::move(packet), reason);
  if (to.exact) device.stats_.rx_nohandler.Inc();
  device.drops_.Inc(reason);
}

}  // namespace tapwire::netdev
