// SPDX-License-Identifier: Apache-2.0
// Address resolution with the kernel: states of our entries, a restart of the stack under another
// MAC address, address conflicts, and a bridge that forwards groups only to those who asked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/capture/pcap_reader.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/lab.h"
#include "tests/interop/verdict.h"
#include "tests/testutil/frame_view.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testutil::Pattern;

class InteropNeighborTest : public testutil::NetnsFixture {
 protected:
  std::unique_ptr<Lab> Open(LabOptions options) {
    options.node = tun_node();
    auto lab = Lab::Create(options);
    EXPECT_TRUE(lab.ok()) << lab.status();
    return lab.ok() ? *std::move(lab) : nullptr;
  }
};

// ---- Our table ----

std::optional<NeighborState> StateOf(Lab& lab, IpFamily family) {
  const auto info = lab.interface().neighbors(family).Find(KernelAddress(family));
  return info.has_value() ? std::optional(info->state) : std::nullopt;
}

// RFC 4861 §7.3.3, for both families: the entry ages, is probed by unicast when it is used, and is
// confirmed by the kernel.
TEST_F(InteropNeighborTest, OurEntryAgesAndIsConfirmed) {
  StackConfig config = ConfigWithoutDad();
  config.reachable_time_base = seconds(2);
  config.delay_first_probe = milliseconds(300);
  config.announce_addresses = false;  // they count as requests
  auto lab = Open({.config = config});
  ASSERT_NE(lab, nullptr);
  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(KernelAddress(family).ToString());
    const EchoRequest request{.destination = KernelAddress(family), .sequence = 1};
    ASSERT_TRUE(PingOnce(*lab, request).reply.has_value());
    EXPECT_EQ(StateOf(*lab, family), NeighborState::kReachable);
    EXPECT_EQ(lab->interface().neighbors(family).Find(KernelAddress(family))->mac, kKernelMac);

    ASSERT_TRUE(lab->RunUntil([&] { return StateOf(*lab, family) == NeighborState::kStale; }));
    const Mib& mib = lab->stack().mib();
    const auto questions = [&] {
      return family == IpFamily::kV4 ? mib.arp.out_requests.value()
                                     : mib.icmp6.out_neighbor_solicits.value();
    };
    const uint64_t asked = questions();
    ASSERT_TRUE(PingOnce(*lab, request).reply.has_value());  // by the MAC that is known
    EXPECT_TRUE(lab->RunUntil([&] { return StateOf(*lab, family) == NeighborState::kReachable; }));
    EXPECT_EQ(questions(), asked + 1);
  }
  ExpectClean(*lab);
}

// ---- Bridges ----

constexpr char kBridge[] = "br0";

// The kernel's address is on a bridge, which keeps its link while the TAP is away.
absl::Status BuildBridge(const OtherNetns& far, const std::string& bridge_options = "") {
  absl::Status status = IpBatch(
      {absl::StrCat("link add ", kBridge, " type bridge ", bridge_options),
       absl::StrCat("link set ", kBridge, " address ", kKernelMac.ToString()),
       "link add near type veth peer name far", absl::StrCat("link set far netns ", far.path()),
       absl::StrCat("link set near master ", kBridge)});
  if (!status.ok()) return status;
  for (const std::string& name : {std::string(kBridge), std::string("near")}) {
    status = WriteSysctl(absl::StrCat("ipv6/conf/", name, "/accept_dad"), "0");
    if (!status.ok()) return status;
  }
  status = IpBatch({absl::StrCat("addr add ", kKernel4.ToString(), "/24 dev ", kBridge),
                    absl::StrCat("addr add ", kKernel6.ToString(), "/64 dev ", kBridge, " nodad"),
                    "link set near up", absl::StrCat("link set ", kBridge, " up")});
  if (!status.ok()) return status;
  far.Inside([&] {
    status = WriteSysctl("ipv6/conf/far/accept_dad", "0");
    if (!status.ok()) return;
    status = IpBatch(
        {"addr add 10.9.0.3/24 dev far", "addr add fd00:9::3/64 dev far nodad", "link set far up"});
  });
  return status;
}

