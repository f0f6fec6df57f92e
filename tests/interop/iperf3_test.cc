// SPDX-License-Identifier: Apache-2.0
// The real iperf3 on the kernel's TCP against `tapwire iperf3`, both ways round.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/interop/lab.h"
#include "tests/interop/program.h"
#include "tests/interop/verdict.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testutil::Command;
using testutil::CommandResult;
using testutil::TempFile;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// Enough to fill windows, little enough to judge every frame afterwards.
constexpr char kRate[] = "40M";

Words Join(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class InteropIperf3Test : public testutil::NetnsFixture {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (Run({"iperf3", "--version"}).exit_code == 0) return;
    if (testutil::IsRequired("iperf3")) GTEST_FAIL() << "iperf3 cannot be run";
    GTEST_SKIP() << "iperf3 cannot be run: install the package iperf3";
  }

  Words Ours(const Words& arguments, const std::string& net = "") {
    return Tapwire(Join(Join(Join({"iperf3"}, NetFlags(tun_node(), net)),
                             {"--addr", "10.9.0.2/24", "--addr", "fd00:9::2/64", "--dad", "off",
                              "--pcap", pcap_.path()}),
                        arguments));
  }
  static Words Kernel(const Words& arguments) {
    return Join({"iperf3", "--forceflush"}, arguments);
  }
  void ExpectGoodCapture() const {
    const CaptureVerdict verdict = JudgeCapture(pcap_.path());
    EXPECT_EQ(verdict.complaints, "");
    EXPECT_GT(verdict.good_checksums, 0u);
    for (const auto& [counter, errors] : KernelCsumErrors()) EXPECT_EQ(errors, 0u) << counter;
  }

  const TempFile pcap_{".pcapng"};
};

// From the first brace: warnings on standard error may come before.
Json ParseJson(const std::string& output) {
  const size_t brace = output.find('{');
  return Json::parse(brace == std::string::npos ? "" : output.substr(brace), nullptr, false);
}

struct Mode {
  const char* name;
  Words arguments;
  size_t streams;
};
const Mode kModes[] = {
    {"Normal", {}, 1},
    {"Reverse", {"-R"}, 1},
    {"Parallel", {"-P", "4", "-b", "10M"}, 4},
    {"ParallelReverse", {"-P", "4", "-b", "10M", "-R"}, 4},
    {"Bidirectional", {"--bidir"}, 2},
    {"Amount", {"-n", "3M"}, 1},
    {"Omit", {"-O", "1"}, 1},
    {"Options", {"-w", "256K", "-l", "10000", "-M", "1000", "-N"}, 1},
};

using Case = std::tuple<size_t, IpFamily>;
std::string CaseName(const ::testing::TestParamInfo<Case>& test_case) {
  const auto& [mode, family] = test_case.param;
  return absl::StrCat(kModes[mode].name, family == IpFamily::kV4 ? "V4" : "V6");
}

