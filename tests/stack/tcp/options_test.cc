// SPDX-License-Identifier: Apache-2.0
// Options on the wire: segment sizes (RFC 9293 §3.7.1), timestamps and PAWS (RFC 7323), what broken
// options do, urgent data, DS field and hop limit, and TIME-WAIT with timestamps (RFC 6191).
#include <algorithm>
#include <cerrno>
#include <set>

#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpOptionsTest : public TcpHostTest {
 protected:
  static tcp::Config WithTimestamps() {
    tcp::Config config;
    config.congestion_control = "reno";
    return config;
  }
  static ByteVector Timestamps(uint32_t tsval, uint32_t tsecr) {
    ByteVector o{1, 1, 8, 10};
    for (uint32_t v : {tsval, tsecr}) {
      for (int shift = 24; shift >= 0; shift -= 8) o.push_back(static_cast<uint8_t>(v >> shift));
    }
    return o;
  }
  static ByteVector SynWithTimestamps(uint32_t tsval) {
    ByteVector o = SynOptions();
    const ByteVector ts = Timestamps(tsval, 0);
    o.insert(o.end(), ts.begin(), ts.end());
    return o;
  }
  // Established as the active side, timestamps on; the peer's clock stands at `tsval`.
  tcp::Connection* ConnectWithTimestamps(uint32_t tsval) {
    auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
    EXPECT_TRUE(opened.ok());
    net->Run();
    Take();
    Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynWithTimestamps(tsval)});
    Take();
    return *opened;
  }
  size_t LargestSegment(tcp::Connection& c) {
    Write(c, 10000);
    size_t largest = 0;
    for (const SentSegment& s : Take()) largest = std::max(largest, s.length);
    return largest;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpOptionsTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// ---- MSS ----

// Covers: RFC 9293 MUST-15
TEST_P(TcpOptionsTest, WithoutMssOptionTheDefaultHolds) {
  Start();
  tcp::Connection* c = Connect({});
  EXPECT_EQ(LargestSegment(*c), v4() ? 536u : 1220u);
  Reset(c);
}

// Covers: RFC 9293 MUST-16
TEST_P(TcpOptionsTest, TimestampsCountAgainstTheSegment) {
  Start(WithTimestamps());
  tcp::Connection* c = ConnectWithTimestamps(1000);
  EXPECT_EQ(LargestSegment(*c), (v4() ? 1460u : 1440u) - 12);
  Reset(c);
}

// Covers: RFC 9293 MUST-16
TEST_P(TcpOptionsTest, SackBlocksCountAgainstTheSegment) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000));
  Send({.seq = 101, .payload = Pattern(100)});
  Take();
  EXPECT_EQ(LargestSegment(*c), 1000u - 12);
  Reset(c);
}

// Covers: bug:B54
TEST_P(TcpOptionsTest, TinyMssIsRaisedToTheFloor) {
  for (uint16_t mss : std::initializer_list<uint16_t>{0, 1, 8, 48}) {
    Start();
    tcp::Connection* c = Connect(SynOptions(mss));
    EXPECT_EQ(LargestSegment(*c), 88u) << mss;
    Reset(c);
  }
}

// Covers: RFC 9293 MUST-4, RFC 9293 MUST-6, RFC 9293 MUST-64
TEST_P(TcpOptionsTest, UnknownOptionsAreSteppedOver) {
  Start();
  tcp::Connection* c = Connect({1, 200, 6, 9, 9, 9, 9, 2, 4, 3, 232, 0});
  EXPECT_EQ(LargestSegment(*c), 1000u);
  Reset(c);
}

