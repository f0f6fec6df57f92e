// SPDX-License-Identifier: Apache-2.0
#include "stack/icmp/icmpv6.h"

#include <algorithm>
#include <utility>

#include "netdev/csum_offload.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv6.h"
#include "stack/icmp/icmp_quote.h"
#include "stack/interface.h"
#include "stack/ipv6/mld.h"
#include "stack/ndp/ndp.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

using Type = wire::Icmpv6Type;
using Unreachable = wire::Icmpv6UnreachableCode;
using ParameterProblem = wire::Icmpv6ParameterProblemCode;

IcmpErrorKind UnreachableKind(uint8_t code) {
  switch (code) {
    case Unreachable::kNoRoute:
    case Unreachable::kBeyondScope:
      return IcmpErrorKind::kNetUnreachable;
    case Unreachable::kAddress:
      return IcmpErrorKind::kHostUnreachable;
    case Unreachable::kPort:
      return IcmpErrorKind::kPortUnreachable;
    // RFC 4443 §3.1: 5 and 6 are more precise forms of 1.
    case Unreachable::kAdminProhibited:
    case Unreachable::kSourcePolicy:
    case Unreachable::kRejectRoute:
      return IcmpErrorKind::kAdminProhibited;
    default:
      return IcmpErrorKind::kOther;
  }
}

IcmpErrorKind ParameterProblemKind(uint8_t code) {
  switch (code) {
    case ParameterProblem::kErroneousField:
      return IcmpErrorKind::kParameterProblem;
    case ParameterProblem::kUnknownNextHeader:
      return IcmpErrorKind::kProtocolUnreachable;
    case ParameterProblem::kUnknownOption:
      return IcmpErrorKind::kUnrecognizedOption;
    case ParameterProblem::kIncompleteHeaderChain:
      return IcmpErrorKind::kIncompleteHeaderChain;
    default:
      return IcmpErrorKind::kOther;
  }
}

// RFC 4443 §2.4(a): an unknown error goes up too, as kOther.
IcmpErrorKind KindOf(const wire::Icmpv6Header& header) {
  switch (header.type()) {
    case Type::kDestUnreachable:
      return UnreachableKind(header.code());
    case Type::kPacketTooBig:
      return IcmpErrorKind::kPacketTooBig;  // RFC 4443 §3.2: the code is ignored
    case Type::kTimeExceeded:
      if (header.code() == wire::Icmpv6TimeExceededCode::kHopLimit) {
        return IcmpErrorKind::kTtlExceeded;
      }
      return header.code() == wire::Icmpv6TimeExceededCode::kReassembly
                 ? IcmpErrorKind::kReassemblyTimeout
                 : IcmpErrorKind::kOther;
    case Type::kParameterProblem:
      return ParameterProblemKind(header.code());
    default:
      return IcmpErrorKind::kOther;
  }
}

}  // namespace

Icmpv6::Icmpv6(Stack& stack) : stack_(stack) {
  stack_.RegisterTransport(wire::IpProtocol::kIcmpv6, this);
}
Icmpv6::~Icmpv6() { stack_.RegisterTransport(wire::IpProtocol::kIcmpv6, nullptr); }

DropReason Icmpv6::Input(PacketPtr packet, const IpPacketInfo& info) {
  IcmpCounters& counters = stack_.mib().icmp6;
  counters.in_msgs.Inc();
  const DropReason bad = CheckMessage(*packet, info);
  if (bad != DropReason::kNone) {
    counters.in_errors.Inc();
    return stack_.Drop(std::move(packet), bad);
  }
  const DropReason reason = InputByType(packet, info);
  if (reason == DropReason::kNone || packet == nullptr) return reason;
  return stack_.Drop(std::move(packet), reason);
}

DropReason Icmpv6::CheckMessage(Packet& packet, const IpPacketInfo& info) {
  if (packet.length() < wire::Icmpv6Header::kLength) return DropReason::kIcmpTruncated;
  if (!packet.EnsureLinear(wire::Icmpv6Header::kLength)) return DropReason::kLinkNoBuffer;
  if (netdev::VerifyTransportChecksum(packet,
                                      {info.source, info.destination, wire::IpProtocol::kIcmpv6},
                                      static_cast<uint32_t>(packet.length()))) {
    return DropReason::kNone;
  }
  stack_.mib().icmp6.in_csum_errors.Inc();
  return DropReason::kIcmpBadChecksum;
}

