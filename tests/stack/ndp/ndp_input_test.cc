// SPDX-License-Identifier: Apache-2.0
// Neighbor Discovery messages from the wire: which ones count (RFC 4861 §7.1), which are answered
// and how (§7.2). What the neighbour table makes of them is tested in neighbor_states_test.cc.
#include <functional>
#include <string>
#include <utility>

#include "netdev/base/log.h"
#include "stack/ndp/ndp.h"
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testutil::ByteVector;
using testutil::Frame;
using testutil::Hex;
using testutil::IsFrame;
using testutil::IsNs;
using testutil::kHost6;
using testutil::kHostMac;
using testutil::kOtherMac;
using testutil::kPeer6;
using testutil::kPeerMac;
using testutil::NdArgs;

const Ipv6Address kAllNodes = *Ipv6Address::Parse("ff02::1");
const Ipv6Address kAbsent6 = *Ipv6Address::Parse("2001:db8::77");
// RFC 4291 §2.7.1: ff02::1:ff00:0/104 and the last three bytes; RFC 2464 §7: 33:33 and the last
// four.
const Ipv6Address kHostSolicitedNode = *Ipv6Address::Parse("ff02::1:ff00:1");
constexpr MacAddress kAllNodesMac{0x33, 0x33, 0, 0, 0, 1};

// What may be wrong about an ND packet below its message.
struct Outer {
  Ipv6Address source = kPeer6;
  Ipv6Address destination = kHost6;
  uint8_t hop_limit = 255;
};

Frame FromPeer(const Outer& outer = {}) {
  const MacAddress to =
      outer.destination.IsMulticast() ? MulticastMac(outer.destination) : kHostMac;
  return Frame()
      .Eth(kPeerMac, to)
      .Ipv6(
          {.source = outer.source, .destination = outer.destination, .hop_limit = outer.hop_limit});
}

ByteVector Solicitation(const NdArgs& args, const Outer& outer = {}) {
  return FromPeer(outer).NeighborSolicitation(args).Build();
}
ByteVector Advertisement(const NdArgs& args, const Outer& outer = {}) {
  return FromPeer(outer).NeighborAdvertisement(args).Build();
}

// The answer to a solicitation for our address (RFC 4861 §7.2.4), byte for byte.
ByteVector Answer(const MacAddress& mac, const Ipv6Address& to, bool solicited) {
  return Frame()
      .Eth(kHostMac, mac)
      .Ipv6({.source = kHost6, .destination = to, .hop_limit = 255})
      .NeighborAdvertisement({.target = kHost6,
                              .link_address = kHostMac,
                              .solicited = solicited,
                              .override_flag = true})
      .Build();
}

class NdpInputTest : public testutil::HostTest {
 protected:
  void SetUp() override { Make(); }
  NeighborTable& neighbors() { return interface->neighbors(IpFamily::kV6); }
  uint64_t AllDrops() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kDropReasonCount; ++i) sum += drops(static_cast<DropReason>(i));
    return sum;
  }
  // The frame is dropped for `reason`, counted once, and leaves no trace.
  void ExpectDrop(const ByteVector& frame, DropReason reason) {
    const uint64_t before = drops(reason);
    const uint64_t all_before = AllDrops();
    net->Inject(frame);
    EXPECT_EQ(drops(reason), before + 1) << DropReasonName(reason);
    EXPECT_EQ(AllDrops(), all_before + 1);
    EXPECT_THAT(net->TakeSent(), IsEmpty());
    EXPECT_EQ(neighbors().size(), 0u);
    EXPECT_TRUE(interface->HasUsableAddress(kHost6));
  }
};

// ---- Solicitations for an address of ours ----

