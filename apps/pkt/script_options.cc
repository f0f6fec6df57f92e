// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/pkt/settings.h"

namespace tapwire::pkt {
namespace {

template <typename T>
bool SetNumber(absl::string_view text, uint64_t low, uint64_t high, T& out) {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) return false;
  out = static_cast<T>(value);
  return true;
}

bool SetMicroseconds(absl::string_view text, Duration& out) {
  int64_t micros = 0;
  constexpr uint64_t kHour = 3'600'000'000;
  if (!SetNumber(text, 0, kHour, micros)) return false;
  out = std::chrono::microseconds(micros);
  return true;
}

// The address of either family takes its place.
bool SetAddress(absl::string_view text, Ipv4Address& v4, Ipv6Address& v6) {
  const auto address = IpAddress::Parse(text);
  if (!address) return false;
  if (address->is_v4()) {
    v4 = address->v4();
  } else {
    v6 = address->v6();
  }
  return true;
}

bool SetVersion(absl::string_view text, RunOptions& o) {
  const auto version = ParseIpVersion(text);
  if (version) o.net.version = *version;
  return version.has_value();
}

bool SetProfile(absl::string_view text, RunOptions& o) {
  const auto profile = ParseProfile(text);
  if (profile) o.profile = *profile;
  return profile.has_value();
}

bool SetNonFatal(absl::string_view text, RunOptions& o) {
  if (absl::StrContains(text, "packet")) o.fatal_packets = false;
  if (absl::StrContains(text, "syscall")) o.fatal_calls = false;
  return !o.fatal_packets || !o.fatal_calls;
}

bool SetTick(absl::string_view text, RunOptions& o) {
  Duration tick{};
  if (!SetMicroseconds(text, tick)) return false;
  if (tick > Duration{0}) o.timestamp_tick = tick;
  return true;
}

bool SetPercent(absl::string_view text, RunOptions& o) {
  double percent = 0;
  if (!absl::SimpleAtod(text, &percent) || !(percent >= 0 && percent <= 100)) return false;
  o.tolerance_percent = percent;
  return true;
}

struct Handler {
  const char* name;
  bool (*apply)(absl::string_view value, RunOptions& options);
};

constexpr Handler kHandlers[] = {
    {"ip_version", SetVersion},
    {"profile", SetProfile},
    {"non_fatal", SetNonFatal},
    {"tcp_ts_tick_usecs", SetTick},
    {"tolerance_percent", SetPercent},
    {"tolerance_usecs",
     [](absl::string_view v, RunOptions& o) { return SetMicroseconds(v, o.tolerance); }},
    {"mtu", [](absl::string_view v, RunOptions& o) { return SetNumber(v, 68, 65535, o.net.mtu); }},
    {"bind_port",
     [](absl::string_view v, RunOptions& o) { return SetNumber(v, 1, 65535, o.net.bind_port); }},
    {"connect_port",
     [](absl::string_view v, RunOptions& o) { return SetNumber(v, 1, 65535, o.net.connect_port); }},
    {"local_ip",
     [](absl::string_view v, RunOptions& o) { return SetAddress(v, o.net.local4, o.net.local6); }},
    {"remote_ip", [](absl::string_view v,
                     RunOptions& o) { return SetAddress(v, o.net.remote4, o.net.remote6); }},
    {"gateway_ip", [](absl::string_view v,
                      RunOptions& o) { return SetAddress(v, o.net.gateway4, o.net.gateway6); }},
    {"strict_segments",
     [](absl::string_view, RunOptions& o) {
       o.strict_segments = true;
       return true;
     }},
};

// They concern the tool, its device or its threads. `define` was applied by the lexer.
constexpr std::array<const char*, 9> kIgnored = {"verbose", "debug",          "speed",
                                                 "mss",     "send_omit_free", "netmask_ip",
                                                 "define",  "use_expect",     "dry_run"};

}  // namespace

std::optional<Diagnostic> ApplyOption(const ScriptOption& option, RunOptions& options) {
  for (const Handler& handler : kHandlers) {
    if (option.name != handler.name) continue;
    if (handler.apply(option.value, options)) return std::nullopt;
    return Diagnostic{option.pos,
                      absl::StrCat("bad value '", option.value, "' of --", option.name)};
  }
  for (const char* ignored : kIgnored) {
    if (option.name == ignored) return std::nullopt;
  }
  return Diagnostic{option.pos, absl::StrCat("option --", option.name), /*unsupported=*/true};
}

}  // namespace tapwire::pkt
