// SPDX-License-Identifier: Apache-2.0
// The flags every command shares: which devices, which addresses, where to capture. Parsing only;
// apps/host.h builds from the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "apps/topology.h"
#include "netdev/base/time.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::apps {

// As given on the command line.
struct HostFlags {
  std::vector<std::string> net = {};  // none: "tap"
  std::string on = {};
  std::vector<std::string> stacks = {};
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

// `auto` is what Linux does: IPv6 addresses are checked, IPv4 ones are not.
enum class DadMode { kAuto, kOn, kOff };

struct HostOptions {
  TopologyOptions topology;
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

}  // namespace tapwire::apps
