// SPDX-License-Identifier: Apache-2.0
// Meetings of two events that each have their own test, where stacks have gone wrong.
#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using tcp::State;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpCornerTest : public TcpLossTest {};
INSTANTIATE_TEST_SUITE_P(Families, TcpCornerTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// ---- Opening ----

TEST_P(TcpCornerTest, AbortBeforeTheSynLeavesSendsNothing) {
  Start();
  auto c = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(c.ok());
  (*c)->Abort();
  net->Run();
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_EQ(observer_.gone, 0);  // who aborts is not told
}

TEST_P(TcpCornerTest, ConnectThroughADeadDeviceTimesOut) {
  Start();
  device().FailSends(netdev::TxResult::kDropped);
  ASSERT_TRUE(tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_).ok());
  net->Advance(minutes(3));
  EXPECT_EQ(observer_.gone, 0);
  net->Advance(minutes(2));
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ETIMEDOUT);
  EXPECT_EQ(tcp().connection_count(), 0u);
}

TEST_P(TcpCornerTest, HandshakeDataAndEndInOneSegment) {
  Start();
  tcp::Listener* l = Listen();
  Send({.flags = "S", .seq = 0, .options = SynOptions(1000)});
  Take();
  Send({.flags = "FA", .payload = Pattern(10)});  // handshake, data and end in one segment
  tcp::Connection* c = l->Accept();
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->state(), State::kCloseWait);
  EXPECT_EQ(ReadAll(*c), Pattern(10));
  EXPECT_TRUE(c->read_closed());
  Take();
  c->Release();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("FA 1:1(0) ack 12"));
  Send({.seq = 12, .ack = 2});
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_EQ(tcp().time_wait_count(), 0u) << "the peer closed first";
  tcp().CloseListener(*l);
}

// The peer did not get our SYN-ACK and yet sends data with the handshake's end.
TEST_P(TcpCornerTest, DataWithTheAcknowledgmentOfASecondSynAck) {
  Start();
  tcp::Listener* l = Listen();
  Send({.flags = "S", .seq = 0, .options = SynOptions(1000)});
  Take();
  net->Advance(milliseconds(1100));
  EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1"));
  Send({.payload = Pattern(20)});
  tcp::Connection* c = l->Accept();
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(ReadAll(*c), Pattern(20));
  Reset(c);
  tcp().CloseListener(*l);
}

TEST_P(TcpCornerTest, ScaleFollowsTheBufferInBothRoles) {
  struct Case {
    size_t buffer;
    uint8_t scale;
  };
  for (const Case& t : {Case{1000, 0}, Case{65'535, 0}, Case{65'536, 1}, Case{1u << 20, 5},
                        Case{1u << 30, 14}, Case{size_t{1} << 34, 14}}) {
    SCOPED_TRACE(t.buffer);
    Start();
    tcp::SocketOptions options;
    options.receive_buffer = t.buffer;
    auto c = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, options, &observer_);
    ASSERT_TRUE(c.ok());
    net->Run();
    auto sent = Take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].options.window_scale, t.scale);
    (*c)->Abort();
    net->Run();
    Take();
    tcp::Listener* l = Listen(16, options);
    Send({.flags = "S", .seq = 0, .options = SynOptions(1000, true, 0)});
    sent = Take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].options.window_scale, t.scale);
    EXPECT_EQ(sent[0].window, std::min<size_t>(t.buffer, 65'535));
    tcp().CloseListener(*l);
    net->Run();
    Take();
  }
}

TEST_P(TcpCornerTest, TinyMssOfAClientIsRaisedToo) {
  Start();
  tcp::Listener* l = Listen();
  tcp::Connection* c = Accept(*l, SynOptions(8));
  Write(*c, 1000);
  for (const SentSegment& s : Take()) EXPECT_TRUE(s.length == 88 || s.length == 1000 % 88);
  Reset(c);
  tcp().CloseListener(*l);
}

TEST_P(TcpCornerTest, PassiveSideUsesTimestampsOnlyIfTheClientDoes) {
  for (const bool client : {false, true}) {
    tcp::Config config = Plain();
    config.timestamps = true;
    Start(config);
    tcp::Listener* l = Listen();
    ByteVector options = SynOptions(1000);
    if (client) options.insert(options.end(), {1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0});
    Send({.flags = "S", .seq = 0, .options = options});
    const auto sent = Take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].options.timestamps.has_value(), client);
    if (client) {
      EXPECT_EQ(sent[0].options.timestamps->tsecr, 9u);
    }
    tcp().CloseListener(*l);
    net->Run();
    Take();
  }
}

// ---- The receive window ----

