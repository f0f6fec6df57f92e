// SPDX-License-Identifier: Apache-2.0
#include "stack/ipv6/mld.h"

#include <algorithm>
#include <chrono>

#include "netdev/wire/icmpv6.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "netdev/wire/mld.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr size_t kIpHeadersWithAlert = 48;  // IPv6 and a hop-by-hop header of eight bytes

// RFC 9777 §5: every MLD message carries the Router Alert option in a hop-by-hop header.
bool HasRouterAlert(const Packet& packet) {
  const auto ip = wire::Ipv6Header::Parse(packet.l3_bytes());
  if (!ip || ip->next_header() != wire::IpProtocol::kIpv6HopByHop) return false;
  const auto header =
      wire::Ipv6OptionsHeader::Parse(packet.l3_bytes().subspan(wire::Ipv6Header::kLength));
  if (!header) return false;
  wire::Ipv6OptionIterator options = header->options();
  while (auto option = options.Next()) {
    if (option->type == wire::Ipv6OptionType::kRouterAlert) return true;
  }
  return false;
}

}  // namespace

Mld::Mld(Interface& interface) : interface_(interface), membership_(interface.stack(), *this) {}

void Mld::OnJoin(const Ipv6Address& group) {
  if (group == Ipv6Address::AllNodes() || group.scope() <= Ipv6Scope::kInterfaceLocal) return;
  membership_.Join(group);
}

void Mld::OnLeave(const Ipv6Address& group) { membership_.Leave(group); }

// RFC 9777 §6.2: link-local source, hop limit 1 and Router Alert, or the message is ignored.
DropReason Mld::CheckMessage(const Packet& packet, const IpPacketInfo& info) const {
  if (!info.source.IsLinkLocal() || info.ttl != 1 || !HasRouterAlert(packet))
    return DropReason::kMldBadSource;
  return DropReason::kNone;
}

DropReason Mld::Input(PacketPtr packet, const IpPacketInfo& info) {
  Stack& stack = interface_.stack();
  const auto drop = [&](DropReason reason) { return stack.Drop(std::move(packet), reason); };
  const DropReason bad = CheckMessage(*packet, info);
  if (bad != DropReason::kNone) return drop(bad);
  if (!packet->Linearize()) return drop(DropReason::kLinkNoBuffer);
  const auto header = wire::MldHeader::Parse(packet->head_bytes());
  if (!header) return drop(DropReason::kMldMalformed);
  if (header->type() == wire::Icmpv6Type::kMldQuery) {
    const DropReason reason = OnQuery(packet->head_bytes());
    return reason == DropReason::kNone ? reason : drop(reason);
  }
  if (header->type() == wire::Icmpv6Type::kMldv1Report) {
    membership_.OnOldReport(header->multicast_address());
    return DropReason::kNone;
  }
  return drop(DropReason::kMldNotForUs);
}

DropReason Mld::OnQuery(std::span<const uint8_t> message) {
  GroupMembership::Query query;
  const auto header = wire::MldHeader::Parse(message);
  if (message.size() == wire::MldHeader::kLength) {
    query.version = 1;
    query.max_delay = std::chrono::milliseconds(header->maximum_response_delay());
  } else {
    const auto v2 = wire::Mldv2QueryHeader::Parse(message);
    if (!v2) return DropReason::kMldMalformed;
    query.max_delay = std::chrono::milliseconds(v2->maximum_response_delay_ms());
    query.robustness = v2->qrv();
  }
  const Ipv6Address group = header->multicast_address();
  if (!group.IsUnspecified()) query.group = group;
  return membership_.OnQuery(query) ? DropReason::kNone : DropReason::kMldNotForUs;
}

// RFC 9777 §5.2.13: from a link-local address, or from :: while there is none.
void Mld::Send(PacketPtr packet, const Ipv6Address& destination) {
  const Ipv6Address source = interface_.link_local().value_or(IpAddress(Ipv6Address())).v6();
  wire::FillIcmpv6Checksum(source, destination, packet->head_bytes());
  const Route route{.kind = RouteKind::kMulticast,
                    .interface = &interface_,
                    .source = source,
                    .destination = destination,
                    .next_hop = destination,
                    .mtu = interface_.device().mtu()};
  const IpSendOptions options{
      .protocol = wire::IpProtocol::kIcmpv6, .ttl = 1, .router_alert = true};
  Stack& stack = interface_.stack();
  if (netdev::TxOk(stack.SendIp(std::move(packet), route, options)))
    stack.mib().icmp6.out_msgs.Inc();
}

void Mld::SendReport(std::span<const GroupReport> records) {
  const size_t room =
      interface_.device().mtu() - kIpHeadersWithAlert - wire::Mldv2ReportHeader::kMinLength;
  const size_t per_packet = std::max<size_t>(1, room / wire::Mldv2RecordView::kMinLength);
  while (!records.empty()) {
    const auto batch = records.first(std::min(records.size(), per_packet));
    records = records.subspan(batch.size());
    wire::Mldv2ReportFields report;
    for (const GroupReport& r : batch) report.records.push_back({r.record_type, r.group.v6(), {}});
    PacketPtr packet = interface_.stack().pool().AllocatePacket(report.length());
    if (!packet) return;  // counted by the pool; the change is repeated
    report.Emit(packet->Put(report.length()));
    Send(std::move(packet), Ipv6Address::AllMldv2Routers());
  }
}

void Mld::SendOld(uint8_t type, const Ipv6Address& group, const Ipv6Address& destination) {
  const wire::MldFields fields{
      .type = type, .maximum_response_delay = 0, .multicast_address = group};
  PacketPtr packet = interface_.stack().pool().AllocatePacket(fields.length());
  if (!packet) return;
  fields.Emit(packet->Put(fields.length()));
  Send(std::move(packet), destination);
}

void Mld::SendOldReport(const IpAddress& group, int /*version*/) {
  SendOld(wire::Icmpv6Type::kMldv1Report, group.v6(), group.v6());
}

void Mld::SendOldLeave(const IpAddress& group, int /*version*/) {
  SendOld(wire::Icmpv6Type::kMldv1Done, group.v6(), Ipv6Address::AllRouters());
}

}  // namespace tapwire
