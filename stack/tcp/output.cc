// SPDX-License-Identifier: Apache-2.0
// What to send, decided once per connection and batch: lost ranges first, then new data as far as
// cwnd and the peer's window allow (RFC 5681 §3.1, RFC 9293 §3.8.6), small segments only when Nagle
// (§3.7.4) and sender-side SWS avoidance (§3.8.6.2.1) allow, then a FIN, then an acknowledgment if
// nothing carried it.

#include <algorithm>
#include <limits>

#include "netdev/device.h"
#include "stack/interface.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {
namespace {

// As Linux: TCP_CORK holds a partial segment back for so long at most.
constexpr Duration kCorkLimit = std::chrono::milliseconds(200);

}  // namespace

void Connection::ScheduleOutput() {
  if (!gone_) tcp_.ScheduleOutput(*this);
}

void Connection::Output() {
  if (gone_) return;
  if (!RefreshRoute()) {  // the timers try again
    if (IsSynchronized(state_)) DecideTimers();
    return;
  }
  if (state_ == State::kSynSent) {
    if (rtx_.empty()) TransmitSyn(false);
    return;
  }
  if (state_ == State::kSynReceived) return;
  const bool copies_wait = SendRetransmissions();
  SendNewData();
  // With copies to send the window is in use though nothing new may wait (RFC 5681 §3.1).
  if (copies_wait && exact() == nullptr) cwnd_limited_ = true;
  MaybeSendFin();
  DecideAck();
  DecideTimers();
  if (Habits* linux = exact()) linux->UpdateClocks();
}

// ---- Sizes ----

uint32_t Connection::SegmentSize() const {
  uint32_t options = ts_.ok ? 12 : 0;  // two no-operations and the timestamps
  if (sack_ok_ && (reassembly_ != nullptr || dsack_)) {
    const size_t ranges = reassembly_ != nullptr ? reassembly_->range_count() : 0;
    const size_t blocks = std::min<size_t>(ranges + (dsack_ ? 1 : 0), ts_.ok ? 3 : 4);
    if (blocks > 0) options += static_cast<uint32_t>(4 + 8 * blocks);
  }
  return BoundToWindow(smss_ > options + 8 ? smss_ - options : 8);
}

uint32_t Connection::BoundToWindow(uint32_t size) const {
  if (!config().half_window_segments || snd_.max_wnd == 0) return size;
  constexpr uint32_t kTinyWindow = 536, kLeast = 48;
  const uint32_t limit = snd_.max_wnd > kTinyWindow ? snd_.max_wnd / 2 : snd_.max_wnd;
  return std::min(size, std::max(limit, kLeast));
}

// As Linux sizes its bursts: what the pace of twice (in congestion avoidance 1.2 times) the window
// in a round trip gives for a millisecond, and more on short paths.
uint32_t Connection::BurstLimit(uint32_t size) const {
  const auto srtt = std::chrono::duration_cast<std::chrono::microseconds>(rtt_.srtt()).count();
  if (config().min_burst_segments == 0 || srtt <= 0) return UINT32_MAX;
  const uint64_t percent = cc_->cwnd() < cc_->ssthresh() / 2 ? 200 : 120;
  const uint64_t per_second =
      uint64_t{cc_->cwnd()} * percent * 10'000 / static_cast<uint64_t>(srtt);
  const auto halvings = static_cast<uint64_t>(srtt) >> 9;
  const uint64_t nearby = halvings < 32 ? uint64_t{config().gso_max_bytes} >> halvings : 0;
  const uint64_t segments =
      std::max<uint64_t>(((per_second >> 10) + nearby) / size, config().min_burst_segments);
  return static_cast<uint32_t>(std::min<uint64_t>(segments * size, UINT32_MAX));
}

bool Connection::MayBuildSuperPackets(const netdev::NetDevice& device) const {
  using netdev::Feature;
  if (config().gso == GsoMode::kAlways) return true;
  const Feature kind = flow_.remote.is_v4() ? Feature::kTso : Feature::kTso6;
  return device.features().HasAny({Feature::kGso, kind});
}

