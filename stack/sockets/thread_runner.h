// SPDX-License-Identifier: Apache-2.0
//
// ThreadRunner: an epoll loop for one NetContext, for programs that have no loop of their own and
// for tests. Blocks without any wake-up while nothing is to be done.
//
//   auto runner = ThreadRunner::Create(&context);
//   (*runner)->Run();        // until Stop(), which any thread may call
#pragma once

#include <sys/epoll.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "netdev/base/counter.h"
#include "netdev/base/time.h"
#include "netdev/net_context.h"

namespace tapwire {

class ThreadRunner {
 public:
  // The context must outlive the runner. One runner per context.
  static absl::StatusOr<std::unique_ptr<ThreadRunner>> Create(netdev::NetContext* context);
  ~ThreadRunner();
  ThreadRunner(const ThreadRunner&) = delete;
  ThreadRunner& operator=(const ThreadRunner&) = delete;

  // Runs batches on the calling thread until Stop(). May be called again afterwards.
  void Run();
  // The same until `done` returns true, which is asked after each batch, or `limit` has passed.
  // Returns the last answer of `done`.
  bool RunUntil(absl::FunctionRef<bool()> done, Duration limit);
  void RunFor(Duration limit) {
    RunUntil([] { return false; }, limit);
  }
  // Ends Run() or RunUntil(), or the next one if none is running. Any thread.
  void Stop();

  // After each batch looks at the descriptors for up to `budget` before it blocks. Waking a thread
  // that sleeps on another CPU costs tens of microseconds, which a request that comes within the
  // budget does not pay; the price is a CPU that is busy for that long after each batch. A context
  // with nothing to do blocks after one budget as it does without. Zero, the default: blocks at
  // once; negative is zero. Between runs, or from a callback of the context.
  void SetBusyPoll(Duration budget) { busy_poll_ = std::max(budget, Duration::zero()); }

  struct Stats {
    Counter wakeups;           // returns from a wait that could block
    Counter spurious_wakeups;  // of these: nothing was ready and no timer due
    Counter busy_polls;        // looks at the descriptors within SetBusyPoll's budget
    Counter busy_poll_hits;    // of these: something was ready
  };
  const Stats& stats() const { return stats_; }

 private:
  struct Watch {
    netdev::PollFd poll_fd;
    uint32_t events;  // of epoll
    bool broken;      // reported an error: not watched until the device changes its list
  };

  ThreadRunner(netdev::NetContext* context, int epoll_fd, int wake_fd);
  bool Batch();
  std::optional<Time> NextBatch() const;
  void Wait(std::optional<Time> until);
  bool BusyPoll(std::optional<Time> until);
  int WaitForEvents(const timespec* timeout);
  void Dispatch(const epoll_event& event);
  void Sync();
  void DropVanished();
  void Unwatch(const Watch& watch);

  netdev::NetContext* context_;
  const int epoll_fd_;
  const int wake_fd_;  // eventfd: Post() and Stop()
  std::atomic<bool> stop_{false};
  bool more_ = false;  // the last batch left work behind
  Duration busy_poll_{};
  uint64_t seen_generation_ = 0;
  std::vector<Watch> watches_;
  Stats stats_;
};

}  // namespace tapwire
