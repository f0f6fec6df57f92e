// SPDX-License-Identifier: Apache-2.0
// Loss recovery without SACK: fast retransmit and fast recovery (RFC 5681 §3.2, RFC 6582), limited
// transmit (RFC 3042), what is a duplicate acknowledgment and what is not.
#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpRecoveryTest : public TcpLossTest {};
INSTANTIATE_TEST_SUITE_P(Families, TcpRecoveryTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// RFC 5681 §3.2 steps 2, 3 and 6: one segment again, half the flight as window, and cwnd is
// ssthresh afterwards. Covers: RFC 9293 MUST-19
// Covers: rfc:CC-07, rfc:CC-05
TEST_P(TcpRecoveryTest, ThirdDuplicateRetransmitsOneSegment) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 10);
  EXPECT_THAT(OnAck(1), IsEmpty());
  EXPECT_THAT(OnAck(1), IsEmpty());
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(1)));
  for (int i = 4; i <= 9; ++i) EXPECT_THAT(OnAck(1), IsEmpty()) << i;
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  EXPECT_EQ(c->Info().snd_ssthresh_bytes, 5'000u);
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 5'000u);
  EXPECT_EQ(c->Info().ca_state, tcp::RecoveryState::kOpen);
  Reset(c);
}

TEST_P(TcpRecoveryTest, FastRetransmitAcrossTheWrap) {
  for (uint32_t iss : {0xffffffffu - 500, 0xffffffffu - 2'500, 0xfffffffeu, 0xffffffffu}) {
    Start();
    tcp::Connection* c = OpenAt(iss, false);
    WriteSegments(*c, 5);
    OnAck(After(1));
    OnAck(After(1));
    OnAck(After(1));
    EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2)));
    EXPECT_THAT(OnAck(After(5)), IsEmpty());
    EXPECT_EQ(c->unacked_bytes(), 0u);
    Reset(c);
  }
}

// RFC 3042 §2: a new segment for each of the first two duplicates. RFC 5681 §3.2: these do not
// count in FlightSize (step 2); then cwnd is 5 + 3 segments, one more for each duplicate (step 4),
// and new data goes while the 12 segments in flight are fewer (step 5).
// Covers: rfc:CC-08
TEST_P(TcpRecoveryTest, LimitedTransmitAndInflation) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 30);
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(11)));
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(12)));
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(1)));
  EXPECT_EQ(c->Info().snd_ssthresh_bytes, 5'000u);
  for (int i = 4; i <= 7; ++i) EXPECT_THAT(OnAck(1), IsEmpty()) << i;
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(13)));
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(14)));
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(15)));
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(16)));
  // Step 6: cwnd is ssthresh, 5 segments, of which 4 are in flight.
  EXPECT_THAT(OnAck(After(12)), ElementsAre(Seg(17)));
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 5'000u);
  Reset(c);
}

// RFC 6582 §3.2 step 3: each partial acknowledgment brings the next hole, without a timeout.
// Covers: rfc:CC-09
TEST_P(TcpRecoveryTest, PartialAckRetransmitsTheNextHole) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 10);  // 1, 4 and 9 are lost: seven duplicates
  OnAck(1);
  OnAck(1);
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(1)));
  for (int i = 4; i <= 7; ++i) EXPECT_THAT(OnAck(1), IsEmpty()) << i;
  EXPECT_THAT(OnAck(After(3)), ElementsAre(Seg(4)));
  EXPECT_THAT(OnAck(After(8)), ElementsAre(Seg(9)));
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  // One loss event, one reduction.
  EXPECT_EQ(c->Info().snd_ssthresh_bytes, 5'000u);
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 5'000u);
  Reset(c);
}

// RFC 5681 §2, "DUPLICATE ACKNOWLEDGMENT": (a) data in flight, (b) no data, (d) the greatest
// acknowledgment, (e) the same window.
// Covers: rfc:CC-07
TEST_P(TcpRecoveryTest, WhatIsNoDuplicate) {
  struct Case {
    const char* what;
    bool data;
    uint16_t window[3];
    uint32_t ack;
  };
  const Case cases[] = {
      {"with data", true, {65535, 65535, 65535}, After(1)},
      {"with a new window", false, {60000, 50000, 65535}, After(1)},
      {"older", false, {65535, 65535, 65535}, 1},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.what);
    Start();
    tcp::Connection* c = Open(false);
    WriteSegments(*c, 4);
    OnAck(After(1));
    uint32_t seq = 1;
    for (uint16_t window : test.window) {
      Args args{.seq = seq, .ack = test.ack, .window = window};
      if (test.data) args.payload = Pattern(10);
      seq += static_cast<uint32_t>(args.payload.size());
      Send(args);
      for (const SentSegment& s : Take()) EXPECT_EQ(s.length, 0u) << s.ToString();
    }
    EXPECT_EQ(c->Info().ca_state, tcp::RecoveryState::kOpen);
    EXPECT_EQ(ReadAll(*c).size(), test.data ? 30u : 0u);
    Reset(c);
  }
}

TEST_P(TcpRecoveryTest, DuplicatesWithNothingInFlightMeanNothing) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 2);
  OnAck(After(2));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(OnAck(After(2)), IsEmpty());
  // Nor do they count for what is sent afterwards.
  WriteSegments(*c, 4);
  EXPECT_THAT(OnAck(After(2)), IsEmpty());
  EXPECT_THAT(OnAck(After(2)), IsEmpty());
  EXPECT_EQ(c->Info().ca_state, tcp::RecoveryState::kDisorder);
  Reset(c);
}

