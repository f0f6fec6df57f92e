// SPDX-License-Identifier: Apache-2.0
#include "netdev/fault_injector.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/csum_offload.h"
#include "netdev/gso.h"
#include "netdev/registry.h"
#include "netdev/tx_path.h"

namespace tapwire::netdev {

bool FaultSettings::IsTransparent() const {
  return loss <= 0 && duplicate <= 0 && corrupt <= 0 && reorder <= 0 && delay == Duration() &&
         jitter == Duration() && rate_bits_per_s == 0;
}

absl::Status FaultSettings::Validate() const {
  for (const auto& [name, value] : {std::pair<const char*, double>{"loss", loss},
                                    {"duplicate", duplicate},
                                    {"corrupt", corrupt},
                                    {"reorder", reorder}}) {
    if (!(value >= 0 && value <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, "=", value, " is no probability; give 0 to 1"));
    }
  }
  if (delay < Duration() || jitter < Duration() || reorder_hold < Duration()) {
    return absl::InvalidArgumentError("delay, jitter and reorder_hold cannot be negative");
  }
  return absl::OkStatus();
}

// One direction: decides, keeps what has to wait, and lets it out in time.
class FaultInjector::Lane final : public Timer {
 public:
  Lane(FaultInjector& device, TapDirection direction, const FaultSettings& settings)
      : device_(device), direction_(direction), settings_(settings) {}

  void set_settings(const FaultSettings& settings) { settings_ = settings; }
  const FaultSettings& settings() const { return settings_; }
  const FaultStats& stats() const { return stats_; }

  void Offer(PacketPtr packet) {
    if (Chance(settings_.loss)) {
      stats_.lost.Inc();
      return Drop(std::move(packet), DropReason::kFaultInjected);
    }
    PacketPtr copy;
    if (Chance(settings_.duplicate)) {
      copy = packet->Clone();
      (copy != nullptr ? stats_.duplicated : stats_.no_memory).Inc();
    }
    Pass(std::move(packet));
    if (copy != nullptr) Pass(std::move(copy));
  }

  void Clear(DropReason reason) {
    device_.context().timers().Cancel(*this);
    while (!queue_.empty()) {
      Drop(std::move(queue_.front().packet), reason);
      queue_.pop_front();
    }
    for (Held& held : std::exchange(held_, {})) Drop(std::move(held.packet), reason);
    wire_free_ = last_out_ = Time();
  }

 private:
  struct Waiting {
    PacketPtr packet;
    Time out;
  };
  struct Held {
    PacketPtr packet;
    Time out;
    uint32_t overtakers_left;
  };

  Time now() const { return device_.context().now(); }

  bool Chance(double probability) {
    // A fault that is off draws nothing.
    if (probability <= 0) return false;
    return device_.random_.Next32() < probability * 4294967296.0;
  }

  void Pass(PacketPtr packet) {
    if (Chance(settings_.corrupt)) Corrupt(*packet);
    const Time out = TimeOut(packet->length());
    if (out <= now() && queue_.empty()) return Overtake(std::move(packet));
    if (queue_.size() + held_.size() >= settings_.queue_packets) return Overflow(std::move(packet));
    stats_.delayed.Inc();
    queue_.push_back({std::move(packet), out});
    Rearm();
  }

  // When the last bit is out at the far end.
  Time TimeOut(size_t bytes) {
    Time sent = now();
    if (settings_.rate_bits_per_s > 0) {
      const double seconds =
          static_cast<double>(bytes) * 8 / static_cast<double>(settings_.rate_bits_per_s);
      wire_free_ = std::max(wire_free_, now()) +
                   std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
      sent = wire_free_;
    }
    Time out = sent + settings_.delay;
    if (settings_.jitter > Duration()) {
      out += Duration(static_cast<int64_t>(device_.random_.Next64() %
                                           (static_cast<uint64_t>(settings_.jitter.count()) + 1)));
    }
    last_out_ = std::max(out, last_out_);
    return last_out_;
  }

  void Corrupt(Packet& packet) {
    // A partial checksum would be computed over the flipped bit and hide it.
    if (!ChecksumHelp(packet) || !packet.Linearize()) {
      stats_.no_memory.Inc();
      return;
    }
    packet.meta.csum_state = CsumState::kNone;
    const uint32_t bit = device_.random_.Uniform(static_cast<uint32_t>(packet.length() * 8));
    packet.data()[bit / 8] = static_cast<uint8_t>(packet.data()[bit / 8] ^ 1u << bit % 8);
    stats_.corrupted.Inc();
  }

