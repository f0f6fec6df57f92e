// SPDX-License-Identifier: Apache-2.0
// What TCP asks of segments that are merged (RFC 9293 §3.1).
#include <cstring>

#include "netdev/base/byteorder.h"
#include "netdev/gro_protocol.h"
#include "netdev/wire/tcp.h"

namespace tapwire::netdev::internal {
namespace {

using wire::TcpFlags;

constexpr size_t kSeq = 4, kAck = 8, kLengthAndReserved = 12, kFlags = 13, kWindow = 14,
                 kUrgent = 18;
// The sender wants these to be seen at once.
constexpr TcpFlags kUrgentFlags =
    TcpFlags::kUrg | TcpFlags::kPsh | TcpFlags::kRst | TcpFlags::kSyn | TcpFlags::kFin;
// Of a super-packet these are the last segment's.
constexpr TcpFlags kLastOnly = TcpFlags::kFin | TcpFlags::kPsh;

// Whether all segments are of one size, so that more can follow.
bool IsWhole(uint32_t payload_bytes, uint32_t segments, uint16_t segment_bytes) {
  return payload_bytes == segments * segment_bytes;
}

bool Equal(const uint8_t* a, const uint8_t* b, size_t at, size_t n) {
  return std::memcmp(a + at, b + at, n) == 0;
}

}  // namespace

bool TcpMayHold(const Packet& packet, const GroHeaders& headers) {
  return headers.payload_bytes > 0 && !TcpFlags(TcpFlagsOf(packet, headers)).HasAny(kUrgentFlags) &&
         IsWhole(headers.payload_bytes, headers.segments, headers.segment_bytes);
}

bool TcpMayMerge(const GroHeld& held, const Packet& packet, const GroHeaders& headers) {
  const GroHeaders& first = held.headers;
  const uint8_t* a = held.packet->data() + first.l4;
  const uint8_t* b = packet.data() + headers.l4;
  if (LoadBe32(b + kSeq) != LoadBe32(a + kSeq) + first.payload_bytes) return false;
  if (headers.payload_bytes == 0 || headers.segment_bytes > first.segment_bytes) return false;
  if (headers.segments > 1 && headers.segment_bytes != first.segment_bytes) return false;
  const TcpFlags flags(b[kFlags]);
  // RFC 3168 §6.1.2: CWR stands on one segment, which has to stay recognizable.
  if (flags.cwr() || ((flags.bits() ^ a[kFlags]) & ~kLastOnly.bits()) != 0) return false;
  if (a[kLengthAndReserved] != b[kLengthAndReserved]) return false;
  const size_t length = size_t{headers.payload} - headers.l4;
  return Equal(a, b, kAck, 4) && Equal(a, b, kWindow, 2) &&
         Equal(a, b, kUrgent, length - kUrgent);  // and all options
}

bool TcpEndsSuperPacket(const GroHeld& held, const GroHeaders& headers) {
  const TcpFlags flags(TcpFlagsOf(*held.packet, held.headers));
  return flags.HasAny(kUrgentFlags) ||
         !IsWhole(headers.payload_bytes, headers.segments, held.headers.segment_bytes);
}

void MergeTcpFlags(GroHeld& held, uint8_t flags) {
  held.packet->data()[held.headers.l4 + kFlags] |= static_cast<uint8_t>(flags & kLastOnly.bits());
}

}  // namespace tapwire::netdev::internal
