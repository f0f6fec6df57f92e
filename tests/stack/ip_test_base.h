// SPDX-License-Identifier: Apache-2.0
// What the tests of ipv4, ipv6, icmp and reassembly share: a stack on a device without a wire, a
// peer whose MAC is known, and a transport that writes down what IP gives it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "netdev/packet/packet.h"
#include "stack/icmp/icmpv4.h"
#include "stack/icmp/icmpv6.h"
#include "stack/interface.h"
#include "stack/ipv4/ipv4.h"
#include "stack/ipv6/ipv6.h"
#include "stack/path_mtu.h"
#include "stack/stack.h"
#include "tests/testutil/matchers.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/stack_harness.h"

namespace tapwire {

using testutil::ByteVector;
using testutil::Frame;
using testutil::Hex;
using testutil::Pattern;

inline const MacAddress kHostMac{0x02, 0, 0, 0, 0, 0x01};
inline const MacAddress kPeerMac{0x02, 0, 0, 0, 0, 0x99};
inline const MacAddress kBroadcastMac = MacAddress::kBroadcast();
inline const Ipv4Address kHost4{10, 0, 0, 2}, kPeer4{10, 0, 0, 1}, kRouter4{10, 0, 0, 254};
inline const Ipv4Address kFar4{192, 0, 2, 7};
inline const Ipv6Address kHost6 = *Ipv6Address::Parse("fd00::2");
inline const Ipv6Address kPeer6 = *Ipv6Address::Parse("fd00::1");
inline const Ipv6Address kRouter6 = *Ipv6Address::Parse("fd00::fe");
inline const Ipv6Address kFar6 = *Ipv6Address::Parse("2001:db8::7");
inline const Ipv6Address kHostLinkLocal6 = *Ipv6Address::Parse("fe80::2");
inline const Ipv6Address kPeerLinkLocal6 = *Ipv6Address::Parse("fe80::1");

// RFC 3692 §2.1: for experiments and testing.
inline constexpr uint8_t kTestProtocol = 253;
inline constexpr uint8_t kUnusedProtocol = 254;

inline ByteVector BytesOf(const Packet& packet) {
  ByteVector bytes(packet.length());
  packet.CopyOut(0, bytes);
  return bytes;
}

class RecordingTransport final : public TransportProtocol {
 public:
  struct Datagram {
    ByteVector bytes;
    IpPacketInfo info;
    CsumState csum_state;
    size_t frags;
  };
  struct Error {
    IcmpErrorInfo info;
    ByteVector transport;
  };

  DropReason Input(PacketPtr packet, const IpPacketInfo& info) override {
    received.push_back({BytesOf(*packet), info, packet->meta.csum_state, packet->frag_count()});
    return DropReason::kNone;
  }
  bool OnIcmpError(const IcmpErrorInfo& error) override {
    errors.push_back({error, ByteVector(error.transport.begin(), error.transport.end())});
    errors.back().info.transport = {};
    return recognises;
  }

  std::vector<Datagram> received;
  std::vector<Error> errors;
  bool recognises = true;
};

class IpTestBase : public ::testing::Test {
 protected:
  explicit IpTestBase(testutil::NetHarness::Options options = {}) : net_(std::move(options)) {
    StackConfig config;
    config.duplicate_address_detection = false;
    config.announce_addresses = false;
    config.link_local_address = false;
    stack_ = std::make_unique<Stack>(net_.context(), config);
    stack_->RegisterTransport(kTestProtocol, &transport_);
    interface_ = *stack_->AddInterface(net_.device());
    EXPECT_TRUE(interface_->AddAddress({kHost4, 24}).ok());
    EXPECT_TRUE(interface_->AddAddress({kHost6, 64}).ok());
    EXPECT_TRUE(interface_->AddAddress({kHostLinkLocal6, 64}).ok());
    Know(kPeer4);
    Know(kRouter4);
    Know(kPeer6);
    Know(kRouter6);
    Know(kPeerLinkLocal6);
    EXPECT_TRUE(stack_->AddRoute({{Ipv4Address(), 0}, kRouter4, nullptr}).ok());
    EXPECT_TRUE(stack_->AddRoute({{Ipv6Address(), 0}, kRouter6, nullptr}).ok());
    net_.Run();
    net_.Advance(std::chrono::seconds(20));  // group reports are done
    net_.TakeSent();
  }

  void Know(const IpAddress& neighbor) {
    EXPECT_TRUE(interface_->neighbors(neighbor.family()).AddPermanent(neighbor, kPeerMac).ok());
  }

  static Frame FromPeer() { return Frame().Eth(kPeerMac, kHostMac); }
  uint64_t Drops(DropReason reason) const { return stack_->drops().value(reason); }

  // A packet with `bytes` as transport header and data, for output.
  PacketPtr MakePacket(std::span<const uint8_t> bytes) {
    PacketPtr packet = stack_->pool().AllocatePacket(std::min<size_t>(bytes.size(), 512));
    EXPECT_TRUE(packet->AppendBytes(bytes));
    return packet;
  }
  Route RouteTo(const IpAddress& destination, uint32_t ifindex = 0) {
    Stack::RouteRequest request;
    request.destination = destination;
    request.ifindex = ifindex;
    absl::StatusOr<Route> route = stack_->FindRoute(request);
    EXPECT_TRUE(route.ok()) << route.status();
    return *route;
  }
  netdev::TxResult Send(std::span<const uint8_t> bytes, const Route& route,
                        IpSendOptions options = {}) {
    if (options.protocol == 0) options.protocol = kTestProtocol;
    const netdev::TxResult result = stack_->SendIp(MakePacket(bytes), route, options);
    net_.Run();
    return result;
  }

  testutil::NetHarness net_;
  RecordingTransport transport_;
  std::unique_ptr<Stack> stack_;
  Interface* interface_ = nullptr;
};

}  // namespace tapwire
