// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/rtt_estimator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tapwire::tcp {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr RttEstimator::Limits kLinux = {seconds(1), milliseconds(200), seconds(120)};
constexpr RttEstimator::Limits kRfc = {seconds(1), seconds(1), seconds(60)};
// Limits that do not show.
constexpr RttEstimator::Limits kOpen = {seconds(1), microseconds(1), seconds(100000)};

double Us(Duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

// Covers: RFC 9293 MUST-18
TEST(TcpRttEstimatorTest, StartsWithTheInitialRto) {
  const RttEstimator rtt;
  EXPECT_FALSE(rtt.has_sample());
  EXPECT_EQ(rtt.Rto(kRfc), seconds(1));  // RFC 6298 §2.1
}

// Covers: rfc:RTO-1
TEST(TcpRttEstimatorTest, FirstSampleSetsSrttAndHalfAsVariance) {
  RttEstimator rtt;
  rtt.OnSample(milliseconds(300));
  EXPECT_EQ(rtt.srtt(), milliseconds(300));
  EXPECT_EQ(rtt.rttvar(), milliseconds(150));
  EXPECT_EQ(rtt.Rto(kLinux), milliseconds(900));  // 300 + 4 * 150
  EXPECT_EQ(rtt.Rto(kRfc), seconds(1));           // §2.4: rounded up to one second
}

// Covers: rfc:RTO-1
TEST(TcpRttEstimatorTest, SecondSampleByHand) {
  RttEstimator rtt;
  rtt.OnSample(milliseconds(100));
  rtt.OnSample(milliseconds(180));
  // RTTVAR = 3/4 * 50 + 1/4 * |100 - 180| = 57.5; SRTT = 7/8 * 100 + 1/8 * 180 = 110.
  EXPECT_EQ(rtt.srtt(), milliseconds(110));
  EXPECT_EQ(rtt.rttvar(), microseconds(57500));
  EXPECT_EQ(rtt.Rto(kLinux), milliseconds(340));
  EXPECT_EQ(rtt.min_rtt(), milliseconds(100));
}

TEST(TcpRttEstimatorTest, FollowsTheFormulasOfTheRfc) {
  std::mt19937 random(1);
  for (const double scale : {50.0, 3e3, 4e5, 2e7}) {
    RttEstimator rtt;
    double srtt = 0;
    double rttvar = 0;
    for (int i = 0; i < 2000; ++i) {
      const auto sample =
          static_cast<int64_t>(scale * std::uniform_real_distribution<double>(0.5, 3.0)(random));
      rtt.OnSample(microseconds(sample));
      const auto r = static_cast<double>(sample);
      if (i == 0) {
        srtt = r;
        rttvar = r / 2;
      } else {
        rttvar = 0.75 * rttvar + 0.25 * std::fabs(srtt - r);
        srtt = 0.875 * srtt + 0.125 * r;
      }
      // Rounding by half an eighth of a microsecond adds up to half a microsecond.
      ASSERT_NEAR(Us(rtt.srtt()), srtt, 0.51) << i;
      ASSERT_NEAR(Us(rtt.rttvar()), rttvar, 0.75) << i;
      ASSERT_NEAR(Us(rtt.Rto(kOpen)), srtt + std::max(1000.0, 4 * rttvar), 4) << i;
    }
  }
}

TEST(TcpRttEstimatorTest, ConstantRttConvergesToItWithoutVariance) {
  RttEstimator rtt;
  rtt.OnSample(milliseconds(900));
  for (int i = 0; i < 300; ++i) rtt.OnSample(microseconds(12345));
  EXPECT_NEAR(Us(rtt.srtt()), 12345, 0.51);
  EXPECT_LE(rtt.rttvar(), microseconds(1));
  // §2.3: the clock granularity keeps the RTO above the SRTT.
  EXPECT_NEAR(Us(rtt.Rto(kOpen)), 12345 + 1000, 1);
  EXPECT_EQ(rtt.Rto(kLinux), milliseconds(200));
}

// RFC 7323 appendix G: n samples in one RTT weigh together about as much as one.
TEST(TcpRttEstimatorTest, ManySamplesInOneRttWeighLikeOne) {
  RttEstimator rtt;
  rtt.OnSample(milliseconds(100));
  for (int i = 0; i < 20; ++i) rtt.OnSample(milliseconds(180), 20);
  // (1 - 1/160)^20 = 0.8821 instead of 0.875.
  EXPECT_NEAR(Us(rtt.srtt()), 180000 - 80000 * std::pow(1 - 1.0 / 160, 20), 2);
  RttEstimator zero;
  zero.OnSample(milliseconds(100), 0);
  zero.OnSample(milliseconds(180), 0);
  EXPECT_EQ(zero.srtt(), milliseconds(110));
}

// Covers: rfc:RTO-2, bug:B35
TEST(TcpRttEstimatorTest, BackOffDoublesUpToTheMaximum) {
  RttEstimator rtt;
  rtt.OnSample(milliseconds(100));  // RTO 300 ms
  int64_t expected = 300;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(rtt.Rto(kLinux), milliseconds(std::min<int64_t>(expected, 120'000))) << i;
    rtt.BackOff();
    expected = std::min<int64_t>(expected * 2, 1'000'000);
  }
  EXPECT_LE(rtt.backoff(), 31);
  rtt.OnSample(milliseconds(100));  // §5: a new measurement collapses the RTO
  EXPECT_EQ(rtt.backoff(), 0);
  EXPECT_EQ(rtt.Rto(kOpen), microseconds(100'000 + 4 * 37'500));
}

// Covers: rfc:RTO-2
TEST(TcpRttEstimatorTest, DataStartsWithThreeSecondsAfterASynWasLost) {
  RttEstimator rtt;
  rtt.OnSynRetransmitted();
  rtt.BackOff();
  EXPECT_EQ(rtt.Rto(kLinux), seconds(2));  // still the handshake
  rtt.OnHandshakeDone();
  EXPECT_EQ(rtt.Rto(kLinux), seconds(3));
  rtt.BackOff();
  EXPECT_EQ(rtt.Rto(kLinux), seconds(6));
  rtt.OnSample(milliseconds(100));
  EXPECT_EQ(rtt.Rto(kLinux), milliseconds(300));

  RttEstimator sampled;  // a timestamp told the RTT in spite of the loss
  sampled.OnSynRetransmitted();
  sampled.OnSample(milliseconds(100));
  sampled.OnHandshakeDone();
  EXPECT_EQ(sampled.Rto(kLinux), milliseconds(300));

  RttEstimator clean;
  clean.OnHandshakeDone();
  EXPECT_EQ(clean.Rto(kLinux), seconds(1));
}

TEST(TcpRttEstimatorTest, AbsurdSamplesAreBounded) {
  for (const Duration sample : {Duration(-5), Duration(0), Duration(1), Duration::max(),
                                Duration::min(), Duration(seconds(100000))}) {
    RttEstimator rtt;
    for (int i = 0; i < 100; ++i) {
      rtt.OnSample(i % 2 == 0 ? sample : Duration(seconds(499)));
      EXPECT_TRUE(rtt.has_sample());
      EXPECT_GT(rtt.srtt(), Duration::zero());
      EXPECT_LE(rtt.srtt(), seconds(500));
      EXPECT_LE(rtt.rttvar(), seconds(500));
      EXPECT_GE(rtt.Rto(kLinux), milliseconds(200));
      EXPECT_LE(rtt.Rto(kLinux), seconds(120));
    }
  }
}

}  // namespace
}  // namespace tapwire::tcp
