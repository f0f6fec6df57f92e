// SPDX-License-Identifier: Apache-2.0
// Lexer of the packet script language. The language has no keywords and no significant newlines;
// what a word means is the parser's business, which may ask whether two tokens touch (`S.`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tapwire::pkt {

// Both count from 1; 0 is "nowhere".
struct Pos {
  int line = 0;
  int column = 0;
  bool operator==(const Pos&) const = default;
};

// What is wrong with a script and where. `unsupported`: the script is sound, but uses something
// that the runner or the stack does not have.
struct Diagnostic {
  Pos pos;
  std::string message;
  bool unsupported = false;
};

enum class TokenKind : uint8_t {
  kEnd,
  kNumber,    // 12, 0x1f, 1.5, .5
  kWord,      // identifiers, and digits with letters behind them (cookies)
  kString,    // text without its quotes, escapes resolved
  kBacktick,  // text between backticks
  kCode,      // text between %{ and }%
  kOption,    // --name=value, at the start of a line; text without the dashes
  kEllipsis,  // ...
  kPunct,     // any other single character
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  Pos pos;
  size_t begin = 0;  // offsets into the source, to see whether tokens touch
  size_t end = 0;
  int last_line = 0;

  bool Is(char c) const { return kind == TokenKind::kPunct && text[0] == c; }
  bool IsWord(absl::string_view word) const { return kind == TokenKind::kWord && text == word; }
  bool Touches(const Token& next) const { return end == next.begin; }
};

// Words of the script that stand for other text (-D name=value).
using Defines = std::map<std::string, std::string, std::less<>>;

// The last token is kEnd. A word of `defines` is replaced by the tokens of its value.
struct LexResult {
  std::vector<Token> tokens;
  std::optional<Diagnostic> error;
};
LexResult Lex(absl::string_view source, const Defines& defines = {});

}  // namespace tapwire::pkt
