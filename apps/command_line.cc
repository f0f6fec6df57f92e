// SPDX-License-Identifier: Apache-2.0
// The command table, and the one place where command-line errors become messages and exit codes.

#include <csignal>
#include <cstdio>
#include <span>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "apps/command.h"
#include "apps/report.h"
#include "apps/start_up.h"

namespace tapwire::apps {
namespace {

constexpr int kUsageError = 2;

bool HasCommands(const CLI::App& app) {
  return !app.get_subcommands([](const CLI::App*) { return true; }).empty();
}

// One line that names the problem and where to read on. `words` are those of the command line, the
// program's name left out.
int ReportUsageError(const CLI::App& root, const CLI::ParseError& error,
                     std::span<const char* const> words) {
  std::string command = "tapwire";
  const CLI::App* last = &root;
  while (!last->get_subcommands().empty()) {
    last = last->get_subcommands().front();
    command += " " + last->get_name();
    if (!words.empty()) words = words.subspan(1);
  }
  std::string message = error.what();
  // CLI11 says only that a command is missing, also when it did not know the one that was given.
  if (HasCommands(*last) && !words.empty() && words[0][0] != '-')
    message = absl::StrCat("unknown command '", words[0], "'");
  while (!message.empty() && message.back() == '\n') message.pop_back();
  std::fprintf(stderr, "tapwire: %s (see '%s --help')\n", OneLine(message).c_str(),
               command.c_str());
  return kUsageError;
}

}  // namespace

int RunCommandLine(int argc, const char* const* argv) {
  CatchSignal(SIGPIPE);
  CatchSignal(SIGUSR1);
  int exit_code = 0;
  CLI::App root("tapwire: a TCP/IP host of your own on a TAP device, in an ordinary process");
  root.name("tapwire");
  root.set_version_flag("-V,--version", "tapwire " TAPWIRE_VERSION);
  root.require_subcommand(1);
  root.fallthrough(false);
  root.option_defaults()->disable_flag_override();  // no --stats=5
  RegisterPing(root, exit_code);
  RegisterEcho(root, exit_code);
  RegisterRun(root, exit_code);
  RegisterCtl(root, exit_code);
  RegisterUsernsExec(root, exit_code);
  RegisterIperf3(root, exit_code);
  RegisterPcap(root, exit_code);
  RegisterPkt(root, exit_code);
  RegisterLab(root, exit_code);
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    // Not straight to std::cout, where the reason of a failure would be lost.
    std::ostringstream text;
    const int code = root.exit(wanted, text);
    std::fputs(text.str().c_str(), stdout);
    return FinishOutput(code);
  } catch (const CLI::ParseError& error) {
    return ReportUsageError(root, error, std::span(argv, static_cast<size_t>(argc)).subspan(1));
  }
  return FinishOutput(exit_code);
}

}  // namespace tapwire::apps
