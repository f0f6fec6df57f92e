// SPDX-License-Identifier: Apache-2.0
// The stack as a router between two TAPs, with the kernel at both ends, each in a network namespace
// of its own. The far link is narrower.
//
//   [kernel] 10.9.0.1 ---- tw0 10.9.0.2 [stack] 10.10.0.1 tw1 ---- 10.10.0.2 [kernel, other
//   namespace]
//                                                    MTU 1400
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/registry.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/lab.h"
#include "tests/interop/verdict.h"

namespace tapwire::interop {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kNarrowMtu = 1400;
constexpr char kFarTap[] = "tw1";
constexpr MacAddress kFarKernelMac{0x02, 0, 0, 0x10, 0, 0x01};
constexpr MacAddress kFarStackMac{0x02, 0, 0, 0x10, 0, 0x02};

std::string FarAddress(IpFamily family) {
  return family == IpFamily::kV4 ? "10.10.0.2" : "fd00:10::2";
}

class InteropForwardingTest : public testutil::NetnsFixture,
                              public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto lab = Lab::Create({.node = tun_node(), .offloads = GetParam(), .judge_at_once = true});
    ASSERT_TRUE(lab.ok()) << lab.status();
    lab_ = *std::move(lab);
    far_ = std::make_unique<OtherNetns>();
    ASSERT_NO_FATAL_FAILURE(AddFarTap());
    ASSERT_NO_FATAL_FAILURE(BuildFarNetwork());
    lab_->stack().SetForwarding(true);
    for (const IpFamily family : kFamilies) {
      // A new link takes a moment, and an error that says so ends a ping.
      testutil::CommandResult ping = Ping({"-c1", "-W1", FarAddress(family)});
      for (int i = 0; ping.exit_code != 0 && i < 50; ++i) {
        lab_->RunFor(std::chrono::milliseconds(50));
        ping = Ping({"-c1", "-W1", FarAddress(family)});
      }
      ASSERT_EQ(ping.exit_code, 0) << ping.output;
    }
  }

  void TearDown() override {
    if (lab_ != nullptr) {
      ExpectGoodChecksums(*lab_);
      EXPECT_TRUE(lab_->checker_report().clean()) << lab_->checker_report().ToString();
      EXPECT_TRUE(far_checker_.report().clean()) << far_checker_.report().ToString();
    }
    far_tap_checker_.reset();
    lab_.reset();
    NetnsFixture::TearDown();
  }

  void AddFarTap() {
    auto tap = drivers::TapDevice::Open(lab_->context(), {.name = kFarTap,
                                                          .device_path = tun_node(),
                                                          .mac = kFarStackMac,
                                                          .csum = GetParam(),
                                                          .tso = GetParam()});
    ASSERT_TRUE(tap.ok()) << tap.status();
    auto device = lab_->context().registry().Register(*std::move(tap));
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_TRUE((*device)->SetMtu(kNarrowMtu).ok());
    far_tap_checker_ = std::make_unique<testutil::CheckerTap>(far_checker_, **device);
    auto interface = lab_->stack().AddInterface(**device);
    ASSERT_TRUE(interface.ok()) << interface.status();
    ASSERT_TRUE((*device)->Up().ok());
    ASSERT_TRUE((*interface)->AddAddress({Ipv4Address(10, 10, 0, 1), 24}).ok());
    ASSERT_TRUE((*interface)->AddAddress({*Ipv6Address::Parse("fd00:10::1"), 64}).ok());
  }

  void BuildFarNetwork() {
    const absl::Status near =
        IpBatch({absl::StrCat("link set ", kFarTap, " address ", kFarKernelMac.ToString()),
                 absl::StrCat("link set ", kFarTap, " netns ", far_->path()),
                 "route add 10.10.0.0/24 via 10.9.0.2", "route add fd00:10::/64 via fd00:9::2"});
    ASSERT_TRUE(near.ok()) << near;
    far_->Inside([] {
      const absl::Status far =
          IpBatch({absl::StrCat("link set ", kFarTap, " mtu ", kNarrowMtu),
                   absl::StrCat("addr add 10.10.0.2/24 dev ", kFarTap),
                   absl::StrCat("addr add fd00:10::2/64 dev ", kFarTap, " nodad"),
                   absl::StrCat("link set ", kFarTap, " up"), "route add default via 10.10.0.1",
                   "route add default via fd00:10::1"});
      ASSERT_TRUE(far.ok()) << far;
    });
  }

  testutil::CommandResult Ping(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {"ping", "-n"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return lab_->Run(words);
  }

  std::unique_ptr<Lab> lab_;
  std::unique_ptr<OtherNetns> far_;
  capture::CaptureChecker far_checker_;
  std::unique_ptr<testutil::CheckerTap> far_tap_checker_;
};

