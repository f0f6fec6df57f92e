// SPDX-License-Identifier: Apache-2.0
// UdpSocket: the queue between the receive path and the user's callbacks, and the route cache of
// the sender.

#include "stack/sockets/udp_socket.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/interface.h"
#include "stack/socket_errors.h"
#include "stack/sockets/callback_slot.h"
#include "stack/stack.h"

namespace tapwire {

size_t Datagram::CopyTo(std::span<uint8_t> out) const {
  const size_t n = std::min(out.size(), size());
  if (n > 0) packet_->CopyOut(0, out.first(n));
  return n;
}

void Datagram::ForEachSpan(absl::FunctionRef<void(std::span<const uint8_t>)> visit) const {
  if (packet_ != nullptr) packet_->ForEachSpan(visit);
}

struct UdpSocket::Queued {
  PacketPtr packet;
  UdpDatagramInfo info;
};

namespace {

// FIFO over one vector: no memory while empty, amortised O(1).
template <typename T>
class Fifo {
 public:
  bool empty() const { return head_ == items_.size(); }
  size_t size() const { return items_.size() - head_; }
  void Push(T item) { items_.push_back(std::move(item)); }
  T Pop() {
    T front = std::move(items_[head_++]);
    if (empty()) {
      Clear();
    } else if (head_ >= 64 && head_ * 2 >= items_.size()) {
      items_.erase(items_.begin(),
                   items_.begin() + static_cast<std::ptrdiff_t>(std::exchange(head_, 0)));
    }
    return front;
  }
  void Clear() {
    items_.clear();
    head_ = 0;
  }

 private:
  std::vector<T> items_;
  size_t head_ = 0;
};

}  // namespace

struct UdpSocket::State {
  struct Group {
    IpAddress address;
    uint32_t ifindex;
  };
  struct PendingError {
    absl::Status status;
    Endpoint peer;
  };

  State(Stack& s, const UdpSocketOptions& o) : stack(&s), udp(&Udp::Install(s)), options(o) {}

  Stack* stack;  // null once the stack or the socket is gone
  Udp* udp;
  UdpSocketOptions options;
  UdpBinding binding;
  bool bound = false;
  bool event_pending = false;
  Fifo<Queued> queue;
  size_t queued_bytes = 0;
  std::vector<PendingError> errors;
  std::vector<Group> groups;
  std::optional<Route> route;  // of the last destination
  uint32_t route_zone = 0;
  std::optional<IpAddress> route_source;  // as asked for; none: chosen by the route
  CallbackSlot<void(Datagram)> on_datagram;
  CallbackSlot<void(const absl::Status&, const Endpoint&)> on_error;
  CallbackSlot<void()> on_ready;

