// SPDX-License-Identifier: Apache-2.0
#include "apps/capture/checker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

struct RuleText {
  absl::string_view name;
  Severity severity;
  absl::string_view help;
};

constexpr RuleText kRules[] = {
#define TAPWIRE_RULE_TEXT(id, name, severity, help) {name, Severity::severity, help},
    TAPWIRE_CAPTURE_RULES(TAPWIRE_RULE_TEXT)
#undef TAPWIRE_RULE_TEXT
};

const RuleText& TextOf(Rule rule) { return kRules[static_cast<size_t>(rule)]; }

constexpr uint16_t kEtherTypeIpv4 = 0x0800, kEtherTypeArp = 0x0806, kEtherTypeIpv6 = 0x86dd;
constexpr uint16_t kEtherTypeVlan = 0x8100, kEtherTypeQinQ = 0x88a8;
// IEEE 802.3: values up to 1500 are lengths, from 1536 on types, between them nothing.
constexpr uint16_t kMaxLengthField = 1500, kMinEtherType = 1536;

void CheckNetwork(Inspection& inspection, uint16_t ether_type, Bytes packet) {
  switch (ether_type) {
    case kEtherTypeIpv4:
      return CheckIpv4(inspection, packet);
    case kEtherTypeIpv6:
      return CheckIpv6(inspection, packet);
    case kEtherTypeArp:
      return CheckArp(inspection, packet);
    default:
      return inspection.Report(Rule::kNotJudged, absl::StrFormat("EtherType 0x%04x", ether_type));
  }
}

void CheckRawIp(Inspection& inspection) {
  const Bytes packet(inspection.frame.bytes);
  const uint8_t version = packet.U8(0) >> 4;
  if (version != 4 && version != 6) {
    return inspection.Report(Rule::kFrameShort,
                             absl::StrCat("neither IPv4 nor IPv6: version ", version));
  }
  CheckNetwork(inspection, version == 4 ? kEtherTypeIpv4 : kEtherTypeIpv6, packet);
}

// IEEE 802.3 with a length: the length is judged, the LLC content is not.
void CheckLengthFrame(Inspection& inspection, uint16_t length, Bytes rest) {
  if (length > kMaxLengthField) {
    return inspection.Report(Rule::kEthLength,
                             absl::StrFormat("type or length 0x%04x is neither", length));
  }
  if (length > rest.size() && !inspection.snapped) {
    return inspection.Report(Rule::kEthLength, absl::StrCat("802.3 length ", length, ", but ",
                                                            rest.size(), " bytes follow"));
  }
  inspection.Report(Rule::kNotJudged, absl::StrCat("802.3 frame of length ", length));
}

// A received frame that is not judged itself: a whole TCP segment without a VLAN tag and extension
// headers says what the rules for connections must know.
void Observe(Inspection& inspection) {
  Bytes packet(inspection.frame.bytes);
  if (inspection.frame.link == LinkType::kEthernet) {
    const uint16_t type = packet.U16(12);
    if (type != kEtherTypeIpv4 && type != kEtherTypeIpv6) return;
    packet = packet.From(14);
  }
  IpPacket ip;
  const bool v6 = packet.U8(0) >> 4 == 6;
  if (v6) {
    ip.source = Address::V6(packet.From(8).First(16));
    ip.destination = Address::V6(packet.From(24).First(16));
    ip.protocol = packet.U8(6);
    ip.header_length = 40;
    ip.length = packet.U16(4);
  } else {
    if ((packet.U16(6) & 0x3fff) != 0) return;  // a fragment
    ip.source = Address::V4(packet.From(12).First(4));
    ip.destination = Address::V4(packet.From(16).First(4));
    ip.protocol = packet.U8(9);
    ip.header_length = (packet.U8(0) & 0xf) * 4u;
    ip.length = packet.U16(2) - std::min<uint32_t>(packet.U16(2), ip.header_length);
  }
  ip.payload = packet.From(ip.header_length).First(ip.length);
  if (ip.protocol == Protocol::kTcp) ObserveTcp(inspection, ip);
}

