// SPDX-License-Identifier: Apache-2.0
// ICMP errors that we send: for what there is one and for what there must not be one, what it
// quotes, where it comes from, and how many there are.
#include "stack/icmp/icmp_error.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class IcmpErrorTest : public IpTestBase, public ::testing::WithParamInterface<IpFamily> {
 protected:
  bool v4() const { return GetParam() == IpFamily::kV4; }
  IpAddress host() const { return v4() ? IpAddress(kHost4) : IpAddress(kHost6); }
  IpAddress peer() const { return v4() ? IpAddress(kPeer4) : IpAddress(kPeer6); }
  IcmpCounters& counters() { return v4() ? stack_->mib().icmp : stack_->mib().icmp6; }

  // A datagram for a protocol that nobody handles.
  Frame Unknown(uint8_t tos = 0) const {
    if (v4())
      return FromPeer().Ipv4(
          {.source = kPeer4, .destination = kHost4, .tos = tos, .protocol = kUnusedProtocol});
    return FromPeer().Ipv6({.source = kPeer6,
                            .destination = kHost6,
                            .traffic_class = tos,
                            .next_header = kUnusedProtocol});
  }
  // Raises an error about `bytes` (from the IP header on), as IP would with these facts about it.
  void Raise(const ByteVector& bytes, IcmpErrorKind kind, uint32_t value = 0,
             IpDelivery delivery = IpDelivery::kUnicast, bool link_broadcast = false,
             Interface* interface = nullptr) {
    PacketPtr packet = PacketFromBytes(stack_->pool(), bytes);
    packet->set_l3_here();
    const FrameView view = DissectIp(bytes);
    const IpPacketInfo info{.source = view.source,
                            .destination = view.destination,
                            .protocol = view.protocol,
                            .delivery = delivery,
                            .link_broadcast = link_broadcast,
                            .interface = interface == nullptr ? interface_ : interface};
    stack_->SendIcmpError(*packet, info, kind, value);
    net_.Run();
  }
  ByteVector Datagram4(Ipv4Args args = {}) const {
    if (args.source.IsUnspecified()) args.source = kPeer4;
    if (args.destination.IsUnspecified()) args.destination = kHost4;
    if (!args.protocol) args.protocol = kTestProtocol;
    return Frame().Ipv4(args).Payload(Pattern(32)).Build();
  }
  ByteVector Datagram() const {
    return v4() ? Datagram4()
                : Frame()
                      .Ipv6({.source = kPeer6, .destination = kHost6, .next_header = kTestProtocol})
                      .Payload(Pattern(32))
                      .Build();
  }
  void ExpectSuppressed(const ByteVector& frame, const std::string& what) {
    const uint64_t before = Drops(DropReason::kIcmpErrorSuppressed);
    net_.Inject(frame);
    EXPECT_EQ(Drops(DropReason::kIcmpErrorSuppressed), before + 1) << what;
    EXPECT_THAT(net_.TakeSent(), IsEmpty()) << what;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, IcmpErrorTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

// Covers: rfc:ICMP-04, rfc:ICMP-03, rfc:V6-02
TEST_P(IcmpErrorTest, UnknownProtocolIsAnswered) {
  const uint64_t reports = counters().out_msgs.value();  // of MLD, before
  const ByteVector frame = Unknown(0xb8).Payload(Pattern(100)).Build();
  net_.Inject(frame);
  const auto sent = net_.TakeSent();
  // RFC 1122 §3.2.2: TOS 0 whatever the offender had; from the address asked.
  ASSERT_THAT(
      sent, ElementsAre(IsEth(EthDstIs(kPeerMac), SrcIs(host()), DstIs(peer()), TtlIs(64), TosIs(0),
                              TypeIs(v4() ? 3 : 4), CodeIs(v4() ? 2 : 1), RestIs(v4() ? 0 : 6))));
  const auto quote_at = static_cast<std::ptrdiff_t>(14 + (v4() ? 28 : 48));
  EXPECT_EQ(ByteVector(sent[0].begin() + quote_at, sent[0].end()),
            ByteVector(frame.begin() + 14, frame.end()));
  EXPECT_EQ(counters().out_msgs.value(), reports + 1);
  EXPECT_EQ(v4() ? counters().out_dest_unreachs.value() : counters().out_parm_probs.value(), 1u);
  EXPECT_EQ(Drops(DropReason::kUnknownProtocol), 1u);
}

// RFC 792, RFC 1122 §3.2.2, RFC 4443 §3.
TEST_P(IcmpErrorTest, EveryKindHasItsTypeAndCode) {
  const struct {
    IcmpErrorKind kind;
    int type4, code4;
    uint32_t rest4;
    int type6, code6;
    uint32_t rest6;
  } cases[] = {
      {IcmpErrorKind::kNetUnreachable, 3, 0, 0, 1, 0, 0},
      {IcmpErrorKind::kHostUnreachable, 3, 1, 0, 1, 3, 0},
      {IcmpErrorKind::kProtocolUnreachable, 3, 2, 0, 4, 1, 1300},
      {IcmpErrorKind::kPortUnreachable, 3, 3, 0, 1, 4, 0},
      {IcmpErrorKind::kPacketTooBig, 3, 4, 1300, 2, 0, 1300},
      {IcmpErrorKind::kAdminProhibited, 3, 13, 0, 1, 1, 0},
      {IcmpErrorKind::kTtlExceeded, 11, 0, 0, 3, 0, 0},
      {IcmpErrorKind::kReassemblyTimeout, 11, 1, 0, 3, 1, 0},
      {IcmpErrorKind::kParameterProblem, 12, 0, 0x14000000, 4, 0, 1300},
      {IcmpErrorKind::kUnrecognizedOption, -1, 0, 0, 4, 2, 1300},
      {IcmpErrorKind::kIncompleteHeaderChain, -1, 0, 0, 4, 3, 1300},
      {IcmpErrorKind::kOther, -1, 0, 0, -1, 0, 0},
  };
  for (const auto& c : cases) {
    const int type = v4() ? c.type4 : c.type6;
    const uint64_t suppressed = Drops(DropReason::kIcmpErrorSuppressed);
    Raise(Datagram(), c.kind, 1300);  // 1300 is 0x514: a pointer of one byte is 0x14
    const auto sent = net_.TakeSent();
    if (type < 0) {
      EXPECT_THAT(sent, IsEmpty());
      EXPECT_EQ(Drops(DropReason::kIcmpErrorSuppressed), suppressed + 1);
      continue;
    }
    EXPECT_THAT(sent, ElementsAre(IsEth(TypeIs(static_cast<uint32_t>(type)),
                                        CodeIs(static_cast<uint32_t>(v4() ? c.code4 : c.code6)),
                                        RestIs(v4() ? c.rest4 : c.rest6))));
  }
  EXPECT_EQ(counters().out_time_excds.value(), 2u);
  EXPECT_EQ(counters().out_pkt_too_bigs.value(), 1u);
  EXPECT_EQ(counters().out_dest_unreachs.value(), v4() ? 6u : 4u);
  EXPECT_EQ(counters().out_parm_probs.value(), v4() ? 1u : 4u);
}

TEST_P(IcmpErrorTest, QuoteIsAsMuchAsFits) {  // Covers: rfc:ICMP-03, rfc:IC6-2
  const size_t header = v4() ? 20 : 40;
  const size_t limit = v4() ? 576 : 1280;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, limit - 2 * header - 8,
                            limit - 2 * header - 7, size_t{1400}}) {
    const ByteVector frame = Unknown().Payload(Pattern(size)).Build();
    net_.Inject(frame);
    const auto sent = net_.TakeSent();
    ASSERT_EQ(sent.size(), 1u) << size;
    EXPECT_EQ(sent[0].size() - 14, std::min(limit, header + 8 + header + size)) << size;
    const auto quote_at = static_cast<std::ptrdiff_t>(14 + header + 8);
    EXPECT_TRUE(std::equal(sent[0].begin() + quote_at, sent[0].end(), frame.begin() + 14)) << size;
  }
}

