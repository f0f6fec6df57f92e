// SPDX-License-Identifier: Apache-2.0
// UDP against frames made byte by byte: what is delivered, what is dropped under which name, what
// is answered. One fixture for both families.

#include "stack/udp/udp.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "netdev/base/status_util.h"
#include "stack/sockets/udp_socket.h"
#include "stack/stack.h"
#include "tests/testutil/matchers.h"
#include "tests/testutil/packet_builder.h"
#include "tests/testutil/stack_harness.h"

namespace tapwire {
namespace {

using ::testing::IsEmpty;
using testutil::Frame;

const MacAddress kPeerMac{0x02, 0, 0, 0, 0, 0x99};
const Ipv4Address kHost4{10, 0, 0, 2}, kPeer4{10, 0, 0, 1};
const Ipv6Address kHost6 = *Ipv6Address::Parse("fd00::2"), kPeer6 = *Ipv6Address::Parse("fd00::1");

class UdpTest : public ::testing::TestWithParam<IpFamily> {
 protected:
  UdpTest() {
    StackConfig config;
    config.duplicate_address_detection = false;
    config.announce_addresses = false;
    config.link_local_address = false;
    stack_ = std::make_unique<Stack>(net_.context(), config);
    Udp::Install(*stack_);
    interface_ = *stack_->AddInterface(net_.device());
    EXPECT_TRUE(interface_->AddAddress({kHost4, 24}).ok());
    EXPECT_TRUE(interface_->AddAddress({kHost6, 64}).ok());
    EXPECT_TRUE(interface_->neighbors(IpFamily::kV4).AddPermanent(kPeer4, kPeerMac).ok());
    EXPECT_TRUE(interface_->neighbors(IpFamily::kV6).AddPermanent(kPeer6, kPeerMac).ok());
    net_.Run();
    net_.Advance(std::chrono::seconds(20));  // group reports are done
    net_.TakeSent();
  }

  bool v4() const { return GetParam() == IpFamily::kV4; }
  IpAddress host() const { return v4() ? IpAddress(kHost4) : IpAddress(kHost6); }
  IpAddress peer() const { return v4() ? IpAddress(kPeer4) : IpAddress(kPeer6); }
  UdpCounters& counters() { return v4() ? stack_->mib().udp : stack_->mib().udp6; }

  Frame FromPeer() const {
    Frame frame;
    frame.Eth(kPeerMac, net_device_mac_);
    if (v4()) return frame.Ipv4({.source = kPeer4, .destination = kHost4});
    return frame.Ipv6({.source = kPeer6, .destination = kHost6});
  }
  std::unique_ptr<UdpSocket> Bound(uint16_t port) {
    auto socket = *UdpSocket::Create(*stack_, {.family = GetParam()});
    EXPECT_TRUE(socket->Bind({IpAddress::Unspecified(GetParam()), port, 0}).ok());
    return socket;
  }
  static std::string Text(UdpSocket& socket) {
    std::optional<Datagram> d = socket.TryReceive();
    if (!d) return "(nothing)";
    std::vector<uint8_t> bytes(d->size());
    d->CopyTo(bytes);
    return std::string(bytes.begin(), bytes.end());
  }

  testutil::NetHarness net_;
  const MacAddress net_device_mac_ = net_.device().mac();
  std::unique_ptr<Stack> stack_;
  Interface* interface_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Families, UdpTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         [](const auto& family) {
                           return family.param == IpFamily::kV4 ? "V4" : "V6";
                         });

TEST_P(UdpTest, DatagramReachesItsSocketWithAddresses) {  // Covers: rfc:UDP-4
  auto socket = Bound(53);
  net_.Inject(
      FromPeer().Udp({.source_port = 1000, .destination_port = 53}).Payload("hello").Build());
  std::optional<Datagram> d = socket->TryReceive();
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ(d->size(), 5u);
  EXPECT_EQ(d->source(), (Endpoint{peer(), 1000, 0}));
  EXPECT_EQ(d->destination(), (Endpoint{host(), 53, 0}));
  EXPECT_EQ(counters().in_datagrams.value(), 1u);
}

TEST_P(UdpTest, EmptyDatagramIsDelivered) {
  auto socket = Bound(53);
  net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 53}).Build());
  EXPECT_EQ(Text(*socket), "");
}

