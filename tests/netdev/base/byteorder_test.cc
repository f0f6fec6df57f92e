// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/byteorder.h"

#include <array>

#include "gtest/gtest.h"

namespace tapwire {
namespace {

constexpr std::array<uint8_t, 9> kBytes = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xff};

// The first byte in memory is the most significant one (RFC 791 Appendix B).
static_assert(LoadBe16(kBytes.data()) == 0x0123);
static_assert(LoadBe32(kBytes.data()) == 0x01234567);
static_assert(LoadBe64(kBytes.data()) == 0x0123456789abcdef);

TEST(ByteorderTest, LoadsAtOddAddresses) {
  EXPECT_EQ(LoadBe16(kBytes.data() + 1), 0x2345);
  EXPECT_EQ(LoadBe32(kBytes.data() + 1), 0x23456789u);
  EXPECT_EQ(LoadBe64(kBytes.data() + 1), 0x23456789abcdefffu);
}

TEST(ByteorderTest, StoresTouchOnlyTheirBytes) {
  std::array<uint8_t, 10> out = {};
  StoreBe16(out.data() + 1, 0xfedc);
  EXPECT_EQ(out, (std::array<uint8_t, 10>{0, 0xfe, 0xdc}));
  StoreBe32(out.data() + 1, 0x89abcdef);
  EXPECT_EQ(out, (std::array<uint8_t, 10>{0, 0x89, 0xab, 0xcd, 0xef}));
  StoreBe64(out.data() + 1, 0x0102030405060708);
  EXPECT_EQ(out, (std::array<uint8_t, 10>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace tapwire
