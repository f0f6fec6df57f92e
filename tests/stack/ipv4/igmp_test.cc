// SPDX-License-Identifier: Apache-2.0
// IGMP (RFC 9776, RFC 2236) on the wire: what is reported, byte for byte, and which queries are
// answered. When reports are sent is tested further in group_membership_test.cc.
#include "stack/ipv4/igmp.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;
using testutil::ByteVector;
using testutil::Frame;
using testutil::Hex;
using testutil::IsFrame;
using testutil::kHost4;
using testutil::kHostMac;
using testutil::kPeer4;
using testutil::kPeerMac;

constexpr Ipv4Address kGroup{239, 1, 2, 3};
constexpr Ipv4Address kOtherGroup{239, 9, 9, 9};
constexpr Ipv4Address kAllSystems{224, 0, 0, 1};
constexpr Ipv4Address kAllRouters{224, 0, 0, 2};
constexpr Ipv4Address kIgmpv3Routers{224, 0, 0, 22};
// RFC 2113 §2.1: type 148, length 4, value 0.
const ByteVector kRouterAlert = Hex("94040000");

constexpr uint8_t kIsExclude = 2, kToInclude = 3, kToExclude = 4;

struct QueryArgs {
  uint8_t max_response = 100;  // tenths of a second
  Ipv4Address group = {};
  int version = 3;
  uint8_t robustness = 2;
  ByteVector sources = {};
  Ipv4Address source = kPeer4;
  Ipv4Address destination = kAllSystems;
  uint8_t ttl = 1;
  bool router_alert = true;
};

ByteVector Query(const QueryArgs& args = {}) {
  Frame frame = Frame()
                    .Eth(kPeerMac, MulticastMac(args.destination))
                    .Ipv4({.source = args.source,
                           .destination = args.destination,
                           .ttl = args.ttl,
                           .tos = 0xc0,
                           .options = args.router_alert ? kRouterAlert : ByteVector()})
                    .Igmp({.type = 0x11, .max_response = args.max_response, .group = args.group});
  if (args.version == 3) {
    const auto count = static_cast<uint8_t>(args.sources.size() / 4);
    frame.Raw(ByteVector{args.robustness, 125, 0, count}).Raw(args.sources);
  }
  return frame.Build();
}

// The message `type` of another host about `group`, in eight bytes.
ByteVector OldMessage(uint8_t type, const Ipv4Address& group, const Ipv4Address& destination) {
  return Frame()
      .Eth(kPeerMac, MulticastMac(destination))
      .Ipv4({.source = kPeer4, .destination = destination, .ttl = 1, .options = kRouterAlert})
      .Igmp({.type = type, .group = group})
      .Build();
}

