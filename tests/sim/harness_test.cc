// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <utility>

#include "netdev/tx_path.h"
#include "tests/testutil/matchers.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/stack_harness.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr MacAddress kPeerMac(2, 0, 0, 0, 0, 0x99);
constexpr Ipv4Address kPeerIp(10, 0, 0, 9);
constexpr Ipv4Address kHostIp(10, 0, 0, 1);
constexpr Ipv6Address kPeerIp6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 9});
constexpr Ipv6Address kHostIp6 = Ipv6Address::FromGroups({0xfd00, 0, 0, 0, 0, 0, 0, 1});

// Sends each frame back with the MAC addresses exchanged.
class Mirror final : public netdev::PacketType {
 public:
  explicit Mirror(netdev::NetDevice& device) : PacketType(kAllTypes), device_(device) {
    device.AddPacketType(*this);
  }
  void Receive(PacketPtr packet, netdev::NetDevice& /*device*/) override {
    std::span<uint8_t> head = packet->head_bytes();
    std::swap_ranges(head.begin(), head.begin() + 6, head.begin() + 6);
    static_cast<void>(netdev::TxPath::Transmit(std::move(packet), device_));
  }

 private:
  netdev::NetDevice& device_;
};

ByteVector UdpFrame(netdev::NetDevice& device) {
  return Frame()
      .Eth(kPeerMac, device.mac())
      .Ipv4({.source = kPeerIp, .destination = kHostIp, .ttl = 7})
      .Udp({.source_port = 1000, .destination_port = 7})
      .Payload("hello")
      .Build();
}

TEST(NetHarnessTest, InjectedFrameIsReceivedAndTheAnswerCollected) {
  NetHarness net;
  Mirror mirror(net.device());
  net.Inject(UdpFrame(net.device()));
  EXPECT_THAT(net.TakeSent(),
              ElementsAre(IsIpv4(EthDstIs(kPeerMac), SrcIs(kPeerIp), DstIs(kHostIp), TtlIs(7),
                                 IsUdp(SrcPortIs(1000), DstPortIs(7), PayloadIs("hello")))));
  EXPECT_THAT(net.TakeSent(), IsEmpty());
}

TEST(NetHarnessTest, InjectedIpv6FrameIsReceivedAndTheAnswerCollected) {
  NetHarness net;
  Mirror mirror(net.device());
  net.Inject(Frame()
                 .Eth(kPeerMac, net.device().mac())
                 .Ipv6({.source = kPeerIp6, .destination = kHostIp6})
                 .Udp({.source_port = 1000, .destination_port = 7})
                 .Payload("hello")
                 .Build());
  EXPECT_THAT(net.TakeSent(), ElementsAre(IsIpv6(SrcIs(kPeerIp6), IsUdp(PayloadIs("hello")))));
}

TEST(NetHarnessTest, AdvanceStopsAtEachDeadline) {
  NetHarness net;
  std::vector<Duration> fired;
  const Time start = net.now();
  FunctionTimer second([&] { fired.push_back(net.context().now() - start); });
  FunctionTimer first([&] {
    fired.push_back(net.context().now() - start);
    net.context().timers().Arm(second, net.context().now() + std::chrono::seconds(2));
  });
  net.context().timers().Arm(first, start + std::chrono::seconds(1));
  net.Advance(std::chrono::seconds(10));
  EXPECT_THAT(fired, ElementsAre(std::chrono::seconds(1), std::chrono::seconds(3)));
  EXPECT_EQ(net.now() - start, std::chrono::seconds(10));
}

TEST(NetHarnessTest, BrokenSentFrameFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(
      {
        NetHarness net;
        Mirror mirror(net.device());
        ByteVector frame = UdpFrame(net.device());
        frame[24] ^= 1;  // IPv4 header checksum
        net.Inject(frame);
      },
      "ipv4-checksum");
}

