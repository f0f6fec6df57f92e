// SPDX-License-Identifier: Apache-2.0
// The state of one of our addresses in Neighbor Discovery: being checked, then being announced.
// Private to ndp/.
#pragma once

#include <functional>

#include "netdev/base/timer_queue.h"
#include "netdev/wire/inline_bytes.h"
#include "stack/ndp/ndp.h"

namespace tapwire {

struct Ndp::Check {
  enum class Phase { kDelay, kProbing, kAnnouncing };

  Check(const Ipv6Address& a, Phase p, absl::AnyInvocable<void()> on_timer)
      : address(a), phase(p), timer(std::move(on_timer)) {}
  bool tentative() const { return phase != Phase::kAnnouncing; }

  Ipv6Address address;
  Phase phase;
  int left = 0;  // probes or announcements still to be sent
  decltype(wire::NdpOptions::nonce) nonce;
  FunctionTimer timer;
};

}  // namespace tapwire
