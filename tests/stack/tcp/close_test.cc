// SPDX-License-Identifier: Apache-2.0
// Closing in every order, TIME-WAIT and its reuse, aborts, and what ICMP may end.
#include <cerrno>

#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpCloseTest : public TcpHostTest {
 protected:
  // To TIME-WAIT, our side closing first; the peer's FIN is its byte 1.
  void ToTimeWait() {
    tcp::Connection* c = Connect();
    c->ShutdownWrite();
    net->Run();
    Send({.flags = "FA", .ack = 2});
    ASSERT_EQ(tcp().time_wait_count(), 1u);
    Take();
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpCloseTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// Covers: bug:B11
TEST_P(TcpCloseTest, DataAndFinAfterOurFin) {
  Start();
  tcp::Connection* c = Connect();
  c->ShutdownWrite();
  net->Run();
  Take();
  Send({.payload = Pattern(23)});
  Send({.flags = "FA", .seq = 24});
  EXPECT_EQ(c->state(), tcp::State::kClosing);
  EXPECT_EQ(c->readable_bytes(), 23u);
  EXPECT_TRUE(c->read_closed());
  EXPECT_EQ(TakeText().back(), "A 2:2(0) ack 25");
  Reset(c);
}

// Covers: bug:B13
TEST_P(TcpCloseTest, NothingBehindAQueuedFinCounts) {
  Start();
  tcp::Connection* c = Connect();
  Send({.flags = "FA", .seq = 101, .payload = Pattern(100)});  // ends at 201
  Send({.flags = "FA", .seq = 201, .payload = Pattern(100)});
  Send({.seq = 1, .payload = Pattern(100)});
  EXPECT_EQ(c->readable_bytes(), 200u);
  EXPECT_TRUE(c->read_closed());
  EXPECT_EQ(TakeText().back(), "A 1:1(0) ack 202");
  Reset(c);
}

// Covers: bug:B15
TEST_P(TcpCloseTest, QueuedFinWaitsForTheWholeHole) {
  Start();
  tcp::Connection* c = Connect();
  Send({.flags = "FA", .seq = 101, .payload = Pattern(100)});
  Send({.seq = 1, .payload = Pattern(50)});
  EXPECT_FALSE(c->read_closed());
  EXPECT_EQ(c->state(), tcp::State::kEstablished);
  Send({.seq = 51, .payload = Pattern(50)});
  EXPECT_TRUE(c->read_closed());
  Reset(c);
}

// Covers: bug:B14
TEST_P(TcpCloseTest, LostFinIsSentAgain) {
  Start();
  tcp::Connection* c = Connect();
  c->ShutdownWrite();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("FA 1:1(0) ack 1"));
  net->Advance(std::chrono::milliseconds(3500));
  const auto sent = TakeText();
  EXPECT_GE(sent.size(), 2u);
  for (const std::string& s : sent) EXPECT_EQ(s, "FA 1:1(0) ack 1");
  Send({.flags = "FA"});  // CLOSING: still not acknowledged
  Take();
  net->Advance(std::chrono::seconds(5));
  EXPECT_FALSE(TakeText().empty());
  Reset(c);
}

// Covers: bug:B16, RFC 9293 SHLD-3, RFC 9293 MAY-1
TEST_P(TcpCloseTest, DataAfterTheUserIsGoneIsReset) {
  Start();
  tcp::Connection* c = Connect();
  c->Release();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("FA 1:1(0) ack 1"));
  Send({.ack = 2});
  EXPECT_THAT(TakeText(), IsEmpty());
  Send({.ack = 2, .payload = Pattern(10)});
  EXPECT_THAT(TakeText(), ElementsAre("R 2:2(0)"));
  EXPECT_EQ(Dropped(DropReason::kTcpAfterClose), 1u);
  EXPECT_EQ(tcp().connection_count(), 0u);
}

// Covers: RFC 9293 SHLD-3
TEST_P(TcpCloseTest, CloseWithUnreadDataResets) {
  Start();
  tcp::Connection* c = Connect();
  Send({.payload = Pattern(10)});
  Take();
  c->Release();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("RA 1:1(0) ack 11"));
  EXPECT_EQ(tcp().connection_count(), 0u);
}

TEST_P(TcpCloseTest, ZeroLingerResets) {
  Start();
  tcp::SocketOptions options;
  options.linger = Duration::zero();
  tcp::Connection* c = Connect(SynOptions(), 65535, options);
  c->Release();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("RA 1:1(0) ack 1"));
}

TEST_P(TcpCloseTest, FinWait2OfAnOrphanEnds) {
  Start();
  tcp::Connection* c = Connect();
  c->Release();
  net->Run();
  Send({.ack = 2});
  Take();
  net->Advance(std::chrono::seconds(59));
  EXPECT_EQ(tcp().connection_count(), 1u);
  net->Advance(std::chrono::seconds(2));
  EXPECT_EQ(tcp().connection_count(), 0u);
}