TEST_P(UdpTest, EthernetPaddingIsNoData) {  // Covers: rfc:LNK-2, bug:B86
  auto socket = Bound(53);
  net_.Inject(
      FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("x").Pad(90).Build());
  EXPECT_EQ(Text(*socket), "x");
}

TEST_P(UdpTest, SurplusBehindTheLengthFieldIsNotDelivered) {  // Covers: rfc:UDP-2, rfc:UDP-7
  auto socket = Bound(53);
  net_.Inject(FromPeer()
                  .Udp({.source_port = 1, .destination_port = 53, .length = 8 + 3, .checksum = {}})
                  .Payload("abcSURPLUS")
                  .Build());
  // The builder sums all bytes, so the right sum over three is what the datagram would need; a
  // datagram with surplus is delivered only if its own sum is right.
  EXPECT_EQ(Text(*socket), "(nothing)");
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpBadChecksum), 1u);
  if (!v4()) return;  // IPv6 needs a checksum
  net_.Inject(FromPeer()
                  .Udp({.source_port = 1, .destination_port = 53, .length = 8 + 3, .checksum = 0})
                  .Payload("abcSURPLUS")
                  .Build());
  EXPECT_EQ(Text(*socket), "abc");
}

TEST_P(UdpTest, BadChecksumIsDroppedAndCounted) {  // Covers: rfc:UDP-1, rfc:V6-14
  auto socket = Bound(53);
  net_.Inject(FromPeer()
                  .Udp({.source_port = 1, .destination_port = 53, .checksum = 0x1234})
                  .Payload("x")
                  .Build());
  EXPECT_EQ(Text(*socket), "(nothing)");
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpBadChecksum), 1u);
  EXPECT_EQ(counters().in_csum_errors.value(), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());
}

TEST_P(UdpTest, ZeroChecksumIsGoodForIpv4Only) {  // Covers: rfc:UDP-1, rfc:V6-14
  auto socket = Bound(53);
  net_.Inject(FromPeer()
                  .Udp({.source_port = 1, .destination_port = 53, .checksum = 0})
                  .Payload("x")
                  .Build());
  EXPECT_EQ(Text(*socket), v4() ? "x" : "(nothing)");
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpZeroChecksum6), v4() ? 0u : 1u);
}

TEST_P(UdpTest, ImpossibleLengthsAreDropped) {  // Covers: rfc:UDP-2
  auto socket = Bound(53);
  for (const uint16_t length : std::initializer_list<uint16_t>{0, 7, 10, 65535}) {
    net_.Inject(FromPeer()
                    .Udp({.source_port = 1, .destination_port = 53, .length = length})
                    .Payload("x")
                    .Build());
  }
  net_.Inject(
      FromPeer().Udp({.source_port = 1, .destination_port = 53, .length = 9}).Payload("x").Build());
  EXPECT_EQ(Text(*socket), "x");
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpBadLength), 4u);
}

TEST_P(UdpTest, HeaderCutShortIsDropped) {
  const std::vector<uint8_t> seven(7, 1);
  Frame frame;
  frame.Eth(kPeerMac, net_device_mac_);
  if (v4()) {
    frame.Ipv4({.source = kPeer4, .destination = kHost4, .protocol = 17});
  } else {
    frame.Ipv6({.source = kPeer6, .destination = kHost6, .next_header = 17});
  }
  net_.Inject(frame.Raw(seven).Build());
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpTruncated), 1u);
}

TEST_P(UdpTest, ClosedPortIsAnsweredWithPortUnreachable) {  // Covers: rfc:ICMP-04, rfc:IC6-5
  net_.Inject(FromPeer().Udp({.source_port = 1000, .destination_port = 9}).Payload("x").Build());
  EXPECT_EQ(counters().no_ports.value(), 1u);
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpNoPort), 1u);
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  // Type and code stand behind the link and IP headers: 3/3 and 1/4.
  const size_t icmp = v4() ? 34 : 54;
  EXPECT_EQ(sent[0][icmp], v4() ? 3 : 1);
  EXPECT_EQ(sent[0][icmp + 1], v4() ? 3 : 4);
}

