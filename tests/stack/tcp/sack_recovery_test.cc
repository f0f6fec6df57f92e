// SPDX-License-Identifier: Apache-2.0
// Loss recovery with SACK (RFC 6675), what SACK blocks say and do not say (RFC 2018, RFC 2883), and
// the blocks that the host sends itself.
#include "tests/stack/tcp/loss_host.h"

namespace tapwire::testutil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TcpSackRecoveryTest : public TcpLossTest {
 protected:
  // SACK blocks of a segment, relative to the peer's first number less `base`.
  static Blocks BlocksOf(const SentSegment& s, uint32_t base) {
    Blocks blocks;
    for (const wire::TcpSackBlock& block : s.options.sacks())
      blocks.emplace_back(block.left_edge - kPeerIsn - 1 + base,
                          block.right_edge - kPeerIsn - 1 + base);
    return blocks;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, TcpSackRecoveryTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), FamilyName);

// RFC 6675 §5. Before: pipe counts what is not SACKed, so each SACK lets a new segment out. With
// 3,000 bytes above segment 1 it is lost (§4, IsLost); FlightSize without the two new segments is
// ten, cwnd and ssthresh five. Pipe: 12 - 3 SACKed - 1 lost + 1 copy = 9, less one for each SACK.
// Covers: rfc:SACK-07, rfc:CC-08
TEST_P(TcpSackRecoveryTest, PipeRulesWhatIsSent) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 30);
  EXPECT_THAT(OnSack(1, {{2, 2}}), ElementsAre(Seg(11)));
  EXPECT_THAT(OnSack(1, {{2, 3}}), ElementsAre(Seg(12)));
  EXPECT_THAT(OnSack(1, {{2, 4}}), ElementsAre(Seg(1)));
  EXPECT_EQ(c->Info().snd_ssthresh_bytes, 5'000u);
  EXPECT_EQ(tcp::ConnectionTestPeer::Pipe(*c), 9'000u);
  for (uint32_t last = 5; last <= 8; ++last) EXPECT_THAT(OnSack(1, {{2, last}}), IsEmpty()) << last;
  for (uint32_t last = 9; last <= 12; ++last)
    EXPECT_THAT(OnSack(1, {{2, last}}), ElementsAre(Seg(last + 4))) << last;
  EXPECT_THAT(OnAck(After(12)), ElementsAre(Seg(17)));
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 5'000u);
  Reset(c);
}

// §4, IsLost, the other half: three ranges that do not touch, though less than two segments are
// SACKed. Covers: rfc:SACK-07
TEST_P(TcpSackRecoveryTest, ThreeSeparateRangesMakeALoss) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 10);
  const auto sack = [&](Blocks edges) {
    Send({.ack = 1, .options = SackOptions(edges, host_isn_)});
    return TakeText();
  };
  EXPECT_THAT(sack({{2001, 2501}}), IsEmpty());
  EXPECT_THAT(sack({{3001, 3501}, {2001, 2501}}), IsEmpty());
  EXPECT_THAT(sack({{4001, 4501}, {3001, 3501}, {2001, 2501}}), ::testing::Contains(Seg(1)));
  Reset(c);
}

TEST_P(TcpSackRecoveryTest, EachHoleIsFilledOnce) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 10);  // 1 and 5 are lost
  OnSack(1, {{2, 2}});
  OnSack(1, {{2, 3}});
  EXPECT_THAT(OnSack(1, {{2, 4}}), ElementsAre(Seg(1)));
  EXPECT_THAT(OnSack(1, {{6, 6}, {2, 4}}), IsEmpty());
  EXPECT_THAT(OnSack(1, {{6, 7}, {2, 4}}), IsEmpty());
  // 3,000 bytes above 5 are SACKed. Pipe: 10 - 6 SACKed - 2 lost + 1 copy.
  EXPECT_THAT(OnSack(1, {{6, 8}, {2, 4}}), ElementsAre(Seg(5)));
  EXPECT_THAT(OnSack(1, {{6, 9}, {2, 4}}), IsEmpty());
  EXPECT_THAT(OnSack(1, {{6, 10}, {2, 4}}), IsEmpty());
  EXPECT_THAT(OnSack(After(4), {{6, 10}}), IsEmpty());
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 5'000u);
  Reset(c);
}

