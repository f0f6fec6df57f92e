// SPDX-License-Identifier: Apache-2.0
// The verbs of a connection's user (RFC 9293 §3.10.1–3.10.6) and its way from state to state.

#include "stack/tcp/connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/check.h"
#include "netdev/base/status_util.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "stack/interface.h"
#include "stack/socket_errors.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/habits.h"
#include "stack/tcp/listener.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {
namespace {

constexpr uint8_t kMaxWindowShift = 14;  // RFC 7323 §2.3

// The smallest shift with which a 16-bit field covers `buffer`.
uint8_t ShiftFor(size_t buffer) {
  uint8_t shift = 0;
  while (shift < kMaxWindowShift && (size_t{65535} << shift) < buffer) ++shift;
  return shift;
}

// With Config::linux_habits CUBIC is another one.
absl::string_view Variant(absl::string_view name, bool exact) {
  return exact && name == "cubic" ? "cubic of Linux" : name;
}

}  // namespace

Connection::Connection(Tcp& tcp, const FlowKey& flow, const Route& route,
                       std::shared_ptr<SocketOptions> options)
    : tcp_(tcp), flow_(flow), path_(route), options_(std::move(options)) {
  deadlines_.fill(kInfiniteFuture);
}

Connection::~Connection() = default;

// RFC 7323 §5.4: a clock of 1 ms.
uint32_t Connection::TimestampNow() const {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now().time_since_epoch());
  return static_cast<uint32_t>(ms.count()) + ts_.offset;
}

Habits& Connection::habits() {
  if (habits_ == nullptr) habits_ = std::make_unique<Habits>(*this, config().linux_habits);
  return *habits_;
}

Habits* Connection::exact() const {
  return habits_ != nullptr && habits_->exact() ? habits_.get() : nullptr;
}

std::vector<uint8_t> Connection::TakeSavedSyn() {
  return habits_ != nullptr ? std::exchange(habits_->saved_syn, {}) : std::vector<uint8_t>();
}

SocketOptions& Connection::options() {
  if (options_.use_count() > 1) options_ = std::make_shared<SocketOptions>(*options_);
  return *options_;
}

// ---- Opening ----

void Connection::Open(State state, Seq iss) {
  snd_.iss = snd_.una = iss;
  snd_.nxt = iss;
  recovery_point_ = iss;
  ts_.offset = tcp_.isn_.TimestampOffset(flow_);
  last_received_ = now();
  quick_acks_ = static_cast<uint8_t>(config().quick_acks);
  if (config().linux_habits) habits();
  // MUST-15 and RFC 9293 §3.7.1: what holds until the peer's SYN says otherwise.
  peer_mss_ = flow_.remote.is_v4() ? 536 : 1220;
  ApplyBuffers();
  UpdateSmss();
  ApplyCongestionControl();
  EnterState(state);
}

void Connection::StartActive(Seq iss) {
  active_open_ = true;
  sack_ok_ = config().sack;
  ts_.ok = config().timestamps;
  wscale_ok_ = config().window_scaling;
  Open(State::kSynSent, iss);
  stack().mib().tcp.active_opens.Inc();
  ScheduleOutput();
}

void Connection::OpenPassive(const Segment& syn, Seq iss) {
  sack_ok_ = config().sack;
  ts_.ok = config().timestamps;
  wscale_ok_ = config().window_scaling;
  Open(State::kSynReceived, iss);
  TakeSyn(syn);
}

void Connection::StartPassive(const Segment& syn, Listener& listener, Seq iss) {
  listener_ = &listener;
  OpenPassive(syn, iss);
  if (options_->save_syn) SaveSyn(syn);
  stack().mib().tcp.passive_opens.Inc();
  TransmitSyn(false);
}

// The headers still lie in front of the payload.
void Connection::SaveSyn(const Segment& syn) {
  if (syn.packet == nullptr || !syn.packet->has_l3()) return;
  const std::span<const uint8_t> headers = std::as_const(*syn.packet).l3_bytes();
  habits().saved_syn.assign(headers.begin(), headers.end());
}

