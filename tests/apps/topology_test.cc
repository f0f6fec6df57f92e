// SPDX-License-Identifier: Apache-2.0
// What --net and --stack build: devices on devices, a stack on each, and a refusal that names the
// flag for everything that cannot be built.

#include "apps/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/host_options.h"
#include "apps/net_spec.h"
#include "apps/stack_spec.h"
#include "netdev/base/seeded_random.h"
#include "netdev/device.h"
#include "netdev/gro.h"
#include "netdev/macvlan.h"
#include "netdev/registry.h"
#include "netdev/vlan_device.h"
#include "stack/sockets/ping_socket.h"
#include "tests/testutil/fake_clock.h"

namespace tapwire::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

NetSpec Parsed(const std::string& text) {
  absl::StatusOr<NetSpec> spec = ParseNetSpec(text);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : NetSpec();
}

std::string Refusal(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// ---- Parsing ----

TEST(NetSpecTest, EveryKeyOfAMacvlanIsTaken) {
  const NetSpec spec = Parsed(
      "macvlan,lower=low,mode=source,name=mv0,mac=02:00:00:00:00:05,mtu=1400,flag=nodst+nopromisc,"
      "source=02:00:00:00:00:11+02:00:00:00:00:12,bcqueuelen=20,bccutoff=-1,always_on=off,rx=queue,"
      "gro=off");
  EXPECT_EQ(spec.kind, DeviceKind::kMacvlan);
  EXPECT_EQ(spec.lower, "low");
  EXPECT_EQ(spec.name(), "mv0");
  EXPECT_EQ(spec.mtu(), 1400u);
  EXPECT_EQ(spec.tap.mac.ToString(), "02:00:00:00:00:05");
  EXPECT_EQ(spec.macvlan.mode, 16u);
  EXPECT_EQ(spec.macvlan.flags, netdev::kMacvlanNoDst | netdev::kMacvlanNoPromisc);
  ASSERT_TRUE(spec.macvlan.source.has_value());
  EXPECT_EQ(spec.macvlan.source->command, netdev::MacvlanSourceChange::Command::kSet);
  EXPECT_THAT(spec.macvlan.source->list, ElementsAre(*MacAddress::Parse("02:00:00:00:00:11"),
                                                     *MacAddress::Parse("02:00:00:00:00:12")));
  EXPECT_EQ(spec.macvlan.broadcast_queue_packets, 20u);
  EXPECT_EQ(spec.macvlan.broadcast_cutoff, -1);
  EXPECT_FALSE(spec.macvlan.always_on);
  EXPECT_EQ(spec.macvlan.rx, netdev::MacvlanRx::kQueue);
  EXPECT_EQ(spec.gro, netdev::GroMode::kOff);
  const NetSpec plain = Parsed("macvlan,lower=low");
  EXPECT_EQ(plain.macvlan.mode, 2u);  // VEPA, as Linux
  EXPECT_TRUE(plain.macvlan.always_on);
  EXPECT_EQ(plain.macvlan.rx, netdev::MacvlanRx::kReinject);
}

TEST(NetSpecTest, EveryKeyOfAVlanAndADummyIsTaken) {
  const NetSpec vlan =
      Parsed("vlan,lower=low,id=7,protocol=802.1ad,name=v7,mac=02:00:00:00:00:07,mtu=1300,gro=on");
  EXPECT_EQ(vlan.kind, DeviceKind::kVlan);
  EXPECT_EQ(vlan.vlan.vlan_id, 7u);
  EXPECT_EQ(vlan.vlan.protocol, 0x88a8u);
  EXPECT_EQ(vlan.gro, netdev::GroMode::kOn);
  EXPECT_EQ(Parsed("vlan,lower=low,id=0,protocol=802.1Q").vlan.protocol, 0x8100u);
  const NetSpec dummy = Parsed("dummy,name=low,mtu=9000,mac=02:00:00:00:00:08,csum=off,gro=auto");
  EXPECT_EQ(dummy.kind, DeviceKind::kDummy);
  EXPECT_FALSE(dummy.offloads);
  EXPECT_TRUE(Parsed("dummy,name=low").offloads);
  EXPECT_EQ(Parsed("tap,gro=on").gro, netdev::GroMode::kOn);
  EXPECT_EQ(Parsed("veth,gro=on").gro, netdev::GroMode::kOn);
}

TEST(NetSpecTest, BadValuesNameTheFlagTheValueAndWhatItShouldBe) {
  struct Case {
    std::string net, says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"macvlan", "macvlan needs lower=NAME"},
           {"macvlan,mode=bridge", "macvlan needs lower=NAME"},
           {"macvlan,lower=", "lower= is empty"},
           {"macvlan,lower=a/b", "'a/b' is no valid interface name"},
           {"macvlan,lower=low,mode=router",
            "mode= takes private, vepa, bridge, passthru or source, not 'router'"},
           {"macvlan,lower=low,mode=4", "not '4'"},
           {"macvlan,lower=low,mode=bridge,mode=vepa", "mode= is given twice"},
           {"macvlan,lower=low,name=mv%d", "no kernel chooses a number for a macvlan"},
           {"macvlan,lower=low,name=", "name= is empty"},
           {"macvlan,lower=low,mac=01:00:5e:00:00:01", "is not a unicast MAC address"},
           {"macvlan,lower=low,mtu=67", "'67' is not a number from 68 to 65521"},
           {"macvlan,lower=low,flag=nosource", "flag= takes nopromisc or nodst, not 'nosource'"},
           {"macvlan,lower=low,flag=nodst+", "flag= takes nopromisc or nodst, not ''"},
           {"macvlan,lower=low,source=02:00:00:00:00:11+x", "'x' is not a unicast MAC address"},
           {"macvlan,lower=low,source=", "'' is not a unicast MAC address"},
           {"macvlan,lower=low,bcqueuelen=-1", "'-1' is not a number from 0 to 4294967295"},
           {"macvlan,lower=low,bcqueuelen=4294967296", "is not a number"},
           {"macvlan,lower=low,bccutoff=few", "'few' is not a number"},
           {"macvlan,lower=low,bccutoff=-", "'-' is not a number"},
           {"macvlan,lower=low,always_on=never", "always_on= takes on or off, not 'never'"},
           {"macvlan,lower=low,rx=fast", "rx= takes reinject or queue, not 'fast'"},
           {"macvlan,lower=low,gro=maybe", "gro= takes auto, on or off, not 'maybe'"},
           {"macvlan,lower=low,csum=off", "macvlan has no option 'csum'"},
           {"vlan,lower=low", "vlan needs id=N"},
           {"vlan,id=5", "vlan needs lower=NAME"},
           {"vlan,lower=low,id=4095", "'4095' is not a number from 0 to 4094"},
           {"vlan,lower=low,id=", "'' is not a number"},
           {"vlan,lower=low,id=5,protocol=802.3", "protocol= takes 802.1Q or 802.1ad, not '802.3'"},
           {"vlan,lower=low,id=5,mode=bridge", "vlan has no option 'mode'"},
           {"dummy,lower=low", "dummy has no option 'lower'"},
           {"dummy,name=d%d", "no kernel chooses a number for a dummy"},
           {"dummy,tso=perhaps", "tso= takes on or off, not 'perhaps'"},
           {"dummy,queues=2", "dummy has no option 'queues'"},
           {"tap=5", "unknown device 'tap=5'"},
       }) {
    EXPECT_THAT(Refusal(ParseNetSpec(c.net).status()),
                AllOf(HasSubstr("--net " + c.net + ": "), HasSubstr(c.says)));
  }
}

