// SPDX-License-Identifier: Apache-2.0
#include "apps/udp_echo.h"

#include <utility>

#include "netdev/base/status_util.h"
#include "stack/stack.h"

namespace tapwire::apps {

absl::StatusOr<std::unique_ptr<UdpEcho>> UdpEcho::Start(Stack& stack, uint16_t port) {
  std::unique_ptr<UdpEcho> echo(new UdpEcho());
  TW_RETURN_IF_ERROR(echo->Open(stack, IpFamily::kV4, port));
  TW_RETURN_IF_ERROR(echo->Open(stack, IpFamily::kV6, port));
  return echo;
}

absl::Status UdpEcho::Open(Stack& stack, IpFamily family, uint16_t port) {
  TW_ASSIGN_OR_RETURN(std::unique_ptr<UdpSocket> socket,
                      UdpSocket::Create(stack, {.family = family, .v6_only = true}));
  TW_RETURN_IF_ERROR(socket->Bind({IpAddress::Unspecified(family), port, 0}));
  UdpSocket& raw = *socket;
  TW_RETURN_IF_ERROR(socket->ReceiveStart([this, &raw](Datagram d) { Reply(raw, std::move(d)); }));
  sockets_.push_back(std::move(socket));
  return absl::OkStatus();
}

void UdpEcho::Reply(UdpSocket& socket, Datagram datagram) {
  // A datagram from a well-known echo or chargen port would go round for ever (CERT CA-1996-01).
  if (datagram.source().port == socket.local().port) return;
  ++datagrams_;
  bytes_ += datagram.size();
  const Endpoint peer = datagram.source();
  const IpAddress local = datagram.destination().address;
  const bool unicast = datagram.info().delivery == IpDelivery::kUnicast;
  const absl::Status status = socket.SendPacket(
      datagram.TakePacket(), peer, unicast ? std::optional<IpAddress>(local) : std::nullopt);
  if (!status.ok()) ++send_errors_;
}

}  // namespace tapwire::apps
