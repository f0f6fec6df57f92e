// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tapwire {

void CheckFailed(const char* file, int line, const char* expression, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, expression,
               *message == '\0' ? "" : ": ", message);
  std::abort();
}

}  // namespace tapwire
