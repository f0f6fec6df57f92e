// SPDX-License-Identifier: Apache-2.0
//
// The front of the script runner: parser, options, shell settings and the language of assertions.
// The first byte chooses: 0 a whole script (parsed; its options, commands and code are taken too),
// 1 code alone, 2 a command alone. Nothing is played: what the stack makes of packets is
// stack_fuzz's business.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "apps/pkt/code.h"
#include "apps/pkt/interpreter.h"
#include "apps/pkt/packet_text.h"
#include "apps/pkt/parser.h"
#include "apps/pkt/settings.h"
#include "apps/pkt/unsupported.h"

namespace tapwire::pkt {
namespace {

void FuzzCode(absl::string_view text, CodeVariables& variables) {
  const std::optional<std::string> info(std::string(280, '\1'));
  RunCode(text, variables, [&info](absl::string_view name) { return LookupTcpInfo(name, info); });
}

void FuzzCommand(absl::string_view text) {
  tcp::Config config;
  ApplyCommand(text, config);
}

void FuzzScript(absl::string_view text) {
  const ParseResult result = ParseScript(text, {{"DEFINED", "1 [ {"}});
  RunOptions options;
  for (const ScriptOption& option : result.script.options) ApplyOption(option, options);
  FindUnsupported(result.script);
  CodeVariables variables;
  for (const Event& event : result.script.events) {
    if (const auto* packet = std::get_if<PacketSpec>(&event.what)) {
      PacketText(*packet, IpFamily::kV4);
      if (std::holds_alternative<IcmpSpec>(packet->body)) continue;
      // A longer segment is split before it comes to this.
      const auto* tcp = std::get_if<TcpSpec>(&packet->body);
      if (tcp != nullptr && tcp->length > 65000) continue;
      const Ends ends{{Ipv4Address(10, 0, 0, 1), 1, 0}, {Ipv4Address(10, 0, 0, 2), 2, 0}};
      ParseDatagram(BuildDatagram(ends, *packet, 0));
    } else if (const auto* code = std::get_if<CodeSpec>(&event.what)) {
      FuzzCode(code->text, variables);
    } else if (const auto* shell = std::get_if<ShellSpec>(&event.what)) {
      FuzzCommand(shell->command);
    }
  }
}

}  // namespace
}  // namespace tapwire::pkt

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  tapwire::pkt::CodeVariables variables;
  switch (data[0] % 3) {
    case 0:
      tapwire::pkt::FuzzScript(text);
      break;
    case 1:
      tapwire::pkt::FuzzCode(text, variables);
      break;
    default:
      tapwire::pkt::FuzzCommand(text);
      break;
  }
  return 0;
}
