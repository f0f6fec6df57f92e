// SPDX-License-Identifier: Apache-2.0
// The reassembly machine by itself: order, overlaps, limits, and the bound on its work.
#include "stack/reassembly.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/stack/ip_test_base.h"

namespace tapwire {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

class ReassemblyTest : public IpTestBase, public ::testing::WithParamInterface<IpFamily> {
 protected:
  ReassemblyTest() { Renew(); }
  ~ReassemblyTest() override { reassembler_.reset(); }

  void Renew() { reassembler_ = std::make_unique<Reassembler>(*stack_, GetParam()); }
  IpCounters& counters() { return stack_->ip_counters(GetParam()); }
  IpAddress Source(uint32_t n) const {
    if (GetParam() == IpFamily::kV4) return Ipv4Address::FromHostOrder(0x0a000100 + n);
    return Ipv6Address::FromGroups(
        {0xfd00, 0, 0, 0, 0, 0, static_cast<uint16_t>(n >> 16), static_cast<uint16_t>(n)});
  }
  IpAddress Host() const {
    return GetParam() == IpFamily::kV4 ? IpAddress(kHost4) : IpAddress(kHost6);
  }

  struct Piece {
    uint32_t id = 1;
    uint32_t offset = 0;
    bool more = true;
    uint32_t source = 1;
    uint8_t tos = 0;
  };
  Frame Headers(const Piece& piece) const {
    const auto offset = static_cast<uint16_t>(piece.offset);
    if (GetParam() == IpFamily::kV4) {
      return Frame().Ipv4({.source = Source(piece.source).v4(),
                           .destination = kHost4,
                           .tos = piece.tos,
                           .id = static_cast<uint16_t>(piece.id),
                           .dont_fragment = false,
                           .more_fragments = piece.more,
                           .offset = offset,
                           .protocol = kTestProtocol});
    }
    return Frame()
        .Ipv6({.source = Source(piece.source).v6(), .destination = kHost6})
        .Fragment6(
            {.offset = offset, .more = piece.more, .id = piece.id, .next_header = kTestProtocol});
  }
  Reassembler::Fragment MakeFragment(const Piece& piece, std::span<const uint8_t> data) {
    Reassembler::Fragment fragment;
    fragment.key = {
        .source = Source(piece.source), .destination = Host(), .identification = piece.id};
    fragment.offset = piece.offset;
    fragment.more = piece.more;
    fragment.header_length = GetParam() == IpFamily::kV4 ? 20 : 0;
    fragment.info = {.source = fragment.key.source,
                     .destination = Host(),
                     .protocol = kTestProtocol,
                     .tos = piece.tos,
                     .interface = interface_};
    fragment.packet = PacketFromBytes(stack_->pool(), Headers(piece).Payload(data).Build());
    fragment.packet->set_l3_here();
    fragment.packet->Pull(GetParam() == IpFamily::kV4 ? 20 : 48);
    return fragment;
  }
  // The datagram's bytes when this piece completes it.
  std::optional<ByteVector> Add(const Piece& piece, std::span<const uint8_t> data) {
    Reassembler::Result result = reassembler_->Add(MakeFragment(piece, data));
    last_reason_ = result.reason;
    if (result.datagram == nullptr) return std::nullopt;
    EXPECT_EQ(result.reason, DropReason::kNone);
    return BytesOf(*result.datagram);
  }
  // `length` bytes at piece.offset of an endless pattern.
  std::optional<ByteVector> Add(const Piece& piece, size_t length) {
    return Add(piece, Pattern(length, static_cast<uint8_t>(piece.offset % 251)));
  }