// Covers: bug:B53, RFC 9293 MUST-7
TEST_P(TcpOptionsTest, BrokenOptionsDoNoHarm) {
  const std::vector<ByteVector> broken = {{1, 1, 1, 2},     {2, 0, 1, 1},
                                          {2, 1, 1, 1},     {2, 40, 1, 1},
                                          {5, 3, 1, 1},     {8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                                          ByteVector(40, 1)};
  for (const ByteVector& options : broken) {
    Start();
    tcp::Listener* l = Listen();
    Send({.flags = "S", .seq = 0, .options = options});
    EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1"));
    Send({.seq = 1, .options = options});
    tcp::Connection* c = l->Accept();
    ASSERT_NE(c, nullptr);
    c->set_observer(&observer_);
    Send({.payload = Pattern(10), .options = options});
    EXPECT_EQ(c->readable_bytes(), 10u);
    tcp().CloseListener(*l);
    Reset(c);
  }
}

// Covers: RFC 9293 MUST-65
TEST_P(TcpOptionsTest, MssOutsideOfASynIsIgnoredAndNotSent) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000));
  Send({.options = {2, 4, 0, 100}});
  EXPECT_EQ(LargestSegment(*c), 1000u);
  Write(*c, 10);
  for (const SentSegment& s : Take()) EXPECT_FALSE(s.options.mss);
  Reset(c);
}

// Covers: RFC 9293 MUST-5
TEST_P(TcpOptionsTest, OptionsMayStandInAnySegment) {
  Start();
  tcp::Connection* c = Connect();
  Send({.payload = Pattern(10), .options = {1, 1, 200, 2}});
  Send({.flags = "FA", .seq = 11, .options = {200, 4, 0, 0}});
  EXPECT_EQ(c->readable_bytes(), 10u);
  EXPECT_TRUE(c->read_closed());
  Reset(c);
}

// ---- Timestamps ----

// Covers: rfc:TS-1, rfc:TS-4
TEST_P(TcpOptionsTest, EverySegmentCarriesAndEchoesTimestamps) {
  Start(WithTimestamps());
  tcp::Connection* c = ConnectWithTimestamps(1000);
  Send({.payload = Pattern(10), .options = Timestamps(1500, 0)});
  auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_TRUE(sent[0].options.timestamps);
  EXPECT_EQ(sent[0].options.timestamps->tsecr, 1500u);
  const uint32_t first = sent[0].options.timestamps->tsval;
  // Out of order: the echo stays that of the last segment in order.
  Send({.seq = 100, .payload = Pattern(10), .options = Timestamps(1700, 0)});
  sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].options.timestamps->tsecr, 1500u);
  net->Advance(std::chrono::milliseconds(250));
  Write(*c, 10);
  sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  // Covers: rfc:TS-5
  EXPECT_EQ(sent[0].options.timestamps->tsval - first, 250u);
  Reset(c);
}

// Covers: rfc:TS-3
TEST_P(TcpOptionsTest, OlderTimestampIsDroppedAndAnswered) {
  Start(WithTimestamps());
  tcp::Connection* c = ConnectWithTimestamps(1000);
  Send({.payload = Pattern(10), .options = Timestamps(999, 0)});
  EXPECT_EQ(c->readable_bytes(), 0u);
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1"));
  EXPECT_EQ(Dropped(DropReason::kTcpPaws), 1u);
  // Covers: rfc:TS-6
  Send({.flags = "R", .options = Timestamps(1, 0)});
  EXPECT_EQ(observer_.gone, 1);
}

// Covers: rfc:TS-3
TEST_P(TcpOptionsTest, AfterTwentyFourDaysNothingIsOld) {
  Start(WithTimestamps());
  tcp::Connection* c = ConnectWithTimestamps(1000);
  net->Advance(std::chrono::hours(24 * 25));
  Send({.payload = Pattern(10), .options = Timestamps(500, 0)});
  EXPECT_EQ(c->readable_bytes(), 10u);
  Take();
  Reset(c);
}

// Covers: rfc:TS-7
TEST_P(TcpOptionsTest, TimestampsThatWereNotAgreedOnAreIgnored) {
  Start();
  tcp::Connection* c = Connect();
  Send({.payload = Pattern(10), .options = Timestamps(5, 0)});
  Send({.seq = 11, .payload = Pattern(10), .options = Timestamps(4, 0)});
  EXPECT_EQ(c->readable_bytes(), 20u);
  for (const SentSegment& s : Take()) EXPECT_FALSE(s.options.timestamps);
  Reset(c);
}

