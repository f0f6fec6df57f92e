// SPDX-License-Identifier: Apache-2.0
// Events on their way from the connection to the user's callbacks.
//
// Whatever runs a callback may find the socket destroyed, closed or told otherwise when it returns;
// each loop here goes on only by what it sees then. StopCallbacks() is what ends them.

#include "stack/sockets/tcp_socket_state.h"

#include <cerrno>
#include <utility>

#include "netdev/base/status_util.h"
#include "netdev/net_context.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {

TcpSocket::State::State(Stack& s) : stack(&s), context(&s.context()) {
  // An idle connection's share of the socket layer.
  static_assert(sizeof(TcpSocket) + sizeof(State) <= 176);
}

TcpSocket::State::~State() { DropWrites(); }

TcpSocket::State::Writer& TcpSocket::State::writer() {
  if (writer_part == nullptr) writer_part = std::make_unique<Writer>();
  return *writer_part;
}

TcpSocket::State::Rare& TcpSocket::State::rare() {
  if (rare_parts == nullptr) rare_parts = std::make_unique<Rare>();
  return *rare_parts;
}

// ---- From the connection ----

void TcpSocket::State::OnConnected() {
  const std::shared_ptr<State> self = shared_from_this();
  connected = true;
  RunConnect();
  PumpWrites();  // a shutdown waits for this
  RunWrites();
}

void TcpSocket::State::OnReadable() {
  const std::shared_ptr<State> self = shared_from_this();
  RunRead();
}

void TcpSocket::State::OnWritable() {
  const std::shared_ptr<State> self = shared_from_this();
  PumpWrites();
  RunWrites();
  RunWritable();
}

void TcpSocket::State::OnUrgent() {
  const std::shared_ptr<State> self = shared_from_this();
  if (rare_parts != nullptr && rare_parts->on_urgent) rare_parts->on_urgent.Call();
}

// Also called from the destructor of the stack, where no callback may run: so all that follows is
// deferred.
void TcpSocket::State::OnGone(const absl::Status& why) {
  KeepFacts();
  if (!closing) {
    // What had arrived may still be read, then the error (as POSIX does after a reset).
    for (BufferSlice slice = connection->TakeSlice(); !slice.empty();
         slice = connection->TakeSlice()) {
      ended->unread.Append(std::move(slice));
    }
  }
  connection = nullptr;
  if (status.ok()) status = why;
  if (has_waiting_write()) {
    FailWrites(why.ok() ? ErrnoStatus(ECONNABORTED, "tcp write: the connection was closed") : why);
  }
  Schedule();
}

// ---- Deferred ----

void TcpSocket::State::Schedule() {
  if (event_pending) return;
  event_pending = true;
  context->Defer([self = shared_from_this()] {
    self->event_pending = false;
    self->RunEvents();
  });
}

void TcpSocket::State::RunEvents() {
  RunConnect();
  RunWrites();
  RunRead();
  RunWritable();
  RunClosed();
}

void TcpSocket::State::RunConnect() {
  if (rare_parts == nullptr || !rare_parts->on_connect || (!connected && connection != nullptr)) {
    return;
  }
  ConnectCallback done = std::exchange(rare_parts->on_connect, nullptr);
  const Rare& rest = *rare_parts;
  if (!rest.on_readable && !rest.on_urgent && rest.on_closed.empty()) rare_parts.reset();
  if (connected || !status.ok()) {
    std::move(done)(connected ? absl::OkStatus() : status);
  } else {
    std::move(done)(ErrnoStatus(ECONNABORTED, "tcp connect: the socket was closed"));
  }
}

void TcpSocket::State::RunWrites() {
  if (writer_part == nullptr) return;
  Writer& w = *writer_part;
  while (w.first != nullptr && w.first.get() != w.waiting) {
    std::unique_ptr<PendingWrite> write = std::move(w.first);
    w.first = std::move(write->next);
    if (w.first == nullptr) w.last = nullptr;
    if (write->done) std::move(write->done)(write->status);
  }
}

