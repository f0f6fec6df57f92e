// SPDX-License-Identifier: Apache-2.0
// The command table, and the one place where command-line errors become messages and exit codes.

#include <csignal>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "apps/command.h"

namespace tapwire::apps {
namespace {

constexpr int kUsageError = 2;

// One line that names the problem and where to read on.
int ReportUsageError(const CLI::App& root, const CLI::ParseError& error,
                     const std::string& unknown) {
  std::string command = "tapwire";
  for (const CLI::App* sub : root.get_subcommands()) command += " " + sub->get_name();
  std::string message = error.what();
  // CLI11 says only that a command is missing, also when it did not know the one that was given.
  if (root.get_subcommands().empty() && !unknown.empty())
    message = "unknown command '" + unknown + "'";
  while (!message.empty() && message.back() == '\n') message.pop_back();
  for (char& c : message) c = c == '\n' ? ' ' : c;
  std::fprintf(stderr, "tapwire: %s (see '%s --help')\n", message.c_str(), command.c_str());
  return kUsageError;
}

}  // namespace

int RunCommandLine(int argc, const char* const* argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error, not a reason to die
  int exit_code = 0;
  CLI::App root("tapwire: a TCP/IP host of your own on a TAP device, in an ordinary process");
  root.name("tapwire");
  root.set_version_flag("-V,--version", "tapwire " TAPWIRE_VERSION);
  root.require_subcommand(1);
  root.fallthrough(false);
  RegisterPing(root, exit_code);
  RegisterEcho(root, exit_code);
  RegisterRun(root, exit_code);
  RegisterUsernsExec(root, exit_code);
  RegisterPcap(root, exit_code);
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return root.exit(wanted);
  } catch (const CLI::ParseError& error) {
    const std::string first = argc > 1 && argv[1][0] != '-' ? argv[1] : "";
    return ReportUsageError(root, error, first);
  }
  if (std::fflush(stdout) != 0) return 1;
  return exit_code;
}

}  // namespace tapwire::apps
