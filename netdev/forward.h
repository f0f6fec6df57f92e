// SPDX-License-Identifier: Apache-2.0
// Handing a frame from one device to the receive side of another on the same context.
#pragma once

#include "netdev/device.h"
#include "netdev/packet/packet.h"

namespace tapwire::netdev {

enum class ForwardResult : uint8_t { kQueued, kRefused };

// Takes a whole frame, data() at the Ethernet header, and queues it on the backlog as received by
// `device`, in one hop: checksum state and segmentation metadata survive, everything that belonged
// to the sender (receive device, target, flow hash, tag queue) is cleared. Refused, freed and
// counted in `device`'s rx_dropped: when it is not up, when a frame that is no super-packet is
// longer than its MTU + link header + one tag, or when the backlog is full.
ForwardResult ForwardToDevice(PacketPtr packet, NetDevice& device);

}  // namespace tapwire::netdev
