// SPDX-License-Identifier: Apache-2.0
// How commands speak: errors on stderr, ICMP errors in ping's words.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "stack/ip.h"

namespace tapwire::apps {

// Prints "tapwire COMMAND: message" on stderr. Returns 2 for kInvalidArgument (bad usage) and
// `failure` otherwise.
int ReportError(absl::string_view command, const absl::Status& status, int failure = 1);

// "Destination Host Unreachable", "Packet too big: mtu=1400", …
std::string DescribeIcmpError(IcmpErrorKind kind, uint32_t value);

}  // namespace tapwire::apps
