// SPDX-License-Identifier: Apache-2.0
#include "stack/icmp/icmp_error.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/icmpv4.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "stack/interface.h"
#include "stack/route.h"
#include "stack/stack.h"

namespace tapwire {

struct IcmpErrors::Message {
  uint8_t type = 0;
  uint8_t code = 0;
  uint32_t rest = 0;
};

namespace {

constexpr size_t kIcmpHeaderLength = 8;
// RFC 1812 §4.3.2.3: as much as fits 576 bytes, which every host can take. RFC 1122 §3.2.2 asks for
// eight bytes behind the header at least.
constexpr size_t kMaxQuote4 = 576 - wire::Ipv4Header::kMinLength - kIcmpHeaderLength;
// RFC 4443 §2.4(c): as much as fits the minimum IPv6 MTU.
constexpr size_t kMaxQuote6 = wire::kIpv6MinMtu - wire::Ipv6Header::kLength - kIcmpHeaderLength;

// Sums the packet from `start` (counted from data(), so negative if it has been pulled) to its end.
uint16_t ChecksumFrom(const Packet& packet, int32_t start) {
  wire::InternetChecksum sum;
  if (start < 0) {
    const auto from = static_cast<size_t>(start - packet.l3_in_data());
    sum.Add(packet.l3_bytes().subspan(from, static_cast<size_t>(-start)));
  }
  auto skip = static_cast<size_t>(std::max(start, 0));
  packet.ForEachSpan([&](std::span<const uint8_t> bytes) {
    const size_t skipped = std::min(skip, bytes.size());
    skip -= skipped;
    sum.Add(bytes.subspan(skipped));
  });
  return sum.Finish();
}

// Where the sender has left the checksum to the device, the quote, `out`, shows the one it would
// have sent.
void CompleteQuotedChecksum(const Packet& offending, std::span<uint8_t> out) {
  const PacketMeta& meta = offending.meta;
  if (meta.csum_state != CsumState::kPartial || meta.gso.size != 0) return;
  const int32_t start = offending.csum_start_in_data();
  const int32_t start_in_quote = start - offending.l3_in_data();
  if (start_in_quote < 0) return;
  const size_t field = static_cast<size_t>(start_in_quote) + meta.csum_offset;
  if (field + 2 > out.size()) return;
  const uint16_t checksum = ChecksumFrom(offending, start);
  StoreBe16(&out[field], checksum == 0 ? 0xffff : checksum);  // RFC 768
}

// Copies the start of the offending datagram, from its IP header on, behind the ICMP header to
// come.
PacketPtr CopyQuote(SlabPool& pool, const Packet& offending, size_t max_bytes) {
  if (!offending.has_l3()) return nullptr;
  const int32_t from_data = offending.l3_in_data();
  const size_t pulled = from_data < 0 ? static_cast<size_t>(-from_data) : 0;
  const size_t skipped = from_data > 0 ? static_cast<size_t>(from_data) : 0;
  const size_t length = std::min(pulled + offending.length() - skipped, max_bytes);
  PacketPtr quote = pool.AllocatePacket(length);
  if (quote == nullptr) return nullptr;
  std::span<uint8_t> out = quote->Put(length);
  const size_t from_pulled = std::min(pulled, length);
  std::copy_n(offending.l3_bytes().begin(), from_pulled, out.begin());
  offending.CopyOut(skipped, out.subspan(from_pulled));
  CompleteQuotedChecksum(offending, out);
  return quote;
}

// RFC 1122 §3.2.2: the source must be one host. 127/8 is that only inside of us.
bool IsOneHost(Ipv4Address source, const Interface& interface) {
  if (source.IsZeroNet() || source.IsMulticast() || source.IsClassE()) return false;
  if (source.IsLoopback()) return interface.device().is_loopback();
  return !interface.IsSubnetBroadcast(source);
}

// RFC 1122 §3.2.2: the query messages. A type that we do not know may be an error.
bool IsIcmpv4Query(uint8_t type) {
  using Type = wire::Icmpv4Type;
  return type == Type::kEchoReply || type == Type::kEchoRequest ||
         type == Type::kRouterAdvertisement || type == Type::kRouterSolicitation ||
         (type >= Type::kTimestampRequest && type <= Type::kAddressMaskReply);
}

// RFC 4443 §2.4(e.1), (e.2): no answer to an error or a redirect, wherever in the chain it stands.
// A type that cannot be seen might be one.
bool HoldsError6(std::span<const uint8_t> quote) {
  const auto header = wire::Ipv6Header::Parse(quote);
  if (!header) return true;
  wire::Ipv6ExtensionIterator chain(header->next_header(),
                                    quote.subspan(wire::Ipv6Header::kLength));
  while (chain.Next()) {
  }
  if (chain.next_header() != wire::IpProtocol::kIcmpv6) return false;
  if (chain.end() == wire::Ipv6ChainEnd::kFragmentPayload) return false;
  if (chain.end() != wire::Ipv6ChainEnd::kUpperLayer || chain.payload().empty()) return true;
  const uint8_t type = chain.payload()[0];
  return wire::IsIcmpv6Error(type) || type == wire::Icmpv6Type::kRedirect;
}

}  // namespace

IcmpErrors::IcmpErrors(Stack& stack)
    : stack_(stack), tokens_(stack.config().icmp_error_burst), last_refill_(stack.now()) {}

void IcmpErrors::Send(const Packet& offending, const IpPacketInfo& info, IcmpErrorKind kind,
                      uint32_t value) {
  const IpFamily family = info.source.family();
  const bool v4 = family == IpFamily::kV4;
  IcmpCounters& counters = v4 ? stack_.mib().icmp : stack_.mib().icmp6;
  const std::optional<Message> message = MessageFor(family, kind, value);
  if (!message || !offending.has_l3() || info.interface == nullptr) {
    stack_.Drop(nullptr, DropReason::kIcmpErrorSuppressed);
    return;
  }
  PacketPtr packet = CopyQuote(stack_.pool(), offending, v4 ? kMaxQuote4 : kMaxQuote6);
  if (packet == nullptr) {
    counters.out_errors.Inc();
    stack_.Drop(nullptr, DropReason::kTxNoBuffer);
    return;
  }
  if (!MayAnswer(info, kind, packet->head_bytes())) {
    stack_.Drop(std::move(packet), DropReason::kIcmpErrorSuppressed);
    return;
  }
  if (!TakeToken()) {
    counters.out_rate_limited.Inc();
    stack_.Drop(std::move(packet), DropReason::kIcmpRateLimited);
    return;
  }
  const std::optional<Route> route = RouteBack(info);
  if (!route) {
    counters.out_errors.Inc();
    stack_.Drop(std::move(packet), DropReason::kTxNoRoute);
    return;
  }
  Transmit(std::move(packet), *route, *message);
}

namespace {

struct TypeAndCode {
  IcmpErrorKind kind;
  uint8_t type;
  uint8_t code;
};

constexpr TypeAndCode kIcmpv4Table[] = {
    {IcmpErrorKind::kNetUnreachable, 3, 0},      {IcmpErrorKind::kHostUnreachable, 3, 1},
    {IcmpErrorKind::kProtocolUnreachable, 3, 2}, {IcmpErrorKind::kPortUnreachable, 3, 3},
    {IcmpErrorKind::kPacketTooBig, 3, 4},        {IcmpErrorKind::kAdminProhibited, 3, 13},
    {IcmpErrorKind::kTtlExceeded, 11, 0},        {IcmpErrorKind::kReassemblyTimeout, 11, 1},
    {IcmpErrorKind::kParameterProblem, 12, 0},
};

constexpr TypeAndCode kIcmpv6Table[] = {
    {IcmpErrorKind::kNetUnreachable, 1, 0},        {IcmpErrorKind::kHostUnreachable, 1, 3},
    {IcmpErrorKind::kProtocolUnreachable, 4, 1},   {IcmpErrorKind::kPortUnreachable, 1, 4},
    {IcmpErrorKind::kPacketTooBig, 2, 0},          {IcmpErrorKind::kAdminProhibited, 1, 1},
    {IcmpErrorKind::kTtlExceeded, 3, 0},           {IcmpErrorKind::kReassemblyTimeout, 3, 1},
    {IcmpErrorKind::kParameterProblem, 4, 0},      {IcmpErrorKind::kUnrecognizedOption, 4, 2},
    {IcmpErrorKind::kIncompleteHeaderChain, 4, 3}, {IcmpErrorKind::kBeyondScope, 1, 2},
};

// The four bytes behind the checksum: an MTU or a pointer, unused otherwise.
uint32_t RestOf(IpFamily family, const TypeAndCode& entry, uint32_t value) {
  if (family == IpFamily::kV6) {
    const bool used = entry.type == wire::Icmpv6Type::kPacketTooBig ||
                      entry.type == wire::Icmpv6Type::kParameterProblem;
    return used ? value : 0;
  }
  if (entry.kind == IcmpErrorKind::kPacketTooBig) return std::min(value, 0xffffu);
  if (entry.kind == IcmpErrorKind::kParameterProblem) return (value & 0xff) << 24;
  return 0;
}

}  // namespace

std::optional<IcmpErrors::Message> IcmpErrors::MessageFor(IpFamily family, IcmpErrorKind kind,
                                                          uint32_t value) {
  const std::span<const TypeAndCode> table = family == IpFamily::kV4
                                                 ? std::span<const TypeAndCode>(kIcmpv4Table)
                                                 : std::span<const TypeAndCode>(kIcmpv6Table);
  for (const TypeAndCode& entry : table) {
    if (entry.kind == kind) return Message{entry.type, entry.code, RestOf(family, entry, value)};
  }
  return std::nullopt;
}

bool IcmpErrors::MayAnswer(const IpPacketInfo& info, IcmpErrorKind kind,
                           std::span<const uint8_t> quote) const {
  return info.source.is_v4() ? MayAnswer4(info, quote) : MayAnswer6(info, kind, quote);
}

bool IcmpErrors::MayAnswer4(const IpPacketInfo& info, std::span<const uint8_t> quote) const {
  if (info.delivery != IpDelivery::kUnicast || info.link_broadcast) return false;
  if (!IsOneHost(info.source.v4(), *info.interface)) return false;
  const auto header = wire::Ipv4Header::Parse(quote);
  if (!header || header->fragment_offset() != 0) return false;
  if (header->protocol() != wire::IpProtocol::kIcmp) return true;
  const std::span<const uint8_t> icmp = quote.subspan(header->header_length());
  return !icmp.empty() && IsIcmpv4Query(icmp[0]);
}

bool IcmpErrors::MayAnswer6(const IpPacketInfo& info, IcmpErrorKind kind,
                            std::span<const uint8_t> quote) const {
  // RFC 4443 §2.4(e.3)–(e.5): groups get no answer, except that a packet is too big and that an
  // option which asks for it is unknown.
  const bool group = info.delivery != IpDelivery::kUnicast || info.link_broadcast;
  const bool even_to_group =
      kind == IcmpErrorKind::kPacketTooBig || kind == IcmpErrorKind::kUnrecognizedOption;
  if (group && !even_to_group) return false;
  // (e.6): the source is one node.
  const Ipv6Address source = info.source.v6();
  if (source.IsUnspecified() || source.IsMulticast()) return false;
  if (source.IsLoopback() && !info.interface->device().is_loopback()) return false;
  return !HoldsError6(quote);
}

// RFC 4443 §2.4(f), RFC 1812 §4.3.2.8: a token bucket, so that a burst passes and a flood does not.
bool IcmpErrors::TakeToken() {
  const StackConfig& config = stack_.config();
  const Time now = stack_.now();
  const std::chrono::duration<double> passed = now - last_refill_;
  last_refill_ = now;
  tokens_ = std::min<double>(tokens_ + passed.count() * config.icmp_error_rate_per_second,
                             config.icmp_error_burst);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

// From the address that was asked, if it is ours (RFC 1122 §3.2.1.3, RFC 4443 §2.2(a)).
std::optional<Route> IcmpErrors::RouteBack(const IpPacketInfo& info) {
  Stack::RouteRequest request;
  request.destination = info.source;
  const bool ours =
      info.delivery == IpDelivery::kUnicast && stack_.FindLocalAddress(info.destination) != nullptr;
  if (ours) request.source = info.destination;
  if (info.source.IsLinkLocal() || info.destination.IsLinkLocal() ||
      info.delivery != IpDelivery::kUnicast) {
    request.ifindex = info.interface->index();
  }
  absl::StatusOr<Route> route = stack_.FindRoute(request);
  if (!route.ok()) return std::nullopt;
  return *route;
}

// `packet` holds the quote. RFC 1122 §3.2.2: TOS 0.
void IcmpErrors::Transmit(PacketPtr packet, const Route& route, const Message& message) {
  const bool v4 = route.destination.is_v4();
  IpSendOptions options;
  if (v4) {
    const wire::Icmpv4Fields fields{
        .type = message.type, .code = message.code, .rest = message.rest};
    fields.Emit(packet->Push(kIcmpHeaderLength));
    wire::FillIcmpv4Checksum(packet->head_bytes());
    options.protocol = wire::IpProtocol::kIcmp;
  } else {
    const wire::Icmpv6Fields fields{
        .type = message.type, .code = message.code, .rest = message.rest};
    fields.Emit(packet->Push(kIcmpHeaderLength));
    wire::FillIcmpv6Checksum(route.source.v6(), route.destination.v6(), packet->head_bytes());
    options.protocol = wire::IpProtocol::kIcmpv6;
  }
  const netdev::TxResult result = stack_.SendIp(std::move(packet), route, options);
  if (netdev::TxOk(result)) {
    CountSent(route.destination.family(), message);
  } else {
    (v4 ? stack_.mib().icmp : stack_.mib().icmp6).out_errors.Inc();
  }
}

void IcmpErrors::CountSent(IpFamily family, const Message& message) {
  const bool v4 = family == IpFamily::kV4;
  IcmpCounters& counters = v4 ? stack_.mib().icmp : stack_.mib().icmp6;
  counters.out_msgs.Inc();
  if (message.type ==
      (v4 ? wire::Icmpv4Type::kDestUnreachable : wire::Icmpv6Type::kDestUnreachable)) {
    counters.out_dest_unreachs.Inc();
    if (v4 && message.code == wire::Icmpv4UnreachableCode::kFragmentationNeeded) {
      counters.out_pkt_too_bigs.Inc();
    }
  } else if (message.type ==
             (v4 ? wire::Icmpv4Type::kTimeExceeded : wire::Icmpv6Type::kTimeExceeded)) {
    counters.out_time_excds.Inc();
  } else if (!v4 && message.type == wire::Icmpv6Type::kPacketTooBig) {
    counters.out_pkt_too_bigs.Inc();
  } else {
    counters.out_parm_probs.Inc();
  }
}

}  // namespace tapwire
