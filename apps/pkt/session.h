// SPDX-License-Identifier: Apache-2.0
// Session: which sockets a script has, by its own descriptor numbers, and which connection its
// packets belong to. As the language has it that is one at a time: the last that was opened.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "apps/pkt/flow.h"
#include "apps/pkt/world.h"

namespace tapwire::pkt {

struct ScriptSocket {
  int live = -1;
  bool udp = false;
  bool v6 = false;             // AF_INET6
  Endpoint bound = {};         // port 0: not bound
  std::shared_ptr<Flow> flow;  // null: none yet
};

class Session {
 public:
  explicit Session(const NetSetup& setup) : setup_(setup) {}

  ScriptSocket* Find(int fd) {
    const auto it = sockets_.find(fd);
    return it == sockets_.end() ? nullptr : &it->second;
  }
  // A number the table has never given out for one that the script has not opened.
  int Live(int64_t fd) const {
    const auto it = sockets_.find(static_cast<int>(fd));
    return it == sockets_.end() ? -1 : it->second.live;
  }
  ScriptSocket& Open(int fd, int live) {
    sockets_[fd] = ScriptSocket{};
    sockets_[fd].live = live;
    return sockets_[fd];
  }
  void Close(int fd) { sockets_.erase(fd); }

  // Packets are of `flow` from now on.
  void Use(std::shared_ptr<Flow> flow) {
    current_ = std::move(flow);
    listening_ = false;
  }
  // The next SYN of the peer makes a connection.
  void Listen(uint16_t port) {
    current_ = nullptr;
    listening_ = true;
    listen_port_ = port;
  }
  const std::shared_ptr<Flow>& current() const { return current_; }
  // The flow of an inbound packet: the current one, or a new one from the peer's default port.
  Flow& ForInbound(bool udp) {
    if (!current_ || current_->udp() != udp) {
      const uint16_t port = listening_ && !udp ? listen_port_ : setup_.bind_port;
      current_ = std::make_shared<Flow>(Endpoint{setup_.local(), port, 0},
                                        Endpoint{setup_.remote(), setup_.remote_port, 0}, udp);
      listening_ = false;
    }
    return *current_;
  }
  const NetSetup& setup() const { return setup_; }

 private:
  const NetSetup& setup_;
  std::map<int, ScriptSocket> sockets_;
  std::shared_ptr<Flow> current_;
  bool listening_ = false;
  uint16_t listen_port_ = 0;
};

}  // namespace tapwire::pkt
