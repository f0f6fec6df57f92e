// SPDX-License-Identifier: Apache-2.0
// Duplicate address detection (RFC 4862 §5.4, with the nonce of RFC 7527) and the announcements
// that follow it (RFC 4861 §7.2.6).
#include <chrono>
#include <set>
#include <utility>

#include "netdev/veth.h"
#include "stack/ndp/ndp.h"
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;
using testutil::ByteVector;
using testutil::Frame;
using testutil::Hex;
using testutil::IsFrame;
using testutil::IsMldReport;
using testutil::IsNa;
using testutil::IsNs;
using testutil::kHost6;
using testutil::kHostMac;
using testutil::kOtherMac;
using testutil::kPeer6;
using testutil::kPeerMac;

const Ipv6Address kAllNodes = *Ipv6Address::Parse("ff02::1");
const Ipv6Address kHostSolicitedNode = *Ipv6Address::Parse("ff02::1:ff00:1");
constexpr MacAddress kHostSolicitedNodeMac{0x33, 0x33, 0xff, 0, 0, 1};
constexpr MacAddress kAllNodesMac{0x33, 0x33, 0, 0, 0, 1};
constexpr size_t kNonceAt = 14 + 40 + 24;  // the option, in the frame of a probe

class NdpDadTest : public testutil::HostTest {
 protected:
  static StackConfig Checking() {
    StackConfig config;
    config.link_local_address = false;
    return config;
  }
  void SetUp() override { Start(Checking()); }
  void Start(StackConfig config, uint64_t seed = 1) {
    interface = nullptr;
    stack.reset();
    testutil::NetHarness::Options options;
    options.seed = seed;
    Make(config, /*addresses=*/false, options);
    interface->SetAddressCallback([this](const IpAddress& address, bool duplicate) {
      outcomes.emplace_back(address, duplicate);
    });
  }
  void Add(bool skip_dad = false) {
    ASSERT_TRUE(interface->AddAddress({kHost6, 64}, skip_dad).ok());
    start = net->now();
  }
  // How far the address has come: what has been sent about it.
  enum Phase : size_t { kDelay = 0, kProbed = 1, kAnnounced = 2 };
  static constexpr Phase kWhileTentative[] = {kDelay, kProbed};
  static constexpr Phase kAlways[] = {kDelay, kProbed, kAnnounced};
  void AdvanceTo(Phase phase) {
    const auto nd = ::testing::AnyOf(IsNs(), IsNa());
    const auto sent = [&] {
      size_t count = 0;
      for (const ByteVector& frame : net->Sent()) count += ::testing::Matches(nd)(frame) ? 1 : 0;
      return count;
    };
    for (int i = 0; i < 500 && sent() < phase; ++i) net->Advance(10ms);
    ASSERT_EQ(sent(), phase);
  }
  AddressState State() { return interface->FindAddress(kHost6)->state; }
  struct Sent {
    double at;  // seconds since the address was added
    ByteVector bytes;
  };
  // ND frames since the last call.
  std::vector<Sent> TakeNd() {
    std::vector<Sent> result;
    for (testutil::SentFrame& frame : net->TakeSentFrames()) {
      if (::testing::Matches(IsMldReport())(frame.bytes)) continue;
      result.push_back(
          {std::chrono::duration<double>(frame.time - start).count(), std::move(frame.bytes)});
    }
    return result;
  }
  // The probe of another host for `target`.
  static ByteVector OtherProbe(const Ipv6Address& target, const ByteVector& nonce_option = {}) {
    const Ipv6Address group = target.SolicitedNode();
    return Frame()
        .Eth(kPeerMac, MulticastMac(group))
        .Ipv6({.source = Ipv6Address(), .destination = group, .hop_limit = 255})
        .NeighborSolicitation({.target = target, .more_options = nonce_option})
        .Build();
  }
  static ByteVector Claim(const Ipv6Address& target, const MacAddress& mac = kPeerMac) {
    return Frame()
        .Eth(mac, kAllNodesMac)
        .Ipv6({.source = target, .destination = kAllNodes, .hop_limit = 255})
        .NeighborAdvertisement({.target = target, .link_address = mac, .override_flag = true})
        .Build();
  }
  void ExpectGivenUp() {
    EXPECT_EQ(State(), AddressState::kDuplicated);
    EXPECT_EQ(drops(DropReason::kNdpDadConflict), 1u);
    EXPECT_EQ(stack->mib().arp.conflicts.value(), 1u);
    TakeNd();
    net->Advance(30s);
    EXPECT_THAT(TakeNd(), IsEmpty());
    EXPECT_FALSE(interface->HasUsableAddress(kHost6));
    EXPECT_THAT(outcomes, ElementsAre(std::pair(IpAddress(kHost6), true)));
    outcomes.clear();
  }

