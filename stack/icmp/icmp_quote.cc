// SPDX-License-Identifier: Apache-2.0
#include "stack/icmp/icmp_quote.h"

#include <algorithm>

#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "stack/interface.h"
#include "stack/path_mtu.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// RFC 792: the header and 64 bits. Ports, and the sequence number of TCP, are in them.
constexpr size_t kMinTransportBytes = 8;
constexpr uint32_t kMinMtu4 = 68;  // RFC 791 §3.2: every link carries so much

DropReason ParseQuote4(std::span<const uint8_t> bytes, IcmpQuote& quote) {
  const auto header = wire::Ipv4Header::Parse(bytes);
  if (!header) return DropReason::kIcmpQuoteTruncated;
  if (header->version() != 4 || header->fragment_offset() != 0) {
    return DropReason::kIcmpQuoteMismatch;
  }
  quote.source = header->source();
  quote.destination = header->destination();
  quote.protocol = header->protocol();
  quote.length = header->total_length();
  quote.transport = bytes.subspan(header->header_length());
  return DropReason::kNone;
}

DropReason ParseQuote6(std::span<const uint8_t> bytes, IcmpQuote& quote) {
  const auto header = wire::Ipv6Header::Parse(bytes);
  if (!header) return DropReason::kIcmpQuoteTruncated;
  if (header->version() != 6) return DropReason::kIcmpQuoteMismatch;
  wire::Ipv6ExtensionIterator chain(header->next_header(),
                                    bytes.subspan(wire::Ipv6Header::kLength));
  while (chain.Next()) {
  }
  if (chain.end() == wire::Ipv6ChainEnd::kTruncated) return DropReason::kIcmpQuoteTruncated;
  if (chain.end() != wire::Ipv6ChainEnd::kUpperLayer) return DropReason::kIcmpQuoteMismatch;
  quote.source = header->source();
  quote.destination = header->destination();
  quote.protocol = chain.next_header();
  quote.length = wire::Ipv6Header::kLength + header->payload_length();
  quote.transport = chain.payload();
  return DropReason::kNone;
}

// RFC 1191 §3, RFC 8201 §4, RFC 5927 §7.2: an MTU that no router can mean. Zero, of old IPv4
// routers, says nothing.
bool IsImpossibleMtu(IpFamily family, uint32_t mtu, size_t quoted_length) {
  if (family == IpFamily::kV4 && mtu == 0) return false;
  const uint32_t least = family == IpFamily::kV4 ? kMinMtu4 : wire::kIpv6MinMtu;
  return mtu < least || mtu >= quoted_length;
}

// RFC 8201 §4, RFC 1191 §3: the path has become narrower. `quoted_length` is the size of what did
// not fit: the next plateau below it is taken when the router does not say (RFC 1191 §5).
DropReason LearnPathMtu(Stack& stack, const IcmpErrorInfo& error, size_t quoted_length) {
  Stack::RouteRequest request{.destination = error.destination, .source = error.source};
  if (error.destination.IsLinkLocal()) request.ifindex = error.interface->index();
  const absl::StatusOr<Route> route = stack.FindRoute(request);
  if (!route.ok()) return DropReason::kIcmpPacketTooBigInvalid;
  const uint32_t current = std::min(route->mtu, static_cast<uint32_t>(quoted_length));
  const bool higher = error.value > route->mtu;
  return !higher && stack.path_mtu().Report(error.destination, error.value, current)
             ? DropReason::kNone
             : DropReason::kIcmpPacketTooBigInvalid;
}

}  // namespace

DropReason ParseIcmpQuote(IpFamily family, std::span<const uint8_t> bytes, IcmpQuote& quote) {
  const DropReason bad =
      family == IpFamily::kV4 ? ParseQuote4(bytes, quote) : ParseQuote6(bytes, quote);
  if (bad != DropReason::kNone) return bad;
  return quote.transport.size() < kMinTransportBytes ? DropReason::kIcmpQuoteTruncated
                                                     : DropReason::kNone;
}

DropReason DistributeIcmpError(Stack& stack, IcmpErrorInfo error, std::span<const uint8_t> bytes,
                               const IpPacketInfo& info) {
  const IpFamily family = info.source.family();
  IcmpQuote quote;
  const DropReason bad = ParseIcmpQuote(family, bytes, quote);
  if (bad != DropReason::kNone) return bad;
  // An error goes to whoever sent the datagram: that must be us, under the very address.
  if (quote.source != info.destination || info.delivery != IpDelivery::kUnicast) {
    return DropReason::kIcmpQuoteMismatch;
  }
  const bool too_big = error.kind == IcmpErrorKind::kPacketTooBig;
  if (too_big && IsImpossibleMtu(family, error.value, quote.length)) {
    return DropReason::kIcmpPacketTooBigInvalid;
  }
  error.reporter = info.source;
  error.source = quote.source;
  error.destination = quote.destination;
  error.protocol = quote.protocol;
  error.transport = quote.transport;
  error.interface = info.interface;
  TransportProtocol* transport = stack.transport(quote.protocol, family);
  if (transport == nullptr || !transport->OnIcmpError(error)) return DropReason::kIcmpQuoteMismatch;
  return too_big ? LearnPathMtu(stack, error, quote.length) : DropReason::kNone;
}

}  // namespace tapwire
