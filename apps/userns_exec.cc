// SPDX-License-Identifier: Apache-2.0
// `tapwire userns-exec [--pid PID] -- CMD…`: runs a kernel-side command (ping, ip, iperf3 …) in the
// namespace that a running `--userns` process of the same user has made.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/command.h"
#include "apps/report.h"
#include "drivers/tap/userns_record.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps {
namespace {

struct ExecFlags {
  int pid = 0;  // 0: the only one
  std::vector<std::string> command;
};

// Whether a program of this name is somewhere in PATH; execvp() reports EACCES for a folder it may
// not search even if the name is nowhere.
bool IsInPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), F_OK) == 0;
  const char* path = std::getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (access(absl::StrCat(folder, "/", name).c_str(), F_OK) == 0) return true;
  }
  return false;
}

// Returns only on failure: 127 and 126 as a shell would, 1 when the namespace cannot be entered.
int RunExec(const ExecFlags& flags) {
  const std::optional<pid_t> pid = flags.pid == 0 ? std::nullopt : std::optional<pid_t>(flags.pid);
  absl::StatusOr<drivers::UsernsInstance> instance = drivers::FindUsernsInstance(pid);
  if (!instance.ok()) return ReportError("userns-exec", instance.status());
  const absl::Status entered = drivers::EnterUserns(*instance);
  if (!entered.ok()) return ReportError("userns-exec", entered);
  std::vector<char*> argv;
  for (const std::string& word : flags.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno == EACCES && !IsInPath(flags.command[0]) ? ENOENT : errno;
  ReportError("userns-exec", ErrnoStatus(error, absl::StrCat("run ", flags.command[0])));
  return error == ENOENT ? 127 : 126;
}

}  // namespace

void RegisterUsernsExec(CLI::App& root, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "userns-exec",
      "run a command in the network namespace of a running --userns process: -- CMD ARGS…");
  auto flags = std::make_shared<ExecFlags>();
  command->add_option("--pid", flags->pid, "process id of that process; default: the only one")
      ->check(CLI::Range(1, std::numeric_limits<int>::max()));
  command->add_option("command", flags->command, "command and its arguments, after --")->required();
  command->callback([flags, &exit_code] { exit_code = RunExec(*flags); });
}

}  // namespace tapwire::apps
