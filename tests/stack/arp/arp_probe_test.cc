// SPDX-License-Identifier: Apache-2.0
// RFC 5227: probing, announcing and defending an IPv4 address. The times are those of §1.1.
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
using testutil::ArpArgs;
using testutil::ByteVector;
using testutil::EthDstIs;
using testutil::Frame;
using testutil::IsArpReply;
using testutil::IsArpRequest;
using testutil::kHost4;
using testutil::kHostMac;
using testutil::kPeer4;
using testutil::kPeerMac;
using testutil::SenderIpIs;
using testutil::SenderMacIs;
using testutil::TargetIpIs;
using testutil::TargetMacIs;

class ArpProbeTest : public testutil::HostTest {
 protected:
  static StackConfig Probing() {
    StackConfig config;
    config.arp_probe = true;
    config.link_local_address = false;
    return config;
  }
  void SetUp() override { Start(Probing()); }
  void Start(StackConfig config, uint64_t seed = 1) {
    interface = nullptr;
    stack.reset();
    testutil::NetHarness::Options options;
    options.seed = seed;
    Make(config, /*addresses=*/false, options);
    interface->SetAddressCallback([this](const IpAddress& address, bool duplicate) {
      outcomes.emplace_back(address, duplicate);
    });
    start = net->now();
  }
  void Add(bool skip_dad = false) {
    ASSERT_TRUE(interface->AddAddress({kHost4, 24}, skip_dad).ok());
    start = net->now();
  }
  void Receive(const ArpArgs& arp) {
    net->Inject(Frame().Eth(arp.sender_mac, MacAddress::kBroadcast()).Arp(arp).Build());
  }
  AddressState State() { return interface->FindAddress(kHost4)->state; }
  struct Sent {
    double at;
    ByteVector bytes;
  };
  // ARP frames since the last call, with seconds since the address was added.
  std::vector<Sent> TakeArp() {
    std::vector<Sent> result;
    for (testutil::SentFrame& frame : net->TakeSentFrames()) {
      if (!testutil::Dissect(frame.bytes).arp) continue;
      result.push_back(
          {std::chrono::duration<double>(frame.time - start).count(), std::move(frame.bytes)});
    }
    return result;
  }

  std::vector<std::pair<IpAddress, bool>> outcomes;
  Time start;
};

// Covers: rfc:ARP-9 rfc:ARP-7 RFC 5227 §2.1.1, §2.3
TEST_F(ArpProbeTest, ProbesThreeTimesThenAnnouncesTwice) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Start(Probing(), seed);
    Add();
    EXPECT_EQ(State(), AddressState::kTentative);
    net->Advance(20s);
    const auto sent = TakeArp();
    ASSERT_THAT(sent, SizeIs(5));
    EXPECT_THAT(sent[0].at, AllOf(Ge(0.0), Le(1.0)));               // PROBE_WAIT
    EXPECT_THAT(sent[1].at - sent[0].at, AllOf(Ge(1.0), Le(2.0)));  // PROBE_MIN, PROBE_MAX
    EXPECT_THAT(sent[2].at - sent[1].at, AllOf(Ge(1.0), Le(2.0)));
    EXPECT_NEAR(sent[3].at - sent[2].at, 2.0, 1e-9);  // ANNOUNCE_WAIT
    EXPECT_NEAR(sent[4].at - sent[3].at, 2.0, 1e-9);  // ANNOUNCE_INTERVAL
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(
          sent[static_cast<size_t>(i)].bytes,
          IsArpRequest(EthDstIs(MacAddress::kBroadcast()), SenderMacIs(kHostMac),
                       SenderIpIs(Ipv4Address()), TargetMacIs(MacAddress()), TargetIpIs(kHost4)));
    }
    for (const Sent& announcement : {sent[3], sent[4]}) {
      EXPECT_THAT(announcement.bytes,
                  IsArpRequest(EthDstIs(MacAddress::kBroadcast()), SenderMacIs(kHostMac),
                               SenderIpIs(kHost4), TargetIpIs(kHost4)));
    }
    EXPECT_EQ(State(), AddressState::kPreferred);
  }
  EXPECT_THAT(outcomes, SizeIs(20));
  EXPECT_THAT(outcomes, ::testing::Each(std::pair(IpAddress(kHost4), false)));
}

// RFC 5227 §2.1.1: the address must not be used before.
TEST_F(ArpProbeTest, AddressIsNotUsedWhileItIsProbed) {
  Add();
  EXPECT_FALSE(interface->HasUsableAddress(kHost4));
  EXPECT_FALSE(stack->FindRoute({.destination = kPeer4}).ok());
  Receive({.sender_mac = kPeerMac, .sender_ip = kPeer4, .target_ip = kHost4});
  net->Run();
  EXPECT_THAT(TakeArp(), IsEmpty());  // no reply
  net->Advance(10s);
  EXPECT_TRUE(stack->FindRoute({.destination = kPeer4}).ok());
}

// Covers: rfc:ARP-7 RFC 5227 §2.1.1: "any ARP packet … where the sender IP address is the address
// being probed for"
TEST_F(ArpProbeTest, AnyPacketFromTheAddressIsAConflict) {
  for (const uint16_t operation : {uint16_t{1}, uint16_t{2}}) {
    Start(Probing());
    Add();
    net->Advance(1500ms);
    TakeArp();
    Receive({.operation = operation,
             .sender_mac = kPeerMac,
             .sender_ip = kHost4,
             .target_mac = kHostMac,
             .target_ip = operation == 1 ? kPeer4 : Ipv4Address()});
    EXPECT_EQ(State(), AddressState::kDuplicated);
    EXPECT_EQ(drops(DropReason::kArpConflict), 1u);
    EXPECT_EQ(stack->mib().arp.conflicts.value(), 1u);
    net->Advance(30s);
    EXPECT_THAT(TakeArp(), IsEmpty());
    EXPECT_FALSE(interface->HasUsableAddress(kHost4));
  }
  EXPECT_THAT(outcomes,
              ElementsAre(std::pair(IpAddress(kHost4), true), std::pair(IpAddress(kHost4), true)));
}

