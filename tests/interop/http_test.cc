// SPDX-License-Identifier: Apache-2.0
// examples/http_server against curl and against clients that do not know HTTP.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/kernel_tcp.h"
#include "tests/interop/lab.h"
#include "tests/interop/transfer.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testutil::Command;
using testutil::CommandResult;
using Words = std::vector<std::string>;

std::string Url(IpFamily family, const std::string& path) {
  return family == IpFamily::kV4 ? absl::StrCat("http://", kStack4.ToString(), path)
                                 : absl::StrCat("http://[", kStack6.ToString(), "]", path);
}

std::string BytesPath(size_t count) { return absl::StrCat("/bytes/", count); }

// What BytesPath() gives.
std::string Pattern251(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i % 251);
  return text;
}

class InteropHttpTest : public testutil::NetnsFixture {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
#ifdef TAPWIRE_HTTP_SERVER
    if (Run({"curl", "--version"}).exit_code != 0) GTEST_SKIP() << "curl cannot be run";
    server_ = std::make_unique<Command>(
        Words{TAPWIRE_HTTP_SERVER, "-d", tun_node(), "-t", absl::StrCat(timeout().count()),
              kTapName, "10.9.0.2/24", "fd00:9::2/64"},
        testutil::CommandOptions{.timeout = seconds(60)});
    ASSERT_TRUE(server_->WaitForOutput("http on tw0 port 80\n")) << server_->output();
    Sysctl(absl::StrCat("ipv6/conf/", kTapName, "/accept_dad"), "0");
    Ip(absl::StrCat("addr add 10.9.0.1/24 dev ", kTapName));
    Ip(absl::StrCat("addr add fd00:9::1/64 nodad dev ", kTapName));
    Ip(absl::StrCat("link set ", kTapName, " up"));
#else
    GTEST_SKIP() << "example_http_server was not built: there is no Boost.Beast";
#endif
  }
  void TearDown() override {
    if (server_ != nullptr) {
      server_->Signal(SIGINT);
      EXPECT_EQ(server_->Wait().exit_code, 0) << server_->output();
      for (const auto& [counter, errors] : KernelCsumErrors()) EXPECT_EQ(errors, 0u) << counter;
    }
    NetnsFixture::TearDown();
  }
  // The server's limit of time.
  virtual milliseconds timeout() const { return seconds(10); }
  // How many connections the server has accepted, by its own word at its end.
  void ExpectConnections(size_t count) {
    server_->Signal(SIGINT);
    EXPECT_THAT(server_->Wait().output, EndsWith(absl::StrCat("\n", count, " connections\n")));
  }

  CommandResult Curl(const Words& arguments) {
    Words words = {"curl", "-sS", "--max-time", "15", "--noproxy", "*"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return Run(words);
  }
  // Sends these bytes and the end of the stream; what comes back until the server's.
  std::string Talk(const std::string& bytes) {
    return Run({"socat", "-t5", "-", SocatPeer(IpFamily::kV4, 80)}, {.input = bytes}).output;
  }
  template <typename Done>
  static bool WaitUntil(Done done, seconds limit = seconds(10)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }

  std::unique_ptr<Command> server_;
};

// Four clients at a time, one connection per answer.
TEST_F(InteropHttpTest, ThousandConnectionsOfCurl) {
  constexpr size_t kEach = 250;
  for (const IpFamily family : kFamilies) {
    std::vector<std::unique_ptr<Command>> clients;
    std::vector<std::string> expected;
    for (size_t client = 0; client < 2; ++client) {
      const size_t first = 1000 * client + 7;
      clients.push_back(std::make_unique<Command>(
          Words{"curl", "-sS", "--noproxy", "*", "-H", "Connection: close",
                Url(family, absl::StrCat("/bytes/[", first, "-", first + kEach - 1, "]"))},
          testutil::CommandOptions{.timeout = seconds(60)}));
      expected.emplace_back();
      for (size_t i = 0; i < kEach; ++i) {
        expected.back() += Pattern251(first + i);
      }
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      const CommandResult result = clients[i]->Wait();
      EXPECT_EQ(result.exit_code, 0);
      EXPECT_EQ(result.output.size(), expected[i].size());
      EXPECT_TRUE(result.output == expected[i]);
    }
  }
  ExpectConnections(4 * kEach);
}

TEST_F(InteropHttpTest, ConnectionIsUsedAgain) {
  const CommandResult curl = Curl({Url(IpFamily::kV4, "/bytes/[1-100]")});
  std::string expected;
  for (size_t i = 1; i <= 100; ++i) expected += Pattern251(i);
  EXPECT_TRUE(curl.output == expected) << curl.output.size();
  ExpectConnections(1);
}

TEST_F(InteropHttpTest, LargeAnswerArrivesWhole) {
  constexpr size_t kSize = 16 << 20;
  HashProgram hash;
  const std::string expected = Pattern251(kSize);
  hash.Write({reinterpret_cast<const uint8_t*>(expected.data()), expected.size()});
  const CommandResult curl =
      Run({"sh", "-c",
           absl::StrCat("curl -sS --noproxy '*' ", Url(IpFamily::kV4, BytesPath(kSize)),
                        " | sha256sum")});
  EXPECT_EQ(curl.output, absl::StrCat(hash.Finish(), "  -\n"));
}

