// SPDX-License-Identifier: Apache-2.0
// An acceptable acknowledgment (RFC 9293 §3.10.7.4, fifth): what leaves the queues, the send
// window, the round-trip time (RFC 6298, RFC 7323 §4), and whether it is a duplicate (RFC 5681 §2).
// Its facts go to loss recovery and congestion control as one AckSample.

#include <algorithm>

#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {

void Connection::ProcessAck(const Segment& seg) {
  const bool advanced = seg.ack > snd_.una;
  const uint32_t prior_in_flight = Pipe();
  const uint32_t in_flight = rtx_.total();
  const bool was_recovering = recovery_ == RecoveryState::kRecovery;
  probes_ = 0;  // the peer lives
  const bool window_changed = UpdateSendWindow(seg);
  // SHLD-17, MUST-37: behind a closed window retransmissions are probes, and this answers them.
  if (snd_.wnd == 0) retransmits_ = 0;
  const bool duplicate = !advanced && IsDuplicateAck(seg, window_changed);
  RtxQueue::AckResult acked;
  const uint32_t data_bytes = advanced ? TakeAcked(seg.ack, acked) : 0;
  const uint32_t newly_sacked = TakeSacks(seg, acked);
  AckSample sample;
  sample.now = now();
  sample.newly_acked_bytes = data_bytes;
  sample.newly_sacked_bytes = newly_sacked;
  sample.prior_in_flight = prior_in_flight;
  sample.cwnd_limited = IsCwndUsed();
  sample.rtt = SampleRtt(seg, acked, in_flight);
  sample.srtt = rtt_.srtt();
  if (advanced) OnProgress();
  const uint32_t delivered = CountDelivered(acked, duplicate);
  // Linux counts with the SACKed segments what it grows by.
  if (exact() != nullptr && data_bytes > 0) sample.newly_acked_bytes = delivered * SegmentSize();
  const uint32_t lost_before = rtx_.lost();
  DetectLoss(seg, duplicate, data_bytes, newly_sacked > 0);
  if (Habits* linux = exact()) {
    const bool dsack = IsDsack(seg);
    if (dsack) ++linux->dsacks;
    linux->OnAckForProbe(seg.ack, advanced, newly_sacked > 0, dsack);
    linux->Reduce(delivered, rtx_.lost() > lost_before, advanced);
  }
  // RFC 5681 §3.2 step 6: the acknowledgment that ends fast recovery leaves cwnd at ssthresh.
  // Linux has it grow from there at once.
  const bool left_at_ssthresh = was_recovering && exact() == nullptr;
  if (data_bytes > 0 && !left_at_ssthresh && recovery_ != RecoveryState::kRecovery) {
    cc_->OnAck(sample);
  }
  if (Habits* linux = exact()) linux->UpdateClocks();
  if (rtx_.empty()) {
    Cancel(TimerId::kRetransmit);
  } else if (advanced) {
    RestartRetransmit();  // RFC 6298 §5.3: only new data acknowledged restarts it
  }
  if (fin_sent_ && snd_.una == snd_.nxt) return OnFinAcked();
  if (advanced && writer_waits_) TuneSendBuffer();
  if (advanced && writer_waits_ && send_space() * 3 >= SendLimit()) {
    writer_waits_ = false;
    Notify(kWritable);
  }
  if (low_water_ && HasLowUnsent()) {
    low_water_ = false;
    Notify(kWritable);
  }
  if (UnsentBytes() > 0 || HasPendingFin() || rtx_.lost() > 0) ScheduleOutput();
}

// Takes what `ack` covers off the queues; returns how much of it was data.
uint32_t Connection::TakeAcked(Seq ack, RtxQueue::AckResult& acked) {
  // A SYN takes a number and is in no queue: data may wait behind one (simultaneous open).
  const uint32_t syn = !rtx_.empty() && rtx_.front().syn ? 1 : 0;
  acked = rtx_.Ack(ack);
  const uint32_t covered = Distance(snd_.una, ack) - syn;
  const auto data = static_cast<uint32_t>(std::min<size_t>(covered, send_queue_.size()));
  send_queue_.Consume(data);
  snd_.una = ack;
  // So that it never falls 2^31 behind and looks like the future. What RFC 6582 §3.2 asks, whether
  // an acknowledgment covers more than "recover", is the same before and after.
  recovery_point_ = Later(recovery_point_, ack - 1);
  if (snd_.urgent && snd_.una >= snd_.urgent_end) snd_.urgent = false;
  counts_.bytes_acked += exact() != nullptr ? covered : data;  // Linux counts a FIN too
  return data;
}

