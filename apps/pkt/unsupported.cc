// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/unsupported.h"

#include <utility>

#include "apps/pkt/calls.h"
#include "apps/pkt/settings.h"

namespace tapwire::pkt {
namespace {

using Reason = std::optional<std::string>;

struct MissingFeature {
  const char* word;
  const char* feature;
};
constexpr MissingFeature kMissing[] = {
    {"MSG_ZEROCOPY", "zerocopy"},
    {"SO_ZEROCOPY", "zerocopy"},
    {"TCP_ZEROCOPY_RECEIVE", "zerocopy"},
    {"MSG_ERRQUEUE", "zerocopy or timestamping"},
    {"SO_TIMESTAMPING", "timestamping"},
    {"SO_TIMESTAMP", "timestamping"},
    {"MSG_FASTOPEN", "TCP Fast Open"},
    {"TCP_FASTOPEN", "TCP Fast Open"},
    {"TCP_FASTOPEN_CONNECT", "TCP Fast Open"},
    {"TCP_FASTOPEN_KEY", "TCP Fast Open"},
    {"TCP_FASTOPEN_NO_COOKIE", "TCP Fast Open"},
    {"TCP_MD5SIG", "md5"},
    {"TCP_ULP", "kernel TLS"},
    {"IPPROTO_MPTCP", "mptcp"},
    {"SO_MAX_PACING_RATE", "pacing"},
    {"TCP_TX_DELAY", "pacing"},
};

constexpr uint8_t kEce = 0x40, kCwr = 0x80;

Reason InOption(const OptionSpec& option) {
  if (option.kind == OptionKind::kMd5) return "md5";
  const bool fast_open =
      option.kind == OptionKind::kFastOpen || option.kind == OptionKind::kFastOpenExperimental;
  return fast_open ? Reason("TCP Fast Open") : std::nullopt;
}

// The stack sends none of these; the peer may send what it likes.
Reason InPacket(const PacketSpec& packet) {
  if (packet.inbound) return std::nullopt;
  const EcnSpec ecn = packet.ip.ecn;
  if (ecn != EcnSpec::kUnchecked && ecn != EcnSpec::kNotEct) return "ECN";
  const auto* tcp = std::get_if<TcpSpec>(&packet.body);
  if (tcp == nullptr) return std::nullopt;
  if ((tcp->flags & (kEce | kCwr)) != 0) return "ECN";
  for (const OptionSpec& option : tcp->options) {
    if (Reason reason = InOption(option)) return reason;
  }
  return std::nullopt;
}

// The parser limits the depth.
Reason InExpr(const Expr& expr) {
  if (expr.kind == Expr::Kind::kWord) {
    if (Reason reason = MissingFeatureOf(expr.text)) return reason;
  }
  for (const Expr& item : expr.items) {
    if (Reason reason = InExpr(item)) return reason;
  }
  for (const Field& field : expr.fields) {
    if (Reason reason = InExpr(field.get())) return reason;
  }
  return std::nullopt;
}

Reason InCall(const SyscallSpec& call) {
  if (!Calls::IsKnown(call.name)) return "system call " + call.name;
  for (const Expr& arg : call.args) {
    if (Reason reason = InExpr(arg)) return reason;
  }
  return std::nullopt;
}

Reason InEvent(const Event& event) {
  if (const auto* packet = std::get_if<PacketSpec>(&event.what)) return InPacket(*packet);
  if (const auto* call = std::get_if<SyscallSpec>(&event.what)) return InCall(*call);
  if (const auto* shell = std::get_if<ShellSpec>(&event.what)) {
    tcp::Config scratch;
    return ApplyCommand(shell->command, scratch);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> MissingFeatureOf(absl::string_view word) {
  for (const MissingFeature& missing : kMissing) {
    if (word == missing.word) return missing.feature;
  }
  return std::nullopt;
}

std::optional<Diagnostic> FindUnsupported(const Script& script) {
  for (const Event& event : script.events) {
    if (Reason reason = InEvent(event)) {
      return Diagnostic{event.pos, *std::move(reason), /*unsupported=*/true};
    }
  }
  return std::nullopt;
}

}  // namespace tapwire::pkt
