// SPDX-License-Identifier: Apache-2.0
// MLD (RFC 9777, RFC 2710) on the wire: what is reported, byte for byte, and which queries are
// answered. When reports are sent is tested further in group_membership_test.cc.
#include "stack/ipv6/mld.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>

#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::ByteVector;
using testutil::Frame;
using testutil::Hex;
using testutil::IsFrame;
using testutil::kHostMac;
using testutil::kPeerMac;

Ipv6Address Ip6(const char* text) { return *Ipv6Address::Parse(text); }

const Ipv6Address kLinkLocal = Ip6("fe80::1");
const Ipv6Address kPeerLinkLocal = Ip6("fe80::2");
const Ipv6Address kGroup = Ip6("ff05::1234");
const Ipv6Address kOtherGroup = Ip6("ff0e::9:9");
const Ipv6Address kSolicitedNode = Ip6("ff02::1:ff00:1");  // of the host's addresses
const Ipv6Address kAllNodes = Ip6("ff02::1");
const Ipv6Address kAllRouters = Ip6("ff02::2");
const Ipv6Address kMldv2Routers = Ip6("ff02::16");

constexpr uint8_t kIsExclude = 2, kToInclude = 3, kToExclude = 4;
constexpr uint8_t kReport1 = 131, kDone = 132;

struct QueryArgs {
  uint16_t max_response = 10'000;  // milliseconds, or the code
  Ipv6Address group = {};
  int version = 2;
  uint8_t robustness = 2;
  ByteVector sources = {};
  Ipv6Address source = kPeerLinkLocal;
  Ipv6Address destination = kAllNodes;
  uint8_t hop_limit = 1;
  bool router_alert = true;
};

Frame FromQuerier(const QueryArgs& args = {}) {
  Frame frame = Frame()
                    .Eth(kPeerMac, MulticastMac(args.destination))
                    .Ipv6({.source = args.source,
                           .destination = args.destination,
                           .hop_limit = args.hop_limit});
  return args.router_alert ? frame.RouterAlert6() : frame;
}

ByteVector Query(const QueryArgs& args = {}) {
  Frame frame = FromQuerier(args);
  frame.Icmpv6({.type = 130, .rest = uint32_t{args.max_response} << 16});
  frame.Raw(args.group.bytes());
  if (args.version == 2) {
    const auto count = static_cast<uint8_t>(args.sources.size() / 16);
    frame.Raw(ByteVector{args.robustness, 125, 0, count}).Raw(args.sources);
  }
  return frame.Build();
}

ByteVector OldMessage(uint8_t type, const Ipv6Address& group, const QueryArgs& args = {}) {
  return FromQuerier(args).Icmpv6({.type = type}).Raw(group.bytes()).Build();
}

class MldTest : public testutil::HostTest {
 protected:
  // A host whose only address is link-local.
  void SetUp() override {
    Make(Quiet(), /*addresses=*/false);
    ASSERT_TRUE(interface->AddAddress({kLinkLocal, 64}).ok());
    Settle();
  }
  struct Sent {
    double at;  // seconds since `start`
    ByteVector bytes;
  };
  // MLD messages since the last call.
  std::vector<Sent> Take() {
    net->Run();
    std::vector<Sent> result;
    for (testutil::SentFrame& frame : net->TakeSentFrames()) {
      const testutil::FrameView view = testutil::Dissect(frame.bytes);
      const bool mld =
          view.protocol == 58 && ((view.type >= 130 && view.type <= 132) || view.type == 143);
      if (!view.is_v6() || !mld) continue;
      result.push_back(
          {std::chrono::duration<double>(frame.time - start).count(), std::move(frame.bytes)});
    }
    return result;
  }
  std::vector<Sent> TakeAfter(Duration time) {
    net->Advance(time);
    return Take();
  }
  void Join(const Ipv6Address& group) {
    ASSERT_TRUE(interface->JoinGroup(group).ok());
    start = net->now();
  }
  void Leave(const Ipv6Address& group) {
    ASSERT_TRUE(interface->LeaveGroup(group).ok());
    start = net->now();
  }
  void JoinQuietly(const Ipv6Address& group) {
    Join(group);
    TakeAfter(5s);
  }
  void Receive(const ByteVector& frame) {
    start = net->now();
    net->Inject(frame);
  }
  static Frame FromHost(const Ipv6Address& source, const Ipv6Address& destination) {
    return Frame()
        .Eth(kHostMac, MulticastMac(destination))
        .Ipv6({.source = source, .destination = destination, .hop_limit = 1})
        .RouterAlert6();
  }
  // `bytes` is a version 2 report with exactly these records: RFC 9777 §5.2.
  static void ExpectReport(const ByteVector& bytes,
                           const std::vector<std::pair<uint8_t, Ipv6Address>>& records,
                           const Ipv6Address& source = kLinkLocal) {
    ByteVector body;
    for (const auto& [type, group] : records) {
      for (const uint8_t byte : {type, uint8_t{0}, uint8_t{0}, uint8_t{0}}) body.push_back(byte);
      body.insert(body.end(), group.bytes().begin(), group.bytes().end());
    }
    EXPECT_THAT(bytes,
                IsFrame(FromHost(source, kMldv2Routers)
                            .Icmpv6({.type = 143, .rest = static_cast<uint32_t>(records.size())})
                            .Raw(body)
                            .Build()));
  }
  static void ExpectOld(const ByteVector& bytes, uint8_t type, const Ipv6Address& group,
                        const Ipv6Address& destination) {
    EXPECT_THAT(
        bytes,
        IsFrame(
            FromHost(kLinkLocal, destination).Icmpv6({.type = type}).Raw(group.bytes()).Build()));
  }

