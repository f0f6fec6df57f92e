// SPDX-License-Identifier: Apache-2.0
//
// The parts of PrettyPrint(), which are spread over two files. Not for use elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "netdev/wire/ip_address.h"

namespace tapwire::wire::internal {

// An upper-layer message to describe. `bytes` is what is present; `length` what the IP header
// declares, which may be more.
struct PrintedMessage {
  IpAddress src;
  IpAddress dst;
  std::span<const uint8_t> bytes;
  size_t length = 0;
  bool is_fragment = false;  // the rest of the message is in other packets
};

// "ICMP echo request, id 1, seq 1, length 64".
void AppendIcmpv4(const PrintedMessage& message, std::string& out);
// "ICMP6, neighbor solicitation, who has fe80::1, length 32".
void AppendIcmpv6(const PrintedMessage& message, std::string& out);
// "igmp v2 report 239.1.1.1".
void AppendIgmp(const PrintedMessage& message, std::string& out);

}  // namespace tapwire::wire::internal
