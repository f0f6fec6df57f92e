// SPDX-License-Identifier: Apache-2.0
// Descriptor: what a number in a SocketTable stands for: a TCP socket, a UDP socket or an epoll
// set. The verbs answer at once: ≥ 0, -errno, or -EAGAIN for "not yet", which the table turns into
// waiting if the descriptor blocks. Everything here runs with the stack to itself.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "netdev/base/time.h"
#include "netdev/wire/ip_address.h"
#include "stack/sockets/socket_options.h"
#include "stack/sockets/waiter.h"

namespace tapwire {
class Stack;
namespace tcp {
class Tcp;
}
}  // namespace tapwire

namespace tapwire::internal {

class Descriptor;
class EpollDescriptor;
struct EpollItem;

// What descriptors need of their table.
struct SocketHost {
  Stack& stack;
  tcp::Tcp& tcp;
  Waiter& waiter;
};

// One call that moves data, over all its attempts.
struct Transfer {
  std::span<const iovec> iov;
  int flags = 0;
  bool may_block = false;
  size_t size = 0;  // of the iov together
  size_t done = 0;  // by earlier attempts
  // sendto's destination, or where the source of a datagram goes.
  const sockaddr* to = nullptr;
  socklen_t to_length = 0;
  sockaddr* from = nullptr;
  socklen_t* from_length = nullptr;
  bool named = false;              // `from` was filled in
  int result_flags = 0;            // recvmsg's msg_flags
  std::optional<int> unread = {};  // of TCP_INQ: what is left to be read

  // The part of the iov from `done` on that lies in one piece.
  std::span<uint8_t> Next() const;
};

class Descriptor : public std::enable_shared_from_this<Descriptor> {
 public:
  explicit Descriptor(SocketHost& host) : host_(host) {}
  virtual ~Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  virtual int Bind(const sockaddr*, socklen_t) { return -ENOTSOCK; }
  virtual int Listen(int) { return -ENOTSOCK; }
  // The accepted one, or null and -errno in `result`.
  virtual std::shared_ptr<Descriptor> Accept(int& result) { return result = -ENOTSOCK, nullptr; }
  // -EINPROGRESS or -EALREADY: the result comes by ConnectResult, which is -EAGAIN until then.
  virtual int Connect(const sockaddr*, socklen_t) { return -ENOTSOCK; }
  virtual int ConnectResult() { return -ENOTSOCK; }
  virtual int Shutdown(int) { return -ENOTSOCK; }
  virtual int64_t Receive(Transfer&) { return -ENOTSOCK; }
  virtual int64_t Transmit(Transfer&) { return -ENOTSOCK; }
  virtual int SockName(Endpoint&) { return -ENOTSOCK; }
  virtual int PeerName(Endpoint&) { return -ENOTSOCK; }
  // Of a descriptor that Accept() gave: the peer's name, also if the connection is gone again.
  virtual Endpoint AcceptedFrom() const { return {}; }
  virtual IpFamily family() const { return IpFamily::kV4; }
  virtual int GetOption(const OptionBuffer&) { return -ENOTSOCK; }
  virtual int SetOption(const OptionInput&) { return -ENOTSOCK; }
  virtual int Ioctl(unsigned long, int&) { return -ENOTTY; }
  virtual bool is_socket() const { return true; }
  // EPOLL* bits that hold now.
  virtual uint32_t Events() = 0;
  // SO_RCVTIMEO, SO_SNDTIMEO; zero: for ever.
  virtual Duration timeout(bool) const { return Duration::zero(); }
  // SO_LINGER: how long a close waits while Lingers(). Begins the close.
  virtual std::optional<Duration> BeginClose() { return std::nullopt; }
  virtual bool Lingers() const { return false; }
  // The end: gives everything back. Nothing but the destructor comes after.
  virtual void Close() = 0;

  bool nonblocking = false;
  bool closed = false;

  // Takes the descriptor out of the epoll sets it is in.
  void LeaveEpollSets();

 protected:
  friend class EpollDescriptor;

  // Something happened that may have made these EPOLL* bits true: tells epoll sets and the waiter.
  void Changed(uint32_t events);

  SocketHost& host_;

 private:
  std::vector<EpollItem*> watchers_;
};

// TCP and UDP alike.
class SocketDescriptor : public Descriptor {
 public:
  SocketDescriptor(SocketHost& host, const CommonOptions& options)
      : Descriptor(host), common_(options) {}

  IpFamily family() const override { return common_.family; }
  Duration timeout(bool sending) const override {
    return sending ? common_.send_timeout : common_.receive_timeout;
  }
  int GetOption(const OptionBuffer& out) override;
  int SetOption(const OptionInput& in) override;

 protected:
  // Of levels and names that are the protocol's own. -ENOPROTOOPT: not one of them.
  virtual int GetOwnOption(const OptionBuffer& out) = 0;
  virtual int SetOwnOption(const OptionInput& in) = 0;
  // common_ was changed by SetOption.
  virtual void OnCommonChanged() = 0;
  int TakeError();

  CommonOptions common_;
  int error_ = 0;  // SO_ERROR
  bool shut_read_ = false;
  bool shut_write_ = false;
};

}  // namespace tapwire::internal
