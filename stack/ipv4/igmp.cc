// SPDX-License-Identifier: Apache-2.0
#include "stack/ipv4/igmp.h"

#include <algorithm>
#include <chrono>

#include "netdev/wire/igmp.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr uint8_t kInternetworkControl = 0xc0;  // RFC 9776 §4: TOS of all IGMP messages
constexpr size_t kIpHeaderWithAlert = 24;

// RFC 2236 §2.2, RFC 9776 §7.1: a v1 query has no response time, it means 10 s.
std::chrono::milliseconds MaxDelay(const wire::IgmpHeader& query) {
  if (query.query_version() == wire::IgmpQueryVersion::kV1) return std::chrono::seconds(10);
  return std::chrono::milliseconds(100) * query.max_resp_code();
}

bool HasRouterAlert(const Packet& packet) {
  const auto ip = wire::Ipv4Header::Parse(packet.l3_bytes());
  if (!ip) return false;
  wire::Ipv4OptionIterator options(ip->options());
  while (const auto option = options.Next()) {
    if (option->type == wire::Ipv4OptionType::kRouterAlert) return true;
  }
  return false;
}

}  // namespace

Igmp::Igmp(Interface& interface) : interface_(interface), membership_(interface.stack(), *this) {}

void Igmp::OnJoin(const Ipv4Address& group) {
  if (group != Ipv4Address::kAllSystems) membership_.Join(group);
}

void Igmp::OnLeave(const Ipv4Address& group) { membership_.Leave(group); }

DropReason Igmp::Input(PacketPtr packet, const IpPacketInfo& info) {
  Stack& stack = interface_.stack();
  const auto drop = [&](DropReason reason) { return stack.Drop(std::move(packet), reason); };
  if (!packet->Linearize()) return drop(DropReason::kLinkNoBuffer);
  const auto header = wire::IgmpHeader::Parse(packet->head_bytes());
  if (!header || !header->ChecksumOk()) return drop(DropReason::kIgmpMalformed);
  // RFC 9776 §9.1 asks hosts to look at the TTL: from further away it is an attack.
  if (info.ttl != 1) return drop(DropReason::kIgmpBadTtl);
  if (header->type() == wire::IgmpType::kQuery) {
    const DropReason reason = OnQuery(*packet, info);
    return reason == DropReason::kNone ? reason : drop(reason);
  }
  if (header->type() == wire::IgmpType::kV1Report || header->type() == wire::IgmpType::kV2Report) {
    membership_.OnOldReport(header->group_address());
    return DropReason::kNone;
  }
  return drop(DropReason::kIgmpNotForUs);
}

// RFC 9776 §9.1: hosts should ignore queries without Router Alert, which version 1 does not know,
// and general queries to another group than all systems.
DropReason Igmp::OnQuery(const Packet& packet, const IpPacketInfo& info) {
  GroupMembership::Query query;
  const std::span<const uint8_t> message = packet.head_bytes();
  const auto header = wire::IgmpHeader::Parse(message);
  const wire::IgmpQueryVersion version = header->query_version();
  switch (version) {
    case wire::IgmpQueryVersion::kInvalid:
      return DropReason::kIgmpMalformed;
    case wire::IgmpQueryVersion::kV1:
    case wire::IgmpQueryVersion::kV2:
      query.version = version == wire::IgmpQueryVersion::kV1 ? 1 : 2;
      query.max_delay = MaxDelay(*header);
      break;
    case wire::IgmpQueryVersion::kV3: {
      const auto v3 = wire::Igmpv3QueryHeader::Parse(message);
      if (!v3) return DropReason::kIgmpMalformed;
      query.max_delay = std::chrono::milliseconds(100) * v3->max_resp_time();
      query.robustness = v3->qrv();
      break;
    }
  }
  const bool v1 = version == wire::IgmpQueryVersion::kV1;
  if (!v1 && !HasRouterAlert(packet)) return DropReason::kIgmpBadTtl;
  // RFC 1112 Appendix I: version 1 ignores the group.
  if (!v1 && !header->group_address().IsUnspecified()) query.group = header->group_address();
  if (!query.group && info.destination.IsMulticast() &&
      info.destination != Ipv4Address::kAllSystems) {
    return DropReason::kIgmpNotForUs;
  }
  return membership_.OnQuery(query) ? DropReason::kNone : DropReason::kIgmpNotForUs;
}

namespace {

void SendIgmp(Interface& interface, PacketPtr packet, const Ipv4Address& destination) {
  const auto& addresses = interface.addresses();
  const auto own = std::find_if(addresses.begin(), addresses.end(), [](const InterfaceAddress& a) {
    return a.address.is_v4() && a.usable();
  });
  // RFC 9776 §4.2.13: without an address the report goes out from 0.0.0.0.
  Route route{.kind = RouteKind::kMulticast,
              .interface = &interface,
              .source = own == addresses.end() ? IpAddress(Ipv4Address()) : own->address,
              .destination = destination,
              .next_hop = destination,
              .mtu = interface.device().mtu()};
  const IpSendOptions options{.protocol = wire::IpProtocol::kIgmp,
                              .ttl = 1,
                              .tos = kInternetworkControl,
                              .router_alert = true};
  static_cast<void>(interface.stack().SendIp(std::move(packet), route, options));
}

}  // namespace

void Igmp::SendReport(std::span<const GroupReport> records) {
  const size_t room =
      interface_.device().mtu() - kIpHeaderWithAlert - wire::Igmpv3ReportHeader::kMinLength;
  const size_t per_packet = std::max<size_t>(1, room / wire::Igmpv3RecordView::kMinLength);
  while (!records.empty()) {
    const auto batch = records.first(std::min(records.size(), per_packet));
    records = records.subspan(batch.size());
    wire::Igmpv3ReportFields report;
    for (const GroupReport& r : batch) report.records.push_back({r.record_type, r.group.v4(), {}});
    PacketPtr packet = interface_.stack().pool().AllocatePacket(report.length());
    if (!packet) return;  // counted by the pool; the change is repeated
    report.Emit(packet->Put(report.length()));
    SendIgmp(interface_, std::move(packet), Ipv4Address::kIgmpv3Routers);
  }
}

void Igmp::SendOld(uint8_t type, const Ipv4Address& group, const Ipv4Address& destination) {
  const wire::IgmpFields fields{.type = type, .max_resp_code = 0, .group_address = group};
  PacketPtr packet = interface_.stack().pool().AllocatePacket(fields.length());
  if (!packet) return;
  fields.Emit(packet->Put(fields.length()));
  SendIgmp(interface_, std::move(packet), destination);
}

void Igmp::SendOldReport(const IpAddress& group, int version) {
  SendOld(version == 1 ? wire::IgmpType::kV1Report : wire::IgmpType::kV2Report, group.v4(),
          group.v4());
}

// RFC 2236 §3: to all routers; version 1 has no such message.
void Igmp::SendOldLeave(const IpAddress& group, int version) {
  if (version != 1) SendOld(wire::IgmpType::kV2Leave, group.v4(), Ipv4Address::kAllRouters);
}

}  // namespace tapwire
