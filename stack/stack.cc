// SPDX-License-Identifier: Apache-2.0
// Wiring of a host: protocol objects, interfaces, the ways in and out between IP and transports.
// Route selection is in route_select.cc.
#include "stack/stack.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/check.h"
#include "netdev/registry.h"
#include "netdev/veth.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6_ext.h"
#include "stack/eth/eth_input.h"
#include "stack/forwarding.h"
#include "stack/gateway_monitor.h"
#include "stack/icmp/icmp_error.h"
#include "stack/icmp/icmpv4.h"
#include "stack/icmp/icmpv6.h"
#include "stack/ipv4/igmp.h"
#include "stack/ipv4/ipv4.h"
#include "stack/ipv6/ipv6.h"
#include "stack/path_mtu.h"

namespace tapwire {

// IGMP is an engine per interface; protocol 2 is one entry of the stack.
class Stack::IgmpTransport final : public TransportProtocol {
 public:
  DropReason Input(PacketPtr packet, const IpPacketInfo& info) override {
    return info.interface->igmp().Input(std::move(packet), info);
  }
  bool OnIcmpError(const IcmpErrorInfo& /*error*/) override { return false; }
};

Stack::Stack(netdev::NetContext& context, StackConfig config)
    : context_(context),
      config_(config),
      interface_id_secret_(SipKey::Generate(context.random())),
      gateways_(std::make_unique<GatewayMonitor>(*this)),
      path_mtu_(std::make_unique<PathMtuCache>(*this)),
      icmp_errors_(std::make_unique<IcmpErrors>(*this)),
      ipv4_(std::make_unique<Ipv4>(*this)),
      ipv6_(std::make_unique<Ipv6>(*this)),
      icmpv4_(std::make_unique<Icmpv4>(*this)),
      icmpv6_(std::make_unique<Icmpv6>(*this)),
      igmp_transport_(std::make_unique<IgmpTransport>()),
      eth_input_(std::make_unique<EthInput>(*this)) {
  RegisterTransport(wire::IpProtocol::kIgmp, igmp_transport_.get());
  CreateLoopback();
}

Stack::~Stack() {
  // Sockets first, so that they hear of it while everything is still there.
  adopted_transports_.clear();
  netdev::NetDevice* loopback_device = loopback_ == nullptr ? nullptr : &loopback_->device();
  while (!interfaces_.empty()) RemoveInterface(*interfaces_.back());
  if (loopback_device != nullptr) context_.registry().Unregister(*loopback_device);
}

// ---- Interfaces ----

// RFC 1122 §3.2.1.3 (g), RFC 4291 §2.5.3. Stacks of one context have a loopback device each.
void Stack::CreateLoopback() {
  netdev::Registry& registry = context_.registry();
  const std::string name = registry.Find("lo") == nullptr ? "lo" : registry.FreeName("lo");
  absl::StatusOr<netdev::NetDevice*> device = netdev::CreateLoopback(context_, name);
  TW_CHECK(device.ok(), "the name was free");
  absl::StatusOr<Interface*> interface = AddInterface(**device);
  TW_CHECK(interface.ok(), "the device is new");
  loopback_ = *interface;
  TW_CHECK(loopback_->AddAddress({Ipv4Address::kLoopback, 8}, /*skip_dad=*/true).ok());
  TW_CHECK(loopback_->AddAddress({Ipv6Address::kLoopback, 128}, /*skip_dad=*/true).ok());
  TW_CHECK((*device)->Up().ok(), "nothing to fail");
}

absl::StatusOr<Interface*> Stack::AddInterface(netdev::NetDevice& device) {
  if (&device.context() != &context_ || context_.registry().Find(device.ifindex()) != &device) {
    return absl::FailedPreconditionError(absl::StrCat(
        "interface ", device.name(), ": register the device with this stack's context first"));
  }
  if (device.HasPacketType(wire::EtherType::kIpv4)) {
    return absl::AlreadyExistsError(
        absl::StrCat("interface ", device.name(), ": the device serves a stack already"));
  }
  interfaces_.push_back(std::make_unique<Interface>(*this, device));
  Interface& interface = *interfaces_.back();
  eth_input_->Attach(interface);
  interface.Attach();
  if (config_.forwarding) interface.SetForwarding(true);
  return &interface;
}

void Stack::RemoveInterface(Interface& interface) {
  const auto it = std::find_if(interfaces_.begin(), interfaces_.end(),
                               [&](const auto& owned) { return owned.get() == &interface; });
  if (it == interfaces_.end()) return;
  if (loopback_ == &interface) loopback_ = nullptr;
  eth_input_->Detach(interface);
  interface.Detach();
  routes_.RemoveInterface(interface);
  const std::unique_ptr<Interface> removed = std::move(*it);
  interfaces_.erase(it);
}

Interface* Stack::FindInterface(uint32_t ifindex) const {
  for (const auto& interface : interfaces_) {
    if (interface->index() == ifindex) return interface.get();
  }
  return nullptr;
}

Interface* Stack::FindLocalAddress(const IpAddress& address) const {
  for (const auto& interface : interfaces_) {
    if (interface->HasUsableAddress(address)) return interface.get();
  }
  return nullptr;
}

void Stack::SetForwarding(bool on) {
  config_.forwarding = on;
  for (const auto& interface : interfaces_) interface->SetForwarding(on);
}

// ---- Routes ----

absl::Status Stack::AddRoute(RouteEntry entry) {
  if (entry.gateway && FindLocalAddress(*entry.gateway) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("route ", entry.prefix.ToString(), " via ",
                                                   entry.gateway->ToString(),
                                                   ": the gateway is an address of this host"));
  }
  for (const auto& interface : interfaces_) {
    if (entry.interface != nullptr || !entry.gateway) break;
    const auto& addresses = interface->addresses();
    if (std::any_of(addresses.begin(), addresses.end(), [&](const InterfaceAddress& a) {
          return a.prefix().Contains(*entry.gateway);
        })) {
      entry.interface = interface.get();
    }
  }
  if (entry.interface == nullptr && entry.gateway) {
    return absl::InvalidArgumentError(
        absl::StrCat("route ", entry.prefix.ToString(), " via ", entry.gateway->ToString(),
                     ": the gateway is in no subnet of ours; name the interface"));
  }
  return routes_.Add(entry);
}

