// SPDX-License-Identifier: Apache-2.0
// The steps of RFC 9293 §3.10.7.4 one by one, and the replies to blind attacks of RFC 5961.
#include <cerrno>

#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpInputTest : public TcpHostTest {};
INSTANTIATE_TEST_SUITE_P(Families, TcpInputTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// ---- First: sequence ----

TEST_P(TcpInputTest, SegmentLeftOfTheWindowIsAcknowledged) {
  Start();
  tcp::Connection* c = Connect();
  Send({.seq = 0});  // as a keepalive has it
  // Covers: bug:B43
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1"));
  EXPECT_EQ(Dropped(DropReason::kTcpOutOfWindow), 1u);
  EXPECT_EQ(observer_.readable, 0);
  Reset(c);
}

// Covers: bug:B28
TEST_P(TcpInputTest, OldDataIsAlwaysAcknowledgedEmptySegmentsAtALimitedRate) {
  Start();
  tcp::Connection* c = Connect();
  Send({.payload = Pattern(10)});
  Take();
  for (int i = 0; i < 10; ++i) Send({.payload = Pattern(10)});
  EXPECT_EQ(TakeText().size(), 10u);
  for (int i = 0; i < 10; ++i) Send({.seq = 5});
  EXPECT_EQ(TakeText().size(), 1u);
  net->Advance(std::chrono::milliseconds(501));
  Send({.seq = 5});
  EXPECT_EQ(TakeText().size(), 1u);
  Reset(c);
}

TEST_P(TcpInputTest, OverlapOnTheLeftIsCutOff) {
  Start();
  tcp::Connection* c = Connect();
  Send({.payload = Pattern(100)});
  Send({.seq = 51, .payload = Pattern(100, 50)});
  EXPECT_EQ(ReadAll(*c), Pattern(150));
  Reset(c);
}

TEST_P(TcpInputTest, DataBeyondTheWindowIsCutOffAndItsFinIgnored) {
  Start();
  tcp::SocketOptions options;
  options.receive_buffer = 1000;
  tcp::Connection* c = Connect(SynOptions(), 65535, options);
  Send({.flags = "FA", .payload = Pattern(1200)});
  EXPECT_EQ(c->readable_bytes(), 1000u);
  EXPECT_FALSE(c->read_closed());
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1001"));
  Reset(c);
}

TEST_P(TcpInputTest, SegmentRightOfTheWindowIsDropped) {
  Start();
  tcp::SocketOptions options;
  options.receive_buffer = 1000;
  tcp::Connection* c = Connect(SynOptions(), 65535, options);
  Send({.seq = 1001, .payload = Pattern(10)});
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1"));
  EXPECT_EQ(Dropped(DropReason::kTcpOutOfWindow), 1u);
  Send({.seq = 1000, .payload = Pattern(10)});  // the last byte inside
  EXPECT_EQ(Dropped(DropReason::kTcpOutOfWindow), 1u);
  Reset(c);
}

// ---- Second: RST ----

// Covers: bug:B47, RFC 9293 SHLD-2
TEST_P(TcpInputTest, OnlyTheExactResetKills) {
  Start();
  Connect();
  Send({.flags = "R", .seq = 70000});  // outside: silence
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(Dropped(DropReason::kTcpOutOfWindow), 1u);
  Send({.flags = "R", .seq = 2});  // inside: asked about
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1"));
  EXPECT_EQ(Dropped(DropReason::kTcpUnacceptableReset), 1u);
  EXPECT_EQ(observer_.gone, 0);
  Send({.flags = "R", .seq = 1, .payload = Pattern(5)});
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ECONNRESET);
}