// Covers: rfc:ND-02 rfc:ND-03
TEST_F(NdpInputTest, MulticastSolicitationIsAnsweredAndTeachesTheMac) {
  net->Inject(Solicitation({.target = kHost6, .link_address = kPeerMac},
                           {.destination = kHostSolicitedNode}));
  EXPECT_THAT(net->TakeSent(), ElementsAre(IsFrame(Answer(kPeerMac, kPeer6, true))));
  // RFC 4861 §7.2.3: the entry is new, so STALE.
  ASSERT_TRUE(neighbors().Find(kPeer6).has_value());
  EXPECT_EQ(neighbors().Find(kPeer6)->mac, kPeerMac);
  EXPECT_EQ(stack->mib().icmp6.in_neighbor_solicits.value(), 1u);
  EXPECT_EQ(stack->mib().icmp6.out_neighbor_advertisements.value(), 1u);
  EXPECT_EQ(AllDrops(), 0u);
}

// Covers: rfc:ND-03
TEST_F(NdpInputTest, UnicastSolicitationIsAnsweredWithTheSameFlags) {
  ASSERT_TRUE(neighbors().AddPermanent(kPeer6, kPeerMac).ok());
  net->Inject(Solicitation({.target = kHost6}));  // RFC 4861 §7.2.2: the option may be left out
  EXPECT_THAT(net->TakeSent(), ElementsAre(IsFrame(Answer(kPeerMac, kPeer6, true))));
  EXPECT_EQ(AllDrops(), 0u);
}

TEST_F(NdpInputTest, AnswerToAnUnknownSolicitorWaitsForItsMac) {
  net->Inject(Solicitation({.target = kHost6}));
  EXPECT_THAT(net->TakeSent(),
              ElementsAre(IsNs(testutil::SrcIs(kHost6), testutil::TargetIs(kPeer6))));
  AnswerFor(kPeer6, kPeerMac);
  EXPECT_THAT(net->TakeSent(), ElementsAre(IsFrame(Answer(kPeerMac, kPeer6, true))));
}

// Covers: rfc:ND-02: a host that checks our address has none of its own to answer to
TEST_F(NdpInputTest, AddressCheckOfAnotherHostIsAnsweredToAllNodes) {
  net->Inject(Solicitation({.target = kHost6},
                           {.source = Ipv6Address(), .destination = kHostSolicitedNode}));
  EXPECT_THAT(net->TakeSent(), ElementsAre(IsFrame(Answer(kAllNodesMac, kAllNodes, false))));
  EXPECT_EQ(neighbors().size(), 0u);
  EXPECT_TRUE(interface->HasUsableAddress(kHost6));
}

TEST_F(NdpInputTest, SolicitationWithANewMacReplacesTheOld) {
  net->Inject(Solicitation({.target = kHost6, .link_address = kPeerMac}));
  net->Inject(Frame()
                  .Eth(kOtherMac, kHostMac)
                  .Ipv6({.source = kPeer6, .destination = kHost6, .hop_limit = 255})
                  .NeighborSolicitation({.target = kHost6, .link_address = kOtherMac})
                  .Build());
  EXPECT_THAT(net->TakeSent(), ElementsAre(IsFrame(Answer(kPeerMac, kPeer6, true)),
                                           IsFrame(Answer(kOtherMac, kPeer6, true))));
}

// Covers: rfc:ND-03
TEST_F(NdpInputTest, SolicitationForAnotherHostIsNotOurs) {
  const NdArgs absent{.target = kAbsent6, .link_address = kPeerMac};
  ExpectDrop(Solicitation(absent), DropReason::kNdpNotForUs);
  // Same last three bytes, so the same group.
  ExpectDrop(
      Solicitation({.target = *Ipv6Address::Parse("2001:db8:1::1"), .link_address = kPeerMac},
                   {.destination = kHostSolicitedNode}),
      DropReason::kNdpNotForUs);
  ExpectDrop(Solicitation({.target = Ipv6Address()}), DropReason::kNdpNotForUs);
}

// ---- Validation ----

struct BadMessage {
  const char* name;
  std::function<ByteVector()> frame;
  DropReason reason;
};

// By its name: the bytes of the struct would be addresses, other ones in each run.
void PrintTo(const BadMessage& message, std::ostream* out) { *out << message.name; }