// The mark of the last recovery is 2^31 behind: it must not look like one ahead.
TEST_P(TcpRecoveryTest, FastRetransmitTwoGibibytesAfterTheLastOne) {
  for (const bool sack : {false, true}) {
    Start();
    tcp::Connection* c = Open(sack);
    tcp::ConnectionTestPeer::SetRecoveryPoint(*c, host_isn_ + 1501 - (1u << 31));
    WriteSegments(*c, 10);
    EXPECT_THAT(OnAck(After(1)), IsEmpty());
    EXPECT_THAT(OnAck(After(2)), IsEmpty());
    for (uint32_t last = 4; last <= 5; ++last) {
      EXPECT_THAT(sack ? OnSack(After(2), {{4, last}}) : OnAck(After(2)), IsEmpty());
    }
    EXPECT_THAT(sack ? OnSack(After(2), {{4, 6}}) : OnAck(After(2)), ElementsAre(Seg(3)));
    Reset(c);
  }
}

// Covers: bug:B34
TEST_P(TcpRecoveryTest, ThreeHundredDuplicatesAreOneFastRetransmit) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 10);
  std::vector<std::string> sent;
  for (int i = 0; i < 300; ++i) {
    for (std::string& text : OnAck(1)) sent.push_back(std::move(text));
  }
  EXPECT_THAT(sent, ElementsAre(Seg(1)));
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 5'000u);
  Reset(c);
}

// Covers: bug:B43, rfc:KA-1
TEST_P(TcpRecoveryTest, KeepalivesOfThePeerAreOnlyAnswered) {
  for (const size_t garbage : {size_t{0}, size_t{1}}) {
    Start();
    tcp::Connection* c = Open(false);
    WriteSegments(*c, 1);
    OnAck(After(1));
    for (int i = 0; i < 4; ++i) {
      net->Advance(seconds(1));
      Send({.seq = 0, .ack = After(1), .payload = ByteVector(garbage)});
      EXPECT_THAT(TakeText(), ElementsAre("A 1001:1001(0) ack 1")) << i;
    }
    EXPECT_EQ(c->Info().ca_state, tcp::RecoveryState::kOpen);
    EXPECT_EQ(c->readable_bytes(), 0u);
    Reset(c);
  }
}

// Covers: bug:B45
TEST_P(TcpRecoveryTest, LateAckOfTheFirstCopyCutsASegment) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 2);
  net->Advance(milliseconds(200));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  Send({.ack = 1501});
  const std::vector<SentSegment> sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].ToString(), "PA 1501:2001(500) ack 1");
  const ByteVector all = Pattern(2000);
  EXPECT_EQ(sent[0].payload, ByteVector(all.begin() + 1500, all.end()));
  EXPECT_THAT(OnAck(After(2)), IsEmpty());
  EXPECT_EQ(c->unacked_bytes(), 0u);
  Reset(c);
}

// An acknowledgment of more than was sent again takes all of it off the queue.
TEST_P(TcpRecoveryTest, AckBeyondTheRetransmittedPart) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 5);
  net->Advance(milliseconds(200));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  EXPECT_THAT(OnAck(After(4)), ElementsAre(PshSeg(5)));
  EXPECT_THAT(OnAck(After(5)), IsEmpty());
  net->Advance(minutes(5));
  EXPECT_THAT(TakeText(), IsEmpty());
  Reset(c);
}

// RFC 6582 §3.2 step 2, §4: duplicates that the copies after a timeout cause do not cover more than
// "recover" and start no fast retransmit.
// Covers: rfc:CC-09
TEST_P(TcpRecoveryTest, NoFastRetransmitForCopiesSentAfterATimeout) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 10);
  net->Advance(milliseconds(200));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  Write(*c, 8'000);
  Take();
  for (int i = 0; i < 6; ++i) {
    for (const std::string& text : OnAck(After(10))) EXPECT_NE(text, Seg(11)) << i;
  }
  EXPECT_NE(c->Info().ca_state, tcp::RecoveryState::kRecovery);
  Reset(c);
}

// After a timeout cwnd is one segment (RFC 5681 §3.1). The duplicates of what was in flight before
// say nothing about the copies, so they let nothing out.
TEST_P(TcpRecoveryTest, DuplicatesAfterATimeoutOpenNothing) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 10);
  net->Advance(milliseconds(200));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  for (int i = 0; i < 9; ++i) EXPECT_THAT(OnAck(1), IsEmpty()) << i;
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  Reset(c);
}

// A close while data is sent again: the FIN stays behind the data.
TEST_P(TcpRecoveryTest, FinStaysBehindRetransmittedData) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 3);
  c->ShutdownWrite();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("FA 3001:3001(0) ack 1"));
  net->Advance(milliseconds(200));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  // Slow start: the window is two segments now.
  EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2), PshSeg(3)));
  EXPECT_THAT(OnAck(After(3)), ElementsAre("FA 3001:3001(0) ack 1"));
  OnAck(3002);
  EXPECT_EQ(c->state(), tcp::State::kFinWait2);
  Reset(c);
}

// Data written during recovery goes behind what is lost, as far as the window allows: ssthresh of
// two segments and three duplicates make five, of which four are in flight.
TEST_P(TcpRecoveryTest, DataWrittenDuringRecoveryWaitsItsTurn) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 4);
  OnAck(1);
  OnAck(1);
  EXPECT_THAT(OnAck(1), ElementsAre(Seg(1)));
  Write(*c, 2'000);
  EXPECT_THAT(TakeText(), ElementsAre(Seg(5)));
  EXPECT_THAT(OnAck(After(4)), ElementsAre(PshSeg(6)));
  EXPECT_THAT(OnAck(After(6)), IsEmpty());
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
