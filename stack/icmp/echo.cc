// SPDX-License-Identifier: Apache-2.0
#include "stack/icmp/echo.h"

#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/csum_offload.h"
#include "netdev/wire/checksum.h"
#include "netdev/wire/icmpv4.h"
#include "netdev/wire/icmpv6.h"
#include "netdev/wire/ip_protocol.h"
#include "stack/interface.h"
#include "stack/route.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// Both families have the same eight bytes: type, code, checksum, identifier, sequence.
constexpr size_t kEchoHeaderLength = 8;

// The sum changes by the type and, for IPv6, by the pseudo-header: its addresses are exchanged,
// which changes nothing, unless a group was asked and `source` answers.
uint16_t ReplyChecksum(uint16_t checksum, uint16_t old_type, uint16_t new_type,
                       const IpAddress& asked, const IpAddress& source) {
  checksum = wire::UpdateChecksum16(checksum, old_type, new_type);
  if (source.is_v4() || asked == source) return checksum;
  for (size_t i = 0; i < Ipv6Address::kLength; i += 4) {
    checksum = wire::UpdateChecksum32(checksum, LoadBe32(asked.bytes().data() + i),
                                      LoadBe32(source.bytes().data() + i));
  }
  return checksum;
}

// False if there is no memory.
bool TurnIntoReply(Packet& packet, const IpPacketInfo& info, const IpAddress& source) {
  if (!netdev::ChecksumHelp(packet) || !packet.EnsureLinear(kEchoHeaderLength)) return false;
  const Time rx_time = packet.meta.rx_time;
  packet.meta = {};  // what was known about the received frame is not true of the reply
  packet.meta.rx_time = rx_time;
  uint8_t* const header = packet.data();
  const uint16_t old_type = LoadBe16(header);
  header[0] = info.source.is_v4() ? wire::Icmpv4Type::kEchoReply : wire::Icmpv6Type::kEchoReply;
  header[1] = 0;  // whatever code the request had (RFC 792, RFC 4443 §4.2)
  StoreBe16(header + 2, ReplyChecksum(LoadBe16(header + 2), old_type, LoadBe16(header),
                                      info.destination, source));
  return true;
}

}  // namespace

bool EchoTable::DeliverReply(PacketPtr& packet, const IpPacketInfo& info) const {
  const uint8_t* const header = packet->data();
  EchoClient* const client = Find(LoadBe16(header + 4));
  if (client == nullptr) return false;
  const uint16_t sequence = LoadBe16(header + 6);
  packet->Pull(kEchoHeaderLength);
  client->OnEchoReply(std::move(packet), info, sequence);
  return true;
}

bool EchoTable::DeliverError(const IcmpErrorInfo& error, uint8_t request_type) const {
  if (error.transport.size() < kEchoHeaderLength || error.transport[0] != request_type)
    return false;
  EchoClient* const client = Find(LoadBe16(error.transport.data() + 4));
  if (client == nullptr) return false;
  client->OnEchoError(error, LoadBe16(error.transport.data() + 6));
  return true;
}

DropReason AnswerEcho(Stack& stack, PacketPtr request, const IpPacketInfo& info) {
  const bool v4 = info.source.is_v4();
  IcmpCounters& counters = v4 ? stack.mib().icmp : stack.mib().icmp6;
  Stack::RouteRequest wanted;
  wanted.destination = info.source;
  const bool to_group = info.delivery != IpDelivery::kUnicast;
  if (!to_group) wanted.source = info.destination;
  if (to_group || info.source.IsLinkLocal() || info.destination.IsLinkLocal()) {
    wanted.ifindex = info.interface->index();
  }
  const absl::StatusOr<Route> route = stack.FindRoute(wanted);
  if (!route.ok()) {
    counters.out_errors.Inc();
    return stack.Drop(std::move(request), DropReason::kTxNoRoute);
  }
  if (!TurnIntoReply(*request, info, route->source)) {
    counters.out_errors.Inc();
    return stack.Drop(std::move(request), DropReason::kTxNoBuffer);
  }
  // The reply's DS field is the request's, so that a measured class of service is measured both
  // ways.
  const IpSendOptions options{.protocol = v4 ? wire::IpProtocol::kIcmp : wire::IpProtocol::kIcmpv6,
                              .tos = info.tos};
  if (!netdev::TxOk(stack.SendIp(std::move(request), *route, options))) {
    counters.out_errors.Inc();
    return DropReason::kNone;  // the sending side has counted why
  }
  counters.out_msgs.Inc();
  counters.out_echo_reps.Inc();
  return DropReason::kNone;
}

}  // namespace tapwire
