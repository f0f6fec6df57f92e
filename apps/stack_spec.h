// SPDX-License-Identifier: Apache-2.0
// One `--stack` flag: a further host in the same process, and the devices it lives on.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::apps {

extern const char kStackHelp[];

// Of the command's own stack, which no --stack may take.
inline constexpr char kOwnStackName[] = "main";

struct StackSpec {
  struct Device {
    std::string name;
    std::vector<IpPrefix> addresses = {};
    std::vector<IpAddress> gateways = {};
  };
  std::string text;  // as given
  std::string name;  // empty: that of its first device
  std::vector<Device> devices;
  bool forwarding = false;
};

// "dev=mv0,addr=10.0.0.1/24,gateway=10.0.0.9,dev=mv1,addr=…": addresses and gateways are those of
// the dev= before them. kInvalidArgument as for --net.
absl::StatusOr<StackSpec> ParseStackSpec(absl::string_view text);

}  // namespace tapwire::apps
