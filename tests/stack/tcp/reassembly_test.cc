// SPDX-License-Identifier: Apache-2.0
// Out-of-order data: the examples of RFC 2018 and RFC 2883, a model with one entry for each byte,
// and the bounds on memory.
#include "stack/tcp/reassembly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace tapwire::tcp {

// For messages of failed tests; found by argument-dependent lookup.
static void PrintTo(Seq seq, std::ostream* os) { *os << seq.value(); }

namespace {

using Bytes = std::vector<uint8_t>;
using Block = wire::TcpSackBlock;
using Blocks = std::vector<Block>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Reassembly::Limits kRoomy = {.max_bytes = size_t{64} << 20, .max_ranges = 100000};
constexpr size_t kNodeBytes = 24;  // link of a chain

// The stream in which byte n has a value that follows from n.
uint8_t ByteAt(Seq seq) { return static_cast<uint8_t>(seq.value() * 2654435761U >> 24); }

class TcpReassemblyTest : public ::testing::Test {
 protected:
  ~TcpReassemblyTest() override {
    reassembly_.Clear();
    EXPECT_EQ(reassembly_.true_size(), 0U);
    EXPECT_EQ(pool_.stats().slabs_in_use(), 0U);
    EXPECT_EQ(pool_.stats().packets_in_use, 0U);
  }

  static Bytes StreamBytes(Seq seq, uint32_t length) {
    Bytes bytes(length);
    for (uint32_t i = 0; i < length; ++i) bytes[i] = ByteAt(seq + i);
    return bytes;
  }
  // As received: in a slab of that class, behind headers that were pulled off.
  PacketPtr MakePacket(const Bytes& bytes, SlabClass slab_class = SlabClass::kSmall) {
    PacketPtr packet = pool_.AllocatePacket(
        slab_class == SlabClass::kSmall ? 1500 : kLargeSlabBytes - kDefaultHeadroom);
    EXPECT_TRUE(packet->AppendBytes(bytes));
    return packet;
  }
  Reassembly::InsertResult Insert(Seq seq, uint32_t length,
                                  const Reassembly::Limits& limits = kRoomy,
                                  SlabClass slab_class = SlabClass::kSmall) {
    return reassembly_.Insert(seq, MakePacket(StreamBytes(seq, length), slab_class), limits);
  }
  Blocks Sacks(size_t room = 3) {
    Blocks blocks(room);
    blocks.resize(reassembly_.SackBlocks(blocks));
    return blocks;
  }
  Bytes Take(Seq rcv_nxt) {
    BufferChain chain;
    const uint32_t taken = reassembly_.TakeContiguous(rcv_nxt, chain);
    Bytes bytes(chain.size());
    chain.CopyOut(0, bytes);
    EXPECT_EQ(taken, bytes.size());
    return bytes;
  }

