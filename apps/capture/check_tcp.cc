// SPDX-License-Identifier: Apache-2.0
// What one TCP segment shows by itself. Rules that follow a connection are in tcp_tracker.cc.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/capture/inspection.h"

namespace tapwire::capture {
namespace {

constexpr uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kAck = 0x10;
constexpr uint8_t kFlagsThatMatter = 0x3f;  // without CWR and ECE
constexpr uint8_t kReservedBits = 0x0e;     // RFC 9293 §3.1; bit 0x01 is AE of RFC 9768
constexpr uint8_t kMss = 2, kWindowScale = 3, kSackPermitted = 4, kSack = 5, kTimestamps = 8;

struct TcpOption {
  uint8_t kind;
  Bytes bytes;  // kind and length included
};

const char* WhyFlagsBad(uint8_t flags) {
  flags &= kFlagsThatMatter;
  if (flags == 0) return "no flags at all";
  if ((flags & kSyn) != 0 && (flags & kFin) != 0) return "SYN and FIN";
  if ((flags & kSyn) != 0 && (flags & kRst) != 0) return "SYN and RST";
  if ((flags & kRst) != 0 && (flags & kFin) != 0) return "RST and FIN";
  // RFC 9293 §3.10.7.4, fifth: such a segment would be dropped by every receiver.
  if ((flags & (kSyn | kRst | kAck)) == 0) return "neither SYN, RST nor ACK";
  return nullptr;
}

// RFC 2018 §3: each block is a range of sequence numbers, left before right.
const char* WhySackBad(Bytes option) {
  if (option.size() < 10 || (option.size() - 2) % 8 != 0) return "SACK with a bad length";
  for (size_t at = 2; at < option.size(); at += 8) {
    if (static_cast<int32_t>(option.U32(at + 4) - option.U32(at)) <= 0)
      return "SACK block without bytes";
  }
  return nullptr;
}

const char* WhyOptionBad(const TcpOption& option, uint8_t flags) {
  const size_t length = option.bytes.size();
  switch (option.kind) {
    case kMss:
      if (length != 4) return "MSS of a length other than 4";
      return option.bytes.U16(2) == 0 ? "MSS of 0" : nullptr;
    case kWindowScale:
      if (length != 3) return "window scale of a length other than 3";
      // RFC 7323 §2.3: the shift is at most 14.
      return option.bytes.U8(2) > 14 ? "window scale above 14" : nullptr;
    case kSackPermitted:
      return length != 2 ? "SACK-permitted of a length other than 2" : nullptr;
    case kSack:
      return (flags & kSyn) != 0 ? "SACK blocks on a SYN" : WhySackBad(option.bytes);
    case kTimestamps:
      if (length != 10) return "timestamps of a length other than 10";
      // RFC 7323 §3.2: TSecr is zero when the ACK bit is not set.
      return (flags & (kAck | kRst)) == 0 && option.bytes.U32(6) != 0 ? "TSecr without ACK"
                                                                      : nullptr;
    default:
      return nullptr;
  }
}

bool IsSynOnly(uint8_t kind) {
  return kind == kMss || kind == kWindowScale || kind == kSackPermitted;
}

void CheckOption(Inspection& inspection, const TcpOption& option, uint8_t flags) {
  if (const char* why = WhyOptionBad(option, flags)) inspection.Report(Rule::kTcpOptions, why);
  // RFC 9293 MUST-65, RFC 7323 §2.2, RFC 2018 §2.
  if (IsSynOnly(option.kind) && (flags & kSyn) == 0) {
    inspection.Report(Rule::kTcpSynOption, absl::StrCat("option ", option.kind, " without SYN"));
  }
}

void CheckOptions(Inspection& inspection, Bytes options, uint8_t flags) {
  std::array<bool, 256> seen{};
  for (size_t at = 0; at < options.size();) {
    const uint8_t kind = options.U8(at);
    if (kind == 0) {
      // RFC 9293 MUST-69: the header padding is composed of zeros.
      if (!options.From(at).AllZero())
        inspection.Report(Rule::kTcpPadding, "bytes behind the end of options");
      return;
    }
    if (kind == 1) {
      ++at;
      continue;
    }
    const size_t length = options.U8(at + 1);
    if (length < 2 || at + length > options.size()) {
      return inspection.Report(Rule::kTcpOptions,
                               absl::StrCat("option ", kind, " with length ", length));
    }
    CheckOption(inspection, {kind, options.From(at).First(length)}, flags);
    if (seen[kind] && kind <= kTimestamps) {
      inspection.Report(Rule::kTcpOptions, absl::StrCat("option ", kind, " twice"));
    }
    seen[kind] = true;
    at += length;
  }
}

std::vector<TcpTracker::Breach> Follow(Inspection& inspection, const IpPacket& ip) {
  TcpSegment segment = ReadTcpSegment(ip.source, ip.destination, ip.payload, ip.length);
  const Frame& frame = inspection.frame;
  segment.time_ns = frame.time_ns;
  if (frame.gso_size != 0) segment.segment_size = std::min(segment.length, frame.gso_size);
  return inspection.flows.Add(segment, frame.direction, frame.interface);
}

}  // namespace

void ObserveTcp(Inspection& inspection, const IpPacket& ip) {
  const uint32_t header = (ip.payload.U8(12) >> 4) * 4u;
  if (header < 20 || header > ip.length || ip.payload.size() < header) return;
  static_cast<void>(Follow(inspection, ip));
}

void CheckTcp(Inspection& inspection, const IpPacket& ip) {
  const uint32_t header = (ip.payload.U8(12) >> 4) * 4u;
  if (ip.length < 20 || header < 20 || header > ip.length) {
    return inspection.Report(Rule::kTcpHeader,
                             absl::StrCat("data offset ", header, ", segment of ", ip.length));
  }
  if (ip.payload.U16(0) == 0 || ip.payload.U16(2) == 0)
    inspection.Report(Rule::kTcpHeader, "port 0");
  if ((ip.payload.U8(12) & kReservedBits) != 0)
    inspection.Report(Rule::kTcpHeader, "reserved bits set");
  // RFC 9293 MUST-57.
  if (ip.destination.is_multicast() || (!ip.destination.v6 && ip.destination.v4() == 0xffffffff)) {
    inspection.Report(Rule::kTcpHeader, absl::StrCat("sent to ", ip.destination.ToString()));
  }
  const uint8_t flags = ip.payload.U8(13);
  if (const char* why = WhyFlagsBad(flags)) {
    inspection.Report(Rule::kTcpFlags, absl::StrFormat("%s (0x%02x)", why, flags));
  }
  CheckOptions(inspection, ip.payload.First(header).From(20), flags);
  CheckGso(inspection, ip, header);
  if (inspection.frame.gso_size != 0 && (flags & (kSyn | kRst)) != 0) {
    inspection.Report(Rule::kGso, "SYN or RST in a super-packet");
  }
  CheckChecksum(inspection, ip, {.name = "TCP", .field = 16, .pseudo_header = true});
  for (TcpTracker::Breach& breach : Follow(inspection, ip))
    inspection.Report(breach.rule, std::move(breach.reason));
}

}  // namespace tapwire::capture
