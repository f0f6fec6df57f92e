// SPDX-License-Identifier: Apache-2.0
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

constexpr uint16_t kReserved = 0x8000, kDontFragment = 0x4000, kMoreFragments = 0x2000,
                   kOffsetMask = 0x1fff;

// The fixed header, once its lengths are known to be possible.
struct Ipv4Header {
  uint32_t header_length = 0;
  uint32_t total_length = 0;
  uint16_t id = 0;
  uint16_t flags_and_offset = 0;

  uint32_t offset() const { return (flags_and_offset & kOffsetMask) * 8u; }
  bool more() const { return (flags_and_offset & kMoreFragments) != 0; }
  bool is_fragment() const { return more() || offset() != 0; }
  // RFC 6864 §4: DF set and not in fragments.
  bool is_atomic() const { return !is_fragment() && (flags_and_offset & kDontFragment) != 0; }
};

// What one option may look like: RFC 791 §3.1, RFC 2113. nullptr if fine.
const char* WhyOptionBad(Bytes option) {
  const size_t length = option.U8(1);
  switch (option.U8(0)) {
    case 7:    // record route
    case 131:  // loose source route
    case 137:  // strict source route
      return length < 3 || option.U8(2) < 4 ? "route option with a bad length or pointer" : nullptr;
    case 68:  // timestamp
      return length < 4 || option.U8(2) < 5 ? "timestamp option with a bad length or pointer"
                                            : nullptr;
    case 148:
      return length != 4 ? "router alert of a length other than 4" : nullptr;
    default:
      return nullptr;
  }
}

// Returns whether router alert was among them.
bool CheckOptions(Inspection& inspection, Bytes options) {
  bool router_alert = false;
  for (size_t at = 0; at < options.size();) {
    const uint8_t type = options.U8(at);
    if (type == 0) {
      if (!options.From(at).AllZero())
        inspection.Report(Rule::kIpv4Options, "bytes behind the end of options");
      break;
    }
    if (type == 1) {
      ++at;
      continue;
    }
    const size_t length = options.U8(at + 1);
    if (length < 2 || at + length > options.size()) {
      inspection.Report(Rule::kIpv4Options, absl::StrCat("option ", type, " with length ", length));
      break;
    }
    if (const char* why = WhyOptionBad(options.From(at).First(length)))
      inspection.Report(Rule::kIpv4Options, why);
    router_alert = router_alert || type == 148;
    at += length;
  }
  return router_alert;
}

std::optional<Ipv4Header> ParseHeader(Inspection& inspection, Bytes packet) {
  if (packet.size() < 20) {
    if (!inspection.snapped) {
      inspection.Report(Rule::kFrameShort,
                        absl::StrCat("IPv4 header of ", packet.size(), " bytes"));
    }
    return std::nullopt;
  }
  const Ipv4Header header{.header_length = (packet.U8(0) & 15u) * 4,
                          .total_length = packet.U16(2),
                          .id = packet.U16(4),
                          .flags_and_offset = packet.U16(6)};
  const size_t present = inspection.snapped
                             ? inspection.frame.original_length - inspection.link_length
                             : packet.size();
  const char* why = nullptr;
  if (packet.U8(0) >> 4 != 4)
    why = "version is not 4";
  else if (header.header_length < 20)
    why = "header length below 20";
  else if (header.total_length < header.header_length)
    why = "total length below the header length";
  else if (header.total_length > present)
    why = "total length beyond the frame";
  if (why == nullptr) return header;
  inspection.Report(Rule::kIpv4Header,
                    absl::StrCat(why, ": version/IHL ", absl::Hex(packet.U8(0)), ", total length ",
                                 header.total_length, ", ", present, " bytes in the frame"));
  return std::nullopt;
}

void CheckFixedHeader(Inspection& inspection, const Ipv4Header& header, Bytes packet) {
  const Bytes bytes = packet.First(header.header_length);
  if (bytes.size() == header.header_length && OnesSum(bytes) != 0xffff) {
    const uint16_t field = packet.U16(10);
    const auto right = static_cast<uint16_t>(
        ~OnesSum(packet.From(12).First(header.header_length - 12), OnesSum(packet.First(10))));
    inspection.Report(Rule::kIpv4Checksum,
                      absl::StrFormat("is 0x%04x, should be 0x%04x", field, right));
  }
  if ((header.flags_and_offset & kReserved) != 0)
    inspection.Report(Rule::kIpv4Flags, "reserved flag is set");
  if ((header.flags_and_offset & kDontFragment) != 0 && header.is_fragment()) {
    inspection.Report(Rule::kIpv4Flags, "DF on a fragment");
  }
  if (packet.U8(8) == 0) inspection.Report(Rule::kTtl, "TTL is 0");
}