  std::vector<std::pair<IpAddress, bool>> outcomes;
  Time start;
};

// ---- An address that is free ----

// Covers: rfc:SLAAC-1 rfc:SLAAC-5 rfc:ND-14 RFC 4862 §5.4.2
TEST_F(NdpDadTest, ProbesOnceThenUsesAndAnnouncesTheAddress) {
  std::set<ByteVector> nonces;
  std::set<double> delays;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Start(Checking(), seed);
    Add();
    EXPECT_EQ(State(), AddressState::kTentative);
    net->Advance(20s);
    const std::vector<Sent> sent = TakeNd();
    ASSERT_THAT(sent, SizeIs(3));
    EXPECT_THAT(sent[0].at, AllOf(Ge(0.0), Le(1.0)));  // MAX_RTR_SOLICITATION_DELAY
    delays.insert(sent[0].at);
    ASSERT_EQ(sent[0].bytes.size(), kNonceAt + 8);
    // RFC 3971 §5.3.2: type 14, one unit of eight bytes.
    const ByteVector option(sent[0].bytes.begin() + kNonceAt, sent[0].bytes.end());
    EXPECT_EQ(option[0], 14);
    EXPECT_EQ(option[1], 1);
    nonces.insert(option);
    EXPECT_THAT(sent[0].bytes,
                IsFrame(Frame()
                            .Eth(kHostMac, kHostSolicitedNodeMac)
                            .Ipv6({.source = Ipv6Address(),
                                   .destination = kHostSolicitedNode,
                                   .hop_limit = 255})
                            .NeighborSolicitation({.target = kHost6, .more_options = option})
                            .Build()));
    const ByteVector announcement =
        Frame()
            .Eth(kHostMac, kAllNodesMac)
            .Ipv6({.source = kHost6, .destination = kAllNodes, .hop_limit = 255})
            .NeighborAdvertisement(
                {.target = kHost6, .link_address = kHostMac, .override_flag = true})
            .Build();
    EXPECT_NEAR(sent[1].at - sent[0].at, 1.0, 1e-9);  // RetransTimer
    EXPECT_NEAR(sent[2].at - sent[1].at, 1.0, 1e-9);  // RFC 4861 §7.2.6: at least RetransTimer
    EXPECT_THAT(sent[1].bytes, IsFrame(announcement));
    EXPECT_THAT(sent[2].bytes, IsFrame(announcement));
    EXPECT_EQ(State(), AddressState::kPreferred);
    EXPECT_EQ(net->context().timers().armed_count(), 0u);
  }
  EXPECT_THAT(nonces, SizeIs(20));
  EXPECT_GT(delays.size(), 15u);
  EXPECT_THAT(outcomes, SizeIs(20));
  EXPECT_THAT(outcomes, ::testing::Each(std::pair(IpAddress(kHost6), false)));
}

// Covers: rfc:SLAAC-1
TEST_F(NdpDadTest, ProbesAreAsManyAsConfiguredAndRetransTimerApart) {
  StackConfig config = Checking();
  config.dad_transmits = 3;
  config.retrans_timer = 400ms;
  config.announce_addresses = false;
  Start(config);
  Add();
  net->Advance(20s);
  const std::vector<Sent> sent = TakeNd();
  ASSERT_THAT(sent, SizeIs(3));
  EXPECT_NEAR(sent[1].at - sent[0].at, 0.4, 1e-9);
  EXPECT_NEAR(sent[2].at - sent[1].at, 0.4, 1e-9);
  for (const Sent& probe : sent) EXPECT_THAT(probe.bytes, IsNs(testutil::TargetIs(kHost6)));
  EXPECT_EQ(State(), AddressState::kPreferred);
}

// RFC 4862 §5.4: nothing but DAD itself may use it.
TEST_F(NdpDadTest, TentativeAddressIsSilent) {
  Add();
  AdvanceTo(kProbed);
  TakeNd();
  // A resolution by a neighbour is ignored, and its MAC not learned.
  net->Inject(Frame()
                  .Eth(kPeerMac, kHostSolicitedNodeMac)
                  .Ipv6({.source = kPeer6, .destination = kHostSolicitedNode, .hop_limit = 255})
                  .NeighborSolicitation({.target = kHost6, .link_address = kPeerMac})
                  .Build());
  EXPECT_EQ(drops(DropReason::kNdpNotForUs), 1u);
  EXPECT_EQ(interface->neighbors(IpFamily::kV6).size(), 0u);
  net->Inject(Frame()
                  .Eth(kPeerMac, kHostMac)
                  .Ipv6({.source = kPeer6, .destination = kHost6})
                  .Echo6({})
                  .Build());
  EXPECT_EQ(drops(DropReason::kIpv6TentativeDestination), 1u);
  EXPECT_FALSE(stack->FindRoute({.destination = kPeer6}).ok());
  EXPECT_EQ(State(), AddressState::kTentative);
  EXPECT_THAT(TakeNd(), ::testing::Each(::testing::Field(&Sent::bytes, IsNs())));
}

