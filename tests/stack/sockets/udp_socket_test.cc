// SPDX-License-Identifier: Apache-2.0
// The contract of UdpSocket and PingSocket: when callbacks run, what they may do, which errors come
// back. Two stacks on one context, joined by a veth pair.

#include "stack/sockets/udp_socket.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netdev/base/seeded_random.h"
#include "netdev/base/status_util.h"
#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/socket_errors.h"
#include "stack/sockets/ping_socket.h"
#include "stack/stack.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire {
namespace {

using testutil::Pattern;

class UdpSocketTest : public ::testing::TestWithParam<IpFamily> {
 protected:
  UdpSocketTest() : context_({&clock_, &random_}) {
    StackConfig config;
    config.duplicate_address_detection = false;
    auto pair = *netdev::CreateVethPair(context_, {});
    a_ = std::make_unique<Stack>(context_, config);
    b_ = std::make_unique<Stack>(context_, config);
    ia_ = *a_->AddInterface(*pair.first);
    ib_ = *b_->AddInterface(*pair.second);
    EXPECT_TRUE(pair.first->Up().ok());
    EXPECT_TRUE(pair.second->Up().ok());
    EXPECT_TRUE(ia_->AddAddress({a(), v4() ? 24 : 64}).ok());
    EXPECT_TRUE(ib_->AddAddress({b(), v4() ? 24 : 64}).ok());
    Run();
  }
  ~UdpSocketTest() override {
    a_.reset();
    b_.reset();
    Run();
    EXPECT_EQ(context_.pool().stats().packets_in_use, 0u);
  }

  bool v4() const { return GetParam() == IpFamily::kV4; }
  IpAddress a() const { return *IpAddress::Parse(v4() ? "10.0.0.1" : "fd00::1"); }
  IpAddress b() const { return *IpAddress::Parse(v4() ? "10.0.0.2" : "fd00::2"); }
  void Run() {
    while (context_.RunOnce()) {
    }
  }
  std::unique_ptr<UdpSocket> Open(Stack& stack, uint16_t port) {
    auto socket = *UdpSocket::Create(stack, {.family = GetParam()});
    EXPECT_TRUE(socket->Bind({IpAddress::Unspecified(GetParam()), port, 0}).ok());
    return socket;
  }

