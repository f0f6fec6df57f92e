// SPDX-License-Identifier: Apache-2.0
// IPv4 output: headers byte for byte, identifications, fragments, and what is refused.
#include <algorithm>
#include <map>
#include <set>

#include "netdev/csum_offload.h"
#include "stack/ipv4/ipv4_id.h"
#include "stack/wire_length.h"
#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using netdev::TxResult;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Ipv4OutputTest : public IpTestBase {
 protected:
  Ipv4OutputTest() = default;
  explicit Ipv4OutputTest(NetHarness::Options options) : IpTestBase(std::move(options)) {}

  // The header fields of RFC 791 §3.1, read by hand.
  static uint16_t IdOf(const ByteVector& frame) {
    return static_cast<uint16_t>(frame[18] << 8 | frame[19]);
  }
  std::vector<uint16_t> SendAndTakeIds(int count, const IpAddress& to, IpSendOptions options = {}) {
    const Route route = RouteTo(to);
    std::vector<uint16_t> ids;
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(Send(Pattern(8), route, options), TxResult::kQueued);
      for (const ByteVector& frame : net_.TakeSent()) ids.push_back(IdOf(frame));
    }
    return ids;
  }
};

// RFC 791 §3.1, counted out by hand: 45 tos len id flags ttl proto sum source destination.
TEST_F(Ipv4OutputTest, HeaderOfAnAtomicDatagram) {  // Covers: rfc:IP-19, rfc:IP-20, rfc:IP-21
  EXPECT_EQ(Send(Hex("0102030405"), RouteTo(kPeer4), {.tos = 0xb8, .dont_fragment = true}),
            TxResult::kQueued);
  EXPECT_THAT(net_.TakeSent(),
              ElementsAre(IsFrame(Hex("020000000099 020000000001 0800"
                                      "45b8 0019 0000 4000 40fd 252e 0a000002 0a000001"
                                      "0102030405"))));
}

TEST_F(Ipv4OutputTest, TtlIsTheOptionOrTheDefaultAndNeverZero) {  // Covers: rfc:IP-20
  const Route route = RouteTo(kPeer4);
  Send({}, route, {.ttl = 3});
  Send({}, route);
  stack_->config().default_ttl = 128;
  Send({}, route);
  stack_->config().default_ttl = 0;
  Send({}, route);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv4(TtlIs(3)), IsIpv4(TtlIs(64)), IsIpv4(TtlIs(128)),
                                           IsIpv4(TtlIs(1))));
}

TEST_F(Ipv4OutputTest, RouterAlertIsAnOptionOfFourBytes) {  // RFC 2113 §2.1
  Send(Pattern(4), RouteTo(kPeer4), {.dont_fragment = true, .router_alert = true});
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0][14], 0x46);
  EXPECT_EQ(ByteVector(sent[0].begin() + 34, sent[0].begin() + 38), Hex("94040000"));
  EXPECT_THAT(sent[0], IsIpv4(HasRouterAlert(), IpLengthIs(28)));
}

// Covers: rfc:LNK-5, rfc:IP-26
TEST_F(Ipv4OutputTest, GroupsAndBroadcastsHaveTheirMacAddresses) {
  Send(Pattern(4), RouteTo(Ipv4Address(239, 129, 2, 3), interface_->index()));
  Send(Pattern(4), RouteTo(Ipv4Address(10, 0, 0, 255)));
  Send(Pattern(4), RouteTo(Ipv4Address(255, 255, 255, 255), interface_->index()));
  Send(Pattern(4), RouteTo(kFar4));
  EXPECT_THAT(net_.TakeSent(),
              ElementsAre(IsIpv4(EthDstIs({0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}), SrcIs(kHost4)),
                          IsIpv4(EthDstIs(kBroadcastMac), SrcIs(kHost4)),
                          IsIpv4(EthDstIs(kBroadcastMac), SrcIs(kHost4)),
                          IsIpv4(EthDstIs(kPeerMac), SrcIs(kHost4), DstIs(kFar4))));
}

