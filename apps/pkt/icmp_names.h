// SPDX-License-Identifier: Apache-2.0
// Names that scripts give to ICMP messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::pkt {

struct IcmpNumbers {
  uint8_t type = 0;
  uint8_t code = 0;
};

// The numbers in that family; none if it has no such message. An empty code is 0.
std::optional<IcmpNumbers> FindIcmp(IpFamily family, absl::string_view type,
                                    absl::string_view code);
// Whether either family has it.
bool IsIcmpName(absl::string_view type, absl::string_view code);
// "unreachable frag_needed"; numbers where there is no name.
std::string IcmpName(IpFamily family, IcmpNumbers numbers);

}  // namespace tapwire::pkt
