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
    std::array<uint8_t, 36> bytes{};  // 16 + 16 + 2 + 2; IPv4 leaves zeros
    std::memcpy(bytes.data(), flow.local.bytes().data(), flow.local.bytes().size());
    std::memcpy(bytes.data() + 16, flow.remote.bytes().data(), flow.remote.bytes().size());
    StoreBe16(bytes.data() + 32, flow.local_port);
    StoreBe16(bytes.data() + 34, flow.remote_port);
    return static_cast<size_t>(SipHash13(key, bytes));
  }
};

}  // namespace tapwire
