// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/tcp_options.h"

#include <algorithm>

#include "netdev/base/byteorder.h"

namespace tapwire::wire {
namespace {

constexpr uint8_t kNopByte = TcpOptionKind::kNop;

constexpr uint8_t kMssLength = 4;
constexpr uint8_t kWindowScaleLength = 3;
constexpr uint8_t kSackPermittedLength = 2;
constexpr uint8_t kTimestampsLength = 10;
constexpr size_t kSackBlockLength = 8;

// Takes one option whose length (`option.size()`, type and length bytes included) lies within the
// header. False if a known kind has an impossible length.
bool TakeOption(std::span<const uint8_t> option, TcpOptions& options) {
  const uint8_t* p = option.data();
  switch (option[0]) {
    case TcpOptionKind::kMss:
      if (option.size() != kMssLength) return false;
      options.mss = LoadBe16(p + 2);
      return true;
    case TcpOptionKind::kWindowScale:
      if (option.size() != kWindowScaleLength) return false;
      options.window_scale = p[2];
      return true;
    case TcpOptionKind::kSackPermitted:
      if (option.size() != kSackPermittedLength) return false;
      options.sack_permitted = true;
      return true;
    case TcpOptionKind::kTimestamps:
      if (option.size() != kTimestampsLength) return false;
      options.timestamps = TcpTimestamps{.tsval = LoadBe32(p + 2), .tsecr = LoadBe32(p + 6)};
      return true;
    case TcpOptionKind::kSack:
      // RFC 2018 §3: 8n + 2 bytes; in 40 bytes n is at most 4.
      if (option.size() < 2 + kSackBlockLength || (option.size() - 2) % kSackBlockLength != 0) {
        return false;
      }
      options.sack_block_count = 0;
      for (size_t i = 2; i < option.size(); i += kSackBlockLength) {
        options.AddSackBlock({.left_edge = LoadBe32(p + i), .right_edge = LoadBe32(p + i + 4)});
      }
      return true;
    default:
      return true;
  }
}

// Length of all but the SACK blocks, with their no-operations.
size_t LengthWithoutSack(const TcpOptions& options) {
  size_t length = 0;
  if (options.mss) length += 4;
  if (options.timestamps) {
    length += 12;
  } else if (options.sack_permitted) {
    length += 4;
  }
  if (options.window_scale) length += 4;
  return length;
}

// The SACK blocks that Emit() writes.
size_t EmittedSackBlocks(const TcpOptions& options) {
  return std::min<size_t>(options.sack_block_count, options.MaxSackBlocks());
}

}  // namespace

TcpOptions TcpOptions::Parse(std::span<const uint8_t> bytes) {
  TcpOptions options;
  size_t pos = 0;
  while (pos < bytes.size()) {
    const uint8_t kind = bytes[pos];
    if (kind == TcpOptionKind::kEndOfList) break;
    if (kind == TcpOptionKind::kNop) {
      ++pos;
      continue;
    }
    // RFC 9293 §3.1 (MUST-7): the length may be missing, below two, or past the end.
    const size_t left = bytes.size() - pos;
    const size_t length = left >= 2 ? bytes[pos + 1] : 0;
    if (length < 2 || length > left || !TakeOption(bytes.subspan(pos, length), options)) {
      options.malformed = true;
      break;
    }
    pos += length;
  }
  return options;
}

size_t TcpOptions::MaxSackBlocks() const {
  // Two no-operations, kind and length stand in front of the blocks.
  const size_t used = LengthWithoutSack(*this) + 4;
  if (used >= kMaxLength) return 0;
  return std::min((kMaxLength - used) / kSackBlockLength, kMaxSackBlocks);
}

size_t TcpOptions::length() const {
  const size_t blocks = EmittedSackBlocks(*this);
  return LengthWithoutSack(*this) + (blocks == 0 ? 0 : 4 + kSackBlockLength * blocks);
}

void TcpOptions::Emit(std::span<uint8_t> out) const {
  uint8_t* p = out.data();
  if (mss) {
    p[0] = TcpOptionKind::kMss;
    p[1] = kMssLength;
    StoreBe16(p + 2, *mss);
    p += 4;
  }
  if (timestamps) {
    // Linux: SACK-permitted takes the place of the two no-operations in front of the timestamps.
    p[0] = sack_permitted ? TcpOptionKind::kSackPermitted : kNopByte;
    p[1] = sack_permitted ? kSackPermittedLength : kNopByte;
    p[2] = TcpOptionKind::kTimestamps;
    p[3] = kTimestampsLength;
    StoreBe32(p + 4, timestamps->tsval);
    StoreBe32(p + 8, timestamps->tsecr);
    p += 12;
  } else if (sack_permitted) {
    p[0] = p[1] = kNopByte;
    p[2] = TcpOptionKind::kSackPermitted;
    p[3] = kSackPermittedLength;
    p += 4;
  }
  if (window_scale) {
    p[0] = kNopByte;
    p[1] = TcpOptionKind::kWindowScale;
    p[2] = kWindowScaleLength;
    p[3] = *window_scale;
    p += 4;
  }
  const size_t blocks = EmittedSackBlocks(*this);
  if (blocks == 0) return;
  p[0] = p[1] = kNopByte;
  p[2] = TcpOptionKind::kSack;
  p[3] = static_cast<uint8_t>(2 + kSackBlockLength * blocks);
  p += 4;
  for (size_t i = 0; i < blocks; ++i, p += kSackBlockLength) {
    StoreBe32(p, sack_blocks[i].left_edge);
    StoreBe32(p + 4, sack_blocks[i].right_edge);
  }
}

bool TcpOptions::operator==(const TcpOptions& other) const {
  return mss == other.mss && window_scale == other.window_scale &&
         sack_permitted == other.sack_permitted && timestamps == other.timestamps &&
         std::ranges::equal(sacks(), other.sacks());
}

}  // namespace tapwire::wire