TEST(StackSpecTest, AddressesBelongToTheDeviceBeforeThem) {
  const absl::StatusOr<StackSpec> spec = ParseStackSpec(
      "dev=a,addr=10.0.0.1/24,addr=fd00::1/64,gateway=10.0.0.9,dev=b,addr=10.1.0.1/24,"
      "gateway=fe80::9,forwarding=on,name=router");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name, "router");
  EXPECT_TRUE(spec->forwarding);
  ASSERT_THAT(spec->devices, SizeIs(2));
  EXPECT_EQ(spec->devices[0].name, "a");
  EXPECT_THAT(spec->devices[0].addresses,
              ElementsAre(*IpPrefix::Parse("10.0.0.1/24"), *IpPrefix::Parse("fd00::1/64")));
  EXPECT_THAT(spec->devices[0].gateways, ElementsAre(*IpAddress::Parse("10.0.0.9")));
  EXPECT_THAT(spec->devices[1].addresses, ElementsAre(*IpPrefix::Parse("10.1.0.1/24")));
  EXPECT_THAT(spec->devices[1].gateways, ElementsAre(*IpAddress::Parse("fe80::9")));
  EXPECT_EQ(ParseStackSpec("dev=a")->name, "a");
}

TEST(StackSpecTest, BadValuesNameTheFlag) {
  struct Case {
    std::string stack, says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"", "unknown option ''"},
           {"forwarding=on", "needs dev=NAME"},
           {"addr=10.0.0.1/24,dev=a", "addr= must follow the dev= it belongs to"},
           {"gateway=10.0.0.1,dev=a", "gateway= must follow the dev= it belongs to"},
           {"dev=", "dev= is empty"},
           {"dev=a,name=", "name= is empty"},
           {"dev=a,dev=a", "dev=a is given twice"},
           {"dev=a,addr=10.0.0.1", "'10.0.0.1' is not ADDRESS/LENGTH"},
           {"dev=a,addr=10.0.0.0/24", "addr=10.0.0.0/24 is not the address of a host"},
           {"dev=a,addr=ff02::1/64", "addr=ff02::1/64 is not the address of a host"},
           {"dev=a,addr=10.0.0.1/24,dev=b,addr=10.0.0.1/16", "addr=10.0.0.1/16 is given twice"},
           {"dev=a,gateway=router", "gateway=router is not an address"},
           {"dev=a,gateway=fd00::1,gateway=fd00::2", "the second one of its family"},
           {"dev=a,forwarding=on,forwarding=on", "forwarding= is given twice"},
           {"dev=a,name=b,name=c", "name= is given twice"},
           {"dev=a,forwarding=both", "forwarding= takes on or off, not 'both'"},
           {"dev=a,colour=red", "unknown option 'colour'"},
           {"dev=a,name=a/b", "'a/b' is no valid interface name"},
       }) {
    EXPECT_THAT(Refusal(ParseStackSpec(c.stack).status()),
                AllOf(HasSubstr("--stack " + c.stack + ": "), HasSubstr(c.says)));
  }
}

