// SPDX-License-Identifier: Apache-2.0
// The table: numbers, and what blocking means. The verbs are in socket_table_tcp*.cc,
// socket_table_udp.cc and socket_table_epoll.cc.

#include "stack/sockets/socket_table.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "stack/sockets/socket_table_address.h"
#include "stack/sockets/socket_table_epoll.h"
#include "stack/sockets/socket_table_tcp.h"
#include "stack/sockets/socket_table_udp.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"

namespace tapwire {

using internal::Descriptor;
using internal::EpollDescriptor;
using internal::StoreAddress;
using internal::Transfer;

namespace {

constexpr int kCreationFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr int kMaxSocketType = 11;
constexpr size_t kMaxPieces = 1024;          // IOV_MAX
constexpr size_t kMaxTransfer = 0x7ffff000;  // MAX_RW_COUNT
// A lingering close has no event for each state that ends it, so it looks from time to time.
constexpr Duration kLingerStep = std::chrono::milliseconds(50);

int CheckSocketKind(int domain, int type, int protocol) {
  const int kind = type & ~kCreationFlags;
  if (domain != AF_INET && domain != AF_INET6) return -EAFNOSUPPORT;
  if (kind < 0 || kind >= kMaxSocketType) return -EINVAL;
  if (protocol < 0 || protocol > 262) return -EINVAL;
  if (kind == SOCK_RAW) return -EPERM;
  if (kind != SOCK_STREAM && kind != SOCK_DGRAM) return -ESOCKTNOSUPPORT;
  const int own = kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
  return protocol == 0 || protocol == own ? 0 : -EPROTONOSUPPORT;
}

// Fills the transfer's pieces and size.
int SetPieces(const iovec* iov, size_t count, int too_many, Transfer& transfer) {
  if (count > kMaxPieces) return too_many;
  if (iov == nullptr && count > 0) return -EFAULT;
  transfer.iov = {iov, count};
  for (const iovec& piece : transfer.iov) {
    if (static_cast<ssize_t>(piece.iov_len) < 0) return -EINVAL;
    if (piece.iov_base == nullptr && piece.iov_len > 0) return -EFAULT;
    transfer.size += piece.iov_len;
  }
  return transfer.size > kMaxTransfer ? -EINVAL : 0;
}

}  // namespace

SocketTable::SocketTable(Stack& stack, Waiter& waiter, const Options& options)
    : stack_(stack), waiter_(waiter), options_(options) {
  const auto start = [this] {
    host_.reset(new internal::SocketHost{stack_, tcp::Tcp::Install(stack_), waiter_});
  };
  if (!waiter_.Run(start)) start();  // nobody else runs the stack
}

SocketTable::~SocketTable() {
  const auto close_all = [this] {
    for (DescriptorPtr& descriptor : descriptors_) {
      if (descriptor == nullptr) continue;
      descriptor->closed = true;
      descriptor->LeaveEpollSets();
      descriptor->Close();
      descriptor.reset();
    }
  };
  if (!waiter_.Run(close_all)) close_all();
}

// ---- Numbers ----

SocketTable::DescriptorPtr SocketTable::Find(int fd) const {
  const int64_t index = int64_t{fd} - options_.first_fd;
  if (index < 0 || index >= static_cast<int64_t>(descriptors_.size())) return nullptr;
  return descriptors_[static_cast<size_t>(index)];
}

int SocketTable::Insert(DescriptorPtr descriptor) {
  while (lowest_free_ < descriptors_.size() && descriptors_[lowest_free_] != nullptr) {
    ++lowest_free_;
  }
  if (lowest_free_ >= options_.max_fds) return -EMFILE;
  if (lowest_free_ == descriptors_.size()) descriptors_.emplace_back();
  descriptors_[lowest_free_] = std::move(descriptor);
  return options_.first_fd + static_cast<int>(lowest_free_++);
}

size_t SocketTable::size() {
  size_t count = 0;
  waiter_.Run([&] {
    count = descriptors_.size() -
            static_cast<size_t>(std::count(descriptors_.begin(), descriptors_.end(), nullptr));
  });
  return count;
}

bool SocketTable::IsOpen(int fd) {
  return With(fd, [](Descriptor&) { return int64_t{0}; }) == 0;
}

// ---- Trying and waiting ----

int64_t SocketTable::With(int fd, absl::FunctionRef<int64_t(Descriptor&)> call) {
  int64_t result = -EBADF;
  const bool ran = waiter_.Run([&] {
    if (const DescriptorPtr descriptor = Find(fd)) result = call(*descriptor);
  });
  return ran ? result : -EINTR;
}

std::optional<Time> SocketTable::DeadlineAfter(Duration timeout) const {
  return stack_.now() + timeout;
}

int64_t SocketTable::Retry(const Blocking& blocking, Attempt attempt) {
  int64_t result = -EBADF;
  DescriptorPtr descriptor;
  std::optional<Time> deadline;
  bool wait = false;
  const bool ran = waiter_.Run([&] {
    descriptor = Find(blocking.fd);
    if (descriptor == nullptr) return;
    const bool may_block = !blocking.dont_wait && !descriptor->nonblocking;
    result = attempt(*descriptor, may_block);
    wait = result == -EAGAIN && may_block;
    const Duration timeout = descriptor->timeout(blocking.sending);
    if (wait && timeout > Duration::zero()) deadline = DeadlineAfter(timeout);
  });
  if (!ran) return -EINTR;
  if (!wait) return result;
  const auto again = [&] {
    result = descriptor->closed ? -EBADF : attempt(*descriptor, true);
    return result != -EAGAIN;
  };
  if (waiter_.WaitUntil(again, deadline)) return result;
  return deadline ? -EAGAIN : -EINTR;
}

int SocketTable::WaitReady(absl::FunctionRef<int()> look, int timeout_ms) {
  int result = 0;
  std::optional<Time> deadline;
  const bool ran = waiter_.Run([&] {
    result = look();
    if (timeout_ms > 0) deadline = DeadlineAfter(std::chrono::milliseconds(timeout_ms));
  });
  if (!ran) return -EINTR;
  if (result != 0 || timeout_ms == 0) return result;
  const auto again = [&] {
    result = look();
    return result != 0;
  };
  if (waiter_.WaitUntil(again, deadline)) return result;
  return deadline ? 0 : -EINTR;
}

// ---- Making and ending ----

int SocketTable::Socket(int domain, int type, int protocol) {
  if (const int bad = CheckSocketKind(domain, type, protocol)) return bad;
  internal::CommonOptions common;
  common.family = domain == AF_INET ? IpFamily::kV4 : IpFamily::kV6;
  common.type = type & ~kCreationFlags;
  common.protocol = common.type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
  int fd = -EINTR;
  waiter_.Run([&] {
    DescriptorPtr made;
    if (common.type == SOCK_STREAM) {
      made = std::make_shared<internal::TcpDescriptor>(*host_, common);
    } else {
      made = std::make_shared<internal::UdpDescriptor>(*host_, common);
    }
    made->nonblocking = (type & SOCK_NONBLOCK) != 0;
    fd = Insert(std::move(made));
  });
  return fd;
}

int SocketTable::Bind(int fd, const sockaddr* address, socklen_t length) {
  return static_cast<int>(With(fd, [&](Descriptor& d) { return d.Bind(address, length); }));
}

int SocketTable::Listen(int fd, int backlog) {
  return static_cast<int>(With(fd, [&](Descriptor& d) { return d.Listen(backlog); }));
}

int64_t SocketTable::AcceptOnce(Descriptor& listener, sockaddr* address, socklen_t* length,
                                int flags) {
  if (size_t{lowest_free_} >= options_.max_fds) return -EMFILE;
  int result = 0;
  DescriptorPtr accepted = listener.Accept(result);
  if (accepted == nullptr) return result;
  accepted->nonblocking = (flags & SOCK_NONBLOCK) != 0;
  const Endpoint peer = accepted->AcceptedFrom();
  result = StoreAddress(accepted->family(), peer, address, length);
  if (result == 0) result = Insert(accepted);
  if (result < 0) accepted->Close();
  return result;
}

int SocketTable::Accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  if ((flags & ~kCreationFlags) != 0) return -EINVAL;
  return static_cast<int>(Retry(
      {.fd = fd}, [&](Descriptor& d, bool) { return AcceptOnce(d, address, length, flags); }));
}

