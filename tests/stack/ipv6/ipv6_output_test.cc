// SPDX-License-Identifier: Apache-2.0
// IPv6 output: headers byte for byte, fragments at the source, flow labels, and what is refused.
#include <algorithm>
#include <set>

#include "netdev/csum_offload.h"
#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using netdev::TxResult;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Ipv6OutputTest : public IpTestBase {
 protected:
  ByteVector TakeOnly() {
    auto sent = net_.TakeSent();
    EXPECT_EQ(sent.size(), 1u);
    return sent.empty() ? ByteVector(64) : std::move(sent[0]);
  }
  uint32_t LabelOfDatagram(uint16_t port) {
    PacketPtr packet =
        MakePacket(Frame()
                       .Udp({.source_port = port, .destination_port = 53, .checksum = 0})
                       .Payload("x")
                       .Build());
    netdev::SetPartialChecksum(*packet, {kHost6, kPeer6, 17}, 6);
    EXPECT_TRUE(netdev::TxOk(stack_->SendIp(std::move(packet), RouteTo(kPeer6), {.protocol = 17})));
    net_.Run();
    return LabelOf(TakeOnly());
  }
  static uint32_t LabelOf(const ByteVector& frame) {
    return static_cast<uint32_t>((frame[15] & 0x0f) << 16 | frame[16] << 8 | frame[17]);
  }
};

// RFC 8200 §3, counted out by hand.
TEST_F(Ipv6OutputTest, FixedHeader) {
  EXPECT_EQ(
      Send(Hex("0102030405"), RouteTo(kPeer6), {.ttl = 3, .tos = 0xb8, .flow_label = 0x12345}),
      TxResult::kQueued);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsFrame(Hex("020000000099 020000000001 86dd"
                                                       "6b812345 0005 fd 03"
                                                       "fd000000000000000000000000000002"
                                                       "fd000000000000000000000000000001"
                                                       "0102030405"))));
}

// RFC 2711 §2.1: hop-by-hop header with option 5, length 2, value 0; two bytes of PadN fill it.
TEST_F(Ipv6OutputTest, RouterAlertIsAHopByHopHeader) {
  Send(Pattern(4), RouteTo(kPeer6), {.router_alert = true});
  const ByteVector sent = TakeOnly();
  EXPECT_EQ(ByteVector(sent.begin() + 14 + 4, sent.begin() + 14 + 8), Hex("000c 00 40"));
  EXPECT_EQ(ByteVector(sent.begin() + 54, sent.begin() + 62), Hex("fd 00 0502 0000 0100"));
}

TEST_F(Ipv6OutputTest, HopLimitIsTheOptionOrTheDefaultAndNeverZero) {  // Covers: rfc:V6-13
  const Route route = RouteTo(kPeer6);
  Send({}, route, {.ttl = 255});
  Send({}, route);
  stack_->config().default_hop_limit = 128;
  Send({}, route);
  stack_->config().default_hop_limit = 0;
  Send({}, route);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(TtlIs(255)), IsIpv6(TtlIs(64)),
                                           IsIpv6(TtlIs(128)), IsIpv6(TtlIs(1))));
}

TEST_F(Ipv6OutputTest, GroupsHaveTheirMacAddress) {  // RFC 2464 §7
  Send(Pattern(4), RouteTo(*Ipv6Address::Parse("ff02::1:3"), interface_->index()));
  EXPECT_THAT(net_.TakeSent(),
              ElementsAre(IsIpv6(EthDstIs({0x33, 0x33, 0, 1, 0, 3}), SrcIs(kHostLinkLocal6))));
}

