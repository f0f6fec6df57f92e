// SPDX-License-Identifier: Apache-2.0
// Forwarding, as far as both families do the same.
#include "stack/forwarding.h"

#include "tests/stack/router_fixture.h"

namespace tapwire {
namespace {

using netdev::Feature;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ForwardingTest : public RouterFamilyTest {};
INSTANTIATE_TEST_SUITE_P(Families, ForwardingTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         RouterFamilyName);

// RFC 1812 §5.2.1: a new link header, one hop less, and not a byte more.
TEST_P(ForwardingTest, PacketGoesOnWithOneHopLess) {
  Make();
  const uint64_t own = ip().out_requests.value();
  Inject(Udp({.ttl = 2}));
  ByteVector expected = Udp({.ttl = 1});  // the builder has its own checksum arithmetic
  kRightHostMac.CopyTo(expected.data());
  kRightMac.CopyTo(expected.data() + 6);
  EXPECT_THAT(TakeRight(), ElementsAre(expected));
  EXPECT_THAT(TakeLeft(), IsEmpty());
  EXPECT_EQ((v4() ? ip().forw_datagrams : ip().out_forw_datagrams).value(), 1u);
  EXPECT_EQ(ip().in_receives.value(), 1u);
  EXPECT_EQ(ip().in_delivers.value(), 0u);
  EXPECT_EQ(ip().out_requests.value(), own);
  EXPECT_EQ(stack->drops().total(), 0u);
}

// RFC 1624 §3: the corner cases of the one's complement sum. All TTLs with many identifications
// (IPv4) give every kind of carry.
TEST_P(ForwardingTest, EveryTtlIsCountedDown) {
  Make();
  for (int ttl = 2; ttl <= 255; ++ttl) {
    Inject(Udp({.ttl = static_cast<uint8_t>(ttl)}, static_cast<size_t>(ttl)));
    const std::vector<ByteVector> sent = TakeRight();
    ASSERT_EQ(sent.size(), 1u) << ttl;
    EXPECT_EQ(Dissect(sent[0]).ttl, ttl - 1);
    if (v4()) {
      EXPECT_EQ(testutil::SimpleChecksum(std::span(sent[0]).subspan(14, 20)), 0) << ttl;
    }
  }
}

TEST_P(ForwardingTest, RouteByGatewayIsTaken) {
  Make();
  Inject(Udp({.destination = v4() ? IpAddress(kBeyond4) : IpAddress(kBeyond6)}));
  const std::vector<ByteVector> sent = TakeRight();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(Dissect(sent[0]).link_destination, kRightHostMac);
}

// A neighbour that sends by way of us to another on its own link.
TEST_P(ForwardingTest, PacketMayLeaveByTheLinkItCameFrom) {
  Make();
  const IpAddress other = Address("10.1.0.77", "fd01::77");
  Know(*left, other, MacAddress{0x02, 0, 0, 0, 1, 0x77});
  Inject(Udp({.destination = other}));
  const std::vector<ByteVector> sent = TakeLeft();
  ASSERT_EQ(sent.size(), 1u);  // and no redirect
  EXPECT_EQ(Dissect(sent[0]).link_destination, (MacAddress{0x02, 0, 0, 0, 1, 0x77}));
}

TEST_P(ForwardingTest, NothingIsForwardedUnlessItIsOn) {
  Make({.forwarding = false});
  const DropReason off = v4() ? DropReason::kIpv4ForwardingOff : DropReason::kIpv6ForwardingOff;
  ExpectRefusedInSilence(Udp(), off);
  stack->SetForwarding(true);
  net->Advance(seconds(20));
  TakeLeft();
  TakeRight();
  Inject(Udp());
  EXPECT_EQ(TakeRight().size(), 1u);
  stack->SetForwarding(false);
  net->Advance(seconds(20));
  TakeLeft();
  TakeRight();
  ExpectRefusedInSilence(Udp(), off);
}

TEST_P(ForwardingTest, OurOwnAddressesAreNotForwarded) {
  Make();
  // The far side's address is ours too (weak host), and nobody listens.
  Inject(Udp({.destination = Address("10.2.0.1", "fd02::1")}));
  EXPECT_THAT(TakeRight(), IsEmpty());
  EXPECT_EQ((v4() ? icmp().out_dest_unreachs : icmp().out_parm_probs).value(), 1u);
  EXPECT_EQ(ip().in_unknown_protos.value(), 1u);
}

// RFC 1812 §5.3.1, RFC 4443 §3.3.
TEST_P(ForwardingTest, TtlOfOneIsExceeded) {
  Make();
  for (const uint8_t ttl : ByteVector{0, 1}) {
    const ByteVector frame = Udp({.ttl = ttl});
    ExpectRefused(frame, v4() ? DropReason::kIpv4TtlExceeded : DropReason::kIpv6HopLimitExceeded);
    const FrameView error = TakeError();
    EXPECT_EQ(error.type, v4() ? 11 : 3);
    EXPECT_EQ(error.code, 0);
    // As it was received.
    const ByteVector quoted(error.payload.begin(), error.payload.end());
    EXPECT_EQ(quoted, ByteVector(frame.begin() + 14, frame.end()));
  }
  EXPECT_EQ(icmp().out_time_excds.value(), 2u);
  EXPECT_EQ(ip().in_hdr_errors.value(), 2u);
}

// RFC 1812 §5.2.7.1, RFC 4443 §3.1.
TEST_P(ForwardingTest, WithoutARouteTheNetIsUnreachable) {
  Make();
  ExpectRefused(Udp({.destination = Address("203.0.113.1", "2001:db8:9::1")}),
                DropReason::kTxNoRoute);
  const FrameView error = TakeError();
  EXPECT_EQ(error.type, v4() ? 3 : 1);
  EXPECT_EQ(error.code, 0);
  EXPECT_EQ(ip().in_no_routes.value(), 1u);
  EXPECT_EQ(ip().out_no_routes.value(), 0u);  // as Linux: of our own only
  // No route is better than one that leads nowhere.
  right_device->Down();
  ExpectRefused(Udp(), DropReason::kTxNoRoute);
  EXPECT_EQ(TakeError().code, 0);
}

// RFC 1812 §5.3.3, RFC 4861 §7.2.2: at the end of the resolution, and while its failure is held.
TEST_P(ForwardingTest, SenderHearsOfANeighbourThatDoesNotAnswer) {
  Make();
  const IpAddress absent = Address("10.2.0.50", "fd02::50");
  Inject(Udp({.destination = absent}));
  EXPECT_THAT(TakeLeft(), IsEmpty());
  // Asked for in our name.
  const std::vector<ByteVector> asked = TakeRight();
  ASSERT_EQ(asked.size(), 1u);
  if (v4()) {
    EXPECT_THAT(asked[0], testutil::IsArpRequest(testutil::SenderIpIs(kRight4)));
  } else {
    EXPECT_THAT(asked[0], testutil::IsNs(testutil::SrcIs(kRight6)));
  }
  net->Advance(std::chrono::milliseconds(3500));
  FrameView error = TakeError();
  EXPECT_EQ(error.type, v4() ? 3 : 1);
  EXPECT_EQ(error.code, v4() ? 1 : 3);
  EXPECT_EQ(Drops(DropReason::kNeighborUnresolved), 1u);
  TakeRight();
  Inject(Udp({.destination = absent}));
  error = TakeError();
  EXPECT_EQ(error.code, v4() ? 1 : 3);
  EXPECT_EQ(Drops(DropReason::kNeighborUnresolved), 2u);
  net->Advance(seconds(10));
}

// What we send ourselves is reported to the transport and never by ICMP.
TEST_P(ForwardingTest, OwnPacketsCauseNoErrorOnTheWire) {
  Make();
  const auto route = stack->FindRoute({.destination = Address("10.1.0.50", "fd01::50")});
  ASSERT_TRUE(route.ok());
  PacketPtr packet = PacketFromBytes(stack->pool(), Pattern(8));
  stack->SendIp(std::move(packet), *route, {.protocol = 253});
  net->Run();
  EXPECT_EQ(TakeLeft().size(), 1u);
  net->Advance(seconds(10));
  EXPECT_EQ(TakeLeft().size(), 2u);  // questions
  EXPECT_EQ(icmp().out_dest_unreachs.value(), 0u);
}

// RFC 1812 §5.3.4.
TEST_P(ForwardingTest, LinkBroadcastsAndGroupsAreNotForwarded) {
  Make();
  const MacAddress groups[] = {MacAddress::kBroadcast(), v4() ? MacAddress{1, 0, 0x5e, 0, 0, 1}
                                                              : MacAddress{0x33, 0x33, 0, 0, 0, 1}};
  for (const MacAddress& group : groups) {
    ByteVector frame = Udp();
    group.CopyTo(frame.data());
    ExpectRefusedInSilence(
        frame, v4() ? DropReason::kIpv4LinkBroadcastUnicast : DropReason::kIpv6LinkGroupUnicast);
  }
  ByteVector frame = Udp();
  (MacAddress{0x02, 9, 9, 9, 9, 9}).CopyTo(frame.data());
  ExpectRefusedInSilence(frame, DropReason::kLinkOtherHost);
}

// RFC 1812 §5.3.7, RFC 4291 §2.5.2, §2.5.3, §2.7.
TEST_P(ForwardingTest, MartianSourcesAreNotForwarded) {
  Make();
  const DropReason martian = v4() ? DropReason::kIpv4MartianSource : DropReason::kIpv6MartianSource;
  for (const IpAddress& source : {Address("0.0.0.0", "::"), Address("224.0.0.1", "ff02::1"),
                                  Address("0.1.2.3", "::ffff:1.2.3.4")}) {
    ExpectRefusedInSilence(Udp({.source = source}), martian);
  }
  ExpectRefusedInSilence(
      Udp({.source = Address("127.0.0.1", "::1")}),
      v4() ? DropReason::kIpv4LoopbackFromWire : DropReason::kIpv6LoopbackFromWire);
  ExpectRefusedInSilence(Udp({.source = Address("10.2.0.1", "fd02::1")}),
                         v4() ? DropReason::kIpv4SourceOwn : DropReason::kIpv6SourceOwn);
  EXPECT_EQ(ip().in_addr_errors.value(), 5u);
}

TEST_P(ForwardingTest, DestinationsThatAreNoHostAreNotForwarded) {
  Make();
  ExpectRefusedInSilence(
      Udp({.destination = Address("127.0.0.2", "::1")}),
      v4() ? DropReason::kIpv4LoopbackFromWire : DropReason::kIpv6LoopbackFromWire);
  ExpectRefusedInSilence(
      Udp({.destination = Address("240.0.0.1", "::ffff:10.2.0.9")}),
      v4() ? DropReason::kIpv4MartianDestination : DropReason::kIpv6MartianDestination);
  ExpectRefusedInSilence(
      Udp({.destination = Address("239.1.2.3", "ff0e::1234")}),
      v4() ? DropReason::kIpv4MulticastFilter : DropReason::kIpv6MulticastFilter);
}

// No checksum is looked at on the way, and none is made: protocol 99 has none that we know of.
TEST_P(ForwardingTest, UnknownProtocolPassesUnchangedWhateverTheChecksumState) {  // Covers: bug:B73
  Make();
  const ByteVector frame = IpFrame({.protocol = 99}).Payload(Pattern(77)).Build();
  const size_t transport = v4() ? 34 : 54;
  for (const CsumState state : {CsumState::kNone, CsumState::kUnnecessary, CsumState::kComplete}) {
    Inject(frame, [&](Packet& packet) {
      packet.meta.csum_state = state;
      packet.meta.csum_value = 0x1234;
    });
    const std::vector<testutil::SentFrame> sent = TakeRightFrames();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(
        ByteVector(sent[0].bytes.begin() + static_cast<ptrdiff_t>(transport), sent[0].bytes.end()),
        Pattern(77));
    EXPECT_NE(sent[0].csum_state, CsumState::kComplete);
  }
}

// Covers: netdev:C-05
TEST_P(ForwardingTest, SumOfAllBytesIsForgottenAndTheFieldStays) {
  Make({.ignored_rules = {capture::Rule::kChecksum}});
  ByteVector frame = Udp();
  const size_t field = (v4() ? 34u : 54u) + 6;
  frame[field] ^= 0x55;  // wrong, and none of our business
  Inject(frame, [](Packet& packet) {
    packet.meta.csum_state = CsumState::kComplete;
    packet.meta.csum_value = 0x4321;
  });
  const std::vector<testutil::SentFrame> sent = TakeRightFrames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].csum_state, CsumState::kNone);
  EXPECT_EQ(sent[0].bytes[field], frame[field]);
}

