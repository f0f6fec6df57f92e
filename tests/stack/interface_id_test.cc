// SPDX-License-Identifier: Apache-2.0
#include "stack/interface_id.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "netdev/base/byteorder.h"

namespace tapwire {
namespace {

constexpr SipKey kSecret{0x0123456789abcdef, 0xfedcba9876543210};
const MacAddress kMac{0x00, 0x11, 0x22, 0x33, 0x44, 0x55};

Ipv6Address Address(const char* prefix, const MacAddress& mac = kMac, uint8_t counter = 0,
                    const SipKey& secret = kSecret) {
  return OpaqueAddress({.prefix = *Ipv6Address::Parse(prefix), .mac = mac, .dad_counter = counter},
                       secret);
}
uint64_t IdOf(const Ipv6Address& address) { return LoadBe64(address.bytes().data() + 8); }

// Covers: rfc:SLAAC-4 RFC 7217 §4: stable for one prefix and interface, different otherwise
TEST(InterfaceIdTest, DependsOnEveryInputAndNothingElse) {
  const Ipv6Address base = Address("fe80::");
  EXPECT_EQ(Address("fe80::"), base);
  EXPECT_EQ(LoadBe64(base.bytes().data()), 0xfe80'0000'0000'0000u);
  // Only the first 64 bits of the prefix count.
  EXPECT_EQ(Address("fe80::1:2:3:4"), base);
  std::set<uint64_t> ids = {
      IdOf(base),
      IdOf(Address("2001:db8::")),
      IdOf(Address("2001:db8:0:1::")),
      IdOf(Address("fe80::", {0x00, 0x11, 0x22, 0x33, 0x44, 0x56})),
      IdOf(Address("fe80::", kMac, 1)),
      IdOf(Address("fe80::", kMac, 0, {1, 2})),
  };
  EXPECT_EQ(ids.size(), 6u);
}

// Covers: rfc:SLAAC-4 RFC 8064 §3: the MAC is not embedded
TEST(InterfaceIdTest, DoesNotTellTheMac) {
  // RFC 4291 Appendix A: 00:11:22:33:44:55 would give 0211:22ff:fe33:4455.
  EXPECT_NE(IdOf(Address("fe80::")), 0x0211'22ff'fe33'4455u);
  // One bit of the MAC changes about half of the 64 bits.
  int flipped = 0;
  for (int bit = 0; bit < 40; ++bit) {
    MacAddress other(0, static_cast<uint8_t>(bit >= 32 ? 1 << (bit - 32) : 0),
                     static_cast<uint8_t>(bit >= 24 && bit < 32 ? 1 << (bit - 24) : 0),
                     static_cast<uint8_t>(bit >= 16 && bit < 24 ? 1 << (bit - 16) : 0),
                     static_cast<uint8_t>(bit >= 8 && bit < 16 ? 1 << (bit - 8) : 0),
                     static_cast<uint8_t>(bit < 8 ? 1 << bit : 0));
    flipped +=
        std::popcount(IdOf(Address("fe80::", MacAddress())) ^ IdOf(Address("fe80::", other)));
  }
  EXPECT_NEAR(flipped / 40.0, 32.0, 3.0);
}

// RFC 5453 and the IANA registry of reserved identifiers.
TEST(InterfaceIdTest, ReservedIdentifiersAreKnown) {
  EXPECT_TRUE(IsReservedInterfaceId(0));
  EXPECT_TRUE(IsReservedInterfaceId(0x0200'5eff'fe00'0000));
  EXPECT_TRUE(IsReservedInterfaceId(0x0200'5eff'feff'ffff));
  EXPECT_TRUE(IsReservedInterfaceId(0xfdff'ffff'ffff'ff80));
  EXPECT_TRUE(IsReservedInterfaceId(0xfdff'ffff'ffff'ffff));
  EXPECT_FALSE(IsReservedInterfaceId(1));
  EXPECT_FALSE(IsReservedInterfaceId(0x0200'5eff'ff00'0000));
  EXPECT_FALSE(IsReservedInterfaceId(0x0200'5eff'fdff'ffff));
  EXPECT_FALSE(IsReservedInterfaceId(0xfdff'ffff'ffff'ff7f));
  EXPECT_FALSE(IsReservedInterfaceId(0xfe00'0000'0000'0000));
}

}  // namespace
}  // namespace tapwire
