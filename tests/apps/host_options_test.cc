// SPDX-License-Identifier: Apache-2.0
// The shared flags: what they mean, and that a bad one is named together with what it should be.

#include "apps/host_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace tapwire::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

HostOptions ParsedFlags(const HostFlags& flags) {
  const absl::StatusOr<HostOptions> options = ParseHostFlags(flags);
  EXPECT_TRUE(options.ok()) << options.status();
  return options.ok() ? *options : HostOptions();
}
// The device of one --net.
NetSpec Parsed(const std::string& net) {
  const HostOptions options = ParsedFlags({.net = {net}});
  return options.topology.devices.empty() ? NetSpec() : options.topology.devices[0];
}

// The message of the refusal; a value that is taken fails the test.
std::string Refusal(const HostFlags& flags) {
  const absl::StatusOr<HostOptions> options = ParseHostFlags(flags);
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument) << options.status();
  return std::string(options.status().message());
}
std::string RefusalOfNet(const std::string& net) { return Refusal({.net = {net}}); }

TEST(HostOptionsTest, PlainTapHasAllDefaults) {
  const NetSpec options = Parsed("tap");
  EXPECT_EQ(options.kind, DeviceKind::kTap);
  EXPECT_EQ(options.tap.name, "");
  EXPECT_EQ(options.tap.device_path, "/dev/net/tun");
  EXPECT_EQ(options.tap.queues, 1u);
  EXPECT_EQ(options.tap.mtu, 0u);
  EXPECT_TRUE(options.tap.mac.IsZero());
  EXPECT_TRUE(options.tap.csum && options.tap.tso && options.tap.uso && options.offloads);
  EXPECT_FALSE(options.tap.fd.has_value());
  EXPECT_FALSE(options.tap.userns);
  EXPECT_FALSE(options.gro.has_value());
  const HostOptions all = ParsedFlags({});
  ASSERT_THAT(all.topology.devices, SizeIs(1));
  EXPECT_EQ(all.topology.devices[0].text, "tap");
  EXPECT_THAT(all.topology.stacks, IsEmpty());
  EXPECT_EQ(all.dad, DadMode::kAuto);
  EXPECT_EQ(all.busy_poll, Duration::zero());
  EXPECT_THAT(all.addresses, IsEmpty());
}

TEST(HostOptionsTest, EveryTapKeyIsTaken) {
  const NetSpec options = Parsed(
      "tap,name=tw0,dev=/tmp/tun,mac=02:00:00:00:00:05,mtu=9000,queues=4,csum=on,tso=off,uso=off,"
      "kernel=10.9.0.1/24,kernel=fd00:9::1/64");
  EXPECT_EQ(options.tap.name, "tw0");
  EXPECT_EQ(options.tap.device_path, "/tmp/tun");
  EXPECT_EQ(options.tap.mac.ToString(), "02:00:00:00:00:05");
  EXPECT_EQ(options.tap.mtu, 9000u);
  EXPECT_EQ(options.tap.queues, 4u);
  EXPECT_TRUE(options.tap.csum);
  EXPECT_FALSE(options.tap.tso);
  EXPECT_FALSE(options.tap.uso);
  ASSERT_EQ(options.tap.kernel_addrs.size(), 2u);
  EXPECT_EQ(options.tap.kernel_addrs[0].ToString(), "10.9.0.1/24");
  EXPECT_EQ(options.tap.kernel_addrs[1].ToString(), "fd00:9::1/64");
  EXPECT_EQ(Parsed("tap,fd=5").tap.fd, 5);
  EXPECT_EQ(Parsed("tap,fdsocket=/tmp/s").tap.fd_socket, "/tmp/s");
  EXPECT_EQ(Parsed("tap,name=tw%d").tap.name, "tw%d");
}

TEST(HostOptionsTest, SwitchesAreOnAndOff) {
  EXPECT_TRUE(Parsed("tap,userns").tap.userns);
  for (const std::string on : {"on", "1", "true"}) {
    EXPECT_TRUE(Parsed("tap,userns=" + on).tap.userns) << on;
    EXPECT_TRUE(Parsed("tap,csum=" + on).tap.csum) << on;
  }
  for (const std::string off : {"off", "0", "false"}) {
    EXPECT_FALSE(Parsed("tap,userns=" + off).tap.userns) << off;
    EXPECT_FALSE(Parsed("tap,csum=" + off).tap.csum) << off;
  }
  for (const std::string other : {"", "yes", "2", "ON"}) {
    EXPECT_THAT(RefusalOfNet("tap,userns=" + other), HasSubstr("userns= takes on or off"));
  }
}

