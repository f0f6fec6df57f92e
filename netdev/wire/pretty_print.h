// SPDX-License-Identifier: Apache-2.0
//
// One line of text per frame in the manner of tcpdump, for tracers and failing tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tapwire::wire {

// Describes an Ethernet frame, for example
//   IP 10.77.0.1.46580 > 10.77.0.2.81: Flags [S], seq 1, win 64240, options
//   [mss 1460], length 0
// Never fails and never reads outside `frame`: what cannot be read shows as "[|ip]" and the like.
// Sequence numbers are absolute, as there is no memory between frames. The result has no newline.
std::string PrettyPrint(std::span<const uint8_t> frame);

// The same for a packet that begins with its IP header; the first nibble tells the version.
std::string PrettyPrintIp(std::span<const uint8_t> packet);

}  // namespace tapwire::wire
