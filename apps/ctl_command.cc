// SPDX-License-Identifier: Apache-2.0
// `tapwire ctl [--socket PATH] ip|ethtool …`: asks a running `tapwire run`.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/ctl/client.h"
#include "apps/report.h"

namespace tapwire::apps {
namespace {

int RunCtl(const std::string& path, const std::vector<std::string>& argv) {
  if (argv.empty()) {
    return ReportError("ctl", absl::InvalidArgumentError("what to ask for: ip … or ethtool …"));
  }
  const absl::StatusOr<ctl::Reply> reply = ctl::Ask(path, argv);
  if (!reply.ok()) return ReportError("ctl", reply.status());
  std::fwrite(reply->out.data(), 1, reply->out.size(), stdout);
  FlushOutput();
  std::fwrite(reply->err.data(), 1, reply->err.size(), stderr);
  return reply->exit_code;
}

}  // namespace

void RegisterCtl(CLI::App& root, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "ctl",
      "ask a running 'tapwire run': ethtool -k|-K|-S|-i DEV ..., ip [-s] [-d] [-j] [-br] "
      "link|addr|neigh|route ..., ip link set|add|del ...");
  auto path = std::make_shared<std::string>();
  command->add_option("--socket", *path, "its control socket (--ctl of run); default: as there")
      ->check(CLI::Validator(
          [](std::string& text) { return text.empty() ? "is empty" : std::string(); }, "PATH"));
  // The words of ip and ethtool are theirs, options and all.
  command->prefix_command();
  command->callback(
      [command, path, &exit_code] { exit_code = RunCtl(*path, command->remaining()); });
}

}  // namespace tapwire::apps
