// SPDX-License-Identifier: Apache-2.0
// RtxQueue: what has been sent and not yet acknowledged, as ranges of sequence numbers, with what
// is known about each: the vocabulary of RFC 6675 over one list. It holds no data and no packets:
// a retransmission is built afresh from the send buffer.
//
//   SND.UNA                                                       SND.NXT
//   | lost | sacked | lost, sent again | sacked | in flight | FIN |
//
// pipe = all - sacked - lost + sent again (RFC 6675 §4, SetPipe).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "netdev/base/time.h"
#include "stack/tcp/seq.h"

namespace tapwire::tcp {

struct SentRange {
  Seq seq;
  uint32_t length = 0;  // sequence numbers, SYN and FIN included
  Time xmit_time{};     // of the last transmission
  uint8_t transmissions = 1;
  bool sacked = false;
  bool lost = false;    // believed lost; cleared by nothing but acknowledgment
  bool resent = false;  // sent again since it was marked lost, and that copy is in flight
  bool syn = false;     // the range starts with a SYN …
  bool fin = false;     // … or ends with a FIN
  Seq end() const { return seq + length; }
};

class RtxQueue {
 public:
  struct AckResult {
    uint32_t acked_bytes = 0;      // sequence numbers that left the queue
    uint32_t newly_delivered = 0;  // those, or SACKed ones, that were not SACKed before
    // When the most recently sent of the newly delivered ranges that were sent only once was sent;
    // has_sample is false if there is none (Karn's rule).
    bool has_sample = false;
    Time xmit_time{};
    bool retransmitted = false;   // a newly delivered range was sent more than once
    uint32_t delivered_segs = 0;  // newly_delivered in segments
  };

  // A SACK block that would cut a range is not taken while there are so many ranges: a peer that
  // acknowledges every other byte must not make the list grow without end. SACK only advises (RFC
  // 2018 §8), so nothing but efficiency is lost.
  static constexpr size_t kMaxRangesToCut = 8192;
  static constexpr uint32_t kDupThresh = 3;  // RFC 6675 §2

  RtxQueue() = default;
  RtxQueue(const RtxQueue&) = delete;
  RtxQueue& operator=(const RtxQueue&) = delete;

  bool empty() const { return size_ == 0; }
  size_t range_count() const { return size_; }

  // Appends a range that was just sent; it starts where the last one ends. Ranges stay apart.
  void OnSent(const SentRange& range);
  // Takes off what lies before `una`; a range that reaches across is cut.
  AckResult Ack(Seq una);
  // Marks [left, right) as received by the peer; returns how many numbers are new, and adds them to
  // `sample`. The part outside the queue is ignored.
  uint32_t Sack(Seq left, Seq right, AckResult& sample);
  // RFC 6675 §4 IsLost: marks unsacked ranges that have more than (DupThresh - 1) * smss bytes, or
  // DupThresh runs of bytes that do not touch, sacked above them. Returns the bytes newly marked.
  uint32_t DetectLost(uint32_t smss);
  // Marks the first unsacked range, or its first `max_bytes`, as lost (RFC 6582 partial
  // acknowledgment, third duplicate acknowledgment). Returns the bytes newly marked: 0 if it is
  // marked already.
  uint32_t MarkFirstLost(uint32_t max_bytes);
  // RTO: everything unsacked is lost, and no copy is in flight any more (RFC 6298 §5.4). With
  // `forget_sacks` what was sacked too (the peer may have reneged, RFC 2018 §8).
  void MarkAllLost(bool forget_sacks);
  // First range that is lost and of which no copy is in flight; null if none. Valid until the next
  // call that changes the queue.
  const SentRange* NextLost() const;
  // What is unsacked of [seq, seq + length) was sent again at `now`; a range that reaches out of it
  // is cut. Need not have been lost (a probe).
  void OnResent(Seq seq, uint32_t length, Time now);

  // First and last range; the queue must not be empty.
  const SentRange& front() const;
  const SentRange& back() const;
  // Last send time of the range at SND.UNA, for the RTO (RFC 6298 §5); the queue must not be empty.
  Time oldest_xmit_time() const { return front().xmit_time; }
  // The range that holds `seq`, or null.
  const SentRange* Find(Seq seq) const;

  // Bytes by kind; `pipe` as RFC 6675 §4.
  uint32_t total() const { return total_; }
  uint32_t sacked() const { return sacked_; }
  uint32_t lost() const { return lost_; }
  uint32_t resent() const { return resent_; }
  uint32_t pipe() const { return total_ - sacked_ - lost_ + resent_; }
  // Segments, of the size that was last set.
  struct Segments {
    uint32_t total = 0, sacked = 0, lost = 0, resent = 0;
  };
  Segments CountSegments() const;
  void set_segment_size(uint32_t size) { segment_size_ = size > 0 ? size : 1; }

  // One past the highest SACKed number; SND.UNA if none, and the end of what was sent last if the
  // queue is empty.
  Seq highest_sacked() const;

 private:
  // A ring that doubles, given back when it drains: little memory for an idle connection, and no
  // allocation for one that asks and answers.
  SentRange& at(size_t i) { return ring_[(head_ + i) & mask()]; }
  const SentRange& at(size_t i) const { return ring_[(head_ + i) & mask()]; }
  size_t mask() const { return capacity_ - 1; }
  Seq una() const { return size_ == 0 ? end_ : front().seq; }

  void Grow();
  void PopFront();
  void SplitAt(size_t index, Seq where);
  size_t IndexOf(Seq seq) const;
  void Account(const SentRange& range, int sign);
  void MarkLost(SentRange& range);
  void AddDelivered(const SentRange& range, uint32_t bytes, AckResult& result) const;

  SentRange one_;
  std::unique_ptr<SentRange[]> large_;
  SentRange* ring_ = &one_;  // or large_
  uint32_t capacity_ = 1;    // a power of two
  uint32_t head_ = 0;
  uint32_t size_ = 0;
  uint32_t total_ = 0, sacked_ = 0, lost_ = 0, resent_ = 0;
  uint32_t segment_size_ = 536;
  Seq end_;  // one past the last range
  // Where searches may begin, so that they do not pass the same ranges again and again.
  Seq highest_sacked_;     // meaningful while sacked_ > 0
  Seq all_lost_below_;     // what is unsacked below is lost
  mutable Seq next_lost_;  // nothing below waits to be sent again
};

}  // namespace tapwire::tcp
