// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/userns_record.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/tap/system_error.h"
#include "drivers/tap/unique_fd.h"
#include "netdev/base/status_util.h"

namespace tapwire::drivers {
namespace {

constexpr size_t kMaxFileBytes = 4096;
constexpr char kDirectoryRemedy[] = "set XDG_RUNTIME_DIR to a directory of your own";

// First bytes of a file; empty if it cannot be read.
std::string ReadFileAt(int directory, const char* path) {
  UniqueFd fd(openat(directory, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return "";
  }
  std::array<char, kMaxFileBytes> buffer;
  const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
  return got > 0 ? std::string(buffer.data(), static_cast<size_t>(got)) : "";
}

// Opens a record directory if it is ours alone. In /tmp anybody may have made it before us.
absl::StatusOr<UniqueFd> OpenDirectory(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return SystemError(errno, absl::StrCat("open directory ", path), kDirectoryRemedy);
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return SystemError(errno, absl::StrCat("stat ", path));
  }
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("directory ", path,
                     ": must belong to this user with mode 0700; remove it or set "
                     "XDG_RUNTIME_DIR to a directory of your own"));
  }
  return fd;
}

// Makes and opens the first directory that works; the error of the last one otherwise.
absl::StatusOr<std::pair<std::string, UniqueFd>> MakeDirectory() {
  absl::Status error;
  for (const std::string& path : internal::UsernsRecordDirectories()) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      error = SystemError(errno, absl::StrCat("make directory ", path), kDirectoryRemedy);
      continue;
    }
    absl::StatusOr<UniqueFd> fd = OpenDirectory(path);
    if (fd.ok()) {
      return std::make_pair(path, *std::move(fd));
    }
    error = fd.status();
  }
  return error;
}

std::string FileName(const UsernsInstance& instance) {
  return absl::StrCat(instance.pid, "-", instance.holder_pid);
}

bool IsAlive(const UsernsInstance& instance) {
  return instance.holder_start != 0 &&
         ProcessStartTime(instance.holder_pid) == instance.holder_start;
}

// Adds the living records of one directory and removes those of dead processes.
void CollectFrom(const std::string& path, std::vector<UsernsInstance>& found) {
  absl::StatusOr<UniqueFd> directory = OpenDirectory(path);
  if (!directory.ok()) {
    return;
  }
  DIR* entries = fdopendir(dup(directory->get()));
  if (entries == nullptr) {
    return;
  }
  while (const dirent* entry = readdir(entries)) {
    const std::optional<UsernsInstance> instance =
        internal::ParseUsernsRecord(ReadFileAt(directory->get(), entry->d_name));
    if (!instance.has_value() || FileName(*instance) != entry->d_name) {
      continue;
    }
    if (IsAlive(*instance)) {
      found.push_back(*instance);
    } else {
      unlinkat(directory->get(), entry->d_name, 0);
    }
  }
  closedir(entries);
}

std::string Describe(const std::vector<UsernsInstance>& instances) {
  std::string text;
  for (const UsernsInstance& instance : instances) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "pid ", instance.pid, " (TAP ",
                    instance.tap_name, instance.addresses.empty() ? "" : ", kernel side ",
                    instance.addresses, ")");
  }
  return text;
}

absl::Status JoinNamespace(pid_t pid, const char* kind, int type) {
  const std::string path = absl::StrCat("/proc/", pid, "/ns/", kind);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return SystemError(errno, absl::StrCat("open ", path),
                       "the namespace has ended or belongs to another user");
  }
  if (setns(fd.get(), type) != 0) {
    return SystemError(errno, absl::StrCat("enter ", path));
  }
  return absl::OkStatus();
}

}  // namespace

namespace internal {

std::string FormatUsernsRecord(const UsernsInstance& instance) {
  return absl::StrCat("pid=", instance.pid, "\nholder=", instance.holder_pid,
                      "\nholder_start=", instance.holder_start, "\ntap=", instance.tap_name,
                      "\naddr=", instance.addresses, "\n");
}

std::optional<UsernsInstance> ParseUsernsRecord(absl::string_view text) {
  UsernsInstance instance;
  bool valid = true;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (field.first == "pid") {
      valid = valid && absl::SimpleAtoi(field.second, &instance.pid);
    } else if (field.first == "holder") {
      valid = valid && absl::SimpleAtoi(field.second, &instance.holder_pid);
    } else if (field.first == "holder_start") {
      valid = valid && absl::SimpleAtoi(field.second, &instance.holder_start);
    } else if (field.first == "tap") {
      instance.tap_name = std::string(field.second);
    } else if (field.first == "addr") {
      instance.addresses = std::string(field.second);
    }
  }
  if (!valid || instance.pid <= 0 || instance.holder_pid <= 0) {
    return std::nullopt;
  }
  return instance;
}

