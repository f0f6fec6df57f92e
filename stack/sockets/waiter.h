// SPDX-License-Identifier: Apache-2.0
// Waiter: how a SocketTable gets at its stack, and what "blocking" means. The table itself never
// blocks: it tries, and asks the waiter to try again when something has changed.
//
//   SimWaiter     sim_waiter.h     runs the simulation until ready; no threads, deterministic
//   ThreadWaiter  thread_waiter.h  the stack runs on a thread of its own; callers sleep
//
// A program with rules of its own (one lock around everything, a script's clock) derives another.
#pragma once

#include <optional>

#include "absl/functional/function_ref.h"
#include "netdev/base/time.h"

namespace tapwire {

class Waiter {
 public:
  virtual ~Waiter() = default;

  // Runs `call` with the stack to itself (on its thread, or where the caller is if that is the
  // same) and returns when it has run. False: the stack is not running any more, and `call` was
  // not run.
  virtual bool Run(absl::FunctionRef<void()> call) = 0;

  // Returns true as soon as `ready` does. It is asked at once, then after each Notify(), with the
  // stack to itself as in Run(). False: `deadline` (of the context's clock) has passed, or the
  // waiter gave up, since the stack is going away or nothing can ever happen any more. `ready`
  // stays the caller's, and is not called after the return. Calls may be nested (one made by what
  // runs while another waits) and, with a ThreadWaiter, come from many threads at once.
  virtual bool WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) = 0;

  // Told by the table, with the stack to itself, that what a `ready` looks at may have changed.
  // Must not call `ready` before it returns.
  virtual void Notify() = 0;
};

}  // namespace tapwire