const BadMessage kBadMessages[] = {
    {"SolicitationHopLimit254",
     [] { return Solicitation({.target = kHost6, .link_address = kPeerMac}, {.hop_limit = 254}); },
     DropReason::kNdpBadHopLimit},
    {"SolicitationHopLimit1",
     [] { return Solicitation({.target = kHost6, .link_address = kPeerMac}, {.hop_limit = 1}); },
     DropReason::kNdpBadHopLimit},
    {"AdvertisementHopLimit254",
     [] { return Advertisement({.target = kPeer6, .solicited = true}, {.hop_limit = 254}); },
     DropReason::kNdpBadHopLimit},
    {"SolicitationCode1",
     [] { return Solicitation({.target = kHost6, .link_address = kPeerMac, .code = 1}); },
     DropReason::kNdpBadCode},
    {"AdvertisementCode255", [] { return Advertisement({.target = kPeer6, .code = 255}); },
     DropReason::kNdpBadCode},
    {"SolicitationChecksum",
     [] { return Solicitation({.target = kHost6, .link_address = kPeerMac, .checksum = 0x1234}); },
     DropReason::kIcmpBadChecksum},
    {"AdvertisementOf8Bytes", [] { return FromPeer().Icmpv6({.type = 136}).Build(); },
     DropReason::kNdpTruncated},
    {"SolicitationOf23Bytes",
     [] { return FromPeer().Icmpv6({.type = 135}).Raw(testutil::Pattern(15)).Build(); },
     DropReason::kNdpTruncated},
    {"SolicitationOptionLength0",
     [] { return Solicitation({.target = kHost6, .more_options = Hex("0100 0200 0000 0002")}); },
     DropReason::kNdpBadOption},
    {"AdvertisementOptionLength0",
     [] { return Advertisement({.target = kPeer6, .more_options = Hex("ff00 0000 0000 0000")}); },
     DropReason::kNdpBadOption},
    {"OptionLength0BehindAGoodOne",
     [] {
       return Solicitation({.target = kHost6,
                            .link_address = kPeerMac,
                            .more_options = Hex("0e00 0000 0000 0000")});
     },
     DropReason::kNdpBadOption},
    {"OptionBeyondTheEnd",
     [] { return Solicitation({.target = kHost6, .more_options = Hex("0102 0200 0000 0002")}); },
     DropReason::kNdpBadOption},
    {"OptionOfOneByte", [] { return Solicitation({.target = kHost6, .more_options = Hex("01")}); },
     DropReason::kNdpBadOption},
    {"SourceMacIsAGroup",
     [] { return Solicitation({.target = kHost6, .link_address = kAllNodesMac}); },
     DropReason::kNdpBadOption},
    {"SourceMacIsZero",
     [] { return Solicitation({.target = kHost6, .link_address = MacAddress()}); },
     DropReason::kNdpBadOption},
    {"TargetMacIsBroadcast",
     [] { return Advertisement({.target = kPeer6, .link_address = MacAddress::kBroadcast()}); },
     DropReason::kNdpBadOption},
    {"SolicitationTargetIsAGroup",
     [] { return Solicitation({.target = kHostSolicitedNode, .link_address = kPeerMac}); },
     DropReason::kNdpBadTarget},
    {"AdvertisementTargetIsAGroup", [] { return Advertisement({.target = kAllNodes}); },
     DropReason::kNdpBadTarget},
    // RFC 4861 §7.1.1: from :: only to a solicited-node group, and without a link-layer address.
    {"UnspecifiedSourceToAllNodes",
     [] {
       return Solicitation({.target = kHost6}, {.source = Ipv6Address(), .destination = kAllNodes});
     },
     DropReason::kNdpBadDestination},
    {"UnspecifiedSourceWithALinkAddress",
     [] {
       return Solicitation({.target = kHost6, .link_address = kPeerMac},
                           {.source = Ipv6Address(), .destination = kHostSolicitedNode});
     },
     DropReason::kNdpBadOption},
    // RFC 4861 §7.1.2.
    {"SolicitedAdvertisementToAGroup",
     [] {
       return Advertisement({.target = kPeer6, .link_address = kPeerMac, .solicited = true},
                            {.destination = kAllNodes});
     },
     DropReason::kNdpBadDestination},
    {"AtomicFragment",
     [] {
       return FromPeer()
           .Fragment6({.more = false})
           .NeighborSolicitation({.target = kHost6, .link_address = kPeerMac})
           .Build();
     },
     DropReason::kNdpFragmented},
    // Not for hosts, or switched off.
    {"RouterSolicitation",
     [] { return FromPeer({.destination = kAllNodes}).Icmpv6({.type = 133}).Build(); },
     DropReason::kNdpNotARouter},
    {"RouterAdvertisement",
     [] {
       return FromPeer({.source = *Ipv6Address::Parse("fe80::1"), .destination = kAllNodes})
           .Icmpv6({.type = 134, .rest = 0x40000708})
           .Raw(Hex("00000000 00000000"))
           .Build();
     },
     DropReason::kNdpRouterAdIgnored},
    {"Redirect",
     [] {
       return FromPeer({.source = *Ipv6Address::Parse("fe80::1")})
           .Icmpv6({.type = 137})
           .Raw(testutil::Pattern(32))
           .Build();
     },
     DropReason::kIcmpRedirectIgnored},
    {"RedirectWithoutItsTarget",
     [] {
       return FromPeer({.source = *Ipv6Address::Parse("fe80::1")}).Icmpv6({.type = 137}).Build();
     },
     DropReason::kIcmpRedirectIgnored},
};