TEST_P(UdpTest, MostSpecificBindingWins) {
  auto any = Bound(53);
  auto specific = *UdpSocket::Create(*stack_, {.family = GetParam(), .reuse_address = true});
  any->options().reuse_address = true;
  // Bound without reuse_address: the port is taken for everybody.
  EXPECT_EQ(StatusToErrno(specific->Bind({host(), 53, 0})), EADDRINUSE);
  any.reset();
  auto shared = *UdpSocket::Create(*stack_, {.family = GetParam(), .reuse_address = true});
  ASSERT_TRUE(shared->Bind({IpAddress::Unspecified(GetParam()), 53, 0}).ok());
  ASSERT_TRUE(specific->Bind({host(), 53, 0}).ok());
  net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("x").Build());
  EXPECT_EQ(Text(*specific), "x");
  EXPECT_EQ(Text(*shared), "(nothing)");
}

TEST_P(UdpTest, FourTupleGoesBeforePort) {
  auto connected = *UdpSocket::Create(*stack_, {.family = GetParam(), .reuse_address = true});
  auto open = *UdpSocket::Create(*stack_, {.family = GetParam(), .reuse_address = true});
  ASSERT_TRUE(connected->Bind({host(), 53, 0}).ok());
  ASSERT_TRUE(open->Bind({host(), 53, 0}).ok());
  ASSERT_TRUE(connected->Connect({peer(), 1000, 0}).ok());
  net_.Inject(
      FromPeer().Udp({.source_port = 1000, .destination_port = 53}).Payload("mine").Build());
  net_.Inject(
      FromPeer().Udp({.source_port = 1001, .destination_port = 53}).Payload("other").Build());
  EXPECT_EQ(Text(*connected), "mine");
  EXPECT_EQ(Text(*open), "other");
}

TEST_P(UdpTest, ConnectedSocketTakesNobodyElse) {
  auto socket = *UdpSocket::Create(*stack_, {.family = GetParam()});
  ASSERT_TRUE(socket->Connect({peer(), 1000, 0}).ok());
  const uint16_t port = socket->local().port;
  net_.Inject(FromPeer().Udp({.source_port = 1001, .destination_port = port}).Payload("x").Build());
  EXPECT_EQ(Text(*socket), "(nothing)");
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpNoPort), 1u);
  ASSERT_TRUE(socket->Disconnect().ok());
  net_.Inject(FromPeer().Udp({.source_port = 1001, .destination_port = port}).Payload("y").Build());
  EXPECT_EQ(Text(*socket), "y");
}

TEST_P(UdpTest, FullReceiveBufferDropsTheNewest) {
  auto socket = Bound(53);
  socket->options().receive_buffer_bytes = 1;  // one datagram: the first is always taken
  for (const char* text : {"first", "second"}) {
    net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload(text).Build());
  }
  EXPECT_EQ(Text(*socket), "first");
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpReceiveBufferFull), 1u);
  EXPECT_EQ(counters().rcvbuf_errors.value(), 1u);
  net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("third").Build());
  EXPECT_EQ(Text(*socket), "third");
}

TEST_P(UdpTest, SocketTiedToAnotherInterfaceTakesNothing) {
  auto socket = Bound(53);
  socket->options().ifindex = interface_->index() + 1;
  net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("x").Build());
  EXPECT_EQ(Text(*socket), "(nothing)");
  EXPECT_EQ(stack_->drops().value(DropReason::kSocketFilter), 1u);
}

