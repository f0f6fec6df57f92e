// SPDX-License-Identifier: Apache-2.0
// Administrative state, link state, statistics and observers of a device.
//
//   registration   new -> registered -> left        (Registry; a device is registered once)
//   administrative down <-> up                      (Up, Down; only while registered)
//   link           carrier off <-> on               (SetCarrier, by the driver)
//
// A device carries frames when it is registered, up and has carrier. Changes do not nest: an
// observer of kGoingDown that unregisters the device gets its way after kDown.
#include "netdev/device.h"

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
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

// Calls visit(observer) for each until it returns false.
template <typename Visit>
void ForEachObserver(ObserverList& observers, Visit visit) {
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
    if (!visit(observer)) return;
  }
}

void NotifyAll(ObserverList& observers, NetDevice& device, NetdevEvent event) {
  ForEachObserver(observers, [&](NetdevObserver& observer) {
    observer.OnNetdevEvent(device, event);
    return true;
  });
}

absl::Status AskAll(ObserverList& observers, NetDevice& device, NetdevEvent event) {
  absl::Status status;
  ForEachObserver(observers, [&](NetdevObserver& observer) {
    status = observer.MayChange(device, event);
    return status.ok();
  });
  return status;
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
    case TxResult::kCongested:
      return "congested";
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
    case NetdevEvent::kPreTypeChange:
      return "pre-type-change";
    case NetdevEvent::kNotifyPeers:
      return "notify-peers";
    case NetdevEvent::kBondingFailover:
      return "bonding-failover";
    case NetdevEvent::kResendIgmp:
      return "resend-igmp";
  }
  return "unknown";
}

absl::string_view OperStateName(OperState state) {
  switch (state) {
    case OperState::kDown:
      return "DOWN";
    case OperState::kLowerLayerDown:
      return "LOWERLAYERDOWN";
    case OperState::kTesting:
      return "TESTING";
    case OperState::kDormant:
      return "DORMANT";
    case OperState::kUp:
      return "UP";
  }
  return "UNKNOWN";
}

NetDevice::NetDevice(NetContext& context, Init init)
    : context_(context),
      name_(std::move(init.name)),
      mac_(init.mac.IsZero() ? RandomMac(context.random()) : init.mac),
      mtu_(init.mtu),
      min_mtu_(init.min_mtu),
      max_mtu_(init.max_mtu),
      link_type_(init.link_type),
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
    RxModeChanged();
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
    return ErrnoStatus(
        EADDRNOTAVAIL,
        absl::StrCat(name_, ": ", mac.ToString(),
                     " cannot be the address of a device; use one that is neither zero nor "
                     "a group address"));
  }
  if (mac == mac_) return absl::OkStatus();
  TW_RETURN_IF_ERROR(OnSetMac(mac));
  mac_ = mac;
  Notify(NetdevEvent::kChangeAddr);
  return AskObservers(NetdevEvent::kChangeAddr);
}

absl::Status NetDevice::ChangeLinkType(LinkType type) {
  if (type == link_type_) return absl::OkStatus();
  TW_RETURN_IF_ERROR(AskObservers(NetdevEvent::kPreTypeChange));
  Notify(NetdevEvent::kPreTypeChange);
  link_type_ = type;
  return absl::OkStatus();
}

// RFC 2863 §3.1.14, in Linux's order of precedence.
OperState NetDevice::oper_state() const {
  if (!up_) return OperState::kDown;
  if (testing_) return OperState::kTesting;
  if (!carrier_) {
    return parent_ifindex() == ifindex_ ? OperState::kDown : OperState::kLowerLayerDown;
  }
  return dormant_ ? OperState::kDormant : OperState::kUp;
}

void NetDevice::SetLinkFlag(bool& flag, bool on) {
  if (flag == on) return;
  flag = on;
  if (!carrier_) tx_queue_->Purge(DropReason::kTxCarrierOff);
  // During Up() and Down() the event of that change tells everything.
  if (up_ && !in_transition_) Notify(NetdevEvent::kChange);
}

void NetDevice::SetCarrier(bool on) { SetLinkFlag(carrier_, on); }
void NetDevice::SetDormant(bool on) { SetLinkFlag(dormant_, on); }
void NetDevice::SetTesting(bool on) { SetLinkFlag(testing_, on); }

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

absl::Status NetDevice::AskObservers(NetdevEvent event) {
  TW_RETURN_IF_ERROR(AskAll(observers_, *this, event));
  if (registration_ == Registration::kNew) return absl::OkStatus();
  return AskAll(context_.registry().observers_, *this, event);
}

}  // namespace tapwire::netdev
