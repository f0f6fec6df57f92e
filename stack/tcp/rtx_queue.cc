// SPDX-License-Identifier: Apache-2.0
// The ranges touch: each starts where the one before ends. So a position in sequence space is found
// by binary search, and cutting a range is the only way one comes up in the middle of the ring.
#include "stack/tcp/rtx_queue.h"

#include <algorithm>
#include <utility>

#include "netdev/base/check.h"

namespace tapwire::tcp {
namespace {

constexpr uint32_t kFirstCapacity = 8;

}  // namespace

// ---- The ring ----

void RtxQueue::Grow() {
  const uint32_t capacity = std::max(capacity_ * 2, kFirstCapacity);
  auto ring = std::make_unique<SentRange[]>(capacity);
  for (uint32_t i = 0; i < size_; ++i) ring[i] = at(i);
  large_ = std::move(ring);
  ring_ = large_.get();
  capacity_ = capacity;
  head_ = 0;
}

void RtxQueue::PopFront() {
  head_ = static_cast<uint32_t>((head_ + 1) & mask());
  if (--size_ > 0) return;
  head_ = 0;
  if (capacity_ == 1) return;
  large_.reset();
  ring_ = &one_;
  capacity_ = 1;
}

// Cuts a range in two at `where`, if that is inside; the second part is at index + 1. The shorter
// side of the ring moves.
void RtxQueue::SplitAt(size_t index, Seq where) {
  if (where <= at(index).seq || where >= at(index).end()) return;
  if (size_ == capacity_) Grow();
  SentRange second = at(index);
  second.length = Distance(where, second.end());
  second.seq = where;
  second.syn = false;
  at(index).length -= second.length;
  at(index).fin = false;
  if (index < size_ / 2) {
    head_ = static_cast<uint32_t>((head_ - 1) & mask());
    for (size_t i = 0; i <= index; ++i) at(i) = at(i + 1);
  } else {
    for (size_t i = size_; i > index + 1; --i) at(i) = at(i - 1);
  }
  ++size_;
  at(index + 1) = second;
}

// Index of the first range that ends behind `seq`; size_ if none does.
size_t RtxQueue::IndexOf(Seq seq) const {
  size_t low = 0;
  size_t high = size_;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (at(middle).end() <= seq) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

const SentRange& RtxQueue::front() const {
  TW_DCHECK(size_ > 0);
  return at(0);
}

const SentRange& RtxQueue::back() const {
  TW_DCHECK(size_ > 0);
  return at(size_ - 1);
}

const SentRange* RtxQueue::Find(Seq seq) const {
  if (seq < una() || seq >= end_) return nullptr;
  return &at(IndexOf(seq));
}

// ---- Accounts ----

void RtxQueue::Account(const SentRange& range, int sign) {
  const uint32_t bytes = sign < 0 ? 0U - range.length : range.length;
  total_ += bytes;
  if (range.sacked) sacked_ += bytes;
  if (range.lost) lost_ += bytes;
  if (range.resent) resent_ += bytes;
}

void RtxQueue::AddDelivered(const SentRange& range, uint32_t bytes, AckResult& result) const {
  result.newly_delivered += bytes;
  result.delivered_segs += (bytes + segment_size_ - 1) / segment_size_;
  if (range.transmissions > 1) {
    result.retransmitted = true;
  } else if (!result.has_sample || result.xmit_time < range.xmit_time) {
    result.has_sample = true;
    result.xmit_time = range.xmit_time;
  }
}

RtxQueue::Segments RtxQueue::CountSegments() const {
  Segments count;
  for (size_t i = 0; i < size_; ++i) {
    const SentRange& range = at(i);
    const uint32_t segments = (range.length + segment_size_ - 1) / segment_size_;
    count.total += segments;
    if (range.sacked) count.sacked += segments;
    if (range.lost) count.lost += segments;
    if (range.resent) count.resent += segments;
  }
  return count;
}

// ---- Sending and acknowledgment ----

void RtxQueue::OnSent(const SentRange& range) {
  if (range.length == 0) return;
  TW_DCHECK(size_ == 0 || range.seq == end_);
  if (size_ == 0) all_lost_below_ = next_lost_ = range.seq;
  if (size_ == capacity_) Grow();
  at(size_++) = range;
  end_ = range.end();
  Account(range, +1);
}

RtxQueue::AckResult RtxQueue::Ack(Seq una) {
  AckResult result;
  while (size_ > 0 && front().seq < una) {
    SentRange& range = at(0);
    const uint32_t bytes = std::min(range.length, Distance(range.seq, una));
    result.acked_bytes += bytes;
    if (!range.sacked) AddDelivered(range, bytes, result);
    Account(range, -1);
    if (bytes == range.length) {
      PopFront();
      continue;
    }
    range.seq += bytes;
    range.length -= bytes;
    range.syn = false;
    Account(range, +1);
  }
  // The marks must not fall so far behind that they look like the future.
  all_lost_below_ = Later(all_lost_below_, this->una());
  next_lost_ = Later(next_lost_, this->una());
  return result;
}

uint32_t RtxQueue::Sack(Seq left, Seq right, AckResult& sample) {
  if (size_ == 0 || right <= left) return 0;
  left = Later(left, una());
  right = Earlier(right, end_);
  uint32_t added = 0;
  for (size_t i = left < right ? IndexOf(left) : size_; i < size_ && at(i).seq < right; ++i) {
    if (at(i).sacked) continue;
    const bool cut = at(i).seq < left || at(i).end() > right;
    if (cut && size_ >= kMaxRangesToCut) continue;
    if (at(i).seq < left) {
      SplitAt(i, left);
      continue;  // the part from `left` on comes next
    }
    SplitAt(i, right);
    SentRange& range = at(i);
    AddDelivered(range, range.length, sample);
    added += range.length;
    highest_sacked_ = sacked_ == 0 ? range.end() : Later(highest_sacked_, range.end());
    Account(range, -1);
    range.sacked = true;
    range.lost = range.resent = false;
    Account(range, +1);
  }
  return added;
}

Seq RtxQueue::highest_sacked() const { return sacked_ == 0 ? una() : highest_sacked_; }

// ---- Loss ----

void RtxQueue::MarkLost(SentRange& range) {
  range.lost = true;
  lost_ += range.length;
  next_lost_ = Earlier(next_lost_, range.seq);
}

// Walks down from the highest SACKed range until enough is SACKed above; everything unsacked below
// that point is lost, so the walk ends where an earlier one has been.
uint32_t RtxQueue::DetectLost(uint32_t smss) {
  if (sacked_ == 0) return 0;
  const uint64_t enough = uint64_t{kDupThresh - 1} * smss;
  uint64_t sacked_above = 0;
  uint32_t runs_above = 0;
  bool in_run = false;
  uint32_t marked = 0;
  Seq all_lost_below = all_lost_below_;
  for (size_t i = IndexOf(highest_sacked_ - 1) + 1; i > 0; --i) {
    SentRange& range = at(i - 1);
    if (range.end() <= all_lost_below_) break;
    if (range.sacked) {
      sacked_above += range.length;
      if (!in_run) ++runs_above;
    } else if (sacked_above <= enough && runs_above < kDupThresh) {
      if (sacked_above == sacked_) break;  // nothing further down will make it enough
    } else {
      all_lost_below = Later(all_lost_below, range.end());
      if (!range.lost) {
        marked += range.length;
        MarkLost(range);
      }
    }
    in_run = range.sacked;
  }
  all_lost_below_ = all_lost_below;
  return marked;
}

uint32_t RtxQueue::MarkFirstLost(uint32_t max_bytes) {
  size_t i = 0;
  while (i < size_ && at(i).sacked) ++i;
  if (i == size_ || at(i).lost || max_bytes == 0) return 0;
  if (at(i).length > max_bytes) SplitAt(i, at(i).seq + max_bytes);
  MarkLost(at(i));
  return at(i).length;
}

void RtxQueue::MarkAllLost(bool forget_sacks) {
  for (size_t i = 0; i < size_; ++i) {
    SentRange& range = at(i);
    Account(range, -1);
    if (forget_sacks) range.sacked = false;
    range.lost = !range.sacked;
    range.resent = false;
    Account(range, +1);
  }
  all_lost_below_ = end_;
  next_lost_ = una();
}

const SentRange* RtxQueue::NextLost() const {
  if (lost_ == resent_) return nullptr;
  for (size_t i = IndexOf(next_lost_); i < size_; ++i) {
    const SentRange& range = at(i);
    if (range.lost && !range.resent) {
      next_lost_ = range.seq;
      return &range;
    }
  }
  return nullptr;
}

void RtxQueue::OnResent(Seq seq, uint32_t length, Time now) {
  const Seq end = Earlier(seq + length, end_);
  seq = Later(seq, una());
  for (size_t i = seq < end ? IndexOf(seq) : size_; i < size_ && at(i).seq < end; ++i) {
    if (at(i).sacked) continue;
    if (at(i).seq < seq) {
      SplitAt(i, seq);
      continue;  // the part from `seq` on comes next
    }
    SplitAt(i, end);
    SentRange& range = at(i);
    range.xmit_time = now;
    if (range.transmissions < UINT8_MAX) ++range.transmissions;
    if (range.lost && !range.resent) {
      range.resent = true;
      resent_ += range.length;
    }
  }
}

}  // namespace tapwire::tcp