// Covers: rfc:RTO-4
TEST_P(TcpOptionsTest, RetransmissionIsMeasuredByItsTimestamp) {
  Start(WithTimestamps());
  tcp::Connection* c = ConnectWithTimestamps(1000);
  Write(*c, 10);
  const uint32_t first = Take()[0].options.timestamps->tsval;
  net->Advance(std::chrono::milliseconds(300));  // sent again meanwhile
  const auto again = Take();
  ASSERT_FALSE(again.empty());
  const uint32_t before = c->Info().rtt_us;
  Send({.ack = 11, .options = Timestamps(1300, first)});
  EXPECT_GT(c->Info().rtt_us, before);
  Reset(c);
}

// ---- TIME-WAIT with timestamps ----

// Covers: rfc:TW-2, bug:B17, RFC 9293 SHLD-4
TEST_P(TcpOptionsTest, TimestampsDecideWhetherASynReopens) {
  struct Case {
    uint32_t tsval, seq;
    bool reopens;
  };
  for (const Case& one :
       {Case{2001, 0, true}, Case{2000, 50, true}, Case{2000, 0, false}, Case{1999, 50, false}}) {
    Start(WithTimestamps());
    tcp::Listener* l = Listen();
    tcp::Connection* c = ConnectWithTimestamps(2000);
    c->ShutdownWrite();
    net->Run();
    Take();
    Send({.flags = "FA", .ack = 2, .options = Timestamps(2000, 0)});
    Take();
    ASSERT_EQ(tcp().time_wait_count(), 1u);
    Send({.flags = "S", .seq = one.seq, .options = SynWithTimestamps(one.tsval)});
    const auto sent = Take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].flags, one.reopens ? "SA" : "A") << one.tsval << " " << one.seq;
    tcp().CloseListener(*l);
    net->Run();
    net->Advance(std::chrono::seconds(61));
    Take();
  }
}

// At 100,000 connections a second every tuple comes round while it waits.
TEST_P(TcpOptionsTest, ActiveOpenMayUseATupleInTimeWait) {
  Start(WithTimestamps());
  tcp::Connection* c = ConnectWithTimestamps(2000);
  c->ShutdownWrite();
  net->Run();
  Send({.flags = "FA", .ack = 2, .options = Timestamps(2000, 0)});
  Take();
  const uint32_t old_isn = host_isn_;
  auto again = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(again.ok()) << again.status();
  net->Run();
  Take();
  EXPECT_GT(static_cast<int32_t>(host_isn_ - old_isn), 1);
  EXPECT_EQ(tcp().time_wait_count(), 0u);
  Reset(*again);
}

TEST_P(TcpOptionsTest, WithoutTimestampsATupleInTimeWaitIsTaken) {
  Start();
  tcp::Connection* c = Connect();
  c->ShutdownWrite();
  net->Run();
  Send({.flags = "FA", .ack = 2});
  Take();
  const auto again = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  EXPECT_EQ(StatusToErrno(again.status()), EADDRINUSE);
  net->Advance(std::chrono::seconds(61));
}

// ---- Urgent data ----

// Covers: RFC 9293 MUST-30, RFC 9293 MUST-31, RFC 9293 MUST-32, RFC 9293 MUST-33
TEST_P(TcpOptionsTest, UrgentDataIsAnnouncedAndStaysInTheStream) {
  Start();
  tcp::Connection* c = Connect();
  Send({.flags = "UA", .payload = Pattern(10), .urgent = 5});
  EXPECT_EQ(observer_.urgent, 1);
  EXPECT_EQ(c->urgent_offset(), 5u);
  EXPECT_EQ(c->readable_bytes(), 10u);
  Send({.flags = "UA", .seq = 11, .urgent = 1000});  // farther on, not here yet
  EXPECT_EQ(observer_.urgent, 2);
  EXPECT_EQ(c->urgent_offset(), 1010u);
  Reset(c);
}

