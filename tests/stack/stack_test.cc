// SPDX-License-Identifier: Apache-2.0
// The stack as a whole: interfaces coming and going, loopback, hand-over to transports, and that
// nothing is left when it goes.
#include "stack/stack.h"

#include "netdev/csum_offload.h"
#include "netdev/registry.h"
#include "netdev/veth.h"
#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testutil::Frame;
using testutil::kHost4;
using testutil::kHost6;
using testutil::kHostMac;
using testutil::kPeer4;
using testutil::kPeer6;
using testutil::kPeerMac;
using testutil::Pattern;
using testutil::RecordingTransport;

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

class StackTest : public testutil::HostFamilyTest {
 protected:
  void SetUp() override { Start(Quiet()); }
  void Start(StackConfig config) {
    Make(config);
    stack->RegisterTransport(RecordingTransport::kProtocol, &transport);
  }
  // A datagram from the peer to `destination` for protocol `protocol`.
  void Receive(const IpAddress& destination, uint8_t protocol, const IpAddress& source,
               const MacAddress& to = kHostMac) {
    Frame frame;
    frame.Eth(kPeerMac, to);
    if (destination.is_v4()) {
      frame.Ipv4({.source = source.v4(), .destination = destination.v4(), .protocol = protocol});
    } else {
      frame.Ipv6({.source = source.v6(), .destination = destination.v6(), .next_header = protocol});
    }
    net->Inject(frame.Payload(Pattern(12)).Build());
  }
};

