// SPDX-License-Identifier: Apache-2.0
// CUBIC against the formulas of RFC 9438, recomputed here in segments and seconds.
#include "stack/tcp/cc_cubic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tapwire::tcp {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kSmss = 1448;

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

// A sender that always fills its window: each round trip every segment is acknowledged.
class Sender {
 public:
  Sender(uint32_t cwnd_segments, Duration rtt)
      : cc(kSmss, cwnd_segments * kSmss), rtt_(rtt), now_(Time(seconds(1000))) {}

  void Loss() { cc.OnCongestionEvent(cc.cwnd(), now_); }
  void Ack(uint32_t bytes, bool cwnd_limited = true) {
    AckSample sample;
    sample.now = now_;
    sample.newly_acked_bytes = bytes;
    sample.srtt = rtt_;
    sample.rtt = rtt_;
    sample.cwnd_limited = cwnd_limited;
    const uint32_t before = cc.cwnd();
    cc.OnAck(sample);
    EXPECT_GE(cc.cwnd(), before);
    EXPECT_LE(cc.cwnd(), before + before / 2 + bytes);
  }
  // One round trip with `segments_per_ack` segments to an acknowledgment.
  void RoundTrip(uint32_t segments_per_ack = 1) {
    const uint32_t acks = std::max(cc.cwnd() / kSmss / segments_per_ack, 1U);
    const Time end = now_ + rtt_;
    for (uint32_t i = 0; i < acks; ++i) {
      Ack(segments_per_ack * kSmss);
      now_ += rtt_ / acks;
    }
    now_ = end;
  }
  void Pass(Duration time) { now_ += time; }
  double segments() const { return static_cast<double>(cc.cwnd()) / kSmss; }
  double Elapsed(Time since) const { return Seconds(now_ - since); }
  Time now() const { return now_; }

  Cubic cc;

 private:
  Duration rtt_;
  Time now_;
};

// RFC 9438 §4.2, figures 1 and 2.
struct Curve {
  double w_max;
  double cwnd_epoch;
  double K() const { return std::cbrt((w_max - cwnd_epoch) / 0.4); }
  double At(double t) const { return 0.4 * std::pow(t - K(), 3) + w_max; }
};

// Covers: rfc:CUB-1
TEST(TcpCubicTest, LossReducesBySevenTenths) {
  Sender s(1000, milliseconds(100));
  EXPECT_EQ(s.cc.name(), "cubic");
  s.Loss();
  EXPECT_EQ(s.cc.ssthresh(), 700 * kSmss);
  EXPECT_EQ(s.cc.cwnd(), 700 * kSmss);
  s.cc.OnCongestionEvent(kSmss, s.now());
  EXPECT_EQ(s.cc.ssthresh(), 2 * kSmss);  // §4.6: at least two segments
  EXPECT_EQ(s.cc.cwnd(), 2 * kSmss);
}

// Concave up to W_max, flat there, convex beyond (§4.4, §4.5): after each round trip cwnd lies on
// the curve, not more than a round trip behind or ahead.
// Covers: rfc:CUB-1
TEST(TcpCubicTest, FollowsTheCubicFunction) {
  for (const uint32_t segments_per_ack : {1U, 2U, 44U}) {
    Sender s(1000, milliseconds(100));
    s.Loss();
    const Curve curve = {1000, 700};
    EXPECT_NEAR(curve.K(), 9.0856, 1e-4);
    const Time start = s.now();
    while (s.Elapsed(start) < 20) {
      s.RoundTrip(segments_per_ack);
      const double t = s.Elapsed(start);
      ASSERT_GT(s.segments(), curve.At(t - 0.15) - 1) << t;
      ASSERT_LT(s.segments(), curve.At(t + 0.10) + 1) << t;
    }
    EXPECT_GT(s.segments(), 1400);  // 1000 + 0.4 * 10.9^3 = 1520
  }
}

TEST(TcpCubicTest, TimeNotAcknowledgmentsDrivesTheGrowth) {
  // The same loss at twice the RTT leads to the same window at the same time.
  for (const int rtt_ms : {50, 100, 200}) {
    Sender s(2000, milliseconds(rtt_ms));
    s.Loss();
    const Time start = s.now();
    while (s.Elapsed(start) < 10) s.RoundTrip();
    const Curve curve = {2000, 1400};
    EXPECT_NEAR(s.segments(), curve.At(10), 6) << rtt_ms;
  }
}

