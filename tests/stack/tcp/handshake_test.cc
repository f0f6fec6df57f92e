// SPDX-License-Identifier: Apache-2.0
// Opening: active, passive, simultaneous; what is offered and what is taken; refusals.
#include <cerrno>

#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpHandshakeTest : public TcpHostTest {};
INSTANTIATE_TEST_SUITE_P(Families, TcpHandshakeTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), FamilyName);

TEST_P(TcpHandshakeTest, ActiveOpenOffersTheOptionsOfLinux) {
  tcp::Config config;  // the profile's defaults
  config.receive_buffer_max = 15u << 20;
  Start(config);
  auto c = tcp().Connect({host(), 0, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(c.ok());
  net->Run();
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].flags, "S");
  // Covers: RFC 9293 MUST-14, RFC 9293 MUST-67
  EXPECT_EQ(sent[0].options.mss, v4() ? 1460 : 1440);
  EXPECT_TRUE(sent[0].options.sack_permitted);
  EXPECT_EQ(sent[0].options.window_scale, 8);
  ASSERT_TRUE(sent[0].options.timestamps);
  EXPECT_EQ(sent[0].options.timestamps->tsecr, 0u);
  // Covers: bug:B19
  EXPECT_EQ(sent[0].window, 65535);
  Reset(*c);
}

TEST_P(TcpHandshakeTest, ActiveOpenIsEstablishedByTheSynAck) {
  Start();
  tcp::Connection* c = Connect();
  EXPECT_EQ(observer_.connected, 1);
  Reset(c);
}

TEST_P(TcpHandshakeTest, PassiveOpenWaitsToBeAccepted) {
  Start();
  tcp::Listener* l = Listen();
  tcp::Connection* c = Accept(*l);
  EXPECT_EQ(c->state(), tcp::State::kEstablished);
  EXPECT_EQ(c->flow().remote, peer());
  Reset(c);
  tcp().CloseListener(*l);
}

// Covers: bug:B02
TEST_P(TcpHandshakeTest, ResetRefusesAtOnce) {
  Start();
  auto c = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(c.ok());
  net->Run();
  Take();
  Send({.flags = "RA", .seq = 0, .ack = 1});
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ECONNREFUSED);
  net->Advance(std::chrono::minutes(5));
  EXPECT_THAT(TakeText(), IsEmpty());
}

// Covers: RFC 9293 MUST-10, RFC 9293 MUST-11
TEST_P(TcpHandshakeTest, SimultaneousOpen) {
  Start();
  auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(opened.ok());
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("S 0:0(0)"));
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1"));
  EXPECT_EQ((*opened)->state(), tcp::State::kSynReceived);
  Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions()});
  EXPECT_EQ((*opened)->state(), tcp::State::kEstablished);
  EXPECT_EQ(observer_.connected, 1);
  Reset(*opened);
}

// RFC 9293 §3.10.4: a close in SYN-RECEIVED is done once the handshake is.
TEST_P(TcpHandshakeTest, CloseDuringASimultaneousOpen) {
  Start();
  auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(opened.ok());
  net->Run();
  Take();
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  Take();
  (*opened)->ShutdownWrite();
  net->Run();
  Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions()});
  EXPECT_THAT(TakeText(), ElementsAre("FA 1:1(0) ack 1"));
  EXPECT_EQ((*opened)->state(), tcp::State::kFinWait1);
  Send({.ack = 2});
  EXPECT_EQ((*opened)->state(), tcp::State::kFinWait2);
  Send({.flags = "FA", .ack = 2});
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(tcp().connection_count(), 0u);
  net->Advance(std::chrono::seconds(61));
  Take();
}

// Covers: RFC 9293 MUST-11
TEST_P(TcpHandshakeTest, ResetOfASimultaneousOpenRefuses) {
  Start();
  auto opened = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(opened.ok());
  net->Run();
  Take();
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  Take();
  Send({.flags = "R", .seq = 1});
  EXPECT_EQ(observer_.err(), ECONNREFUSED);
}

// Covers: RFC 9293 MUST-11
TEST_P(TcpHandshakeTest, ResetOfAPassiveOpenFreesItsPlaceSilently) {
  Start();
  tcp::Listener* l = Listen();
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  Take();
  EXPECT_EQ(l->half_open(), 1u);
  Send({.flags = "R", .seq = 1});
  EXPECT_EQ(l->half_open(), 0u);
  EXPECT_EQ(l->Accept(), nullptr);
  EXPECT_THAT(TakeText(), IsEmpty());
  tcp().CloseListener(*l);
}

// Covers: bug:B09
TEST_P(TcpHandshakeTest, LostSynIsSentAgainWithDoubledIntervals) {
  Start();
  auto c = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(c.ok());
  net->Run();
  Take();
  for (int seconds : {1, 2, 4, 8}) {
    net->Advance(std::chrono::seconds(seconds) - std::chrono::milliseconds(1));
    EXPECT_THAT(TakeText(), IsEmpty()) << seconds;
    net->Advance(std::chrono::milliseconds(1));
    EXPECT_THAT(TakeText(), ElementsAre("S 0:0(0)")) << seconds;
  }
  Reset(*c);
}

