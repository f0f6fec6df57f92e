// SPDX-License-Identifier: Apache-2.0
// A segment for a connection in SYN-RECEIVED or later: the steps of RFC 9293 §3.10.7.4 in their
// order, with the replies to blind attacks of RFC 5961 and PAWS (RFC 7323 §5). What they lead to is
// in ack.cc (fifth step) and receive.cc (sixth to eighth).

#include <algorithm>
#include <cerrno>

#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/listener.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {
namespace {

// RFC 7323 §5.5: a TS.Recent older than this says nothing any more.
constexpr uint32_t kTimestampRecentLifetime = 24 * 24 * 3600;  // seconds

}  // namespace

DropReason Connection::Input(Segment& seg) {
  ++counts_.segs_in;
  if (seg.payload_length > 0) ++counts_.data_segs_in;
  last_received_ = now();
  if (state_ == State::kSynSent) return InputSynSent(seg);
  return InputSynchronized(seg);
}

DropReason Connection::InputSynchronized(Segment& seg) {
  if (!CompletesCrossedSyns(seg)) {
    if (auto dropped = CheckSequence(seg)) return *dropped;
    if (auto dropped = CheckReset(seg)) return *dropped;
    // Third: security and compartment are not used (RFC 9293 §3.10.7.4).
    if (auto dropped = CheckSyn(seg)) return *dropped;
  }
  if (auto dropped = CheckAckField(seg)) return *dropped;
  if (gone_) return DropReason::kNone;  // LAST-ACK or CLOSING ended
  ProcessUrgent(seg);
  return ProcessText(seg);
}

// ---- First: sequence number ----

bool Connection::IsAcceptable(const Segment& seg) const {
  const uint32_t window = Distance(rcv_.nxt, rcv_.adv);
  const uint32_t length = seg.len();
  if (length == 0) {
    return window == 0 ? seg.seq == rcv_.nxt : InWindow(seg.seq, rcv_.nxt, window);
  }
  // With a closed window nothing is acceptable, but ACK, RST and URG of what would come next are
  // looked at (MUST-66): TrimToWindow takes the text away.
  if (window == 0) return seg.seq == rcv_.nxt;
  return InWindow(seg.seq, rcv_.nxt, window) || InWindow(seg.end() - 1, rcv_.nxt, window);
}

// RFC 7323 §5.3 R1; not for resets (§5.2).
bool Connection::PawsRejects(const Segment& seg) const {
  if (!ts_.ok || !seg.options.timestamps || seg.flags.rst()) return false;
  const auto age = static_cast<int32_t>(seg.options.timestamps->tsval - ts_.recent);
  return age < 0 && NowSeconds() - ts_.recent_age_s < kTimestampRecentLifetime;
}

uint32_t Connection::NowSeconds() const {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(now().time_since_epoch()).count());
}

std::optional<DropReason> Connection::CheckSequence(Segment& seg) {
  if (PawsRejects(seg)) {
    stack().mib().tcp_ext.paws_estab.Inc();
    return AnswerUnacceptable(seg, DropReason::kTcpPaws);
  }
  const bool overruns = exact() != nullptr && seg.end() > rcv_.adv && rcv_.adv > rcv_.nxt &&
                        !receive_queue_.empty() && seg.payload_length > 0;
  if (overruns || !IsAcceptable(seg)) return AnswerUnacceptable(seg, DropReason::kTcpOutOfWindow);
  UpdateTimestampRecent(seg);
  TrimToWindow(seg);
  return std::nullopt;
}

DropReason Connection::AnswerUnacceptable(const Segment& seg, DropReason reason) {
  if (seg.flags.rst()) return reason;
  if (state_ == State::kSynReceived && seg.flags.syn() && seg.seq == rcv_.irs) {
    TransmitSyn(true);  // our SYN-ACK was lost
    return reason;
  }
  // A peer that sends old data again has lost our acknowledgments: it is always told (B28). Empty
  // segments and SYNs are answered at a limited rate, lest two hosts answer each other for ever.
  const bool old_data = seg.payload_length > 0 && !seg.flags.syn();
  if (!old_data && LimitInvalid()) return reason;
  if (old_data && sack_ok_ && reason == DropReason::kTcpOutOfWindow && seg.seq < rcv_.nxt) {
    // RFC 2883 §4: the duplicate is the first block.
    dsack_ = wire::TcpSackBlock{seg.seq.value(), Earlier(seg.end(), rcv_.nxt).value()};
    stack().mib().tcp_ext.dsack_sent.Inc();
  }
  TransmitAck();
  return reason;
}

