// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/habits.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/connection.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {
namespace {

uint64_t Microseconds(Duration d) {
  return static_cast<uint64_t>(
      std::max<int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(d).count(), 0));
}

}  // namespace

uint32_t Habits::size() const { return std::max(c_.SegmentSize(), 1u); }

// ---- Records ----

// Those that were acknowledged say nothing any more, and half a circle later would lie.
void Habits::ForgetOldRecords() {
  const auto old = std::upper_bound(record_ends_.begin(), record_ends_.end(), c_.snd_.una);
  if (old != record_ends_.begin()) record_ends_.erase(record_ends_.begin(), old);
}

void Habits::EndRecord(Seq end) {
  ForgetOldRecords();
  if (record_ends_.empty() || record_ends_.back() < end) record_ends_.push_back(end);
}

uint32_t Habits::CutAtRecord(Seq from, uint32_t length) {
  ForgetOldRecords();
  const auto end = std::upper_bound(record_ends_.begin(), record_ends_.end(), from);
  return end == record_ends_.end() ? length : std::min(length, Distance(from, *end));
}

bool Habits::IsRecordEnd(Seq at) const {
  return std::binary_search(record_ends_.begin(), record_ends_.end(), at);
}

// ---- Counts and clocks ----

void Habits::OnEstablished() {
  c_.last_data_sent_ = c_.last_data_received_ = c_.now();
  usage_end_ = c_.snd_.una;
  if (c_.listener_ != nullptr) {
    // The SYN-ACK is not the connection's there, but both segments that made it
    // are.
    c_.counts_.segs_out = 0;
    c_.counts_.segs_in = 2;
  }
  const uint32_t offered = Distance(c_.rcv_.nxt, c_.rcv_.adv);
  const uint32_t advmss = c_.AdvertisedMss() - (c_.ts_.ok ? 12u : 0u);
  receive_space_ = std::min(offered, c_.config().initial_window_segments * advmss);
  // One segment is kept back, unless all was offered at once.
  const uint32_t most = offered < c_.rcv_.buffer ? c_.rcv_.buffer - advmss : c_.rcv_.buffer;
  window_limit_ = std::min(offered, std::max(most, advmss));
}

void Habits::OnDataReceived(uint32_t bytes) {
  const uint32_t advmss = c_.AdvertisedMss() - (c_.ts_.ok ? 12u : 0u);
  const uint32_t most = c_.rcv_.buffer - std::min(c_.rcv_.buffer, advmss);
  if (window_limit_ >= most) return;
  window_limit_ += std::min(most - window_limit_, 2 * std::max(advmss, bytes));
}

void Habits::OnSent(uint32_t segments, uint32_t payload, bool retransmission) {
  c_.counts_.segs_out += segments - 1;
  if (payload > 0) c_.counts_.data_segs_out += segments;
  if (retransmission) {
    c_.counts_.bytes_sent += payload;
    c_.counts_.retrans_segs += segments - 1;
  }
  if (reducing_) prr_out_ += segments;
}

void Habits::OnAck(Seq una) {
  if (una > usage_end_ + (1u << 30)) usage_end_ = una;  // lest it look like the future
  if (timeout_start_ == Time()) return;
  timeout_time_ += c_.now() - timeout_start_;
  timeout_start_ = Time();
}

void Habits::OnTimeout() {
  ++timeouts_;
  if (c_.retransmits_ > 1) return;
  ++timeout_recoveries_;
  timeout_start_ = c_.now();
}

void Habits::SetClock(Clock clock) {
  if (clock == clock_) return;
  const Duration passed = c_.now() - clock_start_;
  if (clock_ == Clock::kBusy) busy_ += passed;
  if (clock_ == Clock::kWindow) window_ += passed;
  if (clock_ == Clock::kBuffer) buffer_ += passed;
  clock_ = clock;
  clock_start_ = c_.now();
}

