// SPDX-License-Identifier: Apache-2.0
//
// The law of every codec, From(Parse(Emit(f))) == f, as a function over arbitrary bytes. Shared by
// the unit tests and the fuzz target: what a view accepts must survive being emitted again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "netdev/wire/arp.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/icmpv4.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/igmp.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "netdev/wire/mld.h"
#include "netdev/wire/ndp.h"
#include "netdev/wire/pretty_print.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "netdev/wire/vlan.h"

namespace tapwire::wire {

// What a codec with this number reads in CheckCodec(): the first byte of a fuzz input.
enum class CodecId : uint8_t {
  kEthernet,
  kVlan,
  kArp,
  kIpv4,
  kIpv6,
  kIpv6Options,
  kIpv6Routing,
  kIpv6Fragment,
  kIpv6Chain,
  kIcmpv4,
  kIcmpv6,
  kRouterSolicitation,
  kRouterAdvertisement,
  kNeighborSolicitation,
  kNeighborAdvertisement,
  kRedirect,
  kMld,
  kMldv2Query,
  kMldv2Report,
  kIgmp,
  kIgmpv3Query,
  kIgmpv3Report,
  kUdp,
  kTcp,
  kTcpOptions,
  kNdpOptions,
  kPrettyPrint,
  kPrettyPrintIp,
  kText,
  kCount,
};

// Bytes that Emit() writes. UDP's `length` is a field of the header and no function.
template <typename Header, typename Fields>
size_t EmittedLength(const Fields& fields) {
  if constexpr (requires { fields.length(); }) {
    return fields.length();
  } else {
    return Header::kLength;
  }
}

// SACK blocks that do not fit beside the other options are documented to be left out.
template <typename Fields>
Fields Emittable(Fields fields) {
  return fields;
}
template <>
inline TcpFields Emittable(TcpFields fields) {
  TcpOptions& options = fields.options;
  options.sack_block_count =
      static_cast<uint8_t>(std::min<size_t>(options.sack_block_count, options.MaxSackBlocks()));
  return fields;
}

// True if `bytes` are refused, or accepted and the law holds for what they say.
template <typename Header, typename Fields>
bool LawHolds(std::span<const uint8_t> bytes) {
  const std::optional<Header> header = Header::Parse(bytes);
  if (!header) return true;
  const Fields fields = Emittable(Fields::From(*header));
  const size_t size = EmittedLength<Header>(fields);
  const std::unique_ptr<uint8_t[]> buffer(new uint8_t[size]);
  fields.Emit({buffer.get(), size});
  const std::optional<Header> again = Header::Parse(std::span<const uint8_t>(buffer.get(), size));
  return again.has_value() && again->bytes().size() == size && Fields::From(*again) == fields;
}

// Options of IPv4: offsets ascend and everything stays inside.
inline bool Ipv4OptionsInside(std::span<const uint8_t> bytes) {
  const auto header = Ipv4Header::Parse(bytes);
  if (!header) return true;
  (void)header->HeaderChecksumOk();
  (void)ValidateIpv4Header(bytes);
  Ipv4OptionIterator it(header->options());
  size_t end = 0;
  while (const auto option = it.Next()) {
    if (option->offset < end) return false;
    end = option->offset + (option->type == Ipv4OptionType::kNop ? 1 : 2 + option->data.size());
    if (end > header->options().size()) return false;
  }
  return true;
}

inline bool Ipv6OptionsInside(std::span<const uint8_t> bytes) {
  const auto header = Ipv6OptionsHeader::Parse(bytes);
  if (!header) return true;
  Ipv6OptionIterator it = header->options();
  size_t end = 2;
  while (const auto option = it.Next()) {
    if (option->offset != end) return false;
    end += option->type == Ipv6OptionType::kPad1 ? 1 : 2 + option->data.size();
  }
  return it.malformed() ? end < header->length() : end == header->length();
}

// The chain ends, after at most the allowed number of headers, with all offsets inside.
inline bool ChainIsBounded(std::span<const uint8_t> bytes) {
  const auto header = Ipv6Header::Parse(bytes);
  if (!header) return true;
  (void)ValidateIpv6Header(bytes);
  Ipv6ExtensionIterator chain(*header);
  size_t count = 0;
  while (const auto extension = chain.Next()) {
    ++count;
    if (extension->offset + extension->bytes.size() != chain.offset()) return false;
  }
  return count <= Ipv6ExtensionIterator::kDefaultMaxHeaders && chain.end() != Ipv6ChainEnd::kNone &&
         chain.offset() <= bytes.size() && chain.next_header_offset() < bytes.size();
}

inline bool TcpOptionsLaw(std::span<const uint8_t> bytes) {
  TcpOptions options = TcpOptions::Parse(bytes.first(std::min<size_t>(bytes.size(), 40)));
  options.sack_block_count =
      static_cast<uint8_t>(std::min<size_t>(options.sack_block_count, options.MaxSackBlocks()));
  const size_t size = options.length();
  if (size > TcpOptions::kMaxLength || size % 4 != 0) return false;
  const std::unique_ptr<uint8_t[]> buffer(new uint8_t[size]);
  options.Emit({buffer.get(), size});
  return TcpOptions::Parse({buffer.get(), size}) == options;
}

inline bool NdpOptionsLaw(std::span<const uint8_t> bytes) {
  const auto options = NdpOptions::Parse(bytes);
  if (!options) return true;
  const size_t size = options->length();
  const std::unique_ptr<uint8_t[]> buffer(new uint8_t[size]);
  options->Emit({buffer.get(), size});
  return NdpOptions::Parse({buffer.get(), size}) == options;
}

// Whatever a text parser accepts, its canonical text means the same.
template <typename T>
bool TextLaw(absl::string_view text) {
  const std::optional<T> value = T::Parse(text);
  return !value || T::Parse(value->ToString()) == value;
}

inline bool AllTextLaws(std::span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return TextLaw<MacAddress>(text) && TextLaw<Ipv4Address>(text) && TextLaw<Ipv6Address>(text) &&
         TextLaw<IpAddress>(text) && TextLaw<IpPrefix>(text) && TextLaw<Endpoint>(text);
}

inline bool PrintsOneLine(const std::string& line) {
  return !line.empty() && line.find('\n') == std::string::npos;
}

// Runs one codec over `bytes`; false if its law is broken.
inline bool CheckCodec(CodecId id, std::span<const uint8_t> bytes) {
  switch (id) {
    case CodecId::kEthernet:
      if (const auto h = EthernetHeader::Parse(bytes)) (void)ParseSnap(*h);
      return LawHolds<EthernetHeader, EthernetFields>(bytes);
    case CodecId::kVlan:
      return LawHolds<VlanHeader, VlanFields>(bytes);
    case CodecId::kArp:
      return LawHolds<ArpHeader, ArpFields>(bytes);
    case CodecId::kIpv4:
      return LawHolds<Ipv4Header, Ipv4Fields>(bytes) && Ipv4OptionsInside(bytes);
    case CodecId::kIpv6:
      return LawHolds<Ipv6Header, Ipv6Fields>(bytes);
    case CodecId::kIpv6Options:
      return LawHolds<Ipv6OptionsHeader, Ipv6OptionsFields>(bytes) && Ipv6OptionsInside(bytes);
    case CodecId::kIpv6Routing:
      return LawHolds<Ipv6RoutingHeader, Ipv6RoutingFields>(bytes);
    case CodecId::kIpv6Fragment:
      return LawHolds<Ipv6FragmentHeader, Ipv6FragmentFields>(bytes);
    case CodecId::kIpv6Chain:
      return ChainIsBounded(bytes);
    case CodecId::kIcmpv4:
      if (const auto h = Icmpv4Header::Parse(bytes)) (void)h->ChecksumOk();
      return LawHolds<Icmpv4Header, Icmpv4Fields>(bytes);
    case CodecId::kIcmpv6:
      if (const auto h = Icmpv6Header::Parse(bytes)) (void)h->ChecksumOk({}, {});
      return LawHolds<Icmpv6Header, Icmpv6Fields>(bytes);
    case CodecId::kRouterSolicitation:
      return LawHolds<RouterSolicitationHeader, RouterSolicitationFields>(bytes);
    case CodecId::kRouterAdvertisement:
      return LawHolds<RouterAdvertisementHeader, RouterAdvertisementFields>(bytes);
    case CodecId::kNeighborSolicitation:
      return LawHolds<NeighborSolicitationHeader, NeighborSolicitationFields>(bytes);
    case CodecId::kNeighborAdvertisement:
      return LawHolds<NeighborAdvertisementHeader, NeighborAdvertisementFields>(bytes);
    case CodecId::kRedirect:
      return LawHolds<RedirectHeader, RedirectFields>(bytes);
    case CodecId::kMld:
      return LawHolds<MldHeader, MldFields>(bytes);
    case CodecId::kMldv2Query:
      return LawHolds<Mldv2QueryHeader, Mldv2QueryFields>(bytes);
    case CodecId::kMldv2Report:
      return LawHolds<Mldv2ReportHeader, Mldv2ReportFields>(bytes);
    case CodecId::kIgmp:
      if (const auto h = IgmpHeader::Parse(bytes)) (void)h->ChecksumOk();
      return LawHolds<IgmpHeader, IgmpFields>(bytes);
    case CodecId::kIgmpv3Query:
      return LawHolds<Igmpv3QueryHeader, Igmpv3QueryFields>(bytes);
    case CodecId::kIgmpv3Report:
      return LawHolds<Igmpv3ReportHeader, Igmpv3ReportFields>(bytes);
    case CodecId::kUdp:
      return LawHolds<UdpHeader, UdpFields>(bytes);
    case CodecId::kTcp:
      return LawHolds<TcpHeader, TcpFields>(bytes);
    case CodecId::kTcpOptions:
      return TcpOptionsLaw(bytes);
    case CodecId::kNdpOptions:
      return NdpOptionsLaw(bytes);
    case CodecId::kPrettyPrint:
      return PrintsOneLine(PrettyPrint(bytes));
    case CodecId::kPrettyPrintIp:
      return PrintsOneLine(PrettyPrintIp(bytes));
    case CodecId::kText:
      return AllTextLaws(bytes);
    case CodecId::kCount:
      break;
  }
  return true;
}

}  // namespace tapwire::wire
