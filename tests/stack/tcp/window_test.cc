// SPDX-License-Identifier: Apache-2.0
// Windows: what is advertised, what the peer's allows, silly-window avoidance on both sides, Nagle,
// cork, delayed acknowledgments.
#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpWindowTest : public TcpHostTest {
 protected:
  static tcp::SocketOptions Buffer(size_t bytes) {
    tcp::SocketOptions options;
    options.receive_buffer = bytes;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpWindowTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// Covers: RFC 9293 MUST-1
TEST_P(TcpWindowTest, WindowIsUnsigned) {
  Start();
  tcp::Connection* c = Connect(SynOptions(), 0x8000);
  size_t in_flight = 0, sent = Write(*c, 100000);
  ASSERT_EQ(sent, 100000u);
  for (int round = 0; round < 10; ++round) {
    in_flight = 0;
    uint32_t last = 0;
    for (const SentSegment& s : Take()) {
      in_flight += s.length;
      last = s.seq + static_cast<uint32_t>(s.length);
    }
    if (in_flight > 20000) break;
    Send({.ack = last, .window = 0xffff});
  }
  EXPECT_GT(in_flight, 20000u);
  Reset(c);
}

// Covers: bug:B19, rfc:WS-1
TEST_P(TcpWindowTest, ScaleHoldsForAllButSyns) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000, true, 7), 100);
  Write(*c, 1000);  // the SYN-ACK's 100 was not scaled
  EXPECT_THAT(TakeText(), ElementsAre("A 1:101(100) ack 1"));
  Send({.ack = 101, .window = 10});  // 1,280
  EXPECT_THAT(TakeText(), ElementsAre("PA 101:1001(900) ack 1"));
  Reset(c);
}

TEST_P(TcpWindowTest, ScaleNeedsBothSides) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000, true, -1), 65535);
  EXPECT_EQ(c->Info().rcv_wscale, 0);
  Send({.payload = Pattern(10)});
  EXPECT_EQ(Take().back().window, 65525);  // the edge moves by whole segments only
  Reset(c);
}

// Covers: RFC 9293 SHLD-14
TEST_P(TcpWindowTest, RightEdgeNeverMovesLeft) {
  Start();
  tcp::Connection* c = Connect(SynOptions(), 65535, Buffer(10000));
  uint32_t edge = 0;
  for (uint32_t i = 0; i < 9; ++i) {
    Send({.seq = 1 + i * 1000, .payload = Pattern(1000)});
    for (const SentSegment& s : Take()) {
      EXPECT_GE(s.ack + s.window, edge);
      edge = s.ack + s.window;
    }
  }
  EXPECT_EQ(edge, 10001u);
  Reset(c);
}

// Covers: bug:B20, RFC 9293 MUST-39
TEST_P(TcpWindowTest, ReadingOpensAClosedWindowInOneGo) {
  Start();
  tcp::Connection* c = Connect(SynOptions(), 65535, Buffer(4000));
  for (uint32_t i = 0; i < 4; ++i) Send({.seq = 1 + i * 1000, .payload = Pattern(1000)});
  EXPECT_EQ(Take().back().window, 0);
  ByteVector one(1);
  for (int i = 0; i < 900; ++i) {
    EXPECT_EQ(c->Read(one), 1u);
    c->Consumed(1);
    net->Run();
  }
  EXPECT_THAT(TakeText(), IsEmpty());  // silly
  ReadAll(*c);
  const auto sent = Take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().ack + sent.back().window, 4001u + 4000u);
  Reset(c);
}

// Covers: bug:B21, bug:B31
TEST_P(TcpWindowTest, ZeroWindowProbesAreAnswered) {
  Start();
  tcp::Connection* c = Connect(SynOptions(), 65535, Buffer(1000));
  Send({.payload = Pattern(1000)});
  EXPECT_EQ(Take().back().window, 0);
  for (int i = 0; i < 5; ++i) {
    net->Advance(std::chrono::seconds(1 << i));
    Send({.seq = 1001, .payload = Pattern(1)});
    const auto sent = Take();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].ToString(), "A 1:1(0) ack 1001");
    EXPECT_EQ(sent[0].window, 0);
  }
  EXPECT_EQ(Dropped(DropReason::kTcpReceiveBufferFull), 5u);
  Reset(c);
}

// Covers: bug:B32
TEST_P(TcpWindowTest, ThousandsOfTinySegmentsAreKeptInLittleMemory) {
  Start();
  tcp::Connection* c = Connect();
  for (uint32_t i = 0; i < 4000; ++i)
    Send({.seq = 1 + i, .payload = Pattern(1, static_cast<uint8_t>(i % 251))});
  Take();
  EXPECT_EQ(c->readable_bytes(), 4000u);
  EXPECT_LE(c->true_size(), 64u << 10);
  EXPECT_EQ(ReadAll(*c), Pattern(4000));
  Reset(c);
}

