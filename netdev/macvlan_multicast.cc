// SPDX-License-Identifier: Apache-2.0
#include "netdev/macvlan_multicast.h"

#include <utility>

#include "netdev/device.h"
#include "netdev/macvlan.h"
#include "netdev/macvlan_port.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::netdev {
namespace {

// IEEE 802.3 Annex 31B: PAUSE frames are for the next device on the link only.
constexpr uint16_t kEtherTypePause = 0x8808;

constexpr uint32_t Bit(MacvlanMode mode) { return static_cast<uint32_t>(mode); }

}  // namespace

MacvlanMulticast::~MacvlanMulticast() = default;

MacvlanMulticast::Audience MacvlanMulticast::AudienceOf(const Macvlan* sender) {
  using enum MacvlanMode;
  if (sender == nullptr) {
    return {.modes = Bit(kPrivate) | Bit(kVepa) | Bit(kPassthru) | Bit(kBridge),
            .except_ifindex = 0};
  }
  // Those in bridge mode have had their copy when a sender in bridge mode sent the frame.
  const uint32_t modes = sender->mode() == kVepa ? Bit(kVepa) | Bit(kBridge) : Bit(kVepa);
  return {.modes = modes, .except_ifindex = sender->ifindex()};
}

void MacvlanMulticast::Receive(const Packet& frame, const Macvlan* sender) {
  const auto ethernet = wire::EthernetHeader::Parse(frame.head_bytes());
  const uint8_t index = MacvlanFilter::IndexOf(ethernet->destination(), 0);
  if (queue_filter_.Has(index)) {
    Enqueue(frame, AudienceOf(sender));
  } else if (port_filter_.Has(index)) {
    FanOut(frame, AudienceOf(sender), From::kWire);
  }
}

void MacvlanMulticast::Transmit(const Packet& frame, const Macvlan& sender) {
  FanOut(frame, {.modes = Bit(MacvlanMode::kBridge), .except_ifindex = sender.ifindex()},
         From::kMacvlan);
}

void MacvlanMulticast::Enqueue(const Packet& frame, Audience audience) {
  // Also when it is full: the worker is what empties it.
  port_.lower().context().ScheduleFlush(*this);
  if (queue_.size() >= queue_limit_) {
    port_.lower().DropRx(nullptr, DropReason::kLinkBroadcastQueueFull);
    return;
  }
  PacketPtr copy = frame.Clone();
  if (copy == nullptr) {
    port_.lower().DropRx(nullptr, DropReason::kLinkNoBuffer);
    return;
  }
  copy->meta.rx_device = audience.except_ifindex;
  copy->meta.tx_queue = static_cast<uint16_t>(audience.modes);
  queue_.PushBack(std::move(copy));
}

void MacvlanMulticast::Flush() {
  PacketList turn = std::move(queue_);
  while (PacketPtr frame = turn.PopFront()) {
    PacketMeta& meta = frame->meta;
    const Audience audience{.modes = meta.tx_queue, .except_ifindex = meta.rx_device};
    meta.tx_queue = 0;
    FanOut(*frame, audience, From::kWire);
  }
}

void MacvlanMulticast::FanOut(const Packet& frame, Audience audience, From from) {
  const auto ethernet = wire::EthernetHeader::Parse(frame.head_bytes());
  if (ethernet->ether_type() == kEtherTypePause) return;
  const MacAddress destination = ethernet->destination();
  for (Macvlan* macvlan : port_.macvlans()) {
    if ((audience.modes & Bit(macvlan->mode())) == 0) continue;
    if (macvlan->ifindex() == audience.except_ifindex || !macvlan->WantsGroup(destination)) {
      continue;
    }
    if (from == From::kWire) {
      macvlan->ReceiveGroupCopy(frame);
    } else {
      macvlan->ReceiveLocalGroupCopy(frame);
    }
  }
}

void MacvlanMulticast::Compute(MacvlanFilter& filter, uint32_t more_than) const {
  const NetDevice& lower = port_.lower();
  if (lower.is_promiscuous() || lower.is_allmulti()) {
    filter.Fill();
    return;
  }
  filter.Clear();
  filter.Add(MacvlanFilter::IndexOf(MacAddress::kBroadcast(), 0));
  for (const NetDevice::FilterAddress& entry : lower.multicast_list()) {
    if (entry.synced > more_than) filter.Add(MacvlanFilter::IndexOf(entry.address, 0));
  }
}

void MacvlanMulticast::RecomputeFilters() {
  Compute(port_filter_, 0);
  RecomputeQueueFilter();
}

void MacvlanMulticast::RecomputeQueueFilter() {
  if (cutoff_ < 0) {
    queue_filter_.Clear();
  } else {
    Compute(queue_filter_, static_cast<uint32_t>(cutoff_));
  }
}

void MacvlanMulticast::SetCutoff(int32_t cutoff) {
  cutoff_ = cutoff;
  RecomputeQueueFilter();
}

void MacvlanMulticast::Cancel() {
  Unlink();
  queue_.Clear();
}

}  // namespace tapwire::netdev
