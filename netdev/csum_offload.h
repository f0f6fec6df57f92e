// SPDX-License-Identifier: Apache-2.0
// Checksum states in software: completing what a sender left to the device, and
// judging what a receiving device said. Nothing here looks at features: a packet's
// own state is believed, whether or not receive checksumming is on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "netdev/packet/packet.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::netdev {

// What goes into the field for a computed checksum: 0 would mean "none" to UDP (RFC 768) and
// becomes its other form, all ones. Elsewhere 0 stands as it is, since readers take all ones for an
// error.
constexpr uint16_t StoredChecksum(uint16_t checksum, uint16_t csum_offset) {
  constexpr uint16_t kUdpChecksumOffset = 6;
  return checksum == 0 && csum_offset == kUdpChecksumOffset ? uint16_t{0xffff} : checksum;
}

// Sums from csum_start to the end and stores the complement at csum_start +
// csum_offset (as StoredChecksum says); the state becomes kNone. False, and the
// packet unchanged, if it is a GSO packet, start or field lie outside the data, or
// there is no memory to make the field writable. A packet that is not kPartial is
// left alone (true).
[[nodiscard]] bool ChecksumHelp(Packet& packet);

// Whether a transport checksum that starts at data() needs no verification:
// kUnnecessary, or kPartial with its start at or after data().
bool ChecksumUnnecessary(const Packet& packet);

struct PseudoHeader {
  IpAddress source, destination;  // of one family
  uint8_t protocol = 0;
};
// True when the transport checksum over `length` bytes from data() is right or need
// not be looked at. A kComplete sum is used if it covers just these bytes; if it says
// "wrong", the bytes are summed and decide. False if `length` exceeds the packet.
bool VerifyTransportChecksum(const Packet& packet, const PseudoHeader& pseudo, uint32_t length);

// Packet::Pull() that keeps the checksum state true: kComplete sums lose the removed
// bytes, kPartial whose start is removed becomes kNone.
std::optional<std::span<const uint8_t>> PullAdjustingChecksum(Packet& packet, size_t n);

// A kComplete sum covers what is behind the link header while data() is at that, and else all data.
// These keep it true when bytes that it covers are taken out (an even number, at an even place), or
// put in front of the data. Other states stay.
void RemoveFromCompleteSum(Packet& packet, std::span<const uint8_t> bytes);
void AddToCompleteSum(Packet& packet, std::span<const uint8_t> bytes);

// One verified checksum has been used, by a tunnel's outer header: the next one is inside.
// kUnnecessary of level 0 becomes kNone. A UDP header without a checksum uses one as well.
void ConsumeChecksum(Packet& packet);
// Software has verified the outermost checksum that nobody vouched for yet: kNone becomes
// kUnnecessary, and that rises by a level, to at most kMaxChecksumLevel.
inline constexpr uint8_t kMaxChecksumLevel = 3;
void NoteVerifiedChecksum(Packet& packet);
// To be called when a packet is forwarded: a sum over all of it ends being true with the first
// field that is changed. The other states go on.
void ForwardChecksumState(Packet& packet);

// Marks the packet kPartial for a transport header at data() whose checksum field is
// `field_offset` bytes in, and stores the pseudo-header sum there. The header must be
// in the linear part.
void SetPartialChecksum(Packet& packet, const PseudoHeader& pseudo, uint16_t field_offset);

}  // namespace tapwire::netdev
