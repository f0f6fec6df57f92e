// SPDX-License-Identifier: Apache-2.0
// FlowKey: the addresses and ports that name one flow, and its keyed hash. The hash is a keyed
// SipHash-1-3 so that a peer cannot choose ports that collide in our tables.
#pragma once

#include <cstdint>
#include <cstring>

#include "netdev/base/byteorder.h"
#include "netdev/base/siphash.h"
#include "netdev/wire/ip_address.h"

namespace tapwire {

// Seen from us: local is ours, remote the peer's. Zones are not part of it: a link-local peer is
// told apart by the interface that an unconnected lookup checks.
struct FlowKey {
  IpAddress local;
  IpAddress remote;
  uint16_t local_port = 0;
  uint16_t remote_port = 0;

  friend bool operator==(const FlowKey&, const FlowKey&) = default;
};

// Hash for tables keyed by FlowKey; stateful, since the key is secret and per stack.
struct FlowKeyHash {
  SipKey key;

  size_t operator()(const FlowKey& flow) const {
    return flow.local.is_v4() ? Hash<4>(flow) : Hash<16>(flow);
  }

 private:
  template <size_t kAddress>
  size_t Hash(const FlowKey& flow) const {
    std::array<uint8_t, 2 * kAddress + 4> bytes;
    std::memcpy(bytes.data(), flow.local.bytes().data(), kAddress);
    std::memcpy(bytes.data() + kAddress, flow.remote.bytes().data(), kAddress);
    StoreBe16(bytes.data() + 2 * kAddress, flow.local_port);
    StoreBe16(bytes.data() + 2 * kAddress + 2, flow.remote_port);
    return static_cast<size_t>(SipHash13(key, bytes));
  }
};

}  // namespace tapwire