int SocketTable::Connect(int fd, const sockaddr* address, socklen_t length) {
  DescriptorPtr descriptor;
  std::optional<Time> deadline;
  int result = -EBADF;
  bool wait = false;
  const bool ran = waiter_.Run([&] {
    descriptor = Find(fd);
    if (descriptor == nullptr) return;
    result = descriptor->Connect(address, length);
    wait = (result == -EINPROGRESS || result == -EALREADY) && !descriptor->nonblocking;
    const Duration timeout = descriptor->timeout(true);
    if (wait && timeout > Duration::zero()) deadline = DeadlineAfter(timeout);
  });
  if (!ran) return -EINTR;
  if (!wait) return result;
  int final_result = result;
  const auto done = [&] {
    final_result = descriptor->closed ? -EBADF : descriptor->ConnectResult();
    return final_result != -EAGAIN;
  };
  if (waiter_.WaitUntil(done, deadline)) return final_result;
  return deadline ? result : -EINTR;
}

int SocketTable::Shutdown(int fd, int how) {
  return static_cast<int>(With(fd, [&](Descriptor& d) { return d.Shutdown(how); }));
}

int SocketTable::Close(int fd) {
  DescriptorPtr descriptor;
  std::optional<Duration> linger;
  const bool ran = waiter_.Run([&] {
    descriptor = Find(fd);
    if (descriptor == nullptr) return;
    const auto index = static_cast<size_t>(fd - options_.first_fd);
    descriptors_[index].reset();
    lowest_free_ = std::min(lowest_free_, index);
    descriptor->closed = true;
    descriptor->LeaveEpollSets();
    linger = descriptor->BeginClose();
    if (!linger) descriptor->Close();
    waiter_.Notify();
  });
  if (!ran) return -EINTR;
  if (descriptor == nullptr) return -EBADF;
  if (linger) FinishClose(descriptor, *linger);
  return 0;
}

