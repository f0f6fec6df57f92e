// SPDX-License-Identifier: Apache-2.0
// Runs scripts against the Linux kernel, several at a time, each in a child process with a network
// namespace of its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/pkt/interpreter.h"
#include "apps/pkt/settings.h"

namespace tapwire::pkt {

struct KernelScript {
  std::string name;
  std::string source;
};

struct KernelRunOptions {
  RunOptions run = {};
  std::vector<std::string> fixed = {};  // as in RunScript()
  int jobs = 1;
};

// Why scripts cannot be run here; none: they can.
std::optional<std::string> WhyNoKernel();

// Tells each result as it comes. On a machine that is busy real time is not what the script says: a
// script that failed is run once more at the end, by itself.
void RunAgainstKernel(const std::vector<KernelScript>& scripts, const KernelRunOptions& options,
                      const std::function<void(const KernelScript&, const RunResult&)>& tell);

// Whether a script is for the kernel and takes at most `seconds` of its time: it has no line
// `// kernel: no`, is not for the profile `rfc`, and its events are over by then.
bool IsQuickForKernel(absl::string_view source, const Defines& defines, double seconds);

}  // namespace tapwire::pkt
