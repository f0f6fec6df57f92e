// SPDX-License-Identifier: Apache-2.0
// Copies between the pools of two contexts.
#pragma once

#include "netdev/packet/packet.h"
#include "netdev/packet/slab_pool.h"

namespace tapwire::netdev {

// A copy of `packet` in `pool`, which may belong to another thread's context: bytes, metadata and
// header positions, nothing shared. Reads `packet` only, without touching a reference count. Null
// if `pool` is at its budget.
PacketPtr CopyPacketTo(SlabPool& pool, const Packet& packet);

}  // namespace tapwire::netdev
