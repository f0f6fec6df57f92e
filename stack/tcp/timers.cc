// SPDX-License-Identifier: Apache-2.0
// The timers of a connection: one node in the queue, a deadline per purpose. Moving a deadline
// later only writes the array; the node fires at the earlier time and is armed again (so an ACK
// that restarts the RTO costs a store).
//
//   kRetransmit  RFC 6298; also SYN and FIN
//   kPersist     zero-window probes (RFC 9293 §3.8.6.1), the sender's SWS override, cork's limit
//   kDelayedAck  RFC 9293 §3.8.6.3
//   kKeepalive   RFC 9293 §3.8.4
//   kLifetime    FIN-WAIT-2 of a connection whose user is gone

#include <algorithm>
#include <cerrno>

#include "stack/interface.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {

// ---- The node ----

void Connection::Arm(TimerId id, Time deadline) {
  deadlines_[static_cast<size_t>(id)] = deadline;
  if (!armed() || deadline < Timer::deadline()) stack().timers().Arm(*this, deadline);
}

void Connection::Cancel(TimerId id) {
  if (!IsArmed(id)) return;
  deadlines_[static_cast<size_t>(id)] = kInfiniteFuture;
  // With nothing left to wait for the node must not wake an idle process.
  const Time next = *std::min_element(deadlines_.begin(), deadlines_.end());
  if (next == kInfiniteFuture) stack().timers().Cancel(*this);
}

bool Connection::IsArmed(TimerId id) const {
  return deadlines_[static_cast<size_t>(id)] != kInfiniteFuture;
}

void Connection::OnExpired() {
  for (size_t i = 0; i < deadlines_.size() && !gone_; ++i) {
    if (deadlines_[i] > now()) continue;
    deadlines_[i] = kInfiniteFuture;
    OnTimer(static_cast<TimerId>(i));
  }
  if (gone_) return;
  const Time next = *std::min_element(deadlines_.begin(), deadlines_.end());
  if (next != kInfiniteFuture) stack().timers().Arm(*this, next);
}

void Connection::OnTimer(TimerId id) {
  switch (id) {
    case TimerId::kRetransmit:
      return OnRetransmitTimer();
    case TimerId::kPersist:
      return OnPersistTimer();
    case TimerId::kDelayedAck:
      if (!ack_pending_) return;
      stack().mib().tcp_ext.delayed_acks.Inc();
      pingpong_ = false;  // the answer did not come: stop waiting for it
      return TransmitAck();
    case TimerId::kKeepalive:
      return OnKeepaliveTimer();
    case TimerId::kLifetime:
      return OnLifetimeTimer();
    case TimerId::kCount:
      return;
  }
}

// ---- Retransmission ----

Duration Connection::Rto() const {
  const Config& c = config();
  return rtt_.Rto({.initial_rto = c.initial_rto,
                   .min_rto = c.min_rto,
                   .max_rto = c.max_rto,
                   .min_variance = c.min_rto_variance});
}

void Connection::RestartRetransmit() {
  Time when = now() + Rto();
  if (Habits* linux = exact()) static_cast<void>(linux->SchedulesProbe(true, when));
  Arm(TimerId::kRetransmit, when);
}

bool Connection::UserTimeoutExceeded() const {
  return options_->user_timeout > Duration::zero() && unanswered_since_ != Time() &&
         now() - unanswered_since_ >= options_->user_timeout;
}

void Connection::OnRetransmitTimer() {
  if (rtx_.empty()) return;
  if (!IsSynchronized(state_)) return OnHandshakeTimeout();
  if (Habits* linux = exact(); linux != nullptr && linux->probe_armed) {
    linux->SendProbe();
    return Arm(TimerId::kRetransmit, now() + Rto());
  }
  const Config& c = config();
  TcpExtCounters& mib = stack().mib().tcp_ext;
  mib.timeouts.Inc();
  if (retransmits_ < UINT8_MAX) ++retransmits_;
  if (Habits* linux = exact()) linux->OnTimeout();
  // R2 (RFC 9293 §3.8.3); an orphan has nobody left to be told, and less patience.
  const int limit = released_ ? std::min(c.orphan_retries, c.retries_2) : c.retries_2;
  if (c.user_timeout_from_resend && retransmits_ == 1) unanswered_since_ = now();
  if (retransmits_ > limit || UserTimeoutExceeded()) {
    mib.abort_on_timeout.Inc();
    return Fail(TimeoutStatus());
  }
  // R1 (MUST-20): let IP look for another way to the next hop.
  if (retransmits_ == c.retries_1) {
    AdviseNegatively();
    // SHLD-9: the user may ask what is going on, before R2.
    if (soft_error_.ok()) soft_error_ = Describe(ETIMEDOUT, "no answer");
  }
  rtt_.BackOff();
  OnTimeoutLoss();
  RestartRetransmit();
  if (c.user_timeout_from_resend && options_->user_timeout > Duration::zero()) {
    const Time end = unanswered_since_ + options_->user_timeout;
    Arm(TimerId::kRetransmit, std::min(end, now() + Rto()));
  }
  ScheduleOutput();
}