// ---- Building ----

class TopologyTest : public ::testing::Test {
 protected:
  TopologyTest() : context_({&clock_, &random_}) {
    config_.duplicate_address_detection = false;
    own_ = std::make_unique<Stack>(context_, config_);
  }
  ~TopologyTest() override {
    ping_.reset();
    own_.reset();
    topology_.reset();
    Run();
  }

  // As Host does it.
  absl::Status Build(const std::vector<std::string>& nets,
                     const std::vector<std::string>& stacks = {}, const std::string& on = "") {
    TopologyOptions options;
    for (const std::string& net : nets) options.devices.push_back(Parsed(net));
    for (const std::string& stack : stacks) {
      const auto spec = ParseStackSpec(stack);
      EXPECT_TRUE(spec.ok()) << spec.status();
      options.stacks.push_back(*spec);
    }
    options.on = on;
    topology_ = std::make_unique<Topology>(context_, std::move(options));
    if (absl::Status s = topology_->CreateDevices(nullptr); !s.ok()) return s;
    absl::StatusOr<Interface*> interface = own_->AddInterface(topology_->own_device());
    if (!interface.ok()) return interface.status();
    interface_ = *interface;
    if (absl::Status s = topology_->CreateStacks(config_); !s.ok()) return s;
    if (absl::Status s = topology_->Up(); !s.ok()) return s;
    return topology_->AddAddresses();
  }
  netdev::NetDevice* Find(const char* name) { return context_.registry().Find(name); }
  void Run() {
    for (int i = 0; i < 1000 && context_.RunOnce(); ++i) {
    }
  }
  // Whether the command's own stack gets an answer from there.
  bool Pings(const char* own_address, const char* target) {
    EXPECT_TRUE(interface_->AddAddress(*IpPrefix::Parse(own_address)).ok());
    Run();
    const IpAddress address = *IpAddress::Parse(target);
    auto socket = PingSocket::Create(*own_, address.family());
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (!socket.ok()) return false;
    ping_ = *std::move(socket);
    int replies = 0;
    ping_->SetReplyCallback([&](EchoReply) { ++replies; });
    const std::vector<uint8_t> data(56, 1);
    EXPECT_TRUE(ping_->Send({.destination = address, .sequence = 1, .data = data}).ok());
    Run();
    ping_.reset();
    return replies == 1;
  }

