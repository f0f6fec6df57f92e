// SPDX-License-Identifier: Apache-2.0
// How large a soak is: its full size in the release preset, a fraction elsewhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace tapwire::testutil {

// `full` divided by TAPWIRE_SOAK_DIVISOR of the environment (50 when it is not set), at least 1.
inline uint64_t SoakCount(uint64_t full) {
  const char* text = std::getenv("TAPWIRE_SOAK_DIVISOR");
  const uint64_t divisor =
      text == nullptr ? 50 : std::max<uint64_t>(1, std::strtoull(text, nullptr, 10));
  return std::max<uint64_t>(1, full / divisor);
}

}  // namespace tapwire::testutil
