// SPDX-License-Identifier: Apache-2.0
// PingSocket: sends ICMP and ICMPv6 echo requests and hears of their replies and errors; what a
// Linux "ping socket" (SOCK_DGRAM, IPPROTO_ICMP) does. Same callback rules as UdpSocket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "stack/icmp/echo.h"
#include "stack/ip.h"

namespace tapwire {

class Stack;

struct EchoReply {
  IpAddress source;       // who answered
  IpAddress destination;  // our address it came to
  uint16_t sequence = 0;
  uint8_t ttl = 0;
  uint32_t ifindex = 0;
  Time rx_time;      // when the frame was taken from its device
  PacketPtr packet;  // data() at the echo data
};

struct EchoError {
  absl::Status status;  // with errno, see IcmpErrorStatus
  IcmpErrorKind kind = IcmpErrorKind::kOther;
  uint8_t type = 0, code = 0;
  uint32_t value = 0;     // MTU for kPacketTooBig
  IpAddress reporter;     // who sent the error (ourselves when resolution failed)
  IpAddress destination;  // whom we had asked
  uint16_t sequence = 0;
};

struct EchoRequest {
  IpAddress destination = {};
  uint32_t ifindex = 0;  // needed for link-local and multicast destinations
  std::optional<IpAddress> source = {};
  uint16_t sequence = 0;
  std::span<const uint8_t> data = {};  // ≤ 65,507 (IPv4) or 65,527 (IPv6) bytes
  uint8_t ttl = 0;
  uint8_t tos = 0;
  bool dont_fragment = false;
};

class PingSocket final : private EchoClient {
 public:
  using ReplyCallback = absl::AnyInvocable<void(EchoReply)>;
  using ErrorCallback = absl::AnyInvocable<void(const EchoError&)>;

  // Takes a random free identifier; kResourceExhausted when all 65,536 are in use.
  static absl::StatusOr<std::unique_ptr<PingSocket>> Create(Stack& stack, IpFamily family);
  ~PingSocket() override;
  PingSocket(const PingSocket&) = delete;
  PingSocket& operator=(const PingSocket&) = delete;

  uint16_t identifier() const;
  // Up to 4,096 replies and as many errors wait for the end of a batch; replies beyond that are
  // dropped (kPingQueueFull), and so are all while no callback is set (kIcmpEchoReplyUnmatched).
  void SetReplyCallback(ReplyCallback on_reply);
  void SetErrorCallback(ErrorCallback on_error);
  // The source address that was used, or why it was not sent (as UdpSocket::Send).
  absl::StatusOr<IpAddress> Send(const EchoRequest& request);

 private:
  struct State;
  explicit PingSocket(std::shared_ptr<State> state);
  void OnEchoReply(PacketPtr packet, const IpPacketInfo& info, uint16_t sequence) override;
  void OnEchoError(const IcmpErrorInfo& error, uint16_t sequence) override;
  void OnStackGone() override;
  void ScheduleEvents();

  std::shared_ptr<State> state_;
};

}  // namespace tapwire