void Connection::ResumePassive(const Segment& syn, Listener& listener, Seq iss) {
  listener_ = &listener;
  OpenPassive(syn, iss);
  snd_.nxt = iss + 1;
  // When the SYN-ACK left is not known: marked as sent twice, it gives no sample (Karn's rule).
  rtx_.OnSent({.seq = iss, .length = 1, .xmit_time = now(), .transmissions = 2, .syn = true});
  stack().mib().tcp.passive_opens.Inc();
}

void Connection::SendCookieSynAck(const Segment& syn, Seq iss, uint32_t mark) {
  OpenPassive(syn, iss);
  if (ts_.ok) {
    const uint32_t clock = TimestampNow();
    ts_.offset -= clock - SynCookies::MarkedTimestamp(clock, mark);
  } else {  // nothing would bring these back
    sack_ok_ = wscale_ok_ = false;
  }
  TransmitSyn(false);
}

void Connection::ApplyBuffers() {
  const Config& c = config();
  const size_t receive =
      options_->receive_buffer != 0 ? options_->receive_buffer : c.receive_buffer_initial;
  const size_t send = options_->send_buffer != 0 ? std::max(options_->send_buffer, kMinSendBuffer)
                                                 : c.send_buffer_initial;
  const auto wanted = static_cast<uint32_t>(std::min<size_t>(receive, 1u << 30));
  // Never smaller than what was promised (SHLD-14: the edge does not move left).
  rcv_.buffer = state_ == State::kClosed ? wanted : std::max(wanted, Distance(rcv_.nxt, rcv_.adv));
  send_limit_ = static_cast<uint32_t>(std::min<size_t>(std::max<size_t>(send, 1), 1u << 30));
  if (state_ != State::kClosed) return;
  const size_t largest =
      options_->receive_buffer != 0 ? receive : std::max(receive, c.receive_buffer_max);
  rcv_.wind_shift = c.window_scale ? std::min(*c.window_scale, kMaxWindowShift) : ShiftFor(largest);
}

void Connection::ApplyCongestionControl() {
  const std::string& name = options_->congestion_control.empty() ? config().congestion_control
                                                                 : options_->congestion_control;
  if (cc_ && cc_->name() == name) return;
  if (!cc_.Emplace(Variant(name, exact() != nullptr), SegmentSize(), InitialWindow())) {
    TW_CHECK(cc_.Emplace("reno", SegmentSize(), InitialWindow()));
  }
  cc_->set_unlimited_growth(exact() != nullptr);
}

// Grows with cwnd while a writer waits, so that the buffer is not what limits; twice cwnd, since
// what is acknowledged makes room only one round trip later.
void Connection::TuneSendBuffer() {
  if (options_->send_buffer != 0 || rtt_.srtt() <= kShortPath || stack().pool().is_tight()) return;
  const uint64_t wanted = std::min<uint64_t>(uint64_t{2} * cc_->cwnd(), config().send_buffer_max);
  send_limit_ = std::max(send_limit_, static_cast<uint32_t>(std::min<uint64_t>(wanted, 1u << 30)));
}

// RFC 6928 §2: min(10 * MSS, max(2 * MSS, 14600)), by the configured number of segments.
uint32_t Connection::InitialWindow() const {
  const uint32_t size = SegmentSize();
  const uint32_t segments = std::max(config().initial_window_segments, 1u);
  return std::min(segments * size, std::max(2 * size, segments * 1460));
}