// RFC 7323 §4.3 (2): the segment that Last.ACK.sent asks for.
void Connection::UpdateTimestampRecent(const Segment& seg) {
  if (!ts_.ok || !seg.options.timestamps || seg.seq > rcv_.last_ack_sent) return;
  ts_.recent = seg.options.timestamps->tsval;
  ts_.recent_age_s = NowSeconds();
}

// RFC 9293 §3.10.7.4: "tailoring" to the window, on the right; the left edge is cut where the text
// is taken.
void Connection::TrimToWindow(Segment& seg) {
  // Linux takes what comes next whole if nothing waits to be read, were the window open at all.
  if (exact() != nullptr && seg.seq <= rcv_.nxt && receive_queue_.empty() && rcv_.adv > rcv_.nxt) {
    return;
  }
  const Seq edge = Later(rcv_.adv, rcv_.nxt);
  const Seq text_end = seg.seq + seg.payload_length + (seg.flags.syn() ? 1u : 0u);
  if (seg.end() <= edge) return;
  seg.flags &= ~wire::TcpFlags::kFin;  // beyond the edge with what precedes it
  if (text_end <= edge) return;
  const uint32_t excess = std::min(Distance(edge, text_end), seg.payload_length);
  seg.payload_length -= excess;
  seg.packet->Trim(seg.payload_length);
  if (seg.payload_length == 0) {
    stack().mib().tcp_ext.rcv_queue_drop.Inc();
    stack().Drop(nullptr, DropReason::kTcpReceiveBufferFull);
  }
  ack_pending_ = ack_now_ = true;  // a window probe, or a peer that believes in more room
  ScheduleOutput();
}

// ---- Second: RST ----

std::optional<DropReason> Connection::CheckReset(const Segment& seg) {
  if (!seg.flags.rst()) return std::nullopt;
  // RFC 5961 §3.2: only the exact number resets; one in the window is asked about.
  if (seg.seq != rcv_.nxt) {
    SendChallengeAck();
    return DropReason::kTcpUnacceptableReset;
  }
  switch (state_) {
    case State::kSynReceived:
      // MUST-11: a passive open goes back to LISTEN without a word to the user.
      if (listener_ != nullptr) {
        stack().mib().tcp.attempt_fails.Inc();
        Leave();
      } else {
        Fail(Describe(ECONNREFUSED, "connection refused"));
      }
      return DropReason::kNone;
    case State::kClosing:
    case State::kLastAck:
      Finish();
      return DropReason::kNone;
    default:
      // After a close by the peer what is lost is our own data: as Linux, EPIPE.
      Fail(Describe(state_ == State::kCloseWait ? EPIPE : ECONNRESET, "reset by peer"));
      return DropReason::kNone;
  }
}

// ---- Fourth: SYN ----

std::optional<DropReason> Connection::CheckSyn(const Segment& seg) {
  if (!seg.flags.syn()) return std::nullopt;
  // RFC 5961 §4.2: if the peer really restarted, its reset will follow.
  SendChallengeAck();
  return DropReason::kTcpUnexpectedSyn;
}

// RFC 5961 §7: true if no answer may be sent now.
bool Connection::LimitInvalid() {
  TcpExtCounters& mib = stack().mib().tcp_ext;
  if (last_invalid_ != Time() && now() - last_invalid_ < config().invalid_rate_limit) {
    mib.challenge_limited.Inc();
    return true;
  }
  last_invalid_ = now();
  return false;
}

// Counted per connection, so that nobody can read one connection's state from another's answers
// (CVE-2016-5696).
void Connection::SendChallengeAck() {
  if (LimitInvalid()) return;
  stack().mib().tcp_ext.challenge_acks.Inc();
  TransmitAck();
}

// ---- Fifth: ACK ----

std::optional<DropReason> Connection::CheckAckField(Segment& seg) {
  if (!seg.flags.ack()) return DropReason::kTcpBadFlags;
  if (state_ == State::kSynReceived) {
    if (auto dropped = CheckHandshakeAck(seg)) return dropped;
  }
  if (seg.ack > snd_.nxt) {
    SendChallengeAck();
    return DropReason::kTcpBadAck;
  }
  // RFC 5961 §5.2: an acknowledgment older than the largest window is no duplicate of ours.
  if (seg.ack < snd_.una - std::max<uint32_t>(snd_.max_wnd, 1)) {
    SendChallengeAck();
    return DropReason::kTcpBadAck;
  }
  ProcessAck(seg);
  return std::nullopt;
}

}  // namespace tapwire::tcp