// Covers: bug:B51
TEST_P(TcpInputTest, WrongResetsCannotKeepAnExchangeGoing) {
  Start();
  tcp::Connection* c = Connect();
  size_t answers = 0;
  for (int i = 0; i < 100; ++i) {
    Send({.flags = "R", .seq = 2});
    answers += TakeText().size();
    net->Advance(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(answers, 1u);
  Reset(c);
}

// Covers: RFC 9293 MUST-66
TEST_P(TcpInputTest, ResetIsTakenWithAClosedWindow) {
  Start();
  tcp::SocketOptions options;
  options.receive_buffer = 100;
  Connect(SynOptions(), 65535, options);
  Send({.payload = Pattern(100)});
  EXPECT_EQ(Take().back().window, 0);
  Send({.flags = "R", .seq = 101});
  EXPECT_EQ(observer_.gone, 1);
}

// ---- Fourth: SYN ----

// Covers: bug:B48
TEST_P(TcpInputTest, SynOnAConnectionIsChallenged) {
  Start();
  tcp::Connection* c = Connect();
  Send({.flags = "S", .seq = 10});
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1"));
  EXPECT_EQ(Dropped(DropReason::kTcpUnexpectedSyn), 1u);
  net->Advance(std::chrono::seconds(1));
  Send({.flags = "S", .seq = 100000});
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1"));
  EXPECT_EQ(c->state(), tcp::State::kEstablished);
  Reset(c);
}

// Covers: bug:B50
TEST_P(TcpInputTest, ChallengesOfOneConnectionDoNotShowInAnother) {
  Start();
  tcp::Connection* c = Connect();
  for (int i = 0; i < 200; ++i) Send({.flags = "R", .seq = 2});
  Take();
  RecordingObserver other;
  host_port_ = kHostPort + 1;
  auto second = tcp().Connect({host(), kHostPort + 1, 0}, {peer(), kPeerPort, 0}, {}, &other);
  ASSERT_TRUE(second.ok());
  net->Run();
  Take();
  Send({.flags = "SA", .seq = 0, .ack = 1});
  Take();
  Send({.flags = "R", .seq = 2});
  EXPECT_EQ(TakeText().size(), 1u);
  (*second)->Abort();
  Reset(c);
}

TEST_P(TcpInputTest, RetransmittedSynGetsTheSynAckAgain) {
  Start();
  tcp::Listener* l = Listen();
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  Take();
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1"));
  tcp().CloseListener(*l);
  net->Run();
  Take();
}

// ---- Fifth: ACK ----

TEST_P(TcpInputTest, SegmentWithoutAckIsDropped) {
  Start();
  tcp::Connection* c = Connect();
  Send({.flags = "P", .payload = Pattern(10)});
  EXPECT_EQ(c->readable_bytes(), 0u);
  EXPECT_EQ(Dropped(DropReason::kTcpBadFlags), 1u);
  EXPECT_THAT(TakeText(), IsEmpty());
  Reset(c);
}

// Covers: RFC 9293 MAY-12
TEST_P(TcpInputTest, AckOfWhatWasNeverSentIsChallenged) {
  Start();
  tcp::Connection* c = Connect();
  Send({.ack = 2, .payload = Pattern(10)});
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1"));
  EXPECT_EQ(Dropped(DropReason::kTcpBadAck), 1u);
  EXPECT_EQ(c->readable_bytes(), 0u);
  net->Advance(std::chrono::seconds(1));
  Send({.ack = 1 - 70000u, .payload = Pattern(10)});
  EXPECT_EQ(Dropped(DropReason::kTcpBadAck), 2u);
  EXPECT_EQ(TakeText().size(), 1u);
  Reset(c);
}

TEST_P(TcpInputTest, HandshakeAckForSomethingElseIsReset) {
  Start();
  tcp::Listener* l = Listen();
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  Take();
  Send({.seq = 1, .ack = 7});
  EXPECT_THAT(TakeText(), ElementsAre("R 7:7(0)"));
  EXPECT_EQ(l->waiting(), 0u);
  Send({.seq = 1, .ack = 1});
  EXPECT_EQ(l->waiting(), 1u);
  tcp().CloseListener(*l);
  net->Run();
  Take();
}

TEST_P(TcpInputTest, FullAcceptQueueHoldsHandshakesBack) {
  Start();
  tcp::Listener* l = Listen(0);  // one may wait
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  Take();
  Send({.seq = 1, .ack = 1});
  EXPECT_EQ(l->waiting(), 1u);
  net->Inject(Build({.flags = "S", .seq = 0, .options = SynOptions()}, 40001));
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(Dropped(DropReason::kTcpListenQueueFull), 1u);
  EXPECT_EQ(stack->mib().tcp_ext.listen_overflows.value(), 1u);
  tcp().CloseListener(*l);
  net->Run();
  Take();
}

TEST_P(TcpInputTest, LastAckWaitsForRoomInTheAcceptQueue) {
  Start();
  tcp::Listener* l = Listen(0);
  net->Inject(Build({.flags = "S", .seq = 0, .options = SynOptions()}, 40001));
  const uint32_t first_isn = (Take(), host_isn_);
  net->Inject(Build({.flags = "S", .seq = 0, .options = SynOptions()}, 40002));
  Take();
  net->Inject(Build({.seq = 1, .ack = 1}, 40002));
  EXPECT_EQ(l->waiting(), 1u);
  host_isn_ = first_isn;
  net->Inject(Build({.seq = 1, .ack = 1}, 40001));
  EXPECT_EQ(l->waiting(), 1u);
  EXPECT_EQ(Dropped(DropReason::kTcpAcceptQueueFull), 1u);
  tcp::Connection* accepted = l->Accept();
  net->Inject(Build({.seq = 1, .ack = 1}, 40001));
  EXPECT_EQ(l->waiting(), 1u);
  accepted->Abort();
  tcp().CloseListener(*l);
  net->Run();
  Take();
}

// Covers: bug:B05, RFC 9293 MUST-57, RFC 9293 MUST-63
TEST_P(TcpInputTest, GroupsAndNobodyCannotConnect) {
  Start();
  tcp::Listener* l = Listen();
  const auto syn = [&](const IpAddress& from, const IpAddress& to, const MacAddress& mac) {
    Frame frame;
    frame.Eth(kPeerMac, mac);
    if (v4()) {
      frame.Ipv4({.source = from.v4(), .destination = to.v4()});
    } else {
      frame.Ipv6({.source = from.v6(), .destination = to.v6()});
    }
    frame.Tcp({.source_port = kPeerPort, .destination_port = kHostPort, .flags = "S"});
    net->Inject(frame.Build());
  };
  const IpAddress group =
      v4() ? IpAddress(Ipv4Address(224, 0, 0, 1)) : IpAddress(Ipv6Address::AllNodes());
  syn(peer(), group, MulticastMac(group));
  EXPECT_EQ(Dropped(DropReason::kTcpNotUnicast), 1u);
  syn(peer(), host(), MulticastMac(group));  // unicast in a group frame
  syn(group, host(), kHostMac);
  syn(IpAddress::Unspecified(family()), host(), kHostMac);
  syn(host(), host(), kHostMac);
  EXPECT_EQ(l->half_open(), 0u);
  EXPECT_THAT(TakeText(), IsEmpty());
  tcp().CloseListener(*l);
}

// Covers: bug:B52
TEST_P(TcpInputTest, ImpossibleDataOffsetsAreDropped) {
  Start();
  tcp::Listener* l = Listen();
  for (uint8_t offset : std::initializer_list<uint8_t>{0, 1, 4, 6, 15}) {
    Frame frame;
    frame.Eth(kPeerMac, kHostMac);
    if (v4()) {
      frame.Ipv4({.source = peer().v4(), .destination = host().v4()});
    } else {
      frame.Ipv6({.source = peer().v6(), .destination = host().v6()});
    }
    frame.Tcp({.source_port = kPeerPort,
               .destination_port = kHostPort,
               .flags = "S",
               .data_offset = offset});
    net->Inject(frame.Build());
  }
  EXPECT_EQ(Dropped(DropReason::kTcpTruncated), 5u);
  EXPECT_THAT(TakeText(), IsEmpty());
  tcp().CloseListener(*l);
}

// Covers: RFC 9293 MUST-50
TEST_P(TcpInputTest, OptionsOfIpDoNotMatter) {
  if (!v4()) return;  // IPv6 has extension headers: tests/stack/ipv6
  Start();
  tcp::Listener* l = Listen();
  Frame frame;
  frame.Eth(kPeerMac, kHostMac);
  // No-operation, then an unknown one.
  frame.Ipv4({.source = peer().v4(), .destination = host().v4(), .options = {1, 0x9e, 3, 0}});
  frame.Tcp(
      {.source_port = kPeerPort, .destination_port = kHostPort, .seq = kPeerIsn, .flags = "S"});
  net->Inject(frame.Build());
  EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1"));
  tcp().CloseListener(*l);
  net->Run();
  Take();
}

// Covers: bug:B59
TEST_P(TcpInputTest, NoSegmentMayBeFragmented) {
  if (!v4()) return;  // there is no such bit in IPv6
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 5000);
  Send({.flags = "FA"});
  c->Release();
  net->Run();
  net->Inject(Build({.flags = "S", .seq = 0}, 40009));  // to a connection of nobody: a reset
  for (const ByteVector& bytes : TakeFrames()) EXPECT_TRUE(Dissect(bytes).dont_fragment);
  net->Advance(std::chrono::hours(1));
  Take();
}

// ---- Budgets ----

TEST_P(TcpInputTest, HalfOpenConnectionsAreBounded) {
  tcp::Config config = Plain();
  config.max_half_open = 10;
  config.syn_cookies = tcp::SynCookieMode::kNever;
  Start(config);
  tcp::Listener* l = Listen(1000);
  for (uint16_t port = 1; port <= 50; ++port)
    net->Inject(Build({.flags = "S", .seq = 0, .options = SynOptions()}, port));
  EXPECT_EQ(l->half_open(), 10u);
  EXPECT_EQ(tcp().connection_count(), 10u);
  EXPECT_EQ(Dropped(DropReason::kTcpListenQueueFull), 40u);
  tcp().CloseListener(*l);
  net->Run();
  Take();
}

TEST_P(TcpInputTest, ConnectionsAreBounded) {
  for (size_t limit : std::initializer_list<size_t>{0, 1}) {
    tcp::Config config = Plain();
    config.max_connections = limit;
    Start(config);
    tcp::Listener* l = Listen();
    for (uint16_t port = 1; port <= 3; ++port)
      net->Inject(Build({.flags = "S", .seq = 0, .options = SynOptions()}, port));
    EXPECT_EQ(tcp().connection_count(), limit);
    EXPECT_EQ(Dropped(DropReason::kTcpTooMany), 3 - limit);
    const auto refused = tcp().Connect({host(), 0, 0}, {peer(), 99, 0}, {}, &observer_);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    tcp().CloseListener(*l);
    net->Run();
    Take();
  }
}

}  // namespace
}  // namespace tapwire::testutil
