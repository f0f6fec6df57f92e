// SPDX-License-Identifier: Apache-2.0
// Addresses and groups of an interface, and what the link's coming and going does to them.
#include "stack/interface.h"

#include "stack/interface_id.h"
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testutil::ByteVector;
using testutil::Frame;
using testutil::HasGroupRecord;
using testutil::IsArpRequest;
using testutil::IsIgmpReport;
using testutil::IsMldReport;
using testutil::IsNa;
using testutil::IsNs;
using testutil::kHost4;
using testutil::kHost6;
using testutil::kHostMac;
using testutil::kOtherMac;
using testutil::kPeer4;
using testutil::kPeer6;
using testutil::kPeerMac;

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }
IpPrefix Prefix(const char* text) { return *IpPrefix::Parse(text); }

class InterfaceTest : public testutil::HostTest {
 protected:
  void SetUp() override { Make(Quiet(), /*addresses=*/false); }

  absl::StatusCode Add(const char* address) {
    return interface->AddAddress(Prefix(address)).code();
  }
  bool HasRoute(const char* prefix) {
    for (const RouteEntry& e : stack->routes().entries()) {
      if (e.prefix == Prefix(prefix) && e.interface == interface && e.connected) return true;
    }
    return false;
  }
};

TEST_F(InterfaceTest, AddressBringsItsConnectedRouteAndTakesItAway) {
  EXPECT_EQ(Add("10.1.2.3/24"), absl::StatusCode::kOk);
  EXPECT_EQ(Add("10.1.2.4/24"), absl::StatusCode::kOk);
  EXPECT_EQ(Add("2001:db8::5/64"), absl::StatusCode::kOk);
  EXPECT_TRUE(HasRoute("10.1.2.0/24"));
  EXPECT_TRUE(HasRoute("2001:db8::/64"));
  EXPECT_TRUE(interface->RemoveAddress(Ip("10.1.2.3")).ok());
  EXPECT_TRUE(HasRoute("10.1.2.0/24"));  // the other one still needs it
  EXPECT_TRUE(interface->RemoveAddress(Ip("10.1.2.4")).ok());
  EXPECT_FALSE(HasRoute("10.1.2.0/24"));
  EXPECT_TRUE(interface->RemoveAddress(Ip("2001:db8::5")).ok());
  EXPECT_FALSE(HasRoute("2001:db8::/64"));
  EXPECT_EQ(interface->RemoveAddress(Ip("10.1.2.3")).code(), absl::StatusCode::kNotFound);
}

// Covers: rfc:ND-16 RFC 5942 §4: an address of full prefix length says nothing about the link
TEST_F(InterfaceTest, HostPrefixMakesNoRoute) {
  EXPECT_EQ(Add("10.1.2.3/32"), absl::StatusCode::kOk);
  EXPECT_EQ(Add("2001:db8::5/128"), absl::StatusCode::kOk);
  for (const RouteEntry& e : stack->routes().entries()) EXPECT_NE(e.interface, interface);
}