// A packet that is still there afterwards is to be dropped for the reason given, or has been looked
// at and is done with (kNone). The engines of the interface count what they drop.
DropReason Icmpv6::InputByType(PacketPtr& packet, const IpPacketInfo& info) {
  IcmpCounters& counters = stack_.mib().icmp6;
  const wire::Icmpv6Header header = *wire::Icmpv6Header::Parse(packet->head_bytes());
  switch (header.type()) {
    case Type::kEchoRequest:
      return InputEchoRequest(packet, info);
    case Type::kEchoReply:
      counters.in_echo_reps.Inc();
      return echo_.DeliverReply(packet, info) ? DropReason::kNone
                                              : DropReason::kIcmpEchoReplyUnmatched;
    case Type::kRouterSolicitation:
    case Type::kRouterAdvertisement:
    case Type::kNeighborSolicitation:
    case Type::kNeighborAdvertisement:
    case Type::kRedirect:
      return info.interface->ndp().Input(std::move(packet), info);
    case Type::kMldQuery:
    case Type::kMldv1Report:
    case Type::kMldv1Done:
    case Type::kMldv2Report:
      return info.interface->mld().Input(std::move(packet), info);
    default:
      if (wire::IsIcmpv6Error(header.type())) return InputError(*packet, info, header);
      return DropReason::kIcmpUnknownType;  // RFC 4443 §2.4(b)
  }
}

// RFC 4443 §4.2: also when it was sent to a group.
DropReason Icmpv6::InputEchoRequest(PacketPtr& packet, const IpPacketInfo& info) {
  stack_.mib().icmp6.in_echos.Inc();
  if (info.source.IsUnspecified()) return DropReason::kIcmpBadSource;
  return AnswerEcho(stack_, std::move(packet), info);
}

DropReason Icmpv6::InputError(Packet& packet, const IpPacketInfo& info,
                              const wire::Icmpv6Header& header) {
  CountError(header.type());
  if (info.source.IsUnspecified()) return DropReason::kIcmpBadSource;
  IcmpErrorInfo error;
  error.kind = KindOf(header);
  error.type = header.type();
  error.code = header.code();
  // RFC 4443 §3: an MTU or a pointer; zero or unused in all others.
  error.value = header.rest();
  // RFC 4443 §2.4(c): an error is no longer than this.
  const size_t quote_end = std::min(packet.length(), wire::kIpv6MinMtu - wire::Ipv6Header::kLength);
  if (!packet.EnsureLinear(quote_end)) return DropReason::kLinkNoBuffer;
  const std::span<const uint8_t> message = std::as_const(packet).head_bytes();
  return DistributeIcmpError(stack_, error, message.subspan(wire::Icmpv6Header::kLength), info);
}

void Icmpv6::CountError(uint8_t type) {
  IcmpCounters& counters = stack_.mib().icmp6;
  switch (type) {
    case Type::kDestUnreachable:
      counters.in_dest_unreachs.Inc();
      break;
    case Type::kPacketTooBig:
      counters.in_pkt_too_bigs.Inc();
      break;
    case Type::kTimeExceeded:
      counters.in_time_excds.Inc();
      break;
    case Type::kParameterProblem:
      counters.in_parm_probs.Inc();
      break;
    default:
      break;
  }
}

bool Icmpv6::OnIcmpError(const IcmpErrorInfo& error) {
  // We keep no record of replies; without their path MTU large pings from afar would never be
  // answered, and the worst a forged report does is fragments of 1,280 bytes.
  if (error.kind == IcmpErrorKind::kPacketTooBig && !error.transport.empty() &&
      error.transport[0] == Type::kEchoReply) {
    return true;
  }
  return echo_.DeliverError(error, Type::kEchoRequest);
}

}  // namespace tapwire