// Segments that reached the peer. Without SACK a duplicate acknowledgment tells of one, and what is
// acknowledged later was counted by then.
uint32_t Connection::CountDelivered(const RtxQueue::AckResult& acked, bool duplicate) {
  uint32_t delivered = acked.delivered_segs;
  if (!sack_ok_ && delivered > 0)
    delivered = std::max(delivered - std::min(delivered, dup_acks_), 1u);
  if (!sack_ok_ && duplicate) ++delivered;
  counts_.delivered += delivered;
  return delivered;
}

// RFC 2883 §4: the first block tells of what was acknowledged already, or lies in the second.
bool Connection::IsDsack(const Segment& seg) const {
  const auto blocks = seg.options.sacks();
  if (!sack_ok_ || blocks.empty()) return false;
  const Seq left(blocks[0].left_edge), right(blocks[0].right_edge);
  if (left < seg.ack) return true;
  return blocks.size() > 1 && left >= Seq(blocks[1].left_edge) &&
         right <= Seq(blocks[1].right_edge);
}

// RFC 6298 §5: RTO stays backed off until there is a new sample (Karn's rule); else a round trip
// that grew beyond it would never be measured.
void Connection::OnProgress() {
  retransmits_ = 0;
  if (Habits* linux = exact()) linux->OnAck(snd_.una);
  if (!soft_error_.ok()) soft_error_ = absl::OkStatus();  // what was in the way is so no more
  unanswered_since_ = rtx_.empty() ? Time() : now();
}

// RFC 9293 §3.10.7.4: only a segment that is not older than the last one that told a window.
bool Connection::UpdateSendWindow(const Segment& seg) {
  const bool newer = snd_.wl1 < seg.seq || (snd_.wl1 == seg.seq && snd_.wl2 <= seg.ack);
  if (!newer || seg.ack < snd_.una) return false;
  const uint32_t before = snd_.wnd;
  snd_.wnd = uint32_t{seg.wnd} << snd_.wind_shift;
  snd_.max_wnd = std::max(snd_.max_wnd, snd_.wnd);
  snd_.wl1 = seg.seq;
  snd_.wl2 = seg.ack;
  if (snd_.wnd != 0) {
    persist_backoff_ = 0;
    Cancel(TimerId::kPersist);
  }
  return snd_.wnd != before;
}

// RFC 5681 §2, "DUPLICATE ACKNOWLEDGMENT".
bool Connection::IsDuplicateAck(const Segment& seg, bool window_changed) const {
  return !rtx_.empty() && seg.len() == 0 && seg.ack == snd_.una && !window_changed && snd_.wnd != 0;
}

// Karn's rule is in RtxQueue; a timestamp makes a sample good although the segment was sent twice
// (RFC 7323 §4.1). Negative: none. A frame that waited in the device tells nothing.
Duration Connection::SampleRtt(const Segment& seg, const RtxQueue::AckResult& acked,
                               uint32_t in_flight) {
  if (seg.late) return Duration(-1);
  Duration rtt(-1);
  // Linux takes none if a copy was among them, though others were sent once.
  const bool mixed = exact() != nullptr && acked.retransmitted;
  if (acked.has_sample && !mixed) {
    rtt = std::max<Duration>(seg.rx_time - acked.xmit_time, std::chrono::microseconds(1));
  } else if (acked.acked_bytes > 0 && ts_.ok && seg.options.timestamps &&
             seg.options.timestamps->tsecr != 0) {
    const auto ms = static_cast<int32_t>(TimestampNow() - seg.options.timestamps->tsecr);
    if (ms < 0 || ms > 1000 * 600) return rtt;
    rtt = std::max<Duration>(std::chrono::milliseconds(ms), std::chrono::milliseconds(1));
  }
  if (rtt < Duration::zero()) return rtt;
  // RFC 7323 appendix G: with an acknowledgment for every two segments, or for as much as this one
  // covers, so many samples come in a round trip, and each counts for less.
  const uint32_t covered = std::max(2 * SegmentSize(), acked.acked_bytes);
  rtt_.OnSample(rtt, (in_flight + covered - 1) / covered);
  return rtt;
}

void Connection::OnFinAcked() {
  switch (state_) {
    case State::kFinWait1:
      EnterState(State::kFinWait2);
      Notify(kWritable);  // whoever lingers waits for this
      if (released_) AwaitPeersFin();
      return;
    case State::kClosing:
      return EnterTimeWait();
    case State::kLastAck:
      return Finish();
    default:
      return;
  }
}

}  // namespace tapwire::tcp
