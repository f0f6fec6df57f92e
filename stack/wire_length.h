// SPDX-License-Identifier: Apache-2.0
// Lengths that IP output of both families asks for: how large a packet is once a device has cut it
// into segments, and what the path carries.
#pragma once

#include <cstddef>
#include <cstdint>

#include "netdev/packet/packet.h"

namespace tapwire {

struct Route;

// Bytes that IP output keeps free before the IP header: Ethernet 14, two tags 8, virtio-net
// header 12.
inline constexpr size_t kLinkHeadroom = 34;

// Bytes of the largest IP packet that `packet` (data() at the transport header) becomes on the
// wire, with an IP header of `ip_header_length`: of one segment when it is a super-packet.
size_t WireLength(const Packet& packet, uint8_t protocol, size_t ip_header_length);

// The MTU to use for `route`: its own, or the device's when the route was made by hand without one.
// route.interface must not be null.
uint32_t RouteMtu(const Route& route);

}  // namespace tapwire
