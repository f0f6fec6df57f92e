// SPDX-License-Identifier: Apache-2.0
// The contract of TcpSocket: refusals, failures, closing, aborting and destroying.

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netdev/base/status_util.h"
#include "stack/sockets/tcp_socket.h"
#include "tests/stack/sockets/tcp_fixture.h"

namespace tapwire {
namespace {

using testutil::Pattern;

class TcpSocketEndTest : public testutil::TcpFixture {
 protected:
  // A connection whose send buffers and queues are full on the client's side.
  void EstablishAndFill(Done& written) {
    Establish(Buffers(10'000, 0), Buffers(0, 10'000));
    ASSERT_TRUE(client_->Write(Chain(Pattern(100'000)), Into(written)).ok());
    Advance(std::chrono::milliseconds(100));
    ASSERT_EQ(written.calls, 0);
    ASSERT_GT(client_->write_queue_size(), 50'000u);
  }
};

INSTANTIATE_TEST_SUITE_P(Families, TcpSocketEndTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), testutil::FamilyName);

// ---- Attempts that fail ----

TEST_P(TcpSocketEndTest, RefusedConnectionTellsEveryOneShot) {
  Done connected, written, shut;
  client_ = Connect(Into(connected));
  Heard heard;
  ASSERT_TRUE(client_->Write(Chain("x"), Into(written)).ok());
  ASSERT_TRUE(client_->ShutdownWrite(Into(shut)).ok());
  ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
  Run();
  for (const Done* done : {&connected, &shut}) {
    EXPECT_EQ(done->calls, 1);
    EXPECT_EQ(StatusToErrno(done->status), ECONNREFUSED) << done->status;
  }
  EXPECT_EQ(written.calls, 1);
  EXPECT_EQ(heard.ends, 1);
  EXPECT_EQ(StatusToErrno(heard.status), ECONNREFUSED);
  EXPECT_EQ(StatusToErrno(client_->status()), ECONNREFUSED);
  EXPECT_FALSE(client_->connected());
  // Later calls say the same; facts stay.
  uint8_t room[1];
  EXPECT_EQ(StatusToErrno(client_->TryRead(room).status()), ECONNREFUSED);
  EXPECT_EQ(StatusToErrno(client_->TryWrite(Bytes("x")).status()), ECONNREFUSED);
  EXPECT_EQ(StatusToErrno(client_->Write(Chain("x"), nullptr)), ECONNREFUSED);
  EXPECT_EQ(StatusToErrno(client_->ReadStart(Into(heard))), ECONNREFUSED);
  EXPECT_EQ(StatusToErrno(client_->ReadyStart([] {})), ECONNREFUSED);
  EXPECT_EQ(client_->remote(), server_endpoint());
  EXPECT_EQ(client_->Info().state, tcp::State::kClosed);
  EXPECT_FALSE(client_->options().nodelay);
  client_->OptionsChanged();
}

TEST_P(TcpSocketEndTest, DestroyingInTheConnectCallback) {
  Listen();
  for (const uint16_t port : {testutil::kTcpTestPort, uint16_t{9}}) {  // one is refused
    int calls = 0;
    std::unique_ptr<TcpSocket> socket;
    socket = *TcpSocket::Connect(*a_, {b(), port, 0}, {}, [&](absl::Status) {
      ++calls;
      socket.reset();
    });
    Done written;
    Heard heard;
    ASSERT_TRUE(socket->ReadStart(Into(heard)).ok());
    ASSERT_TRUE(socket->ShutdownWrite(Into(written)).ok());
    Run();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(socket, nullptr);
    EXPECT_EQ(written.calls, 0);
    EXPECT_EQ(heard.ends, 0);
  }
}

TEST_P(TcpSocketEndTest, SilentPeerIsATimeout) {
  Unplug();
  const IpAddress silent = *IpAddress::Parse(v4() ? "10.0.0.9" : "fd00::9");
  Done connected;
  TcpSocket::Options options;
  options.syn_retries = 2;
  auto socket = TcpSocket::Connect(*a_, {silent, 7, 0}, {.socket = options}, Into(connected));
  if (!socket.ok()) return;  // without carrier there may be no route at all
  Advance(std::chrono::minutes(10));
  EXPECT_EQ(connected.calls, 1);
  const int err = StatusToErrno(connected.status);
  EXPECT_TRUE(err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH) << connected.status;
}

TEST_P(TcpSocketEndTest, NeighbourThatDoesNotAnswerIsUnreachable) {
  const IpAddress silent = *IpAddress::Parse(v4() ? "10.0.0.9" : "fd00::9");
  Done connected;
  auto socket = TcpSocket::Connect(*a_, {silent, 7, 0}, {}, Into(connected));
  ASSERT_TRUE(socket.ok());
  Advance(std::chrono::seconds(30));
  EXPECT_EQ(connected.calls, 1);
  EXPECT_EQ(StatusToErrno(connected.status), EHOSTUNREACH) << connected.status;
}

TEST_P(TcpSocketEndTest, SocketClosedWhileItConnects) {
  Listen();
  for (const bool abort : {false, true}) {
    Done connected, written;
    int closed = 0;
    client_ = Connect(Into(connected));
    ASSERT_TRUE(client_->Write(Chain("x"), nullptr).ok());
    ASSERT_TRUE(client_->ShutdownWrite(Into(written)).ok());
    if (abort) client_->Abort();
    client_->Close([&] { ++closed; });
    EXPECT_EQ(connected.calls + written.calls + closed, 0);
    Run();
    EXPECT_EQ(connected.calls, 1);
    EXPECT_EQ(StatusToErrno(connected.status), ECONNABORTED) << connected.status;
    EXPECT_EQ(written.calls, 1);
    EXPECT_EQ(StatusToErrno(written.status), ECONNABORTED) << written.status;
    EXPECT_EQ(closed, 1);
    EXPECT_EQ(tcp_a().connection_count(), 0u);
  }
}

// ---- Close ----

TEST_P(TcpSocketEndTest, CloseSendsWhatIsQueuedAndCallsBackAtTheEnd) {
  Done written;
  EstablishAndFill(written);
  Heard heard;
  int closed = 0;
  client_->Close([&] {
    EXPECT_EQ(written.calls, 1);
    ++closed;
  });
  EXPECT_EQ(written.calls, 0);
  Run();
  EXPECT_EQ(written.calls, 1);
  EXPECT_TRUE(written.status.ok()) << written.status;
  EXPECT_EQ(closed, 0);
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  Advance(std::chrono::seconds(20));
  EXPECT_EQ(heard.text.size(), 100'000u);
  EXPECT_EQ(heard.ends, 1);
  EXPECT_TRUE(heard.status.ok());
  EXPECT_EQ(closed, 0);
  server_->Close(nullptr);
  Run();
  EXPECT_EQ(closed, 1);
  EXPECT_TRUE(client_->status().ok());
  EXPECT_EQ(tcp_a().connection_count(), 0u);
  EXPECT_EQ(tcp_a().time_wait_count(), 1u);
  EXPECT_EQ(client_->remote(), server_endpoint());
}

TEST_P(TcpSocketEndTest, EveryCloseCallbackRunsOnceAndLaterCallsAreRefused) {
  Establish();
  std::string order;
  client_->Close([&] { order += 'a'; });
  client_->Close([&] { order += 'b'; });
  uint8_t room[1];
  Done never;
  Heard heard;
  const auto code = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(client_->Write(Chain("x"), Into(never)).code(), code);
  EXPECT_EQ(client_->TryWrite(Bytes("x")).status().code(), code);
  EXPECT_EQ(client_->ShutdownWrite(Into(never)).code(), code);
  EXPECT_EQ(client_->TryRead(room).status().code(), code);
  EXPECT_EQ(client_->ReadStart(Into(heard)).code(), code);
  EXPECT_EQ(client_->ReadyStart([] {}).code(), code);
  client_->SetWritableCallback([] { FAIL(); });
  client_->SetUrgentCallback([] { FAIL(); });
  EXPECT_FALSE(client_->connected());
  server_->Close(nullptr);
  Run();
  EXPECT_EQ(order, "ab");
  client_->Close([&] { order += 'c'; });
  EXPECT_EQ(order, "ab");
  Run();
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(never.calls, 0);
}

TEST_P(TcpSocketEndTest, NoReadCallbackAfterClose) {
  Establish();
  Heard heard;
  ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
  client_->Close(nullptr);
  ASSERT_TRUE(server_->Write(Chain("late"), nullptr).ok());
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(heard.text, "");
  EXPECT_EQ(heard.ends, 0);
  // Nobody will read it: the peer is told (RFC 9293 §3.6.1).
  EXPECT_FALSE(server_->status().ok());
}

TEST_P(TcpSocketEndTest, CloseIsToldOfAResetAfterwards) {
  Establish();
  int closed = 0;
  client_->Close([&] { ++closed; });
  ASSERT_TRUE(server_->Write(Chain("late"), nullptr).ok());
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(tcp_a().connection_count(), 0u);
}

TEST_P(TcpSocketEndTest, CloseOfAPeerThatNeverClosesEnds) {
  Establish();
  int closed = 0;
  client_->Close([&] { ++closed; });
  Advance(std::chrono::seconds(30));
  EXPECT_EQ(closed, 0);
  Advance(std::chrono::seconds(60));  // Config::fin_wait_2
  EXPECT_EQ(closed, 1);
}

TEST_P(TcpSocketEndTest, CloseWithDataUnreadResets) {  // Covers: RFC 9293 SHLD-3
  Establish();
  ASSERT_TRUE(server_->Write(Chain("unread"), nullptr).ok());
  Run();
  int closed = 0;
  client_->Close([&] { ++closed; });
  EXPECT_EQ(closed, 0);
  Run();
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(StatusToErrno(server_->status()), ECONNRESET) << server_->status();
}

TEST_P(TcpSocketEndTest, CloseCallbackMayDestroyTheSocket) {
  Establish();
  int closed = 0;
  const auto destroy = [&] {
    ++closed;
    client_.reset();
  };
  client_->Close(destroy);
  client_->Close(destroy);
  server_->Close(nullptr);
  Run();
  EXPECT_EQ(closed, 1);
}

TEST_P(TcpSocketEndTest, CloseInsideAReadCallback) {
  Establish();
  ASSERT_TRUE(client_->Write(Chain(Pattern(60'000)), nullptr).ok());
  Advance(std::chrono::seconds(1));
  int calls = 0, closed = 0;
  ASSERT_TRUE(server_
                  ->ReadStart([&](absl::StatusOr<BufferSlice>) {
                    ++calls;
                    server_->Close([&] { ++closed; });
                  })
                  .ok());
  Run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(closed, 1);
}

// ---- Destruction ----

TEST_P(TcpSocketEndTest, DestroyedSocketSendsAllInTheBackground) {
  Done written;
  EstablishAndFill(written);
  client_.reset();
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  Advance(std::chrono::seconds(20));
  EXPECT_EQ(heard.text.size(), 100'000u);
  EXPECT_EQ(heard.ends, 1);
  EXPECT_TRUE(heard.status.ok()) << heard.status;
  EXPECT_EQ(written.calls, 0);
}

TEST_P(TcpSocketEndTest, DestroyedSocketWithZeroLingerResets) {
  Done written;
  EstablishAndFill(written);
  client_->options().linger = Duration::zero();
  client_.reset();
  Run();
  EXPECT_EQ(StatusToErrno(server_->status()), ECONNRESET) << server_->status();
  EXPECT_EQ(written.calls, 0);
}

TEST_P(TcpSocketEndTest, DestroyedSocketWithDataUnreadResets) {
  Establish();
  ASSERT_TRUE(client_->Write(Chain("unread"), nullptr).ok());
  Run();
  server_.reset();
  Run();
  EXPECT_EQ(StatusToErrno(client_->status()), ECONNRESET) << client_->status();
}

TEST_P(TcpSocketEndTest, NoCallbackAfterTheDestructor) {
  Listen();
  Done connected, written, shut;
  int closed = 0;
  Heard heard;
  client_ = Connect(Into(connected));
  ASSERT_TRUE(client_->Write(Chain("x"), Into(written)).ok());
  ASSERT_TRUE(client_->ShutdownWrite(Into(shut)).ok());
  ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
  client_.reset();
  Advance(std::chrono::seconds(1));
  client_ = Connect(Into(connected));
  client_->Close([&] { ++closed; });
  client_.reset();
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(connected.calls + written.calls + shut.calls + closed + heard.ends, 0);
}

TEST_P(TcpSocketEndTest, DestroyedWhileItCloses) {
  Establish();
  int closed = 0;
  client_->Close([&] { ++closed; });
  Run();
  client_.reset();
  server_->Close(nullptr);
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(closed, 0);
  EXPECT_EQ(tcp_a().connection_count(), 0u);
}

TEST_P(TcpSocketEndTest, CallbackMayOwnItsSocket) {
  Listen();
  auto owned = std::make_shared<std::unique_ptr<TcpSocket>>();
  *owned = *TcpSocket::Connect(*a_, server_endpoint(), {}, [owned](absl::Status) {});
  Run();
  EXPECT_TRUE((*owned)->connected());
  ASSERT_TRUE((*owned)->ReadStart([owned](absl::StatusOr<BufferSlice>) { owned->reset(); }).ok());
  std::weak_ptr<std::unique_ptr<TcpSocket>> weak = owned;
  owned.reset();
  server_ = listener_->TryAccept();
  server_->Close(nullptr);
  Run();
  EXPECT_TRUE(weak.expired());
}

// ---- Abort and resets ----

TEST_P(TcpSocketEndTest, AbortResetsAndTellsOneShots) {
  Done written, shut;
  EstablishAndFill(written);
  Heard heard, theirs;
  ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
  ASSERT_TRUE(client_->ShutdownWrite(Into(shut)).ok());
  ASSERT_TRUE(server_->ReadStart(Into(theirs)).ok());
  client_->Abort();
  EXPECT_EQ(written.calls + shut.calls, 0);
  Run();
  for (const Done* done : {&written, &shut}) {
    EXPECT_EQ(done->calls, 1);
    EXPECT_EQ(StatusToErrno(done->status), ECONNABORTED) << done->status;
  }
  EXPECT_EQ(heard.ends, 0);
  EXPECT_EQ(StatusToErrno(client_->status()), ECONNABORTED);
  EXPECT_EQ(client_->write_queue_size(), 0u);
  EXPECT_EQ(tcp_a().connection_count(), 0u);
  EXPECT_EQ(tcp_b().connection_count(), 0u);
  EXPECT_EQ(theirs.ends, 1);
  EXPECT_EQ(StatusToErrno(theirs.status), ECONNRESET);
  EXPECT_EQ(client_->TryWrite(Bytes("x")).status().code(), absl::StatusCode::kFailedPrecondition);
  client_->Abort();
  int closed = 0;
  client_->Close([&] { ++closed; });
  Run();
  EXPECT_EQ(closed, 1);
}

TEST_P(TcpSocketEndTest, AbortAfterCloseEndsAtOnce) {
  Establish();
  int closed = 0;
  client_->Close([&] { ++closed; });
  Run();
  EXPECT_EQ(closed, 0);
  client_->Abort();
  EXPECT_EQ(closed, 0);
  Run();
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(tcp_a().connection_count(), 0u);
}

// After a reset what had arrived before is still read, then the error.
TEST_P(TcpSocketEndTest, DataBeforeAResetIsReadFirst) {
  for (const bool slices : {false, true}) {
    Establish();
    ASSERT_TRUE(client_->Write(Chain("before"), nullptr).ok());
    Run();
    client_->Abort();
    Run();
    EXPECT_EQ(StatusToErrno(server_->status()), ECONNRESET);
    EXPECT_EQ(server_->readable_bytes(), 6u);
    Heard heard;
    if (slices) {
      ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
      Run();
      EXPECT_EQ(heard.text, "before");
      EXPECT_EQ(StatusToErrno(heard.status), ECONNRESET);
    } else {
      uint8_t room[16];
      EXPECT_EQ(server_->TryRead(room).value_or(0), 6u);
      EXPECT_EQ(StatusToErrno(server_->TryRead(room).status()), ECONNRESET);
    }
    EXPECT_EQ(StatusToErrno(server_->ReadStart(Into(heard))), ECONNRESET);
  }
}

// Data and reset in one batch: the callback of the first destroys, closes or aborts the socket.
TEST_P(TcpSocketEndTest, EndedInTheReadCallbackOfABatchThatAlsoBringsAReset) {
  for (const int how : {0, 1, 2, 3}) {
    Establish();
    int calls = 0, closed = 0;
    ASSERT_TRUE(client_
                    ->ReadStart([&](absl::StatusOr<BufferSlice>) {
                      ++calls;
                      if (how == 0) client_.reset();
                      if (how == 1) client_->Close([&] { ++closed; });
                      if (how == 2) client_->Abort();
                      if (how == 3) client_->ReadStop();
                    })
                    .ok());
    EXPECT_TRUE(server_->TryWrite(Bytes("x")).ok());
    // Posted work runs after this round's flush and before the frames of the next are received.
    context_.Defer([&] { context_.Post([&] { server_->Abort(); }); });
    Run();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(closed, how == 1 ? 1 : 0);
    EXPECT_EQ(tcp_a().connection_count(), 0u);
  }
}

TEST_P(TcpSocketEndTest, ReadinessAndWritabilityAreToldOfAReset) {
  Done written;
  EstablishAndFill(written);
  EXPECT_TRUE(IsWouldBlock(client_->TryWrite(Bytes("x")).status()));
  int readable = 0, writable = 0;
  ASSERT_TRUE(client_->ReadyStart([&] { ++readable; }).ok());
  client_->SetWritableCallback([&] { ++writable; });
  server_->Abort();
  Run();
  EXPECT_EQ(written.calls, 1);
  EXPECT_EQ(StatusToErrno(written.status), ECONNRESET) << written.status;
  EXPECT_EQ(readable, 1);
  EXPECT_EQ(writable, 1);
  EXPECT_EQ(StatusToErrno(client_->TryWrite(Bytes("x")).status()), ECONNRESET);
}

TEST_P(TcpSocketEndTest, BothSidesClosedInOrder) {
  Establish();
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  ASSERT_TRUE(client_->ShutdownWrite(nullptr).ok());
  Run();
  ASSERT_TRUE(server_->ShutdownWrite(nullptr).ok());
  Run();
  EXPECT_EQ(heard.ends, 1);
  EXPECT_TRUE(server_->status().ok());
  EXPECT_TRUE(client_->status().ok());
  EXPECT_FALSE(server_->connected());
  EXPECT_EQ(tcp_b().connection_count(), 0u);
  // The end that was not read yet still is.
  uint8_t room[1];
  EXPECT_EQ(client_->TryRead(room).value_or(99), 0u);
  EXPECT_EQ(StatusToErrno(client_->TryWrite(Bytes("x")).status()), EPIPE);
  int closed = 0;
  client_->Close([&] { ++closed; });
  Run();
  EXPECT_EQ(closed, 1);
}

TEST_P(TcpSocketEndTest, PeerThatFallsSilentTimesOut) {  // Covers: RFC 9293 MUST-21
  TcpSocket::Options options;
  options.user_timeout = std::chrono::seconds(20);
  Establish(options);
  Heard heard;
  ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
  ASSERT_TRUE(ib_->RemoveAddress(b()).ok());
  ASSERT_TRUE(client_->Write(Chain("x"), nullptr).ok());
  Advance(std::chrono::seconds(10));
  EXPECT_EQ(heard.ends, 0);
  Advance(std::chrono::seconds(50));
  EXPECT_EQ(heard.ends, 1);
  const int err = StatusToErrno(heard.status);
  EXPECT_TRUE(err == ETIMEDOUT || err == EHOSTUNREACH) << heard.status;
}

// No way out at all when the data is written: the timeout holds all the same.
TEST_P(TcpSocketEndTest, LostCarrierTimesOut) {
  TcpSocket::Options options;
  options.user_timeout = std::chrono::seconds(20);
  Establish(options);
  Heard heard;
  ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
  Unplug();
  ASSERT_TRUE(client_->Write(Chain("x"), nullptr).ok());
  Advance(std::chrono::minutes(5));
  EXPECT_EQ(heard.ends, 1);
  EXPECT_FALSE(heard.status.ok());
}

// ---- The stack goes first ----

TEST_P(TcpSocketEndTest, StackDestroyedBeforeItsSockets) {
  Done written;
  EstablishAndFill(written);
  Heard heard;
  int closed = 0;
  auto connecting = Connect();
  auto closing = Connect();
  Run();
  closing->Close([&] { ++closed; });
  ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
  a_.reset();
  EXPECT_EQ(written.calls + heard.ends + closed, 0);
  Run();
  EXPECT_EQ(written.calls, 1);
  EXPECT_EQ(written.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(heard.ends, 1);
  EXPECT_EQ(closed, 1);
  uint8_t room[1];
  EXPECT_EQ(client_->TryRead(room).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_->Write(Chain("x"), nullptr).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_->TryWrite(Bytes("x")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_->ShutdownWrite(nullptr).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(client_->ReadStart(Into(heard)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(client_->connected());
  EXPECT_EQ(client_->remote(), server_endpoint());
  client_->Consumed(1);
  client_->OptionsChanged();
  client_->Abort();
  client_->Close(nullptr);
  Run();
}

// Gone a moment ago, but nobody was told yet.
TEST_P(TcpSocketEndTest, StackDestroyedBetweenTheEndAndItsEvent) {
  Establish();
  Heard heard;
  ASSERT_TRUE(client_->ReadStart(Into(heard)).ok());
  server_->Abort();
  context_.Defer([&] { a_.reset(); });  // before the events of the reset
  Run();
  EXPECT_EQ(heard.ends, 1);
  EXPECT_FALSE(client_->status().ok());
}

TEST_P(TcpSocketEndTest, CallbackMayDestroyTheStack) {
  Establish();
  ASSERT_TRUE(server_->ReadStart([&](absl::StatusOr<BufferSlice>) { b_.reset(); }).ok());
  ASSERT_TRUE(client_->Write(Chain(Pattern(60'000)), nullptr).ok());
  Run();
  EXPECT_EQ(server_->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(listener_->AcceptStart([](auto) {}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(TcpSocketEndTest, SocketDestroyedBetweenTheEndAndItsEvent) {
  Establish();
  // The reset arrives, and an earlier callback of the same batch destroys the socket.
  server_->Abort();
  context_.Post([&] { context_.Defer([&] { client_.reset(); }); });
  Run();
  EXPECT_EQ(client_, nullptr);
  EXPECT_EQ(tcp_a().connection_count(), 0u);
}

}  // namespace
}  // namespace tapwire