TEST_P(IcmpErrorTest, QuoteReachesIntoFragmentsAndBehindPulledHeaders) {
  const ByteVector bytes = Datagram();
  for (const size_t in_head : {size_t{40}, bytes.size() - 5}) {
    for (const size_t pulled : {size_t{0}, size_t{20}, size_t{40}}) {
      PacketPtr packet = stack_->pool().AllocatePacket(in_head);
      std::copy_n(bytes.begin(), in_head, packet->Put(in_head).begin());
      SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kSmall);
      std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(in_head), bytes.end(), slab.data());
      ASSERT_TRUE(packet->AddFrag(slab, 0, bytes.size() - in_head));
      packet->set_l3_here();
      packet->Pull(pulled);
      const IpPacketInfo info{.source = peer(), .destination = host(), .interface = interface_};
      stack_->SendIcmpError(*packet, info, IcmpErrorKind::kPortUnreachable);
      // Nor does it matter when the link header is still in front.
      packet->Push(pulled);
      packet->Push(14);
      stack_->SendIcmpError(*packet, info, IcmpErrorKind::kPortUnreachable);
      net_.Run();
      const auto sent = net_.TakeSent();
      ASSERT_EQ(sent.size(), 2u);
      for (const ByteVector& frame : sent) {
        EXPECT_EQ(ByteVector(frame.begin() + 14 + (v4() ? 28 : 48), frame.end()), bytes)
            << in_head << " " << pulled;
      }
    }
  }
}

