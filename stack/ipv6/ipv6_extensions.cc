// SPDX-License-Identifier: Apache-2.0
// The walk over the extension headers of a received packet (RFC 8200 §4): strictly in order, each
// handled where it stands. A header is read only after it has been made contiguous; the number of
// headers is limited, and the work is bounded by their bytes.
#include <utility>

#include "netdev/wire/ip_protocol.h"
#include "stack/ipv6/ipv6.h"
#include "stack/stack.h"

namespace tapwire {

DropReason Ipv6::WalkHeaders(Walk& walk) {
  for (;;) {
    switch (walk.info.protocol) {
      case wire::IpProtocol::kIpv6HopByHop:
      case wire::IpProtocol::kIpv6DestOpts:
      case wire::IpProtocol::kIpv6Routing:
      case wire::IpProtocol::kIpv6Fragment:
        break;
      case wire::IpProtocol::kIpv6NoNext:
        // RFC 8200 §4.7: what follows is ignored.
        return stack_.Drop(std::move(walk.packet), DropReason::kIpv6NoNextHeader);
      default:
        return Deliver(walk);
    }
    if (const Problem problem = StepOver(walk)) return Refuse(walk, problem);
    // A fragment was kept or dropped (and counted) by reassembly.
    if (walk.packet == nullptr) return walk.taken;
  }
}

DropReason Ipv6::Refuse(Walk& walk, const Problem& problem) {
  IpCounters& counters = stack_.mib().ip6;
  (problem.reason == DropReason::kLinkNoBuffer ? counters.in_discards : counters.in_hdr_errors)
      .Inc();
  if (problem.kind != IcmpErrorKind::kOther) {
    stack_.SendIcmpError(*walk.packet, walk.info, problem.kind, problem.pointer);
  }
  return stack_.Drop(std::move(walk.packet), problem.reason);
}

Ipv6::Problem Ipv6::StepOver(Walk& walk) {
  if (++walk.headers > kMaxExtensionHeaders) {
    return {.reason = DropReason::kIpv6ExtensionChainTooLong};
  }
  switch (walk.info.protocol) {
    case wire::IpProtocol::kIpv6HopByHop:
      // RFC 8200 §4.1: only behind the fixed header; elsewhere as an unrecognised next header.
      if (walk.offset != wire::Ipv6Header::kLength || walk.fragment_header_seen) {
        return {.reason = DropReason::kIpv6HopByHopNotFirst,
                .kind = IcmpErrorKind::kProtocolUnreachable,
                .pointer = walk.info.next_header_offset};
      }
      return StepOverOptions(walk);
    case wire::IpProtocol::kIpv6DestOpts:
      return StepOverOptions(walk);
    case wire::IpProtocol::kIpv6Routing:
      return StepOverRouting(walk);
    default:
      return StepOverFragment(walk);
  }
}

// Makes the header at walk.offset contiguous. `minimum`: bytes that this kind has at least.
Ipv6::Problem Ipv6::ReadHeader(Walk& walk, size_t minimum, std::span<const uint8_t>& header) {
  const size_t left = walk.packet->length() - walk.offset;
  // RFC 4443 §3.4: the pointer names the field at fault, here the length, even if it lies beyond
  // the packet.
  const Problem cut_off = {.reason = DropReason::kIpv6BadExtensionHeader,
                           .kind = IcmpErrorKind::kParameterProblem,
                           .pointer = static_cast<uint32_t>(walk.offset + 1)};
  if (left < minimum) return cut_off;
  if (!walk.packet->EnsureLinear(walk.offset + minimum))
    return {.reason = DropReason::kLinkNoBuffer};
  size_t length = minimum;
  if (walk.info.protocol != wire::IpProtocol::kIpv6Fragment) {
    length = (walk.packet->data()[walk.offset + 1] + size_t{1}) * 8;
    if (left < length) return cut_off;
    if (!walk.packet->EnsureLinear(walk.offset + length))
      return {.reason = DropReason::kLinkNoBuffer};
  }
  header = std::as_const(*walk.packet).head_bytes().subspan(walk.offset, length);
  return {};
}

namespace {

// Goes behind `header`, which starts at walk.offset.
template <typename Walk>
void Advance(Walk& walk, std::span<const uint8_t> header) {
  walk.info.protocol = header[0];
  walk.info.next_header_offset = static_cast<uint16_t>(walk.offset);
  walk.offset += header.size();
}

}  // namespace

Ipv6::Problem Ipv6::StepOverOptions(Walk& walk) {
  std::span<const uint8_t> bytes;
  if (const Problem problem = ReadHeader(walk, wire::Ipv6OptionsHeader::kMinLength, bytes)) {
    return problem;
  }
  if (const Problem problem = CheckOptions(walk, *wire::Ipv6OptionsHeader::Parse(bytes))) {
    return problem;
  }
  Advance(walk, bytes);
  return {};
}

// RFC 8200 §4.2: the highest two bits say what to do about an option that is not known. Padding and
// router alert (RFC 2711: of interest to routers) are known; everything else is not. Padding is not
// limited (RFC 8504 §5.3 leaves that open).
Ipv6::Problem Ipv6::CheckOptions(const Walk& walk, const wire::Ipv6OptionsHeader& header) const {
  wire::Ipv6OptionIterator options = header.options();
  while (const auto option = options.Next()) {
    if (option->IsPadding() || option->type == wire::Ipv6OptionType::kRouterAlert) continue;
    const auto pointer = static_cast<uint32_t>(walk.offset + option->offset);
    const bool jumbo = option->type == wire::Ipv6OptionType::kJumboPayload;
    const DropReason reported = jumbo ? DropReason::kIpv6Jumbogram : DropReason::kIpv6OptionProblem;
    switch (option->action()) {
      case wire::Ipv6OptionAction::kSkip:
        continue;
      case wire::Ipv6OptionAction::kDiscard:
        return {.reason = DropReason::kIpv6OptionDiscard};
      case wire::Ipv6OptionAction::kDiscardAndReport:
        return {reported, IcmpErrorKind::kUnrecognizedOption, pointer};
      case wire::Ipv6OptionAction::kDiscardAndReportIfUnicast:
        if (walk.info.delivery != IpDelivery::kUnicast) return {.reason = reported};
        return {reported, IcmpErrorKind::kUnrecognizedOption, pointer};
    }
  }
  if (!options.malformed()) return {};
  return {DropReason::kIpv6BadExtensionHeader, IcmpErrorKind::kParameterProblem,
          static_cast<uint32_t>(walk.offset + options.error_offset())};
}

// RFC 8200 §4.4: no routing type is known here, type 0 included (RFC 5095 §3).
Ipv6::Problem Ipv6::StepOverRouting(Walk& walk) {
  std::span<const uint8_t> bytes;
  if (const Problem problem = ReadHeader(walk, wire::Ipv6RoutingHeader::kMinLength, bytes)) {
    return problem;
  }
  if (wire::Ipv6RoutingHeader::Parse(bytes)->segments_left() != 0) {
    return {DropReason::kIpv6RoutingHeader, IcmpErrorKind::kParameterProblem,
            static_cast<uint32_t>(walk.offset + 2)};
  }
  Advance(walk, bytes);
  return {};
}

Ipv6::Problem Ipv6::StepOverFragment(Walk& walk) {
  std::span<const uint8_t> bytes;
  if (const Problem problem = ReadHeader(walk, wire::Ipv6FragmentHeader::kLength, bytes)) {
    return problem;
  }
  // A fragment of a fragment is nothing a sender makes.
  if (std::exchange(walk.fragment_header_seen, true)) {
    return {.reason = DropReason::kIpv6AtomicFragmentBad};
  }
  const wire::Ipv6FragmentHeader header = *wire::Ipv6FragmentHeader::Parse(bytes);
  if (!header.IsAtomic()) return Reassemble(walk, header);
  Advance(walk, bytes);  // RFC 6946 §4: by itself, whatever is queued under its identification
  walk.info.reassembled = true;
  return {};
}

}  // namespace tapwire