// One acknowledgment that tells of half the window at once reduces no more than three single ones.
TEST_P(TcpSackRecoveryTest, OneLargeSackReducesOnce) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 10);
  EXPECT_THAT(OnSack(1, {{6, 10}}),
              ElementsAre(Seg(1), Seg(2), Seg(3), Seg(4), Seg(5)));  // pipe 0, cwnd 5
  EXPECT_EQ(c->Info().snd_ssthresh_bytes, 5'000u);
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  EXPECT_EQ(c->Info().snd_cwnd_bytes, 5'000u);
  Reset(c);
}

// Covers: bug:B42
TEST_P(TcpSackRecoveryTest, CopyIsNotSentAgainBecauseOfDuplicates) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 10);  // 1 and 5 seem lost
  OnSack(1, {{2, 2}});
  OnSack(1, {{2, 3}});
  EXPECT_THAT(OnSack(1, {{2, 4}}), ElementsAre(Seg(1)));
  EXPECT_THAT(OnSack(1, {{6, 8}, {2, 4}}), ElementsAre(Seg(5)));
  // The first copy of 1 was only late: the other is a duplicate (RFC 2883), and three more follow.
  EXPECT_THAT(OnSack(After(4), {{1, 1}, {6, 8}}), IsEmpty());
  EXPECT_THAT(OnSack(After(4), {{6, 9}}), IsEmpty());
  EXPECT_THAT(OnSack(After(4), {{6, 10}}), IsEmpty());
  EXPECT_THAT(OnSack(After(4), {{6, 10}}), IsEmpty());
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  Reset(c);
}

// RFC 6675 §2: with SACK a duplicate acknowledgment is one that SACKs something new. Reports of
// duplicates (RFC 2883), and blocks that cannot be, are none.
// Covers: rfc:SACK-06
TEST_P(TcpSackRecoveryTest, BlocksThatSayNothingNew) {
  struct Case {
    const char* what;
    std::pair<uint32_t, uint32_t> block;  // edges
  };
  const Case cases[] = {
      {"duplicate below SND.UNA", {1001, 2001}}, {"beyond SND.NXT", {5001, 20'001}},
      {"right before left", {6001, 5001}},       {"empty", {5001, 5001}},
      {"far away", {0x7fffffff, 0x80000fff}},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.what);
    Start();
    tcp::Connection* c = Open(true);
    WriteSegments(*c, 3);
    OnAck(After(3));
    WriteSegments(*c, 5);
    for (int i = 0; i < 5; ++i) {
      Send({.ack = After(3), .options = SackOptions({test.block}, host_isn_)});
      EXPECT_THAT(TakeText(), IsEmpty()) << i;
    }
    EXPECT_EQ(c->Info().sacked_segs, 0u);
    EXPECT_NE(c->Info().ca_state, tcp::RecoveryState::kRecovery);
    Reset(c);
  }
}

// Covers: bug:B40
TEST_P(TcpSackRecoveryTest, HolesOnBothSidesOfTheWrap) {
  // Segment 3 crosses 2^32; 2 and 4 are the holes. Or 3 itself is.
  Start();
  tcp::Connection* c = OpenAt(0xffffffff - 2'500, true);
  WriteSegments(*c, 10);
  OnSack(After(1), {{3, 3}});
  OnSack(After(1), {{5, 5}, {3, 3}});
  EXPECT_THAT(OnSack(After(1), {{5, 6}, {3, 3}}), ElementsAre(Seg(2)));
  // Nine in flight: cwnd is 4,500. Pipe: 9 - 4 SACKed - 2 lost + 1 copy, then one less.
  EXPECT_THAT(OnSack(After(1), {{5, 7}, {3, 3}}), IsEmpty());
  EXPECT_THAT(OnSack(After(1), {{5, 8}, {3, 3}}), ElementsAre(Seg(4)));
  EXPECT_THAT(OnSack(After(1), {{5, 10}, {3, 3}}), IsEmpty());
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  Reset(c);
  Start();
  c = OpenAt(0xffffffff - 2'500, true);
  WriteSegments(*c, 6);
  OnAck(After(2));
  EXPECT_THAT(OnSack(After(2), {{4, 6}}), ElementsAre(Seg(3)));
  EXPECT_THAT(OnAck(After(6)), IsEmpty());
  Reset(c);
}

// After a timeout what was SACKed is kept out of the retransmission (RFC 6675 §5.1); after a second
// one the peer may have thrown it away (RFC 2018 §8).
// Covers: rfc:SACK-04
TEST_P(TcpSackRecoveryTest, SecondTimeoutForgetsTheSacks) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 4);
  OnSack(1, {{2, 3}});
  Mark();
  AdvanceTo(200);
  EXPECT_THAT(TakeText(), ElementsAre(Seg(1)));
  EXPECT_THAT(OnSack(After(1), {{2, 3}}), ElementsAre(PshSeg(4)));  // 2 and 3 do not go again
  EXPECT_THAT(OnAck(After(4)), IsEmpty());
  Reset(c);

  Start();
  c = Open(true);
  WriteSegments(*c, 4);
  OnSack(1, {{2, 3}});
  Mark();
  AdvanceTo(700);
  EXPECT_THAT(TakeTimed(), ElementsAre("200 " + Seg(1), "600 " + Seg(1)));
  EXPECT_THAT(OnAck(After(1)), ElementsAre(Seg(2), Seg(3)));
  EXPECT_THAT(OnAck(After(4)), IsEmpty());
  Reset(c);
}

// RFC 2018 §8: "The data sender MUST retransmit the segment at the left edge of the window after a
// retransmit timeout, whether or not the SACKed bit is on for that segment."
// Covers: rfc:SACK-04
TEST_P(TcpSackRecoveryTest, LeftEdgeGoesAgainThoughItWasSacked) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 4);
  OnSack(1, {{2, 3}});
  Mark();
  EXPECT_THAT(OnAck(After(1)), IsEmpty());  // without 2 and 3: they were thrown away
  AdvanceTo(300);
  EXPECT_THAT(TakeTimed(), ElementsAre("200 " + Seg(2)));
  EXPECT_THAT(OnAck(After(2)), ElementsAre(Seg(3), PshSeg(4)));
  EXPECT_THAT(OnAck(After(4)), IsEmpty());
  Reset(c);
}

