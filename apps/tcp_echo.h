// SPDX-License-Identifier: Apache-2.0
// The echo service (RFC 862) over TCP for both families: sends back what it reads, no faster than
// the peer takes it, and closes when the peer does.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/sockets/tcp_listener.h"

namespace tapwire::apps {

class TcpEcho {
 public:
  // EADDRINUSE when the port is taken. `stack` must outlive the service.
  static absl::StatusOr<std::unique_ptr<TcpEcho>> Start(Stack& stack, uint16_t port);

  uint64_t connections() const { return connections_; }  // accepted so far
  size_t open() const { return sessions_.size(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t errors() const { return errors_; }  // connections that did not end in order

 private:
  struct Session {
    std::unique_ptr<TcpSocket> socket;
    std::list<Session>::iterator self;
  };

  TcpEcho() = default;
  absl::Status Open(Stack& stack, IpFamily family, uint16_t port);
  void OnAccept(std::unique_ptr<TcpSocket> socket);
  absl::Status StartReading(Session& session);
  void OnRead(Session& session, absl::StatusOr<BufferSlice> slice);
  absl::Status SendBack(Session& session, BufferSlice slice);
  void End(Session& session, const absl::Status& status);

  std::vector<std::unique_ptr<TcpListener>> listeners_;
  std::list<Session> sessions_;
  uint64_t connections_ = 0, bytes_ = 0, errors_ = 0;
};

}  // namespace tapwire::apps
