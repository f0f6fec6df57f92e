// SPDX-License-Identifier: Apache-2.0
// The calls of TcpSocket. Events and their callbacks are in tcp_socket_state.cc.

#include "stack/sockets/tcp_socket.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "stack/interface.h"
#include "stack/sockets/tcp_socket_state.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"

namespace tapwire {
namespace {

// Readers and writers run into it all the time: one object, copied by reference count.
const absl::Status& WouldBlock() {
  static const absl::Status& status = *new absl::Status(ErrnoStatus(EAGAIN, "tcp"));
  return status;
}

// Link-local addresses mean something on one interface only.
uint32_t ZoneOf(const tcp::Connection& connection) {
  const bool needed = connection.flow().remote.is_v6() && (connection.flow().remote.IsLinkLocal() ||
                                                           connection.flow().local.IsLinkLocal());
  const Interface* interface = connection.route().interface;
  return needed && interface != nullptr ? interface->index() : 0;
}

}  // namespace

bool IsWouldBlock(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable && StatusToErrno(status) == EAGAIN;
}

// ---- Beginning and end ----

absl::StatusOr<std::unique_ptr<TcpSocket>> TcpSocket::Connect(Stack& stack, const Endpoint& remote,
                                                              const ConnectOptions& options,
                                                              ConnectCallback done) {
  const Endpoint local =
      options.local.value_or(Endpoint{IpAddress::Unspecified(remote.address.family()), 0, 0});
  if (local.address.family() != remote.address.family()) {
    return absl::InvalidArgumentError(absl::StrCat("tcp connect ", remote.ToString(), " from ",
                                                   local.ToString(),
                                                   ": the addresses are of two families"));
  }
  auto state = std::make_shared<State>(stack);
  TW_ASSIGN_OR_RETURN(state->connection,
                      tcp::Tcp::Install(stack).Connect(local, remote, options.socket, state.get()));
  state->zone = ZoneOf(*state->connection);
  if (done) state->rare().on_connect = std::move(done);
  return std::unique_ptr<TcpSocket>(new TcpSocket(std::move(state)));
}

std::unique_ptr<TcpSocket> TcpSocket::Adopt(tcp::Connection& connection) {
  auto state = std::make_shared<State>(connection.tcp().stack());
  state->connection = &connection;
  state->connected = true;
  state->zone = ZoneOf(connection);
  connection.set_observer(state.get());
  return std::unique_ptr<TcpSocket>(new TcpSocket(std::move(state)));
}

TcpSocket::~TcpSocket() {
  State& s = *state_;
  s.StopCallbacks();
  if (s.rare_parts != nullptr) {
    // Taken out first: what a callback has captured may be another socket.
    [[maybe_unused]] const ConnectCallback connect =
        std::exchange(s.rare_parts->on_connect, nullptr);
    [[maybe_unused]] const std::vector<CloseCallback> closed =
        std::exchange(s.rare_parts->on_closed, {});
  }
  if (s.closing && s.connection != nullptr) {
    s.connection->set_observer(nullptr);
    s.connection = nullptr;
  } else {
    s.closing = true;
    s.ReleaseConnection(false);
  }
  s.DropWrites();
}

void TcpSocket::Close(CloseCallback closed) {
  State& s = *state_;
  s.rare().on_closed.push_back(std::move(closed));
  if (!std::exchange(s.closing, true)) {
    s.StopCallbacks();
    s.ReleaseConnection(true);
  }
  s.Schedule();
}

void TcpSocket::Abort() {
  State& s = *state_;
  s.closing = true;
  s.StopCallbacks();
  s.AbortConnection();
  s.Schedule();
}

// ---- Reading ----

absl::Status TcpSocket::ReadStart(ReadCallback on_read, ReadOptions options) {
  if (!on_read) return absl::InvalidArgumentError("tcp read: no callback given");
  State& s = *state_;
  TW_RETURN_IF_ERROR(s.CheckReadable());
  ReadStop();
  s.read_mode = State::ReadMode::kSlices;
  s.auto_consume = options.auto_consume;
  s.on_read.Set(std::move(on_read));
  if (s.readable_bytes() > 0 || s.at_end()) s.Schedule();
  return absl::OkStatus();
}

absl::Status TcpSocket::ReadyStart(absl::AnyInvocable<void()> on_readable) {
  if (!on_readable) return absl::InvalidArgumentError("tcp read: no callback given");
  State& s = *state_;
  TW_RETURN_IF_ERROR(s.CheckReadable());
  ReadStop();
  s.read_mode = State::ReadMode::kReadiness;
  s.end_was_read = false;
  s.rare().on_readable.Set(std::move(on_readable));
  if (s.readable_bytes() > 0 || s.at_end()) s.Schedule();
  return absl::OkStatus();
}

void TcpSocket::ReadStop() {
  state_->read_mode = State::ReadMode::kStopped;
  state_->on_read.Clear();
  if (state_->rare_parts != nullptr) state_->rare_parts->on_readable.Clear();
}

void TcpSocket::Consumed(size_t bytes) {
  State& s = *state_;
  if (s.connection != nullptr && !s.closing) s.connection->Consumed(bytes);
}

absl::StatusOr<size_t> TcpSocket::TryRead(std::span<uint8_t> into) {
  State& s = *state_;
  if (into.empty()) return absl::InvalidArgumentError("tcp read: no room given");
  if (s.read_mode == State::ReadMode::kSlices) {
    return absl::FailedPreconditionError("tcp read: ReadStart() takes the data: ReadStop() first");
  }
  TW_RETURN_IF_ERROR(s.CheckReadable());
  size_t size = 0;
  if (s.connection != nullptr) {
    size = s.connection->Read(into);
    s.connection->Consumed(size);
  } else {
    size = s.ended->unread.CopyOut(0, into);
    s.ended->unread.Consume(size);
  }
  if (size == 0 && !s.at_end()) return WouldBlock();
  s.end_was_read = size == 0;
  const bool more = size > 0 && (s.readable_bytes() > 0 || s.at_end());
  if (more && s.read_mode == State::ReadMode::kReadiness) s.Schedule();
  return size;
}

size_t TcpSocket::readable_bytes() const { return state_->readable_bytes(); }

// ---- Writing ----

absl::Status TcpSocket::Write(BufferChain data, WriteCallback done) {
  State& s = *state_;
  TW_RETURN_IF_ERROR(s.CheckWritable());
  const bool must_wait = s.has_waiting_write();
  if (!must_wait) s.connection->Send(data);
  if (data.empty() && !must_wait && !done) return absl::OkStatus();
  s.AddWrite(std::move(data), std::move(done), false);
  s.PumpWrites();
  s.Schedule();
  return absl::OkStatus();
}

absl::StatusOr<size_t> TcpSocket::TryWrite(std::span<const uint8_t> data) {
  State& s = *state_;
  TW_RETURN_IF_ERROR(s.CheckWritable());
  if (data.empty()) return 0;
  const size_t taken = !s.has_waiting_write() ? s.connection->SendCopy(data) : 0;
  if (taken < data.size()) s.write_blocked = true;
  if (taken > 0) return taken;
  if (!s.has_waiting_write() && (s.connection->send_space() > 0 || s.connection->is_starved())) {
    return absl::ResourceExhaustedError("tcp write: no memory left in the context's pool");
  }
  return WouldBlock();
}

void TcpSocket::SetWritableCallback(absl::AnyInvocable<void()> on_writable) {
  State& s = *state_;
  if (s.closing) return;
  s.writer().on_writable.Set(std::move(on_writable));
  if (s.write_blocked) s.Schedule();
}

size_t TcpSocket::write_queue_size() const { return state_->waiting_bytes(); }

size_t TcpSocket::unacked_bytes() const {
  return state_->connection != nullptr ? state_->connection->unacked_bytes() : 0;
}

absl::Status TcpSocket::ShutdownWrite(WriteCallback done) {
  State& s = *state_;
  TW_RETURN_IF_ERROR(s.CheckWritable());
  s.shut_down = true;
  s.AddWrite(BufferChain(), std::move(done), true);
  s.PumpWrites();
  s.Schedule();
  return absl::OkStatus();
}

absl::Status TcpSocket::SendUrgent(uint8_t byte) {
  absl::StatusOr<size_t> sent = TryWrite({&byte, 1});
  if (!sent.ok()) return sent.status();
  state_->connection->SendUrgent();
  return absl::OkStatus();
}

void TcpSocket::SetUrgentCallback(absl::AnyInvocable<void()> on_urgent) {
  State& s = *state_;
  if (s.closing) return;
  s.rare().on_urgent.Set(std::move(on_urgent));
}

std::optional<size_t> TcpSocket::urgent_offset() const {
  if (state_->connection == nullptr) return std::nullopt;
  return state_->connection->urgent_offset();
}

// ---- Facts ----

bool TcpSocket::connected() const {
  return state_->connected && state_->connection != nullptr && !state_->closing;
}

Endpoint TcpSocket::local() const { return state_->LocalEndpoint(); }
Endpoint TcpSocket::remote() const { return state_->RemoteEndpoint(); }

tcp::TcpInfo TcpSocket::Info() const {
  return state_->connection != nullptr ? state_->connection->Info() : state_->ended->info;
}

TcpSocket::Options& TcpSocket::options() {
  return state_->connection != nullptr ? state_->connection->options() : state_->ended->options;
}

void TcpSocket::OptionsChanged() {
  if (state_->connection != nullptr) state_->connection->OnOptionsChanged();
}

absl::Status TcpSocket::status() const { return state_->status; }

absl::Status TcpSocket::TakeSoftError() {
  return state_->connection != nullptr ? state_->connection->TakeSoftError() : absl::OkStatus();
}

Stack& TcpSocket::stack() const { return *state_->stack; }

}  // namespace tapwire
