// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/script_device.h"

#include <utility>

#include "netdev/base/byteorder.h"
#include "netdev/capture_tap.h"
#include "netdev/net_context.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::pkt {
namespace {

constexpr uint16_t kIpv4Type = 0x0800, kIpv6Type = 0x86dd;

}  // namespace

ScriptDevice::ScriptDevice(netdev::NetContext& context, uint32_t mtu)
    : NetDevice(context, {.name = "pkt0", .mac = kMac, .mtu = mtu}) {}

StackConfig ScriptDevice::QuietStack() {
  StackConfig config;
  config.duplicate_address_detection = false;
  config.announce_addresses = false;
  config.link_local_address = false;
  return config;
}

bool ScriptDevice::Inject(std::span<const uint8_t> datagram) {
  std::vector<uint8_t> frame(kLinkHeaderLength);
  kMac.CopyTo(frame.data());
  kPeerMac.CopyTo(frame.data() + 6);
  const bool v6 = !datagram.empty() && datagram[0] >> 4 == 6;
  StoreBe16(frame.data() + 12, v6 ? kIpv6Type : kIpv4Type);
  frame.insert(frame.end(), datagram.begin(), datagram.end());
  PacketPtr packet = PacketFromBytes(context().pool(), frame);
  if (packet == nullptr) return false;
  context().RefreshNow();  // the time of its arrival
  context().EnqueueBacklog(std::move(packet), *this);
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

}  // namespace tapwire::pkt