TEST(NetHarnessTest, DeclaredBreachIsAllowed) {
  NetHarness net({.ignored_rules = {capture::Rule::kIpv4Checksum}});
  Mirror mirror(net.device());
  ByteVector frame = UdpFrame(net.device());
  frame[24] ^= 1;
  net.Inject(frame);
}

TEST(NetHarnessTest, ArmedTimerAtTheEndFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(
      {
        FunctionTimer timer([] {});
        NetHarness net;
        net.context().timers().Arm(timer, net.now() + std::chrono::seconds(1));
      },
      "timers are armed");
}

TEST(NetHarnessTest, PacketKeptAtTheEndFailsTheTest) {
  NetHarness net;
  PacketPtr kept = PacketFromBytes(net.context().pool(), UdpFrame(net.device()));
  EXPECT_NONFATAL_FAILURE(net.ExpectNoLeaks(), "1 packets and 1 slabs are in use");
  kept.reset();
  net.ExpectNoLeaks();
}

TEST(TestDeviceTest, PartialChecksumIsCompletedInTheCollectedCopy) {
  NetHarness net({.device = {.features = {netdev::Feature::kSg, netdev::Feature::kHwCsum}}});
  ByteVector frame = UdpFrame(net.device());
  const ByteVector whole = frame;
  // The pseudo-header sum, by hand: 0a00 0009 0a00 0001 0011 000d.
  frame[40] = 0x14;
  frame[41] = 0x28;
  PacketPtr packet = PacketFromBytes(net.context().pool(), frame);
  packet->meta.csum_state = CsumState::kPartial;
  packet->set_csum_start_in_data(34);
  packet->meta.csum_offset = 6;
  std::swap_ranges(packet->data(), packet->data() + 6, packet->data() + 6);
  EXPECT_EQ(netdev::TxPath::Transmit(std::move(packet), net.device()), netdev::TxResult::kQueued);
  net.Run();
  const std::vector<SentFrame> sent = net.TakeSentFrames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].csum_state, CsumState::kPartial);
  EXPECT_EQ(ByteVector(sent[0].bytes.begin() + 12, sent[0].bytes.end()),
            ByteVector(whole.begin() + 12, whole.end()));
}

TEST(TestDeviceTest, FailingSendIsCountedAndNotCollected) {
  NetHarness net;
  Mirror mirror(net.device());
  net.device().FailSends(netdev::TxResult::kNoBuffer);
  net.Inject(UdpFrame(net.device()));
  EXPECT_THAT(net.TakeSent(), IsEmpty());
  EXPECT_EQ(net.device().drops().value(DropReason::kTxWriteError), 1u);
  net.device().StopFailing();
  net.Inject(UdpFrame(net.device()));
  EXPECT_EQ(net.TakeSent().size(), 1u);
}

TEST(MatchersTest, FailureShowsTheFrameAndThePart) {
  const ByteVector frame = Frame()
                               .Eth(kPeerMac, kPeerMac)
                               .Ipv4({.source = kPeerIp, .destination = kHostIp})
                               .Udp({.source_port = 1000, .destination_port = 7})
                               .Build();
  const FrameMatcher matcher = IsIpv4(SrcIs(kPeerIp), IsUdp(DstPortIs(9)));
  ::testing::StringMatchResultListener listener;
  EXPECT_FALSE(matcher.MatchAndExplain(frame, &listener));
  EXPECT_THAT(listener.str(), HasSubstr("10.0.0.9.1000 > 10.0.0.1.7"));
  EXPECT_THAT(listener.str(), HasSubstr("destination port is 7"));
  EXPECT_THAT(frame, Not(IsIpv6()));
  EXPECT_THAT(frame, Not(IsArp()));
  EXPECT_THAT(frame, Not(IsIpv4(IsTcp())));
}

