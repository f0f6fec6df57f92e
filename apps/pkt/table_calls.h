// SPDX-License-Identifier: Apache-2.0
// TableCalls: the system calls of a script on a socket table of the stack.
#pragma once

#include "apps/pkt/host.h"
#include "stack/sockets/socket_table.h"

namespace tapwire::pkt {

class TableCalls final : public SocketCalls {
 public:
  explicit TableCalls(SocketTable& table) : table_(table) {}

  int Socket(int domain, int type, int protocol) override {
    return table_.Socket(domain, type, protocol);
  }
  int Bind(int fd, const sockaddr* address, socklen_t length) override {
    return table_.Bind(fd, address, length);
  }
  int Listen(int fd, int backlog) override { return table_.Listen(fd, backlog); }
  int Accept4(int fd, sockaddr* address, socklen_t* length, int flags) override {
    return table_.Accept4(fd, address, length, flags);
  }
  int Connect(int fd, const sockaddr* address, socklen_t length) override {
    return table_.Connect(fd, address, length);
  }
  int Shutdown(int fd, int how) override { return table_.Shutdown(fd, how); }
  int Close(int fd) override { return table_.Close(fd); }
  int GetSockName(int fd, sockaddr* address, socklen_t* length) override {
    return table_.GetSockName(fd, address, length);
  }
  int GetPeerName(int fd, sockaddr* address, socklen_t* length) override {
    return table_.GetPeerName(fd, address, length);
  }
  int64_t RecvMsg(int fd, msghdr* message, int flags) override {
    return table_.RecvMsg(fd, message, flags);
  }
  int64_t SendMsg(int fd, const msghdr* message, int flags) override {
    return table_.SendMsg(fd, message, flags);
  }
  int GetSockOpt(int fd, int level, int name, void* value, socklen_t* length) override {
    return table_.GetSockOpt(fd, level, name, value, length);
  }
  int SetSockOpt(int fd, int level, int name, const void* value, socklen_t length) override {
    return table_.SetSockOpt(fd, level, name, value, length);
  }
  int Fcntl(int fd, int command, long argument) override {
    return table_.Fcntl(fd, command, argument);
  }
  int Ioctl(int fd, unsigned long request, void* argument) override {
    return table_.Ioctl(fd, request, argument);
  }
  int Poll(pollfd* fds, nfds_t count, int timeout_ms) override {
    return table_.Poll(fds, count, timeout_ms);
  }
  int EpollCreate(int size) override { return table_.EpollCreate(size); }
  int EpollCreate1(int flags) override { return table_.EpollCreate1(flags); }
  int EpollCtl(int epoll_fd, int operation, int fd, const epoll_event* event) override {
    return table_.EpollCtl(epoll_fd, operation, fd, event);
  }
  int EpollWait(int epoll_fd, epoll_event* events, int max_events, int timeout_ms) override {
    return table_.EpollWait(epoll_fd, events, max_events, timeout_ms);
  }

 private:
  SocketTable& table_;
};

}  // namespace tapwire::pkt
