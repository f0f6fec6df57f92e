// SPDX-License-Identifier: Apache-2.0
// A router between two devices without wires.
//
//   10.1.0.9 [left host] ---- left 10.1.0.1 [router] right 10.2.0.1 ---- 10.2.0.9 [right host]
//   fd01::9                   fd01::1               fd02::1               fd02::9
//
// The neighbours' MACs are known; 198.51.100.0/24 and 2001:db8:5::/48 lie behind the right host.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "netdev/base/byteorder.h"
#include "netdev/device.h"
#include "netdev/gro.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/interface.h"
#include "stack/ipv4/ipv4.h"
#include "stack/ipv6/ipv6.h"
#include "stack/path_mtu.h"
#include "stack/stack.h"
#include "tests/testutil/frame_view.h"
#include "tests/testutil/matchers.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/stack_harness.h"

namespace tapwire {

using testutil::ByteVector;
using testutil::Dissect;
using testutil::Frame;
using testutil::FrameView;
using testutil::Pattern;

inline constexpr MacAddress kLeftMac{0x02, 0, 0, 0, 0, 0x01}, kRightMac{0x02, 0, 0, 0, 0, 0x02};
inline constexpr MacAddress kLeftHostMac{0x02, 0, 0, 0, 1, 0x09};
inline constexpr MacAddress kRightHostMac{0x02, 0, 0, 0, 2, 0x09};
inline constexpr Ipv4Address kLeft4{10, 1, 0, 1}, kLeftHost4{10, 1, 0, 9};
inline constexpr Ipv4Address kRight4{10, 2, 0, 1}, kRightHost4{10, 2, 0, 9};
inline constexpr Ipv4Address kBeyond4{198, 51, 100, 7};
inline const Ipv6Address kLeft6 = *Ipv6Address::Parse("fd01::1");
inline const Ipv6Address kLeftHost6 = *Ipv6Address::Parse("fd01::9");
inline const Ipv6Address kRight6 = *Ipv6Address::Parse("fd02::1");
inline const Ipv6Address kRightHost6 = *Ipv6Address::Parse("fd02::9");
inline const Ipv6Address kBeyond6 = *Ipv6Address::Parse("2001:db8:5::7");

class RouterTest : public ::testing::Test {
 protected:
  struct Options {
    uint32_t right_mtu = 1500;
    netdev::FeatureSet right_features = {};
    bool forwarding = true;
    std::set<capture::Rule> ignored_rules = {};
  };

  // All that a router does not answer for when it passes on what it got.
  static std::set<capture::Rule> MistakesOfOthers() {
    std::set<capture::Rule> rules;
    for (size_t i = 0; i < capture::kRuleCount; ++i) rules.insert(static_cast<capture::Rule>(i));
    for (const capture::Rule ours :
         {capture::Rule::kMtu, capture::Rule::kIpv4Header, capture::Rule::kIpv4Checksum,
          capture::Rule::kTtl, capture::Rule::kMartianSource, capture::Rule::kMartianDestination,
          capture::Rule::kLinkDestination, capture::Rule::kEthSource, capture::Rule::kIcmpAbout,
          capture::Rule::kIcmpQuote, capture::Rule::kIcmpHeader}) {
      rules.erase(ours);
    }
    return rules;
  }

  RouterTest() = default;