TEST(HostOptionsTest, VethTakesWhatItHas) {
  const NetSpec options = Parsed("veth,name=v0,mac=02:00:00:00:00:06,mtu=1400,csum=off");
  EXPECT_EQ(options.kind, DeviceKind::kVeth);
  EXPECT_EQ(options.tap.name, "v0");
  EXPECT_EQ(options.tap.mtu, 1400u);
  EXPECT_FALSE(options.offloads);
  EXPECT_THAT(RefusalOfNet("veth,queues=2"), HasSubstr("veth has no option 'queues'"));
  for (const char* key : {"dev=/dev/net/tun", "kernel=10.9.0.1/24", "userns", "uso=off", "fd=3"}) {
    EXPECT_THAT(RefusalOfNet(std::string("veth,") + key), HasSubstr("veth has no option '"));
  }
  EXPECT_THAT(Refusal({.net = {"veth"}, .userns = true}), HasSubstr("--userns: veth"));
  EXPECT_THAT(RefusalOfNet("veth,name=v%d"), HasSubstr("'v%d'"));
}

// RFC 8200 §5: IPv6 needs 1280 bytes.
TEST(HostOptionsTest, SmallMtuCarriesIpv4Only) {
  EXPECT_THAT(ParsedFlags({.net = {"veth"}}).addresses, SizeIs(2));
  EXPECT_THAT(ParsedFlags({.net = {"veth,mtu=1280"}}).addresses, SizeIs(2));
  EXPECT_THAT(ParsedFlags({.net = {"veth,mtu=1279"}}).addresses,
              ElementsAre(*IpPrefix::Parse("10.9.0.2/24")));
  EXPECT_THAT(Refusal({.net = {"tap,mtu=1279"}, .addresses = {"fd00:9::2/64"}}),
              AllOf(HasSubstr("--addr fd00:9::2/64"), HasSubstr("1280")));
  EXPECT_THAT(RefusalOfNet("tap,mtu=1279,kernel=fd00:9::1/64"), HasSubstr("1280"));
}

TEST(HostOptionsTest, AddressesThatCannotWorkTogetherAreRefused) {
  EXPECT_THAT(Refusal({.addresses = {"10.9.0.2/24", "10.9.0.2/16"}}),
              HasSubstr("--addr 10.9.0.2/16: is given twice"));
  EXPECT_THAT(Refusal({.addresses = {"10.9.0.2/24"}, .gateways = {"10.9.0.1", "10.9.0.3"}}),
              HasSubstr("--gateway 10.9.0.3: is the second one of its family"));
  for (const char* gateway : {"10.9.0.0", "10.9.0.255"}) {
    EXPECT_THAT(Refusal({.addresses = {"10.9.0.2/24"}, .gateways = {gateway}}),
                HasSubstr("is the subnet or broadcast address of 10.9.0.2/24"));
  }
  // RFC 3021: a /31 has neither.
  EXPECT_TRUE(ParseHostFlags({.addresses = {"10.9.0.1/31"}, .gateways = {"10.9.0.0"}}).ok());
  EXPECT_THAT(Refusal({.net = {"tap,kernel=10.9.0.2/24"}, .addresses = {"10.9.0.2/24"}}),
              HasSubstr("the stack's own address"));
  for (const char* kernel : {"224.0.0.1/24", "ff02::1/64", "0.0.0.0/24", "::/64", "10.9.0.0/24",
                             "10.9.0.255/24", "fd00:9::/64", "255.255.255.255/32"}) {
    EXPECT_THAT(RefusalOfNet(std::string("tap,kernel=") + kernel),
                HasSubstr(std::string("kernel=") + kernel + " is not the address of a host"));
  }
  EXPECT_EQ(Parsed("tap,kernel=10.9.0.0/31").tap.kernel_addrs.size(), 1u);
  EXPECT_EQ(Parsed("tap,kernel=10.9.0.1/32").tap.kernel_addrs.size(), 1u);
}

TEST(HostOptionsTest, KeysThatContradictEachOtherAreRefused) {
  EXPECT_THAT(RefusalOfNet("tap,mtu=1500,mtu=1400"), HasSubstr("mtu= is given twice"));
  EXPECT_THAT(RefusalOfNet("tap,userns,userns=off"), HasSubstr("userns= is given twice"));
  EXPECT_THAT(RefusalOfNet("tap,fd=3,fdsocket=/tmp/s"), HasSubstr("exclude each other"));
  for (const char* net : {"tap,fd=3,dev=/dev/net/tun", "tap,fdsocket=/tmp/s,dev=/dev/net/tun",
                          "tap,queues=2,fd=3", "tap,fdsocket=/tmp/s,queues=2"}) {
    EXPECT_THAT(RefusalOfNet(net), HasSubstr("has no meaning"));
  }
}

