// SPDX-License-Identifier: Apache-2.0
// Tables and JSON of figures that are made up.

#include "apps/lab/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace tapwire::apps::lab {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

FeaturesResult Features(double inherited) {
  FeaturesResult result;
  result.conditions = {.pairs = 3, .seconds = 2, .side_seconds = 1, .cpu = 1};
  result.variants = {{"always_on", {90e9, 100e9, 120e9}},
                     {"inherited", {inherited, inherited, inherited}},
                     {"inherited_late", {40e9, 40e9, 40e9}}};
  result.kernel.release = "6.18.0";
  result.kernel.points = {{.series = {{"plain", {30e9, 40e9, 30e9}},
                                      {"gso_max_segs_1", {6e9, 6e9, 6e9}},
                                      {"veth_no_offloads", {10e9, 10e9, 10e9}}}}};
  return result;
}

RxResult Rx() {
  RxResult result;
  result.conditions = {.pairs = 2, .seconds = 2, .side_seconds = 1, .cpu = -1};
  result.veth.title = "veth";
  result.veth.points = {{10, {"reinject", {500e3, 500e3}}, {"queue", {400e3, 400e3}}, 1.25},
                        {500, {"reinject", {400e3, 404e3}}, {"queue", {400e3, 400e3}}, 1}};
  result.others = {{.title = "tap", .problem = "only root"}};
  result.kernel.points = {{10, {{"plain", {100e3, 120e3}}}}, {500, {{"plain", {200e3, 220e3}}}}};
  return result;
}

TEST(LabResultTest, FeaturesJsonHasItsKeysInOrder) {
  const Json object = Json::parse(FeaturesJson(Features(20e9)));
  EXPECT_THAT(Keys(object),
              ElementsAre("experiment", "variants", "ratio", "mail", "kernel", "runs"));
  EXPECT_EQ(object["experiment"], "macvlan-features");
  EXPECT_THAT(Keys(object["variants"]), ElementsAre("always_on", "inherited", "inherited_late"));
  EXPECT_THAT(Keys(object["variants"]["inherited"]), ElementsAre("median", "min", "max", "unit"));
  EXPECT_EQ(object["variants"]["always_on"]["median"], 100000.0);
  EXPECT_EQ(object["variants"]["always_on"]["unit"], "Mbit/s");
  EXPECT_EQ(object["ratio"], Json({{"median", 5.0}, {"min", 4.5}, {"max", 6.0}}));
  EXPECT_EQ(object["mail"]["inherited"], 1204.61);
  EXPECT_EQ(object["mail"]["always_on"], 5507.35);
  EXPECT_THAT(Keys(object["kernel"]), ElementsAre("variants"));
  EXPECT_THAT(Keys(object["kernel"]["variants"]),
              ElementsAre("plain", "gso_max_segs_1", "veth_no_offloads"));
  EXPECT_EQ(object["kernel"]["variants"]["plain"]["max"], 40000.0);
  EXPECT_EQ(object["runs"], 3);
}

TEST(LabResultTest, KernelIsNullWithoutFigures) {
  FeaturesResult result = Features(20e9);
  result.kernel.points.clear();
  EXPECT_TRUE(Json::parse(FeaturesJson(result))["kernel"].is_null());
  result.kernel.points = {{.series = {{.name = "plain", .problem = "no veth"}}}};
  EXPECT_TRUE(Json::parse(FeaturesJson(result))["kernel"].is_null());
}

TEST(LabResultTest, FeaturesTableHasTheMailsBesideOurs) {
  const std::string text = FeaturesText(Features(20e9));
  EXPECT_THAT(text, HasSubstr("5507.35   100000 (90000 - 120000)\n"));
  EXPECT_THAT(text, HasSubstr("1204.61   20000 (20000 - 20000)\n"));
  EXPECT_THAT(text, HasSubstr("4.57   5.00 (4.50 - 6.00)\n"));
  EXPECT_THAT(text, HasSubstr("always_on / the kernel's macvlans"));
  EXPECT_THAT(text, HasSubstr("3.00 (2.50 - 4.00)"));  // 90/30, 100/40, 120/30
  EXPECT_THAT(text, Not(HasSubstr("below the mail's")));
}

