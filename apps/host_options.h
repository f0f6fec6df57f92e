// SPDX-License-Identifier: Apache-2.0
// The flags every command shares: which device, which addresses, where to capture. Parsing only;
// apps/host.h builds from the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/tap/tap_device.h"
#include "netdev/base/time.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::apps {

// As given on the command line.
struct HostFlags {
  std::string net = "tap";
  std::vector<std::string> addresses = {};
  std::vector<std::string> gateways = {};
  std::string pcap = {};
  bool pcap_raw = false;
  bool userns = false;
  bool stats = false;
  std::string dad = "auto";
  uint32_t busy_poll_us = 0;
};
void AddHostFlags(CLI::App& command, HostFlags& flags);

// The IP addresses the peer of `--net veth` has, and the defaults for `--addr` there; IPv6 only on
// a link that can carry it.
inline constexpr char kVethPeer4[] = "10.9.0.1/24";
inline constexpr char kVethPeer6[] = "fd00:9::1/64";
inline constexpr char kVethAddr4[] = "10.9.0.2/24";
inline constexpr char kVethAddr6[] = "fd00:9::2/64";

enum class DeviceKind { kTap, kVeth };
// `auto` is what Linux does: IPv6 addresses are checked, IPv4 ones are not.
enum class DadMode { kAuto, kOn, kOff };

struct HostOptions {
  DeviceKind kind = DeviceKind::kTap;
  drivers::TapOptions tap;  // name, mac and mtu are used for veth too
  bool offloads = true;     // veth: csum=off or tso=off turn them all off
  std::vector<IpPrefix> addresses;
  std::vector<IpAddress> gateways;
  std::string pcap;
  bool pcap_raw = false;
  bool stats = false;
  DadMode dad = DadMode::kAuto;
  Duration busy_poll{};  // see UvRunner::SetBusyPoll
};
// kInvalidArgument with a message that names the flag and what it should have been. Also refuses
// what is well-formed and can never work, as a gateway that is a subnet's own address.
absl::StatusOr<HostOptions> ParseHostFlags(const HostFlags& flags);

// "tap,name=tw0,mtu=1500,csum=off" into `options`. Each key once, but for kernel=.
absl::Status ParseNetSpec(absl::string_view spec, HostOptions& options);

}  // namespace tapwire::apps