class IgmpTest : public testutil::HostTest {
 protected:
  void SetUp() override { Make(); }
  struct Sent {
    double at;  // seconds since `start`
    ByteVector bytes;
  };
  // IGMP messages since the last call.
  std::vector<Sent> Take() {
    net->Run();
    std::vector<Sent> result;
    for (testutil::SentFrame& frame : net->TakeSentFrames()) {
      const testutil::FrameView view = testutil::Dissect(frame.bytes);
      if (!view.is_v4() || view.protocol != 2) continue;
      result.push_back(
          {std::chrono::duration<double>(frame.time - start).count(), std::move(frame.bytes)});
    }
    return result;
  }
  std::vector<Sent> TakeAfter(Duration time) {
    net->Advance(time);
    return Take();
  }
  void Join(const Ipv4Address& group) {
    ASSERT_TRUE(interface->JoinGroup(group).ok());
    start = net->now();
  }
  void Leave(const Ipv4Address& group) {
    ASSERT_TRUE(interface->LeaveGroup(group).ok());
    start = net->now();
  }
  // As Join(), and forgets the reports.
  void JoinQuietly(const Ipv4Address& group) {
    Join(group);
    TakeAfter(5s);
  }
  void Receive(const ByteVector& frame) {
    start = net->now();
    net->Inject(frame);
  }
  // `bytes` is a version 3 report with exactly these records: RFC 9776 §4 and §4.2.
  void ExpectReport(const ByteVector& bytes,
                    const std::vector<std::pair<uint8_t, Ipv4Address>>& records,
                    const Ipv4Address& source = kHost4) {
    ByteVector body;
    for (const auto& [type, group] : records) {
      for (const uint8_t byte : {type, uint8_t{0}, uint8_t{0}, uint8_t{0}}) body.push_back(byte);
      body.insert(body.end(), group.bytes().begin(), group.bytes().end());
    }
    const Frame expected =
        Old(bytes, source, kIgmpv3Routers)
            .Igmp({.type = 0x22,
                   .group = Ipv4Address(0, 0, static_cast<uint8_t>(records.size() >> 8),
                                        static_cast<uint8_t>(records.size()))})
            .Raw(body);
    EXPECT_THAT(bytes, IsFrame(expected.Build()));
  }
  // … a message of eight bytes.
  void ExpectOld(const ByteVector& bytes, uint8_t type, const Ipv4Address& group,
                 const Ipv4Address& destination) {
    const Frame expected = Old(bytes, kHost4, destination).Igmp({.type = type, .group = group});
    EXPECT_THAT(bytes, IsFrame(expected.Build()));
  }
  // The headers of all of them; the identification is as sent.
  static Frame Old(const ByteVector& bytes, const Ipv4Address& source,
                   const Ipv4Address& destination) {
    return Frame()
        .Eth(kHostMac, MulticastMac(destination))
        .Ipv4({.source = source,
               .destination = destination,
               .ttl = 1,
               .tos = 0xc0,
               .id = static_cast<uint16_t>(testutil::Dissect(bytes).id),
               .dont_fragment = false,
               .options = kRouterAlert});
  }

  Time start;
};

// ---- Joining and leaving ----