// Covers: bug:B24, RFC 9293 MUST-34, RFC 9293 SHLD-15
TEST_P(TcpWindowTest, ShrunkWindowStopsNewData) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000), 8000);
  Write(*c, 20000);
  EXPECT_EQ(Take().size(), 8u);
  Send({.ack = 1001, .window = 2000});  // the edge goes from 8001 back to 3001
  EXPECT_THAT(TakeText(), IsEmpty());
  Send({.ack = 8001, .window = 2000});
  EXPECT_THAT(TakeText(), ElementsAre("A 8001:9001(1000) ack 1", "A 9001:10001(1000) ack 1"));
  Reset(c);
}

// Covers: bug:B27
TEST_P(TcpWindowTest, StrangersWindowChangesNothing) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000), 8000);
  net->Inject(Build({.flags = "FA", .seq = 9, .ack = 9, .window = 63}, 40001));
  EXPECT_THAT(TakeText(), ElementsAre("R 9:9(0)"));
  Write(*c, 2000);
  EXPECT_EQ(Take()[0].length, 1000u);
  Reset(c);
}

// Covers: bug:B30
TEST_P(TcpWindowTest, BlockedWriterIsTold) {
  Start();
  tcp::SocketOptions options;
  options.send_buffer = 4000;
  tcp::Connection* c = Connect(SynOptions(1000), 65535, options);
  EXPECT_EQ(Write(*c, 10000), 4000u);
  const int before = observer_.writable;
  Send({.ack = 4001});
  EXPECT_EQ(observer_.writable, before + 1);
  EXPECT_EQ(c->send_space(), 4000u);
  Reset(c);
}

// A path of 10 ms: the buffer follows cwnd, up to its limit.
TEST_P(TcpWindowTest, SendBufferGrowsWithTheCongestionWindow) {
  tcp::Config config = Plain();
  config.send_buffer_initial = 20000;
  config.send_buffer_max = 60000;
  Start(config);
  host_port_ = kHostPort;
  auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(opened.ok());
  tcp::Connection* c = *opened;
  net->Run();
  Take();
  net->Advance(std::chrono::milliseconds(10));
  Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions(1000, true, 7)});
  Take();
  EXPECT_EQ(Write(*c, 200000), 20000u);
  uint32_t acked = 1;
  for (int round = 0; round < 30; ++round) {
    net->Advance(std::chrono::milliseconds(10));
    for (const SentSegment& s : Take()) acked = s.seq + static_cast<uint32_t>(s.length);
    Send({.ack = acked});
    Write(*c, 200000);
  }
  EXPECT_EQ(c->unacked_bytes(), 60000u);
  Reset(c);
}

TEST_P(TcpWindowTest, SendBufferThatWasSetStays) {
  Start();
  tcp::SocketOptions options;
  options.send_buffer = 4000;
  tcp::Connection* c = Connect(SynOptions(1000), 65535, options);
  uint32_t acked = 1;
  for (int round = 0; round < 8; ++round) {
    EXPECT_EQ(Write(*c, 10000), 4000u);
    net->Advance(std::chrono::milliseconds(10));
    for (const SentSegment& s : Take()) acked = s.seq + static_cast<uint32_t>(s.length);
    Send({.ack = acked});
  }
  Reset(c);
}

// ---- Sender's silly-window avoidance and Nagle ----

// Covers: RFC 9293 MUST-38
TEST_P(TcpWindowTest, TinyOpeningsSendNothing) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000), 4000);
  Write(*c, 10000);
  EXPECT_EQ(Take().size(), 4u);
  Send({.ack = 4001, .window = 100});
  EXPECT_THAT(TakeText(), IsEmpty());
  Send({.ack = 4001, .window = 1000});
  EXPECT_THAT(TakeText(), ElementsAre("A 4001:5001(1000) ack 1"));
  Reset(c);
}

TEST_P(TcpWindowTest, OverrideTimerSendsIntoASmallWindow) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000), 4000);
  Write(*c, 10000);
  Take();
  Send({.ack = 4001, .window = 100});
  EXPECT_THAT(TakeText(), IsEmpty());
  net->Advance(std::chrono::seconds(2));
  const auto sent = Take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].ToString(), "A 4001:4101(100) ack 1");
  Reset(c);
}

// Covers: RFC 9293 SHLD-7
TEST_P(TcpWindowTest, NagleHoldsASecondSmallWrite) {
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 10);
  Write(*c, 20);
  Write(*c, 30);
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:11(10) ack 1"));
  Send({.ack = 11});
  EXPECT_THAT(TakeText(), ElementsAre("PA 11:61(50) ack 1"));
  Reset(c);
}

// Covers: RFC 9293 MUST-17
TEST_P(TcpWindowTest, NodelaySendsAtOnce) {
  Start();
  tcp::SocketOptions options;
  options.nodelay = true;
  tcp::Connection* c = Connect(SynOptions(), 65535, options);
  Write(*c, 10);
  Write(*c, 20);
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:11(10) ack 1", "PA 11:31(20) ack 1"));
  Reset(c);
}

TEST_P(TcpWindowTest, LastSmallPieceGoesWithTheFin) {
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 10);
  Write(*c, 20);
  Take();
  c->ShutdownWrite();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("FPA 11:31(20) ack 1"));
  Reset(c);
}

