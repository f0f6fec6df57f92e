// SPDX-License-Identifier: Apache-2.0
// Requirements that belong to no single mechanism: addresses, pushes, growth that was not earned,
// edges of windows and timestamps.
#include <cerrno>
#include <string>
#include <vector>

#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using tcp::ConnectionTestPeer;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpRequirementTest : public TcpLossTest {
 protected:
  static ByteVector Timestamps(uint32_t tsval, uint32_t tsecr) {
    ByteVector o{1, 1, 8, 10};
    for (const uint32_t v : {tsval, tsecr}) {
      for (int shift = 24; shift >= 0; shift -= 8) o.push_back(static_cast<uint8_t>(v >> shift));
    }
    return o;
  }
  static tcp::Config WithTimestamps() {
    tcp::Config config = Plain();
    config.timestamps = true;
    return config;
  }
  tcp::Connection* ConnectWithTimestamps(uint32_t tsval) {
    auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
    EXPECT_TRUE(opened.ok());
    net->Run();
    Take();
    ByteVector options = SynOptions();
    const ByteVector stamps = Timestamps(tsval, 0);
    options.insert(options.end(), stamps.begin(), stamps.end());
    Send({.flags = "SA", .seq = 0, .ack = 1, .options = options});
    Take();
    return *opened;
  }
  // The echoed timestamp of the one segment sent.
  uint32_t TakeEcho() {
    const auto sent = Take();
    EXPECT_EQ(sent.size(), 1u);
    if (sent.empty() || !sent[0].options.timestamps) return 0;
    return sent[0].options.timestamps->tsecr;
  }
  std::vector<IpAddress> TakeSources() {
    std::vector<IpAddress> all;
    for (const ByteVector& frame : TakeFrames()) {
      const FrameView view = Dissect(frame);
      if (view.protocol == 6) all.push_back(view.source);
    }
    return all;
  }
  // An address in a network of its own, and a neighbour there.
  static IpPrefix OtherAddress() {
    if (v4()) return {Ipv4Address(10, 9, 0, 1), 24};
    return {Ipv6Address::FromGroups({0xfd00, 9, 0, 0, 0, 0, 0, 1}), 64};
  }
  static IpAddress OtherPeer() {
    if (v4()) return Ipv4Address(10, 9, 0, 5);
    return Ipv6Address::FromGroups({0xfd00, 9, 0, 0, 0, 0, 0, 5});
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpRequirementTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), FamilyName);

// ---- Addresses ----

// Covers: RFC 9293 MUST-44
TEST_P(TcpRequirementTest, RouteChoosesTheSource) {
  Start();
  ASSERT_TRUE(interface->AddAddress(OtherAddress()).ok());
  ASSERT_TRUE(interface->neighbors(family()).AddPermanent(OtherPeer(), kPeerMac).ok());
  net->Advance(seconds(20));
  TakeFrames();
  const IpAddress any = IpAddress::Unspecified(family());
  for (const auto& [to, from] :
       {std::pair(peer(), host()), std::pair(OtherPeer(), OtherAddress().address)}) {
    auto c = tcp().Connect({any, 0, 0}, {to, kPeerPort, 0}, {}, &observer_);
    ASSERT_TRUE(c.ok());
    EXPECT_EQ((*c)->flow().local, from);
    net->Run();
    EXPECT_THAT(TakeSources(), ElementsAre(from));
    (*c)->Abort();
    net->Run();
    TakeFrames();
  }
}

// Covers: RFC 9293 MUST-45
TEST_P(TcpRequirementTest, SourceStaysWhenAddressesChange) {
  Start();
  tcp::Connection* c = Open(true);
  // Nearer to the peer than the one in use.
  const IpPrefix nearer =
      v4() ? IpPrefix{Ipv4Address(192, 0, 2, 7), 24}
           : IpPrefix{Ipv6Address::FromGroups({0x2001, 0xdb8, 0, 0, 0, 0, 0, 3}), 126};
  ASSERT_TRUE(interface->AddAddress(nearer).ok());
  net->Advance(seconds(20));
  TakeFrames();
  Write(*c, 1000);
  EXPECT_THAT(TakeSources(), ElementsAre(host()));
  Send({.ack = 1001});
  // Without its address the connection does not go on under another one: it ends.
  ASSERT_TRUE(interface->RemoveAddress(host()).ok());
  Write(*c, 1000);
  net->Advance(std::chrono::hours(1));
  EXPECT_THAT(TakeSources(), Each(host()));
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_FALSE(observer_.status.ok());
}

