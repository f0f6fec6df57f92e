// SPDX-License-Identifier: Apache-2.0
// The shared flags: what they mean, and that a bad one is named together with what it should be.

#include "apps/host_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tapwire::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HostOptions Parsed(const std::string& net) {
  const absl::StatusOr<HostOptions> options = ParseHostFlags({.net = net});
  EXPECT_TRUE(options.ok()) << net << ": " << options.status();
  return options.ok() ? *options : HostOptions();
}

// The message of the refusal; a value that is taken fails the test.
std::string Refusal(const HostFlags& flags) {
  const absl::StatusOr<HostOptions> options = ParseHostFlags(flags);
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument) << options.status();
  return std::string(options.status().message());
}
std::string RefusalOfNet(const std::string& net) { return Refusal({.net = net}); }

TEST(HostOptionsTest, PlainTapHasAllDefaults) {
  const HostOptions options = Parsed("tap");
  EXPECT_EQ(options.kind, DeviceKind::kTap);
  EXPECT_EQ(options.tap.name, "");
  EXPECT_EQ(options.tap.device_path, "/dev/net/tun");
  EXPECT_EQ(options.tap.queues, 1u);
  EXPECT_EQ(options.tap.mtu, 0u);
  EXPECT_TRUE(options.tap.mac.IsZero());
  EXPECT_TRUE(options.tap.csum && options.tap.tso && options.tap.uso && options.offloads);
  EXPECT_FALSE(options.tap.fd.has_value());
  EXPECT_FALSE(options.tap.userns);
  EXPECT_EQ(options.dad, DadMode::kAuto);
  EXPECT_THAT(options.addresses, IsEmpty());
}

TEST(HostOptionsTest, EveryTapKeyIsTaken) {
  const HostOptions options = Parsed(
      "tap,name=tw0,dev=/tmp/tun,mac=02:00:00:00:00:05,mtu=9000,queues=4,csum=on,tso=off,uso=off,"
      "kernel=10.9.0.1/24,kernel=fd00:9::1/64,fdsocket=/tmp/s");
  EXPECT_EQ(options.tap.name, "tw0");
  EXPECT_EQ(options.tap.device_path, "/tmp/tun");
  EXPECT_EQ(options.tap.mac.ToString(), "02:00:00:00:00:05");
  EXPECT_EQ(options.tap.mtu, 9000u);
  EXPECT_EQ(options.tap.queues, 4u);
  EXPECT_TRUE(options.tap.csum);
  EXPECT_FALSE(options.tap.tso);
  EXPECT_FALSE(options.tap.uso);
  EXPECT_EQ(options.tap.fd_socket, "/tmp/s");
  ASSERT_EQ(options.tap.kernel_addrs.size(), 2u);
  EXPECT_EQ(options.tap.kernel_addrs[0].ToString(), "10.9.0.1/24");
  EXPECT_EQ(options.tap.kernel_addrs[1].ToString(), "fd00:9::1/64");
  EXPECT_EQ(Parsed("tap,fd=5").tap.fd, 5);
  EXPECT_TRUE(Parsed("tap,userns").tap.userns);
}

TEST(HostOptionsTest, VethTakesWhatItHas) {
  const HostOptions options = Parsed("veth,name=v0,mac=02:00:00:00:00:06,mtu=1400,csum=off");
  EXPECT_EQ(options.kind, DeviceKind::kVeth);
  EXPECT_EQ(options.tap.name, "v0");
  EXPECT_EQ(options.tap.mtu, 1400u);
  EXPECT_FALSE(options.offloads);
  EXPECT_THAT(RefusalOfNet("veth,queues=2"), HasSubstr("veth has no option 'queues'"));
  EXPECT_THAT(RefusalOfNet("veth,dev=/dev/net/tun"), HasSubstr("veth has no option 'dev'"));
}

TEST(HostOptionsTest, OtherFlagsAreTakenOver) {
  const absl::StatusOr<HostOptions> options =
      ParseHostFlags({.net = "tap",
                      .addresses = {"10.9.0.2/24", "fd00:9::2/64"},
                      .gateways = {"10.9.0.1", "fe80::1"},
                      .pcap = "out.pcapng",
                      .pcap_raw = true,
                      .userns = true,
                      .stats = true,
                      .dad = "off"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->addresses,
              ElementsAre(*IpPrefix::Parse("10.9.0.2/24"), *IpPrefix::Parse("fd00:9::2/64")));
  EXPECT_THAT(options->gateways,
              ElementsAre(*IpAddress::Parse("10.9.0.1"), *IpAddress::Parse("fe80::1")));
  EXPECT_EQ(options->pcap, "out.pcapng");
  EXPECT_TRUE(options->pcap_raw && options->tap.userns && options->stats);
  EXPECT_EQ(options->dad, DadMode::kOff);
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
