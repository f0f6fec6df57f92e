// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/packet_text.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/pkt/icmp_names.h"

namespace tapwire::pkt {
namespace {

std::string Hex(const std::vector<uint8_t>& bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string SackText(const OptionSpec& option) {
  std::string text = "sack";
  for (const auto& [left, right] : option.sacks) absl::StrAppend(&text, " ", left, ":", right);
  return text;
}

std::string WithBytes(absl::string_view name, const OptionSpec& option) {
  return option.bytes.empty() ? std::string(name) : absl::StrCat(name, " ", Hex(option.bytes));
}

std::string OptionText(const OptionSpec& option) {
  switch (option.kind) {
    case OptionKind::kEol:
      return "eol";
    case OptionKind::kNop:
      return "nop";
    case OptionKind::kMss:
      return absl::StrCat("mss ", option.value);
    case OptionKind::kWindowScale:
      return absl::StrCat("wscale ", option.value);
    case OptionKind::kSackPermitted:
      return "sackOK";
    case OptionKind::kSack:
      return SackText(option);
    case OptionKind::kTimestamps:
      return absl::StrCat("TS val ", option.value, " ecr ", option.echo);
    case OptionKind::kFastOpen:
      return WithBytes("FO", option);
    case OptionKind::kFastOpenExperimental:
      return WithBytes("FOEXP", option);
    case OptionKind::kMd5:
      return WithBytes("md5", option);
    case OptionKind::kOther:
      return WithBytes(absl::StrCat("kind ", option.value), option);
  }
  return "?";
}

std::string TcpText(const TcpSpec& tcp) {
  std::string text = absl::StrCat(FlagsText(tcp.flags), " ", tcp.seq, ":", tcp.seq + tcp.length,
                                  "(", tcp.length, ")");
  if (tcp.ack) absl::StrAppend(&text, " ack ", *tcp.ack);
  if (tcp.window) absl::StrAppend(&text, " win ", *tcp.window);
  if (tcp.urgent) absl::StrAppend(&text, " urg ", *tcp.urgent);
  if (tcp.any_options) return text + " <...>";
  if (!tcp.options.empty()) absl::StrAppend(&text, " <", OptionsText(tcp.options), ">");
  return text;
}

std::string IcmpText(const IcmpSpec& icmp, IpFamily family) {
  std::string text;
  if (icmp.quote) {
    const QuoteSpec& quote = *icmp.quote;
    absl::StrAppend(&text, quote.udp ? absl::StrCat("[udp (", quote.length, ")] ")
                                     : absl::StrCat("[", quote.seq, ":", quote.seq + quote.length,
                                                    "(", quote.length, ")] "));
  }
  const auto numbers = FindIcmp(family, icmp.type, icmp.code);
  absl::StrAppend(&text, "icmp ",
                  numbers ? IcmpName(family, *numbers) : icmp.type + " " + icmp.code);
  return text;
}

const char* EcnText(EcnSpec ecn) {
  switch (ecn) {
    case EcnSpec::kUnchecked:
      return "";
    case EcnSpec::kNotEct:
      return "noecn";
    case EcnSpec::kEct0:
      return "ect0";
    case EcnSpec::kEct1:
      return "ect1";
    case EcnSpec::kEct01:
      return "ect01";
    case EcnSpec::kCe:
      return "ce";
  }
  return "";
}

// Only what a script asked for or what is out of the ordinary.
std::string IpText(const IpSpec& ip) {
  std::vector<std::string> parts;
  if (ip.ecn != EcnSpec::kUnchecked && ip.ecn != EcnSpec::kNotEct) parts.push_back(EcnText(ip.ecn));
  if (ip.tos && (*ip.tos & 0xfc) != 0) parts.push_back(absl::StrFormat("tos 0x%02x", *ip.tos));
  return parts.empty() ? "" : absl::StrCat("[", absl::StrJoin(parts, ", "), "] ");
}

}  // namespace

std::string FlagsText(uint8_t flags) {
  constexpr struct {
    uint8_t bit;
    char name;
  } kNames[] = {{0x02, 'S'}, {0x01, 'F'}, {0x04, 'R'}, {0x08, 'P'},
                {0x20, 'U'}, {0x40, 'E'}, {0x80, 'W'}, {0x10, '.'}};
  std::string text;
  for (const auto& flag : kNames) {
    if ((flags & flag.bit) != 0) text += flag.name;
  }
  return text.empty() ? "-" : text;
}

std::string OptionsText(const std::vector<OptionSpec>& options) {
  return absl::StrJoin(options, ",", [](std::string* out, const OptionSpec& option) {
    out->append(OptionText(option));
  });
}

std::string TimeText(Duration time) {
  return absl::StrFormat("%.6f", std::chrono::duration<double>(time).count());
}

std::string PacketText(const PacketSpec& packet, IpFamily family) {
  std::string text = absl::StrCat(packet.inbound ? "< " : "> ", IpText(packet.ip));
  if (const auto* tcp = std::get_if<TcpSpec>(&packet.body)) return text + TcpText(*tcp);
  if (const auto* udp = std::get_if<UdpSpec>(&packet.body)) {
    return absl::StrCat(text, "udp (", udp->length, ")");
  }
  return text + IcmpText(std::get<IcmpSpec>(packet.body), family);
}

}  // namespace tapwire::pkt
