// SPDX-License-Identifier: Apache-2.0
#include "netdev/forward.h"

#include <utility>

#include "netdev/gso.h"
#include "netdev/net_context.h"
#include "netdev/wire/vlan.h"

namespace tapwire::netdev {
namespace {

// A super-packet may be of any length: whoever sends it on cuts it.
bool Fits(const Packet& packet, const NetDevice& device) {
  constexpr size_t kOverhead = NetDevice::kLinkHeaderLength + wire::VlanHeader::kLength;
  return IsGso(packet) || packet.length() <= size_t{device.mtu()} + kOverhead;
}

void ForgetSender(PacketMeta& meta) {
  meta.flow_hash = 0;
  meta.tx_queue = 0;
  meta.late = false;
  meta.link_broadcast = meta.link_multicast = false;
  meta.link_target = LinkTarget::kByAddress;
}

}  // namespace

ForwardResult ForwardToDevice(PacketPtr packet, NetDevice& device) {
  if (!device.is_up()) {
    device.DropRx(std::move(packet), DropReason::kLinkDeviceDown);
    return ForwardResult::kRefused;
  }
  if (!Fits(*packet, device)) {
    device.DropRx(std::move(packet), DropReason::kLinkOverMtu);
    return ForwardResult::kRefused;
  }
  ForgetSender(packet->meta);
  return device.context().EnqueueBacklog(std::move(packet), device) ? ForwardResult::kQueued
                                                                    : ForwardResult::kRefused;
}

}  // namespace tapwire::netdev
