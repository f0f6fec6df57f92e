// SPDX-License-Identifier: Apache-2.0
// Reception: checks, counting, taps, upper devices, protocols. A device is looked up by the index
// in the metadata for every frame, since whoever received the one before may have removed it.
#include "netdev/rx_path.h"

#include <utility>

#include "netdev/device.h"
#include "netdev/frame_headers.h"
#include "netdev/gso.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/wire/ethernet.h"

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

void Classify(Packet& packet, DeviceStats& stats) {
  const auto ethernet = wire::EthernetHeader::Parse(packet.head_bytes());
  PacketMeta& meta = packet.meta;
  packet.set_l2_here();
  meta.ether_type = ethernet->ether_type();
  const MacAddress destination = ethernet->destination();
  meta.link_broadcast = destination.IsBroadcast();
  meta.link_multicast = destination.IsMulticast() && !meta.link_broadcast;
  stats.rx_packets.Inc();
  stats.rx_bytes.Inc(packet.length());
  if (meta.link_multicast) stats.rx_multicast.Inc();
}

}  // namespace

void RxPath::ReceiveList(NetContext& context, PacketList packets) {
  while (PacketPtr packet = packets.PopFront()) {
    Receive(context, std::move(packet));
  }
}

void RxPath::Receive(NetContext& context, PacketPtr packet) {
  for (int round = 0;; ++round) {
    NetDevice* device = context.registry().Find(packet->meta.rx_device);
    if (device == nullptr) {
      context.stats_.rx_no_device.Inc();
      return;
    }
    if (!device->is_up()) {
      device->DropRx(std::move(packet), DropReason::kLinkDeviceDown);
      return;
    }
    if (round == kMaxHandlerRounds) {
      device->DropRx(std::move(packet), DropReason::kLinkHandlerLoop);
      return;
    }
    if (const DropReason reason = CheckFrame(*packet); reason != DropReason::kNone) {
      device->FailRx(std::move(packet), reason);
      return;
    }
    Classify(*packet, device->stats_);
    for (PacketTap& tap : device->taps_) {
      tap.OnFrame(*packet, *device, TapDirection::kReceive, TxResult::kSent);
    }
    if (device->rx_handler_ == nullptr) {
      return Deliver(std::move(packet), *device);
    }
    switch (device->rx_handler_->HandleFrame(packet, *device)) {
      case RxHandlerResult::kPass:
        return Deliver(std::move(packet), *device);
      case RxHandlerResult::kConsumed:
        return;
      case RxHandlerResult::kAnother:
        break;
    }
  }
}

void RxPath::Deliver(PacketPtr packet, NetDevice& device) {
  PacketType* taker = nullptr;
  for (PacketType& type : device.packet_types_) {
    if (type.ether_type() == packet->meta.ether_type) {
      taker = &type;
      break;
    }
    if (type.ether_type() == PacketType::kAllTypes && taker == nullptr) {
      taker = &type;
    }
  }
  if (taker == nullptr) {
    device.DropRx(std::move(packet), device.packet_types_.empty()
                                         ? DropReason::kLinkNoSink
                                         : DropReason::kLinkUnknownEtherType);
    return;
  }
  taker->Receive(std::move(packet), device);
}

}  // namespace tapwire::netdev
