// SPDX-License-Identifier: Apache-2.0
// The layout is that of iputils; the expected texts were printed by its ping, figures included
// where they can be reproduced.

#include "apps/ping_stats.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tapwire::apps {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// The replies of the sample: 0.095, 0.032 and 0.049 ms within 434 ms.
TEST(PingStatsTest, SummaryIsThatOfPing) {
  PingStats stats;
  for (const int us : {95, 32, 49}) {
    stats.OnSent();
    stats.OnReply(microseconds(us));
  }
  // mean = 58.67 µs; mdev = √((95² + 32² + 49²)/3 − mean²) = 26.6 µs. Ping itself prints 0.026,
  // since it computes in whole microseconds.
  EXPECT_EQ(stats.Summary("10.77.0.2", milliseconds(434)),
            "\n--- 10.77.0.2 ping statistics ---\n"
            "3 packets transmitted, 3 received, 0% packet loss, time 434ms\n"
            "rtt min/avg/max/mdev = 0.032/0.059/0.095/0.027 ms\n");
}

TEST(PingStatsTest, SummaryWithoutReplyHasNoTimes) {
  PingStats stats;
  stats.OnSent();
  stats.OnSent();
  EXPECT_EQ(stats.Summary("10.77.0.99", milliseconds(317)),
            "\n--- 10.77.0.99 ping statistics ---\n"
            "2 packets transmitted, 0 received, 100% packet loss, time 317ms\n"
            "\n");
}

TEST(PingStatsTest, DuplicatesAndErrorsAreInserted) {
  PingStats stats;
  for (int i = 0; i < 4; ++i) stats.OnSent();
  stats.OnReply(milliseconds(2));
  stats.OnDuplicate();
  stats.OnError();
  stats.OnError();
  EXPECT_EQ(stats.Summary("::1", milliseconds(3000)),
            "\n--- ::1 ping statistics ---\n"
            "4 packets transmitted, 1 received, +1 duplicates, +2 errors, 75% packet loss, time "
            "3000ms\n"
            "rtt min/avg/max/mdev = 2.000/2.000/2.000/0.000 ms\n");
}

// Six significant digits in the summary, whole per cents in the interim line.
TEST(PingStatsTest, LossIsPrintedAsPingDoes) {
  PingStats stats;
  for (int i = 0; i < 3; ++i) stats.OnSent();
  stats.OnReply(milliseconds(1));
  stats.OnReply(milliseconds(1));
  EXPECT_NE(stats.Summary("a", milliseconds(1)).find(", 33.3333% packet loss,"), std::string::npos);
  EXPECT_NE(stats.Interim().find(", 33% loss,"), std::string::npos);
}

TEST(PingStatsTest, NothingSentIsNoLoss) {
  EXPECT_EQ(PingStats().Summary("10.0.0.1", milliseconds(0)),
            "\n--- 10.0.0.1 ping statistics ---\n"
            "0 packets transmitted, 0 received, 0% packet loss, time 0ms\n"
            "\n");
}

TEST(PingStatsTest, InterimLineIsThatOfSigquit) {
  PingStats stats;
  for (int i = 0; i < 3; ++i) stats.OnSent();
  EXPECT_EQ(stats.Interim(), "0/3 packets, 100% loss");
  stats.OnReply(milliseconds(1));
  stats.OnReply(milliseconds(3));
  EXPECT_EQ(stats.Interim(),
            "2/3 packets, 33% loss, min/avg/max/mdev = 1.000/2.000/3.000/1.000 ms");
}

TEST(PingStatsTest, DeviationOfEqualTimesIsZero) {
  PingStats stats;
  // 0.1 has no exact binary form, so that the difference of the sums may fall below zero.
  for (int i = 0; i < 1000; ++i) {
    stats.OnSent();
    stats.OnReply(microseconds(100));
  }
  EXPECT_NE(stats.Summary("a", milliseconds(1)).find("= 0.100/0.100/0.100/0.000 ms"),
            std::string::npos);
}

TEST(PingStatsTest, TimeOfOneReplyHasThreeDigits) {
  EXPECT_EQ(FormatRtt(nanoseconds(0)), "0.000");
  EXPECT_EQ(FormatRtt(microseconds(95)), "0.095");
  EXPECT_EQ(FormatRtt(microseconds(1234)), "1.23");
  EXPECT_EQ(FormatRtt(microseconds(12'345)), "12.3");
  EXPECT_EQ(FormatRtt(microseconds(123'456)), "123");
  EXPECT_EQ(FormatRtt(std::chrono::seconds(12)), "12000");
}

// At the borders a value is rounded up into the next form, as iputils does.
TEST(PingStatsTest, RoundingNeverGivesAFourthDigit) {
  EXPECT_EQ(FormatRtt(nanoseconds(999'700)), "1.00");
  EXPECT_EQ(FormatRtt(microseconds(9'997)), "10.0");
  EXPECT_EQ(FormatRtt(microseconds(99'970)), "100");
}

}  // namespace
}  // namespace tapwire::apps
