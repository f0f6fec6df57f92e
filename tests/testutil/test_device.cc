// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/test_device.h"

#include <utility>

#include "netdev/base/check.h"
#include "netdev/capture_tap.h"
#include "netdev/net_context.h"

namespace tapwire::testutil {

class TestDevice::RxQueue final : public netdev::PollContext {
 public:
  using PollContext::PollContext;

  void Push(PacketPtr packet) {
    waiting_.PushBack(std::move(packet));
    Schedule();
  }
  void Clear() { waiting_.Clear(); }

  int Poll(int budget) override {
    int taken = 0;
    while (taken < budget && !waiting_.empty()) {
      ++taken;
      Deliver(waiting_.PopFront());
    }
    return taken;
  }

 private:
  PacketList waiting_;
};

TestDevice::TestDevice(netdev::NetContext& context, Options options)
    : NetDevice(context, {.name = std::move(options.name), .mac = options.mac, .mtu = options.mtu}),
      rx_queue_(std::make_unique<RxQueue>(context, *this)) {
  set_features(options.features);
  set_hw_features(options.features);
}

TestDevice::~TestDevice() = default;

void TestDevice::Inject(std::span<const uint8_t> frame) {
  Inject(frame, [](Packet&) {});
}

void TestDevice::Inject(std::span<const uint8_t> frame,
                        const std::function<void(Packet&)>& prepare) {
  PacketPtr packet = PacketFromBytes(context().pool(), frame);
  TW_CHECK(packet != nullptr, "the pool is too small for the test");
  packet->meta.rx_time = context().RefreshNow();
  prepare(*packet);
  rx_queue_->Push(std::move(packet));
}

std::vector<SentFrame> TestDevice::TakeSent() { return std::exchange(sent_, {}); }

netdev::TxResult TestDevice::StartXmit(PacketPtr packet, bool /*more*/) {
  if (failure_ != netdev::TxResult::kSent) {
    FailTx(std::move(packet), DropReason::kTxWriteError);
    return failure_;
  }
  netdev::WireFrame frame;
  netdev::CopyWireFrame(*packet, /*complete=*/true, /*max_length=*/0, frame);
  sent_.push_back({.bytes = std::move(frame.bytes),
                   .time = context().now(),
                   .csum_state = packet->meta.csum_state,
                   .gso = packet->meta.gso});
  return netdev::TxResult::kSent;
}

void TestDevice::OnDown() { rx_queue_->Clear(); }

}  // namespace tapwire::testutil
