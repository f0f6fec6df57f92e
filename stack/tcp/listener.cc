// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/listener.h"

#include <chrono>
#include <utility>

#include "stack/interface.h"
#include "stack/stack.h"
#include "stack/tcp/config.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {

Listener::Listener(Tcp& tcp, const Endpoint& local, size_t backlog, const SocketOptions& options)
    : tcp_(tcp),
      local_(local),
      backlog_(backlog),
      options_(std::make_shared<SocketOptions>(options)) {}

Listener::~Listener() = default;

SocketOptions& Listener::options() {
  if (options_.use_count() > 1) options_ = std::make_shared<SocketOptions>(*options_);
  return *options_;
}

// RFC 9293 §3.10.7.2: RST, then ACK, then SYN.
DropReason Listener::Input(Segment& segment) {
  if (segment.flags.rst()) return DropReason::kTcpUnacceptableReset;
  if (segment.flags.ack()) return OnAck(segment);
  if (!segment.flags.syn() || segment.flags.fin()) return DropReason::kTcpBadFlags;
  return OnSyn(segment);
}

DropReason Listener::OnSyn(Segment& segment) {
  TcpExtCounters& mib = tcp_.stack().mib().tcp_ext;
  const SynCookieMode mode = tcp_.config().syn_cookies;
  const bool flooded = half_open_ >= tcp_.config().max_half_open || mode == SynCookieMode::kAlways;
  if (accept_queue_full() || (flooded && mode == SynCookieMode::kNever)) {
    if (accept_queue_full()) mib.listen_overflows.Inc();
    mib.listen_drops.Inc();
    return DropReason::kTcpListenQueueFull;
  }
  absl::StatusOr<Route> route = RouteFor(segment);
  if (!route.ok()) {
    mib.listen_drops.Inc();
    return DropReason::kTxNoRoute;
  }
  if (flooded) return AnswerWithCookie(segment, *route);
  Connection* connection = tcp_.AddConnection(segment.flow, *route, options_);
  if (connection == nullptr) {
    mib.listen_drops.Inc();
    return DropReason::kTcpTooMany;
  }
  ++half_open_;
  connection->StartPassive(segment, *this, tcp_.ChooseIss(segment.flow));
  return DropReason::kNone;
}

absl::StatusOr<Route> Listener::RouteFor(const Segment& segment) const {
  const uint32_t zone =
      segment.flow.remote.IsLinkLocal() || options_->ifindex != 0 ? segment.ifindex : 0;
  return tcp_.stack().FindRoute(
      {.destination = segment.flow.remote, .source = segment.flow.local, .ifindex = zone});
}

// ---- SYN cookies ----

// RFC 4987 §3.6. The connection is there only to make its SYN-ACK.
DropReason Listener::AnswerWithCookie(const Segment& syn, const Route& route) {
  const Time now = tcp_.stack().now();
  const uint16_t mss = syn.options.mss.value_or(syn.flow.remote.is_v4() ? 536 : 1220);  // MUST-15
  Connection once(tcp_, syn.flow, route, options_);
  once.SendCookieSynAck(syn, tcp_.cookies_.Make(syn, mss, now), SynCookies::Mark(syn.options));
  last_cookie_ = now;
  tcp_.stack().mib().tcp_ext.syn_cookies_sent.Inc();
  return DropReason::kNone;
}

DropReason Listener::OnAck(Segment& segment) {
  const Time now = tcp_.stack().now();
  constexpr Duration kValid = std::chrono::minutes(SynCookies::kLifetimeMinutes);
  if (last_cookie_ != Time() && now - last_cookie_ < kValid && !segment.flags.syn()) {
    if (const auto mss = tcp_.cookies_.Check(segment, now)) return OpenFromCookie(segment, *mss);
    tcp_.stack().mib().tcp_ext.syn_cookies_failed.Inc();
  }
  tcp_.ResetFor(segment);
  return DropReason::kTcpBadAck;
}

DropReason Listener::OpenFromCookie(Segment& ack, uint16_t mss) {
  TcpExtCounters& mib = tcp_.stack().mib().tcp_ext;
  if (accept_queue_full()) {  // the peer sends again
    mib.listen_overflows.Inc();
    return DropReason::kTcpAcceptQueueFull;
  }
  absl::StatusOr<Route> route = RouteFor(ack);
  if (!route.ok()) return DropReason::kTxNoRoute;
  Connection* connection = tcp_.AddConnection(ack.flow, *route, options_);
  if (connection == nullptr) return DropReason::kTcpTooMany;
  mib.syn_cookies_received.Inc();
  Segment syn;
  syn.flow = ack.flow;
  syn.seq = ack.seq - 1;
  syn.wnd = ack.wnd;
  syn.options = SynCookies::OptionsFrom(ack.options, mss);
  ++half_open_;
  connection->ResumePassive(syn, *this, ack.ack - 1);
  // A marked timestamp is up to 64 ms off: no sample.
  if (ack.options.timestamps) ack.options.timestamps->tsecr = 0;
  return connection->Input(ack);
}

// ---- The accept queue ----

void Listener::OnEstablished(Connection& connection) {
  --half_open_;
  accept_queue_.PushBack(connection);
  ++accept_count_;
  tcp_.ScheduleAcceptEvent(*this);
}

void Listener::OnConnectionGone(Connection& connection) {
  auto& hook = static_cast<ListHook<AcceptTag>&>(connection);
  if (hook.linked()) {
    hook.Unlink();
    --accept_count_;
  } else {
    --half_open_;
  }
}

Connection* Listener::Accept() {
  Connection* connection = accept_queue_.PopFront();
  if (connection == nullptr) return nullptr;
  --accept_count_;
  connection->listener_ = nullptr;
  if (connection->gone_) {  // whoever becomes its observer is told
    connection->events_ = Connection::kGone;
    tcp_.departed_.PushBack(*connection);
    tcp_.ScheduleEvent(*connection);
  }
  return connection;
}

// Those that ended while they waited: nothing but the queue has them.
void Listener::TakeGone(std::vector<Connection*>& out) {
  for (size_t left = accept_count_; left > 0; --left) {
    Connection* connection = accept_queue_.PopFront();
    if (connection->gone_) {
      --accept_count_;
      connection->listener_ = nullptr;
      out.push_back(connection);
    } else {
      accept_queue_.PushBack(*connection);
    }
  }
}

}  // namespace tapwire::tcp
