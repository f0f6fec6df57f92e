// SPDX-License-Identifier: Apache-2.0
// What forwarding of both families shares: what is in transit, how long a packet is on the next
// link, and what a packet must be rid of before it leaves by another device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "netdev/base/counter.h"
#include "netdev/base/drop_reason.h"
#include "netdev/packet/packet.h"
#include "stack/ip.h"

namespace tapwire {

class Interface;
class Stack;

// Why a packet is not passed on: how it is counted, and what its sender is told.
struct TransitProblem {
  DropReason reason = DropReason::kNone;
  Counter* counter = nullptr;
  IcmpErrorKind kind = IcmpErrorKind::kOther;  // kOther: say nothing
  uint32_t value = 0;                          // the MTU
};

// Whether what `interface` receives for others is passed on. Never from loopback: there it is only
// our own that has lost its address.
bool ForwardsFrom(const Interface& interface);

// Whether `packet` (data() at its IP header), about to be sent, was received and is sent on for
// another host: ours have one of our sources, which a received packet must not have.
bool IsTransit(const Stack& stack, const Packet& packet);

// The next hop of such a packet does not answer (RFC 1812 §5.3.3, RFC 4443 §3.1): its sender is
// told, kNeighborUnresolved counted and the packet freed.
void ReportTransitUnreachable(Stack& stack, PacketPtr packet);

// A packet that a device merged without saying how it can be cut again.
inline bool IsLro(const Packet& packet) {
  return packet.meta.gso.size != 0 && packet.meta.gso.type == GsoType::kNone;
}

// Bytes of the largest IP packet that `packet` (data() at its IP header) is on the wire, when
// `protocol` starts `l4_offset` bytes in: those of one segment if it is a super-packet. 0 without
// memory to look at the transport header.
size_t TransitLength(Packet& packet, uint8_t protocol, size_t l4_offset);

// Forgets what is true of the link the packet came by only. A sum of all bytes is none any more
// once the hop limit has changed; other checksum states go with the packet, so that none is
// computed that the sender did not ask for.
void LeaveLink(Packet& packet);

}  // namespace tapwire
