// SPDX-License-Identifier: Apache-2.0
// Administrative state, link state, filters, statistics and observers of a device.
//
//   registration   new -> registered -> left        (Registry; a device is registered once)
//   administrative down <-> up                      (Up, Down; only while registered)
//   link           carrier off <-> on               (SetCarrier, by the driver)
//
// A device carries frames when it is registered, up and has carrier. Changes do not nest: an
// observer of kGoingDown that unregisters the device gets its way after kDown.
//
// Features: one run of the update takes (features & ~hw_features) | wanted_features, lets the
// driver remove what it cannot do, applies the dependency rules and, if the result differs from the
// active set, has the driver put it into effect.
#include "netdev/device.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "netdev/registry.h"
#include "netdev/tx_queue.h"

namespace tapwire::netdev {
namespace {

using ObserverList = IntrusiveList<NetdevObserver, NetdevObserver>;

// Keeps the place in a list of observers while one of them runs, which may take
// any other off the list. Another notification that meets it passes over it.
class ObserverCursor final : public NetdevObserver {
 public:
  void OnNetdevEvent(NetDevice& /*device*/, NetdevEvent /*event*/) override {}
};

void NotifyAll(ObserverList& observers, NetDevice& device, NetdevEvent event) {
  if (observers.empty()) return;
  ObserverCursor cursor;
  observers.PushFront(cursor);
  for (;;) {
    ObserverList::iterator next(&cursor);
    if (++next == observers.end()) return;
    NetdevObserver& observer = *next;
    if (++next == observers.end()) {
      observers.PushBack(cursor);
    } else {
      observers.Insert(*next, cursor);
    }
    observer.OnNetdevEvent(device, event);
  }
}

MacAddress RandomMac(Random& random) {
  std::array<uint8_t, MacAddress::kLength> bytes;
  random.Fill(bytes);
  // IEEE 802: clear the group bit, set the locally administered one.
  bytes[0] = static_cast<uint8_t>((bytes[0] & 0xfc) | 0x02);
  return MacAddress(bytes);
}

}  // namespace

absl::string_view TxResultName(TxResult result) {
  switch (result) {
    case TxResult::kSent:
      return "sent";
    case TxResult::kQueued:
      return "queued";
    case TxResult::kNoBuffer:
      return "no-buffer";
    case TxResult::kNoRoute:
      return "no-route";
    case TxResult::kDeviceDown:
      return "device-down";
    case TxResult::kTooBig:
      return "too-big";
    case TxResult::kDropped:
      return "dropped";
  }
  return "unknown";
}

absl::string_view NetdevEventName(NetdevEvent event) {
  switch (event) {
    case NetdevEvent::kRegister:
      return "register";
    case NetdevEvent::kUp:
      return "up";
    case NetdevEvent::kGoingDown:
      return "going-down";
    case NetdevEvent::kDown:
      return "down";
    case NetdevEvent::kChange:
      return "change";
    case NetdevEvent::kChangeMtu:
      return "change-mtu";
    case NetdevEvent::kChangeAddr:
      return "change-addr";
    case NetdevEvent::kFeatChange:
      return "feat-change";
    case NetdevEvent::kUnregister:
      return "unregister";
  }
  return "unknown";
}

NetDevice::NetDevice(NetContext& context, Init init)
    : context_(context),
      name_(std::move(init.name)),
      mac_(init.mac.IsZero() ? RandomMac(context.random()) : init.mac),
      mtu_(init.mtu),
      min_mtu_(init.min_mtu),
      max_mtu_(init.max_mtu),
      tx_queue_(std::make_unique<TxQueue>(*this)) {}

NetDevice::~NetDevice() = default;

absl::Status NetDevice::Up() {
  if (registration_ != Registration::kRegistered) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_, ": cannot come up: not registered with a context"));
  }
  if (in_transition_) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_,
                     ": cannot come up while it is changing its state; try again "
                     "after the change was announced"));
  }
  if (up_) return absl::OkStatus();
  in_transition_ = true;
  up_ = true;
  tx_queue_->Wake();  // whatever stopped it belonged to an earlier life
  absl::Status status = OnUp();
  in_transition_ = false;
  if (status.ok()) {
    OnRxModeChange();
    context_.PollFdsChanged();
    Notify(NetdevEvent::kUp);
  } else {
    up_ = false;
  }
  UnregisterIfAsked();
  return status;
}