void TcpSocket::State::RunRead() {
  if (read_mode == ReadMode::kSlices) {
    RunSlices();
  } else if (read_mode == ReadMode::kReadiness) {
    if (readable_bytes() > 0 || (at_end() && !end_was_read)) rare_parts->on_readable.Call();
  }
}

void TcpSocket::State::RunSlices() {
  while (read_mode == ReadMode::kSlices) {
    BufferSlice slice = TakeSlice();
    if (slice.empty()) {
      if (at_end()) RunReadEnd();
      return;
    }
    const size_t size = slice.size();
    const bool consume = auto_consume;
    on_read.Call(std::move(slice));
    if (consume && connection != nullptr && !closing) connection->Consumed(size);
  }
}

void TcpSocket::State::RunReadEnd() {
  read_mode = ReadMode::kStopped;
  absl::AnyInvocable<void(absl::StatusOr<BufferSlice>)> last = on_read.Take();
  if (connection == nullptr && !status.ok()) {
    last(status);
  } else {
    last(BufferSlice());
  }
}

void TcpSocket::State::RunWritable() {
  if (!write_blocked || writer_part == nullptr) return;
  if (!writer_part->on_writable || has_waiting_write()) return;
  if (connection != nullptr && connection->send_space() == 0) {
    return connection->RequestWritable();  // all that waited went in and filled the buffer
  }
  write_blocked = false;
  writer_part->on_writable.Call();
}

void TcpSocket::State::RunClosed() {
  if (!closing || connection != nullptr || rare_parts == nullptr) return;
  while (!rare_parts->on_closed.empty()) {
    CloseCallback closed = std::move(rare_parts->on_closed.front());
    rare_parts->on_closed.erase(rare_parts->on_closed.begin());
    if (closed) std::move(closed)();
  }
}

// ---- What calls are allowed ----

absl::Status TcpSocket::State::CheckOpen() const {
  if (!closing) return absl::OkStatus();
  return absl::FailedPreconditionError("tcp socket: it was closed");
}

absl::Status TcpSocket::State::CheckReadable() const {
  TW_RETURN_IF_ERROR(CheckOpen());
  return connection == nullptr && readable_bytes() == 0 ? status : absl::OkStatus();
}

absl::Status TcpSocket::State::CheckWritable() const {
  TW_RETURN_IF_ERROR(CheckOpen());
  if (connection == nullptr && !status.ok()) return status;
  if (connection != nullptr && !shut_down) return absl::OkStatus();
  return ErrnoStatus(EPIPE, "tcp write: this side was shut down");
}

// ---- Reading ----

BufferSlice TcpSocket::State::TakeSlice() {
  if (connection != nullptr) return connection->TakeSlice();
  return ended != nullptr ? ended->unread.PopFront() : BufferSlice();
}

size_t TcpSocket::State::readable_bytes() const {
  if (connection != nullptr) return closing ? 0 : connection->readable_bytes();
  return ended != nullptr ? ended->unread.size() : 0;
}

bool TcpSocket::State::at_end() const { return connection == nullptr || connection->read_closed(); }

// ---- Writing ----

void TcpSocket::State::AddWrite(BufferChain data, WriteCallback done, bool fin) {
  auto write = std::make_unique<PendingWrite>();
  write->data = std::move(data);
  write->done = std::move(done);
  write->fin = fin;
  PendingWrite* added = write.get();
  Writer& w = writer();
  (w.last == nullptr ? w.first : w.last->next) = std::move(write);
  w.last = added;
  w.waiting_bytes += added->data.size();
  if (w.waiting == nullptr) w.waiting = added;
}