class InteropIperf3ModeTest : public InteropIperf3Test, public ::testing::WithParamInterface<Case> {
 protected:
  const Mode& mode() const { return kModes[std::get<0>(GetParam())]; }
  IpFamily family() const { return std::get<1>(GetParam()); }
  // Arguments of the client, whoever that is.
  Words ClientArguments(const IpAddress& server) const {
    const bool amount = std::string(mode().name) == "Amount";
    Words words = {"-c", server.ToString(), "-J"};
    if (!amount) words = Join(words, {"-t", "1"});
    return Join(Join(words, {"-b", kRate}), mode().arguments);
  }
  // One test as its client has reported it.
  void ExpectGoodReport(const std::string& output) const {
    const Json json = ParseJson(output);
    ASSERT_TRUE(json.is_object()) << output;
    ASSERT_FALSE(json.contains("error")) << output;
    EXPECT_EQ(json["start"]["connected"].size(), mode().streams);
    EXPECT_EQ(json["end"]["streams"].size(), mode().streams);
    ExpectGoodSums(json["end"]["sum_sent"], json["end"]["sum_received"]);
    if (json["end"].contains("sum_sent_bidir_reverse")) {
      ExpectGoodSums(json["end"]["sum_sent_bidir_reverse"],
                     json["end"]["sum_received_bidir_reverse"]);
    }
    EXPECT_EQ(json["end"].contains("sum_sent_bidir_reverse"), mode().streams == 2);
  }
  // The rate that was asked for, and nothing lost on the way but what was still under way.
  void ExpectGoodSums(const Json& sent, const Json& received) const {
    const auto sent_bytes = sent["bytes"].get<int64_t>();
    const auto received_bytes = received["bytes"].get<int64_t>();
    EXPECT_GT(sent_bytes, 2'500'000);
    EXPECT_LT(sent_bytes, 12'000'000);
    EXPECT_LE(received_bytes, sent_bytes + 1'000'000);
    EXPECT_GT(received_bytes, sent_bytes / 2);
    EXPECT_GE(sent["retransmits"].get<int64_t>(), 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Kernel, InteropIperf3ModeTest,
                         ::testing::Combine(::testing::Range(size_t{0}, std::size(kModes)),
                                            ::testing::Values(IpFamily::kV4, IpFamily::kV6)),
                         CaseName);

TEST_P(InteropIperf3ModeTest, RealClientOurServer) {
  Command server(Ours({"-s", "-1"}));
  ASSERT_TRUE(server.WaitForOutput("Server listening on 5201 (test #1)\n")) << server.output();
  const CommandResult client =
      Run(Kernel(Join(ClientArguments(StackAddress(family())), {"-C", "cubic"})));
  EXPECT_EQ(client.exit_code, 0) << client.output;
  ExpectGoodReport(client.output);
  const CommandResult served = server.Wait();
  EXPECT_EQ(served.exit_code, 0) << served.output;
  EXPECT_THAT(served.output,
              HasSubstr(absl::StrCat("Accepted connection from ",
                                     KernelAddress(family()).ToString(), ", port ")));
  EXPECT_THAT(served.output, ContainsRegex("sec +(receiver|[0-9]+ +sender)\n"));
  ExpectGoodCapture();
}

TEST_P(InteropIperf3ModeTest, OurClientRealServer) {
  Command server(Kernel({"-s", "-1"}));
  ASSERT_TRUE(server.WaitForOutput("Server listening on 5201 (test #1)\n")) << server.output();
  const CommandResult client = Run(Ours(ClientArguments(KernelAddress(family()))));
  EXPECT_EQ(client.exit_code, 0) << client.output;
  ExpectGoodReport(client.output);
  const CommandResult served = server.Wait();
  EXPECT_EQ(served.exit_code, 0) << served.output;
  EXPECT_THAT(served.output, ContainsRegex("sec +(receiver|[0-9]+ +sender)\n"));
  ExpectGoodCapture();
}

// ---- Text ----

TEST_F(InteropIperf3Test, TextOfOurClient) {
  Command server(Kernel({"-s", "-1"}));
  ASSERT_TRUE(server.WaitForOutput("Server listening")) << server.output();
  const CommandResult client = Run(Ours({"-c", "10.9.0.1", "-t", "1", "-i", "0.5", "-b", kRate}));
  EXPECT_EQ(client.exit_code, 0);
  EXPECT_THAT(
      client.output,
      ::testing::MatchesRegex(
          "Connecting to host 10\\.9\\.0\\.1, port 5201\n"
          "\\[  5\\] local 10\\.9\\.0\\.2 port [0-9]+ connected to 10\\.9\\.0\\.1 port 5201\n"
          "\\[ ID\\] Interval           Transfer     Bitrate         Retr  Cwnd\n"
          "\\[  5\\]   0\\.00-0\\.5.   sec  .... MBytes  .... Mbits/sec +[0-9]+   .... .Bytes      "
          " \n"
          "\\[  5\\]   0\\.5.-1\\.0.   sec  .... MBytes  .... Mbits/sec +[0-9]+   .... .Bytes      "
          " \n"
          "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
          "\\[ ID\\] Interval           Transfer     Bitrate         Retr\n"
          "\\[  5\\]   0\\.00-1\\.0.   sec  .... MBytes  .... Mbits/sec +[0-9]+             "
          "sender\n"
          "\\[  5\\]   0\\.00-1\\.0.   sec  .... MBytes  .... Mbits/sec                  receiver\n"
          "\n"
          "iperf Done\\.\n"));
}

TEST_F(InteropIperf3Test, JsonOfOurServerNamesItsClient) {
  Command server(Ours({"-s", "-1", "-J"}));
  std::this_thread::sleep_for(milliseconds(500));  // it says nothing before the end
  CommandResult client;
  for (int attempt = 0; attempt < 20; ++attempt) {
    client = Run(Kernel({"-c", "10.9.0.2", "-t", "1", "-b", kRate, "-C", "cubic"}));
    if (client.exit_code == 0) break;
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_EQ(client.exit_code, 0) << client.output;
  const CommandResult served = server.Wait();
  EXPECT_EQ(served.exit_code, 0);
  const Json json = Json::parse(served.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << served.output;
  EXPECT_EQ(json["start"]["accepted_connection"]["host"], "10.9.0.1");
  EXPECT_GT(json["end"]["sum_received"]["bytes"], 2'500'000);
}

// ---- What goes wrong ----

// A plain connection to our server: sends `bytes` and returns what comes until the end.
std::string Talk(const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit = {.tv_sec = 5, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(5201);
  inet_pton(AF_INET, "10.9.0.2", &to.sin_addr);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  std::string answer;
  char buffer[256];
  ssize_t got = 0;
  while ((got = recv(fd, buffer, sizeof(buffer), 0)) > 0) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  close(fd);
  return answer;
}

std::string Framed(const std::string& text) {
  const uint32_t size = htonl(static_cast<uint32_t>(text.size()));
  return std::string(reinterpret_cast<const char*>(&size), 4) + text;
}

TEST_F(InteropIperf3Test, ServerSurvivesNonsenseAndServesOn) {
  Command server(Ours({"-s"}));
  ASSERT_TRUE(server.WaitForOutput("(test #1)\n")) << server.output();
  std::this_thread::sleep_for(milliseconds(200));
  const std::string cookie = std::string(36, 'a') + '\0';
  const auto refused = [](int code) {
    return std::string("\x09\xfe\0\0\0", 5) + static_cast<char>(code) + std::string(4, '\0');
  };
  EXPECT_EQ(Talk(std::string(37, 'x')), "");  // no cookie
  EXPECT_EQ(Talk(cookie + std::string(4, '\0')), refused(114));
  EXPECT_EQ(Talk(cookie + std::string("\0\0\x20\x01", 4)), refused(114));
  EXPECT_EQ(Talk(cookie + Framed("{garbage")), refused(114));
  EXPECT_EQ(Talk(cookie + Framed(R"({"tcp":true,"time":-1})")), refused(114));
  EXPECT_EQ(Talk(cookie + Framed(R"({"tcp":true,"parallel":500})")), refused(6));
  EXPECT_EQ(Talk(cookie + Framed(R"({"tcp":true,"time":100000})")), refused(5));
  const CommandResult client = Run(Kernel({"-c", "10.9.0.2", "-n", "1M", "-C", "cubic"}));
  EXPECT_EQ(client.exit_code, 0) << client.output;
  EXPECT_TRUE(server.WaitForOutput("(test #9)\n")) << server.output();
  server.Signal(SIGINT);
  const CommandResult served = server.Wait();
  EXPECT_EQ(served.exit_code, 1);
  EXPECT_THAT(served.output, HasSubstr("iperf3: error - unable to receive parameters from client"));
  EXPECT_THAT(served.output, HasSubstr("Server listening on 5201 (test #9)\n"));
  EXPECT_THAT(served.output, HasSubstr("iperf3: interrupt - the server has terminated\n"));
  ExpectGoodCapture();
}

TEST_F(InteropIperf3Test, RealClientIsToldThatUdpIsNotServed) {
  Command server(Ours({"-s"}));
  ASSERT_TRUE(server.WaitForOutput("(test #1)\n")) << server.output();
  const CommandResult udp = Run(Kernel({"-c", "10.9.0.2", "-u", "-t", "1"}));
  EXPECT_EQ(udp.exit_code, 1);
  EXPECT_THAT(udp.output, HasSubstr("iperf3: error - protocol does not exist"));
  ASSERT_TRUE(server.WaitForOutput("(test #2)\n")) << server.output();
  EXPECT_THAT(server.output(), HasSubstr("TCP only"));
}

TEST_F(InteropIperf3Test, BusyServerRefusesASecondClient) {
  Command server(Ours({"-s"}));
  ASSERT_TRUE(server.WaitForOutput("(test #1)\n")) << server.output();
  Command first(Kernel({"-c", "10.9.0.2", "-t", "2", "-b", kRate, "-C", "cubic"}));
  ASSERT_TRUE(first.WaitForOutput("0.00-1.0")) << first.output();
  const CommandResult second = Run(Kernel({"-c", "10.9.0.2", "-t", "1"}));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.output, HasSubstr("the server is busy running a test. try again later"));
  EXPECT_EQ(first.Wait().exit_code, 0) << first.output();
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait().exit_code, 1);
  ExpectGoodCapture();
}

TEST_F(InteropIperf3Test, OurClientSaysThatTheServerIsBusy) {
  Command server(Kernel({"-s"}));
  ASSERT_TRUE(server.WaitForOutput("Server listening")) << server.output();
  Command first(Kernel({"-c", "127.0.0.1", "-t", "5", "-b", "1M"}));
  ASSERT_TRUE(first.WaitForOutput("connected to")) << first.output();
  const CommandResult second = Run(Ours({"-c", "10.9.0.1", "-t", "1"}));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(second.output, "iperf3: error - the server is busy running a test. try again later\n");
}

TEST_F(InteropIperf3Test, OurClientIsRefused) {
  const CommandResult text = Run(Ours({"-c", "10.9.0.1", "-t", "1"}));
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_EQ(text.output, "iperf3: error - unable to connect to server: Connection refused\n");
  const CommandResult json = Run(Ours({"-c", "fd00:9::1", "-t", "1", "-J"}));
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(Json::parse(json.output, nullptr, false)["error"],
            "unable to connect to server: Connection refused");
}

TEST_F(InteropIperf3Test, InterruptedClientTellsTheRealServer) {
  Command server(Kernel({"-s", "-1"}));
  ASSERT_TRUE(server.WaitForOutput("Server listening")) << server.output();
  Command client(Ours({"-c", "10.9.0.1", "-t", "30", "-b", kRate}));
  ASSERT_TRUE(client.WaitForOutput("0.00-1.0")) << client.output();
  client.Signal(SIGINT);
  const CommandResult result = client.Wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("- - - - - - - - - - - - - - - - - - - - - - - - -\n"));
  EXPECT_THAT(result.output, ContainsRegex("sec +[0-9]+ +sender\n"));
  EXPECT_THAT(result.output,
              HasSubstr("sec  0.00 Bytes  0.00 bits/sec                  receiver\n"));
  EXPECT_THAT(result.output, HasSubstr("iperf3: interrupt - the client has terminated\n"));
  EXPECT_TRUE(server.WaitForOutput("the client has terminated")) << server.output();
  ExpectGoodCapture();
}

TEST_F(InteropIperf3Test, InterruptedServerTellsTheRealClient) {
  Command server(Ours({"-s"}));
  ASSERT_TRUE(server.WaitForOutput("(test #1)\n")) << server.output();
  Command client(Kernel({"-c", "10.9.0.2", "-t", "30", "-b", kRate, "-C", "cubic"}));
  ASSERT_TRUE(client.WaitForOutput("0.00-1.0")) << client.output();
  server.Signal(SIGINT);
  const CommandResult served = server.Wait();
  EXPECT_EQ(served.exit_code, 1);
  EXPECT_THAT(served.output, HasSubstr("iperf3: interrupt - the server has terminated\n"));
  EXPECT_THAT(served.output, ContainsRegex("sec +receiver\n"));
  const CommandResult told = client.Wait();
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_THAT(told.output, HasSubstr("the server has terminated"));
  ExpectGoodCapture();
}

// A client that dies leaves the server free for the next one.
TEST_F(InteropIperf3Test, ServerOutlivesAClientThatVanishes) {
  Command server(Ours({"-s"}));
  ASSERT_TRUE(server.WaitForOutput("(test #1)\n")) << server.output();
  Command client(Kernel({"-c", "10.9.0.2", "-t", "30", "-b", kRate, "-C", "cubic"}));
  ASSERT_TRUE(client.WaitForOutput("0.00-1.0")) << client.output();
  client.Signal(SIGKILL);
  client.Wait();
  ASSERT_TRUE(server.WaitForOutput("(test #2)\n")) << server.output();
  EXPECT_THAT(server.output(), HasSubstr("the client has unexpectedly closed the connection"));
  const CommandResult next = Run(Kernel({"-c", "10.9.0.2", "-n", "1M", "-C", "cubic"}));
  EXPECT_EQ(next.exit_code, 0) << next.output;
}

TEST_F(InteropIperf3Test, BadUsageIsToldBeforeAnythingStarts) {
  const Words cases[] = {
      {"iperf3"},
      {"iperf3", "-s", "-c", "10.9.0.1"},
      {"iperf3", "-c", "10.9.0.1", "-P", "129"},
      {"iperf3", "-c", "10.9.0.1", "-l", "2M"},
      {"iperf3", "-c", "10.9.0.1", "-b", "fast"},
      {"iperf3", "-c", "10.9.0.1", "-i", "0.01"},
      {"iperf3", "-c", "10.9.0.1", "-t", "1", "-n", "1M"},
      {"iperf3", "-c", "10.9.0.1", "-C", "nonsense"},
      {"iperf3", "-c", "10.9.0.1", "-4", "-6"},
  };
  for (const Words& words : cases) {
    const CommandResult result = Run(Tapwire(words));
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("tapwire"));
  }
}

}  // namespace
}  // namespace tapwire::interop
