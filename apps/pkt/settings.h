// SPDX-License-Identifier: Apache-2.0
// Settings: what a script asks for before and beside its events, by options (--mtu=1000) and by
// shell commands, which are never run: those that set what the stack has are mapped, those that do
// not matter to it are ignored, the rest is unsupported.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "apps/pkt/ast.h"
#include "apps/pkt/world.h"
#include "stack/tcp/config.h"

namespace tapwire::pkt {

// What scripts are played against.
enum class Against : uint8_t { kStack, kKernel };

enum class Profile : uint8_t { kLinux, kRfc };
std::optional<Profile> ParseProfile(absl::string_view text);
// The profile's configuration as scripts expect it.
tcp::Config ProfileConfig(Profile profile);

struct RunOptions {
  NetSetup net = {};
  Profile profile = Profile::kLinux;
  Against against = Against::kStack;
  Duration tolerance = std::chrono::milliseconds(4);
  double tolerance_percent = 12.5;              // of a relative time; the larger tolerance holds
  bool strict_segments = false;                 // segments are not added up to match a longer one
  std::optional<Duration> timestamp_tick = {};  // check TSval as a clock of that tick
  bool fatal_packets = true, fatal_calls = true;
  bool verbose = false;
  Defines defines = {};
};

// Problem of an option: bad value, or an option that is unsupported. None: applied or harmless.
std::optional<Diagnostic> ApplyOption(const ScriptOption& option, RunOptions& options);

// One setting that a command makes: "net.ipv4.tcp_sack" or "/proc/sys/net/ipv4/tcp_sack".
struct Setting {
  std::string path, value;
};
// The path of those that the public collections set before each script.
inline constexpr char kDefaultSettings[] = "defaults";

// The settings of a command in their order. Why it is not understood; none: it is.
std::optional<std::string> ReadCommand(absl::string_view command, std::vector<Setting>& settings);

// Why a command is unsupported; none: its settings are in `config`.
std::optional<std::string> ApplyCommand(absl::string_view command, tcp::Config& config);

}  // namespace tapwire::pkt