void NetDevice::Down() {
  if (!up_ || in_transition_) return;
  in_transition_ = true;
  Notify(NetdevEvent::kGoingDown);
  up_ = false;
  tx_queue_->Purge(DropReason::kTxDeviceDown);
  context_.PollFdsChanged();  // before the driver may close what the host still watches
  OnDown();
  in_transition_ = false;
  Notify(NetdevEvent::kDown);
  UnregisterIfAsked();
}

void NetDevice::UnregisterIfAsked() {
  if (std::exchange(unregister_after_change_, false)) {
    context_.registry().Unregister(*this);
  }
}

absl::Status NetDevice::SetMtu(uint32_t mtu) {
  if (mtu < min_mtu_ || mtu > max_mtu_) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": MTU ", mtu, " is outside ", min_mtu_,
                                                   "..", max_mtu_, "; choose one in this range"));
  }
  if (mtu == mtu_) return absl::OkStatus();
  TW_RETURN_IF_ERROR(OnSetMtu(mtu));
  mtu_ = mtu;
  tx_queue_->PurgeUnfit();
  Notify(NetdevEvent::kChangeMtu);
  return absl::OkStatus();
}

absl::Status NetDevice::SetMac(const MacAddress& mac) {
  if (!mac.IsUnicast()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": ", mac.ToString(),
                     " cannot be the address of a device; use one that is neither zero nor "
                     "a group address"));
  }
  if (mac == mac_) return absl::OkStatus();
  TW_RETURN_IF_ERROR(OnSetMac(mac));
  mac_ = mac;
  Notify(NetdevEvent::kChangeAddr);
  return absl::OkStatus();
}

void NetDevice::SetCarrier(bool on) {
  if (carrier_ == on) return;
  carrier_ = on;
  if (!on) tx_queue_->Purge(DropReason::kTxCarrierOff);
  // During Up() and Down() the event of that change tells everything.
  if (up_ && !in_transition_) Notify(NetdevEvent::kChange);
}

void NetDevice::RxModeChanged() {
  if (up_) OnRxModeChange();
}

void NetDevice::AddMulticast(const MacAddress& group) {
  for (Multicast& entry : multicast_) {
    if (entry.group == group) {
      ++entry.references;
      return;
    }
  }
  multicast_.push_back({.group = group, .references = 1});
  RxModeChanged();
}

void NetDevice::RemoveMulticast(const MacAddress& group) {
  const auto entry =
      std::find_if(multicast_.begin(), multicast_.end(),
                   [&](const Multicast& candidate) { return candidate.group == group; });
  if (entry == multicast_.end() || --entry->references > 0) return;
  multicast_.erase(entry);
  RxModeChanged();
}

bool NetDevice::HasMulticast(const MacAddress& group) const {
  return std::any_of(multicast_.begin(), multicast_.end(),
                     [&](const Multicast& entry) { return entry.group == group; });
}

void NetDevice::SetPromiscuous(bool on) {
  const bool before = is_promiscuous();
  if (on) {
    ++promiscuity_;
  } else if (promiscuity_ > 0) {
    --promiscuity_;
  }
  if (before != is_promiscuous()) RxModeChanged();
}

bool NetDevice::Accepts(const MacAddress& destination) const {
  if (destination == mac_ || is_promiscuous()) return true;
  if (!destination.IsMulticast()) return false;
  return destination.IsBroadcast() || HasMulticast(destination);
}