INSTANTIATE_TEST_SUITE_P(Family, StackTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

// ---- Loopback ----

TEST_P(StackTest, LoopbackIsThereWithItsAddresses) {
  Interface* loopback = stack->loopback();
  ASSERT_NE(loopback, nullptr);
  EXPECT_EQ(loopback->device().name(), "lo");
  EXPECT_TRUE(loopback->device().is_running());
  EXPECT_TRUE(loopback->HasUsableAddress(Ip("127.0.0.1")));
  EXPECT_TRUE(loopback->HasUsableAddress(Ip("::1")));
  EXPECT_EQ(stack->interfaces().front().get(), loopback);
}

TEST_P(StackTest, EveryStackOfAContextHasItsOwn) {
  Stack second(net->context(), Quiet());
  Stack third(net->context(), Quiet());
  EXPECT_EQ(second.loopback()->device().name(), "lo0");
  EXPECT_EQ(third.loopback()->device().name(), "lo1");
}

// Covers: rfc:IP-07
TEST_P(StackTest, DatagramToOurselvesNeverTouchesTheWire) {
  for (const char* text : {v4() ? "127.0.0.1" : "::1", v4() ? "192.0.2.1" : "2001:db8::1"}) {
    transport.lengths.clear();
    const auto before = net->Sent().size();
    EXPECT_TRUE(netdev::TxOk(SendTo(Ip(text), 30000)));
    net->Run();
    EXPECT_THAT(transport.lengths, ElementsAre(30000)) << text;
    EXPECT_EQ(net->Sent().size(), before);
    EXPECT_EQ(transport.infos.back().interface, stack->loopback());
    EXPECT_EQ(transport.infos.back().source, Ip(text));
    EXPECT_EQ(transport.infos.back().destination, Ip(text));
  }
  if (v4()) {
    EXPECT_TRUE(netdev::TxOk(SendTo(Ip("127.0.0.2"))));
    net->Run();
    EXPECT_EQ(transport.infos.back().destination, Ip("127.0.0.2"));
  }
}

// Covers: bug:B75 rfc:IP-07: 127/8 and ::1 from the wire
TEST_P(StackTest, LoopbackAddressesFromTheWireAreDropped) {
  const IpAddress loopback = v4() ? Ip("127.0.0.1") : Ip("::1");
  Receive(loopback, RecordingTransport::kProtocol, peer());
  Receive(host(), RecordingTransport::kProtocol, loopback);
  EXPECT_THAT(transport.lengths, IsEmpty());
  EXPECT_EQ(drops(v4() ? DropReason::kIpv4LoopbackFromWire : DropReason::kIpv6LoopbackFromWire),
            2u);
}

// ---- Delivery ----

TEST_P(StackTest, DatagramIsDeliveredAndCounted) {
  Receive(host(), RecordingTransport::kProtocol, peer());
  EXPECT_THAT(transport.lengths, ElementsAre(12));
  EXPECT_EQ(stack->ip_counters(family()).in_delivers.value(), 1u);
}

// Covers: rfc:ICMP-04 rfc:V6-02 RFC 1122 §3.2.2.1: code 2; RFC 8200 §4: code 1, at the byte
TEST_P(StackTest, UnknownProtocolIsAnsweredAndCounted) {
  interface->neighbors(family()).OnSolicited(peer(), kPeerMac, true);
  Receive(host(), 99, peer());
  EXPECT_EQ(drops(DropReason::kUnknownProtocol), 1u);
  EXPECT_EQ(stack->ip_counters(family()).in_unknown_protos.value(), 1u);
  EXPECT_EQ(stack->ip_counters(family()).in_delivers.value(), 0u);
  const auto frames = TakeFrames();
  ASSERT_THAT(frames, SizeIs(1));
  if (v4()) {
    EXPECT_THAT(frames[0],
                testutil::IsIpv4(testutil::DstIs(peer()),
                                 testutil::IsIcmpv4(testutil::TypeIs(3), testutil::CodeIs(2))));
  } else {
    EXPECT_THAT(frames[0],
                testutil::IsIpv6(testutil::DstIs(peer()),
                                 testutil::IsIcmpv6(testutil::TypeIs(4), testutil::CodeIs(1),
                                                    testutil::RestIs(6))));
  }
}

// The numbers are shared by both families, ICMP and ICMPv6 are not: a neighbor advertisement in an
// IPv4 packet must not get to Neighbor Discovery.
TEST_P(StackTest, ControlProtocolsOfTheOtherFamilyAreUnknown) {
  interface->neighbors(family()).OnSolicited(peer(), kPeerMac, true);
  const uint8_t icmp = v4() ? 58 : 1;
  Frame frame;
  frame.Eth(kPeerMac, kHostMac);
  if (v4()) {
    frame.Ipv4({.source = peer().v4(), .destination = host().v4(), .ttl = 255, .protocol = icmp});
    frame.NeighborAdvertisement(
        {.target = kPeer6, .link_address = testutil::kOtherMac, .override_flag = true});
  } else {
    frame.Ipv6({.source = peer().v6(), .destination = host().v6(), .next_header = icmp});
    frame.Echo4({.id = 1, .seq = 1});
  }
  net->Inject(frame.Build());
  EXPECT_EQ(drops(DropReason::kUnknownProtocol), 1u);
  EXPECT_EQ(stack->ip_counters(family()).in_unknown_protos.value(), 1u);
  const auto frames = TakeFrames();
  ASSERT_THAT(frames, SizeIs(1));
  const testutil::FrameView view = testutil::Dissect(frames[0]);
  EXPECT_EQ(view.type, v4() ? 3 : 4);  // protocol unreachable, parameter problem
  if (v4()) return;
  Receive(host(), 2, peer());  // IGMP
  EXPECT_EQ(drops(DropReason::kUnknownProtocol), 2u);
  TakeFrames();
}

// A transport of UDP's number that is not there: what is asked is only where copies go.
class GroupCopyTest : public StackTest {
 protected:
  void SetUp() override {
    StackTest::SetUp();
    stack->RegisterTransport(17, &transport);
  }
  IpAddress Group() const { return v4() ? Ip("239.1.2.3") : Ip("ff05::1:3"); }
  void SendUdp(const IpAddress& destination, bool loop = true, uint8_t protocol = 17) {
    const auto route =
        stack->FindRoute({.destination = destination, .ifindex = interface->index()});
    ASSERT_TRUE(route.ok()) << route.status();
    // Source and destination port 9, length 16.
    PacketPtr packet =
        PacketFromBytes(stack->pool(), testutil::Hex("0009 0009 0010 0000 0102030405060708"));
    netdev::SetPartialChecksum(*packet, {route->source, destination, protocol}, 6);
    stack->SendIp(std::move(packet), *route,
                  {.protocol = protocol, .tos = 8, .multicast_loop = loop});
    net->Run();
  }
};

INSTANTIATE_TEST_SUITE_P(Family, GroupCopyTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

// Covers: rfc:IP-25 RFC 1112 §7.1
TEST_P(GroupCopyTest, MemberGetsItsOwnDatagram) {
  SendUdp(Group());
  EXPECT_THAT(transport.lengths, IsEmpty());  // not a member
  ASSERT_TRUE(interface->JoinGroup(Group()).ok());
  SendUdp(Group());
  ASSERT_THAT(transport.lengths, ElementsAre(16));
  const IpPacketInfo& info = transport.infos[0];
  EXPECT_EQ(info.source, host());
  EXPECT_EQ(info.destination, Group());
  EXPECT_EQ(info.delivery, IpDelivery::kMulticast);
  EXPECT_EQ(info.interface, interface);
  EXPECT_EQ(info.tos, 8);
  EXPECT_THAT(TakeFrames(), SizeIs(2));
  SendUdp(Group(), /*loop=*/false);
  EXPECT_THAT(transport.lengths, SizeIs(1));
  EXPECT_THAT(TakeFrames(), SizeIs(1));
}

TEST_P(GroupCopyTest, SenderOfABroadcastHearsIt) {
  if (!v4()) return;  // IPv6 has none
  SendUdp(Ip("192.0.255.255"));
  ASSERT_THAT(transport.infos, SizeIs(1));
  EXPECT_EQ(transport.infos[0].delivery, IpDelivery::kBroadcast);
}

TEST_P(GroupCopyTest, NoCopyOfOtherProtocolsOrOfAFailedSend) {
  ASSERT_TRUE(interface->JoinGroup(Group()).ok());
  stack->RegisterTransport(250, &transport);
  SendUdp(Group(), true, 250);
  EXPECT_THAT(transport.lengths, IsEmpty());
  const auto route = stack->FindRoute({.destination = Group(), .ifindex = interface->index()});
  device().Down();
  EXPECT_FALSE(netdev::TxOk(
      stack->SendIp(PacketFromBytes(stack->pool(), Pattern(16)), *route, {.protocol = 17})));
  EXPECT_THAT(transport.lengths, IsEmpty());
}

// ---- Interfaces ----

TEST_P(StackTest, DeviceServesOneStack) {
  EXPECT_EQ(stack->AddInterface(device()).status().code(), absl::StatusCode::kAlreadyExists);
  Stack other(net->context(), Quiet());
  EXPECT_EQ(other.AddInterface(device()).status().code(), absl::StatusCode::kAlreadyExists);
  stack->RemoveInterface(*interface);
  EXPECT_TRUE(other.AddInterface(device()).ok());
}

TEST_P(StackTest, UnregisteredDeviceIsRefused) {
  testutil::TestDevice loose(net->context(), {.name = "loose"});
  EXPECT_EQ(stack->AddInterface(loose).status().code(), absl::StatusCode::kFailedPrecondition);
  testutil::NetHarness elsewhere;
  EXPECT_EQ(stack->AddInterface(elsewhere.device()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(StackTest, InterfaceGoesWithItsDevice) {
  testutil::TestDevice& extra = net->AddDevice({.name = "extra", .mac = testutil::kOtherMac});
  Interface* added = *stack->AddInterface(extra);
  const IpAddress own = v4() ? Ip("10.3.3.1") : Ip("2001:db8:3::1");
  ASSERT_TRUE(added->AddAddress({own, v4() ? 24 : 64}).ok());
  const auto route = stack->FindRoute({.destination = v4() ? Ip("10.3.3.2") : Ip("2001:db8:3::2")});
  ASSERT_TRUE(route.ok());
  stack->SendIp(PacketFromBytes(stack->pool(), Pattern(9)), *route, {.protocol = 253});
  const uint32_t index = added->index();
  const uint32_t generation = stack->route_generation();

  net->context().registry().Unregister(extra);
  EXPECT_EQ(stack->FindInterface(index), nullptr);
  EXPECT_EQ(stack->FindLocalAddress(own), nullptr);
  EXPECT_NE(stack->route_generation(), generation);
  for (const RouteEntry& e : stack->routes().entries()) EXPECT_NE(e.interface, added);
  EXPECT_GE(stack->drops().total(), 1u);  // the packet that waited
  net->Run();
  Receive(host(), RecordingTransport::kProtocol, peer());
  EXPECT_THAT(transport.lengths, ElementsAre(12));
}

TEST_P(StackTest, LoopbackDeviceMayGoToo) {
  net->context().registry().Unregister(stack->loopback()->device());
  EXPECT_EQ(stack->loopback(), nullptr);
  EXPECT_EQ(stack->FindRoute({.destination = v4() ? Ip("127.0.0.1") : Ip("::1")}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_P(StackTest, IgmpGoesToItsInterface) {
  if (!v4()) return;  // MLD is a part of ICMPv6
  net->Inject(Frame()
                  .Eth(kPeerMac, MulticastMac(Ipv4Address::kAllSystems))
                  .Ipv4({.source = kPeer4,
                         .destination = Ipv4Address::kAllSystems,
                         .ttl = 1,
                         .options = testutil::Hex("94040000"),
                         .protocol = 2})
                  .Raw(testutil::Hex("1164"))  // truncated
                  .Build());
  EXPECT_EQ(drops(DropReason::kIgmpMalformed), 1u);
  EXPECT_EQ(stack->mib().ip.in_delivers.value(), 1u);
}

// (architecture invariant) Nothing is left of a stack that goes in the middle of everything.
TEST_P(StackTest, DestructionLeavesNothingBehind) {
  StackConfig config;  // the noisy default
  config.arp_probe = true;
  Start(config);
  ASSERT_TRUE(interface->AddAddress({Ipv4Address(10, 5, 5, 1), 24}).ok());  // probing
  for (uint16_t n = 100; n < 120; ++n) SendTo(peer(n));                     // resolving
  SendTo(host());                                                           // in the backlog
  stack->RegisterTransport(RecordingTransport::kProtocol, nullptr);
  stack.reset();
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
  EXPECT_FALSE(device().HasPacketType(0x0800));
  EXPECT_FALSE(device().HasMulticast(MulticastMac(Ipv4Address::kAllSystems)));
  EXPECT_FALSE(device().HasMulticast(MulticastMac(Ipv6Address::AllNodes())));
  net->Run();
  EXPECT_EQ(net->context().registry().Find("lo"), nullptr);
  net->TakeSent();
  net->ExpectNoLeaks();
}

// Two hosts on one cable, everything by default: they find and reach each other.
TEST_P(StackTest, TwoStacksOverVethReachEachOther) {
  const auto pair = netdev::CreateVethPair(net->context(), {});
  ASSERT_TRUE(pair.ok());
  StackConfig config;
  Stack a(net->context(), config), b(net->context(), config);
  RecordingTransport at_b;
  b.RegisterTransport(RecordingTransport::kProtocol, &at_b);
  Interface* ia = *a.AddInterface(*pair->first);
  Interface* ib = *b.AddInterface(*pair->second);
  ASSERT_TRUE(pair->first->Up().ok());
  ASSERT_TRUE(pair->second->Up().ok());
  const IpAddress from = v4() ? Ip("10.0.0.1") : Ip("fd00::1");
  const IpAddress to = v4() ? Ip("10.0.0.2") : Ip("fd00::2");
  ASSERT_TRUE(ia->AddAddress({from, v4() ? 24 : 64}).ok());
  ASSERT_TRUE(ib->AddAddress({to, v4() ? 24 : 64}).ok());
  net->Advance(10s);
  const auto route = a.FindRoute({.destination = to});
  ASSERT_TRUE(route.ok()) << route.status();
  for (const size_t size : {size_t{1}, size_t{1400}, size_t{60000}}) {
    a.SendIp(PacketFromBytes(a.pool(), Pattern(size)), *route,
             {.protocol = RecordingTransport::kProtocol});
  }
  net->Advance(1s);
  EXPECT_THAT(at_b.lengths, ElementsAre(1, 1400, 60000));
  EXPECT_EQ(ia->neighbors(family()).Find(to)->state, NeighborState::kReachable);
  // Once the last neighbour check is over nothing wakes the context any more.
  net->Advance(2min);
  EXPECT_EQ(net->context().next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace tapwire
