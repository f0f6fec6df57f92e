// SPDX-License-Identifier: Apache-2.0
#include "stack/tcp/time_wait.h"

#include <algorithm>
#include <utility>

#include "stack/stack.h"
#include "stack/tcp/tcp.h"

namespace tapwire::tcp {

TimeWaitTable::TimeWaitTable(Tcp& tcp, FlowKeyHash hash)
    : tcp_(tcp), entries_(0, Hash{hash}), timer_([this] { OnTimer(); }) {}

TimeWaitTable::~TimeWaitTable() {
  while (TimeWaitEntry* entry = by_deadline_.front()) Erase(*entry);
}

void TimeWaitTable::Add(const TimeWait& facts) {
  const Config& config = tcp_.config();
  if (config.max_time_wait == 0) return;
  if (entries_.size() >= config.max_time_wait) {
    tcp_.stack().mib().tcp_ext.time_wait_overflow.Inc();
    Erase(*by_deadline_.front());
  }
  auto* entry = new TimeWaitEntry;
  static_cast<TimeWait&>(*entry) = facts;
  if (!entries_.insert(entry).second) {
    delete entry;
    return;
  }
  tcp_.UsePort(entry->flow.local_port);
  by_deadline_.PushBack(*entry);
  Restart(*entry);
}

const TimeWaitEntry* TimeWaitTable::Find(const FlowKey& flow) const {
  const auto it = entries_.find(flow);
  return it == entries_.end() ? nullptr : *it;
}

bool TimeWaitTable::Any(absl::FunctionRef<bool(const TimeWait&)> taken) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const TimeWaitEntry* entry) { return taken(*entry); });
}

void TimeWaitTable::Remove(const FlowKey& flow) {
  const auto it = entries_.find(flow);
  if (it != entries_.end()) Erase(**it);
}

void TimeWaitTable::Erase(TimeWaitEntry& entry) {
  tcp_.UnusePort(entry.flow.local_port);
  entries_.erase(&entry);
  delete &entry;  // leaves the list by itself
}

// The newest deadline is the latest, as long as the configured time does not change; if it was
// shortened, entries of before keep the old one and delay the others at most by that.
void TimeWaitTable::Restart(TimeWaitEntry& entry) {
  entry.deadline = tcp_.stack().now() + tcp_.config().time_wait;
  by_deadline_.PushBack(entry);
  if (!timer_.armed()) tcp_.stack().timers().Arm(timer_, by_deadline_.front()->deadline);
}

void TimeWaitTable::OnTimer() {
  const Time now = tcp_.stack().now();
  while (TimeWaitEntry* entry = by_deadline_.front()) {
    if (entry->deadline > now) {
      tcp_.stack().timers().Arm(timer_, entry->deadline);
      return;
    }
    Erase(*entry);
  }
}

// RFC 6191 §2: by timestamps where both have them, else by the sequence number; a peer that has
// them now and had not before is a new one.
bool TimeWaitTable::MayReopen(const TimeWaitEntry& entry, const Segment& syn) {
  const bool higher_isn = syn.seq > entry.rcv_nxt;
  if (!syn.options.timestamps) return higher_isn;
  if (!entry.ts_ok) return true;
  const auto newer = static_cast<int32_t>(syn.options.timestamps->tsval - entry.ts_recent);
  return newer > 0 || (newer == 0 && higher_isn);
}

TimeWaitTable::Verdict TimeWaitTable::Input(Segment& segment, DropReason& reason, Seq& min_isn) {
  const auto it = entries_.find(segment.flow);
  TimeWaitEntry& entry = **it;
  reason = DropReason::kTcpTimeWait;
  // RFC 1337: a reset must not cut the wait short.
  if (segment.flags.rst()) {
    if (tcp_.config().reset_ends_time_wait && segment.seq == entry.rcv_nxt) Erase(entry);
    return Verdict::kHandled;
  }
  if (segment.flags.syn() && !segment.flags.ack()) {
    if (MayReopen(entry, segment)) {
      min_isn = entry.snd_nxt;
      tcp_.stack().mib().tcp_ext.time_wait_recycled.Inc();
      Erase(entry);
      return Verdict::kReopen;
    }
    SendAck(entry);
    return Verdict::kHandled;
  }
  // "The only thing that can arrive in this state is a retransmission of the remote FIN": that one
  // restarts the wait (MUST-13). Old data and other strays are answered too, but do not.
  const bool retransmitted_fin = segment.flags.fin() && segment.end() == entry.rcv_nxt;
  if (retransmitted_fin) Restart(entry);
  if (segment.len() > 0 || segment.ack != entry.snd_nxt || segment.seq != entry.rcv_nxt)
    SendAck(entry);
  return Verdict::kHandled;
}

void TimeWaitTable::SendAck(const TimeWaitEntry& entry) {
  Stack& stack = tcp_.stack();
  absl::StatusOr<Route> route = stack.FindRoute(
      {.destination = entry.flow.remote, .source = entry.flow.local, .ifindex = entry.zone});
  if (!route.ok()) return;
  wire::TcpFields fields;
  fields.src_port = entry.flow.local_port;
  fields.dst_port = entry.flow.remote_port;
  fields.seq = entry.snd_nxt.value();
  fields.ack = entry.rcv_nxt.value();
  fields.flags = wire::TcpFlags::kAck;
  fields.window = entry.window;
  if (entry.ts_ok) {
    const auto ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(stack.now().time_since_epoch());
    fields.options.timestamps = {static_cast<uint32_t>(ms.count()) + entry.ts_offset,
                                 entry.ts_recent};
  }
  tcp_.SendBare(entry.flow, *route, fields);
}

}  // namespace tapwire::tcp