absl::Status Stack::RemoveRoute(const RouteEntry& entry) { return routes_.Remove(entry); }

void Stack::OnNeighborReachability(uint32_t ifindex, const IpAddress& address, bool reachable) {
  gateways_->OnReachability(ifindex, address, reachable);
}

// ---- Between IP and the transports ----

netdev::TxResult Stack::SendIp(PacketPtr packet, const Route& route, const IpSendOptions& options) {
  PacketPtr copy = WantsLocalCopy(route, options) ? packet->Clone() : nullptr;
  const netdev::TxResult result = route.destination.is_v4()
                                      ? ipv4_->Output(std::move(packet), route, options)
                                      : ipv6_->Output(std::move(packet), route, options);
  if (copy != nullptr && netdev::TxOk(result)) DeliverLocalCopy(std::move(copy), route, options);
  return result;
}

// RFC 1112 §7.1: a sender that is a member gets its own datagrams, and (as Linux does) its own
// broadcasts. Only for UDP: what our own control protocols send is not for us.
bool Stack::WantsLocalCopy(const Route& route, const IpSendOptions& options) const {
  if (options.protocol != wire::IpProtocol::kUdp || !options.multicast_loop) return false;
  if (route.kind == RouteKind::kBroadcast) return true;
  return route.kind == RouteKind::kMulticast && route.interface->InGroup(route.destination);
}

// The copy skips the link and IP: it is whole, and its checksum need not be looked at while
// partial.
void Stack::DeliverLocalCopy(PacketPtr packet, const Route& route, const IpSendOptions& options) {
  const bool v4 = route.destination.is_v4();
  const bool broadcast = route.kind == RouteKind::kBroadcast;
  packet->meta.rx_time = now();
  packet->meta.rx_device = route.interface->index();
  packet->set_l4_here();
  const uint8_t default_ttl = v4 ? config_.default_ttl : config_.default_hop_limit;
  const IpPacketInfo info{.source = route.source,
                          .destination = route.destination,
                          .protocol = options.protocol,
                          .ttl = options.ttl != 0 ? options.ttl : default_ttl,
                          .tos = options.tos,
                          .delivery = broadcast ? IpDelivery::kBroadcast : IpDelivery::kMulticast,
                          .link_broadcast = true,
                          .interface = route.interface};
  DeliverTransport(std::move(packet), info);
}