TEST_F(NdpDadTest, SkippedDetectionAnnouncesAtOnce) {
  Add(/*skip_dad=*/true);
  EXPECT_EQ(State(), AddressState::kPreferred);
  net->Advance(10s);
  const std::vector<Sent> sent = TakeNd();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].at, 0.0);
  EXPECT_NEAR(sent[1].at, 1.0, 1e-9);
}

// ---- An address that is taken ----

// Covers: rfc:SLAAC-1 RFC 4862 §5.4.3: before and after our own probe
TEST_F(NdpDadTest, ProbeOfAnotherHostIsAConflict) {
  for (const Phase phase : kWhileTentative) {
    for (const ByteVector& nonce : {ByteVector(), Hex("0e01 010203040506")}) {
      Start(Checking());
      Add();
      AdvanceTo(phase);
      ASSERT_EQ(State(), AddressState::kTentative);
      net->Inject(OtherProbe(kHost6, nonce));
      ExpectGivenUp();
    }
  }
}

// Covers: rfc:SLAAC-1 RFC 4862 §5.4.4
TEST_F(NdpDadTest, AdvertisementOfTheAddressIsAConflict) {
  for (const Phase phase : kWhileTentative) {
    Start(Checking());
    Add();
    AdvanceTo(phase);
    net->Inject(Claim(kHost6));
    ExpectGivenUp();
    EXPECT_EQ(interface->neighbors(IpFamily::kV6).size(), 0u);
  }
}

// Covers: bug:B82: what does not pass validation proves nothing
TEST_F(NdpDadTest, BrokenMessagesAreNoConflict) {
  Add();
  AdvanceTo(kProbed);
  net->Inject(OtherProbe(kHost6, Hex("0e00 010203040506")));
  EXPECT_EQ(drops(DropReason::kNdpBadOption), 1u);
  net->Inject(OtherProbe(kHost6, Hex("0101 020000000002")));  // :: with a link-layer address
  EXPECT_EQ(drops(DropReason::kNdpBadOption), 2u);
  net->Inject(OtherProbe(*Ipv6Address::Parse("2001:db8:1::1")));  // same group, other address
  EXPECT_EQ(drops(DropReason::kNdpNotForUs), 1u);
  net->Inject(Frame()
                  .Eth(kPeerMac, kHostSolicitedNodeMac)
                  .Ipv6({.source = {}, .destination = kHostSolicitedNode, .hop_limit = 64})
                  .NeighborSolicitation({.target = kHost6})
                  .Build());
  EXPECT_EQ(drops(DropReason::kNdpBadHopLimit), 1u);
  net->Advance(5s);
  EXPECT_EQ(State(), AddressState::kPreferred);
}

// Covers: rfc:SLAAC-5 RFC 7527 §4.2: a probe that a link reflects proves nothing
TEST_F(NdpDadTest, OwnProbeThatComesBackIsNoConflict) {
  Add();
  AdvanceTo(kProbed);
  std::vector<Sent> sent = TakeNd();
  ASSERT_THAT(sent, SizeIs(1));
  net->Inject(sent[0].bytes);
  EXPECT_EQ(drops(DropReason::kLinkSourceOwn), 1u);
  // Through a bridge that rewrites the source.
  std::copy(kOtherMac.bytes().begin(), kOtherMac.bytes().end(), sent[0].bytes.begin() + 6);
  net->Inject(sent[0].bytes);
  EXPECT_EQ(drops(DropReason::kNdpDadLoopback), 1u);
  EXPECT_EQ(State(), AddressState::kTentative);
  // One bit of the nonce makes it the probe of somebody else.
  ByteVector option(sent[0].bytes.begin() + kNonceAt, sent[0].bytes.end());
  option.back() ^= 1;
  net->Inject(OtherProbe(kHost6, option));
  ExpectGivenUp();
}