// ---- Checksums that were left to a device ----

class IcmpErrorPartialTest : public IcmpErrorTest {
 protected:
  static constexpr size_t kUdpHeader = 8;

  size_t ip_header() const { return v4() ? 20 : 40; }
  ByteVector UdpDatagram(const ByteVector& payload, std::optional<uint16_t> checksum = {}) const {
    Frame frame;
    if (v4()) {
      frame.Ipv4({.source = kPeer4, .destination = kHost4});
    } else {
      frame.Ipv6({.source = kPeer6, .destination = kHost6});
    }
    return frame.Udp({.source_port = 1000, .destination_port = 9, .checksum = checksum})
        .Payload(payload)
        .Build();
  }
  // The same as its sender left it: the pseudo-header's sum stands in the field.
  PacketPtr Unsummed(const ByteVector& payload) {
    const ByteVector nothing(kUdpHeader + payload.size());  // zeros add nothing to the sum
    const auto pseudo =
        static_cast<uint16_t>(~SimpleTransportChecksum(peer(), host(), 17, nothing));
    PacketPtr packet = PacketFromBytes(stack_->pool(), UdpDatagram(payload, pseudo));
    packet->set_l3_here();
    packet->set_csum_start_in_data(static_cast<int32_t>(ip_header()));
    packet->meta.csum_offset = 6;
    packet->meta.csum_state = CsumState::kPartial;
    return packet;
  }
  ByteVector QuoteOf(const Packet& packet) {
    const IpPacketInfo info{.source = peer(), .destination = host(), .interface = interface_};
    stack_->SendIcmpError(packet, info, IcmpErrorKind::kPortUnreachable);
    net_.Run();
    const auto sent = net_.TakeSent();
    EXPECT_THAT(sent, SizeIs(1));
    if (sent.size() != 1) return {};
    return ByteVector(sent[0].begin() + 14 + (v4() ? 28 : 48), sent[0].end());
  }
};