// The receiver of a packet whose checksum was left to a device gets a good one.
TEST_P(ForwardingTest, ChecksumLeftToADeviceIsMadeWhereThereIsNone) {  // Covers: netdev:L-02
  for (const bool device_sums : {false, true}) {
    Make({.right_features = device_sums ? netdev::FeatureSet{Feature::kSg, Feature::kHwCsum}
                                        : netdev::FeatureSet()});
    Inject(TcpFrame(v4(), Pattern(100), true), [](Packet& packet) {
      packet.meta.csum_state = CsumState::kPartial;
      packet.set_csum_start_in_data(v4() ? 34 : 54);
      packet.meta.csum_offset = 16;
    });
    const std::vector<testutil::SentFrame> sent = TakeRightFrames();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].csum_state, device_sums ? CsumState::kPartial : CsumState::kNone);
    EXPECT_THAT(sent[0].bytes, testutil::IsSound());
    stack.reset();
  }
}

// Covers: netdev:W-01, bug:B90
TEST_P(ForwardingTest, SuperPacketPassesWholeOrAsTheSegmentsItWasMadeOf) {
  const ByteVector data = Pattern(4344);
  Make({.right_features = {Feature::kSg, Feature::kHwCsum, Feature::kTso, Feature::kTso6}});
  Inject(TcpFrame(v4(), data, true), Merged(v4(), 1448 - (v4() ? 0 : 20)));
  std::vector<testutil::SentFrame> sent = TakeRightFrames();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].gso.size, v4() ? 1448 : 1428);
  EXPECT_EQ(Dissect(sent[0].bytes).ttl, 63);
  stack.reset();

  Make();
  Inject(TcpFrame(v4(), data, true), Merged(v4(), 1448 - (v4() ? 0 : 20)));
  sent = TakeRightFrames();
  ASSERT_EQ(sent.size(), v4() ? 3u : 4u);
  ByteVector received;
  for (const testutil::SentFrame& frame : sent) {
    const FrameView view = Dissect(frame.bytes);
    EXPECT_LE(view.packet_length, 1500u);
    EXPECT_EQ(view.ttl, 63);
    EXPECT_EQ(view.seq, 100'000 + received.size());
    EXPECT_THAT(frame.bytes, testutil::IsSound());
    received.insert(received.end(), view.payload.begin(), view.payload.end());
  }
  EXPECT_EQ(received, data);
  EXPECT_THAT(TakeLeft(), IsEmpty());
}

