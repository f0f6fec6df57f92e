// SPDX-License-Identifier: Apache-2.0
#include "apps/tcp_echo.h"

#include <iterator>
#include <utility>

#include "netdev/base/status_util.h"
#include "stack/stack.h"

namespace tapwire::apps {

absl::StatusOr<std::unique_ptr<TcpEcho>> TcpEcho::Start(Stack& stack, uint16_t port) {
  std::unique_ptr<TcpEcho> echo(new TcpEcho());
  TW_RETURN_IF_ERROR(echo->Open(stack, IpFamily::kV4, port));
  TW_RETURN_IF_ERROR(echo->Open(stack, IpFamily::kV6, port));
  return echo;
}

absl::Status TcpEcho::Open(Stack& stack, IpFamily family, uint16_t port) {
  TcpSocket::Options options;
  options.v6_only = true;
  TW_ASSIGN_OR_RETURN(std::unique_ptr<TcpListener> listener,
                      TcpListener::Listen(stack, {IpAddress::Unspecified(family), port, 0},
                                          TcpListener::kDefaultBacklog, options));
  TW_RETURN_IF_ERROR(listener->AcceptStart(
      [this](std::unique_ptr<TcpSocket> socket) { OnAccept(std::move(socket)); }));
  listeners_.push_back(std::move(listener));
  return absl::OkStatus();
}

void TcpEcho::OnAccept(std::unique_ptr<TcpSocket> socket) {
  ++connections_;
  Session& session = sessions_.emplace_back();
  session.socket = std::move(socket);
  session.self = std::prev(sessions_.end());
  const absl::Status started = StartReading(session);
  if (!started.ok()) End(session, started);
}

absl::Status TcpEcho::StartReading(Session& session) {
  return session.socket->ReadStart(
      [this, &session](absl::StatusOr<BufferSlice> slice) { OnRead(session, std::move(slice)); });
}

void TcpEcho::OnRead(Session& session, absl::StatusOr<BufferSlice> slice) {
  // What is still to be sent, and the FIN behind it, goes on without the socket.
  if (!slice.ok() || slice->empty()) return End(session, slice.status());
  bytes_ += slice->size();
  const absl::Status sent = SendBack(session, *std::move(slice));
  if (!sent.ok()) End(session, sent);
}

absl::Status TcpEcho::SendBack(Session& session, BufferSlice slice) {
  TcpSocket& socket = *session.socket;
  BufferChain data;
  data.Append(std::move(slice));
  TW_RETURN_IF_ERROR(socket.Write(std::move(data), nullptr));
  if (socket.write_queue_size() == 0) return absl::OkStatus();
  // The send buffer is full: reads on when it has taken all, so one slice waits at most.
  socket.ReadStop();
  return socket.Write(BufferChain(), [this, &session](absl::Status status) {
    if (status.ok()) status = StartReading(session);
    if (!status.ok()) End(session, status);
  });
}

void TcpEcho::End(Session& session, const absl::Status& status) {
  if (!status.ok()) ++errors_;
  sessions_.erase(session.self);
}

}  // namespace tapwire::apps
