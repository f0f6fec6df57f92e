// SPDX-License-Identifier: Apache-2.0
// Where the control socket is, and getting hold of it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "drivers/tap/unique_fd.h"

namespace tapwire::apps::ctl {

// "run.sock" in the folders where one is looked for without --ctl or --socket, the first choice of
// a server first: $XDG_RUNTIME_DIR/tapwire, else /run/tapwire for root, else /tmp/tapwire-UID.
std::vector<std::string> DefaultSocketPaths();
// Makes the folder of a default path, mode 0700. An error if it is not this user's alone.
absl::Status MakeSocketFolder(const std::string& socket_path);

// A socket that listens at `path`, mode 0600. What a process that is gone has left there is
// replaced; kAlreadyExists (EADDRINUSE) if one answers, or if something else than a socket is
// there.
absl::StatusOr<drivers::UniqueFd> ListenAt(const std::string& path);
// Connected, blocking; connecting and each later read and write take at most `timeout`
// (ETIMEDOUT). The message of the error says what to do.
absl::StatusOr<drivers::UniqueFd> ConnectTo(const std::string& path,
                                            std::chrono::milliseconds timeout);

// Removes a socket at the end of its server, unless another one has replaced it.
class SocketFile {
 public:
  // `path` is what the server has just bound.
  explicit SocketFile(std::string path);
  ~SocketFile();
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace tapwire::apps::ctl
