// SPDX-License-Identifier: Apache-2.0
// Three stacks in a row on one context; every frame at every device goes through a capture checker.
//
//   [client] c0 1500 ---- 1500 r0 [router] r1 1400 ---- 1500 s0 [server]
//   10.1.0.9              10.1.0.1         10.2.0.1            10.2.0.9
//
// The server does not know that the way to it is narrower, so the client has to find out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "apps/capture/checker.h"
#include "netdev/base/seeded_random.h"
#include "netdev/base/status_util.h"
#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/path_mtu.h"
#include "stack/sockets/ping_socket.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"
#include "stack/udp/udp.h"
#include "tests/testutil/checker_tap.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testutil::ByteVector;

constexpr uint32_t kNarrowMtu = 1400;
constexpr uint16_t kPort = 7;

struct PathCase {
  IpFamily family;
  bool offloads;  // super-packets and unfinished checksums travel over the links
};

class RouterPathTest : public ::testing::TestWithParam<PathCase> {
 protected:
  RouterPathTest() {
    StackConfig host, router;
    host.duplicate_address_detection = router.duplicate_address_detection = false;
    router.forwarding = true;
    client_ = std::make_unique<Stack>(context_, host);
    router_ = std::make_unique<Stack>(context_, router);
    server_ = std::make_unique<Stack>(context_, host);
    const auto near = *netdev::CreateVethPair(
        context_, {.name_a = "c0", .name_b = "r0", .offloads = GetParam().offloads});
    const auto far = *netdev::CreateVethPair(
        context_, {.name_a = "r1", .name_b = "s0", .offloads = GetParam().offloads});
    EXPECT_TRUE(far.first->SetMtu(kNarrowMtu).ok());
    Attach(*client_, *near.first, client_address(), router_address());
    Attach(*router_, *near.second, router_address(), std::nullopt);
    Attach(*router_, *far.first, far_router_address(), std::nullopt);
    Attach(*server_, *far.second, server_address(), far_router_address());
    for (Stack* stack : {client_.get(), server_.get()}) {
      Udp::Install(*stack);
      tcp::Tcp::Install(*stack);
    }
    Run();
  }
  ~RouterPathTest() override {
    Run();
    taps_.clear();
    for (std::unique_ptr<Stack>* stack : {&client_, &server_, &router_}) stack->reset();
    Run();
    EXPECT_EQ(context_.pool().stats().packets_in_use, 0u);
    EXPECT_EQ(context_.timers().armed_count(), 0u);
    for (const auto& checker : checkers_) {
      EXPECT_GT(checker->report().frames, 0u);
      EXPECT_TRUE(checker->report().clean()) << checker->report().ToString();
    }
  }

  void Attach(Stack& stack, netdev::NetDevice& device, const IpAddress& address,
              const std::optional<IpAddress>& gateway) {
    Interface* interface = *stack.AddInterface(device);
    EXPECT_TRUE(device.Up().ok());
    EXPECT_TRUE(interface->AddAddress({address, v4() ? 24 : 64}).ok());
    if (gateway) {
      EXPECT_TRUE(
          stack.AddRoute({{IpAddress::Unspecified(GetParam().family), 0}, *gateway, nullptr}).ok());
    }
    checkers_.push_back(std::make_unique<capture::CaptureChecker>());
    taps_.push_back(std::make_unique<testutil::CheckerTap>(*checkers_.back(), device));
  }

  static bool v4() { return GetParam().family == IpFamily::kV4; }
  static IpAddress Address(absl::string_view v4_text, absl::string_view v6_text) {
    return *IpAddress::Parse(v4() ? v4_text : v6_text);
  }
  static IpAddress client_address() { return Address("10.1.0.9", "fd01::9"); }
  static IpAddress router_address() { return Address("10.1.0.1", "fd01::1"); }
  static IpAddress far_router_address() { return Address("10.2.0.1", "fd02::1"); }
  static IpAddress server_address() { return Address("10.2.0.9", "fd02::9"); }
  static Endpoint server_endpoint() { return {server_address(), kPort, 0}; }
  uint64_t forwarded() const {
    const Mib& mib = router_->mib();
    return (v4() ? mib.ip.forw_datagrams : mib.ip6.out_forw_datagrams).value();
  }
  uint64_t too_bigs_sent() const {
    const Mib& mib = router_->mib();
    return (v4() ? mib.icmp : mib.icmp6).out_pkt_too_bigs.value();
  }

