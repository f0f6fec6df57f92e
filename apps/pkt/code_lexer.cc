// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/code_lexer.h"

#include <utility>

#include "absl/strings/ascii.h"

namespace tapwire::pkt {
namespace {

// Longest first.
constexpr absl::string_view kOperators[] = {
    "**", "//", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "(", ")", "+", "-",
    "*",  "/",  "%",  "<",  ">",  "=",  ",",  ";",  "&",  "|",  "^", "~", "[", "]"};

bool IsNamePart(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class CodeLexer {
 public:
  explicit CodeLexer(absl::string_view code) : code_(code) {}

  std::vector<CodeToken> Run() {
    while (at_ < code_.size()) Next();
    Add(CodeToken::Kind::kNewline, 0);
    Add(CodeToken::Kind::kEnd, 0);
    return std::move(tokens_);
  }

 private:
  char At(size_t ahead = 0) const { return at_ + ahead < code_.size() ? code_[at_ + ahead] : '\0'; }

  void Add(CodeToken::Kind kind, size_t length) {
    tokens_.push_back({kind, std::string(code_.substr(at_, length)), line_, at_});
    at_ += length;
  }

  void Next() {
    const char c = At();
    if (c == '\n') return Newline();
    if (c == '\\' && At(1) == '\n') {
      ++line_;
      at_ += 2;
    } else if (absl::ascii_isspace(static_cast<unsigned char>(c))) {
      ++at_;
    } else if (c == '#') {
      while (at_ < code_.size() && At() != '\n') ++at_;
    } else if (c == '"' || c == '\'') {
      String(c);
    } else if (absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.') {
      Number();
    } else if (IsNamePart(c)) {
      size_t n = 1;
      while (IsNamePart(At(n))) ++n;
      Add(CodeToken::Kind::kName, n);
    } else {
      Operator();
    }
  }

  void Newline() {
    if (depth_ == 0) {
      Add(CodeToken::Kind::kNewline, 1);
    } else {
      ++at_;
    }
    ++line_;
  }

  void Number() {
    size_t n = 0;
    while (IsNamePart(At(n)) || At(n) == '.') ++n;
    Add(CodeToken::Kind::kNumber, n);
  }

  void String(char quote) {
    std::string text;
    const size_t begin = at_++;
    while (at_ < code_.size() && At() != quote && At() != '\n') {
      if (At() == '\\' && at_ + 1 < code_.size()) ++at_;
      text += code_[at_++];
    }
    const bool closed = at_ < code_.size() && At() == quote;
    if (closed) ++at_;
    tokens_.push_back(
        {closed ? CodeToken::Kind::kString : CodeToken::Kind::kBad, text, line_, begin});
  }

  void Operator() {
    for (const absl::string_view op : kOperators) {
      if (code_.substr(at_, op.size()) != op) continue;
      if (op == "(" || op == "[") ++depth_;
      if ((op == ")" || op == "]") && depth_ > 0) --depth_;
      return Add(CodeToken::Kind::kOperator, op.size());
    }
    Add(CodeToken::Kind::kBad, 1);
  }

  absl::string_view code_;
  size_t at_ = 0;
  int line_ = 0;
  int depth_ = 0;
  std::vector<CodeToken> tokens_;
};

}  // namespace

std::vector<CodeToken> LexCode(absl::string_view code) { return CodeLexer(code).Run(); }

}  // namespace tapwire::pkt
