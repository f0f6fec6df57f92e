// SPDX-License-Identifier: Apache-2.0
// The congestion window as seen from outside: how many segments leave (RFC 5681, RFC 6928, RFC
// 9438). The algorithms themselves are tested in cc_newreno_test.cc and cc_cubic_test.cc.
#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TcpCongestionTest : public TcpLossTest {
 protected:
  static tcp::Config CubicConfig() {
    tcp::Config config = Plain();
    config.congestion_control = "cubic";
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpCongestionTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), FamilyName);

// RFC 6928 §2: min(10 * MSS, max(2 * MSS, 14600)).
// Covers: rfc:CC-01
TEST_P(TcpCongestionTest, InitialWindow) {
  for (const uint16_t mss : {uint16_t{536}, uint16_t{1000}, uint16_t{1440}}) {
    Start();
    tcp::Connection* c = Connect(SynOptions(mss, false));
    Write(*c, 100'000);
    EXPECT_THAT(Take(), SizeIs(10)) << mss;
    Reset(c);
  }
  // A segment of 9,000 bytes: two of them are more than 14,600.
  NetHarness::Options jumbo;
  jumbo.device.mtu = 9'060;
  Start(Plain(), jumbo);
  tcp::Connection* c = Connect(SynOptions(9'000, false));
  Write(*c, 50'000);
  EXPECT_THAT(Take(), SizeIs(2));
  Reset(c);
}

// RFC 5681 §3.1, equation 2, and RFC 3465 §2.3: as much more as was acknowledged, two segments at
// most.
// Covers: RFC 9293 MUST-19, rfc:CC-03
TEST_P(TcpCongestionTest, SlowStartDoubles) {
  Start();
  tcp::Connection* c = Open(false);
  Write(*c, 60'000);
  EXPECT_THAT(Take(), SizeIs(10));
  for (uint32_t n = 1; n <= 10; ++n) EXPECT_THAT(OnAck(After(n)), SizeIs(2)) << n;
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 20'000u);
  EXPECT_THAT(OnAck(After(12)), SizeIs(4));
  Reset(c);
}

// §3.1: one segment for each window, above ssthresh. Ten in flight, one lost: ssthresh is five.
// Covers: rfc:CC-04
TEST_P(TcpCongestionTest, CongestionAvoidanceAddsOneSegmentAWindow) {
  Start();
  tcp::Connection* c = Open(false);
  Write(*c, 60'000);
  Take();
  for (int i = 0; i < 11; ++i) OnAck(1);
  // 1 was lost, 12 are acknowledged; 13 to 16 are in flight, and 17 goes.
  EXPECT_THAT(OnAck(After(12)), ElementsAre(Seg(17)));
  for (uint32_t n = 13; n <= 16; ++n) EXPECT_THAT(OnAck(After(n)), SizeIs(1)) << n;
  EXPECT_THAT(OnAck(After(17)), SizeIs(2));
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 6'000u);
  for (uint32_t n = 18; n <= 22; ++n) EXPECT_THAT(OnAck(After(n)), SizeIs(1)) << n;
  EXPECT_THAT(OnAck(After(23)), SizeIs(2));
  Reset(c);
}

// Equation 4, and: "ssthresh is held constant" for more timeouts of the same data.
// Covers: rfc:CC-06
TEST_P(TcpCongestionTest, TimeoutMakesItOneSegment) {
  Start();
  tcp::Connection* c = Open(false);
  Write(*c, 60'000);
  Take();
  net->Advance(milliseconds(650));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1), Seg(1)));
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 1'000u);
  EXPECT_EQ(c->Info().snd_ssthresh_bytes, 5'000u);
  // Slow start from there: 2, 3, 4, 5 segments, then one more for a window.
  EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2), Seg(3)));
  EXPECT_THAT(OnAck(After(2)), ElementsAre(Seg(4), Seg(5)));
  EXPECT_THAT(OnAck(After(3)), ElementsAre(Seg(6), Seg(7)));
  EXPECT_THAT(OnAck(After(4)), ElementsAre(Seg(8), Seg(9)));
  EXPECT_THAT(OnAck(After(5)), ElementsAre(Seg(10)));
  Reset(c);
}

// The same when nothing new waits: the window grows with the copies too, else each would take a
// round trip.
TEST_P(TcpCongestionTest, WindowGrowsThoughOnlyCopiesAreSent) {
  for (const bool sack : {false, true}) {
    for (const bool fin : {false, true}) {
      Start();
      tcp::Connection* c = Open(sack);
      WriteSegments(*c, 10);
      if (fin) c->ShutdownWrite();
      net->Advance(milliseconds(200));
      Take();
      EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2), Seg(3)));
      EXPECT_THAT(OnAck(After(2)), ElementsAre(Seg(4), Seg(5)));
      EXPECT_THAT(OnAck(After(3)), ElementsAre(Seg(6), Seg(7)));
      Reset(c);
    }
  }
}

