// SPDX-License-Identifier: Apache-2.0
// One entry of a NeighborTable; private to neighbor.cc and neighbor_state.cc.
#pragma once

#include "stack/neighbor.h"

namespace tapwire {

struct NeighborTable::Entry final : public Timer, public ListHook<NeighborTable> {
  Entry(NeighborTable& owner, const IpAddress& ip) : table(owner), address(ip) {}

  void OnExpired() override { table.OnTimer(*this); }
  // Its MAC may be used.
  bool has_mac() const {
    return state != NeighborState::kIncomplete && state != NeighborState::kFailed;
  }

  NeighborTable& table;
  const IpAddress address;
  IpAddress source;  // of the packet that last needed the entry
  MacAddress mac;
  NeighborState state = NeighborState::kFailed;  // the table sets it at once
  bool is_router = false;
  bool unreachable = false;  // RFC 7048 UNREACHABLE, a part of kProbe
  int probes = 0;            // questions sent without an answer
  Time created, confirmed, used, updated;
  Time asked;          // when the last question went out
  Duration backoff{};  // to the next question while unreachable
  PacketList pending;
};

}  // namespace tapwire
