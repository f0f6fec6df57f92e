// SPDX-License-Identifier: Apache-2.0
// `ip` of the control socket: layouts, words, errors and exit codes as iproute2 6.1 has them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "apps/ctl/json_text.h"
#include "netdev/vlan_device.h"
#include "tests/apps/ctl_fixture.h"

namespace tapwire::apps {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using CtlIpTest = CtlTest;

// ---- link ----

TEST_F(CtlIpTest, LinkIsTheTwoLinesOfIproute2) {
  const std::string expected =
      ": mv0@low: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT "
      "group default qlen 1000\n    link/ether 02:00:00:00:00:0a brd ff:ff:ff:ff:ff:ff\n";
  for (const char* line : {"ip link show dev mv0", "ip link show mv0", "ip l sh mv0",
                           "ip link ls mv0", "ip -0 link list dev mv0"}) {
    EXPECT_EQ(Out(line), absl::StrCat(IndexOf("mv0"), expected)) << line;
  }
  EXPECT_THAT(Out("ip link"), AllOf(HasSubstr(": lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc "
                                              "noqueue state UNKNOWN mode DEFAULT group default"),
                                    HasSubstr("    link/loopback 00:00:00:00:00:00 brd "
                                              "00:00:00:00:00:00\n"),
                                    HasSubstr(": low"), HasSubstr(": mv1@low: ")));
}

TEST_F(CtlIpTest, DetailsOfAMacvlanHaveItsModeAndQueueLength) {
  EXPECT_THAT(Out("ip -d link show mv0"),
              AllOf(HasSubstr("brd ff:ff:ff:ff:ff:ff promiscuity 0  allmulti 0 minmtu 68 maxmtu "),
                    HasSubstr("\n    macvlan mode bridge bcqueuelen 1000 usedbcqueuelen 1000 "
                              "addrgenmode "),
                    HasSubstr(" numtxqueues 1 numrxqueues 1 gso_max_size 65536 gso_max_segs 65535 "
                              "tso_max_size "),
                    EndsWith(" gro_max_size 65536 \n"), Not(HasSubstr("always_on")),
                    Not(HasSubstr("rx "))));
  const ctl::Json json = JsonOf("ip -j -d link show mv0")[0];
  EXPECT_EQ(json["link"], "low");
  EXPECT_EQ(json["linkinfo"].dump(),
            R"({"info_kind":"macvlan","info_data":{"mode":"bridge","bcqueuelen":1000,)"
            R"("usedbcqueuelen":1000}})");
}

TEST_F(CtlIpTest, SwitchesOfExperimentsAndSourceListsAreShown) {
  EXPECT_EQ(Out("ip link add link low name x0 type macvlan mode source flag nodst macaddr add "
                "02:00:00:00:00:11 bcqueuelen 7 always_on off rx queue"),
            "");
  EXPECT_THAT(Out("ip -d link show x0"),
              HasSubstr("macvlan mode source nodst bcqueuelen 7 usedbcqueuelen 1000 remotes (1) "
                        "02:00:00:00:00:11 always_on off rx queue "));
  const ctl::Json data = JsonOf("ip -d -j link show x0")[0]["linkinfo"]["info_data"];
  EXPECT_EQ(data.dump(),
            R"({"mode":"source","nodst":true,"bcqueuelen":7,"usedbcqueuelen":1000,)"
            R"("macaddr_count":1,"macaddr_data":["02:00:00:00:00:11"],"always_on":false,)"
            R"("rx":"queue"})");
}

// 4 blanks, columns of 10, 7, 6, 7, 7, 7 or wider, a blank behind each, and room for a column that
// is empty.
TEST_F(CtlIpTest, StatisticsAreAlignedToTheWiderOfTitleAndNumber) {
  netdev::DeviceStats& stats = low_->stats();
  const auto set = [](auto& counter, uint64_t to) { counter.Inc(to - counter.value()); };
  set(stats.rx_bytes, 3809250851);
  set(stats.rx_packets, 3699567);
  set(stats.tx_bytes, 18114229743);
  set(stats.tx_packets, 13052336);
  set(stats.rx_dropped, 0);
  set(stats.rx_multicast, 0);
  EXPECT_THAT(Out("ip -s link show low"),
              EndsWith("    RX:   bytes  packets errors dropped  missed   mcast           \n"
                       "     3809250851  3699567      0       0       0       0 \n"
                       "    TX:   bytes  packets errors dropped carrier collsns           \n"
                       "    18114229743 13052336      0       0       0       0 \n"));
  EXPECT_THAT(Out("ip -s -s link show low"),
              AllOf(HasSubstr("\n    RX errors:    length    crc   frame    fifo overrun\n"),
                    HasSubstr("\n    TX errors:   aborted   fifo  window heartbt transns\n")));
  EXPECT_EQ(JsonOf("ip -s -j link show low")[0]["stats64"]["rx"].dump(),
            R"({"bytes":3809250851,"packets":3699567,"errors":0,"dropped":0,"over_errors":0,)"
            R"("multicast":0})");
}

TEST_F(CtlIpTest, BriefAndJsonAndOneLine) {
  EXPECT_EQ(Out("ip -br link show mv0"),
            "mv0@low          UP             02:00:00:00:00:0a "
            "<BROADCAST,MULTICAST,UP,LOWER_UP> \n");
  EXPECT_EQ(Out("ip -br addr show mv0"),
            "mv0@low          UP             10.0.0.1/24 fd00::1/64 \n");
  EXPECT_EQ(Out("ip -j link show mv0"),
            absl::StrCat(R"([{"ifindex":)", IndexOf("mv0"),
                         R"(,"link":"low","ifname":"mv0","flags":["BROADCAST","MULTICAST","UP",)"
                         R"("LOWER_UP"],"mtu":1500,"qdisc":"noqueue","operstate":"UP",)"
                         R"("linkmode":"DEFAULT","group":"default","txqlen":1000,)"
                         R"("link_type":"ether","address":"02:00:00:00:00:0a",)"
                         R"("broadcast":"ff:ff:ff:ff:ff:ff"}])"
                         "\n"));
  EXPECT_THAT(Out("ip -j -p link show mv0"),
              AllOf(StartsWith("[ {\n        \"ifindex\": "),
                    HasSubstr("\n        \"flags\": [ \"BROADCAST\",\"MULTICAST\",\"UP\","
                              "\"LOWER_UP\" ],\n"),
                    EndsWith("\"\n    } ]\n")));
  EXPECT_THAT(Out("ip -o link show mv0"), HasSubstr(" qlen 1000\\    link/ether 02:"));
  EXPECT_THAT(Out("ip link show type macvlan"), AllOf(HasSubstr("mv1"), Not(HasSubstr(": low"))));
}

TEST_F(CtlIpTest, DownIsShownAsTheKernelShowsIt) {
  EXPECT_EQ(Out("ip link set low down"), "");
  EXPECT_FALSE(low_->is_up());
  EXPECT_THAT(Out("ip link show low"), HasSubstr("<BROADCAST,MULTICAST> mtu 1500"));
  EXPECT_THAT(Out("ip link show mv0"),
              HasSubstr("<NO-CARRIER,BROADCAST,MULTICAST,UP,M-DOWN> mtu 1500 qdisc noqueue state "
                        "LOWERLAYERDOWN"));
  EXPECT_THAT(Out("ip link show up"), Not(HasSubstr(": low")));
  EXPECT_EQ(Out("ip link set dev low up"), "");
  EXPECT_THAT(Out("ip link show mv0"), HasSubstr("<BROADCAST,MULTICAST,UP,LOWER_UP>"));
}

// ---- addr, neigh, route ----

TEST_F(CtlIpTest, AddressesOfBothFamilies) {
  EXPECT_THAT(Out("ip addr show dev mv0"),
              EndsWith(" qdisc noqueue state UP group default qlen 1000\n"
                       "    link/ether 02:00:00:00:00:0a brd ff:ff:ff:ff:ff:ff\n"
                       "    inet 10.0.0.1/24 scope global mv0\n"
                       "       valid_lft forever preferred_lft forever\n"
                       "    inet6 fd00::1/64 scope global \n"
                       "       valid_lft forever preferred_lft forever\n"));
  EXPECT_THAT(Out("ip -6 addr show dev mv0"), AllOf(HasSubstr("inet6"), Not(HasSubstr("inet "))));
  EXPECT_THAT(Out("ip a show lo"), AllOf(HasSubstr("inet 127.0.0.1/8 scope host"),
                                         HasSubstr("inet6 ::1/128 scope host")));
  const ctl::Json json = JsonOf("ip -j addr show mv0")[0]["addr_info"];
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0].dump(),
            R"({"family":"inet","local":"10.0.0.1","prefixlen":24,"scope":"global",)"
            R"("label":"mv0","valid_life_time":4294967295,"preferred_life_time":4294967295})");
  EXPECT_EQ(json[1]["local"], "fd00::1");
  EXPECT_FALSE(json[1].contains("label"));
  ASSERT_TRUE(ia_->AddAddress(*IpPrefix::Parse("10.0.0.9/24")).ok());
  EXPECT_THAT(Out("ip -o addr show mv0"),
              HasSubstr("inet 10.0.0.9/24 scope global secondary mv0\\       valid_lft"));
}

