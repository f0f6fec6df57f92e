// SPDX-License-Identifier: Apache-2.0
// Received text (RFC 9293 §3.10.7.4, sixth to eighth): urgent pointer, data in and out of order,
// FIN; the receive window (§3.8.6: SWS avoidance, never shrinking) and when to acknowledge (RFC
// 5681 §4.2, RFC 9293 §3.8.6.3).

#include <algorithm>
#include <utility>

#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {

// ---- Sixth: URG ----

void Connection::ProcessUrgent(const Segment& seg) {
  if (!seg.flags.urg() || !CanReceiveData(state_)) return;
  // MUST-62 and RFC 6093 §3.1: the pointer names the octet behind the urgent data.
  const Seq end = seg.seq + seg.urgent_pointer;
  if (rcv_.urgent && end <= rcv_.urgent_end) return;
  if (end <= rcv_.nxt && seg.payload_length == 0) return;
  rcv_.urgent = true;
  rcv_.urgent_end = end;
  Notify(kUrgent);
}

// ---- Seventh: text ----

DropReason Connection::ProcessText(Segment& seg) {
  if (seg.payload_length == 0 && !seg.flags.fin()) return DropReason::kNone;
  // RFC 9293: "this should not occur since a FIN has been received": nothing behind it counts.
  if (!CanReceiveData(state_)) return DropReason::kNone;
  if (released_ && seg.end() > rcv_.nxt && seg.payload_length > 0) {
    // RFC 9293 §3.6.1, SHLD-3: nobody will read this.
    stack().mib().tcp_ext.abort_on_data.Inc();
    tcp_.ResetFor(seg);
    Finish();  // a closing socket still waits for the end
    return DropReason::kTcpAfterClose;
  }
  if (seg.seq < rcv_.nxt) {  // the left part was here before
    const uint32_t old = std::min(Distance(seg.seq, rcv_.nxt), seg.payload_length);
    if (old > 0 && sack_ok_) {  // RFC 2883 §4
      dsack_ = wire::TcpSackBlock{seg.seq.value(), (seg.seq + old).value()};
      stack().mib().tcp_ext.dsack_sent.Inc();
    }
    seg.packet->TrimFront(old);
    seg.payload_length -= old;
    seg.seq += old;
    ack_pending_ = ack_now_ = true;
  }
  if (seg.payload_length > 0 && MustShedData()) {
    stack().mib().tcp_ext.rcv_queue_drop.Inc();
    ack_pending_ = ack_now_ = true;
    ScheduleOutput();
    return DropReason::kTcpReceiveBufferFull;
  }
  if (seg.seq > rcv_.nxt) return QueueOutOfOrder(seg);
  DeliverInOrder(seg);
  ScheduleOutput();
  return DropReason::kNone;
}

void Connection::DeliverInOrder(Segment& seg) {
  const Seq before = rcv_.nxt;
  const bool fin = seg.flags.fin() && seg.seq + seg.payload_length >= rcv_.nxt;
  const Seq fin_seq = seg.seq + seg.payload_length;
  if (seg.payload_length > 0) {
    const uint32_t length = seg.payload_length;
    OnDataReceived(seg, length);
    rcv_.nxt += length;
    rcv_.adv = Later(rcv_.adv, rcv_.nxt);  // TrimToWindow() may have let it overrun the window
    receive_queue_.AppendPacket(std::move(seg.packet), 0, length);
  }
  if (fin && (reassembly_ == nullptr || !reassembly_->fin())) {
    if (fin_seq == rcv_.nxt) {
      reassembly_.reset();
      if (rcv_.nxt != before) Notify(kReadable);
      return ProcessFin();
    }
  }
  if (reassembly_ != nullptr) {
    // RFC 5681 §4.2: a segment that fills a hole is acknowledged at once.
    const uint32_t filled = reassembly_->TakeContiguous(rcv_.nxt, receive_queue_);
    rcv_.nxt += filled;
    counts_.bytes_received += filled;
    rcv_.unacked += filled;
    ack_pending_ = ack_now_ = true;
    const bool at_fin = reassembly_->FinAt(rcv_.nxt);
    if (at_fin || (reassembly_->empty() && !reassembly_->fin())) reassembly_.reset();
    if (at_fin) {
      Notify(kReadable);
      return ProcessFin();
    }
  }
  if (rcv_.nxt == before) return;
  if (discard_received_) {
    rcv_.unconsumed += static_cast<uint32_t>(receive_queue_.size());
    receive_queue_.Clear();
    return Consumed(rcv_.unconsumed);
  }
  Notify(kReadable);
}

DropReason Connection::QueueOutOfOrder(Segment& seg) {
  if (reassembly_ == nullptr) reassembly_ = std::make_unique<Reassembly>();
  if (Habits* linux = exact()) ++linux->out_of_order;
  DropReason reason = DropReason::kNone;
  const Seq fin_seq = seg.seq + seg.payload_length;
  const bool fin = seg.flags.fin();
  if (seg.payload_length > 0) {
    const Reassembly::Limits limits{.max_bytes = stack().pool().is_tight() ? 0 : rcv_.buffer,
                                    .max_ranges = config().max_out_of_order_ranges};
    const Reassembly::InsertResult result =
        reassembly_->Insert(seg.seq, std::move(seg.packet), limits);
    TcpExtCounters& mib = stack().mib().tcp_ext;
    if (!result.stored) {
      mib.out_of_order_drop.Inc();
      reason = DropReason::kTcpReceiveBufferFull;
    } else {
      mib.out_of_order.Inc();
      if (result.dsack && sack_ok_) {  // RFC 2883 §4
        dsack_ = result.dsack;
        mib.dsack_sent.Inc();
      }
    }
  }
  if (fin) reassembly_->InsertFin(fin_seq);
  // RFC 5681 §4.2: at once and one for each, since the sender counts them.
  TransmitAck();
  return reason;
}

