// SPDX-License-Identifier: Apache-2.0
#include "netdev/packet/packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tapwire {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Pattern(size_t n, uint8_t first = 1) {
  Bytes bytes(n);
  for (size_t i = 0; i < n; ++i) {
    bytes[i] = static_cast<uint8_t>(first + i * 7 + i / 251);
  }
  return bytes;
}

Bytes Content(const Packet& packet) {
  Bytes bytes;
  packet.ForEachSpan(
      [&](std::span<const uint8_t> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

Bytes Part(const Bytes& bytes, size_t from, size_t n) {
  return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(from),
               bytes.begin() + static_cast<std::ptrdiff_t>(from + n));
}

void Fill(std::span<uint8_t> to, const Bytes& from) {
  ASSERT_EQ(to.size(), from.size());
  std::copy(from.begin(), from.end(), to.begin());
}

class PacketTest : public ::testing::Test {
 protected:
  ~PacketTest() override {
    EXPECT_EQ(pool_.stats().packets_in_use, 0U);
    EXPECT_EQ(pool_.stats().slabs_in_use(), 0U);
  }

  // A packet of `head` linear bytes and fragments of the given sizes, filled with Pattern().
  PacketPtr Make(size_t head, const std::vector<size_t>& frags) {
    const size_t total = std::accumulate(frags.begin(), frags.end(), head);
    const Bytes bytes = Pattern(total);
    PacketPtr packet = pool_.AllocatePacket(head);
    Fill(packet->Put(head), Part(bytes, 0, head));
    size_t at = head;
    for (const size_t n : frags) {
      SlabRef slab = pool_.AllocateSlab(SlabClass::kLarge);
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), n, slab.data() + 100);
      EXPECT_TRUE(packet->AddFrag(std::move(slab), 100, n));
      at += n;
    }
    return packet;
  }

  // Uses up the rest of a budget.
  static std::vector<SlabRef> Exhaust(SlabPool& pool) {
    std::vector<SlabRef> slabs;
    for (const SlabClass c : {SlabClass::kJumbo, SlabClass::kLarge, SlabClass::kSmall}) {
      while (SlabRef slab = pool.AllocateSlab(c)) {
        slabs.push_back(std::move(slab));
      }
    }
    return slabs;
  }

  static PacketMeta FullMeta() {
    PacketMeta meta;
    meta.rx_time = Time(std::chrono::seconds(77));
    meta.gso = {GsoType::kTcpv6 | GsoType::kDodgy, 1440, 5};
    meta.flow_hash = 0x12345678;
    meta.rx_device = 3;
    meta.ether_type = 0x86dd;
    meta.csum_offset = 16;
    meta.csum_value = 0xbeef;
    meta.vlan_tci = 0x2005;
    meta.vlan_proto = 0x88a8;
    meta.tx_queue = 2;
    meta.csum_state = CsumState::kUnnecessary;
    meta.csum_level = 1;
    meta.vlan_present = meta.late = meta.link_multicast = meta.encapsulated = true;
    return meta;
  }

  SlabPool pool_;
};

TEST_F(PacketTest, FreshPacketIsEmptyWithHeadroom) {
  PacketPtr packet = pool_.AllocatePacket(100);
  EXPECT_EQ(packet->length(), 0U);
  EXPECT_EQ(packet->headroom(), 192U);
  EXPECT_GE(packet->tailroom(), 100U);
  EXPECT_EQ(packet->meta, PacketMeta());
  EXPECT_FALSE(packet->has_l2() || packet->has_l3() || packet->has_l4());
  EXPECT_EQ(&packet->pool(), &pool_);
}

TEST_F(PacketTest, ReusedPacketRemembersNothing) {
  PacketPtr packet = Make(10, {20, 30});
  packet->meta = FullMeta();
  packet.reset();
  packet = pool_.AllocatePacket(100);
  EXPECT_EQ(packet->meta, PacketMeta());
  EXPECT_EQ(packet->length(), 0U);
  EXPECT_TRUE(packet->is_linear());
}

