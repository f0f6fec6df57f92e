// SPDX-License-Identifier: Apache-2.0
#include "apps/ctl/socket_path.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "drivers/tap/system_error.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps::ctl {
namespace {

using drivers::SystemError;
using drivers::UniqueFd;

constexpr int kBacklog = 16;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("control socket '", path, "': a path of 1 to ",
                                                   sizeof address.sun_path - 1,
                                                   " bytes is needed"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError(errno, "make a UNIX socket");
  return fd;
}

void SetTimeout(int fd, std::chrono::milliseconds timeout) {
  const timeval limit = {.tv_sec = timeout.count() / 1000,
                         .tv_usec = static_cast<suseconds_t>(timeout.count() % 1000 * 1000)};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// Waits for others that are just making or replacing a socket there, but not for somebody who
// keeps the lock: anybody may who can read the folder. Then two may replace one stale socket.
void LockShortly(int folder) {
  constexpr int kTries = 50;
  constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 10'000'000};
  for (int i = 0; i < kTries && flock(folder, LOCK_EX | LOCK_NB) != 0; ++i) {
    nanosleep(&kPause, nullptr);
  }
}

// 0 or the errno; EAGAIN if the other side did not take it in time.
int Connect(int fd, const sockaddr_un& address) {
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

// The mode is right from the first moment on. The program has one thread when it does this.
int Bind(int fd, const sockaddr_un& address) {
  const mode_t before = umask(0177);
  const int err =
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  umask(before);
  return err;
}

// Removes a socket where nobody listens any more.
absl::Status RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    return SystemError(errno, absl::StrCat("control socket ", path));
  }
  if (!S_ISSOCK(info.st_mode)) {
    return SystemError(EADDRINUSE, absl::StrCat("control socket ", path),
                       "something else is there; remove it or choose another path");
  }
  TW_ASSIGN_OR_RETURN(const UniqueFd probe, NewSocket());
  // It may be stopped, with its queue of connections full.
  fcntl(probe.get(), F_SETFL, O_NONBLOCK);
  const int err = Connect(probe.get(), address);
  if (err != ECONNREFUSED) {
    // It answers, or it is so busy (EAGAIN) or so protected that this cannot be told.
    return SystemError(EADDRINUSE, absl::StrCat("control socket ", path),
                       "another process answers there; choose another path");
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return SystemError(errno, absl::StrCat("remove the stale control socket ", path));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> DefaultSocketPaths() {
  std::vector<std::string> paths;
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') {
    paths.push_back(absl::StrCat(runtime, "/", "tapwire/run.sock"));
  }
  if (geteuid() == 0) paths.emplace_back("/run/tapwire/run.sock");
  paths.push_back(absl::StrCat("/tmp/tapwire-", geteuid(), "/run.sock"));
  return paths;
}

absl::Status MakeSocketFolder(const std::string& socket_path) {
  const std::string folder = FolderOf(socket_path);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError(errno, absl::StrCat("make directory ", folder));
  }
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0) {
    return SystemError(errno, absl::StrCat("stat ", folder));
  }
  // In /tmp anybody may have made it before us.
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("directory ", folder,
                     ": must belong to this user, and nobody else may write "
                     "there"));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ListenAt(const std::string& path) {
  TW_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  TW_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
  // Of two that find the same stale socket one must not remove the new one of the other.
  const UniqueFd folder(open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) LockShortly(folder.get());
  int err = Bind(fd.get(), address);
  if (err == EADDRINUSE) {
    TW_RETURN_IF_ERROR(RemoveStale(path, address));
    err = Bind(fd.get(), address);
  }
  if (err != 0) return SystemError(err, absl::StrCat("control socket ", path));
  if (listen(fd.get(), kBacklog) != 0) {
    const int why = errno;
    unlink(path.c_str());
    return SystemError(why, absl::StrCat("control socket ", path));
  }
  return fd;
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& path, std::chrono::milliseconds timeout) {
  TW_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  TW_ASSIGN_OR_RETURN(UniqueFd fd, NewSocket());
  SetTimeout(fd.get(), timeout);
  const int err = Connect(fd.get(), address);
  if (err == 0) return fd;
  if (err == EAGAIN) {
    return SystemError(ETIMEDOUT, absl::StrCat("control socket ", path),
                       "the process there takes no connection; it is stopped or overloaded");
  }
  const bool nobody = err == ENOENT || err == ECONNREFUSED;
  return SystemError(err, absl::StrCat("control socket ", path),
                     nobody ? "no 'tapwire run' answers there; --socket names another one" : "");
}

SocketFile::SocketFile(std::string path) : path_(std::move(path)) {
  struct stat info;
  if (lstat(path_.c_str(), &info) != 0) return;
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

SocketFile::~SocketFile() {
  struct stat info;
  if (lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) {
    unlink(path_.c_str());
  }
}

}  // namespace tapwire::apps::ctl