void Habits::UpdateClocks() {
  if (c_.gone_) return;
  if (c_.send_queue_.empty() && c_.rtx_.empty()) return SetClock(Clock::kNone);
  const uint32_t unsent = c_.UnsentBytes();
  const uint32_t pipe = c_.Pipe();
  const uint32_t room = c_.cc_->cwnd() > pipe ? c_.cc_->cwnd() - pipe : 0;
  const uint32_t needed = std::min(unsent, size());
  if (unsent > 0 && room >= needed && c_.UsableWindow() < needed) return SetClock(Clock::kWindow);
  if (unsent == 0 && c_.writer_waits_ && room > 0) return SetClock(Clock::kBuffer);
  SetClock(Clock::kBusy);
}

// ---- The use of cwnd ----

void Habits::ValidateWindow(bool sent) {
  const uint32_t segment = size();
  const bool limited = (c_.Pipe() + segment - 1) / segment >= c_.cc_->cwnd() / segment;
  if (!sent && !(limited && c_.UnsentBytes() > 0)) return;
  const uint32_t out = std::min<uint32_t>((c_.rtx_.total() + segment - 1) / segment,
                                          std::numeric_limits<uint16_t>::max());
  const bool anew = c_.snd_.una >= usage_end_;
  if (!anew && !limited && (c_.cwnd_limited_ || out <= c_.most_in_flight_)) return;
  c_.cwnd_limited_ = limited;
  c_.most_in_flight_ = static_cast<uint16_t>(out);
  usage_end_ = c_.snd_.nxt;
}

void Habits::RestartAfterIdle() {
  const Duration rto = c_.Rto();
  Duration idle = c_.now() - c_.last_data_sent_;
  uint32_t cwnd = c_.cc_->cwnd();
  const uint32_t restart = std::min(c_.InitialWindow(), cwnd);
  const uint32_t segments = cwnd / size();
  const uint32_t ssthresh = std::max(c_.cc_->ssthresh(), (segments / 2 + segments / 4) * size());
  for (idle -= rto; idle > Duration::zero() && cwnd > restart; idle -= rto) cwnd /= 2;
  c_.cc_->OnIdleRestart(std::max(cwnd, restart), c_.now());
  c_.cc_->SetWindow(std::max(cwnd, restart), ssthresh);
}

// ---- Proportional rate reduction ----

void Habits::BeginReduction() {
  const uint32_t segment = size();
  const uint32_t cwnd = c_.cc_->cwnd();
  reducing_ = true;
  prior_cwnd_ = std::max(cwnd / segment, 1u);
  prr_delivered_ = prr_out_ = 0;
  probe_out_ = false;
  c_.cc_->OnCongestionEvent(cwnd, c_.now());
  c_.cc_->SetWindow(cwnd, c_.cc_->ssthresh() / segment * segment);
}

// RFC 9937, with the slow-start reduction bound.
void Habits::Reduce(uint32_t delivered, bool newly_lost, bool advanced) {
  if (!reducing_ || delivered == 0) return;
  const uint32_t segment = size();
  const auto ssthresh = static_cast<int64_t>(c_.cc_->ssthresh() / segment);
  const auto pipe = static_cast<int64_t>((c_.Pipe() + segment - 1) / segment);
  prr_delivered_ += delivered;
  int64_t count = 0;
  if (pipe > ssthresh) {
    count = (ssthresh * prr_delivered_ + prior_cwnd_ - 1) / prior_cwnd_ - int64_t{prr_out_};
  } else {
    count = std::max<int64_t>(int64_t{prr_delivered_} - prr_out_, delivered);
    if (advanced && !newly_lost) ++count;
    count = std::min(ssthresh - pipe, count);
  }
  count = std::max<int64_t>(count,
                            prr_out_ > 0 ? 0 : 1);  // the first copy always goes
  c_.cc_->SetWindow(static_cast<uint32_t>(pipe + count) * segment, c_.cc_->ssthresh());
}

void Habits::EndReduction() {
  if (!std::exchange(reducing_, false)) return;
  c_.cc_->SetWindow(c_.cc_->ssthresh(), c_.cc_->ssthresh());
}

void Habits::OnLoss() {
  reducing_ = probe_out_ = false;
  const uint32_t ssthresh = c_.cc_->ssthresh();
  const bool set = ssthresh != CongestionControl::kInfiniteSsthresh;
  c_.cc_->SetWindow(c_.Pipe() + size(), set ? ssthresh / size() * size() : ssthresh);
}

// ---- Tail loss probes ----

