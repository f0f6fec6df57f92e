// SPDX-License-Identifier: Apache-2.0
// What a host thinks of the options of a received IPv4 header (RFC 1122 §3.2.1.8).
#pragma once

#include <cstdint>

#include "netdev/base/drop_reason.h"
#include "netdev/wire/ipv4.h"

namespace tapwire {

struct Ipv4OptionsVerdict {
  DropReason reason = DropReason::kNone;
  uint8_t pointer = 0;  // kIpv4BadOptions: the byte at fault, from the start of the IP header
};

// kNone, kIpv4BadOptions, or kIpv4SourceRoute. Unknown options are skipped; none is acted upon, so
// nothing is ever written into a recorded route or a timestamp list.
Ipv4OptionsVerdict CheckIpv4Options(const wire::Ipv4Header& header);

}  // namespace tapwire
