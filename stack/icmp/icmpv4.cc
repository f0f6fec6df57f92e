// SPDX-License-Identifier: Apache-2.0
#include "stack/icmp/icmpv4.h"

#include <utility>

#include "netdev/csum_offload.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/icmp/icmp_quote.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

using Type = wire::Icmpv4Type;
using Unreachable = wire::Icmpv4UnreachableCode;

// A quote of any header length with all that can be looked at: 60 bytes of IPv4 and 60 of TCP.
constexpr size_t kQuoteBytes = 120;

bool ChecksumOk(const Packet& packet) {
  if (netdev::ChecksumUnnecessary(packet)) return true;
  wire::InternetChecksum sum;  // no pseudo-header (RFC 792)
  packet.ForEachSpan([&](std::span<const uint8_t> bytes) { sum.Add(bytes); });
  return sum.Finish() == 0;
}

IcmpErrorKind UnreachableKind(uint8_t code) {
  switch (code) {
    case Unreachable::kNet:
    case Unreachable::kSourceRouteFailed:
    case Unreachable::kNetUnknown:
    case Unreachable::kNetForTos:
      return IcmpErrorKind::kNetUnreachable;
    case Unreachable::kHost:
    case Unreachable::kHostUnknown:
    case Unreachable::kSourceHostIsolated:
    case Unreachable::kHostForTos:
      return IcmpErrorKind::kHostUnreachable;
    case Unreachable::kProtocol:
      return IcmpErrorKind::kProtocolUnreachable;
    case Unreachable::kPort:
      return IcmpErrorKind::kPortUnreachable;
    case Unreachable::kFragmentationNeeded:
      return IcmpErrorKind::kPacketTooBig;
    case Unreachable::kNetProhibited:
    case Unreachable::kHostProhibited:
    case Unreachable::kAdminProhibited:
    case Unreachable::kHostPrecedenceViolation:
    case Unreachable::kPrecedenceCutoff:
      return IcmpErrorKind::kAdminProhibited;
    default:
      return IcmpErrorKind::kOther;
  }
}

// kOther: no such code.
IcmpErrorKind KindOf(const wire::Icmpv4Header& header) {
  switch (header.type()) {
    case Type::kDestUnreachable:
      return UnreachableKind(header.code());
    case Type::kTimeExceeded:
      if (header.code() == wire::Icmpv4TimeExceededCode::kTtl) return IcmpErrorKind::kTtlExceeded;
      if (header.code() == wire::Icmpv4TimeExceededCode::kReassembly) {
        return IcmpErrorKind::kReassemblyTimeout;
      }
      return IcmpErrorKind::kOther;
    default:
      return header.code() <= wire::Icmpv4ParameterProblemCode::kBadLength
                 ? IcmpErrorKind::kParameterProblem
                 : IcmpErrorKind::kOther;
  }
}

uint32_t ValueOf(IcmpErrorKind kind, const wire::Icmpv4Header& header) {
  if (kind == IcmpErrorKind::kPacketTooBig) return header.mtu();
  if (kind == IcmpErrorKind::kParameterProblem) return header.pointer();
  return 0;
}

// RFC 6918 §2: types that no host should use any more.
bool IsDeprecated(uint8_t type) {
  return type == 6 || (type >= Type::kInformationRequest && type <= Type::kAddressMaskReply) ||
         (type >= 30 && type <= 39);
}

}  // namespace

Icmpv4::Icmpv4(Stack& stack) : stack_(stack) {
  stack_.RegisterTransport(wire::IpProtocol::kIcmp, this);
}
Icmpv4::~Icmpv4() { stack_.RegisterTransport(wire::IpProtocol::kIcmp, nullptr); }

DropReason Icmpv4::Input(PacketPtr packet, const IpPacketInfo& info) {
  IcmpCounters& counters = stack_.mib().icmp;
  counters.in_msgs.Inc();
  const DropReason bad = CheckMessage(*packet);
  if (bad != DropReason::kNone) {
    counters.in_errors.Inc();
    return stack_.Drop(std::move(packet), bad);
  }
  const DropReason reason = InputByType(packet, info);
  if (reason == DropReason::kNone || packet == nullptr) return reason;
  return stack_.Drop(std::move(packet), reason);
}

