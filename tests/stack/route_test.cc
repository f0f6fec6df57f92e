// SPDX-License-Identifier: Apache-2.0
#include "stack/route.h"

#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using ::testing::ElementsAre;

IpPrefix Prefix(const char* text) { return *IpPrefix::Parse(text); }
IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

class RouteTableTest : public testutil::HostTest {
 protected:
  void SetUp() override {
    Make(Quiet(), /*addresses=*/false);
    second_device = &net->AddDevice({.name = "test1", .mac = testutil::kOtherMac});
    second = *stack->AddInterface(*second_device);
    Settle();
  }
  RouteEntry Entry(const char* prefix, const char* gateway = nullptr, uint32_t metric = 0) {
    RouteEntry entry{.prefix = Prefix(prefix), .interface = interface, .metric = metric};
    if (gateway != nullptr) entry.gateway = Ip(gateway);
    return entry;
  }
  std::string GatewayOf(const char* destination, const Interface* through = nullptr) {
    const RouteEntry* entry = table.Lookup(Ip(destination), through);
    if (entry == nullptr) return "none";
    return entry->gateway ? entry->gateway->ToString() : "on-link";
  }

  testutil::TestDevice* second_device = nullptr;
  Interface* second = nullptr;
  RouteTable table;
};

// Covers: rfc:IP-23 RFC 1122 §3.3.1.2
TEST_F(RouteTableTest, LongestPrefixWins) {
  for (const auto& entry :
       {Entry("0.0.0.0/0", "10.0.0.1"), Entry("10.0.0.0/8", "10.0.0.2"), Entry("10.1.0.0/16"),
        Entry("10.1.2.3/32", "10.0.0.3"), Entry("::/0", "fe80::1"),
        Entry("2001:db8::/32", "fe80::2"), Entry("2001:db8:1::/48")}) {
    ASSERT_TRUE(table.Add(entry).ok());
  }
  EXPECT_EQ(GatewayOf("9.9.9.9"), "10.0.0.1");
  EXPECT_EQ(GatewayOf("10.9.9.9"), "10.0.0.2");
  EXPECT_EQ(GatewayOf("10.1.9.9"), "on-link");
  EXPECT_EQ(GatewayOf("10.1.2.3"), "10.0.0.3");
  EXPECT_EQ(GatewayOf("2002::1"), "fe80::1");
  EXPECT_EQ(GatewayOf("2001:db8:2::1"), "fe80::2");
  EXPECT_EQ(GatewayOf("2001:db8:1::1"), "on-link");
}

TEST_F(RouteTableTest, MetricThenAgeDecideAmongEqualPrefixes) {
  ASSERT_TRUE(table.Add(Entry("0.0.0.0/0", "10.0.0.1", 20)).ok());
  ASSERT_TRUE(table.Add(Entry("0.0.0.0/0", "10.0.0.2", 10)).ok());
  ASSERT_TRUE(table.Add(Entry("0.0.0.0/0", "10.0.0.3", 10)).ok());
  EXPECT_EQ(GatewayOf("9.9.9.9"), "10.0.0.2");
  ASSERT_TRUE(table.Remove(Entry("0.0.0.0/0", "10.0.0.2", 10)).ok());
  EXPECT_EQ(GatewayOf("9.9.9.9"), "10.0.0.3");
  ASSERT_TRUE(table.Remove(Entry("0.0.0.0/0", "10.0.0.3", 10)).ok());
  EXPECT_EQ(GatewayOf("9.9.9.9"), "10.0.0.1");
}

TEST_F(RouteTableTest, OnlyRunningInterfacesCount) {
  ASSERT_TRUE(table.Add(Entry("10.0.0.0/8", "10.0.0.1")).ok());
  RouteEntry other = Entry("0.0.0.0/0", "192.0.2.1");
  other.interface = second;
  ASSERT_TRUE(table.Add(other).ok());
  EXPECT_EQ(GatewayOf("10.2.3.4"), "10.0.0.1");
  EXPECT_EQ(GatewayOf("10.2.3.4", second), "192.0.2.1");
  device().SetCarrier(false);
  EXPECT_EQ(GatewayOf("10.2.3.4"), "192.0.2.1");
  EXPECT_EQ(GatewayOf("10.2.3.4", interface), "none");
  second_device->Down();
  EXPECT_EQ(GatewayOf("10.2.3.4"), "none");
}

TEST_F(RouteTableTest, HostBitsAreCleared) {
  ASSERT_TRUE(table.Add(Entry("10.1.2.3/8")).ok());
  EXPECT_EQ(table.entries()[0].prefix.address, Ip("10.0.0.0"));
  EXPECT_EQ(table.Add(Entry("10.9.9.9/8")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(table.Remove(Entry("10.7.7.7/8")).ok());
  EXPECT_EQ(table.Remove(Entry("10.7.7.7/8")).code(), absl::StatusCode::kNotFound);
}

TEST_F(RouteTableTest, ImpossibleRoutesAreRefused) {
  RouteEntry no_interface = Entry("10.0.0.0/8", "10.0.0.1");
  no_interface.interface = nullptr;
  RouteEntry too_long = Entry("10.0.0.0/8");
  too_long.prefix.length = 33;
  RouteEntry negative = Entry("2001:db8::/32");
  negative.prefix.length = -1;
  for (const RouteEntry& bad :
       {no_interface, too_long, negative, Entry("10.0.0.0/8", "fe80::1"),
        Entry("2001:db8::/32", "10.0.0.1"), Entry("0.0.0.0/0", "0.0.0.0"), Entry("::/0", "ff02::2"),
        Entry("0.0.0.0/0", "255.255.255.255"), Entry("0.0.0.0/0", "127.0.0.1")}) {
    const absl::Status status = table.Add(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("route "));
  }
  EXPECT_TRUE(table.entries().empty());
}

TEST_F(RouteTableTest, GenerationChangesWithEveryChange) {
  const uint32_t before = table.generation();
  ASSERT_TRUE(table.Add(Entry("10.0.0.0/8")).ok());
  const uint32_t added = table.generation();
  EXPECT_NE(added, before);
  EXPECT_FALSE(table.Add(Entry("10.0.0.0/8")).ok());
  EXPECT_EQ(table.generation(), added);
  table.RemoveInterface(*interface);
  EXPECT_NE(table.generation(), added);
  EXPECT_TRUE(table.entries().empty());
}

}  // namespace
}  // namespace tapwire
