// SPDX-License-Identifier: Apache-2.0
// Stacks on VLAN devices over a veth pair: hosts of one VLAN talk to each other, hosts of different
// ones do not, though they share the wire, the subnet and the addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/capture/checker.h"
#include "netdev/base/seeded_random.h"
#include "netdev/macvlan.h"
#include "netdev/net_context.h"
#include "netdev/veth.h"
#include "netdev/vlan_device.h"
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

// What a wire carries, tags and all.
class TagTap final : public netdev::PacketTap {
 public:
  explicit TagTap(netdev::NetDevice& device) { device.AddTap(*this); }
  void OnFrame(const Packet& packet, const netdev::NetDevice&, netdev::TapDirection direction,
               netdev::TxResult) override {
    if (direction != netdev::TapDirection::kTransmit) return;
    const std::span<const uint8_t> frame = packet.head_bytes();
    ++frames;
    if (packet.meta.vlan_present) {
      tags.push_back(packet.meta.vlan_tci);
    } else if (frame[12] == 0x81 && frame[13] == 0x00) {
      tags.push_back(static_cast<uint16_t>(frame[14] << 8 | frame[15]));
    }
    super_packets += packet.meta.gso.size != 0 ? 1 : 0;
  }
  size_t frames = 0;
  size_t super_packets = 0;
  std::vector<uint16_t> tags;
};

class VlanStacksTest : public ::testing::TestWithParam<IpFamily> {
 protected:
  // A stack on one device, with its address.
  struct Host {
    std::unique_ptr<Stack> stack;
    Interface* interface = nullptr;
    IpAddress address;
  };

  VlanStacksTest() : context_({&clock_, &random_}) {}
  ~VlanStacksTest() override {
    hosts_.clear();
    taps_.clear();
    Run();
    EXPECT_EQ(context_.pool().stats().packets_in_use, 0u);
    EXPECT_EQ(context_.timers().armed_count(), 0u);
    EXPECT_TRUE(checker_.report().clean()) << checker_.report().ToString();
  }

  bool v4() const { return GetParam() == IpFamily::kV4; }
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

  void MakePair(bool offloads) {
    auto pair = netdev::CreateVethPair(context_, {.offloads = offloads});
    ASSERT_TRUE(pair.ok()) << pair.status();
    wire_a_ = pair->first;
    wire_b_ = pair->second;
    ASSERT_TRUE(wire_a_->Up().ok());
    ASSERT_TRUE(wire_b_->Up().ok());
    taps_.push_back(std::make_unique<testutil::CheckerTap>(checker_, *wire_a_));
    taps_.push_back(std::make_unique<testutil::CheckerTap>(checker_, *wire_b_));
  }
  netdev::NetDevice& Vlan(netdev::NetDevice& lower, uint16_t id, uint16_t protocol = 0x8100) {
    auto device =
        netdev::CreateVlan(context_, lower.ifindex(), {.vlan_id = id, .protocol = protocol});
    EXPECT_TRUE(device.ok()) << device.status();
    EXPECT_TRUE((*device)->Up().ok());
    return **device;
  }
  netdev::NetDevice& Macvlan(netdev::NetDevice& lower) {
    auto device = netdev::CreateMacvlan(
        context_, lower.ifindex(), {.mode = static_cast<uint32_t>(netdev::MacvlanMode::kBridge)});
    EXPECT_TRUE(device.ok()) << device.status();
    EXPECT_TRUE((*device)->Up().ok());
    return **device;
  }
  Host& AddHost(netdev::NetDevice& device, int number) {
    StackConfig config;
    config.duplicate_address_detection = false;
    auto host = std::make_unique<Host>();
    host->stack = std::make_unique<Stack>(context_, config);
    host->interface = *host->stack->AddInterface(device);
    host->address = *IpAddress::Parse((v4() ? "10.0.0." : "fd00::") + std::to_string(number));
    EXPECT_TRUE(host->interface->AddAddress({host->address, v4() ? 24 : 64}).ok());
    tcp::Tcp::Install(*host->stack);
    hosts_.push_back(std::move(host));
    Run();
    return *hosts_.back();
  }

  std::unique_ptr<UdpSocket> OpenUdp(Host& host, uint16_t port) {
    auto socket = *UdpSocket::Create(*host.stack, {.family = GetParam()});
    EXPECT_TRUE(socket->Bind({IpAddress::Unspecified(GetParam()), port, 0}).ok());
    return socket;
  }
  // Whether a datagram gets from one to the other and its echo back, unchanged.
  bool UdpEcho(Host& from, Host& to, size_t size) {
    auto server = OpenUdp(to, kPort);
    auto client = OpenUdp(from, 0);
    const std::vector<uint8_t> data = Pattern(size);
    static_cast<void>(client->Send(data, Endpoint{to.address, kPort, 0}));
    Run();
    std::optional<Datagram> request = server->TryReceive();
    if (!request) return false;
    const Endpoint peer = request->source();
    EXPECT_EQ(peer.address, from.address);
    EXPECT_TRUE(server->SendPacket(request->TakePacket(), peer).ok());
    Run();
    std::optional<Datagram> back = client->TryReceive();
    if (!back) return false;
    std::vector<uint8_t> bytes(back->size());
    back->CopyTo(bytes);
    return bytes == data;
  }