// RFC 5227 §2.1.1: another host's probe for the same address, both at the same time.
TEST_F(ArpProbeTest, ProbeOfAnotherHostIsAConflictOursIsNot) {
  Add();
  net->Advance(1s);
  // Our own probe comes back through a hub or a bonded link.
  net->Inject(Frame()
                  .Eth(kPeerMac, MacAddress::kBroadcast())
                  .Arp({.sender_mac = kHostMac, .target_ip = kHost4})
                  .Build());
  EXPECT_EQ(State(), AddressState::kTentative);
  Receive({.sender_mac = kPeerMac, .target_ip = kPeer4});  // for another address
  EXPECT_EQ(State(), AddressState::kTentative);
  Receive({.sender_mac = kPeerMac, .target_ip = kHost4});
  EXPECT_EQ(State(), AddressState::kDuplicated);
}

// A probe for an address that is in use is answered like any request, which is its defence.
TEST_F(ArpProbeTest, ProbeForAnAddressInUseIsAnswered) {
  Add(/*skip_dad=*/true);
  net->Advance(5s);
  TakeArp();
  Receive({.sender_mac = kPeerMac, .target_ip = kHost4});
  net->Run();
  const auto sent = TakeArp();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_THAT(sent[0].bytes, IsArpReply(EthDstIs(kPeerMac), SenderIpIs(kHost4),
                                        TargetMacIs(kPeerMac), TargetIpIs(Ipv4Address())));
  EXPECT_EQ(stack->mib().arp.conflicts.value(), 0u);
  EXPECT_EQ(interface->neighbors(IpFamily::kV4).size(), 0u);
}

// Covers: rfc:ARP-9 RFC 5227 §2.4 (c): at most one announcement in DEFEND_INTERVAL (10 s)
TEST_F(ArpProbeTest, AddressInUseIsDefendedAtMostOnceInTenSeconds) {
  Add(/*skip_dad=*/true);
  net->Advance(5s);
  TakeArp();
  start = net->now();
  const ArpArgs claim = {.sender_mac = kPeerMac, .sender_ip = kHost4, .target_ip = kHost4};
  for (int i = 0; i < 300; ++i) {  // half a minute of claims, ten a second
    Receive(claim);
    net->Advance(100ms);
  }
  std::vector<double> times;
  for (const Sent& s : TakeArp()) {
    EXPECT_THAT(s.bytes, IsArpRequest(SenderIpIs(kHost4), TargetIpIs(kHost4)));
    times.push_back(s.at);
  }
  EXPECT_THAT(times, ElementsAre(0.0, 10.0, 20.0));
  EXPECT_EQ(State(), AddressState::kPreferred);  // and kept
  EXPECT_EQ(stack->mib().arp.conflicts.value(), 300u);
  EXPECT_EQ(drops(DropReason::kArpConflict), 300u);
  EXPECT_EQ(interface->neighbors(IpFamily::kV4).size(), 0u);
}

TEST_F(ArpProbeTest, WithoutDetectionAddressIsUsableAtOnceAndAnnounced) {
  StackConfig config = Probing();
  config.duplicate_address_detection = false;
  Start(config);
  Add();
  EXPECT_TRUE(interface->HasUsableAddress(kHost4));
  net->Advance(10s);
  const auto sent = TakeArp();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_NEAR(sent[0].at, 0.0, 1e-9);
  EXPECT_NEAR(sent[1].at, 2.0, 1e-9);
  EXPECT_THAT(outcomes, ElementsAre(std::pair(IpAddress(kHost4), false)));
}

TEST_F(ArpProbeTest, DefaultIsNotToProbeIpv4) {
  StackConfig config;
  config.link_local_address = false;
  Start(config);
  Add();
  EXPECT_TRUE(interface->HasUsableAddress(kHost4));
}

TEST_F(ArpProbeTest, RemovalEndsTheProbes) {
  Add();
  net->Advance(1s);
  TakeArp();
  ASSERT_TRUE(interface->RemoveAddress(kHost4).ok());
  net->Advance(20s);
  EXPECT_THAT(TakeArp(), IsEmpty());
  EXPECT_THAT(outcomes, IsEmpty());
}

// Covers: rfc:ARP-9 RFC 5227 §2.1.1: after MAX_CONFLICTS (10) not more than one attempt in 60 s
TEST_F(ArpProbeTest, AfterTenConflictsAttemptsAreAMinuteApart) {
  std::vector<double> first_probes;
  start = Time();
  for (int attempt = 0; attempt < 13; ++attempt) {
    ASSERT_TRUE(interface->AddAddress({kHost4, 24}).ok());
    std::vector<Sent> sent;
    while ((sent = TakeArp()).empty()) net->Advance(100ms);
    first_probes.push_back(sent[0].at);
    Receive({.sender_mac = kPeerMac, .sender_ip = kHost4, .target_ip = kPeer4});
    ASSERT_EQ(State(), AddressState::kDuplicated);
    ASSERT_TRUE(interface->RemoveAddress(kHost4).ok());
  }
  for (size_t i = 1; i < 10; ++i) EXPECT_LE(first_probes[i] - first_probes[i - 1], 1.2) << i;
  for (size_t i = 10; i < 13; ++i) EXPECT_GE(first_probes[i] - first_probes[i - 1], 59.999) << i;
}

}  // namespace
}  // namespace tapwire