TEST_F(InteropHttpTest, MethodsPagesAndBodies) {
  const std::string body(3000, 'x');
  const testutil::TempFile large(".body");
  ASSERT_EQ(Run({"truncate", "-s", "1048576", large.path()}).exit_code, 0);
  const std::string size = Url(IpFamily::kV4, "/size");
  EXPECT_EQ(Curl({Url(IpFamily::kV4, "/")}).output, "tapwire\n");
  EXPECT_EQ(Curl({"--data-binary", body, size}).output, "3000\n");
  EXPECT_EQ(Curl({"-H", "Transfer-Encoding: chunked", "--data-binary", body, size}).output,
            "3000\n");
  // curl asks first (RFC 9110 §10.1.1), and would wait a second for the answer.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Curl({"-H", "Expect: 100-continue", "--data-binary", "@" + large.path(), size}).output,
            "1048576\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(900));
  EXPECT_THAT(Curl({"-I", Url(IpFamily::kV4, BytesPath(12345))}).output,
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Length: 12345\r\n")));
  const auto code = [&](const Words& words) {
    Words all = {"-o", "/dev/null", "-w", "%{http_code}"};
    all.insert(all.end(), words.begin(), words.end());
    return Curl(all).output;
  };
  EXPECT_EQ(code({Url(IpFamily::kV4, "/nothing")}), "404");
  EXPECT_EQ(code({Url(IpFamily::kV4, BytesPath(1073741825))}), "404");
  EXPECT_EQ(code({"-X", "DELETE", Url(IpFamily::kV4, "/")}), "405");
  EXPECT_EQ(code({"--http1.0", Url(IpFamily::kV4, "/")}), "200");
}

// Each sends its end of the stream at once: the answer comes after it.
TEST_F(InteropHttpTest, BadRequestsAreRefused) {
  const std::string host = "Host: x\r\n";
  const struct {
    std::string request;
    std::string answer;
  } cases[] = {
      {"garbage\r\n\r\n", "HTTP/1.1 400 "},
      {std::string("\0\1\2\3\r\n\r\n", 8), "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\n" + host + host + "\r\n", "HTTP/1.1 400 "},
      {"GET / HTTP/9.9\r\n" + host + "\r\n", "HTTP/1.1 505 "},
      {"GET / HTTP/1.1\r\nbad header\r\n\r\n", "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", "HTTP/1.1 431 "},
      {"GET /" + std::string(100'000, 'x'), "HTTP/1.1 431 "},
      {"POST /size HTTP/1.1\r\n" + host + "Content-Length: 9999999\r\n\r\nx", "HTTP/1.1 413 "},
      {"POST /size HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
       "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\n" + host, ""},
      {"", ""},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.request.substr(0, 40));
    const std::string answer = Talk(test.request);
    if (test.answer.empty()) {
      EXPECT_EQ(answer, "");
    } else {
      EXPECT_THAT(answer, StartsWith(test.answer));
    }
  }
  EXPECT_EQ(Curl({Url(IpFamily::kV4, "/")}).output, "tapwire\n");
}

TEST_F(InteropHttpTest, PipelinedRequestsAreAnsweredInOrder) {
  const std::string answer = Talk(
      "GET " + BytesPath(1) +
      " HTTP/1.1\r\nHost: x\r\n\r\nPOST /size HTTP/1.1\r\nHost: x\r\n"
      "Content-Length: 5\r\n\r\nabcdeGET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const size_t second = answer.find("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
  const size_t third = answer.find("HTTP/1.1 404 Not Found\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"));
  EXPECT_NE(second, std::string::npos) << answer;
  EXPECT_NE(third, std::string::npos) << answer;
  EXPECT_LT(second, third);
}

class InteropHttpTimeoutTest : public InteropHttpTest {
 protected:
  milliseconds timeout() const override { return milliseconds(700); }
};

TEST_F(InteropHttpTimeoutTest, SlowClientsAreGivenUp) {
  const Endpoint server{kStack4, 80, 0};
  const auto start = std::chrono::steady_clock::now();
  KernelTcp silent = KernelTcp::Connect(server);
  KernelTcp writer = KernelTcp::Connect(server);
  KernelTcp reader = KernelTcp::Connect(server);
  ASSERT_TRUE(WaitUntil([&] { return silent.Writable() && writer.Writable(); }));
  ASSERT_TRUE(WaitUntil([&] { return reader.Writable(); }));
  EXPECT_GT(writer.Send("GET / HT"), 0u);
  EXPECT_GT(reader.Send("GET " + BytesPath(1000000000) + " HTTP/1.1\r\nHost: x\r\n\r\n"), 0u);
  EXPECT_TRUE(WaitUntil([&] { return silent.Receive(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - start, timeout() - milliseconds(50));
  EXPECT_EQ(silent.received(), "");
  EXPECT_EQ(silent.error(), 0);
  EXPECT_TRUE(WaitUntil([&] { return writer.Receive(); }));
  EXPECT_THAT(writer.received(), StartsWith("HTTP/1.1 408 "));
  // Its window has been closed all the time.
  std::this_thread::sleep_for(timeout());
  EXPECT_TRUE(WaitUntil([&] { return reader.Receive(); }));
  EXPECT_EQ(reader.error(), ECONNRESET);
  EXPECT_LT(reader.received().size(), 500'000'000u);
}

}  // namespace
}  // namespace tapwire::interop