void Connection::OnHandshakeTimeout() {
  const Config& c = config();
  const int configured = options_->syn_retries != 0 ? options_->syn_retries : c.syn_retries;
  const int linear = listener_ == nullptr && state_ == State::kSynSent ? c.syn_linear_timeouts : 0;
  const int limit = listener_ != nullptr ? c.syn_ack_retries : configured + linear;
  if (retransmits_ >= limit || UserTimeoutExceeded()) {
    if (listener_ == nullptr) return Fail(TimeoutStatus());
    stack().mib().tcp.attempt_fails.Inc();
    return Leave();  // B07: the half-open entry goes, nobody is told
  }
  ++retransmits_;
  ++counts_.retrans_segs;
  if (retransmits_ > linear) rtt_.BackOff();
  rtt_.OnSynRetransmitted();
  stack().mib().tcp_ext.syn_retrans.Inc();
  RefreshRoute();
  // The peer has acknowledged it: not asked again before the deferral is nearly over.
  if (deferred_ && retransmits_ < options_->defer_accept) {
    --counts_.retrans_segs;
  } else {
    TransmitSyn(true);
  }
  RestartRetransmit();
}

// ---- Zero window ----

void Connection::ArmPersist() {
  // SHLD-29, SHLD-30: the first after one RTO, then doubled.
  const int shift = std::min<int>(persist_backoff_, 20);
  const Duration interval = std::min<Duration>(Rto() * (1 << shift), config().max_persist);
  if (unanswered_since_ == Time()) unanswered_since_ = now();
  Arm(TimerId::kPersist, now() + interval);
}

void Connection::OnPersistTimer() {
  if (!rtx_.empty() || (UnsentBytes() == 0 && !HasPendingFin())) return;
  // Without a way out nothing can be sent, and that counts like a probe without an answer.
  const bool reachable = RefreshRoute();
  const bool may_send = reachable && (UsableWindow() > 0 || UnsentBytes() == 0);
  if (may_send) {
    // RFC 9293 §3.8.6.2.1 (4), the override; and the end of TCP_CORK's patience.
    push_pending_ = true;
    const uint32_t length = std::min({UnsentBytes(), UsableWindow(), SegmentSize(), cc_->cwnd()});
    if (length > 0) TransmitRange({.seq = snd_.nxt, .length = length});
    MaybeSendFin();
    if (!rtx_.empty()) return ScheduleOutput();
    // No memory: that counts too, lest it be tried for ever.
  }
  // MUST-37: never given up while the probes are answered; but a peer must not make us keep what
  // nobody waits for (as Linux: once the interval is at its longest).
  const bool patience_ends =
      released_ && Rto() * (1 << std::min<int>(persist_backoff_, 20)) >= config().max_persist &&
      persist_backoff_ >= config().orphan_retries;
  if (probes_ >= config().retries_2 || UserTimeoutExceeded() || patience_ends) {
    stack().mib().tcp_ext.abort_on_timeout.Inc();
    return Fail(TimeoutStatus());
  }
  if (probes_ < UINT8_MAX) ++probes_;
  if (persist_backoff_ < 31) ++persist_backoff_;
  if (reachable && !may_send) {
    stack().mib().tcp_ext.window_probes.Inc();
    TransmitProbe();
  }
  ArmPersist();
}

// ---- Keepalive ----

void Connection::RestartKeepalive() {
  if (!options_->keepalive || !IsSynchronized(state_)) return Cancel(TimerId::kKeepalive);
  Arm(TimerId::kKeepalive, now() + options_->keepalive_idle.value_or(config().keepalive_idle));
}

void Connection::OnKeepaliveTimer() {
  if (!options_->keepalive || !IsSynchronized(state_)) return;
  const Duration idle = options_->keepalive_idle.value_or(config().keepalive_idle);
  const Duration interval = options_->keepalive_interval.value_or(config().keepalive_interval);
  const Time last = std::max(last_received_, last_data_sent_);
  // MUST-26: only when nothing was sent or received; data in flight has its own timer.
  if (!rtx_.empty()) return Arm(TimerId::kKeepalive, now() + std::max(idle, Rto()));
  if (probes_ == 0 && now() - last < idle) return Arm(TimerId::kKeepalive, last + idle);
  if (probes_ > 0 && now() - last_received_ < interval) {  // answered
    probes_ = 0;
    return Arm(TimerId::kKeepalive, last_received_ + idle);
  }
  // MUST-29: one unanswered probe is not death.
  if (probes_ >= options_->keepalive_probes.value_or(config().keepalive_probes)) {
    TransmitReset();
    return Fail(TimeoutStatus());
  }
  ++probes_;
  stack().mib().tcp_ext.keepalive_probes.Inc();
  TransmitProbe();
  Arm(TimerId::kKeepalive, now() + interval);
}

// ---- Without a user ----

void Connection::OnLifetimeTimer() {
  if (state_ == State::kFinWait2) Finish();
}

// Negative advice (RFC 1122 §3.3.1.4): the neighbour entry is to be proved again.
void Connection::AdviseNegatively() {
  if (path_.interface == nullptr || !path_.interface->needs_resolution()) return;
  path_.interface->neighbors(flow_.remote.family()).Suspect(path_.next_hop);
}

}  // namespace tapwire::tcp
