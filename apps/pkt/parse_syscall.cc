// SPDX-License-Identifier: Apache-2.0
// System calls: `accept(3, ..., ...) = 4`, `write(4, ..., 1) = -1 EAGAIN (why)`.

#include <limits>
#include <string>
#include <utility>

#include "apps/pkt/ast.h"
#include "apps/pkt/token_stream.h"

namespace tapwire::pkt {
namespace {

// Deeper than any structure of a system call.
constexpr int kMaxDepth = 32;

bool ParseExpr(TokenStream& in, Expr& expr, int depth);

bool ParseList(TokenStream& in, char close, std::vector<Expr>& items, int depth) {
  if (in.Accept(close)) return true;
  do {
    if (!ParseExpr(in, items.emplace_back(), depth)) return false;
  } while (in.Accept(','));
  return in.Expect(close);
}

bool ParseInteger(TokenStream& in, bool negative, Expr& expr) {
  expr.kind = Expr::Kind::kInteger;
  uint64_t value = 0;
  constexpr uint64_t kLimit = std::numeric_limits<int64_t>::max();
  if (!in.TakeNumber("a number", kLimit, value)) return false;
  expr.integer = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  return true;
}

// A member `name = value`, `name(size) = value`, `name: value`, or a value alone.
bool ParseField(TokenStream& in, Field& field, int depth) {
  const bool named = in.Peek().kind == TokenKind::kWord &&
                     (in.Peek(1).Is('=') || in.Peek(1).Is(':') || in.Peek(1).Is('('));
  if (named && in.Peek(1).Is('(')) {
    // htons(80) is a value; msg_name(...)= a member with its size.
    Expr call;
    if (!ParseExpr(in, call, depth)) return false;
    if (!in.Accept('=')) {
      field.value.push_back(std::move(call));
      return true;
    }
    if (call.kind != Expr::Kind::kCall || call.items.size() != 1) {
      return in.FailAt(call.pos, "expected a member with one size", false);
    }
    field.name = call.text;
    field.size.push_back(std::move(call.items[0]));
  } else if (named) {
    field.name = in.Take().text;
    in.Take();
  }
  return ParseExpr(in, field.value.emplace_back(), depth);
}

bool ParseStruct(TokenStream& in, Expr& expr, int depth) {
  expr.kind = Expr::Kind::kStruct;
  if (in.Accept('}')) return true;
  do {
    if (!ParseField(in, expr.fields.emplace_back(), depth)) return false;
  } while (in.Accept(','));
  return in.Expect('}');
}

bool ParseWordOrCall(TokenStream& in, Expr& expr, int depth) {
  expr.kind = Expr::Kind::kWord;
  expr.text = in.Take().text;
  if (!in.Peek().Is('(') || !in.SameLine()) return true;
  in.Take();
  expr.kind = Expr::Kind::kCall;
  return ParseList(in, ')', expr.items, depth);
}

bool ParseTerm(TokenStream& in, Expr& expr, int depth) {
  if (depth > kMaxDepth) return in.Fail("nested too deeply");
  const Token& token = in.Peek();
  expr.pos = token.pos;
  if (token.kind == TokenKind::kEllipsis) {
    in.Take();
    return true;
  }
  if (token.kind == TokenKind::kString) {
    expr.kind = Expr::Kind::kString;
    expr.text = in.Take().text;
    return true;
  }
  if (token.kind == TokenKind::kWord) return ParseWordOrCall(in, expr, depth + 1);
  if (token.kind == TokenKind::kNumber) return ParseInteger(in, false, expr);
  if (in.Accept('-')) return ParseInteger(in, true, expr);
  if (in.Accept('{')) return ParseStruct(in, expr, depth + 1);
  if (in.Accept('[')) {
    expr.kind = Expr::Kind::kArray;
    return ParseList(in, ']', expr.items, depth + 1);
  }
  return in.Fail("expected an argument, found " + in.Found());
}

bool ParseExpr(TokenStream& in, Expr& expr, int depth) {
  if (!ParseTerm(in, expr, depth)) return false;
  if (!in.Peek().Is('|')) return true;
  Expr alternatives;
  alternatives.kind = Expr::Kind::kOr;
  alternatives.pos = expr.pos;
  alternatives.items.push_back(std::move(expr));
  while (in.Accept('|')) {
    if (!ParseTerm(in, alternatives.items.emplace_back(), depth)) return false;
  }
  expr = std::move(alternatives);
  return true;
}

// The explanation behind a result, in parentheses, means nothing.
bool SkipNote(TokenStream& in) {
  if (!in.SameLine() || !in.Accept('(')) return true;
  for (int depth = 1; depth > 0;) {
    if (in.AtEnd()) return in.Fail("note without closing )");
    const Token& token = in.Take();
    depth += token.Is('(') ? 1 : token.Is(')') ? -1 : 0;
  }
  return true;
}

bool ParseResult(TokenStream& in, SyscallSpec& syscall) {
  if (!ParseExpr(in, syscall.result, 0)) return false;
  const Expr::Kind kind = syscall.result.kind;
  if (kind != Expr::Kind::kInteger && kind != Expr::Kind::kEllipsis && kind != Expr::Kind::kWord &&
      kind != Expr::Kind::kOr) {
    return in.FailAt(syscall.result.pos, "a result is a number", false);
  }
  if (in.SameLine() && in.Peek().kind == TokenKind::kWord) syscall.error = in.Take().text;
  return SkipNote(in);
}

}  // namespace

bool ParseSyscall(TokenStream& in, SyscallSpec& syscall) {
  syscall.name = in.Take().text;
  if (!in.Expect('(') || !ParseList(in, ')', syscall.args, 0)) return false;
  return in.Expect('=') && ParseResult(in, syscall);
}

}  // namespace tapwire::pkt
