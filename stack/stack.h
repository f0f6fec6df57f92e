// SPDX-License-Identifier: Apache-2.0
// Stack: one network host. Owns its interfaces, routes, protocol objects and counters; runs on a
// NetContext, which many stacks may share. No threads, no clock, no I/O of its own: frames come
// from the devices of the context, time from NetContext::now(). All calls on the context's thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "netdev/base/drop_reason.h"
#include "netdev/base/siphash.h"
#include "netdev/net_context.h"
#include "netdev/packet/packet.h"
#include "stack/config.h"
#include "stack/interface.h"
#include "stack/ip.h"
#include "stack/mib.h"
#include "stack/route.h"

namespace tapwire {

class EthInput;        // stack/eth/eth_input.h
class GatewayMonitor;  // stack/gateway_monitor.h
class IcmpErrors;      // stack/icmp/icmp_error.h
class Icmpv4;          // stack/icmp/icmpv4.h
class Icmpv6;          // stack/icmp/icmpv6.h
class Ipv4;            // stack/ipv4/ipv4.h
class Ipv6;            // stack/ipv6/ipv6.h
class PathMtuCache;    // stack/path_mtu.h
class Udp;             // stack/udp/udp.h

class Stack {
 public:
  explicit Stack(netdev::NetContext& context, StackConfig config = {});
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  netdev::NetContext& context() { return context_; }
  Time now() const { return context_.now(); }
  Random& random() { return context_.random(); }
  SlabPool& pool() { return context_.pool(); }
  TimerQueue& timers() { return context_.timers(); }
  StackConfig& config() { return config_; }
  const StackConfig& config() const { return config_; }

  // Makes `device` an interface of this stack: registers its packet types, joins 224.0.0.1 and
  // ff02::1, and (config.link_local_address) starts its link-local address once it runs. A device
  // serves one stack: kAlreadyExists otherwise; kFailedPrecondition if it is not registered with
  // this stack's context. The interface goes when the device is unregistered.
  absl::StatusOr<Interface*> AddInterface(netdev::NetDevice& device);
  void RemoveInterface(Interface& interface);
  const std::vector<std::unique_ptr<Interface>>& interfaces() const { return interfaces_; }
  Interface* FindInterface(uint32_t ifindex) const;
  Interface* loopback() const { return loopback_; }

  // Routes. AddRoute's interface may be null: the one whose subnet holds the gateway. Errors of
  // RouteTable::Add, and kInvalidArgument if no subnet does or the gateway is an address of our
  // own.
  absl::Status AddRoute(RouteEntry entry);
  absl::Status RemoveRoute(const RouteEntry& entry);
  const RouteTable& routes() const { return routes_; }
  uint32_t route_generation() const { return routes_.generation(); }

  // Whether unicast packets for others are forwarded between the interfaces, both families alike
  // (RFC 1812, RFC 8200; config.forwarding at the start). The devices are told: LRO goes off, and
  // does not come back when forwarding ends. Redirects are not sent, groups not forwarded.
  void SetForwarding(bool on);
  bool forwarding() const { return config_.forwarding; }
  // The way of a packet from `source` that is to be forwarded: by the route table alone, with the
  // MTU of the link, since what senders learn of a path is theirs. Null: no route.
  std::optional<Route> FindForwardRoute(const IpAddress& source, const IpAddress& destination);

  struct RouteRequest {
    IpAddress destination;
    std::optional<IpAddress> source = {};  // must be one of ours and usable
    uint32_t ifindex = 0;  // 0: any; needed for link-local and multicast destinations
  };
  // Chooses interface, next hop, source address (RFC 6724 §5) and MTU. Not a per-packet call for
  // connected sockets: keep the Route while its generation is current.
  // kNotFound no route; kInvalidArgument the source is not ours or the destination not one to send
  // to; kUnavailable the interface is down; kFailedPrecondition no usable source address.
  absl::StatusOr<Route> FindRoute(const RouteRequest& request);

  // Sends one datagram: `packet` data() is at the transport header; headroom for IP and link
  // headers must be there (kDefaultHeadroom is enough). Its transport checksum is done or kPartial.
  // Larger than route.mtu: fragmented, or kTooBig when options.dont_fragment (GSO packets: judged
  // by segment). A UDP datagram to a group or broadcast address that we listen to on that interface
  // is delivered here too, unless options.multicast_loop is off (RFC 1112 §7.1).
  netdev::TxResult SendIp(PacketPtr packet, const Route& route, const IpSendOptions& options);

