// SPDX-License-Identifier: Apache-2.0
// The echo service (RFC 862) over UDP for both families: sends every datagram back to where it came
// from, from the address it was sent to.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "stack/sockets/udp_socket.h"

namespace tapwire::apps {

class UdpEcho {
 public:
  // kAlreadyExists when the port is taken. `stack` must outlive the service.
  static absl::StatusOr<std::unique_ptr<UdpEcho>> Start(Stack& stack, uint16_t port);

  uint64_t datagrams() const { return datagrams_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t send_errors() const { return send_errors_; }

 private:
  UdpEcho() = default;
  absl::Status Open(Stack& stack, IpFamily family, uint16_t port);
  void Reply(UdpSocket& socket, Datagram datagram);

  std::vector<std::unique_ptr<UdpSocket>> sockets_;
  uint64_t datagrams_ = 0, bytes_ = 0, send_errors_ = 0;
};

}  // namespace tapwire::apps