TEST_F(CtlIpTest, NeighboursOfBothFamilies) {
  for (const char* address : {"10.0.0.7", "fd00::7"}) {
    const IpAddress ip = *IpAddress::Parse(address);
    ASSERT_TRUE(
        ia_->neighbors(ip.family()).AddPermanent(ip, *MacAddress::Parse("02:00:00:00:00:77")).ok());
  }
  ib_->neighbors(IpFamily::kV4)
      .Resolve(*IpAddress::Parse("10.0.0.66"), *IpAddress::Parse("10.0.0.2"));
  EXPECT_EQ(Out("ip neigh"),
            "10.0.0.7 dev mv0 lladdr 02:00:00:00:00:77 PERMANENT \n"
            "10.0.0.66 dev mv1 INCOMPLETE \n"
            "fd00::7 dev mv0 lladdr 02:00:00:00:00:77 PERMANENT \n");
  EXPECT_EQ(Out("ip -6 neigh show dev mv0"), "fd00::7 lladdr 02:00:00:00:00:77 PERMANENT \n");
  EXPECT_EQ(Out("ip -n mv1 neigh"), "10.0.0.66 dev mv1 INCOMPLETE \n");
  EXPECT_THAT(Out("ip -s neigh show dev mv1"), StartsWith("10.0.0.66  used "));
  EXPECT_EQ(Out("ip -4 -j neigh show dev mv0"),
            R"([{"dst":"10.0.0.7","lladdr":"02:00:00:00:00:77","state":["PERMANENT"]}])"
            "\n");
  EXPECT_EQ(Out("ip -br -6 neigh"),
            "fd00::7                                 mv0              02:00:00:00:00:77\n");
  EXPECT_EQ(Out("ip -j neigh show dev low"), "[]\n");
}

