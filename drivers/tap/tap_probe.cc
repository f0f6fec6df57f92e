// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/tap_probe.h"

#include <cstddef>
#include <span>

#include "netdev/wire/checksum.h"
#include "netdev/wire/ethernet.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/ipv4.h"
#include "netdev/wire/ipv6.h"
#include "netdev/wire/tcp.h"
#include "netdev/wire/udp.h"

namespace tapwire::drivers {
namespace {

constexpr uint16_t kSegmentSize = 1000;
constexpr size_t kPayload = kSegmentSize + kSegmentSize / 2;
constexpr uint16_t kDiscardPort = 9;

constexpr Ipv4Address kSourceV4(192, 0, 2, 1);
constexpr Ipv4Address kDestinationV4(192, 0, 2, 2);
constexpr Ipv6Address kSourceV6 = Ipv6Address::FromGroups({0x2001, 0xdb8, 0, 0, 0, 0, 0, 1});
constexpr Ipv6Address kDestinationV6 = Ipv6Address::FromGroups({0x2001, 0xdb8, 0, 0, 0, 0, 0, 2});

void EmitIpv4(std::span<uint8_t> out, uint8_t protocol) {
  wire::Ipv4Fields{.total_length = static_cast<uint16_t>(out.size()),
                   .dont_fragment = true,
                   .ttl = 1,
                   .protocol = protocol,
                   .source = kSourceV4,
                   .destination = kDestinationV4}
      .Emit(out);
}

void EmitIpv6(std::span<uint8_t> out, uint8_t protocol) {
  wire::Ipv6Fields{.payload_length = static_cast<uint16_t>(out.size() - wire::Ipv6Fields::length()),
                   .next_header = protocol,
                   .hop_limit = 1,
                   .source = kSourceV6,
                   .destination = kDestinationV6}
      .Emit(out);
}

// The transport header with the pseudo-header's sum in its checksum field.
void EmitTransport(std::span<uint8_t> out, bool tcp, uint16_t pseudo_sum) {
  if (tcp) {
    wire::TcpFields{.src_port = kDiscardPort,
                    .dst_port = kDiscardPort,
                    .flags = wire::TcpFlags::kAck,
                    .checksum = pseudo_sum}
        .Emit(out);
  } else {
    wire::UdpFields{.src_port = kDiscardPort,
                    .dst_port = kDiscardPort,
                    .length = static_cast<uint16_t>(out.size()),
                    .checksum = pseudo_sum}
        .Emit(out);
  }
}

}  // namespace

ProbeFrame MakeProbeFrame(ProbeKind kind, const MacAddress& mac) {
  const bool v6 = kind == ProbeKind::kTcpv6;
  const bool tcp = kind != ProbeKind::kUdpL4;
  const size_t l3 = wire::EthernetHeader::kLength;
  const size_t l4 = l3 + (v6 ? wire::Ipv6Header::kLength : wire::Ipv4Header::kMinLength);
  const size_t headers = l4 + (tcp ? wire::TcpHeader::kMinLength : wire::UdpHeader::kLength);
  const uint8_t protocol = tcp ? wire::IpProtocol::kTcp : wire::IpProtocol::kUdp;

  ProbeFrame frame;
  frame.bytes.assign(headers + kPayload, 0);
  const std::span<uint8_t> all(frame.bytes);
  wire::EthernetFields{.destination = mac,
                       .source = mac,
                       .ether_type = v6 ? wire::EtherType::kIpv6 : wire::EtherType::kIpv4}
      .Emit(all);
  const std::span<uint8_t> segment = all.subspan(l4);
  const auto segment_length = static_cast<uint32_t>(segment.size());
  if (v6) {
    EmitIpv6(all.subspan(l3), protocol);
    EmitTransport(segment, tcp,
                  wire::PseudoHeaderSum(kSourceV6, kDestinationV6, protocol, segment_length));
  } else {
    EmitIpv4(all.subspan(l3), protocol);
    EmitTransport(segment, tcp,
                  wire::PseudoHeaderSum(kSourceV4, kDestinationV4, protocol, segment_length));
  }
  frame.hdr = {.flags = VnetHdr::kNeedsCsum,
               .gso_type = !tcp ? VnetHdr::kGsoUdpL4
                           : v6 ? VnetHdr::kGsoTcpv6
                                : VnetHdr::kGsoTcpv4,
               .hdr_len = static_cast<uint16_t>(headers),
               .gso_size = kSegmentSize,
               .csum_start = static_cast<uint16_t>(l4),
               .csum_offset = static_cast<uint16_t>(tcp ? 16 : 6)};
  return frame;
}

}  // namespace tapwire::drivers
