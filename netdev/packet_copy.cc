// SPDX-License-Identifier: Apache-2.0
#include "netdev/packet_copy.h"

#include <algorithm>

namespace tapwire::netdev {
namespace {

// What fits into a small slab; headers always do.
constexpr size_t kLinearBytes = kSmallSlabBytes - kDefaultHeadroom;

}  // namespace

PacketPtr CopyPacketTo(SlabPool& pool, const Packet& packet) {
  const size_t linear = std::min(packet.head_length(), kLinearBytes);
  PacketPtr copy = pool.AllocatePacket(linear);
  if (copy == nullptr) return nullptr;
  bool complete = true;
  packet.ForEachSpan(
      [&](std::span<const uint8_t> piece) { complete = complete && copy->AppendBytes(piece); });
  if (!complete) return nullptr;

  copy->meta = packet.meta;
  // Positions are kept from the start of the head slab, which is another one now.
  const int32_t shift =
      static_cast<int32_t>(copy->data_offset()) - static_cast<int32_t>(packet.data_offset());
  for (int32_t* position :
       {&copy->meta.l2_offset, &copy->meta.l3_offset, &copy->meta.l4_offset,
        &copy->meta.inner_l3_offset, &copy->meta.inner_l4_offset, &copy->meta.csum_start}) {
    if (*position == PacketMeta::kUnset) continue;
    // Pulled headers that the new headroom would not hold are not copied anyway.
    *position = std::max(*position + shift, PacketMeta::kUnset);
  }
  return copy;
}

}  // namespace tapwire::netdev
