// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/settings.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tapwire::pkt {
namespace {

TEST(SettingsTest, CommandsSetWhatTheStackHas) {
  tcp::Config config;
  const auto reason = ApplyCommand(
      "sysctl -q net.ipv4.tcp_rmem=\"4096 8000 16000\"\n"
      "sysctl -w net.ipv4.tcp_wmem='4096 9000 17000' > /dev/null 2>&1; "
      "echo 0 > /proc/sys/net/ipv4/tcp_sack && sysctl net.ipv4.tcp_timestamps=0\n"
      "sysctl -q net.ipv4.tcp_fin_timeout = 7\n"
      "./set_sysctls.py /proc/sys/net/ipv4/tcp_slow_start_after_idle=0 "
      "/proc/sys/net/ipv4/tcp_congestion_control=reno",
      config);
  EXPECT_FALSE(reason) << *reason;
  EXPECT_EQ(config.receive_buffer_initial, 4000u);  // half is overhead
  EXPECT_EQ(config.receive_buffer_max, 16000u);
  EXPECT_EQ(config.send_buffer_initial, 9000u);
  EXPECT_EQ(config.send_buffer_max, 17000u);
  EXPECT_FALSE(config.sack);
  EXPECT_FALSE(config.timestamps);
  EXPECT_EQ(config.fin_wait_2, std::chrono::seconds(7));
  EXPECT_FALSE(config.slow_start_after_idle);
  EXPECT_EQ(config.congestion_control, "reno");
}

TEST(SettingsTest, HarmlessCommandsDoNothing) {
  for (const char* command :
       {"true", "sysctl -q net.ipv4.tcp_min_tso_segs=4", "sysctl -q net.ipv4.tcp_recovery=0",
        "sysctl -q net.ipv4.tcp_early_retrans=0", "ethtool -K tun0 tso off gso off",
        "ip tcp_metrics flush all", "tc qdisc add dev tun0 root pfifo", "../common/defaults.sh",
        "echo hello", "", "# nothing"}) {
    tcp::Config config;
    const auto reason = ApplyCommand(command, config);
    EXPECT_FALSE(reason) << command << ": " << *reason;
  }
}

TEST(SettingsTest, TheRestIsUnsupported) {
  for (const char* command :
       {"sysctl -q net.ipv4.tcp_recovery=1", "sysctl -q net.ipv4.tcp_frto=2",
        "sysctl net.ipv4.tcp_ecn=1", "sysctl net.ipv4.tcp_fastopen=1027", "nstat",
        "sysctl net.ipv4.tcp_unheard_of=1", "sysctl net.ipv4.tcp_rmem=5",
        "sysctl net.ipv4.tcp_retries2=99999999999", "sysctl net.ipv4.tcp_syn_retries=-1",
        "sysctl net.ipv4.tcp_congestion_control=bbr", "tc qdisc add dev tun0 root fq",
        "ip route change 192.0.2.1 dev tun0 mtu 1400", "true; rm -rf x",
        "sysctl net.ipv4.tcp_sack"}) {
    tcp::Config config;
    EXPECT_TRUE(ApplyCommand(command, config)) << command;
  }
}

TEST(SettingsTest, Options) {
  RunOptions options;
  const auto apply = [&](const char* name, const char* value) {
    return ApplyOption({.name = name, .value = value, .pos = {1, 1}}, options);
  };
  EXPECT_FALSE(apply("mtu", "1000"));
  EXPECT_FALSE(apply("ip_version", "ipv4-mapped-ipv6"));
  EXPECT_FALSE(apply("tolerance_usecs", "50"));
  EXPECT_FALSE(apply("tolerance_percent", "1.5"));
  EXPECT_FALSE(apply("local_ip", "10.1.2.3"));
  EXPECT_FALSE(apply("remote_ip", "2001:db8::7"));
  EXPECT_FALSE(apply("strict_segments", ""));
  EXPECT_FALSE(apply("non_fatal", "syscall"));
  EXPECT_FALSE(apply("profile", "rfc"));
  EXPECT_EQ(options.net.mtu, 1000u);
  EXPECT_EQ(options.net.version, IpVersion::kIpv4Mapped);
  EXPECT_EQ(options.tolerance, std::chrono::microseconds(50));
  EXPECT_EQ(options.net.local4, Ipv4Address(10, 1, 2, 3));
  EXPECT_EQ(options.net.remote6.ToString(), "2001:db8::7");
  EXPECT_TRUE(options.strict_segments);
  EXPECT_FALSE(options.fatal_calls);
  EXPECT_EQ(options.profile, Profile::kRfc);
  for (const auto& [name, value] : {std::pair("mtu", "1"),
                                    {"mtu", "x"},
                                    {"ip_version", "ipv5"},
                                    {"tolerance_percent", "nan"},
                                    {"local_ip", "1.2.3"}}) {
    const auto problem = apply(name, value);
    ASSERT_TRUE(problem) << name;
    EXPECT_FALSE(problem->unsupported);
  }
  const auto unknown = apply("wire_client", "");
  ASSERT_TRUE(unknown);
  EXPECT_TRUE(unknown->unsupported);
}

// RFC 7323 §2.2: a window of 15 MB needs a shift of 8, which public scripts expect.
TEST(SettingsTest, LinuxProfileHasWindowScale8) {
  const size_t max = ProfileConfig(Profile::kLinux).receive_buffer_max;
  EXPECT_GT(max, size_t{65535} << 7);
  EXPECT_LE(max, size_t{65535} << 8);
  EXPECT_EQ(ProfileConfig(Profile::kRfc).min_rto, std::chrono::seconds(1));
}

}  // namespace
}  // namespace tapwire::pkt
