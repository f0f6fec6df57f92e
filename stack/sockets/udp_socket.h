// SPDX-License-Identifier: Apache-2.0
// UdpSocket: datagrams with callbacks, in the manner of uv_udp_t.
//
// Contract. All calls on the context's thread. Argument errors are returned, never called back. No
// callback runs inside a call: callbacks run after the batch that brought the datagram. A callback
// may destroy any socket, its own included; after the destructor returned none runs. The stack must
// outlive the socket's use: once it is gone every call returns kFailedPrecondition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "netdev/packet/packet.h"
#include "stack/udp/udp.h"

namespace tapwire {

class Stack;

// One received datagram; move-only. Its memory counts against the socket's receive buffer until the
// callback returns, and against the context's pool until it is destroyed.
class Datagram {
 public:
  Datagram(PacketPtr packet, const UdpDatagramInfo& info)
      : packet_(std::move(packet)), info_(info) {}

  const Endpoint& source() const { return info_.source; }
  const Endpoint& destination() const { return info_.destination; }
  const UdpDatagramInfo& info() const { return info_; }
  size_t size() const { return packet_ == nullptr ? 0 : packet_->length(); }
  Time rx_time() const { return packet_ == nullptr ? Time() : packet_->meta.rx_time; }
  // Copies up to out.size() bytes; returns how many.
  size_t CopyTo(std::span<uint8_t> out) const;
  // Visits the bytes where they lie, in order.
  void ForEachSpan(absl::FunctionRef<void(std::span<const uint8_t>)> visit) const;
  // Gives the buffer away, for sending it on without a copy; the datagram is empty afterwards.
  PacketPtr TakePacket() { return std::move(packet_); }

 private:
  PacketPtr packet_;
  UdpDatagramInfo info_;
};

struct UdpSocketOptions {
  IpFamily family = IpFamily::kV4;
  bool v6_only = false;  // IPv6 wildcard sockets take IPv4 datagrams too unless set
  bool reuse_address = false;
  bool broadcast = false;      // needed to send to broadcast addresses (RFC 1122 §4.1.3.6)
  bool dont_fragment = false;  // larger than the path MTU: kOutOfRange (EMSGSIZE)
  uint8_t ttl = 0;             // 0: the stack's default
  uint8_t multicast_ttl = 1;   // RFC 1112 §6.1
  uint8_t tos = 0;
  uint32_t ifindex = 0;             // only through and from this interface
  size_t receive_buffer_bytes = 0;  // 0: config.udp_receive_buffer_bytes
};

class UdpSocket final : private UdpReceiver {
 public:
  using ReceiveCallback = absl::AnyInvocable<void(Datagram)>;
  // An ICMP error about a datagram that was sent from here. `status` carries the errno
  // (ECONNREFUSED, EHOSTUNREACH, EMSGSIZE, …), `peer` the destination it went to.
  using ErrorCallback = absl::AnyInvocable<void(const absl::Status& status, const Endpoint& peer)>;

  static absl::StatusOr<std::unique_ptr<UdpSocket>> Create(Stack& stack,
                                                           const UdpSocketOptions& options = {});
  ~UdpSocket() override;
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  // Local address (unspecified: any) and port (0: an ephemeral one). Once only.
  absl::Status Bind(const Endpoint& local);
  // Fixes the peer: Send() without address, only its datagrams are received, errors are reported.
  // Binds to an ephemeral port if needed. A port of 0 or the unspecified address: kInvalidArgument.
  absl::Status Connect(const Endpoint& remote);
  absl::Status Disconnect();

  // Sends one datagram to the connected peer or to `to`. OK means handed to the network layer (or
  // waiting for address resolution), as with sendto(). Errors: kOutOfRange too long (EMSGSIZE),
  // kResourceExhausted no memory, kNotFound no route, kPermissionDenied broadcast without the
  // option, kUnavailable device down.
  absl::Status Send(std::span<const uint8_t> data,
                    const std::optional<Endpoint>& to = std::nullopt);
  // The same without copying: `packet` data() is the payload, headroom ≥ kDefaultHeadroom as
  // packets from Datagram::TakePacket() and SlabPool::AllocatePacket have it. `source`: send from
  // this address of ours instead of the bound or chosen one (RFC 1122 §4.1.3.5).
  absl::Status SendPacket(PacketPtr packet, const std::optional<Endpoint>& to = std::nullopt,
                          const std::optional<IpAddress>& source = std::nullopt);

  absl::Status ReceiveStart(ReceiveCallback on_datagram);
  void ReceiveStop();  // datagrams queue up to the receive buffer
  // Takes the oldest queued datagram without a callback; nullopt when there is none.
  std::optional<Datagram> TryReceive();
  // Called (after the batch) when the queue was empty and is not any more; for TryReceive users.
  void SetReadyCallback(absl::AnyInvocable<void()> on_ready);
  void SetErrorCallback(ErrorCallback on_error);

  absl::Status JoinGroup(const IpAddress& group, uint32_t ifindex);
  absl::Status LeaveGroup(const IpAddress& group, uint32_t ifindex);

  // Read at each send and receive: may be changed at any time, except family.
  UdpSocketOptions& options();
  Endpoint local() const;
  Endpoint remote() const;
  size_t queued_datagrams() const;
  size_t queued_bytes() const;  // true memory

 private:
  struct State;
  struct Queued;
  explicit UdpSocket(Stack& stack, const UdpSocketOptions& options);

  DropReason OnDatagram(PacketPtr packet, const UdpDatagramInfo& info) override;
  void OnError(const IcmpErrorInfo& error) override;
  bool HasJoined(const IpAddress& group, uint32_t ifindex) const override;
  void OnStackGone() override;

  absl::Status CheckUsable() const;
  absl::Status EnsureBound();
  absl::Status Rebind(const UdpBinding& binding, const Endpoint& remote);
  absl::StatusOr<const Route*> RouteTo(const Endpoint& to,
                                       const std::optional<IpAddress>& source = std::nullopt);
  void ScheduleEvents();

  std::shared_ptr<State> state_;  // shared with the deferred event, which may outlive the socket
};

}  // namespace tapwire