void Connection::BecomeEstablished(const Segment& segment) {
  EnterState(State::kEstablished);
  rtt_.OnHandshakeDone();
  // The window of a segment without SYN is scaled, and the handshake counts as progress.
  snd_.wl1 = segment.seq;
  snd_.wl2 = segment.ack;
  UpdateSmss();
  cc_.Emplace(Variant(cc_->name(), exact() != nullptr), SegmentSize(), InitialWindow());
  cc_->set_unlimited_growth(exact() != nullptr);
  if (Habits* linux = exact()) linux->OnEstablished();
  // RFC 6298 §5.7, RFC 5681 §3.1: a lost SYN makes the initial window one segment.
  if (counts_.retrans_segs > 0) cc_->OnIdleRestart(SegmentSize(), now());
  tune_start_ = now();
  RestartKeepalive();
  if (fin_queued_) EnterState(State::kFinWait1);  // closed in SYN-RECEIVED (RFC 9293 §3.10.4)
  if (listener_ != nullptr) {
    listener_->OnEstablished(*this);
  } else {
    Notify(kConnected | kWritable);
  }
}

// ---- States ----

void Connection::EnterState(State next) {
  TW_DCHECK(IsLegalTransition(state_, next));
  state_ = next;
}

void Connection::Notify(uint8_t events) {
  if (observer_ == nullptr) return;
  events_ = static_cast<uint8_t>(events_ | events);
  tcp_.ScheduleEvent(*this);
}

void Connection::Leave() {
  if (gone_) return;
  if (state_ != State::kClosed) EnterState(State::kClosed);
  gone_ = true;
  for (Time& deadline : deadlines_) deadline = kInfiniteFuture;
  tcp_.stack().timers().Cancel(*this);
  ListHook<OutputTag>::Unlink();
  send_queue_.Clear();
  reassembly_.reset();
  if (released_) --tcp_.orphans_;
  // As Linux: one that waits to be accepted is still handed out, and tells then what became of it.
  const bool waits = static_cast<ListHook<AcceptTag>&>(*this).linked() && !released_;
  if (listener_ != nullptr && !waits) {
    listener_->OnConnectionGone(*this);
    listener_ = nullptr;
  }
  Notify(kGone);
  tcp_.Remove(*this);
}

void Connection::Fail(absl::Status status) {
  TcpCounters& mib = stack().mib().tcp;
  (IsSynchronized(state_) ? mib.estab_resets : mib.attempt_fails).Inc();
  status_ = std::move(status);
  Leave();
}

void Connection::Finish() { Leave(); }

// RFC 9293 §3.10.7.4: the compact entry takes over.
void Connection::EnterTimeWait() {
  EnterState(State::kTimeWait);
  stack().mib().tcp_ext.time_waits.Inc();
  if (ack_pending_) TransmitAck();
  TimeWait facts;
  facts.flow = flow_;
  facts.snd_nxt = snd_.nxt;
  facts.rcv_nxt = rcv_.nxt;
  facts.ts_offset = ts_.offset;
  facts.ts_recent = ts_.recent;
  facts.ts_ok = ts_.ok;
  facts.reuse = options_->reuse_address;
  const bool link_local = flow_.remote.IsLinkLocal() && path_.interface != nullptr;
  facts.zone = link_local ? path_.interface->index() : 0;
  const uint32_t window = Distance(rcv_.nxt, rcv_.adv) >> rcv_.wind_shift;
  facts.window = static_cast<uint16_t>(std::min<uint32_t>(window, 65535));
  Tcp& tcp = tcp_;
  Finish();
  tcp.time_wait_.Add(facts);
}

void Connection::Detach() {
  gone_ = true;
  stack().timers().Cancel(*this);
  if (ConnectionObserver* observer = std::exchange(observer_, nullptr)) {
    observer->OnGone(absl::FailedPreconditionError("tcp: the stack no longer exists"));
  }
}

absl::Status Connection::Describe(int err, const char* what) const {
  const Endpoint remote{flow_.remote, flow_.remote_port, 0};
  return ErrnoStatus(err, absl::StrCat("tcp ", remote.ToString(), ": ", what));
}

// MUST-47: what was noted before the retries ran out says more than "timed out".
absl::Status Connection::TimeoutStatus() const {
  return soft_error_.ok() ? Describe(ETIMEDOUT, "no answer") : soft_error_;
}