TEST_P(TcpWindowTest, CorkHoldsForTwoHundredMilliseconds) {
  Start();
  tcp::SocketOptions options;
  options.cork = true;
  tcp::Connection* c = Connect(SynOptions(1000), 65535, options);
  Write(*c, 1500);
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1001(1000) ack 1"));
  Send({.ack = 1001});
  net->Advance(std::chrono::milliseconds(199));
  EXPECT_THAT(TakeText(), IsEmpty());
  net->Advance(std::chrono::milliseconds(2));
  EXPECT_THAT(TakeText(), ElementsAre("PA 1001:1501(500) ack 1"));
  Send({.ack = 1501});
  Write(*c, 10);
  EXPECT_THAT(TakeText(), IsEmpty());
  c->options().cork = false;
  c->OnOptionsChanged();
  c->PushPending();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("PA 1501:1511(10) ack 1"));
  Reset(c);
}

// ---- Acknowledgments ----

class TcpAckTest : public TcpWindowTest {
 protected:
  static tcp::Config NoQuickAcks() {
    tcp::Config config = Plain();
    config.quick_acks = 0;
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpAckTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// Covers: RFC 9293 MUST-40, RFC 9293 SHLD-18
TEST_P(TcpAckTest, SingleSmallSegmentIsAcknowledgedLater) {
  Start(NoQuickAcks());
  tcp::Connection* c = Connect();
  Send({.payload = Pattern(10)});
  net->Advance(std::chrono::milliseconds(39));
  EXPECT_THAT(TakeText(), IsEmpty());
  net->Advance(std::chrono::milliseconds(1));
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 11"));
  Reset(c);
}

// Covers: RFC 9293 SHLD-19, rfc:CC-12
TEST_P(TcpAckTest, SecondFullSegmentIsAcknowledgedAtOnce) {
  Start(NoQuickAcks());
  tcp::Connection* c = Connect();
  Send({.payload = Pattern(1400)});
  EXPECT_THAT(TakeText(), IsEmpty());
  Send({.seq = 1401, .payload = Pattern(1400)});
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 2801"));
  Reset(c);
}

TEST_P(TcpAckTest, AnswerCarriesTheAcknowledgment) {
  Start(NoQuickAcks());
  tcp::Connection* c = Connect();
  Send({.payload = Pattern(10)});
  Write(*c, 20);
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:21(20) ack 11"));
  net->Advance(std::chrono::milliseconds(100));
  EXPECT_THAT(TakeText(), IsEmpty());
  Reset(c);
}

// Covers: RFC 9293 MAY-13, RFC 9293 SHLD-31
TEST_P(TcpAckTest, OutOfOrderDataIsAcknowledgedAtOnceWithSack) {
  Start(NoQuickAcks());
  tcp::Connection* c = Connect();
  Send({.seq = 101, .payload = Pattern(100)});
  Send({.seq = 301, .payload = Pattern(100)});
  auto sent = Take();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].ToString(), "A 1:1(0) ack 1");
  ASSERT_EQ(sent[1].options.sack_block_count, 2);
  // RFC 2018 §4: the latest first.
  EXPECT_EQ(sent[1].options.sack_blocks[0].left_edge - kPeerIsn, 301u);
  EXPECT_EQ(sent[1].options.sack_blocks[0].right_edge - kPeerIsn, 401u);
  EXPECT_EQ(sent[1].options.sack_blocks[1].left_edge - kPeerIsn, 101u);
  Send({.seq = 1, .payload = Pattern(100)});  // fills the hole: at once too
  sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ToString(), "A 1:1(0) ack 201");
  EXPECT_EQ(c->readable_bytes(), 200u);
  Reset(c);
}

// Covers: rfc:SACK-01
TEST_P(TcpAckTest, SackIsSentOnlyWhenItWasPermitted) {
  Start(NoQuickAcks());
  tcp::Connection* c = Connect(SynOptions(1460, false));
  Send({.seq = 101, .payload = Pattern(100)});
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].options.sack_block_count, 0);
  Reset(c);
}

// Covers: bug:B29
TEST_P(TcpAckTest, LargeOpeningIsToldAtOnce) {
  Start(NoQuickAcks());
  tcp::Connection* c = Connect(SynOptions(), 65535, Buffer(4000));
  Send({.payload = Pattern(1400)});
  Send({.seq = 1401, .payload = Pattern(1400)});
  Take();
  Send({.seq = 2801, .payload = Pattern(100)});  // its acknowledgment is delayed
  EXPECT_THAT(TakeText(), IsEmpty());
  ReadAll(*c);
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].window, 4000);
  Reset(c);
}

// Covers: RFC 9293 MUST-58, RFC 9293 MUST-59
TEST_P(TcpAckTest, BurstIsAcknowledgedOnce) {
  Start(NoQuickAcks());
  tcp::Connection* c = Connect();
  // Six full segments that one read of the device brings.
  for (uint32_t i = 0; i < 6; ++i) {
    const ByteVector frame = Build({.seq = 1 + i * 1400, .payload = Pattern(1400)});
    net->device().Inject(frame);
  }
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 8401"));
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
