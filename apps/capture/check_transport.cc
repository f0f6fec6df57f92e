// SPDX-License-Identifier: Apache-2.0
// Transport checksums and UDP.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

uint16_t PseudoSum(const IpPacket& ip, const ChecksumField& checksum) {
  return checksum.pseudo_header ? PseudoHeaderSum(ip.source, ip.destination, ip.protocol, ip.length)
                                : uint16_t{0};
}

// A checksum declared unfinished: the field must hold the sum of the pseudo-header (as virtio and
// Linux have it) and the metadata must point at it, or the device would finish the wrong thing.
void CheckPartial(Inspection& inspection, const IpPacket& ip, const ChecksumField& checksum) {
  const Frame::Partial& partial = *inspection.frame.partial;
  const uint32_t start = inspection.link_length + ip.header_length;
  if (partial.start != start || partial.offset != checksum.field) {
    inspection.Report(Rule::kPartialSum,
                      absl::StrCat(checksum.name, ": start/offset ", partial.start, "/",
                                   partial.offset, ", should be ", start, "/", checksum.field));
  }
  const uint16_t field = ip.payload.U16(checksum.field);
  const uint16_t sum = PseudoSum(ip, checksum);
  if (field != sum) {
    inspection.Report(Rule::kPartialSum,
                      absl::StrFormat("%s: field is 0x%04x, pseudo-header sum is 0x%04x",
                                      checksum.name, field, sum));
  }
  if (!inspection.options.ignored.contains(Rule::kPartial)) {
    ++inspection.report
          .counts[static_cast<size_t>(Rule::kPartial)];  // counted, not listed: it is declared
  }
}

}  // namespace

void CheckChecksum(Inspection& inspection, const IpPacket& ip, const ChecksumField& checksum) {
  if (inspection.frame.partial.has_value() && !ip.was_fragmented)
    return CheckPartial(inspection, ip, checksum);
  const uint16_t pseudo = PseudoSum(ip, checksum);
  if (OnesSum(ip.payload, pseudo) == 0xffff) return;

  const uint16_t field = ip.payload.U16(checksum.field);
  const uint16_t others = OnesSum(ip.payload.From(checksum.field + 2),
                                  OnesSum(ip.payload.First(checksum.field), pseudo));
  if (checksum.pseudo_header && field == pseudo && inspection.options.accept_pseudo_sums) {
    return inspection.Report(Rule::kPartial, absl::StrFormat("%s: 0x%04x", checksum.name, field));
  }
  inspection.Report(Rule::kChecksum,
                    absl::StrFormat("%s: is 0x%04x, should be 0x%04x%s", checksum.name, field,
                                    static_cast<uint16_t>(~others),
                                    checksum.pseudo_header && field == pseudo
                                        ? " (it is the pseudo-header sum: left to a device?)"
                                        : ""));
}

void CheckGso(Inspection& inspection, const IpPacket& ip, uint32_t transport_header) {
  const Frame& frame = inspection.frame;
  if (frame.gso_size == 0) return;
  const uint32_t payload = ip.length - std::min(ip.length, transport_header);
  if (payload <= frame.gso_size) {
    inspection.Report(
        Rule::kGso,
        absl::StrCat("payload ", payload, " does not exceed the segment size ", frame.gso_size));
  }
  const uint32_t segment = ip.header_length + transport_header + frame.gso_size;
  if (frame.mtu != 0 && segment > frame.mtu && frame.direction != Direction::kReceive) {
    inspection.Report(Rule::kMtu, absl::StrCat("segments of ", segment, " bytes, MTU ", frame.mtu));
  }
}

void CheckUdp(Inspection& inspection, const IpPacket& ip) {
  constexpr uint32_t kHeader = 8;
  const uint16_t length = ip.payload.U16(4);
  if (ip.length < kHeader || length < kHeader || length > ip.length) {
    return inspection.Report(Rule::kUdpLength,
                             absl::StrCat("UDP length ", length, ", IP payload ", ip.length));
  }
  if (length < ip.length) {
    inspection.Report(Rule::kUdpSurplus,
                      absl::StrCat("UDP length ", length, ", IP payload ", ip.length));
  }
  if (ip.payload.U16(2) == 0) inspection.Report(Rule::kUdpPort, "destination port 0");
  CheckGso(inspection, ip, kHeader);
  if (ip.payload.U16(6) == 0) {
    // RFC 8200 §8.1: not computed is allowed in IPv4 only.
    if (ip.source.v6) inspection.Report(Rule::kChecksum, "UDP over IPv6 without checksum");
    return;
  }
  IpPacket datagram = ip;
  datagram.length = length;
  datagram.payload = ip.payload.First(length);
  CheckChecksum(inspection, datagram, {.name = "UDP", .field = 6, .pseudo_header = true});
}

void CheckTransport(Inspection& inspection, const IpPacket& ip) {
  if (ip.payload.size() < ip.length) return;  // cut by the snap length
  switch (ip.protocol) {
    case Protocol::kUdp:
      return CheckUdp(inspection, ip);
    case Protocol::kTcp:
      return CheckTcp(inspection, ip);
    case Protocol::kIcmp:
      if (!ip.source.v6) return CheckIcmpv4(inspection, ip);
      break;
    case Protocol::kIgmp:
      if (!ip.source.v6) return CheckIgmp(inspection, ip);
      break;
    case Protocol::kIcmpv6:
      if (ip.source.v6) return CheckIcmpv6(inspection, ip);
      break;
    default:
      break;
  }
  inspection.Report(Rule::kNotJudged, absl::StrCat("IP protocol ", ip.protocol));
}

}  // namespace tapwire::capture
