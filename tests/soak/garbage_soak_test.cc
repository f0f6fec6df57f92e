// SPDX-License-Identifier: Apache-2.0
// Damaged and random frames by the million: none crashes, hangs or leaks, and the host still
// answers.

#include <algorithm>
#include <memory>
#include <vector>

#include "stack/stack.h"
#include "stack/udp/udp.h"
#include "tests/soak/soak.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/stack_harness.h"

namespace tapwire {
namespace {

using testutil::Frame;

const MacAddress kPeerMac{0x02, 0, 0, 0, 0, 0x99};
const Ipv4Address kHost4{10, 0, 0, 2}, kPeer4{10, 0, 0, 1};
const Ipv6Address kHost6 = *Ipv6Address::Parse("fd00::2"), kPeer6 = *Ipv6Address::Parse("fd00::1");

std::vector<testutil::ByteVector> Seeds(const MacAddress& host) {
  const auto v4 = [&] {
    return Frame().Eth(kPeerMac, host).Ipv4({.source = kPeer4, .destination = kHost4});
  };
  const auto v6 = [&] {
    return Frame().Eth(kPeerMac, host).Ipv6({.source = kPeer6, .destination = kHost6});
  };
  std::vector<testutil::ByteVector> seeds = {
      v4().Echo4({}).Payload("ping").Build(),
      v6().Echo6({}).Payload("ping").Build(),
      v4().Udp({.source_port = 1, .destination_port = 9}).Payload("x").Build(),
      v6().Udp({.source_port = 1, .destination_port = 9}).Payload("x").Build(),
      v6().HopByHop({}).DestinationOptions({}).Echo6({}).Build(),
      v6().Routing({}).Udp({.source_port = 1, .destination_port = 9}).Build(),
      v4().Tcp({.source_port = 1, .destination_port = 80, .flags = "S"}).Build(),
      v6().NeighborSolicitation({.target = kHost6, .link_address = kPeerMac}).Build(),
      v6().NeighborAdvertisement({.target = kPeer6, .link_address = kPeerMac, .solicited = true})
          .Build(),
      Frame()
          .Eth(kPeerMac, MacAddress::kBroadcast())
          .Arp({.sender_mac = kPeerMac, .sender_ip = kPeer4, .target_ip = kHost4})
          .Build(),
      v4().Igmp({}).Build(),
  };
  for (const auto& f : v4().Udp({.source_port = 1, .destination_port = 9})
                           .Payload(testutil::Pattern(100))
                           .BuildFragments(48, 5)) {
    seeds.push_back(f);
  }
  for (const auto& f : v6().Udp({.source_port = 1, .destination_port = 9})
                           .Payload(testutil::Pattern(100))
                           .BuildFragments(48, 5)) {
    seeds.push_back(f);
  }
  return seeds;
}

void Damage(testutil::ByteVector& frame, SeededRandom& random) {
  const uint32_t changes = random.Uniform(4);
  for (uint32_t i = 0; i < changes && !frame.empty(); ++i) {
    frame[random.Uniform(static_cast<uint32_t>(frame.size()))] =
        static_cast<uint8_t>(random.Next32());
  }
  if (random.Uniform(8) == 0) frame.resize(random.Uniform(static_cast<uint32_t>(frame.size()) + 1));
  if (random.Uniform(16) == 0) frame.resize(frame.size() + random.Uniform(200));
}

TEST(GarbageSoakTest, HostStillAnswersAfterwards) {
  testutil::NetHarness::Options options;
  // Answers to frames with another host's addresses are judged elsewhere; here only survival
  // counts.
  for (size_t rule = 0; rule < capture::kRuleCount; ++rule)
    options.ignored_rules.insert(static_cast<capture::Rule>(rule));
  testutil::NetHarness net(options);
  StackConfig config;
  config.duplicate_address_detection = false;
  auto stack = std::make_unique<Stack>(net.context(), config);
  Udp::Install(*stack);
  Interface* interface = *stack->AddInterface(net.device());
  ASSERT_TRUE(interface->AddAddress({kHost4, 24}).ok());
  ASSERT_TRUE(interface->AddAddress({kHost6, 64}).ok());
  const std::vector<testutil::ByteVector> seeds = Seeds(net.device().mac());
  const uint64_t count = testutil::SoakCount(2'000'000);
  for (uint64_t i = 0; i < count; ++i) {
    testutil::ByteVector frame = seeds[net.random().Uniform(static_cast<uint32_t>(seeds.size()))];
    Damage(frame, net.random());
    net.Inject(frame);
    if (i % 1024 == 0) net.Advance(std::chrono::milliseconds(500));
    net.TakeSent();
  }
  net.Advance(std::chrono::seconds(120));
  net.TakeSent();
  net.Inject(seeds[0]);
  net.Inject(seeds[1]);
  net.Advance(
      std::chrono::seconds(1));  // the peer's MAC may have to be asked for: then it is answered
  EXPECT_GE(stack->mib().icmp.in_echos.value(), 1u);
  EXPECT_GE(net.TakeSent().size(), 2u);
  stack.reset();
}

}  // namespace
}  // namespace tapwire