// ---- Eighth: FIN ----

void Connection::ProcessFin() {
  rcv_.nxt += 1;
  rcv_.adv = Later(rcv_.adv, rcv_.nxt);
  fin_received_ = true;
  ack_pending_ = ack_now_ = true;
  Notify(kReadable);
  switch (state_) {
    case State::kEstablished:
      EnterState(State::kCloseWait);
      ScheduleOutput();
      return;
    case State::kFinWait1:  // our FIN is not acknowledged, else ack.cc had moved on
      EnterState(State::kClosing);
      ScheduleOutput();
      return;
    case State::kFinWait2:
      return EnterTimeWait();
    default:
      return;
  }
}

// ---- When to acknowledge ----

void Connection::OnDataReceived(const Segment& seg, uint32_t bytes) {
  counts_.bytes_received += bytes;
  rcv_.unacked += bytes;
  last_data_received_ = now();
  if (Habits* linux = exact()) linux->OnDataReceived(bytes);
  // The peer's segment size, for SHLD-19; a merged packet tells it itself.
  const uint32_t size = seg.packet->meta.gso.size != 0 ? seg.packet->meta.gso.size : bytes;
  rcv_.rmss = std::clamp<uint32_t>(size, rcv_.rmss, std::max<uint32_t>(AdvertisedMss(), rcv_.rmss));
  ack_pending_ = true;
}

// Called once per batch: MUST-58, MUST-59.
void Connection::DecideAck() {
  if (!ack_pending_) return;
  const bool quick = options_->quick_ack || (quick_acks_ > 0 && !pingpong_);
  // SHLD-19: at least every second full-sized segment.
  if (ack_now_ || quick || rcv_.unacked >= 2 * rcv_.rmss) return TransmitAck();
  if (!IsArmed(TimerId::kDelayedAck)) Arm(TimerId::kDelayedAck, now() + config().delayed_ack);
}

// ---- Window ----

uint32_t Connection::FreeReceiveSpace() const {
  const size_t held = receive_queue_.size() + rcv_.unconsumed;
  const uint32_t buffer =
      stack().pool().is_tight() ? std::min(rcv_.buffer, kTightWindow) : rcv_.buffer;
  uint32_t free = held < buffer ? buffer - static_cast<uint32_t>(held) : 0;
  if (const Habits* linux = exact()) free = std::min(free, linux->window_limit());
  if (options_->window_clamp != 0) free = std::min(free, options_->window_clamp);
  return std::min(free, uint32_t{65535} << rcv_.wind_shift);  // what the field can say
}

uint32_t Connection::FirstWindow() const {
  const uint32_t window = std::min<uint32_t>(FreeReceiveSpace(), 65535);
  // Linux counts the timestamps only once the peer has agreed to them.
  const uint32_t options = ts_.ok && !active_open_ ? 12 : 0;
  const uint32_t unit = AdvertisedMss() - options;
  return config().whole_first_window && window > unit ? window - window % unit : window;
}

// The window to put into a segment that leaves now; moves RCV.ADV. SHLD-14: the edge never moves
// left; MUST-39: nor right by less than min(MSS, half the buffer).
uint32_t Connection::AdvertisedWindow() {
  const uint32_t offered = Distance(rcv_.nxt, rcv_.adv);
  const uint32_t free = FreeReceiveSpace();
  const uint32_t step = std::min(rcv_.buffer / 2, std::max<uint32_t>(rcv_.rmss, 1));
  uint32_t window = offered;
  if (free > offered && free - offered >= step) window = free;
  // Rounding to the scale must not move the edge left either.
  const uint32_t unit = uint32_t{1} << rcv_.wind_shift;
  uint32_t field = window / unit;
  if (field * unit < offered) field = (offered + unit - 1) / unit;
  field = std::min<uint32_t>(field, 65535);
  if (field == 0 && offered != 0) stack().mib().tcp_ext.zero_window_adv.Inc();
  rcv_.adv = Later(rcv_.adv, rcv_.nxt + field * unit);
  return field;
}

// The user has made room. Told at once when that at least doubles what the peer may send, or opens
// a closed window (B20, B29); else the next acknowledgment tells.
void Connection::MaybeSendWindowUpdate() {
  if (!CanReceiveData(state_)) return;
  const uint32_t offered = Distance(rcv_.nxt, rcv_.adv);
  const uint32_t free = FreeReceiveSpace();
  const uint32_t step = std::min(rcv_.buffer / 2, std::max<uint32_t>(rcv_.rmss, 1));
  if (free < offered || free - offered < step || free < 2 * offered) return;
  ack_pending_ = ack_now_ = true;
  ScheduleOutput();
}

// Grows the buffer when the user took more than half of it within one round trip, so that the
// window is what limits.
void Connection::TuneReceiveBuffer(uint32_t consumed) {
  if (options_->receive_buffer != 0) return;
  tune_bytes_ += std::min(consumed, UINT32_MAX - tune_bytes_);
  const Duration rtt = rtt_.srtt();
  if (rtt <= kShortPath || now() - tune_start_ < rtt || stack().pool().is_tight()) return;
  const uint64_t most = std::min<uint64_t>(config().receive_buffer_max, 1u << 30);
  const uint64_t wanted = std::min(uint64_t{2} * tune_bytes_, most);
  rcv_.buffer = std::max(rcv_.buffer, static_cast<uint32_t>(wanted));
  tune_bytes_ = 0;
  tune_start_ = now();
}

}  // namespace tapwire::tcp