TEST_F(CtlIpTest, RoutesOfBothFamilies) {
  for (const char* gateway : {"10.0.0.254", "fd00::254"}) {
    const IpAddress ip = *IpAddress::Parse(gateway);
    ASSERT_TRUE(
        a_->AddRoute(
              {.prefix = {IpAddress::Unspecified(ip.family()), 0}, .gateway = ip, .metric = 100})
            .ok());
  }
  EXPECT_EQ(Out("ip -n main route"),
            "default via 10.0.0.254 dev mv0 proto static metric 100 \n"
            "10.0.0.0/24 dev mv0 proto kernel scope link src 10.0.0.1 \n");
  EXPECT_EQ(Out("ip -6 route show dev mv0"),
            "fd00::/64 proto kernel pref medium\n"
            "default via fd00::254 proto static metric 100 pref medium\n");
  EXPECT_EQ(Out("ip -j route show dev mv1"),
            R"([{"dst":"10.0.0.0/24","protocol":"kernel","scope":"link","prefsrc":"10.0.0.2",)"
            R"("flags":[]}])"
            "\n");
}

// ---- set, add, del ----

TEST_F(CtlIpTest, SetChangesTheDevice) {
  EXPECT_EQ(Out("ip link set mv0 mtu 1400 address 02:00:00:00:00:0c"), "");
  EXPECT_EQ(Find("mv0")->mtu(), 1400u);
  EXPECT_EQ(Find("mv0")->mac().ToString(), "02:00:00:00:00:0c");
  // A wish counts once; what upper devices need is not shown as one.
  const uint32_t before = Find("mv0")->promiscuity();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Out("ip link set mv0 promisc on allmulticast on"), "");
    EXPECT_EQ(Find("mv0")->promiscuity(), before + 1);
    EXPECT_EQ(Find("mv0")->allmulti(), 1u);
    EXPECT_THAT(Out("ip link show mv0"), HasSubstr("<BROADCAST,MULTICAST,ALLMULTI,PROMISC,UP,"));
  }
  EXPECT_EQ(Out("ip link set mv0 promisc off"), "");
  EXPECT_EQ(Out("ip link set mv0 allmulticast off"), "");
  EXPECT_EQ(Find("mv0")->promiscuity(), before);
  EXPECT_EQ(Find("mv0")->allmulti(), 0u);
}

