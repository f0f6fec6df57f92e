// SPDX-License-Identifier: Apache-2.0
// Every exchange with offloads on and off, as root and as a user without privilege. With offloads
// on the kernel verifies no checksum of ours (a wrong partial sum is delivered), with them off all.

#include "tests/interop/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/interop/lab.h"
#include "tests/interop/verdict.h"

namespace tapwire::interop {
namespace {

// The name in AllExchanges(), and whether offloads are on.
using Case = std::tuple<std::string, bool>;

class InteropExchangeTest : public testutil::NetnsFixture,
                            public ::testing::WithParamInterface<Case> {};

std::vector<std::string> ExchangeNames() {
  std::vector<std::string> names;
  for (const Exchange& exchange : AllExchanges()) names.push_back(exchange.name);
  return names;
}

std::string CaseName(const ::testing::TestParamInfo<Case>& test_case) {
  const auto& [name, offloads] = test_case.param;
  return name + (offloads ? "WithOffloads" : "WithoutOffloads");
}

INSTANTIATE_TEST_SUITE_P(Kernel, InteropExchangeTest,
                         ::testing::Combine(::testing::ValuesIn(ExchangeNames()),
                                            ::testing::Bool()),
                         CaseName);

// Covers: bug:B85, bug:B86, bug:B95
TEST_P(InteropExchangeTest, IsCleanAndComplete) {
  const auto& [name, offloads] = GetParam();
  auto lab = Lab::Create({.node = tun_node(), .offloads = offloads});
  ASSERT_TRUE(lab.ok()) << lab.status();
  for (const Exchange& exchange : AllExchanges()) {
    if (exchange.name == name) exchange.run(**lab);
  }
  ExpectClean(**lab);
}

class InteropUnprivilegedTest : public testutil::NetnsFixture {};

// In a user namespace of its own: the test is root in there, and nobody outside.
void RunEverythingWithoutPrivilege(const std::string& node, bool offloads) {
  SCOPED_TRACE(offloads ? "with offloads" : "without offloads");
  auto lab = Lab::Create({.node = node, .offloads = offloads});
  ASSERT_TRUE(lab.ok()) << lab.status();
  for (const Exchange& exchange : AllExchanges()) {
    SCOPED_TRACE(exchange.name);
    exchange.run(**lab);
  }
  ExpectClean(**lab);
}

TEST_F(InteropUnprivilegedTest, EverythingWorksAsNobody) {
  auto node = testutil::TunNode::Find(/*for_everybody=*/true);
  if (!node.ok()) {
    TW_SKIP_WITHOUT_TAP(node.status().message());
  }
  testutil::RunAsUser(testutil::kNobody, [&] {
    const absl::Status entered = testutil::EnterNewNetns();
    if (!entered.ok()) {
      TW_SKIP_WITHOUT_TAP(entered.message());
    }
    ASSERT_TRUE(IpBatch({"link set lo up"}).ok());
    RunEverythingWithoutPrivilege((*node)->path(), true);
    RunEverythingWithoutPrivilege((*node)->path(), false);
  });
}

}  // namespace
}  // namespace tapwire::interop
