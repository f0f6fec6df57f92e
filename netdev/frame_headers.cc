// SPDX-License-Identifier: Apache-2.0
// Walks link, network and transport headers.
#include "netdev/frame_headers.h"

#include "netdev/base/byteorder.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"
#include "netdev/wire/vlan.h"

namespace tapwire::netdev {
namespace {

using wire::EtherType;
using wire::IpProtocol;

constexpr size_t kTcpChecksumOffset = 16;  // RFC 9293 §3.1
constexpr size_t kUdpChecksumOffset = 6;   // RFC 768

bool IsTag(uint16_t ether_type) {
  return ether_type == EtherType::kVlan || ether_type == EtherType::kQinQ;
}

bool ParseIpv4(std::span<const uint8_t> frame, TransportHeaders& out) {
  const auto ip = wire::Ipv4Header::Parse(frame.subspan(out.l3));
  if (!ip || ip->version() != 4 || ip->IsFragment()) return false;
  out.dont_fragment = ip->dont_fragment();
  out.protocol = ip->protocol();
  out.l4 = out.l3 + ip->header_length();
  return true;
}

// A routing header with segments left means that the pseudo-header holds another
// destination than the fixed header (RFC 8200 §8.1).
bool HidesDestination(const wire::Ipv6Extension& extension) {
  if (extension.type != IpProtocol::kIpv6Routing) return false;
  const auto routing = wire::Ipv6RoutingHeader::Parse(extension.bytes);
  return !routing || routing->segments_left() != 0;
}

bool ParseIpv6(std::span<const uint8_t> frame, TransportHeaders& out) {
  const std::span<const uint8_t> packet = frame.subspan(out.l3);
  const auto ip = wire::Ipv6Header::Parse(packet);
  if (!ip || ip->version() != 6) return false;
  // The payload length of a super-packet may say anything: take the bytes there.
  wire::Ipv6ExtensionIterator chain(ip->next_header(), packet.subspan(wire::Ipv6Header::kLength));
  while (const auto extension = chain.Next()) {
    if (extension->type == IpProtocol::kIpv6Fragment || HidesDestination(*extension)) {
      return false;
    }
    out.ipv6_extensions = true;
  }
  if (chain.end() != wire::Ipv6ChainEnd::kUpperLayer) return false;
  out.protocol = chain.next_header();
  out.l4 = out.l3 + chain.offset();
  return true;
}

bool ParseTransport(std::span<const uint8_t> frame, TransportHeaders& out) {
  if (out.l4 > frame.size()) return false;
  const std::span<const uint8_t> rest = frame.subspan(out.l4);
  if (out.protocol == IpProtocol::kTcp) {
    const auto tcp = wire::TcpHeader::Parse(rest);
    if (!tcp) return false;
    out.payload = out.l4 + tcp->header_length();
    return true;
  }
  if (out.protocol == IpProtocol::kUdp && wire::UdpHeader::Parse(rest)) {
    out.payload = out.l4 + wire::UdpHeader::kLength;
    return true;
  }
  return false;
}

}  // namespace

LinkHeaders ParseLinkHeaders(std::span<const uint8_t> frame) {
  LinkHeaders link{.ether_type = LoadBe16(frame.data() + 12),
                   .length = wire::EthernetHeader::kLength};
  while (IsTag(link.ether_type) && frame.size() >= link.length + wire::VlanHeader::kLength) {
    link.ether_type = LoadBe16(frame.data() + link.length + 2);
    link.length += wire::VlanHeader::kLength;
    ++link.tags;
  }
  return link;
}

size_t TransportHeaders::checksum_offset() const {
  return protocol == IpProtocol::kTcp ? kTcpChecksumOffset : kUdpChecksumOffset;
}

std::optional<TransportHeaders> ParseTransportHeaders(std::span<const uint8_t> frame) {
  if (frame.size() < wire::EthernetHeader::kLength) return std::nullopt;
  const LinkHeaders link = ParseLinkHeaders(frame);
  TransportHeaders out{.ether_type = link.ether_type, .tags = link.tags, .l3 = link.length};
  const bool ip_ok = link.ether_type == EtherType::kIpv4   ? ParseIpv4(frame, out)
                     : link.ether_type == EtherType::kIpv6 ? ParseIpv6(frame, out)
                                                           : false;
  if (!ip_ok || !ParseTransport(frame, out)) return std::nullopt;
  return out;
}

AddressPair AddressesOf(const TransportHeaders& headers, std::span<const uint8_t> frame) {
  if (headers.ether_type == EtherType::kIpv4) {
    return {Ipv4Address::FromBytes(frame.subspan(headers.l3 + 12, 4)),
            Ipv4Address::FromBytes(frame.subspan(headers.l3 + 16, 4))};
  }
  return {Ipv6Address::FromBytes(frame.subspan(headers.l3 + 8, 16)),
          Ipv6Address::FromBytes(frame.subspan(headers.l3 + 24, 16))};
}

}  // namespace tapwire::netdev
