// SPDX-License-Identifier: Apache-2.0
//
// Random operations on packets against a plain vector of bytes, with a pool that runs out now and
// then. Fragment borders, slab classes and sharing must never show in the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "netdev/base/seeded_random.h"
#include "netdev/packet/packet.h"
#include "netdev/packet/packet_list.h"

namespace tapwire {
namespace {

using Bytes = std::vector<uint8_t>;

class PacketModelTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  // A packet, what must be in it, and the byte that must be found at its layer-3 mark.
  struct Pair {
    PacketPtr packet;
    Bytes bytes;
    int32_t l3 = 0;
    std::optional<uint8_t> byte_at_l3 = std::nullopt;
    uint32_t tag = 0;
  };

  PacketModelTest() : random_(GetParam()), pool_({.budget_bytes = 400 * 1024}) {}

  Bytes RandomBytes(size_t n) {
    Bytes bytes(n);
    random_.Fill(bytes);
    return bytes;
  }

  size_t RandomSize() {
    switch (random_.Uniform(4)) {
      case 0:
        return random_.Uniform(10);
      case 1:
        return random_.Uniform(2500);
      case 2:
        return random_.Uniform(100);
      default:
        return random_.Uniform(20) == 0 ? random_.Uniform(40000) : random_.Uniform(500);
    }
  }

  size_t UpTo(size_t n) { return random_.Uniform(static_cast<uint32_t>(n + 1)); }

  void Create() {
    Bytes bytes = RandomBytes(RandomSize());
    PacketPtr packet = PacketFromBytes(pool_, bytes);
    if (packet == nullptr) {
      pairs_.clear();
      return;
    }
    pairs_.push_back({std::move(packet), std::move(bytes)});
    Mark(pairs_.back());
  }

  void Mark(Pair& pair) {
    pair.tag = pair.packet->meta.flow_hash = random_.Next32();
    pair.packet->set_l3_here();
    pair.l3 = 0;
    pair.byte_at_l3.reset();
    if (pair.packet->head_length() > 0) {
      pair.byte_at_l3 = pair.bytes[0];
    }
  }

  void Check(const Pair& pair) {
    const Packet& packet = *pair.packet;
    ASSERT_EQ(packet.length(), pair.bytes.size());
    Bytes content;
    packet.ForEachSpan([&](std::span<const uint8_t> part) {
      EXPECT_FALSE(part.empty());
      content.insert(content.end(), part.begin(), part.end());
    });
    ASSERT_EQ(content, pair.bytes);
    ASSERT_EQ(packet.meta.flow_hash, pair.tag);
    if (packet.has_l3()) {
      ASSERT_EQ(packet.l3_in_data(), pair.l3);
      if (pair.byte_at_l3 && !packet.l3_bytes().empty()) {
        ASSERT_EQ(packet.l3_bytes()[0], *pair.byte_at_l3);
      }
    }
  }

  void ChangeFront(Pair& pair) {
    Packet& packet = *pair.packet;
    Bytes& bytes = pair.bytes;
    if (random_.Uniform(3) == 0) {
      const size_t n = UpTo(std::min<size_t>(packet.headroom(), 60));
      const Bytes added = RandomBytes(n);
      const std::span<uint8_t> pushed = packet.Push(n);
      std::copy(added.begin(), added.end(), pushed.begin());
      bytes.insert(bytes.begin(), added.begin(), added.end());
      if (pair.l3 < 0) {
        pair.byte_at_l3.reset();  // overwritten, perhaps
      }
      pair.l3 += static_cast<int32_t>(n);
      return;
    }
    const size_t n = UpTo(std::min<size_t>(bytes.size() + 5, 3000));
    size_t removed = 0;
    if (random_.Uniform(2) == 0) {
      const auto pulled = packet.Pull(n);
      if (pulled.has_value()) {
        ASSERT_EQ(pulled->size(), n);
        ASSERT_TRUE(std::equal(pulled->begin(), pulled->end(), bytes.begin()));
        removed = n;
      } else {
        EXPECT_TRUE(n > bytes.size() || pool_.stats().failures() > 0);
      }
      pair.l3 -= static_cast<int32_t>(removed);
    } else {
      const size_t head = packet.head_length();
      packet.TrimFront(n);
      removed = std::min(n, bytes.size());
      pair.l3 -= static_cast<int32_t>(std::min(head, removed));
    }
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(removed));
  }

  void ChangeBack(Pair& pair) {
    Packet& packet = *pair.packet;
    Bytes& bytes = pair.bytes;
    const Bytes added = RandomBytes(RandomSize());
    bool done = true;
    switch (random_.Uniform(4)) {
      case 0: {
        const size_t n = UpTo(bytes.size() + 3);
        packet.Trim(n);
        bytes.resize(std::min(n, bytes.size()));
        if (pair.l3 >= static_cast<int32_t>(bytes.size())) {
          pair.byte_at_l3.reset();  // cut off
        }
        return;
      }
      case 1: {
        SlabRef slab = pool_.AllocateSlabFor(added.size() + 10);
        if (!slab) {
          return;
        }
        std::copy(added.begin(), added.end(), slab.data() + 10);
        done = packet.AddFrag(std::move(slab), 10, added.size());
        break;
      }
      case 2: {
        if (packet.tailroom() < added.size()) {
          return;
        }
        const std::span<uint8_t> put = packet.Put(added.size());
        std::copy(added.begin(), added.end(), put.begin());
        break;
      }
      default:
        done = packet.AppendBytes(added);
    }
    if (done) {
      bytes.insert(bytes.end(), added.begin(), added.end());
    }
  }

