// SPDX-License-Identifier: Apache-2.0
// Keepalive (RFC 9293 §3.8.4).
#include <cerrno>

#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// SEG.SEQ = SND.NXT - 1, no data (SHLD-12).
constexpr const char* kProbe = "A 0:0(0) ack 1";

class TcpKeepaliveTest : public TcpLossTest {
 protected:
  static tcp::SocketOptions On() {
    tcp::SocketOptions options;
    options.keepalive = true;
    return options;
  }
  // 10 s idle, then three probes 2 s apart.
  static tcp::SocketOptions Fast() {
    tcp::SocketOptions options = On();
    options.keepalive_idle = seconds(10);
    options.keepalive_interval = seconds(2);
    options.keepalive_probes = 3;
    return options;
  }
  tcp::Connection* OpenWith(const tcp::SocketOptions& options) {
    tcp::Connection* c = Connect(SynOptions(1000, false), 65535, options);
    Mark();
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpKeepaliveTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), FamilyName);

// Covers: RFC 9293 MUST-25
TEST_P(TcpKeepaliveTest, OffByDefault) {
  Start();
  tcp::Connection* c = OpenWith({});
  net->Advance(hours(24));
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(c->state(), tcp::State::kEstablished);
  Reset(c);
}

// Covers: RFC 9293 MUST-24, RFC 9293 MUST-28, RFC 9293 SHLD-12
TEST_P(TcpKeepaliveTest, FirstProbeAfterTwoHours) {
  Start();
  tcp::Connection* c = OpenWith(On());
  AdvanceTo(7'199'999);
  EXPECT_THAT(TakeText(), IsEmpty());
  AdvanceTo(7'200'000);
  EXPECT_THAT(TakeText(), ElementsAre(kProbe));
  Reset(c);
}

// Nine probes 75 s apart, as Linux has it, then a reset.
// Covers: RFC 9293 MUST-29
TEST_P(TcpKeepaliveTest, ManyUnansweredProbesEndIt) {
  Start();
  OpenWith(On());
  AdvanceTo(7'200'000 + 9 * 75'000 - 1);
  EXPECT_EQ(observer_.gone, 0);
  EXPECT_THAT(TakeText(), ::testing::AllOf(::testing::SizeIs(9), ::testing::Each(kProbe)));
  AdvanceTo(7'200'000 + 9 * 75'000);
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ETIMEDOUT);
  EXPECT_THAT(TakeText(), ElementsAre("RA 1:1(0) ack 1"));
}

// Covers: RFC 9293 MUST-27, RFC 9293 MUST-29
TEST_P(TcpKeepaliveTest, IntervalsAreTheUsers) {
  Start();
  OpenWith(Fast());
  AdvanceTo(15'900);
  EXPECT_THAT(TakeTimes(), ElementsAre(10'000, 12'000, 14'000));
  EXPECT_EQ(observer_.gone, 0);
  AdvanceTo(16'000);
  EXPECT_EQ(observer_.gone, 1);
  Take();
}

TEST_P(TcpKeepaliveTest, AnAnswerStartsItAnew) {
  Start();
  tcp::Connection* c = OpenWith(Fast());
  AdvanceTo(12'500);
  EXPECT_THAT(TakeTimes(), ElementsAre(10'000, 12'000));
  Send({});
  EXPECT_THAT(TakeText(), IsEmpty());
  AdvanceTo(24'600);
  EXPECT_THAT(TakeTimes(), ElementsAre(22'500, 24'500));
  // For days, if need be.
  for (int i = 0; i < 1'000; ++i) {
    Send({});
    net->Advance(seconds(11));
    EXPECT_THAT(Take(), ::testing::SizeIs(1));
  }
  EXPECT_EQ(observer_.gone, 0);
  Reset(c);
}

// Covers: RFC 9293 MUST-26
TEST_P(TcpKeepaliveTest, TrafficInEitherDirectionIsLife) {
  Start();
  tcp::Connection* c = OpenWith(Fast());
  AdvanceTo(6'000);
  Send({.payload = Pattern(10)});
  ReadAll(*c);
  Take();
  AdvanceTo(12'000);
  EXPECT_THAT(TakeText(), IsEmpty());
  Write(*c, 10);
  Take();
  Send({.seq = 11, .ack = 11});
  AdvanceTo(21'900);
  EXPECT_THAT(TakeText(), IsEmpty());
  AdvanceTo(22'000);
  EXPECT_THAT(TakeText(), ElementsAre("A 10:10(0) ack 11"));
  Reset(c);
}

// With data in flight the retransmission timer finds out; and nothing wakes meanwhile but that.
// Covers: RFC 9293 MUST-26
TEST_P(TcpKeepaliveTest, NoProbesWhileDataIsInFlight) {
  Start();
  tcp::SocketOptions options = Fast();
  options.keepalive_idle = seconds(1);
  tcp::Connection* c = OpenWith(options);
  Write(*c, 10);
  int wakes = 0;
  while (net->now() - mark_ < seconds(60)) {
    net->Advance(*net->context().next_deadline() - net->now());
    if (++wakes > 1'000) break;
  }
  EXPECT_LT(wakes, 100);
  for (const SentSegment& s : Take()) EXPECT_EQ(s.length, 10u) << s.ToString();
  EXPECT_EQ(observer_.gone, 0);
  Reset(c);
}

TEST_P(TcpKeepaliveTest, SwitchedOnAndOffLater) {
  Start();
  tcp::Connection* c = OpenWith({});
  AdvanceTo(60'000);
  c->options() = Fast();
  c->OnOptionsChanged();
  AdvanceTo(71'000);
  EXPECT_EQ(TakeText(), std::vector<std::string>{kProbe});
  c->options().keepalive = false;
  c->OnOptionsChanged();
  AdvanceTo(600'000);
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(observer_.gone, 0);
  Reset(c);
}

// The machine slept for eight hours: one probe at once, and time for an answer.
// Covers: bug:B109
TEST_P(TcpKeepaliveTest, OneProbeAfterAJump) {
  Start();
  tcp::Connection* c = OpenWith(Fast());
  Jump(hours(8));
  EXPECT_THAT(TakeText(), ElementsAre(kProbe));
  net->Advance(seconds(1));
  EXPECT_THAT(TakeText(), IsEmpty());
  Send({});
  net->Advance(seconds(9));
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(observer_.gone, 0);
  Reset(c);
}

// Half closed counts too: in CLOSE-WAIT nothing else would find out that the peer is gone.
TEST_P(TcpKeepaliveTest, WorksInCloseWait) {
  Start();
  OpenWith(Fast());
  Send({.flags = "FA"});
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 2"));
  AdvanceTo(15'900);
  EXPECT_THAT(TakeTimes(), ElementsAre(10'000, 12'000, 14'000));
  AdvanceTo(16'000);
  EXPECT_EQ(observer_.err(), ETIMEDOUT);
  Take();
}

}  // namespace
}  // namespace tapwire::testutil