  void Run() {
    while (context_.RunOnce()) {
    }
  }
  void Advance(Duration by) {
    const Time end = clock_.Now() + by;
    while (true) {
      Run();
      const std::optional<Time> next = context_.next_deadline();
      if (!next || *next > end) break;
      if (*next > clock_.Now()) clock_.Set(*next);
    }
    clock_.Set(end);
    Run();
  }

  struct PingOutcome {
    std::optional<uint8_t> reply_ttl;
    std::optional<IcmpErrorKind> error;
    IpAddress reporter;
    uint32_t value = 0;
  };
  PingOutcome Ping(const EchoRequest& request) {
    PingOutcome outcome;
    auto socket = *PingSocket::Create(*client_, GetParam().family);
    socket->SetReplyCallback([&](EchoReply reply) { outcome.reply_ttl = reply.ttl; });
    socket->SetErrorCallback([&](const EchoError& error) {
      outcome.error = error.kind;
      outcome.reporter = error.reporter;
      outcome.value = error.value;
    });
    EXPECT_TRUE(socket->Send(request).ok());
    Advance(seconds(1));
    return outcome;
  }

  SeededRandom random_{1};
  FakeClock clock_;
  netdev::NetContext context_{Environment{.clock = &clock_, .random = &random_}};
  std::vector<std::unique_ptr<capture::CaptureChecker>> checkers_;
  std::unique_ptr<Stack> client_, router_, server_;
  std::vector<std::unique_ptr<testutil::CheckerTap>> taps_;
};

INSTANTIATE_TEST_SUITE_P(Paths, RouterPathTest,
                         ::testing::Values(PathCase{IpFamily::kV4, true},
                                           PathCase{IpFamily::kV4, false},
                                           PathCase{IpFamily::kV6, true},
                                           PathCase{IpFamily::kV6, false}),
                         [](const ::testing::TestParamInfo<PathCase>& path) {
                           return std::string(path.param.family == IpFamily::kV4 ? "V4" : "V6") +
                                  (path.param.offloads ? "Offloads" : "Plain");
                         });

TEST_P(RouterPathTest, PingGoesThroughWithOneHopLess) {
  const ByteVector data = testutil::Pattern(100);
  const PingOutcome ping =
      Ping({.destination = server_address(), .sequence = 1, .data = data, .ttl = 2});
  EXPECT_EQ(ping.reply_ttl, 63);
  EXPECT_EQ(forwarded(), 2u);
}

TEST_P(RouterPathTest, PingWithOneHopIsAnsweredByTheRouter) {
  const PingOutcome ping = Ping({.destination = server_address(), .sequence = 1, .ttl = 1});
  EXPECT_FALSE(ping.reply_ttl.has_value());
  EXPECT_EQ(ping.error, IcmpErrorKind::kTtlExceeded);
  EXPECT_EQ(ping.reporter, router_address());
  // The other side of the router is still the router.
  EXPECT_EQ(Ping({.destination = far_router_address(), .sequence = 2, .ttl = 1}).reply_ttl, 64);
}

TEST_P(RouterPathTest, PingOfAnAbsentHostAndNetIsAnsweredByTheRouter) {
  auto socket = *PingSocket::Create(*client_, GetParam().family);
  std::optional<IcmpErrorKind> error;
  socket->SetErrorCallback([&](const EchoError& e) { error = e.kind; });
  ASSERT_TRUE(socket->Send({.destination = Address("10.2.0.50", "fd02::50")}).ok());
  Advance(seconds(5));
  EXPECT_EQ(error, IcmpErrorKind::kHostUnreachable);
  error.reset();
  ASSERT_TRUE(socket->Send({.destination = Address("192.0.2.1", "2001:db8::1")}).ok());
  Advance(seconds(1));
  EXPECT_EQ(error, IcmpErrorKind::kNetUnreachable);
}

