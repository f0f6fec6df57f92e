// SPDX-License-Identifier: Apache-2.0
// The protocol object: from a received packet to its connection, and the work of a batch's end.

#include "stack/tcp/tcp.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/csum_offload.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/tcp.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire::tcp {

Tcp& Tcp::Install(Stack& stack, const Config& config) {
  if (auto* tcp = dynamic_cast<Tcp*>(stack.transport(wire::IpProtocol::kTcp))) return *tcp;
  auto tcp = std::make_unique<Tcp>(stack, config);
  Tcp& installed = *tcp;
  stack.AdoptTransport(wire::IpProtocol::kTcp, std::move(tcp));
  return installed;
}

Tcp::Tcp(Stack& stack, const Config& config)
    : stack_(stack),
      config_(config),
      isn_(stack.random()),
      cookies_(stack.random()),
      hash_{SipKey::Generate(stack.random())},
      connections_(0, FlowHash{hash_}),
      time_wait_(*this, hash_),
      alive_(std::make_shared<Tcp*>(this)) {}

Tcp::~Tcp() {
  // Nobody is to call into a half-destroyed object: everybody is told, then all goes.
  std::vector<Connection*> all(connections_.begin(), connections_.end());
  for (auto& [port, listeners] : listeners_) {
    for (auto& listener : listeners) listener->TakeGone(all);
  }
  for (Connection* connection : all) connection->Detach();
  for (auto& [port, listeners] : listeners_) {
    for (auto& listener : listeners) {
      if (ListenerObserver* observer = listener->observer()) observer->OnListenerGone();
    }
  }
  while (Connection* connection = departed_.PopFront()) {
    connection->Detach();
    all.push_back(connection);
  }
  output_list_.Clear();
  event_list_.Clear();
  for (auto& [port, listeners] : listeners_) listeners.clear();
  for (Connection* connection : all) delete connection;
}

// ---- Input ----

DropReason Tcp::Input(PacketPtr packet, const IpPacketInfo& info) {
  stack_.mib().tcp.in_segs.Inc();
  Segment segment;
  const DropReason bad = Parse(std::move(packet), info, segment);
  if (bad != DropReason::kNone) {
    stack_.mib().tcp.in_errs.Inc();
    return CountDrop(segment, bad);
  }
  const DropReason reason = Deliver(segment);
  return reason == DropReason::kNone ? reason : CountDrop(segment, reason);
}

DropReason Tcp::CountDrop(Segment& segment, DropReason reason) {
  return stack_.Drop(std::move(segment.packet), reason);
}

// Leaves segment.packet at the payload.
DropReason Tcp::Parse(PacketPtr packet, const IpPacketInfo& info, Segment& segment) {
  segment.packet = std::move(packet);
  Packet& p = *segment.packet;
  // MUST-57, MUST-63: TCP is between two hosts.
  if (info.delivery != IpDelivery::kUnicast || info.link_broadcast || info.source.IsMulticast() ||
      info.source.IsUnspecified() || info.source.IsLimitedBroadcast()) {
    return DropReason::kTcpNotUnicast;
  }
  const size_t length = p.length();
  if (!p.EnsureLinear(std::min(length, wire::TcpHeader::kMaxLength)))
    return DropReason::kLinkNoBuffer;
  const auto header = wire::TcpHeader::Parse(p.head_bytes());
  if (!header) return DropReason::kTcpTruncated;
  if (!netdev::VerifyTransportChecksum(p, {info.source, info.destination, wire::IpProtocol::kTcp},
                                       static_cast<uint32_t>(length))) {
    stack_.mib().tcp.in_csum_errors.Inc();
    return DropReason::kTcpBadChecksum;
  }
  segment.flow = {info.destination, info.source, header->dst_port(), header->src_port()};
  segment.seq = Seq(header->seq());
  segment.ack = Seq(header->ack());
  segment.wnd = header->window();
  segment.urgent_pointer = header->urgent_pointer();
  segment.flags = header->flags();
  segment.tos = info.tos;
  segment.late = p.meta.late;
  segment.rx_time = p.meta.rx_time;
  segment.ifindex = info.interface->index();
  segment.options = wire::TcpOptions::Parse(header->options());
  const size_t header_length = header->header_length();
  segment.payload_length = static_cast<uint32_t>(length - header_length);
  static_cast<void>(p.Pull(header_length));
  return DropReason::kNone;
}