  Time start;
};

// ---- Joining and leaving ----

// Covers: rfc:MLD-1 rfc:MLD-2 RFC 9777 §6.1
TEST_F(MldTest, JoinAndLeaveAreReportedTwice) {
  Join(kGroup);
  std::vector<Sent> sent = TakeAfter(60s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectReport(s.bytes, {{kToExclude, kGroup}});
  EXPECT_EQ(sent[0].at, 0.0);
  EXPECT_LE(sent[1].at, 1.0);
  Leave(kGroup);
  sent = TakeAfter(60s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectReport(s.bytes, {{kToInclude, kGroup}});
  EXPECT_EQ(sent[0].at, 0.0);
  EXPECT_LE(sent[1].at, 1.0);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
}

// Covers: rfc:MLD-1: the groups of addresses too (RFC 4862 §5.4.2)
TEST_F(MldTest, SolicitedNodeGroupComesAndGoesWithItsAddress) {
  const IpAddress address = Ip6("2001:db8::abcd:ef01");
  const Ipv6Address group = Ip6("ff02::1:ffcd:ef01");
  start = net->now();
  ASSERT_TRUE(interface->AddAddress({address, 64}).ok());
  std::vector<Sent> sent = TakeAfter(5s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectReport(s.bytes, {{kToExclude, group}});
  ASSERT_TRUE(interface->RemoveAddress(address).ok());
  sent = TakeAfter(5s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectReport(s.bytes, {{kToInclude, group}});
}

// RFC 9777 §6: never reported are ff02::1 and what does not leave the interface.
TEST_F(MldTest, AllNodesAndInterfaceLocalGroupsAreNeverReported) {
  for (const char* group : {"ff02::1", "ff01::1", "ff01::1234", "ff00::5"}) {
    SCOPED_TRACE(group);
    Join(Ip6(group));
    Leave(Ip6(group));
    EXPECT_THAT(TakeAfter(10s), IsEmpty());
  }
  Join(Ip6("ff01::77"));
  Receive(Query());
  const std::vector<Sent> sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectReport(sent[0].bytes, {{kIsExclude, kSolicitedNode}});
}

// Covers: rfc:MLD-2 RFC 9777 §5.2.13: from :: until there is a link-local address. RFC 3590 §4:
// then all is said again, as routers have not listened.
TEST_F(MldTest, ReportsFromUnspecifiedAreRepeatedFromTheLinkLocalAddress) {
  StackConfig config = Quiet();
  config.duplicate_address_detection = true;
  Make(config, /*addresses=*/false);
  ASSERT_TRUE(interface->JoinGroup(kGroup).ok());
  std::vector<Sent> sent = TakeAfter(5s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectReport(s.bytes, {{kToExclude, kGroup}}, Ipv6Address());

  ASSERT_TRUE(interface->AddAddress({kLinkLocal, 64}).ok());  // detected within two seconds
  sent = TakeAfter(10s);
  ASSERT_THAT(sent, SizeIs(6));
  ExpectReport(sent[0].bytes, {{kToExclude, kSolicitedNode}}, Ipv6Address());
  ExpectReport(sent[1].bytes, {{kToExclude, kSolicitedNode}}, Ipv6Address());
  std::multiset<IpAddress> groups;
  for (size_t i = 2; i < 6; ++i) {
    const testutil::FrameView view = testutil::Dissect(sent[i].bytes);
    EXPECT_EQ(view.source, IpAddress(kLinkLocal));
    ASSERT_THAT(testutil::GroupRecords(view), SizeIs(1));
    EXPECT_EQ(testutil::GroupRecords(view)[0].type, kToExclude);
    groups.insert(testutil::GroupRecords(view)[0].group);
  }
  EXPECT_EQ(groups, (std::multiset<IpAddress>{kSolicitedNode, kSolicitedNode, kGroup, kGroup}));

  // A second link-local address changes nothing for routers.
  ASSERT_TRUE(interface->AddAddress({Ip6("fe80::1:2:1"), 64}).ok());
  for (const Sent& s : TakeAfter(10s)) {
    EXPECT_NE(testutil::GroupRecords(testutil::Dissect(s.bytes))[0].group, IpAddress(kGroup));
  }
}

TEST_F(MldTest, ReportThatCannotBeSentIsRepeated) {
  std::vector<PacketPtr> hog;
  while (PacketPtr packet = stack->pool().AllocatePacket(1000)) hog.push_back(std::move(packet));
  Join(kGroup);
  EXPECT_THAT(Take(), IsEmpty());
  hog.clear();
  EXPECT_THAT(TakeAfter(5s), SizeIs(1));
}

// ---- Queries ----

// Covers: rfc:MLD-2 RFC 9777 §6.2
TEST_F(MldTest, GeneralQueryIsAnsweredWithAllGroupsInOneReport) {
  JoinQuietly(kGroup);
  std::set<double> times;
  for (int i = 0; i < 20; ++i) {
    Receive(Query({.max_response = 5000}));
    const std::vector<Sent> sent = TakeAfter(30s);
    ASSERT_THAT(sent, SizeIs(1));
    ExpectReport(sent[0].bytes, {{kIsExclude, kSolicitedNode}, {kIsExclude, kGroup}});
    EXPECT_LE(sent[0].at, 5.0);
    times.insert(sent[0].at);
  }
  EXPECT_GT(times.size(), 15u);
  EXPECT_GT(*times.rbegin(), 2.5);
  EXPECT_LT(*times.begin(), 2.5);
}

TEST_F(MldTest, GroupQueryIsAnsweredForThatGroup) {
  JoinQuietly(kGroup);
  JoinQuietly(kOtherGroup);
  const ByteVector sources = Hex("20010db8 00000000 00000000 00000007");
  for (const ByteVector& asked : {ByteVector(), sources}) {
    Receive(
        Query({.max_response = 1000, .group = kGroup, .sources = asked, .destination = kGroup}));
    const std::vector<Sent> sent = TakeAfter(30s);
    ASSERT_THAT(sent, SizeIs(1));
    ExpectReport(sent[0].bytes, {{kIsExclude, kGroup}});
    EXPECT_LE(sent[0].at, 1.0);
  }
}

TEST_F(MldTest, QueryAboutAGroupNotJoinedIsNotForUs) {
  Receive(Query({.group = kGroup}));
  EXPECT_EQ(drops(DropReason::kMldNotForUs), 1u);
  EXPECT_THAT(TakeAfter(30s), IsEmpty());
}

// RFC 9777 §5.1.3: from 32768 on the code has an exponent: 0x8400 is (0x1000 + 0x400) << 3 =
// 40,960.
TEST_F(MldTest, LongResponseTimesAreDecoded) {
  double latest = 0;
  for (int i = 0; i < 40; ++i) {
    Receive(Query({.max_response = 0x8400}));
    const std::vector<Sent> sent = TakeAfter(60s);
    ASSERT_THAT(sent, SizeIs(1));
    latest = std::max(latest, sent[0].at);
  }
  EXPECT_LE(latest, 40.96);
  EXPECT_GT(latest, 33.792);  // what 0x8400 = 33,792 ms would be
}

// Covers: bug:B76: in both versions 0 means now
TEST_F(MldTest, ResponseTimeOfZeroMeansNow) {
  Receive(Query({.max_response = 0}));
  std::vector<Sent> sent = Take();
  ASSERT_THAT(sent, SizeIs(1));
  ExpectReport(sent[0].bytes, {{kIsExclude, kSolicitedNode}});
  Receive(Query({.max_response = 0, .version = 1}));
  sent = Take();
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, kReport1, kSolicitedNode, kSolicitedNode);
}

TEST_F(MldTest, RobustnessOfTheQuerierIsAdopted) {
  Receive(Query({.robustness = 5}));
  TakeAfter(20s);
  Join(kGroup);
  EXPECT_THAT(TakeAfter(20s), SizeIs(5));
}

TEST_F(MldTest, LongReportIsSplitByTheMtu) {
  StackConfig config = Quiet();
  config.max_groups_per_interface = 1000;
  for (const uint32_t mtu : {1500u, 1280u}) {
    SCOPED_TRACE(mtu);
    testutil::NetHarness::Options options;
    options.device.mtu = mtu;
    Make(config, /*addresses=*/false, options);
    ASSERT_TRUE(interface->AddAddress({kLinkLocal, 64}).ok());
    std::set<IpAddress> joined = {kSolicitedNode};
    for (uint16_t i = 1; i < 150; ++i) {
      const Ipv6Address group = Ipv6Address::FromGroups({0xff05, 0, 0, 0, 0, 0, 5, i});
      ASSERT_TRUE(interface->JoinGroup(group).ok());
      joined.insert(group);
    }
    TakeAfter(5s);
    Receive(Query());
    std::set<IpAddress> reported;
    const std::vector<Sent> sent = TakeAfter(20s);
    for (const Sent& s : sent) {
      EXPECT_LE(s.bytes.size(), mtu + 14);
      const testutil::FrameView view = testutil::Dissect(s.bytes);
      EXPECT_FALSE(view.is_fragment);
      EXPECT_EQ(view.rest & 0xffff, testutil::GroupRecords(view).size());
      for (const auto& record : testutil::GroupRecords(view)) {
        EXPECT_EQ(record.type, kIsExclude);
        EXPECT_TRUE(reported.insert(record.group).second) << record.group.ToString();
      }
    }
    EXPECT_EQ(reported, joined);
    // (MTU - 48 - 8) / 20 records each: 72 and 61.
    EXPECT_EQ(sent.size(), 3u);
  }
}

// ---- Version 1 ----

// Covers: rfc:MLD-2 RFC 9777 §8.2.1, RFC 2710 §4
TEST_F(MldTest, Version1QuerierIsSpokenToInItsVersion) {
  JoinQuietly(kGroup);
  Receive(Query({.max_response = 10'000, .version = 1}));
  std::vector<Sent> sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(2));  // a report per group, each at its time
  EXPECT_NE(sent[0].at, sent[1].at);
  if (testutil::Dissect(sent[0].bytes).destination != IpAddress(kGroup))
    std::swap(sent[0], sent[1]);
  ExpectOld(sent[0].bytes, kReport1, kGroup, kGroup);
  ExpectOld(sent[1].bytes, kReport1, kSolicitedNode, kSolicitedNode);
  Receive(Query({.group = kGroup, .destination = kGroup}));  // version 2 does not change that
  sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, kReport1, kGroup, kGroup);
  Leave(kGroup);
  sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, kDone, kGroup, kAllRouters);
  Join(kGroup);
  sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectOld(s.bytes, kReport1, kGroup, kGroup);
}

// RFC 9777 §9.12: 2 × 125 + 10 s.
TEST_F(MldTest, Version2IsSpokenAgain260SecondsAfterTheLastOldQuery) {
  Receive(Query({.version = 1}));
  TakeAfter(259s);
  Join(kGroup);
  std::vector<Sent> sent = Take();
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, kReport1, kGroup, kGroup);
  TakeAfter(1s);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
  Leave(kGroup);
  sent = TakeAfter(5s);
  ASSERT_THAT(sent, SizeIs(2));
  ExpectReport(sent[0].bytes, {{kToInclude, kGroup}});
}

TEST_F(MldTest, ReportOfAnotherHostTakesThePlaceOfOurs) {
  JoinQuietly(kGroup);
  Receive(Query({.max_response = 30'000, .version = 1}));
  net->Inject(OldMessage(kReport1, kGroup, {.destination = kGroup}));
  const std::vector<Sent> sent = TakeAfter(60s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, kReport1, kSolicitedNode, kSolicitedNode);
}

// ---- Messages that do not count ----

// Covers: bug:B76 rfc:MLD-2 RFC 9777 §6.2: link-local source, hop limit 1, Router Alert
TEST_F(MldTest, MessageFromAWrongSourceIsIgnored) {
  uint64_t expected = 0;
  const QueryArgs wrong[] = {
      {.source = Ip6("2001:db8::2")},
      {.source = Ipv6Address()},
      {.hop_limit = 2},
      {.hop_limit = 255},
      {.router_alert = false},
  };
  for (const QueryArgs& args : wrong) {
    Receive(Query(args));
    EXPECT_EQ(drops(DropReason::kMldBadSource), ++expected);
    Receive(OldMessage(kReport1, kSolicitedNode, args));
    EXPECT_EQ(drops(DropReason::kMldBadSource), ++expected);
  }
  // A hop-by-hop header with other options, or the alert in another header.
  const auto query_behind = [](Frame frame) {
    return frame.Icmpv6({.type = 130}).Raw(Ipv6Address().bytes()).Raw(Hex("027d0000")).Build();
  };
  const QueryArgs bare{.router_alert = false};
  Receive(query_behind(FromQuerier(bare).HopByHop({.options = Hex("1e02 0000")})));
  EXPECT_EQ(drops(DropReason::kMldBadSource), ++expected);
  Receive(query_behind(FromQuerier(bare).DestinationOptions({.options = Hex("0502 0000")})));
  EXPECT_EQ(drops(DropReason::kMldBadSource), ++expected);
  EXPECT_THAT(TakeAfter(60s), IsEmpty());
}

TEST_F(MldTest, MalformedMessagesAreDropped) {
  uint64_t expected = 0;
  // RFC 9777 §8.1: neither 24 bytes nor at least 28.
  const ByteVector body(20, 0);
  for (size_t length = 8; length < 28; ++length) {
    if (length == 24) continue;
    net->Inject(FromQuerier().Icmpv6({.type = 130}).Raw(std::span(body).first(length - 8)).Build());
    EXPECT_EQ(drops(DropReason::kMldMalformed), ++expected) << length;
  }
  net->Inject(FromQuerier().Icmpv6({.type = kReport1}).Build());
  EXPECT_EQ(drops(DropReason::kMldMalformed), ++expected);
  // Two sources announced, one there.
  net->Inject(FromQuerier()
                  .Icmpv6({.type = 130})
                  .Raw(Ipv6Address().bytes())
                  .Raw(Hex("027d0002"))
                  .Raw(kGroup.bytes())
                  .Build());
  EXPECT_EQ(drops(DropReason::kMldMalformed), ++expected);
  net->Inject(FromQuerier().Icmpv6({.type = 130, .checksum = 0x1234}).Raw(body).Build());
  EXPECT_EQ(drops(DropReason::kIcmpBadChecksum), 1u);
  EXPECT_THAT(TakeAfter(60s), IsEmpty());
}

TEST_F(MldTest, MessagesForRoutersAreNotForUs) {
  net->Inject(OldMessage(kDone, kSolicitedNode));
  EXPECT_EQ(drops(DropReason::kMldNotForUs), 1u);
  net->Inject(OldMessage(143, kSolicitedNode));
  EXPECT_EQ(drops(DropReason::kMldNotForUs), 2u);
  EXPECT_THAT(TakeAfter(60s), IsEmpty());
}

// ---- The link ----

TEST_F(MldTest, GroupsSurviveTheDeviceBeingDown) {
  JoinQuietly(kGroup);
  Receive(Query());
  device().Down();
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
  EXPECT_THAT(TakeAfter(30s), IsEmpty());
  ASSERT_TRUE(device().Up().ok());
  const std::vector<Sent> sent = TakeAfter(5s);
  ASSERT_THAT(sent, SizeIs(4));
  ExpectReport(sent[0].bytes, {{kToExclude, kSolicitedNode}});
  ExpectReport(sent[1].bytes, {{kToExclude, kGroup}});
}

// The harness complains about timers that outlive the stack.
TEST_F(MldTest, StackMayGoInTheMiddleOfIt) {
  Receive(Query({.version = 1}));
  Join(kGroup);
  Join(kOtherGroup);
  Leave(kOtherGroup);
  EXPECT_GT(net->context().timers().armed_count(), 0u);
  stack.reset();
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
}

}  // namespace
}  // namespace tapwire
