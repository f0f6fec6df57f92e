// SPDX-License-Identifier: Apache-2.0
// UDP input and output.

#include "stack/udp/udp.h"

#include <algorithm>
#include <utility>

#include "netdev/csum_offload.h"
#include "netdev/wire/ip_protocol.h"
#include "netdev/wire/udp.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

constexpr uint16_t kChecksumOffset = 6;
constexpr size_t kMaxPayload4 = 65535 - 20 - wire::UdpHeader::kLength;
constexpr size_t kMaxPayload6 = 65535 - wire::UdpHeader::kLength;

UdpCounters& CountersOf(Stack& stack, IpFamily family) {
  return family == IpFamily::kV4 ? stack.mib().udp : stack.mib().udp6;
}

bool IsSuperPacket(const Packet& packet, size_t payload) {
  return packet.meta.gso.size != 0 && payload > packet.meta.gso.size;
}

}  // namespace

Udp& Udp::Install(Stack& stack) {
  if (auto* udp = dynamic_cast<Udp*>(stack.transport(wire::IpProtocol::kUdp))) return *udp;
  auto udp = std::make_unique<Udp>(stack);
  Udp& installed = *udp;
  stack.AdoptTransport(wire::IpProtocol::kUdp, std::move(udp));
  return installed;
}

Udp::Udp(Stack& stack)
    : stack_(stack), connected_(0, FlowKeyHash{SipKey::Generate(stack.random())}) {}

Udp::~Udp() {
  for (auto& [port, bindings] : by_port_) {
    for (UdpBinding* b : bindings) b->receiver->OnStackGone();
  }
}

DropReason Udp::CountDrop(PacketPtr packet, IpFamily family, DropReason reason) {
  CountersOf(stack_, family).in_errors.Inc();
  return stack_.Drop(std::move(packet), reason);
}

// Leaves data() at the payload, trimmed to the length field: what lies behind it is no user data
// (RFC 9868 §7).
DropReason Udp::CheckHeader(Packet& packet, const IpPacketInfo& info, UdpDatagramInfo& datagram) {
  if (!packet.EnsureLinear(wire::UdpHeader::kLength)) return DropReason::kUdpTruncated;
  const auto header = wire::UdpHeader::Parse(packet.head_bytes());
  if (!header) return DropReason::kUdpTruncated;
  const size_t length = header->length();
  if (length < wire::UdpHeader::kLength || length > packet.length())
    return DropReason::kUdpBadLength;
  if (header->checksum() == 0) {
    // RFC 8200 §8.1: an IPv6 receiver must discard a datagram without checksum.
    if (info.source.is_v6()) return DropReason::kUdpZeroChecksum6;
  } else if (!netdev::VerifyTransportChecksum(
                 packet, {info.source, info.destination, wire::IpProtocol::kUdp},
                 static_cast<uint32_t>(length))) {
    CountersOf(stack_, info.source.family()).in_csum_errors.Inc();
    return DropReason::kUdpBadChecksum;
  }
  datagram.source.port = header->src_port();
  datagram.destination.port = header->dst_port();
  packet.Trim(length);
  static_cast<void>(packet.Pull(wire::UdpHeader::kLength));
  return DropReason::kNone;
}

DropReason Udp::Input(PacketPtr packet, const IpPacketInfo& info) {
  UdpDatagramInfo datagram;
  const uint32_t ifindex = info.interface->index();
  datagram.source.address = info.source;
  datagram.source.zone = info.source.IsLinkLocal() ? ifindex : 0;
  datagram.destination.address = info.destination;
  datagram.ifindex = ifindex;
  datagram.ttl = info.ttl;
  datagram.tos = info.tos;
  datagram.delivery = info.delivery;
  const DropReason bad = CheckHeader(*packet, info, datagram);
  if (bad != DropReason::kNone) return CountDrop(std::move(packet), info.source.family(), bad);
  if (IsSuperPacket(*packet, packet->length())) {
    return DeliverSuper(std::move(packet), info, datagram);
  }
  packet->meta.gso = GsoInfo();  // one datagram, whatever the device might have cut it into
  return DeliverOne(std::move(packet), info, datagram);
}