// Covers: rfc:IGMP-1 rfc:IP-25 RFC 9776 §5.1: at once, and once more within a second
TEST_F(IgmpTest, JoinIsReportedTwice) {
  Join(kGroup);
  const std::vector<Sent> sent = TakeAfter(60s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectReport(s.bytes, {{kToExclude, kGroup}});
  EXPECT_EQ(sent[0].at, 0.0);
  EXPECT_LE(sent[1].at, 1.0);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
}

// Covers: rfc:IGMP-1 rfc:IP-25
TEST_F(IgmpTest, LeaveIsReportedTwice) {
  JoinQuietly(kGroup);
  Leave(kGroup);
  const std::vector<Sent> sent = TakeAfter(60s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectReport(s.bytes, {{kToInclude, kGroup}});
  EXPECT_EQ(sent[0].at, 0.0);
  EXPECT_LE(sent[1].at, 1.0);
}

TEST_F(IgmpTest, RepetitionComesAtARandomTime) {
  std::set<double> times;
  for (int i = 0; i < 20; ++i) {
    Join(kGroup);
    const std::vector<Sent> sent = TakeAfter(2s);
    ASSERT_THAT(sent, SizeIs(2));
    times.insert(sent[1].at);
    Leave(kGroup);
    TakeAfter(2s);
  }
  EXPECT_GT(times.size(), 15u);
}

// RFC 9776 §5: 224.0.0.1 is joined everywhere and never reported.
TEST_F(IgmpTest, AllSystemsIsNeverReported) {
  Join(kAllSystems);
  Leave(kAllSystems);
  EXPECT_THAT(TakeAfter(10s), IsEmpty());
  Receive(Query());
  EXPECT_THAT(TakeAfter(20s), IsEmpty());
  EXPECT_TRUE(interface->InGroup(kAllSystems));
}

TEST_F(IgmpTest, HostWithoutAnAddressReportsFromZero) {
  Make(Quiet(), /*addresses=*/false);
  Join(kGroup);
  const std::vector<Sent> sent = TakeAfter(5s);
  ASSERT_THAT(sent, SizeIs(2));
  ExpectReport(sent[0].bytes, {{kToExclude, kGroup}}, Ipv4Address());
}

TEST_F(IgmpTest, ReportThatCannotBeSentIsRepeated) {
  device().FailSends(netdev::TxResult::kNoBuffer);
  Join(kGroup);
  net->Run();
  device().StopFailing();
  EXPECT_THAT(TakeAfter(5s), SizeIs(1));
}

TEST_F(IgmpTest, NoMemoryForAReportIsSurvived) {
  std::vector<PacketPtr> hog;
  while (PacketPtr packet = stack->pool().AllocatePacket(1000)) hog.push_back(std::move(packet));
  Join(kGroup);
  EXPECT_THAT(Take(), IsEmpty());
  hog.clear();
  EXPECT_THAT(TakeAfter(5s), SizeIs(1));
}

// ---- Queries ----

// Covers: rfc:IGMP-1 RFC 9776 §5.2
TEST_F(IgmpTest, GeneralQueryIsAnsweredWithAllGroupsInOneReport) {
  JoinQuietly(kGroup);
  JoinQuietly(kOtherGroup);
  std::set<double> times;
  for (int i = 0; i < 20; ++i) {
    Receive(Query({.max_response = 50}));
    const std::vector<Sent> sent = TakeAfter(30s);
    ASSERT_THAT(sent, SizeIs(1));
    ExpectReport(sent[0].bytes, {{kIsExclude, kGroup}, {kIsExclude, kOtherGroup}});
    EXPECT_LE(sent[0].at, 5.0);
    times.insert(sent[0].at);
  }
  EXPECT_GT(times.size(), 15u);
  EXPECT_GT(*times.rbegin(), 2.5);  // spread over the whole time
  EXPECT_LT(*times.begin(), 2.5);
}

TEST_F(IgmpTest, GroupQueryIsAnsweredForThatGroup) {
  JoinQuietly(kGroup);
  JoinQuietly(kOtherGroup);
  Receive(Query({.max_response = 10, .group = kGroup, .destination = kGroup}));
  std::vector<Sent> sent = TakeAfter(30s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectReport(sent[0].bytes, {{kIsExclude, kGroup}});
  EXPECT_LE(sent[0].at, 1.0);
  // About sources of it: all are wanted.
  Receive(Query({.max_response = 10,
                 .group = kGroup,
                 .sources = Hex("c0000207 c0000208"),
                 .destination = kGroup}));
  sent = TakeAfter(30s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectReport(sent[0].bytes, {{kIsExclude, kGroup}});
}

TEST_F(IgmpTest, QueryAboutAGroupNotJoinedIsNotForUs) {
  JoinQuietly(kGroup);
  Receive(Query({.group = kOtherGroup}));
  EXPECT_EQ(drops(DropReason::kIgmpNotForUs), 1u);
  EXPECT_THAT(TakeAfter(30s), IsEmpty());
  Leave(kGroup);
  TakeAfter(5s);
  Receive(Query({.group = kGroup}));
  EXPECT_EQ(drops(DropReason::kIgmpNotForUs), 2u);
  EXPECT_THAT(TakeAfter(30s), IsEmpty());
  Receive(Query());  // nothing to say
  EXPECT_THAT(TakeAfter(30s), IsEmpty());
}

// RFC 9776 §4.1.1: from 128 on the code has an exponent; 0x8f is (16 + 15) << 3 = 248 tenths.
TEST_F(IgmpTest, LongResponseTimesAreDecoded) {
  JoinQuietly(kGroup);
  double latest = 0;
  for (int i = 0; i < 40; ++i) {
    Receive(Query({.max_response = 0x8f}));
    const std::vector<Sent> sent = TakeAfter(60s);
    ASSERT_THAT(sent, SizeIs(1));
    latest = std::max(latest, sent[0].at);
  }
  EXPECT_LE(latest, 24.8);
  EXPECT_GT(latest, 14.3);  // what 0x8f = 143 tenths would be
}

// Covers: bug:B76
TEST_F(IgmpTest, ResponseTimeOfZeroMeansNowInVersion3AndTenSecondsInVersion1) {
  JoinQuietly(kGroup);
  Receive(Query({.max_response = 0, .source = Ipv4Address()}));  // from a snooping switch
  std::vector<Sent> sent = Take();
  ASSERT_THAT(sent, SizeIs(1));
  ExpectReport(sent[0].bytes, {{kIsExclude, kGroup}});
  double latest = 0;
  for (int i = 0; i < 20; ++i) {
    Receive(Query({.max_response = 0, .version = 1, .router_alert = false}));
    sent = TakeAfter(60s);
    ASSERT_THAT(sent, SizeIs(1));
    latest = std::max(latest, sent[0].at);
  }
  EXPECT_LE(latest, 10.0);
  EXPECT_GT(latest, 5.0);
}

// RFC 9776 §4.1.6: hosts take over the querier's robustness, 0 meaning nothing.
TEST_F(IgmpTest, RobustnessOfTheQuerierIsAdopted) {
  for (const auto& [robustness, reports] :
       std::vector<std::pair<uint8_t, size_t>>{{4, 4}, {0, 4}, {1, 1}, {2, 2}}) {
    Receive(Query({.robustness = robustness}));
    TakeAfter(20s);
    Join(kGroup);
    EXPECT_THAT(TakeAfter(20s), SizeIs(reports)) << int{robustness};
    Leave(kGroup);
    EXPECT_THAT(TakeAfter(20s), SizeIs(reports)) << int{robustness};
  }
}

// RFC 9776 §4.2.16: what does not fit into one report goes into more.
TEST_F(IgmpTest, LongReportIsSplitByTheMtu) {
  StackConfig config = Quiet();
  config.max_groups_per_interface = 1000;
  for (const uint32_t mtu : {1500u, 576u, 68u}) {
    SCOPED_TRACE(mtu);
    testutil::NetHarness::Options options;
    options.device.mtu = mtu;
    Make(config, /*addresses=*/false, options);
    std::set<IpAddress> joined;
    for (int i = 0; i < 400; ++i) {
      const Ipv4Address group(239, 5, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i));
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
      EXPECT_EQ(view.rest & 0xffff, testutil::GroupRecords(view).size());
      for (const auto& record : testutil::GroupRecords(view)) {
        EXPECT_EQ(record.type, kIsExclude);
        EXPECT_TRUE(reported.insert(record.group).second) << record.group.ToString();
      }
    }
    EXPECT_EQ(reported, joined);
    // (MTU - 24 - 8) / 8 records each: 183, 68 and 4.
    EXPECT_EQ(sent.size(), mtu == 1500 ? 3u : mtu == 576 ? 6u : 100u);
  }
}

// ---- Older versions ----

// Covers: rfc:IGMP-1 RFC 9776 §7.2.1, RFC 2236 §3
TEST_F(IgmpTest, Version2QuerierIsSpokenToInItsVersion) {
  JoinQuietly(kGroup);
  JoinQuietly(kOtherGroup);
  Receive(Query({.max_response = 100, .version = 2}));
  std::vector<Sent> sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(2));  // a report per group, each at its time
  EXPECT_NE(sent[0].at, sent[1].at);
  if (testutil::Dissect(sent[0].bytes).destination != IpAddress(kGroup))
    std::swap(sent[0], sent[1]);
  ExpectOld(sent[0].bytes, 0x16, kGroup, kGroup);
  ExpectOld(sent[1].bytes, 0x16, kOtherGroup, kOtherGroup);

  // A version 3 query does not change that (RFC 9776 §7.2.1).
  Receive(Query({.group = kGroup, .destination = kGroup}));
  sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, 0x16, kGroup, kGroup);

  Leave(kGroup);
  sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, 0x17, kGroup, kAllRouters);
  Join(kGroup);
  sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectOld(s.bytes, 0x16, kGroup, kGroup);
}