uint32_t Connection::ChunkLimit() const {
  const uint32_t size = SegmentSize();
  const netdev::NetDevice& device = path_.interface->device();
  if (!MayBuildSuperPackets(device)) return size;
  // The device's limit counts the link header too, and is one byte above what passes.
  constexpr uint32_t kHeaders = 40 + 60, kLinkHeaders = 14 + 4;
  const uint32_t limit = std::min(
      config().gso_max_bytes, std::max(device.gso_max_size(), kLinkHeaders + 1) - kLinkHeaders - 1);
  const uint64_t by_segments = uint64_t{device.gso_max_segs()} * size;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(
      {limit > kHeaders ? limit - kHeaders : size, by_segments, BurstLimit(size)}));
  return std::max(bytes / size, 1u) * size;
}

uint32_t Connection::UnsentBytes() const {
  const uint32_t sent = Distance(snd_.una, snd_.nxt) - (fin_sent_ ? 1 : 0);
  return static_cast<uint32_t>(send_queue_.size()) -
         std::min(static_cast<uint32_t>(send_queue_.size()), sent);
}

uint32_t Connection::UsableWindow() const {
  const uint32_t edge = snd_.wnd;  // from SND.UNA
  const uint32_t used = Distance(snd_.una, snd_.nxt);
  return used < edge ? edge - used : 0;  // a peer that shrank its window leaves less than nothing
}

// ---- Retransmissions ----

// Returns whether cwnd left some of them.
bool Connection::SendRetransmissions() {
  while (const SentRange* range = rtx_.NextLost()) {
    const uint32_t pipe = Pipe();
    const uint32_t room = cc_->cwnd() > pipe ? cc_->cwnd() - pipe : 0;
    const uint32_t size = SegmentSize();
    uint32_t length = std::min(range->length, std::min(ChunkLimit(), room));
    if (length < std::min(range->length, size)) {
      if (!force_retransmit_) return true;
      length = std::min(range->length, size);
    }
    // SHLD-15, SHLD-16: inside the window; the first segment also beyond a window that was closed.
    const uint32_t offset = Distance(snd_.una, range->seq);
    const uint32_t window = offset < snd_.wnd ? snd_.wnd - offset : 0;
    if (offset != 0 && window < std::min(length, size)) return false;
    length = std::min(length, std::max(window, size));
    if (length > size && length < range->length) length -= length % size;
    force_retransmit_ = false;
    const Seq seq = range->seq;
    const bool whole = length == range->length;
    const bool fin = whole && range->fin;
    const uint32_t sent = TransmitRange(
        {.seq = seq, .length = length - (fin ? 1 : 0), .fin = fin, .retransmission = true});
    if (sent == 0) return false;  // no memory: the timer tries again
    rtx_.OnResent(seq, sent, now());
    if (!IsArmed(TimerId::kRetransmit)) RestartRetransmit();
  }
  return false;
}

// ---- New data ----

void Connection::SendNewData() {
  if (fin_sent_) return;
  if (!CanSendData(state_) && state_ != State::kFinWait1 && state_ != State::kLastAck) return;
  if (rtx_.empty() && last_data_sent_ != Time() && config().slow_start_after_idle &&
      UnsentBytes() > 0 && now() - last_data_sent_ > Rto()) {
    if (Habits* linux = exact()) {
      linux->RestartAfterIdle();
    } else {
      cc_->OnIdleRestart(InitialWindow(), now());  // RFC 5681 §4.1
    }
  }
  if (Habits* linux = exact()) {
    const Seq before = snd_.nxt;
    const bool limited = cwnd_limited_;
    while (SendOneChunk()) {
    }
    cwnd_limited_ = limited;
    linux->ValidateWindow(snd_.nxt != before);
    return;
  }
  if (rtx_.empty()) most_in_flight_ = 0;
  while (SendOneChunk()) {
  }
  const uint32_t in_flight = Pipe() / std::max(SegmentSize(), 1u);
  most_in_flight_ = static_cast<uint16_t>(std::min<uint32_t>(
      std::max<uint32_t>(most_in_flight_, in_flight), std::numeric_limits<uint16_t>::max()));
}