TEST_F(PacketTest, PushPutAndPullMoveTheEnds) {
  PacketPtr packet = pool_.AllocatePacket(100);
  Fill(packet->Put(4), {5, 6, 7, 8});
  Fill(packet->Push(2), {3, 4});
  Fill(packet->Push(2), {1, 2});
  Fill(packet->Put(1), {9});
  EXPECT_EQ(Content(*packet), (Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  const auto pulled = packet->Pull(3);
  ASSERT_TRUE(pulled.has_value());
  EXPECT_EQ(Bytes(pulled->begin(), pulled->end()), (Bytes{1, 2, 3}));
  EXPECT_EQ(Content(*packet), (Bytes{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(packet->Pull(7), std::nullopt);
  EXPECT_EQ(packet->length(), 6U);
  EXPECT_EQ(packet->Pull(0)->size(), 0U);
  packet->Push(3);  // the same bytes come back
  EXPECT_EQ(packet->head_bytes()[0], 1);
}

TEST_F(PacketTest, PullReachesAcrossFragments) {
  PacketPtr packet = Make(10, {5, 7, 100});
  const Bytes all = Pattern(122);
  const auto pulled = packet->Pull(25);
  ASSERT_TRUE(pulled.has_value());
  EXPECT_EQ(Bytes(pulled->begin(), pulled->end()), Part(all, 0, 25));
  EXPECT_EQ(Content(*packet), Part(all, 25, 97));
  EXPECT_EQ(packet->head_length(), 0U);
  EXPECT_EQ(packet->frag_count(), 1U);
  EXPECT_EQ(packet->Pull(98), std::nullopt);
  EXPECT_EQ(packet->Pull(97)->size(), 97U);
  EXPECT_EQ(packet->length(), 0U);
}

TEST_F(PacketTest, PullThatNeedsALargerHeadKeepsWhatWasPulled) {
  PacketPtr packet = Make(1800, {3000});
  const Bytes all = Pattern(4800);
  packet->set_l2_here();
  ASSERT_TRUE(packet->Pull(14));
  packet->set_l3_here();
  const auto pulled = packet->Pull(3000);
  ASSERT_TRUE(pulled.has_value());
  EXPECT_EQ(Bytes(pulled->begin(), pulled->end()), Part(all, 14, 3000));
  EXPECT_EQ(Bytes(packet->l2_bytes().begin(), packet->l2_bytes().end()), Part(all, 0, 3014));
  EXPECT_EQ(packet->l3_in_data(), -3000);
  EXPECT_EQ(packet->l3_length(), 4786U);
  EXPECT_EQ(Content(*packet), Part(all, 3014, 1786));
}

TEST_F(PacketTest, LayersStayWhereTheyAre) {
  PacketPtr packet = pool_.AllocatePacket(200);
  const Bytes frame = Pattern(64);
  Fill(packet->Put(64), frame);
  packet->set_l2_here();
  packet->set_l3_in_data(14);
  EXPECT_EQ(packet->l3_in_data(), 14);
  ASSERT_TRUE(packet->Pull(14));
  EXPECT_EQ(packet->l3_in_data(), 0);
  packet->set_l4_in_data(20);
  packet->set_csum_start_in_data(20);
  ASSERT_TRUE(packet->Pull(20));
  EXPECT_EQ(packet->l2_in_data(), -34);
  EXPECT_EQ(packet->l4_in_data(), 0);
  EXPECT_EQ(packet->csum_start_in_data(), 0);
  EXPECT_EQ(packet->l2_bytes().size(), 64U);
  EXPECT_EQ(packet->l3_bytes()[0], frame[14]);
  EXPECT_EQ(packet->l3_length(), 50U);
  EXPECT_EQ(packet->l4_length(), 30U);
  packet->Push(34);
  EXPECT_EQ(packet->l4_in_data(), 34);
  packet->Trim(20);
  EXPECT_EQ(packet->l4_bytes().size(), 0U);  // cut off: nothing to read, not out of bounds
  EXPECT_EQ(pool_.AllocatePacket(0)->l3_bytes().size(), 0U);
}

TEST_F(PacketTest, TailroomIsOnlyForLinearPackets) {
  PacketPtr packet = Make(10, {20});
  EXPECT_EQ(packet->tailroom(), 0U);
}

TEST_F(PacketTest, EnsureHeadroomMovesEverything) {
  PacketPtr packet = pool_.AllocatePacket(1000, 0);
  const Bytes all = Pattern(1000);
  Fill(packet->Put(1000), all);
  packet->set_l2_here();
  packet->set_l3_in_data(14);
  ASSERT_TRUE(packet->EnsureHeadroom(100));
  EXPECT_GE(packet->headroom(), 100U);
  EXPECT_EQ(Content(*packet), all);
  EXPECT_EQ(packet->l2_in_data(), 0);
  EXPECT_EQ(packet->l3_in_data(), 14);
  ASSERT_TRUE(packet->EnsureHeadroom(1500));  // needs the next class
  EXPECT_EQ(Content(*packet), all);
  EXPECT_FALSE(packet->EnsureHeadroom(100000));
  EXPECT_EQ(Content(*packet), all);
}

TEST_F(PacketTest, LinearizeUsesTheJumboClassForA64KFrame) {
  PacketPtr packet = Make(66, {16000, 16000, 16000, 16000, 1483});
  const Bytes all = Pattern(65549);
  ASSERT_TRUE(packet->Linearize());
  EXPECT_TRUE(packet->is_linear());
  EXPECT_EQ(Content(*packet), all);
  EXPECT_EQ(pool_.stats().jumbo_allocations, 1U);
  EXPECT_EQ(pool_.stats().slabs_in_use(), 1U);
}

TEST_F(PacketTest, LinearizeBeyondTheLargestClassFails) {
  PacketPtr packet = Make(66, {16000, 16000, 16000, 16000, 16000});
  EXPECT_FALSE(packet->Linearize());
  EXPECT_EQ(Content(*packet), Pattern(80066));
  EXPECT_EQ(pool_.stats().oversize_requests, 1U);
}

TEST_F(PacketTest, EnsureLinearRefusesMoreThanThereIs) {
  PacketPtr packet = Make(10, {20});
  EXPECT_FALSE(packet->EnsureLinear(31));
  ASSERT_TRUE(packet->EnsureLinear(15));
  EXPECT_EQ(packet->head_length(), 15U);
  EXPECT_EQ(packet->frag(0).size(), 15U);
  EXPECT_EQ(Content(*packet), Pattern(30));
}

TEST_F(PacketTest, TrimCutsFragmentsThenHead) {
  const Bytes all = Pattern(100);
  for (size_t n = 0; n <= 101; ++n) {
    PacketPtr packet = Make(40, {30, 10, 20});
    packet->Trim(n);
    ASSERT_EQ(Content(*packet), Part(all, 0, std::min<size_t>(n, 100))) << n;
    ASSERT_EQ(packet->length(), std::min<size_t>(n, 100));
  }
}

TEST_F(PacketTest, TrimFrontCutsHeadThenFragments) {
  const Bytes all = Pattern(100);
  for (size_t n = 0; n <= 101; ++n) {
    PacketPtr packet = Make(40, {30, 10, 20});
    packet->TrimFront(n);
    const size_t cut = std::min<size_t>(n, 100);
    ASSERT_EQ(Content(*packet), Part(all, cut, 100 - cut)) << n;
  }
}

TEST_F(PacketTest, AcceptsSixtyFourFragmentsAndNoMore) {
  PacketPtr packet = pool_.AllocatePacket(100);
  SlabRef slab = pool_.AllocateSlab(SlabClass::kLarge);
  std::fill_n(slab.data(), 16384, uint8_t{0});
  for (size_t i = 0; i < Packet::kMaxFrags; ++i) {
    slab.data()[i * 10] = static_cast<uint8_t>(i);
    ASSERT_TRUE(packet->AddFrag(slab, i * 10, 5)) << i;
  }
  EXPECT_FALSE(packet->AddFrag(slab, 5000, 5));
  EXPECT_TRUE(packet->AddFrag(slab, 5000, 0));  // nothing to add
  EXPECT_TRUE(packet->AddFrag(slab, 635, 5));   // continues the last one
  EXPECT_EQ(packet->frag_count(), 64U);
  EXPECT_EQ(packet->length(), 64U * 5 + 5);
  for (size_t i = 0; i < Packet::kMaxFrags; ++i) {
    EXPECT_EQ(packet->frag(i)[0], i);
  }
  PacketPtr clone = packet->Clone();
  EXPECT_EQ(Content(*clone), Content(*packet));
  ASSERT_TRUE(packet->Pull(5 * 10));  // moves fragments from the overflow to the inline places
  EXPECT_EQ(packet->frag(0)[0], 10);
  EXPECT_EQ(packet->frag(53)[0], 63);
  EXPECT_TRUE(packet->AddFrag(slab, 6000, 5));
}

TEST_F(PacketTest, ContiguousFragmentsBecomeOne) {
  PacketPtr packet = pool_.AllocatePacket(10);
  SlabRef slab = pool_.AllocateSlab(SlabClass::kLarge);
  std::fill_n(slab.data(), 100, uint8_t{1});
  ASSERT_TRUE(packet->AddFrag(slab, 0, 50));
  ASSERT_TRUE(packet->AddFrag(slab, 50, 50));
  EXPECT_EQ(packet->frag_count(), 1U);
  EXPECT_EQ(packet->frag(0).size(), 100U);
}

TEST_F(PacketTest, AppendBytesFillsTailThenSlabs) {
  PacketPtr packet = pool_.AllocatePacket(1000);
  const Bytes all = Pattern(40000);
  size_t at = 0;
  for (const size_t n : {100UL, 3000UL, 17UL, 0UL, 20000UL, 16883UL}) {
    ASSERT_TRUE(packet->AppendBytes(Part(all, at, n)));
    at += n;
  }
  EXPECT_EQ(at, all.size());
  EXPECT_EQ(Content(*packet), all);
  // 1,856 in the head, 2 KiB slab, 16 KiB slab, 16 KiB slab, …: no slab is left half empty.
  EXPECT_LE(packet->frag_count(), 4U);
}

TEST_F(PacketTest, AppendDoesNotOverwriteASharedSlab) {
  PacketPtr packet = Make(1000, {50});
  PacketPtr clone = packet->Clone();
  ASSERT_TRUE(packet->AppendBytes(Bytes(30, 0xaa)));
  ASSERT_TRUE(clone->AppendBytes(Bytes(30, 0xbb)));
  EXPECT_EQ(Content(*packet)[1050], 0xaa);
  EXPECT_EQ(Content(*clone)[1050], 0xbb);
}

TEST_F(PacketTest, AppendPacketMovesData) {
  const Bytes all = Pattern(500);
  PacketPtr packet = Make(1700, {1000});
  const Bytes before = Content(*packet);
  PacketPtr other = Make(1500, {200, 300});
  const Bytes added = Content(*other);
  ASSERT_TRUE(packet->AppendPacket(other));
  EXPECT_EQ(other, nullptr);
  Bytes expected = before;
  expected.insert(expected.end(), added.begin(), added.end());
  EXPECT_EQ(Content(*packet), expected);
  EXPECT_EQ(packet->frag_count(), 4U);
  EXPECT_EQ(pool_.stats().packets_in_use, 1U);
}

TEST_F(PacketTest, AppendPacketCopiesWhatFitsBehind) {
  PacketPtr packet = Make(100, {});
  PacketPtr other = Make(100, {});
  ASSERT_TRUE(packet->AppendPacket(other));
  EXPECT_TRUE(packet->is_linear());
  EXPECT_EQ(packet->length(), 200U);
  EXPECT_EQ(pool_.stats().slabs_in_use(), 1U);
}

TEST_F(PacketTest, AppendPacketFailsWithoutChangeBeyondTheLimit) {
  PacketPtr packet = Make(1, std::vector<size_t>(60, 3));
  PacketPtr other = Make(1, std::vector<size_t>(5, 3));
  EXPECT_FALSE(packet->AppendPacket(other));
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(Content(*packet), Pattern(181));
  EXPECT_EQ(Content(*other), Pattern(16));
}

TEST_F(PacketTest, CopiesKeepAllMetadata) {
  PacketPtr packet = Make(300, {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000});
  packet->meta = FullMeta();
  packet->set_l2_here();
  ASSERT_TRUE(packet->Pull(14));
  packet->set_l3_here();
  packet->set_l4_in_data(40);
  packet->set_csum_start_in_data(40);
  packet->meta.inner_l3_offset = packet->meta.l4_offset + 8;
  packet->meta.inner_l4_offset = packet->meta.l4_offset + 28;
  const Bytes all = Content(*packet);
  const Bytes l2(packet->l2_bytes().begin(), packet->l2_bytes().end());
  for (PacketPtr& copy : std::array{packet->Clone(), packet->CopyDeep()}) {
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(copy->meta, packet->meta);
    EXPECT_EQ(Content(*copy), all);
    EXPECT_EQ(copy->headroom(), packet->headroom());
    // The link header, pulled already, is copied as well.
    ASSERT_GE(copy->l2_bytes().size(), l2.size());
    EXPECT_TRUE(std::equal(l2.begin(), l2.end(), copy->l2_bytes().begin()));
  }
  PacketPtr whole = packet->Slice(0, packet->length(), packet->headroom());
  PacketMeta expected = packet->meta;
  expected.l2_offset = PacketMeta::kUnset;  // outside the slice
  EXPECT_EQ(whole->meta, expected);
}

TEST_F(PacketTest, CloneSharesFragmentsAndCopyDeepDoesNot) {
  PacketPtr packet = Make(100, {1000, 500});
  PacketPtr clone = packet->Clone();
  EXPECT_EQ(clone->frag_ref(0).slab, packet->frag_ref(0).slab);
  EXPECT_NE(clone->head_slab(), packet->head_slab());
  PacketPtr deep = packet->CopyDeep();
  for (size_t i = 0; i < deep->frag_count(); ++i) {
    EXPECT_NE(deep->frag_ref(i).slab, packet->frag_ref(0).slab);
    EXPECT_NE(deep->frag_ref(i).slab, packet->frag_ref(1).slab);
  }
  clone->head_bytes()[0] = 0xff;
  EXPECT_NE(packet->head_bytes()[0], 0xff);
  packet.reset();
  EXPECT_EQ(Part(Content(*clone), 1, 1599), Part(Pattern(1600), 1, 1599));
  EXPECT_EQ(Content(*deep), Pattern(1600));
}

TEST_F(PacketTest, SliceOfEveryRangeHasItsBytes) {
  PacketPtr packet = Make(20, {15, 1, 24});
  const Bytes all = Pattern(60);
  for (size_t from = 0; from <= 60; ++from) {
    for (size_t n = 0; from + n <= 60; ++n) {
      PacketPtr slice = packet->Slice(from, n, 50);
      ASSERT_NE(slice, nullptr);
      ASSERT_EQ(Content(*slice), Part(all, from, n)) << from << " " << n;
      ASSERT_EQ(slice->headroom(), 50U);
    }
  }
}

TEST_F(PacketTest, SliceSharesFragments) {
  PacketPtr packet = Make(20, {1000});
  PacketPtr slice = packet->Slice(10, 500);
  EXPECT_EQ(slice->head_length(), 10U);
  EXPECT_EQ(slice->frag_ref(0).slab, packet->frag_ref(0).slab);
  slice = packet->Slice(500, 100);
  EXPECT_EQ(slice->head_length(), 0U);
  EXPECT_EQ(slice->headroom(), kDefaultHeadroom);
}

TEST_F(PacketTest, SliceRebasesPositionsAndChecksumState) {
  PacketPtr packet = Make(100, {1000});
  packet->meta = FullMeta();
  packet->set_l3_in_data(14);
  packet->set_l4_in_data(34);
  packet->set_csum_start_in_data(34);
  packet->meta.csum_state = CsumState::kPartial;
  PacketPtr with_start = packet->Slice(20, 500);
  EXPECT_FALSE(with_start->has_l3());
  EXPECT_EQ(with_start->l4_in_data(), 14);
  EXPECT_EQ(with_start->csum_start_in_data(), 14);
  EXPECT_EQ(with_start->meta.csum_state, CsumState::kPartial);
  EXPECT_EQ(with_start->meta.gso, packet->meta.gso);
  EXPECT_EQ(with_start->meta.rx_time, packet->meta.rx_time);
  PacketPtr without = packet->Slice(40, 500);
  EXPECT_EQ(without->meta.csum_start, PacketMeta::kUnset);
  EXPECT_EQ(without->meta.csum_state, CsumState::kNone);
  packet->meta.csum_state = CsumState::kComplete;
  EXPECT_EQ(packet->Slice(0, 1099)->meta.csum_state, CsumState::kNone);
  EXPECT_EQ(packet->Slice(0, 1100)->meta.csum_state, CsumState::kComplete);
}

TEST_F(PacketTest, CopyOutOfEveryRange) {
  PacketPtr packet = Make(7, {5, 9});
  const Bytes all = Pattern(21);
  for (size_t from = 0; from <= 21; ++from) {
    for (size_t n = 0; from + n <= 21; ++n) {
      Bytes out(n);
      packet->CopyOut(from, out);
      ASSERT_EQ(out, Part(all, from, n));
    }
  }
}

TEST_F(PacketTest, FromBytesPutsTheRestIntoFragments) {
  for (const size_t n : {0UL, 1UL, 1856UL, 1857UL, 20000UL, 65549UL}) {
    PacketPtr packet = PacketFromBytes(pool_, Pattern(n));
    ASSERT_NE(packet, nullptr);
    EXPECT_EQ(Content(*packet), Pattern(n));
    EXPECT_EQ(packet->is_linear(), n <= 1856);
    EXPECT_EQ(packet->head_slab().capacity(), kSmallSlabBytes);
  }
}

TEST_F(PacketTest, TrueSizeCountsSlabs) {
  EXPECT_EQ(pool_.AllocatePacket(1)->true_size(), sizeof(Packet) + 2048);
  EXPECT_EQ(Make(1, {1, 1})->true_size(), sizeof(Packet) + 2048 + 2 * 16384);
  EXPECT_EQ(Make(1, {1, 1, 1, 1, 1, 1, 1})->true_size(), sizeof(Packet) + 2048 + 7 * 16384 + 2048);
}

TEST_F(PacketTest, NoMemoryIsAnErrorWithoutChange) {
  SlabPool pool({.budget_bytes = 512 * 1024});
  PacketPtr packet = pool.AllocatePacket(1856);
  Fill(packet->Put(1856), Pattern(1856));
  SlabRef slab = pool.AllocateSlab(SlabClass::kLarge);
  std::fill_n(slab.data(), 16384, uint8_t{3});
  for (size_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(packet->AddFrag(slab, i * 1000, 500));
  }
  const Bytes before = Content(*packet);
  const std::vector<SlabRef> hog = Exhaust(pool);
  const uint64_t failures = pool.stats().failures();

  EXPECT_EQ(packet->Clone(), nullptr);
  EXPECT_EQ(packet->CopyDeep(), nullptr);
  EXPECT_EQ(packet->Slice(0, 100), nullptr);
  EXPECT_FALSE(packet->Linearize());
  EXPECT_FALSE(packet->EnsureHeadroom(500));
  EXPECT_FALSE(packet->AddFrag(slab, 7000, 1));  // the seventh needs the overflow array
  EXPECT_EQ(packet->Pull(2000), std::nullopt);
  EXPECT_FALSE(packet->AppendBytes(Bytes(20000)));
  EXPECT_EQ(PacketFromBytes(pool, Bytes(10)), nullptr);
  EXPECT_EQ(pool.stats().failures(), failures + 9);
  EXPECT_EQ(Content(*packet), before);
}

TEST_F(PacketTest, DeepCopyThatRunsOutHalfWayLeaksNothing) {
  SlabPool pool({.budget_bytes = 100 * 1024});
  PacketPtr packet = PacketFromBytes(pool, Pattern(50000));
  ASSERT_NE(packet, nullptr);
  const size_t in_use = pool.stats().slabs_in_use();
  EXPECT_EQ(packet->CopyDeep(), nullptr);
  EXPECT_EQ(pool.stats().slabs_in_use(), in_use);
  EXPECT_EQ(pool.stats().packets_in_use, 1U);
}

TEST(PacketDeathTest, PushBeyondTheHeadroomIsFatal) {
  SlabPool pool;
  PacketPtr packet = pool.AllocatePacket(10, 4);
  EXPECT_DEATH(packet->Push(5), "beyond the slab");
  EXPECT_DEATH(packet->Put(3000), "beyond the slab");
}

// Linux: the segmentation type bits lie in the order of the feature bits from position 16 on.
TEST(GsoTypeTest, BitsMapToFeaturePositions) {
  EXPECT_EQ(static_cast<uint64_t>(GsoType::kTcpv4) << 16, uint64_t{1} << 16);
  EXPECT_EQ(static_cast<uint64_t>(GsoType::kTcpEcn) << 16, uint64_t{1} << 18);
  EXPECT_EQ(static_cast<uint64_t>(GsoType::kFixedId) << 16, uint64_t{1} << 19);
  EXPECT_EQ(static_cast<uint64_t>(GsoType::kTcpv6) << 16, uint64_t{1} << 20);
  EXPECT_EQ(static_cast<uint64_t>(GsoType::kPartial) << 16, uint64_t{1} << 28);
  EXPECT_EQ(static_cast<uint64_t>(GsoType::kUdp) << 16, uint64_t{1} << 32);
  EXPECT_EQ(static_cast<uint64_t>(GsoType::kUdpL4) << 16, uint64_t{1} << 33);
  GsoInfo gso;
  gso.type |= GsoType::kUdpL4;
  EXPECT_TRUE(gso.Has(GsoType::kUdpL4 | GsoType::kUdp));
  EXPECT_FALSE(gso.Has(GsoType::kTcpv4));
}

}  // namespace
}  // namespace tapwire
