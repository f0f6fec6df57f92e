// SPDX-License-Identifier: Apache-2.0
// What the protocols do to the header of one segment. Internal to segmentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "netdev/packet/packet.h"

namespace tapwire::netdev::internal {

struct SegmentPosition {
  size_t index = 0;   // 0 is the first
  size_t offset = 0;  // of its payload in that of the super-packet
  size_t payload_bytes = 0;
  bool last = false;
};

// Rewrites a copy of the super-packet's transport header. The checksum field is
// left to the caller.
void EditTcpHeader(std::span<uint8_t> header, const GsoInfo& gso, const SegmentPosition& position);
void EditUdpHeader(std::span<uint8_t> header, const SegmentPosition& position);

}  // namespace tapwire::netdev::internal
