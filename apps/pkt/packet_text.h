// SPDX-License-Identifier: Apache-2.0
// Packets as a script writes them, for messages: "> P. 1:1001(1000) ack 1 win 256 <nop,nop,…>".
#pragma once

#include <string>

#include "apps/pkt/ast.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::pkt {

std::string PacketText(const PacketSpec& packet, IpFamily family);
std::string OptionsText(const std::vector<OptionSpec>& options);
std::string FlagsText(uint8_t flags);
// "0.040000": seconds since the start of the script.
std::string TimeText(Duration time);

}  // namespace tapwire::pkt
