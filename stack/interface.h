// SPDX-License-Identifier: Apache-2.0
// Interface: the network-layer side of one device in one Stack: addresses, joined groups, the
// neighbour tables and the protocol engines that work per link (ARP, NDP, IGMP, MLD).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "netdev/device.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/ip_address.h"
#include "stack/neighbor.h"

namespace tapwire {

class Arp;   // stack/arp/arp.h
class Igmp;  // stack/ipv4/igmp.h
class Mld;   // stack/ipv6/mld.h
class Ndp;   // stack/ndp/ndp.h
class Stack;
struct Route;  // stack/route.h

enum class AddressState : uint8_t {
  kTentative,  // being checked, or waiting for the link to be checked: not usable yet
  kPreferred,
  kDeprecated,  // not for new flows (RFC 4862 §5.5.4)
  kDuplicated,  // somebody else has it; never used
};

struct InterfaceAddress {
  IpAddress address;
  int prefix_length = 0;
  AddressState state = AddressState::kPreferred;
  bool skip_dad = false;  // as given to AddAddress
  IpPrefix prefix() const { return IpPrefix{address, prefix_length}; }
  bool usable() const {
    return state == AddressState::kPreferred || state == AddressState::kDeprecated;
  }
};

class Interface final : public netdev::NetdevObserver {
 public:
  Interface(Stack& stack, netdev::NetDevice& device);
  ~Interface() override;

  Stack& stack() const { return stack_; }
  netdev::NetDevice& device() const { return device_; }
  uint32_t index() const { return device_.ifindex(); }

  // Adds an address and its connected route (none for a prefix of full length); starts conflict
  // detection unless the configuration or `skip_dad` says otherwise. While the link is down the
  // address stays tentative. kInvalidArgument (not the address of one host, a loopback address on
  // another interface, prefix length out of range), kAlreadyExists, kFailedPrecondition (IPv6 over
  // an MTU below 1280).
  absl::Status AddAddress(const IpPrefix& address, bool skip_dad = false);
  absl::Status RemoveAddress(const IpAddress& address);  // kNotFound
  const std::vector<InterfaceAddress>& addresses() const { return addresses_; }
  const InterfaceAddress* FindAddress(const IpAddress& address) const;
  // A unicast address we answer for (usable, any state but tentative and duplicated). On loopback:
  // all of 127/8.
  bool HasUsableAddress(const IpAddress& address) const;
  // The IPv4 broadcast address of one of our subnets: host part all ones, or all zeros as hosts of
  // old sent it (RFC 1122 §3.3.6).
  bool IsSubnetBroadcast(const Ipv4Address& address) const;
  // First usable link-local address, if any.
  std::optional<IpAddress> link_local() const;
  // Told once per address when conflict detection ends: `duplicate` or usable. Runs after the
  // batch, on the context's thread.
  using AddressCallback = absl::AnyInvocable<void(const IpAddress&, bool duplicate)>;
  void SetAddressCallback(AddressCallback callback);
  // For ARP and DAD: the outcome of conflict detection, and a conflict found later.
  void OnAddressChecked(const IpAddress& address, bool duplicate);

  // Multicast membership, reference-counted; programs the device filter and reports (IGMP, MLD).
  // kInvalidArgument: not a group; kResourceExhausted: config.max_groups_per_interface, which does
  // not count the groups that IP itself needs; kNotFound.
  absl::Status JoinGroup(const IpAddress& group);
  absl::Status LeaveGroup(const IpAddress& group);
  bool InGroup(const IpAddress& group) const;

  // Sends a finished IP packet (data() at the IP header, link headroom present, at most MTU bytes
  // or GSO) along `route`: to the group or broadcast MAC, to the gateway or destination as resolved
  // by the neighbour table, or as it is on loopback. What ipv4 and ipv6 output end with.
  netdev::TxResult Output(PacketPtr packet, const Route& route);

  NeighborTable& neighbors(IpFamily family) {
    return family == IpFamily::kV4 ? *neighbors4_ : *neighbors6_;
  }
  Arp& arp() { return *arp_; }
  Ndp& ndp() { return *ndp_; }
  Igmp& igmp() { return *igmp_; }
  Mld& mld() { return *mld_; }
  // Loopback has no link-layer addresses to resolve.
  bool needs_resolution() const { return !device_.is_loopback(); }

  void OnNetdevEvent(netdev::NetDevice& device, netdev::NetdevEvent event) override;

 private:
  friend class Stack;
  struct Group {
    IpAddress address;
    int users = 0;         // JoinGroup() calls
    int system_users = 0;  // IP itself: 224.0.0.1, ff02::1, solicited-node groups
  };

  // interface.cc: addresses and groups.
  absl::Status CheckAddress(const IpPrefix& prefix) const;
  InterfaceAddress* FindMutable(const IpAddress& address);
  bool NeedsDetection(const InterfaceAddress& address) const;
  void AddConnectedRoute(const IpPrefix& prefix);
  void RemoveConnectedRoute(const IpPrefix& prefix);
  void BecomeUsable(InterfaceAddress& address);
  void BecomeDuplicated(InterfaceAddress& address);
  void NotifyAddress(const IpAddress& address, bool duplicate);
  Group* FindGroup(const IpAddress& group);
  void Join(const IpAddress& group, bool system);
  void Leave(Group& group, bool system);

  // interface_link.cc: what the state of the link brings about.
  void Attach();  // after the stack has it in its list
  void SetForwarding(bool on);
  void Detach();  // before it leaves
  void UpdateRunning();
  void Start();
  void Stop();
  void StartDetection(const IpAddress& address);
  void CancelDetection(const IpAddress& address);
  void Announce(const IpAddress& address);
  void AnnounceAll();
  void EnsureLinkLocal();
  void OnLinkLocalDuplicated(const IpAddress& address);
  bool CarriesIpv6() const;

  Stack& stack_;
  netdev::NetDevice& device_;
  std::vector<InterfaceAddress> addresses_;
  std::vector<Group> groups_;
  size_t user_groups_ = 0;                   // groups with users
  bool running_ = false;                     // Start() ran, Stop() did not
  bool forwarding_ = false;                  // the device and the group of routers know
  std::optional<IpAddress> own_link_local_;  // the automatic one
  uint8_t link_local_attempts_ = 0;          // RFC 7217's DAD_Counter
  // Shared so that it may be replaced while it runs; expires with the interface.
  std::shared_ptr<AddressCallback> address_callback_;
  std::shared_ptr<const Interface*> alive_;  // deferred work holds it weakly
  std::unique_ptr<Arp> arp_;
  std::unique_ptr<Ndp> ndp_;
  std::unique_ptr<NeighborTable> neighbors4_, neighbors6_;  // after their resolvers
  std::unique_ptr<Igmp> igmp_;
  std::unique_ptr<Mld> mld_;
};

}  // namespace tapwire
