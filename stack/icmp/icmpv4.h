// SPDX-License-Identifier: Apache-2.0
// ICMPv4 (RFC 792, RFC 1122 §3.2.2): answers echo requests, hands errors to the transport they
// quote and learns path MTUs from them. Redirects and source quench change nothing; nothing else is
// answered.
#pragma once

#include "netdev/wire/icmpv4.h"
#include "stack/icmp/echo.h"
#include "stack/ip.h"

namespace tapwire {

class Stack;

class Icmpv4 final : public TransportProtocol {
 public:
  explicit Icmpv4(Stack& stack);  // registers itself for its protocol number
  ~Icmpv4() override;

  DropReason Input(PacketPtr packet, const IpPacketInfo& info) override;
  // Errors about our own echo requests.
  bool OnIcmpError(const IcmpErrorInfo& error) override;

  EchoTable& echo() { return echo_; }

 private:
  DropReason CheckMessage(Packet& packet);
  DropReason InputByType(PacketPtr& packet, const IpPacketInfo& info);
  DropReason InputEchoRequest(PacketPtr& packet, const IpPacketInfo& info);
  DropReason InputError(Packet& packet, const IpPacketInfo& info, const wire::Icmpv4Header& header);

  Stack& stack_;
  EchoTable echo_;
};

}  // namespace tapwire
