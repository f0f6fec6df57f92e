// SPDX-License-Identifier: Apache-2.0
//
// UvRunner: runs a NetContext, with all its devices and stacks, on a libuv loop that the program
// owns.
//
//   auto runner = UvRunner::Attach(uv_default_loop(), &context);   // that is all an embedding
//   needs
//   (*runner)->Ref();                                              // if the loop is to live for it
//   uv_run(uv_default_loop(), UV_RUN_DEFAULT);
//
// How it sits in an iteration of the loop:
//
//   timers   the next deadline is due  ─┐
//   prepare  a batch, if API calls or timers left work, then the deadline is armed
//   poll     descriptors of devices schedule their poll contexts; Post() from other threads arrives
//   check    a batch, if there is anything to do
//
// While a batch leaves work behind (its budget was used up) the loop does not block, nor for a
// while after a batch if SetBusyPoll() asks for that. Otherwise it sleeps: there is no tick, and an
// idle context wakes it never.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "netdev/base/counter.h"
#include "netdev/base/time.h"
#include "netdev/net_context.h"

struct uv_loop_s;

namespace tapwire {

class UvRunner {
 public:
  // All calls on the loop's thread. `loop` and `context` must outlive the runner; a context has one
  // runner at a time, a loop may have many. Fails if the process is out of descriptors.
  //
  // Prepare handles of the program's own that were started before this call run after ours: what
  // they send waits for the next event.
  static absl::StatusOr<std::unique_ptr<UvRunner>> Attach(uv_loop_s* loop,
                                                          netdev::NetContext* context);
  // Detaches: no callback of the runner runs any more. Its handles close asynchronously, as libuv
  // wants it, so the loop has to turn once more (uv_run) before uv_loop_close(). May be called from
  // a callback of the context.
  ~UvRunner();
  UvRunner(const UvRunner&) = delete;
  UvRunner& operator=(const UvRunner&) = delete;

  // Whether the runner keeps uv_run() going. It does not at first. Idempotent.
  void Ref();
  void Unref();

  // After each batch keeps the loop turning without blocking for up to `budget`. Waking a thread
  // that sleeps on another CPU costs tens of microseconds, which a request that comes within the
  // budget does not pay; the price is a CPU that is busy for that long after each batch. The
  // program's other handles are served as ever, and an idle context lets the loop sleep after one
  // budget as it does without. Zero, the default: no such turns; negative is zero.
  void SetBusyPoll(Duration budget) { busy_poll_ = std::max(budget, Duration::zero()); }

  // What woke the loop for us.
  struct Stats {
    Counter batches;                 // calls of NetContext::RunOnce
    Counter io_wakeups;              // descriptors reported ready
    Counter post_wakeups;            // Post() from other threads
    Counter timer_wakeups;           // deadlines
    Counter spurious_timer_wakeups;  // of these: no timer was due
    Counter busy_turns;              // turns that do not block because of SetBusyPoll()
    uint64_t wakeups() const {
      return io_wakeups.value() + post_wakeups.value() + timer_wakeups.value();
    }
  };
  const Stats& stats() const { return stats_; }

 private:
  struct Handles;
  struct WatchedFd;

  explicit UvRunner(netdev::NetContext* context) : context_(context) {}
  void StartHandles();

  void RunBatch();
  void BeforeBlocking();
  bool BusyPolls();
  void KeepTurning(bool on);
  void ArmTimer();
  void CancelTimer();
  void ArmNear(Duration left);
  void DisarmNear();
  void SyncPolls();
  void DropVanished();
  void Watch(const netdev::PollFd& fd);
  void OnTimer();

  netdev::NetContext* const context_;
  Handles* handles_ = nullptr;       // freed by its own close callbacks
  std::vector<WatchedFd*> watched_;  // likewise
  uint64_t seen_generation_ = 0;
  std::optional<Time> armed_;  // the deadline that a timer stands for
  bool near_armed_ = false;    // … and it is the timerfd
  bool timer_fired_ = false;
  bool more_ = false;  // the last batch left work behind
  Duration busy_poll_{};
  std::optional<Time> busy_since_;  // end of the batch that busy polling follows
  Stats stats_;
};

}  // namespace tapwire