// RFC 9776 §7.2.1, §8.12: Robustness × Query Interval + Query Response Interval = 2 × 125 + 10 s.
TEST_F(IgmpTest, Version3IsSpokenAgain260SecondsAfterTheLastOldQuery) {
  JoinQuietly(kGroup);
  Receive(Query({.version = 2}));
  TakeAfter(200s);
  Receive(Query({.version = 2}));
  TakeAfter(259s);
  Leave(kGroup);
  std::vector<Sent> sent = TakeAfter(1s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, 0x17, kGroup, kAllRouters);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
  Join(kGroup);
  sent = TakeAfter(5s);
  ASSERT_THAT(sent, SizeIs(2));
  ExpectReport(sent[0].bytes, {{kToExclude, kGroup}});
}

// RFC 2236 §4: version 1 knows no leave message and no group in a query.
TEST_F(IgmpTest, Version1QuerierIsSpokenToInItsVersion) {
  JoinQuietly(kGroup);
  Receive(Query({.max_response = 0, .group = kOtherGroup, .version = 1, .router_alert = false}));
  std::vector<Sent> sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, 0x12, kGroup, kGroup);
  Leave(kGroup);
  EXPECT_THAT(TakeAfter(20s), IsEmpty());
}

// RFC 9776 §7.2.1: a timer per version; the oldest one present counts.
TEST_F(IgmpTest, Version1EndsByItselfWhileVersion2GoesOn) {
  JoinQuietly(kGroup);
  const auto version_of_answer = [&]() -> uint8_t {
    Receive(Query({.max_response = 10, .version = 2}));
    const std::vector<Sent> sent = TakeAfter(5s);
    EXPECT_THAT(sent, SizeIs(1));
    return sent.empty() ? 0 : testutil::Dissect(sent[0].bytes).type;
  };
  Receive(Query({.max_response = 0, .version = 1, .router_alert = false}));
  TakeAfter(20s);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(version_of_answer(), 0x12);
    TakeAfter(45s);
  }
  TakeAfter(45s);  // 265 s after the last query of version 1
  EXPECT_EQ(version_of_answer(), 0x16);
}

