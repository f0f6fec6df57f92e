// SPDX-License-Identifier: Apache-2.0
// `tapwire lab macvlan-features|macvlan-rx`: two published experiments, made again.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/command.h"
#include "apps/lab/lab.h"
#include "apps/lab/process.h"
#include "apps/lab/result.h"
#include "apps/report.h"

namespace tapwire::apps {
namespace {

constexpr double kMinSeconds = 0.01, kMaxSeconds = 3600;
constexpr size_t kMaxFlows = 1000;  // as many as the backlog of a listener holds

struct LabFlags {
  lab::LabOptions options;
  bool full = false, json = false, no_kernel = false;
};

// Which lab, and how to say what it found.
template <typename Result>
struct Lab {
  const char* name;
  double full_seconds;  // the mail's, or its tool's
  absl::StatusOr<Result> (*run)(lab::LabOptions&);
  std::string (*text)(const Result&);
  std::string (*json)(const Result&);
};

void ShowProgress(absl::string_view name, absl::string_view what) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "tapwire lab %s: measuring: %s\n", std::string(name).c_str(),
               std::string(what).c_str());
}

// What the object has no place for goes to stderr.
template <typename Result>
void SayBesides(const char* name, const Result& result, bool kernel_wanted) {
  const std::string quietness = lab::Quietness(result.conditions);
  if (!quietness.empty()) std::fprintf(stderr, "tapwire lab %s: %s", name, quietness.c_str());
  if (kernel_wanted && result.kernel.points.empty()) {
    std::fprintf(stderr, "tapwire lab %s: the kernel's figures: %s\n", name,
                 result.kernel.problem.c_str());
  }
}

template <typename Result>
int RunLab(const Lab<Result>& lab, LabFlags& flags) {
  const lab::Interruption interruption;
  lab::LabOptions& options = flags.options;
  if (flags.full) options.seconds = lab.full_seconds;
  options.kernel = !flags.no_kernel;
  options.others = !flags.json;  // the object has no place for them
  options.progress = [&](absl::string_view what) { ShowProgress(lab.name, what); };
  const absl::StatusOr<Result> result = lab.run(options);
  if (!result.ok()) {
    if (!flags.json) return ReportError(absl::StrCat("lab ", lab.name), result.status(), 1);
    std::fputs(lab::ErrorJson(lab.name, result.status().message()).c_str(), stdout);
    return 1;
  }
  if (flags.json) SayBesides(lab.name, *result, options.kernel);
  std::fputs((flags.json ? lab.json(*result) : lab.text(*result)).c_str(), stdout);
  return 0;
}

std::string CheckSeconds(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool good = !text.empty() && *end == '\0' && value >= kMinSeconds && value <= kMaxSeconds;
  return good ? "" : "'" + text + "' is not a number from 0.01 to 3600";  // NaN is not
}

void AddFlags(CLI::App& command, LabFlags& flags, double full_seconds) {
  auto* seconds = command.add_option("--seconds", flags.options.seconds, "length of a run")
                      ->check(CheckSeconds)
                      ->capture_default_str();
  command.add_option("--pairs", flags.options.pairs, "runs of each variant")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_flag("--full", flags.full,
                absl::StrCat("runs as long as the mail's: ", full_seconds, " s"))
      ->excludes(seconds);
  command.add_flag("--json", flags.json, "one JSON object, and nothing else on stdout");
  command.add_flag("--no-kernel", flags.no_kernel, "without the kernel's figures");
}

void AddFeatures(CLI::App& labs, int& exit_code) {
  static constexpr Lab<lab::FeaturesResult> kLab = {"macvlan-features", 20, &lab::RunFeaturesLab,
                                                    &lab::FeaturesText, &lab::FeaturesJson};
  CLI::App* command = labs.add_subcommand(
      kLab.name, "bulk TCP between two macvlans, with and without offloads of their own");
  auto flags = std::make_shared<LabFlags>();
  AddFlags(*command, *flags, kLab.full_seconds);
  command->callback([flags, &exit_code] { exit_code = RunLab(kLab, *flags); });
}

void AddRx(CLI::App& labs, int& exit_code) {
  static constexpr Lab<lab::RxResult> kLab = {"macvlan-rx", 10, &lab::RunRxLab, &lab::RxText,
                                              &lab::RxJson};
  CLI::App* command = labs.add_subcommand(
      kLab.name, "requests to a macvlan, whose frames are received at once or queued again");
  auto flags = std::make_shared<LabFlags>();
  AddFlags(*command, *flags, kLab.full_seconds);
  command
      ->add_option("--flows", flags->options.flows,
                   "numbers N of parallel connections; default: 10,100,200,300,400,500")
      ->delimiter(',')
      ->check(CLI::Range(size_t{1}, kMaxFlows));
  command->callback([flags, &exit_code] { exit_code = RunLab(kLab, *flags); });
}

}  // namespace

void RegisterLab(CLI::App& root, int& exit_code) {
  CLI::App* labs = root.add_subcommand("lab", "make a published experiment again and compare");
  labs->require_subcommand(1);
  labs->option_defaults()->disable_flag_override();
  AddFeatures(*labs, exit_code);
  AddRx(*labs, exit_code);
}

}  // namespace tapwire::apps
