// SPDX-License-Identifier: Apache-2.0
// IPv6 (RFC 8200): input with the extension header walk, output with fragmentation at the source.
//
//   Input:  fixed header → addresses → extension headers ─┬─► transport
//                              ▲                          └─► reassembly ─┐
//                              └──────── the rest of the chain ◄──────────┘
//   Output: whole, or fragments ─► Interface::Output
//
// What is not for us is counted and dropped, unless the stack forwards: then only hop-by-hop
// options are looked at. Routing headers are not followed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "netdev/base/siphash.h"
#include "netdev/packet/packet.h"
#include "netdev/packet/packet_list.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "stack/ip.h"
#include "stack/reassembly.h"

namespace tapwire {

class Interface;
class Stack;
struct TransitProblem;  // stack/forwarding.h

class Ipv6 {
 public:
  explicit Ipv6(Stack& stack);
  ~Ipv6();

  // A received packet, data() at the IPv6 header, link header removed. Consumes it; anything but
  // kNone has been counted.
  DropReason Input(PacketPtr packet, Interface& interface);
  // See Stack::SendIp.
  netdev::TxResult Output(PacketPtr packet, const Route& route, const IpSendOptions& options);

  Reassembler& reassembler() { return reassembler_; }

 private:
  // Extension headers that one packet may have (RFC 8504 §5.3 allows a limit).
  static constexpr int kMaxExtensionHeaders = 16;

  // How far the walk over the headers of one packet has come. data() stays at the IPv6 header.
  struct Walk {
    PacketPtr packet;
    IpPacketInfo info;  // protocol and next_header_offset: of what comes next
    size_t offset = wire::Ipv6Header::kLength;  // of what comes next
    int headers = 0;
    bool fragment_header_seen = false;
    // Why reassembly took the packet: kNone while the datagram is not complete.
    DropReason taken = DropReason::kNone;
  };
  // What to do about a packet that the walk will not let through.
  struct Problem {
    DropReason reason = DropReason::kNone;
    // kOther: say nothing.
    IcmpErrorKind kind = IcmpErrorKind::kOther;
    uint32_t pointer = 0;
    explicit operator bool() const { return reason != DropReason::kNone; }
  };

  // Input (ipv6_input.cc). The checks say what is wrong; their callers count it.
  DropReason CheckHeader(Packet& packet);
  DropReason CheckSource(const wire::Ipv6Header& header, const Interface& interface) const;
  DropReason CheckDestination(const wire::Ipv6Header& header, const Packet& packet,
                              const Interface& interface, IpDelivery& delivery) const;
  DropReason CheckUnicastDestination(const Ipv6Address& destination, const Packet& packet,
                                     const Interface& interface) const;
  DropReason InputValid(PacketPtr packet, Interface& interface);
  DropReason Deliver(Walk& walk);

  // Forwarding (ipv6_forward.cc). `walk` stands at the first header behind the fixed one.
  DropReason Forward(Walk& walk);
  DropReason CheckTransit(const Packet& packet, const IpPacketInfo& info) const;
  DropReason RefuseTransit(Walk& walk, const TransitProblem& why);

  // Extension headers (ipv6_extensions.cc). An empty Problem: go on with the next header.
  DropReason WalkHeaders(Walk& walk);
  Problem StepOver(Walk& walk);
  Problem ReadHeader(Walk& walk, size_t minimum, std::span<const uint8_t>& header);
  Problem StepOverOptions(Walk& walk);
  Problem CheckOptions(const Walk& walk, const wire::Ipv6OptionsHeader& header) const;
  Problem StepOverRouting(Walk& walk);
  Problem StepOverFragment(Walk& walk);
  DropReason Refuse(Walk& walk, const Problem& problem);

  // Fragments (ipv6_fragments.cc). Leaves walk.packet null, or the complete datagram.
  Problem Reassemble(Walk& walk, const wire::Ipv6FragmentHeader& header);
  Problem CheckFragment(const Walk& walk, const Reassembler::Fragment& fragment) const;
  static void RebuildHeader(Walk& walk);

  // Output (ipv6_output.cc).
  uint32_t FlowLabel(const Packet& packet, const Route& route, const IpSendOptions& options) const;
  netdev::TxResult Refuse(PacketPtr packet, netdev::TxResult result, DropReason reason);
  struct Headers;
  netdev::TxResult SendWhole(PacketPtr packet, const Route& route, Headers& headers);
  netdev::TxResult SendFragments(PacketPtr packet, const Route& route, Headers& headers);
  bool CutFragments(const Packet& packet, size_t piece_bytes, Headers& headers, PacketList& out);
  netdev::TxResult Transmit(PacketPtr packet, const Route& route);

  Stack& stack_;
  Reassembler reassembler_;
  SipKey flow_label_key_;
};

}  // namespace tapwire
