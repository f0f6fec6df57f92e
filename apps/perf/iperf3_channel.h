// SPDX-License-Identifier: Apache-2.0
// The control connection: messages out in order, bytes in as they come.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "stack/sockets/tcp_socket.h"

namespace tapwire::apps::iperf3 {

class ControlChannel {
 public:
  struct Callbacks {
    std::function<void(std::span<const uint8_t>)> on_bytes;
    std::function<void()> on_closed;  // by the peer or by an error; nothing comes after it
  };
  // Reads at once. The callbacks must not destroy the channel.
  ControlChannel(std::unique_ptr<TcpSocket> socket, Callbacks callbacks);

  // Kept until there is room for it.
  void Send(const std::string& bytes);
  // Gracefully, behind what was sent. `closed` runs when the connection is gone. No callback of the
  // channel runs any more.
  void Close(std::function<void()> closed);

  TcpSocket& socket() { return *socket_; }

 private:
  void Read();
  void Write();
  void End();

  std::unique_ptr<TcpSocket> socket_;
  Callbacks callbacks_;
  std::string unsent_;
  bool ended_ = false;
};

}  // namespace tapwire::apps::iperf3
