// SPDX-License-Identifier: Apache-2.0
#include "netdev/packet/buffer_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "netdev/base/seeded_random.h"

namespace tapwire {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Content(const BufferChain& chain) {
  Bytes bytes(chain.size());
  EXPECT_EQ(chain.CopyOut(0, bytes), bytes.size());
  return bytes;
}

Bytes Content(const BufferSlice& slice) {
  return Bytes(slice.bytes().begin(), slice.bytes().end());
}

class BufferChainTest : public ::testing::Test {
 protected:
  BufferChainTest() : random_(17) {}
  ~BufferChainTest() override {
    EXPECT_EQ(pool_.stats().slabs_in_use(), 0U);
    EXPECT_EQ(pool_.stats().packets_in_use, 0U);
  }

  Bytes RandomBytes(size_t n) {
    Bytes bytes(n);
    random_.Fill(bytes);
    return bytes;
  }

  BufferSlice MakeSlice(const Bytes& bytes, size_t offset = 0,
                        SlabClass slab_class = SlabClass::kLarge) {
    SlabRef slab = pool_.AllocateSlab(slab_class);
    std::copy(bytes.begin(), bytes.end(), slab.data() + offset);
    return BufferSlice(std::move(slab), offset, bytes.size());
  }

  SeededRandom random_;
  SlabPool pool_;
};

TEST_F(BufferChainTest, EmptyChainCostsNothing) {
  BufferChain chain;
  EXPECT_TRUE(chain.empty());
  EXPECT_EQ(chain.true_size(), 0U);
  EXPECT_TRUE(chain.PopFront().empty());
  chain.Consume(10);
  chain.Trim(10);
  EXPECT_TRUE(chain.Split(5).empty());
  EXPECT_TRUE(chain.Slice(0, 5).empty());
  chain.Append(BufferSlice());
  EXPECT_EQ(chain.size(), 0U);
  EXPECT_EQ(sizeof(BufferChain), 24U);
}

TEST_F(BufferChainTest, SliceCutsItsRange) {
  const BufferSlice slice = MakeSlice({1, 2, 3, 4, 5}, 7);
  EXPECT_EQ(Content(slice.Part(1, 3)), (Bytes{2, 3, 4}));
  EXPECT_EQ(Content(slice.Part(3, 100)), (Bytes{4, 5}));
  EXPECT_TRUE(slice.Part(100, 1).empty());
  BufferSlice cut = slice;
  cut.RemovePrefix(2);
  cut.RemoveSuffix(1);
  EXPECT_EQ(Content(cut), (Bytes{3, 4}));
  EXPECT_EQ(cut.offset(), 9U);
  cut.RemovePrefix(9);
  EXPECT_TRUE(cut.empty());
  BufferSlice moved = std::move(cut);
  EXPECT_TRUE(cut.bytes().empty());  // NOLINT: empty by contract
}

TEST_F(BufferChainTest, SmallWritesFillOneSlab) {
  BufferChain chain;
  Bytes expected;
  for (int i = 0; i < 100; ++i) {
    const Bytes bytes = RandomBytes(20);
    ASSERT_EQ(chain.AppendCopy(pool_, bytes), 20U);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(Content(chain), expected);
  EXPECT_EQ(chain.slice_count(), 1U);
  EXPECT_EQ(pool_.stats().slabs_in_use(), 1U);
  EXPECT_EQ(chain.true_size(), 2048 + sizeof(internal::SliceNode));
}

TEST_F(BufferChainTest, LargeWriteTakesLargeSlabs) {
  BufferChain chain;
  const Bytes bytes = RandomBytes(100000);
  ASSERT_EQ(chain.AppendCopy(pool_, bytes), bytes.size());
  EXPECT_EQ(Content(chain), bytes);
  EXPECT_EQ(chain.slice_count(), 7U);  // ceil(100000 / 16384)
}

TEST_F(BufferChainTest, ManyMediumWritesEndUpInLargeSlabs) {
  BufferChain chain;
  for (int i = 0; i < 128; ++i) {
    ASSERT_EQ(chain.AppendCopy(pool_, RandomBytes(1024)), 1024U);
  }
  EXPECT_LE(chain.slice_count(), 2U + 8U);  // 4 KiB in small slabs, 124 KiB in large ones
}

TEST_F(BufferChainTest, TinySharedSlicesDoNotPinTheirSlabs) {
  BufferChain chain;
  Bytes expected;
  for (int i = 0; i < 200; ++i) {
    const Bytes bytes = RandomBytes(10);
    BufferSlice slice = MakeSlice(bytes, 300);
    BufferSlice other_holder = slice;  // so that it may not be appended to in place
    chain.Append(std::move(slice));
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(Content(chain), expected);
  EXPECT_LE(chain.slice_count(), 2U);
  EXPECT_LE(chain.true_size(), 40000U);
}

TEST_F(BufferChainTest, AdjacentSlicesThatFitInOneSlabAreTogether) {
  BufferChain chain;
  Bytes expected;
  for (int i = 0; i < 300; ++i) {
    const Bytes bytes = RandomBytes(1 + random_.Uniform(1200));
    chain.Append(MakeSlice(bytes, 250, SlabClass::kSmall));
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(Content(chain), expected);
  size_t previous = kSmallSlabBytes;
  chain.ForEachSlice(0, chain.size(), [&](const BufferSlice& slice) {
    EXPECT_GT(previous + slice.size(), kSmallSlabBytes);
    previous = slice.size();
  });
}

TEST_F(BufferChainTest, FullSegmentsAreNotCopied) {
  BufferChain chain;
  BufferSlice a = MakeSlice(RandomBytes(1448), 250, SlabClass::kSmall);
  BufferSlice b = MakeSlice(RandomBytes(1448), 250, SlabClass::kSmall);
  const uint8_t* b_data = b.bytes().data();
  chain.Append(std::move(a));
  chain.Append(std::move(b));
  EXPECT_EQ(chain.slice_count(), 2U);
  chain.PopFront();
  EXPECT_EQ(chain.front().bytes().data(), b_data);
}

TEST_F(BufferChainTest, SlicesOfOneRangeBecomeOne) {
  const Bytes bytes = RandomBytes(10000);
  const BufferSlice whole = MakeSlice(bytes);
  BufferChain chain;
  chain.Append(whole.Part(0, 4000));
  chain.Append(whole.Part(4000, 3000));
  chain.Append(whole.Part(7000, 3000));
  EXPECT_EQ(chain.slice_count(), 1U);
  EXPECT_EQ(Content(chain), bytes);
}

TEST_F(BufferChainTest, AppendInPlaceNeverOverwritesAnotherHolder) {
  const BufferSlice whole = MakeSlice(RandomBytes(100));
  BufferChain a, b;
  a.Append(whole.Part(0, 100));
  b.Append(whole.Part(0, 100));
  BufferChain front;
  front.Append(whole.Part(0, 50));
  const Bytes original = Content(whole);
  ASSERT_EQ(front.AppendCopy(pool_, Bytes(30, 0xcc)), 30U);
  ASSERT_EQ(a.AppendCopy(pool_, Bytes(30, 0xaa)), 30U);
  ASSERT_EQ(b.AppendCopy(pool_, Bytes(30, 0xbb)), 30U);
  EXPECT_EQ(Content(whole), original);
  EXPECT_EQ(Content(a)[129], 0xaa);
  EXPECT_EQ(Content(b)[129], 0xbb);
  EXPECT_EQ(Content(front)[79], 0xcc);
}

TEST_F(BufferChainTest, ForeignMemoryIsNotWritten) {
  Bytes memory(4000, 5);
  BufferChain chain;
  chain.Append(BufferSlice(pool_.WrapForeign(memory, nullptr, nullptr), 0, 3000));
  ASSERT_EQ(chain.AppendCopy(pool_, Bytes(100, 6)), 100U);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 5), 4000);
  EXPECT_EQ(chain.size(), 3100U);
}

TEST_F(BufferChainTest, PacketPayloadIsTakenWithoutItsHeaders) {
  const Bytes frame = RandomBytes(40000);
  PacketPtr packet = PacketFromBytes(pool_, frame);
  ASSERT_TRUE(packet->Pull(54));
  BufferChain chain;
  chain.AppendPacket(std::move(packet), 10, 39000);
  EXPECT_EQ(pool_.stats().packets_in_use, 0U);
  EXPECT_EQ(Content(chain), Bytes(frame.begin() + 64, frame.begin() + 39064));
  packet = PacketFromBytes(pool_, frame);
  chain.Clear();
  chain.AppendPacket(std::move(packet), 39990, 500);
  EXPECT_EQ(Content(chain), Bytes(frame.begin() + 39990, frame.end()));
}

TEST_F(BufferChainTest, OneByteSegmentsShareTheFirstHead) {
  BufferChain chain;
  for (int i = 0; i < 1000; ++i) {
    PacketPtr packet = PacketFromBytes(pool_, RandomBytes(55));
    chain.AppendPacket(std::move(packet), 54, 1);
  }
  EXPECT_EQ(chain.size(), 1000U);
  EXPECT_EQ(pool_.stats().slabs_in_use(), 1U);
}

TEST_F(BufferChainTest, ExhaustedPoolTakesWhatFits) {
  SlabPool pool({.budget_bytes = 20 * 1024});
  BufferChain chain;
  const Bytes bytes = RandomBytes(30000);
  const size_t taken = chain.AppendCopy(pool, bytes);
  EXPECT_GE(taken, 16384U);
  EXPECT_LT(taken, bytes.size());
  EXPECT_EQ(Content(chain), Bytes(bytes.begin(), bytes.begin() + static_cast<int>(taken)));
  EXPECT_EQ(chain.AppendCopy(pool, bytes), 0U);
  EXPECT_GT(pool.stats().failures(), 0U);
  chain.Consume(taken);
  EXPECT_EQ(pool.stats().slabs_in_use(), 0U);
  for (const size_t budget : {size_t{0}, size_t{1}}) {
    SlabPool nothing({.budget_bytes = budget});
    EXPECT_EQ(chain.AppendCopy(nothing, bytes), 0U);
  }
}

TEST_F(BufferChainTest, MergeThatFindsNoMemoryKeepsTheSlicesApart) {
  SlabPool pool({.budget_bytes = 6 * 1024});
  SlabRef a = pool.AllocateSlab(SlabClass::kSmall);
  SlabRef b = pool.AllocateSlab(SlabClass::kSmall);
  SlabRef hog = pool.AllocateSlab(SlabClass::kSmall);
  std::fill_n(a.data(), 2048, uint8_t{1});
  std::fill_n(b.data(), 2048, uint8_t{2});
  BufferChain chain;
  chain.Append(BufferSlice(a, 2040, 8));
  chain.Append(BufferSlice(b, 2040, 8));
  EXPECT_EQ(chain.slice_count(), 2U);
  EXPECT_EQ(Content(chain), (Bytes{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}));
}

// Chains against vectors.
class BufferChainModelTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  struct Pair {
    BufferChain chain;
    Bytes bytes;
  };

  BufferChainModelTest() : random_(GetParam()), pool_({.budget_bytes = 600 * 1024}), pairs_(4) {}

  size_t UpTo(size_t n) { return random_.Uniform(static_cast<uint32_t>(n + 1)); }

  Bytes RandomBytes(size_t limit) {
    Bytes bytes(UpTo(random_.Uniform(3) == 0 ? limit : limit / 50));
    random_.Fill(bytes);
    return bytes;
  }

  void AppendTo(Pair& pair) {
    Bytes added = RandomBytes(10000);
    switch (random_.Uniform(3)) {
      case 0:
        added.resize(pair.chain.AppendCopy(pool_, added));
        break;
      case 1: {
        SlabRef slab = pool_.AllocateSlabFor(added.size() + 50);
        if (!slab) {
          return;
        }
        std::copy(added.begin(), added.end(), slab.data() + 50);
        pair.chain.Append(BufferSlice(std::move(slab), 50, added.size()));
        break;
      }
      default: {
        PacketPtr packet = PacketFromBytes(pool_, added);
        if (packet == nullptr) {
          return;
        }
        const size_t from = UpTo(added.size());
        const size_t n = UpTo(added.size() - from + 5);
        pair.chain.AppendPacket(std::move(packet), from, n);
        added.erase(added.begin(), added.begin() + static_cast<std::ptrdiff_t>(from));
        added.resize(std::min(added.size(), n));
      }
    }
    pair.bytes.insert(pair.bytes.end(), added.begin(), added.end());
  }

  void RemoveFrom(Pair& pair) {
    Bytes& bytes = pair.bytes;
    switch (random_.Uniform(4)) {
      case 0: {
        const size_t n = UpTo(bytes.size() + 2);
        pair.chain.Consume(n);
        bytes.erase(bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(std::min(n, bytes.size())));
        return;
      }
      case 1: {
        const size_t n = UpTo(bytes.size() + 2);
        pair.chain.Trim(n);
        bytes.resize(std::min(n, bytes.size()));
        return;
      }
      case 2: {
        const BufferSlice slice = pair.chain.PopFront();
        ASSERT_TRUE(std::equal(slice.bytes().begin(), slice.bytes().end(), bytes.begin()));
        bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(slice.size()));
        return;
      }
      default: {
        const size_t n = UpTo(bytes.size() + 2);
        Pair front{pair.chain.Split(n), {}};
        front.bytes.assign(bytes.begin(),
                           bytes.begin() + static_cast<std::ptrdiff_t>(std::min(n, bytes.size())));
        bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(front.bytes.size()));
        Check(front);
        Other(pair) = std::move(front);
      }
    }
  }

  Pair& Other(const Pair& pair) {
    const auto index = static_cast<size_t>(&pair - pairs_.data());
    return pairs_[(index + 1 + random_.Uniform(3)) % pairs_.size()];
  }

  void Combine(Pair& pair) {
    Pair& other = Other(pair);
    if (random_.Uniform(2) == 0) {
      pair.chain.Append(std::move(other.chain));
      pair.bytes.insert(pair.bytes.end(), other.bytes.begin(), other.bytes.end());
      other.bytes.clear();
      return;
    }
    const size_t from = UpTo(pair.bytes.size());
    const size_t n = UpTo(pair.bytes.size() - from);
    other.chain = pair.chain.Slice(from, n);
    other.bytes.assign(pair.bytes.begin() + static_cast<std::ptrdiff_t>(from),
                       pair.bytes.begin() + static_cast<std::ptrdiff_t>(from + n));
  }

  void Check(const Pair& pair) {
    ASSERT_EQ(Content(pair.chain), pair.bytes);
    size_t charged = 0;
    pair.chain.ForEachSlice(0, pair.bytes.size(), [&](const BufferSlice& slice) {
      ASSERT_FALSE(slice.empty());
      charged += slice.slab().capacity() + sizeof(internal::SliceNode);
    });
    ASSERT_EQ(pair.chain.true_size(), charged);
  }

  SeededRandom random_;
  SlabPool pool_;
  std::vector<Pair> pairs_;
};

TEST_P(BufferChainModelTest, RandomOperationsAgreeWithVectors) {
  for (int i = 0; i < 6000 && !HasFatalFailure(); ++i) {
    Pair& pair = pairs_[random_.Uniform(4)];
    switch (random_.Uniform(7)) {
      case 0:
        Combine(pair);
        break;
      case 1:
      case 2:
      case 3:
        RemoveFrom(pair);
        break;
      default:
        AppendTo(pair);
    }
    for (const Pair& each : pairs_) {
      Check(each);
    }
  }
  pairs_.clear();
  EXPECT_EQ(pool_.stats().slabs_in_use(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BufferChainModelTest, ::testing::Range<uint64_t>(1, 4));

}  // namespace
}  // namespace tapwire
