// SPDX-License-Identifier: Apache-2.0
// Closed, small and shrinking windows of the peer (RFC 9293 §3.8.6, RFC 1122 §4.2.2.16, .17).
#include <cerrno>

#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TcpPersistTest : public TcpLossTest {
 protected:
  // Two segments went, the peer took them and closed the window; three more wait.
  tcp::Connection* OpenAndFill() {
    tcp::Connection* c = Open(false, 2'000);
    EXPECT_EQ(Write(*c, 5'000), 5'000u);
    EXPECT_THAT(TakeText(), ElementsAre(Seg(1), Seg(2)));
    Mark();
    Send({.ack = After(2), .window = 0});
    EXPECT_THAT(TakeText(), IsEmpty());
    return c;
  }
  // A number that was acknowledged, and no data.
  static constexpr const char* kProbe = "A 2000:2000(0) ack 1";
};
INSTANTIATE_TEST_SUITE_P(Families, TcpPersistTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// Covers: RFC 9293 MUST-36, RFC 9293 SHLD-29, RFC 9293 SHLD-30
TEST_P(TcpPersistTest, ProbesStartAfterAnRtoAndBackOff) {
  Start(OneSecondRto());
  tcp::Connection* c = OpenAndFill();
  AdvanceTo(999);
  EXPECT_THAT(TakeText(), IsEmpty());
  AdvanceTo(1'000);
  EXPECT_THAT(TakeText(), ElementsAre(kProbe));
  AdvanceTo(400'000);
  EXPECT_THAT(TakeTimes(),
              ElementsAre(3'000, 7'000, 15'000, 31'000, 63'000, 127'000, 247'000, 367'000));
  Reset(c);
}

// The same intervals when each probe is answered.
// Covers: RFC 9293 SHLD-30
TEST_P(TcpPersistTest, AnsweredProbesBackOffToo) {
  Start(OneSecondRto());
  tcp::Connection* c = OpenAndFill();
  for (int64_t at : {1'000, 3'000, 7'000, 15'000, 31'000, 63'000, 127'000, 247'000}) {
    AdvanceTo(at);
    EXPECT_THAT(TakeTimes(), ElementsAre(at));
    Send({.ack = After(2), .window = 0});
    EXPECT_THAT(TakeText(), IsEmpty());
  }
  Reset(c);
}

// Covers: RFC 9293 MUST-37, RFC 9293 MUST-35, bug:B22
TEST_P(TcpPersistTest, ClosedWindowLastsForDaysWhileProbesAreAnswered) {
  Start(OneSecondRto());
  tcp::Connection* c = OpenAndFill();
  size_t probes = 0;
  for (int i = 0; i < 3 * 24 * 60; ++i) {
    net->Advance(minutes(1));
    const size_t sent = Take().size();
    probes += sent;
    if (sent > 0) Send({.ack = After(2), .window = 0});
  }
  EXPECT_GT(probes, 2'000u);
  EXPECT_EQ(observer_.gone, 0);
  Send({.ack = After(2), .window = 10'000});
  EXPECT_THAT(TakeText(), SizeIs(3));
  Reset(c);
}

// Without answers the peer is gone: 15 probes, then the end.
TEST_P(TcpPersistTest, UnansweredProbesEndTheConnection) {
  Start(OneSecondRto());
  OpenAndFill();
  // 127 s for the first seven, then every 120 s.
  AdvanceTo(127'000 + 8 * 120'000 + 119'999);
  EXPECT_THAT(TakeText(), SizeIs(15));
  EXPECT_EQ(observer_.gone, 0);
  AdvanceTo(127'000 + 9 * 120'000);
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ETIMEDOUT);
}

TEST_P(TcpPersistTest, WindowUpdateEndsProbing) {
  Start(OneSecondRto());
  tcp::Connection* c = OpenAndFill();
  AdvanceTo(1'500);
  Take();
  Send({.ack = After(2), .window = 2'000});
  EXPECT_THAT(TakeText(), ElementsAre(Seg(3), Seg(4)));
  EXPECT_THAT(OnAck(After(4)), ElementsAre(PshSeg(5)));
  EXPECT_THAT(OnAck(After(5)), IsEmpty());
  AdvanceTo(600'000);
  EXPECT_THAT(TakeText(), IsEmpty());
  Reset(c);
}

// RFC 9293 §3.8.6.2.1: less than a segment and less than half of the largest window waits, but not
// for ever (the override timeout). Then the segment is cut to what the window takes.
TEST_P(TcpPersistTest, SmallWindowIsUsedAfterTheOverride) {
  Start(OneSecondRto());
  tcp::Connection* c = OpenAndFill();
  Send({.ack = After(2), .window = 500});
  EXPECT_THAT(TakeText(), IsEmpty());
  AdvanceTo(999);
  EXPECT_THAT(TakeText(), IsEmpty());
  AdvanceTo(1'100);
  EXPECT_THAT(TakeText(), ElementsAre("A 2001:2501(500) ack 1"));
  Send({.ack = 2501, .window = 2'000});
  EXPECT_THAT(TakeText(), ElementsAre("A 2501:3501(1000) ack 1", "A 3501:4501(1000) ack 1"));
  Reset(c);
}

// Half of the largest window ever offered is worth a segment at once.
TEST_P(TcpPersistTest, HalfOfTheLargestWindowIsUsedAtOnce) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1460, false), 1'000);
  EXPECT_EQ(Write(*c, 3'000), 3'000u);
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1001(1000) ack 1"));
  Send({.ack = 1001, .window = 499});
  EXPECT_THAT(TakeText(), IsEmpty());
  Send({.ack = 1001, .window = 500});
  EXPECT_THAT(TakeText(), ElementsAre("A 1001:1501(500) ack 1"));
  Reset(c);
}

// The FIN stays behind the data, and the probes go on after the close.
TEST_P(TcpPersistTest, FinWaitsBehindDataThatTheWindowHoldsBack) {
  Start(OneSecondRto());
  tcp::Connection* c = OpenAndFill();
  c->ShutdownWrite();
  net->Run();
  EXPECT_THAT(TakeText(), IsEmpty());
  AdvanceTo(1'000);
  EXPECT_THAT(TakeText(), ElementsAre(kProbe));
  EXPECT_EQ(c->state(), tcp::State::kFinWait1);
  Send({.ack = After(2), .window = 10'000});
  EXPECT_THAT(TakeText(), ElementsAre(Seg(3), Seg(4), "FPA 4001:5001(1000) ack 1"));
  OnAck(After(5) + 1);
  EXPECT_EQ(c->state(), tcp::State::kFinWait2);
  Reset(c);
}

// ---- A peer that shrinks its window ----

// Covers: RFC 9293 MUST-34, RFC 9293 SHLD-15, RFC 9293 SHLD-16
TEST_P(TcpPersistTest, ShrunkWindow) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false, 10'000);
  EXPECT_EQ(Write(*c, 20'000), 20'000u);
  EXPECT_THAT(TakeText(), SizeIs(10));
  Mark();
  // From 10,000 to 5,000 while all of it is in flight: nothing new.
  Send({.ack = After(2), .window = 3'000});
  EXPECT_THAT(TakeText(), IsEmpty());
  // The timer: what lies between SND.UNA and SND.UNA + SND.WND goes again, as cwnd allows.
  AdvanceTo(1'000);
  EXPECT_THAT(TakeText(), ElementsAre(Seg(3)));
  Send({.ack = After(3), .window = 2'000});
  EXPECT_THAT(TakeText(), ElementsAre(Seg(4), Seg(5)));
  // cwnd would take four, the window takes one.
  Send({.ack = After(5), .window = 1'000});
  EXPECT_THAT(TakeText(), ElementsAre(Seg(6)));
  Send({.ack = After(6), .window = 20'000});
  EXPECT_THAT(TakeText(), ::testing::Contains(Seg(7)));
  EXPECT_EQ(observer_.gone, 0);
  Reset(c);
}

// The window closes with data in flight and stays closed: the retransmissions are the probes, and
// while they are answered the connection does not time out.
// Covers: RFC 9293 SHLD-17, RFC 9293 MUST-35
TEST_P(TcpPersistTest, WindowClosedOverDataInFlight) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false, 10'000);
  EXPECT_EQ(Write(*c, 4'000), 4'000u);
  Take();
  Send({.ack = 1, .window = 0});
  size_t copies = 0;
  for (int i = 0; i < 24 * 60; ++i) {
    net->Advance(minutes(1));
    for (const SentSegment& s : Take()) {
      EXPECT_EQ(s.seq, 1u);
      ++copies;
      Send({.ack = 1, .window = 0});
    }
  }
  EXPECT_EQ(observer_.gone, 0);
  // Every two minutes at least, and backed off.
  EXPECT_GT(copies, 600u);
  EXPECT_LT(copies, 800u);
  if (observer_.gone > 0) return;
  Send({.ack = After(1), .window = 10'000});
  EXPECT_THAT(TakeText(), ElementsAre(Seg(2), Seg(3)));
  EXPECT_THAT(OnAck(After(3)), ElementsAre(PshSeg(4)));
  Reset(c);
}

// Three answers of a closed window are no three duplicates.
TEST_P(TcpPersistTest, ClosedWindowIsNoReasonForAFastRetransmit) {
  Start(OneSecondRto());
  tcp::Connection* c = Open(false, 10'000);
  WriteSegments(*c, 4);
  for (int i = 0; i < 5; ++i) {
    Send({.ack = 1, .window = 0});
    EXPECT_THAT(TakeText(), IsEmpty()) << i;
  }
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