TEST_F(Ipv4OutputTest, UnknownNeighbourIsAskedForFirst) {
  EXPECT_EQ(Send(Pattern(4), RouteTo(Ipv4Address(10, 0, 0, 9))), TxResult::kQueued);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsArpRequest(TargetIpIs({10, 0, 0, 9}))));
  net_.Advance(std::chrono::seconds(10));
}

TEST_F(Ipv4OutputTest, DatagramToOurselvesComesInByLoopback) {
  for (const Ipv4Address to : {kHost4, Ipv4Address(127, 0, 0, 1), Ipv4Address(127, 0, 0, 2)}) {
    EXPECT_EQ(Send(Pattern(4), RouteTo(to)), TxResult::kSent);
    ASSERT_EQ(transport_.received.size(), 1u) << to.ToString();
    EXPECT_EQ(transport_.received[0].info.destination, IpAddress(to));
    EXPECT_EQ(transport_.received[0].info.interface, stack_->loopback());
    transport_.received.clear();
  }
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv4OutputTest, LoopbackAddressesStayInside) {  // Covers: rfc:IP-07, bug:B75
  Route route = RouteTo(kPeer4);
  route.destination = Ipv4Address(127, 0, 0, 2);
  EXPECT_EQ(Send(Pattern(4), route), TxResult::kNoRoute);
  route = RouteTo(kPeer4);
  route.source = Ipv4Address(127, 0, 0, 1);
  EXPECT_EQ(Send(Pattern(4), route), TxResult::kNoRoute);
  route = Route();
  EXPECT_EQ(Send(Pattern(4), route), TxResult::kNoRoute);
  EXPECT_EQ(Drops(DropReason::kTxNoRoute), 3u);
  EXPECT_EQ(stack_->mib().ip.out_no_routes.value(), 3u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv4OutputTest, DeviceThatIsDownIsReported) {
  const Route route = RouteTo(kPeer4);
  net_.device().Down();
  EXPECT_EQ(Send(Pattern(4), route), TxResult::kDeviceDown);
  EXPECT_EQ(stack_->mib().ip.out_discards.value(), 1u);
}

// ---- Identifications ----

TEST_F(Ipv4OutputTest, AtomicDatagramsHaveNoIdentification) {  // Covers: rfc:IP-19, bug:B72
  EXPECT_THAT(SendAndTakeIds(5, kPeer4, {.dont_fragment = true}), Each(0));
}

TEST_F(Ipv4OutputTest, IdentificationsOfAFlowDoNotRepeat) {  // Covers: rfc:IP-19, bug:B72
  Ipv4IdSource ids(net_.random());
  std::vector<bool> seen(65536);
  for (int i = 0; i < 65536; ++i) {
    const uint16_t id = ids.Take(kHost4, kPeer4, 17);
    ASSERT_FALSE(seen[id]) << i;
    seen[id] = true;
    ids.Take(kHost4, kRouter4, 17);  // others do not disturb it
    if (i % 7 == 0) ids.Take(kHost4, kPeer4, 1);
  }
}

// What one destination sees tells it nothing about what others get.
TEST_F(Ipv4OutputTest, DestinationsHaveIndependentCounters) {  // Covers: bug:B72
  const auto before = SendAndTakeIds(1, kPeer4);
  SendAndTakeIds(20, kRouter4);
  const auto after = SendAndTakeIds(1, kPeer4);
  EXPECT_EQ(static_cast<uint16_t>(after[0] - before[0]), 1u);
  // Starts are spread over all of the 16 bits: 64 flows, 16 classes of 4096 values.
  Ipv4IdSource ids(net_.random());
  std::set<int> classes;
  for (uint32_t i = 0; i < 64; ++i) {
    classes.insert(ids.Take(kHost4, Ipv4Address::FromHostOrder(0xc0000200 + i), 17) >> 12);
  }
  EXPECT_GE(classes.size(), 12u);
}

TEST_F(Ipv4OutputTest, IdentificationTableIsBoundedAndKeepsBusyFlows) {  // Covers: bug:B72
  Ipv4IdSource ids(net_.random());
  uint16_t expected = ids.Take(kHost4, kPeer4, 17);
  for (uint32_t i = 0; i < 100000; ++i) {
    ids.Take(kHost4, Ipv4Address::FromHostOrder(0xc0000000 + i), 17);
    if (i % 8 != 0) continue;
    ++expected;
    ASSERT_EQ(ids.Take(kHost4, kPeer4, 17), expected) << i;
  }
}

TEST_F(Ipv4OutputTest, SuperPacketTakesAnIdentificationPerSegment) {  // Covers: rfc:IP-19
  const Route route = RouteTo(kPeer4);
  PacketPtr packet = MakePacket(Frame()
                                    .Udp({.source_port = 1, .destination_port = 2, .checksum = 0})
                                    .Payload(Pattern(3000))
                                    .Build());
  packet->meta.gso = {.type = GsoType::kUdpL4, .size = 1000};
  netdev::SetPartialChecksum(*packet, {kHost4, kPeer4, 17}, 6);
  EXPECT_TRUE(netdev::TxOk(stack_->SendIp(std::move(packet), route, {.protocol = 17})));
  EXPECT_TRUE(netdev::TxOk(
      Send(Frame().Udp({.source_port = 1, .destination_port = 2, .checksum = 0}).Build(), route,
           {.protocol = 17})));
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 4u);
  std::set<uint16_t> ids;
  for (const ByteVector& frame : sent) ids.insert(IdOf(frame));
  EXPECT_EQ(ids.size(), 4u);
}

