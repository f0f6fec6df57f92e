// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/system_environment.h"

#include <sys/random.h>
#include <time.h>

#include <cerrno>

#include "netdev/base/check.h"

namespace tapwire {

Time SystemClock::Now() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

void SystemRandom::Fill(std::span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0) {
      // Only ENOSYS is left, on kernels before 3.17. There is no safe substitute.
      TW_CHECK(errno == EINTR, "getrandom(2) failed");
      continue;
    }
    out = out.subspan(static_cast<size_t>(got));
  }
}

}  // namespace tapwire
