// SPDX-License-Identifier: Apache-2.0
// Headers of packets that might be merged: where they are, whether they belong together, and what
// becomes of them. Everything is read from the bytes; a length that disagrees with the bytes
// present (link padding, a lie) rules a packet out.
#include <cstring>

#include "netdev/base/byteorder.h"
#include "netdev/frame_headers.h"
#include "netdev/gro_protocol.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"

namespace tapwire::netdev::internal {
namespace {

using wire::EtherType;
using wire::IpProtocol;

constexpr int kMaxTags = 2;
constexpr uint16_t kDontFragment = 0x4000;
constexpr size_t kIpv4Tos = 1, kIpv4Total = 2, kIpv4Id = 4, kIpv4Fragment = 6, kIpv4Ttl = 8,
                 kIpv4Protocol = 9, kIpv4Checksum = 10, kIpv4Source = 12;
constexpr size_t kIpv6PayloadLength = 4, kIpv6NextHeader = 6, kIpv6HopLimit = 7, kIpv6Source = 8;

bool IsTransport(uint8_t protocol) {
  return protocol == IpProtocol::kTcp || protocol == IpProtocol::kUdp;
}

GroKind ParseIpv4(const Packet& packet, GroHeaders& out) {
  const std::span<const uint8_t> head = packet.head_bytes();
  if (head.size() < size_t{out.l3} + wire::Ipv4Header::kMinLength) return GroKind::kOther;
  const uint8_t* ip = head.data() + out.l3;
  if (ip[0] >> 4 != 4 || !IsTransport(ip[kIpv4Protocol])) return GroKind::kOther;
  out.udp = ip[kIpv4Protocol] == IpProtocol::kUdp;
  out.l4 = static_cast<uint16_t>(out.l3 + wire::Ipv4Header::kMinLength);
  const bool plain = ip[0] == 0x45 && (LoadBe16(ip + kIpv4Fragment) & ~kDontFragment) == 0 &&
                     LoadBe16(ip + kIpv4Total) == packet.length() - out.l3;
  return plain ? GroKind::kRegular : GroKind::kIrregular;
}

// Behind extension headers. A fragment hides its ports; an authentication header covers every frame
// as it was sent (RFC 4302), so none may be taken apart; a routing header with segments left makes
// the addresses those of a stage.
GroKind ParseIpv6Extensions(std::span<const uint8_t> ip_bytes, GroHeaders& out) {
  wire::Ipv6ExtensionIterator chain(ip_bytes[kIpv6NextHeader],
                                    ip_bytes.subspan(wire::Ipv6Header::kLength));
  bool plain = true;
  while (const auto extension = chain.Next()) {
    const bool options = extension->type == IpProtocol::kIpv6HopByHop ||
                         extension->type == IpProtocol::kIpv6DestOpts;
    const bool routed = extension->type == IpProtocol::kIpv6Routing && extension->bytes[3] == 0;
    plain = plain && (options || routed);
  }
  if (!IsTransport(chain.next_header())) return GroKind::kOther;
  out.udp = chain.next_header() == IpProtocol::kUdp;
  out.l4 = static_cast<uint16_t>(out.l3 + chain.offset());
  return plain && chain.end() == wire::Ipv6ChainEnd::kUpperLayer ? GroKind::kRegular
                                                                 : GroKind::kIrregular;
}

GroKind ParseIpv6(const Packet& packet, GroHeaders& out) {
  const std::span<const uint8_t> head = packet.head_bytes();
  if (head.size() < size_t{out.l3} + wire::Ipv6Header::kLength) return GroKind::kOther;
  const uint8_t* ip = head.data() + out.l3;
  if (ip[0] >> 4 != 6) return GroKind::kOther;
  out.ipv6 = true;
  GroKind kind = GroKind::kRegular;
  if (IsTransport(ip[kIpv6NextHeader])) {
    out.udp = ip[kIpv6NextHeader] == IpProtocol::kUdp;
    out.l4 = static_cast<uint16_t>(out.l3 + wire::Ipv6Header::kLength);
  } else {
    kind = ParseIpv6Extensions(head.subspan(out.l3), out);
  }
  const size_t present = packet.length() - out.l3 - wire::Ipv6Header::kLength;
  if (kind == GroKind::kRegular && LoadBe16(ip + kIpv6PayloadLength) != present) {
    kind = GroKind::kIrregular;
  }
  return kind;
}

// Whether the transport header is whole and, for UDP, what its length says is there.
bool ParseTransport(const Packet& packet, GroHeaders& out) {
  const std::span<const uint8_t> head = packet.head_bytes();
  if (out.l4 > head.size()) return false;
  const std::span<const uint8_t> rest = head.subspan(out.l4);
  size_t header = wire::UdpHeader::kLength;
  if (out.udp) {
    const auto udp = wire::UdpHeader::Parse(rest);
    // A datagram without checksum would get one.
    if (!udp || udp->checksum() == 0 || udp->length() != packet.length() - out.l4) return false;
  } else {
    const auto tcp = wire::TcpHeader::Parse(rest);
    // RFC 1624 §3: nobody computes all ones, so segmentation would not give this back.
    if (!tcp || (tcp->checksum() == 0xffff && packet.meta.csum_state != CsumState::kPartial)) {
      return false;
    }
    header = tcp->header_length();
  }
  out.payload = static_cast<uint16_t>(out.l4 + header);
  out.payload_bytes = static_cast<uint32_t>(packet.length() - out.payload);
  return true;
}

// Whether the metadata is that of one frame, or of a super-packet that may be continued: TCP, of a
// trusted source.
bool ParseMetadata(const Packet& packet, GroHeaders& out) {
  const PacketMeta& meta = packet.meta;
  if (meta.encapsulated) return false;
  if (meta.csum_state == CsumState::kPartial &&
      (meta.csum_start < 0 || packet.csum_start_in_data() != out.l4 ||
       meta.csum_offset != out.checksum_offset())) {
    return false;
  }
  if (meta.gso.size == 0) {
    out.segments = 1;
    out.segment_bytes = static_cast<uint16_t>(out.payload_bytes);
    return meta.gso.type == GsoType::kNone;
  }
  const GsoType kind = out.ipv6 ? GsoType::kTcpv6 : GsoType::kTcpv4;
  const GsoType known = kind | GsoType::kFixedId | GsoType::kTcpEcn | GsoType::kTcpAccEcn;
  out.segment_bytes = meta.gso.size;
  out.segments = (out.payload_bytes + meta.gso.size - 1) / meta.gso.size;
  return !out.udp && meta.gso.Has(kind) && !meta.gso.Has(~known) && out.segments > 1 &&
         meta.csum_state == CsumState::kPartial;
}

size_t AddressBytes(const GroHeaders& headers) { return headers.ipv6 ? 32 : 8; }
const uint8_t* Addresses(const Packet& packet, const GroHeaders& headers) {
  return packet.data() + headers.l3 + (headers.ipv6 ? kIpv6Source : kIpv4Source);
}

bool IdsMayMerge(const GroHeld& held, const uint8_t* first_ip, const uint8_t* ip,
                 IdPattern own_pattern, IdPattern& pattern) {
  // From the first segment on; modulo 2^16.
  const auto distance =
      static_cast<uint16_t>(LoadBe16(ip + kIpv4Id) - LoadBe16(first_ip + kIpv4Id));
  if (pattern == IdPattern::kUnknown) {
    if (distance > 1) return false;
    pattern = distance == 0 ? IdPattern::kFixed : IdPattern::kIncrementing;
  }
  const auto expected = static_cast<uint16_t>(held.headers.segments);
  if (distance != (pattern == IdPattern::kFixed ? 0 : expected)) return false;
  return own_pattern == IdPattern::kUnknown || own_pattern == pattern;
}

bool Ipv6MayMerge(const GroHeld& held, const uint8_t* a, const uint8_t* b,
                  const GroHeaders& headers) {
  const size_t length = size_t{headers.l4} - headers.l3;
  // Version, traffic class, flow label; then the extension headers, byte by byte.
  return LoadBe32(a) == LoadBe32(b) && a[kIpv6NextHeader] == b[kIpv6NextHeader] &&
         a[kIpv6HopLimit] == b[kIpv6HopLimit] && held.headers.l4 == headers.l4 &&
         std::memcmp(a + wire::Ipv6Header::kLength, b + wire::Ipv6Header::kLength,
                     length - wire::Ipv6Header::kLength) == 0;
}

IpAddress AddressAt(const uint8_t* bytes, bool ipv6) {
  if (ipv6) return Ipv6Address::FromBytes(std::span<const uint8_t>(bytes, 16));
  return Ipv4Address::FromBytes(std::span<const uint8_t>(bytes, 4));
}

}  // namespace

GroKind ParseGroHeaders(const Packet& packet, GroHeaders& out) {
  const std::span<const uint8_t> head = packet.head_bytes();
  if (head.size() < wire::EthernetHeader::kLength) return GroKind::kOther;
  const LinkHeaders link = ParseLinkHeaders(head);
  if (link.tags > kMaxTags) return GroKind::kOther;
  out.l3 = static_cast<uint16_t>(link.length);
  GroKind kind = GroKind::kOther;
  if (link.ether_type == EtherType::kIpv4) kind = ParseIpv4(packet, out);
  if (link.ether_type == EtherType::kIpv6) kind = ParseIpv6(packet, out);
  if (kind != GroKind::kRegular) return kind;
  return ParseTransport(packet, out) && ParseMetadata(packet, out) ? GroKind::kRegular
                                                                   : GroKind::kIrregular;
}

uint32_t GroFlowKey(const Packet& packet, const GroHeaders& headers) {
  if (packet.meta.flow_hash != 0) return packet.meta.flow_hash;
  const uint8_t* addresses = Addresses(packet, headers);
  const size_t half = AddressBytes(headers) / 2;
  const uint32_t mixed = LoadBe32(addresses + half - 4) ^ LoadBe32(addresses + 2 * half - 4) ^
                         LoadBe32(packet.data() + headers.l4);
  // Fibonacci hashing: the high bits depend on all.
  return (mixed * 0x9e3779b1U) >> 16;
}

bool SameGroHosts(const GroHeld& held, const Packet& packet, const GroHeaders& headers) {
  return held.headers.ipv6 == headers.ipv6 && held.headers.udp == headers.udp &&
         std::memcmp(Addresses(*held.packet, held.headers), Addresses(packet, headers),
                     AddressBytes(headers)) == 0;
}

bool SameGroFlow(const GroHeld& held, const Packet& packet, const GroHeaders& headers) {
  const Packet& first = *held.packet;
  const PacketMeta &a = first.meta, &b = packet.meta;
  const bool same_tag =
      a.vlan_present == b.vlan_present &&
      (!a.vlan_present || (a.vlan_tci == b.vlan_tci && a.vlan_proto == b.vlan_proto));
  return same_tag && a.rx_device == b.rx_device && a.flow_hash == b.flow_hash &&
         held.headers.l3 == headers.l3 &&
         LoadBe32(first.data() + held.headers.l4) == LoadBe32(packet.data() + headers.l4) &&
         SameGroHosts(held, packet, headers) &&
         std::memcmp(first.data(), packet.data(), headers.l3) == 0;
}

bool Ipv4HeaderSumOk(const Packet& packet, const GroHeaders& headers) {
  const uint8_t* ip = packet.data() + headers.l3;
  uint64_t sum = 0;
  for (size_t i = 0; i < wire::Ipv4Header::kMinLength; i += 4) sum += LoadBe32(ip + i);
  sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff && LoadBe16(ip + kIpv4Checksum) != 0xffff;
}

IdPattern IdPatternOf(const Packet& packet, const GroHeaders& headers) {
  if (headers.segments == 1) return IdPattern::kUnknown;
  return packet.meta.gso.Has(GsoType::kFixedId) ? IdPattern::kFixed : IdPattern::kIncrementing;
}

bool NetworkMayMerge(const GroHeld& held, const Packet& packet, const GroHeaders& headers,
                     IdPattern& pattern) {
  const uint8_t* a = held.packet->data() + held.headers.l3;
  const uint8_t* b = packet.data() + headers.l3;
  if (headers.ipv6) return Ipv6MayMerge(held, a, b, headers);
  return a[kIpv4Tos] == b[kIpv4Tos] && a[kIpv4Ttl] == b[kIpv4Ttl] &&
         a[kIpv4Fragment] == b[kIpv4Fragment] &&
         IdsMayMerge(held, a, b, IdPatternOf(packet, headers), pattern);
}

void FinishSuperPacket(GroHeld& held) {
  Packet& packet = *held.packet;
  const GroHeaders& headers = held.headers;
  uint8_t* ip = packet.data() + headers.l3;
  const size_t total = packet.length() - headers.l3;
  const auto transport = static_cast<uint32_t>(packet.length() - headers.l4);
  GsoInfo& gso = packet.meta.gso;
  if (headers.ipv6) {
    StoreBe16(ip + kIpv6PayloadLength, static_cast<uint16_t>(total - wire::Ipv6Header::kLength));
    gso.type |= headers.udp ? GsoType::kUdpL4 : GsoType::kTcpv6;
  } else {
    StoreBe16(ip + kIpv4Total, static_cast<uint16_t>(total));
    StoreBe16(ip + kIpv4Checksum, 0);
    StoreBe16(ip + kIpv4Checksum, wire::ChecksumOf({ip, wire::Ipv4Header::kMinLength}));
    gso.type |= headers.udp ? GsoType::kUdpL4 : GsoType::kTcpv4;
    if (held.id_pattern == IdPattern::kFixed) gso.type |= GsoType::kFixedId;
  }
  gso.size = headers.segment_bytes;
  gso.segs = static_cast<uint16_t>(headers.segments);
  uint8_t* l4 = packet.data() + headers.l4;
  if (headers.udp) StoreBe16(l4 + 4, static_cast<uint16_t>(transport));
  const size_t half = AddressBytes(headers) / 2;
  const uint8_t* addresses = Addresses(packet, headers);
  StoreBe16(l4 + headers.checksum_offset(),
            wire::PseudoHeaderSum(AddressAt(addresses, headers.ipv6),
                                  AddressAt(addresses + half, headers.ipv6),
                                  headers.udp ? IpProtocol::kUdp : IpProtocol::kTcp, transport));
  packet.meta.csum_state = CsumState::kPartial;
  packet.meta.csum_level = 0;
  packet.meta.csum_offset = static_cast<uint16_t>(headers.checksum_offset());
  packet.set_csum_start_in_data(headers.l4);
}

}  // namespace tapwire::netdev::internal
