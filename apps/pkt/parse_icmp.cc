// SPDX-License-Identifier: Apache-2.0
// ICMP lines: `[1:1001(1000)] icmp unreachable frag_needed mtu 1300`. The packet quoted is one of
// the stack's own; only what tells it apart is written.

#include <string>

#include "apps/pkt/ast.h"
#include "apps/pkt/icmp_names.h"
#include "apps/pkt/token_stream.h"

namespace tapwire::pkt {
namespace {

bool ParseQuote(TokenStream& in, QuoteSpec& quote) {
  if (!in.Expect('[')) return false;
  if (in.AcceptWord("udp")) {
    quote.udp = true;
    if (!in.Expect('(') || !in.TakeInteger("a length", quote.length) || !in.Expect(')')) {
      return false;
    }
    if (quote.length > 65507) return in.Fail("a datagram of that length cannot be");
  } else if (!ParseSequence(in, quote.seq, quote.length)) {
    return false;
  }
  return in.Expect(']');
}

bool IsDetail(const Token& token) {
  return token.IsWord("mtu") || token.IsWord("id") || token.IsWord("seq") || token.IsWord("code");
}

bool IsName(const Token& token) {
  return token.kind == TokenKind::kWord || token.kind == TokenKind::kNumber;
}

bool ParseName(TokenStream& in, const char* what, std::string& out) {
  if (!IsName(in.Peek())) {
    return in.Fail(std::string("expected ") + what + ", found " + in.Found());
  }
  out = in.Take().text;
  return true;
}

bool ParseDetails(TokenStream& in, IcmpSpec& icmp) {
  while (in.SameLine()) {
    if (in.AcceptWord("mtu")) {
      if (!in.TakeInteger("an MTU", icmp.mtu.emplace())) return false;
    } else if (in.AcceptWord("id")) {
      if (!in.TakeInteger("an identifier", icmp.id.emplace())) return false;
    } else if (in.AcceptWord("seq")) {
      if (!in.TakeInteger("a sequence number", icmp.sequence.emplace())) return false;
    } else if (in.Peek().Is('(')) {
      uint64_t length = 0;
      in.Take();
      if (!in.TakeNumber("a length", 65507, length) || !in.Expect(')')) return false;
      icmp.length = static_cast<uint32_t>(length);
    } else {
      break;
    }
  }
  return true;
}

}  // namespace

bool ParseIcmp(TokenStream& in, IcmpSpec& icmp) {
  if (in.Peek().Is('[') && !ParseQuote(in, icmp.quote.emplace())) return false;
  if (!in.AcceptWord("icmp") && !in.AcceptWord("icmpv6")) {
    return in.Fail("expected icmp, found " + in.Found());
  }
  in.AcceptWord("type");
  const Pos pos = in.Peek().pos;
  if (!ParseName(in, "an ICMP type", icmp.type)) return false;
  const bool code = in.AcceptWord("code");
  if (code || (in.SameLine() && IsName(in.Peek()) && !IsDetail(in.Peek()))) {
    if (!ParseName(in, "an ICMP code", icmp.code)) return false;
  }
  if (!IsIcmpName(icmp.type, icmp.code)) {
    return in.FailAt(pos, "no ICMP message '" + icmp.type + " " + icmp.code + "'", false);
  }
  return ParseDetails(in, icmp);
}

}  // namespace tapwire::pkt
