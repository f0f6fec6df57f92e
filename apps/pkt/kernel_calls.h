// SPDX-License-Identifier: Apache-2.0
// KernelCalls: the system calls of a script as real ones. Those that may block run on a thread of
// their own, so that the script goes on beside them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/pkt/host.h"
#include "drivers/tap/unique_fd.h"
#include "stack/sockets/waiter.h"

namespace tapwire::pkt {

class KernelCalls final : public SocketCalls {
 public:
  explicit KernelCalls(Waiter& waiter);

  // Once, before the first call that may block: the threads have the scheduling of the caller.
  void StartThreads();

  // Readable when a call on another thread has ended; SetTime() of the host waits for it too.
  int wake_fd() const { return wake_.get(); }

  // Of new sockets. A namespace may not have every algorithm as its default, but sockets may.
  void set_congestion_control(const std::string& name) { congestion_control_ = name; }

  int Socket(int domain, int type, int protocol) override;
  int Bind(int fd, const sockaddr* address, socklen_t length) override;
  int Listen(int fd, int backlog) override;
  int Accept4(int fd, sockaddr* address, socklen_t* length, int flags) override;
  int Connect(int fd, const sockaddr* address, socklen_t length) override;
  int Shutdown(int fd, int how) override;
  int Close(int fd) override;
  int GetSockName(int fd, sockaddr* address, socklen_t* length) override;
  int GetPeerName(int fd, sockaddr* address, socklen_t* length) override;
  int64_t RecvMsg(int fd, msghdr* message, int flags) override;
  int64_t SendMsg(int fd, const msghdr* message, int flags) override;
  int GetSockOpt(int fd, int level, int name, void* value, socklen_t* length) override;
  int SetSockOpt(int fd, int level, int name, const void* value, socklen_t length) override;
  int Fcntl(int fd, int command, long argument) override;
  int Ioctl(int fd, unsigned long request, void* argument) override;
  int Poll(pollfd* fds, nfds_t count, int timeout_ms) override;
  int EpollCreate(int size) override;
  int EpollCreate1(int flags) override;
  int EpollCtl(int epoll_fd, int operation, int fd, const epoll_event* event) override;
  int EpollWait(int epoll_fd, epoll_event* events, int max_events, int timeout_ms) override;

 private:
  struct Job;
  struct Threads;

  // Runs `call` beside the script. A call that the script does not wait for any longer is
  // interrupted (EINTR).
  int64_t Aside(std::function<int64_t()> call);
  static void Serve(Threads& threads);

  Waiter& waiter_;
  drivers::UniqueFd wake_;
  std::shared_ptr<Threads> threads_;
  std::string congestion_control_ = "cubic";
};

}  // namespace tapwire::pkt
