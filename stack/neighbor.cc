// SPDX-License-Identifier: Apache-2.0
// The table: look-up and output, and what keeps it bounded. Two limits work together. Of
// neighbor_max_entries, at most neighbor_max_incomplete (and never more than half) may wait for an
// answer, so a scan of absent addresses occupies its own share only; and room for a new entry is
// made from failed and STALE entries, never from one that is REACHABLE or being checked. The states
// are in neighbor_state.cc.
#include "stack/neighbor.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/wire/ethernet.h"
#include "stack/eth/eth_output.h"
#include "stack/forwarding.h"
#include "stack/neighbor_entry.h"
#include "stack/stack.h"

namespace tapwire {

absl::string_view NeighborStateName(NeighborState state) {
  switch (state) {
    case NeighborState::kIncomplete:
      return "INCOMPLETE";
    case NeighborState::kReachable:
      return "REACHABLE";
    case NeighborState::kStale:
      return "STALE";
    case NeighborState::kDelay:
      return "DELAY";
    case NeighborState::kProbe:
      return "PROBE";
    case NeighborState::kFailed:
      return "FAILED";
    case NeighborState::kPermanent:
      return "PERMANENT";
  }
  return "UNKNOWN";
}

NeighborTable::NeighborTable(Stack& stack, netdev::NetDevice& device, NeighborResolver& resolver,
                             IpFamily family)
    : stack_(stack), device_(device), resolver_(resolver), family_(family) {}

NeighborTable::~NeighborTable() = default;

NeighborTable::Entry* NeighborTable::Lookup(const IpAddress& address) const {
  const auto it = entries_.find(address);
  return it == entries_.end() ? nullptr : it->second.get();
}

// ---- Output ----

netdev::TxResult NeighborTable::Output(PacketPtr packet, const IpAddress& next_hop,
                                       const IpAddress& source) {
  Entry* entry = Lookup(next_hop);
  if (entry == nullptr) return OutputNew(std::move(packet), next_hop, source);
  entry->used = stack_.now();
  if (FreshlyReachable(*entry)) return Transmit(std::move(packet), entry->mac);
  entry->source = source;
  return OutputSlow(std::move(packet), *entry);
}

netdev::TxResult NeighborTable::OutputNew(PacketPtr packet, const IpAddress& next_hop,
                                          const IpAddress& source) {
  if (!device_.is_running()) {
    stack_.Drop(std::move(packet),
                device_.is_up() ? DropReason::kTxCarrierOff : DropReason::kTxDeviceDown);
    return netdev::TxResult::kDeviceDown;
  }
  Entry* entry = Create(next_hop, NeighborState::kIncomplete);
  if (entry == nullptr) {
    stack_.Drop(std::move(packet), DropReason::kNeighborTableFull);
    return netdev::TxResult::kNoBuffer;
  }
  entry->used = stack_.now();
  entry->source = source;
  const netdev::TxResult result = Enqueue(*entry, std::move(packet));
  Solicit(*entry, /*unicast=*/false);
  return result;
}

netdev::TxResult NeighborTable::OutputSlow(PacketPtr packet, Entry& entry) {
  switch (EffectiveState(entry)) {
    case NeighborState::kStale:
      StartDelay(entry);
      break;
    case NeighborState::kIncomplete:
      return Enqueue(entry, std::move(packet));
    case NeighborState::kFailed:
      // A sender of our own hears it from the result.
      if (IsTransit(stack_, *packet)) {
        ReportTransitUnreachable(stack_, std::move(packet));
      } else {
        stack_.Drop(std::move(packet), DropReason::kNeighborUnresolved);
      }
      return netdev::TxResult::kNoRoute;
    default:
      break;
  }
  // RFC 4861 §7.3.3: the cached MAC is used while it is being checked.
  return Transmit(std::move(packet), entry.mac);
}

// RFC 4861 §7.2.2: the newest packets stay, the oldest goes. RFC 1122 §2.3.2.2.
netdev::TxResult NeighborTable::Enqueue(Entry& entry, PacketPtr packet) {
  entry.pending.PushBack(std::move(packet));
  while (entry.pending.size() > stack_.config().neighbor_max_pending_packets) {
    stack_.mib().neighbor.pending_dropped.Inc();
    stack_.Drop(entry.pending.PopFront(), DropReason::kNeighborQueueOverflow);
  }
  return entry.pending.empty() ? netdev::TxResult::kNoBuffer : netdev::TxResult::kQueued;
}

netdev::TxResult NeighborTable::Transmit(PacketPtr packet, const MacAddress& mac) {
  return EthOutput(std::move(packet), device_, mac,
                   family_ == IpFamily::kV4 ? wire::EtherType::kIpv4 : wire::EtherType::kIpv6);
}

void NeighborTable::Resolve(const IpAddress& address, const IpAddress& source) {
  Entry* entry = Lookup(address);
  if (entry != nullptr && entry->state != NeighborState::kFailed) return;
  if (entry != nullptr) Erase(*entry);
  entry = Create(address, NeighborState::kIncomplete);
  if (entry == nullptr) return;
  entry->source = source;
  Solicit(*entry, /*unicast=*/false);
}

// ---- Bounds ----

NeighborTable::Entry* NeighborTable::Create(const IpAddress& address, NeighborState state) {
  if (state == NeighborState::kIncomplete && !MakeRoomForIncomplete()) {
    stack_.mib().neighbor.incomplete_full.Inc();
    return nullptr;
  }
  if (!MakeRoom()) {
    stack_.mib().neighbor.table_full.Inc();
    return nullptr;
  }
  auto owned = std::make_unique<Entry>(*this, address);
  Entry& entry = *owned;
  entries_.emplace(address, std::move(owned));
  entry.created = entry.updated = stack_.now();
  entry.source = IpAddress::Unspecified(family_);
  SetState(entry, state);
  stack_.mib().neighbor.created.Inc();
  return &entry;
}

void NeighborTable::Erase(Entry& entry) {
  while (!entry.pending.empty()) {
    stack_.Drop(entry.pending.PopFront(),
                device_.is_up() ? DropReason::kNeighborUnresolved : DropReason::kTxDeviceDown);
  }
  if (entry.state == NeighborState::kIncomplete) --incomplete_count_;
  entries_.erase(entries_.find(entry.address));
}

// A newcomer may take the place of the oldest question that has gone unanswered for a whole
// retransmission time: its host is hardly there. Younger ones stay, else many destinations in turn
// would be asked for more often than once a second (RFC 1122 §2.3.2.1).
bool NeighborTable::MakeRoomForIncomplete() {
  const StackConfig& config = stack_.config();
  const size_t limit = std::min(config.neighbor_max_incomplete,
                                std::max<size_t>(1, config.neighbor_max_entries / 2));
  if (incomplete_count_ < limit) return true;
  Entry* oldest = incomplete_.front();
  if (limit == 0 || oldest == nullptr || stack_.now() - oldest->created < config.retrans_timer) {
    return false;
  }
  Fail(*oldest);
  return true;
}

bool NeighborTable::MakeRoom() {
  const size_t limit = stack_.config().neighbor_max_entries;
  if (entries_.size() < limit) return true;
  // One search per batch is enough to know that nothing can go.
  if (limit == 0 || nothing_to_evict_at_ == stack_.now()) return false;
  Evict(entries_.size() - limit + std::max<size_t>(1, limit / 16));
  if (entries_.size() < limit) return true;
  nothing_to_evict_at_ = stack_.now();
  return false;
}

// Removes up to `count` entries, a sixteenth of the table at a time so that a flood of newcomers
// does not cost a search each. In this order: failed or unreachable; those that never answered us,
// which is what a flood of questions leaves behind, however busy they look; STALE. Within each the
// longest unused first. RFC 6583 §6.
void NeighborTable::Evict(size_t count) {
  using Key = std::tuple<int, Time, IpAddress>;
  std::vector<std::pair<Key, Entry*>> candidates;
  for (const auto& [address, entry] : entries_) {
    const NeighborState state = EffectiveState(*entry);
    int rank = -1;
    if (state == NeighborState::kFailed || entry->unreachable) {
      rank = 0;
    } else if (state == NeighborState::kIncomplete || state == NeighborState::kPermanent) {
      continue;
    } else if (entry->confirmed == Time()) {
      rank = 1;
    } else if (state == NeighborState::kStale) {
      rank = 2;
    }
    if (rank >= 0) candidates.push_back({{rank, entry->used, address}, entry.get()});
  }
  std::sort(candidates.begin(), candidates.end());
  if (candidates.size() > count) candidates.resize(count);
  for (const auto& [key, entry] : candidates) {
    stack_.mib().neighbor.evicted.Inc();
    Erase(*entry);
  }
}

// ---- Administration ----

absl::Status NeighborTable::AddPermanent(const IpAddress& address, const MacAddress& mac) {
  if (address.family() != family_ || address.IsUnspecified() || address.IsMulticast() ||
      address.IsLimitedBroadcast()) {
    return absl::InvalidArgumentError(
        absl::StrCat("neighbour ", address.ToString(), " dev ", device_.name(), ": not the ",
                     family_ == IpFamily::kV4 ? "IPv4" : "IPv6", " address of one host"));
  }
  if (!mac.IsUnicast()) {
    return absl::InvalidArgumentError(absl::StrCat("neighbour ", address.ToString(), " lladdr ",
                                                   mac.ToString(),
                                                   ": give the MAC address of one station"));
  }
  Entry* entry = Lookup(address);
  if (entry == nullptr) entry = Create(address, NeighborState::kStale);
  if (entry == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("neighbour ", address.ToString(), " dev ", device_.name(),
                     ": the table is full; raise neighbor_max_entries (",
                     stack_.config().neighbor_max_entries, ")"));
  }
  Learn(*entry, mac, NeighborState::kPermanent);
  return absl::OkStatus();
}