// ---- Fragments ----

// Puts fragments together in the most naive way.
ByteVector NaiveJoin(const std::vector<ByteVector>& frames, size_t header) {
  ByteVector whole;
  for (const ByteVector& frame : frames) {
    const size_t offset = static_cast<size_t>((frame[20] << 8 | frame[21]) & 0x1fff) * 8;
    const ByteVector data(frame.begin() + 14 + static_cast<std::ptrdiff_t>(header), frame.end());
    if (whole.size() < offset + data.size()) whole.resize(offset + data.size());
    std::ranges::copy(data, whole.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  return whole;
}

TEST_F(Ipv4OutputTest, LongDatagramIsCutAtTheMtu) {  // RFC 791 §3.2
  const ByteVector data = Pattern(3000);
  EXPECT_EQ(Send(data, RouteTo(kPeer4)), TxResult::kQueued);
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 3u);
  const uint16_t id = IdOf(sent[0]);
  EXPECT_THAT(sent, ElementsAre(IsIpv4(IpLengthIs(1500), IpIdIs(id), IsFragment(0, true),
                                       DontFragmentIs(false), ProtocolIs(kTestProtocol)),
                                IsIpv4(IpLengthIs(1500), IpIdIs(id), IsFragment(1480, true)),
                                IsIpv4(IpLengthIs(60), IpIdIs(id), IsFragment(2960, false))));
  EXPECT_EQ(NaiveJoin(sent, 20), data);
  EXPECT_EQ(stack_->mib().ip.frag_oks.value(), 1u);
  EXPECT_EQ(stack_->mib().ip.frag_creates.value(), 3u);
  EXPECT_EQ(stack_->mib().ip.out_requests.value(), 1u);
  EXPECT_EQ(stack_->mib().ip.out_octets.value(), 1500u + 1500 + 60);
}

TEST_F(Ipv4OutputTest, WhatFitsIsNotCut) {
  Send(Pattern(1480), RouteTo(kPeer4));
  Send(Pattern(1481), RouteTo(kPeer4));
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_THAT(sent[0], IsIpv4(IpLengthIs(1500), IsNoFragment()));
  EXPECT_THAT(sent[2], IsIpv4(IpLengthIs(21), IsFragment(1480, false)));
}

TEST_F(Ipv4OutputTest, EveryFragmentCarriesTheCopiedOption) {  // RFC 791 §3.1: copied flag
  Send(Pattern(2000), RouteTo(kPeer4), {.router_alert = true});
  const auto sent = net_.TakeSent();
  EXPECT_THAT(sent, ElementsAre(IsIpv4(HasRouterAlert(), IpLengthIs(1496), IsFragment(0, true)),
                                IsIpv4(HasRouterAlert(), IsFragment(1472, false))));
  EXPECT_EQ(NaiveJoin(sent, 24), Pattern(2000));
}

TEST_F(Ipv4OutputTest, LargestDatagramAndOneByteMore) {  // Covers: rfc:IP-09
  const ByteVector data = Pattern(65515);
  EXPECT_EQ(Send(data, RouteTo(kPeer4)), TxResult::kQueued);
  EXPECT_EQ(NaiveJoin(net_.TakeSent(), 20), data);
  EXPECT_EQ(Send(Pattern(65516), RouteTo(kPeer4)), TxResult::kTooBig);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv4OutputTest, PartialChecksumIsFinishedBeforeTheCut) {
  ByteVector udp = Frame()
                       .Udp({.source_port = 5, .destination_port = 6, .checksum = 0})
                       .Payload(Pattern(2993))
                       .Build();
  PacketPtr packet = MakePacket(udp);
  netdev::SetPartialChecksum(*packet, {kHost4, kPeer4, 17}, 6);
  EXPECT_TRUE(netdev::TxOk(stack_->SendIp(std::move(packet), RouteTo(kPeer4), {.protocol = 17})));
  net_.Run();
  const auto sent = net_.TakeSentFrames();
  ASSERT_EQ(sent.size(), 3u);
  std::vector<ByteVector> frames;
  for (const SentFrame& frame : sent) {
    EXPECT_EQ(frame.csum_state, CsumState::kNone);
    frames.push_back(frame.bytes);
  }
  EXPECT_EQ(SimpleTransportChecksum(kHost4, kPeer4, 17, NaiveJoin(frames, 20)), 0);
}

TEST_F(Ipv4OutputTest, PayloadSlabsAreSharedByTheFragments) {
  PacketPtr packet = stack_->pool().AllocatePacket(0);
  SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kLarge);
  std::ranges::fill(slab.bytes(), uint8_t{0x5a});
  ASSERT_TRUE(packet->AddFrag(slab, 0, 10000));
  ASSERT_TRUE(netdev::TxOk(
      stack_->SendIp(std::move(packet), RouteTo(kPeer4), {.protocol = kTestProtocol})));
  EXPECT_EQ(slab->refs, 1u + 7);  // ours, and seven fragments in the device's queue
  net_.Run();
  EXPECT_EQ(net_.TakeSent().size(), 7u);
}