// Near the plateau a large window grows by less than a byte for each acknowledgment.
TEST(TcpCubicTest, FractionsOfBytesAddUp) {
  Sender s(4000, milliseconds(20));
  s.Loss();
  const Curve curve = {4000, 2800};
  const Time start = s.now();
  while (s.Elapsed(start) < curve.K() + 1) {
    s.RoundTrip();
    const double t = s.Elapsed(start);
    if (t < curve.K() - 1.5) continue;
    ASSERT_NEAR(s.segments(), curve.At(t), 0.7) << t;
  }
}

// §4.3: at a short RTT the Reno window is ahead: alpha segments for each RTT until cwnd is where it
// was before the loss, then one.
// Covers: rfc:CUB-1
TEST(TcpCubicTest, RenoFriendlyRegionGrowsLikeReno) {
  Sender s(100, milliseconds(10));
  s.Loss();
  ASSERT_EQ(s.cc.cwnd(), 70 * kSmss);
  const double alpha = 3 * (1 - 0.7) / (1 + 0.7);  // 0.529
  double w_est = 70;
  for (int round = 0; round < 80; ++round) {
    const double before = s.segments();
    s.RoundTrip();
    // The window grows while it is acknowledged, so a round adds a little less than alpha.
    const double acked = std::floor(before);
    w_est += (w_est >= 100 ? 1.0 : alpha) * acked / before;
    ASSERT_NEAR(s.segments(), w_est, 0.75) << round;
  }
  EXPECT_GT(s.segments(), 115);  // far beyond what 0.8 s give on the cubic curve: 84
}

// §4.7: the next loss below W_max aims at (1 + beta) / 2 of cwnd.
// Covers: rfc:CUB-2
TEST(TcpCubicTest, FastConvergenceAimsLower) {
  Sender s(1000, milliseconds(100));
  s.Loss();
  s.RoundTrip();  // into the epoch
  const double second = s.segments();
  ASSERT_LT(second, 1000);
  s.Loss();
  const Curve curve = {second * 1.7 / 2, second * 0.7};
  const Time start = s.now();
  while (s.Elapsed(start) < curve.K()) s.RoundTrip();
  EXPECT_NEAR(s.segments(), curve.w_max, 2);
  for (int i = 0; i < 5; ++i) s.RoundTrip();
  EXPECT_NEAR(s.segments(), curve.w_max, 2);  // flat
  // A loss above the old W_max takes cwnd itself as the new one.
  while (s.segments() < curve.w_max + 50) s.RoundTrip();
  const double third = s.segments();
  s.Loss();
  const Curve next = {third, third * 0.7};
  const Time again = s.now();
  while (s.Elapsed(again) < next.K()) s.RoundTrip();
  EXPECT_NEAR(s.segments(), third, 2);
}

// §4.8: after a timeout slow start up to ssthresh, then the curve from its plateau: K = 0.
TEST(TcpCubicTest, TimeoutRestartsFromThePlateau) {
  Sender s(2000, milliseconds(100));
  s.Loss();  // the W_max of which must be forgotten
  s.cc.OnRetransmissionTimeout(1000 * kSmss, true, s.now());
  EXPECT_EQ(s.cc.cwnd(), kSmss);
  EXPECT_EQ(s.cc.ssthresh(), 700 * kSmss);
  s.cc.OnRetransmissionTimeout(kSmss, false, s.now());
  EXPECT_EQ(s.cc.ssthresh(), 700 * kSmss);  // RFC 5681 §3.1
  int rounds = 0;
  for (; s.cc.in_slow_start(); ++rounds) s.RoundTrip();
  EXPECT_EQ(rounds, 10);  // 2^10 > 700
  const Curve curve = {s.segments(), s.segments()};
  const Time start = s.now();
  while (s.Elapsed(start) < 8) s.RoundTrip();
  EXPECT_NEAR(s.segments(), curve.At(8), 12);  // 205 segments up; 0.1 s are worth 8
}

TEST(TcpCubicTest, SlowStartDoublesHoweverAcknowledgmentsAreMerged) {
  for (const uint32_t segments_per_ack : {1U, 2U, 10U}) {
    Sender s(10, milliseconds(100));
    s.RoundTrip(segments_per_ack);
    EXPECT_EQ(s.cc.cwnd(), 20 * kSmss);
    s.RoundTrip(segments_per_ack);
    EXPECT_EQ(s.cc.cwnd(), 40 * kSmss);
  }
}

