// SPDX-License-Identifier: Apache-2.0
// `tapwire pkt`: runs packet scripts against the stack in virtual time.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "apps/command.h"
#include "apps/pkt/runner.h"

namespace tapwire::apps {
namespace {

constexpr int kPassed = 0, kFailed = 1, kBadUsage = 2, kUnsupported = 3;
constexpr size_t kMaxScriptBytes = 8u << 20;

struct PktFlags {
  std::vector<std::string> files;
  std::string ip_version = "ipv4";
  uint32_t mtu = 0;  // 0: the script's, or 1500
  std::string profile = "linux";
  double tolerance_percent = -1;  // below 0: the default
  std::vector<std::string> defines;
  bool verbose = false;
};

struct Totals {
  int passed = 0, failed = 0, unsupported = 0, unreadable = 0;
  std::map<std::string, int> reasons;  // of unsupported scripts

  int ExitCode() const {
    if (unreadable > 0) return kBadUsage;
    if (failed > 0) return kFailed;
    return unsupported > 0 ? kUnsupported : kPassed;
  }
};

std::optional<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  if (file.bad() || text.size() > kMaxScriptBytes) return std::nullopt;
  return text;
}

// "file:line:column: message"; without a position "file: message".
std::string Located(const std::string& path, const pkt::RunResult& result) {
  std::string text = path;
  if (result.pos.line > 0) {
    text += ":" + std::to_string(result.pos.line) + ":" + std::to_string(result.pos.column);
  }
  return text + ": ";
}

void RunFile(const std::string& path, const PktFlags& flags, const pkt::RunOptions& options,
             const std::vector<std::string>& fixed, Totals& totals) {
  const std::optional<std::string> source = ReadFile(path);
  if (!source) {
    std::fprintf(stderr, "tapwire pkt: cannot read %s\n", path.c_str());
    ++totals.unreadable;
    return;
  }
  const pkt::RunResult result = pkt::RunScript(*source, options, fixed);
  switch (result.verdict) {
    case pkt::Verdict::kPass:
      ++totals.passed;
      if (flags.verbose) std::printf("%s: passed\n", path.c_str());
      break;
    case pkt::Verdict::kFail:
      ++totals.failed;
      std::printf("%s%s\n", Located(path, result).c_str(), result.message.c_str());
      break;
    case pkt::Verdict::kUnsupported:
      ++totals.unsupported;
      ++totals.reasons[result.message];
      std::printf("%sunsupported: %s\n", Located(path, result).c_str(), result.message.c_str());
      break;
  }
}

void PrintTotals(const Totals& totals) {
  std::printf("%d passed, %d failed, %d unsupported\n", totals.passed, totals.failed,
              totals.unsupported);
  for (const auto& [reason, count] : totals.reasons) {
    std::printf("  unsupported %d: %s\n", count, reason.c_str());
  }
}

int BadUsage(const std::string& message) {
  std::fprintf(stderr, "tapwire pkt: %s\n", message.c_str());
  return kBadUsage;
}

int RunPkt(const PktFlags& flags, const std::vector<std::string>& fixed) {
  pkt::RunOptions options;
  const auto version = pkt::ParseIpVersion(flags.ip_version);
  const auto profile = pkt::ParseProfile(flags.profile);
  if (!version || !profile) return BadUsage("bad --ip-version or --profile");
  options.net.version = *version;
  options.profile = *profile;
  options.verbose = flags.verbose;
  if (flags.mtu != 0) options.net.mtu = flags.mtu;
  if (flags.tolerance_percent >= 0) options.tolerance_percent = flags.tolerance_percent;
  for (const std::string& define : flags.defines) {
    const size_t equals = define.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return BadUsage("-D " + define + ": wanted name=value");
    }
    options.defines[define.substr(0, equals)] = define.substr(equals + 1);
  }
  Totals totals;
  for (const std::string& file : flags.files) RunFile(file, flags, options, fixed, totals);
  PrintTotals(totals);
  return totals.ExitCode();
}

}  // namespace

void RegisterPkt(CLI::App& root, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "pkt", "run packet scripts against the stack; 0 passed, 1 failed, 3 unsupported");
  auto flags = std::make_shared<PktFlags>();
  command->add_option("FILE", flags->files, "scripts")->required();
  CLI::Option* version =
      command->add_option("--ip-version", flags->ip_version, "family of sockets and packets")
          ->check(CLI::IsMember({"ipv4", "ipv6", "ipv4-mapped-ipv6"}))
          ->capture_default_str();
  CLI::Option* mtu = command->add_option("--mtu", flags->mtu, "of the link, in bytes")
                         ->check(CLI::Range(68, 65535));
  CLI::Option* profile = command->add_option("--profile", flags->profile, "defaults of the stack")
                             ->check(CLI::IsMember({"linux", "rfc"}))
                             ->capture_default_str();
  CLI::Option* percent =
      command
          ->add_option("--tolerance-percent", flags->tolerance_percent,
                       "of an interval that packets and calls may be early or late; 4 ms always")
          ->check(CLI::Range(0, 100));
  command->add_option("-D", flags->defines, "name=value: replaces the word in the script")
      ->allow_extra_args(false);
  command->add_flag("-v,--verbose", flags->verbose, "print each event and each script that passes");
  command->callback([=, &exit_code] {
    // What is given here wins over the script's own options.
    std::vector<std::string> fixed;
    if (version->count() > 0) fixed.push_back("ip_version");
    if (mtu->count() > 0) fixed.push_back("mtu");
    if (profile->count() > 0) fixed.push_back("profile");
    if (percent->count() > 0) fixed.push_back("tolerance_percent");
    exit_code = RunPkt(*flags, fixed);
  });
}

}  // namespace tapwire::apps