// ---- Pushes ----

// Covers: RFC 9293 MUST-60, RFC 9293 SHLD-27
TEST_P(TcpRequirementTest, SmallWritesLeaveTogetherWithOnePush) {
  Start();
  tcp::Connection* c = Open(true);
  Write(*c, 10);
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:11(10) ack 1"));
  Write(*c, 10);
  Write(*c, 10);
  Write(*c, 10);
  EXPECT_THAT(TakeText(), IsEmpty());  // Nagle
  Send({.ack = 11});
  EXPECT_THAT(TakeText(), ElementsAre("PA 11:41(30) ack 1"));
  Send({.ack = 41});
  // Several writes of one batch too; nobody asked for a push, and yet all leaves at once.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(c->SendCopy(Pattern(500)), 500u);
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("A 41:1041(1000) ack 1", "A 1041:2041(1000) ack 1",
                                      "PA 2041:2541(500) ack 1"));
  Reset(c);
}

// ---- Congestion window ----

// Covers: rfc:CC-11, bug:B37
TEST_P(TcpRequirementTest, UnusedWindowDoesNotGrow) {
  for (const char* algorithm : {"reno", "cubic"}) {
    SCOPED_TRACE(algorithm);
    tcp::Config config = Plain();
    config.congestion_control = algorithm;
    Start(config);
    tcp::Connection* c = Open(true);
    const uint32_t before = ConnectionTestPeer::Cwnd(*c);
    for (uint32_t n = 1; n <= 200; ++n) {
      WriteSegments(*c, 1);
      net->Advance(milliseconds(20));
      Send({.ack = After(n)});
    }
    EXPECT_EQ(ConnectionTestPeer::Cwnd(*c), before);
    Reset(c);
  }
}

