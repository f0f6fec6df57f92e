// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/frame_view.h"

#include "netdev/base/byteorder.h"
#include "netdev/wire/arp.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/ipv6_ext.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"

namespace tapwire::testutil {
namespace {

void DissectUpper(FrameView& view) {
  if (view.fragment_offset != 0) return;
  switch (view.protocol) {
    case wire::IpProtocol::kUdp: {
      const auto udp = wire::UdpHeader::Parse(view.upper);
      if (!udp) return;
      view.source_port = udp->src_port();
      view.destination_port = udp->dst_port();
      view.checksum = udp->checksum();
      view.payload = udp->payload();
      return;
    }
    case wire::IpProtocol::kTcp: {
      const auto tcp = wire::TcpHeader::Parse(view.upper);
      if (!tcp) return;
      view.source_port = tcp->src_port();
      view.destination_port = tcp->dst_port();
      view.seq = tcp->seq();
      view.ack = tcp->ack();
      view.tcp_flags = tcp->flags().bits();
      view.window = tcp->window();
      view.tcp_options = wire::TcpOptions::Parse(tcp->options());
      view.checksum = tcp->checksum();
      view.payload = tcp->payload();
      return;
    }
    case wire::IpProtocol::kIcmp:
    case wire::IpProtocol::kIgmp:
    case wire::IpProtocol::kIcmpv6:
      if (view.upper.size() < 8) return;
      view.type = view.upper[0];
      view.code = view.upper[1];
      view.checksum = LoadBe16(&view.upper[2]);
      view.rest = LoadBe32(&view.upper[4]);
      view.payload = view.upper.subspan(8);
      return;
    default:
      view.payload = view.upper;
  }
}

void DissectIpv4(std::span<const uint8_t> packet, FrameView& view) {
  const auto ip = wire::Ipv4Header::Parse(packet);
  if (!ip || ip->version() != 4) return;
  view.version = 4;
  view.source = ip->source();
  view.destination = ip->destination();
  view.ttl = ip->ttl();
  view.tos = ip->tos();
  view.packet_length = ip->total_length();
  view.dont_fragment = ip->dont_fragment();
  view.is_fragment = ip->IsFragment();
  view.id = ip->identification();
  view.fragment_offset = static_cast<uint32_t>(ip->fragment_offset());
  view.more_fragments = ip->more_fragments();
  view.protocol = ip->protocol();
  view.upper = ip->payload();
  wire::Ipv4OptionIterator options(ip->options());
  while (const auto option = options.Next()) {
    if (option->type == wire::Ipv4OptionType::kRouterAlert) view.router_alert = true;
  }
  DissectUpper(view);
}

void DissectExtension(const wire::Ipv6Extension& extension, FrameView& view) {
  if (extension.type == wire::IpProtocol::kIpv6Fragment) {
    const auto fragment = wire::Ipv6FragmentHeader::Parse(extension.bytes);
    if (!fragment) return;
    view.is_fragment = true;
    view.id = fragment->identification();
    view.fragment_offset = static_cast<uint32_t>(fragment->fragment_offset());
    view.more_fragments = fragment->more_fragments();
  }
  if (extension.type == wire::IpProtocol::kIpv6HopByHop) {
    wire::Ipv6OptionIterator options(extension.bytes);
    while (const auto option = options.Next()) {
      if (option->type == wire::Ipv6OptionType::kRouterAlert) view.router_alert = true;
    }
  }
}

void DissectIpv6(std::span<const uint8_t> packet, FrameView& view) {
  const auto ip = wire::Ipv6Header::Parse(packet);
  if (!ip || ip->version() != 6) return;
  view.version = 6;
  view.source = ip->source();
  view.destination = ip->destination();
  view.ttl = ip->hop_limit();
  view.tos = ip->traffic_class();
  view.flow_label = ip->flow_label();
  view.packet_length = static_cast<uint32_t>(wire::Ipv6Header::kLength) + ip->payload_length();
  wire::Ipv6ExtensionIterator chain(*ip);
  while (const auto extension = chain.Next()) DissectExtension(*extension, view);
  view.protocol = chain.next_header();
  view.upper = chain.payload();
  DissectUpper(view);
}

}  // namespace

FrameView Dissect(std::span<const uint8_t> frame) {
  FrameView view;
  view.bytes = frame;
  const auto ethernet = wire::EthernetHeader::Parse(frame);
  if (!ethernet) return view;
  view.has_link = true;
  view.link_source = ethernet->source();
  view.link_destination = ethernet->destination();
  view.ether_type = ethernet->ether_type();
  std::span<const uint8_t> rest = ethernet->payload();
  while ((view.ether_type == wire::EtherType::kVlan || view.ether_type == wire::EtherType::kQinQ) &&
         rest.size() >= 4) {
    if (!view.vlan_tci) view.vlan_tci = LoadBe16(rest.data());
    view.ether_type = LoadBe16(rest.data() + 2);
    rest = rest.subspan(4);
  }
  if (view.ether_type == wire::EtherType::kIpv4) DissectIpv4(rest, view);
  if (view.ether_type == wire::EtherType::kIpv6) DissectIpv6(rest, view);
  if (view.ether_type == wire::EtherType::kArp) {
    if (const auto arp = wire::ArpHeader::Parse(rest)) {
      view.arp = {.operation = arp->operation(),
                  .sender_mac = arp->sender_hardware_address(),
                  .target_mac = arp->target_hardware_address(),
                  .sender_ip = arp->sender_protocol_address(),
                  .target_ip = arp->target_protocol_address()};
    }
  }
  return view;
}

FrameView DissectIp(std::span<const uint8_t> packet) {
  FrameView view;
  view.bytes = packet;
  if (packet.empty()) return view;
  if (packet[0] >> 4 == 4) DissectIpv4(packet, view);
  if (packet[0] >> 4 == 6) DissectIpv6(packet, view);
  return view;
}

std::vector<GroupRecordView> GroupRecords(const FrameView& view) {
  std::vector<GroupRecordView> records;
  const size_t address = view.is_v6() ? 16 : 4;
  const auto address_at = [&](size_t at) {
    const std::span<const uint8_t> bytes = view.payload.subspan(at, address);
    return view.is_v6() ? IpAddress(Ipv6Address::FromBytes(bytes))
                        : IpAddress(Ipv4Address::FromBytes(bytes));
  };
  size_t at = 0;
  for (uint32_t left = view.rest & 0xffff; left > 0; --left) {
    if (view.payload.size() < at + 4 + address) break;
    GroupRecordView record{.type = view.payload[at], .group = address_at(at + 4), .sources = {}};
    const size_t sources = LoadBe16(&view.payload[at + 2]);
    const size_t aux = view.payload[at + 1] * size_t{4};
    at += 4 + address;
    if (view.payload.size() < at + sources * address + aux) break;
    for (size_t i = 0; i < sources; ++i) record.sources.push_back(address_at(at + i * address));
    at += sources * address + aux;
    records.push_back(std::move(record));
  }
  return records;
}

std::optional<MacAddress> NdLinkAddress(const FrameView& view, uint8_t kind) {
  // Solicitation and advertisement have 24 bytes before the options, router solicitation has 8.
  const size_t fixed = view.type == 133 ? 8 : view.type == 134 ? 16 : view.type == 137 ? 40 : 24;
  for (size_t at = fixed; at + 8 <= view.upper.size();) {
    if (view.upper[at] == kind) return MacAddress::FromBytes(view.upper.subspan(at + 2, 6));
    if (view.upper[at + 1] == 0) break;
    at += view.upper[at + 1] * size_t{8};
  }
  return std::nullopt;
}

}  // namespace tapwire::testutil
