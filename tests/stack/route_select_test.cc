// SPDX-License-Identifier: Apache-2.0
// Stack::FindRoute: kinds of destinations, interfaces, sources and the errors that are documented.
#include "stack/path_mtu.h"
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }
IpPrefix Prefix(const char* text) { return *IpPrefix::Parse(text); }

class RouteSelectTest : public testutil::HostTest {
 protected:
  // Two interfaces: test0 with 10.0.0.1/24, 2001:db8:a::1/64, fe80::a; test1 with 10.0.1.1/24,
  // 2001:db8:b::1/64, fe80::b. Default gateways on test0.
  void SetUp() override {
    Make(Quiet(), /*addresses=*/false);
    second_device = &net->AddDevice({.name = "test1", .mac = testutil::kOtherMac});
    second = *stack->AddInterface(*second_device);
    for (const char* a : {"10.0.0.1/24", "2001:db8:a::1/64", "fe80::a/64"}) Add(*interface, a);
    for (const char* a : {"10.0.1.1/24", "2001:db8:b::1/64", "fe80::b/64"}) Add(*second, a);
    for (const char* gateway : {"10.0.0.254", "2001:db8:a::fe"}) {
      const IpAddress ip = Ip(gateway);
      ASSERT_TRUE(
          stack->AddRoute({.prefix = {IpAddress::Unspecified(ip.family()), 0}, .gateway = ip})
              .ok());
    }
    Settle();
  }
  static void Add(Interface& to, const char* address) {
    ASSERT_TRUE(to.AddAddress(Prefix(address)).ok()) << address;
  }
  absl::StatusOr<Route> Find(const char* destination, const char* source = nullptr,
                             const Interface* through = nullptr) {
    Stack::RouteRequest request{.destination = Ip(destination)};
    if (source != nullptr) request.source = Ip(source);
    if (through != nullptr) request.ifindex = through->index();
    return stack->FindRoute(request);
  }
  absl::StatusCode CodeOf(const char* destination, const char* source = nullptr,
                          const Interface* through = nullptr) {
    const auto route = Find(destination, source, through);
    return route.ok() ? absl::StatusCode::kOk : route.status().code();
  }
  // "kind interface source next-hop", or the error.
  std::string Summary(const char* destination, const char* source = nullptr,
                      const Interface* through = nullptr) {
    const auto route = Find(destination, source, through);
    if (!route.ok()) return absl::StatusCodeToString(route.status().code());
    static constexpr const char* kKinds[] = {"unicast", "local", "broadcast", "multicast"};
    EXPECT_EQ(route->destination, Ip(destination));
    EXPECT_EQ(route->generation, stack->route_generation());
    return std::string(kKinds[static_cast<size_t>(route->kind)]) + " " +
           route->interface->device().name() + " " + route->source.ToString() + " " +
           route->next_hop.ToString();
  }

  testutil::TestDevice* second_device = nullptr;
  Interface* second = nullptr;
};

// Covers: rfc:IP-23 rfc:IP-26 RFC 1122 §3.3.1.1
TEST_F(RouteSelectTest, OnLinkDestinationIsItsOwnNextHop) {
  EXPECT_EQ(Summary("10.0.0.7"), "unicast test0 10.0.0.1 10.0.0.7");
  EXPECT_EQ(Summary("10.0.1.7"), "unicast test1 10.0.1.1 10.0.1.7");
  EXPECT_EQ(Summary("2001:db8:a::7"), "unicast test0 2001:db8:a::1 2001:db8:a::7");
  EXPECT_EQ(Summary("2001:db8:b::7"), "unicast test1 2001:db8:b::1 2001:db8:b::7");
}

// Covers: rfc:IP-23
TEST_F(RouteSelectTest, OtherDestinationsGoToTheGateway) {
  EXPECT_EQ(Summary("192.0.2.9"), "unicast test0 10.0.0.1 10.0.0.254");
  EXPECT_EQ(Summary("2001:db8:ffff::1"), "unicast test0 2001:db8:a::1 2001:db8:a::fe");
}

TEST_F(RouteSelectTest, InterfaceIndexRestricts) {
  EXPECT_EQ(CodeOf("192.0.2.9", nullptr, second), absl::StatusCode::kNotFound);
  EXPECT_EQ(Summary("192.0.2.9", nullptr, interface), "unicast test0 10.0.0.1 10.0.0.254");
  const auto route = stack->FindRoute({.destination = Ip("192.0.2.9"), .ifindex = 999});
  EXPECT_EQ(route.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(route.status().message()), HasSubstr("999"));
}