LabOptions OnBridge(const MacAddress& mac = kStackMac) {
  LabOptions options;
  options.mac = mac;
  options.kernel_lines = {absl::StrCat("link set ", kTapName, " master ", kBridge),
                          absl::StrCat("link set ", kTapName, " up")};
  return options;
}

bool KernelHasMac(IpFamily family, const MacAddress& mac) {
  return absl::StrContains(KernelNeighbor(StackAddress(family), kBridge), mac.ToString());
}

// RFC 5227 §2.3, RFC 4861 §7.2.6: whoever has the old MAC hears of the new one without asking.
TEST_F(InteropNeighborTest, KernelHearsOfANewMacAtOnce) {
  constexpr MacAddress kOtherMac{0x02, 0, 0, 0x09, 0, 0x77};
  const OtherNetns far;
  const absl::Status built = BuildBridge(far);
  ASSERT_TRUE(built.ok()) << built;
  auto lab = Open(OnBridge());
  ASSERT_NE(lab, nullptr);
  for (const IpFamily family : kFamilies) {
    // A new bridge takes the kernel a moment.
    ExpectKernelEcho(*lab, family, 100, {.retry = milliseconds(200)});
    ASSERT_TRUE(KernelHasMac(family, kStackMac)) << KernelNeighbor(StackAddress(family), kBridge);
  }
  ExpectClean(*lab);
  lab.reset();

  lab = Open(OnBridge(kOtherMac));
  ASSERT_NE(lab, nullptr);
  for (const IpFamily family : kFamilies) {
    SCOPED_TRACE(StackAddress(family).ToString());
    EXPECT_TRUE(lab->RunUntil([&] { return KernelHasMac(family, kOtherMac); }, seconds(2)));
    // Nothing is lost: the entry is not found out to be wrong by failing probes.
    ExpectKernelEcho(*lab, family, 100, {.deadline = milliseconds(500)});
  }
  ExpectClean(*lab);
}

// A persistent TAP that loses its process and gets another one.
TEST_F(InteropNeighborTest, RestartOnTheSameTapRecovers) {
  constexpr MacAddress kOtherMac{0x02, 0, 0, 0x09, 0, 0x78};
  const testutil::CommandResult made =
      Run({"ip", "tuntap", "add", "dev", kTapName, "mode", "tap", "vnet_hdr"});
  ASSERT_TRUE(made.ok()) << made.output;
  for (const MacAddress& mac : {kStackMac, kOtherMac}) {
    LabOptions options;
    options.mac = mac;
    options.kernel_lines = {
        absl::StrCat("addr replace ", kKernel4.ToString(), "/24 dev ", kTapName),
        absl::StrCat("addr replace ", kKernel6.ToString(), "/64 dev ", kTapName, " nodad"),
        absl::StrCat("link set ", kTapName, " up")};
    auto lab = Open(options);
    ASSERT_NE(lab, nullptr);
    for (const IpFamily family : kFamilies) {
      SCOPED_TRACE(absl::StrCat(mac.ToString(), " ", StackAddress(family).ToString()));
      // The kernel takes note of the carrier in its own time.
      ExpectKernelEcho(*lab, family, 100, {.deadline = seconds(3), .retry = milliseconds(100)});
    }
    ExpectClean(*lab);
  }
}

// Frames of our capture that went to this MAC address.
size_t CountFramesTo(const std::string& path, const MacAddress& destination) {
  auto reader = capture::PcapReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  size_t count = 0;
  for (;;) {
    const auto frame = reader->Next();
    EXPECT_TRUE(frame.ok()) << frame.status();
    if (!frame.ok() || !frame->has_value()) return count;
    count += testutil::Dissect((*frame)->bytes).link_destination == destination ? 1 : 0;
  }
}