DropReason Udp::DeliverOne(PacketPtr packet, const IpPacketInfo& info,
                           const UdpDatagramInfo& datagram) {
  if (datagram.delivery != IpDelivery::kUnicast) return DeliverToGroup(std::move(packet), datagram);
  UdpBinding* binding = FindUnicast(datagram);
  if (binding != nullptr) return HandOver(*binding, std::move(packet), datagram);
  CountersOf(stack_, info.source.family()).no_ports.Inc();
  stack_.SendIcmpError(*packet, info, IcmpErrorKind::kPortUnreachable);
  return stack_.Drop(std::move(packet), DropReason::kUdpNoPort);
}

// A super-packet of a device with UDP segmentation is many datagrams of gso.size bytes.
DropReason Udp::DeliverSuper(PacketPtr packet, const IpPacketInfo& info,
                             const UdpDatagramInfo& datagram) {
  const size_t size = packet->meta.gso.size;
  const size_t total = packet->length();
  packet->meta.gso = GsoInfo();
  // One answer about the whole is enough where nobody listens. It quotes the datagram that the
  // sender handed down: its lengths and, now that it is not to be cut any more, its checksum.
  if (datagram.delivery == IpDelivery::kUnicast && FindUnicast(datagram) == nullptr) {
    return DeliverOne(std::move(packet), info, datagram);
  }
  DropReason last = DropReason::kNone;
  for (size_t offset = 0; offset < total; offset += size) {
    PacketPtr piece = packet->Slice(offset, std::min(size, total - offset), kDefaultHeadroom);
    if (!piece) {
      CountersOf(stack_, info.source.family()).in_errors.Inc();
      return stack_.Drop(std::move(packet), DropReason::kLinkNoBuffer);
    }
    last = DeliverOne(std::move(piece), info, datagram);
  }
  return last;
}

DropReason Udp::HandOver(UdpBinding& binding, PacketPtr packet, const UdpDatagramInfo& datagram) {
  UdpCounters& counters = CountersOf(stack_, datagram.source.address.family());
  const DropReason reason = binding.receiver->OnDatagram(std::move(packet), datagram);
  if (reason == DropReason::kNone) {
    counters.in_datagrams.Inc();
    return reason;
  }
  counters.in_errors.Inc();
  if (reason == DropReason::kUdpReceiveBufferFull) counters.rcvbuf_errors.Inc();
  return stack_.Drop(nullptr, reason);
}

netdev::TxResult Udp::Send(PacketPtr packet, const SendRequest& request) {
  const Route& route = *request.route;
  const IpFamily family = route.destination.family();
  if (packet->length() > (family == IpFamily::kV4 ? kMaxPayload4 : kMaxPayload6)) {
    return netdev::TxResult::kTooBig;
  }
  const wire::UdpFields fields{
      .src_port = request.source_port,
      .dst_port = request.destination_port,
      .length = static_cast<uint16_t>(packet->length() + wire::UdpHeader::kLength)};
  fields.Emit(packet->Push(wire::UdpHeader::kLength));
  netdev::SetPartialChecksum(*packet, {route.source, route.destination, wire::IpProtocol::kUdp},
                             kChecksumOffset);
  IpSendOptions ip = request.ip;
  ip.protocol = wire::IpProtocol::kUdp;
  const netdev::TxResult result = stack_.SendIp(std::move(packet), route, ip);
  UdpCounters& counters = CountersOf(stack_, family);
  (netdev::TxOk(result) ? counters.out_datagrams : counters.sndbuf_errors).Inc();
  return result;
}

// RFC 1122 §4.1.3.3: to whoever sent the quoted datagram.
bool Udp::OnIcmpError(const IcmpErrorInfo& error) {
  const auto header = wire::UdpHeader::Parse(error.transport);
  if (!header) return false;
  UdpDatagramInfo quoted;  // seen as if the peer had answered
  quoted.source = {error.destination, header->dst_port(), 0};
  quoted.destination = {error.source, header->src_port(), 0};
  UdpBinding* binding = FindUnicast(quoted);
  if (binding == nullptr) return false;
  binding->receiver->OnError(error);
  return true;
}

}  // namespace tapwire
