// SPDX-License-Identifier: Apache-2.0
// `ethtool` of the control socket: layouts, words, errors and exit codes as ethtool 6.1 has them,
// and a change of features under traffic.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stack/sockets/tcp_listener.h"
#include "stack/sockets/tcp_socket.h"
#include "stack/tcp/tcp.h"
#include "tests/apps/ctl_fixture.h"

namespace tapwire::apps {
namespace {

using netdev::Feature;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using CtlEthtoolTest = CtlTest;

TEST_F(CtlEthtoolTest, FeaturesStandInTheOrderOfEthtool) {
  // Names before the colon, as ethtool 6.1 prints them on Linux 6.18.
  const std::vector<std::string> expected = {"Features for low",
                                             "rx-checksumming",
                                             "tx-checksumming",
                                             "\ttx-checksum-ipv4",
                                             "\ttx-checksum-ip-generic",
                                             "\ttx-checksum-ipv6",
                                             "\ttx-checksum-fcoe-crc",
                                             "\ttx-checksum-sctp",
                                             "scatter-gather",
                                             "\ttx-scatter-gather",
                                             "\ttx-scatter-gather-fraglist",
                                             "tcp-segmentation-offload",
                                             "\ttx-tcp-segmentation",
                                             "\ttx-tcp-ecn-segmentation",
                                             "\ttx-tcp-mangleid-segmentation",
                                             "\ttx-tcp6-segmentation",
                                             "\ttx-tcp-accecn-segmentation",
                                             "generic-segmentation-offload",
                                             "generic-receive-offload",
                                             "large-receive-offload",
                                             "rx-vlan-offload",
                                             "tx-vlan-offload",
                                             "ntuple-filters",
                                             "receive-hashing",
                                             "highdma",
                                             "rx-vlan-filter",
                                             "vlan-challenged",
                                             "tx-gso-robust",
                                             "tx-fcoe-segmentation",
                                             "tx-gre-segmentation",
                                             "tx-gre-csum-segmentation",
                                             "tx-ipxip4-segmentation",
                                             "tx-ipxip6-segmentation",
                                             "tx-udp_tnl-segmentation",
                                             "tx-udp_tnl-csum-segmentation",
                                             "tx-gso-partial",
                                             "tx-tunnel-remcsum-segmentation",
                                             "tx-sctp-segmentation",
                                             "tx-esp-segmentation",
                                             "tx-udp-segmentation",
                                             "tx-gso-list",
                                             "tx-nocache-copy",
                                             "loopback",
                                             "rx-fcs",
                                             "rx-all",
                                             "tx-vlan-stag-hw-insert",
                                             "rx-vlan-stag-hw-parse",
                                             "rx-vlan-stag-filter",
                                             "l2-fwd-offload",
                                             "hw-tc-offload",
                                             "esp-hw-offload",
                                             "esp-tx-csum-hw-offload",
                                             "rx-udp_tunnel-port-offload",
                                             "tls-hw-tx-offload",
                                             "tls-hw-rx-offload",
                                             "rx-gro-hw",
                                             "tls-hw-record",
                                             "rx-gro-list",
                                             "macsec-hw-offload",
                                             "rx-udp-gro-forwarding",
                                             "hsr-tag-ins-offload",
                                             "hsr-tag-rm-offload",
                                             "hsr-fwd-offload",
                                             "hsr-dup-offload"};
  const std::string out = Out("ethtool -k low");
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(out, '\n', absl::SkipEmpty())) {
    names.emplace_back(line.substr(0, line.find(':')));
  }
  EXPECT_EQ(names, expected);
  EXPECT_EQ(Out("ethtool --show-features low"), out);
  EXPECT_EQ(Out("ethtool --show-offload low"), out);
}

TEST_F(CtlEthtoolTest, FeaturesOfAMacvlanAreFixedWhereTheyAreAlwaysOn) {
  EXPECT_THAT(Out("ethtool -k mv0"),
              AllOf(HasSubstr("\n\ttx-checksum-ip-generic: on [fixed]\n"),
                    HasSubstr("\nscatter-gather: on\n\ttx-scatter-gather: on [fixed]\n"),
                    HasSubstr("\ntcp-segmentation-offload: on\n"),
                    HasSubstr("\ngeneric-segmentation-offload: on\n"),
                    HasSubstr("\nvlan-challenged: off [fixed]\n")));
}

TEST_F(CtlEthtoolTest, JsonHasActiveFixedAndRequested) {
  const std::string out = Out("ethtool --json -k mv0");
  EXPECT_THAT(out, AllOf(StartsWith("[ {\n        \"ifname\": \"mv0\",\n"
                                    "        \"rx-checksumming\": {\n            \"active\": "),
                         EndsWith("        }\n    } ]\n")));
  const ctl::Json json = ctl::Json::parse(out, nullptr, false)[0];
  EXPECT_EQ(json["tx-checksumming"].dump(), R"({"active":true,"fixed":null,"requested":null})");
  EXPECT_EQ(json["tx-checksum-ip-generic"]["fixed"], true);
  EXPECT_EQ(json["tx-tcp-segmentation"]["active"], true);
}

TEST_F(CtlEthtoolTest, ChangeThatHappensAsAskedSaysNothing) {
  ASSERT_TRUE(low_->features().Has(Feature::kTso));
  EXPECT_EQ(Out("ethtool -K low tso off"), "");
  EXPECT_FALSE(low_->features().HasAny(netdev::kAllTso));
  EXPECT_EQ(Out("ethtool -K low tso off"), "");  // it is so already
  EXPECT_EQ(Out("ethtool --features low tcp-segmentation-offload on gro off"), "");
  EXPECT_TRUE(low_->features().Has(Feature::kTso));
  EXPECT_FALSE(low_->features().Has(Feature::kGro));
  EXPECT_EQ(Out("ethtool --offload low tx-tcp6-segmentation off rx-gro on"), "");
  EXPECT_FALSE(low_->features().Has(Feature::kTso6));
  EXPECT_TRUE(low_->features().Has(Feature::kTso));
}

TEST_F(CtlEthtoolTest, WhatElseChangesIsSaid) {
  const ctl::Reply off = Do("ethtool -K low tx-checksum-ip-generic off");
  EXPECT_EQ(off.exit_code, 0);
  EXPECT_THAT(off.out, AllOf(StartsWith("Actual changes:\ntx-checksum-ip-generic: off\n"),
                             HasSubstr("tx-tcp-segmentation: off [not requested]\n")));
  // A feature whose prerequisite is missing is wished for, and not had.
  const ctl::Reply wish = Do("ethtool -K low tx-tcp-segmentation off tx-tcp-segmentation on");
  EXPECT_EQ(wish.exit_code, 1);
  EXPECT_EQ(wish.err, "Could not change any device features\n");
  EXPECT_EQ(wish.out, "Actual changes:\ntx-tcp-segmentation: off [requested on]\n");
  EXPECT_THAT(Out("ethtool -k low"), HasSubstr("\ttx-tcp-segmentation: off [requested on]\n"));
  // The group holds features that are fixed.
  const ctl::Reply tx = Do("ethtool -K low tx on");
  EXPECT_EQ(tx.exit_code, 0);
  EXPECT_THAT(tx.out, AllOf(HasSubstr("tx-checksum-ipv4: off [requested on]\n"),
                            HasSubstr("tx-checksum-ip-generic: on\n"),
                            HasSubstr("tx-tcp-segmentation: on [not requested]\n")));
}

TEST_F(CtlEthtoolTest, EveryShortNameOfAGroupIsKnown) {
  for (const char* name : {"rx", "tx", "sg", "tso", "gso", "gro", "lro", "rxvlan", "txvlan",
                           "ntuple", "rxhash", "ufo"}) {
    const ctl::Reply reply = Do(absl::StrCat("ethtool -K low ", name, " off"));
    EXPECT_THAT(reply.err, Not(HasSubstr("netlink error"))) << name;
  }
  EXPECT_EQ(Err("ethtool -K low ufo off", 1), "Could not change any device features\n");
}

TEST_F(CtlEthtoolTest, DriverAndStatistics) {
  EXPECT_EQ(Out("ethtool -i mv0"),
            "driver: macvlan\nversion: 0.1\nfirmware-version: \nexpansion-rom-version: \n"
            "bus-info: \nsupports-statistics: yes\nsupports-test: no\n"
            "supports-eeprom-access: no\nsupports-register-dump: no\nsupports-priv-flags: no\n");
  EXPECT_THAT(Out("ethtool --driver low"), StartsWith("driver: veth\nversion: "));
  EXPECT_THAT(Out("ethtool -S low"), AllOf(StartsWith("NIC statistics:\n     rx_packets: "),
                                           HasSubstr("\n     tx_gso_segmented: ")));
  low_->DropTx(nullptr, DropReason::kTxCarrierOff);
  EXPECT_THAT(
      Out("ethtool --statistics low"),
      HasSubstr(absl::StrCat("     drop_", DropReasonName(DropReason::kTxCarrierOff), ": ")));
}

TEST_F(CtlEthtoolTest, ErrorsAndExitCodesAreThoseOfEthtool) {
  const std::string bad_line =
      "ethtool: bad command line argument(s)\nFor more information run ethtool -h\n";
  const std::string no_device =
      "netlink error: no device matches name (offset 24)\nnetlink error: No such device\n";
  struct Case {
    const char* line;
    int exit_code;
    std::string err;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"ethtool", 1, bad_line},
           {"ethtool -k", 1, bad_line},
           {"ethtool -Z low", 1, bad_line},
           {"ethtool --bogus low", 1, bad_line},
           {"ethtool --json -K low tso on", 1, bad_line},
           {"ethtool -k low extra", 1, "ethtool: unexpected parameter 'extra'\n"},
           {"ethtool -k nosuch", 1, no_device},
           {"ethtool -K nosuch tso off", 92, no_device},
           {"ethtool -i nosuch", 71, "Cannot get driver information: No such device\n"},
           {"ethtool -S nosuch", 96, "Cannot get stats strings information: No such device\n"},
           {"ethtool -K low bogus on", 92,
            "netlink error: bit name not found (offset 52)\n"
            "netlink error: Operation not supported\n"},
           {"ethtool -K low", 1, "Could not change any device features\n"},
           {"ethtool -K low tso maybe", 1,
            "ethtool (-K): flag 'maybe' for parameter 'tso' is not followed by 'on' or 'off'\n"},
           {"ethtool -K low tso", 1,
            "ethtool (-K): flag '(null)' for parameter 'tso' is not followed by 'on' or 'off'\n"},
       }) {
    EXPECT_EQ(Err(c.line, c.exit_code), c.err) << c.line;
  }
  EXPECT_THAT(Err("ethtool -K low vlan-challenged on", 92),
              HasSubstr("netlink error: Invalid argument\n"));
}

