// SPDX-License-Identifier: Apache-2.0
// Loss recovery: when data in flight is believed lost, and what that means for cwnd.
//
//   Open ──3 duplicate ACKs, or 2 MSS SACKed above──► Recovery ──recovery point──► Open
//     └──────────────── RTO ──────► Loss ─────────── recovery point ──────────────► Open
//
// With SACK: RFC 6675 over the RtxQueue. Without: RFC 6582; each duplicate acknowledgment stands
// for one segment that left the network, which does what inflating cwnd does there.

#include <algorithm>

#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {
namespace {

constexpr uint32_t kMaxDupAcks = 1u << 16;

}  // namespace

// RFC 6675 §4, and RFC 5681 §3.2 steps 3 and 4 in its terms.
uint32_t Connection::Pipe() const {
  const uint32_t pipe = rtx_.pipe();
  if (sack_ok_) return pipe;
  return pipe - std::min(pipe, dup_acks_ * SegmentSize());
}

uint32_t Connection::TakeSacks(const Segment& seg, RtxQueue::AckResult& acked) {
  if (!sack_ok_) return 0;
  uint32_t newly_sacked = 0;
  for (const wire::TcpSackBlock& block : seg.options.sacks()) {
    const Seq left(block.left_edge), right(block.right_edge);
    // RFC 2018 §5, RFC 2883: what is below SND.UNA or was never sent says nothing here.
    if (left >= right || left < snd_.una || right > snd_.nxt) continue;
    // Receivers report segments. Smaller pieces out of one would be holes of a few bytes, each of
    // which is sent again by itself (CVE-2019-11478 and its kin).
    const SentRange* first = rtx_.Find(left);
    if (2 * Distance(left, right) < SegmentSize() && first != nullptr && right < first->end()) {
      continue;
    }
    newly_sacked += rtx_.Sack(left, right, acked);
  }
  return newly_sacked;
}

void Connection::DetectLoss(const Segment& seg, bool duplicate, uint32_t acked_bytes,
                            bool new_sacks) {
  if (recovery_ == RecoveryState::kRecovery || recovery_ == RecoveryState::kLoss) {
    return OnAckInRecovery(seg, duplicate, acked_bytes);
  }
  if (acked_bytes > 0) dup_acks_ = 0;
  // RFC 6675 §2: with SACK a duplicate is what reports something new; a D-SACK is none.
  if ((sack_ok_ ? new_sacks : duplicate) && dup_acks_ < kMaxDupAcks) ++dup_acks_;
  recovery_ = dup_acks_ > 0 ? RecoveryState::kDisorder : RecoveryState::kOpen;
  const bool lost = sack_ok_ && rtx_.DetectLost(SegmentSize()) > 0;
  if (!lost && dup_acks_ < RtxQueue::kDupThresh) return;
  // RFC 6582 §3.2 step 2 and RFC 6675 §5: not again for the losses of the last recovery. Without
  // SACK it must cover more: duplicates at that point may come from copies sent after a timeout.
  if (rtx_.empty() || seg.ack < recovery_point_) return;
  if (!sack_ok_ && seg.ack == recovery_point_) return;
  EnterRecovery();
}

void Connection::EnterRecovery() {
  recovery_ = RecoveryState::kRecovery;
  recovery_point_ = snd_.nxt;
  // FlightSize is what was sent and not cumulatively acknowledged, less what limited transmit added
  // (RFC 5681 §3.2 step 2): that alone exceeds cwnd.
  if (Habits* linux = exact()) {
    linux->BeginReduction();
  } else {
    cc_->OnCongestionEvent(std::min(rtx_.total(), cc_->cwnd()), now());
  }
  if (rtx_.lost() == 0) rtx_.MarkFirstLost(SegmentSize());
  force_retransmit_ = true;
  TcpExtCounters& mib = stack().mib().tcp_ext;
  (sack_ok_ ? mib.sack_recovery : mib.reno_recovery).Inc();
  ScheduleOutput();
}

void Connection::OnAckInRecovery(const Segment& seg, bool duplicate, uint32_t acked_bytes) {
  if (seg.ack >= recovery_point_) {
    if (Habits* linux = exact()) linux->EndReduction();
    recovery_ = RecoveryState::kOpen;
    dup_acks_ = 0;
    force_retransmit_ = false;
    return;
  }
  if (sack_ok_) {
    rtx_.DetectLost(SegmentSize());
    // A partial acknowledgment with nothing SACKed above: the next one is missing too.
    if (acked_bytes > 0 && rtx_.lost() == 0) rtx_.MarkFirstLost(SegmentSize());
  } else if (acked_bytes > 0) {
    // RFC 6582 §3.2 step 3, partial acknowledgment: the first unacknowledged segment is lost, and
    // the amount acknowledged is taken out of what the duplicates stood for.
    const uint32_t segments = (acked_bytes + SegmentSize() - 1) / SegmentSize();
    dup_acks_ -= std::min(dup_acks_, segments);
    rtx_.MarkFirstLost(SegmentSize());
    if (recovery_ == RecoveryState::kRecovery) force_retransmit_ = true;
  } else if (duplicate && recovery_ == RecoveryState::kRecovery && dup_acks_ < kMaxDupAcks) {
    // After a timeout they tell of what was in flight before it, which the pipe leaves out anyway.
    ++dup_acks_;
  }
  ScheduleOutput();
}

// RFC 6298 §5.4–5.6, RFC 5681 §3.1 equation 4.
void Connection::OnTimeoutLoss() {
  const bool settled = recovery_ == RecoveryState::kOpen || recovery_ == RecoveryState::kDisorder;
  const bool first = exact() == nullptr ? recovery_ != RecoveryState::kLoss
                                        : settled || recovery_point_ <= snd_.una;
  const uint32_t in_flight = exact() == nullptr ? rtx_.total() - rtx_.sacked() : cc_->cwnd();
  cc_->OnRetransmissionTimeout(in_flight, first, now());
  // RFC 2018 §8: after a timeout that did not help, what was SACKed may have been thrown away; and
  // surely so if the next one expected is SACKed and not acknowledged.
  const bool reneged = !rtx_.empty() && rtx_.front().sacked;
  rtx_.MarkAllLost(retransmits_ > 1 || reneged);
  dup_acks_ = 0;
  recovery_ = RecoveryState::kLoss;
  recovery_point_ = snd_.nxt;
  force_retransmit_ = true;
  if (Habits* linux = exact()) linux->OnLoss();
}

}  // namespace tapwire::tcp