TEST_P(TcpCornerTest, SegmentsAtTheEdgeOfTheWindow) {
  Start();
  tcp::SocketOptions options;
  options.receive_buffer = 50'000;
  tcp::Connection* c = Connect(SynOptions(1000, false), 65535, options);
  Send({.seq = 50'001, .payload = {1}});  // the first byte outside
  EXPECT_EQ(Dropped(DropReason::kTcpOutOfWindow), 1u);
  Send({.seq = 50'000, .payload = {2, 3}});  // the last one inside, and one more
  Send({.seq = 49'999, .payload = {4}});
  for (uint32_t seq = 1; seq < 49'999; seq += 7142) {
    Send({.seq = seq, .payload = ByteVector(std::min(7142u, 49'999 - seq))});
  }
  Take();
  const ByteVector all = ReadAll(*c);
  ASSERT_EQ(all.size(), 50'000u);
  EXPECT_EQ(all[49'998], 4);
  EXPECT_EQ(all[49'999], 2);
  Take();
  Reset(c);
}

// A peer that ends with a hole open: what is behind the hole is never shown.
TEST_P(TcpCornerTest, ResetWithAHoleLeavesOnlyWhatWasInOrder) {
  Start();
  tcp::Connection* c = Open(true);
  Send({.seq = 1, .payload = Pattern(10)});
  Send({.seq = 21, .payload = Pattern(10)});
  EXPECT_EQ(c->readable_bytes(), 10u);
  Send({.flags = "RA", .seq = 11});
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ECONNRESET);
  Take();
}

TEST_P(TcpCornerTest, NoWindowUpdateAfterThePeersFin) {
  Start();
  tcp::SocketOptions options;
  options.receive_buffer = 4000;
  tcp::Connection* c = Connect(SynOptions(1000), 65535, options);
  for (uint32_t i = 0; i < 3; ++i) Send({.seq = 1 + i * 1000, .payload = Pattern(1000)});
  Send({.flags = "FA", .seq = 3001, .payload = Pattern(500)});
  Take();
  EXPECT_EQ(c->state(), State::kCloseWait);
  EXPECT_EQ(ReadAll(*c).size(), 3500u);
  net->Advance(seconds(10));
  EXPECT_THAT(TakeText(), IsEmpty());
  Reset(c);
}

// ---- Closing ----

TEST_P(TcpCornerTest, WhatCanArriveInFinWait1) {
  struct Case {
    Args segment;
    State next;
  };
  const std::vector<Case> cases = {
      {{.flags = "FA", .ack = 102}, State::kTimeWait},
      {{.flags = "FA", .ack = 101}, State::kClosing},
      {{.flags = "A", .ack = 102}, State::kFinWait2},
      {{.flags = "A", .ack = 51}, State::kFinWait1},   // a part of the data
      {{.flags = "A", .ack = 101}, State::kFinWait1},  // all of it, not the FIN
      {{.flags = "PA", .ack = 102, .payload = Pattern(5)}, State::kFinWait2},
      {{.flags = "PA", .ack = 1, .payload = Pattern(5)}, State::kFinWait1},
  };
  for (const Case& t : cases) {
    SCOPED_TRACE(std::string(t.segment.flags) + " ack " + std::to_string(t.segment.ack));
    Start();
    observer_ = RecordingObserver();
    tcp::Connection* c = Open(true);
    Write(*c, 100);
    c->ShutdownWrite();
    net->Run();
    EXPECT_THAT(TakeText(), ElementsAre("PA 1:101(100) ack 1", "FA 101:101(0) ack 1"));
    Send(t.segment);
    if (t.next == State::kTimeWait) {
      EXPECT_EQ(tcp().time_wait_count(), 1u);
      EXPECT_EQ(observer_.gone, 1);
      net->Advance(minutes(2));
    } else {
      EXPECT_EQ(c->state(), t.next);
      EXPECT_EQ(c->readable_bytes(), t.segment.payload.size());
      c->Abort();
      net->Run();
    }
    Take();
  }
}

TEST_P(TcpCornerTest, ClosingAndLastAckEndOnlyWithTheAcknowledgmentOfTheFin) {
  for (const bool closing : {true, false}) {
    Start();
    tcp::Connection* c = Open(true);
    Write(*c, 100);
    if (!closing) Send({.flags = "FA"});
    c->ShutdownWrite();
    net->Run();
    if (closing) Send({.flags = "FA"});
    Take();
    const State state = closing ? State::kClosing : State::kLastAck;
    ASSERT_EQ(c->state(), state);
    for (const uint32_t ack : {1u, 50u, 101u}) {
      Send({.seq = 2, .ack = ack});
      EXPECT_EQ(c->state(), state) << ack;
    }
    Send({.seq = 2, .ack = 103});  // of what was never sent
    EXPECT_EQ(c->state(), state);
    Take();
    Send({.seq = 2, .ack = 102});
    EXPECT_EQ(tcp().connection_count(), 0u);
    EXPECT_EQ(tcp().time_wait_count(), closing ? 1u : 0u);
    net->Advance(minutes(2));
    Take();
  }
}

TEST_P(TcpCornerTest, BothCloseWithDataOnTheWay) {
  Start();
  tcp::Connection* c = Open(true);
  Write(*c, 100);
  c->ShutdownWrite();
  net->Run();
  Take();
  // The peer's data and FIN crossed ours; they come in the wrong order.
  Send({.flags = "FA", .seq = 51, .payload = Pattern(50, 50)});
  EXPECT_EQ(c->state(), State::kFinWait1);
  Send({.seq = 1, .payload = Pattern(50)});
  EXPECT_EQ(c->state(), State::kClosing);
  EXPECT_EQ(ReadAll(*c), Pattern(100));
  EXPECT_TRUE(c->read_closed());
  const auto sent = TakeText();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back(), "A 102:102(0) ack 102");
  Send({.seq = 102, .ack = 102});
  EXPECT_EQ(tcp().time_wait_count(), 1u);
  EXPECT_TRUE(observer_.status.ok());
  net->Advance(minutes(2));
  EXPECT_EQ(tcp().time_wait_count(), 0u);
  Take();
}

TEST_P(TcpCornerTest, TimeWaitLastsExactlyItsTime) {
  Start();
  tcp::Connection* c = Open(true);
  c->ShutdownWrite();
  net->Run();
  Send({.flags = "FA", .ack = 2});
  Take();
  net->Advance(milliseconds(59'999));
  EXPECT_EQ(tcp().time_wait_count(), 1u);
  net->Advance(milliseconds(2));
  EXPECT_EQ(tcp().time_wait_count(), 0u);
  Send({.flags = "FA", .ack = 2});  // nobody remembers
  EXPECT_THAT(TakeText(), ElementsAre("R 2:2(0)"));
}

// ---- Sending ----

TEST_P(TcpCornerTest, SendBufferLargerThanThePeersWindow) {
  Start();
  tcp::Connection* c = Open(true, 2500);
  EXPECT_EQ(Write(*c, 10'000), 10'000u);
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1), Seg(2)));
  uint32_t acked = 1;
  for (int i = 0; i < 100 && acked < 10'001; ++i) {
    acked = std::min(acked + 1000, 10'001u);
    Send({.ack = acked, .window = 2500});
    for (const SentSegment& s : Take()) EXPECT_LE(s.seq + s.length, acked + 2500);
  }
  EXPECT_EQ(c->unacked_bytes(), 0u);
  Reset(c);
}

// RTO backs off, and comes down with a sample after progress.
TEST_P(TcpCornerTest, BackOffEndsWithProgress) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 1);
  net->Advance(seconds(5));
  Take();
  EXPECT_GE(c->Info().backoff, 4);
  Send({.ack = After(1)});
  WriteSegments(*c, 1);
  net->Advance(milliseconds(10));
  Send({.ack = After(2)});
  EXPECT_EQ(c->Info().backoff, 0);
  EXPECT_EQ(c->Info().rto_us, 200'000u);
  Reset(c);
}

// Data of another connection, or of another host, never reaches this one.
TEST_P(TcpCornerTest, OtherTuplesStayOutside) {
  Start();
  tcp::Connection* c = Open(true);
  net->Inject(Build({.payload = Pattern(10)}, kPeerPort + 1));
  Frame frame;
  frame.Eth(kPeerMac, kHostMac);
  if (v4()) {
    frame.Ipv4({.source = peer(3).v4(), .destination = host().v4()});
  } else {
    frame.Ipv6({.source = peer(3).v6(), .destination = host().v6()});
  }
  frame.Tcp({.source_port = kPeerPort,
             .destination_port = kHostPort,
             .seq = kPeerIsn + 1,
             .ack = host_isn_ + 1,
             .flags = "A"});
  frame.Payload(Pattern(10));
  ASSERT_TRUE(interface->neighbors(family()).AddPermanent(peer(3), kOtherMac).ok());
  net->Inject(frame.Build());
  EXPECT_EQ(c->readable_bytes(), 0u);
  EXPECT_EQ(Dropped(DropReason::kTcpNoPort), 2u);
  const auto sent = Take();
  EXPECT_EQ(sent.size(), 2u);
  for (const SentSegment& s : sent) EXPECT_EQ(s.flags, "R");
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