DropReason Icmpv4::CheckMessage(Packet& packet) {
  if (packet.length() < wire::Icmpv4Header::kLength) return DropReason::kIcmpTruncated;
  if (!packet.EnsureLinear(wire::Icmpv4Header::kLength)) return DropReason::kLinkNoBuffer;
  if (ChecksumOk(packet)) return DropReason::kNone;
  stack_.mib().icmp.in_csum_errors.Inc();
  return DropReason::kIcmpBadChecksum;
}

// A packet that is still there afterwards is to be dropped for the reason given, or has been looked
// at and is done with (kNone).
DropReason Icmpv4::InputByType(PacketPtr& packet, const IpPacketInfo& info) {
  IcmpCounters& counters = stack_.mib().icmp;
  const wire::Icmpv4Header header = *wire::Icmpv4Header::Parse(packet->head_bytes());
  switch (header.type()) {
    case Type::kEchoRequest:
      return InputEchoRequest(packet, info);
    case Type::kEchoReply:
      counters.in_echo_reps.Inc();
      return echo_.DeliverReply(packet, info) ? DropReason::kNone
                                              : DropReason::kIcmpEchoReplyUnmatched;
    case Type::kDestUnreachable:
      counters.in_dest_unreachs.Inc();
      return InputError(*packet, info, header);
    case Type::kTimeExceeded:
      counters.in_time_excds.Inc();
      return InputError(*packet, info, header);
    case Type::kParameterProblem:
      counters.in_parm_probs.Inc();
      return InputError(*packet, info, header);
    case Type::kSourceQuench:
      return DropReason::kIcmpSourceQuench;  // RFC 6633 §3
    case Type::kRedirect:
      // Deviation: RFC 1122 §3.2.2.2 has a valid redirect change the route. Nothing in it can be
      // checked against anything a host on the link does not know too.
      counters.in_redirects.Inc();
      return DropReason::kIcmpRedirectIgnored;
    case Type::kTimestampRequest:
      // Deviation: RFC 1122 §3.2.2.8 MAY. It serves nobody but those who guess clocks.
      return DropReason::kIcmpTimestampIgnored;
    default:
      return IsDeprecated(header.type()) ? DropReason::kIcmpDeprecated
                                         : DropReason::kIcmpUnknownType;  // RFC 1122 §3.2.2
  }
}

DropReason Icmpv4::InputEchoRequest(PacketPtr& packet, const IpPacketInfo& info) {
  stack_.mib().icmp.in_echos.Inc();
  // RFC 1122 §3.2.2.6: to a group or broadcast address it MAY be discarded.
  if (info.delivery != IpDelivery::kUnicast && stack_.config().icmp_echo_ignore_broadcasts) {
    return DropReason::kIcmpEchoIgnored;
  }
  if (info.source.IsUnspecified()) return DropReason::kIcmpBadSource;
  return AnswerEcho(stack_, std::move(packet), info);
}

DropReason Icmpv4::InputError(Packet& packet, const IpPacketInfo& info,
                              const wire::Icmpv4Header& header) {
  const IcmpErrorKind kind = KindOf(header);
  if (kind == IcmpErrorKind::kOther) return DropReason::kIcmpUnknownCode;
  if (info.source.IsUnspecified()) return DropReason::kIcmpBadSource;
  IcmpErrorInfo error;
  error.kind = kind;
  error.type = header.type();
  error.code = header.code();
  error.value = ValueOf(kind, header);
  const size_t quote_end = std::min(packet.length(), wire::Icmpv4Header::kLength + kQuoteBytes);
  if (!packet.EnsureLinear(quote_end)) return DropReason::kLinkNoBuffer;
  const std::span<const uint8_t> message = std::as_const(packet).head_bytes();
  return DistributeIcmpError(stack_, error, message.subspan(wire::Icmpv4Header::kLength), info);
}

bool Icmpv4::OnIcmpError(const IcmpErrorInfo& error) {
  return echo_.DeliverError(error, Type::kEchoRequest);
}

}  // namespace tapwire