TEST_F(CtlIpTest, AddAndDelete) {
  EXPECT_EQ(Out("ip link add link low name x1 address 02:00:00:00:00:0d mtu 1300 type macvlan mode "
                "private"),
            "");
  EXPECT_EQ(Find("x1")->mtu(), 1300u);
  EXPECT_FALSE(Find("x1")->is_up());
  EXPECT_EQ(Out("ip link add link low name x2 type vlan id 5"), "");
  EXPECT_EQ(netdev::VlanTagOf(*Find("x2"))->vlan_id, 5u);
  EXPECT_THAT(Out("ip -d link show x2"), HasSubstr("vlan protocol 802.1Q id 5 <REORDER_HDR> "));
  EXPECT_EQ(Out("ip link add d0 type dummy"), "");
  EXPECT_EQ(Find("d0")->kind(), "dummy");
  for (const char* name : {"x1", "x2", "d0"}) {
    EXPECT_EQ(Out(absl::StrCat("ip link del ", name)), "");
    EXPECT_EQ(Find(name), nullptr);
  }
  // The upper devices go with their lower one.
  EXPECT_EQ(Out("ip link del dev low"), "");
  EXPECT_EQ(Find("mv0"), nullptr);
  EXPECT_EQ(Out("ip -n main addr show up type macvlan"), "");
}

// ---- Errors ----