void CheckEthernet(Inspection& inspection) {
  const Bytes bytes(inspection.frame.bytes);
  if (bytes.size() < 14) {
    return inspection.Report(Rule::kFrameShort,
                             absl::StrCat(bytes.size(), " bytes are no Ethernet header"));
  }
  inspection.has_link = true;
  inspection.eth_destination = bytes.First(6);
  inspection.eth_source = bytes.From(6).First(6);
  // Linux' loopback device puts zero into both addresses.
  const bool zero = bytes.First(12).AllZero();
  inspection.loopback = inspection.loopback || zero;
  if (!inspection.loopback &&
      (inspection.eth_source.AllZero() || (inspection.eth_source.U8(0) & 1) != 0)) {
    inspection.Report(Rule::kEthSource,
                      absl::StrCat("source is ", MacToString(inspection.eth_source)));
  }

  size_t at = 12;
  int tags = 0;
  while (bytes.U16(at) == kEtherTypeVlan || bytes.U16(at) == kEtherTypeQinQ) {
    if (bytes.size() < at + 6)
      return inspection.Report(Rule::kFrameShort, "ends inside a VLAN tag");
    if ((bytes.U16(at + 2) & 0xfff) == 0xfff)
      inspection.Report(Rule::kVlan, "VID 4095 is reserved");
    if (++tags > 2) return inspection.Report(Rule::kVlan, "more than two VLAN tags");
    at += 4;
  }
  const uint16_t type = bytes.U16(at);
  inspection.link_length = static_cast<uint32_t>(at + 2);
  if (type < kMinEtherType) return CheckLengthFrame(inspection, type, bytes.From(at + 2));
  CheckNetwork(inspection, type, bytes.From(at + 2));
}

}  // namespace

absl::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "?";
}

absl::string_view RuleName(Rule rule) { return TextOf(rule).name; }
absl::string_view RuleHelp(Rule rule) { return TextOf(rule).help; }
Severity RuleSeverity(Rule rule) { return TextOf(rule).severity; }

std::optional<Rule> RuleByName(absl::string_view name) {
  for (size_t i = 0; i < kRuleCount; ++i) {
    if (kRules[i].name == name) return static_cast<Rule>(i);
  }
  return std::nullopt;
}

std::string Finding::ToString() const {
  return absl::StrCat("frame ", frame, ": ", SeverityName(severity), ": ", RuleName(rule), ": ",
                      reason);
}

uint64_t CheckReport::count(Severity severity) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < kRuleCount; ++i) {
    if (kRules[i].severity == severity) sum += counts[i];
  }
  return sum;
}

std::string CheckReport::ToString(Severity from) const {
  std::string text;
  uint64_t shown = 0, total = 0;
  for (const Finding& finding : findings) {
    if (finding.severity < from) continue;
    absl::StrAppend(&text, finding.ToString(), "\n");
    ++shown;
  }
  for (size_t i = 0; i < kRuleCount; ++i) {
    if (kRules[i].severity >= from) total += counts[i];
  }
  if (total > shown) absl::StrAppend(&text, "… and ", total - shown, " more\n");
  if (!incomplete.empty()) absl::StrAppend(&text, incomplete, "\n");
  absl::StrAppend(&text, frames, " frames: ", errors(), " errors, ", warnings(), " warnings, ",
                  count(Severity::kNote), " notes");
  if (snapped > 0) absl::StrAppend(&text, ", ", snapped, " cut by the snap length");
  return absl::StrCat(text, "\n");
}

void Inspection::Report(Rule rule, std::string reason) {
  if (options.ignored.contains(rule)) return;
  ++report.counts[static_cast<size_t>(rule)];
  const Severity severity = RuleSeverity(rule);
  // Notes may come with every frame; they must not crowd out what is wrong.
  const size_t room = severity == Severity::kNote ? options.max_findings / 2 : options.max_findings;
  if (report.findings.size() >= room) return;
  report.findings.push_back(
      {.frame = number, .rule = rule, .severity = severity, .reason = std::move(reason)});
}

// What outlives a frame.
struct CaptureChecker::Memory {
  FragmentTracker fragments;
  Ipv4IdTracker ids;
  TcpTracker flows;
};

CaptureChecker::CaptureChecker(CheckerOptions options)
    : options_(std::move(options)), memory_(std::make_unique<Memory>()) {}

CaptureChecker::~CaptureChecker() = default;

void CaptureChecker::Check(const Frame& frame) {
  ++report_.frames;
  Inspection inspection{.frame = frame,
                        .options = options_,
                        .report = report_,
                        .fragments = memory_->fragments,
                        .ids = memory_->ids,
                        .flows = memory_->flows,
                        .number = frame.number != 0 ? frame.number : report_.frames,
                        .snapped = frame.original_length > frame.bytes.size(),
                        .loopback = frame.loopback,
                        .has_link = false,
                        .eth_destination = {},
                        .eth_source = {},
                        .link_length = 0};
  if (frame.direction == Direction::kReceive && !options_.judge_received)
    return Observe(inspection);
  if (inspection.snapped) {
    ++report_.snapped;
    inspection.Report(Rule::kSnapped, absl::StrCat(frame.bytes.size(), " of ",
                                                   frame.original_length, " bytes were captured"));
  }
  if (frame.link == LinkType::kRawIp) {
    CheckRawIp(inspection);
  } else {
    CheckEthernet(inspection);
  }
}

}  // namespace tapwire::capture
