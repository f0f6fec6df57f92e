// SPDX-License-Identifier: Apache-2.0
// What IPv6 does on the way and IPv4 does not: packet too big, scopes, extension headers, and what
// makes a router of the neighbour.
#include "tests/stack/router_fixture.h"

namespace tapwire {
namespace {

using netdev::Feature;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Ipv6ForwardTest : public RouterTest {
 protected:
  static Frame Transit(testutil::Ipv6Args args = {}) {
    if (args.source.IsUnspecified()) args.source = kLeftHost6;
    if (args.destination.IsUnspecified()) args.destination = kRightHost6;
    return FromLeft().Ipv6(args);
  }
  static ByteVector UdpFrame(size_t size, testutil::Ipv6Args args = {}) {
    return Transit(args)
        .Udp({.source_port = 1, .destination_port = 2})
        .Payload(Pattern(size))
        .Build();
  }
  FrameView TheError() {
    error_ = TakeLeft();
    EXPECT_EQ(error_.size(), 1u);
    return error_.empty() ? FrameView() : Dissect(error_[0]);
  }

 private:
  std::vector<ByteVector> error_;
};

// RFC 4443 §3.2, RFC 8201 §4.
TEST_F(Ipv6ForwardTest, PacketThatDoesNotFitIsReportedWithTheMtu) {  // Covers: bug:B69
  Make({.right_mtu = 1400});
  const ByteVector frame = UdpFrame(1400 - 48 + 1);
  ExpectRefused(frame, DropReason::kIpv6TooBig);
  const FrameView error = TheError();
  EXPECT_EQ(error.source, IpAddress(kLeft6));
  EXPECT_EQ(error.type, 2);
  EXPECT_EQ(error.code, 0);
  EXPECT_EQ(error.rest, 1400u);
  // As received, as much as fits the minimum MTU (RFC 4443 §2.4 (c)).
  EXPECT_EQ(ByteVector(error.payload.begin(), error.payload.end()),
            ByteVector(frame.begin() + 14, frame.begin() + 14 + 1280 - 48));
  EXPECT_EQ(stack->mib().ip6.in_too_big_errors.value(), 1u);
  EXPECT_EQ(stack->mib().ip6.frag_fails.value(), 1u);
  EXPECT_EQ(stack->mib().icmp6.out_pkt_too_bigs.value(), 1u);
  Inject(UdpFrame(1400 - 48));
  EXPECT_EQ(TakeRight().size(), 1u);
}

// Covers: netdev:W-02
TEST_F(Ipv6ForwardTest, SuperPacketThatDoesNotFitIsReportedWithTheMtu) {
  Make({.right_mtu = 1400, .right_features = {Feature::kSg, Feature::kHwCsum, Feature::kTso6}});
  Inject(TcpFrame(false, Pattern(4344), true), Merged(false, 1428));
  EXPECT_THAT(TakeRight(), IsEmpty());
  EXPECT_EQ(TheError().rest, 1400u);
}

// RFC 8200 §4.5: only the destination joins them.
TEST_F(Ipv6ForwardTest, FragmentsPassAndAreNotJoined) {
  Make();
  const std::vector<ByteVector> fragments = Transit()
                                                .Udp({.source_port = 1, .destination_port = 2})
                                                .Payload(Pattern(3000))
                                                .BuildFragments(1000, 5);
  for (const ByteVector& fragment : fragments) {
    Inject(fragment);
    const std::vector<ByteVector> sent = TakeRight();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(ByteVector(sent[0].begin() + 22, sent[0].end()),
              ByteVector(fragment.begin() + 22, fragment.end()));
  }
  EXPECT_EQ(stack->mib().ip6.reasm_reqds.value(), 0u);
}

// RFC 8200 §5: a link below 1280 carries no IPv6.
TEST_F(Ipv6ForwardTest, LinkThatIsTooNarrowIsNoRoute) {
  Make({.right_mtu = 1280});
  ASSERT_TRUE(right_device->SetMtu(1279).ok());
  ExpectRefused(UdpFrame(16), DropReason::kTxNoRoute);
  EXPECT_EQ(TheError().type, 1);
}

// RFC 4443 §3.1, RFC 4007 §9.
TEST_F(Ipv6ForwardTest, LinkLocalSourceDoesNotLeaveItsLink) {
  Make();
  const Ipv6Address source = *Ipv6Address::Parse("fe80::9");
  Know(*left, source, kLeftHostMac);
  Know(*left, *Ipv6Address::Parse("fd01::77"), kLeftHostMac);
  ASSERT_TRUE(left->AddAddress({*Ipv6Address::Parse("fe80::1"), 64}, true).ok());
  net->Advance(std::chrono::seconds(20));
  TakeLeft();
  ExpectRefused(UdpFrame(16, {.source = source}), DropReason::kIpv6BeyondScope);
  const FrameView error = TheError();
  EXPECT_EQ(error.destination, IpAddress(source));
  EXPECT_EQ(error.type, 1);
  EXPECT_EQ(error.code, 2);
  EXPECT_EQ(stack->mib().icmp6.out_dest_unreachs.value(), 1u);
  // On the link it is as good as any.
  Inject(UdpFrame(16, {.source = source, .destination = *Ipv6Address::Parse("fd01::77")}));
  EXPECT_EQ(TakeLeft().size(), 1u);
}

TEST_F(Ipv6ForwardTest, LinkLocalDestinationIsNotForwarded) {  // RFC 4291 §2.5.6
  Make();
  ExpectRefusedInSilence(UdpFrame(16, {.destination = *Ipv6Address::Parse("fe80::77")}),
                         DropReason::kIpv6NotOurs);
}

// RFC 8200 §4: hop-by-hop options are for everybody on the way, all else for the destination.
TEST_F(Ipv6ForwardTest, HopByHopOptionsAreObeyed) {
  Make();
  const auto with = [](const char* options) {
    return Transit()
        .HopByHop({.options = testutil::Hex(options)})
        .Udp({.source_port = 1, .destination_port = 2})
        .Payload("x")
        .Build();
  };
  Inject(with("1e 02 0000"));  // to be skipped
  EXPECT_EQ(TakeRight().size(), 1u);
  Inject(
      Transit().RouterAlert6().Udp({.source_port = 1, .destination_port = 2}).Payload("x").Build());
  EXPECT_EQ(TakeRight().size(), 1u);
  ExpectRefusedInSilence(with("5e 02 0000"), DropReason::kIpv6OptionDiscard);
  ExpectRefused(with("9e 02 0000"), DropReason::kIpv6OptionProblem);
  const FrameView error = TheError();
  EXPECT_EQ(error.type, 4);
  EXPECT_EQ(error.code, 2);
  EXPECT_EQ(error.rest, 42u);
  ExpectRefused(with("05 7f 0000"), DropReason::kIpv6BadExtensionHeader);
  EXPECT_EQ(TheError().type, 4);
}

TEST_F(Ipv6ForwardTest, OtherExtensionHeadersAreNotLookedAt) {
  Make();
  Inject(Transit()
             .DestinationOptions({.options = testutil::Hex("9e 02 0000")})
             .Udp({.source_port = 1, .destination_port = 2})
             .Payload("x")
             .Build());
  EXPECT_EQ(TakeRight().size(), 1u);
  Inject(Transit().Routing({.type = 3, .segments_left = 2}).Payload("x").Build());
  EXPECT_EQ(TakeRight().size(), 1u);
  Inject(Transit({.next_header = 59}).Build());
  EXPECT_EQ(TakeRight().size(), 1u);
}

TEST_F(Ipv6ForwardTest, DamagedHeadersDoNotPass) {
  Make();
  ExpectRefusedInSilence(UdpFrame(16, {.version = 4}), DropReason::kIpv6BadVersion);
  ExpectRefusedInSilence(UdpFrame(16, {.payload_length = 25}), DropReason::kIpv6BadPayloadLength);
  ByteVector frame = UdpFrame(16);
  frame.resize(14 + 39);
  ExpectRefusedInSilence(frame, DropReason::kIpv6Truncated);
}

// RFC 4861 §4.4, RFC 4291 §2.8.
TEST_F(Ipv6ForwardTest, NeighboursAreToldThatThisIsARouter) {
  Make();
  const auto solicit = [&] {
    net->Inject(Frame()
                    .Eth(kLeftHostMac, kLeftMac)
                    .Ipv6({.source = kLeftHost6, .destination = kLeft6, .hop_limit = 255})
                    .NeighborSolicitation({.target = kLeft6, .link_address = kLeftHostMac})
                    .Build());
    return TakeLeft();
  };
  EXPECT_THAT(solicit(), ElementsAre(testutil::IsNa(testutil::NaFlagsAre("RSO"))));
  EXPECT_TRUE(left->InGroup(Ipv6Address::AllRouters()));
  stack->SetForwarding(false);
  net->Advance(std::chrono::seconds(20));
  TakeLeft();
  EXPECT_THAT(solicit(), ElementsAre(testutil::IsNa(testutil::NaFlagsAre("SO"))));
  EXPECT_FALSE(left->InGroup(Ipv6Address::AllRouters()));
}

// Whatever its bytes are: nothing crashes, and what leaves fits.
TEST_F(Ipv6ForwardTest, RandomDamageIsSurvived) {
  Make({.right_mtu = 1280, .ignored_rules = MistakesOfOthers()});
  net->AllowArmedTimers();
  SeededRandom random(5);
  const ByteVector good = Transit()
                              .HopByHop({.options = testutil::Hex("1e 02 0000")})
                              .Udp({.source_port = 1, .destination_port = 2})
                              .Payload(Pattern(100))
                              .Build();
  for (int i = 0; i < 3000; ++i) {
    ByteVector frame = good;
    for (int n = 0; n < 3; ++n) {
      // Not the prefixes, so that most are still to be forwarded.
      static constexpr size_t kPlaces[] = {14, 15, 18, 19, 20, 21, 54, 55, 56, 57, 58, 59};
      frame[kPlaces[random.Next32() % std::size(kPlaces)]] = static_cast<uint8_t>(random.Next32());
    }
    frame[14] = static_cast<uint8_t>(0x60 | (frame[14] & 0x0f));
    Inject(frame);
    for (const ByteVector& sent : TakeRight()) EXPECT_LE(sent.size(), 14u + 1280);
    TakeLeft();
  }
}

}  // namespace
}  // namespace tapwire
