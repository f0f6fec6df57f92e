// SPDX-License-Identifier: Apache-2.0
//
// The state behind TW_LOG_EVERY_N, apart from log.h: headers for users hold one as a member and
// must not bring macros along.
#pragma once

#include <cstdint>

namespace tapwire {

// Caller-owned state of a rate limit. One per place or per object, as the caller likes.
class LogEveryN {
 public:
  // True on the 1st, (n+1)th, (2n+1)th … call. n = 0 counts as 1.
  bool ShouldLog(uint64_t n) { return calls_++ % (n == 0 ? 1 : n) == 0; }

  uint64_t calls() const { return calls_; }

 private:
  uint64_t calls_ = 0;
};

}  // namespace tapwire
