// SPDX-License-Identifier: Apache-2.0
// A datagram whose source is no single host reaches no socket.
#include <gtest/gtest.h>

#include <vector>

#include "stack/sockets/udp_socket.h"
#include "tests/stack/host_fixture.h"

namespace tapwire::testutil {
namespace {

class UdpSourceTest : public HostFamilyTest {};
INSTANTIATE_TEST_SUITE_P(Families, UdpSourceTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         FamilyName);

// Covers: rfc:UDP-5
TEST_P(UdpSourceTest, GroupsAndBroadcastAddressesCannotSend) {
  Make();
  auto socket = UdpSocket::Create(*stack, {.family = family()});
  ASSERT_TRUE(socket.ok()) << socket.status();
  ASSERT_TRUE((*socket)->Bind({IpAddress::Unspecified(family()), 7, 0}).ok());
  const auto send = [&](const IpAddress& source) {
    Frame frame;
    frame.Eth(kPeerMac, kHostMac);
    if (v4()) {
      frame.Ipv4({.source = source.v4(), .destination = kHost4});
    } else {
      frame.Ipv6({.source = source.v6(), .destination = kHost6});
    }
    frame.Udp({.source_port = 5, .destination_port = 7}).Payload(Pattern(10));
    net->Inject(frame.Build());
  };
  std::vector<IpAddress> nobody;
  if (v4()) {
    for (const Ipv4Address a : {Ipv4Address(255, 255, 255, 255), Ipv4Address(192, 0, 255, 255),
                                Ipv4Address(224, 0, 0, 1), Ipv4Address(239, 1, 2, 3)}) {
      nobody.emplace_back(a);
    }
  } else {
    for (const uint16_t group : {uint16_t{0xff02}, uint16_t{0xff05}, uint16_t{0xff0e}}) {
      nobody.emplace_back(Ipv6Address::FromGroups({group, 0, 0, 0, 0, 0, 0, 1}));
    }
  }
  for (const IpAddress& source : nobody) {
    send(source);
    EXPECT_FALSE((*socket)->TryReceive()) << source.ToString();
  }
  const UdpCounters& counters = v4() ? stack->mib().udp : stack->mib().udp6;
  EXPECT_EQ(counters.in_datagrams.value(), 0u);
  send(peer());
  EXPECT_TRUE((*socket)->TryReceive());
  net->TakeSent();
  socket->reset();
}

}  // namespace
}  // namespace tapwire::testutil