// Covers: bug:B18
TEST_P(TcpCloseTest, LastAckGivesUp) {
  Start();
  tcp::Connection* c = Connect();
  Send({.flags = "FA"});
  Write(*c, 10);
  c->Release();
  net->Run();
  net->Advance(std::chrono::hours(1));
  EXPECT_EQ(tcp().connection_count(), 0u);
  Take();
}

// ---- TIME-WAIT ----

// Covers: RFC 9293 MUST-13
TEST_P(TcpCloseTest, RetransmittedFinIsAcknowledgedAndRestartsTheWait) {
  Start();
  ToTimeWait();
  net->Advance(std::chrono::seconds(59));
  Send({.flags = "FA", .ack = 2});
  EXPECT_THAT(TakeText(), ElementsAre("A 2:2(0) ack 2"));
  net->Advance(std::chrono::seconds(59));
  EXPECT_EQ(tcp().time_wait_count(), 1u);
  net->Advance(std::chrono::seconds(2));
  EXPECT_EQ(tcp().time_wait_count(), 0u);
  Send({.flags = "FA", .ack = 2});
  EXPECT_THAT(TakeText(), ElementsAre("R 2:2(0)"));
}

// Covers: rfc:TW-1
TEST_P(TcpCloseTest, ResetDoesNotCutTheWaitShort) {
  Start();
  ToTimeWait();
  Send({.flags = "R", .seq = 2});
  EXPECT_EQ(tcp().time_wait_count(), 1u);
  EXPECT_EQ(Dropped(DropReason::kTcpTimeWait), 1u);
  net->Advance(std::chrono::seconds(61));
}

// Covers: bug:B17, RFC 9293 MAY-2
TEST_P(TcpCloseTest, SynAboveTheLastNumberReopens) {
  Start();
  tcp::Listener* l = Listen();
  ToTimeWait();
  const uint32_t old_isn = host_isn_;
  Send({.flags = "S", .seq = 2, .options = SynOptions()});  // not above
  EXPECT_THAT(TakeText(), ElementsAre("A 2:2(0) ack 2"));
  EXPECT_EQ(tcp().time_wait_count(), 1u);
  Send({.flags = "S", .seq = 3, .options = SynOptions()});
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].flags, "SA");
  EXPECT_GT(static_cast<int32_t>(host_isn_ - old_isn), 2);
  EXPECT_EQ(tcp().time_wait_count(), 0u);
  tcp().CloseListener(*l);
  net->Run();
  Take();
}

TEST_P(TcpCloseTest, TimeWaitIsBounded) {
  for (size_t limit : std::initializer_list<size_t>{0, 1, 2}) {
    tcp::Config config = Plain();
    config.max_time_wait = limit;
    Start(config);
    for (uint16_t i = 0; i < 4; ++i) {
      RecordingObserver observer;
      auto c = tcp().Connect({host(), static_cast<uint16_t>(5000 + i), 0}, {peer(), kPeerPort, 0},
                             {}, &observer);
      ASSERT_TRUE(c.ok());
      net->Run();
      Take();
      Send({.flags = "SA", .seq = 0, .ack = 1});
      (*c)->ShutdownWrite();
      net->Run();
      Send({.flags = "FA", .ack = 2});
      EXPECT_EQ(observer.gone, 1);
    }
    EXPECT_EQ(tcp().time_wait_count(), std::min<size_t>(limit, 4));
    net->Advance(std::chrono::seconds(61));
    Take();
  }
}

// ---- ICMP ----

class TcpIcmpTest : public TcpCloseTest {
 protected:
  // The error quotes a segment of ours with the given relative sequence number.
  void SendError(uint8_t type, uint8_t code, uint32_t seq, uint32_t rest = 0) {
    Frame quote;
    const TcpArgs tcp{.source_port = host_port_,
                      .destination_port = kPeerPort,
                      .seq = host_isn_ + seq,
                      .flags = "A"};
    if (v4()) {
      // As long as the segment that was too big (RFC 1191: a smaller one proves nothing).
      quote.Ipv4({.source = host().v4(), .destination = peer().v4(), .total_length = 1440})
          .Tcp(tcp);
    } else {
      quote.Ipv6({.source = host().v6(), .destination = peer().v6(), .payload_length = 1420})
          .Tcp(tcp);
    }
    Frame error;
    error.Eth(kPeerMac, kHostMac);
    if (v4()) {
      error.Ipv4({.source = peer().v4(), .destination = host().v4()});
      error.Icmpv4({.type = type, .code = code, .rest = rest});
    } else {
      error.Ipv6({.source = peer().v6(), .destination = host().v6()});
      error.Icmpv6({.type = type, .code = code, .rest = rest});
    }
    error.Payload(quote.Build());
    net->Inject(error.Build());
  }
  void PortUnreachable(uint32_t seq) { v4() ? SendError(3, 3, seq) : SendError(1, 4, seq); }
  void HostUnreachable(uint32_t seq) { v4() ? SendError(3, 1, seq) : SendError(1, 3, seq); }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpIcmpTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// Covers: bug:B10, RFC 9293 SHLD-26, rfc:ICMP-14
TEST_P(TcpIcmpTest, HardErrorEndsAnOpenInProgress) {
  Start();
  ASSERT_TRUE(tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_).ok());
  net->Run();
  Take();
  PortUnreachable(5);  // not in flight
  EXPECT_EQ(observer_.gone, 0);
  PortUnreachable(0);
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ECONNREFUSED);
}