// Covers: rfc:IP-07 bug:B75
TEST_F(RouteSelectTest, OwnAddressesAndLoopbackStayInside) {
  EXPECT_EQ(Summary("10.0.0.1"), "local lo 10.0.0.1 10.0.0.1");
  EXPECT_EQ(Summary("10.0.1.1", "10.0.0.1"), "local lo 10.0.0.1 10.0.1.1");
  EXPECT_EQ(Summary("2001:db8:b::1"), "local lo 2001:db8:b::1 2001:db8:b::1");
  EXPECT_EQ(Summary("127.0.0.1"), "local lo 127.0.0.1 127.0.0.1");
  EXPECT_EQ(Summary("127.0.0.2"), "local lo 127.0.0.1 127.0.0.2");
  EXPECT_EQ(Summary("127.255.1.2", "127.0.0.2"), "local lo 127.0.0.2 127.255.1.2");
  EXPECT_EQ(Summary("::1"), "local lo ::1 ::1");
  EXPECT_EQ(Summary("fe80::a"), "local lo fe80::a fe80::a");
  EXPECT_EQ(Find("127.0.0.1")->mtu, 65536u);
}

// Covers: bug:B75
TEST_F(RouteSelectTest, WithoutLoopbackItsAddressesAreUnreachable) {
  stack->loopback()->device().Down();
  for (const char* ip : {"127.0.0.1", "127.0.0.2", "::1", "10.0.0.1", "2001:db8:a::1"}) {
    EXPECT_EQ(CodeOf(ip), absl::StatusCode::kUnavailable) << ip;
  }
  EXPECT_EQ(CodeOf("127.0.0.2", "10.0.0.1", interface), absl::StatusCode::kUnavailable);
}