  // Moves `data` over a connection and gives back what arrived.
  std::vector<uint8_t> TcpTransfer(Host& from, Host& to, const std::vector<uint8_t>& data) {
    auto listener = *TcpListener::Listen(*to.stack, {IpAddress::Unspecified(GetParam()), kPort, 0});
    auto client = *TcpSocket::Connect(*from.stack, {to.address, kPort, 0}, {}, nullptr);
    Run();
    std::unique_ptr<TcpSocket> server = listener->TryAccept();
    EXPECT_NE(server, nullptr);
    if (server == nullptr) return {};
    std::vector<uint8_t> received;
    std::vector<uint8_t> piece(16384);
    for (size_t sent = 0, idle = 0; received.size() < data.size() && idle < 1000; ++idle) {
      if (sent < data.size()) {
        const auto n = client->TryWrite(std::span(data).subspan(sent));
        if (n.ok()) sent += *n;
      }
      Advance(std::chrono::milliseconds(1));
      for (auto n = server->TryRead(piece); n.ok() && *n > 0; n = server->TryRead(piece)) {
        received.insert(received.end(), piece.begin(), piece.begin() + static_cast<long>(*n));
        idle = 0;
      }
    }
    client->Abort();
    Run();
    return received;
  }

  FakeClock clock_;
  SeededRandom random_{1};
  netdev::NetContext context_;
  capture::CaptureChecker checker_;
  netdev::NetDevice* wire_a_ = nullptr;
  netdev::NetDevice* wire_b_ = nullptr;
  std::vector<std::unique_ptr<testutil::CheckerTap>> taps_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

INSTANTIATE_TEST_SUITE_P(Families, VlanStacksTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

TEST_P(VlanStacksTest, DatagramsOfEverySizeComeBack) {
  for (const bool offloads : {true, false}) {
    MakePair(offloads);
    TagTap tap(*wire_a_);
    const uint16_t id = offloads ? 5 : 6;
    Host& a = AddHost(Vlan(*wire_a_, id), 1);
    Host& b = AddHost(Vlan(*wire_b_, id), 2);
    for (const size_t size : {size_t{0}, size_t{1}, size_t{1452}, size_t{1472}, size_t{1473},
                              size_t{8000}, size_t{40000}}) {
      EXPECT_TRUE(UdpEcho(a, b, size)) << size;
    }
    EXPECT_GT(tap.frames, 0u);
    EXPECT_EQ(tap.tags, std::vector<uint16_t>(tap.frames, id)) << "every frame had the tag";
    hosts_.clear();
    taps_.clear();
    Run();
    context_.registry().Unregister(*wire_a_);
    Run();
  }
}

TEST_P(VlanStacksTest, StreamArrivesWhole) {
  for (const bool offloads : {true, false}) {
    MakePair(offloads);
    TagTap tap(*wire_a_);
    Host& a = AddHost(Vlan(*wire_a_, 5), 1);
    Host& b = AddHost(Vlan(*wire_b_, 5), 2);
    const std::vector<uint8_t> data = Pattern(1'000'000);
    EXPECT_TRUE(TcpTransfer(a, b, data) == data);
    EXPECT_EQ(tap.tags, std::vector<uint16_t>(tap.frames, 5));
    // Super-packets pass whole, or are cut once: by the VLAN device, which claims no more than the
    // wire can do for tagged frames.
    EXPECT_EQ(tap.super_packets > 0, offloads);
    EXPECT_EQ(a.interface->device().stats().tx_gso_segmented.value() > 0, !offloads);
    EXPECT_EQ(wire_a_->stats().tx_gso_segmented.value(), 0u);
    EXPECT_EQ(a.interface->device().drops().total(), 0u);
    Advance(std::chrono::seconds(70));
    hosts_.clear();
    taps_.clear();
    Run();
    context_.registry().Unregister(*wire_a_);
    Run();
  }
}

TEST_P(VlanStacksTest, FramesOfAnotherVlanAreNotDelivered) {
  MakePair(true);
  Host& a = AddHost(Vlan(*wire_a_, 5), 1);
  Host& b = AddHost(Vlan(*wire_b_, 6), 2);
  EXPECT_FALSE(UdpEcho(a, b, 100));
  EXPECT_EQ(b.interface->device().stats().rx_packets.value(), 0u);
  EXPECT_GT(wire_b_->stats().rx_packets.value(), 0u) << "the wire did carry them";
  Advance(std::chrono::seconds(10));
}

// Nor are they to the stack of the lower device itself, nor its own to that of a VLAN.
TEST_P(VlanStacksTest, LowerDevicesStackSeesNoTaggedFrames) {
  MakePair(true);
  Host& a = AddHost(Vlan(*wire_a_, 5), 1);
  Host& b = AddHost(*wire_b_, 2);
  EXPECT_FALSE(UdpEcho(a, b, 100));
  EXPECT_EQ(b.interface->neighbors(GetParam()).size(), 0u);
  Host& untagged = AddHost(*wire_a_, 3);
  EXPECT_TRUE(UdpEcho(untagged, b, 100)) << "both can use the wire";
  EXPECT_FALSE(UdpEcho(untagged, a, 100));
  Advance(std::chrono::seconds(10));
}

TEST_P(VlanStacksTest, TwoVlansShareAWire) {
  MakePair(true);
  Host& a5 = AddHost(Vlan(*wire_a_, 5), 1);
  Host& b5 = AddHost(Vlan(*wire_b_, 5), 2);
  Host& a6 = AddHost(Vlan(*wire_a_, 6), 1);
  Host& b6 = AddHost(Vlan(*wire_b_, 6), 2);
  EXPECT_TRUE(UdpEcho(a5, b5, 1000));
  EXPECT_TRUE(UdpEcho(a6, b6, 1000));
  EXPECT_EQ(b5.interface->device().stats().rx_packets.value(),
            b6.interface->device().stats().rx_packets.value());
  EXPECT_EQ(TcpTransfer(a6, b6, Pattern(100'000)).size(), 100'000u);
  Advance(std::chrono::seconds(70));
}

TEST_P(VlanStacksTest, VlanInAVlan) {
  for (const bool offloads : {true, false}) {
    MakePair(offloads);
    Host& a = AddHost(Vlan(Vlan(*wire_a_, 10, 0x88a8), 20), 1);
    Host& b = AddHost(Vlan(Vlan(*wire_b_, 10, 0x88a8), 20), 2);
    EXPECT_TRUE(UdpEcho(a, b, 1452));
    EXPECT_TRUE(UdpEcho(a, b, 8000));
    const std::vector<uint8_t> data = Pattern(200'000);
    EXPECT_TRUE(TcpTransfer(a, b, data) == data);
    Advance(std::chrono::seconds(70));
    hosts_.clear();
    taps_.clear();
    Run();
    context_.registry().Unregister(*wire_a_);
    Run();
  }
}

TEST_P(VlanStacksTest, VlanOverMacvlan) {
  MakePair(true);
  // One side: two macvlans that talk to each other through their lower device; the other: a macvlan
  // beyond the wire.
  Host& a = AddHost(Vlan(Macvlan(*wire_a_), 5), 1);
  Host& near = AddHost(Vlan(Macvlan(*wire_a_), 5), 2);
  Host& far = AddHost(Vlan(Macvlan(*wire_b_), 5), 3);
  Host& other = AddHost(Vlan(Macvlan(*wire_b_), 6), 4);
  for (Host* peer : {&near, &far}) {
    EXPECT_TRUE(UdpEcho(a, *peer, 1000));
    EXPECT_TRUE(UdpEcho(*peer, a, 8000));
    const std::vector<uint8_t> data = Pattern(300'000);
    EXPECT_TRUE(TcpTransfer(a, *peer, data) == data);
  }
  EXPECT_FALSE(UdpEcho(a, other, 100));
  Advance(std::chrono::seconds(70));
}

// A lower device that goes takes the VLAN with it; sockets learn of it, nothing is left.
TEST_P(VlanStacksTest, WireThatGoesTakesTheVlanDownAndBackUp) {
  MakePair(true);
  Host& a = AddHost(Vlan(*wire_a_, 5), 1);
  Host& b = AddHost(Vlan(*wire_b_, 5), 2);
  ASSERT_TRUE(UdpEcho(a, b, 10));
  wire_a_->Down();
  EXPECT_FALSE(a.interface->device().is_up());
  EXPECT_FALSE(b.interface->device().has_carrier());
  EXPECT_FALSE(UdpEcho(a, b, 10));
  ASSERT_TRUE(wire_a_->Up().ok());
  EXPECT_TRUE(a.interface->device().is_running());
  EXPECT_TRUE(UdpEcho(a, b, 10));
  context_.registry().Unregister(*wire_a_);
  Run();
  EXPECT_FALSE(UdpEcho(a, b, 10));
}

}  // namespace
}  // namespace tapwire