  void Make() { Make(Options()); }
  void Make(const Options& options) {
    testutil::NetHarness::Options harness;
    harness.device = {.name = "left", .mac = kLeftMac, .mtu = 9000};
    harness.ignored_rules = options.ignored_rules;
    net = std::make_unique<testutil::NetHarness>(std::move(harness));
    right_device = &net->AddDevice({.name = "right",
                                    .mac = kRightMac,
                                    .mtu = options.right_mtu,
                                    .features = options.right_features});
    StackConfig config;
    config.duplicate_address_detection = false;
    config.announce_addresses = false;
    config.link_local_address = false;
    config.forwarding = options.forwarding;
    stack = std::make_unique<Stack>(net->context(), config);
    left = *stack->AddInterface(net->device());
    right = *stack->AddInterface(*right_device);
    Configure(*left, kLeft4, kLeft6);
    Configure(*right, kRight4, kRight6);
    Know(*left, kLeftHost4, kLeftHostMac);
    Know(*left, kLeftHost6, kLeftHostMac);
    Know(*right, kRightHost4, kRightHostMac);
    Know(*right, kRightHost6, kRightHostMac);
    ASSERT_TRUE(stack->AddRoute({{Ipv4Address(198, 51, 100, 0), 24}, kRightHost4, nullptr}).ok());
    if (options.right_mtu >= 1280) {
      ASSERT_TRUE(
          stack->AddRoute({{*Ipv6Address::Parse("2001:db8:5::"), 48}, kRightHost6, nullptr}).ok());
    }
    net->Run();
    net->Advance(std::chrono::seconds(20));  // group reports are done
    TakeLeft();
    TakeRight();
  }

  static void Configure(Interface& interface, const Ipv4Address& v4, const Ipv6Address& v6) {
    ASSERT_TRUE(interface.AddAddress({v4, 24}).ok());
    if (interface.device().mtu() >= 1280) {
      ASSERT_TRUE(interface.AddAddress({v6, 64}).ok());
    }
  }
  static void Know(Interface& interface, const IpAddress& address, const MacAddress& mac) {
    ASSERT_TRUE(interface.neighbors(address.family()).AddPermanent(address, mac).ok());
  }

  void TearDown() override { stack.reset(); }

  static Frame FromLeft() { return Frame().Eth(kLeftHostMac, kLeftMac); }
  void Inject(const ByteVector& frame) { net->Inject(frame); }
  // As a device that has done part of the work.
  void Inject(const ByteVector& frame, const std::function<void(Packet&)>& prepare) {
    net->device().Inject(frame, prepare);
    net->Run();
  }
  std::vector<ByteVector> TakeLeft() { return net->TakeSent(); }
  std::vector<testutil::SentFrame> TakeRightFrames() { return right_device->TakeSent(); }
  std::vector<ByteVector> TakeRight() {
    std::vector<ByteVector> frames;
    for (testutil::SentFrame& sent : right_device->TakeSent()) {
      frames.push_back(std::move(sent.bytes));
    }
    return frames;
  }
  uint64_t Drops(DropReason reason) const { return stack->drops().value(reason); }

  // Nothing comes out on the right, and it is counted so.
  void ExpectRefused(const ByteVector& frame, DropReason reason) {
    const uint64_t before = Drops(reason);
    Inject(frame);
    EXPECT_TRUE(TakeRight().empty()) << DropReasonName(reason);
    EXPECT_EQ(Drops(reason), before + 1) << DropReasonName(reason);
  }
  void ExpectRefusedInSilence(const ByteVector& frame, DropReason reason) {
    ExpectRefused(frame, reason);
    EXPECT_TRUE(TakeLeft().empty()) << DropReasonName(reason);
  }

  // What merging leaves: a TCP frame with the pseudo-header's sum in the field and `size` to cut.
  static std::function<void(Packet&)> Merged(bool v4, uint16_t size) {
    return [v4, size](Packet& packet) {
      packet.meta.gso = {.type = v4 ? GsoType::kTcpv4 : GsoType::kTcpv6, .size = size};
      packet.meta.csum_state = CsumState::kPartial;
      packet.set_csum_start_in_data(v4 ? 34 : 54);
      packet.meta.csum_offset = 16;
    };
  }
  // A TCP frame of `payload` bytes from the left host; its checksum field is as in Merged().
  static ByteVector TcpFrame(bool v4, const ByteVector& payload, bool dont_fragment,
                             uint16_t id = 7) {
    const IpAddress from = v4 ? IpAddress(kLeftHost4) : IpAddress(kLeftHost6);
    const IpAddress to = v4 ? IpAddress(kRightHost4) : IpAddress(kRightHost6);
    const ByteVector nothing(20 + payload.size());  // zeros add nothing to the sum
    const auto pseudo = static_cast<uint16_t>(
        ~testutil::SimpleTransportChecksum(from, to, wire::IpProtocol::kTcp, nothing));
    Frame frame = FromLeft();
    if (v4) {
      frame.Ipv4({.source = kLeftHost4,
                  .destination = kRightHost4,
                  .id = id,
                  .dont_fragment = dont_fragment});
    } else {
      frame.Ipv6({.source = kLeftHost6, .destination = kRightHost6});
    }
    return frame
        .Tcp({.source_port = 1000,
              .destination_port = 2000,
              .seq = 100'000,
              .ack = 1,
              .checksum = pseudo})
        .Payload(payload)
        .Build();
  }

