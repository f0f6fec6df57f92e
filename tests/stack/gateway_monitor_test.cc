// SPDX-License-Identifier: Apache-2.0
// Dead gateway detection: RFC 1122 §3.3.1.4, RFC 4861 §6.3.6.
#include "stack/gateway_monitor.h"

#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using testutil::PeerMacOf;

class GatewayMonitorTest : public testutil::HostFamilyTest {
 protected:
  static constexpr uint16_t kFirst = 11, kSecond = 12;

  void SetUp() override {
    Make();
    for (const uint16_t n : {kFirst, kSecond}) {
      ASSERT_TRUE(stack
                      ->AddRoute({.prefix = {IpAddress::Unspecified(family()), 0},
                                  .gateway = peer(n),
                                  .interface = interface,
                                  .metric = n})
                      .ok());
    }
  }
  IpAddress Far() const {
    return v4() ? IpAddress(Ipv4Address(203, 0, 113, 1))
                : IpAddress(*Ipv6Address::Parse("2001:db8:ffff::1"));
  }
  IpAddress NextHop() { return stack->FindRoute({.destination = Far()})->next_hop; }
  // Answers every question for the MAC of `n` that was sent.
  int AnswerQuestions(uint16_t n) {
    int answered = 0;
    for (const auto& bytes : TakeFrames()) {
      const testutil::FrameView view = testutil::Dissect(bytes);
      const bool asks =
          view.arp ? IpAddress(view.arp->target_ip) == peer(n)
                   : view.type == 135 && IpAddress(Ipv6Address::FromBytes(view.payload)) == peer(n);
      if (!asks) continue;
      AnswerFor(peer(n), PeerMacOf(n));
      ++answered;
    }
    return answered;
  }
};

INSTANTIATE_TEST_SUITE_P(Family, GatewayMonitorTest,
                         ::testing::Values(IpFamily::kV4, IpFamily::kV6), testutil::FamilyName);

// Covers: rfc:IP-23
TEST_P(GatewayMonitorTest, DeadGatewayGivesWayToTheNextAndReturns) {
  EXPECT_EQ(NextHop(), peer(kFirst));
  const uint32_t generation = stack->route_generation();
  SendTo(Far());
  net->Advance(3s);                                  // nobody answers for the first
  EXPECT_NE(stack->route_generation(), generation);  // sockets look again
  EXPECT_EQ(NextHop(), peer(kSecond));
  SendTo(Far());
  net->Run();
  EXPECT_EQ(AnswerQuestions(kSecond), 1);

  // It stays away although its entry is long gone; every half minute it is asked for again.
  int questions = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(NextHop(), peer(kSecond));
    net->Advance(1s);
    for (const auto& bytes : TakeFrames()) {
      const testutil::FrameView view = testutil::Dissect(bytes);
      if (view.arp || view.type == 135) ++questions;
    }
  }
  EXPECT_GE(questions, 3 * 3);
  EXPECT_LE(questions, 4 * 3);

  for (int i = 0; i < 40 && AnswerQuestions(kFirst) == 0; ++i) {
    net->Advance(1s);
    static_cast<void>(NextHop());
    net->Run();
  }
  EXPECT_EQ(NextHop(), peer(kFirst));
}

// Covers: rfc:IP-23: a gateway that stops answering in the middle of a flow
TEST_P(GatewayMonitorTest, GatewayThatStopsAnsweringIsLeft) {
  SendTo(Far());
  net->Run();
  ASSERT_EQ(AnswerQuestions(kFirst), 1);
  int seconds = 0;
  while (NextHop() == peer(kFirst) && seconds < 120) {
    SendTo(Far());
    net->Advance(1s);
    ++seconds;
  }
  // 15–45 s REACHABLE, 5 s DELAY, 3 s of probes.
  EXPECT_GE(seconds, 23);
  EXPECT_LE(seconds, 54);
}

TEST_P(GatewayMonitorTest, TheOnlyGatewayIsKept) {
  ASSERT_TRUE(stack
                  ->RemoveRoute({.prefix = {IpAddress::Unspecified(family()), 0},
                                 .gateway = peer(kSecond),
                                 .interface = interface,
                                 .metric = kSecond})
                  .ok());
  SendTo(Far());
  net->Advance(3s);
  EXPECT_EQ(NextHop(), peer(kFirst));
}

TEST_P(GatewayMonitorTest, NeighboursThatAreNoGatewaysDoNotMatter) {
  SendTo(peer(40));
  const uint32_t generation = stack->route_generation();
  net->Advance(5s);
  EXPECT_EQ(stack->route_generation(), generation);
}

TEST_P(GatewayMonitorTest, NewLinkStartsAfresh) {
  SendTo(Far());
  net->Advance(3s);
  ASSERT_EQ(NextHop(), peer(kSecond));
  device().SetCarrier(false);
  device().SetCarrier(true);
  EXPECT_EQ(NextHop(), peer(kFirst));
}

}  // namespace
}  // namespace tapwire
