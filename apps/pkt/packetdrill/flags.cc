// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/packetdrill/flags.h"

#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/pkt/settings.h"

namespace tapwire::packetdrill {
namespace {

constexpr uint32_t kLeastMtu = 68, kMostMtu = 65535;  // RFC 791 §3.2: every link carries 68 bytes
constexpr size_t kMostLines = 10'000;                 // of a settings file

// The address of either family takes its place.
template <typename V4, typename V6>
bool SetAddress(absl::string_view text, V4& v4, V6& v6) {
  const auto address = IpAddress::Parse(text);
  if (!address || address->IsUnspecified() || address->IsMulticast()) return false;
  if (address->is_v4()) {
    v4 = address->v4();
  } else {
    v6 = address->v6();
  }
  return true;
}

// Why the setting cannot be had; none: it is in `config`.
std::optional<std::string> ApplySetting(absl::string_view key, absl::string_view value,
                                        tcp::Config& config) {
  // Both become words of a command line.
  constexpr absl::string_view kNotPlain = "'\"\\;&|<>#`$\n";
  if (key.find_first_of(kNotPlain) != absl::string_view::npos ||
      value.find_first_of(kNotPlain) != absl::string_view::npos) {
    return "characters that no setting has";
  }
  return pkt::ApplyCommand(absl::StrCat("sysctl -w '", key, "=", value, "'"), config);
}

bool SetMtu(absl::string_view value, Flags& flags) {
  return absl::SimpleAtoi(value, &flags.mtu) && flags.mtu >= kLeastMtu && flags.mtu <= kMostMtu;
}

absl::Status ApplyFlag(absl::string_view key, absl::string_view value, Flags& flags) {
  const auto refuse = [&](absl::string_view wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("so_flags: bad value '", value, "' of ", key, ": wanted ", wanted));
  };
  if (key == "profile") return absl::OkStatus();  // read before all others
  if (key == "mtu") return SetMtu(value, flags) ? absl::OkStatus() : refuse("68 to 65535");
  if (key == "local") {
    if (SetAddress(value, flags.local4, flags.local6)) return absl::OkStatus();
    return refuse("the address of one host");
  }
  if (key == "gateway") {
    if (SetAddress(value, flags.gateway4, flags.gateway6)) return absl::OkStatus();
    return refuse("the address of one host");
  }
  if (key == "remote") {
    // Everybody can be reached: nothing to set, but a slip shall not go unseen.
    Flags ignored;
    if (SetAddress(value, ignored.gateway4, ignored.gateway6)) return absl::OkStatus();
    return refuse("the address of one host");
  }
  if (const auto reason = ApplySetting(key, value, flags.tcp)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "so_flags: '", key, "=", value, "' (", *reason,
        "); there are profile, local, gateway, remote, mtu, and settings of sysctl net.ipv4"));
  }
  return absl::OkStatus();
}

using Pair = std::pair<absl::string_view, absl::string_view>;

std::optional<Pair> SplitPair(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) return std::nullopt;
  const Pair pair{absl::StripAsciiWhitespace(text.substr(0, equals)),
                  absl::StripAsciiWhitespace(text.substr(equals + 1))};
  if (pair.first.empty() || pair.second.empty()) return std::nullopt;
  return pair;
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(absl::string_view text) {
  std::vector<Pair> pairs;
  auto profile = std::optional(pkt::Profile::kLinux);
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::optional<Pair> pair = SplitPair(part);
    if (!pair) {
      return absl::InvalidArgumentError(
          absl::StrCat("so_flags: '", part, "' is not of the form key=value"));
    }
    if (pair->first == "profile") profile = pkt::ParseProfile(pair->second);
    if (!profile) {
      return absl::InvalidArgumentError(
          absl::StrCat("so_flags: unknown profile '", pair->second, "': wanted linux or rfc"));
    }
    pairs.push_back(*pair);
  }
  Flags flags;
  flags.tcp = pkt::ProfileConfig(*profile);
  for (const auto& [key, value] : pairs) {
    if (absl::Status applied = ApplyFlag(key, value, flags); !applied.ok()) return applied;
  }
  return flags;
}

void SettingsFile::ApplyLine(absl::string_view line, tcp::Config& config) {
  std::optional<std::string> reason = "not of the form key=value";
  if (const std::optional<Pair> pair = SplitPair(line)) {
    reason = ApplySetting(pair->first, pair->second, config);
  }
  if (!reason || !reported_.insert(std::string(line)).second) return;
  std::fprintf(stderr, "tapwire-packetdrill: %s: '%s' has no effect: %s\n", path_.c_str(),
               std::string(line).c_str(), reason->c_str());
}

void SettingsFile::Apply(tcp::Config& config) {
  if (path_.empty()) return;
  std::ifstream file(path_);  // one that is not there yet says nothing
  std::string line;
  for (size_t i = 0; i < kMostLines && std::getline(file, line); ++i) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (!text.empty() && text[0] != '#') ApplyLine(text, config);
  }
}

}  // namespace tapwire::packetdrill
