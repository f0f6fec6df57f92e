// SPDX-License-Identifier: Apache-2.0
//
// SocketDevice: a device whose wire is a UNIX socket pair, so that runners have a descriptor to
// watch. The test holds the other end and writes and reads whole frames.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "netdev/device.h"
#include "netdev/net_context.h"
#include "netdev/poll.h"

namespace tapwire::testutil {

class SocketDevice final : public netdev::NetDevice {
 public:
  SocketDevice(netdev::NetContext& context, std::string name)
      : NetDevice(context, {.name = std::move(name)}) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0) {
      fd_ = pair[0];
      peer_ = pair[1];
    }
    queue_ = std::make_unique<Queue>(*this);
  }
  ~SocketDevice() override {
    close(fd_);
    ClosePeer();
  }

  absl::string_view kind() const override { return "socket"; }
  int fd() const { return fd_; }
  // The test's end; -1 once closed.
  int peer() const { return peer_; }
  void ClosePeer() {
    if (peer_ >= 0) close(std::exchange(peer_, -1));
  }
  // Has the runner watch for "writable" as well; see NetContext::PollFdsChanged().
  void SetWantWrite(bool on) {
    want_write_ = on;
    context().PollFdsChanged();
  }
  int polls() const { return polls_; }

  std::vector<netdev::PollFd> poll_fds() const override {
    return {{.fd = fd_, .poll = queue_.get(), .want_write = want_write_}};
  }

 protected:
  netdev::TxResult StartXmit(PacketPtr packet, bool /*more*/) override {
    std::vector<uint8_t> bytes(packet->length());
    packet->CopyOut(0, bytes);
    return write(fd_, bytes.data(), bytes.size()) < 0 ? netdev::TxResult::kNoBuffer
                                                      : netdev::TxResult::kSent;
  }

 private:
  class Queue final : public netdev::PollContext {
   public:
    explicit Queue(SocketDevice& device) : PollContext(device.context(), device), device_(device) {}
    int Poll(int budget) override {
      ++device_.polls_;
      std::array<uint8_t, 2048> buffer;
      int taken = 0;
      while (taken < budget) {
        const ssize_t n = read(device_.fd_, buffer.data(), buffer.size());
        if (n <= 0) break;
        ++taken;
        PacketPtr packet =
            PacketFromBytes(context().pool(), std::span(buffer).first(static_cast<size_t>(n)));
        packet->meta.rx_time = context().now();
        Deliver(std::move(packet));
      }
      return taken;
    }

   private:
    SocketDevice& device_;
  };

  int fd_ = -1;
  int peer_ = -1;
  bool want_write_ = false;
  int polls_ = 0;
  std::unique_ptr<Queue> queue_;
};

}  // namespace tapwire::testutil