TEST(HostOptionsTest, OtherFlagsAreTakenOver) {
  const absl::StatusOr<HostOptions> options =
      ParseHostFlags({.net = {"tap"},
                      .addresses = {"10.9.0.2/24", "fd00:9::2/64"},
                      .gateways = {"10.9.0.1", "fe80::1"},
                      .pcap = "out.pcapng",
                      .pcap_raw = true,
                      .userns = true,
                      .stats = true,
                      .dad = "off",
                      .busy_poll_us = 50});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->addresses,
              ElementsAre(*IpPrefix::Parse("10.9.0.2/24"), *IpPrefix::Parse("fd00:9::2/64")));
  EXPECT_THAT(options->gateways,
              ElementsAre(*IpAddress::Parse("10.9.0.1"), *IpAddress::Parse("fe80::1")));
  EXPECT_EQ(options->pcap, "out.pcapng");
  EXPECT_TRUE(options->pcap_raw && options->topology.devices[0].tap.userns && options->stats);
  EXPECT_EQ(options->dad, DadMode::kOff);
  EXPECT_EQ(options->busy_poll, std::chrono::microseconds(50));
  EXPECT_EQ(ParseHostFlags({.dad = "on"})->dad, DadMode::kOn);
}

TEST(HostOptionsTest, BadNetSpecNamesTheFlagAndTheRemedy) {
  struct Case {
    std::string net;
    std::string says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"bridge", "unknown device 'bridge'; device: tap["},
           {"", "unknown device ''"},
           {"tap,colour=red", "unknown option 'colour'; device: tap["},
           {"tap,", "unknown option ''"},
           {"tap,mtu=67", "'67' is not a number from 68 to 65521"},
           {"tap,mtu=65522", "'65522' is not a number from 68 to 65521"},
           {"tap,mtu=1500x", "'1500x' is not a number"},
           {"tap,mtu", "'' is not a number"},
           {"tap,mtu=+1500", "'+1500' is not a number"},
           {"tap,mtu= 1500", "' 1500' is not a number"},
           {"tap,name=", "name= is empty"},
           {"tap,name", "name= is empty"},
           {"tap,dev=", "dev= is empty"},
           {"tap,fdsocket=", "fdsocket= is empty"},
           {"tap,name=.", "'.' is no valid interface name"},
           {"tap,name=..", "'..' is no valid interface name"},
           {"tap,name=a/b", "'a/b' is no valid interface name"},
           {"tap,name=a:1", "'a:1' is no valid interface name"},
           {"tap,name=a%s", "'a%s' is no valid interface name"},
           {"tap,name=sixteen-bytes-xx", "is no valid interface name"},
           {"veth,name=a b", "'a b' is no valid interface name"},
           {"tap,queues=0", "'0' is not a number from 1 to 16"},
           {"tap,queues=17", "'17' is not a number from 1 to 16"},
           {"tap,fd=-1", "'-1' is not a number"},
           {"tap,mac=02:00:00:00:00", "'02:00:00:00:00' is not a unicast MAC address"},
           {"tap,mac=01:00:5e:00:00:01", "is not a unicast MAC address"},
           {"tap,mac=00:00:00:00:00:00", "is not a unicast MAC address"},
           {"tap,kernel=10.9.0.1", "'10.9.0.1' is not ADDRESS/LENGTH"},
           {"tap,csum=maybe", "csum= takes on or off, not 'maybe'"},
           {"tap,tso", "tso= takes on or off, not ''"},
       }) {
    EXPECT_THAT(RefusalOfNet(c.net), AllOf(HasSubstr("--net " + c.net + ": "), HasSubstr(c.says)));
  }
}

TEST(HostOptionsTest, BadAddressesNameTheFlagAndTheForm) {
  for (const char* text :
       {"10.9.0.2", "10.9.0.2/33", "10.9.0/24", "fd00:9::2/129", "host/24", ""}) {
    EXPECT_THAT(Refusal({.addresses = {text}}),
                AllOf(HasSubstr(std::string("--addr ") + text + ": "), HasSubstr("10.9.0.2/24")));
  }
  for (const char* text : {"10.9.0.1/24", "router", "fe80::1%tw0", ""}) {
    EXPECT_THAT(Refusal({.gateways = {text}}), HasSubstr(std::string("--gateway ") + text + ": "));
  }
  EXPECT_THAT(Refusal({.dad = "often"}), HasSubstr("--dad often: takes auto, on or off"));
}

}  // namespace
}  // namespace tapwire::apps