// ---- Under traffic ----

// A bulk transfer between the stacks of two macvlans, with the features of the lower device
// switched in the middle, over and over.
class CtlTrafficTest : public CtlTest {
 protected:
  ~CtlTrafficTest() override {
    client_.reset();
    server_.reset();
    listener_.reset();
    Run();
  }
  void Connect(const char* address) {
    tcp::Tcp::Install(*a_);
    tcp::Tcp::Install(*b_);
    const IpAddress to = *IpAddress::Parse(address);
    auto listener = TcpListener::Listen(*b_, {IpAddress::Unspecified(to.family()), 5201, 0});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    auto client = TcpSocket::Connect(*a_, {to, 5201, 0}, {}, nullptr);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    Run();
    server_ = listener_->TryAccept();
    ASSERT_NE(server_, nullptr);
  }
  static uint8_t ByteAt(size_t i) { return static_cast<uint8_t>(i * 31 + i / 251); }
  // One turn: as much as goes in and out; what comes out is checked.
  void Transfer() {
    std::vector<uint8_t> out(16'384), in(65'536);
    for (size_t i = 0; i < out.size(); ++i) out[i] = ByteAt(sent_ + i);
    const absl::StatusOr<size_t> wrote = client_->TryWrite(out);
    if (wrote.ok()) sent_ += *wrote;
    Run();
    const absl::StatusOr<size_t> got = server_->TryRead(in);
    for (size_t i = 0; got.ok() && i < *got; ++i, ++received_) {
      ASSERT_EQ(in[i], ByteAt(received_)) << received_;
    }
    clock_.Advance(std::chrono::microseconds(100));
    Run();
  }

