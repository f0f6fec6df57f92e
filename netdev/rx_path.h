// SPDX-License-Identifier: Apache-2.0
// The receive core: the one function every received frame goes through, whatever
// brought it.
#pragma once

#include "netdev/packet/packet_list.h"

namespace tapwire::netdev {

class NetContext;
class NetDevice;

class RxPath {
 public:
  // For each frame (meta.rx_device names the device, data() at the Ethernet header):
  // check metadata and length, count, classify the destination MAC
  // (meta.link_broadcast, or else link_multicast), show it to taps, offer it to the
  // device's RxHandler (kAnother restarts here on the new device, at most 8 times),
  // then to the PacketType of its EtherType. A frame with no more payload than
  // gso.size stops being a GSO packet. Every frame is consumed; what happens to it may
  // change, take down or unregister any device.
  static void ReceiveList(NetContext& context, PacketList packets);
  static void Receive(NetContext& context, PacketPtr packet);

 private:
  static void Deliver(PacketPtr packet, NetDevice& device);
};

}  // namespace tapwire::netdev
