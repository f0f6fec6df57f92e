// SPDX-License-Identifier: Apache-2.0
// IPv6 output: headers, and fragments of what is longer than the path MTU. Only we, the source, may
// cut (RFC 8200 §5), and nothing that fits is cut: no atomic fragments (RFC 8504 §5.1).
#include <algorithm>
#include <array>
#include <utility>

#include "netdev/csum_offload.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/interface.h"
#include "stack/ipv6/ipv6.h"
#include "stack/route.h"
#include "stack/stack.h"
#include "stack/wire_length.h"

namespace tapwire {
namespace {

constexpr size_t kMaxPayloadLength = 65535;
constexpr uint32_t kFlowLabelMask = 0xfffff;
// A hop-by-hop header with router alert, value 0 (RFC 2711 §2.1: a datagram with a Multicast
// Listener Discovery message), and PadN.
constexpr std::array<uint8_t, 8> kRouterAlertHeader = {0, 0, wire::Ipv6OptionType::kRouterAlert, 2,
                                                       0, 0, wire::Ipv6OptionType::kPadN,        0};

// RFC 4291 §2.5.3: the loopback address never leaves the node.
bool MayLeave(const Route& route) {
  if (route.interface == nullptr) return false;
  const bool loopback = route.source.IsLoopback() || route.destination.IsLoopback();
  return !loopback || route.interface->device().is_loopback();
}

bool HasPorts(uint8_t protocol) {
  return protocol == wire::IpProtocol::kTcp || protocol == wire::IpProtocol::kUdp;
}

}  // namespace

// The headers of one packet: fixed, hop-by-hop if there is a router alert, fragment if it is cut.
struct Ipv6::Headers {
  wire::Ipv6Fields fixed;
  uint8_t protocol = 0;
  bool router_alert = false;

  size_t per_fragment_length() const {
    return wire::Ipv6Header::kLength + (router_alert ? kRouterAlertHeader.size() : 0);
  }
  // Puts them before data(); `next_header` is what stands there.
  void Push(Packet& packet, uint8_t next_header) {
    if (router_alert) {
      const std::span<uint8_t> alert = packet.Push(kRouterAlertHeader.size());
      std::copy(kRouterAlertHeader.begin(), kRouterAlertHeader.end(), alert.begin());
      alert[0] = next_header;
      next_header = wire::IpProtocol::kIpv6HopByHop;
    }
    fixed.next_header = next_header;
    fixed.payload_length = static_cast<uint16_t>(packet.length());
    fixed.Emit(packet.Push(wire::Ipv6Header::kLength));
  }
};

netdev::TxResult Ipv6::Output(PacketPtr packet, const Route& route, const IpSendOptions& options) {
  IpCounters& counters = stack_.mib().ip6;
  counters.out_requests.Inc();
  if (!MayLeave(route)) {
    counters.out_no_routes.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kNoRoute, DropReason::kTxNoRoute);
  }
  const uint8_t hop_limit = options.ttl != 0 ? options.ttl : stack_.config().default_hop_limit;
  Headers headers{.fixed = {.traffic_class = options.tos,
                            .flow_label = FlowLabel(*packet, route, options),
                            .hop_limit = std::max<uint8_t>(hop_limit, 1),
                            .source = route.source.v6(),
                            .destination = route.destination.v6()},
                  .protocol = options.protocol,
                  .router_alert = options.router_alert};
  const size_t length = headers.per_fragment_length();
  const bool fits = WireLength(*packet, options.protocol, length) <= RouteMtu(route);
  // A link below 1280 bytes has to cut and join by itself (RFC 8200 §5); fragments are for paths.
  const bool may_cut =
      !options.dont_fragment && packet->meta.gso.size == 0 && RouteMtu(route) >= wire::kIpv6MinMtu;
  const size_t payload_length = length - wire::Ipv6Header::kLength + packet->length();
  if (payload_length > kMaxPayloadLength || (!fits && !may_cut)) {
    counters.frag_fails.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kTooBig, DropReason::kIpv6TooBig);
  }
  return fits ? SendWhole(std::move(packet), route, headers)
              : SendFragments(std::move(packet), route, headers);
}

