// SPDX-License-Identifier: Apache-2.0
// The plug-in's settings: --so_flags, and the file that stands for sysctl.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "netdev/wire/ip_address.h"
#include "stack/tcp/config.h"

namespace tapwire::packetdrill {

struct Flags {
  uint32_t mtu = 1500;
  // None: addresses are learned from bind() and from what arrives.
  std::optional<Ipv4Address> local4 = {};
  std::optional<Ipv6Address> local6 = {};
  // Addresses of the neighbour behind which everybody is. No host of a script has these.
  Ipv4Address gateway4{169, 254, 253, 254};
  Ipv6Address gateway6 = Ipv6Address::FromGroups({0xfe80, 0, 0, 0, 0, 0, 0, 0xfffe});
  tcp::Config tcp;
};

// Where a connection starts that is opened before any local address is known.
inline constexpr Ipv4Address kFallbackLocal4{192, 168, 0, 2};
inline constexpr Ipv6Address kFallbackLocal6 =
    Ipv6Address::FromGroups({0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 2});

// `text`: key=value,… ; kInvalidArgument says which part is wrong and what there is.
absl::StatusOr<Flags> ParseFlags(absl::string_view text);

// key=value lines (as sysctl takes them) of a file that others write while the script runs.
class SettingsFile {
 public:
  // Empty: there is none.
  explicit SettingsFile(std::string path) : path_(std::move(path)) {}

  // Reads the file again and applies its lines in their order. What the stack does not have is
  // told on stderr, once per line; the other lines hold.
  void Apply(tcp::Config& config);

 private:
  void ApplyLine(absl::string_view line, tcp::Config& config);

  std::string path_;
  std::set<std::string> reported_;
};

}  // namespace tapwire::packetdrill