TEST(LabResultTest, SmallRatioIsExplainedByAFastSlowVariantOnly) {
  EXPECT_THAT(FeaturesText(Features(30e9)),
              HasSubstr("only because `inherited` is fast: 5.0 times the kernel's"));
  FeaturesResult slow = Features(30e9);
  for (Series& series : slow.variants) {
    for (double& value : series.values) value /= 10;
  }
  EXPECT_THAT(FeaturesText(slow), Not(HasSubstr("below the mail's")));
}

TEST(LabResultTest, WhatIsMissingSaysWhy) {
  FeaturesResult result = Features(20e9);
  result.kernel.points.clear();
  result.kernel.problem = "only root can";
  EXPECT_THAT(FeaturesText(result), HasSubstr("The kernel's figures: only root can\n"));
  result = Features(20e9);
  result.kernel.points[0].series[1] = {.name = "gso_max_segs_1", .problem = "refused"};
  EXPECT_THAT(FeaturesText(result), HasSubstr("gso_max_segs_1: not measured: refused"));
  EXPECT_THAT(RxText(Rx()), HasSubstr("Not measured: only root"));
}

TEST(LabResultTest, RxJsonIsJudgedByItsWorstPoint) {
  const Json object = Json::parse(RxJson(Rx()));
  EXPECT_THAT(Keys(object),
              ElementsAre("experiment", "variants", "ratio", "mail", "kernel", "runs", "points"));
  EXPECT_EQ(object["experiment"], "macvlan-rx");
  EXPECT_THAT(Keys(object["variants"]), ElementsAre("reinject", "queue"));
  EXPECT_THAT(object["ratio"]["median"].get<double>(), DoubleNear(1.005, 1e-9));
  EXPECT_EQ(object["variants"]["reinject"]["median"], 402000.0);
  EXPECT_EQ(object["kernel"]["variants"]["plain"]["median"], 210000.0);  // of the same N
  ASSERT_EQ(object["points"].size(), 2u);
  EXPECT_THAT(Keys(object["points"][0]), ElementsAre("n", "variants", "ratio"));
  EXPECT_EQ(object["points"][0]["n"], 10);
  EXPECT_EQ(object["points"][0]["ratio"]["median"], 1.25);
  EXPECT_EQ(object["mail"]["points"].size(), 6u);
  EXPECT_EQ(object["mail"]["points"][5]["after"], 754408.0);
}

// 2,000 and 2,500 ns for a transaction, in which the macvlan receives 1.25 packets.
TEST(LabResultTest, QueueCostsOfAPacket) {
  EXPECT_THAT(QueueCosts(Rx().veth.points[0]),
              ElementsAre(DoubleNear(400, 1e-6), DoubleNear(400, 1e-6)));
}

TEST(LabResultTest, RxTableHasTheMailsBesideOurs) {
  const std::string text = RxText(Rx());
  EXPECT_THAT(text, HasSubstr("  10   208101   211534   +1.60%  400000 (400000 - 400000)"));
  EXPECT_THAT(text, HasSubstr("1.250 (1.250 - 1.250)"));
  EXPECT_THAT(text, HasSubstr("+25.00% (+25.00% - +25.00%)"));
  EXPECT_THAT(text, HasSubstr("400.0 (400.0 - 400.0)"));
  EXPECT_THAT(text, HasSubstr("not kept on one CPU"));
}

TEST(LabResultTest, DisturbancesAreSaid) {
  FeaturesResult result = Features(20e9);
  EXPECT_THAT(FeaturesText(result), Not(HasSubstr("something else")));
  result.conditions.repeated = 2;
  result.conditions.disturbed = 1;
  EXPECT_THAT(FeaturesText(result), HasSubstr("2 runs were thrown away"));
  EXPECT_THAT(FeaturesText(result), HasSubstr("1 runs count although"));
}

TEST(LabResultTest, FailuresAreObjectsToo) {
  const Json object = Json::parse(ErrorJson("macvlan-rx", "no \"luck\"\n\xff"));
  EXPECT_EQ(object["experiment"], "macvlan-rx");
  EXPECT_THAT(object["error"].get<std::string>(), HasSubstr("no \"luck\""));
}

}  // namespace
}  // namespace tapwire::apps::lab
