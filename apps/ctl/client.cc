// SPDX-License-Identifier: Apache-2.0
#include "apps/ctl/client.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/ctl/message.h"
#include "apps/ctl/socket_path.h"
#include "drivers/tap/system_error.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::ctl {
namespace {

using drivers::UniqueFd;

absl::StatusOr<UniqueFd> ConnectToDefault(std::chrono::milliseconds timeout) {
  absl::Status first;
  for (const std::string& path : DefaultSocketPaths()) {
    absl::StatusOr<UniqueFd> fd = ConnectTo(path, timeout);
    if (fd.ok()) return fd;
    if (first.ok()) first = fd.status();
  }
  return first;
}

absl::Status SendAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return drivers::SystemError(errno, "send to the control socket");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReceiveReply(int fd) {
  std::string bytes;
  while (true) {
    TW_ASSIGN_OR_RETURN(const std::optional<size_t> length, ReplyLength(bytes));
    if (length && bytes.size() >= *length) return bytes.substr(0, *length);
    std::array<char, 65536> chunk;
    const ssize_t got = recv(fd, chunk.data(), chunk.size(), 0);
    if (got > 0) {
      bytes.append(chunk.data(), static_cast<size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return absl::UnavailableError(
          "the process closed the control connection; it may be busy with others, or ending");
    } else if (errno != EINTR) {
      return drivers::SystemError(errno == EAGAIN ? ETIMEDOUT : errno,
                                  "wait for an answer on the control socket");
    }
  }
}

}  // namespace

absl::StatusOr<Reply> Ask(const std::string& path, const std::vector<std::string>& argv,
                          std::chrono::milliseconds timeout) {
  TW_ASSIGN_OR_RETURN(const std::string request, EncodeRequest(argv));
  TW_ASSIGN_OR_RETURN(const UniqueFd fd,
                      path.empty() ? ConnectToDefault(timeout) : ConnectTo(path, timeout));
  // A server that is full closes without reading; what it said, if anything, is more to the point.
  const absl::Status sent = SendAll(fd.get(), request);
  const absl::StatusOr<std::string> bytes = ReceiveReply(fd.get());
  if (!bytes.ok()) return sent.ok() ? bytes.status() : sent;
  return DecodeReply(*bytes);
}

}  // namespace tapwire::apps::ctl