// §4.2: at most half a window more in one RTT, however long the curve has run.
TEST(TcpCubicTest, TargetIsAtMostHalfAWindowMore) {
  Sender s(10, seconds(3));
  s.Loss();
  for (int i = 0; i < 20; ++i) {
    const double before = s.segments();
    s.RoundTrip();
    EXPECT_LE(s.segments(), before * std::exp(0.5) + 1);
  }
  EXPECT_GT(s.segments(), 500);
}

// §4.2: idle time, and time in which the application was the limit, is not part of t.
// Covers: bug:B37, rfc:CUB-3
TEST(TcpCubicTest, IdleTimeDoesNotCount) {
  for (const bool trickle : {false, true}) {
    Sender s(1000, milliseconds(100));
    s.Loss();
    const Time start = s.now();
    while (s.Elapsed(start) < 3) s.RoundTrip();
    const uint32_t before = s.cc.cwnd();
    if (trickle) {
      for (int i = 0; i < 600; ++i) {
        s.Ack(kSmss, /*cwnd_limited=*/false);
        s.Pass(milliseconds(100));
      }
    } else {
      s.Pass(seconds(60));
    }
    EXPECT_EQ(s.cc.cwnd(), before);
    for (int i = 0; i < 10; ++i) s.RoundTrip();
    // As if the minute had not been: 4 s on the curve, not 64.
    const Curve curve = {1000, 700};
    EXPECT_NEAR(s.segments(), curve.At(4), 8) << trickle;
  }
}

// Covers: bug:B37
TEST(TcpCubicTest, EmptyAcksChangeNothing) {
  Sender s(100, milliseconds(100));
  s.Loss();
  for (int i = 0; i < 10000; ++i) {
    s.Ack(0);
    s.Pass(milliseconds(10));
  }
  EXPECT_EQ(s.cc.cwnd(), 70 * kSmss);
}

// Covers: rfc:CC-10
TEST(TcpCubicTest, IdleRestartFallsToTheInitialWindow) {
  Sender s(100, milliseconds(100));
  s.Loss();
  s.RoundTrip();
  s.cc.OnIdleRestart(10 * kSmss, s.now());
  EXPECT_EQ(s.cc.cwnd(), 10 * kSmss);
  EXPECT_EQ(s.cc.ssthresh(), 70 * kSmss);
  s.cc.OnIdleRestart(20 * kSmss, s.now());
  EXPECT_EQ(s.cc.cwnd(), 10 * kSmss);
  // Slow start, then a stage with the old W_max as its plateau.
  while (s.cc.in_slow_start()) s.RoundTrip();
  const Curve curve = {100, s.segments()};
  const Time start = s.now();
  while (s.Elapsed(start) < 1) s.RoundTrip();
  EXPECT_NEAR(s.segments(), curve.At(1), 5);
}

// Covers: bug:B37
TEST(TcpCubicTest, NoSequenceOfEventsBreaksTheBounds) {
  for (const uint32_t seed : {1U, 2U, 3U, 4U}) {
    std::mt19937 random(seed);
    const auto pick = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    Cubic cc(kSmss, 10 * kSmss);
    Time now(seconds(1));
    for (int i = 0; i < 20000; ++i) {
      now += microseconds(pick(4) == 0 ? pick(100'000'000) : pick(10'000));
      const uint32_t before = cc.cwnd();
      AckSample sample;
      switch (pick(40)) {
        case 0:
          cc.OnCongestionEvent(pick(2) == 0 ? before : pick(before), now);
          EXPECT_GE(cc.ssthresh(), 2 * cc.smss());
          break;
        case 1:
          cc.OnRetransmissionTimeout(pick(before), pick(2) == 0, now);
          EXPECT_EQ(cc.cwnd(), cc.smss());
          break;
        case 2:
          cc.OnIdleRestart(10 * cc.smss(), now);
          EXPECT_LE(cc.cwnd(), before);
          break;
        case 3:
          cc.set_smss(500 + pick(9000));
          break;
        default:
          sample.now = now;
          sample.newly_acked_bytes = pick(10) == 0 ? UINT32_MAX >> pick(32) : pick(3 * kSmss);
          sample.srtt = microseconds(pick(300'000));
          sample.rtt = microseconds(static_cast<int64_t>(pick(1'000'000)) - 1000);
          sample.cwnd_limited = pick(4) != 0;
          cc.OnAck(sample);
          ASSERT_GE(cc.cwnd(), before);
          ASSERT_LE(cc.cwnd(), 1U << 30);
      }
      ASSERT_GE(cc.cwnd(), cc.smss());
    }
  }
}

}  // namespace
}  // namespace tapwire::tcp