TEST_P(UdpTest, SentDatagramIsWhatTheBuilderMakes) {  // Covers: rfc:UDP-1
  auto socket = Bound(5000);
  const std::vector<uint8_t> data = testutil::Pattern(101);
  ASSERT_TRUE(socket->Send(data, Endpoint{peer(), 6000, 0}).ok());
  net_.Run();
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  const size_t udp = v4() ? 34 : 54;
  std::vector<uint8_t> segment(sent[0].begin() + static_cast<std::ptrdiff_t>(udp), sent[0].end());
  const uint16_t checksum = static_cast<uint16_t>(segment[6] << 8 | segment[7]);
  segment[6] = segment[7] = 0;
  EXPECT_EQ(checksum, testutil::SimpleTransportChecksum(host(), peer(), 17, segment));
  EXPECT_EQ(segment[0] << 8 | segment[1], 5000);
  EXPECT_EQ(segment[2] << 8 | segment[3], 6000);
  EXPECT_EQ(segment[4] << 8 | segment[5], 109);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), segment.begin() + 8));
}

TEST_P(UdpTest, LargestDatagramIsFragmentedAndOneMoreByteIsTooLong) {
  auto socket = Bound(5000);
  const size_t largest = v4() ? 65507 : 65527;
  ASSERT_TRUE(socket->Send(testutil::Pattern(largest), Endpoint{peer(), 6000, 0}).ok());
  net_.Run();
  EXPECT_EQ(net_.TakeSent().size(), v4() ? 45u : 46u);  // 65515 / 1480 and 65535 / 1448, rounded up
  EXPECT_EQ(StatusToErrno(socket->Send(testutil::Pattern(largest + 1), Endpoint{peer(), 6000, 0})),
            EMSGSIZE);
}

TEST_P(UdpTest, DontFragmentRefusesWhatIsTooLong) {
  auto socket = Bound(5000);
  socket->options().dont_fragment = true;
  const size_t fits = v4() ? 1472 : 1452;
  EXPECT_TRUE(socket->Send(testutil::Pattern(fits), Endpoint{peer(), 6000, 0}).ok());
  EXPECT_EQ(StatusToErrno(socket->Send(testutil::Pattern(fits + 1), Endpoint{peer(), 6000, 0})),
            EMSGSIZE);
}

TEST_P(UdpTest, PortUnreachableReachesTheSender) {  // Covers: rfc:UDP-3, rfc:ICMP-05
  auto socket = *UdpSocket::Create(*stack_, {.family = GetParam()});
  absl::Status error;
  Endpoint from;
  socket->SetErrorCallback([&](const absl::Status& status, const Endpoint& to) {
    error = status;
    from = to;
  });
  ASSERT_TRUE(socket->Connect({peer(), 6000, 0}).ok());
  ASSERT_TRUE(socket->Send(testutil::Pattern(10)).ok());
  net_.Run();
  auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  const std::vector<uint8_t> quote(sent[0].begin() + 14, sent[0].end());
  Frame answer = FromPeer();
  if (v4()) {
    answer.Icmpv4({.type = 3, .code = 3});
  } else {
    answer.Icmpv6({.type = 1, .code = 4});
  }
  net_.Inject(answer.Payload(quote).Build());
  EXPECT_EQ(StatusToErrno(error), ECONNREFUSED);
  EXPECT_EQ(from, (Endpoint{peer(), 6000, 0}));
}

TEST_P(UdpTest, ErrorThatQuotesNothingOfOursIsIgnored) {  // Covers: rfc:ICMP-05
  auto socket = *UdpSocket::Create(*stack_, {.family = GetParam()});
  bool called = false;
  socket->SetErrorCallback([&](const absl::Status&, const Endpoint&) { called = true; });
  ASSERT_TRUE(socket->Connect({peer(), 6000, 0}).ok());
  Frame quote;
  if (v4()) {
    quote.Ipv4({.source = kHost4, .destination = kPeer4});
  } else {
    quote.Ipv6({.source = kHost6, .destination = kPeer6});
  }
  const auto port = static_cast<uint16_t>(socket->local().port ^ 1);
  quote.Udp({.source_port = port, .destination_port = 6000}).Payload("x");
  Frame answer = FromPeer();
  if (v4()) {
    answer.Icmpv4({.type = 3, .code = 3});
  } else {
    answer.Icmpv6({.type = 1, .code = 4});
  }
  net_.Inject(answer.Payload(quote.Build()).Build());
  EXPECT_FALSE(called);
}

