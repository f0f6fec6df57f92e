// SPDX-License-Identifier: Apache-2.0
// Ephemeral port selection (RFC 6056 §3.3.1, "simple port randomization"): a random start, then the
// following ports in order until one is free. The search is bounded by the size of the range.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "netdev/base/random.h"

namespace tapwire {

// A free port in [low, high], or nullopt when `is_free` refuses all of them. low ≤ high.
inline std::optional<uint16_t> AllocatePort(Random& random, uint16_t low, uint16_t high,
                                            absl::FunctionRef<bool(uint16_t)> is_free) {
  const uint32_t count = static_cast<uint32_t>(high - low) + 1;
  uint32_t offset = random.Uniform(count);
  for (uint32_t tried = 0; tried < count; ++tried) {
    const auto port = static_cast<uint16_t>(low + offset);
    if (is_free(port)) return port;
    offset = offset + 1 == count ? 0 : offset + 1;
  }
  return std::nullopt;
}

}  // namespace tapwire