absl::Status Connection::TakeSoftError() { return std::exchange(soft_error_, absl::OkStatus()); }

// ---- SEND ----

// When memory is tight every connection keeps what makes progress, and no more (as Linux's
// tcp_mem): otherwise a few writers, or readers that do not read, would take it from all.
uint32_t Connection::SendLimit() const {
  const SlabPool& pool = stack().pool();
  if (!pool.is_tight()) return send_limit_;
  return pool.is_full() ? 0 : std::min(send_limit_, kTightQueue);
}

size_t Connection::send_space() const {
  const uint32_t limit = SendLimit();
  return send_queue_.size() < limit ? limit - send_queue_.size() : 0;
}

bool Connection::is_starved() const { return send_queue_.empty() && stack().pool().is_full(); }

bool Connection::MustShedData() const {
  const SlabPool& pool = stack().pool();
  if (!pool.is_nearly_full()) return false;
  return pool.is_full() || send_queue_.size() + receive_queue_.size() > kTightQueue;
}

uint32_t Connection::notsent_low_water() const {
  return options_->notsent_low_water != 0 ? options_->notsent_low_water
                                          : config().notsent_low_water;
}

size_t Connection::unsent_bytes() const { return UnsentBytes(); }

size_t Connection::Send(BufferChain& data) {
  if (!CanQueue()) return 0;
  // Its memory is taken already: some of it may always leave.
  const size_t least = send_queue_.empty() ? kTightQueue : 0;
  const size_t n = std::min(data.size(), std::max(send_space(), least));
  if (n < data.size()) writer_waits_ = true;
  if (n == 0) return 0;
  if (n == data.size()) {
    send_queue_.Append(std::exchange(data, BufferChain()));
  } else {
    send_queue_.Append(data.Split(n));
  }
  ScheduleOutput();
  return n;
}

size_t Connection::SendCopy(std::span<const uint8_t> data) {
  if (!CanQueue()) return 0;
  const size_t n =
      send_queue_.AppendCopy(stack().pool(), data.first(std::min(data.size(), send_space())));
  if (n < data.size()) writer_waits_ = true;
  if (n > 0) ScheduleOutput();
  return n;
}

// Data may be queued before the connection is established; it leaves with the handshake's end.
bool Connection::CanQueue() const {
  if (gone_ || released_ || fin_queued_) return false;
  return CanSendData(state_) || state_ == State::kSynSent || state_ == State::kSynReceived;
}

void Connection::SendUrgent() {
  snd_.urgent = true;
  snd_.urgent_end = snd_.una + static_cast<uint32_t>(send_queue_.size());
}

void Connection::EndRecord() {
  if (CanQueue() && !send_queue_.empty()) {
    habits().EndRecord(snd_.una + static_cast<uint32_t>(send_queue_.size()));
  }
}

void Connection::PushPending() {
  push_pending_ = true;
  ScheduleOutput();
}

// ---- RECEIVE ----

size_t Connection::Read(std::span<uint8_t> into) {
  const size_t n = receive_queue_.CopyOut(0, into);
  receive_queue_.Consume(n);
  rcv_.unconsumed += static_cast<uint32_t>(n);
  return n;
}

BufferSlice Connection::TakeSlice() {
  BufferSlice slice = receive_queue_.PopFront();
  rcv_.unconsumed += static_cast<uint32_t>(slice.size());
  return slice;
}

void Connection::Consumed(size_t bytes) {
  const auto n = static_cast<uint32_t>(std::min<size_t>(bytes, rcv_.unconsumed));
  rcv_.unconsumed -= n;
  if (gone_ || n == 0) return;
  TuneReceiveBuffer(n);
  MaybeSendWindowUpdate();
}

void Connection::DiscardReceived() {
  discard_received_ = true;
  rcv_.unconsumed += static_cast<uint32_t>(receive_queue_.size());
  receive_queue_.Clear();
  Consumed(rcv_.unconsumed);
}

