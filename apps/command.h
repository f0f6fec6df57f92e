// SPDX-License-Identifier: Apache-2.0
// The commands of the `tapwire` program. Each registers a sub-command of the command line and, when
// that was chosen, runs and leaves its exit code: 0 good, 1 run-time failure, 2 bad usage.
#pragma once

#include "CLI/CLI.hpp"

namespace tapwire::apps {

// `exit_code` outlives `root`; the command writes it when it has run.
void RegisterPing(CLI::App& root, int& exit_code);
void RegisterEcho(CLI::App& root, int& exit_code);
void RegisterRun(CLI::App& root, int& exit_code);
void RegisterCtl(CLI::App& root, int& exit_code);
void RegisterUsernsExec(CLI::App& root, int& exit_code);
void RegisterIperf3(CLI::App& root, int& exit_code);
void RegisterPcap(CLI::App& root, int& exit_code);
void RegisterPkt(CLI::App& root, int& exit_code);
void RegisterLab(CLI::App& root, int& exit_code);

// Parses and runs: what main() does, callable from tests. Help and version go to stdout with 0,
// bad usage to stderr as one line with 2.
int RunCommandLine(int argc, const char* const* argv);

}  // namespace tapwire::apps
