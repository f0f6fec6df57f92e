// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "netdev/base/seeded_random.h"

namespace tapwire {
namespace {

// Gives out the bytes 0, 1, 2, … and counts how often it is asked.
class CountingRandom : public Random {
 public:
  void Fill(std::span<uint8_t> out) override {
    ++fills;
    for (uint8_t& byte : out) {
      byte = next_++;
    }
  }
  int fills = 0;

 private:
  uint8_t next_ = 0;
};

// Gives out chosen 32-bit words, then zeros.
class ScriptedRandom : public Random {
 public:
  explicit ScriptedRandom(std::vector<uint32_t> words) : words_(std::move(words)) {}
  void Fill(std::span<uint8_t> out) override {
    for (size_t i = 0; i < out.size(); ++i) {
      const uint32_t word = i / 4 < words_.size() ? words_[i / 4] : 0;
      out[i] = static_cast<uint8_t>(word >> (8 * (i % 4)));
    }
  }

 private:
  std::vector<uint32_t> words_;
};

TEST(RandomTest, NumbersAreLittleEndianAndBuffered) {
  CountingRandom random;
  EXPECT_EQ(random.Next32(), 0x03020100U);
  EXPECT_EQ(random.Next64(), 0x0b0a090807060504U);
  for (int i = 0; i < 60; ++i) {
    random.Next32();
  }
  EXPECT_EQ(random.fills, 1);
  random.Next64();  // 4 bytes are left: not enough
  EXPECT_EQ(random.fills, 2);
}

TEST(RandomTest, UniformOfNothingIsZero) {
  CountingRandom random;
  EXPECT_EQ(random.Uniform(0), 0U);
  EXPECT_EQ(random.Uniform(1), 0U);
}

TEST(RandomTest, UniformRejectsTheBiasedPart) {
  // n = 3 · 2^30: 2^32 mod n = 2^30, so words whose product has low bits below 2^30 must be
  // refused. Word 0 gives product 0, which is refused; word 2 gives product 6 · 2^30, high half 1,
  // low 2^31.
  ScriptedRandom random({0, 0, 2});
  EXPECT_EQ(random.Uniform(3U << 30), 1U);
}

TEST(RandomTest, UniformIsEven) {
  SeededRandom random(1);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60000; ++i) {
    ++counts.at(random.Uniform(6));
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 10000, 500);  // five standard deviations
  }
}

TEST(SeededRandomTest, SplitMixMatchesItsPublishedSequence) {
  uint64_t state = 1234567;
  EXPECT_EQ(SplitMix64(state), 6457827717110365317U);
  EXPECT_EQ(SplitMix64(state), 3203168211198807973U);
  EXPECT_EQ(SplitMix64(state), 9817491932198370423U);
}

TEST(SeededRandomTest, XoshiroMatchesItsPublishedSequence) {
  Xoshiro256 generator({1, 2, 3, 4});
  for (const uint64_t expected :
       {UINT64_C(11520), UINT64_C(0), UINT64_C(1509978240), UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360), UINT64_C(607988272756665600), UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832)}) {
    EXPECT_EQ(generator.Next(), expected);
  }
}

TEST(SeededRandomTest, SameSeedSameNumbers) {
  SeededRandom a(42), b(42), c(43);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = a.Next64();
    EXPECT_EQ(value, b.Next64());
    differs |= value != c.Next64();
  }
  EXPECT_TRUE(differs);
}

TEST(SeededRandomTest, FillsOddSizes) {
  SeededRandom random(9);
  std::array<uint8_t, 13> bytes{};
  random.Fill(bytes);
  SeededRandom again(9);
  std::array<uint8_t, 5> first{};
  again.Fill(first);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), bytes.begin()));
}

}  // namespace
}  // namespace tapwire
