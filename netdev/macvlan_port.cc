// SPDX-License-Identifier: Apache-2.0
// Reception on a lower device, and what its events mean to the macvlans on it.
#include "netdev/macvlan_port.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "netdev/macvlan.h"
#include "netdev/registry.h"

namespace tapwire::netdev {

absl::StatusOr<std::shared_ptr<MacvlanPort>> MacvlanPort::Of(NetDevice& lower) {
  if (lower.is_macvlan_port()) {
    return static_cast<MacvlanPort*>(lower.rx_handler())->shared_from_this();
  }
  std::shared_ptr<MacvlanPort> port(new MacvlanPort(lower));
  TW_RETURN_IF_ERROR(port->Open());
  return port;
}

MacvlanPort::~MacvlanPort() { Close(); }

absl::Status MacvlanPort::Open() {
  if (lower_.link_type() != LinkType::kEthernet) {
    return ErrnoStatus(EINVAL, absl::StrCat(lower_.name(),
                                            ": cannot carry a macvlan, since it is no Ethernet "
                                            "device; choose one that is"));
  }
  if (lower_.rx_handler() != nullptr) {
    return ErrnoStatus(EBUSY, absl::StrCat(lower_.name(),
                                           ": cannot carry a macvlan, since another upper device "
                                           "takes its frames; remove that one first"));
  }
  TW_RETURN_IF_ERROR(lower_.SetRxHandler(this));
  lower_.macvlan_port_ = true;
  lower_.AddObserver(*this);
  open_ = true;
  return absl::OkStatus();
}

void MacvlanPort::Close() {
  if (!open_) return;
  open_ = false;
  Unlink();
  lower_.ClearRxHandler();
  lower_.macvlan_port_ = false;
  multicast_.Cancel();
  if (!passthru_ || lower_.mac() == saved_mac_) return;
  if (absl::Status restored = lower_.SetMac(saved_mac_); !restored.ok()) {
    TW_LOG(kWarning) << lower_.name() << ": keeps the address of its last macvlan: " << restored;
  }
}

void MacvlanPort::BecomePassthru() {
  passthru_ = true;
  saved_mac_ = lower_.mac();
}

void MacvlanPort::Join(Macvlan& macvlan) {
  macvlans_.push_back(&macvlan);
  RecomputeQueueLimit();
}

void MacvlanPort::Leave(Macvlan& macvlan) {
  macvlans_.erase(std::remove(macvlans_.begin(), macvlans_.end(), &macvlan), macvlans_.end());
  RecomputeQueueLimit();
  if (macvlans_.empty()) Close();
}

void MacvlanPort::RecomputeQueueLimit() {
  uint32_t limit = 0;
  for (const Macvlan* macvlan : macvlans_) {
    limit = std::max(limit, macvlan->broadcast_queue_packets());
  }
  multicast_.set_queue_limit(limit);
}

// ---- Addresses ----

Macvlan* MacvlanPort::Find(const MacAddress& address) const {
  Macvlan* macvlan = table_[MacvlanTableBucket(address)];
  while (macvlan != nullptr && macvlan->table_mac_ != address) macvlan = macvlan->table_next_;
  return macvlan;
}

bool MacvlanPort::IsAddressInUse(const MacAddress& address) const {
  return address == lower_.mac() || Find(address) != nullptr;
}

void MacvlanPort::EnterTable(Macvlan& macvlan, const MacAddress& address) {
  Macvlan*& bucket = table_[MacvlanTableBucket(address)];
  macvlan.table_mac_ = address;
  macvlan.table_next_ = std::exchange(bucket, &macvlan);
  macvlan.in_table_ = true;
}

void MacvlanPort::LeaveTable(Macvlan& macvlan) {
  if (!std::exchange(macvlan.in_table_, false)) return;
  Macvlan** link = &table_[MacvlanTableBucket(macvlan.table_mac_)];
  while (*link != &macvlan) link = &(*link)->table_next_;
  *link = std::exchange(macvlan.table_next_, nullptr);
}

// ---- Reception ----

RxHandlerResult MacvlanPort::HandleFrame(PacketPtr& packet, NetDevice& /*device*/) {
  const auto ethernet = wire::EthernetHeader::Parse(packet->head_bytes());
  return ethernet->destination().IsMulticast() ? HandleGroup(packet, *ethernet)
                                               : HandleUnicast(packet, *ethernet);
}

RxHandlerResult MacvlanPort::HandleUnicast(PacketPtr& packet,
                                           const wire::EthernetHeader& ethernet) {
  if (DeliverBySource(*packet, ethernet.source())) {
    packet.reset();
    return RxHandlerResult::kConsumed;
  }
  Macvlan* macvlan = nullptr;
  if (!passthru_) {
    macvlan = Find(ethernet.destination());
  } else if (!macvlans_.empty()) {
    macvlan = macvlans_.front();
  }
  if (macvlan == nullptr || macvlan->mode() == MacvlanMode::kSource) return RxHandlerResult::kPass;
  if (!macvlan->is_up()) {
    packet.reset();
    return RxHandlerResult::kConsumed;
  }
  return macvlan->ReceiveUnicast(packet);
}

RxHandlerResult MacvlanPort::HandleGroup(PacketPtr& packet, const wire::EthernetHeader& ethernet) {
  if (DeliverBySource(*packet, ethernet.source())) {
    packet.reset();
    return RxHandlerResult::kConsumed;
  }
  Macvlan* sender = Find(ethernet.source());
  if (sender != nullptr && sender->mode() != MacvlanMode::kVepa &&
      sender->mode() != MacvlanMode::kBridge) {
    // A switch reflected it. What the macvlan sent concerns nobody else here.
    sender->ReceiveReflection(std::move(packet));
    return RxHandlerResult::kConsumed;
  }
  multicast_.Receive(*packet, sender);
  return RxHandlerResult::kPass;
}

bool MacvlanPort::DeliverBySource(const Packet& packet, const MacAddress& source) const {
  bool swallow = false;
  sources_.ForEach(source, [&](Macvlan& macvlan) {
    if ((macvlan.flags() & kMacvlanNoDst) != 0) swallow = true;
    if (macvlan.is_up()) macvlan.ReceiveSourceCopy(packet);
  });
  return swallow;
}

// ---- Events of the lower device ----

template <typename Fn>
void MacvlanPort::ForEachMacvlan(Fn&& fn) {
  // Whoever hears of a change may remove any macvlan, with the last one the port.
  const std::shared_ptr<MacvlanPort> keep = shared_from_this();
  std::vector<uint32_t> indexes;
  for (const Macvlan* macvlan : macvlans_) indexes.push_back(macvlan->ifindex());
  Registry& registry = lower_.context().registry();
  for (const uint32_t index : indexes) {
    if (NetDevice* device = registry.Find(index)) fn(static_cast<Macvlan&>(*device));
  }
}

void MacvlanPort::OnNetdevEvent(NetDevice& /*device*/, NetdevEvent event) {
  switch (event) {
    case NetdevEvent::kUp:
    case NetdevEvent::kDown:
    case NetdevEvent::kChange:
      return ForEachMacvlan([](Macvlan& macvlan) { macvlan.FollowLinkState(); });
    case NetdevEvent::kFeatChange:
      return ForEachMacvlan([](Macvlan& macvlan) { macvlan.FollowFeatures(); });
    case NetdevEvent::kChangeMtu:
      return ForEachMacvlan([](Macvlan& macvlan) { macvlan.FollowMtu(); });
    case NetdevEvent::kUnregister:
      return ForEachMacvlan(
          [](Macvlan& macvlan) { macvlan.context().registry().Unregister(macvlan); });
    case NetdevEvent::kNotifyPeers:
    case NetdevEvent::kBondingFailover:
    case NetdevEvent::kResendIgmp:
      return ForEachMacvlan([event](Macvlan& macvlan) { macvlan.SendEvent(event); });
    case NetdevEvent::kRegister:
    case NetdevEvent::kGoingDown:
    case NetdevEvent::kChangeAddr:  // MayChange() has done it
    case NetdevEvent::kPreTypeChange:
      return;
  }
}

absl::Status MacvlanPort::MayChange(NetDevice& /*device*/, NetdevEvent event) {
  if (event == NetdevEvent::kPreTypeChange) {
    return ErrnoStatus(EPERM, absl::StrCat(lower_.name(),
                                           ": must stay an Ethernet device while it carries "
                                           "macvlans; remove them first"));
  }
  return event == NetdevEvent::kChangeAddr ? FollowLowerAddress() : absl::OkStatus();
}

absl::Status MacvlanPort::FollowLowerAddress() {
  if (!passthru_ || address_changing_ || macvlans_.empty()) return absl::OkStatus();
  // The user means the device itself, so this is what it keeps.
  TW_RETURN_IF_ERROR(macvlans_.front()->SetMac(lower_.mac()));
  saved_mac_ = lower_.mac();
  return absl::OkStatus();
}

}  // namespace tapwire::netdev
