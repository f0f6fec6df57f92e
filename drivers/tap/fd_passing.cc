// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/fd_passing.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "drivers/tap/system_error.h"

namespace tapwire::drivers {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(kMaxPassedFds * sizeof(int));

// Takes over every descriptor of a received message.
void CollectFds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      fds.emplace_back(fd);
    }
  }
}

// Waits until `fd` is readable. 0, ETIMEDOUT or another errno.
int WaitReadable(int fd, int timeout_ms) {
  pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
  int result;
  do {
    result = poll(&waiting, 1, timeout_ms);
  } while (result < 0 && errno == EINTR);
  if (result < 0) {
    return errno;
  }
  return result == 0 ? ETIMEDOUT : 0;
}

}  // namespace

int SendFds(int socket, const int* fds, size_t count, const void* data, size_t size) {
  if (count > kMaxPassedFds || size == 0) {
    return EINVAL;
  }
  alignas(cmsghdr) char control[kControlBytes] = {};
  iovec io = {.iov_base = const_cast<void*>(data), .iov_len = size};
  msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds, count * sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    return errno;
  }
  return static_cast<size_t>(sent) == size ? 0 : EMSGSIZE;
}

int ReceiveFds(int socket, std::vector<UniqueFd>& fds, void* data, size_t size, size_t* received) {
  alignas(cmsghdr) char control[kControlBytes] = {};
  iovec io = {.iov_base = data, .iov_len = size};
  msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return errno;
  }
  CollectFds(message, fds);
  if (got == 0) {
    return ECONNRESET;
  }
  *received = static_cast<size_t>(got);
  return 0;
}

absl::StatusOr<std::vector<UniqueFd>> ReceiveFdsFromPath(absl::string_view path, int timeout_ms) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("fd socket '", path,
                                                   "': a UNIX socket path has 1 to ",
                                                   sizeof(address.sun_path) - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) {
    return SystemError(errno, "socket AF_UNIX");
  }
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(errno, absl::StrCat("connect to fd socket ", path),
                       "start the program that hands out the TAP descriptor first, and check that "
                       "this user may write to the socket");
  }
  if (const int err = WaitReadable(socket.get(), timeout_ms); err != 0) {
    return SystemError(err, absl::StrCat("wait for a descriptor on ", path));
  }
  std::vector<UniqueFd> fds;
  char data[64];
  size_t received = 0;
  if (const int err = ReceiveFds(socket.get(), fds, data, sizeof(data), &received); err != 0) {
    return SystemError(err, absl::StrCat("receive a descriptor from ", path));
  }
  if (fds.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "fd socket ", path, ": the message carried no descriptor (SCM_RIGHTS expected)"));
  }
  return fds;
}

}  // namespace tapwire::drivers