  FakeClock clock_;
  SeededRandom random_{7};
  netdev::NetContext context_;
  StackConfig config_;
  std::unique_ptr<Stack> own_;
  std::unique_ptr<Topology> topology_;
  std::unique_ptr<PingSocket> ping_;
  Interface* interface_ = nullptr;
};

const std::vector<std::string> kTwoMacvlans = {
    "dummy,name=low", "macvlan,lower=low,name=mv0,mode=bridge,gro=on",
    "macvlan,lower=low,name=mv1,mode=bridge,always_on=off,rx=queue"};

TEST_F(TopologyTest, OwnStackIsOnTheLastDevice) {
  ASSERT_EQ(Build(kTwoMacvlans), absl::OkStatus());
  EXPECT_EQ(topology_->own_device().name(), "mv1");
  const auto* mv0 = dynamic_cast<netdev::Macvlan*>(Find("mv0"));
  const auto* mv1 = dynamic_cast<netdev::Macvlan*>(Find("mv1"));
  ASSERT_TRUE(mv0 != nullptr && mv1 != nullptr);
  EXPECT_EQ(&mv0->lower(), Find("low"));
  EXPECT_EQ(mv0->mode(), netdev::MacvlanMode::kBridge);
  EXPECT_EQ(mv0->gro_mode(), netdev::GroMode::kOn);
  EXPECT_TRUE(mv0->always_on());
  EXPECT_FALSE(mv1->always_on());
  EXPECT_EQ(mv1->rx(), netdev::MacvlanRx::kQueue);
  for (const char* name : {"low", "mv0", "mv1"}) EXPECT_TRUE(Find(name)->is_up()) << name;
  EXPECT_THAT(topology_->stacks(), SizeIs(0));
}

TEST_F(TopologyTest, OnNamesTheDeviceOfTheOwnStack) {
  ASSERT_EQ(Build(kTwoMacvlans, {}, "mv0"), absl::OkStatus());
  EXPECT_EQ(topology_->own_device().name(), "mv0");
}

TEST_F(TopologyTest, StacksOfTwoMacvlansReachEachOther) {
  ASSERT_EQ(Build(kTwoMacvlans, {"dev=mv0,addr=10.0.0.1/24,addr=fd00::1/64"}), absl::OkStatus());
  EXPECT_TRUE(Pings("10.0.0.2/24", "10.0.0.1"));
  EXPECT_TRUE(Pings("fd00::2/64", "fd00::1"));
}