TEST_F(Ipv6OutputTest, PacketToOurselvesComesInByLoopback) {
  for (const Ipv6Address& to : {kHost6, Ipv6Address::kLoopback}) {
    EXPECT_EQ(Send(Pattern(4), RouteTo(to)), TxResult::kSent);
    ASSERT_EQ(transport_.received.size(), 1u) << to.ToString();
    transport_.received.clear();
  }
  EXPECT_EQ(Send(Pattern(4), RouteTo(kHostLinkLocal6, interface_->index())), TxResult::kSent);
  EXPECT_EQ(transport_.received.size(), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv6OutputTest, LoopbackAddressStaysInside) {  // Covers: bug:B75
  Route route = RouteTo(kPeer6);
  route.destination = Ipv6Address::kLoopback;
  EXPECT_EQ(Send(Pattern(4), route), TxResult::kNoRoute);
  route = RouteTo(kPeer6);
  route.source = Ipv6Address::kLoopback;
  EXPECT_EQ(Send(Pattern(4), route), TxResult::kNoRoute);
  route.interface = nullptr;
  EXPECT_EQ(Send(Pattern(4), route), TxResult::kNoRoute);
  EXPECT_EQ(Drops(DropReason::kTxNoRoute), 3u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv6OutputTest, FlowLabelIsConstantPerFlowAndKeyed) {  // Covers: rfc:V6-15
  std::set<uint32_t> labels;
  for (uint16_t port = 1; port <= 40; ++port) {
    const uint32_t label = LabelOfDatagram(port);
    EXPECT_EQ(LabelOfDatagram(port), label);
    EXPECT_NE(label, 0u);
    labels.insert(label);
  }
  EXPECT_GE(labels.size(), 39u);
  // Another stack has another key.
  std::set<uint32_t> elsewhere{LabelOfDatagram(1)};
  for (int i = 0; i < 3; ++i) {
    StackConfig config = stack_->config();
    stack_.reset();
    stack_ = std::make_unique<Stack>(net_.context(), config);
    interface_ = *stack_->AddInterface(net_.device());
    ASSERT_TRUE(interface_->AddAddress({kHost6, 64}).ok());
    Know(kPeer6);
    net_.Advance(std::chrono::seconds(20));
    net_.TakeSent();
    elsewhere.insert(LabelOfDatagram(1));
  }
  EXPECT_GE(elsewhere.size(), 3u);
}

ByteVector NaiveJoin(const std::vector<ByteVector>& frames, size_t headers) {
  ByteVector whole;
  for (const ByteVector& frame : frames) {
    const size_t field = 14 + headers - 8 + 2;
    const size_t offset = static_cast<size_t>((frame[field] << 8 | frame[field + 1]) & 0xfff8);
    const ByteVector data(frame.begin() + 14 + static_cast<std::ptrdiff_t>(headers), frame.end());
    if (whole.size() < offset + data.size()) whole.resize(offset + data.size());
    std::ranges::copy(data, whole.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  return whole;
}

TEST_F(Ipv6OutputTest, LongPacketIsCutAtTheMtu) {  // Covers: rfc:V6-12
  const ByteVector data = Pattern(3000);
  EXPECT_EQ(Send(data, RouteTo(kPeer6)), TxResult::kQueued);
  const auto sent = net_.TakeSent();
  EXPECT_THAT(sent,
              ElementsAre(IsIpv6(IpLengthIs(1496), IsFragment(0, true), ProtocolIs(kTestProtocol)),
                          IsIpv6(IpLengthIs(1496), IsFragment(1448, true)),
                          IsIpv6(IpLengthIs(152), IsFragment(2896, false))));
  EXPECT_EQ(NaiveJoin(sent, 48), data);
  EXPECT_EQ(stack_->mib().ip6.frag_oks.value(), 1u);
  EXPECT_EQ(stack_->mib().ip6.frag_creates.value(), 3u);
}

TEST_F(Ipv6OutputTest, WhatFitsIsNotCut) {  // Covers: rfc:V6-12
  Send(Pattern(1460), RouteTo(kPeer6));
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IpLengthIs(1500), IsNoFragment())));
  Send(Pattern(1461), RouteTo(kPeer6));
  EXPECT_THAT(net_.TakeSent(),
              ElementsAre(IsIpv6(IsFragment(0, true)), IsIpv6(IsFragment(1448, false))));
}

TEST_F(Ipv6OutputTest, EveryFragmentCarriesTheHopByHopHeader) {  // RFC 8200 §4.5
  Send(Pattern(2000), RouteTo(kPeer6), {.router_alert = true});
  const auto sent = net_.TakeSent();
  EXPECT_THAT(sent, ElementsAre(IsIpv6(HasRouterAlert(), IsFragment(0, true)),
                                IsIpv6(HasRouterAlert(), IsFragment(1440, false))));
  EXPECT_EQ(NaiveJoin(sent, 56), Pattern(2000));
}

TEST_F(Ipv6OutputTest, FragmentIdentificationsCannotBePredicted) {  // Covers: rfc:V6-17, bug:B72
  std::set<uint32_t> ids, steps;
  uint32_t last = 0;
  for (int i = 0; i < 100; ++i) {
    Send(Pattern(2000), RouteTo(kPeer6));
    const auto sent = net_.TakeSent();
    ASSERT_EQ(sent.size(), 2u);
    const ByteVector field(sent[0].begin() + 14 + 44, sent[0].begin() + 14 + 48);
    EXPECT_EQ(field, ByteVector(sent[1].begin() + 14 + 44, sent[1].begin() + 14 + 48));
    const uint32_t id =
        uint32_t{field[0]} << 24 | uint32_t{field[1]} << 16 | uint32_t{field[2]} << 8 | field[3];
    ids.insert(id);
    steps.insert(id - last);
    last = id;
  }
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(steps.size(), 100u);
}

TEST_F(Ipv6OutputTest, LargestPacketAndOneByteMore) {
  const ByteVector data = Pattern(65535);
  EXPECT_EQ(Send(data, RouteTo(kPeer6)), TxResult::kQueued);
  EXPECT_EQ(NaiveJoin(net_.TakeSent(), 48), data);
  EXPECT_EQ(Send(Pattern(65528), RouteTo(kPeer6), {.router_alert = true}), TxResult::kTooBig);
  EXPECT_EQ(Send(Pattern(65536), RouteTo(kPeer6)), TxResult::kTooBig);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv6OutputTest, PartialChecksumIsFinishedBeforeTheCut) {
  PacketPtr packet = MakePacket(Frame()
                                    .Udp({.source_port = 5, .destination_port = 6, .checksum = 0})
                                    .Payload(Pattern(2993))
                                    .Build());
  netdev::SetPartialChecksum(*packet, {kHost6, kPeer6, 17}, 6);
  EXPECT_TRUE(netdev::TxOk(stack_->SendIp(std::move(packet), RouteTo(kPeer6), {.protocol = 17})));
  net_.Run();
  std::vector<ByteVector> frames;
  for (const SentFrame& frame : net_.TakeSentFrames()) {
    EXPECT_EQ(frame.csum_state, CsumState::kNone);
    frames.push_back(frame.bytes);
  }
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(SimpleTransportChecksum(kHost6, kPeer6, 17, NaiveJoin(frames, 48)), 0);
}

TEST_F(Ipv6OutputTest, DontFragmentIsAnErrorToTheCaller) {
  EXPECT_EQ(Send(Pattern(1461), RouteTo(kPeer6), {.dont_fragment = true}), TxResult::kTooBig);
  EXPECT_EQ(Drops(DropReason::kIpv6TooBig), 1u);
  EXPECT_EQ(stack_->mib().ip6.frag_fails.value(), 1u);
}

TEST_F(Ipv6OutputTest, MinimumMtuIsTheSmallestCut) {  // RFC 8200 §5
  Route route = RouteTo(kFar6);
  route.mtu = 1280;
  Send(Pattern(1300), route);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IpLengthIs(1280), IsFragment(0, true)),
                                           IsIpv6(IsFragment(1232, false))));
  Send(Pattern(1240), route);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IpLengthIs(1280), IsNoFragment())));
  route.mtu = 1000;  // no IPv6 path: what does not fit is not cut
  EXPECT_EQ(Send(Pattern(1240), route), TxResult::kTooBig);
  EXPECT_EQ(Send(Pattern(3000), route), TxResult::kTooBig);
  route.mtu = 0;  // made by hand: the device's
  Send(Pattern(1400), route);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(IsNoFragment())));
}