// SO_LINGER: waits until everything is acknowledged, or the time is over.
void SocketTable::FinishClose(const DescriptorPtr& descriptor, Duration linger) {
  const auto done = [&descriptor] { return !descriptor->Lingers(); };
  for (Duration left = linger; left > Duration::zero(); left -= kLingerStep) {
    std::optional<Time> step;
    if (!waiter_.Run([&] { step = DeadlineAfter(std::min(left, kLingerStep)); })) break;
    if (waiter_.WaitUntil(done, step)) break;
  }
  waiter_.Run([&descriptor] { descriptor->Close(); });
}

// ---- Data ----

ssize_t SocketTable::Move(int fd, Transfer& transfer, bool sending) {
  const bool dont_wait = (transfer.flags & MSG_DONTWAIT) != 0 ||
                         (!sending && (transfer.flags & (MSG_OOB | MSG_ERRQUEUE)) != 0);
  const int64_t result = Retry({.fd = fd, .dont_wait = dont_wait, .sending = sending},
                               [&](Descriptor& d, bool may_block) {
                                 transfer.may_block = may_block;
                                 return sending ? d.Transmit(transfer) : d.Receive(transfer);
                               });
  // Interrupted or out of time half way.
  if ((result == -EAGAIN || result == -EINTR) && transfer.done > 0) {
    return static_cast<ssize_t>(transfer.done);
  }
  // A stream tells no source.
  if (result >= 0 && transfer.from != nullptr && transfer.from_length != nullptr &&
      !transfer.named) {
    *transfer.from_length = 0;
  }
  return result;
}

ssize_t SocketTable::Readv(int fd, const iovec* iov, int count) {
  Transfer transfer;
  if (count < 0) return -EINVAL;
  if (const int bad = SetPieces(iov, static_cast<size_t>(count), -EINVAL, transfer)) return bad;
  const int64_t is_socket =
      With(fd, [](Descriptor& d) -> int64_t { return d.is_socket() ? 0 : -EINVAL; });
  if (is_socket != 0 || transfer.size == 0) return is_socket;
  return Move(fd, transfer, false);
}

ssize_t SocketTable::Read(int fd, void* data, size_t length) {
  const iovec iov = {data, length};
  return Readv(fd, &iov, 1);
}

