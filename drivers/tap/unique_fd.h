// SPDX-License-Identifier: Apache-2.0
//
// Owner of one file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace tapwire::drivers {

// Closes its descriptor when destroyed; -1 stands for none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  // Gives the descriptor to the caller, who closes it.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }

  // Closes the descriptor and owns `fd` from now on.
  void Reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    // EINTR is no reason to try again: Linux has released the descriptor by then.
    if (old >= 0 && old != fd) {
      close(old);
    }
  }

 private:
  int fd_ = -1;
};

}  // namespace tapwire::drivers