  FakeClock clock_;
  SeededRandom random_{1};
  netdev::NetContext context_;
  std::unique_ptr<Stack> a_, b_;
  Interface* ia_ = nullptr;
  Interface* ib_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Families, UdpSocketTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

TEST_P(UdpSocketTest, NoCallbackRunsInsideACall) {
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  bool called = false;
  ASSERT_TRUE(server->ReceiveStart([&](Datagram) { called = true; }).ok());
  ASSERT_TRUE(client->Send(Pattern(3), Endpoint{b(), 7, 0}).ok());
  EXPECT_FALSE(called);
  Run();
  EXPECT_TRUE(called);
}

TEST_P(UdpSocketTest, FirstDatagramToAColdNeighbourIsNotLost) {  // Covers: rfc:ARP-6
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->Send(Pattern(1), Endpoint{b(), 7, 0}).ok());
  Run();
  EXPECT_EQ(server->queued_datagrams(), 3u);
}

TEST_P(UdpSocketTest, EchoOfEveryInterestingSizeComesBackEqual) {
  auto server = Open(*b_, 7);
  ASSERT_TRUE(server
                  ->ReceiveStart([&](Datagram d) {
                    const Endpoint peer = d.source();
                    EXPECT_TRUE(server->SendPacket(d.TakePacket(), peer).ok());
                  })
                  .ok());
  auto client = Open(*a_, 0);
  for (const size_t size :
       std::initializer_list<size_t>{0u, 1u, 1471u, 1472u, 1473u, 8192u, 40000u, 65507u}) {
    const std::vector<uint8_t> data = Pattern(size);
    ASSERT_TRUE(client->Send(data, Endpoint{b(), 7, 0}).ok());
    Run();
    std::optional<Datagram> back = client->TryReceive();
    ASSERT_TRUE(back.has_value()) << size;
    std::vector<uint8_t> bytes(back->size());
    back->CopyTo(bytes);
    EXPECT_EQ(bytes, data);
  }
}

TEST_P(UdpSocketTest, CallbackMayDestroyItsOwnSocket) {
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  int calls = 0;
  ASSERT_TRUE(server
                  ->ReceiveStart([&](Datagram) {
                    ++calls;
                    server.reset();
                  })
                  .ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->Send(Pattern(1), Endpoint{b(), 7, 0}).ok());
  Run();
  EXPECT_EQ(calls, 1);
}

TEST_P(UdpSocketTest, CallbackMayDestroyAnotherSocketWithDataQueued) {
  auto one = Open(*b_, 7);
  auto two = Open(*b_, 8);
  auto client = Open(*a_, 0);
  int calls = 0;
  ASSERT_TRUE(one->ReceiveStart([&](Datagram) {
                   ++calls;
                   two.reset();
                 })
                  .ok());
  ASSERT_TRUE(two->ReceiveStart([&](Datagram) {
                   ++calls;
                   one.reset();
                 })
                  .ok());
  ASSERT_TRUE(client->Send(Pattern(1), Endpoint{b(), 7, 0}).ok());
  ASSERT_TRUE(client->Send(Pattern(1), Endpoint{b(), 8, 0}).ok());
  Run();
  EXPECT_EQ(calls, 1);
}

TEST_P(UdpSocketTest, StopInsideTheCallbackKeepsTheRestQueued) {
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  int calls = 0;
  ASSERT_TRUE(server
                  ->ReceiveStart([&](Datagram) {
                    ++calls;
                    server->ReceiveStop();
                  })
                  .ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->Send(Pattern(1), Endpoint{b(), 7, 0}).ok());
  Run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(server->queued_datagrams(), 2u);
  ASSERT_TRUE(server->ReceiveStart([&](Datagram) { ++calls; }).ok());
  Run();
  EXPECT_EQ(calls, 3);
}

TEST_P(UdpSocketTest, CallbackMayReplaceItself) {
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  std::string order;
  ASSERT_TRUE(server
                  ->ReceiveStart([&](Datagram) {
                    order += "1";
                    EXPECT_TRUE(server->ReceiveStart([&](Datagram) { order += "2"; }).ok());
                  })
                  .ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->Send(Pattern(1), Endpoint{b(), 7, 0}).ok());
  Run();
  EXPECT_EQ(order, "122");
}

TEST_P(UdpSocketTest, ReadyCallbackSaysOnceThatSomethingIsThere) {
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  int ready = 0;
  server->SetReadyCallback([&] { ++ready; });
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(client->Send(Pattern(1), Endpoint{b(), 7, 0}).ok());
  Run();
  EXPECT_GE(ready, 1);
  EXPECT_EQ(server->queued_datagrams(), 3u);
}

TEST_P(UdpSocketTest, ArgumentErrorsAreReturned) {
  auto socket = *UdpSocket::Create(*a_, {.family = GetParam()});
  EXPECT_EQ(StatusToErrno(socket->Send(Pattern(1))), EDESTADDRREQ);
  EXPECT_EQ(socket->Send(Pattern(1), Endpoint{b(), 0, 0}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(socket->Connect({b(), 0, 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(socket->ReceiveStart(nullptr).code(), absl::StatusCode::kInvalidArgument);
  const IpAddress other_family =
      v4() ? *IpAddress::Parse("fd00::9") : *IpAddress::Parse("10.0.0.9");
  EXPECT_EQ(socket->Bind({other_family, 1, 0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StatusToErrno(socket->Bind({b(), 1, 0})), EADDRNOTAVAIL);  // the peer's address
  ASSERT_TRUE(socket->Bind({a(), 1, 0}).ok());
  EXPECT_FALSE(socket->Bind({a(), 2, 0}).ok());
  EXPECT_EQ(socket->JoinGroup(*IpAddress::Parse(v4() ? "239.1.1.1" : "ff02::9"), 999).code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(
      socket->LeaveGroup(*IpAddress::Parse(v4() ? "239.1.1.1" : "ff02::9"), ia_->index()).ok());
}

TEST_P(UdpSocketTest, NoRouteIsAnErrorOfTheSend) {
  auto socket = Open(*a_, 0);
  const absl::Status status = socket->Send(
      Pattern(1), Endpoint{*IpAddress::Parse(v4() ? "192.0.2.1" : "2001:db8::1"), 1, 0});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

TEST_P(UdpSocketTest, BroadcastNeedsTheOption) {  // Covers: rfc:UDP-6
  if (!v4()) return;
  auto socket = Open(*a_, 0);
  auto server = Open(*b_, 7);
  const Endpoint all{Ipv4Address(10, 0, 0, 255), 7, 0};
  EXPECT_EQ(socket->Send(Pattern(1), all).code(), absl::StatusCode::kPermissionDenied);
  socket->options().broadcast = true;
  EXPECT_TRUE(socket->Send(Pattern(1), all).ok());
  Run();
  EXPECT_EQ(server->queued_datagrams(), 1u);
}

TEST_P(UdpSocketTest, SocketOutlivesItsStackHarmlessly) {
  auto socket = Open(*a_, 7);
  ASSERT_TRUE(socket->ReceiveStart([](Datagram) { FAIL(); }).ok());
  a_.reset();
  Run();
  EXPECT_EQ(socket->Send(Pattern(1), Endpoint{b(), 7, 0}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(socket->Bind({a(), 1, 0}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(UdpSocketTest, OwnAddressIsReachedThroughLoopback) {
  auto server = Open(*a_, 7);
  auto client = Open(*a_, 0);
  ASSERT_TRUE(client->Send(Pattern(5000), Endpoint{a(), 7, 0}).ok());
  ASSERT_TRUE(
      client->Send(Pattern(10), Endpoint{*IpAddress::Parse(v4() ? "127.0.0.1" : "::1"), 7, 0})
          .ok());
  Run();
  EXPECT_EQ(server->queued_datagrams(), 2u);
}

TEST_P(UdpSocketTest, PoolAtItsBudgetIsAnErrorAndPasses) {
  auto client = Open(*a_, 0);
  auto server = Open(*b_, 7);
  std::vector<PacketPtr> hog;
  while (PacketPtr packet = context_.pool().AllocatePacket(1000)) hog.push_back(std::move(packet));
  EXPECT_EQ(StatusToErrno(client->Send(Pattern(1), Endpoint{b(), 7, 0})), ENOBUFS);
  hog.clear();
  EXPECT_TRUE(client->Send(Pattern(1), Endpoint{b(), 7, 0}).ok());
  Run();
  EXPECT_EQ(server->queued_datagrams(), 1u);
}

// A code for programs, the errno for those that know sockets.
TEST_P(UdpSocketTest, ErrorsHaveCodeAndErrno) {
  auto one = Open(*a_, 7);
  auto two = *UdpSocket::Create(*a_, {.family = GetParam()});
  const absl::Status taken = two->Bind({IpAddress::Unspecified(GetParam()), 7, 0});
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(StatusToErrno(taken), EADDRINUSE);
  const absl::Status not_ours = two->Bind({b(), 9, 0});
  EXPECT_EQ(not_ours.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StatusToErrno(not_ours), EADDRNOTAVAIL);
  const absl::Status too_long = one->Send(Pattern(65'528), Endpoint{b(), 7, 0});
  EXPECT_EQ(too_long.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(StatusToErrno(too_long), EMSGSIZE);
}

TEST_P(UdpSocketTest, DatagramThatGaveItsBufferAwayIsEmpty) {
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  ASSERT_TRUE(client->Send(Pattern(5), Endpoint{b(), 7, 0}).ok());
  Run();
  std::optional<Datagram> datagram = server->TryReceive();
  ASSERT_TRUE(datagram.has_value());
  EXPECT_EQ(datagram->size(), 5u);
  const PacketPtr packet = datagram->TakePacket();
  EXPECT_EQ(packet->length(), 5u);
  EXPECT_EQ(datagram->size(), 0u);
  std::vector<uint8_t> bytes(5, 0xee);
  EXPECT_EQ(datagram->CopyTo(bytes), 0u);
  datagram->ForEachSpan([](std::span<const uint8_t>) { ADD_FAILURE(); });
  EXPECT_EQ(datagram->source().address, a());
}

// A 4-tuple has one owner; who does not get it keeps what it had.
TEST_P(UdpSocketTest, ConnectThatFailsChangesNothing) {
  auto server = Open(*b_, 7);
  auto first = *UdpSocket::Create(*a_, {.family = GetParam(), .reuse_address = true});
  auto second = *UdpSocket::Create(*a_, {.family = GetParam(), .reuse_address = true});
  ASSERT_TRUE(first->Bind({a(), 5000, 0}).ok());
  ASSERT_TRUE(second->Bind({a(), 5000, 0}).ok());
  ASSERT_TRUE(first->Connect({b(), 7, 0}).ok());
  ASSERT_TRUE(second->Connect({b(), 8, 0}).ok());
  EXPECT_EQ(StatusToErrno(second->Connect({b(), 7, 0})), EADDRINUSE);
  EXPECT_EQ(second->remote(), (Endpoint{b(), 8, 0}));
  auto other = Open(*b_, 8);
  ASSERT_TRUE(server->Send(Pattern(1), Endpoint{a(), 5000, 0}).ok());
  ASSERT_TRUE(other->Send(Pattern(1), Endpoint{a(), 5000, 0}).ok());
  Run();
  EXPECT_EQ(first->queued_datagrams(), 1u);
  EXPECT_EQ(second->queued_datagrams(), 1u);
}

TEST_P(UdpSocketTest, LinkLocalPeersComeWithTheirZone) {
  if (v4()) return;
  const IpAddress a_local = *IpAddress::Parse("fe80::1"), b_local = *IpAddress::Parse("fe80::2");
  ASSERT_TRUE(ia_->AddAddress({a_local, 64}).ok());
  ASSERT_TRUE(ib_->AddAddress({b_local, 64}).ok());
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  ASSERT_TRUE(client->Send(Pattern(1), Endpoint{b_local, 7, ia_->index()}).ok());
  Run();
  const std::optional<Datagram> datagram = server->TryReceive();
  ASSERT_TRUE(datagram.has_value());
  EXPECT_TRUE(datagram->source().address.IsLinkLocal());
  EXPECT_EQ(datagram->source().zone, ib_->index());
  // What came names where an answer goes.
  ASSERT_TRUE(server->Send(Pattern(2), datagram->source()).ok());
  Run();
  EXPECT_EQ(client->queued_datagrams(), 1u);
}

// RFC 1122 §4.1.3.5: the source of one datagram is not that of the next.
TEST_P(UdpSocketTest, SourceIsThatOfOneDatagramOnly) {
  const IpAddress second = *IpAddress::Parse(v4() ? "10.0.0.11" : "fd00::11");
  ASSERT_TRUE(ia_->AddAddress({second, v4() ? 24 : 64}).ok());
  auto server = Open(*b_, 7);
  auto client = Open(*a_, 0);
  std::vector<IpAddress> sources;
  ASSERT_TRUE(
      server->ReceiveStart([&](Datagram d) { sources.push_back(d.source().address); }).ok());
  const Endpoint to{b(), 7, 0};
  const std::optional<IpAddress> wanted[] = {std::nullopt, second, std::nullopt, a(), second};
  for (const std::optional<IpAddress>& source : wanted) {
    PacketPtr packet = context_.pool().AllocatePacket(1);
    ASSERT_TRUE(packet->AppendBytes(Pattern(1)));
    ASSERT_TRUE(client->SendPacket(std::move(packet), to, source).ok());
    Run();
  }
  EXPECT_EQ(sources, (std::vector<IpAddress>{a(), second, a(), a(), second}));
  PacketPtr packet = context_.pool().AllocatePacket(1);
  EXPECT_FALSE(client->SendPacket(std::move(packet), to, b()).ok());  // not ours
}

TEST_P(UdpSocketTest, BurstOfErrorsIsBounded) {
  auto client = *UdpSocket::Create(*a_, {.family = GetParam()});
  int errors = 0;
  client->SetErrorCallback([&](const absl::Status& status, const Endpoint& peer) {
    ++errors;
    EXPECT_EQ(StatusToErrno(status), EHOSTUNREACH);
    EXPECT_EQ(peer.port, 7);
  });
  const Endpoint absent{*IpAddress::Parse(v4() ? "10.0.0.77" : "fd00::77"), 7, 0};
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(client->Send(Pattern(1), absent).ok());
  for (int second = 0; second < 5; ++second) {
    Run();
    clock_.Advance(std::chrono::seconds(1));
  }
  Run();
  EXPECT_EQ(errors, 64);
}

TEST_P(UdpSocketTest, PingIsAnswered) {  // Covers: rfc:ICMP-09, rfc:IC6-4
  auto ping = *PingSocket::Create(*a_, GetParam());
  std::vector<uint16_t> replies;
  ping->SetReplyCallback([&](EchoReply reply) {
    replies.push_back(reply.sequence);
    EXPECT_EQ(reply.source, b());
    EXPECT_EQ(reply.ttl, 64);
    EXPECT_EQ(reply.packet->length(), 3000u);
  });
  for (uint16_t i = 1; i <= 3; ++i) {
    const std::vector<uint8_t> data = Pattern(3000);
    ASSERT_TRUE(ping->Send({.destination = b(), .sequence = i, .data = data}).ok());
  }
  Run();
  EXPECT_EQ(replies, (std::vector<uint16_t>{1, 2, 3}));
}

TEST_P(UdpSocketTest, PingToAnAbsentHostHearsSo) {  // Covers: rfc:ND-04
  auto ping = *PingSocket::Create(*a_, GetParam());
  std::vector<IcmpErrorKind> errors;
  ping->SetErrorCallback([&](const EchoError& error) { errors.push_back(error.kind); });
  ASSERT_TRUE(
      ping->Send({.destination = *IpAddress::Parse(v4() ? "10.0.0.77" : "fd00::77"), .sequence = 1})
          .ok());
  for (int second = 0; second < 5; ++second) {
    Run();
    clock_.Advance(std::chrono::seconds(1));
  }
  Run();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0], IcmpErrorKind::kHostUnreachable);
}

TEST_P(UdpSocketTest, PingCallbackMayDestroyTheSocket) {
  auto ping = *PingSocket::Create(*a_, GetParam());
  int calls = 0;
  ping->SetReplyCallback([&](EchoReply) {
    ++calls;
    ping.reset();
  });
  ASSERT_TRUE(ping->Send({.destination = b(), .sequence = 1}).ok());
  ASSERT_TRUE(ping->Send({.destination = b(), .sequence = 2}).ok());
  Run();
  EXPECT_EQ(calls, 1);
}

TEST_P(UdpSocketTest, PingArgumentErrorsAreReturned) {
  auto ping = *PingSocket::Create(*a_, GetParam());
  const IpAddress other_family =
      v4() ? *IpAddress::Parse("fd00::2") : *IpAddress::Parse("10.0.0.2");
  EXPECT_EQ(ping->Send({.destination = other_family}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const IpAddress nowhere = *IpAddress::Parse(v4() ? "192.0.2.1" : "2001:db8::1");
  EXPECT_EQ(ping->Send({.destination = nowhere}).status().code(), absl::StatusCode::kNotFound);
  const size_t limit = v4() ? 65'507 : 65'527;
  const std::vector<uint8_t> most = Pattern(limit), too_much = Pattern(limit + 1);
  EXPECT_EQ(StatusToErrno(ping->Send({.destination = b(), .data = too_much}).status()), EMSGSIZE);
  const absl::StatusOr<IpAddress> source = ping->Send({.destination = b(), .data = most});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(*source, a());
  EXPECT_EQ(
      StatusToErrno(ping->Send({.destination = b(), .data = most, .dont_fragment = true}).status()),
      EMSGSIZE);
}

TEST_P(UdpSocketTest, PingSocketOutlivesItsStackHarmlessly) {
  auto ping = *PingSocket::Create(*a_, GetParam());
  ping->SetReplyCallback([](EchoReply) { FAIL(); });
  ASSERT_TRUE(ping->Send({.destination = b(), .sequence = 1}).ok());
  a_.reset();
  Run();
  EXPECT_EQ(ping->Send({.destination = b()}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(UdpSocketTest, ReplyForASocketThatIsGoneIsCounted) {
  auto ping = *PingSocket::Create(*a_, GetParam());
  ASSERT_TRUE(ping->Send({.destination = b(), .sequence = 1}).ok());
  ping.reset();
  Run();
  EXPECT_EQ(a_->drops().value(DropReason::kIcmpEchoReplyUnmatched), 1u);
}

// ---- The errno of an error (as Linux's icmp_err_convert and tab_unreach) ----

TEST(SocketErrorsTest, EveryIcmpErrorHasItsErrno) {
  const std::pair<IcmpErrorKind, int> expected[] = {
      {IcmpErrorKind::kNetUnreachable, ENETUNREACH},
      {IcmpErrorKind::kHostUnreachable, EHOSTUNREACH},
      {IcmpErrorKind::kProtocolUnreachable, ENOPROTOOPT},
      {IcmpErrorKind::kPortUnreachable, ECONNREFUSED},
      {IcmpErrorKind::kPacketTooBig, EMSGSIZE},
      {IcmpErrorKind::kAdminProhibited, EACCES},
      {IcmpErrorKind::kTtlExceeded, EHOSTUNREACH},
      {IcmpErrorKind::kReassemblyTimeout, EHOSTUNREACH},
      {IcmpErrorKind::kParameterProblem, EPROTO},
      {IcmpErrorKind::kUnrecognizedOption, EPROTO},
      {IcmpErrorKind::kIncompleteHeaderChain, EPROTO},
      {IcmpErrorKind::kOther, EPROTO},
  };
  for (const auto& [kind, err] : expected) {
    IcmpErrorInfo error;
    error.kind = kind;
    error.reporter = Ipv4Address(10, 0, 0, 9);
    const absl::Status status = IcmpErrorStatus(error);
    EXPECT_EQ(StatusToErrno(status), err) << static_cast<int>(kind);
    EXPECT_NE(status.message().find("10.0.0.9"), absl::string_view::npos);
  }
}

TEST(SocketErrorsTest, EveryFailedSendHasItsErrno) {
  using netdev::TxResult;
  const std::pair<TxResult, int> expected[] = {
      {TxResult::kSent, 0},
      {TxResult::kQueued, 0},
      {TxResult::kCongested, 0},
      {TxResult::kNoBuffer, ENOBUFS},
      {TxResult::kNoRoute, ENETUNREACH},
      {TxResult::kDeviceDown, ENETDOWN},
      {TxResult::kTooBig, EMSGSIZE},
      {TxResult::kDropped, EIO},
  };
  for (const auto& [result, err] : expected) {
    EXPECT_EQ(StatusToErrno(SendError(result, "send")), err);
  }
}

}  // namespace
}  // namespace tapwire
