// SPDX-License-Identifier: Apache-2.0
#include "stack/path_mtu.h"

#include "tests/stack/host_fixture.h"

namespace tapwire {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

class PathMtuTest : public testutil::HostFamilyTest {
 protected:
  void SetUp() override { Make(); }
  PathMtuCache& cache() { return stack->path_mtu(); }
};

INSTANTIATE_TEST_SUITE_P(Family, PathMtuTest, ::testing::Values(IpFamily::kV4, IpFamily::kV6),
                         testutil::FamilyName);

// Covers: rfc:MTU-1 rfc:PMTU6
TEST_P(PathMtuTest, ReportLowersOnlyItsDestination) {
  EXPECT_EQ(cache().Get(peer(), 1500), 1500u);
  EXPECT_TRUE(cache().Report(peer(), 1400, 1500));
  EXPECT_EQ(cache().Get(peer(), 1500), 1400u);
  EXPECT_EQ(cache().Get(peer(), 1300), 1300u);  // never more than the device carries
  EXPECT_EQ(cache().Get(peer(3), 1500), 1500u);
}

// Covers: rfc:MTU-1 rfc:PMTU6: "must not raise"
TEST_P(PathMtuTest, ReportNeverRaises) {
  EXPECT_FALSE(cache().Report(peer(), 1500, 1500));
  EXPECT_FALSE(cache().Report(peer(), 9000, 1500));
  EXPECT_EQ(cache().size(), 0u);
  EXPECT_TRUE(cache().Report(peer(), 1300, 1500));
  EXPECT_FALSE(cache().Report(peer(), 1400, 1500));
  EXPECT_FALSE(cache().Report(peer(), 1300, 1500));
  EXPECT_EQ(cache().Get(peer(), 1500), 1300u);
}

// Covers: rfc:MTU-1 rfc:PMTU6: an increase is tried after 10 minutes, not before 5
TEST_P(PathMtuTest, AgesAfterTenMinutesAndInvalidatesRoutes) {
  ASSERT_TRUE(cache().Report(peer(), 1400, 1500));
  const auto route = stack->FindRoute({.destination = peer()});
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->mtu, 1400u);
  net->Advance(9min);
  EXPECT_EQ(cache().Get(peer(), 1500), 1400u);
  ASSERT_FALSE(cache().Report(peer(), 1400, 1500));  // told again: ten minutes from now
  net->Advance(9min + 59s);
  EXPECT_EQ(cache().Get(peer(), 1500), 1400u);
  EXPECT_EQ(stack->route_generation(), route->generation);
  net->Advance(1s);
  EXPECT_EQ(cache().Get(peer(), 1500), 1500u);
  EXPECT_EQ(cache().size(), 0u);
  EXPECT_NE(stack->route_generation(), route->generation);
  EXPECT_EQ(stack->FindRoute({.destination = peer()})->mtu, 1500u);
  EXPECT_EQ(net->context().timers().armed_count(), 0u);
}

TEST_P(PathMtuTest, LowerReportMakesRoutesStale) {
  const auto route = stack->FindRoute({.destination = peer()});
  ASSERT_TRUE(cache().Report(peer(), 1400, 1500));
  EXPECT_NE(stack->route_generation(), route->generation);
}

TEST_P(PathMtuTest, TableIsBoundedOldestGoes) {
  stack->config().path_mtu_max_entries = 3;
  for (uint16_t n = 2; n < 7; ++n) ASSERT_TRUE(cache().Report(peer(n), 1400, 1500));
  EXPECT_EQ(cache().size(), 3u);
  EXPECT_EQ(cache().Get(peer(3), 1500), 1500u);
  EXPECT_EQ(cache().Get(peer(4), 1500), 1400u);
  ASSERT_TRUE(cache().Report(peer(4), 1300, 1500));  // now the youngest
  ASSERT_TRUE(cache().Report(peer(8), 1400, 1500));
  EXPECT_EQ(cache().Get(peer(4), 1500), 1300u);
  EXPECT_EQ(cache().Get(peer(5), 1500), 1500u);
  stack->config().path_mtu_max_entries = 0;
  EXPECT_NO_FATAL_FAILURE(cache().Report(peer(9), 1400, 1500));
  EXPECT_EQ(cache().Get(peer(9), 1500), 1500u);
}

class PathMtuFloorTest : public testutil::HostTest {
 protected:
  void SetUp() override { Make(); }
};

// Covers: rfc:MTU-1 RFC 1191 §3 (68), Linux (552)
TEST_F(PathMtuFloorTest, Ipv4ReportBelowTheFloorCountsAsTheFloor) {
  const IpAddress peer = testutil::kPeer4;
  EXPECT_TRUE(stack->path_mtu().Report(peer, 60, 1500));
  EXPECT_EQ(stack->path_mtu().Get(peer, 1500), 552u);
  EXPECT_FALSE(stack->path_mtu().Report(peer, 68, 552));
  stack->config().min_path_mtu_v4 = 0;
  EXPECT_TRUE(stack->path_mtu().Report(peer, 1, 552));
  EXPECT_EQ(stack->path_mtu().Get(peer, 1500), 68u);
}

// Covers: rfc:PMTU6 RFC 8201 §4: a report below 1280 is discarded as a whole
TEST_F(PathMtuFloorTest, Ipv6ReportBelow1280IsIgnored) {
  const IpAddress peer = testutil::kPeer6;
  for (const uint32_t mtu : {0u, 68u, 1279u}) {
    EXPECT_FALSE(stack->path_mtu().Report(peer, mtu, 1500)) << mtu;
  }
  EXPECT_EQ(stack->path_mtu().Get(peer, 1500), 1500u);
  EXPECT_TRUE(stack->path_mtu().Report(peer, 1280, 1500));
  EXPECT_EQ(stack->path_mtu().Get(peer, 1500), 1280u);
}

// RFC 1191 §7.1: a router older than that document reports 0; the table's next plateau is taken.
TEST_F(PathMtuFloorTest, OldRouterStepsDownByPlateaus) {
  stack->config().min_path_mtu_v4 = 68;
  uint32_t current = 65535;
  for (const uint32_t plateau :
       {32000u, 17914u, 8166u, 4352u, 2002u, 1492u, 1006u, 508u, 296u, 68u}) {
    EXPECT_TRUE(stack->path_mtu().Report(testutil::kPeer4, 0, current));
    current = stack->path_mtu().Get(testutil::kPeer4, 65535);
    EXPECT_EQ(current, plateau);
  }
  EXPECT_FALSE(stack->path_mtu().Report(testutil::kPeer4, 0, current));
}

// Covers: bug:B109
TEST_F(PathMtuFloorTest, ClockJumpForgetsAllAtOnce) {
  for (uint16_t n = 2; n < 50; ++n) {
    stack->path_mtu().Report(testutil::PeerIp(IpFamily::kV6, n), 1400, 1500);
    net->Advance(1s);
  }
  net->clock().Advance(8h);
  const uint64_t fired = net->context().stats().timers_fired.value();
  net->Run();
  EXPECT_EQ(stack->path_mtu().size(), 0u);
  EXPECT_LE(net->context().stats().timers_fired.value() - fired, 1u);
}

}  // namespace
}  // namespace tapwire
