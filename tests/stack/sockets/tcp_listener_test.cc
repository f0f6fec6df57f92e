// SPDX-License-Identifier: Apache-2.0
// The contract of TcpListener.

#include "stack/sockets/tcp_listener.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netdev/base/status_util.h"
#include "tests/stack/sockets/tcp_fixture.h"

namespace tapwire {
namespace {

class TcpListenerTest : public testutil::TcpFixture {
 protected:
  void ConnectMany(size_t count) {
    for (size_t i = 0; i < count; ++i) clients_.push_back(Connect());
    Run();
  }
  size_t ConnectedClients() const {
    size_t count = 0;
    for (const auto& client : clients_) count += client->connected() ? 1 : 0;
    return count;
  }

  std::vector<std::unique_ptr<TcpSocket>> clients_, servers_;

 public:
  ~TcpListenerTest() override {
    clients_.clear();
    servers_.clear();
  }
};

INSTANTIATE_TEST_SUITE_P(Families, TcpListenerTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

TEST_P(TcpListenerTest, AcceptCallbackRunsOncePerConnectionAfterTheBatch) {
  Listen();
  ASSERT_TRUE(listener_
                  ->AcceptStart([&](std::unique_ptr<TcpSocket> socket) {
                    EXPECT_TRUE(socket->connected());
                    EXPECT_EQ(&socket->stack(), b_.get());
                    servers_.push_back(std::move(socket));
                  })
                  .ok());
  ConnectMany(3);
  ASSERT_EQ(servers_.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(servers_[i]->remote(), clients_[i]->local());
  EXPECT_EQ(listener_->waiting(), 0u);
  EXPECT_EQ(listener_->AcceptStart(nullptr).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(TcpListenerTest, AcceptStartFindsThoseThatWait) {
  Listen();
  ConnectMany(2);
  EXPECT_EQ(listener_->waiting(), 2u);
  EXPECT_EQ(ConnectedClients(), 2u);
  ASSERT_TRUE(
      listener_
          ->AcceptStart([&](std::unique_ptr<TcpSocket> s) { servers_.push_back(std::move(s)); })
          .ok());
  EXPECT_TRUE(servers_.empty());
  Run();
  EXPECT_EQ(servers_.size(), 2u);
}

TEST_P(TcpListenerTest, AcceptStopInsideTheCallbackLeavesTheRestWaiting) {
  Listen();
  ConnectMany(3);
  ASSERT_TRUE(listener_
                  ->AcceptStart([&](std::unique_ptr<TcpSocket> socket) {
                    servers_.push_back(std::move(socket));
                    listener_->AcceptStop();
                  })
                  .ok());
  Run();
  EXPECT_EQ(servers_.size(), 1u);
  EXPECT_EQ(listener_->waiting(), 2u);
}

TEST_P(TcpListenerTest, TryAcceptAndReadiness) {
  Listen();
  int ready = 0;
  listener_->SetReadyCallback([&] { ++ready; });
  EXPECT_EQ(listener_->TryAccept(), nullptr);
  ConnectMany(1);
  EXPECT_EQ(ready, 1);
  servers_.push_back(listener_->TryAccept());
  ASSERT_NE(servers_.back(), nullptr);
  EXPECT_EQ(listener_->TryAccept(), nullptr);
  ConnectMany(1);
  EXPECT_EQ(ready, 2);
  listener_->SetReadyCallback([&] { ready += 10; });  // told of what waits already
  Run();
  EXPECT_EQ(ready, 12);
}

TEST_P(TcpListenerTest, AcceptCallbackMayDestroyTheListener) {
  Listen();
  ConnectMany(3);
  int calls = 0;
  ASSERT_TRUE(listener_
                  ->AcceptStart([&](std::unique_ptr<TcpSocket> socket) {
                    ++calls;
                    servers_.push_back(std::move(socket));
                    listener_.reset();
                  })
                  .ok());
  Run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(ConnectedClients(), 1u);  // the others were reset
  // The accepted one lives on without its listener.
  ASSERT_TRUE(servers_[0]->Write(Chain("still here"), nullptr).ok());
  Run();
  EXPECT_EQ(ReadAll(*clients_[0]), "still here");
}

TEST_P(TcpListenerTest, AcceptCallbackMayDropTheSocket) {
  Listen();
  ASSERT_TRUE(listener_->AcceptStart([](std::unique_ptr<TcpSocket>) {}).ok());
  ConnectMany(1);
  uint8_t room[1];
  EXPECT_EQ(clients_[0]->TryRead(room).value_or(99), 0u);  // closed in order
}

TEST_P(TcpListenerTest, DestroyedListenerResetsThoseThatWait) {
  Listen();
  ConnectMany(2);
  listener_.reset();
  Run();
  for (const auto& client : clients_) {
    EXPECT_EQ(StatusToErrno(client->status()), ECONNRESET) << client->status();
  }
  EXPECT_EQ(tcp_b().connection_count(), 0u);
  EXPECT_EQ(tcp_b().listener_count(), 0u);
  // The port refuses, and is free again.
  Done refused;
  auto late = Connect(Into(refused));
  Run();
  EXPECT_EQ(StatusToErrno(refused.status), ECONNREFUSED);
  Listen();
  ConnectMany(1);
  EXPECT_TRUE(clients_.back()->connected());
}

TEST_P(TcpListenerTest, DataMayBeThereBeforeTheConnectionIsAccepted) {
  Listen();
  client_ = Connect();
  ASSERT_TRUE(client_->Write(Chain("early"), nullptr).ok());
  ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
  Run();
  server_ = listener_->TryAccept();
  ASSERT_NE(server_, nullptr);
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  Run();
  EXPECT_EQ(heard.text, "early");
  EXPECT_EQ(heard.ends, 1);
}

// As Linux: accept() succeeds, and reading tells.
TEST_P(TcpListenerTest, WaitingConnectionThatIsResetIsHandedOut) {
  Listen();
  client_ = Connect();
  Run();
  EXPECT_TRUE(client_->TryWrite(Bytes("last words")).ok());
  Run();
  client_->Abort();
  Run();
  ASSERT_EQ(listener_->waiting(), 1u);
  EXPECT_EQ(tcp_b().connection_count(), 0u);
  server_ = listener_->TryAccept();
  ASSERT_NE(server_, nullptr);
  EXPECT_EQ(server_->remote().address, a());
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  Run();
  EXPECT_EQ(heard.text, "last words");
  EXPECT_EQ(heard.ends, 1);
  EXPECT_EQ(StatusToErrno(heard.status), ECONNRESET);
}

TEST_P(TcpListenerTest, WaitingConnectionsThatWereResetGoWithTheirListener) {
  Listen();
  for (int i = 0; i < 3; ++i) {
    client_ = Connect();
    Run();
    if (i != 1) client_->Abort();
    Run();
  }
  EXPECT_EQ(listener_->waiting(), 3u);
  listener_.reset();
  Run();
  EXPECT_EQ(tcp_b().connection_count(), 0u);
}

TEST_P(TcpListenerTest, WaitingConnectionsThatWereResetGoWithTheStack) {
  Listen();
  client_ = Connect();
  Run();
  client_->Abort();
  Run();
  EXPECT_EQ(listener_->waiting(), 1u);
  b_.reset();  // the fixture looks for leaks
  EXPECT_EQ(listener_->waiting(), 0u);
}

TEST_P(TcpListenerTest, HandedOutAfterAResetAndDroppedAtOnce) {
  Listen();
  client_ = Connect();
  Run();
  client_->Abort();
  Run();
  EXPECT_NE(listener_->TryAccept(), nullptr);  // destroyed before it is told
  server_ = listener_->TryAccept();
  EXPECT_EQ(server_, nullptr);
  Run();
}

TEST_P(TcpListenerTest, BacklogBoundsThoseThatWait) {
  auto listener = TcpListener::Listen(*b_, {any(), testutil::kTcpTestPort, 0}, 2);
  ASSERT_TRUE(listener.ok());
  ConnectMany(6);
  EXPECT_LE((*listener)->waiting(), 3u);  // backlog + 1, as Linux
  EXPECT_GE((*listener)->waiting(), 2u);
  while (auto socket = (*listener)->TryAccept()) servers_.push_back(std::move(socket));
  Advance(std::chrono::seconds(10));  // SYNs are sent again
  while (auto socket = (*listener)->TryAccept()) servers_.push_back(std::move(socket));
  EXPECT_GT(servers_.size(), 3u);
}

TEST_P(TcpListenerTest, ErrorsOfListen) {
  Listen();
  const IpAddress other = *IpAddress::Parse(v4() ? "10.0.0.77" : "fd00::77");
  EXPECT_EQ(StatusToErrno(TcpListener::Listen(*b_, {any(), testutil::kTcpTestPort, 0}).status()),
            EADDRINUSE);
  EXPECT_EQ(StatusToErrno(TcpListener::Listen(*b_, {b(), testutil::kTcpTestPort, 0}).status()),
            EADDRINUSE);
  EXPECT_EQ(StatusToErrno(TcpListener::Listen(*b_, {other, 80, 0}).status()), EADDRNOTAVAIL);
}

TEST_P(TcpListenerTest, PortZeroIsChosen) {
  auto one = TcpListener::Listen(*b_, {any(), 0, 0});
  auto two = TcpListener::Listen(*b_, {any(), 0, 0});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE((*one)->local().port, 0);
  EXPECT_NE((*one)->local().port, (*two)->local().port);
  auto client = TcpSocket::Connect(*a_, {b(), (*one)->local().port, 0}, {}, {});
  ASSERT_TRUE(client.ok());
  Run();
  EXPECT_EQ((*one)->waiting(), 1u);
}

TEST_P(TcpListenerTest, ListenerOutlivesItsStackHarmlessly) {
  Listen();
  ConnectMany(1);
  int ready = 0;
  listener_->SetReadyCallback([&] { ++ready; });  // an event is on its way
  b_.reset();
  Run();
  EXPECT_EQ(ready, 0);
  EXPECT_EQ(listener_->waiting(), 0u);
  EXPECT_EQ(listener_->TryAccept(), nullptr);
  EXPECT_EQ(listener_->local().port, testutil::kTcpTestPort);
  EXPECT_EQ(listener_->AcceptStart([](auto) {}).code(), absl::StatusCode::kFailedPrecondition);
}

// RFC 3493 §5.3: a wildcard of IPv6 hears IPv4 too, unless told not to.
TEST_P(TcpListenerTest, Ipv6WildcardTakesIpv4UnlessV6Only) {
  if (!v4()) return;
  const Endpoint wildcard{IpAddress::Unspecified(IpFamily::kV6), testutil::kTcpTestPort, 0};
  for (const bool v6_only : {false, true}) {
    TcpSocket::Options options;
    options.v6_only = v6_only;
    auto listener = TcpListener::Listen(*b_, wildcard, 8, options);
    ASSERT_TRUE(listener.ok()) << listener.status();
    client_ = Connect();
    Run();
    EXPECT_EQ(client_->connected(), !v6_only);
    client_.reset();
  }
}

}  // namespace
}  // namespace tapwire
