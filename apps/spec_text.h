// SPDX-License-Identifier: Apache-2.0
// Reading the values of flags like `--net kind,key=value,…`: every refusal names the flag as it was
// given, the value, and what it should have been.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::apps {

// Whether a host can have it: no group, no broadcast and not the address of the subnet itself.
bool IsHostAddress(const IpPrefix& prefix);

// One value of one flag.
class SpecText {
 public:
  SpecText(absl::string_view flag, absl::string_view text) : flag_(flag), text_(text) {}

  // kInvalidArgument: "--net tap,mtu=1: <problem>".
  absl::Status Bad(absl::string_view problem) const;

  // The parts between commas, "key=value" or a bare "key".
  struct Pair {
    absl::string_view key, value;
    bool has_value = false;
  };
  std::vector<Pair> Pairs() const;

  absl::StatusOr<bool> Switch(absl::string_view key, absl::string_view value) const;
  // Digits only: no sign, no space.
  absl::StatusOr<uint32_t> Number(absl::string_view value, uint32_t low, uint32_t high) const;
  absl::StatusOr<int32_t> SignedNumber(absl::string_view value) const;
  absl::StatusOr<MacAddress> Mac(absl::string_view value) const;
  // ADDRESS/LENGTH that a host can have; `key` is named in the refusal.
  absl::StatusOr<IpPrefix> HostPrefix(absl::string_view key, absl::string_view value) const;
  // A device name; one with '%' only where a kernel can choose a number for it.
  absl::StatusOr<std::string> Name(absl::string_view value) const;

  absl::string_view text() const { return text_; }

 private:
  absl::string_view flag_, text_;
};

}  // namespace tapwire::apps
