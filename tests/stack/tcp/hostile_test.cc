// SPDX-License-Identifier: Apache-2.0
// A peer that wants to cost us memory or time: every kind of flood has its bound.
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "netdev/base/seeded_random.h"
#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using tcp::ConnectionTestPeer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpHostileTest : public TcpLossTest {
 protected:
  const TcpExtCounters& mib() { return stack->mib().tcp_ext; }
  // What a hostile peer does looks like a fault to the checker of captures.
  static NetHarness::Options Ignoring(capture::Rule rule) {
    NetHarness::Options options;
    options.ignored_rules = {rule};
    return options;
  }
  // An established connection of its own tuple, whose peer is another port.
  tcp::Connection* OpenFrom(uint16_t port, RecordingObserver& observer) {
    auto opened = tcp().Connect({host(), port, 0}, {peer(), kPeerPort, 0}, {}, &observer);
    EXPECT_TRUE(opened.ok()) << opened.status();
    net->Run();
    Take();
    Send({.flags = "SA", .seq = 0, .ack = 1, .options = SynOptions(1000)});
    Take();
    return *opened;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpHostileTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// ---- Out of order ----

// Covers: bug:B55
TEST_P(TcpHostileTest, EverySecondByteNeedsLittleMemory) {
  Start();
  tcp::Connection* c = Connect();
  const ByteVector all = Pattern(60'000);
  size_t most = 0;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 1; i < 60'000; i += 2) {
      Send({.seq = 1 + i, .payload = {all[i]}});
      device().TakeSent();
      most = std::max(most, c->true_size());
    }
  }
  EXPECT_LE(most, Plain().receive_buffer_initial);
  EXPECT_GE(mib().out_of_order_drop.value(), 2 * 30'000 - 2 * 256u);  // max_out_of_order_ranges
  // And the stream can still be completed.
  for (uint32_t i = 0; i < 60'000; i += 1000) {
    Send({.seq = 1 + i, .payload = ByteVector(all.begin() + i, all.begin() + i + 1000)});
  }
  EXPECT_EQ(ReadAll(*c), all);
  Reset(c);
}

// A hole that is never filled: bytes are bounded by the buffer, whatever the size of the segments.
TEST_P(TcpHostileTest, OutOfOrderBytesAreBoundedByTheBuffer) {
  tcp::Config config = Plain();
  config.max_out_of_order_ranges = 100'000;
  Start(config);
  tcp::SocketOptions options;
  options.receive_buffer = 100'000;
  tcp::Connection* c = Connect(SynOptions(1000, true, 3), 65535, options);
  SeededRandom random(5);
  size_t most = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t seq = 2 + random.Uniform(120'000);
    Send({.seq = seq, .payload = Pattern(1 + random.Uniform(40), static_cast<uint8_t>(seq))});
    device().TakeSent();
    most = std::max(most, c->true_size());
  }
  EXPECT_LE(most, 100'000u);
  EXPECT_EQ(c->readable_bytes(), 0u);
  EXPECT_GT(mib().out_of_order_drop.value(), 0u);
  Reset(c);
}

// ---- Tiny segments ----

TEST_P(TcpHostileTest, TinyMssMakesNoTinySegments) {
  for (const uint16_t mss : {uint16_t{0}, uint16_t{1}, uint16_t{40}, uint16_t{87}, uint16_t{88}}) {
    SCOPED_TRACE(mss);
    Start();
    tcp::Connection* c = Connect(SynOptions(mss));
    Write(*c, 5000);
    uint32_t acked = 1;
    while (acked < 5001) {
      const auto sent = Take();
      ASSERT_FALSE(sent.empty());
      for (const SentSegment& s : sent) EXPECT_TRUE(s.length == 88 || s.seq + s.length == 5001);
      acked = static_cast<uint32_t>(sent.back().seq + sent.back().length);
      Send({.ack = acked});
    }
    Reset(c);
  }
}

// Timestamps and three SACK blocks take 40 of the 88 bytes.
TEST_P(TcpHostileTest, OptionsLeaveRoomForDataInTheSmallestSegment) {
  tcp::Config config = Plain();
  config.timestamps = true;
  Start(config);
  ByteVector options = SynOptions(1);
  const ByteVector stamps{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0};
  options.insert(options.end(), stamps.begin(), stamps.end());
  tcp::Connection* c = Connect(options);
  for (uint32_t i = 0; i < 3; ++i) {
    Send({.seq = 11 + 20 * i, .payload = Pattern(10), .options = stamps});
  }
  Take();
  Write(*c, 480);
  const auto sent = Take();
  ASSERT_EQ(sent.size(), 10u);
  for (const SentSegment& s : sent) {
    EXPECT_EQ(s.length, 48u);
    EXPECT_EQ(s.options.sacks().size(), 3u);
  }
  Reset(c);
}

// ---- Windows ----

TEST_P(TcpHostileTest, NothingIsSentBeyondTheLargestEdgeWhateverTheWindowDoes) {
  Start();
  tcp::Connection* c = Open(true);
  SeededRandom random(11);
  uint32_t acked = 1, sent_to = 1, edge = 1 + 65535;
  for (int i = 0; i < 3000; ++i) {
    Write(*c, 20'000);
    for (const SentSegment& s : Take()) {
      const auto end = static_cast<uint32_t>(s.seq + s.length);
      EXPECT_LE(end, edge) << "round " << i;
      sent_to = std::max(sent_to, end);
    }
    if (random.Uniform(4) != 0) acked += random.Uniform(sent_to - acked + 1);
    const uint16_t windows[] = {0,    1,    88,    999,
                                1000, 1001, 65535, static_cast<uint16_t>(random.Uniform(65536))};
    const uint16_t window = windows[random.Uniform(8)];
    edge = std::max(edge, acked + window);
    Send({.ack = acked, .window = window});
    if (random.Uniform(8) == 0) net->Advance(milliseconds(random.Uniform(400)));
    ASSERT_EQ(observer_.gone, 0);
  }
  EXPECT_GT(acked, 100'000u) << "and yet it gets on";
  EXPECT_LE(c->true_size(), 4u << 20);
  Reset(c);
}

// As Linux: a user that is gone does not wait for ever for a peer that is.
TEST_P(TcpHostileTest, ClosedWindowDoesNotKeepAnOrphanForEver) {
  Start();
  tcp::Connection* c = Connect(SynOptions(), 0);
  Write(*c, 1000);
  c->Release();
  net->Run();
  Take();
  EXPECT_EQ(tcp().orphan_count(), 1u);
  int probes = 0;
  for (int i = 0; i < 3600 && tcp().connection_count() > 0; ++i) {
    net->Advance(seconds(1));
    for (const SentSegment& s : Take()) {
      probes += s.flags == "A" ? 1 : 0;
      Send({.window = 0});  // each is answered
    }
  }
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_EQ(tcp().orphan_count(), 0u);
  EXPECT_GE(probes, 8);
  EXPECT_EQ(mib().abort_on_timeout.value(), 1u);
}

// ---- Options ----

TEST_P(TcpHostileTest, GarbageInOptionsChangesNothing) {
  Start();
  tcp::Connection* c = Open(true);
  Write(*c, 3000);
  Take();
  SeededRandom random(17);
  uint32_t seq = 1;
  for (int i = 0; i < 3000; ++i) {
    ByteVector options(4 * random.Uniform(11));
    for (uint8_t& byte : options) byte = static_cast<uint8_t>(random.Uniform(256));
    Send({.seq = seq, .payload = Pattern(10), .options = options});
    seq += 10;
    device().TakeSent();
    ASSERT_EQ(c->readable_bytes(), 10u);
    ReadAll(*c);
  }
  EXPECT_EQ(observer_.gone, 0);
  EXPECT_EQ(c->Info().snd_mss, 1000u);
  device().TakeSent();
  Reset(c);
}

// ---- Acknowledgments ----

TEST_P(TcpHostileTest, EmptyAcknowledgmentsAreNotAnswered) {
  Start();
  tcp::Connection* c = Open(true);
  for (int i = 0; i < 10'000; ++i) Send({});
  EXPECT_THAT(TakeText(), IsEmpty());
  // With data in flight ten thousand duplicates are one retransmission at most.
  WriteSegments(*c, 10);
  for (int i = 0; i < 10'000; ++i) Send({});
  EXPECT_LE(Take().size(), 1u);
  EXPECT_LE(c->Info().sacked_segs, 10u);
  Reset(c);
}

TEST_P(TcpHostileTest, AcknowledgmentsOfTheFutureAndThePastAreAnsweredTwiceASecond) {
  Start(Plain(), Ignoring(capture::Rule::kTcpAckAnswered));
  tcp::Connection* c = Open(true);
  for (const uint32_t ack : {2u, 100'000u, 0x7fffffffu, 0x80000001u, 0xffff0000u}) {
    SCOPED_TRACE(ack);
    net->Advance(milliseconds(501));
    for (int i = 0; i < 1000; ++i) Send({.ack = ack});
    EXPECT_THAT(TakeText(), ElementsAre("A 1:1(0) ack 1"));
  }
  EXPECT_EQ(mib().challenge_limited.value(), 5 * 999u);
  Reset(c);
}

// Each byte on its own would be a hole of one byte to be sent again, and a piece of the list of
// what is in flight.
TEST_P(TcpHostileTest, SackBlocksOfOneByteCutNothing) {
  Start();
  tcp::Connection* c = Open(true);
  Write(*c, 200'000);
  uint32_t first = 1, next = 1;
  const auto look = [&] {
    for (const SentSegment& s : Take()) {
      next = std::max(next, static_cast<uint32_t>(s.seq + s.length));
    }
  };
  for (look(); next - first < 40'000; look()) Send({.ack = first += 2000});
  for (uint32_t left = first + 1; left + 8 < next; left += 8) {
    Send({.ack = first,
          .options = SackOptions(
              {{left, left + 1}, {left + 2, left + 3}, {left + 4, left + 5}, {left + 6, left + 7}},
              host_isn_)});
    // A piece at the edge of a range is taken off it.
    for (const SentSegment& s : Take()) EXPECT_GE(s.length, 990u);
  }
  EXPECT_LE(ConnectionTestPeer::SentRanges(*c), 100u);
  // The smallest pieces that count, with holes of one byte between them: two for each segment.
  size_t copies = 0;
  for (uint32_t left = first + 1; left + 501 < next; left += 501) {
    Send({.ack = first, .options = SackOptions({{left, left + 500}}, host_isn_)});
    for (const SentSegment& s : Take()) copies += s.seq < next ? 1 : 0;
  }
  EXPECT_LE(ConnectionTestPeer::SentRanges(*c), 500u);
  EXPECT_LE(copies, 3 * (next - first) / 1000);
  // Each of these walks over everything.
  for (int i = 0; i < 2000; ++i) {
    Send({.ack = first,
          .options =
              SackOptions({{first + 1, next}, {first + 3, next}, {first + 5, next}}, host_isn_)});
    device().TakeSent();
  }
  Send({.ack = next});
  EXPECT_EQ(observer_.gone, 0);
  EXPECT_LE(ConnectionTestPeer::SentRanges(*c), 200u);
  device().TakeSent();
  Reset(c);
}

// ---- Resets and SYNs ----

// RFC 5961 §7.
TEST_P(TcpHostileTest, BlindResetsAndSynsCostTwoAnswersASecond) {
  Start(Plain(), Ignoring(capture::Rule::kTcpWindowShrunk));
  tcp::Connection* c = Open(true);
  for (int half = 0; half < 4; ++half) {
    for (uint32_t i = 0; i < 2000; ++i) {
      Send({.flags = "R", .seq = 2 + i * 30});
      Send({.flags = "S", .seq = i * 1'000'003});
      Send({.flags = "SA", .seq = 1 + i, .ack = 1});
    }
    EXPECT_EQ(Take().size(), 1u) << half;
    net->Advance(milliseconds(501));
  }
  EXPECT_EQ(observer_.gone, 0);
  EXPECT_EQ(c->state(), tcp::State::kEstablished);
  Reset(c);
}

// ---- Without a user ----

// Covers: bug:B46
TEST_P(TcpHostileTest, OrphansAreBounded) {
  tcp::Config config = Plain();
  config.max_orphans = 3;
  Start(config);
  std::vector<std::unique_ptr<RecordingObserver>> observers;
  std::vector<tcp::Connection*> all;
  for (uint16_t i = 0; i < 6; ++i) {
    observers.push_back(std::make_unique<RecordingObserver>());
    all.push_back(OpenFrom(static_cast<uint16_t>(5000 + i), *observers.back()));
  }
  int resets = 0, fins = 0;
  for (tcp::Connection* c : all) {
    c->Release();
    net->Run();
    for (const SentSegment& s : Take()) {
      resets += s.flags == "RA" ? 1 : 0;
      fins += s.flags == "FA" ? 1 : 0;
    }
  }
  EXPECT_EQ(fins, 3);
  EXPECT_EQ(resets, 3);
  EXPECT_EQ(tcp().orphan_count(), 3u);
  EXPECT_EQ(tcp().connection_count(), 3u);
  EXPECT_EQ(mib().abort_on_memory.value(), 3u);
  // The peers never answer: the orphans end by themselves, long before an ordinary connection
  // would (8 retransmissions instead of 15).
  net->Advance(minutes(5));
  Take();
  EXPECT_EQ(tcp().orphan_count(), 0u);
  EXPECT_EQ(tcp().connection_count(), 0u);
}

TEST_P(TcpHostileTest, DataForAnOrphanIsResetOnce) {
  Start();
  tcp::Connection* c = Open(true);
  c->Release();
  net->Run();
  EXPECT_THAT(TakeText(), ElementsAre("FA 1:1(0) ack 1"));
  Send({.ack = 2, .payload = Pattern(100)});
  EXPECT_THAT(TakeText(), ElementsAre("R 2:2(0)"));
  EXPECT_EQ(tcp().connection_count(), 0u);
  EXPECT_EQ(mib().abort_on_data.value(), 1u);
}

// ---- Numbers that run out ----

// Covers: RFC 9293 MUST-43
TEST_P(TcpHostileTest, NoFreePortIsAnError) {
  StackConfig quiet = Quiet();
  quiet.ephemeral_port_low = 50'000;
  quiet.ephemeral_port_high = 50'002;
  Make(quiet);
  tcp_ = &tcp::Tcp::Install(*stack, Plain());
  ASSERT_TRUE(interface->neighbors(family()).AddPermanent(peer(), kPeerMac).ok());
  std::vector<tcp::Connection*> all;
  for (int i = 0; i < 3; ++i) {
    auto c = tcp().Connect({host(), 0, 0}, {peer(), 80, 0}, {}, &observer_);
    ASSERT_TRUE(c.ok());
    all.push_back(*c);
  }
  const auto fourth = tcp().Connect({host(), 0, 0}, {peer(), 80, 0}, {}, &observer_);
  EXPECT_EQ(StatusToErrno(fourth.status()), EADDRNOTAVAIL);
  // Another peer is another tuple; a bind() without a port finds none.
  auto other = tcp().Connect({host(), 0, 0}, {peer(), 81, 0}, {}, &observer_);
  ASSERT_TRUE(other.ok());
  all.push_back(*other);
  EXPECT_EQ(StatusToErrno(tcp().ReservePort({host(), 0, 0}, {}).status()), EADDRINUSE);
  for (tcp::Connection* c : all) c->Abort();
  net->Run();
  EXPECT_TRUE(tcp().ReservePort({host(), 0, 0}, {}).ok()) << "and they are free again";
  Take();
}

// The oldest goes, and with it the memory of its tuple.
TEST_P(TcpHostileTest, FullTimeWaitForgetsTheOldest) {
  tcp::Config config = Plain();
  config.max_time_wait = 2;
  Start(config);
  for (uint16_t i = 0; i < 3; ++i) {
    RecordingObserver observer;
    tcp::Connection* c = OpenFrom(static_cast<uint16_t>(5000 + i), observer);
    c->ShutdownWrite();
    net->Run();
    Send({.flags = "FA", .ack = 2});
    net->Advance(seconds(1));
    Take();
  }
  EXPECT_EQ(tcp().time_wait_count(), 2u);
  EXPECT_EQ(mib().time_wait_overflow.value(), 1u);
  for (uint16_t i = 0; i < 3; ++i) {
    const auto c = tcp().Connect({host(), static_cast<uint16_t>(5000 + i), 0},
                                 {peer(), kPeerPort, 0}, {}, &observer_);
    EXPECT_EQ(c.ok(), i == 0) << i;
    if (c.ok()) (*c)->Abort();
  }
  net->Advance(minutes(2));
  Take();
  EXPECT_EQ(tcp().time_wait_count(), 0u);
}

}  // namespace
}  // namespace tapwire::testutil
