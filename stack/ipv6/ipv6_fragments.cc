// SPDX-License-Identifier: Apache-2.0
// Received fragments (RFC 8200 §4.5): the checks that are answered, and the way back from a
// reassembled payload to a packet whose headers can be walked on.
#include <cstring>
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "stack/interface.h"
#include "stack/ipv6/ipv6.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr uint32_t kPayloadLengthOffset = 4;        // in the fixed header
constexpr uint32_t kFragmentOffsetFieldOffset = 2;  // in the fragment header

// What an upper-layer header has at least; unknown ones count as one byte.
size_t MinimumUpperHeader(uint8_t protocol) {
  switch (protocol) {
    case wire::IpProtocol::kTcp:
      return wire::TcpHeader::kMinLength;
    case wire::IpProtocol::kUdp:
      return wire::UdpHeader::kLength;
    case wire::IpProtocol::kIcmpv6:
      return 4;
    default:
      return 1;
  }
}

// RFC 7112 §5: a first fragment holds all headers up to and including the upper-layer one.
DropReason CheckFirstFragment(Packet& packet, uint8_t next_header) {
  const bool chain_goes_on = wire::IsIpv6Extension(next_header);
  if (chain_goes_on && !packet.Linearize()) return DropReason::kLinkNoBuffer;
  wire::Ipv6ExtensionIterator chain(next_header, packet.head_bytes());
  while (chain.Next()) {
  }
  size_t upper_bytes = packet.length();
  if (chain_goes_on) {
    if (chain.end() == wire::Ipv6ChainEnd::kTruncated) return DropReason::kFragmentHeaderChain;
    // Whatever else is wrong shows when the walk comes there.
    if (chain.end() != wire::Ipv6ChainEnd::kUpperLayer) return DropReason::kNone;
    upper_bytes = chain.payload().size();
  }
  if (next_header == wire::IpProtocol::kIpv6NoNext) return DropReason::kNone;
  return upper_bytes < MinimumUpperHeader(chain.next_header()) ? DropReason::kFragmentTinyFirst
                                                               : DropReason::kNone;
}

// Addresses of one link's scope may exist on another link too.
uint32_t ZoneOf(const IpPacketInfo& info) {
  const bool one_link = info.source.IsLinkLocal() || info.destination.IsLinkLocal();
  return one_link && info.interface != nullptr ? info.interface->index() : 0;
}

}  // namespace

// What RFC 8200 §4.5 wants answered. `walk` stands at the fragment header.
Ipv6::Problem Ipv6::CheckFragment(const Walk& walk, const Reassembler::Fragment& fragment) const {
  switch (Reassembler::CheckBounds(fragment)) {
    case DropReason::kFragmentBadLength:
      return {DropReason::kFragmentBadLength, IcmpErrorKind::kParameterProblem,
              kPayloadLengthOffset};
    case DropReason::kFragmentTooBig:
      return {DropReason::kFragmentTooBig, IcmpErrorKind::kParameterProblem,
              static_cast<uint32_t>(walk.offset) + kFragmentOffsetFieldOffset};
    case DropReason::kFragmentEmpty:
      return {.reason = DropReason::kFragmentEmpty};
    default:
      break;
  }
  if (fragment.offset != 0) return {};
  const DropReason bad = CheckFirstFragment(*fragment.packet, fragment.info.protocol);
  if (bad == DropReason::kFragmentHeaderChain || bad == DropReason::kFragmentTinyFirst) {
    return {bad, IcmpErrorKind::kIncompleteHeaderChain, 0};
  }
  return {.reason = bad};
}

Ipv6::Problem Ipv6::Reassemble(Walk& walk, const wire::Ipv6FragmentHeader& header) {
  Reassembler::Fragment fragment;
  fragment.key = {.source = walk.info.source,
                  .destination = walk.info.destination,
                  .identification = header.identification(),
                  .zone = ZoneOf(walk.info)};
  fragment.offset = static_cast<uint32_t>(header.fragment_offset());
  fragment.more = header.more_fragments();
  fragment.header_length = static_cast<uint32_t>(walk.offset - wire::Ipv6Header::kLength);
  fragment.info = walk.info;
  // Of the first fragment this is the protocol of the datagram, of others it is ignored.
  fragment.info.protocol = header.next_header();
  const size_t payload_offset = walk.offset + wire::Ipv6FragmentHeader::kLength;
  walk.packet->Pull(payload_offset);
  fragment.packet = std::move(walk.packet);
  if (const Problem problem = CheckFragment(walk, fragment)) {
    stack_.mib().ip6.reasm_reqds.Inc();
    walk.packet = std::move(fragment.packet);
    return problem;
  }
  Reassembler::Result result = reassembler_.Add(std::move(fragment));
  walk.taken = result.reason;
  walk.packet = std::move(result.datagram);
  if (walk.packet == nullptr) return {};
  walk.info = result.info;
  RebuildHeader(walk);
  return {};
}

// RFC 8200 §4.5: the headers are those of the first fragment, without the fragment header, whose
// place the headers before it take by moving up; the packet is then as it was before it was cut.
//
//   data() before:                        v
//   | IPv6 | per-fragment headers | frag | payload …
//           | IPv6 | per-fragment headers | payload …
//   data() ^ after
void Ipv6::RebuildHeader(Walk& walk) {
  Packet& packet = *walk.packet;
  const auto all_headers = static_cast<size_t>(-packet.l3_in_data());
  const size_t kept = all_headers - wire::Ipv6FragmentHeader::kLength;
  const size_t payload_length = kept - wire::Ipv6Header::kLength + packet.length();
  uint8_t* const old_start = packet.Push(all_headers).data();
  std::memmove(old_start + wire::Ipv6FragmentHeader::kLength, old_start, kept);
  packet.Pull(wire::Ipv6FragmentHeader::kLength);
  packet.set_l3_here();
  uint8_t* const header = packet.data();
  const uint8_t tos = walk.info.tos;
  header[0] = static_cast<uint8_t>((header[0] & 0xf0) | tos >> 4);
  header[1] = static_cast<uint8_t>((tos & 0x0f) << 4 | (header[1] & 0x0f));
  StoreBe16(header + 4, static_cast<uint16_t>(payload_length));
  header[walk.info.next_header_offset] = walk.info.protocol;
  walk.offset = kept;
}

}  // namespace tapwire
