// SPDX-License-Identifier: Apache-2.0
// IGMPv3 host side for one interface (RFC 9776), with IGMPv1 and v2 compatibility: the packets.
// When to send them is decided by GroupMembership.
#pragma once

#include "netdev/packet/packet.h"
#include "netdev/wire/ip_address.h"
#include "stack/group_membership.h"
#include "stack/ip.h"

namespace tapwire {

class Interface;

class Igmp final : private GroupReporter {
 public:
  explicit Igmp(Interface& interface);

  // `packet` data() at the IGMP header, from DeliverTransport's protocol 2.
  DropReason Input(PacketPtr packet, const IpPacketInfo& info);
  // First join and last leave of a group. 224.0.0.1 is never reported (RFC 9776 §5).
  void OnJoin(const Ipv4Address& group);
  void OnLeave(const Ipv4Address& group);
  void OnUp() { membership_.Up(); }
  void OnDown() { membership_.Down(); }

 private:
  DropReason OnQuery(const Packet& packet, const IpPacketInfo& info);
  void SendReport(std::span<const GroupReport> records) override;
  void SendOldReport(const IpAddress& group, int version) override;
  void SendOldLeave(const IpAddress& group, int version) override;
  void SendOld(uint8_t type, const Ipv4Address& group, const Ipv4Address& destination);

  Interface& interface_;
  GroupMembership membership_;
};

}  // namespace tapwire
