// SPDX-License-Identifier: Apache-2.0
// Two stacks on two macvlans in bridge mode, over a lower device that could do nothing for them:
// UDP and TCP in both directions, and which frames take which way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/capture/checker.h"
#include "netdev/base/seeded_random.h"
#include "netdev/dummy.h"
#include "netdev/macvlan.h"
#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"
#include "tests/testutil/checker_tap.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/packet_builder.h"

namespace tapwire {
namespace {

using testutil::Pattern;

constexpr uint16_t kPort = 7;

struct Setup {
  IpFamily family;
  bool veth;  // below; otherwise a dummy device
};

// Changes what a device receives before its protocols see it.
class Corrupter final : public netdev::RxHandler {
 public:
  netdev::RxHandlerResult HandleFrame(PacketPtr& packet, netdev::NetDevice&) override {
    constexpr absl::string_view kPayload = "payload";
    if (armed && packet->Linearize()) {
      const auto bytes = packet->head_bytes();
      const auto at = std::search(bytes.begin(), bytes.end(), kPayload.begin(), kPayload.end());
      if (at != bytes.end()) *at = 'P';
    }
    return netdev::RxHandlerResult::kPass;
  }
  bool armed = false;
};

class MacvlanStacksTest : public ::testing::TestWithParam<Setup> {
 protected:
  MacvlanStacksTest() : context_({&clock_, &random_}) {
    lower_ = AddLower();
    StackConfig config;
    config.duplicate_address_detection = false;
    a_ = std::make_unique<Stack>(context_, config);
    b_ = std::make_unique<Stack>(context_, config);
    device_a_ = AddHost(*a_, a());
    device_b_ = AddHost(*b_, b());
    tcp::Tcp::Install(*a_);
    tcp::Tcp::Install(*b_);
    tap_ = std::make_unique<testutil::CheckerTap>(checker_, *device_a_);
    Run();
  }
  ~MacvlanStacksTest() override {
    tap_.reset();
    a_.reset();
    b_.reset();
    Run();
    EXPECT_EQ(context_.pool().stats().packets_in_use, 0u);
    EXPECT_TRUE(checker_.report().clean()) << checker_.report().ToString();
  }

  netdev::NetDevice* AddLower() {
    if (!GetParam().veth) {
      netdev::NetDevice* dummy = *netdev::CreateDummy(context_, {.offloads = false});
      EXPECT_TRUE(dummy->Up().ok());
      return dummy;
    }
    const auto pair = *netdev::CreateVethPair(context_, {.offloads = false});
    EXPECT_TRUE(pair.first->Up().ok());
    EXPECT_TRUE(pair.second->Up().ok());
    return pair.first;
  }
  netdev::NetDevice* AddHost(Stack& stack, const IpAddress& address) {
    auto macvlan = netdev::CreateMacvlan(
        context_, lower_->ifindex(), {.mode = static_cast<uint32_t>(netdev::MacvlanMode::kBridge)});
    EXPECT_TRUE(macvlan.ok()) << macvlan.status();
    auto interface = stack.AddInterface(**macvlan);
    EXPECT_TRUE(interface.ok()) << interface.status();
    EXPECT_TRUE((*macvlan)->Up().ok());
    EXPECT_TRUE((*interface)->AddAddress({address, v4() ? 24 : 64}).ok());
    return *macvlan;
  }

  IpFamily family() const { return GetParam().family; }
  bool v4() const { return family() == IpFamily::kV4; }
  IpAddress a() const { return *IpAddress::Parse(v4() ? "10.0.0.1" : "fd00::1"); }
  IpAddress b() const { return *IpAddress::Parse(v4() ? "10.0.0.2" : "fd00::2"); }
  void Run() {
    while (context_.RunOnce()) {
    }
  }
  std::unique_ptr<UdpSocket> OpenUdp(Stack& stack, uint16_t port) {
    auto socket = *UdpSocket::Create(stack, {.family = family()});
    EXPECT_TRUE(socket->Bind({IpAddress::Unspecified(family()), port, 0}).ok());
    return socket;
  }
  // Both ends of a connection from a to b.
  std::pair<std::unique_ptr<TcpSocket>, std::unique_ptr<TcpSocket>> Connect() {
    auto listener = *TcpListener::Listen(*b_, {IpAddress::Unspecified(family()), kPort, 0}, 8, {});
    auto client = *TcpSocket::Connect(*a_, {b(), kPort, 0}, {}, nullptr);
    Run();
    auto server = listener->TryAccept();
    EXPECT_NE(server, nullptr);
    EXPECT_TRUE(client->connected());
    return {std::move(client), std::move(server)};
  }
  static std::vector<uint8_t> Read(TcpSocket& socket) {
    std::vector<uint8_t> bytes;
    uint8_t piece[4096];
    for (auto n = socket.TryRead(piece); n.ok() && *n > 0; n = socket.TryRead(piece)) {
      bytes.insert(bytes.end(), piece, piece + *n);
    }
    return bytes;
  }

