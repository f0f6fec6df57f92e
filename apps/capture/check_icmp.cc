// SPDX-License-Identifier: Apache-2.0
// ICMP of both families: the messages themselves, and what an error may be about.
#include "absl/strings/str_cat.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

constexpr uint32_t kMessageHeader = 8;
constexpr uint32_t kMinimumMtu6 = 1280;

// RFC 792: unreachable, source quench, redirect, time exceeded, parameter problem.
bool IsError4(uint8_t type) {
  return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}
// RFC 4443 §2.1; redirect counts as one in §2.4 (e.2).
bool IsError6(uint8_t type) { return type < 128 || type == 137; }

const char* WhyTypeBad4(uint8_t type, uint8_t code) {
  switch (type) {
    case 0:
    case 8:
    case 13:
    case 14:
      return code != 0 ? "code is not 0" : nullptr;
    case 3:
      return code > 15 ? "unknown code" : nullptr;
    case 4:
      return "source quench is never sent (RFC 6633 §3)";
    case 5:
      return code > 3 ? "unknown code" : nullptr;
    case 11:
      return code > 1 ? "unknown code" : nullptr;
    case 12:
      return code > 2 ? "unknown code" : nullptr;
    case 15:
    case 16:
    case 17:
    case 18:
      return "deprecated message (RFC 6918)";
    default:
      return nullptr;
  }
}

const char* WhyTypeBad6(uint8_t type, uint8_t code) {
  switch (type) {
    case 1:
      return code > 8 ? "unknown code" : nullptr;
    case 2:
    case 128:
    case 129:
      return code != 0 ? "code is not 0" : nullptr;
    case 3:
      return code > 1 ? "unknown code" : nullptr;
    case 4:
      return code > 10 ? "unknown code" : nullptr;
    default:
      return nullptr;
  }
}

// RFC 1122 §3.2.2: the kinds of datagram an error must not be about.
const char* WhyAboutBad4(Bytes quote, uint32_t header) {
  const Address source = Address::V4(quote.From(12));
  const Address destination = Address::V4(quote.From(16));
  if ((quote.U16(6) & 0x1fff) != 0) return "about a fragment other than the first";
  if (destination.is_multicast() || destination.v4() == 0xffffffff)
    return "about a broadcast or multicast";
  if (source.octets[0] == 0 || source.is_loopback() || source.octets[0] >= 224)
    return "about a source that is no host";
  if (quote.U8(9) == Protocol::kIcmp && quote.size() > header && IsError4(quote.U8(header))) {
    return "about an ICMP error";
  }
  return nullptr;
}

// RFC 1122 §3.2.2: the header and at least 8 octets, unchanged.
void CheckQuote4(Inspection& inspection, const IpPacket& ip) {
  const Bytes quote = ip.payload.From(kMessageHeader);
  const uint32_t header = (quote.U8(0) & 15u) * 4;
  const uint32_t total = quote.U16(2);
  if (quote.size() < 20 || quote.U8(0) >> 4 != 4 || header < 20 || total < header) {
    return inspection.Report(Rule::kIcmpQuote,
                             absl::StrCat(quote.size(), " bytes that are no IPv4 header"));
  }
  if (quote.size() < std::min(total, header + 8)) {
    inspection.Report(Rule::kIcmpQuote, absl::StrCat("only ", quote.size(), " bytes of ", total));
  }
  // With RFC 4884 extensions (a length in the sixth byte) more may follow.
  if (quote.size() > total && ip.payload.U8(5) == 0) {
    inspection.Report(Rule::kIcmpQuote,
                      absl::StrCat(quote.size(), " bytes of a datagram of ", total));
  }
  if (const char* why = WhyAboutBad4(quote, header)) inspection.Report(Rule::kIcmpAbout, why);
  if (Address::V4(quote.From(12)) != ip.destination) {
    inspection.Report(Rule::kIcmpQuote,
                      absl::StrCat("sent to ", ip.destination.ToString(), " about a datagram from ",
                                   Address::V4(quote.From(12)).ToString()));
  }
}

void CheckFields4(Inspection& inspection, const IpPacket& ip, uint8_t type) {
  if ((type == 13 || type == 14) && ip.length != 20) {
    inspection.Report(Rule::kIcmpHeader,
                      absl::StrCat("timestamp message of ", ip.length, " bytes"));
  }
  // RFC 1191 §4: 0 is a router that does not know the field; nothing else is below 68.
  const uint16_t mtu = ip.payload.U16(6);
  if (type == 3 && ip.payload.U8(1) == 4 && mtu != 0 && mtu < 68) {
    inspection.Report(Rule::kIcmpHeader, absl::StrCat("fragmentation needed with MTU ", mtu));
  }
}

// The upper-layer protocol of a quoted IPv6 packet and where it starts, as far as the quote goes.
struct QuotedUpper {
  uint8_t protocol = 0;
  Bytes rest;
};
QuotedUpper FindQuotedUpper(Bytes quote) {
  QuotedUpper upper{quote.U8(6), quote.From(40)};
  for (;;) {
    uint32_t length = 0;
    switch (upper.protocol) {
      case Protocol::kHopByHop:
      case Protocol::kRouting:
      case Protocol::kDestinationOptions:
        length = (upper.rest.U8(1) + 1u) * 8;
        break;
      case Protocol::kFragment:
        if ((upper.rest.U16(2) & 0xfff8) != 0) return {Protocol::kNoNext, {}};
        length = 8;
        break;
      default:
        return upper;
    }
    if (upper.rest.size() < length) return {Protocol::kNoNext, {}};
    upper.protocol = upper.rest.U8(0);
    upper.rest = upper.rest.From(length);
  }
}

