// SPDX-License-Identifier: Apache-2.0
// The states of RFC 4861 §7.3 and its Appendix C, with the UNREACHABLE extension of RFC 7048 §3.
//
// Timers (the one of each entry, by state): INCOMPLETE and PROBE: next question, 1 s apart, growing
// threefold to 60 s while unreachable; DELAY: first probe, 5 s; FAILED: end of the hold time, 1 s.
// REACHABLE and STALE have none.
#include <algorithm>
#include <utility>

#include "stack/neighbor_entry.h"
#include "stack/stack.h"

namespace tapwire {
namespace {

// RFC 4861 §6.3.2: a new random value "at least every few hours" even if nothing changes.
constexpr Duration kReachableTimeRedraw = std::chrono::hours(2);
// RFC 7048 §5.
constexpr int kBackoffMultiple = 3;
constexpr Duration kMaxRetransTimer = std::chrono::seconds(60);

}  // namespace

// ---- Ageing ----

// RFC 4861 §6.3.2: uniform between MIN_RANDOM_FACTOR (0.5) and MAX_RANDOM_FACTOR (1.5) of the base.
Duration NeighborTable::ReachableTime() {
  const Duration base = stack_.config().reachable_time_base;
  if (base != reachable_base_ || stack_.now() - reachable_drawn_ >= kReachableTimeRedraw) {
    constexpr uint32_t kSteps = 1u << 20;
    reachable_base_ = base;
    reachable_drawn_ = stack_.now();
    reachable_time_ = base / 2 + base / kSteps * stack_.random().Uniform(kSteps);
  }
  return reachable_time_;
}

bool NeighborTable::FreshlyReachable(const Entry& entry) {
  if (entry.state == NeighborState::kPermanent) return true;
  return entry.state == NeighborState::kReachable &&
         stack_.now() - entry.confirmed < ReachableTime();
}

// The state with the ageing of REACHABLE applied, which has no timer.
NeighborState NeighborTable::EffectiveState(const Entry& entry) const {
  if (entry.state == NeighborState::kReachable &&
      stack_.now() - entry.confirmed >= reachable_time_) {
    return NeighborState::kStale;
  }
  return entry.state;
}

// ---- Transitions ----

void NeighborTable::SetState(Entry& entry, NeighborState state) {
  const bool was_incomplete = entry.state == NeighborState::kIncomplete;
  const bool is_incomplete = state == NeighborState::kIncomplete;
  if (is_incomplete && !was_incomplete) {
    incomplete_.PushBack(entry);
    ++incomplete_count_;
  } else if (!is_incomplete && was_incomplete) {
    incomplete_.Remove(entry);
    --incomplete_count_;
  }
  entry.state = state;
}

// To a state in which nothing is asked: no timer, no questions counted.
void NeighborTable::Enter(Entry& entry, NeighborState state) {
  const bool was_doubtful = !entry.has_mac() || entry.unreachable;
  stack_.timers().Cancel(entry);
  SetState(entry, state);
  entry.probes = 0;
  entry.unreachable = false;
  if (state == NeighborState::kReachable) {
    entry.confirmed = stack_.now();
    static_cast<void>(ReachableTime());
  }
  if (was_doubtful) {
    stack_.OnNeighborReachability(device_.ifindex(), entry.address, true);
  }
}

void NeighborTable::Learn(Entry& entry, const MacAddress& mac, NeighborState state) {
  entry.mac = mac;
  entry.updated = stack_.now();
  Enter(entry, state);
  SendPending(entry);
}

void NeighborTable::SendPending(Entry& entry) {
  if (entry.pending.empty()) return;
  if (entry.state == NeighborState::kStale) StartDelay(entry);
  PacketList pending = std::move(entry.pending);
  while (!pending.empty()) {
    static_cast<void>(Transmit(pending.PopFront(), entry.mac));
  }
}

// RFC 4861 §7.3.3: the first packet to a STALE neighbour starts the wait for a confirmation from
// above.
void NeighborTable::StartDelay(Entry& entry) {
  SetState(entry, NeighborState::kDelay);
  entry.probes = 0;
  stack_.timers().Arm(entry, stack_.now() + stack_.config().delay_first_probe);
}

// Asks once and waits RetransTimer, or the growing back-off, for the answer.
void NeighborTable::Solicit(Entry& entry, bool unicast) {
  ++entry.probes;
  entry.asked = stack_.now();
  const Duration wait = std::max(stack_.config().retrans_timer, entry.backoff);
  stack_.timers().Arm(entry, entry.asked + wait);
  resolver_.Solicit(entry.address, unicast ? std::optional<MacAddress>(entry.mac) : std::nullopt,
                    entry.source);
}

void NeighborTable::OnTimer(Entry& entry) {
  switch (entry.state) {
    case NeighborState::kIncomplete:
      return OnIncompleteTimeout(entry);
    case NeighborState::kDelay:
      SetState(entry, NeighborState::kProbe);
      entry.backoff = Duration();
      return Solicit(entry, /*unicast=*/true);
    case NeighborState::kProbe:
      return OnProbeTimeout(entry);
    case NeighborState::kFailed:
      return Erase(entry);
    default:
      return;
  }
}

void NeighborTable::OnIncompleteTimeout(Entry& entry) {
  if (entry.probes < stack_.config().max_multicast_solicit) {
    return Solicit(entry, /*unicast=*/false);
  }
  Fail(entry);
}

// RFC 4861 §7.2.2: every packet that waits is answered with an unreachable error. The entry stays
// for a moment so that a sender in a loop does not start over at once.
void NeighborTable::Fail(Entry& entry) {
  stack_.mib().neighbor.failed.Inc();
  SetState(entry, NeighborState::kFailed);
  entry.updated = stack_.now();
  stack_.timers().Arm(entry, stack_.now() + stack_.config().neighbor_failed_hold);
  // Reports may send, and so remove the entry: copy what is needed.
  PacketList pending = std::move(entry.pending);
  const IpAddress address = entry.address;
  stack_.OnNeighborReachability(device_.ifindex(), address, false);
  while (!pending.empty()) {
    resolver_.ReportUnreachable(pending.PopFront(), address);
  }
}

void NeighborTable::OnProbeTimeout(Entry& entry) {
  const StackConfig& config = stack_.config();
  if (!entry.unreachable) {
    if (entry.probes < config.max_unicast_solicit) {
      return Solicit(entry, /*unicast=*/true);
    }
    stack_.mib().neighbor.failed.Inc();
    entry.unreachable = true;
    entry.backoff = config.retrans_timer;
    stack_.OnNeighborReachability(device_.ifindex(), entry.address, false);
  }
  // RFC 4861 §7.3.3 deletes the entry here. RFC 7048 §3 keeps it for as long as it is used, since
  // what it would be made anew for is the same question; without traffic it goes.
  if (stack_.now() - entry.used > std::max(entry.backoff, config.delay_first_probe)) {
    return Erase(entry);
  }
  // RFC 7048 §3: multicast, since the MAC may have changed, and exponential back-off.
  entry.backoff = std::min(entry.backoff * kBackoffMultiple, kMaxRetransTimer);
  Solicit(entry, /*unicast=*/false);
}

// ---- What peers say ----

// RFC 1122 §2.3.2.1 and RFC 4861 §7.1: only the MAC of one other station can be a neighbour's.
bool NeighborTable::MayLearn(const MacAddress& mac) const {
  return mac.IsUnicast() && mac != device_.mac();
}

void NeighborTable::OnSolicited(const IpAddress& address, const MacAddress& mac, bool create) {
  if (!MayLearn(mac)) return;
  Entry* entry = Lookup(address);
  if (entry == nullptr) {
    if (!create) return;
    entry = Create(address, NeighborState::kStale);
    if (entry != nullptr) entry->mac = mac;
    return;
  }
  if (entry->has_mac() && entry->mac == mac) return;
  if (entry->state == NeighborState::kPermanent) {
    stack_.mib().neighbor.static_kept.Inc();
    return;
  }
  Learn(*entry, mac, NeighborState::kStale);
}

DropReason NeighborTable::OnAdvertisement(const Advertisement& advertisement) {
  const bool v4 = family_ == IpFamily::kV4;
  if (advertisement.mac && !MayLearn(*advertisement.mac)) {
    return v4 ? DropReason::kArpBadSenderMac : DropReason::kNdpIgnored;
  }
  Entry* entry = Lookup(advertisement.address);
  if (entry == nullptr) {
    return v4 ? DropReason::kArpUnsolicited : DropReason::kNdpNoEntry;
  }
  if (entry->has_mac()) return UpdateKnown(*entry, advertisement);
  // RFC 4861 §7.2.5, INCOMPLETE: the override flag is ignored; an advertisement without a MAC says
  // nothing.
  if (!advertisement.mac) return DropReason::kNdpIgnored;
  entry->is_router = advertisement.is_router;
  Learn(*entry, *advertisement.mac,
        advertisement.solicited ? NeighborState::kReachable : NeighborState::kStale);
  return DropReason::kNone;
}

// RFC 4861 §7.2.5, any state other than INCOMPLETE.
DropReason NeighborTable::UpdateKnown(Entry& entry, const Advertisement& advertisement) {
  const bool differs = advertisement.mac && *advertisement.mac != entry.mac;
  if (entry.state == NeighborState::kPermanent) {
    if (!differs) return DropReason::kNone;
    stack_.mib().neighbor.static_kept.Inc();
    return family_ == IpFamily::kV4 ? DropReason::kArpStaticEntry : DropReason::kNdpIgnored;
  }
  if (differs && !advertisement.override) {
    // I.: REACHABLE becomes STALE, anything else ignores it.
    if (EffectiveState(entry) != NeighborState::kReachable) {
      return DropReason::kNdpIgnored;
    }
    Enter(entry, NeighborState::kStale);
    return DropReason::kNone;
  }
  // II.
  entry.is_router = advertisement.is_router;
  if (differs) {
    entry.mac = *advertisement.mac;
    entry.updated = stack_.now();
  }
  if (advertisement.solicited) {
    Enter(entry, NeighborState::kReachable);
  } else if (differs) {
    Enter(entry, NeighborState::kStale);
  }
  return DropReason::kNone;
}

void NeighborTable::Confirm(const IpAddress& address) {
  Entry* entry = Lookup(address);
  if (entry == nullptr || !entry->has_mac() || entry->state == NeighborState::kPermanent) {
    return;
  }
  if (entry->state == NeighborState::kReachable) {
    entry->confirmed = stack_.now();
  } else {
    Enter(*entry, NeighborState::kReachable);
  }
}

void NeighborTable::Suspect(const IpAddress& address) {
  Entry* entry = Lookup(address);
  if (entry == nullptr || !entry->has_mac()) return;
  if (entry->state != NeighborState::kReachable && entry->state != NeighborState::kStale &&
      entry->state != NeighborState::kDelay) {
    return;
  }
  SetState(*entry, NeighborState::kProbe);
  entry->backoff = Duration();
  Solicit(*entry, /*unicast=*/true);
}

}  // namespace tapwire