TEST(MatchersTest, ArpPartsAreTold) {
  const ByteVector frame =
      Frame()
          .Eth(kPeerMac, MacAddress::kBroadcast())
          .Arp({.operation = 1, .sender_mac = kPeerMac, .sender_ip = kPeerIp, .target_ip = kHostIp})
          .Build();
  EXPECT_THAT(frame, IsArpRequest(EthSrcIs(kPeerMac), SenderMacIs(kPeerMac), SenderIpIs(kPeerIp),
                                  TargetMacIs(MacAddress()), TargetIpIs(kHostIp)));
  EXPECT_THAT(frame, Not(IsArpReply()));
  EXPECT_THAT(frame, Not(IsArp(TargetIpIs(kPeerIp))));
}

TEST(MatchersTest, NeighborDiscoveryPartsAreTold) {
  const Ipv6Address group = kHostIp6.SolicitedNode();
  const ByteVector ns = Frame()
                            .Eth(kPeerMac, MulticastMac(group))
                            .Ipv6({.source = kPeerIp6, .destination = group, .hop_limit = 255})
                            .NeighborSolicitation({.target = kHostIp6, .link_address = kPeerMac})
                            .Build();
  EXPECT_THAT(ns, IsNs(TargetIs(kHostIp6), SourceLinkAddressIs(kPeerMac), TtlIs(255)));
  EXPECT_THAT(ns, Not(IsNs(NoLinkAddress())));
  EXPECT_THAT(ns, IsSound());
  const ByteVector na =
      Frame()
          .Eth(kPeerMac, kPeerMac)
          .Ipv6({.source = kPeerIp6, .destination = kHostIp6, .hop_limit = 255})
          .NeighborAdvertisement({.target = kPeerIp6, .solicited = true, .override_flag = true})
          .Build();
  EXPECT_THAT(na, IsNa(TargetIs(kPeerIp6), NaFlagsAre("SO"), NoLinkAddress()));
  EXPECT_THAT(na, Not(IsNa(NaFlagsAre("O"))));
}

TEST(MatchersTest, QuotedPacketIsMatchedByParts) {
  const ByteVector quoted = Frame()
                                .Ipv4({.source = kHostIp, .destination = kPeerIp, .id = 77})
                                .Udp({.source_port = 5, .destination_port = 6})
                                .Build();
  const ByteVector frame = Frame()
                               .Eth(kPeerMac, kPeerMac)
                               .Ipv4({.source = kPeerIp, .destination = kHostIp})
                               .Icmpv4({.type = 3, .code = 3})
                               .Payload(quoted)
                               .Build();
  EXPECT_THAT(frame, IsIpv4(IsIcmpv4(TypeIs(3), CodeIs(3),
                                     Quotes(SrcIs(kHostIp), IpIdIs(77), IsUdp(DstPortIs(6))))));
  EXPECT_THAT(frame, Not(IsIpv4(IsIcmpv4(Quotes(SrcIs(kPeerIp))))));
}

TEST(MatchersTest, GroupRecordsAreFound) {
  const Ipv4Address group(239, 1, 2, 3);
  const ByteVector frame = Frame()
                               .Eth(kPeerMac, MulticastMac(Ipv4Address::kIgmpv3Routers))
                               .Ipv4({.source = kPeerIp,
                                      .destination = Ipv4Address::kIgmpv3Routers,
                                      .ttl = 1,
                                      .tos = 0xc0,
                                      .options = Hex("94040000")})
                               .Igmp({.type = 0x22, .group = {0, 0, 0, 1}})
                               .Payload(Hex("04000000 ef010203"))
                               .Build();
  // The checksum of the message covers the records, too.
  ByteVector fixed = frame;
  const uint16_t sum = SimpleChecksum(std::span(fixed).subspan(38));
  EXPECT_EQ(sum, 0);
  EXPECT_THAT(frame, IsIgmpReport(HasRouterAlert(), HasGroupRecord(4, group)));
  EXPECT_THAT(frame, Not(IsIgmpReport(HasGroupRecord(3, group))));
  EXPECT_THAT(frame, IsSound());
}

}  // namespace
}  // namespace tapwire::testutil