INSTANTIATE_TEST_SUITE_P(Families, IcmpErrorPartialTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

// The checksum covers what is not quoted, too, wherever the stack has got to in the packet.
TEST_P(IcmpErrorPartialTest, QuoteShowsTheFinishedChecksum) {  // Covers: rfc:ICMP-03
  for (const size_t size : {size_t{0}, size_t{1}, size_t{32}, size_t{1401}}) {
    const ByteVector payload = Pattern(size, 7);
    ByteVector expected = UdpDatagram(payload);
    expected.resize(std::min(expected.size(), v4() ? size_t{576 - 28} : size_t{1280 - 48}));
    for (const size_t pulled : {size_t{0}, ip_header(), ip_header() + kUdpHeader}) {
      SCOPED_TRACE(::testing::Message() << size << " bytes, " << pulled << " pulled");
      PacketPtr packet = Unsummed(payload);
      const ByteVector before = BytesOf(*packet);
      ASSERT_NE(ByteVector(before.begin(), before.begin() + std::ssize(expected)), expected);
      packet->Pull(pulled);
      EXPECT_EQ(QuoteOf(*packet), expected);
      packet->Push(pulled);
      EXPECT_EQ(BytesOf(*packet), before);  // the packet itself is left alone
      packet->Push(14);
      EXPECT_EQ(QuoteOf(*packet), expected);
    }
  }
}

// RFC 768, RFC 8200 §8.1: a sum of 0 is sent as all ones.
TEST_P(IcmpErrorPartialTest, FinishedChecksumIsNeverZero) {
  const ByteVector without = UdpDatagram(ByteVector(2));
  const size_t field = ip_header() + 6;
  // The checksum, as data, makes the sum of all 0xffff.
  const ByteVector payload(without.begin() + static_cast<std::ptrdiff_t>(field),
                           without.begin() + static_cast<std::ptrdiff_t>(field) + 2);
  const ByteVector quote = QuoteOf(*Unsummed(payload));
  ASSERT_GE(quote.size(), field + 2);
  EXPECT_EQ(quote[field], 0xff);
  EXPECT_EQ(quote[field + 1], 0xff);
}

// Positions that a device would have been refused for: the bytes are quoted as they are.
TEST_P(IcmpErrorPartialTest, ImpossiblePositionsChangeNothing) {
  const auto quote_with = [&](int32_t start, uint16_t offset) {
    PacketPtr packet = Unsummed(Pattern(32));
    const ByteVector bytes = BytesOf(*packet);
    packet->set_csum_start_in_data(start);
    packet->meta.csum_offset = offset;
    EXPECT_EQ(QuoteOf(*packet), bytes) << start << " " << offset;
  };
  const auto start = static_cast<int32_t>(ip_header());
  quote_with(start, 39);  // the field ends one byte behind the data
  quote_with(start, 65535);
  quote_with(-1, 6);  // before the IP header
  quote_with(30000, 6);
}

// ---- When there must not be one ----

// Covers: rfc:ICMP-02, rfc:IC6-1
TEST_P(IcmpErrorTest, GroupsAndBroadcastsGetNone) {
  if (v4()) {
    const auto frame = [](const MacAddress& mac, Ipv4Address to) {
      return Frame()
          .Eth(kPeerMac, mac)
          .Ipv4({.source = kPeer4, .destination = to, .protocol = kUnusedProtocol})
          .Payload(Pattern(8))
          .Build();
    };
    ExpectSuppressed(frame(kBroadcastMac, {255, 255, 255, 255}), "limited broadcast");
    ExpectSuppressed(frame(kBroadcastMac, {10, 0, 0, 255}), "subnet broadcast");
    ExpectSuppressed(frame(kHostMac, {10, 0, 0, 255}), "subnet broadcast in a unicast frame");
    ExpectSuppressed(frame(MulticastMac(Ipv4Address(224, 0, 0, 1)), {224, 0, 0, 1}), "group");
    return;
  }
  const Ipv6Address all = Ipv6Address::AllNodes();
  ExpectSuppressed(Frame()
                       .Eth(kPeerMac, MulticastMac(all))
                       .Ipv6({.source = kPeer6, .destination = all, .next_header = kUnusedProtocol})
                       .Build(),
                   "group");
}

TEST_P(IcmpErrorTest, LinkBroadcastGetsNone) {  // Covers: rfc:ICMP-02, rfc:IP-27, rfc:IC6-1
  Raise(Datagram(), IcmpErrorKind::kPortUnreachable, 0, IpDelivery::kUnicast,
        /*link_broadcast=*/true);
  EXPECT_EQ(Drops(DropReason::kIcmpErrorSuppressed), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

// RFC 4443 §2.4(e.3): the two exceptions.
TEST_P(IcmpErrorTest, TooBigAndUnknownOptionAreToldToSendersToGroups) {  // Covers: rfc:IC6-1
  if (v4()) return;
  const ByteVector bytes = Frame()
                               .Ipv6({.source = kPeer6,
                                      .destination = Ipv6Address::AllNodes(),
                                      .next_header = kTestProtocol})
                               .Payload(Pattern(8))
                               .Build();
  Raise(bytes, IcmpErrorKind::kPacketTooBig, 1280, IpDelivery::kMulticast, true);
  Raise(bytes, IcmpErrorKind::kUnrecognizedOption, 42, IpDelivery::kMulticast, true);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(SrcIs(kHost6), IsIcmpv6(TypeIs(2))),
                                           IsIpv6(SrcIs(kHost6), IsIcmpv6(TypeIs(4), CodeIs(2)))));
  Raise(bytes, IcmpErrorKind::kParameterProblem, 42, IpDelivery::kMulticast, true);
  Raise(bytes, IcmpErrorKind::kTtlExceeded, 0, IpDelivery::kMulticast, true);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(IcmpErrorTest,
       SourceThatIsNoSingleHostGetsNone) {  // Covers: rfc:ICMP-02, rfc:IP-27, rfc:IC6-1
  std::vector<ByteVector> offenders;
  if (v4()) {
    for (const Ipv4Address source :
         {Ipv4Address(255, 255, 255, 255), Ipv4Address(224, 0, 0, 9), Ipv4Address(240, 0, 0, 1),
          Ipv4Address(0, 0, 0, 5), Ipv4Address(127, 0, 0, 1), Ipv4Address(10, 0, 0, 255)}) {
      offenders.push_back(Datagram4({.source = source}));
    }
    offenders.push_back(Frame()
                            .Ipv4({.destination = kHost4, .protocol = kTestProtocol})
                            .Payload(Pattern(8))
                            .Build());
  } else {
    for (const char* source : {"::", "ff02::1", "::1"}) {
      offenders.push_back(Frame()
                              .Ipv6({.source = *Ipv6Address::Parse(source),
                                     .destination = kHost6,
                                     .next_header = kTestProtocol})
                              .Payload(Pattern(8))
                              .Build());
    }
  }
  for (const ByteVector& bytes : offenders) Raise(bytes, IcmpErrorKind::kPortUnreachable);
  EXPECT_EQ(Drops(DropReason::kIcmpErrorSuppressed), offenders.size());
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(IcmpErrorTest, LaterFragmentsGetNone) {  // Covers: rfc:ICMP-02
  if (!v4()) return;
  Raise(Datagram4({.dont_fragment = false, .more_fragments = true, .offset = 8}),
        IcmpErrorKind::kTtlExceeded);
  Raise(Datagram4({.dont_fragment = false, .offset = 1480}), IcmpErrorKind::kTtlExceeded);
  EXPECT_EQ(Drops(DropReason::kIcmpErrorSuppressed), 2u);
  Raise(Datagram4({.dont_fragment = false, .more_fragments = true, .offset = 0}),
        IcmpErrorKind::kTtlExceeded);
  EXPECT_THAT(net_.TakeSent(), SizeIs(1));
}

// Bad options make an error about whatever stands behind them.
TEST_P(IcmpErrorTest, ErrorsGetNone) {  // Covers: rfc:ICMP-02, rfc:IC6-1
  if (v4()) {
    const auto frame = [](const IcmpArgs& args) {
      return FromPeer()
          .Ipv4({.source = kPeer4, .destination = kHost4, .options = {0x9e, 0, 0, 0}})
          .Icmpv4(args)
          .Payload(Pattern(28))
          .Build();
    };
    for (const uint8_t type : ByteVector{3, 4, 5, 11, 12, 1, 19, 42, 255})
      ExpectSuppressed(frame({.type = type}), std::to_string(type));
    for (const uint8_t type : ByteVector{0, 8, 13, 17}) {
      net_.Inject(frame({.type = type}));
      EXPECT_THAT(net_.TakeSent(), SizeIs(1)) << int{type};
    }
    return;
  }
  const auto frame = [](uint8_t type) {
    return FromPeer()
        .Ipv6({.source = kPeer6, .destination = kHost6})
        .HopByHop({})
        .DestinationOptions({.options = {0x9e, 0}})
        .Icmpv6({.type = type})
        .Payload(Pattern(28))
        .Build();
  };
  for (const uint8_t type : ByteVector{1, 2, 3, 4, 100, 127, 137})
    ExpectSuppressed(frame(type), std::to_string(type));
  for (const uint8_t type : ByteVector{128, 129, 135, 200}) {
    net_.Inject(frame(type));
    EXPECT_THAT(net_.TakeSent(), SizeIs(1)) << int{type};
  }
  // An ICMPv6 message whose type cannot be seen might be one.
  ExpectSuppressed(FromPeer()
                       .Ipv6({.source = kPeer6, .destination = kHost6})
                       .DestinationOptions({.options = {0x9e, 0}, .next_header = 58})
                       .Build(),
                   "no type");
}

TEST_P(IcmpErrorTest, WhatHasNoIpHeaderGetsNone) {
  PacketPtr packet = PacketFromBytes(stack_->pool(), Datagram());
  const IpPacketInfo info{.source = peer(), .destination = host(), .interface = interface_};
  stack_->SendIcmpError(*packet, info, IcmpErrorKind::kPortUnreachable);
  packet->set_l3_here();
  packet->Trim(19);  // not even one header
  stack_->SendIcmpError(*packet, info, IcmpErrorKind::kPortUnreachable);
  net_.Run();
  EXPECT_EQ(Drops(DropReason::kIcmpErrorSuppressed), 2u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

// ---- Where it comes from ----

TEST_P(IcmpErrorTest, SourceIsTheAddressAsked) {  // Covers: rfc:IP-08, rfc:IP-26
  const IpAddress second =
      v4() ? IpAddress(Ipv4Address(10, 0, 0, 22)) : IpAddress(*Ipv6Address::Parse("fd00::22"));
  ASSERT_TRUE(interface_->AddAddress({second, v4() ? 24 : 64}).ok());
  net_.Advance(std::chrono::seconds(20));
  net_.TakeSent();
  net_.Inject(
      v4() ? FromPeer()
                 .Ipv4({.source = kPeer4, .destination = second.v4(), .protocol = kUnusedProtocol})
                 .Build()
           : FromPeer()
                 .Ipv6(
                     {.source = kPeer6, .destination = second.v6(), .next_header = kUnusedProtocol})
                 .Build());
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsEth(SrcIs(second), DstIs(peer()))));
  // About a packet that was for somebody else: one of ours.
  Raise(v4() ? Datagram4({.destination = kFar4})
             : Frame()
                   .Ipv6({.source = kPeer6, .destination = kFar6, .next_header = kTestProtocol})
                   .Build(),
        IcmpErrorKind::kTtlExceeded);
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsEth(SrcIs(host()), DstIs(peer()))));
}

TEST_P(IcmpErrorTest, LinkLocalOffenderIsAnsweredOnItsLink) {
  if (v4()) return;
  net_.Inject(FromPeer()
                  .Ipv6({.source = kPeerLinkLocal6,
                         .destination = kHostLinkLocal6,
                         .next_header = kUnusedProtocol})
                  .Build());
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsIpv6(SrcIs(kHostLinkLocal6), DstIs(kPeerLinkLocal6),
                                                  IsIcmpv6(TypeIs(4)))));
}