TEST_F(Ipv4OutputTest, DontFragmentIsAnErrorToTheCaller) {
  EXPECT_EQ(Send(Pattern(1481), RouteTo(kPeer4), {.dont_fragment = true}), TxResult::kTooBig);
  EXPECT_EQ(Drops(DropReason::kIpv4FragmentationNeeded), 1u);
  EXPECT_EQ(stack_->mib().ip.frag_fails.value(), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv4OutputTest, PathMtuIsObeyed) {
  Route route = RouteTo(kFar4);
  route.mtu = 576;
  Send(Pattern(1000), route);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv4(IpLengthIs(572), IsFragment(0, true)),
                                           IsIpv4(IsFragment(552, false))));
  EXPECT_EQ(Send(Pattern(1000), route, {.dont_fragment = true}), TxResult::kTooBig);
  route.mtu = 27;  // no room for eight bytes
  EXPECT_EQ(Send(Pattern(1000), route), TxResult::kTooBig);
  route.mtu = 0;  // made by hand: the device's
  Send(Pattern(1400), route);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv4(IsNoFragment())));
}

TEST_F(Ipv4OutputTest, NoMemoryForOneFragmentSendsNone) {
  PacketPtr packet = MakePacket(Pattern(60000));
  const Route route = RouteTo(kPeer4);
  std::vector<SlabRef> hoard;
  while (SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kLarge))
    hoard.push_back(std::move(slab));
  while (SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kSmall))
    hoard.push_back(std::move(slab));
  hoard.resize(hoard.size() - 10);  // ten of 41
  EXPECT_EQ(stack_->SendIp(std::move(packet), route, {.protocol = kTestProtocol}),
            TxResult::kNoBuffer);
  EXPECT_EQ(Drops(DropReason::kTxNoBuffer), 1u);
  EXPECT_EQ(stack_->mib().ip.out_discards.value(), 1u);
  hoard.clear();
  net_.Run();
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv4OutputTest, TooLittleHeadroomIsMade) {
  PacketPtr packet = stack_->pool().AllocatePacket(100, 0);
  std::ranges::copy(Pattern(100), packet->Put(100).begin());
  EXPECT_TRUE(netdev::TxOk(
      stack_->SendIp(std::move(packet), RouteTo(kPeer4), {.protocol = kTestProtocol})));
  net_.Run();
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(ByteVector(sent[0].begin() + 34, sent[0].end()), Pattern(100));
}

