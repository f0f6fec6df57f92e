// SPDX-License-Identifier: Apache-2.0
// The address of a peer as users write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::apps {
class Host;
}

namespace tapwire::apps::perf {

// "10.9.0.1", "fd00:9::1", "fe80::1%tw0" (the host's only interface, also the default for
// link-local addresses). `family` is what -4 or -6 asked for. kInvalidArgument with the text in the
// message.
absl::StatusOr<Endpoint> ParseTarget(const std::string& text, uint16_t port,
                                     std::optional<IpFamily> family, Host& host);

}  // namespace tapwire::apps::perf
