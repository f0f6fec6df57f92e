// SPDX-License-Identifier: Apache-2.0
// Neighbour table: IP address → MAC with the states of RFC 4861 §7.3, used by ARP (RFC 826) and
// Neighbor Discovery alike. One table per interface and family. What differs between the two
// protocols (how to ask, whom to tell about failure) is behind NeighborResolver.
//
//            packet                    answer
//   (none) ---------> INCOMPLETE ------------------> REACHABLE <---------------+
//                        | no answer (3 × 1 s)          | 15–45 s unconfirmed  | confirmed
//                        v                              v                      |
//                      FAILED                         STALE --packet--> DELAY --+
//                        | 1 s                                            | 5 s |
//                        v                                                v     |
//                      (none)                                           PROBE --+
//
// A PROBE without answer (3 unicast questions) is "unreachable" in the sense of RFC 7048: the MAC
// stays in use while everybody is asked at growing intervals, for as long as there is traffic.
//
// REACHABLE ages without a timer: the state is looked at when the entry is used, so a table of idle
// neighbours wakes nobody. Timers: one per entry in INCOMPLETE, DELAY, PROBE (next question) and
// FAILED (end of the hold time).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "netdev/base/drop_reason.h"
#include "netdev/base/intrusive_list.h"
#include "netdev/base/timer_queue.h"
#include "netdev/device.h"
#include "netdev/packet/packet_list.h"
#include "netdev/wire/ip_address.h"
#include "netdev/wire/mac_address.h"
#include "stack/ip.h"

namespace tapwire {

class Stack;

// kFailed keeps the negative answer for neighbor_failed_hold.
enum class NeighborState : uint8_t {
  kIncomplete,
  kReachable,
  kStale,
  kDelay,
  kProbe,
  kFailed,
  kPermanent,
};
absl::string_view NeighborStateName(NeighborState state);  // as `ip neigh`: "REACHABLE", …

// ARP or NDP as the table sees it.
class NeighborResolver {
 public:
  virtual ~NeighborResolver() = default;
  // Sends one solicitation for `target`: to everybody, or to `unicast_to` when probing. `source` is
  // the source address of the packet that caused it, used if it is one of the interface's.
  virtual void Solicit(const IpAddress& target, std::optional<MacAddress> unicast_to,
                       const IpAddress& source) = 0;
  // Resolution failed: `packet` (data() at its IP header) would have gone to `target`.
  virtual void ReportUnreachable(PacketPtr packet, const IpAddress& target) = 0;
};

struct NeighborInfo {  // a row of `ip -s neigh`
  IpAddress address;
  MacAddress mac;
  NeighborState state = NeighborState::kIncomplete;
  bool is_router = false;
  bool unreachable = false;       // kProbe beyond its unicast probes (RFC 7048)
  Time confirmed, used, updated;  // Time() is never
  int probes = 0;
  size_t pending = 0;
};

class NeighborTable {
 public:
  NeighborTable(Stack& stack, netdev::NetDevice& device, NeighborResolver& resolver,
                IpFamily family);
  ~NeighborTable();

  // Sends an IP packet (data() at the IP header, Ethernet headroom present) to `next_hop`: at once
  // when its MAC is known, else queued behind a resolution (kQueued). kNoRoute while a failed
  // resolution is held, kNoBuffer when the table has no room, kDeviceDown. `source` as in Solicit.
  netdev::TxResult Output(PacketPtr packet, const IpAddress& next_hop, const IpAddress& source);
  // Starts a resolution without a packet, unless the address is known or being asked for.
  void Resolve(const IpAddress& address, const IpAddress& source);

  // A solicitation or ARP request from `address` told us its MAC (RFC 4861 §7.2.3): an existing
  // entry with another MAC becomes STALE; a new one is made only if `create`.
  void OnSolicited(const IpAddress& address, const MacAddress& mac, bool create);
  struct Advertisement {
    IpAddress address;
    std::optional<MacAddress> mac;  // none: no link-layer option
    bool solicited = false, override = false, is_router = false;
  };
  // RFC 4861 §7.2.5 and Appendix C; never makes an entry. What became of it, kNone if used.
  DropReason OnAdvertisement(const Advertisement& advertisement);
  // Upper-layer forward progress (RFC 4861 §7.3.1).
  void Confirm(const IpAddress& address);
  // Negative advice (RFC 1122 §3.3.1.4): a transport gets no answers by way of `address`. An entry
  // that is believed good is probed at once; no effect on others.
  void Suspect(const IpAddress& address);

  // Permanent entries; they never change by what peers say. kInvalidArgument for another family, a
  // group or a MAC that is not of one station; kResourceExhausted.
  absl::Status AddPermanent(const IpAddress& address, const MacAddress& mac);
  absl::Status Remove(const IpAddress& address);  // kNotFound
  // Forgets everything but permanent entries (device down, MAC change); pending packets are
  // dropped.
  void Flush();

  std::optional<NeighborInfo> Find(const IpAddress& address) const;
  std::vector<NeighborInfo> Snapshot() const;  // ordered by address
  size_t size() const { return entries_.size(); }
  size_t incomplete() const { return incomplete_count_; }

 private:
  struct Entry;

  // neighbor.cc: the table and its bounds.
  Entry* Lookup(const IpAddress& address) const;
  Entry* Create(const IpAddress& address, NeighborState state);
  void Erase(Entry& entry);
  bool MakeRoom();
  bool MakeRoomForIncomplete();
  void Evict(size_t count);
  netdev::TxResult OutputNew(PacketPtr packet, const IpAddress& next_hop, const IpAddress& source);
  netdev::TxResult OutputSlow(PacketPtr packet, Entry& entry);
  netdev::TxResult Enqueue(Entry& entry, PacketPtr packet);
  netdev::TxResult Transmit(PacketPtr packet, const MacAddress& mac);
  NeighborInfo InfoOf(const Entry& entry) const;

  // neighbor_state.cc: the state machine.
  bool FreshlyReachable(const Entry& entry);
  NeighborState EffectiveState(const Entry& entry) const;
  Duration ReachableTime();
  void SetState(Entry& entry, NeighborState state);
  void Enter(Entry& entry, NeighborState state);
  void Learn(Entry& entry, const MacAddress& mac, NeighborState state);
  void SendPending(Entry& entry);
  bool MayLearn(const MacAddress& mac) const;
  void StartDelay(Entry& entry);
  void Solicit(Entry& entry, bool unicast);
  void OnTimer(Entry& entry);
  void OnIncompleteTimeout(Entry& entry);
  void OnProbeTimeout(Entry& entry);
  void Fail(Entry& entry);
  DropReason UpdateKnown(Entry& entry, const Advertisement& advertisement);

  Stack& stack_;
  netdev::NetDevice& device_;
  NeighborResolver& resolver_;
  const IpFamily family_;
  absl::flat_hash_map<IpAddress, std::unique_ptr<Entry>> entries_;
  IntrusiveList<Entry, NeighborTable> incomplete_;  // oldest first
  size_t incomplete_count_ = 0;
  Time nothing_to_evict_at_;   // a search for room has failed at this time
  Duration reachable_time_{};  // drawn from config.reachable_time_base
  Duration reachable_base_{};  // … when it had this value
  Time reachable_drawn_;
};

}  // namespace tapwire