  FakeClock clock_;
  SeededRandom random_{1};
  netdev::NetContext context_;
  capture::CaptureChecker checker_;
  netdev::NetDevice* lower_ = nullptr;
  netdev::NetDevice* device_a_ = nullptr;
  netdev::NetDevice* device_b_ = nullptr;
  std::unique_ptr<Stack> a_, b_;
  std::unique_ptr<testutil::CheckerTap> tap_;
};

INSTANTIATE_TEST_SUITE_P(Setups, MacvlanStacksTest,
                         ::testing::Values(Setup{IpFamily::kV4, false}, Setup{IpFamily::kV6, false},
                                           Setup{IpFamily::kV4, true}, Setup{IpFamily::kV6, true}),
                         [](const auto& setup) {
                           return std::string(setup.param.veth ? "Veth" : "Dummy") +
                                  (setup.param.family == IpFamily::kV4 ? "V4" : "V6");
                         });

TEST_P(MacvlanStacksTest, DatagramsGoThereAndBack) {
  auto server = OpenUdp(*b_, kPort);
  auto client = OpenUdp(*a_, 0);
  ASSERT_TRUE(client->Connect({b(), kPort, 0}).ok());
  // The last one goes in fragments.
  for (const size_t size : {1u, 100u, 1400u, 8000u}) {
    SCOPED_TRACE(size);
    const std::vector<uint8_t> data = Pattern(size);
    ASSERT_TRUE(client->Send(data).ok());
    Run();
    auto request = server->TryReceive();
    ASSERT_TRUE(request.has_value());
    ASSERT_TRUE(server->Send(data, request->source()).ok());
    Run();
    auto answer = client->TryReceive();
    ASSERT_TRUE(answer.has_value());
    std::vector<uint8_t> back(size);
    EXPECT_EQ(answer->CopyTo(back), size);
    EXPECT_EQ(back, data);
  }
}

TEST_P(MacvlanStacksTest, StreamIsNeitherCutNorSummedOnTheWay) {
  auto [client, server] = Connect();
  ASSERT_NE(server, nullptr);
  const std::vector<uint8_t> data = Pattern(300000);
  std::vector<uint8_t> received;
  size_t sent = 0;
  while (received.size() < data.size()) {
    const auto n = client->TryWrite(std::span(data).subspan(sent));
    if (n.ok()) sent += *n;
    Run();
    const std::vector<uint8_t> piece = Read(*server);
    if (piece.empty() && sent == data.size()) break;
    received.insert(received.end(), piece.begin(), piece.end());
    Run();
  }
  EXPECT_EQ(received, data);
  // Some of it in super-packets: far fewer frames than segments.
  EXPECT_LT(device_b_->stats().rx_packets.value(), data.size() / 1448);
  for (const netdev::NetDevice* device : {device_a_, device_b_}) {
    EXPECT_EQ(device->stats().tx_gso_segmented.value(), 0u);
    EXPECT_EQ(device->stats().tx_csum_software.value(), 0u);
    EXPECT_EQ(device->stats().rx_errors.value(), 0u);
  }
  EXPECT_EQ(lower_->stats().tx_gso_segmented.value(), 0u);
  // Group frames alone (address resolution) went out below.
  EXPECT_LT(lower_->stats().tx_packets.value(), 30u);
}

// Covers: netdev:L-01: nobody ever made the checksum of local traffic
TEST_P(MacvlanStacksTest, PayloadChangedInMemoryIsNotNoticed) {
  Corrupter corrupter;
  ASSERT_TRUE(device_b_->SetRxHandler(&corrupter).ok());
  auto [client, server] = Connect();
  ASSERT_NE(server, nullptr);
  corrupter.armed = true;
  const std::string text = "the payload";
  ASSERT_TRUE(client->TryWrite({reinterpret_cast<const uint8_t*>(text.data()), text.size()}).ok());
  Run();
  const std::vector<uint8_t> bytes = Read(*server);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "the Payload");
  device_b_->ClearRxHandler();
}

// The lower device goes, and with it both hosts' links, in the middle of a transfer.
TEST_P(MacvlanStacksTest, StacksOutliveTheLowerDevice) {
  auto [client, server] = Connect();
  ASSERT_NE(server, nullptr);
  const std::vector<uint8_t> data = Pattern(100000);
  static_cast<void>(client->TryWrite(data));
  tap_.reset();
  context_.registry().Unregister(*lower_);
  Run();
  EXPECT_EQ(a_->interfaces().size(), 1u);  // loopback
  EXPECT_EQ(b_->interfaces().size(), 1u);
  EXPECT_FALSE(a_->FindRoute({.destination = b()}).ok());
}

}  // namespace
}  // namespace tapwire
