// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/functional/any_invocable.h"

namespace tapwire {

// Where work goes that must not run in the middle of packet processing.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `work` on the owner thread in its next batch. The one call that any thread may make.
  virtual void Post(absl::AnyInvocable<void()> work) = 0;

  // Runs `work` at the end of the present batch, in the order of the calls. Owner thread only.
  virtual void Defer(absl::AnyInvocable<void()> work) = 0;
};

}  // namespace tapwire
