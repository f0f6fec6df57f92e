// SPDX-License-Identifier: Apache-2.0
// ThreadWaiter: the stack runs on a thread of its own (a ThreadRunner); calls are handed to it with
// NetContext::Post, and callers sleep on a condition variable. Any number of threads may call.
//
//   netdev::NetContext context(system.environment());
//   Stack stack(context);                                // and its interfaces, addresses, routes
//   auto waiter = ThreadWaiter::Start(context);          // the context is the thread's from here
//   on SocketTable sockets(stack, **waiter);                // any thread: sockets.Connect(…)
//   (*waiter)->Stop();                                   // the context is the caller's again
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"
#include "netdev/base/timer_queue.h"
#include "netdev/net_context.h"
#include "stack/sockets/thread_runner.h"
#include "stack/sockets/waiter.h"

namespace tapwire {

class ThreadWaiter final : public Waiter {
 public:
  // Starts the thread that runs `context`, which outlives the waiter and must not be touched by
  // other threads until Stop(), but for Post().
  static absl::StatusOr<std::unique_ptr<ThreadWaiter>> Start(netdev::NetContext& context);
  ~ThreadWaiter() override;

  // Ends the thread and every call that is waiting (WaitUntil returns false); later ones return
  // false at once. Idempotent. Not to be called from the stack's thread.
  void Stop();

  bool Run(absl::FunctionRef<void()> call) override;
  // On the stack's own thread it cannot wait: the answer is that of one look.
  bool WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) override;
  void Notify() override;

 private:
  struct Call;
  struct Wait;

  ThreadWaiter(netdev::NetContext& context, std::unique_ptr<ThreadRunner> runner);
  bool OnStackThread() const { return std::this_thread::get_id() == thread_id_; }
  bool Submit(Call& call);
  void Finish(Call& call, bool result);
  // On the stack's thread.
  void RunCalls();
  void CheckWaits();
  void StartWait(Call& call);

  netdev::NetContext& context_;
  std::unique_ptr<ThreadRunner> runner_;

  std::mutex mutex_;  // guards calls_, posted_, stopped_, and each Call's result
  std::deque<Call*> calls_;
  bool posted_ = false;
  bool stopped_ = false;

  // Of the stack's thread.
  std::list<std::unique_ptr<Wait>> waits_;
  bool check_deferred_ = false;

  std::thread thread_;
  std::thread::id thread_id_;
};

}  // namespace tapwire
