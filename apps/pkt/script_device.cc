// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/script_device.h"

#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/capture_tap.h"
#include "netdev/net_context.h"
#include "netdev/packet/packet_list.h"
#include "netdev/poll.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::pkt {
namespace {

constexpr uint16_t kIpv4Type = 0x0800, kIpv6Type = 0x86dd;

}  // namespace

class ScriptDevice::RxQueue final : public netdev::PollContext {
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

ScriptDevice::ScriptDevice(netdev::NetContext& context, uint32_t mtu)
    : NetDevice(context, {.name = "pkt0", .mac = kMac, .mtu = mtu}),
      rx_queue_(std::make_unique<RxQueue>(context, *this)) {}

ScriptDevice::~ScriptDevice() = default;

bool ScriptDevice::Inject(std::span<const uint8_t> datagram) {
  std::vector<uint8_t> frame(kLinkHeaderLength);
  kMac.CopyTo(frame.data());
  kPeerMac.CopyTo(frame.data() + 6);
  const bool v6 = !datagram.empty() && datagram[0] >> 4 == 6;
  StoreBe16(frame.data() + 12, v6 ? kIpv6Type : kIpv4Type);
  frame.insert(frame.end(), datagram.begin(), datagram.end());
  PacketPtr packet = PacketFromBytes(context().pool(), frame);
  if (packet == nullptr) return false;
  packet->meta.rx_time = context().RefreshNow();
  rx_queue_->Push(std::move(packet));
  return true;
}

netdev::TxResult ScriptDevice::StartXmit(PacketPtr packet, bool /*more*/) {
  netdev::WireFrame frame;
  netdev::CopyWireFrame(*packet, /*complete=*/true, /*max_length=*/0, frame);
  if (frame.bytes.size() <= kLinkHeaderLength) return netdev::TxResult::kSent;
  const uint16_t type = LoadBe16(frame.bytes.data() + 12);
  if (type != kIpv4Type && type != kIpv6Type) return netdev::TxResult::kSent;
  if (sent_.size() >= kMaxSent) sent_.pop_front();
  sent_.push_back({{frame.bytes.begin() + kLinkHeaderLength, frame.bytes.end()}, context().now()});
  return netdev::TxResult::kSent;
}

void ScriptDevice::OnDown() { rx_queue_->Clear(); }

}  // namespace tapwire::pkt
