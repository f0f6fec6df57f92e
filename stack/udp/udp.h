// SPDX-License-Identifier: Apache-2.0
// UDP (RFC 768, RFC 1122 §4.1, RFC 8200 §8.1) for both families: input checks, look-up of the
// receiver, output with checksum offload, ICMP errors. Sockets are in stack/sockets/udp_socket.h.
//
//   look-up order:  4-tuple (connected)  →  local address + port  →  any address + port
//   multicast and broadcast: every binding that matches gets a copy
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "netdev/packet/packet.h"
#include "stack/flow_key.h"
#include "stack/ip.h"
#include "stack/route.h"

namespace tapwire {

class Stack;
struct UdpBinding;

// Facts about one received datagram that its receiver may want.
struct UdpDatagramInfo {
  Endpoint source;       // zone: the interface, for link-local sources
  Endpoint destination;  // our side, as the sender addressed it (RFC 1122 §4.1.3.5)
  uint32_t ifindex = 0;
  uint8_t ttl = 0;
  uint8_t tos = 0;
  IpDelivery delivery = IpDelivery::kUnicast;
};

// Whoever receives datagrams of a binding. Called inside packet processing: must only queue.
class UdpReceiver {
 public:
  virtual ~UdpReceiver() = default;
  // `packet` data() is at the payload. Returns kNone when it was taken; otherwise why not (the
  // packet is freed and the drop counted by the caller).
  virtual DropReason OnDatagram(PacketPtr packet, const UdpDatagramInfo& info) = 0;
  // An ICMP error about a datagram this binding sent (RFC 1122 §4.1.3.3).
  virtual void OnError(const IcmpErrorInfo& error) = 0;
  // Whether it wants group datagrams that came for `group` on interface `ifindex`.
  virtual bool HasJoined(const IpAddress& group, uint32_t ifindex) const = 0;
  // The stack is going away; the binding is gone.
  virtual void OnStackGone() = 0;
};

// One socket's place in the tables. Owned by its receiver, which must Unbind() before it dies.
struct UdpBinding {
  Endpoint local;   // address may be unspecified; port never 0 once bound
  Endpoint remote;  // port 0: not connected
  bool reuse_address = false;
  bool v6_only = false;  // an IPv6 wildcard takes IPv4 datagrams too unless set
  UdpReceiver* receiver = nullptr;
  bool connected() const { return remote.port != 0; }
};

class Udp final : public TransportProtocol {
 public:
  // The UDP of `stack`, made and registered on first use; owned by the stack.
  static Udp& Install(Stack& stack);
  explicit Udp(Stack& stack);
  ~Udp() override;

  // Puts `binding` into the tables. A local port of 0 is replaced by a free ephemeral one.
  // kAlreadyExists: the address and port are taken; kResourceExhausted: no free port or the limit
  // of sockets is reached.
  absl::Status Bind(UdpBinding& binding);
  void Unbind(UdpBinding& binding);
  // Moves a bound binding between the connected and the unconnected table.
  absl::Status SetRemote(UdpBinding& binding, const Endpoint& remote);

  struct SendRequest {
    const Route* route = nullptr;
    uint16_t source_port = 0;
    uint16_t destination_port = 0;
    IpSendOptions ip;  // protocol is set by Send
  };
  // `packet` data() is at the payload (≤ 65,507 bytes for IPv4, 65,527 for IPv6: kTooBig beyond).
  netdev::TxResult Send(PacketPtr packet, const SendRequest& request);

  DropReason Input(PacketPtr packet, const IpPacketInfo& info) override;
  bool OnIcmpError(const IcmpErrorInfo& error) override;

  size_t bound_count() const { return bound_count_; }

 private:
  using Bindings = std::vector<UdpBinding*>;  // most recent last

  DropReason CheckHeader(Packet& packet, const IpPacketInfo& info, UdpDatagramInfo& datagram);
  DropReason DeliverOne(PacketPtr packet, const IpPacketInfo& info,
                        const UdpDatagramInfo& datagram);
  DropReason DeliverSuper(PacketPtr packet, const IpPacketInfo& info,
                          const UdpDatagramInfo& datagram);
  DropReason DeliverToGroup(PacketPtr packet, const UdpDatagramInfo& datagram);
  DropReason HandOver(UdpBinding& binding, PacketPtr packet, const UdpDatagramInfo& datagram);
  DropReason CountDrop(PacketPtr packet, IpFamily family, DropReason reason);
  UdpBinding* FindUnicast(const UdpDatagramInfo& datagram) const;
  UdpBinding* FindBound(const IpAddress& local, uint16_t port) const;
  bool Conflicts(const UdpBinding& binding) const;
  bool IsPortFree(const UdpBinding& binding, uint16_t port) const;

  Stack& stack_;
  absl::flat_hash_map<FlowKey, UdpBinding*, FlowKeyHash> connected_;
  absl::flat_hash_map<uint16_t, Bindings>
      by_port_;  // unconnected and connected ones, by local port
  size_t bound_count_ = 0;
};

}  // namespace tapwire