TEST_P(UdpTest, GroupDatagramGoesToJoinedSocketsOnly) {  // Covers: rfc:UDP-6, rfc:IP-25
  const IpAddress group =
      v4() ? IpAddress(Ipv4Address(239, 1, 2, 3)) : *IpAddress::Parse("ff02::1:2:3");
  auto a = *UdpSocket::Create(*stack_, {.family = GetParam(), .reuse_address = true});
  auto b = *UdpSocket::Create(*stack_, {.family = GetParam(), .reuse_address = true});
  auto c = *UdpSocket::Create(*stack_, {.family = GetParam(), .reuse_address = true});
  for (auto* socket : {a.get(), b.get(), c.get()}) {
    ASSERT_TRUE(socket->Bind({IpAddress::Unspecified(GetParam()), 53, 0}).ok());
  }
  ASSERT_TRUE(a->JoinGroup(group, interface_->index()).ok());
  ASSERT_TRUE(b->JoinGroup(group, interface_->index()).ok());
  Frame frame;
  frame.Eth(kPeerMac, MulticastMac(group));
  if (v4()) {
    frame.Ipv4({.source = kPeer4, .destination = group.v4()});
  } else {
    frame.Ipv6({.source = kPeer6, .destination = group.v6()});
  }
  frame.Udp({.source_port = 1, .destination_port = 53}).Payload("all");
  net_.Inject(frame.Build());
  EXPECT_EQ(Text(*a), "all");
  EXPECT_EQ(Text(*b), "all");
  EXPECT_EQ(Text(*c), "(nothing)");
  ASSERT_TRUE(a->LeaveGroup(group, interface_->index()).ok());
  b.reset();  // leaves by itself
  net_.Inject(frame.Build());
  EXPECT_EQ(Text(*a), "(nothing)");
  EXPECT_FALSE(interface_->InGroup(group));
  net_.Advance(std::chrono::seconds(5));
}

TEST_P(UdpTest, GroupDatagramForNoSocketIsNamed) {
  Frame frame;
  frame.Eth(kPeerMac, v4() ? MacAddress::kBroadcast() : MulticastMac(Ipv6Address::AllNodes()));
  if (v4()) {
    frame.Ipv4({.source = kPeer4, .destination = Ipv4Address::kLimitedBroadcast});
  } else {
    frame.Ipv6({.source = kPeer6, .destination = Ipv6Address::AllNodes()});
  }
  net_.Inject(frame.Udp({.source_port = 1, .destination_port = 9}).Payload("x").Build());
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpNoMatch), 1u);
  EXPECT_EQ(counters().ignored_multi.value(), 1u);
  EXPECT_THAT(net_.TakeSent(), IsEmpty());  // RFC 1122 §3.2.2: no ICMP error about a broadcast
}

TEST_P(UdpTest, SuperPacketIsManyDatagrams) {
  auto socket = Bound(53);
  net_.device().Inject(
      FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("aaaabbbbcc").Build(),
      [&](Packet& packet) {
        packet.meta.csum_state = CsumState::kUnnecessary;
        packet.meta.gso = {.type = GsoType::kUdpL4, .size = 4, .segs = 3};
      });
  net_.Run();
  EXPECT_EQ(Text(*socket), "aaaa");
  EXPECT_EQ(Text(*socket), "bbbb");
  EXPECT_EQ(Text(*socket), "cc");
}

TEST_P(UdpTest, SocketLimitIsAnError) {
  stack_->config().max_udp_sockets = 1;
  auto one = Bound(1000);
  auto two = *UdpSocket::Create(*stack_, {.family = GetParam()});
  EXPECT_EQ(two->Bind({IpAddress::Unspecified(GetParam()), 0, 0}).code(),
            absl::StatusCode::kResourceExhausted);
  one.reset();
  EXPECT_TRUE(two->Bind({IpAddress::Unspecified(GetParam()), 0, 0}).ok());
}

