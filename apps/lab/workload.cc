// SPDX-License-Identifier: Apache-2.0
#include "apps/lab/workload.h"

#include <chrono>
#include <utility>

#include "apps/lab/process.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::lab {
namespace {

constexpr size_t kBacklog = 1024;

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// The first failure counts.
void Note(absl::Status& kept, const absl::Status& status) {
  if (kept.ok() && !status.ok() && !IsWouldBlock(status)) kept = status;
}

absl::StatusOr<std::unique_ptr<TcpListener>> ListenOnPort(Stack& stack) {
  return TcpListener::Listen(stack, {IpAddress::Unspecified(IpFamily::kV4), kPort, 0}, kBacklog);
}

}  // namespace

// ---- Bulk ----

BulkSource::BulkSource() : block_(kBlockBytes, 0x5a) {}

absl::StatusOr<std::unique_ptr<BulkSource>> BulkSource::Connect(Stack& stack,
                                                                const Endpoint& server) {
  std::unique_ptr<BulkSource> source(new BulkSource());
  BulkSource* self = source.get();
  TW_ASSIGN_OR_RETURN(self->socket_,
                      TcpSocket::Connect(stack, server, {}, [self](const absl::Status& status) {
                        Note(self->status_, status);
                        if (status.ok()) self->Pump();
                      }));
  self->socket_->SetWritableCallback([self] { self->Pump(); });
  return source;
}

void BulkSource::Pump() {
  for (;;) {
    const std::span<const uint8_t> rest = std::span(block_).subspan(written_);
    const absl::StatusOr<size_t> taken = socket_->TryWrite(rest);
    if (!taken.ok()) return Note(status_, taken.status());
    written_ = (written_ + *taken) % block_.size();
    if (*taken < rest.size()) return;
  }
}

BulkSink::BulkSink() : block_(kBlockBytes) {}

absl::StatusOr<std::unique_ptr<BulkSink>> BulkSink::Listen(Stack& stack) {
  std::unique_ptr<BulkSink> sink(new BulkSink());
  BulkSink* self = sink.get();
  TW_ASSIGN_OR_RETURN(self->listener_, ListenOnPort(stack));
  TW_RETURN_IF_ERROR(self->listener_->AcceptStart([self](std::unique_ptr<TcpSocket> socket) {
    self->socket_ = std::move(socket);
    Note(self->status_, self->socket_->ReadyStart([self] { self->Drain(); }));
  }));
  return sink;
}

void BulkSink::Drain() {
  for (;;) {
    const absl::StatusOr<size_t> got = socket_->TryRead(block_);
    if (!got.ok()) return Note(status_, got.status());
    if (*got == 0) return Note(status_, absl::AbortedError("the sender has closed"));
    bytes_ += *got;
  }
}

// ---- Requests and answers ----

absl::StatusOr<std::unique_ptr<Requesters>> Requesters::Connect(Stack& stack,
                                                                const Endpoint& server,
                                                                size_t count) {
  std::unique_ptr<Requesters> all(new Requesters());
  Requesters* self = all.get();
  for (size_t i = 0; i < count; ++i) {
    std::unique_ptr<TcpSocket> socket;
    TW_ASSIGN_OR_RETURN(socket,
                        TcpSocket::Connect(stack, server, {}, [self, i](const absl::Status& s) {
                          Note(self->status_, s);
                          if (s.ok()) self->Ask(*self->sockets_[i]);
                        }));
    TcpSocket* const raw = socket.get();
    TW_RETURN_IF_ERROR(raw->ReadyStart([self, raw] { self->OnAnswer(*raw); }));
    self->sockets_.push_back(std::move(socket));
  }
  return all;
}

void Requesters::Ask(TcpSocket& socket) {
  const uint8_t byte = 'x';
  Note(status_, socket.TryWrite({&byte, 1}).status());
}

void Requesters::OnAnswer(TcpSocket& socket) {
  uint8_t byte = 0;
  const absl::StatusOr<size_t> got = socket.TryRead({&byte, 1});
  if (!got.ok()) return Note(status_, got.status());
  if (*got == 0) return Note(status_, absl::AbortedError("the server has closed"));
  Ask(socket);
}

absl::StatusOr<std::unique_ptr<Responders>> Responders::Listen(Stack& stack) {
  std::unique_ptr<Responders> all(new Responders());
  Responders* self = all.get();
  TW_ASSIGN_OR_RETURN(self->listener_, ListenOnPort(stack));
  TW_RETURN_IF_ERROR(self->listener_->AcceptStart([self](std::unique_ptr<TcpSocket> socket) {
    TcpSocket* const raw = socket.get();
    self->sockets_.push_back(std::move(socket));
    Note(self->status_, raw->ReadyStart([self, raw] { self->Answer(*raw); }));
  }));
  return all;
}

void Responders::Answer(TcpSocket& socket) {
  uint8_t byte = 0;
  const absl::StatusOr<size_t> got = socket.TryRead({&byte, 1});
  if (!got.ok()) return Note(status_, got.status());
  if (*got == 0) return socket.ReadStop();
  const absl::StatusOr<size_t> sent = socket.TryWrite({&byte, 1});
  Note(status_, sent.status());
  ++transactions_;
}

// ---- Measuring ----

bool SpinUntil(netdev::NetContext& context, absl::FunctionRef<bool()> done, Duration limit) {
  const Time end = context.RefreshNow() + limit;
  while (!Interruption::requested() && context.now() < end) {
    context.RunOnce();
    if (done()) return true;
  }
  return false;
}

absl::StatusOr<double> MeasureRate(netdev::NetContext& context, RunUntil run, const uint64_t& count,
                                   const RunTime& time) {
  const auto interrupted = [] { return Interruption::requested(); };
  run(interrupted, FromSeconds(time.warm_up_s));
  const uint64_t before = count;
  const Time start = context.RefreshNow();
  run(interrupted, FromSeconds(time.measured_s));
  const std::chrono::duration<double> elapsed = context.RefreshNow() - start;
  TW_RETURN_IF_ERROR(Interruption::Check());
  return static_cast<double>(count - before) / elapsed.count();
}

}  // namespace tapwire::apps::lab