// RFC 8985 §7.2, with Linux's allowance for a delayed acknowledgment.
bool Habits::SchedulesProbe(bool restart, Time& when) {
  probe_armed = false;
  if (!c_.config().tail_loss_probes || !c_.sack_ok_ || c_.rtx_.empty()) return false;
  if (c_.recovery_ != RecoveryState::kOpen || !IsSynchronized(c_.state_)) return false;
  Duration wait = c_.config().initial_rto;
  if (const Duration srtt = c_.rtt_.srtt(); srtt > Duration::zero()) {
    const bool single = c_.rtx_.total() <= size();
    wait = 2 * srtt + (single ? c_.config().min_rto : Duration(std::chrono::milliseconds(2)));
  }
  const Time first = restart ? c_.now() : c_.rtx_.oldest_xmit_time();
  when = std::min(c_.now() + wait, std::max(first + c_.Rto(), c_.now()));
  probe_armed = true;
  return true;
}

// RFC 8985 §7.3: new data if there is some, else the last segment again.
void Habits::SendProbe() {
  probe_armed = false;
  if (probe_out_ || c_.rtx_.empty()) return;
  const uint32_t segment = size();
  const uint32_t unsent = c_.UnsentBytes();
  if (unsent > 0 && c_.UsableWindow() >= std::min(unsent, segment)) {
    probe_resent_ = false;
    if (c_.TransmitRange({.seq = c_.snd_.nxt, .length = std::min(unsent, segment)}) == 0) return;
  } else {
    const SentRange last = c_.rtx_.back();
    const uint32_t length = (last.length - 1) % segment + 1;
    const Seq seq = last.end() - length;
    probe_resent_ = true;
    const uint32_t sent = c_.TransmitRange({.seq = seq,
                                            .length = length - (last.fin ? 1 : 0),
                                            .fin = last.fin,
                                            .retransmission = true});
    if (sent == 0) return;
    c_.rtx_.OnResent(seq, sent, c_.now());
  }
  probe_armed = false;
  probe_out_ = true;
  probe_end_ = c_.snd_.nxt;
}

// RFC 8985 §7.4: a probe that repaired a loss is a sign of congestion.
void Habits::OnAckForProbe(Seq ack, bool advanced, bool new_sacks, bool dsack) {
  if (!probe_out_ || ack < probe_end_) return;
  // The probe was new data, or both copies have arrived.
  const bool nothing_lost =
      !probe_resent_ || dsack || (ack == probe_end_ && !advanced && !new_sacks);
  if (nothing_lost) {
    probe_out_ = false;
  } else if (ack > probe_end_) {
    BeginReduction();
    EndReduction();
  }
}

// ---- TCP_INFO ----

void Habits::Fill(TcpInfo& info) const {
  info.linux_habits = true;
  const Duration passed = c_.now() - clock_start_;
  const Duration window = window_ + (clock_ == Clock::kWindow ? passed : Duration::zero());
  const Duration buffer = buffer_ + (clock_ == Clock::kBuffer ? passed : Duration::zero());
  const Duration busy = busy_ + (clock_ == Clock::kBusy ? passed : Duration::zero());
  info.window_limited_us = Microseconds(window);
  info.buffer_limited_us = Microseconds(buffer);
  info.busy_us = Microseconds(busy + window + buffer);
  info.timeouts = timeouts_;
  info.timeout_recoveries = timeout_recoveries_;
  const Duration current = timeout_start_ == Time() ? Duration::zero() : c_.now() - timeout_start_;
  info.timeout_ms = static_cast<uint32_t>(Microseconds(timeout_time_ + current) / 1000);
  info.rcv_space = receive_space_;
  info.rcv_ssthresh = receive_space_ > 0 ? window_limit_ : info.rcv_wnd;
  info.out_of_order_segs = out_of_order;
  info.dsacks = dsacks;
  // Without what the next acknowledgment has to carry.
  info.snd_mss = c_.BoundToWindow(c_.smss_ - (c_.ts_.ok ? 12u : 0u));
  if (c_.last_data_received_ == Time() || c_.counts_.bytes_received == 0) info.ato_us = 0;
  if (c_.ts_.ok) info.advmss -= 12;
}

}  // namespace tapwire::tcp
