// SPDX-License-Identifier: Apache-2.0
// Ethernet output: puts the link header on a network packet and gives it to the device.
#pragma once

#include <cstdint>

#include "netdev/device.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/mac_address.h"

namespace tapwire {

// `packet` data() is at the network header (ARP, IPv4, IPv6); meta l3_offset is set to it here.
netdev::TxResult EthOutput(PacketPtr packet, netdev::NetDevice& device,
                           const MacAddress& destination, uint16_t ether_type);

}  // namespace tapwire