  // The end of the delay: either held back, or out, which lets held ones come nearer.
  void Overtake(PacketPtr packet) {
    if (Chance(settings_.reorder)) {
      if (queue_.size() + held_.size() >= settings_.queue_packets)
        return Overflow(std::move(packet));
      stats_.reordered.Inc();
      held_.push_back({std::move(packet), now() + settings_.reorder_hold, settings_.reorder_depth});
      return Rearm();
    }
    Emit(std::move(packet));
    if (held_.empty()) return;
    for (Held& held : held_) held.overtakers_left -= held.overtakers_left > 0 ? 1 : 0;
    ReleaseHeld();
    Rearm();
  }

  void ReleaseHeld() {
    for (size_t i = 0; i < held_.size();) {
      if (held_[i].overtakers_left > 0 && held_[i].out > now()) {
        ++i;
        continue;
      }
      PacketPtr packet = std::move(held_[i].packet);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
      Emit(std::move(packet));
    }
  }

  void OnExpired() override {
    while (!queue_.empty() && queue_.front().out <= now()) {
      PacketPtr packet = std::move(queue_.front().packet);
      queue_.pop_front();
      Overtake(std::move(packet));
    }
    ReleaseHeld();
    Rearm();
  }

  void Rearm() {
    Time next = kInfiniteFuture;
    if (!queue_.empty()) next = queue_.front().out;
    for (const Held& held : held_) next = std::min(next, held.out);
    if (next == kInfiniteFuture) return device_.context().timers().Cancel(*this);
    device_.context().timers().Arm(*this, next);
  }

  void Emit(PacketPtr packet) {
    stats_.passed.Inc();
    if (direction_ == TapDirection::kReceive) {
      device_.context().EnqueueBacklog(std::move(packet), device_);
      return;
    }
    if (device_.lower_ == nullptr) return Drop(std::move(packet), DropReason::kTxDeviceDown);
    // A loss below is counted there.
    static_cast<void>(TxPath::Transmit(std::move(packet), *device_.lower_));
  }

  void Overflow(PacketPtr packet) {
    stats_.overflowed.Inc();
    Drop(std::move(packet), direction_ == TapDirection::kTransmit ? DropReason::kTxQueueFull
                                                                  : DropReason::kLinkBacklogFull);
  }

  void Drop(PacketPtr packet, DropReason reason) {
    if (direction_ == TapDirection::kTransmit) return device_.DropTx(std::move(packet), reason);
    device_.DropRx(std::move(packet), reason);
  }

  FaultInjector& device_;
  TapDirection direction_;
  FaultSettings settings_;
  FaultStats stats_;
  std::deque<Waiting> queue_;  // by time
  std::vector<Held> held_;     // oldest first
  Time wire_free_;             // the rate lets the next frame start
  Time last_out_;              // later frames come out later
};

// Takes every frame of the lower device.
class FaultInjector::Handler final : public RxHandler {
 public:
  explicit Handler(FaultInjector& device) : device_(device) {}

  RxHandlerResult HandleFrame(PacketPtr& packet, NetDevice& /*lower*/) override {
    if (!device_.is_up()) {
      device_.DropRx(std::move(packet), DropReason::kLinkUpperDown);
      return RxHandlerResult::kConsumed;
    }
    if (packet->meta.gso.size == 0 || device_.receive_->settings().IsTransparent()) {
      device_.receive_->Offer(std::move(packet));
      return RxHandlerResult::kConsumed;
    }
    SegmentResult cut = SegmentPacket(device_.context().pool(), *packet, Feature::kSg);
    if (cut.error != DropReason::kNone) {
      device_.DropRx(std::move(packet), cut.error);
      return RxHandlerResult::kConsumed;
    }
    if (cut.segments.empty()) cut.segments.PushBack(std::move(packet));
    packet.reset();
    while (PacketPtr segment = cut.segments.PopFront()) device_.receive_->Offer(std::move(segment));
    return RxHandlerResult::kConsumed;
  }

 private:
  FaultInjector& device_;
};

FaultInjector::FaultInjector(NetContext& context, NetDevice& lower, const Options& options)
    : NetDevice(context, {.name = options.name, .mac = lower.mac(), .mtu = lower.mtu()}),
      lower_(&lower),
      random_(options.seed.has_value() ? *options.seed : context.random().Next64()),
      handler_(std::make_unique<Handler>(*this)),
      transmit_(std::make_unique<Lane>(*this, TapDirection::kTransmit, options.transmit)),
      receive_(std::make_unique<Lane>(*this, TapDirection::kReceive, options.receive)) {
  set_features(Feature::kSg);
  set_hw_features(Feature::kSg);
  SetCarrier(lower.is_running());
}

