// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/runner.h"

#include <algorithm>
#include <utility>

#include "apps/pkt/parser.h"
#include "apps/pkt/unsupported.h"

namespace tapwire::pkt {
namespace {

RunResult FromDiagnostic(const Diagnostic& diagnostic) {
  return {diagnostic.unsupported ? Verdict::kUnsupported : Verdict::kFail, diagnostic.pos,
          diagnostic.message};
}

}  // namespace

RunResult RunScript(absl::string_view source, RunOptions options,
                    const std::vector<std::string>& fixed) {
  const ParseResult parsed = ParseScript(source, options.defines);
  if (parsed.error) return FromDiagnostic(*parsed.error);
  for (const ScriptOption& option : parsed.script.options) {
    if (std::find(fixed.begin(), fixed.end(), option.name) != fixed.end()) continue;
    if (const auto problem = ApplyOption(option, options)) return FromDiagnostic(*problem);
  }
  // The kernel has it all.
  const auto missing = options.against == Against::kStack ? FindUnsupported(parsed.script)
                                                          : std::optional<Diagnostic>();
  if (missing) return FromDiagnostic(*missing);
  Interpreter interpreter(parsed.script, options);
  return interpreter.Run();
}

}  // namespace tapwire::pkt
