// SPDX-License-Identifier: Apache-2.0
// Whether a packet is the one that a script expects. Both in the script's numbers.
#pragma once

#include <string>

#include "apps/pkt/ast.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::pkt {

// Empty: it is. Else what differs: "sequence number 1001, expected 1". What the script does not
// write (window, acknowledgment number, ECN bits, options by <...>) is not compared; the sender's
// timestamp value never is.
std::string Mismatch(const PacketSpec& expected, const PacketSpec& actual, IpFamily family);

// Adds the segment that follows `whole` without a gap; false if it does not go with it.
bool Append(TcpSpec& whole, const TcpSpec& next);

// The sender's TSval; null without timestamps.
const OptionSpec* FindTimestamps(const TcpSpec& tcp);

}  // namespace tapwire::pkt
