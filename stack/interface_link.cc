// SPDX-License-Identifier: Apache-2.0
// What the state of the link does to an interface.
//
//   device up, link there   groups reported, link-local address made, tentative addresses checked,
//                           others announced
//   link lost               neighbours forgotten, checks cancelled; on return the addresses are
//                           announced, not checked again: whoever else has one will tell us
//   device down             the same, and addresses become tentative: they are checked again before
//                           they are used (RFC 5227 §2.1)
//   MAC changed             neighbours forgotten, addresses announced with the new MAC
//   peers to be told        addresses announced: the device has moved to another place of the link
#include <utility>

#include "stack/arp/arp.h"
#include "stack/gateway_monitor.h"
#include "stack/interface.h"
#include "stack/interface_id.h"
#include "stack/ipv4/igmp.h"
#include "stack/ipv6/mld.h"
#include "stack/ndp/ndp.h"
#include "stack/path_mtu.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// RFC 7217 §7: IDGEN_RETRIES.
constexpr uint8_t kMaxLinkLocalAttempts = 3;

}  // namespace

void Interface::Attach() {
  device_.AddObserver(*this);
  // RFC 1112 §7.1, RFC 4291 §2.8: joined on every interface, for as long as it is there.
  Join(Ipv4Address::kAllSystems, /*system=*/true);
  Join(Ipv6Address::AllNodes(), /*system=*/true);
  UpdateRunning();
}

void Interface::Detach() {
  Unlink();
  if (running_) Stop();
  if (forwarding_) device_.SetForwarding(false);
  for (const Group& group : groups_) device_.RemoveMulticast(MulticastMac(group.address));
  groups_.clear();
  alive_.reset();
}

// RFC 4291 §2.8: a router is in the group of all routers too.
void Interface::SetForwarding(bool on) {
  if (device_.is_loopback() || on == forwarding_) return;
  forwarding_ = on;
  device_.SetForwarding(on);
  if (on) {
    Join(Ipv6Address::AllRouters(), /*system=*/true);
  } else {
    Leave(*FindGroup(Ipv6Address::AllRouters()), /*system=*/true);
  }
}

void Interface::OnNetdevEvent(netdev::NetDevice& /*device*/, netdev::NetdevEvent event) {
  switch (event) {
    case netdev::NetdevEvent::kUp:
    case netdev::NetdevEvent::kChange:
      UpdateRunning();
      return;
    case netdev::NetdevEvent::kGoingDown:
      // As Linux, nothing is said about the groups: routers find out by their timers, and the
      // groups are reported again when the device is up. Here and not at kDown, so that nothing is
      // armed or waiting when the device closes.
      if (running_) Stop();
      for (InterfaceAddress& a : addresses_) {
        if (NeedsDetection(a)) a.state = AddressState::kTentative;
      }
      return;
    case netdev::NetdevEvent::kChangeMtu:
      stack_.InvalidateRoutes();
      if (running_) EnsureLinkLocal();
      return;
    case netdev::NetdevEvent::kNotifyPeers:
      if (running_) AnnounceAll();
      return;
    case netdev::NetdevEvent::kChangeAddr:
      neighbors4_->Flush();
      neighbors6_->Flush();
      if (running_) AnnounceAll();
      return;
    case netdev::NetdevEvent::kUnregister:
      stack_.RemoveInterface(*this);  // destroys this
      return;
    case netdev::NetdevEvent::kRegister:
    case netdev::NetdevEvent::kDown:
    case netdev::NetdevEvent::kFeatChange:
    case netdev::NetdevEvent::kPreTypeChange:
    case netdev::NetdevEvent::kBondingFailover:
    case netdev::NetdevEvent::kResendIgmp:
      return;
  }
}

void Interface::UpdateRunning() {
  if (device_.is_running() == running_) return;
  if (running_) {
    Stop();
  } else {
    Start();
  }
}

void Interface::Start() {
  running_ = true;
  stack_.InvalidateRoutes();
  if (device_.is_loopback()) return;
  igmp_->OnUp();
  mld_->OnUp();
  const std::vector<InterfaceAddress> addresses = addresses_;
  for (const InterfaceAddress& a : addresses) {
    InterfaceAddress& present = *FindMutable(a.address);
    if (a.usable()) {
      Announce(a.address);
    } else if (NeedsDetection(a)) {
      present.state = AddressState::kTentative;
      StartDetection(a.address);
    } else {
      BecomeUsable(present);
    }
  }
  EnsureLinkLocal();
}

void Interface::Stop() {
  running_ = false;
  for (const InterfaceAddress& a : addresses_) CancelDetection(a.address);
  neighbors4_->Flush();
  neighbors6_->Flush();
  igmp_->OnDown();
  mld_->OnDown();
  stack_.gateways_->Forget(index());
  stack_.InvalidateRoutes();
}

bool Interface::CarriesIpv6() const { return device_.mtu() >= kIpv6MinimumMtu; }

// ---- Conflict detection and announcements ----

void Interface::StartDetection(const IpAddress& address) {
  if (address.is_v4()) {
    arp_->StartProbe(address.v4());
  } else {
    ndp_->StartDad(address.v6());
  }
}

void Interface::CancelDetection(const IpAddress& address) {
  if (address.is_v4()) {
    arp_->Cancel(address.v4());
  } else {
    ndp_->Cancel(address.v6());
  }
}

// RFC 5227 §2.3, RFC 4861 §7.2.6.
void Interface::Announce(const IpAddress& address) {
  if (device_.is_loopback() || !stack_.config().announce_addresses) return;
  if (address.is_v4()) {
    arp_->Announce(address.v4());
  } else {
    ndp_->Announce(address.v6());
  }
}

void Interface::AnnounceAll() {
  for (const InterfaceAddress& a : addresses_) {
    if (a.usable()) Announce(a.address);
  }
}

// ---- The automatic link-local address ----

// RFC 4291 §2.1: every interface has one. Opaque (RFC 7217), from the stack's secret and the MAC.
void Interface::EnsureLinkLocal() {
  if (!stack_.config().link_local_address || device_.is_loopback() || !CarriesIpv6()) return;
  if (link_local_attempts_ > kMaxLinkLocalAttempts) return;
  for (const InterfaceAddress& a : addresses_) {
    if (a.address.is_v6() && a.address.IsLinkLocal()) return;
  }
  const Ipv6Address prefix = Ipv6Address::FromGroups({0xfe80, 0, 0, 0, 0, 0, 0, 0});
  own_link_local_ =
      OpaqueAddress({.prefix = prefix, .mac = device_.mac(), .dad_counter = link_local_attempts_},
                    stack_.interface_id_secret_);
  static_cast<void>(AddAddress({*own_link_local_, 64}));
}

// RFC 7217 §6: the next address of the sequence takes its place, after the packet that showed the
// conflict has been dealt with.
void Interface::OnLinkLocalDuplicated(const IpAddress& address) {
  if (++link_local_attempts_ > kMaxLinkLocalAttempts) return;
  stack_.context().Defer([weak = std::weak_ptr(alive_), this, address] {
    if (weak.expired()) return;
    static_cast<void>(RemoveAddress(address));
    if (running_) EnsureLinkLocal();
  });
}

}  // namespace tapwire
