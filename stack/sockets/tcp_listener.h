// SPDX-License-Identifier: Apache-2.0
// TcpListener: accepts connections with a callback, in the manner of uv_listen and uv_accept.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stack/sockets/tcp_socket.h"

namespace tapwire {

class TcpListener final {
 public:
  // Called after the batch, once for each connection, as the socket's owner.
  using AcceptCallback = absl::AnyInvocable<void(std::unique_ptr<TcpSocket>)>;

  static constexpr size_t kDefaultBacklog = 128;

  // Listens on `local` (address unspecified: any; port 0: chosen). The options are handed on to the
  // accepted sockets. Errors: EADDRINUSE, EADDRNOTAVAIL, kResourceExhausted. Without AcceptStart()
  // connections wait in the backlog.
  static absl::StatusOr<std::unique_ptr<TcpListener>> Listen(
      Stack& stack, const Endpoint& local, size_t backlog = kDefaultBacklog,
      const TcpSocket::Options& options = {});
  // Stops listening; connections that were not accepted are reset.
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  absl::Status AcceptStart(AcceptCallback on_accept);
  void AcceptStop();  // they wait in the backlog
  // Takes a waiting connection without callback; null if there is none.
  std::unique_ptr<TcpSocket> TryAccept();
  // Called after a batch that left connections waiting, for TryAccept users.
  void SetReadyCallback(absl::AnyInvocable<void()> on_ready);

  Endpoint local() const;
  size_t waiting() const;

 private:
  struct State;
  explicit TcpListener(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace tapwire