  void Reshape(Pair& pair) {
    Packet& packet = *pair.packet;
    switch (random_.Uniform(4)) {
      case 0: {
        const size_t n = UpTo(pair.bytes.size());
        if (packet.EnsureLinear(n)) {
          ASSERT_GE(packet.head_length(), n);
        }
        break;
      }
      case 1:
        if (packet.Linearize()) {
          ASSERT_TRUE(packet.is_linear());
        }
        break;
      case 2: {
        const size_t n = UpTo(1000);
        if (packet.EnsureHeadroom(n)) {
          ASSERT_GE(packet.headroom(), n);
        }
        break;
      }
      default:
        Mark(pair);
    }
  }

  void Copy(Pair& pair) {
    const Packet& packet = *pair.packet;
    Pair copy{nullptr, pair.bytes, pair.l3, pair.byte_at_l3, pair.tag};
    switch (random_.Uniform(3)) {
      case 0:
        copy.packet = packet.Clone();
        break;
      case 1:
        copy.packet = packet.CopyDeep();
        break;
      default: {
        const size_t from = UpTo(pair.bytes.size());
        const size_t n = UpTo(pair.bytes.size() - from);
        copy.packet = packet.Slice(from, n, UpTo(300));
        copy.bytes.assign(pair.bytes.begin() + static_cast<std::ptrdiff_t>(from),
                          pair.bytes.begin() + static_cast<std::ptrdiff_t>(from + n));
        copy.l3 -= static_cast<int32_t>(from);
      }
    }
    if (copy.packet != nullptr) {
      Check(copy);
      pairs_.push_back(std::move(copy));
    }
  }

  void Join(Pair& pair) {
    Pair& other = pairs_[random_.Uniform(static_cast<uint32_t>(pairs_.size()))];
    if (&other == &pair) {
      return;
    }
    if (pair.packet->AppendPacket(other.packet)) {
      ASSERT_EQ(other.packet, nullptr);
      pair.bytes.insert(pair.bytes.end(), other.bytes.begin(), other.bytes.end());
      std::erase_if(pairs_, [](const Pair& p) { return p.packet == nullptr; });
    }
  }

  void Step() {
    if (pairs_.empty() || random_.Uniform(10) == 0) {
      Create();
      return;
    }
    Pair& pair = pairs_[random_.Uniform(static_cast<uint32_t>(pairs_.size()))];
    switch (random_.Uniform(12)) {
      case 0:
        Copy(pair);
        return;
      case 1:
        Join(pair);
        return;
      case 2:
        std::swap(pair, pairs_.back());
        pairs_.pop_back();
        return;
      case 3:
      case 4:
        Reshape(pair);
        break;
      case 5:
      case 6:
      case 7:
        ChangeFront(pair);
        break;
      default:
        ChangeBack(pair);
    }
    Check(pair);
  }

  SeededRandom random_;
  SlabPool pool_;
  std::vector<Pair> pairs_;
};

TEST_P(PacketModelTest, RandomOperationsAgreeWithAVector) {
  for (int i = 0; i < 8000 && !HasFatalFailure(); ++i) {
    Step();
    if (i % 50 == 0) {
      for (const Pair& pair : pairs_) {
        Check(pair);  // no operation on one packet shows in another
      }
    }
  }
  EXPECT_GT(pool_.stats().failures(), 0U) << "the budget was never reached";
  pairs_.clear();
  EXPECT_EQ(pool_.stats().slabs_in_use(), 0U);
  EXPECT_EQ(pool_.stats().packets_in_use, 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PacketModelTest, ::testing::Range<uint64_t>(1, 6));

TEST(PacketListTest, FirstInFirstOut) {
  SlabPool pool;
  PacketList list;
  EXPECT_EQ(list.PopFront(), nullptr);
  EXPECT_EQ(list.front(), nullptr);
  for (uint32_t i = 1; i <= 3; ++i) {
    PacketPtr packet = pool.AllocatePacket(10);
    packet->meta.flow_hash = i;
    list.PushBack(std::move(packet));
  }
  PacketPtr first = pool.AllocatePacket(10);
  list.PushFront(std::move(first));
  EXPECT_EQ(list.size(), 4U);
  std::vector<uint32_t> hashes;
  for (const Packet& packet : list) {
    hashes.push_back(packet.meta.flow_hash);
  }
  EXPECT_EQ(hashes, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(list.PopFront()->meta.flow_hash, 0U);
  EXPECT_EQ(list.PopFront()->meta.flow_hash, 1U);
  EXPECT_EQ(list.front()->meta.flow_hash, 2U);
}

TEST(PacketListTest, SpliceAndMoveTransferAll) {
  SlabPool pool;
  PacketList a, b;
  a.Splice(std::move(b));
  EXPECT_TRUE(a.empty());
  b.PushBack(pool.AllocatePacket(1));
  b.PushBack(pool.AllocatePacket(1));
  a.Splice(std::move(b));
  EXPECT_EQ(a.size(), 2U);
  EXPECT_TRUE(b.empty());  // NOLINT: empty by contract
  b.PushBack(pool.AllocatePacket(1));
  a.Splice(std::move(b));
  EXPECT_EQ(a.size(), 3U);
  PacketList c = std::move(a);
  EXPECT_EQ(c.size(), 3U);
  b.PushBack(pool.AllocatePacket(1));
  b = std::move(c);
  EXPECT_EQ(b.size(), 3U);
  EXPECT_EQ(pool.stats().packets_in_use, 3U);
  b.PushBack(pool.AllocatePacket(1));  // the tail is right after the moves
  EXPECT_EQ(b.size(), 4U);
  b.Clear();
  EXPECT_EQ(pool.stats().packets_in_use, 0U);
}

}  // namespace
}  // namespace tapwire