// ---- Super-packets ----

class Ipv4OutputGsoTest : public Ipv4OutputTest {
 protected:
  static NetHarness::Options WithTso() {
    NetHarness::Options options;
    options.device.features = {netdev::Feature::kSg, netdev::Feature::kHwCsum,
                               netdev::Feature::kTso};
    return options;
  }
  Ipv4OutputGsoTest() : Ipv4OutputTest(WithTso()) {}

  PacketPtr TcpSuperPacket(size_t payload, uint16_t size) {
    PacketPtr packet = MakePacket(Frame()
                                      .Tcp({.source_port = 1, .destination_port = 2, .checksum = 0})
                                      .Payload(Pattern(payload))
                                      .Build());
    packet->meta.gso = {.type = GsoType::kTcpv4, .size = size};
    netdev::SetPartialChecksum(*packet, {kHost4, kPeer4, 6}, 16);
    return packet;
  }
};

TEST_F(Ipv4OutputGsoTest, SuperPacketIsJudgedByItsSegments) {
  const Route route = RouteTo(kPeer4);
  EXPECT_TRUE(netdev::TxOk(
      stack_->SendIp(TcpSuperPacket(30000, 1460), route, {.protocol = 6, .dont_fragment = true})));
  net_.Run();
  auto sent = net_.TakeSentFrames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].bytes.size(), 14u + 20 + 20 + 30000);
  EXPECT_EQ(sent[0].gso.size, 1460);
  // A segment of one byte more than the path takes: the caller must choose smaller ones.
  EXPECT_EQ(
      stack_->SendIp(TcpSuperPacket(30000, 1461), route, {.protocol = 6, .dont_fragment = true}),
      TxResult::kTooBig);
  EXPECT_EQ(stack_->SendIp(TcpSuperPacket(30000, 1461), route, {.protocol = 6}), TxResult::kTooBig);
  // The whole must fit the length field.
  EXPECT_EQ(stack_->SendIp(TcpSuperPacket(65496, 1460), route, {.protocol = 6}), TxResult::kTooBig);
  EXPECT_TRUE(netdev::TxOk(stack_->SendIp(TcpSuperPacket(65495, 1460), route, {.protocol = 6})));
  net_.Run();
}

TEST_F(Ipv4OutputGsoTest, WireLengthIsThatOfTheLargestSegment) {
  EXPECT_EQ(WireLength(*TcpSuperPacket(5000, 1000), 6, 20), 20u + 20 + 1000);
  EXPECT_EQ(WireLength(*TcpSuperPacket(500, 1000), 6, 20), 20u + 20 + 500);
  PacketPtr plain = MakePacket(Pattern(5000));
  EXPECT_EQ(WireLength(*plain, 17, 40), 5040u);
  plain->meta.gso = {.type = GsoType::kUdpL4, .size = 1000};
  EXPECT_EQ(WireLength(*plain, 17, 40), 40u + 8 + 1000);
}

}  // namespace
}  // namespace tapwire
