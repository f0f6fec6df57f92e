// SPDX-License-Identifier: Apache-2.0
#include "stack/eth/eth_output.h"

#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using ::testing::ElementsAre;
using testutil::ByteVector;
using testutil::EthDstIs;
using testutil::EtherTypeIs;
using testutil::Hex;
using testutil::IsEth;
using testutil::IsIpv4;
using testutil::IsIpv6;
using testutil::kPeerMac;

class EthOutputTest : public testutil::HostTest {
 protected:
  void SetUp() override { Make(); }
};

TEST_F(EthOutputTest, PutsTheHeaderInFront) {
  testutil::NetHarness::Options options;
  options.ignored_rules = {capture::Rule::kNotJudged};
  Make(Quiet(), true, options);
  PacketPtr packet = PacketFromBytes(stack->pool(), Hex("c0ffee"));
  EXPECT_TRUE(netdev::TxOk(EthOutput(std::move(packet), device(), kPeerMac, 0x88b5)));
  net->Run();
  const auto sent = net->TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(ByteVector(sent[0].begin(), sent[0].begin() + 17),
            Hex("020000000002 020000000001 88b5 c0ffee"));
}

TEST_F(EthOutputTest, MakesRoomWhenThereIsNone) {
  testutil::NetHarness::Options options;
  options.ignored_rules = {capture::Rule::kNotJudged};
  Make(Quiet(), true, options);
  PacketPtr packet = stack->pool().AllocatePacket(16, /*headroom=*/0);
  ASSERT_TRUE(packet->AppendBytes(Hex("0102030405060708")));
  EXPECT_TRUE(netdev::TxOk(EthOutput(std::move(packet), device(), kPeerMac, 0x88b5)));
  net->Run();
  EXPECT_THAT(net->TakeSent(), ElementsAre(IsEth(EthDstIs(kPeerMac), EtherTypeIs(0x88b5))));
}

TEST_F(EthOutputTest, DeviceThatIsDownSaysSo) {
  device().Down();
  PacketPtr packet = PacketFromBytes(stack->pool(), Hex("c0ffee"));
  EXPECT_EQ(EthOutput(std::move(packet), device(), kPeerMac, 0x88b5),
            netdev::TxResult::kDeviceDown);
  EXPECT_EQ(device().drops().value(DropReason::kTxDeviceDown), 1u);
}

// Covers: rfc:LNK-5 RFC 1122 §3.3.6, RFC 1112 §6.4, RFC 2464 §7: group and broadcast addresses, and
// only they, go to the MAC that follows from them.
TEST_F(EthOutputTest, GroupAndBroadcastMacsFollowFromTheDestination) {
  const uint32_t ifindex = interface->index();
  const auto send = [&](const IpAddress& destination) {
    const auto route = stack->FindRoute({.destination = destination, .ifindex = ifindex});
    ASSERT_TRUE(route.ok()) << route.status();
    EXPECT_TRUE(netdev::TxOk(
        stack->SendIp(PacketFromBytes(stack->pool(), Hex("00010203")), *route, {.protocol = 253})));
  };
  send(Ipv4Address(239, 129, 2, 3));
  send(*Ipv6Address::Parse("ff05::1:2:3"));
  send(Ipv4Address::kLimitedBroadcast);
  send(Ipv4Address(192, 0, 255, 255));
  net->Run();
  EXPECT_THAT(TakeFrames(),
              ElementsAre(IsIpv4(EthDstIs({0x01, 0, 0x5e, 0x01, 2, 3})),  // 23 bits of the group
                          IsIpv6(EthDstIs({0x33, 0x33, 0, 2, 0, 3})),
                          IsIpv4(EthDstIs(MacAddress::kBroadcast())),
                          IsIpv4(EthDstIs(MacAddress::kBroadcast()))));
}

}  // namespace
}  // namespace tapwire
