// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/parser.h"

#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "apps/pkt/token_stream.h"

namespace tapwire::pkt {
namespace {

// Longer than any script; keeps all sums of times far from overflow.
constexpr double kMaxSeconds = 1e7;

bool TakeSeconds(TokenStream& in, Duration& out) {
  double seconds = 0;
  if (in.Peek().kind != TokenKind::kNumber || !absl::SimpleAtod(in.Peek().text, &seconds) ||
      !std::isfinite(seconds)) {
    return in.Fail("expected a time in seconds, found " + in.Found());
  }
  if (seconds > kMaxSeconds) return in.Fail("time " + in.Peek().text + " is too far away");
  in.Take();
  out = std::chrono::microseconds(std::llround(seconds * 1e6));
  return true;
}

bool TakeRangeEnd(TokenStream& in, bool relative, TimeSpec& time) {
  if (in.Accept('+') != relative) {
    return in.Fail("both ends of a time range are absolute or both relative");
  }
  time.kind = relative ? TimeKind::kRelativeRange : TimeKind::kAbsoluteRange;
  if (!TakeSeconds(in, time.end)) return false;
  return time.end >= time.start || in.Fail("time range ends before it starts");
}

bool TakeBlockingEnd(TokenStream& in, TimeSpec& time) {
  in.Accept('+');
  Duration end{};
  if (!TakeSeconds(in, end)) return false;
  time.blocking = end;
  return end >= time.start || in.Fail("blocking call ends before it starts");
}

bool ParseTime(TokenStream& in, TimeSpec& time) {
  if (in.Accept('*')) {
    time.kind = TimeKind::kAny;
    return true;
  }
  const bool relative = in.Accept('+');
  time.kind = relative ? TimeKind::kRelative : TimeKind::kAbsolute;
  if (!TakeSeconds(in, time.start)) return false;
  time.end = time.start;
  if (in.Accept('~')) return TakeRangeEnd(in, relative, time);
  if (in.Peek().kind == TokenKind::kEllipsis) {
    in.Take();
    return TakeBlockingEnd(in, time);
  }
  return true;
}

bool ParseWhat(TokenStream& in, Event& event) {
  const Token& token = in.Peek();
  if (token.Is('<') || token.Is('>')) {
    PacketSpec packet;
    if (!ParsePacket(in, packet)) return false;
    event.what = std::move(packet);
  } else if (token.kind == TokenKind::kBacktick) {
    event.what = ShellSpec{in.Take().text};
  } else if (token.kind == TokenKind::kCode) {
    event.what = CodeSpec{in.Take().text};
  } else if (token.kind == TokenKind::kWord) {
    SyscallSpec syscall;
    if (!ParseSyscall(in, syscall)) return false;
    event.what = std::move(syscall);
  } else {
    return in.Fail("expected a packet, a call, a command or code, found " + in.Found());
  }
  if (event.time.blocking && !std::holds_alternative<SyscallSpec>(event.what)) {
    return in.FailAt(event.pos, "only a system call can take time", false);
  }
  return true;
}

bool ParseEvent(TokenStream& in, Script& script) {
  Event event;
  event.pos = in.Peek().pos;
  // A command or code before the first time, or directly behind another event: at once.
  const bool timeless =
      in.Peek().kind == TokenKind::kBacktick || in.Peek().kind == TokenKind::kCode;
  if (!timeless && !ParseTime(in, event.time)) return false;
  if (!ParseWhat(in, event)) return false;
  script.events.push_back(std::move(event));
  return true;
}

ScriptOption SplitOption(const Token& token) {
  const size_t equals = token.text.find('=');
  ScriptOption option{.name = token.text.substr(0, equals), .value = {}, .pos = token.pos};
  if (equals != std::string::npos) option.value = token.text.substr(equals + 1);
  if (option.value.size() >= 2 && option.value.front() == '"' && option.value.back() == '"') {
    option.value = option.value.substr(1, option.value.size() - 2);
  }
  return option;
}

}  // namespace

ParseResult ParseScript(absl::string_view source, const Defines& defines) {
  ParseResult result;
  LexResult lexed = Lex(source, defines);
  if (lexed.error) {
    result.error = std::move(lexed.error);
    return result;
  }
  TokenStream in(std::move(lexed.tokens));
  while (!in.AtEnd() && !in.failed()) {
    if (in.Peek().kind == TokenKind::kOption) {
      result.script.options.push_back(SplitOption(in.Take()));
    } else {
      ParseEvent(in, result.script);
    }
  }
  if (!in.failed() && result.script.events.empty()) in.Fail("the script has no events");
  result.error = in.error();
  return result;
}

}  // namespace tapwire::pkt