// RFC 6437 §3: constant for a flow and not to be guessed. A transport may give its own.
uint32_t Ipv6::FlowLabel(const Packet& packet, const Route& route,
                         const IpSendOptions& options) const {
  if (options.flow_label != 0) return options.flow_label & kFlowLabelMask;
  constexpr size_t kPortBytes = 4;
  if (!HasPorts(options.protocol) || packet.head_length() < kPortBytes) return 0;
  std::array<uint8_t, 2 * Ipv6Address::kLength + kPortBytes + 1> flow;
  route.source.v6().CopyTo(flow.data());
  route.destination.v6().CopyTo(flow.data() + Ipv6Address::kLength);
  std::copy_n(packet.data(), kPortBytes, flow.data() + 2 * Ipv6Address::kLength);
  flow.back() = options.protocol;
  const auto label = static_cast<uint32_t>(SipHash13(flow_label_key_, flow)) & kFlowLabelMask;
  return std::max<uint32_t>(label, 1);  // zero means "not labelled"
}

netdev::TxResult Ipv6::Refuse(PacketPtr packet, netdev::TxResult result, DropReason reason) {
  stack_.Drop(std::move(packet), reason);
  return result;
}

netdev::TxResult Ipv6::SendWhole(PacketPtr packet, const Route& route, Headers& headers) {
  if (!packet->EnsureHeadroom(headers.per_fragment_length() + kLinkHeadroom)) {
    stack_.mib().ip6.out_discards.Inc();
    return Refuse(std::move(packet), netdev::TxResult::kNoBuffer, DropReason::kTxNoBuffer);
  }
  packet->set_l4_here();
  headers.Push(*packet, headers.protocol);
  return Transmit(std::move(packet), route);
}

netdev::TxResult Ipv6::SendFragments(PacketPtr packet, const Route& route, Headers& headers) {
  IpCounters& counters = stack_.mib().ip6;
  const size_t piece_bytes =
      (RouteMtu(route) - headers.per_fragment_length() - wire::Ipv6FragmentHeader::kLength) &
      ~size_t{7};
  // A device cannot finish a checksum over bytes that travel in several packets.
  PacketList fragments;
  if (!netdev::ChecksumHelp(*packet) || !CutFragments(*packet, piece_bytes, headers, fragments)) {
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
bool Ipv6::CutFragments(const Packet& packet, size_t piece_bytes, Headers& headers,
                        PacketList& out) {
  // RFC 7739 §5.3: a random value each time cannot be predicted.
  const uint32_t identification = stack_.random().Next32();
  const size_t length = packet.length();
  for (size_t offset = 0; offset < length; offset += piece_bytes) {
    const size_t piece_length = std::min(piece_bytes, length - offset);
    PacketPtr piece = packet.Slice(offset, piece_length);
    if (piece == nullptr) return false;
    piece->meta.csum_state = CsumState::kNone;
    piece->set_l4_here();
    const wire::Ipv6FragmentFields fragment{.next_header = headers.protocol,
                                            .fragment_offset = offset,
                                            .more_fragments = offset + piece_length < length,
                                            .identification = identification};
    fragment.Emit(piece->Push(wire::Ipv6FragmentFields::length()));
    headers.Push(*piece, wire::IpProtocol::kIpv6Fragment);
    out.PushBack(std::move(piece));
  }
  return true;
}

netdev::TxResult Ipv6::Transmit(PacketPtr packet, const Route& route) {
  const size_t length = packet->length();
  const netdev::TxResult result = route.interface->Output(std::move(packet), route);
  if (netdev::TxOk(result)) {
    stack_.mib().ip6.out_octets.Inc(length);
  } else {
    stack_.mib().ip6.out_discards.Inc();
  }
  return result;
}

}  // namespace tapwire
