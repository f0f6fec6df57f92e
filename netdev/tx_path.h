// SPDX-License-Identifier: Apache-2.0
// The transmit path: the one function every sent frame goes through. Per device, just
// before its StartXmit: metadata check, per-packet features, then the software
// fallbacks (tag insertion, segmentation, one linear buffer, checksum), so that nothing
// above tests device abilities.
#pragma once

#include "netdev/device.h"
#include "netdev/packet/packet_list.h"

namespace tapwire::netdev {

class TxPath {
 public:
  // `packet` has data() at a complete Ethernet header. Queued devices send at the end
  // of the batch (kQueued), queue-less ones at once. Never blocks; a full queue (1000
  // packets) drops (kNoBuffer), and so does a device that is down or has no carrier
  // (kCongested: to an upper device it counts as sent) and one that is reached through
  // more than 8 others (kDeviceDown). A loss is counted once, in the device's
  // tx_dropped. When a packet had to be cut, the result is that of its first segment.
  static TxResult Transmit(PacketPtr packet, NetDevice& device);

  // Features that apply to this packet on this device.
  static FeatureSet PacketFeatures(const Packet& packet, const NetDevice& device);

  // Whether the packet can be true and fit for the device: CheckOffloadMetadata(), a
  // frame without GSO within MTU + link header (+ its tags), each segment of one with
  // GSO within the same. kNone when it is.
  static DropReason CheckMetadata(const Packet& packet, const NetDevice& device);

 private:
  friend class TxQueue;

  static TxResult SendNow(PacketPtr packet, NetDevice& device);
  // Appends what is to be given to the driver to `out`: the packet or its segments.
  // False if it had to be dropped (and was counted).
  static bool Prepare(PacketPtr packet, NetDevice& device, PacketList& out);
  // Gives a prepared frame to the driver, counts it and shows it to taps.
  static TxResult Send(PacketPtr frame, NetDevice& device, bool more);
  // Drops frames that the device, which stopped running, can no more send.
  static void DropAll(PacketList frames, NetDevice& device);
};

}  // namespace tapwire::netdev
