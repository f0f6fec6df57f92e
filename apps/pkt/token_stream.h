// SPDX-License-Identifier: Apache-2.0
// The parsers' view of the tokens: look, take, and the first error, after which nothing matters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/pkt/lexer.h"

namespace tapwire::pkt {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // Beyond the end: the kEnd token.
  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
  }
  const Token& Take() {
    const Token& token = Peek();
    previous_line_ = token.last_line;
    if (next_ + 1 < tokens_.size()) ++next_;
    return token;
  }
  bool AtEnd() const { return Peek().kind == TokenKind::kEnd; }
  // Whether the next token is on the line where the last one ended.
  bool SameLine() const { return Peek().pos.line == previous_line_; }

  bool Accept(char c) {
    if (!Peek().Is(c)) return false;
    Take();
    return true;
  }
  bool AcceptWord(absl::string_view word) {
    if (!Peek().IsWord(word)) return false;
    Take();
    return true;
  }
  bool Expect(char c) {
    return Accept(c) || Fail(absl::StrCat("expected '", std::string(1, c), "', found ", Found()));
  }

  // A whole number, decimal or hexadecimal, of at most `limit`.
  bool TakeNumber(const char* what, uint64_t limit, uint64_t& out) {
    const Token& token = Peek();
    if (token.kind != TokenKind::kNumber || !ParseInteger(token.text, out)) {
      return Fail(absl::StrCat("expected ", what, ", found ", Found()));
    }
    if (out > limit) return Fail(absl::StrCat(what, " ", token.text, " is above ", limit));
    Take();
    return true;
  }
  template <typename T>
  bool TakeInteger(const char* what, T& out) {
    uint64_t value = 0;
    if (!TakeNumber(what, std::numeric_limits<T>::max(), value)) return false;
    out = static_cast<T>(value);
    return true;
  }
  static bool ParseInteger(absl::string_view text, uint64_t& out) {
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
      return absl::SimpleHexAtoi(text, &out);
    }
    return absl::SimpleAtoi(text, &out);
  }

  // Always false, so that `return Fail(…)` ends a parse function. The first error stays.
  bool Fail(std::string message) { return FailAt(Peek().pos, std::move(message), false); }
  bool Unsupported(std::string reason) { return FailAt(Peek().pos, std::move(reason), true); }
  bool FailAt(Pos pos, std::string message, bool unsupported) {
    if (!error_) error_ = Diagnostic{pos, std::move(message), unsupported};
    return false;
  }
  bool failed() const { return error_.has_value(); }
  const std::optional<Diagnostic>& error() const { return error_; }

  std::string Found() const {
    const Token& token = Peek();
    switch (token.kind) {
      case TokenKind::kEnd:
        return "the end of the script";
      case TokenKind::kString:
        return "a string";
      case TokenKind::kBacktick:
        return "a command";
      case TokenKind::kCode:
        return "code";
      default:
        return absl::StrCat("'", token.text, "'");
    }
  }

 private:
  std::vector<Token> tokens_;
  size_t next_ = 0;
  int previous_line_ = 0;
  std::optional<Diagnostic> error_;
};

// The parts of the parser, each in the file of its name. All return false after an error.
bool ParsePacket(TokenStream& in, struct PacketSpec& packet);     // parse_packet.cc
bool ParseIcmp(TokenStream& in, struct IcmpSpec& icmp);           // parse_icmp.cc
bool ParseTcpOptions(TokenStream& in, struct TcpSpec& tcp);       // parse_options.cc
bool ParseSyscall(TokenStream& in, struct SyscallSpec& syscall);  // parse_syscall.cc
// `seq:end(length)`, as TCP segments and ICMP quotes have it.
bool ParseSequence(TokenStream& in, uint32_t& seq, uint32_t& length);

}  // namespace tapwire::pkt