std::optional<size_t> Connection::urgent_offset() const {
  if (!rcv_.urgent) return std::nullopt;
  const Seq first_unread = rcv_.nxt - static_cast<uint32_t>(receive_queue_.size());
  if (rcv_.urgent_end < first_unread) return std::nullopt;
  return static_cast<size_t>(rcv_.urgent_end - first_unread);
}

// ---- CLOSE and ABORT ----

void Connection::ShutdownWrite() {
  if (gone_ || fin_queued_) return;
  if (state_ == State::kSynSent) {
    // RFC 9293 §3.10.4: nothing was promised to anybody yet.
    Fail(Describe(ECONNABORTED, "closed before it was established"));
    return;
  }
  QueueFin();
}

void Connection::QueueFin() {
  fin_queued_ = true;
  if (state_ == State::kEstablished) EnterState(State::kFinWait1);
  if (state_ == State::kCloseWait) EnterState(State::kLastAck);
  ScheduleOutput();
}

// The user is gone: nobody is told of anything any more.
void Connection::BecomeOrphan() {
  observer_ = nullptr;
  ListHook<EventTag>::Unlink();
  if (!released_ && !gone_) ++tcp_.orphans_;
  released_ = true;
}

void Connection::Release() {
  BecomeOrphan();
  if (gone_) return tcp_.Bury(*this);
  const bool unread = !receive_queue_.empty() || (reassembly_ != nullptr && !reassembly_->empty());
  const bool linger_zero = options_->linger && *options_->linger == Duration::zero();
  if (state_ == State::kSynSent) return Leave();
  if (linger_zero || (unread && !discard_received_)) {
    // RFC 2525 §2.17, SHLD-3: the peer must learn that its data was not read.
    TcpExtCounters& mib = stack().mib().tcp_ext;
    (linger_zero ? mib.abort_on_linger : mib.abort_on_close).Inc();
    return ResetAndLeave();
  }
  if (tcp_.orphans_ > config().max_orphans) {
    // A peer that lets our closes hang must not make us keep them all.
    stack().mib().tcp_ext.abort_on_memory.Inc();
    return ResetAndLeave();
  }
  if (!fin_queued_) QueueFin();
  if (state_ == State::kFinWait2) AwaitPeersFin();
}

// FIN-WAIT-2 without a user.
void Connection::AwaitPeersFin() {
  const Duration wait = options_->fin_wait_2.value_or(config().fin_wait_2);
  if (wait < Duration::zero()) return ResetAndLeave();
  Arm(TimerId::kLifetime, now() + wait);
}

void Connection::Abort() {
  BecomeOrphan();
  if (gone_) return tcp_.Bury(*this);
  stack().mib().tcp_ext.abort_on_linger.Inc();
  ResetAndLeave();
}

// RFC 9293 §3.10.5: a reset in every synchronized state; none where the peer knows nothing of us.
void Connection::ResetAndLeave() {
  const bool peer_knows = state_ != State::kSynSent && state_ != State::kClosed;
  if (peer_knows && !(state_ == State::kClosing || state_ == State::kLastAck)) {
    TransmitReset();
  }
  Leave();
}

// ---- Path and options ----

uint32_t Connection::MaxSegmentFor(uint32_t mtu) const {
  const bool v4 = flow_.remote.is_v4();
  // The total length of IPv4 has 16 bits, whatever the link carries (loopback: 65,536).
  if (v4) mtu = std::min<uint32_t>(mtu, 65535);
  const size_t ip = v4 ? wire::Ipv4Header::kMinLength : wire::Ipv6Header::kLength;
  const auto headers = static_cast<uint32_t>(ip + wire::TcpHeader::kMinLength);
  return mtu > headers ? mtu - headers : 0;
}

