// SPDX-License-Identifier: Apache-2.0
// SYN cookies: the function by itself, and a listener under a flood of SYNs.
#include "stack/tcp/syn_cookie.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "netdev/base/seeded_random.h"
#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class SynCookieTest : public ::testing::Test {
 protected:
  static Segment Syn() {
    Segment syn;
    syn.flow = {Ipv4Address(192, 0, 2, 1), Ipv4Address(192, 0, 2, 9), 80, 40000};
    syn.seq = Seq(0xffffffff);
    return syn;
  }
  // The acknowledgment of a SYN-ACK with that number.
  static Segment AckOf(const Segment& syn, Seq cookie) {
    Segment ack;
    ack.flow = syn.flow;
    ack.seq = syn.seq + 1;
    ack.ack = cookie + 1;
    return ack;
  }
  SeededRandom random_{3};
  SynCookies cookies_{random_};
  Time start_ = Time() + minutes(1000);
};

TEST_F(SynCookieTest, MssIsKeptRoundedDown) {
  const std::pair<uint16_t, uint16_t> cases[] = {
      {0, 88},      {87, 88},     {88, 88},     {535, 88},     {536, 536},
      {1219, 536},  {1220, 1220}, {1439, 1220}, {1440, 1440},  {1459, 1440},
      {1460, 1460}, {8939, 1460}, {8940, 8940}, {65535, 8940},
  };
  for (const auto& [said, kept] : cases) {
    const Seq cookie = cookies_.Make(Syn(), said, start_);
    EXPECT_EQ(cookies_.Check(AckOf(Syn(), cookie), start_), kept) << said;
  }
}