// recvfrom(2) and sendto(2) have six parameters.
// NOLINTNEXTLINE(readability-function-size)
ssize_t SocketTable::RecvFrom(int fd, void* data, size_t length, int flags, sockaddr* address,
                              socklen_t* address_length) {
  const iovec iov = {data, length};
  Transfer transfer;
  transfer.flags = flags;
  transfer.from = address;
  transfer.from_length = address_length;
  if (const int bad = SetPieces(&iov, 1, -EINVAL, transfer)) return bad;
  return Move(fd, transfer, false);
}

ssize_t SocketTable::Recv(int fd, void* data, size_t length, int flags) {
  return RecvFrom(fd, data, length, flags, nullptr, nullptr);
}

namespace {

constexpr int kControlUnread = 36;  // TCP_CM_INQ

// The only ancillary data there is.
void PutUnread(std::optional<int> unread, msghdr& message) {
  const size_t room = message.msg_controllen;
  message.msg_controllen = 0;
  if (!unread || message.msg_control == nullptr) return;
  if (room < CMSG_LEN(sizeof(int))) {
    message.msg_flags |= MSG_CTRUNC;
    return;
  }
  message.msg_controllen = std::min(room, CMSG_SPACE(sizeof(int)));
  auto* header = static_cast<cmsghdr*>(message.msg_control);
  header->cmsg_level = IPPROTO_TCP;
  header->cmsg_type = kControlUnread;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &*unread, sizeof(int));
}

}  // namespace

ssize_t SocketTable::RecvMsg(int fd, msghdr* message, int flags) {
  if (message == nullptr) return -EFAULT;
  Transfer transfer;
  transfer.flags = flags;
  const int bad = SetPieces(message->msg_iov, message->msg_iovlen, -EMSGSIZE, transfer);
  if (bad != 0) return bad;
  transfer.from = static_cast<sockaddr*>(message->msg_name);
  transfer.from_length = &message->msg_namelen;
  const ssize_t result = Move(fd, transfer, false);
  if (result < 0) return result;
  message->msg_flags = transfer.result_flags;
  PutUnread(transfer.unread, *message);
  return result;
}

ssize_t SocketTable::Writev(int fd, const iovec* iov, int count) {
  Transfer transfer;
  if (count < 0) return -EINVAL;
  if (const int bad = SetPieces(iov, static_cast<size_t>(count), -EINVAL, transfer)) return bad;
  const int64_t is_socket =
      With(fd, [](Descriptor& d) -> int64_t { return d.is_socket() ? 0 : -EINVAL; });
  return is_socket != 0 ? is_socket : Move(fd, transfer, true);
}

ssize_t SocketTable::Write(int fd, const void* data, size_t length) {
  const iovec iov = {const_cast<void*>(data), length};
  return Writev(fd, &iov, 1);
}

// NOLINTNEXTLINE(readability-function-size)
ssize_t SocketTable::SendTo(int fd, const void* data, size_t length, int flags,
                            const sockaddr* address, socklen_t address_length) {
  const iovec iov = {const_cast<void*>(data), length};
  Transfer transfer;
  transfer.flags = flags;
  transfer.to = address;
  transfer.to_length = address_length;
  if (const int bad = SetPieces(&iov, 1, -EINVAL, transfer)) return bad;
  return Move(fd, transfer, true);
}

ssize_t SocketTable::Send(int fd, const void* data, size_t length, int flags) {
  return SendTo(fd, data, length, flags, nullptr, 0);
}

ssize_t SocketTable::SendMsg(int fd, const msghdr* message, int flags) {
  if (message == nullptr) return -EFAULT;
  if (message->msg_control != nullptr && message->msg_controllen > 0) return -EINVAL;
  Transfer transfer;
  transfer.flags = flags;
  const int bad = SetPieces(message->msg_iov, message->msg_iovlen, -EMSGSIZE, transfer);
  if (bad != 0) return bad;
  transfer.to = static_cast<const sockaddr*>(message->msg_name);
  transfer.to_length = message->msg_namelen;
  return Move(fd, transfer, true);
}

// ---- Facts and options ----

int SocketTable::GetSockName(int fd, sockaddr* address, socklen_t* length) {
  if (address == nullptr) return -EFAULT;
  return static_cast<int>(With(fd, [&](Descriptor& d) {
    Endpoint name;
    const int bad = d.SockName(name);
    return bad != 0 ? bad : StoreAddress(d.family(), name, address, length);
  }));
}