FaultInjector::~FaultInjector() = default;

absl::StatusOr<FaultInjector*> FaultInjector::Create(NetContext& context, NetDevice& lower,
                                                     const Options& options) {
  TW_RETURN_IF_ERROR(options.transmit.Validate());
  TW_RETURN_IF_ERROR(options.receive.Validate());
  std::unique_ptr<FaultInjector> device(new FaultInjector(context, lower, options));
  FaultInjector* raw = device.get();
  TW_RETURN_IF_ERROR(lower.SetRxHandler(raw->handler_.get()));
  auto added = context.registry().Register(std::move(device));
  if (!added.ok()) {
    lower.ClearRxHandler();
    return added.status();
  }
  if (absl::Status status = lower.LinkUpper(*raw); !status.ok()) {
    context.registry().Unregister(*raw);
    return status;
  }
  lower.AddObserver(*raw);
  return raw;
}

absl::Status FaultInjector::SetTransmit(const FaultSettings& settings) {
  TW_RETURN_IF_ERROR(settings.Validate());
  transmit_->set_settings(settings);
  return absl::OkStatus();
}

absl::Status FaultInjector::SetReceive(const FaultSettings& settings) {
  TW_RETURN_IF_ERROR(settings.Validate());
  receive_->set_settings(settings);
  return absl::OkStatus();
}

uint32_t FaultInjector::parent_ifindex() const {
  return lower_ != nullptr ? lower_->ifindex() : ifindex();
}

const FaultSettings& FaultInjector::transmit() const { return transmit_->settings(); }
const FaultSettings& FaultInjector::receive() const { return receive_->settings(); }
const FaultStats& FaultInjector::transmit_stats() const { return transmit_->stats(); }
const FaultStats& FaultInjector::receive_stats() const { return receive_->stats(); }

void FaultInjector::ForEachDriverStat(
    const std::function<void(absl::string_view, uint64_t)>& fn) const {
  const auto all = [&fn](absl::string_view prefix, const FaultStats& stats) {
    stats.ForEach([&](absl::string_view name, absl::string_view /*help*/, uint64_t value) {
      fn(absl::StrCat(prefix, name), value);
    });
  };
  all("tx_fault_", transmit_->stats());
  all("rx_fault_", receive_->stats());
}

absl::Status FaultInjector::OnUp() {
  if (lower_ == nullptr)
    return absl::FailedPreconditionError(absl::StrCat(name(), ": its lower device is gone"));
  TW_RETURN_IF_ERROR(lower_->Up());
  // The filter of the lower device would drop what this one has joined.
  lower_->SetPromiscuous(true);
  promiscuous_ = true;
  FollowCarrier();
  return absl::OkStatus();
}

void FaultInjector::OnDown() {
  if (std::exchange(promiscuous_, false) && lower_ != nullptr) lower_->SetPromiscuous(false);
  transmit_->Clear(DropReason::kTxDeviceDown);
  receive_->Clear(DropReason::kLinkDeviceDown);
}

void FaultInjector::OnUnregister() { Leave(); }

absl::Status FaultInjector::OnSetMtu(uint32_t mtu) {
  if (lower_ != nullptr && mtu > lower_->mtu()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name(), ": MTU ", mtu, " is larger than that of ", lower_->name(), ", ", lower_->mtu()));
  }
  return absl::OkStatus();
}

TxResult FaultInjector::StartXmit(PacketPtr packet, bool /*more*/) {
  transmit_->Offer(std::move(packet));
  return TxResult::kSent;
}

void FaultInjector::OnNetdevEvent(NetDevice& device, NetdevEvent event) {
  switch (event) {
    case NetdevEvent::kUp:
    case NetdevEvent::kDown:
    case NetdevEvent::kChange:
      return FollowCarrier();
    case NetdevEvent::kChangeMtu:
      if (mtu() > device.mtu()) static_cast<void>(SetMtu(device.mtu()));
      return;
    case NetdevEvent::kUnregister:
      Leave();
      return context().registry().Unregister(*this);
    default:
      return;
  }
}

void FaultInjector::FollowCarrier() { SetCarrier(lower_ != nullptr && lower_->is_running()); }

void FaultInjector::Leave() {
  if (lower_ == nullptr) return;
  if (std::exchange(promiscuous_, false)) lower_->SetPromiscuous(false);
  lower_->ClearRxHandler();
  lower_ = nullptr;
  static_cast<NetdevObserver*>(this)->Unlink();
}

}  // namespace tapwire::netdev
