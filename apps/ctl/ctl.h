// SPDX-License-Identifier: Apache-2.0
// What `tapwire ctl` asks of a running process: ip's and ethtool's commands on its devices and
// stacks, answered as the real tools answer. No I/O here.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "netdev/net_context.h"
#include "stack/stack.h"

namespace tapwire::apps::ctl {

// What the asking program prints and exits with.
struct Reply {
  int exit_code = 0;
  std::string out = {};
  std::string err = {};
};

// What there is to show and to change. All on the context's thread.
struct World {
  struct NamedStack {
    std::string name;
    Stack* stack;
  };
  netdev::NetContext& context;
  std::vector<NamedStack> stacks;
  // Devices by ifindex that `ip link set` made promiscuous (allmulti): a second "on" changes
  // nothing, and only these show PROMISC (ALLMULTI), as with Linux.
  std::set<uint32_t> promiscuous = {}, allmulti = {};
};

// `argv` without the program's own name: {"ip", "link"} or {"ethtool", "-k", "mv0"}. Never fails
// otherwise than the real tool would.
Reply Execute(World& world, const std::vector<std::string>& argv);

}  // namespace tapwire::apps::ctl