TEST_P(RouterPathTest, DatagramsThatMustNotBeCutTeachThePathMtu) {
  const size_t headers = v4() ? 28 : 48;
  auto server = *UdpSocket::Create(*server_, {.family = GetParam().family});
  ASSERT_TRUE(server->Bind(server_endpoint()).ok());
  auto client = *UdpSocket::Create(*client_, {.family = GetParam().family, .dont_fragment = true});
  ASSERT_TRUE(client->Connect(server_endpoint()).ok());
  absl::Status error;
  client->SetErrorCallback([&](const absl::Status& status, const Endpoint&) { error = status; });
  ASSERT_TRUE(client->Send(testutil::Pattern(1500 - headers)).ok());
  Advance(seconds(1));
  EXPECT_EQ(StatusToErrno(error), EMSGSIZE) << error;
  EXPECT_EQ(client_->path_mtu().Get(server_address(), 1500), kNarrowMtu);
  EXPECT_EQ(router_->path_mtu().size(), 0u);
  ASSERT_TRUE(client->Send(testutil::Pattern(kNarrowMtu - headers)).ok());
  Advance(seconds(1));
  const auto datagram = server->TryReceive();
  ASSERT_TRUE(datagram.has_value());
  EXPECT_EQ(datagram->size(), kNarrowMtu - headers);
}

// By IPv4 the router cuts what may be cut; by IPv6 the client does, after one loss.
TEST_P(RouterPathTest, LargeDatagramsArriveWhole) {
  auto server = *UdpSocket::Create(*server_, {.family = GetParam().family});
  ASSERT_TRUE(server->Bind(server_endpoint()).ok());
  auto client = *UdpSocket::Create(*client_, {.family = GetParam().family});
  ASSERT_TRUE(client->Connect(server_endpoint()).ok());
  const ByteVector data = testutil::Pattern(8192);
  ASSERT_TRUE(client->Send(data).ok());
  Advance(seconds(1));
  if (!v4()) {
    EXPECT_EQ(client_->path_mtu().Get(server_address(), 1500), kNarrowMtu);
    ASSERT_TRUE(client->Send(data).ok());
    Advance(seconds(1));
  }
  auto datagram = server->TryReceive();
  ASSERT_TRUE(datagram.has_value());
  ByteVector received(datagram->size());
  datagram->TakePacket()->CopyOut(0, received);
  EXPECT_EQ(received, data);
  // The first one that could not be completed is given up after a minute.
  Advance(seconds(70));
}

TEST_P(RouterPathTest, TcpFindsThePathMtuAndSendsAMebibyte) {
  constexpr size_t kTotal = 1u << 20;
  std::unique_ptr<TcpSocket> accepted;
  auto listener = *TcpListener::Listen(
      *server_, {IpAddress::Unspecified(GetParam().family), kPort, 0}, 8, TcpSocket::Options());
  bool connected = false;
  auto socket = TcpSocket::Connect(*client_, server_endpoint(), {},
                                   [&](absl::Status status) { connected = status.ok(); });
  ASSERT_TRUE(socket.ok()) << socket.status();
  Advance(seconds(1));
  ASSERT_TRUE(connected);
  accepted = listener->TryAccept();
  ASSERT_NE(accepted, nullptr);
  const auto byte_at = [](size_t i) { return static_cast<uint8_t>((i * 2654435761u) >> 13); };
  size_t received = 0, wrong = 0, sent = 0;
  bool ended = false;
  ASSERT_TRUE(accepted
                  ->ReadStart([&](absl::StatusOr<BufferSlice> slice) {
                    ASSERT_TRUE(slice.ok()) << slice.status();
                    if (slice->empty()) ended = true;
                    for (const uint8_t byte : slice->bytes()) {
                      if (byte != byte_at(received++)) ++wrong;
                    }
                  })
                  .ok());
  for (int i = 0; i < 5000 && !ended; ++i) {
    std::array<uint8_t, 32'768> piece;
    const size_t size = std::min(piece.size(), kTotal - sent);
    for (size_t k = 0; k < size; ++k) piece[k] = byte_at(sent + k);
    if (size > 0) {
      const auto taken = (*socket)->TryWrite({piece.data(), size});
      if (taken.ok()) sent += *taken;
      if (sent == kTotal) {
        ASSERT_TRUE((*socket)->ShutdownWrite(nullptr).ok());
      }
    }
    Advance(milliseconds(20));
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(received, kTotal);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(client_->path_mtu().Get(server_address(), 1500), kNarrowMtu);
  EXPECT_GE(too_bigs_sent(), 1u);
  EXPECT_EQ(router_->path_mtu().size(), 0u);
  socket->reset();
  accepted.reset();
  listener.reset();
  Advance(seconds(120));
  // No connection of the router's own.
  EXPECT_EQ(router_->mib().tcp.in_segs.value(), 0u);
  EXPECT_GT(forwarded(), 0u);
}

}  // namespace
}  // namespace tapwire
