// SPDX-License-Identifier: Apache-2.0
//
// How a running user namespace is found again by another process of the same user: one small file
// per namespace in $XDG_RUNTIME_DIR/tapwire, or in /tmp/tapwire-<uid> where there is no such
// directory. Files of processes that have died are ignored and removed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tapwire::drivers {

struct UsernsInstance {
  pid_t pid = 0;              // the process that runs the stack
  pid_t holder_pid = 0;       // the child that holds the namespaces
  uint64_t holder_start = 0;  // its start time, which tells it from a later process with its pid
  std::string tap_name = {};
  std::string addresses = {};  // of the kernel's end, separated by spaces; for people
  bool operator==(const UsernsInstance&) const = default;
};

// Removes its file when destroyed.
class UsernsRecord {
 public:
  UsernsRecord() = default;
  UsernsRecord(UsernsRecord&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  UsernsRecord& operator=(UsernsRecord&& other) noexcept;
  ~UsernsRecord();

  // Writes the file. A directory that others could write to is refused.
  static absl::StatusOr<UsernsRecord> Write(const UsernsInstance& instance);

 private:
  explicit UsernsRecord(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Namespaces of this user that are alive, by pid.
absl::StatusOr<std::vector<UsernsInstance>> ListUsernsInstances();

// The one whose stack or holder has this pid; without a pid the only one. The message of the error
// lists what there is.
absl::StatusOr<UsernsInstance> FindUsernsInstance(std::optional<pid_t> pid);

// Moves the calling process into the user and network namespace; it has all capabilities there once
// it executes a program. The process must have one thread. After an error it may be half inside and
// should end.
absl::Status EnterUserns(const UsernsInstance& instance);

// Field 22 of /proc/PID/stat (clock ticks since boot); 0 if there is no such process.
uint64_t ProcessStartTime(pid_t pid);

namespace internal {
// Text form of a record, and back; nullopt if it is not one.
std::string FormatUsernsRecord(const UsernsInstance& instance);
std::optional<UsernsInstance> ParseUsernsRecord(absl::string_view text);
// The directories that may hold records, the one to write to first.
std::vector<std::string> UsernsRecordDirectories();
}  // namespace internal

}  // namespace tapwire::drivers
