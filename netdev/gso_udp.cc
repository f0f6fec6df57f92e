// SPDX-License-Identifier: Apache-2.0
// UDP headers of segments (RFC 768): every segment is a datagram of its own.
#include "netdev/base/byteorder.h"
#include "netdev/gso_protocol.h"
#include "netdev/wire/udp.h"

namespace tapwire::netdev::internal {
namespace {

constexpr size_t kLengthOffset = 4;

}  // namespace

void EditUdpHeader(std::span<uint8_t> header, const SegmentPosition& position) {
  StoreBe16(header.data() + kLengthOffset,
            static_cast<uint16_t>(wire::UdpHeader::kLength + position.payload_bytes));
}

}  // namespace tapwire::netdev::internal
