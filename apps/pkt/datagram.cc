// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/datagram.h"

#include <algorithm>
#include <utility>

#include "apps/pkt/icmp_names.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/icmpv4.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"

namespace tapwire::pkt {
namespace {

uint8_t EcnBits(EcnSpec ecn) {
  switch (ecn) {
    case EcnSpec::kEct0:
    case EcnSpec::kEct01:
      return 2;
    case EcnSpec::kEct1:
      return 1;
    case EcnSpec::kCe:
      return 3;
    default:
      return 0;
  }
}

uint8_t TosByte(const IpSpec& ip) {
  const uint8_t tos = ip.tos.value_or(0);
  return ip.ecn == EcnSpec::kUnchecked ? tos : static_cast<uint8_t>((tos & 0xfc) | EcnBits(ip.ecn));
}

constexpr uint8_t kPeerTtl = 255;

// An IP header in front of `body`, whose length field says `claimed` bytes of payload: a quote is
// cut short, its header is not.
std::vector<uint8_t> WithIpHeader(const Ends& ends, const IpSpec& ip, uint8_t protocol,
                                  std::span<const uint8_t> body, size_t claimed) {
  std::vector<uint8_t> out;
  const uint8_t ttl = ip.ttl.value_or(kPeerTtl);
  if (ends.source.address.is_v4()) {
    wire::Ipv4Fields fields;
    fields.tos = TosByte(ip);
    fields.total_length = static_cast<uint16_t>(std::min<size_t>(claimed + 20, 65535));
    fields.dont_fragment = true;
    fields.ttl = ttl;
    fields.protocol = protocol;
    fields.source = ends.source.address.v4();
    fields.destination = ends.destination.address.v4();
    out.resize(fields.length());
    fields.Emit(out);
  } else {
    wire::Ipv6Fields fields;
    fields.traffic_class = TosByte(ip);
    fields.flow_label = ip.flow_label.value_or(0);
    fields.payload_length = static_cast<uint16_t>(std::min<size_t>(claimed, 65535));
    fields.next_header = protocol;
    fields.hop_limit = ttl;
    fields.source = ends.source.address.v6();
    fields.destination = ends.destination.address.v6();
    out.resize(fields.length());
    fields.Emit(out);
  }
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

uint8_t IcmpProtocol(const Ends& ends) {
  return ends.source.address.is_v4() ? wire::IpProtocol::kIcmp : wire::IpProtocol::kIcmpv6;
}

std::vector<uint8_t> TcpBytes(const Ends& ends, const TcpSpec& tcp, uint32_t first_byte) {
  const std::vector<uint8_t> options = BuildOptionBytes(tcp.options);
  wire::TcpFields fields;
  fields.src_port = ends.source.port;
  fields.dst_port = ends.destination.port;
  fields.seq = tcp.seq;
  fields.ack = tcp.ack.value_or(0);
  fields.flags = wire::TcpFlags(tcp.flags);
  fields.window = tcp.window.value_or(0);
  fields.urgent_pointer = tcp.urgent.value_or(0);
  std::vector<uint8_t> out(wire::TcpHeader::kMinLength);
  fields.Emit(out);
  out.insert(out.end(), options.begin(), options.end());
  out[12] = static_cast<uint8_t>(out.size() / 4 << 4);
  for (uint32_t i = 0; i < tcp.length; ++i) out.push_back(PeerByte(first_byte + i));
  StoreBe16(out.data() + 16, wire::TransportChecksum(ends.source.address, ends.destination.address,
                                                     wire::IpProtocol::kTcp, out));
  return out;
}

std::vector<uint8_t> UdpBytes(const Ends& ends, uint32_t length) {
  std::vector<uint8_t> out(8 + size_t{length});
  wire::UdpFields fields;
  fields.src_port = ends.source.port;
  fields.dst_port = ends.destination.port;
  fields.length = static_cast<uint16_t>(out.size());
  fields.Emit(out);
  for (uint32_t i = 0; i < length; ++i) out[8 + i] = PeerByte(i);
  const uint16_t sum = wire::TransportChecksum(ends.source.address, ends.destination.address,
                                               wire::IpProtocol::kUdp, out);
  StoreBe16(out.data() + 6, sum == 0 ? uint16_t{0xffff} : sum);
  return out;
}

// What the quote of an error shows: the IP header and the start of the transport header.
std::vector<uint8_t> QuoteBytes(const Ends& quoted, const QuoteSpec& quote) {
  std::vector<uint8_t> transport;
  if (quote.udp) {
    transport = UdpBytes(quoted, quote.length);
    transport.resize(8);
  } else {
    TcpSpec tcp;
    tcp.seq = quote.seq;
    tcp.flags = 0x10;
    transport = TcpBytes(quoted, tcp, 0);
  }
  IpSpec ip;
  ip.ttl = 64;
  const uint8_t protocol = quote.udp ? wire::IpProtocol::kUdp : wire::IpProtocol::kTcp;
  return WithIpHeader(quoted, ip, protocol, transport, (quote.udp ? 8 : 20) + quote.length);
}

uint32_t RestOfHeader(const IcmpSpec& icmp, bool v4) {
  // RFC 1191 §4 has the MTU in the low half, RFC 4443 §3.2 in all 32 bits.
  if (icmp.mtu) return v4 ? *icmp.mtu & 0xffff : *icmp.mtu;
  return uint32_t{icmp.id.value_or(0)} << 16 | icmp.sequence.value_or(0);
}

std::vector<uint8_t> IcmpBytes(const Ends& ends, IcmpNumbers numbers, uint32_t rest,
                               std::span<const uint8_t> body) {
  std::vector<uint8_t> out = {numbers.type, numbers.code, 0, 0, 0, 0, 0, 0};
  StoreBe32(out.data() + 4, rest);
  out.insert(out.end(), body.begin(), body.end());
  const uint16_t sum = ends.source.address.is_v4()
                           ? wire::ChecksumOf(out)
                           : wire::TransportChecksum(ends.source.address, ends.destination.address,
                                                     wire::IpProtocol::kIcmpv6, out);
  StoreBe16(out.data() + 2, sum);
  return out;
}

// ---- Parsing ----

void ParseTcpBody(std::span<const uint8_t> bytes, ParsedDatagram& out) {
  TcpSpec tcp;
  const auto header = wire::TcpHeader::Parse(bytes);
  if (!header) {
    out.damage = "TCP header cut short";
    out.packet.body = tcp;
    return;
  }
  out.ends.source.port = header->src_port();
  out.ends.destination.port = header->dst_port();
  tcp.flags = header->flags().bits();
  tcp.seq = header->seq();
  tcp.length = static_cast<uint32_t>(header->payload().size());
  if (header->flags().ack()) tcp.ack = header->ack();
  tcp.window = header->window();
  if (header->flags().urg()) tcp.urgent = header->urgent_pointer();
  tcp.options = ParseOptionBytes(header->options());
  out.payload.assign(header->payload().begin(), header->payload().end());
  if (wire::TransportChecksum(out.ends.source.address, out.ends.destination.address,
                              wire::IpProtocol::kTcp, bytes) != 0) {
    out.damage = "wrong TCP checksum";
  } else if (header->reserved() != 0) {
    out.damage = "reserved bits set";
  } else if (!header->flags().ack() && header->ack() != 0 && !header->flags().rst()) {
    out.damage = "acknowledgment number without ACK flag";
  }
  out.packet.body = std::move(tcp);
}

void ParseUdpBody(std::span<const uint8_t> bytes, ParsedDatagram& out) {
  UdpSpec udp;
  const auto header = wire::UdpHeader::Parse(bytes);
  if (!header || header->length() != bytes.size()) {
    out.damage = "broken UDP length";
  } else {
    out.ends.source.port = header->src_port();
    out.ends.destination.port = header->dst_port();
    out.payload.assign(header->payload().begin(), header->payload().end());
    udp.length = static_cast<uint32_t>(header->payload().size());
    if (wire::TransportChecksum(out.ends.source.address, out.ends.destination.address,
                                wire::IpProtocol::kUdp, bytes) != 0) {
      out.damage = "wrong UDP checksum";
    }
  }
  out.packet.body = udp;
}

bool IsNeighbourOrGroup(uint8_t type) {
  return (type >= 130 && type <= 137) || type == wire::Icmpv6Type::kMldv2Report;
}

bool ParseIcmpBody(std::span<const uint8_t> bytes, ParsedDatagram& out) {
  const bool v4 = out.ends.source.address.is_v4();
  if (bytes.size() < 8 || (!v4 && IsNeighbourOrGroup(bytes[0]))) return false;
  IcmpSpec icmp;
  icmp.type = std::to_string(bytes[0]);
  icmp.code = std::to_string(bytes[1]);
  icmp.id = LoadBe16(bytes.data() + 4);
  icmp.sequence = LoadBe16(bytes.data() + 6);
  icmp.mtu = v4 ? *icmp.sequence : LoadBe32(bytes.data() + 4);
  icmp.length = static_cast<uint32_t>(bytes.size() - 8);
  const uint16_t sum =
      v4 ? wire::ChecksumOf(bytes)
         : wire::TransportChecksum(out.ends.source.address, out.ends.destination.address,
                                   wire::IpProtocol::kIcmpv6, bytes);
  if (sum != 0) out.damage = "wrong ICMP checksum";
  out.payload.assign(bytes.begin() + 8, bytes.end());
  out.packet.body = std::move(icmp);
  return true;
}

EcnSpec EcnOf(uint8_t tos) {
  constexpr EcnSpec kByBits[] = {EcnSpec::kNotEct, EcnSpec::kEct1, EcnSpec::kEct0, EcnSpec::kCe};
  return kByBits[tos & 3];
}

bool ParseTransport(uint8_t protocol, std::span<const uint8_t> body, ParsedDatagram& out) {
  if (protocol == wire::IpProtocol::kTcp) {
    ParseTcpBody(body, out);
    return true;
  }
  if (protocol == wire::IpProtocol::kUdp) {
    ParseUdpBody(body, out);
    return true;
  }
  return protocol == IcmpProtocol(out.ends) && ParseIcmpBody(body, out);
}

}  // namespace

std::vector<uint8_t> BuildDatagram(const Ends& ends, const PacketSpec& packet,
                                   uint32_t first_byte) {
  std::vector<uint8_t> body;
  uint8_t protocol = wire::IpProtocol::kTcp;
  if (const auto* tcp = std::get_if<TcpSpec>(&packet.body)) {
    body = TcpBytes(ends, *tcp, first_byte);
  } else if (const auto* udp = std::get_if<UdpSpec>(&packet.body)) {
    protocol = wire::IpProtocol::kUdp;
    body = UdpBytes(ends, udp->length);
  }
  return WithIpHeader(ends, packet.ip, protocol, body, body.size());
}

std::optional<std::vector<uint8_t>> BuildIcmp(const Ends& quoted, const IpSpec& ip,
                                              const IcmpSpec& icmp) {
  const Ends ends{quoted.destination, quoted.source};
  const bool v4 = ends.source.address.is_v4();
  const auto numbers = FindIcmp(v4 ? IpFamily::kV4 : IpFamily::kV6, icmp.type, icmp.code);
  if (!numbers) return std::nullopt;
  std::vector<uint8_t> body;
  if (icmp.quote) {
    body = QuoteBytes(quoted, *icmp.quote);
  } else {
    for (uint32_t i = 0; i < icmp.length; ++i) body.push_back(PeerByte(i));
  }
  const std::vector<uint8_t> message = IcmpBytes(ends, *numbers, RestOfHeader(icmp, v4), body);
  return WithIpHeader(ends, ip, IcmpProtocol(ends), message, message.size());
}

std::optional<ParsedDatagram> ParseDatagram(std::span<const uint8_t> bytes) {
  ParsedDatagram out;
  out.packet.inbound = false;
  const auto v4 = wire::Ipv4Header::Parse(bytes);
  if (v4 && v4->version() == 4) {
    if (!v4->HeaderChecksumOk()) out.damage = "wrong IPv4 header checksum";
    if (v4->total_length() != bytes.size()) out.damage = "wrong IPv4 total length";
    out.ends = {{v4->source(), 0}, {v4->destination(), 0}};
    out.packet.ip = {.ecn = EcnOf(v4->tos()), .tos = v4->tos(), .ttl = v4->ttl()};
    const std::string damage = out.damage;
    if (!ParseTransport(v4->protocol(), v4->payload(), out)) return std::nullopt;
    if (!damage.empty()) out.damage = damage;
    return out;
  }
  const auto v6 = wire::Ipv6Header::Parse(bytes);
  if (!v6 || v6->version() != 6) return std::nullopt;
  if (v6->payload_length() + wire::Ipv6Header::kLength != bytes.size()) {
    out.damage = "wrong IPv6 payload length";
  }
  out.ends = {{v6->source(), 0}, {v6->destination(), 0}};
  out.packet.ip = {.ecn = EcnOf(v6->traffic_class()),
                   .tos = v6->traffic_class(),
                   .ttl = v6->hop_limit(),
                   .flow_label = v6->flow_label()};
  if (!ParseTransport(v6->next_header(), v6->payload(), out)) return std::nullopt;
  return out;
}

}  // namespace tapwire::pkt
