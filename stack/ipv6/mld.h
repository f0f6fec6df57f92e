// SPDX-License-Identifier: Apache-2.0
// MLDv2 host side for one interface (RFC 9777), with MLDv1 compatibility: the packets. When to send
// them is decided by GroupMembership.
#pragma once

#include "netdev/packet/packet.h"
#include "netdev/wire/ip_address.h"
#include "stack/group_membership.h"
#include "stack/ip.h"

namespace tapwire {

class Interface;

class Mld final : private GroupReporter {
 public:
  explicit Mld(Interface& interface);

  // A received ICMPv6 message of types 130–132 or 143 with a good checksum; data() at its header.
  DropReason Input(PacketPtr packet, const IpPacketInfo& info);
  // First join and last leave. ff02::1 and interface-local groups are never reported (RFC 9777 §6).
  void OnJoin(const Ipv6Address& group);
  void OnLeave(const Ipv6Address& group);
  void OnUp() { membership_.Up(); }
  void OnDown() { membership_.Down(); }

 private:
  DropReason CheckMessage(const Packet& packet, const IpPacketInfo& info) const;
  DropReason OnQuery(std::span<const uint8_t> message);
  void SendReport(std::span<const GroupReport> records) override;
  void SendOldReport(const IpAddress& group, int version) override;
  void SendOldLeave(const IpAddress& group, int version) override;
  void SendOld(uint8_t type, const Ipv6Address& group, const Ipv6Address& destination);
  void Send(PacketPtr packet, const Ipv6Address& destination);

  Interface& interface_;
  GroupMembership membership_;
};

}  // namespace tapwire