TEST_F(TopologyTest, StacksOfTwoVlansReachEachOther) {
  ASSERT_EQ(Build({"veth,name=low", "vlan,lower=low,id=5,name=va", "vlan,lower=peer0,id=5"},
                  {"dev=va,addr=10.0.0.1/24,addr=fd00::1/64"}),
            absl::OkStatus());
  EXPECT_EQ(topology_->own_device().name(), "peer0.5");
  EXPECT_EQ(netdev::VlanTagOf(topology_->own_device())->vlan_id, 5u);
  // The far end of the pair is in use: no stack of its own accord there.
  EXPECT_EQ(topology_->peer_stack(), nullptr);
  EXPECT_TRUE(Pings("10.0.0.2/24", "10.0.0.1"));
  EXPECT_TRUE(Pings("fd00::2/64", "fd00::1"));
}

TEST_F(TopologyTest, StackOfTwoDevicesForwardsBetweenThem) {
  ASSERT_EQ(
      Build({"dummy,name=left", "dummy,name=right", "macvlan,lower=left,name=l0,mode=bridge",
             "macvlan,lower=right,name=r0,mode=bridge", "macvlan,lower=right,name=r1,mode=bridge",
             "macvlan,lower=left,name=l1,mode=bridge"},
            {"dev=l0,addr=10.0.0.1/24,addr=fd00:1::1/64,dev=r0,addr=10.1.0.1/24,"
             "addr=fd00:2::1/64,forwarding=on,name=router",
             "dev=r1,addr=10.1.0.2/24,addr=fd00:2::2/64,gateway=10.1.0.1,gateway=fd00:2::1"}),
      absl::OkStatus());
  EXPECT_TRUE(topology_->stacks()[0]->stack->config().forwarding);
  EXPECT_FALSE(topology_->stacks()[1]->stack->config().forwarding);
  ASSERT_TRUE(interface_->AddAddress(*IpPrefix::Parse("10.0.0.3/24")).ok());
  ASSERT_TRUE(interface_->AddAddress(*IpPrefix::Parse("fd00:1::3/64")).ok());
  ASSERT_EQ(
      AddGateways(*own_, *interface_,
                  {*IpAddress::Parse("10.0.0.1"), *IpAddress::Parse("fd00:1::1")}, "--gateway "),
      absl::OkStatus());
  EXPECT_TRUE(Pings("10.0.0.2/24", "10.1.0.2"));
  EXPECT_TRUE(Pings("fd00:1::2/64", "fd00:2::2"));
}

TEST_F(TopologyTest, FarEndOfAVethAnswersUnlessItIsUsed) {
  ASSERT_EQ(Build({"veth,name=low", "macvlan,lower=low,name=mv0,mode=bridge"}), absl::OkStatus());
  ASSERT_NE(topology_->peer_stack(), nullptr);
  EXPECT_TRUE(Pings("10.9.0.2/24", "10.9.0.1"));
  EXPECT_TRUE(Pings("fd00:9::2/64", "fd00:9::1"));
}

TEST_F(TopologyTest, WhatDevicesRefuseNamesTheFlag) {
  struct Case {
    std::vector<std::string> nets;
    const char* says;
  };
  const std::vector<Case> cases = {
      {{"macvlan,lower=low,name=mv0"},
       "--net macvlan,lower=low,name=mv0: lower=low: there is no such device"},
      {{"dummy,name=low", "macvlan,lower=mv0,name=mv0"}, "so far: low"},
      {{"dummy,name=low", "dummy,name=low"}, "--net dummy,name=low: "},
      {{"dummy,name=low", "macvlan,lower=low,mtu=1501"}, "--net macvlan,lower=low,mtu=1501: "},
      {{"dummy,name=low", "macvlan,lower=low", "macvlan,lower=low,mode=passthru"},
       "--net macvlan,lower=low,mode=passthru: "},
      {{"dummy,name=low", "macvlan,lower=low,mode=bridge,source=02:00:00:00:00:01"},
       "--net macvlan,lower=low,mode=bridge,source="},
      {{"dummy,name=low", "vlan,lower=low,id=5", "vlan,lower=low,id=5,name=again"},
       "--net vlan,lower=low,id=5,name=again: "},
      {{"dummy,name=low", "macvlan,lower=low,mac=02:00:00:00:00:01",
        "macvlan,lower=low,mac=02:00:00:00:00:01"},
       "--net macvlan,lower=low,mac=02:00:00:00:00:01: "},
      {{"veth,name=low", "dummy,name=peer0"}, "--net dummy,name=peer0: "},
  };
  for (const Case& c : cases) {
    netdev::NetContext context({&clock_, &random_});
    TopologyOptions options;
    for (const std::string& net : c.nets) options.devices.push_back(Parsed(net));
    Topology topology(context, std::move(options));
    absl::Status status = topology.CreateDevices(nullptr);
    if (status.ok()) status = topology.Up();
    EXPECT_THAT(Refusal(status), HasSubstr(c.says));
  }
}

