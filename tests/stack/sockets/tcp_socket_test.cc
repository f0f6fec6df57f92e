// SPDX-License-Identifier: Apache-2.0
// The contract of TcpSocket: connecting, writing, facts. Reading is in tcp_socket_read_test.cc, how
// it ends in tcp_socket_end_test.cc.

#include "stack/sockets/tcp_socket.h"

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

using testutil::Pattern;

class TcpSocketTest : public testutil::TcpFixture {};

INSTANTIATE_TEST_SUITE_P(Families, TcpSocketTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

// ---- Connecting ----

TEST_P(TcpSocketTest, ConnectCallbackRunsOnceAndNotInsideTheCall) {
  Listen();
  Done connected;
  client_ = Connect(Into(connected));
  EXPECT_EQ(connected.calls, 0);
  EXPECT_FALSE(client_->connected());
  Run();
  EXPECT_EQ(connected.calls, 1);
  EXPECT_TRUE(connected.status.ok()) << connected.status;
  EXPECT_TRUE(client_->connected());
  EXPECT_TRUE(client_->status().ok());
  EXPECT_EQ(client_->remote(), server_endpoint());
  EXPECT_EQ(client_->local().address, a());
  EXPECT_NE(client_->local().port, 0);
  EXPECT_EQ(&client_->stack(), a_.get());
  server_ = listener_->TryAccept();
  ASSERT_NE(server_, nullptr);
  EXPECT_EQ(server_->remote(), client_->local());
  EXPECT_EQ(server_->local(), server_endpoint());
  EXPECT_EQ(server_->Info().state, tcp::State::kEstablished);
}

TEST_P(TcpSocketTest, ConnectUsesTheLocalEndpointGiven) {
  Listen();
  auto socket = TcpSocket::Connect(*a_, server_endpoint(), {.local = Endpoint{a(), 4000, 0}}, {});
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ((*socket)->local(), (Endpoint{a(), 4000, 0}));
  Run();
  EXPECT_TRUE((*socket)->connected());
}

TEST_P(TcpSocketTest, LinkLocalPeerIsNamedWithItsInterface) {
  if (v4()) return;
  Listen();
  const auto* address = ib_->FindAddress(*IpAddress::Parse("fe80::2"));
  if (address == nullptr) {
    ASSERT_TRUE(ib_->AddAddress({*IpAddress::Parse("fe80::2"), 64}).ok());
  }
  ASSERT_TRUE(ia_->AddAddress({*IpAddress::Parse("fe80::1"), 64}).ok());
  Run();
  const Endpoint remote{*IpAddress::Parse("fe80::2"), testutil::kTcpTestPort, ia_->index()};
  auto socket = TcpSocket::Connect(*a_, remote, {}, {});
  ASSERT_TRUE(socket.ok()) << socket.status();
  Run();
  EXPECT_TRUE((*socket)->connected());
  EXPECT_EQ((*socket)->remote(), remote);
  EXPECT_EQ((*socket)->local().zone, ia_->index());
  server_ = listener_->TryAccept();
  ASSERT_NE(server_, nullptr);
  EXPECT_EQ(server_->remote().zone, ib_->index());
}

TEST_P(TcpSocketTest, ArgumentErrorsOfConnectAreReturned) {  // Covers: RFC 9293 MUST-46
  const auto connect = [&](const Endpoint& remote, std::optional<Endpoint> local = {}) {
    Done never;
    const auto socket = TcpSocket::Connect(*a_, remote, {.local = local}, Into(never));
    Run();
    EXPECT_EQ(never.calls, 0);
    return socket.status();
  };
  const IpAddress group = *IpAddress::Parse(v4() ? "239.1.1.1" : "ff0e::1");
  const IpAddress far = *IpAddress::Parse(v4() ? "192.0.2.1" : "2001:db8::1");
  const IpAddress other_family = *IpAddress::Parse(v4() ? "fd00::1" : "10.0.0.1");
  EXPECT_EQ(connect({b(), 0, 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(connect({any(), 7, 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(connect({group, 7, 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(connect({far, 7, 0}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(connect({b(), 7, 0}, Endpoint{other_family, 0, 0}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StatusToErrno(connect({b(), 7, 0}, Endpoint{b(), 0, 0})), EADDRNOTAVAIL);
  if (v4()) {
    EXPECT_EQ(StatusToErrno(connect({*IpAddress::Parse("255.255.255.255"), 7, 0})), ENETUNREACH);
    EXPECT_EQ(StatusToErrno(connect({*IpAddress::Parse("10.0.0.255"), 7, 0})), ENETUNREACH);
  }
}

TEST_P(TcpSocketTest, TakenFourTupleIsAnError) {
  Establish();
  const auto second = TcpSocket::Connect(*a_, server_endpoint(), {.local = client_->local()}, {});
  EXPECT_FALSE(second.ok());
  EXPECT_TRUE(StatusToErrno(second.status()) == EADDRINUSE ||
              StatusToErrno(second.status()) == EADDRNOTAVAIL)
      << second.status();
}

TEST_P(TcpSocketTest, DataAndShutdownBeforeTheConnectionStandsAreKept) {
  Listen();
  client_ = Connect();
  Done written, shut;
  EXPECT_EQ(client_->TryWrite(Bytes("a")).value_or(0), 1u);
  EXPECT_TRUE(client_->Write(Chain("b"), Into(written)).ok());
  EXPECT_TRUE(client_->ShutdownWrite(Into(shut)).ok());
  Run();
  EXPECT_EQ(written.calls, 1);
  EXPECT_EQ(shut.calls, 1);
  EXPECT_TRUE(written.status.ok() && shut.status.ok()) << written.status << shut.status;
  server_ = listener_->TryAccept();
  ASSERT_NE(server_, nullptr);
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  Run();
  EXPECT_EQ(heard.text, "ab");
  EXPECT_EQ(heard.ends, 1);
}

// ---- Writing ----

TEST_P(TcpSocketTest, WriteCallbacksRunInOrderOnceTheDataIsAccepted) {
  Establish(Buffers(10'000, 0), Buffers(0, 10'000));
  std::string order;
  const auto note = [&](char c) {
    return [&order, c](absl::Status s) {
      EXPECT_TRUE(s.ok()) << s;
      order += c;
    };
  };
  ASSERT_TRUE(client_->Write(Chain("x"), note('a')).ok());
  ASSERT_TRUE(client_->Write(BufferChain(), note('b')).ok());  // nothing is a write too
  EXPECT_EQ(order, "");
  Run();
  EXPECT_EQ(order, "ab");
  ASSERT_TRUE(client_->Write(Chain(Pattern(50'000)), note('c')).ok());
  ASSERT_TRUE(client_->Write(Chain("y"), note('d')).ok());
  ASSERT_TRUE(client_->Write(BufferChain(), note('e')).ok());
  ASSERT_TRUE(client_->ShutdownWrite(note('f')).ok());
  EXPECT_GE(client_->write_queue_size(), 40'001u);
  EXPECT_LE(client_->unacked_bytes(), 10'000u);
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(order, "ab");
  EXPECT_GT(client_->write_queue_size(), 0u);
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  Advance(std::chrono::seconds(10));
  EXPECT_EQ(order, "abcdef");
  EXPECT_EQ(heard.text.size(), 50'002u);
  EXPECT_EQ(heard.ends, 1);
  EXPECT_EQ(client_->write_queue_size(), 0u);
  EXPECT_EQ(client_->unacked_bytes(), 0u);
}

TEST_P(TcpSocketTest, TryWriteTakesWhatFitsAndSaysWhenItWouldBlock) {
  Establish(Buffers(10'000, 0), Buffers(0, 10'000));
  int writable = 0;
  client_->SetWritableCallback([&] { ++writable; });
  EXPECT_EQ(client_->TryWrite({}).value_or(99), 0u);
  EXPECT_EQ(client_->TryWrite(Pattern(30'000)).value_or(0), 10'000u);
  EXPECT_TRUE(IsWouldBlock(client_->TryWrite(Pattern(1)).status()));
  Advance(std::chrono::seconds(1));  // all goes into the peer's receive buffer
  EXPECT_EQ(writable, 1);
  Run();
  EXPECT_EQ(writable, 1);
  EXPECT_EQ(client_->TryWrite(Pattern(10)).value_or(0), 10u);
  Advance(std::chrono::seconds(1));
  EXPECT_EQ(writable, 1);  // it was not held back
}

TEST_P(TcpSocketTest, WritableIsNotToldToWhomNothingWasRefused) {
  Listen();
  client_ = Connect();
  int writable = 0;
  client_->SetWritableCallback([&] { ++writable; });
  EXPECT_EQ(client_->TryWrite(Bytes("x")).value_or(0), 1u);
  Advance(std::chrono::seconds(1));
  EXPECT_TRUE(client_->connected());
  EXPECT_EQ(writable, 0);
}

TEST_P(TcpSocketTest, TryWriteWaitsForEarlierWrites) {
  Establish(Buffers(10'000, 0), Buffers(0, 10'000));
  Done done;
  ASSERT_TRUE(client_->Write(Chain(Pattern(30'000)), Into(done)).ok());
  EXPECT_TRUE(IsWouldBlock(client_->TryWrite(Bytes("end")).status()));
  std::string order;
  client_->SetWritableCallback([&] {
    EXPECT_EQ(done.calls, 1);
    EXPECT_EQ(client_->TryWrite(Bytes("end")).value_or(0), 3u);
    order += "w";
  });
  Heard heard;
  ASSERT_TRUE(server_->ReadStart(Into(heard)).ok());
  Advance(std::chrono::seconds(10));
  EXPECT_EQ(order, "w");
  EXPECT_EQ(heard.text.size(), 30'003u);
  EXPECT_EQ(heard.text.substr(30'000), "end");
}

TEST_P(TcpSocketTest, WritableCallbackSetLateIsToldToo) {
  Establish(Buffers(10'000, 0), Buffers(0, 100'000));
  EXPECT_EQ(client_->TryWrite(Pattern(30'000)).value_or(0), 10'000u);
  Advance(std::chrono::seconds(1));
  int writable = 0;
  client_->SetWritableCallback([&] { ++writable; });
  EXPECT_EQ(writable, 0);
  Run();
  EXPECT_EQ(writable, 1);
}

TEST_P(TcpSocketTest, PoolAtItsBudgetIsAnErrorOfTheWrite) {
  Establish();
  std::vector<SlabRef> all;
  for (const SlabClass slabs : {SlabClass::kLarge, SlabClass::kSmall}) {
    for (SlabRef slab = context_.pool().AllocateSlab(slabs); slab;
         slab = context_.pool().AllocateSlab(slabs)) {
      all.push_back(std::move(slab));
    }
  }
  EXPECT_EQ(client_->TryWrite(Bytes("x")).status().code(), absl::StatusCode::kResourceExhausted);
  all.clear();
  EXPECT_EQ(client_->TryWrite(Bytes("x")).value_or(0), 1u);
  Run();
  EXPECT_EQ(ReadAll(*server_), "x");
}

TEST_P(TcpSocketTest, WriteAfterShutdownIsRefused) {
  Establish();
  Done shut, never;
  ASSERT_TRUE(client_->ShutdownWrite(Into(shut)).ok());
  EXPECT_EQ(shut.calls, 0);
  EXPECT_EQ(StatusToErrno(client_->Write(Chain("x"), Into(never))), EPIPE);
  EXPECT_EQ(StatusToErrno(client_->TryWrite(Bytes("x")).status()), EPIPE);
  EXPECT_EQ(StatusToErrno(client_->ShutdownWrite(Into(never))), EPIPE);
  EXPECT_EQ(StatusToErrno(client_->SendUrgent(1)), EPIPE);
  Run();
  EXPECT_EQ(shut.calls, 1);
  EXPECT_EQ(never.calls, 0);
  EXPECT_EQ(client_->Info().state, tcp::State::kFinWait2);
}

TEST_P(TcpSocketTest, WriteCallbackMayDestroyTheSocket) {
  Establish();
  int calls = 0;
  const auto destroy = [&](absl::Status) {
    ++calls;
    client_.reset();
  };
  ASSERT_TRUE(client_->Write(Chain("a"), destroy).ok());
  ASSERT_TRUE(client_->Write(Chain("b"), destroy).ok());  // destroyed uncalled
  Run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(ReadAll(*server_), "ab");
}

TEST_P(TcpSocketTest, WriteFromInsideAReadCallbackIsAnEcho) {
  Establish();
  ASSERT_TRUE(server_
                  ->ReadStart([&](absl::StatusOr<BufferSlice> slice) {
                    BufferChain chain;
                    chain.Append(*std::move(slice));
                    EXPECT_TRUE(server_->Write(std::move(chain), nullptr).ok());
                  })
                  .ok());
  ASSERT_TRUE(client_->Write(Chain("ping"), nullptr).ok());
  Run();
  EXPECT_EQ(ReadAll(*client_), "ping");
}

// ---- Urgent data, options, facts ----

TEST_P(TcpSocketTest, UrgentDataIsAnnounced) {  // Covers: RFC 9293 MUST-32
  Establish();
  int urgent = 0;
  server_->SetUrgentCallback([&] { ++urgent; });
  EXPECT_FALSE(server_->urgent_offset().has_value());
  ASSERT_TRUE(client_->Write(Chain("abc"), nullptr).ok());
  ASSERT_TRUE(client_->SendUrgent('!').ok());
  Run();
  EXPECT_EQ(urgent, 1);
  ASSERT_TRUE(server_->urgent_offset().has_value());
  EXPECT_EQ(*server_->urgent_offset(), 4u);  // behind "abc!", as RFC 6093 §3.1 has it
  EXPECT_EQ(ReadAll(*server_), "abc!");
}

TEST_P(TcpSocketTest, OptionsOfTheListenerAreThoseOfItsConnections) {
  TcpSocket::Options client, server;
  client.nodelay = true;
  server.tos = 0x20;
  Establish(client, server);
  EXPECT_TRUE(client_->options().nodelay);
  EXPECT_EQ(server_->options().tos, 0x20);
  server_->options().tos = 0x40;
  server_->OptionsChanged();
  auto other = Connect();
  Run();
  auto accepted = listener_->TryAccept();
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(accepted->options().tos, 0x20);  // one connection's change is its own
}

TEST_P(TcpSocketTest, InfoCountsWhatWasSent) {
  Establish();
  ASSERT_TRUE(client_->Write(Chain(Pattern(5000)), nullptr).ok());
  Run();
  EXPECT_EQ(client_->Info().bytes_sent, 5000u);
  EXPECT_EQ(server_->Info().bytes_received, 5000u);
  EXPECT_TRUE(client_->TakeSoftError().ok());
  ReadAll(*server_);
}

}  // namespace
}  // namespace tapwire