int SocketTable::GetPeerName(int fd, sockaddr* address, socklen_t* length) {
  if (address == nullptr) return -EFAULT;
  return static_cast<int>(With(fd, [&](Descriptor& d) {
    Endpoint name;
    const int bad = d.PeerName(name);
    return bad != 0 ? bad : StoreAddress(d.family(), name, address, length);
  }));
}

int SocketTable::GetSockOpt(int fd, int level, int name, void* value, socklen_t* length) {
  return static_cast<int>(With(fd, [&](Descriptor& d) {
    return d.GetOption({level, name, value, length});
  }));
}

int SocketTable::SetSockOpt(int fd, int level, int name, const void* value, socklen_t length) {
  return static_cast<int>(With(fd, [&](Descriptor& d) {
    return d.SetOption({level, name, value, length});
  }));
}

int SocketTable::Fcntl(int fd, int command, long argument) {
  return static_cast<int>(With(fd, [&](Descriptor& d) -> int64_t {
    switch (command) {
      case F_GETFL:
        return O_RDWR | (d.nonblocking ? O_NONBLOCK : 0);
      case F_SETFL:
        d.nonblocking = (argument & O_NONBLOCK) != 0;
        return 0;
      case F_GETFD:
      case F_SETFD:
        return 0;
      default:
        return -EINVAL;
    }
  }));
}

int SocketTable::Ioctl(int fd, unsigned long request, void* argument) {
  return static_cast<int>(With(fd, [&](Descriptor& d) -> int64_t {
    if (argument == nullptr) return -EFAULT;
    int& value = *static_cast<int*>(argument);
    if (request == FIONBIO) {
      d.nonblocking = value != 0;
      return 0;
    }
    return d.Ioctl(request, value);
  }));
}

// ---- Readiness ----

int SocketTable::PollOnce(pollfd* fds, nfds_t count) const {
  int ready = 0;
  for (pollfd& entry : std::span(fds, count)) {
    entry.revents = 0;
    if (entry.fd < 0) continue;
    const DescriptorPtr descriptor = Find(entry.fd);
    const auto wanted = static_cast<uint16_t>(entry.events);
    // The bits of poll and epoll are the same.
    const uint32_t events =
        descriptor == nullptr ? POLLNVAL : descriptor->Events() & (wanted | POLLERR | POLLHUP);
    entry.revents = static_cast<int16_t>(events);
    if (events != 0) ++ready;
  }
  return ready;
}

int SocketTable::Poll(pollfd* fds, nfds_t count, int timeout_ms) {
  if (fds == nullptr && count > 0) return -EFAULT;
  if (count > options_.max_fds) return -EINVAL;
  return WaitReady([&] { return PollOnce(fds, count); }, timeout_ms);
}

int SocketTable::EpollCreate(int size) { return size <= 0 ? -EINVAL : EpollCreate1(0); }

int SocketTable::EpollCreate1(int flags) {
  if ((flags & ~EPOLL_CLOEXEC) != 0) return -EINVAL;
  int fd = -EINTR;
  waiter_.Run([&] { fd = Insert(std::make_shared<EpollDescriptor>(*host_)); });
  return fd;
}

int SocketTable::EpollCtl(int epoll_fd, int operation, int fd, const epoll_event* event) {
  if (operation != EPOLL_CTL_DEL && event == nullptr) return -EFAULT;
  return static_cast<int>(With(epoll_fd, [&](Descriptor& d) -> int64_t {
    const DescriptorPtr target = Find(fd);
    if (target == nullptr) return -EBADF;
    auto* set = dynamic_cast<EpollDescriptor*>(&d);
    if (set == nullptr || target.get() == set) return -EINVAL;
    return set->Control(operation, fd, *target, event);
  }));
}

int SocketTable::EpollWait(int epoll_fd, epoll_event* events, int max_events, int timeout_ms) {
  if (max_events <= 0) return -EINVAL;
  if (events == nullptr) return -EFAULT;
  DescriptorPtr first;
  return WaitReady(
      [&]() -> int {
        if (first == nullptr) first = Find(epoll_fd);
        if (first == nullptr || first->closed) return -EBADF;
        auto* set = dynamic_cast<EpollDescriptor*>(first.get());
        if (set == nullptr) return -EINVAL;
        return set->Collect({events, static_cast<size_t>(max_events)});
      },
      timeout_ms);
}

}  // namespace tapwire