  // For the neighbour tables: a neighbour stopped answering, or is known (again).
  void OnNeighborReachability(uint32_t ifindex, const IpAddress& address, bool reachable);

  // Makes every Route taken so far stale, since something it was built from has changed.
  void InvalidateRoutes() { routes_.Touch(); }

  // Any interface's address (usable) / where it lives.
  Interface* FindLocalAddress(const IpAddress& address) const;

  // Transports. One per protocol number; nullptr unregisters.
  void RegisterTransport(uint8_t protocol, TransportProtocol* transport) {
    transports_[protocol] = transport;
  }
  TransportProtocol* transport(uint8_t protocol) const { return transports_[protocol]; }
  // Null also for a protocol of the other family: ICMP and IGMP are IPv4's, ICMPv6 is IPv6's.
  TransportProtocol* transport(uint8_t protocol, IpFamily family) const;
  // The same for a protocol object that the stack shall own (UDP, TCP are separate libraries).
  void AdoptTransport(uint8_t protocol, std::unique_ptr<TransportProtocol> transport) {
    transports_[protocol] = transport.get();
    adopted_transports_.push_back(std::move(transport));
  }
  // Hands a datagram to its transport; counts and answers an unknown protocol. Called by ipv4,
  // ipv6.
  DropReason DeliverTransport(PacketPtr packet, const IpPacketInfo& info);

  // Raises an ICMP error about a received datagram whose IP header is at meta l3_offset (RFC 1122
  // §3.2.2 and RFC 4443 §2.4 decide whether it may be sent; rate limited). `value`: MTU or pointer.
  void SendIcmpError(const Packet& offending, const IpPacketInfo& info, IcmpErrorKind kind,
                     uint32_t value = 0);

  // A datagram (data() at its IP header) cannot be delivered by `interface`, since its next hop
  // does not answer: tells the transport that sent it (kHostUnreachable, RFC 4861 §7.2.2), or by
  // ICMP the host it was forwarded for, counts kNeighborUnresolved and frees it. For ARP and NDP.
  void ReportUnreachable(PacketPtr ip_packet, Interface& interface);

  // Counts a drop and frees the packet; returns the reason, so `return stack.Drop(...)`.
  DropReason Drop(PacketPtr packet, DropReason reason);
  const DropCounters& drops() const { return drops_; }
  Mib& mib() { return mib_; }
  const Mib& mib() const { return mib_; }
  IpCounters& ip_counters(IpFamily f) { return f == IpFamily::kV4 ? mib_.ip : mib_.ip6; }

  // Protocol objects.
  Ipv4& ipv4() { return *ipv4_; }
  Ipv6& ipv6() { return *ipv6_; }
  Icmpv4& icmpv4() { return *icmpv4_; }
  Icmpv6& icmpv6() { return *icmpv6_; }
  PathMtuCache& path_mtu() { return *path_mtu_; }

 private:
  friend class Interface;
  class IgmpTransport;

  void CreateLoopback();
  bool WantsLocalCopy(const Route& route, const IpSendOptions& options) const;
  void DeliverLocalCopy(PacketPtr packet, const Route& route, const IpSendOptions& options);

  netdev::NetContext& context_;
  StackConfig config_;
  Mib mib_;
  DropCounters drops_;
  RouteTable routes_;
  SipKey interface_id_secret_;  // RFC 7217 §5, secret_key
  std::array<TransportProtocol*, 256> transports_{};
  std::unique_ptr<GatewayMonitor> gateways_;
  std::unique_ptr<PathMtuCache> path_mtu_;
  std::unique_ptr<IcmpErrors> icmp_errors_;
  std::unique_ptr<Ipv4> ipv4_;
  std::unique_ptr<Ipv6> ipv6_;
  std::unique_ptr<Icmpv4> icmpv4_;
  std::unique_ptr<Icmpv6> icmpv6_;
  std::unique_ptr<IgmpTransport> igmp_transport_;
  std::unique_ptr<EthInput> eth_input_;
  std::vector<std::unique_ptr<Interface>> interfaces_;
  Interface* loopback_ = nullptr;
  std::vector<std::unique_ptr<TransportProtocol>> adopted_transports_;
};

}  // namespace tapwire
