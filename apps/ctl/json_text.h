// SPDX-License-Identifier: Apache-2.0
// JSON as iproute2 and ethtool write it.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace tapwire::apps::ctl {

using Json = nlohmann::ordered_json;

// One line without blanks, or (`pretty`) indented by four with a member on each line; both end with
// a line feed. Bytes that are not UTF-8 are replaced.
std::string JsonText(const Json& json, bool pretty);

}  // namespace tapwire::apps::ctl