// RFC 4443 §2.4 (e).
const char* WhyAboutBad6(Bytes quote, uint8_t type, uint8_t code) {
  const Address source = Address::V6(quote.From(8));
  const bool multicast_allowed = type == 2 || (type == 4 && code == 2);
  if (Address::V6(quote.From(24)).is_multicast() && !multicast_allowed) return "about a multicast";
  if (source.is_unspecified() || source.is_multicast()) return "about a source that is no host";
  const QuotedUpper upper = FindQuotedUpper(quote);
  if (upper.protocol == Protocol::kIcmpv6 && !upper.rest.empty() && IsError6(upper.rest.U8(0))) {
    return "about an ICMPv6 error or redirect";
  }
  return nullptr;
}

void CheckQuote6(Inspection& inspection, const IpPacket& ip) {
  const Bytes quote = ip.payload.From(kMessageHeader);
  if (quote.size() < 40 || quote.U8(0) >> 4 != 6) {
    return inspection.Report(Rule::kIcmpQuote,
                             absl::StrCat(quote.size(), " bytes that are no IPv6 header"));
  }
  // RFC 4443 §2.4 (c): as much as fits into the minimum MTU, and not more.
  const uint32_t packet = ip.header_length + ip.length;
  if (packet > kMinimumMtu6)
    inspection.Report(Rule::kIcmpQuote, absl::StrCat("error of ", packet, " bytes"));
  const uint32_t invoking = 40u + quote.U16(4);
  if (quote.size() < invoking && packet < kMinimumMtu6) {
    inspection.Report(Rule::kIcmpQuote, absl::StrCat("only ", quote.size(), " bytes of ", invoking,
                                                     " though the error has only ", packet));
  }
  if (const char* why = WhyAboutBad6(quote, ip.payload.U8(0), ip.payload.U8(1))) {
    inspection.Report(Rule::kIcmpAbout, why);
  }
  if (Address::V6(quote.From(8)) != ip.destination) {
    inspection.Report(Rule::kIcmpQuote,
                      absl::StrCat("sent to ", ip.destination.ToString(), " about a packet from ",
                                   Address::V6(quote.From(8)).ToString()));
  }
}

// Errors go to one host.
void CheckErrorDestination(Inspection& inspection, const IpPacket& ip) {
  if (ip.destination.is_multicast() || (!ip.destination.v6 && ip.destination.v4() == 0xffffffff)) {
    inspection.Report(Rule::kIcmpAbout, absl::StrCat("error sent to ", ip.destination.ToString()));
  }
}

bool IsKnown4(uint8_t type) {
  return type == 0 || (type >= 3 && type <= 5) || (type >= 8 && type <= 18);
}

}  // namespace

void CheckIcmpv4(Inspection& inspection, const IpPacket& ip) {
  if (ip.length < kMessageHeader) {
    return inspection.Report(Rule::kIcmpHeader, absl::StrCat("message of ", ip.length, " bytes"));
  }
  CheckChecksum(inspection, ip, {.name = "ICMP", .field = 2, .pseudo_header = false});
  const uint8_t type = ip.payload.U8(0);
  const uint8_t code = ip.payload.U8(1);
  if (!IsKnown4(type)) return inspection.Report(Rule::kNotJudged, absl::StrCat("ICMP type ", type));
  if (const char* why = WhyTypeBad4(type, code)) {
    inspection.Report(Rule::kIcmpHeader, absl::StrCat("type ", type, " code ", code, ": ", why));
  }
  CheckFields4(inspection, ip, type);
  if (!IsError4(type)) return;
  CheckErrorDestination(inspection, ip);
  CheckQuote4(inspection, ip);
}

void CheckIcmpv6(Inspection& inspection, const IpPacket& ip) {
  const uint8_t type = ip.payload.U8(0);
  const uint8_t code = ip.payload.U8(1);
  if (ip.length < 4 || (ip.length < kMessageHeader && type != 143)) {
    return inspection.Report(Rule::kIcmpHeader, absl::StrCat("message of ", ip.length, " bytes"));
  }
  CheckChecksum(inspection, ip, {.name = "ICMPv6", .field = 2, .pseudo_header = true});
  if (const char* why = WhyTypeBad6(type, code)) {
    inspection.Report(Rule::kIcmpHeader, absl::StrCat("type ", type, " code ", code, ": ", why));
  }
  if (type >= 133 && type <= 137) return CheckNd(inspection, ip);
  if ((type >= 130 && type <= 132) || type == 143) return CheckMld(inspection, ip);
  if (type > 129 || (type > 4 && type < 128) || type == 0) {
    return inspection.Report(Rule::kNotJudged, absl::StrCat("ICMPv6 type ", type));
  }
  if (type >= 128) return;
  if (type == 2 && ip.payload.U32(4) < kMinimumMtu6) {
    inspection.Report(Rule::kIcmpHeader,
                      absl::StrCat("packet too big with MTU ", ip.payload.U32(4)));
  }
  CheckErrorDestination(inspection, ip);
  CheckQuote6(inspection, ip);
}

}  // namespace tapwire::capture