  std::unique_ptr<TcpListener> listener_;
  std::unique_ptr<TcpSocket> client_, server_;
  size_t sent_ = 0, received_ = 0;
};

TEST_F(CtlTrafficTest, FeaturesOfTheLowerDeviceRippleThroughMacvlansUnderTraffic) {
  EXPECT_EQ(Out("ip link add link low name copy type macvlan mode bridge always_on off"), "");
  for (const char* address : {"10.0.0.2", "fd00::2"}) {
    Connect(address);
    sent_ = received_ = 0;
    const std::vector<const char*> lines = {
        "ethtool -K low tso off", "ethtool -K low gso off gro off", "ethtool -K low tx off sg off",
        "ethtool -K low rx off",  "ethtool -K low sg on tx on",     "ethtool -K low gso on gro on",
        "ethtool -K low rx on",   "ethtool -K low tso on"};
    for (const char* line : lines) {
      for (int i = 0; i < 20; ++i) Transfer();
      EXPECT_EQ(Do(line).exit_code, 0) << line;
      const auto low = low_->features(), mv = Find("mv0")->features();
      const auto copy = Find("copy")->features();
      // Section by section: what macvlans copy follows; what is always on stays.
      for (const Feature f : {Feature::kGso, Feature::kGro, Feature::kRxCsum}) {
        EXPECT_EQ(mv.Has(f), low.Has(f)) << line;
      }
      EXPECT_TRUE(mv.HasAll({Feature::kTso, Feature::kTso6, Feature::kSg, Feature::kHwCsum}));
      for (const Feature f : {Feature::kTso, Feature::kTso6, Feature::kSg, Feature::kHwCsum}) {
        EXPECT_EQ(copy.Has(f), low.Has(f)) << line;
      }
    }
    for (int i = 0; i < 2000 && received_ < sent_; ++i) {
      clock_.Advance(std::chrono::milliseconds(10));
      Transfer();
      if (i > 20) break;
    }
    EXPECT_GT(received_, 1'000'000u);
    EXPECT_TRUE(client_->connected());
    client_.reset();
    server_.reset();
    listener_.reset();
    Run();
  }
}

}  // namespace
}  // namespace tapwire::apps
