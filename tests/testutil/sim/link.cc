// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/sim/link.h"

#include <algorithm>
#include <utility>

#include "netdev/capture_tap.h"
#include "netdev/packet_copy.h"

namespace tapwire::testutil {

class SimDevice::RxQueue final : public netdev::PollContext {
 public:
  using PollContext::PollContext;

  void Push(PacketPtr packet) {
    waiting_.PushBack(std::move(packet));
    Schedule();
  }
  void Clear() { waiting_.Clear(); }

  int Poll(int budget) override {
    int taken = 0;
    for (; taken < budget && !waiting_.empty(); ++taken) Deliver(waiting_.PopFront());
    return taken;
  }

 private:
  PacketList waiting_;
};

SimDevice::SimDevice(netdev::NetContext& context, std::string name, const LinkOptions& options)
    : NetDevice(context, {.name = std::move(name), .mac = {}, .mtu = options.mtu}),
      rx_queue_(std::make_unique<RxQueue>(context, *this)) {
  set_features(options.features);
  set_hw_features(options.features);
}

SimDevice::~SimDevice() = default;

void SimDevice::OnDown() { rx_queue_->Clear(); }

netdev::TxResult SimDevice::StartXmit(PacketPtr packet, bool /*more*/) {
  link_->Send(end_, std::move(packet));
  return netdev::TxResult::kSent;
}

void SimDevice::Arrive(PacketPtr packet) {
  // Between two ends with different MTUs, or with the cable out, frames die like on a real wire.
  if (!is_running()) return DropRx(std::move(packet), DropReason::kLinkDeviceDown);
  packet->meta.rx_time = context().RefreshNow();
  rx_queue_->Push(std::move(packet));
}

Link::Link(SimDevice& a, SimDevice& b, const LinkOptions& options, uint64_t seed, Schedule at)
    : random_(seed), at_(std::move(at)) {
  directions_[0].to = &b;
  directions_[1].to = &a;
  for (Direction& direction : directions_) direction.options = options;
  a.link_ = b.link_ = this;
  a.end_ = 0;
  b.end_ = 1;
}

bool Link::Chance(double probability) {
  return probability > 0 && random_.Next32() < probability * 4294967296.0;
}

void Link::Send(int from_end, PacketPtr packet) {
  Direction& direction = directions_[static_cast<size_t>(from_end)];
  const LinkOptions& options = direction.options;
  const uint64_t number = direction.stats.sent++;
  const Time now = direction.to->context().RefreshNow();  // one clock for all
  if (options.drop_if) {
    netdev::WireFrame wire;
    netdev::CopyWireFrame(*packet, /*complete=*/true, /*max_length=*/0, wire);
    if (options.drop_if(wire.bytes, number)) {
      ++direction.stats.lost;
      return;
    }
  }
  if (Chance(options.loss)) {
    ++direction.stats.lost;
    return;
  }
  Time arrival = now + options.delay;
  if (options.rate_bits_per_s > 0) {
    if (direction.waiting >= options.queue_packets) {
      ++direction.stats.overflowed;
      return;
    }
    const auto on_wire = Duration(
        static_cast<int64_t>(packet->length() * 8 * 1'000'000'000 / options.rate_bits_per_s));
    direction.wire_free = std::max(direction.wire_free, now) + on_wire;
    arrival = direction.wire_free + options.delay;
    ++direction.waiting;
    at_(direction.wire_free, [&direction] { --direction.waiting; });
  }
  if (Chance(options.reorder)) {
    ++direction.stats.reordered;
    arrival += options.reorder_delay;
  }
  if (Chance(options.duplicate)) {
    ++direction.stats.duplicated;
    Deliver(direction, *packet, arrival);
  }
  Deliver(direction, *packet, arrival);
}

// The copy is made in the receiver's pool now, so nothing of the sender's is held on the way.
void Link::Deliver(Direction& direction, const Packet& packet, Time arrival) {
  std::shared_ptr<PacketPtr> copy =
      std::make_shared<PacketPtr>(netdev::CopyPacketTo(direction.to->context().pool(), packet));
  if (*copy == nullptr) {
    ++direction.stats.overflowed;
    return;
  }
  at_(arrival, [&direction, copy] {
    ++direction.stats.delivered;
    direction.to->Arrive(std::move(*copy));
  });
}

}  // namespace tapwire::testutil