TEST_F(Ipv6OutputTest, SuperPacketIsJudgedByItsSegments) {
  const auto super = [&](uint16_t size) {
    PacketPtr packet = MakePacket(Frame()
                                      .Tcp({.source_port = 1, .destination_port = 2, .checksum = 0})
                                      .Payload(Pattern(5000))
                                      .Build());
    packet->meta.gso = {.type = GsoType::kTcpv6, .size = size};
    netdev::SetPartialChecksum(*packet, {kHost6, kPeer6, 6}, 16);
    return packet;
  };
  EXPECT_TRUE(netdev::TxOk(stack_->SendIp(super(1440), RouteTo(kPeer6), {.protocol = 6})));
  net_.Run();
  EXPECT_EQ(net_.TakeSent().size(), 4u);
  EXPECT_EQ(stack_->SendIp(super(1441), RouteTo(kPeer6), {.protocol = 6}), TxResult::kTooBig);
}

TEST_F(Ipv6OutputTest, NoMemoryForOneFragmentSendsNone) {
  PacketPtr packet = MakePacket(Pattern(60000));
  const Route route = RouteTo(kPeer6);
  std::vector<SlabRef> hoard;
  while (SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kLarge))
    hoard.push_back(std::move(slab));
  while (SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kSmall))
    hoard.push_back(std::move(slab));
  hoard.resize(hoard.size() - 10);
  EXPECT_EQ(stack_->SendIp(std::move(packet), route, {.protocol = kTestProtocol}),
            TxResult::kNoBuffer);
  EXPECT_EQ(Drops(DropReason::kTxNoBuffer), 1u);
  hoard.clear();
  net_.Run();
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_F(Ipv6OutputTest, TooLittleHeadroomIsMade) {
  PacketPtr packet = stack_->pool().AllocatePacket(100, 0);
  std::ranges::copy(Pattern(100), packet->Put(100).begin());
  EXPECT_TRUE(netdev::TxOk(
      stack_->SendIp(std::move(packet), RouteTo(kPeer6), {.protocol = kTestProtocol})));
  net_.Run();
  const ByteVector sent = TakeOnly();
  EXPECT_EQ(ByteVector(sent.begin() + 54, sent.end()), Pattern(100));
}

}  // namespace
}  // namespace tapwire
