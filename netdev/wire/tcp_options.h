// SPDX-License-Identifier: Apache-2.0
//
// TCP options as one value: MSS (RFC 9293 §3.7.1), window scale and timestamps (RFC 7323), SACK
// (RFC 2018). Unknown options are skipped by their length (MUST-6); a malformed one ends parsing,
// and what was read before it stands (MUST-7 asks only that nothing breaks).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tapwire::wire {

struct TcpOptionKind {
  static constexpr uint8_t kEndOfList = 0;
  static constexpr uint8_t kNop = 1;
  static constexpr uint8_t kMss = 2;
  static constexpr uint8_t kWindowScale = 3;
  static constexpr uint8_t kSackPermitted = 4;
  static constexpr uint8_t kSack = 5;
  static constexpr uint8_t kTimestamps = 8;
};

// RFC 7323 §3.2.
struct TcpTimestamps {
  uint32_t tsval = 0;
  uint32_t tsecr = 0;
  bool operator==(const TcpTimestamps&) const = default;
};

// RFC 2018 §3: the first byte received and the one behind the last.
struct TcpSackBlock {
  uint32_t left_edge = 0;
  uint32_t right_edge = 0;
  bool operator==(const TcpSackBlock&) const = default;
};

struct TcpOptions {
  static constexpr size_t kMaxLength = 40;
  static constexpr size_t kMaxSackBlocks = 4;

  std::optional<uint16_t> mss = {};
  // The shift as received, 0..255; RFC 7323 §2.3 has the receiver treat more than 14 as 14.
  std::optional<uint8_t> window_scale = {};
  bool sack_permitted = false;
  std::optional<TcpTimestamps> timestamps = {};
  std::array<TcpSackBlock, kMaxSackBlocks> sack_blocks = {};
  uint8_t sack_block_count = 0;

  // Whether parsing met a malformed option (never set for options built to be sent). Not part of
  // the value for comparison.
  bool malformed = false;

  std::span<const TcpSackBlock> sacks() const { return {sack_blocks.data(), sack_block_count}; }
  // Drops the block when four are held already.
  void AddSackBlock(TcpSackBlock block) {
    if (sack_block_count < kMaxSackBlocks) sack_blocks[sack_block_count++] = block;
  }

  // `options` are the bytes behind the fixed TCP header. A repeated option: the last one wins.
  static TcpOptions Parse(std::span<const uint8_t> options);

  // How many SACK blocks fit beside the other options in 40 bytes (three with timestamps).
  size_t MaxSackBlocks() const;
  // Bytes Emit() writes: a multiple of four, at most 40. SACK blocks that do not fit are not
  // counted.
  size_t length() const;
  // Writes length() bytes in the order Linux uses, aligned by no-operations: MSS, SACK-permitted
  // with timestamps, window scale, SACK blocks. SACK blocks that do not fit are left out.
  void Emit(std::span<uint8_t> out) const;

  bool operator==(const TcpOptions& other) const;
};

}  // namespace tapwire::wire
