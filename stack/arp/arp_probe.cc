// SPDX-License-Identifier: Apache-2.0
// Address conflict detection, announcement and defence of RFC 5227.
//
// What to do about a conflict with an address in use is §2.4's choice (c): addresses are configured
// by hand here and are kept and defended, at most once in DEFEND_INTERVAL. Giving them up would let
// any host on the link take them away with two packets.
#include "stack/arp/arp_probe.h"

#include <algorithm>

#include "netdev/base/log.h"
#include "stack/interface.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// RFC 5227 §1.1.
constexpr Duration kProbeWait = std::chrono::seconds(1);
constexpr int kProbeNum = 3;
constexpr Duration kProbeMin = std::chrono::seconds(1);
constexpr Duration kProbeMax = std::chrono::seconds(2);
constexpr Duration kAnnounceWait = std::chrono::seconds(2);
constexpr int kAnnounceNum = 2;
constexpr Duration kAnnounceInterval = std::chrono::seconds(2);
constexpr int kMaxConflicts = 10;
constexpr Duration kRateLimitInterval = std::chrono::seconds(60);
constexpr Duration kDefendInterval = std::chrono::seconds(10);

// Uniform in [0, limit], in microseconds.
Duration RandomUpTo(Random& random, Duration limit) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(limit);
  return std::chrono::microseconds(random.Uniform(static_cast<uint32_t>(us.count()) + 1));
}

}  // namespace

Arp::Probe* Arp::Find(const Ipv4Address& address) const {
  for (const auto& probe : probes_) {
    if (probe->address == address) return probe.get();
  }
  return nullptr;
}

Arp::Probe& Arp::FindOrAdd(const Ipv4Address& address) {
  if (Probe* probe = Find(address)) return *probe;
  probes_.push_back(std::make_unique<Probe>(*this, address));
  return *probes_.back();
}

void Arp::Cancel(const Ipv4Address& address) {
  std::erase_if(probes_,
                [&](const std::unique_ptr<Probe>& probe) { return probe->address == address; });
}

// RFC 5227 §2.1.1: random, so that hosts that start together do not probe together; and after ten
// conflicts not more than one attempt a minute.
Duration Arp::ProbeDelay() {
  const Duration random = RandomUpTo(stack_.random(), kProbeWait);
  if (failed_probes_ < kMaxConflicts) return random;
  return std::max(random, last_probe_start_ + kRateLimitInterval - stack_.now());
}

void Arp::StartProbe(const Ipv4Address& address) {
  Probe& probe = FindOrAdd(address);
  probe.phase = Probe::Phase::kProbing;
  probe.left = kProbeNum;
  const Time start = stack_.now() + ProbeDelay();
  last_probe_start_ = start;
  stack_.timers().Arm(probe, start);
}

void Arp::Announce(const Ipv4Address& address) {
  Probe& probe = FindOrAdd(address);
  probe.phase = Probe::Phase::kAnnouncing;
  probe.left = kAnnounceNum;
  OnTimer(probe);
}

void Arp::OnTimer(Probe& probe) {
  TimerQueue& timers = stack_.timers();
  switch (probe.phase) {
    case Probe::Phase::kProbing: {
      // §2.1.1: sender IP zero, "to avoid polluting ARP caches".
      SendRequest(Ipv4Address::kUnspecified, probe.address, MacAddress::kBroadcast());
      if (--probe.left > 0) {
        timers.Arm(probe,
                   stack_.now() + kProbeMin + RandomUpTo(stack_.random(), kProbeMax - kProbeMin));
      } else {
        probe.phase = Probe::Phase::kWaiting;
        timers.Arm(probe, stack_.now() + kAnnounceWait);
      }
      return;
    }
    case Probe::Phase::kWaiting:
      probe.phase = Probe::Phase::kIdle;
      failed_probes_ = 0;
      // May announce, or cancel and so destroy the probe.
      interface_.OnAddressChecked(probe.address, /*duplicate=*/false);
      return;
    case Probe::Phase::kAnnouncing:
      SendRequest(probe.address, probe.address, MacAddress::kBroadcast());
      if (--probe.left > 0) {
        timers.Arm(probe, stack_.now() + kAnnounceInterval);
      } else {
        probe.phase = Probe::Phase::kIdle;
      }
      return;
    case Probe::Phase::kIdle:
      return;
  }
}

void Arp::OnConflict(const wire::ArpHeader& arp, const Ipv4Address& address) {
  stack_.mib().arp.conflicts.Inc();
  TW_LOG_EVERY_N(kWarning, conflict_log_, 100)
      << interface_.device().name() << ": " << arp.sender_hardware_address().ToString()
      << " claims our address " << address.ToString();
  Probe* probe = Find(address);
  const InterfaceAddress* own = interface_.FindAddress(address);
  if (own != nullptr && own->usable()) {
    Defend(FindOrAdd(address));
  } else if (probe != nullptr) {
    ++failed_probes_;
    Cancel(address);
    interface_.OnAddressChecked(address, /*duplicate=*/true);
  }
}

// RFC 5227 §2.4: one announcement, and no second one within DEFEND_INTERVAL, so that two hosts with
// one address do not shout at each other for ever.
void Arp::Defend(Probe& probe) {
  if (probe.defended && stack_.now() - *probe.defended < kDefendInterval) return;
  probe.defended = stack_.now();
  SendRequest(probe.address, probe.address, MacAddress::kBroadcast());
}

}  // namespace tapwire