TEST_F(InterfaceTest, ImpossibleAddressesAreRefusedWithAReason) {
  for (const char* bad : {"0.0.0.0/8", "0.1.2.3/8", "224.0.0.1/4", "240.0.0.1/4",
                          "255.255.255.255/32", "10.0.0.255/24", "10.0.0.0/24", "127.0.0.1/8",
                          "::/64", "ff02::1/64", "::1/128", "::ffff:10.0.0.1/128"}) {
    const absl::Status status = interface->AddAddress(Prefix(bad));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("test0")) << bad;
  }
  EXPECT_EQ(interface->AddAddress({Ip("10.0.0.1"), 33}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(interface->AddAddress({Ip("10.0.0.1"), -1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Add("10.0.0.1/24"), absl::StatusCode::kOk);
  EXPECT_EQ(Add("10.0.0.1/16"), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Add("10.0.0.0/31"), absl::StatusCode::kOk);  // RFC 3021: both are hosts
  EXPECT_THAT(interface->addresses(), SizeIs(2));
}

// RFC 8200 §5.
TEST_F(InterfaceTest, Ipv6NeedsAnMtuOf1280) {
  ASSERT_TRUE(device().SetMtu(1279).ok());
  EXPECT_EQ(Add("2001:db8::5/64"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Add("10.0.0.1/24"), absl::StatusCode::kOk);
  ASSERT_TRUE(device().SetMtu(1280).ok());
  EXPECT_EQ(Add("2001:db8::5/64"), absl::StatusCode::kOk);
}

// Covers: rfc:IP-24 rfc:IP-05
TEST_F(InterfaceTest, SubnetBroadcastsAreKnown) {
  ASSERT_EQ(Add("10.1.2.3/24"), absl::StatusCode::kOk);
  ASSERT_EQ(Add("10.9.0.0/31"), absl::StatusCode::kOk);
  EXPECT_TRUE(interface->IsSubnetBroadcast({10, 1, 2, 255}));
  EXPECT_TRUE(interface->IsSubnetBroadcast({10, 1, 2, 0}));
  EXPECT_FALSE(interface->IsSubnetBroadcast({10, 1, 3, 255}));
  EXPECT_FALSE(interface->IsSubnetBroadcast({10, 9, 0, 1}));
}

TEST_F(InterfaceTest, LoopbackAnswersForAllOf127) {
  EXPECT_TRUE(stack->loopback()->HasUsableAddress(Ip("127.9.8.7")));
  EXPECT_FALSE(interface->HasUsableAddress(Ip("127.0.0.1")));
  EXPECT_EQ(stack->FindLocalAddress(Ip("127.0.0.2")), stack->loopback());
  EXPECT_EQ(stack->FindLocalAddress(Ip("::2")), nullptr);
}

// ---- Groups ----

TEST_F(InterfaceTest, GroupsAreCountedAndProgramTheFilter) {
  const IpAddress groups[] = {Ip("239.1.2.3"), Ip("ff05::1:3")};
  const MacAddress macs[] = {{0x01, 0, 0x5e, 1, 2, 3}, {0x33, 0x33, 0, 1, 0, 3}};
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(device().HasMulticast(macs[i]));
    ASSERT_TRUE(interface->JoinGroup(groups[i]).ok());
    ASSERT_TRUE(interface->JoinGroup(groups[i]).ok());
    EXPECT_TRUE(device().HasMulticast(macs[i]));
    ASSERT_TRUE(interface->LeaveGroup(groups[i]).ok());
    EXPECT_TRUE(interface->InGroup(groups[i]));
    ASSERT_TRUE(interface->LeaveGroup(groups[i]).ok());
    EXPECT_FALSE(interface->InGroup(groups[i]));
    EXPECT_FALSE(device().HasMulticast(macs[i]));
    EXPECT_EQ(interface->LeaveGroup(groups[i]).code(), absl::StatusCode::kNotFound);
  }
}

// Covers: rfc:IP-25 rfc:MLD-1: the routers and switches hear of a new group
TEST_F(InterfaceTest, JoiningIsReported) {
  ASSERT_TRUE(interface->JoinGroup(Ip("239.1.2.3")).ok());
  ASSERT_TRUE(interface->JoinGroup(Ip("ff05::1:3")).ok());
  net->Advance(5s);
  const auto sent = net->TakeSent();
  EXPECT_THAT(sent, Contains(IsIgmpReport(HasGroupRecord(4, Ip("239.1.2.3")))));
  EXPECT_THAT(sent, Contains(IsMldReport(HasGroupRecord(4, Ip("ff05::1:3")))));
}

TEST_F(InterfaceTest, GroupsOfOneMacShareTheFilter) {
  ASSERT_TRUE(interface->JoinGroup(Ip("239.1.2.3")).ok());
  ASSERT_TRUE(interface->JoinGroup(Ip("238.129.2.3")).ok());  // same low 23 bits
  ASSERT_TRUE(interface->LeaveGroup(Ip("239.1.2.3")).ok());
  EXPECT_TRUE(device().HasMulticast({0x01, 0, 0x5e, 1, 2, 3}));
}

// RFC 1112 §7.1, RFC 4291 §2.8.
TEST_F(InterfaceTest, AllSystemsGroupsCannotBeLeft) {
  for (const char* group : {"224.0.0.1", "ff02::1"}) {
    EXPECT_TRUE(interface->InGroup(Ip(group)));
    EXPECT_EQ(interface->LeaveGroup(Ip(group)).code(), absl::StatusCode::kNotFound);
    ASSERT_TRUE(interface->JoinGroup(Ip(group)).ok());
    ASSERT_TRUE(interface->LeaveGroup(Ip(group)).ok());
    EXPECT_TRUE(interface->InGroup(Ip(group)));
  }
}

// RFC 4291 §2.8: one solicited-node group per address, shared by those with the same low 24 bits.
TEST_F(InterfaceTest, SolicitedNodeGroupsFollowTheAddresses) {
  const IpAddress group = Ip("ff02::1:ff00:5");
  ASSERT_EQ(Add("2001:db8::5/64"), absl::StatusCode::kOk);
  ASSERT_EQ(Add("2001:db8:1::5/64"), absl::StatusCode::kOk);
  EXPECT_TRUE(interface->InGroup(group));
  EXPECT_EQ(interface->LeaveGroup(group).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(interface->RemoveAddress(Ip("2001:db8::5")).ok());
  EXPECT_TRUE(interface->InGroup(group));
  ASSERT_TRUE(interface->RemoveAddress(Ip("2001:db8:1::5")).ok());
  EXPECT_FALSE(interface->InGroup(group));
}

TEST_F(InterfaceTest, GroupsOfUsersAreLimited) {
  for (const size_t limit : {size_t{0}, size_t{1}, size_t{3}}) {
    stack->config().max_groups_per_interface = limit;
    for (size_t i = 0; i < limit; ++i) {
      ASSERT_TRUE(interface->JoinGroup(Ipv4Address(239, 0, 1, static_cast<uint8_t>(i))).ok());
    }
    EXPECT_EQ(interface->JoinGroup(Ip("239.9.9.9")).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(Add("2001:db8::5/64"), absl::StatusCode::kOk);  // IP's own need no budget
    ASSERT_TRUE(interface->RemoveAddress(Ip("2001:db8::5")).ok());
    for (size_t i = 0; i < limit; ++i) {
      ASSERT_TRUE(interface->LeaveGroup(Ipv4Address(239, 0, 1, static_cast<uint8_t>(i))).ok());
    }
  }
  EXPECT_EQ(interface->JoinGroup(Ip("10.0.0.1")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(interface->JoinGroup(Ip("2001:db8::1")).code(), absl::StatusCode::kInvalidArgument);
}

// ---- Conflict detection and the link ----

class InterfaceLinkTest : public testutil::HostTest {
 protected:
  // Everything on, as a user has it, IPv4 probes too.
  static StackConfig Full() {
    StackConfig config;
    config.arp_probe = true;
    return config;
  }
  void Start(StackConfig config, bool up = true) {
    testutil::NetHarness::Options options;
    options.up = up;
    interface = nullptr;
    stack.reset();
    net = std::make_unique<testutil::NetHarness>(options);
    stack = std::make_unique<Stack>(net->context(), config);
    interface = *stack->AddInterface(net->device());
    interface->SetAddressCallback([this](const IpAddress& address, bool duplicate) {
      outcomes.emplace_back(address, duplicate);
    });
  }
  std::vector<ByteVector> After(Duration time) {
    net->Advance(time);
    return net->TakeSent();
  }
  AddressState StateOf(const IpAddress& address) { return interface->FindAddress(address)->state; }
  // Another host advertises `address`.
  void Claim6(const Ipv6Address& address) {
    net->Inject(
        Frame()
            .Eth(kPeerMac, MulticastMac(Ipv6Address::AllNodes()))
            .Ipv6({.source = address, .destination = Ipv6Address::AllNodes(), .hop_limit = 255})
            .NeighborAdvertisement(
                {.target = address, .link_address = kPeerMac, .override_flag = true})
            .Build());
  }

  std::vector<std::pair<IpAddress, bool>> outcomes;
};

// Covers: rfc:SLAAC-1 rfc:SLAAC-4
TEST_F(InterfaceLinkTest, EveryInterfaceGetsAnOpaqueLinkLocalAddress) {
  Start(Full());
  ASSERT_THAT(interface->addresses(), SizeIs(1));
  const IpAddress own = interface->addresses()[0].address;
  EXPECT_TRUE(Prefix("fe80::/64").Contains(own));
  EXPECT_NE(own, Ip("fe80::ff:fe00:1"));  // RFC 4291 Appendix A for 02:00:00:00:00:01
  EXPECT_EQ(StateOf(own), AddressState::kTentative);
  EXPECT_EQ(interface->link_local(), std::nullopt);
  const auto sent = After(10s);
  EXPECT_THAT(sent, Contains(IsNs(testutil::SrcIs(Ipv6Address()), testutil::TargetIs(own.v6()))));
  EXPECT_THAT(sent, Contains(IsNa(testutil::TargetIs(own.v6()))));
  // A snooping switch must have heard of the group before the probe (RFC 4862 §5.4.2).
  const IpAddress group = own.v6().SolicitedNode();
  size_t report = 0, probe = 0;
  for (size_t i = sent.size(); i-- > 0;) {
    if (::testing::Matches(IsMldReport(HasGroupRecord(4, group)))(sent[i])) report = i;
    if (::testing::Matches(IsNs())(sent[i])) probe = i;
  }
  EXPECT_LT(report, probe);
  EXPECT_EQ(interface->link_local(), own);
  EXPECT_THAT(outcomes, ElementsAre(std::pair(own, false)));
}

TEST_F(InterfaceLinkTest, LinkLocalAddressDependsOnMacAndSecret) {
  Start(Full());
  const IpAddress first = interface->addresses()[0].address;
  testutil::TestDevice& other = net->AddDevice({.name = "test1", .mac = kOtherMac});
  Interface* second = *stack->AddInterface(other);
  EXPECT_NE(second->addresses()[0].address, first);
  Stack neighbour(net->context(), Full());  // another host: another secret
  testutil::TestDevice& third_device = net->AddDevice({.name = "test2", .mac = kHostMac});
  Interface* third = *neighbour.AddInterface(third_device);
  EXPECT_NE(third->addresses()[0].address, first);
}

// Covers: rfc:SLAAC-1 RFC 7217 §6: the next identifier is tried, three times
TEST_F(InterfaceLinkTest, TakenLinkLocalAddressIsReplaced) {
  Start(Full());
  std::vector<IpAddress> tried;
  for (int i = 0; i < 4; ++i) {
    ASSERT_THAT(interface->addresses(), SizeIs(1));
    tried.push_back(interface->addresses()[0].address);
    Claim6(tried.back().v6());
    net->Run();
  }
  for (size_t i = 1; i < tried.size(); ++i) EXPECT_NE(tried[i], tried[i - 1]);
  // The last one stays, marked, and is not used.
  net->Advance(10s);
  ASSERT_THAT(interface->addresses(), SizeIs(1));
  EXPECT_EQ(StateOf(tried.back()), AddressState::kDuplicated);
  EXPECT_EQ(interface->link_local(), std::nullopt);
  EXPECT_THAT(outcomes, SizeIs(4));
  EXPECT_EQ(stack->mib().arp.conflicts.value(), 4u);
}

TEST_F(InterfaceLinkTest, OwnLinkLocalAddressOfTheUserIsEnough) {
  Start(Full(), /*up=*/false);
  ASSERT_TRUE(interface->AddAddress(Prefix("fe80::5/64")).ok());
  ASSERT_TRUE(device().Up().ok());
  net->Advance(10s);
  EXPECT_THAT(interface->addresses(), SizeIs(1));
  EXPECT_EQ(interface->link_local(), Ip("fe80::5"));
}

// Covers: rfc:SLAAC-1 rfc:SLAAC-5
TEST_F(InterfaceLinkTest, AddressesAreCheckedBeforeUseInBothFamilies) {
  Start(Full());
  Settle();
  outcomes.clear();
  for (const char* a : {"192.0.2.1/24", "2001:db8::1/64"}) {
    ASSERT_TRUE(interface->AddAddress(Prefix(a)).ok());
  }
  for (const IpAddress& a : {IpAddress(kHost4), IpAddress(kHost6)}) {
    EXPECT_EQ(StateOf(a), AddressState::kTentative);
    EXPECT_EQ(stack->FindLocalAddress(a), nullptr);
  }
  const auto sent = After(12s);
  EXPECT_THAT(sent, Contains(IsArpRequest(testutil::SenderIpIs(Ipv4Address()))).Times(3));
  EXPECT_THAT(sent, Contains(IsArpRequest(testutil::SenderIpIs(kHost4))).Times(2));
  EXPECT_THAT(sent, Contains(IsNs(testutil::TargetIs(kHost6))).Times(1));
  EXPECT_THAT(sent, Contains(IsNa(testutil::TargetIs(kHost6))));
  EXPECT_THAT(outcomes, ::testing::UnorderedElementsAre(std::pair(IpAddress(kHost4), false),
                                                        std::pair(IpAddress(kHost6), false)));
}

TEST_F(InterfaceLinkTest, TakenAddressIsNeverUsed) {
  Start(Full());
  Settle();
  ASSERT_TRUE(interface->AddAddress(Prefix("2001:db8::1/64")).ok());
  Claim6(kHost6);
  net->Advance(20s);
  EXPECT_EQ(StateOf(kHost6), AddressState::kDuplicated);
  EXPECT_EQ(stack->FindRoute({.destination = kPeer6}).status().code(), absl::StatusCode::kOk)
      << "by the link-local address";
  EXPECT_TRUE(stack->FindRoute({.destination = kPeer6})->source.IsLinkLocal());
  EXPECT_THAT(outcomes, Contains(std::pair(IpAddress(kHost6), true)));
}

TEST_F(InterfaceLinkTest, SwitchedOffDetectionStillAnnounces) {
  StackConfig config = Full();
  config.duplicate_address_detection = false;
  config.link_local_address = false;
  Start(config);
  for (const char* a : {"192.0.2.1/24", "2001:db8::1/64"}) {
    ASSERT_TRUE(interface->AddAddress(Prefix(a)).ok());
  }
  EXPECT_NE(stack->FindLocalAddress(kHost4), nullptr);
  EXPECT_NE(stack->FindLocalAddress(kHost6), nullptr);
  const auto sent = After(10s);
  EXPECT_THAT(sent, Not(Contains(IsNs())));
  EXPECT_THAT(sent, Contains(IsArpRequest(testutil::SenderIpIs(kHost4))).Times(2));
  EXPECT_THAT(sent, Contains(IsNa(testutil::TargetIs(kHost6), testutil::NaFlagsAre("O"))));
  EXPECT_THAT(outcomes, SizeIs(2));
}

TEST_F(InterfaceLinkTest, NoTransmitsMeansNoDetectionForIpv6) {
  StackConfig config = Full();
  config.dad_transmits = 0;
  config.link_local_address = false;
  Start(config);
  ASSERT_TRUE(interface->AddAddress(Prefix("2001:db8::1/64")).ok());
  EXPECT_NE(stack->FindLocalAddress(kHost6), nullptr);
}

TEST_F(InterfaceLinkTest, AddressAddedWhileDownIsCheckedWhenTheLinkComes) {
  Start(Full(), /*up=*/false);
  ASSERT_TRUE(interface->AddAddress(Prefix("192.0.2.1/24")).ok());
  ASSERT_TRUE(interface->AddAddress(Prefix("2001:db8::1/64")).ok());
  EXPECT_THAT(After(30s), IsEmpty());
  EXPECT_EQ(stack->FindLocalAddress(kHost4), nullptr);
  ASSERT_TRUE(device().Up().ok());
  const auto sent = After(12s);
  EXPECT_THAT(sent, Contains(IsArpRequest()).Times(5));
  EXPECT_THAT(sent, Contains(IsNs(testutil::TargetIs(kHost6))));
  EXPECT_NE(stack->FindLocalAddress(kHost4), nullptr);
  EXPECT_NE(stack->FindLocalAddress(kHost6), nullptr);
}

// RFC 5227 §2.1: checked again after the interface was inactive.
TEST_F(InterfaceLinkTest, DeviceDownForgetsNeighboursAndChecksAddressesAgain) {
  Start(Full());
  ASSERT_TRUE(interface->AddAddress(Prefix("192.0.2.1/24")).ok());
  Settle();
  SendTo(kPeer4);
  net->Run();
  AnswerFor(kPeer4, kPeerMac);
  ASSERT_EQ(interface->neighbors(IpFamily::kV4).size(), 1u);
  const uint32_t generation = stack->route_generation();
  device().Down();
  EXPECT_EQ(interface->neighbors(IpFamily::kV4).size(), 0u);
  EXPECT_EQ(stack->FindLocalAddress(kHost4), nullptr);
  EXPECT_NE(stack->route_generation(), generation);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
  ASSERT_TRUE(device().Up().ok());
  net->TakeSent();
  EXPECT_THAT(After(12s), Contains(IsArpRequest(testutil::SenderIpIs(Ipv4Address()))).Times(3));
  EXPECT_NE(stack->FindLocalAddress(kHost4), nullptr);
}

TEST_F(InterfaceLinkTest, LostCarrierKeepsAddressesAndAnnouncesThemAgain) {
  Start(Full());
  ASSERT_TRUE(interface->AddAddress(Prefix("192.0.2.1/24")).ok());
  ASSERT_TRUE(interface->AddAddress(Prefix("2001:db8::1/64")).ok());
  Settle();
  SendTo(kPeer4);
  net->Run();
  device().SetCarrier(false);
  EXPECT_EQ(interface->neighbors(IpFamily::kV4).size(), 0u);
  EXPECT_EQ(drops(DropReason::kNeighborUnresolved), 1u);
  EXPECT_NE(stack->FindLocalAddress(kHost4), nullptr);
  EXPECT_THAT(After(30s), Not(Contains(IsMldReport())));
  device().SetCarrier(true);
  const auto sent = After(10s);
  EXPECT_THAT(sent, Contains(IsArpRequest(testutil::SenderIpIs(kHost4))).Times(2));
  EXPECT_THAT(sent, Contains(IsNa(testutil::TargetIs(kHost6))));
  EXPECT_THAT(sent, Contains(IsMldReport()));
}

// The kernel's neighbour entries must follow: gratuitous ARP and unsolicited NA with the new MAC.
TEST_F(InterfaceLinkTest, NewMacIsAnnounced) {
  Start(Full());
  ASSERT_TRUE(interface->AddAddress(Prefix("192.0.2.1/24")).ok());
  ASSERT_TRUE(interface->AddAddress(Prefix("2001:db8::1/64")).ok());
  Settle();
  SendTo(kPeer4);
  net->Run();
  net->TakeSent();
  ASSERT_TRUE(device().SetMac(kOtherMac).ok());
  EXPECT_EQ(interface->neighbors(IpFamily::kV4).size(), 0u);
  const auto sent = After(10s);
  EXPECT_THAT(
      sent, Contains(IsArpRequest(testutil::SenderMacIs(kOtherMac), testutil::SenderIpIs(kHost4))));
  EXPECT_THAT(sent,
              Contains(IsNa(testutil::TargetIs(kHost6), testutil::TargetLinkAddressIs(kOtherMac))));
}

TEST_F(InterfaceLinkTest, CallbackMayRemoveTheInterfaceOrReplaceItself) {
  StackConfig config = Full();
  config.duplicate_address_detection = false;
  config.link_local_address = false;
  Start(config);
  interface->SetAddressCallback([this](const IpAddress& address, bool) {
    interface->SetAddressCallback(nullptr);
    outcomes.emplace_back(address, false);
    stack->RemoveInterface(*interface);
  });
  ASSERT_TRUE(interface->AddAddress(Prefix("192.0.2.1/24")).ok());
  ASSERT_TRUE(interface->AddAddress(Prefix("2001:db8::1/64")).ok());
  EXPECT_THAT(outcomes, IsEmpty());  // never inside the call
  net->Run();
  EXPECT_THAT(outcomes, SizeIs(1));
  EXPECT_EQ(stack->interfaces().size(), 1u);
}

}  // namespace
}  // namespace tapwire