// RFC 5681 §4.1: after more than an RTO without sending, no more than the initial window.
// Covers: rfc:CC-10
TEST_P(TcpCongestionTest, IdleRestart) {
  Start();
  tcp::Connection* c = Open(false);
  Write(*c, 30'000);
  Take();
  for (uint32_t n = 1; n <= 30; ++n) OnAck(After(n));
  EXPECT_GT(c->Info().snd_cwnd_bytes, 15'000u);
  net->Advance(seconds(1));
  Write(*c, 30'000);
  EXPECT_THAT(Take(), SizeIs(10));
  Reset(c);
}

// Two losses in one window are one event (RFC 5681 §3.2, RFC 6582): ssthresh is set once.
// Covers: rfc:CC-09
TEST_P(TcpCongestionTest, OneReductionForAWindow) {
  for (const bool sack : {false, true}) {
    Start();
    tcp::Connection* c = Open(sack);
    WriteSegments(*c, 10);  // 1 and 6 are lost
    if (sack) {
      OnSack(1, {{2, 4}});
      OnSack(After(5), {{7, 9}});
      OnSack(After(5), {{7, 10}});
    } else {
      for (int i = 0; i < 8; ++i) OnAck(1);
      EXPECT_THAT(OnAck(After(5)), ElementsAre(Seg(6)));
    }
    EXPECT_EQ(c->Info().snd_ssthresh_bytes, 5'000u);
    OnAck(After(10));
    EXPECT_EQ(c->Info().snd_cwnd_bytes, 5'000u);
    // A loss in the next window is another: 12, with five in flight.
    Write(*c, 6'000);
    Take();
    OnAck(After(11));
    for (uint32_t last = 13; last <= 15; ++last) {
      if (sack) {
        OnSack(After(11), {{13, last}});
      } else {
        OnAck(After(11));
      }
    }
    EXPECT_EQ(c->Info().snd_ssthresh_bytes, 2'500u);
    Reset(c);
  }
}

// RFC 9438 §4.6: 0.7 of the flight.
// Covers: rfc:CUB-2
TEST_P(TcpCongestionTest, CubicReducesToSevenTenths) {
  for (const bool sack : {false, true}) {
    Start(CubicConfig());
    tcp::Connection* c = Open(sack);
    EXPECT_EQ(c->Info().congestion_control, "cubic");
    WriteSegments(*c, 10);
    if (sack) {
      OnSack(1, {{2, 4}});
    } else {
      for (int i = 0; i < 3; ++i) OnAck(1);
    }
    EXPECT_EQ(c->Info().snd_ssthresh_bytes, 7'000u);
    EXPECT_THAT(OnAck(After(10)), IsEmpty());
    EXPECT_EQ(c->Info().snd_cwnd_bytes, 7'000u);
    Reset(c);
  }
}

// RFC 9438 §4.8, RFC 5681 §3.1.
TEST_P(TcpCongestionTest, CubicTimeoutMakesItOneSegment) {
  Start(CubicConfig());
  tcp::Connection* c = Open(true);
  Write(*c, 60'000);
  Take();
  net->Advance(milliseconds(200));
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 1'000u);
  EXPECT_EQ(c->Info().snd_ssthresh_bytes, 7'000u);
  EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2), Seg(3)));
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
