// SPDX-License-Identifier: Apache-2.0
// Runs one script from its text: parses, applies its options, plays it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "apps/pkt/interpreter.h"
#include "apps/pkt/settings.h"

namespace tapwire::pkt {

// The options of the script win over `options`, except for the names in `fixed` ("mtu"), which the
// user gave.
RunResult RunScript(absl::string_view source, RunOptions options,
                    const std::vector<std::string>& fixed = {});

}  // namespace tapwire::pkt
