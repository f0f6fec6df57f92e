// SPDX-License-Identifier: Apache-2.0
// ScriptDevice: the link of a script. Datagrams go in and out as on a wire without Ethernet,
// stamped with virtual time. It has no offloads, so that the stack's own software segments and
// sums.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "absl/strings/string_view.h"
#include "apps/pkt/host.h"
#include "netdev/device.h"
#include "netdev/wire/mac_address.h"
#include "stack/config.h"

namespace tapwire::pkt {

class ScriptDevice final : public netdev::NetDevice {
 public:
  static constexpr MacAddress kMac{0x02, 0, 0, 0, 0, 0x01};
  // Where all neighbours are.
  static constexpr MacAddress kPeerMac{0x02, 0, 0, 0, 0, 0x02};

  ScriptDevice(netdev::NetContext& context, uint32_t mtu);

  // For a stack on it that sends nothing of its own accord.
  static StackConfig QuietStack();

  absl::string_view kind() const override { return "script"; }

  // The next batch receives it; the MTU does not limit it. False: no memory.
  bool Inject(std::span<const uint8_t> datagram);
  // What was sent and not taken yet, oldest first. Never grows without bound: beyond kMaxSent the
  // oldest are lost.
  std::deque<SentDatagram>& sent() { return sent_; }

 protected:
  netdev::TxResult StartXmit(PacketPtr packet, bool more) override;

 private:
  static constexpr size_t kMaxSent = 1u << 17;

  std::deque<SentDatagram> sent_;
};

}  // namespace tapwire::pkt