  std::optional<Queued> Pop() {
    if (queue.empty()) return std::nullopt;
    Queued front = queue.Pop();
    queued_bytes -= front.packet->true_size();
    return front;
  }
  void Drain() {
    queue.Clear();
    queued_bytes = 0;
    errors.clear();
  }
  static void RunEvents(const std::shared_ptr<State>& state);
};

UdpSocket::UdpSocket(Stack& stack, const UdpSocketOptions& options)
    : state_(std::make_shared<State>(stack, options)) {
  state_->binding.receiver = this;
}

absl::StatusOr<std::unique_ptr<UdpSocket>> UdpSocket::Create(Stack& stack,
                                                             const UdpSocketOptions& options) {
  return std::unique_ptr<UdpSocket>(new UdpSocket(stack, options));
}

UdpSocket::~UdpSocket() {
  State& s = *state_;
  if (s.stack != nullptr) {
    while (!s.groups.empty()) {
      LeaveGroup(s.groups.back().address, s.groups.back().ifindex).IgnoreError();
    }
    if (s.bound) s.udp->Unbind(s.binding);
  }
  s.stack = nullptr;
  // Clearing the slots is what stops RunEvents, also when it is running now.
  s.on_datagram.Clear();
  s.on_error.Clear();
  s.on_ready.Clear();
  s.Drain();
}

void UdpSocket::OnStackGone() {
  state_->stack = nullptr;
  state_->Drain();
}

absl::Status UdpSocket::CheckUsable() const {
  if (state_->stack != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError("udp socket: its stack no longer exists");
}

absl::Status UdpSocket::Bind(const Endpoint& local) {
  TW_RETURN_IF_ERROR(CheckUsable());
  State& s = *state_;
  if (s.bound) return absl::InvalidArgumentError("udp bind: the socket is bound already");
  if (local.address.family() != s.options.family) {
    return absl::InvalidArgumentError(
        absl::StrCat("udp bind ", local.ToString(), ": the address is not of the socket's family"));
  }
  const IpAddress& a = local.address;
  if (!a.IsUnspecified() && !a.IsMulticast() && s.stack->FindLocalAddress(a) == nullptr &&
      !a.IsLimitedBroadcast()) {
    return ErrnoStatus(EADDRNOTAVAIL, absl::StrCat("udp bind ", local.ToString()));
  }
  s.binding.local = local;
  s.binding.reuse_address = s.options.reuse_address;
  s.binding.v6_only = s.options.v6_only;
  TW_RETURN_IF_ERROR(s.udp->Bind(s.binding));
  s.bound = true;
  return absl::OkStatus();
}

absl::Status UdpSocket::EnsureBound() {
  if (state_->bound) return absl::OkStatus();
  return Bind({IpAddress::Unspecified(state_->options.family), 0, 0});
}

absl::Status UdpSocket::Connect(const Endpoint& remote) {
  TW_RETURN_IF_ERROR(CheckUsable());
  if (remote.port == 0 || remote.address.IsUnspecified()) {
    return absl::InvalidArgumentError(
        absl::StrCat("udp connect ", remote.ToString(), ": needs an address and a port"));
  }
  State& s = *state_;
  absl::StatusOr<const Route*> route = RouteTo(remote);
  if (!route.ok()) return route.status();
  const IpAddress source = (*route)->source;
  TW_RETURN_IF_ERROR(EnsureBound());
  // The 4-tuple needs the address datagrams will come to: fix the source now, as connect() does.
  const UdpBinding before = s.binding;
  UdpBinding wanted = before;
  if (wanted.local.address.IsUnspecified()) wanted.local.address = source;
  absl::Status status = Rebind(wanted, remote);
  if (!status.ok()) Rebind(before, before.remote).IgnoreError();  // its place was free a moment ago
  return status;
}

absl::Status UdpSocket::Rebind(const UdpBinding& binding, const Endpoint& remote) {
  State& s = *state_;
  s.udp->Unbind(s.binding);
  s.binding = binding;
  s.binding.remote = {};
  TW_RETURN_IF_ERROR(s.udp->Bind(s.binding));
  return s.udp->SetRemote(s.binding, remote);
}

absl::Status UdpSocket::Disconnect() {
  TW_RETURN_IF_ERROR(CheckUsable());
  if (!state_->bound) return absl::OkStatus();
  return state_->udp->SetRemote(state_->binding,
                                Endpoint{IpAddress::Unspecified(state_->options.family), 0, 0});
}

absl::StatusOr<const Route*> UdpSocket::RouteTo(const Endpoint& to,
                                                const std::optional<IpAddress>& source) {
  State& s = *state_;
  const uint32_t zone = to.zone != 0 ? to.zone : s.options.ifindex;
  Stack::RouteRequest request{.destination = to.address, .source = source, .ifindex = zone};
  const IpAddress& local = s.binding.local.address;
  if (!source && s.bound && !local.IsUnspecified() && !local.IsMulticast()) request.source = local;
  if (s.route && s.route->generation == s.stack->route_generation() && s.route_zone == zone &&
      s.route->destination == to.address && s.route_source == request.source) {
    return &*s.route;
  }
  absl::StatusOr<Route> route = s.stack->FindRoute(request);
  if (!route.ok()) return route.status();
  s.route = *std::move(route);
  s.route_zone = zone;
  s.route_source = request.source;
  return &*s.route;
}

absl::Status UdpSocket::Send(std::span<const uint8_t> data, const std::optional<Endpoint>& to) {
  TW_RETURN_IF_ERROR(CheckUsable());
  if (data.size() > 65527) return MessageTooLong("udp send", data.size());
  PacketPtr packet = state_->stack->pool().AllocatePacket(data.size());
  if (!packet || !packet->AppendBytes(data))
    return SendError(netdev::TxResult::kNoBuffer, "udp send");
  return SendPacket(std::move(packet), to);
}

absl::Status UdpSocket::SendPacket(PacketPtr packet, const std::optional<Endpoint>& to,
                                   const std::optional<IpAddress>& source) {
  TW_RETURN_IF_ERROR(CheckUsable());
  State& s = *state_;
  if (!to && !s.binding.connected()) return ErrnoStatus(EDESTADDRREQ, "udp send without address");
  const Endpoint& peer = to ? *to : s.binding.remote;
  if (peer.port == 0) return absl::InvalidArgumentError("udp send: the destination port is 0");
  TW_RETURN_IF_ERROR(EnsureBound());
  absl::StatusOr<const Route*> route = RouteTo(peer, source);
  if (!route.ok()) return route.status();
  if ((*route)->kind == RouteKind::kBroadcast && !s.options.broadcast) {
    return absl::PermissionDeniedError(absl::StrCat(
        "udp send ", peer.ToString(), ": broadcast address; set UdpSocketOptions::broadcast"));
  }
  const size_t size = packet->length();
  // What a device said about a received packet is not true of the one that is sent on.
  packet->meta = PacketMeta();
  const bool multicast = (*route)->kind == RouteKind::kMulticast;
  Udp::SendRequest request{.route = *route,
                           .source_port = s.binding.local.port,
                           .destination_port = peer.port,
                           .ip = {}};
  request.ip.ttl = multicast ? s.options.multicast_ttl : s.options.ttl;
  request.ip.tos = s.options.tos;
  request.ip.dont_fragment = s.options.dont_fragment;
  const netdev::TxResult result = s.udp->Send(std::move(packet), request);
  if (result == netdev::TxResult::kTooBig) return MessageTooLong("udp send", size);
  return SendError(result, "udp send");
}

absl::Status UdpSocket::ReceiveStart(ReceiveCallback on_datagram) {
  TW_RETURN_IF_ERROR(CheckUsable());
  if (!on_datagram) return absl::InvalidArgumentError("udp receive: no callback given");
  state_->on_datagram.Set(std::move(on_datagram));
  if (!state_->queue.empty()) ScheduleEvents();
  return absl::OkStatus();
}

void UdpSocket::ReceiveStop() { state_->on_datagram.Clear(); }

std::optional<Datagram> UdpSocket::TryReceive() {
  std::optional<Queued> front = state_->Pop();
  if (!front) return std::nullopt;
  return Datagram(std::move(front->packet), front->info);
}

void UdpSocket::SetReadyCallback(absl::AnyInvocable<void()> on_ready) {
  state_->on_ready.Set(std::move(on_ready));
  if (state_->stack != nullptr && !state_->queue.empty()) ScheduleEvents();
}

void UdpSocket::SetErrorCallback(ErrorCallback on_error) {
  state_->on_error.Set(std::move(on_error));
}

absl::Status UdpSocket::JoinGroup(const IpAddress& group, uint32_t ifindex) {
  TW_RETURN_IF_ERROR(CheckUsable());
  State& s = *state_;
  Interface* interface = s.stack->FindInterface(ifindex);
  if (interface == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("join ", group.ToString(), ": no interface with index ", ifindex));
  }
  if (HasJoined(group, ifindex)) {
    return ErrnoStatus(EADDRINUSE, absl::StrCat("join ", group.ToString(), ": joined already"));
  }
  TW_RETURN_IF_ERROR(interface->JoinGroup(group));
  s.groups.push_back({group, ifindex});
  return absl::OkStatus();
}

absl::Status UdpSocket::LeaveGroup(const IpAddress& group, uint32_t ifindex) {
  TW_RETURN_IF_ERROR(CheckUsable());
  auto& groups = state_->groups;
  auto it = std::find_if(groups.begin(), groups.end(), [&](const State::Group& g) {
    return g.address == group && g.ifindex == ifindex;
  });
  if (it == groups.end()) {
    return absl::NotFoundError(
        absl::StrCat("leave ", group.ToString(), ": not joined on interface ", ifindex));
  }
  groups.erase(it);
  Interface* interface = state_->stack->FindInterface(ifindex);
  return interface == nullptr ? absl::OkStatus() : interface->LeaveGroup(group);
}

bool UdpSocket::HasJoined(const IpAddress& group, uint32_t ifindex) const {
  return std::any_of(state_->groups.begin(), state_->groups.end(), [&](const State::Group& g) {
    return g.address == group && g.ifindex == ifindex;
  });
}

DropReason UdpSocket::OnDatagram(PacketPtr packet, const UdpDatagramInfo& info) {
  State& s = *state_;
  if (s.options.ifindex != 0 && s.options.ifindex != info.ifindex) return DropReason::kSocketFilter;
  const size_t limit = s.options.receive_buffer_bytes != 0
                           ? s.options.receive_buffer_bytes
                           : s.stack->config().udp_receive_buffer_bytes;
  const size_t size = packet->true_size();
  // As Linux: a datagram is taken while anything is free, so that a large one is never refused for
  // ever; the overshoot is one datagram.
  const bool shed = s.queued_bytes > 0 && s.stack->pool().is_nearly_full();
  if (s.queued_bytes >= limit || shed) return DropReason::kUdpReceiveBufferFull;
  s.queued_bytes += size;
  s.queue.Push({std::move(packet), info});
  ScheduleEvents();
  return DropReason::kNone;
}

void UdpSocket::OnError(const IcmpErrorInfo& error) {
  State& s = *state_;
  if (!s.on_error || s.errors.size() >= 64)
    return;  // a burst of errors says no more than the first ones
  Endpoint peer{error.destination, 0, 0};
  if (error.transport.size() >= 4) peer.port = LoadBe16(error.transport.data() + 2);
  s.errors.push_back({IcmpErrorStatus(error), peer});
  ScheduleEvents();
}

void UdpSocket::ScheduleEvents() {
  State& s = *state_;
  if (s.event_pending || s.stack == nullptr) return;
  s.event_pending = true;
  s.stack->context().Defer([state = state_] { State::RunEvents(state); });
}

void UdpSocket::State::RunEvents(const std::shared_ptr<State>& state) {
  state->event_pending = false;
  std::vector<PendingError> batch = std::exchange(state->errors, {});
  for (PendingError& e : batch) {
    if (state->on_error) state->on_error.Call(e.status, e.peer);
  }
  if (!state->on_datagram) {
    if (state->on_ready && !state->queue.empty()) state->on_ready.Call();
    return;
  }
  // Only what is queued now: what the callback makes arrive belongs to the next batch.
  for (size_t left = state->queue.size(); left > 0 && state->on_datagram; --left) {
    std::optional<Queued> front = state->Pop();
    if (!front) return;
    state->on_datagram.Call(Datagram(std::move(front->packet), front->info));
  }
}

UdpSocketOptions& UdpSocket::options() { return state_->options; }
Endpoint UdpSocket::local() const { return state_->binding.local; }
Endpoint UdpSocket::remote() const { return state_->binding.remote; }
size_t UdpSocket::queued_datagrams() const { return state_->queue.size(); }
size_t UdpSocket::queued_bytes() const { return state_->queued_bytes; }

}  // namespace tapwire
