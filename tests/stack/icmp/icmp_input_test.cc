// SPDX-License-Identifier: Apache-2.0
// Received ICMP: errors are taken to the transport they quote if they quote it right, path MTUs are
// learned from what a transport knows, and everything else changes nothing.
#include <string>
#include <vector>

#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

using namespace testutil;  // NOLINT: matchers
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class IcmpInputTest : public IpTestBase, public ::testing::WithParamInterface<IpFamily> {
 protected:
  // A learned path MTU is kept on a timer of ten minutes.
  ~IcmpInputTest() override { net_.Advance(std::chrono::minutes(11)); }

  bool v4() const { return GetParam() == IpFamily::kV4; }
  IpAddress host() const { return v4() ? IpAddress(kHost4) : IpAddress(kHost6); }
  IpAddress far() const { return v4() ? IpAddress(kFar4) : IpAddress(kFar6); }
  IpAddress router() const { return v4() ? IpAddress(kRouter4) : IpAddress(kRouter6); }
  IcmpCounters& counters() { return v4() ? stack_->mib().icmp : stack_->mib().icmp6; }
  uint8_t too_big_type() const { return v4() ? 3 : 2; }
  uint8_t too_big_code() const { return v4() ? 4 : 0; }
  uint32_t FarMtu() { return RouteTo(far()).mtu; }

  // A datagram of ours, as a router saw it.
  Frame Ours(uint8_t protocol = kTestProtocol) const {
    if (v4()) return Frame().Ipv4({.source = kHost4, .destination = kFar4, .protocol = protocol});
    return Frame().Ipv6({.source = kHost6, .destination = kFar6, .next_header = protocol});
  }
  ByteVector Quote(size_t data = 1460) const { return Ours().Payload(Pattern(data)).Build(); }
  // An error from the router about `quote`.
  ByteVector Error(const IcmpArgs& args, const ByteVector& quote) const {
    Frame frame = FromPeer();
    if (v4()) {
      return frame.Ipv4({.source = kRouter4, .destination = kHost4})
          .Icmpv4(args)
          .Payload(quote)
          .Build();
    }
    return frame.Ipv6({.source = kRouter6, .destination = kHost6})
        .Icmpv6(args)
        .Payload(quote)
        .Build();
  }
  // At most what an ICMPv6 error carries.
  ByteVector TooBig(uint32_t mtu, ByteVector quote) const {
    quote.resize(std::min<size_t>(quote.size(), 1232));
    return Error({.type = too_big_type(), .code = too_big_code(), .rest = mtu}, quote);
  }
  void ExpectIgnored(const ByteVector& frame, DropReason reason, const std::string& what = "") {
    const uint64_t before = Drops(reason);
    net_.Inject(frame);
    EXPECT_EQ(Drops(reason), before + 1) << DropReasonName(reason) << " " << what;
    EXPECT_THAT(net_.TakeSent(), IsEmpty()) << what;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, IcmpInputTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

struct Named {
  uint8_t type, code;
  IcmpErrorKind kind;
};

const std::vector<Named> kKinds4 = {
    {3, 0, IcmpErrorKind::kNetUnreachable},      {3, 1, IcmpErrorKind::kHostUnreachable},
    {3, 2, IcmpErrorKind::kProtocolUnreachable}, {3, 3, IcmpErrorKind::kPortUnreachable},
    {3, 5, IcmpErrorKind::kNetUnreachable},      {3, 6, IcmpErrorKind::kNetUnreachable},
    {3, 7, IcmpErrorKind::kHostUnreachable},     {3, 8, IcmpErrorKind::kHostUnreachable},
    {3, 9, IcmpErrorKind::kAdminProhibited},     {3, 10, IcmpErrorKind::kAdminProhibited},
    {3, 11, IcmpErrorKind::kNetUnreachable},     {3, 12, IcmpErrorKind::kHostUnreachable},
    {3, 13, IcmpErrorKind::kAdminProhibited},    {3, 14, IcmpErrorKind::kAdminProhibited},
    {3, 15, IcmpErrorKind::kAdminProhibited},    {11, 0, IcmpErrorKind::kTtlExceeded},
    {11, 1, IcmpErrorKind::kReassemblyTimeout},  {12, 0, IcmpErrorKind::kParameterProblem},
    {12, 1, IcmpErrorKind::kParameterProblem},   {12, 2, IcmpErrorKind::kParameterProblem},
};
const std::vector<Named> kKinds6 = {
    {1, 0, IcmpErrorKind::kNetUnreachable},
    {1, 1, IcmpErrorKind::kAdminProhibited},
    {1, 2, IcmpErrorKind::kNetUnreachable},
    {1, 3, IcmpErrorKind::kHostUnreachable},
    {1, 4, IcmpErrorKind::kPortUnreachable},
    {1, 5, IcmpErrorKind::kAdminProhibited},
    {1, 6, IcmpErrorKind::kAdminProhibited},
    {1, 7, IcmpErrorKind::kOther},
    {3, 0, IcmpErrorKind::kTtlExceeded},
    {3, 1, IcmpErrorKind::kReassemblyTimeout},
    {3, 2, IcmpErrorKind::kOther},
    {4, 0, IcmpErrorKind::kParameterProblem},
    {4, 1, IcmpErrorKind::kProtocolUnreachable},
    {4, 2, IcmpErrorKind::kUnrecognizedOption},
    {4, 3, IcmpErrorKind::kIncompleteHeaderChain},
    {4, 99, IcmpErrorKind::kOther},
    // RFC 4443 §2.4(a): unknown error types go up too.
    {100, 0, IcmpErrorKind::kOther},
    {127, 3, IcmpErrorKind::kOther},
};

// Covers: rfc:ICMP-05, rfc:ICMP-08, rfc:IC6-3
TEST_P(IcmpInputTest, EveryErrorReachesTheTransportUnderItsName) {
  for (const Named& c : v4() ? kKinds4 : kKinds6) {
    transport_.errors.clear();
    net_.Inject(Error({.type = c.type, .code = c.code, .rest = 0x05000000}, Quote(100)));
    ASSERT_EQ(transport_.errors.size(), 1u) << int{c.type} << "/" << int{c.code};
    const IcmpErrorInfo& error = transport_.errors[0].info;
    EXPECT_EQ(error.kind, c.kind) << int{c.type} << "/" << int{c.code};
    EXPECT_EQ(error.type, c.type);
    EXPECT_EQ(error.code, c.code);
    EXPECT_EQ(error.reporter, router());
    EXPECT_EQ(error.source, host());
    EXPECT_EQ(error.destination, far());
    EXPECT_EQ(error.protocol, kTestProtocol);
    EXPECT_EQ(error.interface, interface_);
    EXPECT_EQ(transport_.errors[0].transport, Pattern(100));
    if (c.kind == IcmpErrorKind::kParameterProblem) {
      EXPECT_EQ(error.value, v4() ? 5u : 0x05000000u);
    }
  }
  EXPECT_EQ(stack_->drops().total(), 0u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(IcmpInputTest, ErrorsAreCountedByType) {
  const ByteVector quote = Quote(100);
  net_.Inject(Error({.type = static_cast<uint8_t>(v4() ? 3 : 1)}, quote));
  net_.Inject(Error({.type = static_cast<uint8_t>(v4() ? 11 : 3)}, quote));
  net_.Inject(Error({.type = static_cast<uint8_t>(v4() ? 12 : 4)}, quote));
  EXPECT_EQ(counters().in_msgs.value(), 3u);
  EXPECT_EQ(counters().in_dest_unreachs.value(), 1u);
  EXPECT_EQ(counters().in_time_excds.value(), 1u);
  EXPECT_EQ(counters().in_parm_probs.value(), 1u);
}

TEST_P(IcmpInputTest, ShortQuotesAreDropped) {  // Covers: bug:B65
  const size_t needed = (v4() ? 20 : 40) + 8;
  for (const uint8_t type : v4() ? ByteVector{3, 11, 12} : ByteVector{1, 2, 3, 4}) {
    for (size_t size = 0; size < needed; ++size) {
      ByteVector quote = Quote(8);
      quote.resize(size);
      // "Fragmentation needed", too, with 0 to 7 bytes of quote.
      ExpectIgnored(
          Error(
              {.type = type, .code = static_cast<uint8_t>(v4() && type == 3 ? 4 : 0), .rest = 1300},
              quote),
          DropReason::kIcmpQuoteTruncated, std::to_string(size));
    }
  }
  EXPECT_THAT(transport_.errors, IsEmpty());
  net_.Inject(Error({.type = static_cast<uint8_t>(v4() ? 3 : 1)}, Quote(8)));
  EXPECT_EQ(transport_.errors.size(), 1u);
}

TEST_P(IcmpInputTest, QuoteWithMoreHeadersIsRead) {
  ByteVector quote;
  if (v4()) {
    quote = Frame()
                .Ipv4({.source = kHost4,
                       .destination = kFar4,
                       .options = ByteVector(40, 1),
                       .protocol = kTestProtocol})
                .Payload(Pattern(8))
                .Build();
  } else {
    quote = Frame()
                .Ipv6({.source = kHost6, .destination = kFar6})
                .HopByHop({})
                .DestinationOptions({})
                .Fragment6({.offset = 0, .more = true, .next_header = kTestProtocol})
                .Payload(Pattern(8))
                .Build();
  }
  net_.Inject(Error({.type = static_cast<uint8_t>(v4() ? 3 : 1)}, quote));
  ASSERT_EQ(transport_.errors.size(), 1u);
  EXPECT_EQ(transport_.errors[0].transport, Pattern(8));
}

// Covers: bug:B71, rfc:ICMP-05
TEST_P(IcmpInputTest, QuoteOfWhatWeDidNotSendIsIgnored) {
  const IcmpArgs args{.type = static_cast<uint8_t>(v4() ? 3 : 1)};
  const auto quote = [&](const IpAddress& source, uint8_t protocol) {
    return (v4() ? Frame().Ipv4({.source = source.v4(), .destination = kFar4, .protocol = protocol})
                 : Frame().Ipv6(
                       {.source = source.v6(), .destination = kFar6, .next_header = protocol}))
        .Payload(Pattern(100))
        .Build();
  };
  ExpectIgnored(Error(args, quote(far(), kTestProtocol)), DropReason::kIcmpQuoteMismatch,
                "from somebody else");
  ExpectIgnored(Error(args, quote(host(), kUnusedProtocol)), DropReason::kIcmpQuoteMismatch,
                "no such transport");
  ByteVector other_version = Quote(100);
  other_version[0] = static_cast<uint8_t>((other_version[0] & 0x0f) | 0x50);
  ExpectIgnored(Error(args, other_version), DropReason::kIcmpQuoteMismatch, "version 5");
  const ByteVector later = v4() ? Frame()
                                      .Ipv4({.source = kHost4,
                                             .destination = kFar4,
                                             .offset = 8,
                                             .protocol = kTestProtocol})
                                      .Payload(Pattern(100))
                                      .Build()
                                : Frame()
                                      .Ipv6({.source = kHost6, .destination = kFar6})
                                      .Fragment6({.offset = 8, .next_header = kTestProtocol})
                                      .Payload(Pattern(100))
                                      .Build();
  ExpectIgnored(Error(args, later), DropReason::kIcmpQuoteMismatch,
                "a later fragment has no ports");
  EXPECT_THAT(transport_.errors, IsEmpty());
  transport_.recognises = false;
  ExpectIgnored(Error(args, Quote(100)), DropReason::kIcmpQuoteMismatch,
                "transport does not know it");
}

TEST_P(IcmpInputTest, ErrorToAnotherAddressThanItQuotesIsIgnored) {
  const IpAddress second =
      v4() ? IpAddress(Ipv4Address(10, 0, 0, 22)) : IpAddress(*Ipv6Address::Parse("fd00::22"));
  ASSERT_TRUE(interface_->AddAddress({second, v4() ? 24 : 64}).ok());
  net_.Advance(std::chrono::seconds(20));
  net_.TakeSent();
  const ByteVector quote =
      (v4() ? Frame().Ipv4({.source = second.v4(), .destination = kFar4, .protocol = kTestProtocol})
            : Frame().Ipv6(
                  {.source = second.v6(), .destination = kFar6, .next_header = kTestProtocol}))
          .Payload(Pattern(100))
          .Build();
  ExpectIgnored(Error({.type = static_cast<uint8_t>(v4() ? 3 : 1)}, quote),
                DropReason::kIcmpQuoteMismatch);
}

TEST_P(IcmpInputTest, ErrorFromNobodyOrToAGroupIsIgnored) {
  const IcmpArgs args{.type = static_cast<uint8_t>(v4() ? 3 : 1)};
  if (v4()) {
    ExpectIgnored(Frame()
                      .Eth(kPeerMac, kBroadcastMac)
                      .Ipv4({.destination = {255, 255, 255, 255}})
                      .Icmpv4(args)
                      .Payload(Quote(100))
                      .Build(),
                  DropReason::kIcmpBadSource);
    ExpectIgnored(Frame()
                      .Eth(kPeerMac, kBroadcastMac)
                      .Ipv4({.source = kRouter4, .destination = {10, 0, 0, 255}})
                      .Icmpv4(args)
                      .Payload(Quote(100))
                      .Build(),
                  DropReason::kIcmpQuoteMismatch);
    return;
  }
  const Ipv6Address all = Ipv6Address::AllNodes();
  ExpectIgnored(Frame()
                    .Eth(kPeerMac, MulticastMac(all))
                    .Ipv6({.destination = all})
                    .Icmpv6(args)
                    .Payload(Quote(100))
                    .Build(),
                DropReason::kIcmpBadSource);
  ExpectIgnored(Frame()
                    .Eth(kPeerMac, MulticastMac(all))
                    .Ipv6({.source = kRouter6, .destination = all})
                    .Icmpv6(args)
                    .Payload(Quote(100))
                    .Build(),
                DropReason::kIcmpQuoteMismatch);
}

// ---- Path MTU ----

TEST_P(IcmpInputTest, TooBigLowersThePathMtu) {  // Covers: rfc:ICMP-05, rfc:PMTU6, rfc:MTU-1
  EXPECT_EQ(FarMtu(), 1500u);
  net_.Inject(TooBig(1400, Quote()));
  ASSERT_EQ(transport_.errors.size(), 1u);
  EXPECT_EQ(transport_.errors[0].info.kind, IcmpErrorKind::kPacketTooBig);
  EXPECT_EQ(transport_.errors[0].info.value, 1400u);
  EXPECT_EQ(FarMtu(), 1400u);
  EXPECT_EQ(RouteTo(v4() ? IpAddress(kPeer4) : IpAddress(kPeer6)).mtu, 1500u);
  EXPECT_EQ(stack_->drops().total(), 0u);
  EXPECT_EQ(counters().in_pkt_too_bigs.value(), v4() ? 0u : 1u);
}

TEST_P(IcmpInputTest, OnlyAKnownQuoteLowersThePathMtu) {  // Covers: rfc:MTU-1; RFC 5927 §4.1
  transport_.recognises = false;
  ExpectIgnored(TooBig(1400, Quote()), DropReason::kIcmpQuoteMismatch);
  EXPECT_EQ(FarMtu(), 1500u);
}

TEST_P(IcmpInputTest, TooBigNeverRaisesThePathMtu) {  // Covers: rfc:MTU-1, rfc:PMTU6
  net_.Inject(TooBig(1400, Quote()));
  ExpectIgnored(TooBig(1450, Quote()), DropReason::kIcmpPacketTooBigInvalid, "higher");
  ExpectIgnored(TooBig(1400, Quote()), DropReason::kIcmpPacketTooBigInvalid, "equal");
  EXPECT_EQ(FarMtu(), 1400u);
  net_.Inject(TooBig(1300, Quote()));
  EXPECT_EQ(FarMtu(), 1300u);
}

// RFC 5927 §7.2: what is said not to fit must have been larger.
TEST_P(IcmpInputTest, TooBigAboutWhatWouldHaveFittedIsIgnored) {  // Covers: rfc:ICMP-05
  const size_t header = v4() ? 20 : 40;
  ExpectIgnored(TooBig(1400, Quote(1400 - header)), DropReason::kIcmpPacketTooBigInvalid);
  ExpectIgnored(TooBig(9000, Quote()), DropReason::kIcmpPacketTooBigInvalid);
  EXPECT_THAT(transport_.errors, IsEmpty());
  net_.Inject(TooBig(1400, Quote(1401 - header)));
  EXPECT_EQ(FarMtu(), 1400u);
}

TEST_P(IcmpInputTest, TooBigBelowTheMinimum) {  // Covers: rfc:PMTU6, rfc:MTU-1
  if (v4()) {
    ExpectIgnored(TooBig(67, Quote()), DropReason::kIcmpPacketTooBigInvalid);  // RFC 1191 §3
    EXPECT_THAT(transport_.errors, IsEmpty());
    net_.Inject(TooBig(68, Quote()));
    EXPECT_EQ(FarMtu(), 552u);  // Linux: lower ones are taken as this
    return;
  }
  // RFC 8201 §4: discarded as a whole.
  for (const uint32_t mtu : {0u, 68u, 1279u}) {
    ExpectIgnored(TooBig(mtu, Quote()), DropReason::kIcmpPacketTooBigInvalid, std::to_string(mtu));
  }
  EXPECT_THAT(transport_.errors, IsEmpty());
  EXPECT_EQ(FarMtu(), 1500u);
  net_.Inject(TooBig(1280, Quote()));
  EXPECT_EQ(FarMtu(), 1280u);
}

// A router older than RFC 1191 says 0: the next plateau of its §7.1.
TEST_P(IcmpInputTest, FragmentationNeededWithoutAnMtu) {  // Covers: rfc:MTU-1
  if (!v4()) return;
  net_.Inject(TooBig(0, Quote(1480)));
  EXPECT_EQ(FarMtu(), 1492u);
  // The quoted length is smaller than what we might have sent: it did not fit.
  net_.Inject(TooBig(0, Quote(1300)));
  EXPECT_EQ(FarMtu(), 1006u);
  net_.Inject(TooBig(0, Quote(900)));
  EXPECT_EQ(FarMtu(), 552u);
  ExpectIgnored(TooBig(0, Quote(500)), DropReason::kIcmpPacketTooBigInvalid);
  EXPECT_EQ(FarMtu(), 552u);
}

// ---- What changes nothing ----

TEST_P(IcmpInputTest, UnknownTypesAreDropped) {  // Covers: rfc:ICMP-01, rfc:IC6-3
  for (const uint8_t type : v4() ? ByteVector{1, 2, 7, 9, 10, 14, 19, 29, 40, 42, 255}
                                 : ByteVector{138, 150, 160, 200, 255}) {
    ExpectIgnored(Error({.type = type}, Quote(100)), DropReason::kIcmpUnknownType,
                  std::to_string(type));
  }
  EXPECT_THAT(transport_.errors, IsEmpty());
}

TEST_P(IcmpInputTest, UnknownCodesOfIcmpv4ErrorsAreDropped) {
  if (!v4()) return;
  ExpectIgnored(Error({.type = 3, .code = 16}, Quote(100)), DropReason::kIcmpUnknownCode);
  ExpectIgnored(Error({.type = 11, .code = 2}, Quote(100)), DropReason::kIcmpUnknownCode);
  ExpectIgnored(Error({.type = 12, .code = 3}, Quote(100)), DropReason::kIcmpUnknownCode);
}

TEST_P(IcmpInputTest, SourceQuenchIsIgnored) {  // Covers: rfc:ICMP-07
  if (!v4()) return;
  ExpectIgnored(Error({.type = 4}, Quote(100)), DropReason::kIcmpSourceQuench);
  EXPECT_THAT(transport_.errors, IsEmpty());
}

TEST_P(IcmpInputTest, OldRequestsAreNotAnswered) {  // Covers: rfc:ICMP-12, bug:B65
  if (!v4()) return;
  ExpectIgnored(Error({.type = 13, .rest = 0x00010001}, ByteVector(12)),
                DropReason::kIcmpTimestampIgnored);
  for (const uint8_t type : ByteVector{6, 15, 16, 17, 18, 30, 37, 39}) {
    ExpectIgnored(Error({.type = type, .rest = 0x00010001}, ByteVector(4)),
                  DropReason::kIcmpDeprecated, std::to_string(type));
  }
}

TEST_P(IcmpInputTest, RedirectsAreIgnored) {  // Covers: bug:B71
  if (!v4()) return;
  const auto generation = stack_->route_generation();
  const auto redirect = [&](Ipv4Address from, Ipv4Address gateway, const ByteVector& quote) {
    return FromPeer()
        .Ipv4({.source = from, .destination = kHost4})
        .Icmpv4({.type = 5, .code = 1, .rest = gateway.value()})
        .Payload(quote)
        .Build();
  };
  ExpectIgnored(redirect(kPeer4, {10, 0, 0, 9}, Quote(8)), DropReason::kIcmpRedirectIgnored,
                "not from the gateway");
  ExpectIgnored(redirect(kRouter4, {172, 16, 0, 1}, Quote(8)), DropReason::kIcmpRedirectIgnored,
                "off-link gateway");
  ExpectIgnored(redirect(kRouter4, {10, 0, 0, 9}, ByteVector(28)), DropReason::kIcmpRedirectIgnored,
                "quotes nothing of ours");
  ExpectIgnored(redirect(kRouter4, {10, 0, 0, 9}, Quote(8)), DropReason::kIcmpRedirectIgnored,
                "all in order");
  EXPECT_EQ(counters().in_redirects.value(), 4u);
  EXPECT_EQ(stack_->route_generation(), generation);
  EXPECT_EQ(RouteTo(far()).next_hop, router());
  EXPECT_THAT(transport_.errors, IsEmpty());
}

TEST_P(IcmpInputTest, NeighborDiscoveryGoesToItsEngine) {
  if (v4()) return;
  const Ipv6Address group = *Ipv6Address::Parse("ff02::1:ff00:2");
  net_.Inject(Frame()
                  .Eth(kPeerMac, MulticastMac(group))
                  .Ipv6({.source = kPeer6, .destination = group, .hop_limit = 255})
                  .NeighborSolicitation({.target = kHost6, .link_address = kPeerMac})
                  .Build());
  EXPECT_THAT(net_.TakeSent(), ElementsAre(IsNa(DstIs(kPeer6), TargetIs(kHost6))));
  // A wrong checksum does not get there.
  net_.Inject(Frame()
                  .Eth(kPeerMac, MulticastMac(group))
                  .Ipv6({.source = kPeer6, .destination = group, .hop_limit = 255})
                  .NeighborSolicitation({.target = kHost6, .checksum = 1})
                  .Build());
  EXPECT_EQ(Drops(DropReason::kIcmpBadChecksum), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(IcmpInputTest, NoMemoryToReadAQuoteIsCounted) {
  const ByteVector bytes = Error({.type = static_cast<uint8_t>(v4() ? 3 : 1)}, Quote(1100));
  const size_t in_head = (v4() ? 20 : 40) + 8;
  PacketPtr packet = stack_->pool().AllocatePacket(in_head, kSmallSlabBytes - in_head);
  std::copy_n(bytes.begin() + 14, in_head, packet->Put(in_head).begin());
  SlabRef slab = stack_->pool().AllocateSlab(SlabClass::kSmall);
  std::copy(bytes.begin() + 14 + static_cast<std::ptrdiff_t>(in_head), bytes.end(), slab.data());
  ASSERT_TRUE(packet->AddFrag(slab, 0, bytes.size() - 14 - in_head));
  std::vector<SlabRef> hoard;
  for (const SlabClass c : {SlabClass::kJumbo, SlabClass::kLarge, SlabClass::kSmall}) {
    while (SlabRef taken = stack_->pool().AllocateSlab(c)) hoard.push_back(std::move(taken));
  }
  const DropReason reason = v4() ? stack_->ipv4().Input(std::move(packet), *interface_)
                                 : stack_->ipv6().Input(std::move(packet), *interface_);
  EXPECT_EQ(reason, DropReason::kLinkNoBuffer);
  EXPECT_THAT(transport_.errors, IsEmpty());
}

}  // namespace
}  // namespace tapwire
