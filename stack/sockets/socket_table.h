// SPDX-License-Identifier: Apache-2.0
// SocketTable: POSIX-like sockets on a Stack. Arguments are libc's; results are ≥ 0 or -errno, as
// Linux gives them. Descriptors are private numbers from a configurable base, the lowest free one
// first; they have nothing to do with the kernel's.
//
// Not here: signals (EPIPE comes without SIGPIPE), ancillary data (sendmsg with control data is
// EINVAL; recvmsg returns none), raw and packet sockets, dup, SO_REUSEPORT's balancing.
//
// Threads: as the waiter allows. With a ThreadWaiter any thread may call; two calls for one socket
// are in no particular order. A call that waits on a descriptor which another thread closes returns
// -EBADF. A call whose waiter gives up returns -EINTR.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "netdev/base/time.h"
#include "stack/sockets/waiter.h"

namespace tapwire {

class Stack;

namespace internal {
class Descriptor;
struct SocketHost;
struct Transfer;
}  // namespace internal

class SocketTable {
 public:
  struct Options {
    int first_fd = 3;
    size_t max_fds = 65536;  // beyond: EMFILE
  };

  // Both outlive the table. `stack` gets its TCP with the default configuration unless
  // tcp::Tcp::Install was called before.
  SocketTable(Stack& stack, Waiter& waiter, const Options& options);
  SocketTable(Stack& stack, Waiter& waiter) : SocketTable(stack, waiter, Options()) {}
  // Closes what is open, without lingering.
  ~SocketTable();
  SocketTable(const SocketTable&) = delete;
  SocketTable& operator=(const SocketTable&) = delete;

  // AF_INET, AF_INET6; SOCK_STREAM, SOCK_DGRAM with SOCK_NONBLOCK and SOCK_CLOEXEC (no effect);
  // protocol 0 or the fitting one.
  int Socket(int domain, int type, int protocol);
  int Bind(int fd, const sockaddr* address, socklen_t length);
  int Listen(int fd, int backlog);
  int Accept4(int fd, sockaddr* address, socklen_t* length, int flags);
  int Accept(int fd, sockaddr* address, socklen_t* length) {
    return Accept4(fd, address, length, 0);
  }
  int Connect(int fd, const sockaddr* address, socklen_t length);
  int Shutdown(int fd, int how);
  int Close(int fd);

  ssize_t Read(int fd, void* data, size_t length);
  ssize_t Readv(int fd, const iovec* iov, int count);
  ssize_t Recv(int fd, void* data, size_t length, int flags);
  ssize_t RecvFrom(int fd, void* data, size_t length, int flags, sockaddr* address,
                   socklen_t* address_length);
  ssize_t RecvMsg(int fd, msghdr* message, int flags);
  ssize_t Write(int fd, const void* data, size_t length);
  ssize_t Writev(int fd, const iovec* iov, int count);
  ssize_t Send(int fd, const void* data, size_t length, int flags);
  ssize_t SendTo(int fd, const void* data, size_t length, int flags, const sockaddr* address,
                 socklen_t address_length);
  ssize_t SendMsg(int fd, const msghdr* message, int flags);

  int GetSockName(int fd, sockaddr* address, socklen_t* length);
  int GetPeerName(int fd, sockaddr* address, socklen_t* length);
  // Levels and names: socket_options.h.
  int GetSockOpt(int fd, int level, int name, void* value, socklen_t* length);
  int SetSockOpt(int fd, int level, int name, const void* value, socklen_t length);
  // F_GETFL, F_SETFL (O_NONBLOCK), F_GETFD, F_SETFD. Others: EINVAL.
  int Fcntl(int fd, int command, long argument = 0);
  // SIOCINQ (= FIONREAD), SIOCOUTQ (= TIOCOUTQ), SIOCOUTQNSD, SIOCATMARK, FIONBIO; `argument`
  // points to an int. Others: ENOTTY.
  int Ioctl(int fd, unsigned long request, void* argument);

  int Poll(pollfd* fds, nfds_t count, int timeout_ms);
  int EpollCreate(int size);  // size ≤ 0: EINVAL
  int EpollCreate1(int flags);
  // EPOLLIN OUT PRI ERR HUP RDHUP RDNORM WRNORM, EPOLLET, EPOLLONESHOT.
  int EpollCtl(int epoll_fd, int operation, int fd, const epoll_event* event);
  int EpollWait(int epoll_fd, epoll_event* events, int max_events, int timeout_ms);

  // Number of open descriptors.
  size_t size();
  bool IsOpen(int fd);

 private:
  using DescriptorPtr = std::shared_ptr<internal::Descriptor>;

  DescriptorPtr Find(int fd) const;
  int Insert(DescriptorPtr descriptor);
  // Runs `call` on the descriptor; -EBADF if there is none.
  int64_t With(int fd, absl::FunctionRef<int64_t(internal::Descriptor&)> call);
  struct Blocking {
    int fd = -1;
    bool dont_wait = false;  // MSG_DONTWAIT
    bool sending = false;    // which of the two timeouts holds
  };
  using Attempt = absl::FunctionRef<int64_t(internal::Descriptor&, bool may_block)>;
  // Tries until the answer is not -EAGAIN, if the descriptor blocks.
  int64_t Retry(const Blocking& blocking, Attempt attempt);
  ssize_t Move(int fd, internal::Transfer& transfer, bool sending);
  int64_t AcceptOnce(internal::Descriptor& listener, sockaddr* address, socklen_t* length,
                     int flags);
  void FinishClose(const DescriptorPtr& descriptor, Duration linger);
  int PollOnce(pollfd* fds, nfds_t count) const;
  // Waits for `look`, a number ≥ 0 of ready ones or -errno, to be other than 0.
  int WaitReady(absl::FunctionRef<int()> look, int timeout_ms);
  std::optional<Time> DeadlineAfter(Duration timeout) const;

  Stack& stack_;
  Waiter& waiter_;
  Options options_;
  std::unique_ptr<internal::SocketHost> host_;
  std::vector<DescriptorPtr> descriptors_;  // by number less first_fd
  size_t lowest_free_ = 0;
};

}  // namespace tapwire
