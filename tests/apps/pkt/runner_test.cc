// SPDX-License-Identifier: Apache-2.0
// The interpreter seen from outside: small scripts that must pass, fail at a given line with a
// given message, or be unsupported. A runner that lets everything pass would be worse than none.
#include "apps/pkt/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tapwire::pkt {
namespace {

using ::testing::HasSubstr;

// A connection accepted as descriptor 4 at 0.1 s; seven lines.
constexpr const char* kAccepted = R"(0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
+.1 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
)";

RunResult RunAccepted(const std::string& rest, IpVersion version = IpVersion::kIpv4) {
  RunOptions options;
  options.net.version = version;
  options.tolerance_percent = 0;
  if (version == IpVersion::kIpv6) options.net.mtu = 1520;
  return RunScript(kAccepted + rest, options);
}

RunResult RunAlone(const std::string& script) {
  RunOptions options;
  options.tolerance_percent = 0;
  return RunScript(script, options);
}

class RunnerVersionTest : public testing::TestWithParam<IpVersion> {};

TEST_P(RunnerVersionTest, ConnectionsWork) {
  const RunResult result = RunAccepted(R"(
+0 write(4, ..., 1500) = 1500
+0 > P. 1:1501(1500) ack 1
+.1 < P. 1:101(100) ack 1501 win 65535
+0 > . 1501:1501(0) ack 101
+0 read(4, ..., 1000) = 100
)",
                                       GetParam());
  EXPECT_EQ(result.verdict, Verdict::kPass) << result.pos.line << ": " << result.message;
}

INSTANTIATE_TEST_SUITE_P(All, RunnerVersionTest,
                         testing::Values(IpVersion::kIpv4, IpVersion::kIpv6,
                                         IpVersion::kIpv4Mapped));

struct Failure {
  const char* rest;
  int line;  // of the rest, whose first line is 1
  const char* message;
};

TEST(RunnerTest, DifferencesFail) {
  constexpr Failure kFailures[] = {
      {"+0 write(4, ..., 10) = 11", 1, "write() gave 10, expected 11"},
      {"+0 write(4, ..., 10) = -1 EPIPE", 1, "write() gave 10, expected -1 EPIPE"},
      {"+0 read(9, ..., 10) = 0", 1, "read() gave -1 EBADF, expected 0"},
      {"+0 write(4, ..., 10) = 10\n+0 > P. 1:10(9) ack 1", 2, "payload length 10, expected 9"},
      {"+0 write(4, ..., 10) = 10\n+0 > P. 1:12(11) ack 1", 2,
       "0.100000 > P. 1:11(10) ack 1 win 64240, and nothing more"},
      {"+0 write(4, ..., 10) = 10\n+0 > . 1:11(10) ack 1", 2, "flags P., expected ."},
      {"+0 write(4, ..., 10) = 10\n+0 > P. 2:12(10) ack 1", 2, "sequence number 1, expected 2"},
      {"+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 2", 2,
       "acknowledgment number 1, expected 2"},
      {"+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1 win 1", 2, "window 64240, expected 1"},
      {"+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1 <nop,nop,TS val 1 ecr 1>", 2,
       "options <>, expected <nop,nop,TS val 1 ecr 1>"},
      {"+0 write(4, ..., 10) = 10\n+.1 > P. 1:11(10) ack 1", 2,
       "sent at 0.100000, expected at 0.200000"},
      {"+0 > P. 1:11(10) ack 1", 1, "the packet was not sent"},
      {"+0 getsockopt(4, SOL_SOCKET, SO_ERROR, [5], [4]) = 0", 1, "option is 0, expected 5"},
      {"+0 poll([{fd=4, events=POLLOUT, revents=POLLIN}], 1, 0) = 1", 1,
       "revents is 4, expected 1"},
      {"+0 ioctl(4, SIOCINQ, [3]) = 0", 1, "value is 0, expected 3"},
      {"+0 %{ assert tcpi_snd_cwnd == 11 }%", 1, "tcpi_snd_cwnd is 10"},
      {"+0...0.5 read(4, ..., 10) = 10\n+.1 < P. 1:11(10) ack 1 win 100", 1,
       "call returned at 0.200000, expected at 0.600000"},
      {"+0...0.1 read(4, ..., 10) = 10", 1, "read() does not return"},
      {"+0 read(4, ..., 10) = 10", 1, "read() does not return"},
      {"+0 write(4, \"abc\", 3) = 3\n+0 > P. 1:4(3) ack 1\n+0 close(4) = 1", 3,
       "close() gave 0, expected 1"},
  };
  const int before = 7;
  for (const Failure& f : kFailures) {
    const RunResult result = RunAccepted(f.rest);
    EXPECT_EQ(result.verdict, Verdict::kFail) << f.rest;
    EXPECT_EQ(result.pos.line, before + f.line) << f.rest << ": " << result.message;
    EXPECT_THAT(result.message, HasSubstr(f.message)) << f.rest;
  }
}

TEST(RunnerTest, MessagesShowBothPackets) {
  const RunResult result = RunAccepted("+0 write(4, ..., 10) = 10\n+0 > P. 1:10(9) ack 1\n");
  EXPECT_EQ(result.message,
            "payload length 10, expected 9\n"
            "  expected: 0.100000 > P. 1:10(9) ack 1\n"
            "  actual:   0.100000 > P. 1:11(10) ack 1 win 64240");
}

