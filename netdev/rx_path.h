// SPDX-License-Identifier: Apache-2.0
// The receive core: the one function every received frame goes through, whatever
// brought it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "netdev/device.h"
#include "netdev/packet/packet_list.h"

namespace tapwire::netdev {

class NetContext;

class RxPath {
 public:
  // For each frame (meta.rx_device names the device, data() at the Ethernet header): check metadata
  // and length, then run rounds, one for each device it reaches (NetContext::Stats::rx_processed):
  //
  //   1. count it and classify the destination MAC (meta.link_broadcast, or else link_multicast);
  //   2. move a VLAN tag from the data to the metadata, unless one is there already;
  //   3. show it to the device's taps;
  //   4. a VLAN device above that takes the tag: the next round is there;
  //   5. the device's RxHandler; kAnother: the next round is on the device it named;
  //   6. a tag that is left: dropped if its id is 0, else meta.link_target becomes kOtherHost.
  //
  // All rounds run in this call, at most 8. Then every PacketType of the EtherType on the last
  // device gets the frame, and those of Binding::kBound on the device it arrived on (kExact: only
  // bound ones); all but the last a Clone(). An entry for kAllTypes gets it if there is no other.
  // Frames whose driver counts received ones itself (set_counts_received) are not counted here.
  //
  // A frame with no more payload than gso.size stops being a GSO packet. Every frame is consumed;
  // what happens to it may change, take down or unregister any device.
  static void ReceiveList(NetContext& context, PacketList packets);
  static void Receive(NetContext& context, PacketPtr packet);

 private:
  // Where a frame has arrived in the end, and how far it may go.
  struct Destination {
    NetDevice& device;
    NetDevice& original;  // where it came in
    bool exact = false;   // to bound entries only
  };
  struct Taker {
    PacketType* type = nullptr;
    NetDevice* device = nullptr;
  };

  static bool Admit(PacketPtr& packet, NetDevice& device, int round);
  static RxHandlerResult RunRound(PacketPtr& packet, NetDevice& device);
  static void Deliver(PacketPtr packet, const Destination& to);
  static void DeliverToAll(PacketPtr packet, const Destination& to);
  static Taker FindTaker(const Destination& to, uint16_t ether_type, size_t n);
  static Taker FindCatchAll(const Destination& to);
  static void DropUntaken(PacketPtr packet, const Destination& to);
};

}  // namespace tapwire::netdev