// Covers: bug:B56
TEST_P(TcpOptionsTest, WildUrgentPointersDoNoHarm) {
  for (uint16_t pointer : std::initializer_list<uint16_t>{0, 1, 10, 11, 65535}) {
    Start();
    tcp::Connection* c = Connect();
    Send({.flags = "UA", .payload = Pattern(10), .urgent = pointer});
    Send({.flags = "UA", .seq = 11, .payload = Pattern(10, 10), .urgent = pointer});
    EXPECT_EQ(ReadAll(*c), Pattern(20));
    Reset(c);
  }
}

// Covers: RFC 9293 MUST-62
TEST_P(TcpOptionsTest, SentPointerNamesTheOctetBehind) {
  Start();
  tcp::Connection* c = Connect();
  c->SendCopy(Pattern(10));
  c->SendUrgent();
  net->Run();
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].flags, "PAU");
  EXPECT_EQ(sent[0].urgent, 10);
  Reset(c);
}

// ---- DS field, hop limit ----

// Covers: RFC 9293 MUST-48, RFC 9293 MUST-49, RFC 9293 SHLD-21, RFC 9293 SHLD-22
TEST_P(TcpOptionsTest, DsFieldAndHopLimitAreTheUsers) {
  Start();
  tcp::SocketOptions options;
  options.tos = 0xb8;
  options.ttl = 7;
  auto c = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, options, &observer_);
  ASSERT_TRUE(c.ok());
  net->Run();
  auto sent = Take();
  EXPECT_EQ(sent[0].tos, 0xb8);
  EXPECT_EQ(sent[0].ttl, 7);
  Send({.flags = "SA", .seq = 0, .ack = 1});
  Take();
  (*c)->options().tos = 0x20;
  (*c)->OnOptionsChanged();
  Write(**c, 10);
  sent = Take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().tos, 0x20);
  Reset(*c);
}

// ---- Initial sequence numbers ----

// Covers: RFC 9293 MUST-41, RFC 9293 MUST-42, RFC 9293 MUST-43, bug:B58
TEST_P(TcpOptionsTest, ListenersAndPorts) {
  Start();
  tcp::Listener* any = Listen();
  tcp::Connection* c = Accept(*any);
  const IpAddress unspecified = IpAddress::Unspecified(family());
  EXPECT_EQ(StatusToErrno(tcp().Listen({unspecified, kHostPort, 0}, 1, {}, nullptr).status()),
            EADDRINUSE);
  EXPECT_EQ(StatusToErrno(tcp().Listen({host(), kHostPort, 0}, 1, {}, nullptr).status()),
            EADDRINUSE);
  EXPECT_EQ(StatusToErrno(tcp().Listen({peer(), 1234, 0}, 1, {}, nullptr).status()), EADDRNOTAVAIL);
  tcp().CloseListener(*any);
  auto exact = tcp().Listen({host(), kHostPort, 0}, 1, {}, nullptr);  // beside the connection
  EXPECT_TRUE(exact.ok()) << exact.status();
  Send({.payload = Pattern(10)});
  EXPECT_EQ(c->readable_bytes(), 10u);
  std::set<uint16_t> ports;
  std::vector<tcp::Connection*> all;
  int in_sequence = 0;
  uint16_t last = 0;
  for (int i = 0; i < 200; ++i) {
    auto opened = tcp().Connect({unspecified, 0, 0}, {peer(), 80, 0}, {}, &observer_);
    ASSERT_TRUE(opened.ok());
    const uint16_t port = (*opened)->flow().local_port;
    in_sequence += port == last + 1 ? 1 : 0;
    last = port;
    ports.insert(port);
    all.push_back(*opened);
  }
  EXPECT_EQ(ports.size(), 200u);
  EXPECT_LT(in_sequence, 10);
  for (tcp::Connection* one : all) one->Abort();
  tcp().CloseListener(**exact);
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