TEST(RunnerTest, MissingFeaturesAreUnsupported) {
  struct Case {
    const char* rest;
    const char* reason;
  };
  constexpr Case kCases[] = {
      {"+0 splice(4, 0, 5, 0, 1, 0) = 1", "system call splice"},
      {"+0 sendto(4, ..., 10, MSG_FASTOPEN, ..., ...) = 10", "TCP Fast Open"},
      {"+0 send(4, ..., 10, MSG_ZEROCOPY) = 10", "zerocopy"},
      {"+0 > S 0:0(0) <FO,nop,nop>", "TCP Fast Open"},
      {"+0 > [ect0] . 1:1(0) ack 1", "ECN"},
      {"+0 > E. 1:1(0) ack 1", "ECN"},
      {"+0 `nstat -n`", "command 'nstat -n'"},
      {"+0 %{ assert dctcp_alpha == 1 }%", "code: name dctcp_alpha"},
      {"+0 setsockopt(4, SOL_TCP, TCP_MADE_UP, [1], 4) = 0", "name TCP_MADE_UP"},
  };
  for (const Case& c : kCases) {
    const RunResult result = RunAccepted(c.rest);
    EXPECT_EQ(result.verdict, Verdict::kUnsupported) << c.rest << ": " << result.message;
    EXPECT_EQ(result.message, c.reason) << c.rest;
  }
}

TEST(RunnerTest, SegmentsAddUpUnlessStrict) {
  const std::string rest = "+0 write(4, ..., 3000) = 3000\n+0 > P. 1:3001(3000) ack 1\n";
  EXPECT_EQ(RunAccepted(rest).verdict, Verdict::kPass);
  EXPECT_EQ(RunAlone("--strict_segments\n" + (kAccepted + rest)).verdict, Verdict::kFail);
}

TEST(RunnerTest, BlockedCallsSeeLaterEvents) {
  const RunResult result = RunAccepted(R"(
+0...0.3 read(4, ..., 1000) = 10
+.1 write(4, ..., 5) = 5
+0 > P. 1:6(5) ack 1
+.2 < P. 1:11(10) ack 6 win 65535
* > . 6:6(0) ack 11
)");
  EXPECT_EQ(result.verdict, Verdict::kPass) << result.pos.line << ": " << result.message;
}

TEST(RunnerTest, TimeIsVirtual) {
  const RunResult result = RunAlone(
      "0 socket(..., SOCK_DGRAM, IPPROTO_UDP) = 3\n"
      "+90000 close(3) = 0\n");
  EXPECT_EQ(result.verdict, Verdict::kPass) << result.message;
}

TEST(RunnerTest, OptionsOfTheUserWin) {
  RunOptions options;
  options.net.mtu = 1500;
  const std::string script = std::string("--mtu=1000\n") + kAccepted;
  EXPECT_EQ(RunScript(script, options).verdict, Verdict::kFail);  // mss 960
  EXPECT_EQ(RunScript(script, options, {"mtu"}).verdict, Verdict::kPass);
}

TEST(RunnerTest, ScriptMistakesAreFailures) {
  const RunResult result = RunAlone("0 socket(..., SOCK_STREAM\n");
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_EQ(result.pos.line, 2);
  EXPECT_EQ(RunAlone("--mtu=zero\n0 close(3) = 0\n").verdict, Verdict::kFail);
  EXPECT_EQ(RunAlone("").verdict, Verdict::kFail);
}

// Nonsense that parses must not bring the runner down.
TEST(RunnerTest, OddScriptsEndSomehow) {
  for (const char* script :
       {"0 close(3) = 0",
        "0 close(-1) = -1 EBADF",
        "0 socket(1, 2, 3, 4) = 3",
        "0 socket(-1, -1, -1) = -1 ...",
        "0 bind(3, {}, 5000) = 0",
        "0 listen({}, []) = 0",
        "0 poll({}, 5, 0) = 0",
        "0 epoll_create(1) = 4\n+0 epoll_wait(4, ..., 0, 0) = -1 EINVAL",
        "0 epoll_create(1) = 4\n+0 epoll_wait(4, [], 100000, 0) = 0",
        "0 write(3, ..., 99999999999) = 0",
        "0 write(3, ..., -5) = 0",
        "0 readv(3, [1], 1) = 0",
        "0 recvmsg(3, ..., 0) = 0",
        "0 > . 1:1(0)",
        "0 < [1:1(0)] icmp unreachable",
        "0 < [udp (5)] icmp unreachable",
        "0 < . 1:1048577(1048576) ack 5 win 0",
        "0 < icmp echo_request id 1 seq 2 (100)\n+0 > icmp echo_reply id 1 seq 2",
        "0 %{ assert tcpi_rto }%",
        "0 setsockopt(3, 1, 2, {a=1}, 4) = 0",
        "0 socket(..., SOCK_STREAM, 0) = 3\n+0 socket(..., SOCK_STREAM, 0) = 3",
        "0 socket(..., SOCK_STREAM, 0) = 3\n+0 connect(3, ..., ...) = 0",
        "0...1 accept(3, ..., ...) = 4",
        "0 socket(..., SOCK_STREAM, 0) = 3\n"
        "+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n+0...1 accept(3, ..., ...) = 4\n"
        "+0 close(3) = 0\n+0...2 accept(3, ..., ...) = 5"}) {
    const RunResult result = RunAlone(script);
    EXPECT_TRUE(result.verdict == Verdict::kPass || !result.message.empty()) << script;
  }
}

}  // namespace
}  // namespace tapwire::pkt