std::vector<std::string> UsernsRecordDirectories() {
  std::vector<std::string> directories;
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') {
    directories.push_back(absl::StrCat(runtime, "/tapwire"));
  }
  directories.push_back(absl::StrCat("/tmp/tapwire-", geteuid()));
  return directories;
}

}  // namespace internal

UsernsRecord& UsernsRecord::operator=(UsernsRecord&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

UsernsRecord::~UsernsRecord() {
  if (!path_.empty()) {
    unlink(path_.c_str());
  }
}

absl::StatusOr<UsernsRecord> UsernsRecord::Write(const UsernsInstance& instance) {
  TW_ASSIGN_OR_RETURN(auto directory, MakeDirectory());
  const std::string name = FileName(instance);
  const std::string fresh = absl::StrCat(".", name);
  const std::string path = absl::StrCat(directory.first, "/", name);
  unlinkat(directory.second.get(), fresh.c_str(), 0);
  UniqueFd fd(openat(directory.second.get(), fresh.c_str(),
                     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string text = internal::FormatUsernsRecord(instance);
  if (!fd.valid() ||
      write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      renameat(directory.second.get(), fresh.c_str(), directory.second.get(), name.c_str()) != 0) {
    const int err = errno;
    unlinkat(directory.second.get(), fresh.c_str(), 0);
    return SystemError(err, absl::StrCat("write ", path));
  }
  return UsernsRecord(path);
}

absl::StatusOr<std::vector<UsernsInstance>> ListUsernsInstances() {
  std::vector<UsernsInstance> found;
  for (const std::string& path : internal::UsernsRecordDirectories()) {
    CollectFrom(path, found);
  }
  std::sort(found.begin(), found.end(), [](const UsernsInstance& a, const UsernsInstance& b) {
    return std::pair(a.pid, a.holder_pid) < std::pair(b.pid, b.holder_pid);
  });
  return found;
}

absl::StatusOr<UsernsInstance> FindUsernsInstance(std::optional<pid_t> pid) {
  TW_ASSIGN_OR_RETURN(const std::vector<UsernsInstance> all, ListUsernsInstances());
  std::vector<UsernsInstance> matching;
  std::copy_if(all.begin(), all.end(), std::back_inserter(matching),
               [&pid](const UsernsInstance& instance) {
                 return !pid.has_value() || instance.pid == *pid || instance.holder_pid == *pid;
               });
  if (matching.size() == 1) {
    return matching.front();
  }
  if (all.empty()) {
    return absl::NotFoundError(
        "no process of this user runs a TAP in a user namespace; start one with --net tap,userns");
  }
  if (matching.empty()) {
    return absl::NotFoundError(
        absl::StrCat("pid ", *pid, " runs no TAP in a user namespace; there are: ", Describe(all)));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("several TAPs in user namespaces, choose one with --pid: ", Describe(matching)));
}

absl::Status EnterUserns(const UsernsInstance& instance) {
  // The user namespace first: it gives the right to enter the other one.
  TW_RETURN_IF_ERROR(JoinNamespace(instance.holder_pid, "user", CLONE_NEWUSER));
  return JoinNamespace(instance.holder_pid, "net", CLONE_NEWNET);
}

uint64_t ProcessStartTime(pid_t pid) {
  const std::string text = ReadFileAt(AT_FDCWD, absl::StrCat("/proc/", pid, "/stat").c_str());
  // The second field is the program's name in parentheses, which may hold anything.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) {
    return 0;
  }
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(text).substr(end + 1), ' ', absl::SkipEmpty());
  uint64_t start = 0;
  constexpr size_t kStartTime = 22 - 3;  // the first field here is the third of the file
  // A zombie holds no namespace any more.
  if (fields.size() <= kStartTime || fields[0] == "Z" ||
      !absl::SimpleAtoi(fields[kStartTime], &start)) {
    return 0;
  }
  return start;
}

}  // namespace tapwire::drivers
