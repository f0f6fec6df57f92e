// SPDX-License-Identifier: Apache-2.0
// ARP input in the order of RFC 826 "Packet Reception", with what later RFCs add: conflicts (RFC
// 5227 §2.1.1, §2.4), addresses that no host can have (RFC 1122 §3.2.1.3). The mapping goes to the
// neighbour table, which knows the states. Probing and announcing is in arp_probe.cc.
//
// Deviation: a reply makes no new entry. RFC 826 would add one for any packet that is addressed to
// us, whatever its opcode; taking only requests, whose sender is about to talk to us, keeps
// unasked-for replies from filling the table.
#include "stack/arp/arp.h"

#include <utility>

#include "netdev/wire/ethernet.h"
#include "stack/arp/arp_probe.h"
#include "stack/eth/eth_output.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {

Arp::Arp(Interface& interface) : stack_(interface.stack()), interface_(interface) {}
Arp::~Arp() = default;

// ---- Input ----

DropReason Arp::Input(PacketPtr packet) {
  const bool linear = packet->EnsureLinear(wire::ArpHeader::kLength);
  const auto arp = linear ? wire::ArpHeader::Parse(packet->head_bytes()) : std::nullopt;
  if (!arp || !arp->IsIpv4OverEthernet()) {
    return stack_.Drop(std::move(packet), DropReason::kArpMalformed);
  }
  const DropReason reason = Process(*arp, *packet);
  if (reason != DropReason::kNone) return stack_.Drop(std::move(packet), reason);
  return reason;
}

DropReason Arp::Process(const wire::ArpHeader& arp, const Packet& packet) {
  const bool request = arp.operation() == wire::ArpOperation::kRequest;
  const bool reply = arp.operation() == wire::ArpOperation::kReply;
  if (request) stack_.mib().arp.in_requests.Inc();
  if (reply) stack_.mib().arp.in_replies.Inc();
  if (const DropReason reason = CheckSender(arp); reason != DropReason::kNone) return reason;
  if (IsConflict(arp)) {
    const Ipv4Address sender = arp.sender_protocol_address();
    OnConflict(arp, sender.IsUnspecified() ? arp.target_protocol_address() : sender);
    return DropReason::kArpConflict;
  }
  // RFC 826: the sender's mapping is merged before the target and the opcode are looked at.
  const IpAddress sender = arp.sender_protocol_address();
  const bool for_us = interface_.HasUsableAddress(arp.target_protocol_address());
  NeighborTable& neighbors = interface_.neighbors(IpFamily::kV4);
  const bool known = neighbors.Find(sender).has_value();
  DropReason merged = DropReason::kNone;
  if (reply) {
    const bool addressed = for_us && !packet.meta.link_broadcast;
    merged = neighbors.OnAdvertisement({.address = sender,
                                        .mac = arp.sender_hardware_address(),
                                        .solicited = addressed,
                                        .override = true});
  } else if (!sender.IsUnspecified()) {
    neighbors.OnSolicited(sender, arp.sender_hardware_address(),
                          /*create=*/request && for_us);
  }
  if (!for_us) return known ? merged : DropReason::kArpNotForUs;
  if (request) {
    Reply(arp);
    return DropReason::kNone;
  }
  return reply ? merged : DropReason::kArpMalformed;
}

// RFC 826 has no such checks; no host can be sent to under these addresses (RFC 1122 §3.2.1.3).
DropReason Arp::CheckSender(const wire::ArpHeader& arp) const {
  const MacAddress mac = arp.sender_hardware_address();
  if (!mac.IsUnicast()) return DropReason::kArpBadSenderMac;
  if (mac == interface_.device().mac()) return DropReason::kLinkSourceOwn;
  const Ipv4Address ip = arp.sender_protocol_address();
  const bool probe = ip.IsUnspecified();  // RFC 5227 §1.1
  if (!probe && (ip.IsMulticast() || ip.IsClassE() || ip.IsLoopback() || ip.IsZeroNet() ||
                 interface_.IsSubnetBroadcast(ip))) {
    return DropReason::kArpBadSenderIp;
  }
  return DropReason::kNone;
}

// RFC 5227 §2.4: another host uses an address of ours; §2.1.1: or probes for one that we are
// probing for. A probe for an address that we use is no conflict but a question.
bool Arp::IsConflict(const wire::ArpHeader& arp) const {
  const Ipv4Address sender = arp.sender_protocol_address();
  const bool probe = sender.IsUnspecified();
  if (probe && arp.operation() != wire::ArpOperation::kRequest) return false;
  const InterfaceAddress* own =
      interface_.FindAddress(probe ? arp.target_protocol_address() : sender);
  if (own == nullptr || own->state == AddressState::kDuplicated) return false;
  return !probe || own->state == AddressState::kTentative;
}

void Arp::Reply(const wire::ArpHeader& request) {
  const MacAddress to = request.sender_hardware_address();
  const wire::ArpFields fields{.operation = wire::ArpOperation::kReply,
                               .sender_hardware_address = interface_.device().mac(),
                               .sender_protocol_address = request.target_protocol_address(),
                               .target_hardware_address = to,
                               .target_protocol_address = request.sender_protocol_address()};
  if (Send(fields, to)) stack_.mib().arp.out_replies.Inc();
}

// ---- Output ----

// The address that a question comes from: the datagram's own if it is ours on this link, else one
// in the target's subnet, else any. Never one that is still being checked (RFC 5227 §2.1.1).
std::optional<Ipv4Address> Arp::SolicitSource(const Ipv4Address& target,
                                              const IpAddress& source) const {
  if (source.is_v4() && interface_.HasUsableAddress(source)) return source.v4();
  std::optional<Ipv4Address> any;
  for (const InterfaceAddress& a : interface_.addresses()) {
    if (!a.address.is_v4() || !a.usable()) continue;
    if (a.prefix().Contains(target)) return a.address.v4();
    if (!any) any = a.address.v4();
  }
  // Linux (arp_announce 0): a weak host may ask for a neighbour in the name of another interface.
  if (!any && source.is_v4() && stack_.FindLocalAddress(source) != nullptr) any = source.v4();
  return any;
}

void Arp::Solicit(const IpAddress& target, std::optional<MacAddress> unicast_to,
                  const IpAddress& source) {
  const auto sender = SolicitSource(target.v4(), source);
  if (!sender) return;
  SendRequest(*sender, target.v4(), unicast_to.value_or(MacAddress::kBroadcast()));
}

void Arp::ReportUnreachable(PacketPtr packet, const IpAddress& /*target*/) {
  stack_.ReportUnreachable(std::move(packet), interface_);
}

void Arp::SendRequest(const Ipv4Address& sender, const Ipv4Address& target, const MacAddress& to) {
  const wire::ArpFields fields{.operation = wire::ArpOperation::kRequest,
                               .sender_hardware_address = interface_.device().mac(),
                               .sender_protocol_address = sender,
                               .target_hardware_address = {},
                               .target_protocol_address = target};
  if (Send(fields, to)) stack_.mib().arp.out_requests.Inc();
}

bool Arp::Send(const wire::ArpFields& fields, const MacAddress& to) {
  PacketPtr packet = stack_.pool().AllocatePacket(wire::ArpHeader::kLength);
  if (packet == nullptr) {
    stack_.Drop(nullptr, DropReason::kTxNoBuffer);
    return false;
  }
  fields.Emit(packet->Put(wire::ArpHeader::kLength));
  return netdev::TxOk(EthOutput(std::move(packet), interface_.device(), to, wire::EtherType::kArp));
}

}  // namespace tapwire