TEST_P(IcmpErrorTest, ErrorAboutOurOwnDatagramStaysInside) {
  const IpAddress self =
      v4() ? IpAddress(Ipv4Address(127, 0, 0, 1)) : IpAddress(Ipv6Address::kLoopback);
  const uint64_t reports = counters().out_msgs.value();  // of MLD, before
  // Input for it is refused by the unknown protocol, its errors are heard.
  Send(Pattern(16), RouteTo(self), {.protocol = kUnusedProtocol});
  EXPECT_EQ(Drops(DropReason::kUnknownProtocol), 1u);
  EXPECT_EQ(counters().out_msgs.value(), reports + 1);
  EXPECT_EQ(counters().in_msgs.value(), 1u);
  EXPECT_EQ(Drops(DropReason::kIcmpQuoteMismatch), 1u);  // nobody there to tell
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(IcmpErrorTest, WithoutARouteBackThereIsNone) {
  const IpAddress router = v4() ? IpAddress(kRouter4) : IpAddress(kRouter6);
  ASSERT_TRUE(
      stack_->RemoveRoute({{IpAddress::Unspecified(GetParam()), 0}, router, interface_}).ok());
  net_.Inject(
      v4() ? FromPeer()
                 .Ipv4({.source = kFar4, .destination = kHost4, .protocol = kUnusedProtocol})
                 .Build()
           : FromPeer()
                 .Ipv6({.source = kFar6, .destination = kHost6, .next_header = kUnusedProtocol})
                 .Build());
  EXPECT_EQ(Drops(DropReason::kTxNoRoute), 1u);
  EXPECT_EQ(counters().out_errors.value(), 1u);
}

TEST_P(IcmpErrorTest, DeviceThatRefusesIsCounted) {
  // Goes down between arrival and answer.
  PacketPtr packet = PacketFromBytes(stack_->pool(), Datagram());
  packet->set_l3_here();
  const IpPacketInfo info{.source = peer(), .destination = host(), .interface = interface_};
  std::vector<SlabRef> hoard;
  for (const SlabClass c : {SlabClass::kJumbo, SlabClass::kLarge, SlabClass::kSmall}) {
    while (SlabRef taken = stack_->pool().AllocateSlab(c)) hoard.push_back(std::move(taken));
  }
  stack_->SendIcmpError(*packet, info, IcmpErrorKind::kPortUnreachable);
  EXPECT_EQ(Drops(DropReason::kTxNoBuffer), 1u);
  EXPECT_EQ(counters().out_errors.value(), 1u);
}

// ---- How many ----

TEST_P(IcmpErrorTest, RateIsLimitedByATokenBucket) {  // Covers: rfc:ICMP-13, rfc:IC6-2
  const ByteVector frame = Unknown().Payload(Pattern(8)).Build();
  const auto flood = [&](int count) {
    for (int i = 0; i < count; ++i) net_.Inject(frame);
    return net_.TakeSent().size();
  };
  const StackConfig& config = stack_->config();
  EXPECT_EQ(flood(200), config.icmp_error_burst);
  EXPECT_EQ(Drops(DropReason::kIcmpRateLimited), 200u - config.icmp_error_burst);
  EXPECT_EQ(counters().out_rate_limited.value(), 200u - config.icmp_error_burst);
  net_.Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(flood(200), config.icmp_error_rate_per_second / 10);
  net_.Advance(std::chrono::hours(1));
  EXPECT_EQ(flood(200), config.icmp_error_burst);  // not what an hour would add up to
  // Over ten seconds of flood: rate times time, and no more.
  size_t sent = 0;
  for (int i = 0; i < 1000; ++i) {
    net_.Advance(std::chrono::milliseconds(10));
    sent += flood(3);
  }
  EXPECT_NEAR(static_cast<double>(sent), 10.0 * config.icmp_error_rate_per_second, 1);
}

TEST_P(IcmpErrorTest, SuppressedErrorsTakeNoTokens) {
  stack_->config().icmp_error_burst = 1;
  for (int i = 0; i < 5; ++i)
    Raise(Datagram(), IcmpErrorKind::kPortUnreachable, 0, IpDelivery::kMulticast, true);
  Raise(Datagram(), IcmpErrorKind::kPortUnreachable);
  EXPECT_THAT(net_.TakeSent(), SizeIs(1));
}

TEST_P(IcmpErrorTest, RateAndBurstOfZeroMeanNone) {
  stack_->config().icmp_error_burst = 0;
  Raise(Datagram(), IcmpErrorKind::kPortUnreachable);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
  stack_->config().icmp_error_burst = 1;
  stack_->config().icmp_error_rate_per_second = 0;
  net_.Advance(std::chrono::hours(1));
  Raise(Datagram(), IcmpErrorKind::kPortUnreachable);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
  EXPECT_EQ(Drops(DropReason::kIcmpRateLimited), 2u);
}

}  // namespace
}  // namespace tapwire
