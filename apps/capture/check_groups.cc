// SPDX-License-Identifier: Apache-2.0
// Group membership: MLD (RFC 9777, version 1: RFC 2710) and IGMP (RFC 9776, older: RFC 2236).
#include "absl/strings/str_cat.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

constexpr uint8_t kMldQuery = 130, kMldReport1 = 131, kMldDone = 132, kMldReport2 = 143;
constexpr uint8_t kIgmpQuery = 0x11, kIgmpReport1 = 0x12, kIgmpReport2 = 0x16, kIgmpLeave = 0x17,
                  kIgmpReport3 = 0x22;

Address AddressAt(Bytes bytes, size_t at, bool v6) {
  return v6 ? Address::V6(bytes.From(at)) : Address::V4(bytes.From(at));
}

bool IsGroup4(const Address& address, uint32_t group) {
  return !address.v6 && address.v4() == group;
}

// ff02::`last`.
bool IsLinkLocalGroup6(const Address& address, uint16_t last) {
  const Bytes octets(address.octets);
  return address.v6 && octets.U16(0) == 0xff02 && octets.From(2).First(12).AllZero() &&
         octets.U16(14) == last;
}

// Groups that are joined without a report: RFC 9776 §6, RFC 9777 §6.
bool IsNeverReported(const Address& group) {
  if (!group.v6) return group.v4() == 0xe0000001;
  return IsLinkLocalGroup6(group, 1) || (group.octets[1] & 0x0f) < 2;
}

// The records of a version 2 (MLD) or 3 (IGMP) report; both families have the same shape.
const char* WhyRecordsBad(Bytes report, bool v6) {
  const size_t address_length = v6 ? 16 : 4;
  size_t at = 8;
  for (int left = report.U16(6); left > 0; --left) {
    if (at + 4 + address_length > report.size()) return "record ends outside the message";
    const uint8_t type = report.U8(at);
    if (type < 1 || type > 6) return "record of unknown type";
    const Address group = AddressAt(report, at + 4, v6);
    if (!group.is_multicast()) return "record about no group";
    if (IsNeverReported(group)) return "record about a group that is never reported";
    at += 4 + address_length + report.U16(at + 2) * address_length + report.U8(at + 1) * size_t{4};
    if (at > report.size()) return "sources end outside the message";
  }
  return at < report.size() ? "bytes behind the last record" : nullptr;
}

const char* WhyMldMessageBad(const IpPacket& ip) {
  const uint8_t type = ip.payload.U8(0);
  if (type == kMldReport2) {
    // RFC 9777 §5.2.14.
    if (!IsLinkLocalGroup6(ip.destination, 0x16))
      return "version 2 report to another group than ff02::16";
    return WhyRecordsBad(ip.payload, true);
  }
  if (ip.length < 24) return "shorter than 24 bytes";
  const Address group = Address::V6(ip.payload.From(8));
  if (type == kMldReport1) {
    if (group != ip.destination) return "version 1 report not sent to the group itself";
    return IsNeverReported(group) ? "report about a group that is never reported" : nullptr;
  }
  if (type == kMldDone)
    return IsLinkLocalGroup6(ip.destination, 2) ? nullptr : "done not sent to ff02::2";
  return nullptr;
}

const char* WhyIgmpMessageBad(const IpPacket& ip) {
  const Address group = Address::V4(ip.payload.From(4));
  switch (ip.payload.U8(0)) {
    case kIgmpReport3:
      // RFC 9776 §4.2.14 and §4: all of them go to 224.0.0.22 with Internetwork Control precedence.
      if (!IsGroup4(ip.destination, 0xe0000016))
        return "version 3 report to another group than 224.0.0.22";
      if (ip.tos != 0xc0) return "version 3 report with a TOS other than 0xc0";
      return WhyRecordsBad(ip.payload, false);
    case kIgmpReport1:
    case kIgmpReport2:
      if (group != ip.destination) return "report not sent to the group itself";
      return IsNeverReported(group) ? "report about a group that is never reported" : nullptr;
    case kIgmpLeave:
      return IsGroup4(ip.destination, 0xe0000002) ? nullptr : "leave not sent to 224.0.0.2";
    default:
      return nullptr;
  }
}

}  // namespace

void CheckMld(Inspection& inspection, const IpPacket& ip) {
  const uint8_t type = ip.payload.U8(0);
  if (ip.ttl != 1) inspection.Report(Rule::kMld, absl::StrCat("hop limit ", ip.ttl));
  if (!ip.router_alert) inspection.Report(Rule::kMld, "no router alert option");
  if (!ip.source.is_link_local() && !(ip.source.is_unspecified() && type != kMldQuery)) {
    inspection.Report(Rule::kMld, absl::StrCat("source is ", ip.source.ToString()));
  }
  if (const char* why = WhyMldMessageBad(ip))
    inspection.Report(Rule::kMld, absl::StrCat("type ", type, ": ", why));
}

void CheckIgmp(Inspection& inspection, const IpPacket& ip) {
  if (ip.length < 8)
    return inspection.Report(Rule::kIgmp, absl::StrCat("message of ", ip.length, " bytes"));
  CheckChecksum(inspection, ip, {.name = "IGMP", .field = 2, .pseudo_header = false});
  const uint8_t type = ip.payload.U8(0);
  const bool known = type == kIgmpQuery || type == kIgmpReport1 || type == kIgmpReport2 ||
                     type == kIgmpLeave || type == kIgmpReport3;
  if (!known) return inspection.Report(Rule::kNotJudged, absl::StrCat("IGMP type ", type));
  if (ip.ttl != 1) inspection.Report(Rule::kIgmp, absl::StrCat("TTL ", ip.ttl));
  // RFC 2236 §2; version 1 knew no options, and a query may be of version 1.
  const bool needs_alert = type == kIgmpReport2 || type == kIgmpLeave || type == kIgmpReport3;
  if (needs_alert && !ip.router_alert) inspection.Report(Rule::kIgmp, "no router alert option");
  if (const char* why = WhyIgmpMessageBad(ip)) {
    inspection.Report(Rule::kIgmp, absl::StrCat("type ", absl::Hex(type), ": ", why));
  }
}

}  // namespace tapwire::capture