// RFC 2236 §3: one report per group is enough for an old querier.
TEST_F(IgmpTest, ReportOfAnotherHostTakesThePlaceOfOurs) {
  JoinQuietly(kGroup);
  JoinQuietly(kOtherGroup);
  Receive(Query({.max_response = 255, .version = 2}));
  net->Inject(OldMessage(0x16, kGroup, kGroup));
  std::vector<Sent> sent = TakeAfter(60s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectOld(sent[0].bytes, 0x16, kOtherGroup, kOtherGroup);
  // RFC 9776 §7.2.2: in version 3 it need not, and does not here.
  TakeAfter(300s);
  Receive(Query({.max_response = 100}));
  net->Inject(OldMessage(0x12, kGroup, kGroup));
  sent = TakeAfter(60s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectReport(sent[0].bytes, {{kIsExclude, kGroup}, {kIsExclude, kOtherGroup}});
}

// ---- Messages that do not count ----

// Covers: rfc:IP-25
TEST_F(IgmpTest, QueryFromAfarIsIgnored) {
  JoinQuietly(kGroup);
  Receive(Query({.ttl = 2}));
  Receive(Query({.ttl = 255}));
  EXPECT_EQ(drops(DropReason::kIgmpBadTtl), 2u);
  // RFC 9776 §9.1.
  Receive(Query({.router_alert = false}));
  Receive(Query({.version = 2, .router_alert = false}));
  EXPECT_EQ(drops(DropReason::kIgmpBadTtl), 4u);
  Receive(Query({.destination = kGroup}));  // general, but not to all systems
  EXPECT_EQ(drops(DropReason::kIgmpNotForUs), 1u);
  EXPECT_THAT(TakeAfter(60s), IsEmpty());
}

TEST_F(IgmpTest, MalformedMessagesAreDropped) {
  JoinQuietly(kGroup);
  const auto ip = [] {
    return Frame()
        .Eth(kPeerMac, MulticastMac(kAllSystems))
        .Ipv4({.source = kPeer4,
               .destination = kAllSystems,
               .ttl = 1,
               .options = kRouterAlert,
               .protocol = 2});
  };
  uint64_t expected = 0;
  for (size_t length = 0; length < 8; ++length) {
    net->Inject(ip().Raw(ByteVector(length, 0)).Build());
    EXPECT_EQ(drops(DropReason::kIgmpMalformed), ++expected) << length;
  }
  net->Inject(ip().Igmp({.max_response = 10, .checksum = 0x1234}).Build());
  EXPECT_EQ(drops(DropReason::kIgmpMalformed), ++expected);
  // RFC 9776 §7.1: neither eight bytes nor at least twelve.
  for (const size_t extra : {1u, 2u, 3u}) {
    net->Inject(ip().Igmp({.max_response = 10}).Raw(ByteVector(extra, 0)).Build());
    EXPECT_EQ(drops(DropReason::kIgmpMalformed), ++expected) << extra;
  }
  // One source announced, none there.
  net->Inject(ip().Igmp({.max_response = 10}).Raw(Hex("027d0001")).Build());
  EXPECT_EQ(drops(DropReason::kIgmpMalformed), ++expected);
  EXPECT_THAT(TakeAfter(60s), IsEmpty());
  // Bytes behind the sources are skipped (RFC 9776 §4.1.11).
  net->Inject(ip().Igmp({.max_response = 10}).Raw(Hex("027d0000 0102030405")).Build());
  EXPECT_THAT(TakeAfter(60s), SizeIs(1));
}

TEST_F(IgmpTest, MessagesForRoutersAndUnknownOnesAreNotForUs) {
  JoinQuietly(kGroup);
  uint64_t expected = 0;
  for (const uint8_t type : {uint8_t{0x17}, uint8_t{0x13}, uint8_t{0x22}, uint8_t{0xff}}) {
    net->Inject(OldMessage(type, kGroup, kAllSystems));
    EXPECT_EQ(drops(DropReason::kIgmpNotForUs), ++expected) << int{type};
  }
  EXPECT_THAT(TakeAfter(60s), IsEmpty());
}

// ---- The link ----

TEST_F(IgmpTest, GroupsSurviveTheDeviceBeingDown) {
  JoinQuietly(kGroup);
  JoinQuietly(kOtherGroup);
  Receive(Query());
  device().Down();
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
  ASSERT_TRUE(interface->LeaveGroup(kOtherGroup).ok());
  const Ipv4Address late(239, 7, 7, 7);
  ASSERT_TRUE(interface->JoinGroup(late).ok());
  EXPECT_THAT(TakeAfter(30s), IsEmpty());
  ASSERT_TRUE(device().Up().ok());
  EXPECT_TRUE(device().HasMulticast(MulticastMac(kGroup)));
  std::vector<Sent> sent = TakeAfter(5s);
  ASSERT_THAT(sent, SizeIs(4));
  ExpectReport(sent[0].bytes, {{kToExclude, kGroup}});
  ExpectReport(sent[1].bytes, {{kToExclude, late}});
  Receive(Query());
  sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(1));
  ExpectReport(sent[0].bytes, {{kIsExclude, kGroup}, {kIsExclude, late}});
}

TEST_F(IgmpTest, LinkThatComesBackIsAskedForItsVersionAnew) {
  JoinQuietly(kGroup);
  Receive(Query({.version = 2}));
  Receive(Query({.robustness = 7}));
  TakeAfter(20s);
  device().SetCarrier(false);
  device().SetCarrier(true);
  start = net->now();
  const std::vector<Sent> sent = TakeAfter(20s);
  ASSERT_THAT(sent, SizeIs(2));
  for (const Sent& s : sent) ExpectReport(s.bytes, {{kToExclude, kGroup}});
}

// The harness complains about timers that outlive the stack.
TEST_F(IgmpTest, StackMayGoInTheMiddleOfIt) {
  Receive(Query({.version = 2}));
  Join(kGroup);
  Join(kOtherGroup);
  Leave(kOtherGroup);
  Receive(Query({.group = kGroup, .destination = kGroup}));
  EXPECT_GT(net->context().timers().armed_count(), 0u);
  stack.reset();
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
}

}  // namespace
}  // namespace tapwire