void TcpSocket::State::PumpWrites() {
  while (has_waiting_write() && connection != nullptr) {
    PendingWrite& write = *writer_part->waiting;
    if (!write.data.empty()) writer_part->waiting_bytes -= connection->Send(write.data);
    if (!write.data.empty()) return;
    if (write.fin) {
      // Before that the core would take it as the end of the attempt (RFC 9293 §3.10.4).
      if (!connected) return;
      connection->ShutdownWrite();
    }
    writer_part->waiting = write.next.get();
  }
}

// There must be one that waits.
void TcpSocket::State::FailWrites(const absl::Status& why) {
  for (PendingWrite*& w = writer_part->waiting; w != nullptr; w = w->next.get()) {
    w->data.Clear();
    w->status = why;
  }
  writer_part->waiting_bytes = 0;
}

// One by one: the destructor of a long list would recurse.
void TcpSocket::State::DropWrites() {
  if (writer_part == nullptr) return;
  Writer& w = *writer_part;
  w.waiting = w.last = nullptr;
  w.waiting_bytes = 0;
  while (w.first != nullptr) w.first = std::unique_ptr<PendingWrite>(std::move(w.first->next));
}

// ---- Ending ----

void TcpSocket::State::StopCallbacks() {
  read_mode = ReadMode::kStopped;
  on_read.Clear();
  if (writer_part != nullptr) writer_part->on_writable.Clear();
  if (rare_parts == nullptr) return;
  rare_parts->on_readable.Clear();
  rare_parts->on_urgent.Clear();
}

bool TcpSocket::State::WillReset() const {
  const std::optional<Duration>& linger = std::as_const(*connection).options().linger;
  return connection->readable_bytes() > 0 || (linger && *linger == Duration::zero());
}

// Makes the send buffer as large as what waits for it: the memory is taken already, and nobody will
// be here to move it in later.
void TcpSocket::State::ForceWrites() {
  if (waiting_bytes() > 0) {
    connection->options().send_buffer = connection->unacked_bytes() + waiting_bytes();
    connection->OnOptionsChanged();
  }
  PumpWrites();
}

void TcpSocket::State::ReleaseConnection(bool observe) {
  if (connection == nullptr) return;
  if (has_waiting_write() && connected && !WillReset()) {
    ForceWrites();
    // Larger than any send buffer: the peer must not take what it gets for all.
    if (waiting_bytes() > 0) return AbortConnection();
  }
  if (observe) KeepFacts();
  connection->Release();
  if (has_waiting_write())
    FailWrites(ErrnoStatus(ECONNABORTED, "tcp write: the socket was closed"));
  if (!observe || connection->state() == tcp::State::kClosed) {
    connection = nullptr;
  } else {
    connection->set_observer(this);
  }
}

void TcpSocket::State::AbortConnection() {
  const absl::Status aborted = ErrnoStatus(ECONNABORTED, "tcp: the socket was aborted");
  if (status.ok()) status = aborted;
  if (has_waiting_write()) FailWrites(aborted);
  if (connection == nullptr) return;
  KeepFacts();
  connection->Abort();
  connection = nullptr;
}

// ---- Facts ----

Endpoint TcpSocket::State::LocalEndpoint() const {
  if (connection == nullptr) return ended != nullptr ? ended->local : Endpoint();
  const FlowKey& flow = connection->flow();
  return {flow.local, flow.local_port, flow.local.IsLinkLocal() ? zone : 0};
}

Endpoint TcpSocket::State::RemoteEndpoint() const {
  if (connection == nullptr) return ended != nullptr ? ended->remote : Endpoint();
  const FlowKey& flow = connection->flow();
  return {flow.remote, flow.remote_port, flow.remote.IsLinkLocal() ? zone : 0};
}

void TcpSocket::State::KeepFacts() {
  if (ended == nullptr) ended = std::make_unique<Ended>();
  ended->local = LocalEndpoint();
  ended->remote = RemoteEndpoint();
  ended->info = connection->Info();
  ended->options = std::as_const(*connection).options();
}

}  // namespace tapwire