TEST_F(TopologyTest, StacksThatCannotBeArePutInWords) {
  EXPECT_THAT(Refusal(Build(kTwoMacvlans, {}, "mv7")),
              AllOf(HasSubstr("--on mv7: "), HasSubstr("low, mv0, mv1")));
}

TEST_F(TopologyTest, StackOnAnUnknownDeviceIsRefused) {
  EXPECT_THAT(Refusal(Build(kTwoMacvlans, {"dev=mv7"})),
              AllOf(HasSubstr("--stack dev=mv7: "), HasSubstr("low, mv0, mv1")));
}

TEST_F(TopologyTest, StackOnTheOwnDeviceIsRefused) {
  EXPECT_THAT(Refusal(Build(kTwoMacvlans, {"dev=mv1"})), HasSubstr("--on NAME"));
}

TEST_F(TopologyTest, TwoStacksOnOneDeviceAreRefused) {
  EXPECT_THAT(Refusal(Build(kTwoMacvlans, {"dev=mv0,name=a", "dev=mv0,name=b"})),
              HasSubstr("--stack dev=mv0,name=b: "));
}

TEST_F(TopologyTest, TwoStacksOfOneNameAreRefused) {
  EXPECT_THAT(Refusal(Build(kTwoMacvlans, {"dev=mv0,name=a", "dev=low,name=a"})),
              HasSubstr("there is a stack named a"));
}

TEST_F(TopologyTest, NameOfTheOwnStackIsTaken) {
  EXPECT_THAT(Refusal(Build(kTwoMacvlans, {"dev=mv0,name=main"})),
              HasSubstr("name=main is that of the command's own stack"));
}

// ---- The flags of commands ----

TEST(HostTopologyTest, MtuOfTheLowerDeviceCounts) {
  const std::vector<std::string> nets = {"dummy,name=low,mtu=1000", "macvlan,lower=low,name=mv0"};
  EXPECT_THAT(Refusal(ParseHostFlags({.net = nets, .addresses = {"fd00::1/64"}}).status()),
              AllOf(HasSubstr("--addr fd00::1/64: "), HasSubstr("not 1000")));
  EXPECT_TRUE(ParseHostFlags({.net = nets, .addresses = {"10.0.0.1/24"}}).ok());
}

TEST(HostTopologyTest, DefaultAddressesAreThoseOfAVethOfTheOwnStack) {
  EXPECT_THAT(ParseHostFlags({.net = {"dummy,name=low", "veth,name=v0"}})->addresses, SizeIs(2));
  EXPECT_THAT(ParseHostFlags({.net = {"veth,name=v0", "dummy,name=low"}})->addresses, SizeIs(0));
  EXPECT_THAT(ParseHostFlags({.net = {"veth,name=v0", "dummy,name=low"}, .on = "v0"})->addresses,
              SizeIs(2));
}

TEST(HostTopologyTest, UsernsNeedsATap) {
  EXPECT_THAT(Refusal(ParseHostFlags({.net = {"dummy,name=low"}, .userns = true}).status()),
              HasSubstr("--userns: dummy"));
  EXPECT_TRUE(ParseHostFlags({.net = {"tap", "macvlan,lower=tw0"}, .userns = true})
                  ->topology.devices[0]
                  .tap.userns);
}

}  // namespace
}  // namespace tapwire::apps