  std::unique_ptr<testutil::NetHarness> net;  // outlives the stack
  testutil::TestDevice* right_device = nullptr;
  std::unique_ptr<Stack> stack;
  Interface* left = nullptr;
  Interface* right = nullptr;
};

// The same for IPv4 and IPv6.
class RouterFamilyTest : public RouterTest, public ::testing::WithParamInterface<IpFamily> {
 protected:
  static bool v4() { return GetParam() == IpFamily::kV4; }
  static IpAddress left_host() { return v4() ? IpAddress(kLeftHost4) : IpAddress(kLeftHost6); }
  static IpAddress right_host() { return v4() ? IpAddress(kRightHost4) : IpAddress(kRightHost6); }
  IpCounters& ip() { return stack->ip_counters(GetParam()); }
  IcmpCounters& icmp() { return v4() ? stack->mib().icmp : stack->mib().icmp6; }

  struct PacketArgs {
    IpAddress source = left_host();
    IpAddress destination = right_host();
    uint8_t ttl = 64;
    std::optional<uint8_t> protocol = {};
    bool dont_fragment = true;
  };
  static Frame IpFrame(const PacketArgs& args) {
    Frame frame = FromLeft();
    if (v4()) {
      frame.Ipv4({.source = args.source.v4(),
                  .destination = args.destination.v4(),
                  .ttl = args.ttl,
                  .id = 1,
                  .dont_fragment = args.dont_fragment,
                  .protocol = args.protocol});
    } else {
      frame.Ipv6({.source = args.source.v6(),
                  .destination = args.destination.v6(),
                  .hop_limit = args.ttl,
                  .next_header = args.protocol});
    }
    return frame;
  }
  static Frame IpFrame() { return IpFrame(PacketArgs()); }
  static ByteVector Udp(const PacketArgs& args, size_t size = 32) {
    return IpFrame(args)
        .Udp({.source_port = 1000, .destination_port = 2000})
        .Payload(Pattern(size))
        .Build();
  }
  static ByteVector Udp(size_t size = 32) { return Udp(PacketArgs(), size); }
  static IpAddress Address(absl::string_view v4_text, absl::string_view v6_text) {
    return v4() ? IpAddress(*Ipv4Address::Parse(v4_text)) : IpAddress(*Ipv6Address::Parse(v6_text));
  }

  // The one ICMP error that the left host got.
  FrameView TakeError() {
    error_frames_ = TakeLeft();
    EXPECT_EQ(error_frames_.size(), 1u);
    if (error_frames_.size() != 1) return {};
    const FrameView view = Dissect(error_frames_[0]);
    EXPECT_EQ(view.link_destination, kLeftHostMac);
    EXPECT_EQ(view.source, v4() ? IpAddress(kLeft4) : IpAddress(kLeft6));
    EXPECT_EQ(view.destination, left_host());
    EXPECT_EQ(view.protocol, v4() ? wire::IpProtocol::kIcmp : wire::IpProtocol::kIcmpv6);
    return view;
  }

 private:
  std::vector<ByteVector> error_frames_;
};

inline std::string RouterFamilyName(const ::testing::TestParamInfo<IpFamily>& info) {
  return info.param == IpFamily::kV4 ? "V4" : "V6";
}

}  // namespace tapwire
