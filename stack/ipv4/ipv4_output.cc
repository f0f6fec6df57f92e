// SPDX-License-Identifier: Apache-2.0
// IPv4 output: headers, and fragments of what is longer than the path MTU (RFC 791 §3.2).
#include <algorithm>
#include <utility>

#include "netdev/csum_offload.h"
#include "stack/interface.h"
#include "stack/ipv4/ipv4.h"
#include "stack/route.h"
#include "stack/stack.h"
#include "stack/wire_length.h"

namespace tapwire {

namespace {

constexpr size_t kMaxTotalLength = 65535;
// RFC 2113 §2.1: router shall examine packet.
constexpr std::initializer_list<uint8_t> kRouterAlert = {wire::Ipv4OptionType::kRouterAlert, 4, 0,
                                                         0};

// Datagrams that a packet becomes, so that many identifications are taken.
uint16_t DatagramCount(const Packet& packet) {
  const GsoInfo& gso = packet.meta.gso;
  if (gso.size == 0) return 1;
  if (gso.segs != 0) return gso.segs;
  return static_cast<uint16_t>((packet.length() + gso.size - 1) / gso.size);
}

// The network may only ever see our own unicast addresses and none of 127/8 (RFC 1122 §3.2.1.3).
bool MayLeave(const Route& route) {
  if (route.interface == nullptr) return false;
  const bool loopback = route.source.IsLoopback() || route.destination.IsLoopback();
  return !loopback || route.interface->device().is_loopback();
}

}  // namespace

netdev::TxResult Ipv4::Output(PacketPtr packet, const Route& route, const IpSendOptions& options) {
  stack_.mib().ip.out_requests.Inc();
  if (!MayLeave(route)) {
    stack_.mib().ip.out_no_routes.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kNoRoute, DropReason::kTxNoRoute);
  }
  wire::Ipv4Fields fields;
  fields.tos = options.tos;
  fields.dont_fragment = options.dont_fragment;
  // RFC 1122 §3.2.1.7: a TTL of zero MUST NOT be sent.
  fields.ttl = std::max<uint8_t>(options.ttl != 0 ? options.ttl : stack_.config().default_ttl, 1);
  fields.protocol = options.protocol;
  fields.source = route.source.v4();
  fields.destination = route.destination.v4();
  if (options.router_alert) fields.options = kRouterAlert;
  const size_t total = fields.length() + packet->length();
  const bool fits = WireLength(*packet, options.protocol, fields.length()) <= RouteMtu(route);
  const bool may_cut = !options.dont_fragment && packet->meta.gso.size == 0;
  if (total > kMaxTotalLength || (!fits && !may_cut)) {
    stack_.mib().ip.frag_fails.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kTooBig,
                  DropReason::kIpv4FragmentationNeeded);
  }
  // RFC 6864 §4.1: the identification of an atomic datagram means nothing; a constant tells
  // nothing.
  if (!options.dont_fragment) {
    fields.identification =
        ids_.Take(fields.source, fields.destination, fields.protocol, DatagramCount(*packet));
  }
  return fits ? SendWhole(std::move(packet), route, fields)
              : SendFragments(std::move(packet), route, fields);
}

netdev::TxResult Ipv4::Refuse(PacketPtr packet, netdev::TxResult result, DropReason reason) {
  stack_.Drop(std::move(packet), reason);
  return result;
}

netdev::TxResult Ipv4::SendWhole(PacketPtr packet, const Route& route, wire::Ipv4Fields& fields) {
  if (!packet->EnsureHeadroom(fields.length() + kLinkHeadroom)) {
    stack_.mib().ip.out_discards.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kNoBuffer, DropReason::kTxNoBuffer);
  }
  fields.total_length = static_cast<uint16_t>(fields.length() + packet->length());
  packet->set_l4_here();
  fields.Emit(packet->Push(fields.length()));
  return Transmit(std::move(packet), route);
}

netdev::TxResult Ipv4::SendFragments(PacketPtr packet, const Route& route,
                                     wire::Ipv4Fields& fields) {
  IpCounters& counters = stack_.mib().ip;
  const size_t mtu = RouteMtu(route);
  // RFC 791 §3.2: all but the last are a multiple of eight bytes long.
  const size_t piece_bytes = mtu > fields.length() ? (mtu - fields.length()) & ~size_t{7} : 0;
  if (piece_bytes == 0) {
    counters.frag_fails.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kTooBig,
                  DropReason::kIpv4FragmentationNeeded);
  }
  // A device cannot finish a checksum over bytes that travel in several packets.
  PacketList fragments;
  if (!netdev::ChecksumHelp(*packet) || !CutFragments(*packet, piece_bytes, fields, fragments)) {
    counters.frag_fails.Inc();
    counters.out_discards.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kNoBuffer, DropReason::kTxNoBuffer);
  }
  counters.frag_oks.Inc();
  counters.frag_creates.Inc(fragments.size());
  netdev::TxResult result = netdev::TxResult::kSent;
  // Once one is lost, the rest would only cost the receiver memory.
  while (netdev::TxOk(result) && !fragments.empty()) {
    result = Transmit(fragments.PopFront(), route);
  }
  return result;
}

// All of them first: without memory for one, none is sent. Payload in slabs is shared.
bool Ipv4::CutFragments(const Packet& packet, size_t piece_bytes, wire::Ipv4Fields& fields,
                        PacketList& out) {
  const size_t length = packet.length();
  for (size_t offset = 0; offset < length; offset += piece_bytes) {
    const size_t piece_length = std::min(piece_bytes, length - offset);
    PacketPtr piece = packet.Slice(offset, piece_length);
    if (piece == nullptr) return false;
    piece->meta.csum_state = CsumState::kNone;
    piece->set_l4_here();
    // RFC 791 §3.1: options with the copied flag go into every fragment; router alert is the only
    // option we send, and has it.
    fields.fragment_offset = offset;
    fields.more_fragments = offset + piece_length < length;
    fields.total_length = static_cast<uint16_t>(fields.length() + piece_length);
    fields.Emit(piece->Push(fields.length()));
    out.PushBack(std::move(piece));
  }
  return true;
}

netdev::TxResult Ipv4::Transmit(PacketPtr packet, const Route& route) {
  const size_t length = packet->length();
  const netdev::TxResult result = route.interface->Output(std::move(packet), route);
  if (netdev::TxOk(result)) {
    stack_.mib().ip.out_octets.Inc(length);
  } else {
    stack_.mib().ip.out_discards.Inc();
  }
  return result;
}

}  // namespace tapwire
