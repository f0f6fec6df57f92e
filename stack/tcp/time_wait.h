// SPDX-License-Identifier: Apache-2.0
// TIME-WAIT (RFC 9293 §3.10.7.4, MUST-13) in compact entries: what must be remembered of a closed
// connection for 2 MSL, and the rules by which a new one may take its place (RFC 6191).
//
// The time is the same for all, so the entries are in order of their end in one list with one
// timer; the oldest goes when the budget is reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "netdev/base/intrusive_list.h"
#include "netdev/base/timer_queue.h"
#include "stack/flow_key.h"
#include "stack/route.h"
#include "stack/tcp/segment.h"
#include "stack/tcp/seq.h"

namespace tapwire::tcp {

class Tcp;

// What is remembered.
struct TimeWait {
  FlowKey flow;
  Seq snd_nxt, rcv_nxt;
  uint32_t ts_offset = 0;
  uint32_t ts_recent = 0;
  uint32_t zone = 0;    // interface, for link-local peers
  uint16_t window = 0;  // field of the last segment sent
  bool ts_ok = false;
  bool reuse = false;  // SO_REUSEADDR was set: another such socket may bind the port
};

struct TimeWaitEntry : TimeWait, ListHook<TimeWaitEntry> {
  Time deadline{};
};

class TimeWaitTable {
 public:
  TimeWaitTable(Tcp& tcp, FlowKeyHash hash);
  ~TimeWaitTable();

  // No effect if the tuple is there already, or the budget is 0.
  void Add(const TimeWait& facts);
  const TimeWaitEntry* Find(const FlowKey& flow) const;
  void Remove(const FlowKey& flow);
  size_t size() const { return entries_.size(); }
  // Whether `taken(entry)` is true for one of them; looks at each.
  bool Any(absl::FunctionRef<bool(const TimeWait&)> taken) const;

  // Whether an active open may use the tuple: timestamps tell its segments from old ones
  // (RFC 6191 §2 on our own side).
  bool MayReuseForConnect(const TimeWaitEntry& entry) const { return entry.ts_ok; }

  enum class Verdict : uint8_t {
    kHandled,  // answered or ignored; counted
    kReopen,   // a SYN that may open a new connection: the entry is gone; `min_isn` to stay above
  };
  // RFC 9293 §3.10.7.4 for TIME-WAIT, RFC 6191 §2 for a SYN.
  Verdict Input(Segment& segment, DropReason& reason, Seq& min_isn);

 private:
  struct Hash {
    using is_transparent = void;
    FlowKeyHash hash;
    size_t operator()(const FlowKey& flow) const { return hash(flow); }
    size_t operator()(const TimeWaitEntry* e) const { return hash(e->flow); }
  };
  struct Equal {
    using is_transparent = void;
    static const FlowKey& Key(const FlowKey& flow) { return flow; }
    static const FlowKey& Key(const TimeWaitEntry* e) { return e->flow; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Key(a) == Key(b);
    }
  };
  void OnTimer();
  void Erase(TimeWaitEntry& entry);
  void Restart(TimeWaitEntry& entry);
  static bool MayReopen(const TimeWaitEntry& entry, const Segment& syn);
  void SendAck(const TimeWaitEntry& entry);

  Tcp& tcp_;
  absl::flat_hash_set<TimeWaitEntry*, Hash, Equal> entries_;
  IntrusiveList<TimeWaitEntry, TimeWaitEntry> by_deadline_;
  FunctionTimer timer_;
};

}  // namespace tapwire::tcp
