// SPDX-License-Identifier: Apache-2.0
#include "netdev/packet/slab_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "netdev/packet/chunk_source.h"
#include "netdev/packet/packet.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace tapwire {
namespace {

constexpr size_t kKiB = 1024;

// Refuses after a number of chunks.
class LimitedSource : public AnonymousChunkSource {
 public:
  explicit LimitedSource(int chunks) : left_(chunks) {}
  std::span<uint8_t> Allocate(size_t size) override {
    return left_-- > 0 ? AnonymousChunkSource::Allocate(size) : std::span<uint8_t>();
  }

 private:
  int left_;
};

std::vector<SlabRef> TakeAll(SlabPool& pool, SlabClass slab_class) {
  std::vector<SlabRef> slabs;
  while (SlabRef slab = pool.AllocateSlab(slab_class)) {
    slabs.push_back(std::move(slab));
  }
  return slabs;
}

// 64 large slabs: 48 are three quarters, 56 seven eighths, 60 fifteen sixteenths.
TEST(SlabPoolTest, TellsHowFullItIs) {
  SlabPool pool({.budget_bytes = 64 * 16 * kKiB});
  std::vector<SlabRef> slabs;
  const auto fill_to = [&](size_t count) {
    while (slabs.size() < count) slabs.push_back(pool.AllocateSlab(SlabClass::kLarge));
    slabs.resize(count);
    return std::vector<bool>{pool.is_tight(), pool.is_nearly_full(), pool.is_full()};
  };
  EXPECT_EQ(fill_to(48), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(pool.in_use_bytes(), 48 * 16 * kKiB);
  EXPECT_EQ(fill_to(49), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(fill_to(57), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(fill_to(61), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(fill_to(10), (std::vector<bool>{false, false, false}));
}

TEST(SlabPoolTest, SlabsHaveTheirSizeAndDoNotOverlap) {
  SlabPool pool;
  for (const auto& [slab_class, size] :
       {std::pair(SlabClass::kSmall, 2 * kKiB), std::pair(SlabClass::kLarge, 16 * kKiB),
        std::pair(SlabClass::kJumbo, 72 * kKiB)}) {
    std::vector<SlabRef> slabs;
    for (int i = 0; i < 40; ++i) {  // the jumbo class needs a second chunk for that
      slabs.push_back(pool.AllocateSlab(slab_class));
      ASSERT_EQ(slabs.back().capacity(), size);
      std::memset(slabs.back().data(), i, size);
    }
    for (size_t i = 0; i < slabs.size(); ++i) {
      const auto bytes = slabs[i].bytes();
      EXPECT_EQ(std::count(bytes.begin(), bytes.end(), static_cast<uint8_t>(i)),
                static_cast<std::ptrdiff_t>(size));
    }
  }
  EXPECT_EQ(pool.stats().slabs_in_use(), 0U);
  EXPECT_EQ(pool.stats()[SlabClass::kLarge].high_water, 40U);
  EXPECT_EQ(pool.stats().jumbo_allocations, 40U);
}

TEST(SlabPoolTest, LastFreedIsFirstUsed) {
  SlabPool pool;
  SlabRef a = pool.AllocateSlab(SlabClass::kSmall);
  SlabRef b = pool.AllocateSlab(SlabClass::kSmall);
  const uint8_t* a_data = a.data();
  const uint8_t* b_data = b.data();
  b.reset();
  a.reset();
  EXPECT_EQ(pool.AllocateSlab(SlabClass::kSmall).data(), a_data);
  a = pool.AllocateSlab(SlabClass::kSmall);
  EXPECT_EQ(pool.AllocateSlab(SlabClass::kSmall).data(), b_data);
}

TEST(SlabPoolTest, FreedMemoryIsGuarded) {
  SlabPool pool;
  SlabRef slab = pool.AllocateSlab(SlabClass::kSmall);
  [[maybe_unused]] const uint8_t* data = slab.data();
  std::memset(slab.data(), 1, slab.capacity());
  slab.reset();
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_TRUE(__asan_address_is_poisoned(data));
  EXPECT_TRUE(__asan_address_is_poisoned(data + 2047));
#elif !defined(NDEBUG)
  EXPECT_EQ(data[0], 0xdb);
  EXPECT_EQ(data[2047], 0xdb);
#else
  GTEST_SKIP() << "release builds do not guard free memory";
#endif
}

TEST(SlabPoolTest, ReferencesAreCounted) {
  SlabPool pool;
  SlabRef a = pool.AllocateSlab(SlabClass::kSmall);
  EXPECT_TRUE(a.unique());
  SlabRef b = a;
  EXPECT_FALSE(a.unique());
  EXPECT_EQ(a, b);
  SlabRef c = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: moved-from is empty by contract
  const SlabRef& same = b;
  b = same;
  EXPECT_TRUE(b);
  b = std::move(c);
  EXPECT_TRUE(b.unique());
  b.reset();
  EXPECT_EQ(pool.stats().slabs_in_use(), 0U);
}

TEST(SlabPoolTest, AllocateSlabForPicksTheSmallestClass) {
  SlabPool pool;
  EXPECT_EQ(pool.AllocateSlabFor(0).capacity(), 2 * kKiB);
  EXPECT_EQ(pool.AllocateSlabFor(2 * kKiB).capacity(), 2 * kKiB);
  EXPECT_EQ(pool.AllocateSlabFor(2 * kKiB + 1).capacity(), 16 * kKiB);
  EXPECT_EQ(pool.AllocateSlabFor(16 * kKiB + 1).capacity(), 72 * kKiB);
  EXPECT_FALSE(pool.AllocateSlabFor(72 * kKiB + 1));
  EXPECT_EQ(pool.stats().oversize_requests, 1U);
}

TEST(SlabPoolTest, BudgetOfZeroOrOneGivesNothing) {
  for (const size_t budget : {size_t{0}, size_t{1}, 2 * kKiB - 1}) {
    SlabPool pool({.budget_bytes = budget});
    EXPECT_FALSE(pool.AllocateSlab(SlabClass::kSmall));
    EXPECT_FALSE(pool.AllocateSlab(SlabClass::kLarge));
    EXPECT_EQ(pool.AllocatePacket(100), nullptr);
    EXPECT_EQ(PacketFromBytes(pool, std::vector<uint8_t>(60)), nullptr);
    EXPECT_EQ(pool.stats()[SlabClass::kSmall].failures, 3U);
    EXPECT_EQ(pool.stats()[SlabClass::kLarge].failures, 1U);
    EXPECT_EQ(pool.stats().chunk_bytes, 0U);
  }
}

TEST(SlabPoolTest, SmallBudgetIsUsedInFullAndNotExceeded) {
  SlabPool pool({.budget_bytes = 10 * kKiB});
  EXPECT_EQ(TakeAll(pool, SlabClass::kSmall).size(), 5U);
  EXPECT_EQ(pool.stats()[SlabClass::kSmall].failures, 1U);
  EXPECT_LE(pool.stats().chunk_bytes, 10 * kKiB);
  EXPECT_EQ(TakeAll(pool, SlabClass::kSmall).size(), 5U);
  EXPECT_FALSE(pool.AllocateSlab(SlabClass::kLarge));
}

TEST(SlabPoolTest, OneClassDoesNotTakeASmallBudgetAtOnce) {
  SlabPool pool({.budget_bytes = 256 * kKiB});
  SlabRef small = pool.AllocateSlab(SlabClass::kSmall);
  EXPECT_GE(TakeAll(pool, SlabClass::kLarge).size(), 14U);
}

TEST(SlabPoolTest, IdleChunksChangeTheirClass) {
  // Without that, a burst of small packets would keep all memory from payload for ever.
  SlabPool pool({.budget_bytes = size_t{8} << 20});
  EXPECT_EQ(TakeAll(pool, SlabClass::kSmall).size(), 4096U);
  EXPECT_EQ(TakeAll(pool, SlabClass::kLarge).size(), 512U);
  {
    const std::vector<SlabRef> small = TakeAll(pool, SlabClass::kSmall);
    ASSERT_EQ(small.size(), 4096U);
    std::set<const uint8_t*> addresses;
    for (const SlabRef& slab : small) {
      addresses.insert(slab.data());
      std::memset(slab.data(), 1, slab.capacity());
    }
    EXPECT_EQ(addresses.size(), small.size());
    EXPECT_FALSE(pool.AllocateSlab(SlabClass::kLarge));
  }
  SlabRef pinned = pool.AllocateSlab(SlabClass::kSmall);
  EXPECT_LT(TakeAll(pool, SlabClass::kLarge).size(), 512U);
  EXPECT_EQ(pool.stats().chunk_bytes, size_t{8} << 20);
}

TEST(SlabPoolTest, RefusalOfTheChunkSourceIsAFailure) {
  LimitedSource source(1);
  SlabPool pool({.budget_bytes = size_t{64} << 20, .chunk_source = &source});
  EXPECT_EQ(TakeAll(pool, SlabClass::kLarge).size(), 128U);
  EXPECT_EQ(pool.stats()[SlabClass::kLarge].failures, 1U);
}

TEST(SlabPoolTest, ForeignMemoryIsGivenBackOnce) {
  SlabPool pool;
  std::vector<uint8_t> memory(5000, 9);
  int released = 0;
  const auto release = [](Slab& slab, void* argument) {
    EXPECT_EQ(slab.data[0], 9);
    ++*static_cast<int*>(argument);
  };
  SlabRef slab = pool.WrapForeign(memory, release, &released);
  EXPECT_EQ(slab.capacity(), 5000U);
  EXPECT_EQ(pool.stats().foreign_in_use, 1U);
  PacketPtr packet = pool.AllocatePacket(100);
  ASSERT_TRUE(packet->AddFrag(slab, 0, 5000));
  slab.reset();
  EXPECT_EQ(released, 0);
  packet.reset();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(pool.stats().foreign_in_use, 0U);
  pool.WrapForeign(memory, nullptr, nullptr);
  EXPECT_EQ(pool.stats().slabs_in_use(), 0U);
}

TEST(SlabPoolTest, ObserversSeeEveryChunkBeforeItsSlabs) {
  MemfdChunkSource source;
  SlabPool pool({.budget_bytes = size_t{64} << 20, .chunk_source = &source});
  std::vector<ChunkInfo> seen;
  const int handle = pool.AddChunkObserver([&](const ChunkInfo& chunk) { seen.push_back(chunk); });
  SlabRef small = pool.AllocateSlab(SlabClass::kSmall);
  SlabRef large = pool.AllocateSlab(SlabClass::kLarge);
  ASSERT_EQ(seen.size(), 2U);
  ASSERT_EQ(pool.chunk_count(), 2U);
  const ChunkInfo chunk = pool.chunk(large->chunk_id);
  EXPECT_GE(large.data(), chunk.bytes.data());
  EXPECT_LE(large.data() + large.capacity(), chunk.bytes.data() + chunk.bytes.size());
  EXPECT_EQ(chunk.file.fd, source.fd());
  EXPECT_NE(seen[0].file.offset, seen[1].file.offset);
  pool.RemoveChunkObserver(handle);
  SlabRef jumbo = pool.AllocateSlab(SlabClass::kJumbo);
  EXPECT_EQ(seen.size(), 2U);
}

TEST(SlabPoolTest, PacketsAreCounted) {
  SlabPool pool;
  std::vector<PacketPtr> packets;
  for (int i = 0; i < 200; ++i) {
    packets.push_back(pool.AllocatePacket(1500));
    ASSERT_NE(packets.back(), nullptr);
  }
  EXPECT_EQ(pool.stats().packets_in_use, 200U);
  packets.clear();
  EXPECT_EQ(pool.stats().packets_in_use, 0U);
  EXPECT_EQ(pool.stats().packets_high_water, 200U);
  EXPECT_EQ(pool.stats().slabs_in_use(), 0U);
}

TEST(SlabPoolTest, PacketTakesTheSlabThatFits) {
  SlabPool pool;
  EXPECT_EQ(pool.AllocatePacket(2048 - 192)->head_slab().capacity(), 2 * kKiB);
  EXPECT_EQ(pool.AllocatePacket(2048 - 192 + 1)->head_slab().capacity(), 16 * kKiB);
  EXPECT_EQ(pool.AllocatePacket(65549)->head_slab().capacity(), 72 * kKiB);
  EXPECT_EQ(pool.AllocatePacket(0, 0)->headroom(), 0U);
  EXPECT_EQ(pool.AllocatePacket(72 * kKiB), nullptr);
  EXPECT_EQ(pool.AllocatePacket(SIZE_MAX), nullptr);
  EXPECT_EQ(pool.AllocatePacket(1, SIZE_MAX), nullptr);
}

TEST(SlabPoolDeathTest, LeakIsFatal) {
  EXPECT_DEATH(
      {
        SlabRef slab;
        SlabPool pool;
        slab = pool.AllocateSlab(SlabClass::kSmall);
        pool.~SlabPool();
      },
      "slabs outlive their pool");
}

#ifndef NDEBUG
TEST(SlabPoolDeathTest, SecondThreadIsFatalInDebugBuilds) {
  SlabPool pool;
  pool.AllocateSlab(SlabClass::kSmall);
  EXPECT_DEATH(std::thread([&] { pool.AllocateSlab(SlabClass::kSmall); }).join(),
               "used from two threads");
  pool.DetachFromThread();
  std::thread([&] { pool.AllocateSlab(SlabClass::kSmall); }).join();
}
#endif

TEST(ChunkSourceTest, AnonymousMemoryIsZeroAndPrivate) {
  AnonymousChunkSource source;
  const std::span<uint8_t> chunk = source.Allocate(10000);
  ASSERT_EQ(chunk.size(), 10000U);
  EXPECT_EQ(std::count(chunk.begin(), chunk.end(), 0), 10000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(chunk.data()) % 4096, 0U);
  EXPECT_EQ(source.FileOf(chunk), std::nullopt);
  source.Free(chunk);
  EXPECT_TRUE(source.Allocate(0).empty());
  EXPECT_TRUE(source.Allocate(SIZE_MAX / 2).empty());
}

TEST(ChunkSourceTest, MemfdMemoryIsSharedThroughItsFile) {
  MemfdChunkSource source;
  ASSERT_GE(source.fd(), 0);
  const std::span<uint8_t> first = source.Allocate(5000);
  const std::span<uint8_t> second = source.Allocate(4096);
  ASSERT_EQ(second.size(), 4096U);
  second[7] = 42;
  const std::optional<ChunkFile> file = source.FileOf(second);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->offset, 8192U);
  uint8_t byte = 0;
  EXPECT_EQ(pread(file->fd, &byte, 1, static_cast<off_t>(file->offset + 7)), 1);
  EXPECT_EQ(byte, 42);
  source.Free(first);
  EXPECT_EQ(source.FileOf(first), std::nullopt);
  EXPECT_EQ(second[7], 42);
  source.Free(second);
  EXPECT_EQ(pread(file->fd, &byte, 1, static_cast<off_t>(file->offset + 7)), 1);
  EXPECT_EQ(byte, 0);  // the hole reads as zero
}

}  // namespace
}  // namespace tapwire
