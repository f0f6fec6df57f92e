// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/siphash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "netdev/base/seeded_random.h"

namespace tapwire {
namespace {

std::vector<uint8_t> Counting(size_t n) {
  std::vector<uint8_t> bytes(n);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

// Key 00 01 … 0f, message 00 01 … (n − 1): vectors published with the reference implementation; the
// one of 15 bytes is worked through in appendix A of the paper.
TEST(SipHashTest, Variant24MatchesTheReferenceVectors) {
  const SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(SipHash24(key, Counting(0)), 0x726fdb47dd0e0e31U);
  EXPECT_EQ(SipHash24(key, Counting(1)), 0x74f839c593dc67fdU);
  EXPECT_EQ(SipHash24(key, Counting(2)), 0x0d6c8009d9a94f5aU);
  EXPECT_EQ(SipHash24(key, Counting(3)), 0x85676696d7fb7e2dU);
  EXPECT_EQ(SipHash24(key, Counting(7)), 0xab0200f58b01d137U);
  EXPECT_EQ(SipHash24(key, Counting(8)), 0x93f5f5799a932462U);
  EXPECT_EQ(SipHash24(key, Counting(15)), 0xa129ca6149be45e5U);
}

// Computed with CPython 3.11, whose hash of bytes is SipHash-1-3 with key 0 under PYTHONHASHSEED=0.
TEST(SipHashTest, Variant13MatchesAnotherImplementation) {
  const SipKey zero;
  EXPECT_EQ(SipHash13(zero, Counting(1)), 0x68a914128e01e473U);
  EXPECT_EQ(SipHash13(zero, Counting(7)), 0x2f098ab0c751325aU);
  EXPECT_EQ(SipHash13(zero, Counting(8)), 0xead411e67ebe2eeaU);
  EXPECT_EQ(SipHash13(zero, Counting(15)), 0xf30eb725bb91c9eaU);
  EXPECT_EQ(SipHash13(zero, Counting(36)), 0xac77921fcc642bd3U);
}

TEST(SipHashTest, KeyChangesTheHash) {
  SeededRandom random(1);
  const SipKey a = SipKey::Generate(random);
  const SipKey b = SipKey::Generate(random);
  EXPECT_NE(a.k0, a.k1);
  EXPECT_NE(SipHash13(a, Counting(36)), SipHash13(b, Counting(36)));
}

}  // namespace
}  // namespace tapwire