TEST_P(UdpTest, EphemeralPortsAreUnpredictableAndRunOut) {
  stack_->config().ephemeral_port_low = 40000;
  stack_->config().ephemeral_port_high = 40015;
  std::vector<std::unique_ptr<UdpSocket>> sockets;
  std::set<uint16_t> ports;
  int steps_of_one = 0;
  for (int i = 0; i < 16; ++i) {
    sockets.push_back(Bound(0));
    const uint16_t port = sockets.back()->local().port;
    if (!ports.empty() && ports.contains(static_cast<uint16_t>(port - 1))) ++steps_of_one;
    ports.insert(port);
  }
  EXPECT_EQ(ports.size(), 16u);
  EXPECT_LT(steps_of_one, 15);  // a counter would step by one each time
  auto late = *UdpSocket::Create(*stack_, {.family = GetParam()});
  EXPECT_EQ(late->Bind({IpAddress::Unspecified(GetParam()), 0, 0}).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(UdpInstallTest, WithoutUdpTheProtocolIsUnreachable) {  // Covers: rfc:ICMP-04
  testutil::NetHarness net;
  StackConfig config;
  config.duplicate_address_detection = false;
  config.announce_addresses = false;
  config.link_local_address = false;
  Stack stack(net.context(), config);
  Interface* interface = *stack.AddInterface(net.device());
  ASSERT_TRUE(interface->AddAddress({kHost4, 24}).ok());
  ASSERT_TRUE(interface->neighbors(IpFamily::kV4).AddPermanent(kPeer4, kPeerMac).ok());
  net.Advance(std::chrono::seconds(20));
  net.TakeSent();
  net.Inject(Frame()
                 .Eth(kPeerMac, net.device().mac())
                 .Ipv4({.source = kPeer4, .destination = kHost4})
                 .Udp({.source_port = 1, .destination_port = 2})
                 .Payload("x")
                 .Build());
  EXPECT_EQ(stack.mib().ip.in_unknown_protos.value(), 1u);
  const auto sent = net.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0][34], 3);
  EXPECT_EQ(sent[0][35], 2);
}

// RFC 768: port 0 is nobody's.
TEST_P(UdpTest, DestinationPortZeroIsClosed) {
  auto socket = Bound(53);
  net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 0}).Payload("x").Build());
  EXPECT_EQ(stack_->drops().value(DropReason::kUdpNoPort), 1u);
  EXPECT_EQ(socket->queued_datagrams(), 0u);
}

// RFC 768: source port 0 means that no answer is expected.
TEST_P(UdpTest, SourcePortZeroIsDelivered) {
  auto socket = Bound(53);
  net_.Inject(FromPeer().Udp({.source_port = 0, .destination_port = 53}).Payload("x").Build());
  EXPECT_EQ(Text(*socket), "x");
}

// Covers: rfc:UDP-1 RFC 768: a sum of zero is sent as all ones, since zero means "no checksum"
TEST_P(UdpTest, ChecksumOfZeroIsSentAsAllOnes) {
  auto socket = Bound(5000);
  // Two bytes that bring the sum of the rest to all ones: what the checksum would be without them.
  std::vector<uint8_t> segment = testutil::Hex("1388 1770 000a 0000 0000");
  const uint16_t filler = testutil::SimpleTransportChecksum(host(), peer(), 17, segment);
  const std::vector<uint8_t> data = {static_cast<uint8_t>(filler >> 8),
                                     static_cast<uint8_t>(filler)};
  ASSERT_TRUE(socket->Send(data, Endpoint{peer(), 6000, 0}).ok());
  net_.Run();
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  const size_t udp = v4() ? 34 : 54;
  EXPECT_EQ(sent[0][udp + 6], 0xff);
  EXPECT_EQ(sent[0][udp + 7], 0xff);
}

TEST_P(UdpTest, SocketOfAnotherInterfaceRefusesTheDatagram) {
  auto socket = Bound(53);
  socket->options().ifindex = interface_->index() + 100;
  net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("x").Build());
  EXPECT_EQ(stack_->drops().value(DropReason::kSocketFilter), 1u);
  EXPECT_EQ(counters().in_errors.value(), 1u);
  socket->options().ifindex = interface_->index();
  net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("y").Build());
  EXPECT_EQ(Text(*socket), "y");
}

