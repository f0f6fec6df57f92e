// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/kernel_tcp.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tests/interop/kernel_address.h"

namespace tapwire::interop {
namespace {

int NewSocket(IpFamily family) {
  const int domain = family == IpFamily::kV4 ? AF_INET : AF_INET6;
  const int fd = socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  EXPECT_GE(fd, 0) << std::strerror(errno);
  return fd;
}

}  // namespace

KernelTcp KernelTcp::Listen(IpFamily family, uint16_t port, int backlog) {
  KernelTcp listener(NewSocket(family));
  listener.SetOption(SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == IpFamily::kV6) listener.SetOption(IPPROTO_IPV6, IPV6_V6ONLY, 1);
  SocketAddress local = ToKernel({IpAddress::Unspecified(family), port, 0});
  EXPECT_EQ(bind(listener.fd_.get(), local.get(), local.length), 0) << std::strerror(errno);
  EXPECT_EQ(listen(listener.fd_.get(), backlog), 0) << std::strerror(errno);
  return listener;
}

KernelTcp KernelTcp::Connect(const Endpoint& peer) {
  KernelTcp client(NewSocket(peer.address.family()));
  SocketAddress remote = ToKernel(peer);
  const int result = connect(client.fd_.get(), remote.get(), remote.length);
  EXPECT_TRUE(result == 0 || errno == EINPROGRESS) << std::strerror(errno);
  return client;
}

std::optional<KernelTcp> KernelTcp::Accept() {
  const int fd = accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return std::nullopt;
  return KernelTcp(fd);
}

void KernelTcp::SetOption(int level, int name, int value) {
  EXPECT_EQ(setsockopt(fd_.get(), level, name, &value, sizeof(value)), 0) << std::strerror(errno);
}

uint16_t KernelTcp::port() const {
  SocketAddress local;
  local.length = sizeof(local.storage);
  EXPECT_EQ(getsockname(fd_.get(), local.get(), &local.length), 0);
  return FromKernel(local).port;
}

bool KernelTcp::Writable() const {
  pollfd waiting = {.fd = fd_.get(), .events = POLLOUT, .revents = 0};
  return poll(&waiting, 1, 0) > 0;
}

int KernelTcp::TakeError() {
  int error = 0;
  socklen_t length = sizeof(error);
  EXPECT_EQ(getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length), 0);
  return error;
}

size_t KernelTcp::Send(std::span<const uint8_t> data) {
  const ssize_t sent = send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno != EAGAIN) error_ = errno;
  return 0;
}

size_t KernelTcp::Send(const std::string& text) {
  return Send({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

bool KernelTcp::Receive() {
  std::array<char, 65536> buffer;
  while (!ended_) {
    const ssize_t got = recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      received_.append(buffer.data(), static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) error_ = errno;
    ended_ = true;
  }
  return ended_;
}

void KernelTcp::ShutdownWrite() { EXPECT_EQ(shutdown(fd_.get(), SHUT_WR), 0); }

void KernelTcp::CloseWithReset() {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
  fd_.Reset();
}

}  // namespace tapwire::interop
