// SPDX-License-Identifier: Apache-2.0
// NetContext: everything one thread needs to run devices and stacks: cached clock, random source,
// timers, posted and deferred work, slab pool, poll list, backlog and the device registry.
//
// The host program drives it with three calls: RunOnce(), next_deadline(), CollectPollFds(); see
// stack/sockets/uv/uv_runner.h for libuv. There is no global state: many contexts may exist in a
// process, each used by one thread only. Post() is the only member that other threads may call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "netdev/base/counter.h"
#include "netdev/base/environment.h"
#include "netdev/base/executor.h"
#include "netdev/base/intrusive_list.h"
#include "netdev/base/time.h"
#include "netdev/base/timer_queue.h"
#include "netdev/packet/packet_list.h"
#include "netdev/packet/slab_pool.h"

namespace tapwire::netdev {

class NetDevice;
class PollContext;
class Registry;

// Something that wants to run once at the end of the current batch, after timers and user events:
// a stack's output, a device's transmit queue. Unlinks itself on destruction.
class FlushHook : public ListHook<FlushHook> {
 public:
  virtual ~FlushHook() = default;
  virtual void Flush() = 0;
};

// A file descriptor the host's loop must watch; when it is ready the host calls `poll->Schedule()`.
struct PollFd {
  int fd = -1;
  PollContext* poll = nullptr;  // owned by the device
  bool want_write = false;      // watch for "writable" too: a TAP says so when its link comes back
};

class NetContext final : public Executor {
 public:
  struct Options {
    SlabPool::Options pool{};
    size_t backlog_limit_packets = 1000;  // as net.core.netdev_max_backlog
    size_t deferred_limit = 1u << 20;     // Defer() beyond it is refused and counted
    int poll_budget_packets = 64;         // per poll context and round, as NAPI's weight
  };

  // `environment` members must outlive the context.
  explicit NetContext(Environment environment);
  NetContext(Environment environment, Options options);
  ~NetContext() override;
  NetContext(const NetContext&) = delete;
  NetContext& operator=(const NetContext&) = delete;

  // The time read at the start of the current (or last) RunOnce, or by the last RefreshNow().
  Time now() const { return now_; }
  // Lets the next call come from another thread, before a runner thread takes over.
  void DetachFromThread() { pool_.DetachFromThread(); }

  // Reads the clock again. For runners and for API calls made from outside a batch.
  Time RefreshNow();
  Random& random() { return *environment_.random; }
  SlabPool& pool() { return pool_; }
  TimerQueue& timers() { return timers_; }
  Registry& registry() { return *registry_; }

  // Runs `fn` on the owner thread in the next batch. Any thread; wakes the host's loop if that may
  // be asleep and has not been woken for an earlier call.
  void Post(absl::AnyInvocable<void()> fn) override;
  // Runs `fn` after protocol input and timers of this batch: the place of all user callbacks.
  // Beyond Options::deferred_limit `fn` is destroyed uncalled and counted.
  void Defer(absl::AnyInvocable<void()> fn) override;
  // Runs hook.Flush() once at the end of this batch (idempotent until it ran).
  void ScheduleFlush(FlushHook& hook);

  // Hands a frame to `device`'s receive core in the next receive round (veth, loopback, local
  // delivery between upper devices), as arriving now. Over the limit: dropped, counted at the
  // device, and false.
  bool EnqueueBacklog(PacketPtr packet, NetDevice& device);

  // One batch: posted work, receive rounds (poll contexts and backlog), timers due, deferred user
  // events, one flush; repeated while the backlog is not empty, up to 64 rounds or `budget`
  // packets. Devices unregistered meanwhile are destroyed at its end. Returns whether work is left,
  // in which case the host must call again soon. A call from inside a batch does nothing.
  bool RunOnce(int budget = 256);
  // When RunOnce must run next: now() if work is pending, the first timer otherwise; nullopt =
  // never.
  std::optional<Time> next_deadline() const;
  bool has_pending_work() const;

  // Descriptors to watch now. The list changes only when poll_fds_generation() does.
  std::vector<PollFd> CollectPollFds() const;
  uint64_t poll_fds_generation() const { return poll_fds_generation_; }
  // Devices call this when their descriptors change (open, stop, removal).
  void PollFdsChanged() {
    ++poll_fds_generation_;
    if (poll_fds_listener_) poll_fds_listener_();
  }
  // `listener` runs inside each PollFdsChanged(), so that a host can stop watching a descriptor
  // before its device closes it. It must not change devices. One at a time; null removes it.
  void SetPollFdsListener(absl::AnyInvocable<void()> listener) {
    poll_fds_listener_ = std::move(listener);
  }

  // `wakeup` is called, from any thread, when Post() found the context possibly asleep. It must not
  // call into the context. Null takes it back; after the return no call is under way.
  void SetWakeup(absl::AnyInvocable<void()> wakeup);

  struct Stats {
    Counter rounds;            // of RunOnce; an idle one counts one
    Counter polls;             // calls of PollContext::Poll
    Counter backlog_dropped;   // also counted at the device
    Counter deferred_dropped;  // callbacks refused by Defer
    Counter timers_fired;
    Counter posted;        // callbacks run
    Counter rx_processed;  // rounds of the receive core: one for each device a frame reaches
    Counter rx_no_device;  // frames whose device was unregistered while they were queued
    Counter taps_missed;   // sent frames that taps could not be shown for want of memory
  };
  const Stats& stats() const { return stats_; }

 private:
  friend class PollContext;

  friend class RxPath;
  friend class TxPath;

  void RunRound(int& budget);
  int PollDevices(int budget);
  int DrainBacklog(int budget);
  void RunPosted();
  void RunDeferred();
  void RunWork();
  void RunFlush();
  // What one more round of the batch would work on.
  bool has_round_work() const;

  Environment environment_;
  Options options_;
  Time now_;
  SlabPool pool_;
  TimerQueue timers_;
  std::unique_ptr<Registry> registry_;
  IntrusiveList<PollContext, PollContext> poll_list_;
  IntrusiveList<FlushHook, FlushHook> flush_list_;
  PacketList backlog_;
  PacketList rx_batch_;
  std::vector<absl::AnyInvocable<void()>> deferred_;
  std::vector<absl::AnyInvocable<void()>> running_work_;  // keeps its memory between batches
  bool running_ = false;                                  // inside RunOnce
  int transmit_depth_ = 0;  // of queue-less devices transmitting into each other
  uint64_t poll_fds_generation_ = 1;
  absl::AnyInvocable<void()> poll_fds_listener_;
  Stats stats_;

  std::atomic<bool> posted_pending_{false};
  std::atomic<bool> awake_{false};  // RunOnce will look at posted_pending_ before it returns
  std::mutex post_mutex_;           // guards posted_ and wakeup_
  std::vector<absl::AnyInvocable<void()>> posted_;
  absl::AnyInvocable<void()> wakeup_;
};

}  // namespace tapwire::netdev
