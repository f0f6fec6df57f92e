// SPDX-License-Identifier: Apache-2.0
// TCP headers of segments (RFC 9293 §3.1).
#include "netdev/base/byteorder.h"
#include "netdev/gso_protocol.h"
#include "netdev/wire/tcp.h"

namespace tapwire::netdev::internal {
namespace {

constexpr size_t kSeqOffset = 4;
constexpr size_t kFlagsOffset = 13;

}  // namespace

void EditTcpHeader(std::span<uint8_t> header, const GsoInfo& gso, const SegmentPosition& position) {
  const uint32_t seq = LoadBe32(header.data() + kSeqOffset);
  StoreBe32(header.data() + kSeqOffset, seq + static_cast<uint32_t>(position.offset));

  wire::TcpFlags flags(header[kFlagsOffset]);
  if (!position.last) flags &= ~(wire::TcpFlags::kFin | wire::TcpFlags::kPsh);
  // RFC 3168 §6.1.2: CWR stands on the first new segment after the window was
  // reduced. Accurate ECN uses the bit as part of a counter on every segment.
  if (position.index != 0 && !gso.Has(GsoType::kTcpAccEcn)) {
    flags &= ~wire::TcpFlags::kCwr;
  }
  header[kFlagsOffset] = flags.bits();
}

}  // namespace tapwire::netdev::internal