  std::unique_ptr<Reassembler> reassembler_;
  DropReason last_reason_ = DropReason::kNone;
};

INSTANTIATE_TEST_SUITE_P(Families, ReassemblyTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

// Against nothing but the bytes that were cut: random cuts, random order, one copy.
TEST_P(ReassemblyTest, AnyCutInAnyOrderGivesTheBytesBack) {  // Covers: rfc:IP-12
  std::mt19937 random(7);
  for (uint32_t id = 1; id <= 200; ++id) {
    const ByteVector whole = Pattern(300 + random() % 3000, static_cast<uint8_t>(id));
    std::vector<std::pair<size_t, size_t>> pieces;  // offset, length
    for (size_t offset = 0; offset < whole.size();) {
      const size_t length = std::min<size_t>(8 * (1 + random() % 30), whole.size() - offset);
      pieces.emplace_back(offset, length);
      offset += length;
    }
    pieces.push_back(pieces[random() % pieces.size()]);
    std::shuffle(pieces.begin(), pieces.end(), random);
    std::vector<ByteVector> results;
    for (const auto& [offset, length] : pieces) {
      const Piece piece{.id = id,
                        .offset = static_cast<uint32_t>(offset),
                        .more = offset + length < whole.size()};
      auto result = Add(piece, std::span(whole).subspan(offset, length));
      if (result) results.push_back(std::move(*result));
    }
    ASSERT_EQ(results.size(), 1u) << id;
    EXPECT_EQ(results[0], whole) << id;
  }
  net_.Advance(kTimeout);  // a copy that came after completion began a datagram of its own
  EXPECT_EQ(reassembler_->bytes(), 0u);
  EXPECT_EQ(reassembler_->datagrams(), 0u);
}

// Covers: rfc:IP-13, rfc:V6-08, bug:B62
TEST_P(ReassemblyTest, EveryKindOfOverlapEndsTheDatagram) {
  const struct {
    uint32_t offset;
    size_t length;
    bool more;
    const char* what;
  } overlaps[] = {
      {0, 8, true, "starts with one, shorter"},
      {8, 8, true, "inside one"},
      {16, 8, true, "ends with one"},
      {16, 16, true, "end of one into the hole"},
      {32, 16, true, "from the hole into the next"},
      {0, 64, true, "over all"},
      {24, 64, true, "over the second"},
  };
  uint32_t id = 100;
  for (const auto& overlap : overlaps) {
    ++id;
    EXPECT_FALSE(Add({.id = id, .offset = 0}, 24));
    EXPECT_FALSE(Add({.id = id, .offset = 40}, 24));
    EXPECT_FALSE(Add({.id = id, .offset = overlap.offset, .more = overlap.more}, overlap.length));
    EXPECT_EQ(last_reason_, DropReason::kFragmentOverlap) << overlap.what;
    // All that comes later is refused, though it would complete the datagram.
    EXPECT_FALSE(Add({.id = id, .offset = 24}, 16)) << overlap.what;
    EXPECT_FALSE(Add({.id = id, .offset = 64, .more = false}, 8)) << overlap.what;
    EXPECT_EQ(last_reason_, DropReason::kFragmentOverlap);
  }
  EXPECT_EQ(reassembler_->bytes(), 0u);
  EXPECT_EQ(counters().reasm_fails.value(), std::size(overlaps));
  EXPECT_EQ(Drops(DropReason::kFragmentOverlap), 5 * std::size(overlaps));
}

TEST_P(ReassemblyTest, SamePlaceWithOtherBytesIsAnOverlap) {  // Covers: rfc:V6-08
  EXPECT_FALSE(Add({.offset = 0}, ByteVector(24, 1)));
  EXPECT_FALSE(Add({.offset = 0}, ByteVector(24, 1)));
  EXPECT_EQ(last_reason_, DropReason::kFragmentDuplicate);
  EXPECT_FALSE(Add({.offset = 0}, ByteVector(24, 2)));
  EXPECT_EQ(last_reason_, DropReason::kFragmentOverlap);
}

TEST_P(ReassemblyTest, CopyOfManyBytesIsComparedInFull) {
  ByteVector bytes = Pattern(1480);
  EXPECT_FALSE(Add({.offset = 0}, bytes));
  EXPECT_FALSE(Add({.offset = 0}, bytes));
  EXPECT_EQ(last_reason_, DropReason::kFragmentDuplicate);
  bytes.back() ^= 1;
  EXPECT_FALSE(Add({.offset = 0}, bytes));
  EXPECT_EQ(last_reason_, DropReason::kFragmentOverlap);
}

TEST_P(ReassemblyTest, GivenUpDatagramIsRememberedUntilItsTime) {  // Covers: rfc:V6-08, bug:B62
  EXPECT_FALSE(Add({.offset = 0}, 16));
  net_.Advance(std::chrono::seconds(10));
  EXPECT_FALSE(Add({.offset = 8}, 16));
  net_.Advance(kTimeout - std::chrono::seconds(10) - std::chrono::milliseconds(1));
  EXPECT_EQ(reassembler_->datagrams(), 1u);
  EXPECT_FALSE(Add({.offset = 0, .more = false}, 16));
  EXPECT_EQ(last_reason_, DropReason::kFragmentOverlap);
  net_.Advance(std::chrono::milliseconds(1));
  EXPECT_EQ(reassembler_->datagrams(), 0u);
  EXPECT_EQ(counters().reasm_timeout.value(), 0u);  // it did not fail for time
  EXPECT_TRUE(Add({.offset = 0, .more = false}, 16));
}

TEST_P(ReassemblyTest, DisagreementAboutTheEndEndsTheDatagram) {
  const struct {
    Piece piece;
    size_t length;
    const char* what;
  } cases[] = {
      {{.offset = 80, .more = false}, 8, "a later end"},
      {{.offset = 32, .more = false}, 8, "an earlier end"},
      {{.offset = 72, .more = true}, 8, "more behind the end"},
      {{.offset = 56, .more = true}, 16, "more up to the end"},
  };
  uint32_t id = 200;
  for (auto c : cases) {
    c.piece.id = ++id;
    EXPECT_FALSE(Add({.id = id, .offset = 64, .more = false}, 8));
    EXPECT_FALSE(Add(c.piece, c.length));
    EXPECT_EQ(last_reason_, DropReason::kFragmentEndMismatch) << c.what;
  }
  // The end comes before what is there already.
  EXPECT_FALSE(Add({.id = 300, .offset = 64}, 8));
  EXPECT_FALSE(Add({.id = 300, .offset = 32, .more = false}, 8));
  EXPECT_EQ(last_reason_, DropReason::kFragmentEndMismatch);
}

TEST_P(ReassemblyTest, FragmentsOfADatagramAreLimited) {
  stack_->config().reassembly_max_fragments = 4;
  for (uint32_t i = 0; i < 4; ++i) EXPECT_FALSE(Add({.offset = 16 * i}, 8));
  EXPECT_FALSE(Add({.offset = 0}, 8));  // a copy is none more
  EXPECT_EQ(last_reason_, DropReason::kFragmentDuplicate);
  EXPECT_FALSE(Add({.offset = 8}, 8));
  EXPECT_EQ(last_reason_, DropReason::kFragmentTooMany);
  EXPECT_EQ(reassembler_->bytes(), 0u);
  EXPECT_EQ(Drops(DropReason::kFragmentTooMany), 5u);
}

// Covers: rfc:IP-17
TEST_P(ReassemblyTest, EveryBudgetWorksAtZeroOneAndSmall) {
  const StackConfig defaults = stack_->config();
  const auto refused = [&](const char* what) {
    EXPECT_FALSE(Add({.offset = 0}, 8)) << what;
    EXPECT_EQ(last_reason_, DropReason::kFragmentMemoryLimit) << what;
    EXPECT_EQ(reassembler_->bytes(), 0u) << what;
    EXPECT_EQ(reassembler_->datagrams(), 0u) << what;
  };
  stack_->config().reassembly_max_datagrams = 0;
  refused("no datagrams");
  stack_->config() = defaults;
  for (const size_t bytes : std::vector<size_t>{0, 1, 100}) {
    stack_->config().reassembly_max_bytes = bytes;
    refused("bytes");
    stack_->config() = defaults;
    stack_->config().reassembly_max_bytes_per_source = bytes;
    refused("bytes of one source");
    stack_->config() = defaults;
  }
  stack_->config().reassembly_max_fragments = 0;
  EXPECT_FALSE(Add({.offset = 0}, 8));
  EXPECT_EQ(last_reason_, DropReason::kFragmentTooMany);
  stack_->config().reassembly_max_fragments = 1;
  EXPECT_FALSE(Add({.id = 2, .offset = 0}, 8));
  EXPECT_FALSE(Add({.id = 2, .offset = 8, .more = false}, 8));
  EXPECT_EQ(last_reason_, DropReason::kFragmentTooMany);
  stack_->config() = defaults;
  stack_->config().reassembly_max_datagrams = 1;
  EXPECT_FALSE(Add({.id = 3, .offset = 0}, 8));
  EXPECT_TRUE(Add({.id = 3, .offset = 8, .more = false}, 8));
}

TEST_P(ReassemblyTest, OldestDatagramMakesRoom) {  // Covers: rfc:IP-17
  stack_->config().reassembly_max_datagrams = 4;
  for (uint32_t n = 1; n <= 4; ++n) EXPECT_FALSE(Add({.id = n, .offset = 0, .source = n}, 16));
  EXPECT_FALSE(Add({.id = 5, .offset = 0, .source = 5}, 16));
  EXPECT_EQ(Drops(DropReason::kFragmentMemoryLimit), 1u);
  EXPECT_EQ(reassembler_->datagrams(), 4u);
  EXPECT_TRUE(Add({.id = 2, .offset = 16, .more = false, .source = 2}, 8));
  EXPECT_FALSE(Add({.id = 1, .offset = 16, .more = false, .source = 1}, 8));  // it was number one
}

TEST_P(ReassemblyTest, GivenUpDatagramsMakeRoomBeforeLiveOnes) {  // Covers: rfc:IP-17
  stack_->config().reassembly_max_datagrams = 4;
  for (uint32_t n = 1; n <= 4; ++n) EXPECT_FALSE(Add({.id = n, .offset = 0, .source = n}, 16));
  EXPECT_FALSE(Add({.id = 3, .offset = 8, .source = 3}, 16));
  EXPECT_FALSE(Add({.id = 5, .offset = 0, .source = 5}, 16));
  EXPECT_EQ(Drops(DropReason::kFragmentMemoryLimit), 0u);
  for (const uint32_t n : {1u, 2u, 4u, 5u}) {
    EXPECT_TRUE(Add({.id = n, .offset = 16, .more = false, .source = n}, 8)) << n;
  }
}

// Covers: rfc:IP-17, bug:B60
TEST_P(ReassemblyTest, FloodOfOneSourceLeavesOthersAlone) {
  EXPECT_FALSE(Add({.id = 1, .offset = 0, .source = 1}, 1000));
  for (uint32_t id = 1; id <= 5000; ++id) {
    EXPECT_FALSE(Add({.id = id, .offset = 0, .source = 2}, 1000));
  }
  EXPECT_LE(reassembler_->datagrams(), stack_->config().reassembly_max_datagrams / 4 + 1);
  EXPECT_TRUE(Add({.id = 1, .offset = 1000, .more = false, .source = 1}, 1000));
  EXPECT_EQ(Drops(DropReason::kFragmentMemoryLimit), 5000u - reassembler_->datagrams());
}

TEST_P(ReassemblyTest, BytesOfOneSourceAreLimited) {  // Covers: rfc:IP-17
  stack_->config().reassembly_max_bytes_per_source = 64 * 1024;
  for (uint32_t id = 1; id <= 20; ++id) {
    for (uint32_t i = 0; i < 10; ++i) EXPECT_FALSE(Add({.id = id, .offset = 1600 * i}, 800));
    EXPECT_LE(reassembler_->bytes(), 64u * 1024);
  }
  // Another source has its own share.
  EXPECT_FALSE(Add({.id = 1, .offset = 0, .source = 2}, 16));
  const size_t before = reassembler_->datagrams();
  EXPECT_FALSE(Add({.id = 21, .offset = 0}, 800));
  EXPECT_TRUE(Add({.id = 1, .offset = 16, .more = false, .source = 2}, 16));
  EXPECT_LE(reassembler_->datagrams(), before);
}

// Covers: bug:B60
TEST_P(ReassemblyTest, WorkPerTinyFragmentIsBounded) {
  std::mt19937 random(1);
  const StackConfig& config = stack_->config();
  uint64_t fragments = 0, most = 0;
  for (uint32_t id = 1; id <= 10000; ++id) {
    // Random places, all but the last piece; a few datagrams with very many.
    const uint32_t count = id % 100 == 0 ? 300 : 4;
    for (uint32_t i = 0; i < count; ++i, ++fragments) {
      const uint64_t before = reassembler_->work();
      const Piece piece{
          .id = id, .offset = 8 * static_cast<uint32_t>(random() % 8000), .source = 1 + id % 50};
      EXPECT_FALSE(Add(piece, 8));
      most = std::max(most, reassembler_->work() - before);
    }
    ASSERT_LE(reassembler_->bytes(), config.reassembly_max_bytes);
    ASSERT_LE(reassembler_->datagrams(), config.reassembly_max_datagrams);
  }
  // A search in, and an insertion into, 256 pieces; on the average far less.
  EXPECT_LE(most, 16 + config.reassembly_max_fragments);
  EXPECT_LE(reassembler_->work(), fragments * 100);
  net_.Advance(kTimeout);
  EXPECT_EQ(reassembler_->bytes(), 0u);
  EXPECT_EQ(reassembler_->datagrams(), 0u);
  EXPECT_GT(Drops(DropReason::kFragmentTimeout), 0u);
  net_.TakeSent();
}

TEST_P(ReassemblyTest, TrueMemoryIsCharged) {  // Covers: rfc:IP-17
  EXPECT_FALSE(Add({.offset = 8}, 8));
  EXPECT_GE(reassembler_->bytes(), kSmallSlabBytes);  // eight bytes hold a whole slab
  EXPECT_TRUE(Add({.offset = 0, .more = false, .source = 2}, 8));
  EXPECT_LT(reassembler_->bytes(), 2 * kSmallSlabBytes);
}

TEST_P(ReassemblyTest, NoMemoryToJoinIsADrop) {
  stack_->config().reassembly_max_fragments = 1000;
  constexpr uint32_t kPieces = 70;  // more than a packet has room for
  std::vector<Reassembler::Fragment> fragments;
  for (uint32_t i = 0; i < kPieces; ++i) {
    fragments.push_back(MakeFragment({.offset = 8 * i, .more = i + 1 < kPieces}, Pattern(8)));
  }
  std::vector<SlabRef> hoard;
  for (const SlabClass c : {SlabClass::kJumbo, SlabClass::kLarge, SlabClass::kSmall}) {
    while (SlabRef slab = stack_->pool().AllocateSlab(c)) hoard.push_back(std::move(slab));
  }
  Reassembler::Result result;
  for (auto& fragment : fragments) result = reassembler_->Add(std::move(fragment));
  EXPECT_EQ(result.datagram, nullptr);
  EXPECT_EQ(result.reason, DropReason::kFragmentMemoryLimit);
  EXPECT_EQ(Drops(DropReason::kFragmentMemoryLimit), kPieces);
  EXPECT_EQ(reassembler_->bytes(), 0u);
}

TEST_P(ReassemblyTest, WhatADeviceSaidAboutAPieceIsForgotten) {
  Reassembler::Fragment first = MakeFragment({.offset = 0}, Pattern(16));
  first.packet->meta.csum_state = CsumState::kUnnecessary;
  first.packet->meta.gso = {.type = GsoType::kUdpL4, .size = 8};
  EXPECT_EQ(reassembler_->Add(std::move(first)).datagram, nullptr);
  Reassembler::Fragment last = MakeFragment({.offset = 16, .more = false}, Pattern(16));
  last.packet->meta.rx_time = net_.now() + std::chrono::seconds(3);
  const Reassembler::Result result = reassembler_->Add(std::move(last));
  ASSERT_NE(result.datagram, nullptr);
  EXPECT_EQ(result.datagram->meta.csum_state, CsumState::kNone);
  EXPECT_EQ(result.datagram->meta.gso, GsoInfo());
  EXPECT_EQ(result.datagram->meta.rx_time, net_.now() + std::chrono::seconds(3));
}

TEST_P(ReassemblyTest, ZonesAreKeptApart) {  // RFC 4007 §6
  Reassembler::Fragment first = MakeFragment({.offset = 0}, Pattern(16));
  first.key.zone = 1;
  EXPECT_EQ(reassembler_->Add(std::move(first)).datagram, nullptr);
  for (const uint32_t zone : {2u, 1u}) {
    Reassembler::Fragment last = MakeFragment({.offset = 16, .more = false}, Pattern(16));
    last.key.zone = zone;
    EXPECT_EQ(reassembler_->Add(std::move(last)).datagram != nullptr, zone == 1);
  }
}

}  // namespace
}  // namespace tapwire