DropReason Tcp::Deliver(Segment& segment) {
  if (Connection* connection = FindConnection(segment.flow)) {
    const DropReason reason = connection->Input(segment);
    return reason;
  }
  std::optional<Seq> above;
  if (time_wait_.Find(segment.flow) != nullptr) {
    DropReason reason = DropReason::kNone;
    Seq min_isn;
    if (time_wait_.Input(segment, reason, min_isn) == TimeWaitTable::Verdict::kHandled)
      return reason;
    above = min_isn;
  }
  const Endpoint local{segment.flow.local, segment.flow.local_port, segment.ifindex};
  Listener* listener = FindListener(local);
  if (listener == nullptr) return NoSocket(segment);
  min_isn_ = above;
  const DropReason reason = listener->Input(segment);
  min_isn_.reset();
  return reason;
}

DropReason Tcp::NoSocket(Segment& segment) {
  ResetFor(segment);
  return DropReason::kTcpNoPort;
}

// ---- Resets ----

// RFC 9293 §3.10.7.1: the numbers that the peer will believe.
void Tcp::ResetFor(const Segment& segment) {
  if (segment.flags.rst()) return;
  const uint32_t zone = segment.flow.remote.IsLinkLocal() ? segment.ifindex : 0;
  absl::StatusOr<Route> route = stack_.FindRoute(
      {.destination = segment.flow.remote, .source = segment.flow.local, .ifindex = zone});
  if (!route.ok()) return;
  if (segment.flags.ack()) return SendReset(segment.flow, *route, segment.ack, std::nullopt);
  SendReset(segment.flow, *route, Seq(0), segment.end());
}

void Tcp::SendReset(const FlowKey& flow, const Route& route, Seq seq, std::optional<Seq> ack) {
  SendBare(flow, route,
           {.src_port = flow.local_port,
            .dst_port = flow.remote_port,
            .seq = seq.value(),
            .ack = ack ? ack->value() : 0,
            .flags = ack ? wire::TcpFlags::kRst | wire::TcpFlags::kAck : wire::TcpFlags::kRst});
  stack_.mib().tcp.out_rsts.Inc();
}

void Tcp::SendBare(const FlowKey& flow, const Route& route, const wire::TcpFields& fields) {
  PacketPtr packet = stack_.pool().AllocatePacket(0);
  if (packet == nullptr) {
    stack_.mib().tcp.out_errors.Inc();
    return;
  }
  fields.Emit(packet->Push(fields.length()));
  netdev::SetPartialChecksum(*packet, {flow.local, flow.remote, wire::IpProtocol::kTcp},
                             wire::TcpHeader::kChecksumOffset);
  const netdev::TxResult result = stack_.SendIp(
      std::move(packet), route, {.protocol = wire::IpProtocol::kTcp, .dont_fragment = true});
  if (netdev::TxOk(result)) {
    stack_.mib().tcp.out_segs.Inc();
  } else {
    stack_.mib().tcp.out_errors.Inc();
  }
}

bool Tcp::OnIcmpError(const IcmpErrorInfo& error) {
  // RFC 792 quotes eight bytes at least: ports and sequence number.
  if (error.transport.size() < 8) return false;
  const FlowKey flow{error.source, error.destination, LoadBe16(error.transport.data()),
                     LoadBe16(error.transport.data() + 2)};
  Connection* connection = FindConnection(flow);
  return connection != nullptr &&
         connection->OnIcmpError(error, Seq(LoadBe32(error.transport.data() + 4)));
}

// ---- The end of a batch ----

void Tcp::ScheduleOutput(Connection& connection) {
  if (static_cast<ListHook<OutputTag>&>(connection).linked()) return;
  output_list_.PushBack(connection);
  stack_.context().ScheduleFlush(*this);
}

void Tcp::Flush() {
  // What an Output() schedules again waits for the next flush, so that this one ends.
  IntrusiveList<Connection, OutputTag> now;
  now.Splice(output_list_);
  while (Connection* connection = now.PopFront()) connection->Output();
  graveyard_.clear();
}

