// SPDX-License-Identifier: Apache-2.0
// The retransmission timer (RFC 6298), Karn's rule, giving up (RFC 9293 §3.8.3), and clocks that
// jump. Times are milliseconds, from the RFC's formulas: the handshake takes no time, so SRTT is
// next to nothing and the RTO at its lower bound.
#include <cerrno>

#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string At(int64_t ms, const std::string& segment) { return absl::StrCat(ms, " ", segment); }

class TcpRtoTest : public TcpLossTest {};
INSTANTIATE_TEST_SUITE_P(Families, TcpRtoTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// RFC 6298 §5.1: the timer runs from the first segment. §5.4 to 5.6: the earliest one goes again,
// RTO doubles. §5.3: an acknowledgment of new data restarts it; by Karn's rule (§3) no sample comes
// from what was sent twice, so RTO stays doubled (§5, last paragraph).
// Covers: bug:B35, RFC 9293 MUST-18, rfc:RTO-3
TEST_P(TcpRtoTest, TimerRunsFromTheFirstSegmentAndDoubles) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false);
  Mark();
  for (int i = 0; i < 5; ++i) {
    AdvanceTo(50 * i);
    Write(*c, 1'000);
  }
  EXPECT_THAT(TakeText(), SizeIs(5));
  AdvanceTo(999);
  EXPECT_THAT(TakeText(), IsEmpty());
  AdvanceTo(1'100);
  EXPECT_THAT(TakeTimed(), ElementsAre(At(1'000, Seg(1))));
  EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2), Seg(3)));  // slow start
  AdvanceTo(40'000);
  // 1,100 + 2,000, then 4, 8, 16 s.
  EXPECT_THAT(TakeTimed(), ElementsAre(At(3'100, Seg(2)), At(7'100, Seg(2)), At(15'100, Seg(2)),
                                       At(31'100, Seg(2))));
  Reset(c);
}

// §5.5, §2.5: doubled up to a maximum of at least 60 s.
// Covers: RFC 9293 MUST-19, rfc:RTO-2
TEST_P(TcpRtoTest, BackOffIsLimited) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false);
  Mark();
  Write(*c, 1'000);
  AdvanceTo(400'000);
  EXPECT_THAT(TakeTimes(), ElementsAre(0, 1'000, 3'000, 7'000, 15'000, 31'000, 63'000, 127'000,
                                       247'000, 367'000));
  Reset(c);
}

// R2: 15 retransmissions; with the default lower bound of 200 ms that is 0.2 s · (2^10 - 1) and six
// times 120 s, 924.6 s in all.
// Covers: RFC 9293 MUST-20, RFC 9293 SHLD-10, RFC 9293 SHLD-11
TEST_P(TcpRtoTest, GivesUpAfterR2) {
  Start();
  tcp::Connection* c = Open(false);
  Write(*c, 1'000);
  net->Advance(milliseconds(924'500));
  EXPECT_EQ(observer_.gone, 0);
  EXPECT_EQ(c->state(), tcp::State::kEstablished);
  EXPECT_THAT(TakeText(), SizeIs(1 + 15));
  net->Advance(milliseconds(100));
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ETIMEDOUT);
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_GE(tcp::Config().retries_1, 3);
}

// The same when no frame can be sent at all: what counts is that no answer comes.
// Covers: bug:B44
TEST_P(TcpRtoTest, GivesUpAfterR2ThoughTheDeviceSendsNothing) {
  for (const netdev::TxResult why : {netdev::TxResult::kDropped, netdev::TxResult::kTooBig}) {
    observer_ = RecordingObserver();
    Start();
    tcp::Connection* c = Open(false);
    const uint64_t before = Dropped(DropReason::kTxWriteError);
    device().FailSends(why);
    Write(*c, 3'000);
    net->Advance(milliseconds(924'500));
    EXPECT_EQ(observer_.gone, 0);
    // Three at first, one a timeout, and not the same again for ever.
    EXPECT_LE(c->Info().total_retrans_segs, 15u);
    net->Advance(milliseconds(200));
    EXPECT_EQ(observer_.gone, 1);
    EXPECT_EQ(observer_.err(), ETIMEDOUT);
    EXPECT_LE(Dropped(DropReason::kTxWriteError) - before, 3u + 15u);
    device().StopFailing();
  }
}

TEST_P(TcpRtoTest, TransferGoesOnWhenTheCableIsBack) {
  Start();
  tcp::Connection* c = Open(false);
  device().FailSends(netdev::TxResult::kDropped);
  Write(*c, 3'000);
  net->Advance(seconds(5));
  EXPECT_THAT(TakeText(), IsEmpty());
  device().StopFailing();
  net->Advance(seconds(5));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2), PshSeg(3)));
  Reset(c);
}

// Without an address there is no way out (MUST-45: the source stays); when it is back, what was
// written meanwhile goes out by itself.
TEST_P(TcpRtoTest, DataWrittenWithoutARouteIsSentLater) {
  Start();
  tcp::Connection* c = Open(false);
  ASSERT_TRUE(interface->RemoveAddress(host()).ok());
  Write(*c, 100);
  net->Advance(seconds(2));
  EXPECT_THAT(TakeText(), IsEmpty());
  ASSERT_TRUE(interface->AddAddress({host(), v4() ? 16 : 64}).ok());
  net->Advance(seconds(2));
  EXPECT_THAT(TakeText(), Contains("PA 1:101(100) ack 1"));
  Reset(c);
}

// R1: IP is to look for another way: the neighbour is asked for again.
// Covers: RFC 9293 MUST-20
TEST_P(TcpRtoTest, NextHopIsProvedAgainAtR1) {
  Make(Quiet());
  tcp_ = &tcp::Tcp::Install(*stack, Plain());
  auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(opened.ok());
  net->Run();
  AnswerFor(peer(), kPeerMac);
  Take();
  Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions(1000, false)});
  Take();
  const auto asked = [&] {
    int count = 0;
    for (const ByteVector& bytes : TakeFrames()) {
      const FrameView view = Dissect(bytes);
      if (view.arp || (view.protocol == 58 && view.type == 135)) ++count;
    }
    return count;
  };
  Write(**opened, 1'000);
  net->Advance(milliseconds(1'300));  // two retransmissions: at 200 and 600
  EXPECT_EQ(asked(), 0);
  net->Advance(milliseconds(200));  // the third at 1,400
  EXPECT_EQ(asked(), 1);
  AnswerFor(peer(), kPeerMac);
  Reset(*opened);
}

// Covers: RFC 9293 MUST-21
TEST_P(TcpRtoTest, UserTimeoutEndsIt) {
  Start();
  tcp::SocketOptions options;
  options.user_timeout = seconds(5);
  Connect(SynOptions(1000), 65535, options)->SendCopy(Pattern(1'000));
  net->Advance(milliseconds(4'999));
  EXPECT_EQ(observer_.gone, 0);
  net->Advance(seconds(2));  // the timer at 200, 600, 1,400, 3,000, 6,200
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ETIMEDOUT);
}

// The time starts anew with each progress, and it does start.
// Covers: RFC 9293 MUST-21
TEST_P(TcpRtoTest, UserTimeoutCountsFromTheLastProgress) {
  Start();
  tcp::SocketOptions options;
  options.user_timeout = seconds(5);
  tcp::Connection* c = Connect(SynOptions(1000, false), 65535, options);
  WriteSegments(*c, 4);
  net->Advance(milliseconds(3'500));
  OnAck(After(1));
  net->Advance(milliseconds(4'900));
  EXPECT_EQ(observer_.gone, 0);
  net->Advance(seconds(15));
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ETIMEDOUT);
}

// ---- Handshake ----

// Covers: RFC 9293 MUST-22, RFC 9293 MUST-23
TEST_P(TcpRtoTest, SynIsGivenUpAfterThreeMinutes) {
  for (const bool cable : {true, false}) {
    observer_ = RecordingObserver();
    Start();
    if (!cable) device().FailSends(netdev::TxResult::kDropped);
    Mark();
    ASSERT_TRUE(tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_).ok());
    AdvanceTo(246'999);
    EXPECT_EQ(observer_.gone, 0);
    if (cable) {
      EXPECT_THAT(TakeTimes(),
                  ElementsAre(0, 1'000, 3'000, 7'000, 15'000, 31'000, 63'000, 127'000));
    }
    AdvanceTo(247'000);
    EXPECT_EQ(observer_.gone, 1);
    EXPECT_EQ(observer_.err(), ETIMEDOUT);
    EXPECT_EQ(tcp().connection_count(), 0u);
    device().StopFailing();
  }
}

TEST_P(TcpRtoTest, SynAckIsGivenUpQuietly) {
  Start();
  tcp::Listener* listener = Listen();
  Mark();
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  AdvanceTo(62'999);
  EXPECT_EQ(listener->half_open(), 1u);
  EXPECT_THAT(TakeTimes(), ElementsAre(0, 1'000, 3'000, 7'000, 15'000, 31'000));
  AdvanceTo(63'000);
  EXPECT_EQ(listener->half_open(), 0u);
  EXPECT_EQ(tcp().connection_count(), 0u);
  AdvanceTo(600'000);
  EXPECT_THAT(TakeText(), IsEmpty());
  tcp().CloseListener(*listener);
}

// RFC 6298 §5.7: RTO is 3 s when data starts; RFC 5681 §3.1: one segment.
// Covers: rfc:RTO-2, rfc:CC-02
TEST_P(TcpRtoTest, LostSynMakesACarefulStart) {
  Start(OneSecondRto());
  ASSERT_TRUE(tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_).ok());
  net->Advance(milliseconds(1'100));
  EXPECT_THAT(TakeText(), ElementsAre("S 0:0(0)", "S 0:0(0)"));
  Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions(1000, false)});
  Take();
  tcp::Connection* c = const_cast<tcp::Connection*>(tcp().connections()[0]);
  Mark();
  Write(*c, 3'000);
  AdvanceTo(3'500);
  EXPECT_THAT(TakeTimed(), ElementsAre(At(0, Seg(1)), At(3'000, Seg(1))));
  Reset(c);
}

// Covers: rfc:RTO-2, rfc:CC-02
TEST_P(TcpRtoTest, LostSynAckMakesACarefulStart) {
  Start(OneSecondRto());
  tcp::Listener* listener = Listen();
  Send({.flags = "S", .seq = 0, .options = SynOptions(1000, false)});
  net->Advance(milliseconds(1'100));
  EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1", "SA 0:0(0) ack 1"));
  Send({});
  tcp::Connection* c = listener->Accept();
  ASSERT_NE(c, nullptr);
  Mark();
  Write(*c, 3'000);
  AdvanceTo(3'500);
  EXPECT_THAT(TakeTimed(), ElementsAre(At(0, Seg(1)), At(3'000, Seg(1))));
  Reset(c);
  tcp().CloseListener(*listener);
}

// ---- What restarts the timer and what does not ----

// RFC 6298 §5.3: only what acknowledges new data.
// Covers: bug:B33, rfc:RTO-3
TEST_P(TcpRtoTest, WindowUpdatesAndKeepalivesDoNotRestartTheTimer) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false);
  Mark();
  WriteSegments(*c, 2);
  AdvanceTo(300);
  Send({.ack = 1, .window = 60'000});
  AdvanceTo(600);
  Send({.ack = 1, .window = 65'535});
  AdvanceTo(900);
  Send({.seq = 0, .ack = 1});  // a keepalive, which is answered
  EXPECT_THAT(TakeText(), ElementsAre("A 2001:2001(0) ack 1"));
  AdvanceTo(1'000);
  EXPECT_THAT(TakeTimed(), ElementsAre(At(1'000, Seg(1))));
  Reset(c);
}

// Half of what was sent is acknowledged after 500 ms: SRTT = 62.5 ms, RTTVAR = 125 ms, still below
// the minimum of 1 s; it runs from the acknowledgment.
TEST_P(TcpRtoTest, PartialAckRestartsTheTimer) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false);
  Mark();
  WriteSegments(*c, 4);
  AdvanceTo(500);
  EXPECT_THAT(OnAck(After(2)), IsEmpty());
  AdvanceTo(1'600);
  EXPECT_THAT(TakeTimed(), ElementsAre(At(1'500, Seg(3))));
  Reset(c);
}

// Covers: RFC 9293 MUST-18, rfc:RTO-3
TEST_P(TcpRtoTest, NoSampleFromWhatWasSentTwice) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false);
  const uint32_t rtt = c->Info().rtt_us;
  WriteSegments(*c, 1);
  net->Advance(milliseconds(1'500));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1).insert(0, "P")));
  EXPECT_THAT(OnAck(After(1)), IsEmpty());
  EXPECT_EQ(c->Info().rtt_us, rtt);
  // The RTO is 2 s until there is a new sample; then it is 1 s again.
  Mark();
  Write(*c, 1'000);
  AdvanceTo(1'999);
  EXPECT_THAT(TakeTimes(), ElementsAre(0));
  EXPECT_THAT(OnAck(After(2)), IsEmpty());
  EXPECT_GT(c->Info().rtt_us, rtt);
  EXPECT_EQ(c->Info().backoff, 0);
  Reset(c);
}

// RFC 7323 §4.1: the timestamp tells which copy was acknowledged.
// Covers: rfc:RTO-4
TEST_P(TcpRtoTest, TimestampMakesASampleOfACopy) {
  tcp::Config config = OneSecondRto();
  config.timestamps = true;
  Start(config);
  ByteVector syn = SynOptions(1012, false);
  const auto stamp = [](uint32_t value, uint32_t echo) {
    ByteVector o{1, 1, 8, 10};
    for (uint32_t v : {value, echo})
      for (int shift = 24; shift >= 0; shift -= 8) o.push_back(static_cast<uint8_t>(v >> shift));
    return o;
  };
  ASSERT_TRUE(tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_).ok());
  net->Run();
  std::vector<SentSegment> sent = Take();
  ASSERT_TRUE(sent.at(0).options.timestamps.has_value());
  const ByteVector first = stamp(1, sent[0].options.timestamps->tsval);
  syn.insert(syn.end(), first.begin(), first.end());
  Send({.flags = "SA", .seq = 0, .ack = 1, .options = syn});
  Take();
  auto* c = const_cast<tcp::Connection*>(tcp().connections()[0]);
  Write(*c, 1'000);
  sent = Take();
  const uint32_t original = sent.at(0).options.timestamps->tsval;
  net->Advance(milliseconds(1'500));
  sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].options.timestamps->tsval - original, 1'000u);
  // It was the original, 1.5 s ago: SRTT is an eighth of that.
  Send({.ack = After(1), .options = stamp(2, original)});
  EXPECT_NEAR(c->Info().rtt_us, 187'500, 1'000);
  Reset(c);
}

// The round trip of an acknowledgment that waited in the device is that of its arrival.
// Covers: bug:B39
TEST_P(TcpRtoTest, RoundTripEndsWhenTheFrameArrives) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 1);
  net->Advance(milliseconds(80));
  device().Inject(Build({.ack = After(1)}));
  net->clock().Advance(milliseconds(200));  // the loop stands still; the timer was due meanwhile
  net->Run();
  EXPECT_THAT(TakeText(), IsEmpty());  // nothing was lost
  // 7/8 of 1 µs and 1/8 of 80 ms.
  EXPECT_NEAR(c->Info().rtt_us, 10'000, 100);
  Reset(c);
}

// Karn: the round trip grows beyond the RTO. Backing off until a sample comes is the only way to
// get one.
// Covers: rfc:RTO-3
TEST_P(TcpRtoTest, RoundTripThatGrewIsLearned) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false);
  const Duration rtt = milliseconds(2'500);
  uint32_t copies = 0;
  for (uint32_t n = 1; n <= 4; ++n) {
    Write(*c, 1'000);
    net->Advance(rtt);
    copies += static_cast<uint32_t>(Take().size()) - 1;
    EXPECT_THAT(OnAck(After(n)), IsEmpty());
  }
  // The first at 1 s; the second has 2 s and is sent again too; the third has 4 s.
  EXPECT_EQ(copies, 2u);
  EXPECT_GT(c->Info().rtt_us, 300'000u);
  Reset(c);
}

TEST_P(TcpRtoTest, RetransmissionAcrossTheWrap) {
  for (uint32_t iss : {0xffffffffu, 0xfffffffeu, 0xffffffffu - 500, 0xffffffffu - 1'500}) {
    Start();
    tcp::Connection* c = OpenAt(iss, false);
    WriteSegments(*c, 3);
    net->Advance(milliseconds(200));
    EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
    EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2), PshSeg(3)));
    EXPECT_THAT(OnAck(After(3)), IsEmpty());
    net->Advance(minutes(1));
    EXPECT_THAT(TakeText(), IsEmpty());
    Reset(c);
  }
}

// A simultaneous open with data waiting: every byte is sent.
TEST_P(TcpRtoTest, DataQueuedBeforeCrossedSynsIsWhole) {
  Start();
  auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->SendCopy(Pattern(100)), 100u);
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("S 0:0(0)"));
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1"));
  Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions()});
  const std::vector<SentSegment> sent = Take();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].payload, Pattern(100));
  Reset(*opened);
}

// ---- Clocks ----

// Covers: bug:B109
TEST_P(TcpRtoTest, EachTimerFiresOnceAfterAJump) {
  Start();
  tcp::Connection* c = Open(false);
  WriteSegments(*c, 2);
  Jump(std::chrono::hours(8));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  EXPECT_THAT(OnAck(After(1)), ElementsAre(PshSeg(2)));
  EXPECT_THAT(OnAck(After(2)), IsEmpty());
  c->ShutdownWrite();
  net->Run();
  Take();
  Send({.flags = "FA", .ack = After(2) + 1});
  EXPECT_EQ(tcp().time_wait_count(), 1u);
  Take();
  Jump(std::chrono::hours(8));
  EXPECT_EQ(tcp().time_wait_count(), 0u);
  EXPECT_THAT(TakeText(), IsEmpty());
}

// The clock passes 2^32 milliseconds, 49.7 days after its start.
// Covers: bug:B109
TEST_P(TcpRtoTest, MillisecondsPastThirtyTwoBits) {
  Start();
  net->Advance(Time(milliseconds((int64_t{1} << 32) - 500)) - net->now());
  tcp::Connection* c = Open(false);
  Mark();
  WriteSegments(*c, 1);
  AdvanceTo(3'100);
  EXPECT_THAT(TakeTimes(), ElementsAre(200, 600, 1'400, 3'000));
  EXPECT_THAT(OnAck(After(1)), IsEmpty());
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
