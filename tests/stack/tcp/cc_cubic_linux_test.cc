// SPDX-License-Identifier: Apache-2.0
// The expected windows are those of a Linux 6.18 kernel under the same acknowledgments.
#include "stack/tcp/cc_cubic_linux.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tapwire::tcp {
namespace {

constexpr uint32_t kSmss = 1000;

class CcCubicLinuxTest : public ::testing::Test {
 protected:
  // An acknowledgment of `segments`, a round trip of 100 ms after the last one.
  uint32_t Ack(uint32_t segments) {
    now_ += std::chrono::milliseconds(100);
    AckSample sample;
    sample.now = now_;
    sample.newly_acked_bytes = segments * kSmss;
    sample.rtt = sample.srtt = std::chrono::milliseconds(100);
    cc_.OnAck(sample);
    return cc_.cwnd() / kSmss;
  }

  Time now_{std::chrono::seconds(1)};
  LinuxCubic cc_{kSmss, 10 * kSmss};
};

TEST_F(CcCubicLinuxTest, SlowStartDoublesTheWindow) {
  EXPECT_EQ(cc_.name(), "cubic");
  EXPECT_EQ(Ack(10), 20u);
  EXPECT_EQ(Ack(20), 40u);
}

TEST_F(CcCubicLinuxTest, ALossLeavesSevenTenthsAndGrowthIsInWholeSegments) {
  cc_.OnCongestionEvent(10 * kSmss, now_);
  EXPECT_EQ(cc_.cwnd(), 7 * kSmss);
  EXPECT_EQ(cc_.ssthresh(), 7 * kSmss);
  EXPECT_EQ(Ack(9), 8u);
  EXPECT_EQ(Ack(2), 8u);
  EXPECT_EQ(Ack(5), 9u);
  EXPECT_EQ(Ack(6), 9u);
}

TEST_F(CcCubicLinuxTest, ATimeoutLeavesOneSegmentAndTheSameThresholdTheSecondTime) {
  cc_.OnRetransmissionTimeout(10 * kSmss, true, now_);
  EXPECT_EQ(cc_.cwnd(), kSmss);
  EXPECT_EQ(cc_.ssthresh(), 7 * kSmss);
  cc_.OnRetransmissionTimeout(kSmss, false, now_);
  EXPECT_EQ(cc_.ssthresh(), 7 * kSmss);
}

}  // namespace
}  // namespace tapwire::tcp