absl::Status NeighborTable::Remove(const IpAddress& address) {
  Entry* entry = Lookup(address);
  if (entry == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("neighbour ", address.ToString(), " dev ", device_.name(), ": no such entry"));
  }
  Erase(*entry);
  return absl::OkStatus();
}

void NeighborTable::Flush() {
  std::vector<Entry*> flushed;
  for (const auto& [address, entry] : entries_) {
    if (entry->state != NeighborState::kPermanent) flushed.push_back(entry.get());
  }
  for (Entry* entry : flushed) Erase(*entry);
}

// ---- Views ----

NeighborInfo NeighborTable::InfoOf(const Entry& entry) const {
  return {.address = entry.address,
          .mac = entry.mac,
          .state = EffectiveState(entry),
          .is_router = entry.is_router,
          .unreachable = entry.unreachable,
          .confirmed = entry.confirmed,
          .used = entry.used,
          .updated = entry.updated,
          .probes = entry.probes,
          .pending = entry.pending.size()};
}

std::optional<NeighborInfo> NeighborTable::Find(const IpAddress& address) const {
  const Entry* entry = Lookup(address);
  if (entry == nullptr) return std::nullopt;
  return InfoOf(*entry);
}

std::vector<NeighborInfo> NeighborTable::Snapshot() const {
  std::vector<NeighborInfo> rows;
  rows.reserve(entries_.size());
  for (const auto& [address, entry] : entries_) rows.push_back(InfoOf(*entry));
  std::sort(rows.begin(), rows.end(),
            [](const NeighborInfo& a, const NeighborInfo& b) { return a.address < b.address; });
  return rows;
}

}  // namespace tapwire
