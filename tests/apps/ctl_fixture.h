// SPDX-License-Identifier: Apache-2.0
// A small network to ask ip and ethtool about: a veth pair low/far without addresses, macvlans on
// low, a stack on each of two of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "apps/ctl/ctl.h"
#include "apps/ctl/json_text.h"
#include "netdev/base/seeded_random.h"
#include "netdev/macvlan.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/veth.h"
#include "stack/stack.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire::apps {

class CtlTest : public ::testing::Test {
 protected:
  CtlTest() : context_({&clock_, &random_}) {
    StackConfig config;
    config.duplicate_address_detection = false;
    config.link_local_address = false;
    a_ = std::make_unique<Stack>(context_, config);
    b_ = std::make_unique<Stack>(context_, config);
    netdev::VethOptions veth;
    veth.name_a = "low";
    veth.name_b = "far";
    veth.mac_a = *MacAddress::Parse("02:00:00:00:00:01");
    veth.mac_b = *MacAddress::Parse("02:00:00:00:00:02");
    const auto pair = netdev::CreateVethPair(context_, veth);
    EXPECT_TRUE(pair.ok()) << pair.status();
    low_ = pair->first;
    EXPECT_TRUE(low_->Up().ok() && pair->second->Up().ok());
    ia_ = AddMacvlan(*a_, "mv0", "02:00:00:00:00:0a");
    ib_ = AddMacvlan(*b_, "mv1", "02:00:00:00:00:0b");
    EXPECT_TRUE(ia_->AddAddress(*IpPrefix::Parse("10.0.0.1/24")).ok());
    EXPECT_TRUE(ia_->AddAddress(*IpPrefix::Parse("fd00::1/64")).ok());
    EXPECT_TRUE(ib_->AddAddress(*IpPrefix::Parse("10.0.0.2/24")).ok());
    EXPECT_TRUE(ib_->AddAddress(*IpPrefix::Parse("fd00::2/64")).ok());
    world_ = std::make_unique<apps::ctl::World>(
        apps::ctl::World{.context = context_, .stacks = {{"main", a_.get()}, {"mv1", b_.get()}}});
    Run();
  }
  ~CtlTest() override {
    a_.reset();
    b_.reset();
    Run();
  }

  Interface* AddMacvlan(Stack& stack, const char* name, const char* mac) {
    netdev::MacvlanOptions options;
    options.name = name;
    options.mac = MacAddress::Parse(mac);
    options.mode = static_cast<uint32_t>(netdev::MacvlanMode::kBridge);
    const auto made = netdev::CreateMacvlan(context_, low_->ifindex(), std::move(options));
    EXPECT_TRUE(made.ok()) << made.status();
    const auto interface = stack.AddInterface(**made);
    EXPECT_TRUE(interface.ok()) << interface.status();
    EXPECT_TRUE((*made)->Up().ok());
    return *interface;
  }
  void Run() {
    for (int i = 0; i < 1000 && context_.RunOnce(); ++i) {
    }
  }
  // Words are parted by blanks.
  apps::ctl::Reply Do(const std::string& line) {
    apps::ctl::Reply reply = apps::ctl::Execute(*world_, absl::StrSplit(line, ' '));
    Run();
    return reply;
  }
  std::string Out(const std::string& line) {
    const apps::ctl::Reply reply = Do(line);
    EXPECT_EQ(reply.exit_code, 0) << line << ": " << reply.err;
    EXPECT_EQ(reply.err, "") << line;
    return reply.out;
  }
  apps::ctl::Json JsonOf(const std::string& line) {
    const std::string out = Out(line);
    apps::ctl::Json json = apps::ctl::Json::parse(out, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(json.is_discarded()) << out;
    return json;
  }
  std::string Err(const std::string& line, int exit_code) {
    const apps::ctl::Reply reply = Do(line);
    EXPECT_EQ(reply.exit_code, exit_code) << line << ": " << reply.err;
    EXPECT_EQ(reply.out, "") << line;
    return reply.err;
  }
  netdev::NetDevice* Find(const char* name) { return context_.registry().Find(name); }
  std::string IndexOf(const char* name) { return std::to_string(Find(name)->ifindex()); }

  FakeClock clock_;
  SeededRandom random_{3};
  netdev::NetContext context_;
  std::unique_ptr<Stack> a_, b_;
  netdev::NetDevice* low_ = nullptr;
  Interface *ia_ = nullptr, *ib_ = nullptr;
  std::unique_ptr<apps::ctl::World> world_;
};

}  // namespace tapwire::apps