class NdpBadMessageTest : public NdpInputTest, public ::testing::WithParamInterface<BadMessage> {};

INSTANTIATE_TEST_SUITE_P(All, NdpBadMessageTest, ::testing::ValuesIn(kBadMessages),
                         [](const auto& bad) { return bad.param.name; });

// Covers: rfc:ND-01 rfc:ND-03 rfc:ND-11 rfc:ND-14 bug:B82
TEST_P(NdpBadMessageTest, IsDroppedAndLeavesNoTrace) {
  ExpectDrop(GetParam().frame(), GetParam().reason);
}

// Covers: rfc:ND-11 RFC 6980 §5
TEST_F(NdpInputTest, MessageInFragmentsIsIgnored) {
  const Frame whole = FromPeer().NeighborSolicitation({.target = kHost6, .link_address = kPeerMac});
  for (const ByteVector& fragment : whole.BuildFragments(24, 7)) net->Inject(fragment);
  EXPECT_EQ(drops(DropReason::kNdpFragmented), 1u);
  EXPECT_THAT(net->TakeSent(), IsEmpty());
  EXPECT_EQ(neighbors().size(), 0u);
}

// Covers: rfc:ND-01 bug:B82: every length that a message may be cut to, with the right checksum
TEST_F(NdpInputTest, MessageCutAnywhereIsNeverTakenForAWholeOne) {
  ByteVector body = Hex("00000000");
  const ByteVector target(kHost6.bytes().begin(), kHost6.bytes().end());
  body.insert(body.end(), target.begin(), target.end());
  const ByteVector options = Hex("0101 020000000002  0e01 a1a2a3a4a5a6");
  body.insert(body.end(), options.begin(), options.end());
  for (const uint8_t type : {uint8_t{135}, uint8_t{136}}) {
    for (size_t length = 4; length < body.size(); ++length) {
      if (length == 20 || length == 28) continue;  // whole: between two options
      SCOPED_TRACE(length);
      const ByteVector cut(body.begin() + 4, body.begin() + static_cast<std::ptrdiff_t>(length));
      ExpectDrop(FromPeer().Icmpv6({.type = type}).Raw(cut).Build(),
                 length < 20 ? DropReason::kNdpTruncated : DropReason::kNdpBadOption);
    }
  }
}

