// SPDX-License-Identifier: Apache-2.0
// Neighbor Discovery, received messages: validation (RFC 4861 §7.1) and what follows (§7.2).

#include "netdev/base/log.h"
#include "netdev/wire/icmpv6.h"
#include "stack/interface.h"
#include "stack/ndp/ndp.h"
#include "stack/ndp/ndp_check.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr uint8_t kRequiredHopLimit = 255;

bool IsBadLinkAddress(const std::optional<MacAddress>& mac) {
  return mac && (!mac->IsUnicast() || mac->IsZero());
}

}  // namespace

DropReason Ndp::Input(PacketPtr packet, const IpPacketInfo& info) {
  Stack& stack = interface_.stack();
  DropReason reason = Validate(*packet, info);
  if (reason == DropReason::kNone && !packet->Linearize()) reason = DropReason::kLinkNoBuffer;
  if (reason == DropReason::kNone) reason = Dispatch(packet->head_bytes(), info);
  return reason == DropReason::kNone ? reason : stack.Drop(std::move(packet), reason);
}

DropReason Ndp::Validate(const Packet& packet, const IpPacketInfo& info) const {
  if (info.ttl != kRequiredHopLimit) return DropReason::kNdpBadHopLimit;
  if (info.reassembled) return DropReason::kNdpFragmented;
  const auto header = wire::Icmpv6Header::Parse(packet.head_bytes());
  if (!header) return DropReason::kNdpTruncated;
  if (header->code() != 0) return DropReason::kNdpBadCode;
  return DropReason::kNone;
}

DropReason Ndp::Dispatch(std::span<const uint8_t> message, const IpPacketInfo& info) {
  switch (message[0]) {
    case wire::Icmpv6Type::kNeighborSolicitation: {
      interface_.stack().mib().icmp6.in_neighbor_solicits.Inc();
      const auto ns = wire::NeighborSolicitationHeader::Parse(message);
      return ns ? OnSolicitation(*ns, info) : DropReason::kNdpTruncated;
    }
    case wire::Icmpv6Type::kNeighborAdvertisement: {
      interface_.stack().mib().icmp6.in_neighbor_advertisements.Inc();
      const auto na = wire::NeighborAdvertisementHeader::Parse(message);
      return na ? OnAdvertisement(*na, info) : DropReason::kNdpTruncated;
    }
    case wire::Icmpv6Type::kRouterSolicitation:  // RFC 4861 §6.2.6: hosts discard it
      return DropReason::kNdpNotARouter;
    case wire::Icmpv6Type::kRedirect:
      interface_.stack().mib().icmp6.in_redirects.Inc();
      return DropReason::kIcmpRedirectIgnored;
    default:  // routers are configured here, not discovered
      return DropReason::kNdpRouterAdIgnored;
  }
}

// RFC 4861 §7.1.1 and §7.2.3.
DropReason Ndp::OnSolicitation(const wire::NeighborSolicitationHeader& ns,
                               const IpPacketInfo& info) {
  const Ipv6Address target = ns.target_address();
  if (target.IsMulticast()) return DropReason::kNdpBadTarget;
  const auto options = wire::NdpOptions::Parse(ns.options());
  if (!options || IsBadLinkAddress(options->source_link_address)) return DropReason::kNdpBadOption;
  if (info.source.IsUnspecified()) {
    if (!info.destination.v6().IsSolicitedNode()) return DropReason::kNdpBadDestination;
    if (options->source_link_address) return DropReason::kNdpBadOption;
  }
  Check* check = Find(target);
  if (check != nullptr && check->tentative()) return OnTentativeSolicited(*check, *options, info);
  if (!interface_.HasUsableAddress(target)) return DropReason::kNdpNotForUs;
  if (!info.source.IsUnspecified() && options->source_link_address) {
    interface_.neighbors(IpFamily::kV6)
        .OnSolicited(info.source, *options->source_link_address, true);
  }
  Answer(target, info);
  return DropReason::kNone;
}

// RFC 4862 §5.4.3: somebody else checks the same address, unless it is our own probe that came back
// (RFC 7527 §4.2). A resolution of a tentative address is ignored.
DropReason Ndp::OnTentativeSolicited(Check& check, const wire::NdpOptions& options,
                                     const IpPacketInfo& info) {
  if (!info.source.IsUnspecified()) return DropReason::kNdpNotForUs;
  if (options.nonce == check.nonce) return DropReason::kNdpDadLoopback;
  const Ipv6Address address = check.address;
  Erase(check);
  interface_.OnAddressChecked(address, true);
  return DropReason::kNdpDadConflict;
}

// RFC 4861 §7.2.4: to the solicitor, or to all nodes when it has no address yet.
void Ndp::Answer(const Ipv6Address& target, const IpPacketInfo& info) {
  const bool anonymous = info.source.IsUnspecified();
  SendAdvertisement({.target = target,
                     .destination = anonymous ? Ipv6Address::AllNodes() : info.source.v6(),
                     .solicited = !anonymous});
}

// RFC 4861 §7.1.2 and §7.2.5.
DropReason Ndp::OnAdvertisement(const wire::NeighborAdvertisementHeader& na,
                                const IpPacketInfo& info) {
  const Ipv6Address target = na.target_address();
  if (target.IsMulticast()) return DropReason::kNdpBadTarget;
  if (na.solicited() && info.destination.IsMulticast()) return DropReason::kNdpBadDestination;
  const auto options = wire::NdpOptions::Parse(na.options());
  if (!options || IsBadLinkAddress(options->target_link_address)) return DropReason::kNdpBadOption;
  // Where detection has found an owner, that one is a neighbour like any other.
  const InterfaceAddress* own = interface_.FindAddress(target);
  if (own != nullptr && own->state != AddressState::kDuplicated)
    return OnOwnAddressAdvertised(target);
  return interface_.neighbors(IpFamily::kV6)
      .OnAdvertisement({.address = target,
                        .mac = options->target_link_address,
                        .solicited = na.solicited(),
                        .override = na.override_flag(),
                        .is_router = na.router()});
}

// RFC 4862 §5.4.4: proof that the address is taken. One that is in use already is kept: the RFC
// leaves that case open, and giving it up would let anybody switch us off.
DropReason Ndp::OnOwnAddressAdvertised(const Ipv6Address& target) {
  Check* check = Find(target);
  if (check != nullptr && check->tentative()) {
    Erase(*check);
    interface_.OnAddressChecked(target, true);
  } else {
    TW_LOG_EVERY_N(kWarning, conflict_log_, 100)
        << interface_.device().name() << ": another node advertises our address "
        << target.ToString();
  }
  return DropReason::kNdpDadConflict;
}

}  // namespace tapwire