// MUST-67: what the interface can take, whatever the path's MTU is.
uint16_t Connection::AdvertisedMss() const {
  const uint32_t mtu = path_.interface != nullptr ? path_.interface->device().mtu() : path_.mtu;
  uint32_t mss = std::min<uint32_t>(MaxSegmentFor(mtu), 65535);
  if (options_->max_segment != 0) mss = std::min<uint32_t>(mss, options_->max_segment);
  return static_cast<uint16_t>(mss);
}

// RFC 9293 §3.7.1: Eff.snd.MSS, without the options (SegmentSize() subtracts these).
void Connection::UpdateSmss() {
  uint32_t smss = std::min<uint32_t>(peer_mss_, MaxSegmentFor(path_.mtu));
  if (options_->max_segment != 0) smss = std::min<uint32_t>(smss, options_->max_segment);
  smss_ = std::max<uint32_t>(smss, config().min_mss);
  rtx_.set_segment_size(SegmentSize());
  if (cc_) cc_->set_smss(SegmentSize());
}

// A route goes stale when addresses, neighbours' routers or path MTUs change. MUST-45: the source
// stays; false if there is no way out for it now.
bool Connection::RefreshRoute() {
  if (path_.generation == stack().route_generation()) return true;
  const uint32_t zone =
      flow_.remote.IsLinkLocal() || options_->ifindex != 0
          ? (options_->ifindex != 0 ? options_->ifindex : path_.interface->index())
          : 0;
  absl::StatusOr<Route> route =
      stack().FindRoute({.destination = flow_.remote, .source = flow_.local, .ifindex = zone});
  if (!route.ok()) {
    soft_error_ = absl::IsNotFound(route.status())
                      ? ErrnoStatus(ENETUNREACH, route.status().message())
                      : route.status();
    return false;
  }
  const uint32_t before = smss_;
  path_ = Path(*route);
  UpdateSmss();
  if (smss_ < before) {
    cc_->OnSmallerSegments(before, smss_);
    OnPathMtuReduced();
  }
  return true;
}

// RFC 1191 §6.5, RFC 8201 §5.4: what is in flight is too large and must be sent again at once; that
// is no sign of congestion.
void Connection::OnPathMtuReduced() {
  if (rtx_.empty() || !IsSynchronized(state_)) return;
  rtx_.MarkAllLost(false);
  force_retransmit_ = true;
}

void Connection::OnOptionsChanged() {
  if (gone_) return;
  ApplyBuffers();
  UpdateSmss();
  ApplyCongestionControl();
  RestartKeepalive();
  if (options_->quick_ack) quick_acks_ = 16;
  if (options_->nodelay && !options_->cork) push_pending_ = true;
  ScheduleOutput();
}

size_t Connection::true_size() const {
  return send_queue_.true_size() + receive_queue_.true_size() +
         (reassembly_ != nullptr ? reassembly_->true_size() : 0);
}

bool Connection::OnIcmpError(const IcmpErrorInfo& error, Seq quoted) {
  // RFC 5927 §4.1: only what quotes data in flight.
  if (gone_ || quoted < snd_.una || quoted >= snd_.nxt) {
    stack().mib().tcp_ext.lock_dropped_icmps.Inc();
    return false;
  }
  if (error.kind == IcmpErrorKind::kPacketTooBig) {
    ScheduleOutput();  // by then the path MTU is known
    return true;
  }
  absl::Status status = IcmpErrorStatus(error);
  const bool hard =
      error.kind == IcmpErrorKind::kPortUnreachable ||
      error.kind == IcmpErrorKind::kProtocolUnreachable ||
      // The next hop does not answer: our own finding, no message of a stranger.
      (error.kind == IcmpErrorKind::kHostUnreachable && error.reporter == error.source);
  // RFC 5927 §5.2, RFC 5461 §4: hard errors end only what is not established yet.
  if (hard && !IsSynchronized(state_)) {
    Fail(std::move(status));
  } else if (error.kind != IcmpErrorKind::kOther) {  // MUST-55, MUST-56
    soft_error_ = std::move(status);
  }
  return true;
}

}  // namespace tapwire::tcp