// Covers: bug:B10, RFC 9293 MUST-54, RFC 9293 MUST-56, RFC 9293 MUST-47
TEST_P(TcpIcmpTest, EstablishedConnectionSurvivesAndRemembers) {
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 10);
  Take();
  PortUnreachable(1);
  HostUnreachable(1);
  EXPECT_EQ(observer_.gone, 0);
  EXPECT_EQ(StatusToErrno(c->TakeSoftError()), EHOSTUNREACH);
  HostUnreachable(1);
  net->Advance(std::chrono::hours(1));
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), EHOSTUNREACH);  // says more than "timed out"
  Take();
}

// Covers: RFC 9293 SHLD-25
TEST_P(TcpIcmpTest, UnreachableNetHostAndSourceRouteAreReported) {
  struct Case {
    uint8_t v4, v6;
    int err;
  };
  // IPv6 has no source route; there 5 is "source address failed policy" (RFC 4443 §3.1).
  for (const Case& t : {Case{0, 0, ENETUNREACH}, Case{1, 3, EHOSTUNREACH},
                        Case{5, 5, v4() ? ENETUNREACH : EACCES}}) {
    SCOPED_TRACE(int{t.v4});
    Start();
    tcp::Connection* c = Connect();
    Write(*c, 10);
    Take();
    v4() ? SendError(3, t.v4, 1) : SendError(1, t.v6, 1);
    EXPECT_EQ(observer_.gone, 0);
    EXPECT_EQ(StatusToErrno(c->TakeSoftError()), t.err);
    EXPECT_TRUE(c->TakeSoftError().ok()) << "taken";
    Reset(c);
  }
}

// They are told to those who ask, and nobody else is disturbed.
// Covers: RFC 9293 SHLD-20
TEST_P(TcpIcmpTest, ReportsOfErrorsNeedNotBeTaken) {
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 10);
  Take();
  observer_ = RecordingObserver();
  for (int i = 0; i < 100; ++i) HostUnreachable(1);
  EXPECT_EQ(observer_.gone + observer_.readable + observer_.writable + observer_.urgent, 0);
  Send({.ack = 11});
  EXPECT_TRUE(c->TakeSoftError().ok()) << "an acknowledgment proves it wrong";
  Write(*c, 10);
  net->Advance(std::chrono::hours(1));
  EXPECT_EQ(observer_.err(), ETIMEDOUT) << "and it is not blamed later";
  Take();
}

// Covers: RFC 9293 SHLD-9
TEST_P(TcpIcmpTest, TroubleCanBeSeenBetweenR1AndR2) {
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 10);
  while (c->Info().retransmits < 3) {  // R1
    EXPECT_TRUE(c->TakeSoftError().ok());
    net->Advance(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(observer_.gone, 0);
  EXPECT_EQ(StatusToErrno(c->TakeSoftError()), ETIMEDOUT);
  Send({.ack = 11});
  EXPECT_EQ(c->Info().retransmits, 0);
  EXPECT_TRUE(c->TakeSoftError().ok());
  Take();
  Reset(c);
}

// The window keeps its count of segments.
// Covers: rfc:CC-14
TEST_P(TcpIcmpTest, SmallerPathMtuMakesASmallerWindow) {
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 20'000);
  EXPECT_EQ(Take().size(), 10u);
  const uint32_t before = c->Info().snd_cwnd_bytes;
  EXPECT_EQ(before, v4() ? 14'600u : 14'400u);
  v4() ? SendError(3, 4, 1, 1300) : SendError(2, 0, 1, 1300);
  EXPECT_EQ(c->Info().snd_cwnd_bytes, v4() ? 14'600u * 1260 / 1460 : 14'400u * 1240 / 1440);
  EXPECT_LE(Take().size(), 10u) << "no burst of smaller segments";
  Reset(c);
}

// Covers: rfc:MTU-2
TEST_P(TcpIcmpTest, SmallerPathMtuMakesSmallerSegments) {
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 1400);
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:1401(1400) ack 1"));
  v4() ? SendError(3, 4, 1, 1300) : SendError(2, 0, 1, 1300);
  const uint32_t size = v4() ? 1260 : 1240;
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].length, size);
  EXPECT_EQ(sent[0].seq, 1u);
  EXPECT_EQ(sent[1].length, 1400 - size);
  EXPECT_EQ(c->Info().snd_mss, size);
  Reset(c);
}

// Covers: RFC 9293 MUST-55
TEST_P(TcpIcmpTest, SourceQuenchChangesNothing) {
  if (!v4()) return;  // IPv4 only
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 10);
  Take();
  const uint32_t cwnd = c->Info().snd_cwnd_bytes;
  SendError(4, 0, 1);
  EXPECT_EQ(c->Info().snd_cwnd_bytes, cwnd);
  EXPECT_TRUE(c->TakeSoftError().ok());
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
