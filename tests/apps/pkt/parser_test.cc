// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/parser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "apps/pkt/packet_text.h"

namespace tapwire::pkt {
namespace {

using std::chrono::milliseconds;

Event One(absl::string_view source) {
  ParseResult result = ParseScript(source);
  EXPECT_FALSE(result.error) << source << ": " << result.error->message;
  EXPECT_EQ(result.script.events.size(), 1u) << source;
  return result.script.events.empty() ? Event() : result.script.events[0];
}

Diagnostic Problem(absl::string_view source) {
  const ParseResult result = ParseScript(source);
  EXPECT_TRUE(result.error) << source;
  return result.error.value_or(Diagnostic());
}

PacketSpec Packet(absl::string_view source) {
  const Event event = One(source);
  const auto* packet = std::get_if<PacketSpec>(&event.what);
  EXPECT_NE(packet, nullptr);
  return packet != nullptr ? *packet : PacketSpec();
}

TEST(ParserTest, Times) {
  struct Case {
    const char* text;
    TimeKind kind;
    int start_ms, end_ms, blocking_ms;
  };
  constexpr Case kCases[] = {
      {"0.5", TimeKind::kAbsolute, 500, 500, -1},
      {"+.25", TimeKind::kRelative, 250, 250, -1},
      {"+0...0.2", TimeKind::kRelative, 0, 0, 200},
      {"1...2.5", TimeKind::kAbsolute, 1000, 1000, 2500},
      {"0.1~0.2", TimeKind::kAbsoluteRange, 100, 200, -1},
      {"+.1~+.3", TimeKind::kRelativeRange, 100, 300, -1},
      {"*", TimeKind::kAny, 0, 0, -1},
  };
  for (const Case& c : kCases) {
    const TimeSpec time = One(std::string(c.text) + " close(3) = 0").time;
    EXPECT_EQ(time.kind, c.kind) << c.text;
    EXPECT_EQ(time.start, milliseconds(c.start_ms)) << c.text;
    EXPECT_EQ(time.end, milliseconds(c.end_ms)) << c.text;
    EXPECT_EQ(time.blocking.has_value(), c.blocking_ms >= 0) << c.text;
    if (time.blocking) {
      EXPECT_EQ(*time.blocking, milliseconds(c.blocking_ms)) << c.text;
    }
  }
}

// What a packet line says is what its text says again.
TEST(ParserTest, PacketsKeepTheirText) {
  constexpr const char* kLines[] = {
      "< S 0:0(0) win 65535 <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 7>",
      "> S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>",
      "> FP. 1:101(100) ack 1",
      "< [ce] . 1:1(0) ack 1 win 5 urg 7",
      "> . 1:1(0) ack 1 win 100 <nop,nop,sack 1001:2001 3001:4001>",
      "> . 1:1(0) ack 1 <...>",
      "< SEW 0:0(0) win 1000",
      "< - 1:1(0)",
      "< udp (1000)",
      "< S 0:0(0) <FO 0123456789abcdef,nop,nop>",
      "< S 0:0(0) <FO,nop,nop>",
      "< S 0:0(0) <md5 00112233445566778899aabbccddeeff,eol>",
      "< [1:1001(1000)] icmp unreachable frag_needed",
      "< [udp (8)] icmp unreachable port_unreachable",
  };
  for (const char* line : kLines) {
    EXPECT_EQ(PacketText(Packet(std::string("+0 ") + line), IpFamily::kV4), line);
  }
}

TEST(ParserTest, SegmentFields) {
  const PacketSpec packet =
      Packet("+0 < (ect0) SP. 4294967295:999(1000) ack 0xff win 0 <TS val 1 ecr 2>");
  EXPECT_TRUE(packet.inbound);
  EXPECT_EQ(packet.ip.ecn, EcnSpec::kEct0);
  const auto& tcp = std::get<TcpSpec>(packet.body);
  EXPECT_EQ(tcp.flags, 0x1a);
  EXPECT_EQ(tcp.seq, 0xffffffffu);
  EXPECT_EQ(tcp.length, 1000u);
  EXPECT_EQ(tcp.ack, 255u);
  EXPECT_EQ(tcp.window, 0);
  ASSERT_EQ(tcp.options.size(), 1u);
  EXPECT_EQ(tcp.options[0].value, 1u);
  EXPECT_EQ(tcp.options[0].echo, 2u);
}

TEST(ParserTest, IcmpFields) {
  const auto icmp =
      std::get<IcmpSpec>(Packet("+0 < [1:1461(1460)] icmp unreachable frag_needed mtu 1400").body);
  ASSERT_TRUE(icmp.quote);
  EXPECT_EQ(icmp.quote->seq, 1u);
  EXPECT_EQ(icmp.quote->length, 1460u);
  EXPECT_EQ(icmp.mtu, 1400u);
}

TEST(ParserTest, Syscalls) {
  const Event event = One(
      "+0 poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLIN}], 1, -1) = -1 EAGAIN (Not (yet) so)");
  const auto& call = std::get<SyscallSpec>(event.what);
  EXPECT_EQ(call.name, "poll");
  ASSERT_EQ(call.args.size(), 3u);
  ASSERT_EQ(call.args[0].kind, Expr::Kind::kArray);
  const Expr& entry = call.args[0].items[0];
  ASSERT_NE(entry.Find("events"), nullptr);
  EXPECT_EQ(entry.Find("events")->kind, Expr::Kind::kOr);
  EXPECT_EQ(call.args[2].integer, -1);
  EXPECT_EQ(call.result.integer, -1);
  EXPECT_EQ(call.error, "EAGAIN");
}

TEST(ParserTest, StructuresWithSizes) {
  const Event event = One(
      "+0 sendmsg(4, {msg_name(...)=..., msg_iov(2)=[{..., 4}, {\"ab\", 2}], msg_flags=0}, 0) = 6");
  const Expr& message = std::get<SyscallSpec>(event.what).args[1];
  const Expr* iov = message.Find("msg_iov");
  ASSERT_NE(iov, nullptr);
  ASSERT_EQ(iov->items.size(), 2u);
  EXPECT_TRUE(iov->items[0].fields[0].get().IsEllipsis());
  EXPECT_EQ(iov->items[1].fields[0].get().text, "ab");
  const Event bind = One(
      "0 bind(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr(\"1.2.3.4\")}, "
      "...) = 0");
  const Expr& address = std::get<SyscallSpec>(bind.what).args[1];
  ASSERT_NE(address.Find("sin_port"), nullptr);
  EXPECT_EQ(address.Find("sin_port")->items[0].integer, 80);
}

TEST(ParserTest, ScriptsHaveOptionsCommandsAndCode) {
  const ParseResult result = ParseScript(R"(
--tolerance_usecs=1000
`sysctl -q x=1`
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 `true`
+0 %{ assert tcpi_rto > 0 }%
)");
  ASSERT_FALSE(result.error);
  ASSERT_EQ(result.script.options.size(), 1u);
  EXPECT_EQ(result.script.options[0].name, "tolerance_usecs");
  EXPECT_EQ(result.script.options[0].value, "1000");
  ASSERT_EQ(result.script.events.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<ShellSpec>(result.script.events[0].what));
  EXPECT_TRUE(std::holds_alternative<CodeSpec>(result.script.events[3].what));
}

TEST(ParserTest, MistakesHaveAPlace) {
  struct Case {
    const char* text;
    Pos pos;
  };
  constexpr Case kCases[] = {
      {"", {1, 1}},
      {"+0 < S 0:10(5) win 1", {1, 10}},
      {"+0 < X 0:0(0)", {1, 6}},
      {"+0 < SS 0:0(0)", {1, 6}},
      {"+0 < . 0:0(0) win 65536", {1, 19}},
      {"+0 < . 0:0(0) ack 4294967296", {1, 19}},
      {"+0 > . 1:1(0) <mss 1,>", {1, 22}},
      {"+0 > . 1:1(0) <mss 70000>", {1, 20}},
      {"+0 > . 1:1(0) <FO 123>", {1, 19}},
      {"+0 close(3)", {1, 12}},
      {"+0 close(3 = 0", {1, 12}},
      {"+0 close([3) = 0", {1, 12}},
      {"0.2~0.1 > . 1:1(0)", {1, 9}},
      {"+0...1 > . 1:1(0)", {1, 1}},
      {"+0 < [1:1(0)] tcp", {1, 15}},
      {"+0 < icmp nonsense", {1, 11}},
      {"9999999999999 close(3) = 0", {1, 1}},
  };
  for (const Case& c : kCases) {
    const Diagnostic problem = Problem(c.text);
    EXPECT_EQ(problem.pos, c.pos) << c.text << ": " << problem.message << " at " << problem.pos.line
                                  << ":" << problem.pos.column;
    EXPECT_FALSE(problem.unsupported) << c.text;
    EXPECT_FALSE(problem.message.empty()) << c.text;
  }
}

TEST(ParserTest, WhatIsUnsupportedSaysSo) {
  for (const char* text : {"+0 > S 0:0(0) <mp_capable v1>", "+0 < ipv4 1.2.3.4 > 5.6.7.8: . 1:1(0)",
                           "+0 < .A 1:1(0)", "+0 < mpls (label 1): . 1:1(0)"}) {
    EXPECT_TRUE(Problem(text).unsupported) << text;
  }
}

TEST(ParserTest, DeepNestingIsRefused) {
  const std::string deep = "+0 f(" + std::string(10'000, '[') + ") = 0";
  EXPECT_EQ(Problem(deep).message, "nested too deeply");
  const std::string structs = "+0 f(" + std::string(10'000, '{') + ") = 0";
  EXPECT_EQ(Problem(structs).message, "nested too deeply");
}

}  // namespace
}  // namespace tapwire::pkt