void Tcp::DeferEvents() {
  if (events_deferred_) return;
  events_deferred_ = true;
  stack_.context().Defer([weak = std::weak_ptr<Tcp*>(alive_)] {
    if (const std::shared_ptr<Tcp*> tcp = weak.lock()) (*tcp)->RunEvents();
  });
}

void Tcp::ScheduleEvent(Connection& connection) {
  if (!static_cast<ListHook<EventTag>&>(connection).linked()) event_list_.PushBack(connection);
  DeferEvents();
}

void Tcp::ScheduleAcceptEvent(Listener& listener) {
  if (listener.event_pending_ || listener.observer() == nullptr) return;
  listener.event_pending_ = true;
  accept_events_.push_back(&listener);
  DeferEvents();
}

void Tcp::RunEvents() {
  events_deferred_ = false;
  // A callback may destroy the stack, and this object with it.
  const std::weak_ptr<Tcp*> alive = alive_;
  std::vector<Listener*> listeners = std::exchange(accept_events_, {});
  accepting_ = &listeners;
  for (size_t i = 0; i < listeners.size(); ++i) {
    Listener* listener = listeners[i];
    if (listener == nullptr) continue;  // closed by an earlier callback
    listener->event_pending_ = false;
    if (listener->observer() != nullptr) listener->observer()->OnAcceptable();
    if (alive.expired()) return;
  }
  accepting_ = nullptr;
  IntrusiveList<Connection, EventTag> now;
  now.Splice(event_list_);
  while (Connection* connection = now.PopFront()) {
    RunEventsOf(*connection);
    if (alive.expired()) return;
  }
}

// Each event is looked at only after the one before it was told, since its callback may have
// released the connection.
void Tcp::RunEventsOf(Connection& connection) {
  const uint8_t events = std::exchange(connection.events_, uint8_t{0});
  const std::weak_ptr<Tcp*> alive = alive_;
  const auto tell = [&](uint8_t event, void (ConnectionObserver::*what)()) {
    if ((events & event) == 0 || alive.expired() || connection.observer_ == nullptr) return;
    (connection.observer_->*what)();
  };
  tell(Connection::kConnected, &ConnectionObserver::OnConnected);
  tell(Connection::kUrgent, &ConnectionObserver::OnUrgent);
  tell(Connection::kReadable, &ConnectionObserver::OnReadable);
  tell(Connection::kWritable, &ConnectionObserver::OnWritable);
  if ((events & Connection::kGone) == 0 || alive.expired()) return;
  if (ConnectionObserver* observer = std::exchange(connection.observer_, nullptr)) {
    observer->OnGone(connection.status_);
  }
  if (!alive.expired()) Bury(connection);
}

void Tcp::TellNow(Connection& connection) {
  static_cast<ListHook<EventTag>&>(connection).Unlink();
  RunEventsOf(connection);
}

// ---- Ends ----

// Out of the table now; destroyed when nothing up the stack can be using it. One that still has
// somebody to tell is buried after that.
void Tcp::Remove(Connection& connection) {
  connections_.erase(&connection);
  UnusePort(connection.flow().local_port);
  if (connection.listener_ != nullptr) return;  // its accept queue holds it
  if (static_cast<ListHook<EventTag>&>(connection).linked()) {
    departed_.PushBack(connection);
    return;
  }
  Bury(connection);
}

void Tcp::Bury(Connection& connection) {
  if (connection.buried_) return;
  connection.buried_ = true;
  static_cast<ListHook<AcceptTag>&>(connection).Unlink();
  graveyard_.push_back(std::unique_ptr<Connection>(&connection));
  stack_.context().ScheduleFlush(*this);
}

std::vector<const Connection*> Tcp::connections() const {
  return {connections_.begin(), connections_.end()};
}

std::vector<const Listener*> Tcp::listeners() const {
  std::vector<const Listener*> all;
  for (const auto& [port, listeners] : listeners_) {
    for (const auto& listener : listeners) all.push_back(listener.get());
  }
  return all;
}

}  // namespace tapwire::tcp
