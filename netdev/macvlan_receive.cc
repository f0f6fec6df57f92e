// SPDX-License-Identifier: Apache-2.0
// How frames get from the port to a macvlan, and what is counted for each way.
#include <utility>

#include "netdev/forward.h"
#include "netdev/macvlan.h"
#include "netdev/net_context.h"

namespace tapwire::netdev {

// Linux counts a lost frame as an error and as dropped. When the backlog or the device refused it,
// the core has counted one drop before.
void Macvlan::CountReceived(bool delivered, size_t bytes, bool group) {
  DeviceStats& counters = stats();
  if (!delivered) {
    counters.rx_errors.Inc();
    counters.rx_dropped.Inc();
    return;
  }
  counters.rx_packets.Inc();
  counters.rx_bytes.Inc(bytes);
  if (group) counters.rx_multicast.Inc();
}

PacketPtr Macvlan::Copy(const Packet& frame) {
  PacketPtr copy = frame.Clone();
  if (copy == nullptr) {
    // CountReceived(), with the reason.
    FailRx(nullptr, DropReason::kLinkNoBuffer);
    stats().rx_dropped.Inc();
  }
  return copy;
}

bool Macvlan::Enqueue(PacketPtr packet, LinkTarget target) {
  packet->meta.link_target = target;
  return context().EnqueueBacklog(std::move(packet), *this);
}

RxHandlerResult Macvlan::ReceiveUnicast(PacketPtr& packet) {
  const size_t bytes = packet->length();
  if (rx_ == MacvlanRx::kQueue) {
    CountReceived(Enqueue(std::move(packet), LinkTarget::kHost), bytes, /*group=*/false);
    return RxHandlerResult::kConsumed;
  }
  CountReceived(true, bytes, /*group=*/false);
  packet->meta.rx_device = ifindex();
  packet->meta.link_target = LinkTarget::kHost;
  return RxHandlerResult::kAnother;
}

void Macvlan::ReceiveReflection(PacketPtr packet) {
  // Linux counts such a frame without its bytes.
  CountReceived(Enqueue(std::move(packet), LinkTarget::kByAddress), 0, /*group=*/false);
}

void Macvlan::ReceiveSourceCopy(const Packet& frame) {
  PacketPtr copy = Copy(frame);
  if (copy == nullptr) return;
  CountReceived(Enqueue(std::move(copy), LinkTarget::kByAddress), frame.length(),
                /*group=*/false);
}

void Macvlan::ReceiveGroupCopy(const Packet& frame) {
  PacketPtr copy = Copy(frame);
  if (copy == nullptr) return;
  CountReceived(Enqueue(std::move(copy), LinkTarget::kByAddress), frame.length(), /*group=*/true);
}

void Macvlan::ReceiveLocalGroupCopy(const Packet& frame) {
  PacketPtr copy = Copy(frame);
  if (copy == nullptr) return;
  const bool delivered = ForwardToDevice(std::move(copy), *this) == ForwardResult::kQueued;
  // Linux adds a link header to the length of the whole frame here.
  CountReceived(delivered, frame.length() + kLinkHeaderLength, /*group=*/true);
}

}  // namespace tapwire::netdev
