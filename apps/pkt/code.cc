// SPDX-License-Identifier: Apache-2.0
// Evaluates while it parses: there are no loops or functions, so everything is read once. Both
// sides of and/or are evaluated, which shows nowhere, as nothing has side effects.
#include "apps/pkt/code.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/pkt/code_lexer.h"

namespace tapwire::pkt {
namespace {

constexpr int kMaxDepth = 64;

// Wraps instead of overflowing; no assertion comes near.
int64_t Wrap(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }

// Python rounds a quotient down, and the remainder has the divisor's sign.
int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == -1) return Wrap(0 - Bits(a));
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
int64_t FloorModulo(int64_t a, int64_t b) {
  return Wrap(Bits(a) - Bits(FloorDivide(a, b)) * Bits(b));
}

bool Compare(absl::string_view op, int order) {
  if (op == "==") return order == 0;
  if (op == "!=") return order != 0;
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

template <typename T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

class CodeRunner {
 public:
  CodeRunner(absl::string_view code, CodeVariables& variables, const CodeLookup& lookup)
      : code_(code), tokens_(LexCode(code)), variables_(variables), lookup_(lookup) {}

  CodeResult Run() {
    while (Ok() && Peek().kind != CodeToken::Kind::kEnd) {
      if (Peek().kind == CodeToken::Kind::kNewline || Peek().Is(";")) {
        Take();
      } else {
        Statement();
      }
    }
    return std::move(result_);
  }

 private:
  bool Ok() const { return result_.outcome == CodeOutcome::kPassed; }
  const CodeToken& Peek(size_t ahead = 0) const {
    return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
  }
  const CodeToken& Take() {
    const CodeToken& token = Peek();
    if (next_ + 1 < tokens_.size()) ++next_;
    return token;
  }
  bool Accept(absl::string_view op) {
    if (!Peek().Is(op)) return false;
    Take();
    return true;
  }
  bool AcceptName(absl::string_view name) {
    if (!Peek().IsName(name)) return false;
    Take();
    return true;
  }
  bool AtStatementEnd() const {
    const CodeToken::Kind kind = Peek().kind;
    return kind == CodeToken::Kind::kNewline || kind == CodeToken::Kind::kEnd || Peek().Is(";");
  }

  CodeValue Stop(CodeOutcome outcome, std::string message) {
    if (Ok()) result_ = {outcome, std::move(message), Peek().line};
    return {};
  }
  CodeValue Unsupported(const std::string& what) {
    return Stop(CodeOutcome::kUnsupported, absl::StrCat("code: ", what));
  }
  CodeValue Wrong(const std::string& what) { return Stop(CodeOutcome::kFailed, what); }

  void Statement() {
    if (AcceptName("assert")) return Assert();
    if (AcceptName("print")) return SkipStatement();
    if (AcceptName("pass")) return EndStatement();
    const bool assignment = Peek().kind == CodeToken::Kind::kName && Peek(1).Is("=");
    if (assignment) return Assign();
    if (Peek().kind == CodeToken::Kind::kBad || Peek().kind != CodeToken::Kind::kName) {
      Wrong(absl::StrCat("code: '", Peek().text, "' does not start a statement"));
      return;
    }
    Unsupported(absl::StrCat("statement '", Peek().text, "'"));
  }

  void SkipStatement() {
    while (!AtStatementEnd()) Take();
  }
  void EndStatement() {
    if (Ok() && !AtStatementEnd()) {
      Unsupported(absl::StrCat("'", Peek().text, "' behind a statement"));
    }
  }

  void Assert() {
    // Values of the names in the test, for the message.
    names_.clear();
    const int line = Peek().line;
    const size_t begin = Peek().begin;
    const CodeValue test = Expression();
    const size_t end = Peek().begin;
    std::string message;
    if (Accept(",")) message = Expression().ToString();
    EndStatement();
    if (!Ok() || test.Truth()) return;
    std::string text(code_.substr(begin, end - begin));
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
    std::string why = absl::StrCat("assertion failed: ", text);
    for (const auto& [name, value] : names_) absl::StrAppend(&why, "; ", name, " is ", value);
    if (!message.empty()) absl::StrAppend(&why, "; ", message);
    Wrong(why);
    result_.line = line;
  }

  void Assign() {
    const std::string name = Take().text;
    Take();
    CodeValue value = Expression();
    EndStatement();
    if (Ok()) variables_[name] = std::move(value);
  }

  CodeValue Expression() {
    if (++depth_ > kMaxDepth) return Wrong("code: nested too deeply");
    CodeValue left = And();
    while (Ok() && AcceptName("or")) {
      CodeValue right = And();
      if (!left.Truth()) left = std::move(right);
    }
    --depth_;
    return left;
  }

  CodeValue And() {
    CodeValue left = Not();
    while (Ok() && AcceptName("and")) {
      CodeValue right = Not();
      if (left.Truth()) left = std::move(right);
    }
    return left;
  }

  CodeValue Not() {
    bool negate = false;
    bool any = false;
    while (AcceptName("not")) {
      negate = !negate;
      any = true;
    }
    CodeValue value = Comparison();
    return any ? CodeValue::Integer(value.Truth() != negate ? 1 : 0) : value;
  }

  bool AtComparison() const {
    return Peek().Is("==") || Peek().Is("!=") || Peek().Is("<") || Peek().Is("<=") ||
           Peek().Is(">") || Peek().Is(">=");
  }

  // a < b < c is (a < b) and (b < c).
  CodeValue Comparison() {
    CodeValue left = BitOr();
    const bool negated = Peek().IsName("not") && Peek(1).IsName("in");
    if (negated) Take();
    if (AcceptName("in")) return CodeValue::Integer(IsMember(left) != negated ? 1 : 0);
    if (Peek().IsName("is")) return Unsupported(Peek().text);
    if (!AtComparison()) return left;
    bool holds = true;
    while (Ok() && AtComparison()) {
      const std::string op = Take().text;
      CodeValue right = BitOr();
      holds = CompareValues(op, left, right) && holds;
      left = std::move(right);
    }
    return CodeValue::Integer(holds ? 1 : 0);
  }

  // Of a list in parentheses or brackets, or a text in a text.
  bool IsMember(const CodeValue& value) {
    const bool bracket = Peek().Is("[");
    if (!bracket && !Peek().Is("(")) {
      const CodeValue text = BitOr();
      if (text.IsNumber() || value.IsNumber()) Unsupported("'in' of a number");
      return Ok() && text.text.find(value.text) != std::string::npos;
    }
    Take();
    const absl::string_view close = bracket ? "]" : ")";
    bool found = false;
    while (Ok() && !Accept(close)) {
      found = CompareValues("==", value, Expression()) || found;
      if (!Accept(",") && !Peek().Is(close)) Unsupported("'" + Peek().text + "' in a list");
    }
    return found;
  }

  bool CompareValues(absl::string_view op, const CodeValue& a, const CodeValue& b) {
    if (a.IsNumber() != b.IsNumber()) return op == "!=";
    if (!a.IsNumber()) return Compare(op, Order(a.text, b.text));
    if (a.kind == CodeValue::Kind::kInteger && b.kind == CodeValue::Kind::kInteger) {
      return Compare(op, Order(a.integer, b.integer));
    }
    return Compare(op, Order(a.AsFloat(), b.AsFloat()));
  }

  CodeValue BitOr() {
    CodeValue left = BitAnd();
    while (Ok() && (Peek().Is("|") || Peek().Is("^"))) left = Binary(left, &CodeRunner::BitAnd);
    return left;
  }
  CodeValue BitAnd() {
    CodeValue left = Shift();
    while (Ok() && Peek().Is("&")) left = Binary(left, &CodeRunner::Shift);
    return left;
  }
  CodeValue Shift() {
    CodeValue left = Sum();
    while (Ok() && (Peek().Is("<<") || Peek().Is(">>"))) left = Binary(left, &CodeRunner::Sum);
    return left;
  }
  CodeValue Sum() {
    CodeValue left = Product();
    while (Ok() && (Peek().Is("+") || Peek().Is("-"))) left = Binary(left, &CodeRunner::Product);
    return left;
  }
  CodeValue Product() {
    CodeValue left = Unary();
    while (Ok() && (Peek().Is("*") || Peek().Is("/") || Peek().Is("//") || Peek().Is("%"))) {
      left = Binary(left, &CodeRunner::Unary);
    }
    return left;
  }

  CodeValue Binary(const CodeValue& left, CodeValue (CodeRunner::*operand)()) {
    const std::string op = Take().text;
    const CodeValue right = (this->*operand)();
    if (!Ok()) return {};
    if (!left.IsNumber() || !right.IsNumber()) return Texts(op, left, right);
    if (op == "/" || left.kind == CodeValue::Kind::kFloat ||
        right.kind == CodeValue::Kind::kFloat) {
      return Floats(op, left.AsFloat(), right.AsFloat());
    }
    return Integers(op, left.integer, right.integer);
  }

  CodeValue Texts(absl::string_view op, const CodeValue& a, const CodeValue& b) {
    if (op == "+" && !a.IsNumber() && !b.IsNumber()) return CodeValue::Text(a.text + b.text);
    // Formatting serves messages only: the pattern will do.
    if (op == "%" && !a.IsNumber()) return CodeValue::Text(absl::StrCat(a.text, " ", b.ToString()));
    return Wrong("code: arithmetic with text");
  }

  CodeValue Floats(absl::string_view op, double a, double b) {
    if ((op == "/" || op == "//" || op == "%") && b == 0) return Wrong("code: division by zero");
    if (op == "+") return CodeValue::Float(a + b);
    if (op == "-") return CodeValue::Float(a - b);
    if (op == "*") return CodeValue::Float(a * b);
    if (op == "/") return CodeValue::Float(a / b);
    if (op == "//") return CodeValue::Float(std::floor(a / b));
    if (op == "%") return CodeValue::Float(a - b * std::floor(a / b));
    return Wrong("code: bits of a number with a point");
  }

  CodeValue Integers(absl::string_view op, int64_t a, int64_t b) {
    if ((op == "//" || op == "%") && b == 0) return Wrong("code: division by zero");
    if ((op == "<<" || op == ">>") && (b < 0 || b > 62)) return Wrong("code: shift too far");
    if (op == "+") return CodeValue::Integer(Wrap(Bits(a) + Bits(b)));
    if (op == "-") return CodeValue::Integer(Wrap(Bits(a) - Bits(b)));
    if (op == "*") return CodeValue::Integer(Wrap(Bits(a) * Bits(b)));
    if (op == "//") return CodeValue::Integer(FloorDivide(a, b));
    if (op == "%") return CodeValue::Integer(FloorModulo(a, b));
    if (op == "<<") return CodeValue::Integer(Wrap(Bits(a) << b));
    if (op == ">>") return CodeValue::Integer(a >> b);
    if (op == "&") return CodeValue::Integer(a & b);
    if (op == "|") return CodeValue::Integer(a | b);
    return CodeValue::Integer(a ^ b);
  }

  CodeValue Unary() {
    bool negate = false;
    while (Peek().Is("-") || Peek().Is("+")) negate = Take().text == "-" ? !negate : negate;
    if (Peek().Is("~")) {
      Take();
      const CodeValue value = Atom();
      return CodeValue::Integer(negate ? Wrap(Bits(value.integer) + 1) : ~value.integer);
    }
    CodeValue value = Atom();
    if (!negate) return value;
    if (value.kind == CodeValue::Kind::kFloat) return CodeValue::Float(-value.real);
    return CodeValue::Integer(Wrap(0 - Bits(value.integer)));
  }

  CodeValue Atom() {
    if (!Ok()) return {};
    if (Accept("(")) {
      CodeValue value = Expression();
      if (Ok() && !Accept(")")) return Unsupported("'" + Peek().text + "' in parentheses");
      return value;
    }
    switch (Peek().kind) {
      case CodeToken::Kind::kNumber:
        return Number(Take().text);
      case CodeToken::Kind::kString:
        return CodeValue::Text(Take().text);
      case CodeToken::Kind::kName:
        return Peek(1).Is("(") ? Call() : Name();
      default:
        return Wrong(absl::StrCat("code: expected a value, found '", Peek().text, "'"));
    }
  }

  CodeValue Number(const std::string& text) {
    int64_t integer = 0;
    double real = 0;
    if (absl::SimpleAtoi(text, &integer)) return CodeValue::Integer(integer);
    if (text.size() > 2 && text[1] == 'x' && absl::SimpleHexAtoi(text, &integer)) {
      return CodeValue::Integer(integer);
    }
    if (absl::SimpleAtod(text, &real) && std::isfinite(real)) return CodeValue::Float(real);
    return Wrong("code: '" + text + "' is no number");
  }

  CodeValue Name() {
    const std::string name = Take().text;
    if (name == "True") return CodeValue::Integer(1);
    if (name == "False" || name == "None") return CodeValue::Integer(0);
    std::optional<CodeValue> value;
    if (const auto it = variables_.find(name); it != variables_.end()) {
      value = it->second;
    } else {
      value = lookup_(name);
    }
    if (!value) return Unsupported("name " + name);
    names_[name] = value->ToString();
    return *value;
  }

  CodeValue Call() {
    const std::string name = Take().text;
    Take();
    std::vector<CodeValue> args;
    if (!Accept(")")) {
      do {
        args.push_back(Expression());
      } while (Ok() && Accept(","));
      if (Ok() && !Accept(")")) return Unsupported("'" + Peek().text + "' among arguments");
    }
    if (!Ok()) return {};
    return Apply(name, args);
  }

  CodeValue Apply(const std::string& name, const std::vector<CodeValue>& args) {
    if (name == "str" && args.size() == 1) return CodeValue::Text(args[0].ToString());
    for (const CodeValue& arg : args) {
      if (!arg.IsNumber()) return Unsupported(name + "() of text");
    }
    if (args.empty()) return Unsupported(name + "()");
    const CodeValue& first = args[0];
    if (name == "abs") return first.AsFloat() < 0 ? Negated(first) : first;
    if (name == "float") return CodeValue::Float(first.AsFloat());
    if (name == "int") return ToInteger(first, std::trunc(first.AsFloat()));
    if (name == "round" && args.size() == 1) return ToInteger(first, std::nearbyint(first.real));
    if (name == "min" || name == "max") {
      const auto less = [](const CodeValue& a, const CodeValue& b) {
        return a.AsFloat() < b.AsFloat();
      };
      return name == "min" ? *std::min_element(args.begin(), args.end(), less)
                           : *std::max_element(args.begin(), args.end(), less);
    }
    return Unsupported(name + "()");
  }

  static CodeValue Negated(const CodeValue& value) {
    if (value.kind == CodeValue::Kind::kFloat) return CodeValue::Float(-value.real);
    return CodeValue::Integer(Wrap(0 - Bits(value.integer)));
  }

  CodeValue ToInteger(const CodeValue& value, double real) {
    if (value.kind == CodeValue::Kind::kInteger) return value;
    if (!(std::fabs(real) < 9e18)) return Wrong("code: number out of range");
    return CodeValue::Integer(static_cast<int64_t>(real));
  }

  absl::string_view code_;
  std::vector<CodeToken> tokens_;
  size_t next_ = 0;
  int depth_ = 0;
  CodeVariables& variables_;
  const CodeLookup& lookup_;
  std::map<std::string, std::string> names_;
  CodeResult result_;
};

}  // namespace

bool CodeValue::Truth() const {
  switch (kind) {
    case Kind::kInteger:
      return integer != 0;
    case Kind::kFloat:
      return real != 0;
    case Kind::kString:
      return !text.empty();
  }
  return false;
}

std::string CodeValue::ToString() const {
  if (kind == Kind::kString) return text;
  return kind == Kind::kFloat ? absl::StrCat(real) : absl::StrCat(integer);
}

CodeResult RunCode(absl::string_view code, CodeVariables& variables, const CodeLookup& lookup) {
  return CodeRunner(code, variables, lookup).Run();
}

}  // namespace tapwire::pkt
