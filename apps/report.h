// SPDX-License-Identifier: Apache-2.0
// How commands speak: errors on stderr, ICMP errors in ping's words.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "stack/ip.h"

namespace tapwire::apps {

// Control characters as \n, \t or \x1b, so that text from outside stays on its line.
std::string OneLine(absl::string_view text);

// Hands on what was printed; the first failure is kept for FinishOutput().
void FlushOutput(std::FILE* out = stdout);
// The last step of the program: says on stderr if something printed on stdout was lost. Then 1
// instead of 0.
int FinishOutput(int exit_code);

// Prints "tapwire COMMAND: message" on stderr, in one line. Returns 2 for kInvalidArgument (bad
// usage) and `failure` otherwise.
int ReportError(absl::string_view command, const absl::Status& status, int failure = 1);

// "Destination Host Unreachable", "Packet too big: mtu=1400", …
std::string DescribeIcmpError(IcmpErrorKind kind, uint32_t value);

}  // namespace tapwire::apps