// Covers: bug:B82 RFC 4861 §4.6: unknown options, and known ones of another length, are skipped
TEST_F(NdpInputTest, OptionsThatMeanNothingAreSkipped) {
  ASSERT_TRUE(neighbors().AddPermanent(kPeer6, kPeerMac).ok());
  const char* const options[] = {
      "c801 000000000000",                                       // unknown
      "0102 020000000099 0000000000000000",                      // source address of 14 bytes
      "0303 4040 00000000 00000000 00000000 20010db8 00000000",  // prefix cut to 24 bytes
      "0304 c8c0 ffffffff ffffffff 00000000 20010db8 00000000 00000000 00000000",  // prefix of 200
                                                                                   // bits
      "0501 0000 00000001",                                                        // an MTU of one
  };
  for (const char* option : options) {
    SCOPED_TRACE(option);
    net->Inject(Solicitation({.target = kHost6, .more_options = Hex(option)}));
    EXPECT_THAT(net->TakeSent(), ElementsAre(IsFrame(Answer(kPeerMac, kPeer6, true))));
  }
  EXPECT_EQ(neighbors().Find(kPeer6)->mac, kPeerMac);
  EXPECT_EQ(interface->addresses().size(), 2u);
}

// ---- Advertisements ----

// Covers: rfc:ND-06
TEST_F(NdpInputTest, AdvertisementNobodyAskedForIsDropped) {
  ExpectDrop(Advertisement({.target = kPeer6, .link_address = kPeerMac, .override_flag = true},
                           {.destination = kAllNodes}),
             DropReason::kNdpNoEntry);
  EXPECT_EQ(stack->mib().icmp6.in_neighbor_advertisements.value(), 1u);
}

// Covers: rfc:ND-06: the flags are read from the right bits and the MAC from the right option
TEST_F(NdpInputTest, AdvertisementCompletesAResolution) {
  SendTo(kPeer6);
  net->Run();
  net->TakeSent();
  // No target link-layer address: nothing learned (RFC 4861 §7.2.5). A source one does not count.
  net->Inject(Advertisement({.target = kPeer6, .solicited = true}));
  net->Inject(Advertisement(
      {.target = kPeer6, .solicited = true, .more_options = Hex("0101 020000000002")}));
  EXPECT_EQ(drops(DropReason::kNdpIgnored), 2u);
  EXPECT_EQ(neighbors().Find(kPeer6)->state, NeighborState::kIncomplete);
  net->Inject(Advertisement(
      {.target = kPeer6, .link_address = kPeerMac, .router = true, .solicited = true}));
  EXPECT_EQ(neighbors().Find(kPeer6)->state, NeighborState::kReachable);
  EXPECT_TRUE(neighbors().Find(kPeer6)->is_router);
  EXPECT_EQ(net->TakeSent().size(), 1u);  // the datagram

  // Another MAC without O: not replaced, but no longer trusted.
  net->Inject(Advertisement({.target = kPeer6, .link_address = kOtherMac}));
  EXPECT_EQ(neighbors().Find(kPeer6)->mac, kPeerMac);
  EXPECT_EQ(neighbors().Find(kPeer6)->state, NeighborState::kStale);
  EXPECT_TRUE(neighbors().Find(kPeer6)->is_router);
  // Once more: STALE ignores it.
  net->Inject(Advertisement({.target = kPeer6, .link_address = kOtherMac}));
  EXPECT_EQ(drops(DropReason::kNdpIgnored), 3u);
  // With O it is taken, R being clear now.
  net->Inject(Advertisement({.target = kPeer6, .link_address = kOtherMac, .override_flag = true}));
  EXPECT_EQ(neighbors().Find(kPeer6)->mac, kOtherMac);
  EXPECT_FALSE(neighbors().Find(kPeer6)->is_router);
}

class CountingSink final : public LogSink {
 public:
  CountingSink() : before_(SetLogSink(this)) {}
  ~CountingSink() override { SetLogSink(before_); }
  void Write(LogLevel, const char*, int, absl::string_view) override { ++lines; }
  int lines = 0;

 private:
  LogSink* before_;
};

// RFC 4862 §5.4.4 leaves an address in use alone; and nobody may fill the operator's log.
TEST_F(NdpInputTest, ClaimOfAnAddressInUseIsCountedAndTheAddressKept) {
  CountingSink log;
  for (int i = 0; i < 100; ++i) {
    ExpectDrop(Advertisement({.target = kHost6, .link_address = kPeerMac, .override_flag = true},
                             {.destination = kAllNodes}),
               DropReason::kNdpDadConflict);
  }
  EXPECT_EQ(log.lines, 1);
}

}  // namespace
}  // namespace tapwire
