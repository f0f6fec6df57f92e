// SPDX-License-Identifier: Apache-2.0
// Tokens of the Python subset. Newlines end statements except inside parentheses; indentation means
// nothing, since there are no compound statements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tapwire::pkt {

struct CodeToken {
  enum class Kind : uint8_t { kEnd, kNewline, kNumber, kName, kString, kOperator, kBad };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 0;
  size_t begin = 0;

  bool Is(absl::string_view op) const { return kind == Kind::kOperator && text == op; }
  bool IsName(absl::string_view name) const { return kind == Kind::kName && text == name; }
};

// The last token is kEnd.
std::vector<CodeToken> LexCode(absl::string_view code);

}  // namespace tapwire::pkt
