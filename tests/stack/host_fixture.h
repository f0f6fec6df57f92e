// SPDX-License-Identifier: Apache-2.0
// A host on a device without a wire: NetHarness with a Stack and one interface that has an address
// of each family. Quiet by default: no conflict detection, no announcements, no link-local address,
// and the group reports of the start have been sent, so that a test sees only the frames it causes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "netdev/wire/ip_address.h"
#include "stack/arp/arp.h"
#include "stack/interface.h"
#include "stack/stack.h"
#include "tests/testutil/frame_view.h"
#include "tests/testutil/matchers.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/stack_harness.h"

namespace tapwire::testutil {

inline constexpr MacAddress kHostMac{0x02, 0, 0, 0, 0, 0x01};
inline constexpr MacAddress kPeerMac{0x02, 0, 0, 0, 0, 0x02};
inline constexpr MacAddress kOtherMac{0x02, 0, 0, 0, 0, 0x03};
inline constexpr Ipv4Address kHost4{192, 0, 2, 1};
inline constexpr Ipv4Address kPeer4{192, 0, 2, 2};
inline const Ipv6Address kHost6 = Ipv6Address::FromGroups({0x2001, 0xdb8, 0, 0, 0, 0, 0, 1});
inline const Ipv6Address kPeer6 = Ipv6Address::FromGroups({0x2001, 0xdb8, 0, 0, 0, 0, 0, 2});

inline IpAddress HostIp(IpFamily family) {
  return family == IpFamily::kV4 ? IpAddress(kHost4) : IpAddress(kHost6);
}
// The n-th neighbour in the host's subnet.
inline IpAddress PeerIp(IpFamily family, uint16_t n = 2) {
  if (family == IpFamily::kV4) {
    return Ipv4Address(192, 0, static_cast<uint8_t>(2 + (n >> 8)), static_cast<uint8_t>(n));
  }
  return Ipv6Address::FromGroups({0x2001, 0xdb8, 0, 0, 0, 0, 0, n});
}
inline MacAddress PeerMacOf(uint16_t n) {
  return {0x02, 0, 0, 1, static_cast<uint8_t>(n >> 8), static_cast<uint8_t>(n)};
}

// An experimental protocol (RFC 3692) whose user remembers what it is told.
class RecordingTransport final : public TransportProtocol {
 public:
  static constexpr uint8_t kProtocol = 253;
  DropReason Input(PacketPtr packet, const IpPacketInfo& info) override {
    lengths.push_back(packet->length());
    infos.push_back(info);
    return DropReason::kNone;
  }
  bool OnIcmpError(const IcmpErrorInfo& error) override {
    errors.push_back(error);
    quotes.emplace_back(error.transport.begin(), error.transport.end());
    return true;
  }
  std::vector<size_t> lengths;
  std::vector<IpPacketInfo> infos;
  std::vector<IcmpErrorInfo> errors;
  std::vector<ByteVector> quotes;
};

class HostTest : public ::testing::Test {
 protected:
  // The settings of a quiet host.
  static StackConfig Quiet() {
    StackConfig config;
    config.duplicate_address_detection = false;
    config.announce_addresses = false;
    config.link_local_address = false;
    return config;
  }

  // Makes the host; with addresses, unless the test wants to add them itself.
  void Make(StackConfig config = Quiet(), bool addresses = true,
            NetHarness::Options options = NetHarness::Options()) {
    interface = nullptr;
    stack.reset();
    net = std::make_unique<NetHarness>(std::move(options));
    stack = std::make_unique<Stack>(net->context(), config);
    auto added = stack->AddInterface(net->device());
    ASSERT_TRUE(added.ok()) << added.status();
    interface = *added;
    if (addresses) {
      ASSERT_TRUE(interface->AddAddress({kHost4, 16}).ok());
      ASSERT_TRUE(interface->AddAddress({kHost6, 64}).ok());
    }
    Settle();
  }

  // Lets the group reports go out and forgets all frames.
  void Settle(Duration time = std::chrono::seconds(20)) {
    net->Advance(time);
    net->TakeSent();
  }

  TestDevice& device() { return net->device(); }
  uint64_t drops(DropReason reason) const { return stack->drops().value(reason); }

  // A datagram of the recording transport's protocol, `size` bytes of data, through the whole
  // stack.
  netdev::TxResult SendTo(const IpAddress& destination, size_t size = 8, uint8_t first = 0) {
    const auto route = stack->FindRoute({.destination = destination});
    EXPECT_TRUE(route.ok()) << route.status();
    if (!route.ok()) return netdev::TxResult::kNoRoute;
    return stack->SendIp(PacketFromBytes(stack->pool(), Pattern(size, first)), *route,
                         {.protocol = RecordingTransport::kProtocol});
  }

  // The sent frames without IGMP and MLD reports.
  std::vector<ByteVector> TakeFrames() {
    std::vector<ByteVector> frames;
    for (ByteVector& bytes : net->TakeSent()) {
      if (!::testing::Matches(::testing::AnyOf(IsMldReport(), IsIgmpReport()))(bytes)) {
        frames.push_back(std::move(bytes));
      }
    }
    return frames;
  }

  // The neighbour `ip` at `mac` answers a question for its MAC.
  void AnswerFor(const IpAddress& ip, const MacAddress& mac) {
    if (ip.is_v4()) {
      net->Inject(Frame()
                      .Eth(mac, kHostMac)
                      .Arp({.operation = 2,
                            .sender_mac = mac,
                            .sender_ip = ip.v4(),
                            .target_mac = kHostMac,
                            .target_ip = kHost4})
                      .Pad()
                      .Build());
    } else {
      net->Inject(Frame()
                      .Eth(mac, kHostMac)
                      .Ipv6({.source = ip.v6(), .destination = kHost6, .hop_limit = 255})
                      .NeighborAdvertisement({.target = ip.v6(),
                                              .link_address = mac,
                                              .solicited = true,
                                              .override_flag = true})
                      .Build());
    }
  }

  std::unique_ptr<NetHarness> net;  // outlives the stack
  RecordingTransport transport;
  std::unique_ptr<Stack> stack;
  Interface* interface = nullptr;
};

// The same test for IPv4 and IPv6.
class HostFamilyTest : public HostTest, public ::testing::WithParamInterface<IpFamily> {
 protected:
  static IpFamily family() { return GetParam(); }
  static bool v4() { return family() == IpFamily::kV4; }
  static IpAddress host() { return HostIp(family()); }
  static IpAddress peer(uint16_t n = 2) { return PeerIp(family(), n); }
};

inline std::string FamilyName(const ::testing::TestParamInfo<IpFamily>& info) {
  return info.param == IpFamily::kV4 ? "V4" : "V6";
}

}  // namespace tapwire::testutil
