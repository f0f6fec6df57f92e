// SPDX-License-Identifier: Apache-2.0
// `tapwire pkt`: runs packet scripts against the stack in virtual time, or against the Linux kernel
// in real time to see whether they are right.

#include <algorithm>
#include <chrono>
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
#include "apps/pkt/kernel_run.h"
#include "apps/pkt/runner.h"

namespace tapwire::apps {
namespace {

constexpr int kPassed = 0, kFailed = 1, kBadUsage = 2, kUnsupported = 3, kSkipped = 77;
constexpr size_t kMaxScriptBytes = 8u << 20;

struct PktFlags {
  std::vector<std::string> files;
  std::string ip_version = "ipv4";
  uint32_t mtu = 0;  // 0: the script's, or 1500
  std::string profile = "linux";
  double tolerance_percent = -1;  // below 0: the default
  double tolerance_ms = -1;       // the same
  std::vector<std::string> defines;
  std::string against = "stack";
  double quick = 0;  // seconds; 0: no limit
  int jobs = 1;
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
  std::string text(kMaxScriptBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
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

void Tell(const std::string& path, const pkt::RunResult& result, bool verbose, Totals& totals) {
  switch (result.verdict) {
    case pkt::Verdict::kPass:
      ++totals.passed;
      if (verbose) std::printf("%s: passed\n", path.c_str());
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

// The scripts that can be read.
std::vector<pkt::KernelScript> ReadScripts(const PktFlags& flags, Totals& totals) {
  std::vector<pkt::KernelScript> scripts;
  for (const std::string& path : flags.files) {
    std::optional<std::string> source = ReadFile(path);
    if (source) {
      scripts.push_back({path, *std::move(source)});
    } else {
      std::fprintf(stderr, "tapwire pkt: cannot read %s\n", path.c_str());
      ++totals.unreadable;
    }
  }
  return scripts;
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

int RunStack(const PktFlags& flags, const pkt::RunOptions& options,
             const std::vector<std::string>& fixed) {
  Totals totals;
  for (const pkt::KernelScript& script : ReadScripts(flags, totals)) {
    Tell(script.name, pkt::RunScript(script.source, options, fixed), flags.verbose, totals);
  }
  PrintTotals(totals);
  return totals.ExitCode();
}

int RunKernel(const PktFlags& flags, const pkt::RunOptions& options,
              const std::vector<std::string>& fixed) {
  if (const auto why = pkt::WhyNoKernel()) {
    std::printf("skipped: scripts cannot be run against this kernel: %s\n", why->c_str());
    return kSkipped;
  }
  Totals totals;
  std::vector<pkt::KernelScript> scripts = ReadScripts(flags, totals);
  if (flags.quick > 0) {
    const auto slow = std::remove_if(scripts.begin(), scripts.end(), [&](const auto& script) {
      return !pkt::IsQuickForKernel(script.source, options.defines, flags.quick);
    });
    std::printf("%d left out\n", static_cast<int>(scripts.end() - slow));
    scripts.erase(slow, scripts.end());
  }
  const pkt::KernelRunOptions run{.run = options, .fixed = fixed, .jobs = flags.jobs};
  pkt::RunAgainstKernel(scripts, run, [&](const auto& script, const pkt::RunResult& result) {
    Tell(script.name, result, flags.verbose, totals);
  });
  PrintTotals(totals);
  return totals.ExitCode();
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
  if (flags.tolerance_ms >= 0) {
    options.tolerance = std::chrono::microseconds(static_cast<int64_t>(flags.tolerance_ms * 1000));
  }
  for (const std::string& define : flags.defines) {
    const size_t equals = define.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return BadUsage("-D " + define + ": wanted name=value");
    }
    options.defines[define.substr(0, equals)] = define.substr(equals + 1);
  }
  return flags.against == "kernel" ? RunKernel(flags, options, fixed)
                                   : RunStack(flags, options, fixed);
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
  CLI::Option* mtu = command
                         ->add_option("--mtu", flags->mtu,
                                      "of the link, in bytes; 1520 for scripts written for "
                                      "both families, with --ip-version ipv6")
                         ->check(CLI::Range(68, 65535));
  CLI::Option* profile = command->add_option("--profile", flags->profile, "defaults of the stack")
                             ->check(CLI::IsMember({"linux", "rfc"}))
                             ->capture_default_str();
  CLI::Option* percent =
      command
          ->add_option("--tolerance-percent", flags->tolerance_percent,
                       "of an interval that packets and calls may be early or late")
          ->check(CLI::Range(0, 100));
  CLI::Option* least =
      command
          ->add_option("--tolerance-ms", flags->tolerance_ms,
                       "that packets and calls may always be early or late (default 4)")
          ->check(CLI::Range(0, 1000));
  command
      ->add_option(
          "--against", flags->against,
          "what to test: the stack in virtual time, or Linux in real time, in a network "
          "namespace (needs root or user namespaces, and /dev/net/tun; without them it ends "
          "with 77)")
      ->check(CLI::IsMember({"stack", "kernel"}))
      ->capture_default_str();
  command->add_option("--jobs", flags->jobs, "scripts at a time, with --against kernel")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command
      ->add_option("--quick", flags->quick,
                   "with --against kernel: leave out scripts of more seconds than that, and those "
                   "that have a line '// kernel: no'")
      ->check(CLI::Range(0, 3600));
  command->add_option("-D", flags->defines, "name=value: replaces the word in the script")
      ->allow_extra_args(false);
  command->add_flag("-v,--verbose", flags->verbose, "print each event and each script that passes");
  command->callback([=, &exit_code] {
    // What is given here wins over the script's own options.
    std::vector<std::string> fixed;
    if (version->count() > 0) fixed.push_back("ip_version");
    if (mtu->count() > 0) fixed.push_back("mtu");
    if (profile->count() > 0) fixed.push_back("profile");
    if (least->count() > 0) fixed.push_back("tolerance_usecs");
    if (percent->count() > 0) fixed.push_back("tolerance_percent");
    exit_code = RunPkt(*flags, fixed);
  });
}

}  // namespace tapwire::apps
