// SPDX-License-Identifier: Apache-2.0
// PingSocket: builds echo requests and queues what comes back for the user's callbacks.

#include "stack/sockets/ping_socket.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/byteorder.h"
#include "netdev/base/status_util.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/icmpv4.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/icmp/icmpv4.h"
#include "stack/icmp/icmpv6.h"
#include "stack/interface.h"
#include "stack/port_allocator.h"
#include "stack/socket_errors.h"
#include "stack/sockets/callback_slot.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr size_t kEchoHeaderLength = 8;
constexpr size_t kMaxQueuedEvents = 4096;

// RFC 792: the sum covers the message; RFC 4443 §2.3: also a pseudo-header.
uint16_t EchoChecksum(const Packet& packet, const Route& route) {
  wire::InternetChecksum sum;
  if (route.destination.is_v6()) {
    sum.AddPseudoHeader(route.source, route.destination, wire::IpProtocol::kIcmpv6,
                        static_cast<uint32_t>(packet.length()));
  }
  packet.ForEachSpan([&](std::span<const uint8_t> piece) { sum.Add(piece); });
  return sum.Finish();
}

void EmitEchoHeader(Packet& packet, const Route& route, uint16_t identifier, uint16_t sequence) {
  std::span<uint8_t> header = packet.Push(kEchoHeaderLength);
  header[0] =
      route.destination.is_v4() ? wire::Icmpv4Type::kEchoRequest : wire::Icmpv6Type::kEchoRequest;
  header[1] = 0;
  StoreBe16(header.data() + 2, 0);
  StoreBe16(header.data() + 4, identifier);
  StoreBe16(header.data() + 6, sequence);
  StoreBe16(header.data() + 2, EchoChecksum(packet, route));
}

}  // namespace

struct PingSocket::State {
  Stack* stack;  // null once it is gone
  IpFamily family;
  uint16_t identifier;
  bool event_pending = false;
  std::vector<EchoReply> replies;
  std::vector<EchoError> errors;
  CallbackSlot<void(EchoReply)> on_reply;
  CallbackSlot<void(const EchoError&)> on_error;

  EchoTable& table() const {
    return family == IpFamily::kV4 ? stack->icmpv4().echo() : stack->icmpv6().echo();
  }
  static void RunEvents(const std::shared_ptr<State>& state);
};

PingSocket::PingSocket(std::shared_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<PingSocket>> PingSocket::Create(Stack& stack, IpFamily family) {
  auto state = std::make_shared<State>();
  state->stack = &stack;
  state->family = family;
  EchoTable& table = state->table();
  std::optional<uint16_t> identifier = AllocatePort(
      stack.random(), 0, 65535, [&](uint16_t id) { return table.Find(id) == nullptr; });
  if (!identifier) return absl::ResourceExhaustedError("ping: all echo identifiers are in use");
  state->identifier = *identifier;
  std::unique_ptr<PingSocket> socket(new PingSocket(std::move(state)));
  table.Bind(*identifier, socket.get());
  return socket;
}

PingSocket::~PingSocket() {
  if (state_->stack != nullptr) state_->table().Unbind(state_->identifier);
  state_->on_reply.Clear();
  state_->on_error.Clear();
  state_->replies.clear();
}

void PingSocket::OnStackGone() {
  state_->stack = nullptr;
  state_->replies.clear();
  state_->errors.clear();
}

uint16_t PingSocket::identifier() const { return state_->identifier; }
void PingSocket::SetReplyCallback(ReplyCallback on_reply) {
  state_->on_reply.Set(std::move(on_reply));
}
void PingSocket::SetErrorCallback(ErrorCallback on_error) {
  state_->on_error.Set(std::move(on_error));
}

absl::StatusOr<IpAddress> PingSocket::Send(const EchoRequest& request) {
  if (state_->stack == nullptr) {
    return absl::FailedPreconditionError("ping socket: its stack no longer exists");
  }
  Stack& stack = *state_->stack;
  if (request.destination.family() != state_->family) {
    return absl::InvalidArgumentError(
        absl::StrCat("ping ", request.destination.ToString(), ": not of the socket's family"));
  }
  absl::StatusOr<Route> route = stack.FindRoute(
      {.destination = request.destination, .source = request.source, .ifindex = request.ifindex});
  if (!route.ok()) return route.status();
  const size_t limit = state_->family == IpFamily::kV4 ? 65507 : 65527;
  if (request.data.size() > limit) return MessageTooLong("ping", request.data.size());
  PacketPtr packet = stack.pool().AllocatePacket(request.data.size());
  if (!packet || !packet->AppendBytes(request.data))
    return SendError(netdev::TxResult::kNoBuffer, "ping");
  EmitEchoHeader(*packet, *route, state_->identifier, request.sequence);
  const IpSendOptions options{.protocol = state_->family == IpFamily::kV4
                                              ? wire::IpProtocol::kIcmp
                                              : wire::IpProtocol::kIcmpv6,
                              .ttl = request.ttl,
                              .tos = request.tos,
                              .dont_fragment = request.dont_fragment};
  const netdev::TxResult result = stack.SendIp(std::move(packet), *route, options);
  if (!netdev::TxOk(result))
    return SendError(result, absl::StrCat("ping ", request.destination.ToString()));
  IcmpCounters& counters = state_->family == IpFamily::kV4 ? stack.mib().icmp : stack.mib().icmp6;
  counters.out_msgs.Inc();
  counters.out_echos.Inc();
  return route->source;
}

void PingSocket::OnEchoReply(PacketPtr packet, const IpPacketInfo& info, uint16_t sequence) {
  Stack& stack = *state_->stack;
  if (!state_->on_reply) {
    stack.Drop(std::move(packet), DropReason::kIcmpEchoReplyUnmatched);
    return;
  }
  if (state_->replies.size() >= kMaxQueuedEvents) {
    stack.Drop(std::move(packet), DropReason::kPingQueueFull);
    return;
  }
  const Time rx_time = packet->meta.rx_time;
  state_->replies.push_back({.source = info.source,
                             .destination = info.destination,
                             .sequence = sequence,
                             .ttl = info.ttl,
                             .ifindex = info.interface->index(),
                             .rx_time = rx_time,
                             .packet = std::move(packet)});
  ScheduleEvents();
}

void PingSocket::OnEchoError(const IcmpErrorInfo& error, uint16_t sequence) {
  // No drop of its own: the stack has dealt with the message, or has counted the request that it
  // could not send.
  if (!state_->on_error || state_->errors.size() >= kMaxQueuedEvents) return;
  state_->errors.push_back({.status = IcmpErrorStatus(error),
                            .kind = error.kind,
                            .type = error.type,
                            .code = error.code,
                            .value = error.value,
                            .reporter = error.reporter,
                            .destination = error.destination,
                            .sequence = sequence});
  ScheduleEvents();
}

void PingSocket::ScheduleEvents() {
  if (std::exchange(state_->event_pending, true)) return;
  state_->stack->context().Defer([state = state_] { State::RunEvents(state); });
}

void PingSocket::State::RunEvents(const std::shared_ptr<State>& state) {
  state->event_pending = false;
  std::vector<EchoReply> replies = std::exchange(state->replies, {});
  std::vector<EchoError> errors = std::exchange(state->errors, {});
  for (EchoReply& reply : replies) {
    if (state->on_reply) state->on_reply.Call(std::move(reply));
  }
  for (const EchoError& error : errors) {
    if (state->on_error) state->on_error.Call(error);
  }
}

}  // namespace tapwire
