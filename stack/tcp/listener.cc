// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/listener.h"

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
  if (segment.flags.ack()) {
    tcp_.ResetFor(segment);
    return DropReason::kTcpBadAck;
  }
  if (!segment.flags.syn() || segment.flags.fin()) return DropReason::kTcpBadFlags;
  return OnSyn(segment);
}

DropReason Listener::OnSyn(Segment& segment) {
  Stack& stack = tcp_.stack();
  TcpExtCounters& mib = stack.mib().tcp_ext;
  if (accept_queue_full() || half_open_ >= tcp_.config().max_half_open) {
    if (accept_queue_full()) mib.listen_overflows.Inc();
    mib.listen_drops.Inc();
    return DropReason::kTcpListenQueueFull;
  }
  const uint32_t zone =
      segment.flow.remote.IsLinkLocal() || options_->ifindex != 0 ? segment.ifindex : 0;
  absl::StatusOr<Route> route = stack.FindRoute(
      {.destination = segment.flow.remote, .source = segment.flow.local, .ifindex = zone});
  if (!route.ok()) {
    mib.listen_drops.Inc();
    return DropReason::kTxNoRoute;
  }
  Connection* connection = tcp_.AddConnection(segment.flow, *route, options_);
  if (connection == nullptr) {
    mib.listen_drops.Inc();
    return DropReason::kTcpTooMany;
  }
  ++half_open_;
  connection->StartPassive(segment, *this, tcp_.ChooseIss(segment.flow));
  return DropReason::kNone;
}

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
  return connection;
}

}  // namespace tapwire::tcp
