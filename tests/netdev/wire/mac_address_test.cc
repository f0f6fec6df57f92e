// SPDX-License-Identifier: Apache-2.0
#include "netdev/wire/mac_address.h"

#include "absl/hash/hash_testing.h"
#include "gtest/gtest.h"

namespace tapwire {
namespace {

constexpr MacAddress kOne(0x02, 0, 0, 0, 0, 0x01);

TEST(MacAddressTest, TextIsLowerCaseWithColons) {
  EXPECT_EQ(kOne.ToString(), "02:00:00:00:00:01");
  EXPECT_EQ(MacAddress(0xAB, 0xCD, 0xEF, 0x01, 0x23, 0x45).ToString(), "ab:cd:ef:01:23:45");
}

TEST(MacAddressTest, ParsesColonsAndHyphensInEitherCase) {
  EXPECT_EQ(MacAddress::Parse("02:00:00:00:00:01"), kOne);
  EXPECT_EQ(MacAddress::Parse("AB-CD-EF-01-23-45"), MacAddress(0xab, 0xcd, 0xef, 1, 0x23, 0x45));
}

TEST(MacAddressTest, RefusesOtherText) {
  for (const char* text : {"", "02:00:00:00:00", "02:00:00:00:00:01:", "02:00:00:00:00:0g",
                           "2:0:0:0:0:1", "02:00-00:00:00:01", "02.00.00.00.00.01",
                           " 2:00:00:00:00:01", "02:00:00:00:00:01 ", "02:00:00:00:00:\xff\xff"}) {
    EXPECT_FALSE(MacAddress::Parse(text)) << text;
  }
}

// IEEE 802: bit 0 of the first byte marks groups, bit 1 local administration.
TEST(MacAddressTest, ClassesFollowTheFirstByte) {
  EXPECT_TRUE(kOne.IsUnicast());
  EXPECT_TRUE(kOne.IsLocal());
  EXPECT_FALSE(kOne.IsMulticast());
  const MacAddress group(0x01, 0x00, 0x5e, 0, 0, 1);
  EXPECT_TRUE(group.IsMulticast());
  EXPECT_FALSE(group.IsUnicast());
  EXPECT_FALSE(group.IsBroadcast());
  EXPECT_FALSE(group.IsLocal());
  EXPECT_TRUE(MacAddress::kBroadcast().IsBroadcast());
  EXPECT_TRUE(MacAddress::kBroadcast().IsMulticast());
  EXPECT_TRUE(MacAddress().IsZero());
  EXPECT_FALSE(MacAddress().IsUnicast());
}

TEST(MacAddressTest, TakesBytesAndGivesThemBack) {
  const std::array<uint8_t, 7> bytes = {1, 2, 3, 4, 5, 6, 7};
  const MacAddress mac = MacAddress::FromBytes(bytes);
  EXPECT_EQ(mac, MacAddress(1, 2, 3, 4, 5, 6));
  std::array<uint8_t, 7> out = {};
  mac.CopyTo(out.data());
  EXPECT_EQ(out, (std::array<uint8_t, 7>{1, 2, 3, 4, 5, 6, 0}));
}

TEST(MacAddressTest, ShortBytesAreFilledWithZeros) {
  const std::array<uint8_t, 2> bytes = {1, 2};
  EXPECT_EQ(MacAddress::FromBytes(bytes), MacAddress(1, 2, 0, 0, 0, 0));
}

TEST(MacAddressTest, OrdersAndHashesByValue) {
  EXPECT_LT(MacAddress(1, 0, 0, 0, 0, 2), MacAddress(1, 0, 0, 0, 1, 0));
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {MacAddress(), kOne, MacAddress::kBroadcast(), MacAddress(0, 0, 0, 0, 0x02, 0x01)}));
}

}  // namespace
}  // namespace tapwire
