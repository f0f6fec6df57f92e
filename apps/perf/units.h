// SPDX-License-Identifier: Apache-2.0
// Amounts as throughput tools write them: bytes in steps of 1024, bits in steps of 1000, three
// significant digits.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tapwire::apps::perf {

// "1.75 GBytes", " 640 KBytes", "0.00 Bytes": four characters of number at least.
std::string FormatBytes(double bytes);
// "5.01 Gbits" of a rate in bits per second. `unit` is that of -f: 'a' chooses; k, m, g, t are
// fixed steps of bits, K, M, G, T of bytes ("1.25 MBytes").
std::string FormatRate(double bits_per_second, char unit = 'a');

// "128K" and so on, case-blind; K, M, G, T multiply by powers of `step` (1024 for sizes, 1000 for
// rates). A fraction ("1.5M") is fine. kInvalidArgument: not a number, negative, above 2^63.
absl::StatusOr<uint64_t> ParseAmount(absl::string_view text, uint64_t step);

}  // namespace tapwire::apps::perf
