// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/isn.h"

#include <gtest/gtest.h>

#include <set>

#include "netdev/base/seeded_random.h"

namespace tapwire::tcp {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// 00 01 02 …, so that the first key is that of the SipHash paper.
class CountingRandom : public Random {
 public:
  void Fill(std::span<uint8_t> out) override {
    for (uint8_t& byte : out) byte = next_++;
  }

 private:
  uint8_t next_ = 0;
};

FlowKey Flow(absl::string_view local, absl::string_view remote, uint16_t local_port,
             uint16_t remote_port) {
  return {*IpAddress::Parse(local), *IpAddress::Parse(remote), local_port, remote_port};
}

const FlowKey kFlow4 = Flow("10.0.0.1", "10.0.0.2", 80, 40000);
const FlowKey kFlow6 = Flow("2001:db8::1", "2001:db8::2", 443, 50000);

Time At(Duration since_start) { return Time(since_start); }

// Low 32 bits of SipHash-2-4 over addresses (16 bytes each) and ports, from an independent
// implementation that was checked against the vector of the SipHash paper.
TEST(TcpIsnTest, IsTheKeyedHashAtTimeZero) {
  CountingRandom random;
  const IsnGenerator generator(random);
  EXPECT_EQ(generator.Isn(kFlow4, At(Duration::zero())).value(), 0x3a9f793dU);
  EXPECT_EQ(generator.Isn(kFlow6, At(Duration::zero())).value(), 0xa1af7bb8U);
  EXPECT_EQ(generator.TimestampOffset(kFlow4), 0x0d95d3feU);
  EXPECT_EQ(generator.TimestampOffset(kFlow6), 0xdaf451e7U);
}

// RFC 9293 §3.4.1: M advances by one each 4 microseconds, and so goes around in 4.77 hours.
// Covers: RFC 9293 MUST-8
TEST(TcpIsnTest, ClockAdvancesEachFourMicroseconds) {
  SeededRandom random(1);
  const IsnGenerator generator(random);
  for (const FlowKey& flow : {kFlow4, kFlow6}) {
    const Time start = At(hours(7));
    const Seq isn = generator.Isn(flow, start);
    EXPECT_EQ(generator.Isn(flow, start + microseconds(3)), isn);
    EXPECT_EQ(generator.Isn(flow, start + microseconds(4)), isn + 1);
    EXPECT_EQ(generator.Isn(flow, start + milliseconds(1)), isn + 250);
    EXPECT_EQ(generator.Isn(flow, start + microseconds(4) * (int64_t{1} << 32)), isn);
  }
}

// Covers: RFC 9293 MUST-9, RFC 9293 SHLD-1, bug:B57
TEST(TcpIsnTest, DependsOnEveryPartOfTheFlowAndOnTheSecret) {
  SeededRandom random(2);
  const IsnGenerator generator(random);
  const IsnGenerator other(random);
  const Time now = At(hours(1));
  std::set<uint32_t> isns;
  std::set<uint32_t> offsets;
  const FlowKey flows[] = {kFlow4,
                           Flow("10.0.0.3", "10.0.0.2", 80, 40000),
                           Flow("10.0.0.1", "10.0.0.3", 80, 40000),
                           Flow("10.0.0.2", "10.0.0.1", 80, 40000),
                           Flow("10.0.0.1", "10.0.0.2", 81, 40000),
                           Flow("10.0.0.1", "10.0.0.2", 80, 40001),
                           Flow("10.0.0.1", "10.0.0.2", 40000, 80),
                           kFlow6,
                           Flow("2001:db8::1", "2001:db8::3", 443, 50000),
                           Flow("2001:db8:0:1::1", "2001:db8::2", 443, 50000)};
  for (const FlowKey& flow : flows) {
    for (const IsnGenerator* g : {&generator, &other}) {
      isns.insert(g->Isn(flow, now).value());
      offsets.insert(g->TimestampOffset(flow));
      EXPECT_NE(g->Isn(flow, At(Duration::zero())).value(), g->TimestampOffset(flow));
    }
  }
  EXPECT_EQ(isns.size(), 2 * std::size(flows));
  EXPECT_EQ(offsets.size(), 2 * std::size(flows));
}

}  // namespace
}  // namespace tapwire::tcp
