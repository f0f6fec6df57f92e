// SPDX-License-Identifier: Apache-2.0
// One address of ours as ARP watches over it; private to stack/arp.
#pragma once

#include <optional>

#include "netdev/base/timer_queue.h"
#include "stack/arp/arp.h"

namespace tapwire {

struct Arp::Probe final : public Timer {
  enum class Phase : uint8_t {
    kIdle,  // defended if need be
    kProbing,
    kWaiting,  // all probes sent, ANNOUNCE_WAIT
    kAnnouncing,
  };

  Probe(Arp& owner, const Ipv4Address& ip) : arp(owner), address(ip) {}
  void OnExpired() override { arp.OnTimer(*this); }

  Arp& arp;
  const Ipv4Address address;
  Phase phase = Phase::kIdle;
  int left = 0;                  // probes or announcements still to send
  std::optional<Time> defended;  // when last
};

}  // namespace tapwire
