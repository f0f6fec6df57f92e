// SPDX-License-Identifier: Apache-2.0
// Parser of the packet script language: text to Script. Never fails otherwise than by a Diagnostic.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "apps/pkt/ast.h"

namespace tapwire::pkt {

struct ParseResult {
  Script script;
  std::optional<Diagnostic> error;
};

ParseResult ParseScript(absl::string_view source, const Defines& defines = {});

}  // namespace tapwire::pkt
