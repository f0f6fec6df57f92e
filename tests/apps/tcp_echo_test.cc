// SPDX-License-Identifier: Apache-2.0
// The TCP echo service between two stacks in one process.

#include "apps/tcp_echo.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netdev/base/status_util.h"
#include "tests/stack/sockets/tcp_fixture.h"

namespace tapwire::apps {
namespace {

using testutil::kTcpTestPort;
using testutil::Pattern;

class TcpEchoTest : public testutil::TcpFixture {
 protected:
  TcpEchoTest() {
    auto echo = TcpEcho::Start(*b_, kTcpTestPort);
    EXPECT_TRUE(echo.ok()) << echo.status();
    echo_ = *std::move(echo);
  }
  ~TcpEchoTest() override { echo_.reset(); }

  std::unique_ptr<TcpEcho> echo_;
};

INSTANTIATE_TEST_SUITE_P(Families, TcpEchoTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

TEST_P(TcpEchoTest, SendsBackWhatItGetsAndClosesAfterThePeer) {
  uint64_t bytes = 0;
  for (const size_t size : std::initializer_list<size_t>{0, 1, 1460, 100'000}) {
    const std::vector<uint8_t> data = Pattern(size);
    Heard heard;
    client_ = Connect();
    ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
    ASSERT_TRUE(client_->Write(Chain(data), nullptr).ok());
    ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
    Advance(std::chrono::seconds(5));
    EXPECT_EQ(heard.text, std::string(data.begin(), data.end()));
    EXPECT_EQ(heard.ends, 1);
    EXPECT_TRUE(heard.status.ok()) << heard.status;
    EXPECT_EQ(echo_->bytes(), bytes += size);
  }
  EXPECT_EQ(echo_->connections(), 4u);
  EXPECT_EQ(echo_->open(), 0u);
  EXPECT_EQ(echo_->errors(), 0u);
}

TEST_P(TcpEchoTest, ServesManyAtOnce) {
  std::vector<std::unique_ptr<TcpSocket>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(Connect());
    ASSERT_TRUE(clients.back()->Write(Chain(std::to_string(i)), nullptr).ok());
  }
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(echo_->open(), 20u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ReadAll(*clients[static_cast<size_t>(i)]), std::to_string(i));
  }
}

// A peer that sends and never reads costs the service its buffers and one slice, not all memory.
TEST_P(TcpEchoTest, PeerThatDoesNotReadIsNotReadFromEither) {
  client_ = Connect(nullptr, Buffers(0, 10'000));
  size_t sent = 0;
  const std::vector<uint8_t> piece = Pattern(64'000);
  for (int i = 0; i < 500; ++i) {
    const absl::StatusOr<size_t> n = client_->TryWrite(piece);
    if (n.ok()) sent += *n;
    Advance(std::chrono::milliseconds(10));
  }
  EXPECT_LT(sent, 16u << 20);
  EXPECT_TRUE(IsWouldBlock(client_->TryWrite(piece).status()));
  std::string back = ReadAll(*client_);
  for (int i = 0; i < 3000 && back.size() < sent; ++i) {
    Advance(std::chrono::milliseconds(100));
    back += ReadAll(*client_);
  }
  EXPECT_EQ(back.size(), sent);
}

TEST_P(TcpEchoTest, ResetIsAnErrorAndEndsTheSession) {
  client_ = Connect();
  Run();
  EXPECT_EQ(echo_->open(), 1u);
  client_->Abort();
  Run();
  EXPECT_EQ(echo_->open(), 0u);
  EXPECT_EQ(echo_->errors(), 1u);
}

TEST_P(TcpEchoTest, PortThatIsTakenIsAnError) {
  EXPECT_EQ(StatusToErrno(TcpEcho::Start(*b_, kTcpTestPort).status()), EADDRINUSE);
  EXPECT_TRUE(TcpEcho::Start(*b_, kTcpTestPort + 1).ok());
}

TEST_P(TcpEchoTest, EndOfTheServiceClosesItsConnectionsAndFreesThePort) {
  client_ = Connect();
  Run();
  echo_.reset();
  Run();
  uint8_t room[1];
  EXPECT_EQ(client_->TryRead(room).value_or(99), 0u);
  EXPECT_TRUE(TcpEcho::Start(*b_, kTcpTestPort).ok());
}

}  // namespace
}  // namespace tapwire::apps
