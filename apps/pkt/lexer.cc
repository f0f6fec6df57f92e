// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/lexer.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace tapwire::pkt {
namespace {

bool IsWordStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsWordPart(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(source) {}

  LexResult Run() {
    while (!result_.error && SkipBlank()) Next();
    Start(TokenKind::kEnd);
    Finish("");
    return std::move(result_);
  }

 private:
  char At(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool AtEnd() const { return at_ >= source_.size(); }
  bool LooksAt(absl::string_view text) const { return source_.substr(at_, text.size()) == text; }

  void Advance(size_t count = 1) {
    for (; count > 0 && !AtEnd(); --count, ++at_) {
      if (source_[at_] == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
    }
  }

  Pos Here() const { return {line_, static_cast<int>(at_ - line_start_) + 1}; }

  // False at the end of the source.
  bool SkipBlank() {
    while (!AtEnd() && !result_.error) {
      if (absl::ascii_isspace(static_cast<unsigned char>(At()))) {
        Advance();
      } else if (LooksAt("//") || At() == '#') {
        SkipLine();
      } else if (LooksAt("/*")) {
        SkipBlockComment();
      } else {
        return true;
      }
    }
    return false;
  }

  void SkipLine() {
    while (!AtEnd() && At() != '\n') Advance();
  }

  void SkipBlockComment() {
    const Pos start = Here();
    const size_t close = source_.find("*/", at_ + 2);
    if (close == absl::string_view::npos) return Fail(start, "comment without end");
    Advance(close + 2 - at_);
  }

  void Next() {
    if (LooksAt("--") && OnlyBlankBefore() && IsWordStart(At(2))) return Option();
    if (LooksAt("%{")) return Delimited(TokenKind::kCode, 2, "}%", "code without }%");
    if (At() == '`') return Delimited(TokenKind::kBacktick, 1, "`", "command without closing `");
    if (At() == '"') return String();
    if (LooksAt("...")) return Take(TokenKind::kEllipsis, 3);
    if (IsDigit(At()) || (At() == '.' && IsDigit(At(1)))) return Number();
    if (IsWordStart(At())) return Word();
    Take(TokenKind::kPunct, 1);
  }

  bool OnlyBlankBefore() const {
    for (size_t i = line_start_; i < at_; ++i) {
      if (!absl::ascii_isspace(static_cast<unsigned char>(source_[i]))) return false;
    }
    return true;
  }

  void Start(TokenKind kind) {
    token_ = Token();
    token_.kind = kind;
    token_.pos = Here();
    token_.begin = at_;
  }
  void Finish(absl::string_view text) {
    token_.text = std::string(text);
    token_.end = at_;
    token_.last_line = line_;
    result_.tokens.push_back(std::move(token_));
  }
  void Fail(Pos pos, std::string message) { result_.error = {pos, std::move(message)}; }

  void Take(TokenKind kind, size_t length) {
    Start(kind);
    const absl::string_view text = source_.substr(at_, length);
    Advance(length);
    Finish(text);
  }

  void Option() {
    size_t end = at_ + 2;
    bool quoted = false;
    while (end < source_.size() && source_[end] != '\n') {
      if (source_[end] == '"') quoted = !quoted;
      if (!quoted && absl::ascii_isspace(static_cast<unsigned char>(source_[end]))) break;
      ++end;
    }
    Start(TokenKind::kOption);
    const absl::string_view text = source_.substr(at_ + 2, end - at_ - 2);
    Advance(end - at_);
    Finish(text);
  }

  void Delimited(TokenKind kind, size_t open, absl::string_view close, const char* problem) {
    Start(kind);
    const size_t start = at_ + open;
    const size_t end = source_.find(close, start);
    if (end == absl::string_view::npos) return Fail(Here(), problem);
    Advance(end + close.size() - at_);
    Finish(source_.substr(start, end - start));
  }

  void String() {
    Start(TokenKind::kString);
    std::string text;
    Advance();
    while (!AtEnd() && At() != '"' && At() != '\n') {
      if (At() == '\\') {
        Advance();
        text += Escaped(At());
      } else {
        text += At();
      }
      Advance();
    }
    if (At() != '"') return Fail(token_.pos, "string without closing \"");
    Advance();
    Finish(text);
  }

  static char Escaped(char c) {
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case '0':
        return '\0';
      default:
        return c;
    }
  }

  // "0...0.2" is 0, ..., 0.2: a point belongs to the number only if no second one follows.
  void Number() {
    size_t n = 0;
    bool word = false;
    if (At() == '0' && (At(1) == 'x' || At(1) == 'X') &&
        absl::ascii_isxdigit(static_cast<unsigned char>(At(2)))) {
      n = 2;
      while (absl::ascii_isxdigit(static_cast<unsigned char>(At(n)))) ++n;
    } else {
      while (IsDigit(At(n))) ++n;
      if (At(n) == '.' && At(n + 1) != '.' && !IsWordStart(At(n + 1))) {
        ++n;
        while (IsDigit(At(n))) ++n;
      }
    }
    for (; IsWordPart(At(n)); ++n) word = true;
    Take(word ? TokenKind::kWord : TokenKind::kNumber, n);
  }

  void Word() {
    size_t n = 1;
    while (IsWordPart(At(n))) ++n;
    Take(TokenKind::kWord, n);
  }

  absl::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_start_ = 0;
  Token token_;
  LexResult result_;
};

// The tokens of a define's value, placed where the word was.
std::optional<Diagnostic> Replace(const Token& word, const std::string& value,
                                  std::vector<Token>& out) {
  LexResult inner = Lexer(value).Run();
  if (inner.error) {
    return Diagnostic{word.pos, "value of " + word.text + ": " + inner.error->message};
  }
  inner.tokens.pop_back();
  for (Token& token : inner.tokens) {
    token.pos = word.pos;
    token.begin = word.begin;
    token.end = word.end;
    token.last_line = word.last_line;
    out.push_back(std::move(token));
  }
  return std::nullopt;
}

void AddDefine(absl::string_view option, Defines& defines) {
  if (!absl::ConsumePrefix(&option, "define=")) return;
  const size_t equals = option.find('=');
  if (equals == absl::string_view::npos) return;
  absl::string_view value = option.substr(equals + 1);
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    value = value.substr(1, value.size() - 2);
  }
  defines.emplace(std::string(option.substr(0, equals)), std::string(value));
}

}  // namespace

LexResult Lex(absl::string_view source, const Defines& given) {
  LexResult result = Lexer(source).Run();
  if (result.error) return result;
  // --define=name=value in the script; the caller's value wins.
  Defines defines = given;
  for (const Token& token : result.tokens) {
    if (token.kind == TokenKind::kOption) AddDefine(token.text, defines);
  }
  if (defines.empty()) return result;
  std::vector<Token> replaced;
  for (Token& token : result.tokens) {
    const auto define = token.kind == TokenKind::kWord ? defines.find(token.text) : defines.end();
    if (define == defines.end()) {
      replaced.push_back(std::move(token));
      continue;
    }
    result.error = Replace(token, define->second, replaced);
    if (result.error) return result;
  }
  result.tokens = std::move(replaced);
  return result;
}

}  // namespace tapwire::pkt