TEST_F(CtlIpTest, ErrorsAndExitCodesAreThoseOfIproute2) {
  struct Case {
    const char* line;
    int exit_code;
    const char* err;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"ip bogus", 1, "Object \"bogus\" is unknown, try \"ip help\".\n"},
           {"ip -x link", 255, "Option \"-x\" is unknown, try \"ip -help\".\n"},
           {"ip - link", 255, "Option \"-\" is unknown, try \"ip -help\".\n"},
           {"ip link frob", 255, "Command \"frob\" is unknown, try \"ip link help\".\n"},
           {"ip addr add", 255, "Command \"add\" is unknown, try \"ip address help\".\n"},
           {"ip link show dev nosuch", 1, "Device \"nosuch\" does not exist.\n"},
           {"ip -j addr show nosuch", 1, "Device \"nosuch\" does not exist.\n"},
           {"ip neigh show dev nosuch", 1, "Cannot find device \"nosuch\"\n"},
           {"ip route show dev nosuch", 1, "Cannot find device \"nosuch\"\n"},
           {"ip route show extra", 1,
            "Error: any valid prefix is expected rather than \"extra\".\n"},
           {"ip link show low extra", 255,
            "Error: either \"dev\" is duplicate, or \"extra\" is a garbage.\n"},
           {"ip link show dev", 255, "Command line is not complete. Try option \"help\"\n"},
           {"ip -n", 255, "Command line is not complete. Try option \"help\"\n"},
           {"ip -n nosuch link", 1,
            "Cannot open network namespace \"nosuch\": No such file or directory\n"},
           {"ip link set nosuch up", 1, "Cannot find device \"nosuch\"\n"},
           {"ip link set", 255, "Not enough information: \"dev\" argument is required.\n"},
           {"ip link set mv0 mtu", 255, "Command line is not complete. Try option \"help\"\n"},
           {"ip link set mv0 mtu x", 255,
            "Error: argument \"x\" is wrong: Invalid \"mtu\" value\n\n"},
           {"ip link set mv0 mtu 10", 2, "Error: mtu less than device minimum.\n"},
           {"ip link set mv0 mtu -1", 2, "Error: mtu less than device minimum.\n"},
           {"ip link set low mtu 9999999999", 2, "Error: mtu greater than device maximum.\n"},
           {"ip link set mv0 mtu 9000", 2, "RTNETLINK answers: Invalid argument\n"},
           {"ip link set mv0 address zz", 1, "\"zz\" is invalid lladdr.\n"},
           {"ip link set mv0 address 01:00:00:00:00:01", 2,
            "RTNETLINK answers: Cannot assign requested address\n"},
           {"ip link set mv0 promisc maybe", 1,
            "Error: argument of \"promisc\" must be \"on\" or \"off\", not \"maybe\"\n"},
           {"ip link set mv0 bogus", 255,
            "Error: either \"dev\" is duplicate, or \"bogus\" is a garbage.\n"},
           {"ip link add", 1, "Not enough information: \"type\" argument is required\n"},
           {"ip link add link nosuch name q type macvlan", 1, "Cannot find device \"nosuch\"\n"},
           {"ip link add link low name mv0 type macvlan", 2, "RTNETLINK answers: File exists\n"},
           {"ip link add link low name q type macvlan mode bogus", 1,
            "Error: argument of \"mode\" must be \"private\", \"vepa\", \"bridge\", \"passthru\" "
            "or "
            "\"source\", not \"bogus\"\n"},
           {"ip link add link low name q type macvlan mode passthru", 2,
            "RTNETLINK answers: Invalid argument\n"},
           {"ip link add name q type macvlan mode bridge", 2,
            "RTNETLINK answers: Invalid argument\n"},
           {"ip link add link low name q type frob", 2, "Error: Unknown device type.\n"},
           {"ip link add link low name q type vlan", 2, "Error: 8021q: VLAN id not specified.\n"},
           {"ip link add link low name q type vlan id 5000", 2, "Error: 8021q: Invalid VLAN id.\n"},
           {"ip link add link low name q type vlan id five", 255,
            "Error: argument \"five\" is wrong: id is invalid\n"},
           {"ip link add link low name sixteen-bytes-xxx type macvlan", 255,
            "Error: argument \"sixteen-bytes-xxx\" is wrong: \"name\" not a valid ifname\n"},
           {"ip link del nosuch", 1, "Cannot find device \"nosuch\"\n"},
           {"ip link del", 255, "Not enough information: \"dev\" argument is required.\n"},
           {"ip link del lo", 2, "RTNETLINK answers: Operation not supported\n"},
           {"ip link del low type vlan", 2, "RTNETLINK answers: Operation not supported\n"},
       }) {
    EXPECT_EQ(Err(c.line, c.exit_code), c.err) << c.line;
  }
  EXPECT_EQ(Find("q"), nullptr);
  EXPECT_THAT(Err("ip", 255), StartsWith("Usage: ip "));
  EXPECT_THAT(Err("frob", 2), HasSubstr("'frob' is unknown"));
  EXPECT_THAT(Err("", 2), HasSubstr("there are ip and ethtool"));
}

TEST_F(CtlIpTest, PrettyJsonIsIproute2s) {
  EXPECT_EQ(ctl::JsonText(ctl::Json::array(), true), "[ ]\n");
  EXPECT_EQ(ctl::JsonText(ctl::Json::array(
                              {{{"a", 1}, {"b", ctl::Json::array({"x", "y"})}}, {{"c", nullptr}}}),
                          true),
            "[ {\n        \"a\": 1,\n        \"b\": [ \"x\",\"y\" ]\n    },{\n        \"c\": null\n"
            "    } ]\n");
}

}  // namespace
}  // namespace tapwire::apps
