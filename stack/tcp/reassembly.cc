// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/reassembly.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tapwire::tcp {
namespace {

// Memory for a copy of so many bytes, by the slab sizes of BufferChain::AppendCopy.
size_t CopySize(size_t bytes) {
  const size_t slab = bytes <= 2 * kSmallSlabBytes ? kSmallSlabBytes : kLargeSlabBytes;
  return (bytes + slab - 1) / slab * slab;
}

// A little data must not hold a large slab: many such segments would use up max_bytes with next to
// nothing stored.
BufferChain Compact(BufferChain data, SlabPool& pool) {
  if (data.true_size() <= 2 * CopySize(data.size())) return data;
  BufferChain copy;
  bool complete = true;
  data.ForEachSlice(0, data.size(), [&](const BufferSlice& slice) {
    complete = complete && copy.AppendCopy(pool, slice.bytes()) == slice.size();
  });
  return complete ? std::move(copy) : std::move(data);
}

BufferChain TakeBytes(PacketPtr packet, size_t length) {
  SlabPool& pool = packet->pool();
  BufferChain data;
  data.AppendPacket(std::move(packet), 0, length);
  return Compact(std::move(data), pool);
}

// Orders arrivals that may have wrapped.
bool LaterArrival(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace

// ---- Insertion ----

size_t Reassembly::FirstEndingAtOrBehind(Seq seq) const {
  const auto it = std::partition_point(ranges_.begin(), ranges_.end(),
                                       [seq](const Range& r) { return r.end() < seq; });
  return static_cast<size_t>(it - ranges_.begin());
}

size_t Reassembly::FirstStartingBehind(Seq seq) const {
  const auto it = std::partition_point(ranges_.begin(), ranges_.end(),
                                       [seq](const Range& r) { return r.start <= seq; });
  return static_cast<size_t>(it - ranges_.begin());
}

Reassembly::InsertResult Reassembly::Insert(Seq seq, PacketPtr packet, const Limits& limits) {
  auto length = static_cast<uint32_t>(packet->length());
  if (fin_) length = std::min(length, Distance(seq, *fin_));
  InsertResult result;
  if (length == 0) return result;

  // [first, last) are the ranges that the segment overlaps or adjoins: with it they become one.
  const size_t first = FirstEndingAtOrBehind(seq);
  const size_t last = FirstStartingBehind(seq + length);
  if (first == last && ranges_.size() >= limits.max_ranges) return result;
  Pieces pieces = CutGaps(seq, TakeBytes(std::move(packet), length), first, last, result);
  size_t needed = 0;
  for (const Piece& piece : pieces) needed += piece.data.true_size();
  if (!pieces.empty() && true_size_ + needed > limits.max_bytes) return InsertResult();

  result.stored = true;
  result.duplicate = pieces.empty();
  if (pieces.empty()) {
    ranges_[first].arrival = ++arrivals_;  // its block is still the one to report first
  } else {
    Merge(std::move(pieces), first, last);
  }
  return result;
}

// The parts of [seq, seq + data.size()) that no range holds yet, in order. Notes the first part
// that one does hold.
Reassembly::Pieces Reassembly::CutGaps(Seq seq, BufferChain data, size_t first, size_t last,
                                       InsertResult& result) const {
  Pieces pieces;
  for (size_t i = first; i < last; ++i) {
    const Range& range = ranges_[i];
    const uint32_t gap = Distance(seq, range.start);
    if (gap > 0) pieces.push_back({seq, data.Split(gap)});
    seq += gap;
    const auto held = std::min(Distance(seq, range.end()), static_cast<uint32_t>(data.size()));
    if (held > 0 && !result.dsack) {
      result.dsack = wire::TcpSackBlock{seq.value(), (seq + held).value()};
    }
    data.Consume(held);
    seq += held;
  }
  if (!data.empty()) pieces.push_back({seq, std::move(data)});
  return pieces;
}

void Reassembly::Merge(Pieces pieces, size_t first, size_t last) {
  Range merged;
  merged.arrival = ++arrivals_;
  merged.start = pieces.front().start;
  if (first < last) merged.start = Earlier(merged.start, ranges_[first].start);

  auto piece = pieces.begin();
  for (size_t i = first; i < last; ++i) {
    Range& range = ranges_[i];
    if (piece != pieces.end() && piece->start < range.start) {
      merged.data.Append(std::move((piece++)->data));
    }
    true_size_ -= range.data.true_size();
    merged.data.Append(std::move(range.data));
  }
  if (piece != pieces.end()) merged.data.Append(std::move(piece->data));
  true_size_ += merged.data.true_size();

  const auto begin = ranges_.begin();
  const auto at = [begin](size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
  if (first == last) {
    ranges_.insert(at(first), std::move(merged));
  } else {
    ranges_[first] = std::move(merged);
    ranges_.erase(at(first + 1), at(last));
  }
}

void Reassembly::InsertFin(Seq seq) {
  if (fin_) return;
  fin_ = seq;
  while (!ranges_.empty() && ranges_.back().end() > seq) {
    Range& range = ranges_.back();
    true_size_ -= range.data.true_size();
    range.data.Trim(Distance(range.start, seq));
    true_size_ += range.data.true_size();
    if (range.data.empty()) ranges_.pop_back();
  }
}

// ---- Delivery ----

uint32_t Reassembly::TakeContiguous(Seq rcv_nxt, BufferChain& out) {
  uint32_t taken = 0;
  size_t used = 0;
  while (used < ranges_.size() && ranges_[used].start <= rcv_nxt) {
    Range& range = ranges_[used++];
    true_size_ -= range.data.true_size();
    range.data.Consume(Distance(range.start, rcv_nxt));  // came again in order meanwhile
    const auto bytes = static_cast<uint32_t>(range.data.size());
    out.Append(std::move(range.data));
    taken += bytes;
    rcv_nxt += bytes;
  }
  if (used == ranges_.size()) {
    ranges_ = std::vector<Range>();  // gives the memory back
  } else {
    ranges_.erase(ranges_.begin(), ranges_.begin() + static_cast<std::ptrdiff_t>(used));
  }
  return taken;
}

void Reassembly::Clear() {
  ranges_ = std::vector<Range>();
  fin_.reset();
  true_size_ = 0;
}

// ---- SACK ----

// RFC 2018 §4: "The first SACK block … MUST specify the contiguous block of data containing the
// segment which triggered this ACK"; the others repeat those reported first most recently.
size_t Reassembly::SackBlocks(std::span<wire::TcpSackBlock> out) const {
  std::array<const Range*, wire::TcpOptions::kMaxSackBlocks> latest{};
  const size_t room = std::min(out.size(), latest.size());
  size_t count = 0;
  for (const Range& range : ranges_) {
    size_t place = count;
    while (place > 0 && LaterArrival(range.arrival, latest[place - 1]->arrival)) --place;
    if (place == room) continue;
    count = std::min(count + 1, room);
    for (size_t i = count - 1; i > place; --i) latest[i] = latest[i - 1];
    latest[place] = &range;
  }
  for (size_t i = 0; i < count; ++i) {
    out[i] = {latest[i]->start.value(), latest[i]->end().value()};
  }
  return count;
}

}  // namespace tapwire::tcp