// Covers: rfc:IP-07 bug:B75
TEST_F(RouteSelectTest, LoopbackSourceNeverLeaves) {
  EXPECT_EQ(CodeOf("10.0.0.7", "127.0.0.1"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("192.0.2.9", "127.0.0.5"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("2001:db8:a::7", "::1"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("255.255.255.255", "127.0.0.1", interface), absl::StatusCode::kInvalidArgument);
}

// Covers: rfc:IP-24 RFC 1122 §3.3.6
TEST_F(RouteSelectTest, Broadcasts) {
  EXPECT_EQ(Summary("10.0.0.255"), "broadcast test0 10.0.0.1 10.0.0.255");
  EXPECT_EQ(Summary("10.0.1.255"), "broadcast test1 10.0.1.1 10.0.1.255");
  EXPECT_EQ(Summary("10.0.1.0"), "broadcast test1 10.0.1.1 10.0.1.0");
  EXPECT_EQ(Summary("255.255.255.255"), "broadcast test0 10.0.0.1 255.255.255.255");
  EXPECT_EQ(Summary("255.255.255.255", nullptr, second),
            "broadcast test1 10.0.1.1 255.255.255.255");
  EXPECT_EQ(Summary("255.255.255.255", "10.0.1.1"), "broadcast test1 10.0.1.1 255.255.255.255");
  ASSERT_TRUE(
      stack
          ->RemoveRoute(
              {.prefix = Prefix("0.0.0.0/0"), .gateway = Ip("10.0.0.254"), .interface = interface})
          .ok());
  EXPECT_EQ(CodeOf("255.255.255.255"), absl::StatusCode::kNotFound);  // which interface?
}

TEST_F(RouteSelectTest, PointToPointPrefixesHaveNoBroadcast) {
  Add(*second, "10.7.0.0/31");
  EXPECT_EQ(Summary("10.7.0.1"), "unicast test1 10.7.0.0 10.7.0.1");  // RFC 3021
}

TEST_F(RouteSelectTest, Groups) {
  EXPECT_EQ(Summary("239.1.2.3"), "multicast test0 10.0.0.1 239.1.2.3");  // by the default route
  EXPECT_EQ(Summary("239.1.2.3", nullptr, second), "multicast test1 10.0.1.1 239.1.2.3");
  EXPECT_EQ(Summary("239.1.2.3", "10.0.1.1"), "multicast test1 10.0.1.1 239.1.2.3");
  EXPECT_EQ(Summary("ff05::1", nullptr, second), "multicast test1 2001:db8:b::1 ff05::1");
  EXPECT_EQ(Summary("ff02::1", nullptr, interface), "multicast test0 fe80::a ff02::1");
  EXPECT_EQ(CodeOf("ff02::1"), absl::StatusCode::kNotFound);  // two interfaces: which?
  EXPECT_EQ(Summary("ff01::1"), "multicast lo ::1 ff01::1");  // interface-local
  EXPECT_EQ(CodeOf("ff00::1"), absl::StatusCode::kInvalidArgument);
  second_device->Down();
  EXPECT_EQ(Summary("ff02::1"), "multicast test0 fe80::a ff02::1");
}

// RFC 4007 §6: link-local addresses mean nothing without their zone.
TEST_F(RouteSelectTest, LinkLocalNeedsItsInterface) {
  EXPECT_EQ(CodeOf("fe80::7"), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Find("fe80::7").status().message()), HasSubstr("interface"));
  EXPECT_EQ(Summary("fe80::7", nullptr, second), "unicast test1 fe80::b fe80::7");
  EXPECT_EQ(Summary("fe80::7", "fe80::a"), "unicast test0 fe80::a fe80::7");
  EXPECT_EQ(CodeOf("fe80::7", "fe80::a", second), absl::StatusCode::kInvalidArgument);
  // Our own link-local address, seen from another link, is a stranger.
  EXPECT_EQ(Summary("fe80::a", nullptr, second), "unicast test1 fe80::b fe80::a");
  second_device->Down();
  EXPECT_EQ(Summary("fe80::7"), "unicast test0 fe80::a fe80::7");  // the only one left
}

TEST_F(RouteSelectTest, LinkLocalSourceStaysOnItsLink) {
  EXPECT_EQ(Summary("2001:db8:a::7", "fe80::a"), "unicast test0 fe80::a 2001:db8:a::7");
  EXPECT_EQ(CodeOf("2001:db8:b::7", "fe80::a"), absl::StatusCode::kInvalidArgument);
}

// Covers: rfc:IP-08 rfc:IP-26
TEST_F(RouteSelectTest, GivenSourceMustBeOurs) {
  EXPECT_EQ(Summary("10.0.0.7", "10.0.1.1"), "unicast test0 10.0.1.1 10.0.0.7");  // weak host
  for (const char* bad : {"10.0.0.2", "224.0.0.1", "255.255.255.255", "10.0.0.255", "0.0.0.0"}) {
    EXPECT_EQ(CodeOf("10.0.0.7", bad), absl::StatusCode::kInvalidArgument) << bad;
  }
  for (const char* bad : {"2001:db8:a::2", "ff02::1", "::"}) {
    EXPECT_EQ(CodeOf("2001:db8:a::7", bad), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(CodeOf("10.0.0.7", "2001:db8:a::1"), absl::StatusCode::kInvalidArgument);
}

// Two interfaces in one subnet: each address leaves by its own (no "ARP flux").
TEST_F(RouteSelectTest, SourcePicksAmongEqualRoutes) {
  Add(*second, "10.0.0.2/24");
  Add(*second, "2001:db8:a::2/64");
  EXPECT_EQ(Summary("10.0.0.7"), "unicast test0 10.0.0.1 10.0.0.7");
  EXPECT_EQ(Summary("10.0.0.7", "10.0.0.2"), "unicast test1 10.0.0.2 10.0.0.7");
  EXPECT_EQ(Summary("2001:db8:a::7", "2001:db8:a::2"), "unicast test1 2001:db8:a::2 2001:db8:a::7");
}

// Covers: rfc:ADDR-1: preferred over deprecated, outgoing interface, subnet of the next hop
TEST_F(RouteSelectTest, SourceIsTheOneInTheSubnetOfTheNextHop) {
  Add(*interface, "10.5.0.1/16");
  ASSERT_TRUE(stack->AddRoute({.prefix = Prefix("10.8.0.0/16"), .gateway = Ip("10.5.0.9")}).ok());
  EXPECT_EQ(Summary("10.8.1.1"), "unicast test0 10.5.0.1 10.5.0.9");
  EXPECT_EQ(Summary("10.9.1.1"), "unicast test0 10.0.0.1 10.0.0.254");
}

TEST_F(RouteSelectTest, InterfaceWithoutAddressBorrowsOne) {
  testutil::TestDevice& third_device = net->AddDevice({.name = "test2", .mac = testutil::kPeerMac});
  Interface* third = *stack->AddInterface(third_device);
  ASSERT_TRUE(stack->AddRoute({.prefix = Prefix("10.3.0.0/16"), .interface = third}).ok());
  ASSERT_TRUE(stack->AddRoute({.prefix = Prefix("2001:db8:3::/48"), .interface = third}).ok());
  EXPECT_EQ(Summary("10.3.0.1"), "unicast test2 10.0.0.1 10.3.0.1");
  EXPECT_EQ(Summary("2001:db8:3::1"), "unicast test2 2001:db8:a::1 2001:db8:3::1");
  EXPECT_EQ(CodeOf("fe80::7", nullptr, third), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Find("fe80::7", nullptr, third).status().message()), HasSubstr("test2"));
}

TEST_F(RouteSelectTest, TentativeAddressIsNoSourceAndNoDestination) {
  stack->config().duplicate_address_detection = true;
  stack->config().arp_probe = true;
  testutil::TestDevice& third_device = net->AddDevice({.name = "test2", .mac = testutil::kPeerMac});
  Interface* third = *stack->AddInterface(third_device);
  Add(*third, "10.6.0.1/16");
  Add(*third, "2001:db8:6::1/64");
  EXPECT_EQ(CodeOf("10.6.0.1"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf("2001:db8:6::1"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf("10.0.0.7", "10.6.0.1"), absl::StatusCode::kInvalidArgument);
  for (Interface* other : {interface, second}) {
    const std::vector<InterfaceAddress> addresses = other->addresses();
    for (const InterfaceAddress& a : addresses) ASSERT_TRUE(other->RemoveAddress(a.address).ok());
  }
  EXPECT_EQ(CodeOf("10.6.0.7"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf("2001:db8:6::7"), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Find("10.6.0.7").status().message()), HasSubstr("still being checked"));
  Settle();
  EXPECT_EQ(Summary("10.6.0.7"), "unicast test2 10.6.0.1 10.6.0.7");
  EXPECT_EQ(Summary("2001:db8:6::1"), "local lo 2001:db8:6::1 2001:db8:6::1");
}

TEST_F(RouteSelectTest, DestinationsThatNameNoHost) {
  for (const char* bad :
       {"0.0.0.0", "0.1.2.3", "240.0.0.1", "255.255.255.254", "::", "::ffff:10.0.0.7"}) {
    EXPECT_EQ(CodeOf(bad), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST_F(RouteSelectTest, NoRouteAndDownAreDifferentErrors) {
  device().SetCarrier(false);
  EXPECT_EQ(CodeOf("192.0.2.9"), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Find("192.0.2.9").status().message()), HasSubstr("carrier"));
  device().SetCarrier(true);
  device().Down();
  EXPECT_EQ(CodeOf("192.0.2.9"), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Find("192.0.2.9").status().message()), HasSubstr("down"));
  EXPECT_EQ(CodeOf("239.1.1.1", nullptr, interface), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf("fe80::7", nullptr, interface), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(
      stack
          ->RemoveRoute(
              {.prefix = Prefix("0.0.0.0/0"), .gateway = Ip("10.0.0.254"), .interface = interface})
          .ok());
  EXPECT_EQ(CodeOf("192.0.2.9"), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Find("192.0.2.9").status().message()), HasSubstr("no route"));
}

// (demand 67) One truth for the MTU: device, path, both families.
TEST_F(RouteSelectTest, MtuIsTheSmallerOfDeviceAndPath) {
  EXPECT_EQ(Find("192.0.2.9")->mtu, 1500u);
  EXPECT_EQ(Find("2001:db8:ffff::1")->mtu, 1500u);
  stack->path_mtu().Report(Ip("192.0.2.9"), 1400, 1500);
  stack->path_mtu().Report(Ip("2001:db8:ffff::1"), 1300, 1500);
  EXPECT_EQ(Find("192.0.2.9")->mtu, 1400u);
  EXPECT_EQ(Find("2001:db8:ffff::1")->mtu, 1300u);
  EXPECT_EQ(Find("192.0.2.10")->mtu, 1500u);
  const uint32_t generation = stack->route_generation();
  ASSERT_TRUE(device().SetMtu(1280).ok());
  EXPECT_NE(stack->route_generation(), generation);
  EXPECT_EQ(Find("192.0.2.9")->mtu, 1280u);
  EXPECT_EQ(Find("2001:db8:ffff::1")->mtu, 1280u);
  // RFC 8200 §5: no IPv6 over less than 1280.
  ASSERT_TRUE(device().SetMtu(1279).ok());
  EXPECT_EQ(Find("192.0.2.9")->mtu, 1279u);
  EXPECT_EQ(CodeOf("2001:db8:ffff::1"), absl::StatusCode::kUnavailable);
}

TEST_F(RouteSelectTest, AddRouteFindsTheInterfaceOfTheGateway) {
  ASSERT_TRUE(stack->AddRoute({.prefix = Prefix("10.8.0.0/16"), .gateway = Ip("10.0.1.9")}).ok());
  EXPECT_EQ(Summary("10.8.0.1"), "unicast test1 10.0.1.1 10.0.1.9");
  EXPECT_EQ(stack->AddRoute({.prefix = Prefix("10.9.0.0/16"), .gateway = Ip("10.77.0.1")}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->AddRoute({.prefix = Prefix("10.9.0.0/16"), .gateway = Ip("10.0.1.1")}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->AddRoute({.prefix = Prefix("10.9.0.0/16")}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->AddRoute({.prefix = Prefix("10.8.0.0/16"), .gateway = Ip("10.0.1.9")}).code(),
            absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace tapwire