// Covers: rfc:SLAAC-1: of two hosts that want the same address at the same time not both get it
TEST_F(NdpDadTest, SimultaneousDetectionNeverGivesTheAddressTwice) {
  StackConfig config = Checking();
  config.announce_addresses = false;
  int owners_seen[3] = {};
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    testutil::NetHarness::Options options;
    options.seed = seed;
    testutil::NetHarness lab(options);
    const auto pair = netdev::CreateVethPair(lab.context(), {});
    ASSERT_TRUE(pair.ok()) << pair.status();
    Stack a(lab.context(), config), b(lab.context(), config);
    Interface* ia = *a.AddInterface(*pair->first);
    Interface* ib = *b.AddInterface(*pair->second);
    ASSERT_TRUE(pair->first->Up().ok());
    ASSERT_TRUE(pair->second->Up().ok());
    ASSERT_TRUE(ia->AddAddress({kHost6, 64}).ok());
    ASSERT_TRUE(ib->AddAddress({kHost6, 64}).ok());
    lab.Advance(5s);
    const int owners = ia->HasUsableAddress(kHost6) + ib->HasUsableAddress(kHost6);
    ASSERT_LE(owners, 1) << "seed " << seed;
    ++owners_seen[owners];
  }
  EXPECT_GT(owners_seen[1], 0);
}

// The host that has the address is a neighbour like any other.
TEST_F(NdpDadTest, OwnerOfTheAddressCanBeTalkedTo) {
  ASSERT_TRUE(interface->AddAddress({*Ipv6Address::Parse("2001:db8::9"), 64}, true).ok());
  Add();
  net->Inject(Claim(kHost6));
  net->Advance(5s);
  ASSERT_EQ(State(), AddressState::kDuplicated);
  TakeNd();
  SendTo(kHost6);
  net->Run();
  EXPECT_THAT(TakeNd(),
              ElementsAre(::testing::Field(&Sent::bytes, IsNs(testutil::TargetIs(kHost6)))));
  net->Inject(Claim(kHost6));
  EXPECT_THAT(
      TakeNd(),
      ElementsAre(::testing::Field(
          &Sent::bytes, testutil::IsIpv6(testutil::DstIs(kHost6), testutil::EthDstIs(kPeerMac)))));
  EXPECT_EQ(drops(DropReason::kNdpDadConflict), 1u);  // the one at the start
  // And asks us for nothing: we do not answer for it.
  net->Inject(OtherProbe(kHost6));
  EXPECT_EQ(drops(DropReason::kNdpNotForUs), 1u);
}

// ---- The end of it ----

TEST_F(NdpDadTest, RemovalEndsProbesAndAnnouncements) {
  for (const Phase phase : kAlways) {
    Start(Checking());
    outcomes.clear();
    Add();
    AdvanceTo(phase);
    TakeNd();
    ASSERT_TRUE(interface->RemoveAddress(kHost6).ok());
    net->Advance(5s);
    EXPECT_THAT(TakeNd(), IsEmpty());
    EXPECT_EQ(net->context().timers().armed_count(), 0u);
    EXPECT_THAT(outcomes, SizeIs(phase == kAnnounced ? 1 : 0));
  }
}

TEST_F(NdpDadTest, DeviceDownStopsTheCheckAndUpStartsAnother) {
  Add();
  AdvanceTo(kProbed);
  device().Down();
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
  TakeNd();
  net->Advance(10s);
  EXPECT_THAT(TakeNd(), IsEmpty());
  EXPECT_EQ(State(), AddressState::kTentative);
  ASSERT_TRUE(device().Up().ok());
  net->Advance(10s);
  EXPECT_THAT(TakeNd(), SizeIs(3));
  EXPECT_EQ(State(), AddressState::kPreferred);
}

// Covers: rfc:ND-17 RFC 4861 §7.2.6: a new MAC is announced, and an announcement under way replaced
TEST_F(NdpDadTest, NewMacIsAnnouncedTwice) {
  Add(/*skip_dad=*/true);
  net->Advance(500ms);
  TakeNd();
  ASSERT_TRUE(device().SetMac(kOtherMac).ok());
  net->Advance(10s);
  const std::vector<Sent> sent = TakeNd();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_NEAR(sent[1].at - sent[0].at, 1.0, 1e-9);
  for (const Sent& s : sent) {
    EXPECT_THAT(s.bytes, IsNa(testutil::EthSrcIs(kOtherMac), testutil::NaFlagsAre("O"),
                              testutil::TargetLinkAddressIs(kOtherMac)));
  }
}

// The harness complains about timers that outlive the stack.
TEST_F(NdpDadTest, StackMayGoInTheMiddleOfIt) {
  for (const Phase phase : kAlways) {
    Start(Checking());
    Add();
    AdvanceTo(phase);
    EXPECT_GT(net->context().timers().armed_count(), 0u);
    interface = nullptr;
    stack.reset();
    EXPECT_EQ(net->context().timers().armed_count(), 0u);
    net->Advance(10s);
  }
}

}  // namespace
}  // namespace tapwire
