// SPDX-License-Identifier: Apache-2.0
// ICMPv6 (RFC 4443): answers echo requests, hands errors to the transport they quote and learns
// path MTUs from them, passes Neighbor Discovery and MLD to the interface's engines.
#pragma once

#include "netdev/wire/icmpv6.h"
#include "stack/icmp/echo.h"
#include "stack/ip.h"

namespace tapwire {

class Stack;

class Icmpv6 final : public TransportProtocol {
 public:
  explicit Icmpv6(Stack& stack);  // registers itself for its protocol number
  ~Icmpv6() override;

  DropReason Input(PacketPtr packet, const IpPacketInfo& info) override;
  // Errors about our own echo requests.
  bool OnIcmpError(const IcmpErrorInfo& error) override;

  EchoTable& echo() { return echo_; }

 private:
  DropReason CheckMessage(Packet& packet, const IpPacketInfo& info);
  DropReason InputByType(PacketPtr& packet, const IpPacketInfo& info);
  DropReason InputEchoRequest(PacketPtr& packet, const IpPacketInfo& info);
  DropReason InputError(Packet& packet, const IpPacketInfo& info, const wire::Icmpv6Header& header);
  void CountError(uint8_t type);

  Stack& stack_;
  EchoTable echo_;
};

}  // namespace tapwire