INSTANTIATE_TEST_SUITE_P(Offloads, InteropForwardingTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& offloads) {
                           return offloads.param ? "On" : "Off";
                         });

TEST_P(InteropForwardingTest, KernelsPingGoesThrough) {
  for (const IpFamily family : kFamilies) {
    const testutil::CommandResult ping = Ping({"-c3", "-i0.1", FarAddress(family)});
    EXPECT_EQ(ping.exit_code, 0) << ping.output;
    EXPECT_THAT(ping.output, HasSubstr("ttl=63"));
  }
}

TEST_P(InteropForwardingTest, KernelsPingHearsOfTheTtlTheMtuAndTheRoute) {
  for (const IpFamily family : kFamilies) {
    testutil::CommandResult ping = Ping({"-c1", "-W2", "-t1", FarAddress(family)});
    EXPECT_THAT(ping.output, ::testing::AnyOf(HasSubstr("Time to live exceeded"),
                                              HasSubstr("Time exceeded: Hop limit")));
    ping = Ping({"-c1", "-W2", "-Mdo", "-s1400", FarAddress(family)});
    EXPECT_THAT(ping.output, ::testing::AnyOf(HasSubstr("Frag needed and DF set (mtu = 1400)"),
                                              HasSubstr("Packet too big: mtu=1400")));
  }
  ASSERT_TRUE(
      IpBatch({"route add 10.11.0.0/24 via 10.9.0.2", "route add fd00:11::/64 via fd00:9::2"})
          .ok());
  EXPECT_THAT(Ping({"-c1", "-W2", "10.11.0.1"}).output, HasSubstr("Destination Net Unreachable"));
  EXPECT_THAT(Ping({"-c1", "-W2", "fd00:11::1"}).output, HasSubstr("No route"));
}

// What may be cut is, by the router or after its word.
TEST_P(InteropForwardingTest, LargePingsGoThrough) {
  for (const IpFamily family : kFamilies) {
    const testutil::CommandResult ping =
        Ping({"-c4", "-i0.2", "-W2", "-Mdont", "-s8000", FarAddress(family)});
    EXPECT_EQ(ping.exit_code, 0) << ping.output;
  }
}

TEST_P(InteropForwardingTest, KernelsTcpTransferGoesThrough) {
  if (Run({"iperf3", "--version"}).exit_code != 0) {
    if (testutil::IsRequired("iperf3")) GTEST_FAIL() << "iperf3 cannot be run";
    GTEST_SKIP() << "iperf3 cannot be run: install the package iperf3";
  }
  for (const IpFamily family : kFamilies) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(absl::StrCat(FarAddress(family), reverse ? " -R" : ""));
      const auto server = lab_->Start({"iperf3", "-s", "-1", "--forceflush"}, far_->Options());
      ASSERT_TRUE(server->WaitForOutput("listening")) << server->output();
      std::vector<std::string> words = {"iperf3", "-c", FarAddress(family), "-n", "8M"};
      if (reverse) words.push_back("-R");
      const testutil::CommandResult client = lab_->Run(words);
      EXPECT_EQ(client.exit_code, 0) << client.output;
      EXPECT_THAT(client.output, HasSubstr("iperf Done"));
      server->Wait();
    }
  }
  EXPECT_EQ(lab_->stack().mib().tcp.in_segs.value(), 0u);
  EXPECT_GT(lab_->stack().mib().ip.forw_datagrams.value(), 0u);
  EXPECT_GT(lab_->stack().mib().ip6.out_forw_datagrams.value(), 0u);
}

}  // namespace
}  // namespace tapwire::interop