namespace {

// The numbers are shared, the protocols are not: ICMP and IGMP belong to IPv4 (RFC 792, RFC 9776),
// ICMPv6 to IPv6 (RFC 4443). In the other family each is unknown, or an IPv4 packet could speak
// Neighbor Discovery.
bool BelongsTo(uint8_t protocol, IpFamily family) {
  switch (protocol) {
    case wire::IpProtocol::kIcmp:
    case wire::IpProtocol::kIgmp:
      return family == IpFamily::kV4;
    case wire::IpProtocol::kIcmpv6:
      return family == IpFamily::kV6;
    default:
      return true;
  }
}

}  // namespace

TransportProtocol* Stack::transport(uint8_t protocol, IpFamily family) const {
  return BelongsTo(protocol, family) ? transports_[protocol] : nullptr;
}

DropReason Stack::DeliverTransport(PacketPtr packet, const IpPacketInfo& info) {
  const IpFamily family = info.destination.family();
  IpCounters& counters = ip_counters(family);
  if (TransportProtocol* receiver = transport(info.protocol, family)) {
    counters.in_delivers.Inc();
    return receiver->Input(std::move(packet), info);
  }
  // RFC 1122 §3.2.2.1: code 2; RFC 8200 §4: parameter problem at the byte that named the protocol.
  counters.in_unknown_protos.Inc();
  SendIcmpError(*packet, info, IcmpErrorKind::kProtocolUnreachable, info.next_header_offset);
  return Drop(std::move(packet), DropReason::kUnknownProtocol);
}

void Stack::SendIcmpError(const Packet& offending, const IpPacketInfo& info, IcmpErrorKind kind,
                          uint32_t value) {
  icmp_errors_->Send(offending, info, kind, value);
}

namespace {

// What an error about a datagram of ours would quote; false if that has no transport header.
bool ParseOwnDatagram(std::span<const uint8_t> bytes, bool v4, IcmpErrorInfo& error) {
  if (v4) {
    const auto header = wire::Ipv4Header::Parse(bytes);
    if (!header || header->fragment_offset() != 0) return false;
    error.source = header->source();
    error.destination = header->destination();
    error.protocol = header->protocol();
    error.transport = bytes.subspan(header->header_length());
    return true;
  }
  const auto header = wire::Ipv6Header::Parse(bytes);
  if (!header) return false;
  wire::Ipv6ExtensionIterator chain(header->next_header(),
                                    bytes.subspan(wire::Ipv6Header::kLength));
  while (chain.Next()) {
  }
  error.source = header->source();
  error.destination = header->destination();
  error.protocol = chain.next_header();
  error.transport = chain.payload();
  return chain.end() == wire::Ipv6ChainEnd::kUpperLayer;
}

}  // namespace

void Stack::ReportUnreachable(PacketPtr ip_packet, Interface& interface) {
  if (IsTransit(*this, *ip_packet)) return ReportTransitUnreachable(*this, std::move(ip_packet));
  const std::span<const uint8_t> bytes = ip_packet->head_bytes();
  const bool v4 = !bytes.empty() && bytes[0] >> 4 == 4;
  // RFC 792: code 1, host unreachable; RFC 4443 §3.1: code 3, address unreachable.
  IcmpErrorInfo error;
  error.kind = IcmpErrorKind::kHostUnreachable;
  error.type = v4 ? 3 : 1;
  error.code = v4 ? 1 : 3;
  error.interface = &interface;
  if (ParseOwnDatagram(bytes, v4, error)) {
    error.reporter = error.source;
    TransportProtocol* sender = transport(error.protocol, error.source.family());
    if (sender != nullptr) static_cast<void>(sender->OnIcmpError(error));
  }
  Drop(std::move(ip_packet), DropReason::kNeighborUnresolved);
}

DropReason Stack::Drop(PacketPtr packet, DropReason reason) {
  packet.reset();
  drops_.Inc(reason);
  return reason;
}

}  // namespace tapwire
