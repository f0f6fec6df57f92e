// SPDX-License-Identifier: Apache-2.0
//
// Text is also compared with the C library's inet_pton() and inet_ntop(), which share no code
// with ours.
#include "netdev/wire/ip_address.h"

#include <arpa/inet.h>

#include <random>
#include <string>
#include <vector>

#include "absl/hash/hash_testing.h"
#include "gtest/gtest.h"
#include "tests/netdev/wire/wire_test_util.h"

namespace tapwire {
namespace {

using wire::V6;

TEST(Ipv4AddressTest, KeepsOctetsInOrder) {
  constexpr Ipv4Address address(192, 0, 2, 1);
  static_assert(address.value() == 0xc0000201);
  static_assert(Ipv4Address::FromHostOrder(0xc0000201) == address);
  EXPECT_EQ(address.ToString(), "192.0.2.1");
  EXPECT_EQ(Ipv4Address::Parse("192.0.2.1"), address);
  EXPECT_EQ(Ipv4Address::FromBytes(address.bytes()), address);
}

TEST(Ipv4AddressTest, RefusesAllButDottedQuads) {
  for (const char* text : {"", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.", ".1.2.3", "1..2.3",
                           "01.2.3.4", "1.2.3.04", "0x1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "+1.2.3.4",
                           "1.2.3.-4", "1.2.3.4294967297", "::1"}) {
    EXPECT_FALSE(Ipv4Address::Parse(text)) << text;
  }
}

// RFC 1122 §3.2.1.3, RFC 1112 §4, RFC 3927 §2.1: first and last address of each class and the ones
// just outside.
TEST(Ipv4AddressTest, ClassesHaveTheirBounds) {
  const auto a = [](const char* text) { return *Ipv4Address::Parse(text); };
  EXPECT_TRUE(a("0.0.0.0").IsUnspecified());
  EXPECT_FALSE(a("0.0.0.1").IsUnspecified());
  EXPECT_TRUE(a("0.255.255.255").IsZeroNet());
  EXPECT_FALSE(a("1.0.0.0").IsZeroNet());
  EXPECT_TRUE(a("127.0.0.0").IsLoopback());
  EXPECT_TRUE(a("127.255.255.255").IsLoopback());
  EXPECT_FALSE(a("128.0.0.0").IsLoopback());
  EXPECT_FALSE(a("223.255.255.255").IsMulticast());
  EXPECT_TRUE(a("224.0.0.0").IsMulticast());
  EXPECT_TRUE(a("239.255.255.255").IsMulticast());
  EXPECT_FALSE(a("240.0.0.0").IsMulticast());
  EXPECT_TRUE(a("224.0.0.255").IsLinkLocalMulticast());
  EXPECT_FALSE(a("224.0.1.0").IsLinkLocalMulticast());
  EXPECT_TRUE(a("240.0.0.0").IsClassE());
  EXPECT_TRUE(a("255.255.255.255").IsClassE());
  EXPECT_TRUE(a("255.255.255.255").IsLimitedBroadcast());
  EXPECT_FALSE(a("255.255.255.254").IsLimitedBroadcast());
  EXPECT_TRUE(a("169.254.0.0").IsLinkLocal());
  EXPECT_FALSE(a("169.255.0.0").IsLinkLocal());
}

TEST(Ipv4AddressTest, NamedAddressesAreTheAssignedOnes) {
  EXPECT_EQ(Ipv4Address::kAllSystems.ToString(), "224.0.0.1");
  EXPECT_EQ(Ipv4Address::kAllRouters.ToString(), "224.0.0.2");
  EXPECT_EQ(Ipv4Address::kIgmpv3Routers.ToString(), "224.0.0.22");
  EXPECT_EQ(Ipv4Address::kLimitedBroadcast.ToString(), "255.255.255.255");
  EXPECT_EQ(Ipv4Address::kLoopback.ToString(), "127.0.0.1");
}

struct Canonical {
  const char* text;
  const char* canonical;
};

// The examples of RFC 5952 §4 and §5, and of RFC 4291 §2.2.
TEST(Ipv6AddressTest, TextIsCanonical) {
  constexpr Canonical kCases[] = {
      {"2001:0db8::0001", "2001:db8::1"},
      {"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},
      {"2001:db8::0:1", "2001:db8::1"},
      {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
      {"2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
      {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
      {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
      {"2001:DB8::ABCD:EF12", "2001:db8::abcd:ef12"},
      {"::ffff:192.0.2.1", "::ffff:192.0.2.1"},
      {"::FFFF:c000:0201", "::ffff:192.0.2.1"},
      {"FF01:0:0:0:0:0:0:101", "ff01::101"},
      {"0:0:0:0:0:0:0:1", "::1"},
      {"0:0:0:0:0:0:0:0", "::"},
      {"1::", "1::"},
      {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
      {"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
      {"64:ff9b::192.0.2.33", "64:ff9b::c000:221"},
      {"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"},
  };
  for (const Canonical& c : kCases) {
    const auto address = Ipv6Address::Parse(c.text);
    ASSERT_TRUE(address) << c.text;
    EXPECT_EQ(address->ToString(), c.canonical);
    in6_addr libc;
    ASSERT_EQ(inet_pton(AF_INET6, c.text, &libc), 1);
    EXPECT_EQ(Ipv6Address::FromBytes({libc.s6_addr, 16}), *address) << c.text;
  }
}

TEST(Ipv6AddressTest, RefusesMalformedText) {
  for (const char* text : {"",
                           ":",
                           ":::",
                           "1",
                           "1:2:3:4:5:6:7",
                           "1:2:3:4:5:6:7:8:9",
                           "1::2::3",
                           "1:2:3:4:5:6:7:",
                           ":1:2:3:4:5:6:7",
                           "12345::",
                           "::g",
                           "1:2:3:4:5:6:7:1.2.3.4",
                           "::1.2.3",
                           "1.2.3.4::",
                           "::1.2.3.4:5",
                           "fe80::1%2",
                           "[::1]",
                           "::1 ",
                           " ::1",
                           "1:2:3:4::5:6:7:8",
                           "::1:2:3:4:5:6:7:8",
                           "::-1",
                           "1.2.3.4"}) {
    EXPECT_FALSE(Ipv6Address::Parse(text)) << text;
    in6_addr libc;
    EXPECT_NE(inet_pton(AF_INET6, text, &libc), 1) << text;
  }
}

TEST(Ipv6AddressTest, RandomAddressesReadBackAndAgreeWithTheCLibrary) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::array<uint8_t, 16> bytes;
    // Many zero groups, so that runs of all lengths occur.
    for (size_t g = 0; g < 16; g += 2) {
      const bool zero = random() % 2 == 0;
      StoreBe16(&bytes[g], zero ? uint16_t{0} : static_cast<uint16_t>(random()));
    }
    const Ipv6Address address(bytes);
    const std::string text = address.ToString();
    EXPECT_EQ(Ipv6Address::Parse(text), address) << text;
    in6_addr libc;
    ASSERT_EQ(inet_pton(AF_INET6, text.c_str(), &libc), 1) << text;
    EXPECT_EQ(Ipv6Address::FromBytes({libc.s6_addr, 16}), address) << text;
    // Before RFC 5952, ::a.b.c.d was also written with a quad; the C library still does.
    char libc_text[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, bytes.data(), libc_text, sizeof(libc_text));
    if (std::string(libc_text).find('.') == std::string::npos) {
      EXPECT_EQ(text, libc_text);
    }
  }
}

// RFC 4291 §2.4-2.7, RFC 4193 §3.1.
TEST(Ipv6AddressTest, ClassesHaveTheirBounds) {
  EXPECT_TRUE(V6("::").IsUnspecified());
  EXPECT_TRUE(V6("::1").IsLoopback());
  EXPECT_FALSE(V6("::2").IsLoopback());
  EXPECT_FALSE(V6("1::1").IsLoopback());
  EXPECT_TRUE(V6("fe80::").IsLinkLocal());
  EXPECT_TRUE(V6("febf:ffff::").IsLinkLocal());
  EXPECT_FALSE(V6("fec0::").IsLinkLocal());
  EXPECT_FALSE(V6("fe7f::").IsLinkLocal());
  EXPECT_TRUE(V6("fc00::").IsUniqueLocal());
  EXPECT_TRUE(V6("fdff::").IsUniqueLocal());
  EXPECT_FALSE(V6("fe00::").IsUniqueLocal());
  EXPECT_TRUE(V6("ff00::").IsMulticast());
  EXPECT_FALSE(V6("feff::").IsMulticast());
  EXPECT_TRUE(V6("::ffff:1.2.3.4").IsV4Mapped());
  EXPECT_FALSE(V6("::fffe:1.2.3.4").IsV4Mapped());
  EXPECT_FALSE(V6("1::ffff:1.2.3.4").IsV4Mapped());
  EXPECT_EQ(V6("::ffff:1.2.3.4").EmbeddedV4(), Ipv4Address(1, 2, 3, 4));
  EXPECT_EQ(Ipv6Address::FromV4Mapped({1, 2, 3, 4}), V6("::ffff:1.2.3.4"));
}

// RFC 4291 §2.7, RFC 6724 §3.1.
TEST(Ipv6AddressTest, ScopesAreThoseOfTheRfcs) {
  EXPECT_EQ(V6("ff02::1").scope(), Ipv6Scope::kLinkLocal);
  EXPECT_EQ(V6("ff01::1").scope(), Ipv6Scope::kInterfaceLocal);
  EXPECT_EQ(V6("ff35::1").scope(), Ipv6Scope::kSiteLocal);
  EXPECT_EQ(V6("ff0e::1").scope(), Ipv6Scope::kGlobal);
  EXPECT_EQ(V6("fe80::1").scope(), Ipv6Scope::kLinkLocal);
  EXPECT_EQ(V6("::1").scope(), Ipv6Scope::kLinkLocal);
  EXPECT_EQ(V6("fec0::1").scope(), Ipv6Scope::kSiteLocal);
  EXPECT_EQ(V6("fd00::1").scope(), Ipv6Scope::kGlobal);
  EXPECT_EQ(V6("2001:db8::1").scope(), Ipv6Scope::kGlobal);
}

// RFC 4291 §2.7.1 has this example.
TEST(Ipv6AddressTest, SolicitedNodeGroupTakesTheLast24Bits) {
  EXPECT_EQ(V6("4037::01:800:200e:8c6c").SolicitedNode(), V6("ff02::1:ff0e:8c6c"));
  EXPECT_TRUE(V6("ff02::1:ff0e:8c6c").IsSolicitedNode());
  EXPECT_FALSE(V6("ff02::1:fe0e:8c6c").IsSolicitedNode());
  EXPECT_FALSE(V6("ff02::2:ff0e:8c6c").IsSolicitedNode());
}

TEST(Ipv6AddressTest, NamedAddressesAreTheAssignedOnes) {
  EXPECT_EQ(Ipv6Address::AllNodes(), V6("ff02::1"));
  EXPECT_EQ(Ipv6Address::AllRouters(), V6("ff02::2"));
  EXPECT_EQ(Ipv6Address::AllMldv2Routers(), V6("ff02::16"));
  EXPECT_EQ(Ipv6Address::kLoopback, V6("::1"));
  EXPECT_EQ(Ipv6Address::kUnspecified, V6("::"));
}

TEST(IpAddressTest, KeepsItsFamily) {
  const IpAddress v4 = Ipv4Address(10, 0, 0, 1);
  const IpAddress v6 = V6("2001:db8::1");
  EXPECT_TRUE(v4.is_v4());
  EXPECT_TRUE(v6.is_v6());
  EXPECT_EQ(v4.v4(), Ipv4Address(10, 0, 0, 1));
  EXPECT_EQ(v6.v6(), V6("2001:db8::1"));
  EXPECT_EQ(v4.bytes().size(), 4u);
  EXPECT_EQ(v6.bytes().size(), 16u);
  EXPECT_EQ(IpAddress::Parse("10.0.0.1"), v4);
  EXPECT_EQ(IpAddress::Parse("2001:DB8::1"), v6);
  EXPECT_FALSE(IpAddress::Parse("example.com"));
  EXPECT_EQ(v4.ToString(), "10.0.0.1");
  EXPECT_EQ(v6.ToString(), "2001:db8::1");
}

TEST(IpAddressTest, FamiliesNeverCompareEqual) {
  EXPECT_NE(IpAddress(Ipv4Address()), IpAddress(Ipv6Address()));
  EXPECT_NE(IpAddress(Ipv4Address(1, 2, 3, 4)), IpAddress(V6("::ffff:1.2.3.4")));
  EXPECT_LT(IpAddress(Ipv4Address(255, 255, 255, 255)), IpAddress(Ipv6Address()));
  EXPECT_LT(IpAddress(Ipv4Address(1, 2, 3, 4)), IpAddress(Ipv4Address(1, 2, 4, 0)));
}

TEST(IpAddressTest, PredicatesAskTheFamily) {
  EXPECT_TRUE(IpAddress(Ipv4Address(127, 0, 0, 1)).IsLoopback());
  EXPECT_TRUE(IpAddress(V6("::1")).IsLoopback());
  EXPECT_TRUE(IpAddress(Ipv4Address(224, 0, 0, 1)).IsMulticast());
  EXPECT_TRUE(IpAddress(V6("ff02::1")).IsMulticast());
  EXPECT_TRUE(IpAddress(V6("fe80::1")).IsLinkLocal());
  EXPECT_TRUE(IpAddress(Ipv4Address(169, 254, 1, 1)).IsLinkLocal());
  EXPECT_TRUE(IpAddress::Unspecified(IpFamily::kV6).IsUnspecified());
  EXPECT_TRUE(IpAddress::Unspecified(IpFamily::kV6).is_v6());
  EXPECT_TRUE(IpAddress(Ipv4Address::kLimitedBroadcast).IsLimitedBroadcast());
  EXPECT_FALSE(IpAddress(V6("ffff:ffff::")).IsLimitedBroadcast());
}

TEST(IpAddressTest, HashesByFamilyAndValue) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {IpAddress(), IpAddress(Ipv4Address(1, 2, 3, 4)), IpAddress(V6("::")), IpAddress(V6("::1")),
       IpAddress(V6("102:304::"))}));
}

TEST(IpPrefixTest, ParsesAddressAndLength) {
  const auto prefix = IpPrefix::Parse("10.1.2.3/8");
  ASSERT_TRUE(prefix);
  EXPECT_EQ(prefix->address, IpAddress(Ipv4Address(10, 1, 2, 3)));
  EXPECT_EQ(prefix->length, 8);
  EXPECT_EQ(prefix->ToString(), "10.1.2.3/8");
  EXPECT_EQ(IpPrefix::Parse("2001:db8::/128")->length, 128);
  for (const char* text : {"10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1",
                           "10.0.0.0/08", "10.0.0.0/8 ", "/8", "10.0.0.0/8/8", "::/+1"}) {
    EXPECT_FALSE(IpPrefix::Parse(text)) << text;
  }
}

TEST(IpPrefixTest, ContainsComparesTheLeadingBits) {
  const auto p = [](const char* text) { return *IpPrefix::Parse(text); };
  const auto a = [](const char* text) { return *IpAddress::Parse(text); };
  EXPECT_TRUE(p("10.0.0.0/24").Contains(a("10.0.0.255")));
  EXPECT_FALSE(p("10.0.0.0/24").Contains(a("10.0.1.0")));
  EXPECT_TRUE(p("10.0.0.77/24").Contains(a("10.0.0.1")));
  EXPECT_TRUE(p("192.168.4.0/22").Contains(a("192.168.7.255")));
  EXPECT_FALSE(p("192.168.4.0/22").Contains(a("192.168.8.0")));
  EXPECT_TRUE(p("0.0.0.0/0").Contains(a("255.255.255.255")));
  EXPECT_TRUE(p("10.0.0.1/32").Contains(a("10.0.0.1")));
  EXPECT_FALSE(p("10.0.0.1/32").Contains(a("10.0.0.0")));
  EXPECT_TRUE(p("2001:db8::/33").Contains(a("2001:db8:7fff::1")));
  EXPECT_FALSE(p("2001:db8::/33").Contains(a("2001:db8:8000::1")));
  EXPECT_TRUE(p("::/0").Contains(a("ff02::1")));
  EXPECT_FALSE(p("::/0").Contains(a("10.0.0.1")));
  EXPECT_FALSE(p("0.0.0.0/0").Contains(a("::1")));
}

TEST(IpPrefixTest, NetworkNetmaskAndBroadcast) {
  const IpPrefix prefix = *IpPrefix::Parse("10.77.130.5/22");
  EXPECT_EQ(prefix.Network().ToString(), "10.77.128.0");
  EXPECT_EQ(prefix.Netmask().ToString(), "255.255.252.0");
  EXPECT_EQ(prefix.Broadcast(), Ipv4Address(10, 77, 131, 255));
  EXPECT_EQ(IpPrefix::Parse("0.0.0.0/0")->Netmask().ToString(), "0.0.0.0");
  EXPECT_EQ(IpPrefix::Parse("0.0.0.0/32")->Netmask().ToString(), "255.255.255.255");
  EXPECT_EQ(IpPrefix::Parse("2001:db8:ffff::1/36")->Network().ToString(), "2001:db8:f000::");
  EXPECT_EQ(IpPrefix::Parse("::/36")->Netmask().ToString(), "ffff:ffff:f000::");
}

// RFC 3021 §2.1: a /31 has no broadcast address.
TEST(IpPrefixTest, PointToPointAndIpv6HaveNoBroadcast) {
  EXPECT_EQ(IpPrefix::Parse("10.0.0.0/30")->Broadcast(), Ipv4Address(10, 0, 0, 3));
  EXPECT_FALSE(IpPrefix::Parse("10.0.0.0/31")->Broadcast());
  EXPECT_FALSE(IpPrefix::Parse("10.0.0.0/32")->Broadcast());
  EXPECT_FALSE(IpPrefix::Parse("2001:db8::/24")->Broadcast());
}

TEST(EndpointTest, ParsesBothFamiliesAndZones) {
  EXPECT_EQ(Endpoint::Parse("10.0.0.1:80"),
            (Endpoint{.address = Ipv4Address(10, 0, 0, 1), .port = 80}));
  EXPECT_EQ(Endpoint::Parse("[fe80::1]:65535"),
            (Endpoint{.address = V6("fe80::1"), .port = 65535}));
  EXPECT_EQ(Endpoint::Parse("[fe80::1%7]:80"),
            (Endpoint{.address = V6("fe80::1"), .port = 80, .zone = 7}));
  EXPECT_EQ(Endpoint::Parse("0.0.0.0:0"), Endpoint{});
}

TEST(EndpointTest, RefusesMalformedText) {
  for (const char* text : {"",
                           ":",
                           ":80",
                           "10.0.0.1",
                           "10.0.0.1:",
                           "10.0.0.1:65536",
                           "10.0.0.1:080",
                           "10.0.0.1:-1",
                           "::1:80",
                           "[::1]",
                           "[::1]80",
                           "[::1:80",
                           "::1]:80",
                           "[]:80",
                           "[:80",
                           "]:80",
                           "[10.0.0.1]:80",
                           "[fe80::1%]:80",
                           "[fe80::1%eth0]:80",
                           "[fe80::1%4294967296]:80",
                           "[%1]:80"}) {
    EXPECT_FALSE(Endpoint::Parse(text)) << text;
  }
}

TEST(EndpointTest, TextReadsBack) {
  for (const char* text : {"10.0.0.1:80", "[fe80::1]:80", "[fe80::1%2]:80", "[::]:0"}) {
    EXPECT_EQ(Endpoint::Parse(text)->ToString(), text);
  }
}

TEST(EndpointTest, HashesAllParts) {
  const Ipv4Address a(1, 2, 3, 4);
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {Endpoint{}, Endpoint{.address = a}, Endpoint{.address = a, .port = 1},
       Endpoint{.address = a, .zone = 1}, Endpoint{.address = a, .port = 1, .zone = 1}}));
}

// RFC 1112 §6.4: 23 bits are kept, so groups 32 apart share an address.
TEST(MulticastMacTest, MapsIpv4Groups) {
  EXPECT_EQ(MulticastMac(Ipv4Address(224, 0, 0, 1)).ToString(), "01:00:5e:00:00:01");
  EXPECT_EQ(MulticastMac(Ipv4Address(239, 255, 128, 7)).ToString(), "01:00:5e:7f:80:07");
  EXPECT_EQ(MulticastMac(Ipv4Address(224, 129, 0, 1)), MulticastMac(Ipv4Address(224, 1, 0, 1)));
}

// RFC 2464 §7.
TEST(MulticastMacTest, MapsIpv6Groups) {
  EXPECT_EQ(MulticastMac(V6("ff02::1")).ToString(), "33:33:00:00:00:01");
  EXPECT_EQ(MulticastMac(V6("ff02::1:ff0e:8c6c")).ToString(), "33:33:ff:0e:8c:6c");
  EXPECT_EQ(MulticastMac(IpAddress(V6("ff02::fb"))).ToString(), "33:33:00:00:00:fb");
  EXPECT_EQ(MulticastMac(IpAddress(Ipv4Address(224, 0, 0, 251))).ToString(), "01:00:5e:00:00:fb");
}

}  // namespace
}  // namespace tapwire