void CheckIdentification(Inspection& inspection, const Ipv4Header& header, const IpPacket& ip) {
  if (inspection.options.ipv4_id_window_ns == 0 || header.is_atomic() || header.offset() != 0)
    return;
  const Frame& frame = inspection.frame;
  const Ipv4IdTracker::Key key{.interface = frame.interface,
                               .direction = frame.direction,
                               .protocol = ip.protocol,
                               .id = header.id,
                               .source = ip.source.v4(),
                               .destination = ip.destination.v4()};
  const uint64_t digest = absl::HashOf(
      absl::MakeConstSpan(ip.payload.span().data(), ip.payload.size()), header.total_length);
  switch (inspection.ids.Add(key, digest, frame.time_ns, inspection.options.ipv4_id_window_ns)) {
    case Ipv4IdTracker::Verdict::kNew:
      return;
    case Ipv4IdTracker::Verdict::kCopy:
      // The network may double a datagram; its sender may not (RFC 6864 §4.3).
      if (frame.direction != Direction::kTransmit) {
        return inspection.Report(Rule::kIpv4Copy, absl::StrCat("identification ", header.id));
      }
      [[fallthrough]];
    case Ipv4IdTracker::Verdict::kReused:
      return inspection.Report(
          Rule::kIpv4Id, absl::StrCat("identification ", header.id, " again from ",
                                      ip.source.ToString(), " to ", ip.destination.ToString()));
  }
}

// Whether the fragment is sound enough to take part in reassembly.
bool FragmentIsSound(Inspection& inspection, const Ipv4Header& header) {
  const uint32_t length = header.total_length - header.header_length;
  const char* why = nullptr;
  if (length == 0)
    why = "no data";
  else if (header.more() && length % 8 != 0)
    why = "not the last, and its length is no multiple of 8";
  else if (header.offset() + header.total_length > 65535)
    why = "ends beyond 65535";
  else if (inspection.frame.gso_size != 0)
    why = "a fragment is marked as super-packet";
  if (why == nullptr) return true;
  inspection.Report(Rule::kFragment,
                    absl::StrCat(why, ": offset ", header.offset(), ", length ", length));
  return false;
}

void CheckFragment(Inspection& inspection, const Ipv4Header& header, IpPacket ip) {
  if (!FragmentIsSound(inspection, header) || ip.payload.size() < ip.length) return;
  const FragmentKey key{.interface = inspection.frame.interface,
                        .direction = inspection.frame.direction,
                        .protocol = ip.protocol,
                        .id = header.id,
                        .source = ip.source,
                        .destination = ip.destination};
  const FragmentTracker::Verdict verdict = inspection.fragments.Add(key,
                                                                    {.offset = header.offset(),
                                                                     .more = header.more(),
                                                                     .payload = ip.payload,
                                                                     .next_header = ip.protocol},
                                                                    inspection.frame.time_ns);
  if (verdict.overlap) {
    inspection.Report(Rule::kFragmentOverlap,
                      absl::StrCat("identification ", header.id, ", offset ", header.offset(),
                                   ", length ", ip.length));
  }
  if (verdict.copy)
    inspection.Report(Rule::kFragmentCopy, absl::StrCat("identification ", header.id));
  if (!verdict.complete.has_value()) return;
  ip.was_fragmented = true;
  ip.payload = Bytes(*verdict.complete);
  ip.length = static_cast<uint32_t>(ip.payload.size());
  CheckTransport(inspection, ip);
}

}  // namespace

void CheckIpv4(Inspection& inspection, Bytes packet) {
  const std::optional<Ipv4Header> header = ParseHeader(inspection, packet);
  if (!header.has_value()) return;
  CheckFixedHeader(inspection, *header, packet);
  CheckTrailer(inspection, packet, header->total_length);
  CheckMtu(inspection, header->total_length);

  IpPacket ip;
  ip.router_alert = CheckOptions(inspection, packet.First(header->header_length).From(20));
  ip.source = Address::V4(packet.From(12));
  ip.destination = Address::V4(packet.From(16));
  ip.protocol = packet.U8(9);
  ip.ttl = packet.U8(8);
  ip.tos = packet.U8(1);
  ip.header_length = header->header_length;
  ip.length = header->total_length - header->header_length;
  ip.payload = packet.First(header->total_length).From(header->header_length);
  CheckAddresses(inspection, ip);
  CheckIdentification(inspection, *header, ip);
  if (header->is_fragment()) {
    CheckFragment(inspection, *header, ip);
  } else {
    CheckTransport(inspection, ip);
  }
}

}  // namespace tapwire::capture