bool Connection::IsCwndUsed() const {
  if (cwnd_limited_ || !config().half_used_window_grows || !cc_->in_slow_start()) {
    return cwnd_limited_;
  }
  return cc_->cwnd() < uint64_t{2} * most_in_flight_ * SegmentSize();
}

bool Connection::SendOneChunk() {
  const uint32_t queued = UnsentBytes();
  if (queued == 0) {
    cwnd_limited_ = false;
    return false;
  }
  const uint32_t pipe = Pipe();
  const uint32_t room = cc_->cwnd() > pipe ? cc_->cwnd() - pipe : 0;
  const uint32_t size = SegmentSize();
  const uint32_t window = UsableWindow();
  uint32_t length = std::min({queued, room, window, ChunkLimit()});
  if (habits_ != nullptr) length = habits_->CutAtRecord(snd_.nxt, length);
  if (length > size && length % size != 0) {
    // Whole segments first; what is left over is judged by itself.
    const uint32_t tail = length % size;
    if (length < queued || !MaySendSmall(tail, tail)) length -= tail;
  }
  if (room < std::min(size, queued)) {
    cwnd_limited_ = true;
    return false;
  }
  // What ends a record is not the last segment if more is queued, and so not held back.
  const bool record_end =
      habits_ != nullptr && length < queued && habits_->IsRecordEnd(snd_.nxt + length);
  if (length == 0) return false;
  if (length < size && !record_end && !MaySendSmall(length, queued)) return false;
  const bool fin = fin_queued_ && length == queued && window > length;
  const uint32_t sent =
      TransmitRange({.seq = snd_.nxt, .length = length, .fin = fin, .retransmission = false});
  if (sent == 0) return false;
  cwnd_limited_ = room < queued && room - std::min(room, sent) < size;
  return true;
}

// A segment shorter than the largest one, `length` of `queued` unsent bytes.
bool Connection::MaySendSmall(uint32_t length, uint32_t queued) const {
  // RFC 9293 §3.8.6.2.1 (2) and (3): at least half of the largest window ever offered …
  if (length >= std::max(snd_.max_wnd / 2, 1u) && length < queued) return true;
  if (length < queued) return false;  // … or everything that is queued
  if (fin_queued_ || push_pending_) return true;
  if (options_->cork) return false;
  return options_->nodelay || rtx_.empty();  // Nagle: SHLD-7, MUST-17
}

// TCP_NOTSENT_LOWAT: a writer is told when less is unsent than half of that.
bool Connection::HasLowUnsent() const { return uint64_t{2} * UnsentBytes() < notsent_low_water(); }

void Connection::MaybeSendFin() {
  if (!HasPendingFin() || UnsentBytes() > 0) return;
  // RFC 9293 §3.8.6: a FIN takes a sequence number, but waits for no congestion window (as Linux);
  // behind a closed window it goes with the first probe's answer.
  if (UsableWindow() == 0 && !rtx_.empty()) return;
  TransmitRange({.seq = snd_.nxt, .length = 0, .fin = true, .retransmission = false});
}

// ---- Afterwards ----

void Connection::DecideTimers() {
  if (gone_) return;
  if (UnsentBytes() == 0) {
    push_pending_ = false;
    // A FIN that is still here found no memory: it is tried again like data.
    if (!rtx_.empty() || !HasPendingFin()) {
      if (rtx_.empty()) Cancel(TimerId::kPersist);
      return;
    }
  }
  if (!rtx_.empty() || IsArmed(TimerId::kPersist)) return;
  // Nothing is in flight that could bring news, and something waits: for the window, or to grow.
  if (options_->cork && UsableWindow() > 0) {
    Arm(TimerId::kPersist, now() + (config().cork_waits_rto ? Rto() : kCorkLimit));
  } else {
    ArmPersist();
  }
}

}  // namespace tapwire::tcp
