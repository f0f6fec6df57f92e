// SPDX-License-Identifier: Apache-2.0
// Software side of checksum offload. States on the way in and out:
//
//   kNone         rx: verify here.                    tx: the bytes are final.
//   kUnnecessary  rx: the device verified.            tx: as kNone.
//   kComplete     rx: the device summed everything.   tx: as kNone.
//   kPartial      rx: the sender never summed, and nothing can have damaged the bytes on the way.
//                 tx: the field holds the pseudo-header sum; to be summed by the device or here.
#include "netdev/csum_offload.h"

#include <algorithm>

#include "netdev/base/byteorder.h"
#include "netdev/base/check.h"
#include "netdev/wire/checksum.h"

namespace tapwire::netdev {
namespace {

constexpr size_t kFieldBytes = 2;

// Adds the bytes [offset, offset + length) of the packet to `sum`.
void AddRange(const Packet& packet, size_t offset, size_t length, wire::InternetChecksum& sum) {
  packet.ForEachSpan([&](std::span<const uint8_t> bytes) {
    const size_t skipped = std::min(offset, bytes.size());
    offset -= skipped;
    const size_t taken = std::min(length, bytes.size() - skipped);
    length -= taken;
    sum.Add(bytes.subspan(skipped, taken));
  });
}

uint16_t SwapBytes(uint16_t v) { return static_cast<uint16_t>((v << 8) | (v >> 8)); }

}  // namespace

bool ChecksumHelp(Packet& packet) {
  PacketMeta& meta = packet.meta;
  if (meta.csum_state != CsumState::kPartial) return true;
  if (meta.gso.size != 0 || meta.csum_start < 0) return false;
  const int32_t start_in_data = packet.csum_start_in_data();
  if (start_in_data < 0) return false;
  const auto start = static_cast<size_t>(start_in_data);
  const size_t field = start + meta.csum_offset;
  if (field + kFieldBytes > packet.length()) return false;
  // Moving the head moves csum_start along; positions in the data stay.
  if (!packet.EnsureLinear(field + kFieldBytes)) return false;

  wire::InternetChecksum sum;
  AddRange(packet, start, packet.length() - start, sum);
  StoreBe16(packet.data() + field, StoredChecksum(sum.Finish(), meta.csum_offset));
  meta.csum_state = CsumState::kNone;
  meta.csum_start = PacketMeta::kUnset;
  meta.csum_offset = 0;
  return true;
}

bool ChecksumUnnecessary(const Packet& packet) {
  switch (packet.meta.csum_state) {
    case CsumState::kUnnecessary:
      return true;
    case CsumState::kPartial:
      return packet.meta.csum_start >= 0 && packet.csum_start_in_data() >= 0;
    case CsumState::kNone:
    case CsumState::kComplete:
      return false;
  }
  return false;
}

bool VerifyTransportChecksum(const Packet& packet, const PseudoHeader& pseudo, uint32_t length) {
  if (ChecksumUnnecessary(packet)) return true;
  if (length > packet.length()) return false;
  if (packet.meta.csum_state == CsumState::kComplete && length == packet.length()) {
    wire::InternetChecksum sum(packet.meta.csum_value);
    sum.AddPseudoHeader(pseudo.source, pseudo.destination, pseudo.protocol, length);
    if (sum.Finish() == 0) return true;
  }
  wire::InternetChecksum sum;
  sum.AddPseudoHeader(pseudo.source, pseudo.destination, pseudo.protocol, length);
  AddRange(packet, 0, length, sum);
  return sum.Finish() == 0;
}

void RemoveFromCompleteSum(Packet& packet, std::span<const uint8_t> bytes) {
  if (packet.meta.csum_state != CsumState::kComplete) return;
  wire::InternetChecksum removed;
  removed.Add(bytes);
  // RFC 1624 §3: subtracting is adding the complement.
  wire::InternetChecksum rest(packet.meta.csum_value);
  rest.AddBe16(removed.Finish());
  packet.meta.csum_value = rest.Fold();
}

void AddToCompleteSum(Packet& packet, std::span<const uint8_t> bytes) {
  PacketMeta& meta = packet.meta;
  if (meta.csum_state != CsumState::kComplete) return;
  // RFC 1071 §2(B): behind an odd number of bytes the old sum counts with its bytes swapped.
  wire::InternetChecksum sum(bytes.size() % 2 == 0 ? meta.csum_value : SwapBytes(meta.csum_value));
  sum.Add(bytes);
  meta.csum_value = sum.Fold();
}

void ConsumeChecksum(Packet& packet) {
  PacketMeta& meta = packet.meta;
  if (meta.csum_state != CsumState::kUnnecessary) return;
  if (meta.csum_level == 0) {
    meta.csum_state = CsumState::kNone;
  } else {
    --meta.csum_level;
  }
}

void NoteVerifiedChecksum(Packet& packet) {
  PacketMeta& meta = packet.meta;
  if (meta.csum_state == CsumState::kNone) {
    meta.csum_state = CsumState::kUnnecessary;
    meta.csum_level = 0;
  } else if (meta.csum_state == CsumState::kUnnecessary && meta.csum_level < kMaxChecksumLevel) {
    ++meta.csum_level;
  }
}

void ForwardChecksumState(Packet& packet) {
  PacketMeta& meta = packet.meta;
  if (meta.csum_state != CsumState::kComplete) return;
  meta.csum_state = CsumState::kNone;
  meta.csum_value = 0;
}

std::optional<std::span<const uint8_t>> PullAdjustingChecksum(Packet& packet, size_t n) {
  const auto pulled = packet.Pull(n);
  if (!pulled) return std::nullopt;
  PacketMeta& meta = packet.meta;
  if (meta.csum_state == CsumState::kComplete) {
    RemoveFromCompleteSum(packet, *pulled);
    // What follows an odd number of bytes was summed with its bytes swapped
    // (RFC 1071 §2(B)).
    if (n % 2 != 0) meta.csum_value = SwapBytes(meta.csum_value);
  } else if (meta.csum_state == CsumState::kPartial && packet.csum_start_in_data() < 0) {
    meta.csum_state = CsumState::kNone;
  }
  return pulled;
}

void SetPartialChecksum(Packet& packet, const PseudoHeader& pseudo, uint16_t field_offset) {
  TW_CHECK(field_offset + kFieldBytes <= packet.head_length(),
           "the transport header must be linear");
  StoreBe16(packet.data() + field_offset,
            wire::PseudoHeaderSum(pseudo.source, pseudo.destination, pseudo.protocol,
                                  static_cast<uint32_t>(packet.length())));
  packet.meta.csum_state = CsumState::kPartial;
  packet.meta.csum_offset = field_offset;
  packet.set_csum_start_in_data(0);
}

}  // namespace tapwire::netdev
