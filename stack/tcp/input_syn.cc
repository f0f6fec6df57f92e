// SPDX-License-Identifier: Apache-2.0
// The three-way handshake seen from a connection: SYN-SENT (RFC 9293 §3.10.7.3), simultaneous open
// (§3.5, figure 8) and the acknowledgment that ends SYN-RECEIVED (§3.10.7.4, fifth).

#include <algorithm>
#include <cerrno>

#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/listener.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {

DropReason Connection::InputSynSent(Segment& seg) {
  // First: the ACK must be for our SYN.
  const bool acks_syn = seg.flags.ack() && seg.ack > snd_.una && seg.ack <= snd_.nxt;
  if (seg.flags.ack() && !acks_syn) {
    if (!seg.flags.rst()) tcp_.ResetFor(seg);
    // The reset has made the peer forget what it answered for.
    const Duration again = config().syn_retry_after_bad_ack;
    if (again > Duration::zero() && retransmits_ == 0) Arm(TimerId::kRetransmit, now() + again);
    return DropReason::kTcpBadAck;
  }
  // Second: RST, believed only with a good ACK.
  if (seg.flags.rst()) {
    if (!acks_syn) return DropReason::kTcpUnacceptableReset;
    Fail(Describe(ECONNREFUSED, "connection refused"));
    return DropReason::kNone;
  }
  // Fourth: SYN. Fifth: neither SYN nor RST.
  if (!seg.flags.syn()) return DropReason::kTcpBadFlags;
  if (!acks_syn) return OnSimultaneousSyn(seg);
  TakeSyn(seg);
  const uint32_t in_flight = rtx_.total();
  const RtxQueue::AckResult acked = rtx_.Ack(seg.ack);
  snd_.una = seg.ack;
  counts_.delivered += acked.delivered_segs;
  if (exact() != nullptr) ++counts_.bytes_acked;  // Linux counts sequence numbers
  OnProgress();
  SampleRtt(seg, acked, in_flight);
  Cancel(TimerId::kRetransmit);
  BecomeEstablished(seg);
  ack_pending_ = ack_now_ = true;
  ScheduleOutput();
  // Data and FIN of a SYN-ACK (RFC 9293 §3.10.7.3, fourth: "continue processing at the sixth").
  seg.flags &= ~wire::TcpFlags::kSyn;
  seg.seq += 1;
  TrimToWindow(seg);
  return ProcessText(seg);
}

// Both sides called at once: SYN-RECEIVED, remembering that it was not a passive open (MUST-11).
DropReason Connection::OnSimultaneousSyn(const Segment& seg) {
  TakeSyn(seg);
  EnterState(State::kSynReceived);
  TransmitSyn(true);
  RestartRetransmit();
  return DropReason::kNone;
}

// The SYN-ACK of a simultaneous open comes with a sequence number that the SYN before it used up:
// it is the acknowledgment that counts (RFC 9293 figure 8, lines 6 and 7).
bool Connection::CompletesCrossedSyns(const Segment& seg) const {
  return state_ == State::kSynReceived && listener_ == nullptr && seg.flags.syn() &&
         seg.flags.ack() && !seg.flags.rst() && seg.seq == rcv_.irs && seg.len() == 1 &&
         seg.ack == snd_.nxt;
}

// What a SYN tells: IRS, window, options. An option counts only if we offered it too (RFC 7323
// §2.2, §3.2; RFC 2018 §2).
void Connection::TakeSyn(const Segment& seg) {
  rcv_.irs = seg.seq;
  rcv_.nxt = seg.seq + 1;
  rcv_.last_ack_sent = rcv_.nxt;
  const wire::TcpOptions& options = seg.options;
  if (options.mss) peer_mss_ = std::max(*options.mss, config().min_mss);
  sack_ok_ = sack_ok_ && options.sack_permitted;
  wscale_ok_ = wscale_ok_ && options.window_scale.has_value();
  snd_.wind_shift = wscale_ok_ ? std::min<uint8_t>(*options.window_scale, 14) : 0;
  if (!wscale_ok_) rcv_.wind_shift = 0;
  ts_.ok = ts_.ok && options.timestamps.has_value();
  // What our own SYN promised, or is about to: never scaled (RFC 7323 §2.2).
  rcv_.adv = rcv_.nxt + FirstWindow();
  if (ts_.ok) {
    ts_.recent = options.timestamps->tsval;
    ts_.recent_age_s = NowSeconds();
  }
  snd_.wnd = snd_.max_wnd = seg.wnd;
  snd_.wl1 = seg.seq;
  snd_.wl2 = seg.ack;
  UpdateSmss();
  // SHLD-19 starts from the smallest plausible segment, and learns.
  rcv_.rmss = std::min<uint32_t>(AdvertisedMss(), 536);
}

// TCP_DEFER_ACCEPT: a bare acknowledgment is as good as none, until the SYN-ACK was sent again as
// often as the user said.
bool Connection::DefersAccept(const Segment& seg) {
  if (listener_ == nullptr || seg.payload_length > 0 || seg.flags.fin()) return false;
  deferred_ = retransmits_ < options_->defer_accept;
  return deferred_;
}

// SYN-RECEIVED → ESTABLISHED.
std::optional<DropReason> Connection::CheckHandshakeAck(const Segment& seg) {
  if (seg.ack <= snd_.una || seg.ack > snd_.nxt) {
    tcp_.ResetFor(seg);
    return DropReason::kTcpBadAck;
  }
  if (listener_ != nullptr && listener_->accept_queue_full()) {
    // As Linux: the SYN-ACK goes out again later, by when there may be room.
    stack().mib().tcp_ext.listen_overflows.Inc();
    return DropReason::kTcpAcceptQueueFull;
  }
  if (DefersAccept(seg)) return DropReason::kNone;
  snd_.wnd = uint32_t{seg.wnd} << snd_.wind_shift;
  snd_.max_wnd = std::max(snd_.max_wnd, snd_.wnd);
  BecomeEstablished(seg);
  return std::nullopt;
}

}  // namespace tapwire::tcp
