// SPDX-License-Identifier: Apache-2.0
// What scripts may ask for and neither the runner nor the stack has.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "apps/pkt/ast.h"

namespace tapwire::pkt {

// The feature a symbolic constant belongs to: "TCP Fast Open" for MSG_FASTOPEN.
std::optional<std::string> MissingFeatureOf(absl::string_view word);

// The first event that cannot be played, and why. Told before anything runs: half a script proves
// nothing.
std::optional<Diagnostic> FindUnsupported(const Script& script);

}  // namespace tapwire::pkt
