// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/cc_newreno.h"

#include <gtest/gtest.h>

namespace tapwire::tcp {
namespace {

constexpr uint32_t kSmss = 1000;
constexpr uint32_t kInitialWindow = 10 * kSmss;

AckSample Acked(uint32_t bytes) {
  AckSample sample;
  sample.newly_acked_bytes = bytes;
  return sample;
}

// Acknowledges one window, a segment at a time.
void OneRoundTrip(CongestionControl& cc) {
  for (uint32_t left = cc.cwnd() / kSmss; left > 0; --left) cc.OnAck(Acked(kSmss));
}

TEST(TcpNewRenoTest, StartsInSlowStart) {
  const NewReno cc(kSmss, kInitialWindow);
  EXPECT_EQ(cc.name(), "reno");
  EXPECT_EQ(cc.cwnd(), 10000U);
  EXPECT_TRUE(cc.in_slow_start());
  EXPECT_EQ(cc.ssthresh(), CongestionControl::kInfiniteSsthresh);
}

// RFC 5681 §3.1 and RFC 3465 §2.2, §2.3.
// Covers: rfc:CC-03, RFC 9293 MUST-19
TEST(TcpNewRenoTest, SlowStartCountsBytesUpToTwoSegments) {
  NewReno cc(kSmss, kInitialWindow);
  cc.OnAck(Acked(kSmss));
  EXPECT_EQ(cc.cwnd(), 11000U);
  cc.OnAck(Acked(10));  // split acknowledgments gain nothing
  EXPECT_EQ(cc.cwnd(), 11010U);
  cc.OnAck(Acked(2 * kSmss));
  EXPECT_EQ(cc.cwnd(), 13010U);
  cc.OnAck(Acked(9 * kSmss));
  EXPECT_EQ(cc.cwnd(), 15010U);
}

TEST(TcpNewRenoTest, SlowStartDoublesInOneRoundTrip) {
  NewReno cc(kSmss, kInitialWindow);
  OneRoundTrip(cc);
  EXPECT_EQ(cc.cwnd(), 20000U);
  OneRoundTrip(cc);
  EXPECT_EQ(cc.cwnd(), 40000U);
}

TEST(TcpNewRenoTest, CongestionAvoidanceAddsOneSegmentInOneRoundTrip) {
  NewReno cc(kSmss, kInitialWindow);
  cc.OnCongestionEvent(20000, Time());
  EXPECT_EQ(cc.ssthresh(), 10000U);  // RFC 5681 equation 4
  EXPECT_EQ(cc.cwnd(), 10000U);
  for (uint32_t segments = 10; segments < 20; ++segments) {
    EXPECT_EQ(cc.cwnd(), segments * kSmss);
    for (uint32_t i = 1; i < segments; ++i) cc.OnAck(Acked(kSmss));
    EXPECT_EQ(cc.cwnd(), segments * kSmss);
    cc.OnAck(Acked(kSmss));
  }
}

TEST(TcpNewRenoTest, SlowStartEndsExactlyAtSsthresh) {
  NewReno cc(kSmss, kInitialWindow);
  cc.OnRetransmissionTimeout(9000, true, Time());
  EXPECT_EQ(cc.ssthresh(), 4500U);
  for (const uint32_t expected : {2000U, 3000U, 4000U, 4500U}) {
    cc.OnAck(Acked(kSmss));
    EXPECT_EQ(cc.cwnd(), expected);
  }
  EXPECT_FALSE(cc.in_slow_start());
  // 500 of the last acknowledgment count already.
  for (int i = 0; i < 3; ++i) cc.OnAck(Acked(kSmss));
  EXPECT_EQ(cc.cwnd(), 4500U);
  cc.OnAck(Acked(kSmss));
  EXPECT_EQ(cc.cwnd(), 5500U);
}

// Covers: rfc:CC-06
TEST(TcpNewRenoTest, TimeoutFallsToOneSegmentAndLowersSsthreshOnce) {
  NewReno cc(kSmss, 20 * kSmss);
  cc.OnRetransmissionTimeout(16000, true, Time());
  EXPECT_EQ(cc.cwnd(), kSmss);
  EXPECT_EQ(cc.ssthresh(), 8000U);
  cc.OnRetransmissionTimeout(1000, false, Time());
  EXPECT_EQ(cc.cwnd(), kSmss);
  EXPECT_EQ(cc.ssthresh(), 8000U);
  // RFC 3465 §2.3: L = 1 in the slow start after a timeout.
  cc.OnAck(Acked(5 * kSmss));
  EXPECT_EQ(cc.cwnd(), 2000U);
}

TEST(TcpNewRenoTest, SsthreshIsAtLeastTwoSegments) {
  NewReno cc(kSmss, kInitialWindow);
  cc.OnCongestionEvent(1500, Time());
  EXPECT_EQ(cc.ssthresh(), 2000U);
  EXPECT_EQ(cc.cwnd(), 2000U);
  cc.OnRetransmissionTimeout(0, true, Time());
  EXPECT_EQ(cc.ssthresh(), 2000U);
  EXPECT_EQ(cc.cwnd(), 1000U);
}

// Covers: bug:B37
TEST(TcpNewRenoTest, UnusedWindowAndEmptyAcksDoNotGrow) {
  NewReno cc(kSmss, kInitialWindow);
  AckSample unused = Acked(2000);
  unused.cwnd_limited = false;
  for (int phase = 0; phase < 2; ++phase) {
    const uint32_t before = cc.cwnd();
    for (int i = 0; i < 10000; ++i) {
      cc.OnAck(unused);
      cc.OnAck(Acked(0));
    }
    EXPECT_EQ(cc.cwnd(), before);
    cc.OnCongestionEvent(8000, Time());  // and the same in congestion avoidance
  }
}

// Covers: rfc:CC-10
TEST(TcpNewRenoTest, IdleRestartFallsToTheInitialWindow) {
  NewReno cc(kSmss, kInitialWindow);
  OneRoundTrip(cc);
  cc.OnIdleRestart(kInitialWindow, Time());
  EXPECT_EQ(cc.cwnd(), kInitialWindow);
  cc.OnCongestionEvent(8000, Time());
  cc.OnIdleRestart(kInitialWindow, Time());
  EXPECT_EQ(cc.cwnd(), 4000U);  // never raised
}

TEST(TcpNewRenoTest, GrowthStopsAtTheLargestWindow) {
  NewReno cc(kSmss, 1000000000);
  for (int i = 0; i < 100; ++i) cc.OnAck(Acked(1U << 30));
  EXPECT_EQ(cc.cwnd(), 1000200000U);
  for (int i = 0; i < 100000; ++i) cc.OnAck(Acked(1U << 30));
  EXPECT_EQ(cc.cwnd(), 1U << 30);
}

TEST(TcpNewRenoTest, SegmentSizeMayChange) {
  NewReno cc(kSmss, kInitialWindow);
  cc.OnRetransmissionTimeout(8000, true, Time());
  cc.set_smss(1400);
  EXPECT_EQ(cc.cwnd(), 1400U);
  cc.set_smss(500);
  EXPECT_EQ(cc.cwnd(), 1400U);
  cc.OnCongestionEvent(0, Time());
  EXPECT_EQ(cc.ssthresh(), 1000U);
}

TEST(TcpCongestionControlSlotTest, HoldsTheAlgorithmOfThatName) {
  CongestionControlSlot slot;
  EXPECT_FALSE(slot);
  EXPECT_FALSE(slot.Emplace("vegas", kSmss, kInitialWindow));
  EXPECT_FALSE(slot);
  for (const char* name : {"reno", "cubic", "reno"}) {
    EXPECT_TRUE(CongestionControlSlot::IsKnown(name));
    ASSERT_TRUE(slot.Emplace(name, kSmss, kInitialWindow));
    EXPECT_EQ(slot->name(), name);
    EXPECT_EQ(slot->cwnd(), kInitialWindow);
    EXPECT_EQ(slot->smss(), kSmss);
    EXPECT_FALSE(slot.Emplace("", kSmss, kInitialWindow));
    EXPECT_EQ(slot->name(), name);
  }
  EXPECT_FALSE(CongestionControlSlot::IsKnown("vegas"));
}

}  // namespace
}  // namespace tapwire::tcp