// RFC 4541 §3: such a bridge passes solicitations on only to ports whose host has reported the
// group.
TEST_F(InteropNeighborTest, SnoopingBridgeLetsNeighborDiscoveryThrough) {
  const OtherNetns far;
  const absl::Status built = BuildBridge(far);
  ASSERT_TRUE(built.ok()) << built;
  // The querier last: the bridge trusts it after one response interval of that moment.
  for (const char* options : {"mcast_snooping 1 mcast_query_response_interval 20",
                              "mcast_query_interval 100", "mcast_querier 1"}) {
    Ip(absl::StrCat("link set ", kBridge, " type bridge ", options));
  }
  auto lab = Open(OnBridge());
  ASSERT_NE(lab, nullptr);
  const std::string group = kStack6.SolicitedNode().ToString();
  const auto has_group = [&] {
    lab->RunFor(milliseconds(100));
    const testutil::CommandResult table = lab->Run({"bridge", "mdb", "show", "dev", kBridge});
    return absl::StrContains(table.output, absl::StrCat("port ", kTapName, " grp ", group));
  };
  EXPECT_TRUE(lab->RunUntil(has_group)) << lab->Run({"bridge", "-d", "mdb", "show"}).output;

  // Once the bridge trusts its own querier, a group that nobody asked for does not reach us…
  const Ipv6Address unwanted = Ipv6Address::FromGroups({0xff02, 0, 0, 0, 0, 0, 0x1234, 0x5678});
  const auto is_kept_from_us = [&] {
    const size_t before = CountFramesTo(lab->FlushCapture(), MulticastMac(unwanted));
    const testutil::CommandResult sent = lab->Run(
        {"ping", "-6", "-n", "-c1", "-W1", "-I", "far", unwanted.ToString()}, far.Options());
    EXPECT_EQ(sent.exit_code, 1) << sent.output;
    return CountFramesTo(lab->FlushCapture(), MulticastMac(unwanted)) == before;
  };
  EXPECT_TRUE(lab->RunUntil(is_kept_from_us));
  // … and solicitations for our address do.
  const testutil::CommandResult ping =
      lab->Run({"ping", "-6", "-n", "-c2", "-i0.01", "-w5", kStack6.ToString()}, far.Options());
  EXPECT_EQ(ping.exit_code, 0) << ping.output;
  const IpAddress far6 = Ipv6Address::FromGroups({0xfd00, 9, 0, 0, 0, 0, 0, 3});
  EXPECT_TRUE(PingOnce(*lab, {.destination = far6, .sequence = 1}).reply.has_value());
  ExpectClean(*lab);
}

// ---- Conflicts ----

// RFC 4862 §5.4, RFC 5227 §2.1: whoever comes second finds out, on either side.
TEST_F(InteropNeighborTest, TakenAddressesAreFoundOut) {
  StackConfig config;
  config.arp_probe = true;
  auto lab = Open({.config = config, .echo = false});
  ASSERT_NE(lab, nullptr);
  const auto state_of = [&](const IpAddress& address) {
    return lab->interface().FindAddress(address)->state;
  };
  for (const IpFamily family : kFamilies) {
    const int length = family == IpFamily::kV4 ? 24 : 64;
    ASSERT_TRUE(lab->interface().AddAddress({KernelAddress(family), length}).ok());
  }
  EXPECT_EQ(state_of(kStack6), AddressState::kTentative);
  EXPECT_TRUE(lab->RunUntil([&] {
    return state_of(kKernel4) == AddressState::kDuplicated &&
           state_of(kKernel6) == AddressState::kDuplicated &&
           state_of(kStack6) == AddressState::kPreferred;
  }));
  // Now the kernel wants one of ours.
  Sysctl(absl::StrCat("ipv6/conf/", kTapName, "/accept_dad"), "1");
  Ip(absl::StrCat("addr add ", kStack6.ToString(), "/128 dev ", kTapName));
  EXPECT_TRUE(lab->RunUntil([&] {
    lab->RunFor(milliseconds(50));
    return absl::StrContains(lab->Run({"ip", "-6", "addr", "show", "dev", kTapName}).output,
                             "dadfailed");
  }));
  EXPECT_EQ(state_of(kStack6), AddressState::kPreferred);
  ExpectClean(*lab);
}

}  // namespace
}  // namespace tapwire::interop
