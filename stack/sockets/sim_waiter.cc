// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/sim_waiter.h"

#include <algorithm>
#include <utility>

namespace tapwire {
namespace {

// Frames in answer to frames, for ever, and calls from inside a batch, where nothing can be run.
constexpr int kMaxBatchesAtOneTime = 100'000;

}  // namespace

SimWaiter::SimWaiter(std::vector<netdev::NetContext*> contexts, Advance advance)
    : contexts_(std::move(contexts)), advance_(std::move(advance)) {}

void SimWaiter::Settle() {
  bool more = true;
  for (int batch = 0; more && batch < kMaxBatchesAtOneTime; ++batch) {
    more = false;
    for (netdev::NetContext* context : contexts_) more |= context->RunOnce();
    // One context may have given another one work.
    for (netdev::NetContext* context : contexts_) more |= context->has_pending_work();
  }
}

Time SimWaiter::Now() {
  Time now{};
  for (netdev::NetContext* context : contexts_) now = std::max(now, context->RefreshNow());
  return now;
}

std::optional<Time> SimWaiter::NextDeadline() const {
  std::optional<Time> next;
  for (netdev::NetContext* context : contexts_) {
    const std::optional<Time> its = context->next_deadline();
    if (its && (!next || *its < *next)) next = its;
  }
  return next;
}

bool SimWaiter::Run(absl::FunctionRef<void()> call) {
  (void)Now();
  call();
  if (settle_) Settle();
  return true;
}

bool SimWaiter::WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) {
  for (;;) {
    Settle();
    const Time now = Now();
    if (ready()) {
      if (settle_) Settle();
      return true;
    }
    Settle();  // what the attempt has sent
    if (deadline && now >= *deadline) return false;
    std::optional<Time> next = NextDeadline();
    if (deadline && (!next || *deadline < *next)) next = deadline;
    if (!advance_(next)) return false;
  }
}

}  // namespace tapwire
