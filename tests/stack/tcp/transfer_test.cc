// SPDX-License-Identifier: Apache-2.0
// Data both ways on an established connection, acknowledgments, closing.
#include <cerrno>

#include "tests/stack/tcp/tcp_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpTransferTest : public TcpHostTest {};
INSTANTIATE_TEST_SUITE_P(Families, TcpTransferTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// Covers: RFC 9293 MUST-61, RFC 9293 SHLD-28
TEST_P(TcpTransferTest, DataIsSentInSegmentsOfThePeersSize) {
  Start();
  tcp::Connection* c = Connect(SynOptions(1000));
  EXPECT_EQ(Write(*c, 2500), 2500u);
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].ToString(), "A 1:1001(1000) ack 1");
  EXPECT_EQ(sent[1].ToString(), "A 1001:2001(1000) ack 1");
  // Nagle holds the last one back until the others are acknowledged … unless it empties the queue
  // with them: then the whole went at once.
  EXPECT_EQ(sent[2].ToString(), "PA 2001:2501(500) ack 1");
  Reset(c);
}

// The same segments on the wire, cut by the transmit path or not built larger at all.
TEST_P(TcpTransferTest, SuperPacketsAreBuiltAsConfigured) {
  for (const tcp::GsoMode mode : {tcp::GsoMode::kAlways, tcp::GsoMode::kDevice}) {
    tcp::Config config = Plain();
    config.gso = mode;
    Start(config);
    tcp::Connection* c = Connect(SynOptions(1000));
    Write(*c, 5000);
    EXPECT_THAT(TakeText(), ElementsAre("A 1:1001(1000) ack 1", "A 1001:2001(1000) ack 1",
                                        "A 2001:3001(1000) ack 1", "A 3001:4001(1000) ack 1",
                                        "PA 4001:5001(1000) ack 1"));
    const uint64_t cut = device().stats().tx_gso_segmented.value();
    EXPECT_EQ(cut > 0, mode == tcp::GsoMode::kAlways);
    Reset(c);
  }
}

TEST_P(TcpTransferTest, ReceivedDataIsReadable) {
  Start();
  tcp::Connection* c = Connect();
  Send({.flags = "PA", .payload = Pattern(100)});
  EXPECT_EQ(observer_.readable, 1);
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 101"));
  EXPECT_EQ(ReadAll(*c), Pattern(100));
  Reset(c);
}

TEST_P(TcpTransferTest, ActiveCloseGoesThroughFinWaitToTimeWait) {
  Start();
  tcp::Connection* c = Connect();
  c->ShutdownWrite();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("FA 1:1(0) ack 1"));
  EXPECT_EQ(c->state(), tcp::State::kFinWait1);
  Send({.ack = 2});
  EXPECT_EQ(c->state(), tcp::State::kFinWait2);
  Send({.flags = "FA", .ack = 2});
  EXPECT_THAT(TakeText(), ElementsAre("A 2:2(0) ack 2"));
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_TRUE(observer_.status.ok());
  EXPECT_EQ(tcp().time_wait_count(), 1u);
  net->Advance(std::chrono::seconds(61));
  EXPECT_EQ(tcp().time_wait_count(), 0u);
}

TEST_P(TcpTransferTest, PassiveCloseGoesThroughLastAck) {
  Start();
  tcp::Connection* c = Connect();
  Send({.flags = "FA"});
  EXPECT_EQ(c->state(), tcp::State::kCloseWait);
  EXPECT_TRUE(c->read_closed());
  EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 2"));
  c->ShutdownWrite();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("FA 1:1(0) ack 2"));
  Send({.seq = 2, .ack = 2});
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_TRUE(observer_.status.ok());
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_EQ(tcp().time_wait_count(), 0u);
}

TEST_P(TcpTransferTest, SimultaneousCloseGoesThroughClosing) {
  Start();
  tcp::Connection* c = Connect();
  c->ShutdownWrite();
  net->Run();
  Take();
  Send({.flags = "FA"});
  EXPECT_EQ(c->state(), tcp::State::kClosing);
  EXPECT_THAT(TakeText(), ElementsAre("A 2:2(0) ack 2"));
  Send({.seq = 2, .ack = 2});
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(tcp().time_wait_count(), 1u);
  net->Advance(std::chrono::seconds(61));
}

// Covers: RFC 9293 MUST-12
TEST_P(TcpTransferTest, ResetEndsTheConnection) {
  Start();
  Connect();
  Send({.flags = "R"});
  EXPECT_EQ(observer_.gone, 1);
  EXPECT_EQ(observer_.err(), ECONNRESET);
  EXPECT_THAT(TakeText(), IsEmpty());
}

TEST_P(TcpTransferTest, LostDataIsSentAgainAfterTheTimeout) {
  Start();
  tcp::Connection* c = Connect();
  Write(*c, 100);
  EXPECT_THAT(TakeText(), ElementsAre("PA 1:101(100) ack 1"));
  net->Advance(std::chrono::milliseconds(1500));
  EXPECT_THAT(TakeText(),
              ElementsAre("PA 1:101(100) ack 1", "PA 1:101(100) ack 1", "PA 1:101(100) ack 1"));
  Send({.ack = 101});
  net->Advance(std::chrono::minutes(1));
  EXPECT_THAT(TakeText(), IsEmpty());
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