// Covers: RFC 9293 MAY-18
TEST_P(TcpRequirementTest, CubicIsTheDefault) {
  Start(tcp::Config::Linux());
  tcp::Connection* c = Open(true);
  EXPECT_EQ(c->Info().congestion_control, "cubic");
  Write(*c, 40'000);  // so that cwnd is what limits
  Send({.ack = After(10)});
  Take();
  const uint32_t cwnd = ConnectionTestPeer::Cwnd(*c);
  EXPECT_EQ(cwnd, 20'000u);
  for (uint32_t last : {12u, 13u, 14u, 15u}) SendSack(After(10), {{12, last}});
  EXPECT_EQ(c->Info().snd_ssthresh_bytes, cwnd * 7 / 10);  // RFC 9438 §4.6
  Take();
  Reset(c);
}

// ---- Windows ----

// Covers: rfc:WS-2
TEST_P(TcpRequirementTest, RoundingMovesNoEdgeToTheLeft) {
  tcp::Config config = Plain();
  config.window_scale = 7;
  Start(config);
  tcp::SocketOptions options;
  options.receive_buffer = 60'001;  // no multiple of 128
  tcp::Connection* c = Connect(SynOptions(1000, true, 0), 65535, options);
  uint32_t seq = 1, edge = 1 + 60'001;
  size_t unread = 0;
  for (uint32_t i = 0; i < 3000; ++i) {
    const uint32_t length = 1 + i * 37 % 400;
    if (seq + length <= edge) {
      Send({.seq = seq, .payload = ByteVector(length)});
      seq += length;
      unread += length;
    } else {
      net->Advance(milliseconds(100));
    }
    for (const SentSegment& s : Take()) {
      const uint32_t now = s.ack + (uint32_t{s.window} << 7);
      EXPECT_GE(now, edge) << "round " << i;
      edge = std::max(edge, now);
      EXPECT_LE(edge - s.ack, 60'001u + 127) << "no more than the buffer, rounded";
    }
    if (i % 7 == 6) unread -= ReadAll(*c).size();
  }
  EXPECT_EQ(Dropped(DropReason::kTcpReceiveBufferFull), 0u) << "what was promised is taken";
  EXPECT_EQ(c->readable_bytes(), unread);
  Reset(c);
}

// Covers: bug:B25
TEST_P(TcpRequirementTest, PeerThatThrewDataAwayAndClosedItsWindow) {
  Start();
  tcp::Connection* c = Open(false, 5000);
  WriteSegments(*c, 5);
  Send({.ack = After(2), .window = 0});  // it had promised room for all five
  EXPECT_THAT(TakeText(), IsEmpty());
  // Copies of what lay inside the old edge go on, as probes (RFC 9293 SHLD-17), and are answered.
  for (int i = 0; i < 30; ++i) {
    net->Advance(minutes(2));
    const auto sent = TakeText();
    ASSERT_FALSE(sent.empty()) << i;
    EXPECT_THAT(sent, Each(Seg(3)));
    Send({.ack = After(2), .window = 0});
    ASSERT_EQ(observer_.gone, 0);
  }
  // It can never announce its window by itself; the answer to a copy does.
  net->Advance(minutes(2));
  Take();
  Send({.ack = After(3), .window = 5000});
  auto sent = TakeText();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0], Seg(4));
  Send({.ack = After(4), .window = 5000});
  for (std::string& text : TakeText()) sent.push_back(std::move(text));
  EXPECT_EQ(sent.back(), PshSeg(5));
  Reset(c);
}

// ---- Timestamps ----

// Covers: rfc:TS-2
TEST_P(TcpRequirementTest, EchoIsOfTheSegmentThatWasAskedFor) {
  Start(WithTimestamps());
  tcp::Connection* c = ConnectWithTimestamps(1000);
  Send({.payload = Pattern(100), .options = Timestamps(1010, 0)});
  EXPECT_EQ(TakeEcho(), 1010u);
  // Ahead of a hole: not echoed before the hole is filled (RFC 7323 §4.3 (2)).
  Send({.seq = 201, .payload = Pattern(100), .options = Timestamps(1020, 0)});
  EXPECT_EQ(TakeEcho(), 1010u);
  Send({.seq = 301, .payload = Pattern(100), .options = Timestamps(1030, 0)});
  EXPECT_EQ(TakeEcho(), 1010u);
  Send({.seq = 101, .payload = Pattern(100), .options = Timestamps(1025, 0)});
  EXPECT_EQ(TakeEcho(), 1025u);
  // An acknowledgment that was overtaken does not turn it back.
  Send({.seq = 401, .options = Timestamps(1024, 0)});
  Take();
  Send({.seq = 401, .payload = Pattern(100), .options = Timestamps(1031, 0)});
  EXPECT_EQ(TakeEcho(), 1031u);
  Reset(c);
}

// ---- The first data of a server ----

class Greeter final : public tcp::ListenerObserver {
 public:
  void OnAcceptable() override {
    connection = listener->Accept();
    ASSERT_NE(connection, nullptr);
    EXPECT_EQ(connection->SendCopy(Pattern(5)), 5u);
  }
  void OnListenerGone() override {}
  tcp::Listener* listener = nullptr;
  tcp::Connection* connection = nullptr;
};

// Covers: bug:B06
TEST_P(TcpRequirementTest, DataWrittenAsTheHandshakeEndsLeavesOnceBehindTheSyn) {
  Start();
  Greeter greeter;
  greeter.listener = Listen();
  greeter.listener->set_observer(&greeter);
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1"));
  Send({});
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:6(5) ack 1"));
  Send({.ack = 6});
  net->Advance(seconds(10));
  EXPECT_THAT(TakeText(), IsEmpty());
  ASSERT_NE(greeter.connection, nullptr);
  Reset(greeter.connection);
  tcp().CloseListener(*greeter.listener);
}

// ---- Samples of the round trip ----

// RFC 7323 appendix G: a sample that is one of n in a round trip counts for 1/n. Ten segments
// acknowledged by twos are five samples, expected to be 5, 4, 3, 2 and 1 by what is in flight then.
TEST_P(TcpRequirementTest, ManySamplesOfOneRoundTripCountForLess) {
  Start();
  auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(opened.ok());
  tcp::Connection* c = *opened;
  net->Advance(milliseconds(100));
  Take();
  Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions(1000)});
  EXPECT_EQ(c->Info().rttvar_us, 50'000u);  // half of the first sample
  WriteSegments(*c, 10);
  net->Advance(milliseconds(100));
  for (uint32_t n = 2; n <= 10; n += 2) Send({.ack = After(n)});
  Take();
  double expected = 50'000;
  for (const int samples : {5, 4, 3, 2, 1}) expected *= 1 - 0.25 / samples;
  EXPECT_NEAR(c->Info().rttvar_us, expected, 50);  // 26.8 ms; at full weight it were 11.9 ms
  EXPECT_EQ(c->Info().rtt_us, 100'000u);
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
