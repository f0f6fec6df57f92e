// SPDX-License-Identifier: Apache-2.0
//
// The system calls of a TAP's data path behind an interface, so that a test can be the kernel that
// refuses a write. (A virtual call is about 1 ns of a system call's several hundred.)
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include "drivers/tap/tap_link.h"

namespace tapwire::drivers {

class TapIo {
 public:
  virtual ~TapIo() = default;
  // As readv(2) and writev(2), but a failure is the negative errno.
  virtual ssize_t Readv(int fd, const iovec* vectors, int count) = 0;
  virtual ssize_t Writev(int fd, const iovec* vectors, int count) = 0;
  virtual TapLinkState LinkState(int fd) = 0;
};

// The real ones.
class SystemTapIo final : public TapIo {
 public:
  ssize_t Readv(int fd, const iovec* vectors, int count) override;
  ssize_t Writev(int fd, const iovec* vectors, int count) override;
  TapLinkState LinkState(int fd) override;
};

}  // namespace tapwire::drivers