// Each receiver that goes without its copy is counted.
TEST_P(UdpTest, NoMemoryForACopyIsCounted) {
  std::vector<std::unique_ptr<UdpSocket>> sockets;
  for (int i = 0; i < 3; ++i) {
    sockets.push_back(*UdpSocket::Create(*stack_, {.family = GetParam(), .reuse_address = true}));
    ASSERT_TRUE(sockets.back()->Bind({IpAddress::Unspecified(GetParam()), 53, 0}).ok());
    const IpAddress all = v4() ? IpAddress(Ipv4Address::kAllSystems) : Ipv6Address::AllNodes();
    ASSERT_TRUE(sockets.back()->JoinGroup(all, interface_->index()).ok());
  }
  Frame frame;
  frame.Eth(kPeerMac,
            MulticastMac(v4() ? IpAddress(Ipv4Address::kAllSystems) : Ipv6Address::AllNodes()));
  if (v4()) {
    frame.Ipv4({.source = kPeer4, .destination = Ipv4Address::kAllSystems});
  } else {
    frame.Ipv6({.source = kPeer6, .destination = Ipv6Address::AllNodes()});
  }
  net_.device().Inject(frame.Udp({.source_port = 1, .destination_port = 53}).Payload("x").Build());
  std::vector<PacketPtr> hog;
  while (PacketPtr packet = stack_->pool().AllocatePacket(0)) hog.push_back(std::move(packet));
  net_.Run();
  size_t queued = 0;
  for (const auto& socket : sockets) queued += socket->queued_datagrams();
  EXPECT_EQ(queued, 1u);
  EXPECT_EQ(stack_->drops().value(DropReason::kLinkNoBuffer), 2u);
  EXPECT_EQ(counters().in_errors.value(), 2u);
}

TEST_P(UdpTest, NoMemoryToTakeASuperPacketApartIsCounted) {
  auto socket = Bound(53);
  net_.device().Inject(
      FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("aaaabbbbcc").Build(),
      [&](Packet& packet) {
        packet.meta.csum_state = CsumState::kUnnecessary;
        packet.meta.gso = {.type = GsoType::kUdpL4, .size = 4, .segs = 3};
      });
  std::vector<PacketPtr> hog;
  while (PacketPtr packet = stack_->pool().AllocatePacket(0)) hog.push_back(std::move(packet));
  net_.Run();
  EXPECT_EQ(socket->queued_datagrams(), 0u);
  EXPECT_EQ(stack_->drops().value(DropReason::kLinkNoBuffer), 1u);
}

// The error queue of a socket is bounded and lives on when the socket is closed.
TEST_P(UdpTest, SocketMayGoWhileAnErrorIsOnItsWay) {
  auto socket = *UdpSocket::Create(*stack_, {.family = GetParam()});
  socket->SetErrorCallback([](const absl::Status&, const Endpoint&) { FAIL(); });
  ASSERT_TRUE(socket->Connect({peer(), 6000, 0}).ok());
  ASSERT_TRUE(socket->Send(testutil::Pattern(10)).ok());
  net_.Run();
  const auto sent = net_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  Frame answer = FromPeer();
  if (v4()) {
    answer.Icmpv4({.type = 3, .code = 3});
  } else {
    answer.Icmpv6({.type = 1, .code = 4});
  }
  answer.Payload(std::vector<uint8_t>(sent[0].begin() + 14, sent[0].end()));
  net_.device().Inject(answer.Build());
  stack_->context().Defer([&] { socket.reset(); });
  net_.Run();
  EXPECT_EQ(socket, nullptr);
  net_.Inject(answer.Build());  // nobody has the port any more
}

TEST_P(UdpTest, DualStackSocketTakesIpv4Too) {
  auto socket = *UdpSocket::Create(*stack_, {.family = IpFamily::kV6});
  ASSERT_TRUE(socket->Bind({Ipv6Address(), 53, 0}).ok());
  net_.Inject(FromPeer().Udp({.source_port = 1, .destination_port = 53}).Payload("x").Build());
  EXPECT_EQ(Text(*socket), "x");
}

}  // namespace
}  // namespace tapwire