FeatureSet NetDevice::RequestFeatures(FeatureSet mask, FeatureSet values) {
  const FeatureSet fixed = mask & ~hw_features_;
  mask &= hw_features_;
  wanted_features_ = (wanted_features_ & ~mask) | (values & mask);
  UpdateFeatures();
  return fixed;
}

void NetDevice::UpdateFeatures() {
  if (RecomputeFeatures()) Notify(NetdevEvent::kFeatChange);
}

bool NetDevice::RecomputeFeatures() {
  // What users cannot change is carried over from the current state.
  const FeatureSet base = (features_ & ~hw_features_) | wanted_features_;
  const FeatureSet candidate = FixDependencies(FixFeatures(base));
  if (candidate == features_) return false;
  if (absl::Status status = SetFeatures(candidate); !status.ok()) {
    TW_LOG(kError) << name_ << ": could not set features to " << FeatureSetToString(candidate)
                   << ": " << status.ToString();
    return true;  // the driver may have changed some of them
  }
  features_ = candidate;
  return true;
}

void NetDevice::PrepareForRegistration() {
  queueless_ = is_queueless();
  hw_features_ |= kSoftFeatures | FeatureSet{Feature::kGroFragList, Feature::kGroUdpFwd};
  features_ |= kSoftFeatures;
  wanted_features_ = features_ & hw_features_;
  for (FeatureSet* set : {&hw_features_, &vlan_features_, &hw_enc_features_}) {
    if (set->Has(Feature::kTso)) *set |= Feature::kTsoMangleId;
  }
  vlan_features_ |= Feature::kHighDma;
  hw_enc_features_ |= FeatureSet{Feature::kSg, Feature::kGsoPartial};
}

absl::Status NetDevice::CheckRegistrable() const {
  if (registration_ != Registration::kNew) {
    return absl::FailedPreconditionError(
        absl::StrCat(name_, ": was registered before; create a new device"));
  }
  if (mtu_ < min_mtu_ || mtu_ > max_mtu_) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": MTU ", mtu_, " is outside ", min_mtu_,
                                                   "..", max_mtu_, "; choose one in this range"));
  }
  if (mac_.IsMulticast()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": ", mac_.ToString(),
                     " is a group address; use a unicast address, or zero for a random one"));
  }
  return absl::OkStatus();
}

void NetDevice::DropRx(PacketPtr packet, DropReason reason) {
  stats_.rx_dropped.Inc();
  drops_.Inc(reason);
  packet.reset();
}

void NetDevice::DropTx(PacketPtr packet, DropReason reason) {
  stats_.tx_dropped.Inc();
  drops_.Inc(reason);
  packet.reset();
}

void NetDevice::FailRx(PacketPtr packet, DropReason reason) {
  stats_.rx_errors.Inc();
  drops_.Inc(reason);
  packet.reset();
}

void NetDevice::FailTx(PacketPtr packet, DropReason reason) {
  stats_.tx_errors.Inc();
  drops_.Inc(reason);
  packet.reset();
}

absl::Status NetDevice::SetRxHandler(RxHandler* handler) {
  if (rx_handler_ != nullptr && handler != rx_handler_) {
    return absl::AlreadyExistsError(
        absl::StrCat(name_,
                     ": another upper device takes its frames already; remove that "
                     "one first"));
  }
  rx_handler_ = handler;
  return absl::OkStatus();
}

void NetDevice::StopTxQueue() { tx_queue_->Stop(); }
void NetDevice::WakeTxQueue() { tx_queue_->Wake(); }
bool NetDevice::tx_queue_stopped() const { return tx_queue_->stopped(); }

void NetDevice::Notify(NetdevEvent event) {
  NotifyAll(observers_, *this, event);
  if (registration_ != Registration::kNew) {
    NotifyAll(context_.registry().observers_, *this, event);
  }
}

}  // namespace tapwire::netdev