  SlabPool pool_;
  Reassembly reassembly_;
};

// ---- RFC 2018 §4: eight segments of 500 bytes, left edge 5000 ----

// Covers: rfc:SACK-02
TEST_F(TcpReassemblyTest, Rfc2018FirstSegmentLost) {
  for (uint32_t n = 1; n < 8; ++n) {
    EXPECT_TRUE(Insert(Seq(5000 + 500 * n), 500).stored);
    EXPECT_THAT(Sacks(), ElementsAre(Block{5500, 6000 + 500 * (n - 1)}));
  }
  EXPECT_EQ(reassembly_.range_count(), 1U);
  EXPECT_EQ(Take(Seq(5500)), StreamBytes(Seq(5500), 3500));
}

// Covers: rfc:SACK-02
TEST_F(TcpReassemblyTest, Rfc2018EverySecondSegmentLost) {
  // 5000 came in order; 5500, 6500, 7500 and 8500 are lost.
  Insert(Seq(6000), 500);
  EXPECT_THAT(Sacks(), ElementsAre(Block{6000, 6500}));
  Insert(Seq(7000), 500);
  EXPECT_THAT(Sacks(), ElementsAre(Block{7000, 7500}, Block{6000, 6500}));
  Insert(Seq(8000), 500);
  EXPECT_THAT(Sacks(), ElementsAre(Block{8000, 8500}, Block{7000, 7500}, Block{6000, 6500}));
  // "Suppose at this point, the 4th packet is received out of order."
  Insert(Seq(6500), 500);
  EXPECT_THAT(Sacks(), ElementsAre(Block{6000, 7500}, Block{8000, 8500}));
  // "Suppose at this point, the 2nd segment is received": acknowledged up to 7500.
  EXPECT_EQ(Take(Seq(6000)).size(), 1500U);
  EXPECT_THAT(Sacks(), ElementsAre(Block{8000, 8500}));
}

TEST_F(TcpReassemblyTest, LatestBlockFirstAlsoForDuplicatesAndAppending) {
  for (const uint32_t start : {1000U, 3000U, 5000U, 7000U, 9000U}) Insert(Seq(start), 500);
  EXPECT_THAT(Sacks(4), ElementsAre(Block{9000, 9500}, Block{7000, 7500}, Block{5000, 5500},
                                    Block{3000, 3500}));
  EXPECT_TRUE(Insert(Seq(3100), 50).duplicate);
  Insert(Seq(5500), 10);
  EXPECT_THAT(Sacks(4), ElementsAre(Block{5000, 5510}, Block{3000, 3500}, Block{9000, 9500},
                                    Block{7000, 7500}));
  EXPECT_THAT(Sacks(1), ElementsAre(Block{5000, 5510}));
  EXPECT_THAT(Sacks(0), IsEmpty());
}

// Covers: bug:B40
TEST_F(TcpReassemblyTest, BlocksOnBothSidesOfTheWrap) {
  const Seq start(0xfffffc00);  // 1024 before zero
  Insert(start + 1500, 500);
  Insert(start + 100, 500);
  Insert(start + 900, 300);  // across
  EXPECT_THAT(Sacks(),
              ElementsAre(Block{0xffffff84, 176}, Block{0xfffffc64, 0xfffffe58}, Block{476, 976}));
  Insert(start + 600, 400);  // joins the two before the wrap
  Insert(start + 1100, 600);
  EXPECT_THAT(Sacks(), ElementsAre(Block{0xfffffc64, 976}));
  EXPECT_EQ(reassembly_.highest_end(), Seq(976));
  EXPECT_EQ(Take(start + 100), StreamBytes(start + 100, 1900));
}

// ---- RFC 2883 §4 ----

// Covers: rfc:SACK-05
TEST_F(TcpReassemblyTest, DuplicateIsNamedOnce) {
  EXPECT_EQ(Insert(Seq(2000), 500).dsack, std::nullopt);
  EXPECT_EQ(Insert(Seq(3000), 500).dsack, std::nullopt);
  EXPECT_EQ(Insert(Seq(2500), 100).dsack, std::nullopt);  // adjoins only
  struct Case {
    uint32_t seq;
    uint32_t length;
    Block dsack;
    bool duplicate;
  };
  for (const Case& c :
       {Case{2000, 500, {2000, 2500}, true}, Case{2100, 100, {2100, 2200}, true},
        Case{1900, 200, {2000, 2100}, false},
        // Two duplicate parts: the first is named (§4.2.2).
        Case{1800, 1900, {1900, 2600}, false}, Case{3600, 200, {3600, 3700}, false}}) {
    const Reassembly::InsertResult result = Insert(Seq(c.seq), c.length);
    EXPECT_TRUE(result.stored);
    EXPECT_EQ(result.duplicate, c.duplicate) << c.seq;
    EXPECT_EQ(result.dsack, c.dsack) << c.seq;
  }
  EXPECT_THAT(Sacks(), ElementsAre(Block{1800, 3800}));
}

// ---- Content ----

TEST_F(TcpReassemblyTest, FirstCopyOfAByteIsKept) {
  reassembly_.Insert(Seq(10), MakePacket(Bytes(10, 'a')), kRoomy);
  reassembly_.Insert(Seq(30), MakePacket(Bytes(10, 'b')), kRoomy);
  reassembly_.Insert(Seq(5), MakePacket(Bytes(40, 'c')), kRoomy);
  EXPECT_EQ(reassembly_.range_count(), 1U);
  Bytes expected(5, 'c');
  expected.insert(expected.end(), 10, 'a');
  expected.insert(expected.end(), 10, 'c');
  expected.insert(expected.end(), 10, 'b');
  expected.insert(expected.end(), 5, 'c');
  EXPECT_EQ(Take(Seq(5)), expected);
}

TEST_F(TcpReassemblyTest, TakesOnlyWhatContinues) {
  Insert(Seq(100), 50);
  Insert(Seq(200), 50);
  EXPECT_THAT(Take(Seq(99)), IsEmpty());
  EXPECT_EQ(Take(Seq(120)), StreamBytes(Seq(120), 30));  // part of it came again in order
  EXPECT_THAT(Take(Seq(260)), IsEmpty());                // all of it did
  EXPECT_TRUE(reassembly_.empty());
  EXPECT_EQ(reassembly_.true_size(), 0U);
}

TEST_F(TcpReassemblyTest, EmptyPacketIsNotStored) {
  EXPECT_FALSE(Insert(Seq(100), 0).stored);
  EXPECT_TRUE(reassembly_.empty());
}

// Super-packets in many slabs, cut by what is there already.
TEST_F(TcpReassemblyTest, FragmentsOfSuperPacketsAreShared) {
  for (uint32_t n = 0; n < 5; ++n) Insert(Seq(10000 * n + 5000), 1000);
  Insert(Seq(0), 50000);
  EXPECT_EQ(reassembly_.range_count(), 1U);
  EXPECT_EQ(Take(Seq(0)), StreamBytes(Seq(0), 50000));
}

// ---- FIN ----

// Covers: bug:B13
TEST_F(TcpReassemblyTest, StreamEndsAtTheFirstFin) {
  Insert(Seq(100), 100);
  Insert(Seq(250), 100);
  Insert(Seq(400), 100);
  reassembly_.InsertFin(Seq(300));
  EXPECT_EQ(reassembly_.highest_end(), Seq(300));
  EXPECT_EQ(reassembly_.range_count(), 2U);
  EXPECT_FALSE(Insert(Seq(300), 50).stored);  // data behind the FIN
  EXPECT_FALSE(Insert(Seq(5000), 50).stored);
  reassembly_.InsertFin(Seq(350));  // a second FIN, elsewhere
  reassembly_.InsertFin(Seq(150));
  EXPECT_EQ(reassembly_.fin(), Seq(300));
  EXPECT_TRUE(Insert(Seq(190), 500).stored);  // cut at the FIN
  EXPECT_FALSE(reassembly_.FinAt(Seq(100)));
  EXPECT_EQ(Take(Seq(100)), StreamBytes(Seq(100), 200));
  EXPECT_TRUE(reassembly_.FinAt(Seq(300)));
  EXPECT_TRUE(reassembly_.empty());
}

// Covers: bug:B15
TEST_F(TcpReassemblyTest, FinCountsOnlyWhenReached) {
  const Reassembly::Limits one_range = {.max_bytes = kRoomy.max_bytes, .max_ranges = 1};
  Insert(Seq(200), 100, one_range);
  reassembly_.InsertFin(Seq(500));
  EXPECT_FALSE(Insert(Seq(400), 100, one_range).stored);
  EXPECT_EQ(Take(Seq(200)).size(), 100U);
  EXPECT_FALSE(reassembly_.FinAt(Seq(300)));  // 300 to 500 is missing
  EXPECT_TRUE(Insert(Seq(400), 100, one_range).stored);
  EXPECT_EQ(Take(Seq(400)).size(), 100U);
  EXPECT_TRUE(reassembly_.FinAt(Seq(500)));
}

TEST_F(TcpReassemblyTest, FinAcrossTheWrap) {
  Insert(Seq(0xffffff00), 0x200);
  reassembly_.InsertFin(Seq(0x10));
  EXPECT_EQ(reassembly_.highest_end(), Seq(0x10));
  EXPECT_EQ(Take(Seq(0xffffff00)).size(), 0x110U);
  EXPECT_TRUE(reassembly_.FinAt(Seq(0x10)));
  reassembly_.Clear();
  EXPECT_EQ(reassembly_.fin(), std::nullopt);
}

// ---- Bounds ----

TEST_F(TcpReassemblyTest, RangesAreBounded) {
  constexpr Reassembly::Limits kLimits = {.max_bytes = size_t{64} << 20, .max_ranges = 256};
  int stored = 0;
  for (uint32_t i = 0; i < 5000; ++i) stored += Insert(Seq(2 * i), 1, kLimits).stored ? 1 : 0;
  EXPECT_EQ(stored, 256);
  EXPECT_EQ(reassembly_.range_count(), 256U);
  EXPECT_LE(pool_.stats().slabs_in_use(), 256U);
  // What needs no new range is still taken.
  EXPECT_TRUE(Insert(Seq(1), 1, kLimits).stored);
  EXPECT_EQ(reassembly_.range_count(), 255U);
  EXPECT_TRUE(Insert(Seq(8000), 1, kLimits).stored);
  EXPECT_FALSE(Insert(Seq(9000), 1, kLimits).stored);
}

TEST_F(TcpReassemblyTest, MemoryIsBoundedAndRefusalChangesNothing) {
  constexpr Reassembly::Limits kLimits = {.max_bytes = 100'000, .max_ranges = 100'000};
  for (const SlabClass slab_class : {SlabClass::kSmall, SlabClass::kLarge}) {
    int stored = 0;
    for (uint32_t i = 0; i < 5000; ++i) {
      const uint32_t length = 1 + i % 1448;
      const size_t before = reassembly_.true_size();
      const size_t ranges = reassembly_.range_count();
      const auto result = Insert(Seq(3000 * i), length, kLimits, slab_class);
      ASSERT_LE(reassembly_.true_size(), kLimits.max_bytes);
      if (result.stored) {
        ++stored;
        continue;
      }
      ASSERT_EQ(reassembly_.true_size(), before);
      ASSERT_EQ(reassembly_.range_count(), ranges);
    }
    // One small slab each, whatever they came in.
    EXPECT_EQ(stored, static_cast<int>(100'000 / (kSmallSlabBytes + kNodeBytes)));
    EXPECT_LE(pool_.stats().slabs_in_use() * kSmallSlabBytes, 100'000U);
    reassembly_.Clear();
  }
}

// Thousands of one-byte segments, whatever their order, are stored densely.
TEST_F(TcpReassemblyTest, TinySegmentsShareSlabs) {
  constexpr uint32_t kCount = 3000;
  std::vector<uint32_t> order(kCount);
  for (uint32_t i = 0; i < kCount; ++i) order[i] = i;
  for (const bool backwards : {false, true}) {
    if (backwards) std::ranges::reverse(order);
    for (const uint32_t i : order) ASSERT_TRUE(Insert(Seq(i), 1, kRoomy, SlabClass::kLarge).stored);
    EXPECT_EQ(reassembly_.range_count(), 1U);
    EXPECT_LE(reassembly_.true_size(), 4 * (kSmallSlabBytes + kNodeBytes));
    EXPECT_EQ(Take(Seq(0)), StreamBytes(Seq(0), kCount));
  }
}

TEST_F(TcpReassemblyTest, FullPoolStillStoresWithoutCopying) {
  SlabPool tight({.budget_bytes = size_t{1} << 20});
  std::vector<PacketPtr> held;
  PacketPtr payload = tight.AllocatePacket(kLargeSlabBytes - kDefaultHeadroom);
  ASSERT_TRUE(payload->AppendBytes(StreamBytes(Seq(7), 100)));
  while (PacketPtr packet = tight.AllocatePacket(100)) held.push_back(std::move(packet));
  {
    Reassembly reassembly;
    EXPECT_TRUE(reassembly.Insert(Seq(7), std::move(payload), kRoomy).stored);
    EXPECT_GE(reassembly.true_size(), kLargeSlabBytes);
    BufferChain out;
    EXPECT_EQ(reassembly.TakeContiguous(Seq(7), out), 100U);
  }
}

// ---- Against the model ----

struct Held {
  uint8_t value = 0;
  int arrival = 0;
};

class TcpReassemblyModelTest : public TcpReassemblyTest,
                               public ::testing::WithParamInterface<uint32_t> {
 protected:
  struct Run {
    uint32_t start;
    uint32_t end;
    int arrival;
  };

  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  // Runs of bytes without a gap, in order of offset; a run is as new as its newest byte.
  std::vector<Run> Runs() const {
    std::vector<Run> runs;
    for (const auto& [offset, held] : held_) {
      if (runs.empty() || runs.back().end != offset) {
        runs.push_back({offset, offset + 1, held.arrival});
      } else {
        runs.back().end = offset + 1;
        runs.back().arrival = std::max(runs.back().arrival, held.arrival);
      }
    }
    return runs;
  }

  void InsertRandom() {
    const uint32_t offset = next_ + 1 + Pick(600);
    const uint32_t length = 1 + (Pick(10) == 0 ? Pick(300) : Pick(30));
    Bytes bytes(length);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    std::optional<Block> dsack;
    bool duplicate = true;
    ++arrivals_;
    for (uint32_t i = 0; i < length; ++i) {
      const auto [it, added] = held_.try_emplace(offset + i, Held{bytes[i], 0});
      it->second.arrival = arrivals_;
      duplicate = duplicate && !added;
      const uint32_t number = (kBase + (offset + i)).value();
      if (added) continue;
      if (!dsack) {
        dsack = Block{number, number + 1};
      } else if (dsack->right_edge == number) {
        dsack->right_edge = number + 1;
      }
    }
    const auto result = reassembly_.Insert(
        kBase + offset, MakePacket(bytes, Pick(2) == 0 ? SlabClass::kSmall : SlabClass::kLarge),
        kRoomy);
    ASSERT_TRUE(result.stored);
    ASSERT_EQ(result.duplicate, duplicate);
    ASSERT_EQ(result.dsack, dsack);
  }

  void Advance() {
    next_ += 1 + Pick(120);
    Bytes expected;
    held_.erase(held_.begin(), held_.lower_bound(next_));
    while (held_.contains(next_)) {
      expected.push_back(held_[next_].value);
      held_.erase(next_++);
    }
    ASSERT_EQ(Take(kBase + (next_ - static_cast<uint32_t>(expected.size()))), expected);
  }

  void ExpectSame() {
    std::vector<Run> runs = Runs();
    ASSERT_EQ(reassembly_.range_count(), runs.size());
    ASSERT_EQ(reassembly_.empty(), runs.empty());
    if (runs.empty()) {
      ASSERT_EQ(reassembly_.true_size(), 0U);
      ASSERT_THAT(Sacks(), IsEmpty());
      return;
    }
    ASSERT_GE(reassembly_.true_size(), held_.size());
    ASSERT_EQ(reassembly_.highest_end(), kBase + runs.back().end);
    std::sort(runs.begin(), runs.end(),
              [](const Run& a, const Run& b) { return a.arrival > b.arrival; });
    Blocks expected;
    for (size_t i = 0; i < std::min<size_t>(runs.size(), 4); ++i) {
      expected.push_back({(kBase + runs[i].start).value(), (kBase + runs[i].end).value()});
    }
    ASSERT_EQ(Sacks(4), expected);
  }

  const Seq kBase{0xffffffff - 10000};
  std::mt19937 random_{GetParam()};
  std::map<uint32_t, Held> held_;  // by offset from kBase
  uint32_t next_ = 0;              // RCV.NXT
  int arrivals_ = 0;
};

// Covers: RFC 9293 SHLD-31, bug:B40
TEST_P(TcpReassemblyModelTest, RandomArrivalsAgree) {
  for (int step = 0; step < 2500; ++step) {
    if (Pick(8) == 0) {
      Advance();
    } else {
      InsertRandom();
    }
    ExpectSame();
    if (HasFatalFailure()) FAIL() << "seed " << GetParam() << " step " << step;
  }
  EXPECT_GT(next_, 10000U);  // it went across zero
}

INSTANTIATE_TEST_SUITE_P(Seeds, TcpReassemblyModelTest, ::testing::Range(1U, 7U));

}  // namespace
}  // namespace tapwire::tcp