// What was SACKed and acknowledged later by an old, reordered acknowledgment does no harm.
TEST_P(TcpSackRecoveryTest, OldAcknowledgmentsWithOldBlocks) {
  Start();
  tcp::Connection* c = Open(true);
  WriteSegments(*c, 10);
  OnAck(After(6));
  EXPECT_THAT(OnSack(After(1), {{3, 4}}), IsEmpty());
  EXPECT_THAT(OnSack(1, {{2, 6}}), IsEmpty());
  EXPECT_EQ(c->Info().sacked_segs, 0u);
  EXPECT_THAT(OnAck(After(10)), IsEmpty());
  Reset(c);
}

// ---- The host as receiver ----

// RFC 2018 §4, the three cases: eight segments of 500 bytes from 5000 on.
// Covers: rfc:SACK-02, rfc:SACK-03
TEST_P(TcpSackRecoveryTest, ExamplesOfRfc2018) {
  const auto send = [&](uint32_t number) {
    Send({.seq = 1 + number - 5000, .payload = Pattern(500)});
    const std::vector<SentSegment> sent = Take();
    EXPECT_EQ(sent.size(), 1u) << number;
    return sent.empty() ? SentSegment() : sent[0];
  };
  const auto expect = [&](const SentSegment& s, uint32_t ack, const Blocks& blocks) {
    EXPECT_EQ(s.ack - 1 + 5000, ack);
    EXPECT_EQ(BlocksOf(s, 5000), blocks);
  };
  Start();
  tcp::Connection* c = Open(true);
  expect(send(5000), 5500, {});
  expect(send(5500), 6000, {});
  expect(send(6000), 6500, {});
  expect(send(6500), 7000, {});
  ReadAll(*c);
  Reset(c);

  Start();
  c = Open(true);
  for (uint32_t right = 6000; right <= 9000; right += 500)
    expect(send(right - 500), 5000, {{5500, right}});
  Reset(c);

  Start();
  c = Open(true);
  expect(send(5000), 5500, {});
  expect(send(6000), 5500, {{6000, 6500}});
  expect(send(7000), 5500, {{7000, 7500}, {6000, 6500}});
  expect(send(8000), 5500, {{8000, 8500}, {7000, 7500}, {6000, 6500}});
  // "Suppose at this point, the 4th packet is received out of order" …
  expect(send(6500), 5500, {{6000, 7500}, {8000, 8500}});
  // … "then, the 2nd segment".
  expect(send(5500), 7500, {{8000, 8500}});
  Reset(c);
}

// Covers: bug:B40
TEST_P(TcpSackRecoveryTest, BlocksSentAroundTheWrap) {
  // The peer's number 16 is 2^32.
  Start();
  tcp::Connection* c = Open(true);
  const auto blocks_after = [&](uint32_t seq, size_t length) {
    Send({.seq = seq, .payload = Pattern(length)});
    const std::vector<SentSegment> sent = Take();
    EXPECT_EQ(sent.size(), 1u);
    return sent.empty() ? Blocks() : BlocksOf(sent[0], 1);
  };
  EXPECT_EQ(blocks_after(6, 5), (Blocks{{6, 11}}));
  EXPECT_EQ(blocks_after(14, 5), (Blocks{{14, 19}, {6, 11}}));
  EXPECT_EQ(blocks_after(21, 5), (Blocks{{21, 26}, {14, 19}, {6, 11}}));
  EXPECT_EQ(blocks_after(11, 3), (Blocks{{6, 19}, {21, 26}}));
  EXPECT_EQ(blocks_after(19, 2), (Blocks{{6, 26}}));
  EXPECT_EQ(blocks_after(1, 5), Blocks());
  EXPECT_EQ(c->readable_bytes(), 25u);
  Reset(c);
}

// RFC 2883 §4.1: the duplicate is the first block.
// Covers: rfc:SACK-05
TEST_P(TcpSackRecoveryTest, DuplicateSegmentIsReported) {
  Start();
  tcp::Connection* c = Open(true);
  Send({.payload = Pattern(100)});
  Take();
  Send({.seq = 201, .payload = Pattern(100)});
  Take();
  Send({.payload = Pattern(100)});
  std::vector<SentSegment> sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(BlocksOf(sent[0], 1), (Blocks{{1, 101}, {201, 301}}));
  Send({.seq = 201, .payload = Pattern(100)});
  sent = Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(BlocksOf(sent[0], 1), (Blocks{{201, 301}, {201, 301}}));
  Reset(c);
}

}  // namespace
}  // namespace tapwire::testutil
