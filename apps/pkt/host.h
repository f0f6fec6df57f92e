// SPDX-License-Identifier: Apache-2.0
// Host: what a script is played against. World is tapwire's stack in virtual time; KernelHost is
// the Linux kernel of this machine in real time, which shows what a script ought to expect.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "netdev/base/time.h"

namespace tapwire::pkt {

// One IP datagram that the host sent.
struct SentDatagram {
  std::vector<uint8_t> bytes;
  Time time;
};

// The system calls that scripts make. Arguments are libc's; results are ≥ 0 or -errno.
class SocketCalls {
 public:
  virtual ~SocketCalls() = default;
  virtual int Socket(int domain, int type, int protocol) = 0;
  virtual int Bind(int fd, const sockaddr* address, socklen_t length) = 0;
  virtual int Listen(int fd, int backlog) = 0;
  virtual int Accept4(int fd, sockaddr* address, socklen_t* length, int flags) = 0;
  virtual int Connect(int fd, const sockaddr* address, socklen_t length) = 0;
  virtual int Shutdown(int fd, int how) = 0;
  virtual int Close(int fd) = 0;
  virtual int GetSockName(int fd, sockaddr* address, socklen_t* length) = 0;
  virtual int GetPeerName(int fd, sockaddr* address, socklen_t* length) = 0;
  virtual int64_t RecvMsg(int fd, msghdr* message, int flags) = 0;
  virtual int64_t SendMsg(int fd, const msghdr* message, int flags) = 0;
  virtual int GetSockOpt(int fd, int level, int name, void* value, socklen_t* length) = 0;
  virtual int SetSockOpt(int fd, int level, int name, const void* value, socklen_t length) = 0;
  virtual int Fcntl(int fd, int command, long argument) = 0;
  virtual int Ioctl(int fd, unsigned long request, void* argument) = 0;
  virtual int Poll(pollfd* fds, nfds_t count, int timeout_ms) = 0;
  virtual int EpollCreate(int size) = 0;
  virtual int EpollCreate1(int flags) = 0;
  virtual int EpollCtl(int epoll_fd, int operation, int fd, const epoll_event* event) = 0;
  virtual int EpollWait(int epoll_fd, epoll_event* events, int max_events, int timeout_ms) = 0;
};

class Host {
 public:
  virtual ~Host() = default;
  // Not ok: the host could not be made.
  virtual const absl::Status& status() const = 0;

  virtual SocketCalls& calls() = 0;
  // Puts a datagram on the link, towards the host. False: it cannot take it.
  virtual bool Inject(std::span<const uint8_t> datagram) = 0;
  // What the host sent and nobody has taken yet, oldest first.
  virtual std::deque<SentDatagram>& sent() = 0;

  virtual Time now() = 0;
  // Lets the host do what is left to do at this time. False: there is no end to it.
  virtual bool Settle() = 0;
  // When something may happen next; none: nothing ever will.
  virtual std::optional<Time> NextDeadline() = 0;
  // Lets time pass until `time`, or less in real time: until something happens.
  virtual void SetTime(Time time) = 0;
  // How long it makes sense to wait for what may never come.
  virtual Duration patience() const = 0;

  // A shell command that sets something. Why it cannot; none: done.
  virtual std::optional<std::string> Apply(absl::string_view command) = 0;
  // Takes the host down. Afterwards, how many packets are still held somewhere.
  virtual size_t Destroy() = 0;
};

}  // namespace tapwire::pkt