// Covers: bug:B90
TEST_P(ForwardingTest, SizeIsThatOfTheSegmentsAndNotOfTheWhole) {
  const uint16_t mss = v4() ? 1400 : 1380;  // 1440 bytes of IP packet
  for (const bool tso : {true, false}) {    // (a), (c)
    Make({.right_mtu = 1450,
          .right_features = tso ? netdev::FeatureSet{Feature::kSg, Feature::kHwCsum, Feature::kTso,
                                                     Feature::kTso6}
                                : netdev::FeatureSet()});
    Inject(TcpFrame(v4(), Pattern(20'000), true), Merged(v4(), mss));
    EXPECT_THAT(TakeLeft(), IsEmpty());
    const std::vector<testutil::SentFrame> sent = TakeRightFrames();
    ASSERT_EQ(sent.size(), tso ? 1u : (20'000u + mss - 1) / mss);
    for (const testutil::SentFrame& frame : sent) {
      if (tso) {
        EXPECT_EQ(frame.gso.size, mss);
      } else {
        EXPECT_LE(frame.bytes.size(), 14u + 1440);
      }
    }
    stack.reset();
  }
  // (b)
  Make({.right_mtu = 1300, .right_features = {Feature::kSg, Feature::kHwCsum, Feature::kTso}});
  Inject(TcpFrame(v4(), Pattern(20'000), true), Merged(v4(), mss));
  EXPECT_THAT(TakeRight(), IsEmpty());
  const FrameView error = TakeError();
  EXPECT_EQ(error.type, v4() ? 3 : 2);
  EXPECT_EQ(error.code, v4() ? 4 : 0);
  EXPECT_EQ(error.rest, 1300u);
  EXPECT_EQ(Drops(v4() ? DropReason::kIpv4FragmentationNeeded : DropReason::kIpv6TooBig), 1u);
  EXPECT_EQ(ip().frag_fails.value(), 1u);
  EXPECT_EQ(ip().in_too_big_errors.value(), v4() ? 0u : 1u);
}

TEST_P(ForwardingTest, SegmentThatFitsExactlyPasses) {
  const uint16_t mss = v4() ? 1360 : 1340;
  for (const int excess : {0, 1}) {
    Make({.right_mtu = static_cast<uint32_t>(1400 - excess)});
    Inject(TcpFrame(v4(), Pattern(3000), true), Merged(v4(), mss));
    EXPECT_EQ(TakeRight().size(), excess == 0 ? 3u : 0u);
    EXPECT_EQ(TakeLeft().size(), excess == 0 ? 0u : 1u);
    stack.reset();
  }
}

// Merged by a device without a word on how to cut it (LRO). The receive core refuses it, as it does
// everything whose metadata contradict each other; were it to come through, IP would.
TEST_P(ForwardingTest, PacketThatCannotBeCutAgainIsDropped) {  // Covers: netdev:W-05
  Make();
  const auto lro = [](Packet& packet) {
    packet.meta.gso = {.type = GsoType::kNone, .size = 1000};
    packet.meta.csum_state = CsumState::kUnnecessary;
  };
  const ByteVector frame = TcpFrame(v4(), Pattern(3000), true);
  Inject(frame, lro);
  EXPECT_THAT(TakeRight(), IsEmpty());
  const uint64_t at_device = net->device().drops().value(DropReason::kRxBadMetadata);
  EXPECT_EQ(at_device + Drops(DropReason::kForwardLro), 1u);

  PacketPtr packet = PacketFromBytes(stack->pool(), frame);
  ASSERT_FALSE(packet->is_linear());
  packet->meta.rx_device = left->index();
  packet->meta.rx_time = stack->now();
  ASSERT_TRUE(packet->Pull(14));
  lro(*packet);
  const uint64_t before = Drops(DropReason::kForwardLro);
  const DropReason reason = v4() ? stack->ipv4().Input(std::move(packet), *left)
                                 : stack->ipv6().Input(std::move(packet), *left);
  EXPECT_EQ(reason, DropReason::kForwardLro);
  EXPECT_EQ(Drops(DropReason::kForwardLro), before + 1);
  net->Run();
  EXPECT_THAT(TakeRight(), IsEmpty());
  EXPECT_THAT(TakeLeft(), IsEmpty());
}

// The two ends find out about their path; the router between them needs to know nothing.
TEST_P(ForwardingTest, ErrorsInTransitTeachTheRouterNothing) {
  Make();
  const IpAddress reporter = v4() ? IpAddress(kRightHost4) : IpAddress(kRightHost6);
  const IpAddress beyond = v4() ? IpAddress(kBeyond4) : IpAddress(kBeyond6);
  // A router behind the right host reports to the left host.
  Frame quote, error = Frame().Eth(kRightHostMac, kRightMac);
  if (v4()) {
    quote.Ipv4({.source = kLeftHost4, .destination = kBeyond4});
    error.Ipv4({.source = kRightHost4, .destination = kLeftHost4})
        .Icmpv4({.type = 3, .code = 4, .rest = 1300});
  } else {
    quote.Ipv6({.source = kLeftHost6, .destination = kBeyond6});
    error.Ipv6({.source = kRightHost6, .destination = kLeftHost6})
        .Icmpv6({.type = 2, .rest = 1300});
  }
  quote.Udp({.source_port = 1, .destination_port = 2}).Payload(Pattern(1400));
  const ByteVector whole = quote.Build();
  error.Payload(std::span(whole).first(v4() ? 548 : 1232));
  net->InjectOn(*right_device, error.Build());
  const std::vector<ByteVector> sent = TakeLeft();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(Dissect(sent[0]).source, reporter);
  EXPECT_EQ(stack->path_mtu().Get(beyond, 1500), 1500u);
  EXPECT_EQ(icmp().in_msgs.value(), 0u);

  // Nor does what the router has learned for itself hold for others.
  ASSERT_TRUE(stack->path_mtu().Report(right_host(), 1280, 1500));
  Inject(Udp(1400));
  EXPECT_EQ(TakeRight().size(), 1u);
}

// RFC 1812 §4.3.2.7, RFC 4443 §2.4 (e).
TEST_P(ForwardingTest, NoErrorAboutAnError) {
  Make();
  Frame frame = IpFrame({.ttl = 1});
  if (v4()) {
    frame.Icmpv4({.type = 11}).Payload(Pattern(28));
  } else {
    frame.Icmpv6({.type = 3}).Payload(Pattern(48));
  }
  ExpectRefusedInSilence(frame.Build(),
                         v4() ? DropReason::kIpv4TtlExceeded : DropReason::kIpv6HopLimitExceeded);
}

// RFC 1812 §4.3.2.8.
TEST_P(ForwardingTest, ErrorsAreLimitedInRate) {
  Make();
  const uint32_t burst = stack->config().icmp_error_burst;
  for (uint32_t i = 0; i < burst + 20; ++i) Inject(Udp({.ttl = 1}));
  EXPECT_EQ(TakeLeft().size(), burst);
  EXPECT_EQ(icmp().out_rate_limited.value(), 20u);
}

// An address that is still being checked is nobody's yet; nor is it looked for on the link.
TEST_P(ForwardingTest, TentativeAddressIsNotLookedFor) {
  Make();
  stack->config().duplicate_address_detection = true;
  stack->config().arp_probe = true;
  const IpAddress fresh = Address("10.2.0.60", "fd02::60");
  ASSERT_TRUE(right->AddAddress({fresh, v4() ? 24 : 64}).ok());
  net->Run();
  TakeRight();
  ExpectRefused(Udp({.destination = fresh}),
                v4() ? DropReason::kIpv4NotOurs : DropReason::kIpv6TentativeDestination);
  ASSERT_TRUE(right->RemoveAddress(fresh).ok());
  net->Advance(seconds(20));
}

// Merged frames that cannot be cut again must not come up at all.
TEST_P(ForwardingTest, DevicesHearOfIt) {  // Covers: netdev:W-04
  Make({.forwarding = false});
  EXPECT_FALSE(net->device().is_forwarding());
  stack->SetForwarding(true);
  EXPECT_TRUE(net->device().is_forwarding());
  EXPECT_TRUE(right_device->is_forwarding());
  testutil::TestDevice& third = net->AddDevice({.name = "third", .mac = {2, 0, 0, 0, 0, 3}});
  Interface* added = *stack->AddInterface(third);
  EXPECT_TRUE(third.is_forwarding());
  stack->RemoveInterface(*added);
  EXPECT_FALSE(third.is_forwarding());
  stack->SetForwarding(false);
  EXPECT_FALSE(right_device->is_forwarding());
  net->Advance(seconds(20));
}

TEST_P(ForwardingTest, WithoutMemoryNothingIsHalfDone) {
  Make();
  PacketPtr packet = PacketFromBytes(stack->pool(), Udp({.ttl = 1}));
  packet->meta.rx_device = left->index();
  ASSERT_TRUE(packet->Pull(14));
  std::vector<PacketPtr> hogs;
  while (PacketPtr hog = stack->pool().AllocatePacket(2000)) hogs.push_back(std::move(hog));
  while (PacketPtr hog = stack->pool().AllocatePacket(1)) hogs.push_back(std::move(hog));
  if (v4()) {
    stack->ipv4().Input(std::move(packet), *left);
  } else {
    stack->ipv6().Input(std::move(packet), *left);
  }
  EXPECT_EQ(Drops(DropReason::kTxNoBuffer), 1u);  // the error
  EXPECT_EQ(icmp().out_errors.value(), 1u);
  hogs.clear();
  Inject(Udp());
  EXPECT_EQ(TakeRight().size(), 1u);
}

}  // namespace
}  // namespace tapwire
