// SPDX-License-Identifier: Apache-2.0
// IPv4 (RFC 791, RFC 1122 §3.2.1, RFC 6864): input checks and local delivery, output with headers
// and fragmentation. Reassembly is in stack/reassembly.h.
//
//   Input:  header → source → destination → options ─┬─► transport
//                                 │                  └─► reassembly ─► transport
//                                 └─► (a router) Forward
//   Output: whole, or one header per fragment ─► Interface::Output
//
// What is not for us is counted and dropped, unless the stack forwards; source routes are not
// followed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "netdev/packet/packet.h"
#include "netdev/packet/packet_list.h"
#include "netdev/wire/ipv4.h"
#include "stack/ip.h"
#include "stack/ipv4/ipv4_id.h"
#include "stack/reassembly.h"

namespace tapwire {

class Interface;
class Stack;
struct TransitProblem;  // stack/forwarding.h

class Ipv4 {
 public:
  explicit Ipv4(Stack& stack);
  ~Ipv4();

  // A received packet, data() at the IPv4 header, link header removed. Consumes it; anything but
  // kNone has been counted.
  DropReason Input(PacketPtr packet, Interface& interface);
  // See Stack::SendIp.
  netdev::TxResult Output(PacketPtr packet, const Route& route, const IpSendOptions& options);

  Reassembler& reassembler() { return reassembler_; }

 private:
  // Input (ipv4_input.cc). The checks say what is wrong; their callers count it.
  DropReason CheckHeader(Packet& packet);
  DropReason InputValid(PacketPtr packet, Interface& interface);
  DropReason InputBadOptions(PacketPtr packet, const IpPacketInfo& info, DropReason reason,
                             uint8_t pointer);
  DropReason CheckSource(const wire::Ipv4Header& header, const Interface& interface) const;
  DropReason CheckDestination(const wire::Ipv4Header& header, const Packet& packet,
                              const Interface& interface, IpDelivery& delivery) const;
  DropReason CheckUnicastDestination(Ipv4Address destination, const Packet& packet,
                                     const Interface& interface) const;
  void CountGroupInput(IpDelivery delivery);
  DropReason InputFragment(PacketPtr packet, const wire::Ipv4Header& header,
                           const IpPacketInfo& info);

  // Forwarding (ipv4_forward.cc). `packet` data() is at its IP header.
  DropReason Forward(PacketPtr packet, const IpPacketInfo& info);
  DropReason CheckTransit(const Packet& packet, const IpPacketInfo& info) const;
  DropReason RefuseTransit(PacketPtr packet, const IpPacketInfo& info, const TransitProblem& why);
  DropReason ForwardTooBig(PacketPtr packet, const Route& route);
  netdev::TxResult ForwardFragments(PacketPtr packet, const Route& route);

  // Output (ipv4_output.cc).
  netdev::TxResult Refuse(PacketPtr packet, netdev::TxResult result, DropReason reason);
  netdev::TxResult SendWhole(PacketPtr packet, const Route& route, wire::Ipv4Fields& fields);
  netdev::TxResult SendFragments(PacketPtr packet, const Route& route, wire::Ipv4Fields& fields);
  bool CutFragments(const Packet& packet, size_t piece_bytes, wire::Ipv4Fields& fields,
                    PacketList& out);
  netdev::TxResult Transmit(PacketPtr packet, const Route& route);

  Stack& stack_;
  Reassembler reassembler_;
  Ipv4IdSource ids_;
};

}  // namespace tapwire
