// SPDX-License-Identifier: Apache-2.0
// Neighbor Discovery, what we send: solicitations for the neighbour table, probes for our tentative
// addresses, advertisements.

#include <algorithm>
#include <array>
#include <chrono>

#include "netdev/wire/icmpv6.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/interface.h"
#include "stack/ndp/ndp.h"
#include "stack/ndp/ndp_check.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr auto kMaxFirstDelay = std::chrono::milliseconds(1000);  // RFC 4862 §5.4.2
constexpr int kAnnouncements = 2;   // at most MAX_NEIGHBOR_ADVERTISEMENT = 3 (RFC 4861 §10)
constexpr size_t kNonceLength = 6;  // RFC 7527 §4.1, RFC 3971 §5.3.2: at least six bytes

template <typename Fields>
PacketPtr MakePacket(Stack& stack, const Fields& fields) {
  PacketPtr packet = stack.pool().AllocatePacket(fields.length());
  if (packet) fields.Emit(packet->Put(fields.length()));
  return packet;
}

}  // namespace

Ndp::Ndp(Interface& interface) : interface_(interface) {}
Ndp::~Ndp() = default;

Ndp::Check* Ndp::Find(const Ipv6Address& address) {
  auto it = std::find_if(checks_.begin(), checks_.end(),
                         [&](const auto& c) { return c->address == address; });
  return it == checks_.end() ? nullptr : it->get();
}

void Ndp::Erase(const Check& check) {
  std::erase_if(checks_, [&](const auto& c) { return c.get() == &check; });
}

void Ndp::Cancel(const Ipv6Address& address) {
  if (Check* check = Find(address)) Erase(*check);
}

void Ndp::StartDad(const Ipv6Address& address) {
  Cancel(address);
  Stack& stack = interface_.stack();
  Check& check = *checks_.emplace_back(std::make_unique<Check>(
      address, Check::Phase::kDelay, [this, address] { OnTimer(*Find(address)); }));
  check.left = std::max(1, stack.config().dad_transmits);
  std::array<uint8_t, kNonceLength> nonce;
  stack.random().Fill(nonce);
  check.nonce.Assign(nonce);
  const auto delay = std::chrono::milliseconds(stack.random().Uniform(kMaxFirstDelay.count() + 1));
  stack.timers().Arm(check.timer, stack.now() + delay);
}

// To all nodes with the Override flag, also for a new address, where RFC 9131 §6.1.2 would have it
// go to the routers without the flag: a process that starts cannot know under which MAC its address
// was known before. After a restart with another one the neighbours have to replace what they hold
// (RFC 4861 §7.2.6), which without the flag they would not do (§7.2.5), and the routers are among
// them.
void Ndp::Announce(const Ipv6Address& address) {
  Cancel(address);
  Check& check = *checks_.emplace_back(std::make_unique<Check>(
      address, Check::Phase::kAnnouncing, [this, address] { OnTimer(*Find(address)); }));
  check.left = kAnnouncements;
  OnTimer(check);
}

void Ndp::OnTimer(Check& check) {
  Stack& stack = interface_.stack();
  const Ipv6Address address = check.address;
  if (check.left == 0) {  // RetransTimer after the last one
    const bool checked = check.tentative();
    Erase(check);
    if (checked) interface_.OnAddressChecked(address, false);
    return;
  }
  --check.left;
  if (check.tentative()) {
    check.phase = Check::Phase::kProbing;
    SendDadProbe(check);
  } else {
    SendAdvertisement({.target = address, .destination = Ipv6Address::AllNodes()});
  }
  stack.timers().Arm(check.timer, stack.now() + stack.config().retrans_timer);
}

// RFC 4862 §5.4.2: from the unspecified address, so without a link-layer option.
void Ndp::SendDadProbe(Check& check) {
  wire::NeighborSolicitationFields fields{.target_address = check.address};
  fields.options.nonce = check.nonce;
  PacketPtr packet = MakePacket(interface_.stack(), fields);
  if (!packet) return;
  interface_.stack().mib().icmp6.out_neighbor_solicits.Inc();
  SendMessage(std::move(packet), Ipv6Address(), check.address.SolicitedNode());
}

// RFC 4861 §7.2.2: the address of the packet that waits if it is one of this link, else any of
// them.
std::optional<Ipv6Address> Ndp::SolicitSource(const IpAddress& source) const {
  if (source.is_v6() && interface_.HasUsableAddress(source)) return source.v6();
  if (const std::optional<IpAddress> link_local = interface_.link_local()) return link_local->v6();
  for (const InterfaceAddress& a : interface_.addresses()) {
    if (a.address.is_v6() && a.usable()) return a.address.v6();
  }
  return std::nullopt;
}

void Ndp::Solicit(const IpAddress& target, std::optional<MacAddress> unicast_to,
                  const IpAddress& source) {
  const std::optional<Ipv6Address> from = SolicitSource(source);
  if (!from) return;
  wire::NeighborSolicitationFields fields{.target_address = target.v6()};
  fields.options.source_link_address = interface_.device().mac();
  PacketPtr packet = MakePacket(interface_.stack(), fields);
  if (!packet) return;
  interface_.stack().mib().icmp6.out_neighbor_solicits.Inc();
  SendMessage(std::move(packet), *from, unicast_to ? target.v6() : target.v6().SolicitedNode());
}

void Ndp::SendAdvertisement(const Advertise& request) {
  wire::NeighborAdvertisementFields fields{.router = interface_.stack().forwarding(),
                                           .solicited = request.solicited,
                                           .override_flag = true,
                                           .target_address = request.target};
  fields.options.target_link_address = interface_.device().mac();
  PacketPtr packet = MakePacket(interface_.stack(), fields);
  if (!packet) return;
  interface_.stack().mib().icmp6.out_neighbor_advertisements.Inc();
  SendMessage(std::move(packet), request.target, request.destination);
}

void Ndp::SendMessage(PacketPtr packet, const Ipv6Address& source, const Ipv6Address& destination) {
  wire::FillIcmpv6Checksum(source, destination, packet->head_bytes());
  const Route route{.kind = destination.IsMulticast() ? RouteKind::kMulticast : RouteKind::kUnicast,
                    .interface = &interface_,
                    .source = source,
                    .destination = destination,
                    .next_hop = destination,
                    .mtu = interface_.device().mtu()};
  const IpSendOptions options{.protocol = wire::IpProtocol::kIcmpv6, .ttl = 255};
  Stack& stack = interface_.stack();
  const bool sent = netdev::TxOk(stack.SendIp(std::move(packet), route, options));
  (sent ? stack.mib().icmp6.out_msgs : stack.mib().icmp6.out_errors).Inc();
}

void Ndp::ReportUnreachable(PacketPtr packet, const IpAddress& /*target*/) {
  interface_.stack().ReportUnreachable(std::move(packet), interface_);
}

}  // namespace tapwire
