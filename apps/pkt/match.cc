// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/match.h"

#include "absl/strings/str_cat.h"
#include "apps/pkt/icmp_names.h"
#include "apps/pkt/packet_text.h"

namespace tapwire::pkt {
namespace {

constexpr uint8_t kFin = 0x01, kPsh = 0x08, kAck = 0x10;

template <typename T>
std::string Differs(absl::string_view what, T actual, T expected) {
  if (actual == expected) return "";
  return absl::StrCat(what, " ", actual, ", expected ", expected);
}

bool SameOption(const OptionSpec& expected, const OptionSpec& actual) {
  if (expected.kind != actual.kind || expected.echo != actual.echo) return false;
  if (expected.kind != OptionKind::kTimestamps && expected.value != actual.value) return false;
  return expected.sacks == actual.sacks && expected.bytes == actual.bytes;
}

std::string OptionsMismatch(const TcpSpec& expected, const TcpSpec& actual) {
  if (expected.any_options) return "";
  bool same = expected.options.size() == actual.options.size();
  for (size_t i = 0; same && i < expected.options.size(); ++i) {
    same = SameOption(expected.options[i], actual.options[i]);
  }
  if (same) return "";
  return absl::StrCat("options <", OptionsText(actual.options), ">, expected <",
                      OptionsText(expected.options), ">");
}

std::string TcpMismatch(const TcpSpec& expected, const TcpSpec& actual) {
  if (expected.flags != actual.flags) {
    return absl::StrCat("flags ", FlagsText(actual.flags), ", expected ",
                        FlagsText(expected.flags));
  }
  if (auto why = Differs("sequence number", actual.seq, expected.seq); !why.empty()) return why;
  if (auto why = Differs("payload length", actual.length, expected.length); !why.empty()) {
    return why;
  }
  if (expected.ack && actual.ack) {
    if (auto why = Differs("acknowledgment number", *actual.ack, *expected.ack); !why.empty()) {
      return why;
    }
  }
  if (expected.window) {
    if (auto why = Differs("window", *actual.window, *expected.window); !why.empty()) return why;
  }
  if (expected.urgent) {
    const uint16_t urgent = actual.urgent.value_or(0);
    if (auto why = Differs("urgent pointer", urgent, *expected.urgent); !why.empty()) return why;
  }
  return OptionsMismatch(expected, actual);
}

std::string IcmpMismatch(const IcmpSpec& expected, const IcmpSpec& actual, IpFamily family) {
  const auto wanted = FindIcmp(family, expected.type, expected.code);
  const auto found = FindIcmp(family, actual.type, actual.code);
  if (!wanted || !found) return "no such ICMP message in this family";
  if (wanted->type != found->type || wanted->code != found->code) {
    return absl::StrCat(IcmpName(family, *found), ", expected ", IcmpName(family, *wanted));
  }
  if (expected.mtu) {
    if (auto why = Differs("MTU", *actual.mtu, *expected.mtu); !why.empty()) return why;
  }
  if (expected.id) {
    if (auto why = Differs("identifier", *actual.id, *expected.id); !why.empty()) return why;
  }
  if (expected.sequence) {
    return Differs("sequence number", *actual.sequence, *expected.sequence);
  }
  return "";
}

bool SameEcn(EcnSpec expected, EcnSpec actual) {
  if (expected == EcnSpec::kUnchecked) return true;
  if (expected == EcnSpec::kEct01) return actual == EcnSpec::kEct0 || actual == EcnSpec::kEct1;
  return expected == actual;
}

template <typename T>
bool Asked(const std::optional<T>& expected, const std::optional<T>& actual) {
  return !expected || expected == actual;
}

std::string IpMismatch(const IpSpec& expected, const IpSpec& actual) {
  if (!SameEcn(expected.ecn, actual.ecn)) return "another ECN field of the IP header";
  if (!Asked(expected.tos, actual.tos)) return Differs("TOS", *actual.tos, *expected.tos);
  if (!Asked(expected.ttl, actual.ttl)) return Differs("TTL", *actual.ttl, *expected.ttl);
  if (!Asked(expected.flow_label, actual.flow_label)) return "another flow label";
  return "";
}

}  // namespace

std::string Mismatch(const PacketSpec& expected, const PacketSpec& actual, IpFamily family) {
  if (expected.body.index() != actual.body.index()) return "another protocol";
  std::string why;
  if (const auto* tcp = std::get_if<TcpSpec>(&expected.body)) {
    why = TcpMismatch(*tcp, std::get<TcpSpec>(actual.body));
  } else if (const auto* udp = std::get_if<UdpSpec>(&expected.body)) {
    why = Differs("payload length", std::get<UdpSpec>(actual.body).length, udp->length);
  } else {
    why = IcmpMismatch(std::get<IcmpSpec>(expected.body), std::get<IcmpSpec>(actual.body), family);
  }
  return why.empty() ? IpMismatch(expected.ip, actual.ip) : why;
}

bool Append(TcpSpec& whole, const TcpSpec& next) {
  const bool plain =
      (whole.flags & ~(kPsh | kAck)) == 0 && (next.flags & ~(kPsh | kFin | kAck)) == 0;
  if (!plain || next.seq != whole.seq + whole.length || next.ack != whole.ack) return false;
  whole.length += next.length;
  whole.flags |= next.flags;
  return true;
}

const OptionSpec* FindTimestamps(const TcpSpec& tcp) {
  for (const OptionSpec& option : tcp.options) {
    if (option.kind == OptionKind::kTimestamps) return &option;
  }
  return nullptr;
}

}  // namespace tapwire::pkt
