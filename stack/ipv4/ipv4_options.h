// SPDX-License-Identifier: Apache-2.0
// What a host thinks of the options of a received IPv4 header (RFC 1122 §3.2.1.8), and what a
// router writes into them (RFC 1812 §5.3.13).
#pragma once

#include <cstdint>
#include <span>

#include "netdev/base/drop_reason.h"
#include "netdev/base/time.h"
#include "netdev/wire/ipv4.h"

namespace tapwire {

struct Ipv4OptionsVerdict {
  DropReason reason = DropReason::kNone;
  uint8_t pointer = 0;  // kIpv4BadOptions: the byte at fault, from the start of the IP header
};

// kNone, kIpv4BadOptions, or kIpv4SourceRoute. Unknown options are skipped; none is acted upon, and
// a host writes nothing into a recorded route or a timestamp list.
Ipv4OptionsVerdict CheckIpv4Options(const wire::Ipv4Header& header);

// What a router leaves in options that have passed CheckIpv4Options(): its address `here` at the
// next free place of a recorded route (RFC 1812 §5.3.13.3), and the time `now` in a timestamp list
// (§5.3.13.4), marked as not counted from midnight, since there is no calendar here (RFC 791 §3.1).
// A list that asks for the times of certain hosts only gets ours if `here` is the next of them. The
// caller renews the header checksum. False if nothing was written.
bool RecordHop(std::span<uint8_t> options, Ipv4Address here, Time now);

// RFC 791 §3.1: options without the copied flag are in the first fragment only. They are replaced
// by no-operations, so that the header keeps its length.
void BlankUncopiedOptions(std::span<uint8_t> options);

}  // namespace tapwire