// Covers: RFC 9293 MUST-22, RFC 9293 MUST-23
TEST_P(TcpHandshakeTest, UnansweredConnectTimesOutAfterThreeMinutes) {
  Start();
  ASSERT_TRUE(tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_).ok());
  net->Run();
  net->Advance(std::chrono::seconds(180));
  EXPECT_EQ(observer_.gone, 0);
  net->Advance(std::chrono::seconds(180));
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ETIMEDOUT);
  Take();
}

// Covers: bug:B07
TEST_P(TcpHandshakeTest, HalfOpenConnectionsAreGivenUp) {
  Start();
  tcp::Listener* l = Listen();
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  net->Advance(std::chrono::minutes(3));
  EXPECT_EQ(l->half_open(), 0u);
  const auto sent = TakeText();
  EXPECT_EQ(sent.size(), 6u);  // the first and five more
  Send({.flags = "S", .seq = 0, .options = SynOptions()});
  EXPECT_THAT(TakeText(), ElementsAre("SA 0:0(0) ack 1"));
  tcp().CloseListener(*l);
  net->Run();
  Take();
}

// Covers: bug:B01, RFC 9293 MUST-3
TEST_P(TcpHandshakeTest, ClosedPortIsAnsweredByAReset) {
  Start();
  host_isn_ = 0;
  Send({.flags = "S", .seq = 0});
  EXPECT_THAT(TakeText(), ElementsAre("RA 0:0(0) ack 1"));
  Send({.flags = "A", .seq = 5, .ack = 77});
  EXPECT_THAT(TakeText(), ElementsAre("R 77:77(0)"));
  Send({.flags = "PA", .seq = 5, .ack = 99, .payload = Pattern(10)});
  EXPECT_THAT(TakeText(), ElementsAre("R 99:99(0)"));
  Send({.flags = "F", .seq = 5});
  EXPECT_THAT(TakeText(), ElementsAre("RA 0:0(0) ack 6"));
  Send({.flags = "R", .seq = 5});
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(Dropped(DropReason::kTcpNoPort), 5u);
  Send({.flags = "S", .seq = 0, .bad_checksum = true});
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(Dropped(DropReason::kTcpBadChecksum), 1u);
}

// Covers: bug:B03, bug:B04
TEST_P(TcpHandshakeTest, ListenerAnswersOnlySyns) {
  Start();
  tcp::Listener* l = Listen();
  host_isn_ = 0;
  Send({.flags = "R", .seq = 0});
  Send({.flags = "RA", .seq = 0, .ack = 5});
  EXPECT_THAT(TakeText(), IsEmpty());
  Send({.flags = "A", .seq = 0, .ack = 1234});
  EXPECT_THAT(TakeText(), ElementsAre("R 1234:1234(0)"));
  Send({.flags = "SF", .seq = 0});
  Send({.flags = "F", .seq = 0});
  EXPECT_THAT(TakeText(), IsEmpty());
  EXPECT_EQ(Dropped(DropReason::kTcpBadFlags), 2u);
  EXPECT_EQ(l->half_open(), 0u);
  tcp().CloseListener(*l);
}

TEST_P(TcpHandshakeTest, SynAckForSomethingElseIsReset) {
  Start();
  auto c = tcp().Connect({host(), kHostPort, 0}, {peer(), kPeerPort, 0}, {}, &observer_);
  ASSERT_TRUE(c.ok());
  net->Run();
  Take();
  Send({.flags = "SA", .seq = 0, .ack = 2});
  EXPECT_THAT(TakeText(), ElementsAre("R 2:2(0)"));
  Send({.flags = "SA", .seq = 0, .ack = 0});
  EXPECT_THAT(TakeText(), ElementsAre("R 0:0(0)"));
  Send({.flags = "R", .seq = 0});  // without a good acknowledgment
  EXPECT_EQ((*c)->state(), tcp::State::kSynSent);
  Send({.flags = "SA", .seq = 0, .ack = 1});
  EXPECT_EQ((*c)->state(), tcp::State::kEstablished);
  Take();
  Reset(*c);
}

// Covers: RFC 9293 MUST-46
TEST_P(TcpHandshakeTest, NotEveryAddressCanBeConnectedTo) {
  Start();
  const IpAddress group =
      v4() ? IpAddress(Ipv4Address(224, 0, 0, 1)) : IpAddress(Ipv6Address::AllNodes());
  EXPECT_FALSE(tcp().Connect({host(), 0, 0}, {group, 80, 0}, {}, &observer_).ok());
  EXPECT_FALSE(
      tcp()
          .Connect({host(), 0, 0}, {IpAddress::Unspecified(family()), 80, 0}, {}, &observer_)
          .ok());
  EXPECT_FALSE(tcp().Connect({host(), 0, 0}, {peer(), 0, 0}, {}, &observer_).ok());
  if (v4()) {
    EXPECT_FALSE(
        tcp()
            .Connect({host(), 0, 0}, {Ipv4Address(255, 255, 255, 255), 80, 0}, {}, &observer_)
            .ok());
    EXPECT_FALSE(
        tcp().Connect({host(), 0, 0}, {Ipv4Address(192, 0, 255, 255), 80, 0}, {}, &observer_).ok());
  }
  net->Run();
  EXPECT_THAT(TakeText(), IsEmpty());
}

}  // namespace
}  // namespace tapwire::testutil
