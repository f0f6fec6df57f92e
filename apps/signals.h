// SPDX-License-Identifier: Apache-2.0
// Signals as calls from the loop.
#pragma once

#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "uv.h"

namespace tapwire::apps {

// Handlers that do not keep the loop alive. One object at a time; `loop` must outlive it.
class Signals final {
 public:
  explicit Signals(uv_loop_t* loop);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Fails if the process is out of descriptors.
  absl::Status On(int signal_number, absl::AnyInvocable<void()> callback);
  // The first SIGINT or SIGTERM calls `callback`. The second ends the process with 130 at once,
  // whatever it is doing: the loop may be stuck in a write to a pipe that nobody reads.
  absl::Status OnInterrupt(absl::AnyInvocable<void()> callback);

 private:
  struct Handler;

  uv_loop_t* loop_;
  std::vector<Handler*> handlers_;  // each frees itself in its close callback
};

}  // namespace tapwire::apps