TEST_F(SynCookieTest, LastsForOneOrTwoMinutes) {
  for (const Duration into : {milliseconds(0), milliseconds(59'999)}) {
    const Time made = start_ + into;
    const Segment ack = AckOf(Syn(), cookies_.Make(Syn(), 1460, made));
    EXPECT_TRUE(cookies_.Check(ack, made));
    EXPECT_TRUE(cookies_.Check(ack, start_ + milliseconds(119'999)));
    EXPECT_FALSE(cookies_.Check(ack, start_ + minutes(2)));
    EXPECT_FALSE(cookies_.Check(ack, start_ + minutes(256))) << "the minute has only eight bits";
    EXPECT_FALSE(cookies_.Check(ack, start_ - minutes(1)));
  }
}

TEST_F(SynCookieTest, HoldsForOneFlowAndItsNumbersOnly) {
  const Seq cookie = cookies_.Make(Syn(), 1460, start_);
  const auto good = [&] { return AckOf(Syn(), cookie); };
  ASSERT_TRUE(cookies_.Check(good(), start_));
  Segment port = good();
  port.flow.remote_port ^= 1;
  EXPECT_FALSE(cookies_.Check(port, start_));
  Segment address = good();
  address.flow.remote = Ipv4Address(192, 0, 2, 10);
  EXPECT_FALSE(cookies_.Check(address, start_));
  for (const uint32_t off : {64u, 1u << 23, 1u << 30, 0u - 64}) {
    Segment ack = good();
    ack.ack += off;
    EXPECT_FALSE(cookies_.Check(ack, start_)) << off;
    Segment seq = good();
    seq.seq += off;
    EXPECT_FALSE(cookies_.Check(seq, start_)) << off;
  }
  SynCookies other(random_);
  EXPECT_FALSE(other.Check(good(), start_));
}

// 12 of 2^32 numbers are good: a hundred thousand guesses hit with a probability of 0.0003.
TEST_F(SynCookieTest, GuessesFail) {
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_FALSE(cookies_.Check(AckOf(Syn(), Seq(random_.Next32())), start_));
  }
}

TEST_F(SynCookieTest, NumbersOfDifferentFlowsLookUnrelated) {
  std::set<uint32_t> top;
  Segment syn = Syn();
  for (uint16_t port = 1; port <= 1000; ++port) {
    syn.flow.remote_port = port;
    top.insert(cookies_.Make(syn, 1460, start_).value() >> 22);
  }
  EXPECT_GT(top.size(), 600u);  // 638 of 1,024 expected
}

TEST_F(SynCookieTest, OptionsComeBackInTheTimestamp) {
  for (const bool sack : {false, true}) {
    for (int scale = -1; scale <= 15; ++scale) {
      wire::TcpOptions syn;
      syn.sack_permitted = sack;
      if (scale >= 0) syn.window_scale = static_cast<uint8_t>(scale);
      for (const uint32_t now : {0u, 1u, 63u, 64u, 1000u, 0xffffffffu}) {
        const uint32_t marked = SynCookies::MarkedTimestamp(now, SynCookies::Mark(syn));
        EXPECT_LT(now - marked, 64u) << "never ahead of the clock";
        wire::TcpOptions ack;
        ack.timestamps = {77, marked};
        const wire::TcpOptions got = SynCookies::OptionsFrom(ack, 1440);
        EXPECT_EQ(got.mss, 1440);
        EXPECT_EQ(got.sack_permitted, sack);
        EXPECT_EQ(got.window_scale.has_value(), scale >= 0);
        EXPECT_EQ(got.window_scale.value_or(255), scale < 0 ? 255 : std::min(scale, 14));
        EXPECT_EQ(got.timestamps->tsval, 77u);
      }
    }
  }
  const wire::TcpOptions without = SynCookies::OptionsFrom({}, 1440);
  EXPECT_FALSE(without.sack_permitted);
  EXPECT_FALSE(without.window_scale);
  EXPECT_FALSE(without.timestamps);
}

}  // namespace
}  // namespace tapwire::tcp

namespace tapwire::testutil {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpSynFloodTest : public TcpHostTest {
 protected:
  static constexpr size_t kHalfOpen = 8;

  static tcp::Config Small(tcp::SynCookieMode mode = tcp::SynCookieMode::kOnOverflow) {
    tcp::Config config = Plain();
    config.timestamps = true;
    config.max_half_open = kHalfOpen;
    config.syn_cookies = mode;
    return config;
  }
  // SYNs from `count` ports that will never be heard of again.
  void Flood(uint16_t count) {
    for (uint16_t port = 1; port <= count; ++port) {
      net->Inject(Build({.flags = "S", .seq = 0, .options = SynOptions()}, port));
    }
  }
  static ByteVector Timestamps(uint32_t value, uint32_t echo) {
    ByteVector o{1, 1, 8, 10};
    for (const uint32_t v : {value, echo}) {
      for (int shift = 24; shift >= 0; shift -= 8) o.push_back(static_cast<uint8_t>(v >> shift));
    }
    return o;
  }
  static ByteVector AllOptions(uint16_t mss, uint8_t scale) {
    ByteVector o = SynOptions(mss, true, scale);
    const ByteVector stamps = Timestamps(1000, 0);
    o.insert(o.end(), stamps.begin(), stamps.end());
    return o;
  }
  const TcpExtCounters& mib() { return stack->mib().tcp_ext; }
  void End(tcp::Listener& l) {
    tcp().CloseListener(l);
    net->Run();
    Take();
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpSynFloodTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

TEST_P(TcpSynFloodTest, FloodKeepsNothingAndAClientWithTimestampsGetsAllItsOptions) {
  Start(Small());
  tcp::Listener* l = Listen();
  Flood(200);
  EXPECT_EQ(Take().size(), 200u) << "each SYN gets a SYN-ACK";
  EXPECT_EQ(l->half_open(), kHalfOpen);
  EXPECT_EQ(tcp().connection_count(), kHalfOpen);
  EXPECT_EQ(mib().syn_cookies_sent.value(), 200 - kHalfOpen);
  EXPECT_EQ(net->context().pool().stats().packets_in_use, 0u);

  Send({.flags = "S", .seq = 0, .options = AllOptions(1460, 5)});
  const auto answer = Take();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].ToString(), "SA 0:0(0) ack 1");
  EXPECT_EQ(answer[0].options.mss, v4() ? 1460 : 1440);
  EXPECT_TRUE(answer[0].options.sack_permitted);
  EXPECT_TRUE(answer[0].options.window_scale);
  ASSERT_TRUE(answer[0].options.timestamps);
  EXPECT_EQ(tcp().connection_count(), kHalfOpen) << "nothing was kept";

  net->Advance(seconds(1));
  const uint32_t echo = answer[0].options.timestamps->tsval;
  Send({.flags = "PA", .window = 1000, .payload = Pattern(10), .options = Timestamps(1001, echo)});
  tcp::Connection* c = l->Accept();
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(ReadAll(*c), Pattern(10));
  const tcp::TcpInfo info = c->Info();
  EXPECT_EQ(info.state, tcp::State::kEstablished);
  EXPECT_TRUE(info.sack && info.timestamps && info.window_scaling);
  EXPECT_EQ(info.snd_wscale, 5);
  EXPECT_EQ(info.rcv_wscale, *answer[0].options.window_scale);
  EXPECT_EQ(info.snd_wnd, 1000u << 5);
  EXPECT_EQ(info.rtt_us, 0u) << "when the SYN-ACK left is not known";
  EXPECT_EQ(mib().syn_cookies_received.value(), 1u);
  Take();
  // Timestamps go on from the one of the SYN-ACK.
  Write(*c, 5);
  const auto data = Take();
  ASSERT_EQ(data.size(), 1u);
  ASSERT_TRUE(data[0].options.timestamps);
  EXPECT_LE(data[0].options.timestamps->tsval - echo, 1000u + 64);
  EXPECT_GE(data[0].options.timestamps->tsval - echo, 1000u);
  Reset(c);
  End(*l);
}

TEST_P(TcpSynFloodTest, WithoutTimestampsOnlyTheMssComesBack) {
  Start(Small());
  tcp::Listener* l = Listen();
  Flood(20);
  Take();
  Send({.flags = "S", .seq = 0, .options = SynOptions(1000, true, 7)});
  const auto answer = Take();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_FALSE(answer[0].options.sack_permitted);
  EXPECT_FALSE(answer[0].options.window_scale);
  EXPECT_FALSE(answer[0].options.timestamps);
  Send({.window = 500});
  tcp::Connection* c = l->Accept();
  ASSERT_NE(c, nullptr);
  const tcp::TcpInfo info = c->Info();
  EXPECT_EQ(info.snd_mss, 536u);  // rounded down from 1,000
  EXPECT_FALSE(info.sack || info.timestamps || info.window_scaling);
  EXPECT_EQ(info.snd_wnd, 500u);
  // The connection works in both directions, and ends.
  Write(*c, 100);
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:101(100) ack 1"));
  Send({.flags = "FA", .ack = 101});
  EXPECT_THAT(TakeText(), ElementsAre("A 101:101(0) ack 2"));
  Reset(c);
  End(*l);
}

TEST_P(TcpSynFloodTest, WrongAndOldCookiesAreReset) {
  Start(Small());
  tcp::Listener* l = Listen();
  // Before any cookie was sent none can be good, and the hash need not be computed.
  Send({.seq = 1, .ack = 77});
  EXPECT_THAT(TakeText(), ElementsAre("R 77:77(0)"));
  EXPECT_EQ(mib().syn_cookies_failed.value(), 0u);
  Flood(20);
  Take();
  Send({.flags = "S", .seq = 0});
  ASSERT_EQ(Take().size(), 1u);
  Send({.seq = 1, .ack = 100});
  EXPECT_THAT(TakeText(), ElementsAre("R 100:100(0)"));
  Send({.seq = 200, .ack = 1});
  EXPECT_THAT(TakeText(), ElementsAre("R 1:1(0)"));
  EXPECT_EQ(mib().syn_cookies_failed.value(), 2u);
  const uint32_t isn = host_isn_;
  net->Advance(minutes(3));
  Take();
  Flood(20);  // so that cookies are still looked at
  TakeFrames();
  host_isn_ = isn;
  Send({.seq = 1, .ack = 1});
  EXPECT_THAT(TakeText(), ElementsAre("R 1:1(0)"));
  EXPECT_EQ(l->Accept(), nullptr);
  EXPECT_EQ(mib().syn_cookies_received.value(), 0u);
  End(*l);
}

TEST_P(TcpSynFloodTest, FullAcceptQueueIsNotPassedByCookies) {
  Start(Small(tcp::SynCookieMode::kAlways));
  tcp::Listener* l = Listen(0);
  Send({.flags = "S", .seq = 0});
  Take();
  const uint32_t first_isn = host_isn_;
  net->Inject(Build({.flags = "S", .seq = 0}, 5));
  Take();
  const uint32_t second_isn = host_isn_;
  net->Inject(Build({.seq = 1, .ack = 1}, 5));
  EXPECT_EQ(l->waiting(), 1u);
  host_isn_ = first_isn;
  Send({.seq = 1, .ack = 1});
  EXPECT_EQ(l->waiting(), 1u);
  EXPECT_EQ(Dropped(DropReason::kTcpAcceptQueueFull), 1u);
  EXPECT_THAT(TakeText(), IsEmpty()) << "the peer may send again";
  host_isn_ = second_isn;
  tcp::Connection* c = l->Accept();
  ASSERT_NE(c, nullptr);
  Reset(c);
  host_isn_ = first_isn;
  Send({.seq = 1, .ack = 1, .payload = Pattern(3)});
  c = l->Accept();
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(ReadAll(*c), Pattern(3));
  Reset(c);
  End(*l);
}

TEST_P(TcpSynFloodTest, WithoutCookiesAClientGetsInOnceTheFloodHasAged) {
  Start(Small(tcp::SynCookieMode::kNever));
  tcp::Listener* l = Listen();
  Flood(50);
  EXPECT_EQ(Take().size(), kHalfOpen);
  EXPECT_EQ(Dropped(DropReason::kTcpListenQueueFull), 50 - kHalfOpen);
  EXPECT_EQ(mib().listen_drops.value(), 50 - kHalfOpen);
  Send({.flags = "S", .seq = 0});
  EXPECT_THAT(TakeText(), IsEmpty());
  net->Advance(seconds(64));  // 1 + 2 + 4 + 8 + 16 + 32
  Take();
  EXPECT_EQ(l->half_open(), 0u);
  tcp::Connection* c = Accept(*l);
  Reset(c);
  End(*l);
}

// Nothing grows with their number.
TEST_P(TcpSynFloodTest, LongFloodNeedsNoMemory) {
  Start(Small(tcp::SynCookieMode::kAlways));
  tcp::Listener* l = Listen();
  const ByteVector syn = Build({.flags = "S", .seq = 0, .options = SynOptions()});
  const size_t timers = net->context().timers().armed_count();
  for (int i = 0; i < 20'000; ++i) {
    net->Inject(syn);
    if (i % 1000 == 0) device().TakeSent();
  }
  device().TakeSent();
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_EQ(l->half_open(), 0u);
  EXPECT_EQ(net->context().pool().stats().packets_in_use, 0u);
  EXPECT_EQ(net->context().timers().armed_count(), timers);
  End(*l);
}

}  // namespace
}  // namespace tapwire::testutil
