// SPDX-License-Identifier: Apache-2.0
// TCP options between < and >: `<mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 8>`, or `<...>`.

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "apps/pkt/ast.h"
#include "apps/pkt/datagram.h"
#include "apps/pkt/token_stream.h"

namespace tapwire::pkt {
namespace {

// A cookie or digest: hexadecimal digits, possibly none. Digits and letters may have been taken for
// several tokens.
bool ParseHex(TokenStream& in, std::vector<uint8_t>& bytes) {
  std::string digits;
  const Pos pos = in.Peek().pos;
  for (bool more = true; more;) {
    const Token& token = in.Peek();
    if (token.kind != TokenKind::kNumber && token.kind != TokenKind::kWord) break;
    digits += token.text;
    more = token.Touches(in.Peek(1));
    in.Take();
  }
  if (digits.size() > 2 && digits[0] == '0' && digits[1] == 'x') digits.erase(0, 2);
  if (digits.size() % 2 != 0) return in.FailAt(pos, "odd number of hexadecimal digits", false);
  for (const char c : digits) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) {
      return in.FailAt(pos, "'" + digits + "' is not hexadecimal", false);
    }
  }
  const std::string raw = absl::HexStringToBytes(digits);
  bytes.assign(raw.begin(), raw.end());
  return true;
}

// sack 1001:2001 3001:4001
bool ParseSack(TokenStream& in, OptionSpec& option) {
  option.kind = OptionKind::kSack;
  while (in.Peek().kind == TokenKind::kNumber) {
    std::pair<uint32_t, uint32_t> block;
    if (!in.TakeInteger("a left edge", block.first) || !in.Expect(':') ||
        !in.TakeInteger("a right edge", block.second)) {
      return false;
    }
    option.sacks.push_back(block);
  }
  return option.sacks.size() <= 4 || in.Fail("more than four SACK blocks do not fit");
}

bool ParseTimestamps(TokenStream& in, OptionSpec& option) {
  option.kind = OptionKind::kTimestamps;
  if (!in.AcceptWord("val")) return in.Fail("expected val, found " + in.Found());
  if (!in.TakeInteger("a timestamp", option.value)) return false;
  if (!in.AcceptWord("ecr")) return in.Fail("expected ecr, found " + in.Found());
  return in.TakeInteger("a timestamp", option.echo);
}

bool ParseBytes(TokenStream& in, OptionKind kind, OptionSpec& option) {
  option.kind = kind;
  return ParseHex(in, option.bytes);
}

bool ParseMss(TokenStream& in, OptionSpec& option) {
  option.kind = OptionKind::kMss;
  uint16_t mss = 0;
  if (!in.TakeInteger("an MSS", mss)) return false;
  option.value = mss;
  return true;
}

bool ParseWindowScale(TokenStream& in, OptionSpec& option) {
  option.kind = OptionKind::kWindowScale;
  uint8_t shift = 0;
  if (!in.TakeInteger("a window shift", shift)) return false;
  option.value = shift;
  return true;
}

bool ParseOption(TokenStream& in, OptionSpec& option) {
  if (in.AcceptWord("nop")) return true;
  if (in.AcceptWord("eol")) {
    option.kind = OptionKind::kEol;
    return true;
  }
  if (in.AcceptWord("sackOK")) {
    option.kind = OptionKind::kSackPermitted;
    return true;
  }
  if (in.AcceptWord("mss")) return ParseMss(in, option);
  if (in.AcceptWord("wscale")) return ParseWindowScale(in, option);
  if (in.AcceptWord("sack")) return ParseSack(in, option);
  if (in.AcceptWord("TS")) return ParseTimestamps(in, option);
  if (in.AcceptWord("FO")) return ParseBytes(in, OptionKind::kFastOpen, option);
  if (in.AcceptWord("FOEXP")) return ParseBytes(in, OptionKind::kFastOpenExperimental, option);
  if (in.AcceptWord("md5")) return ParseBytes(in, OptionKind::kMd5, option);
  if (in.Peek().kind == TokenKind::kWord) {
    return in.Unsupported("TCP option " + in.Peek().text);
  }
  return in.Fail("expected a TCP option, found " + in.Found());
}

}  // namespace

bool ParseTcpOptions(TokenStream& in, TcpSpec& tcp) {
  if (!in.Expect('<')) return false;
  if (in.Peek().kind == TokenKind::kEllipsis) {
    in.Take();
    tcp.any_options = true;
    return in.Expect('>');
  }
  if (in.Accept('>')) return true;
  do {
    OptionSpec option;
    if (!ParseOption(in, option)) return false;
    tcp.options.push_back(std::move(option));
    if (BuildOptionBytes(tcp.options).size() > 40) {
      return in.Fail("more TCP options than 40 bytes hold");
    }
  } while (in.Accept(','));
  return in.Expect('>');
}

}  // namespace tapwire::pkt
