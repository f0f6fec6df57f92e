// SPDX-License-Identifier: Apache-2.0
#include "stack/sockets/thread_waiter.h"

#include <utility>

#include "netdev/base/status_util.h"

namespace tapwire {

// One caller's call, on its own stack, until it is done.
struct ThreadWaiter::Call {
  // One of the two.
  const absl::FunctionRef<void()>* run = nullptr;
  const absl::FunctionRef<bool()>* ready = nullptr;
  std::optional<Time> deadline;
  bool done = false;
  bool result = false;
  std::condition_variable woken;
};

// A call that was not ready at first.
struct ThreadWaiter::Wait {
  explicit Wait(Call& c) : call(c) {}
  Call& call;
  std::unique_ptr<FunctionTimer> timer;
};

absl::StatusOr<std::unique_ptr<ThreadWaiter>> ThreadWaiter::Start(netdev::NetContext& context) {
  TW_ASSIGN_OR_RETURN(std::unique_ptr<ThreadRunner> runner, ThreadRunner::Create(&context));
  std::unique_ptr<ThreadWaiter> waiter(new ThreadWaiter(context, std::move(runner)));
  context.DetachFromThread();
  waiter->thread_ = std::thread([w = waiter.get()] {
    w->runner_->Run();
    w->context_.DetachFromThread();
  });
  waiter->thread_id_ = waiter->thread_.get_id();
  return waiter;
}

ThreadWaiter::ThreadWaiter(netdev::NetContext& context, std::unique_ptr<ThreadRunner> runner)
    : context_(context), runner_(std::move(runner)) {}

ThreadWaiter::~ThreadWaiter() { Stop(); }

void ThreadWaiter::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(stopped_, true)) return;
  }
  runner_->Stop();
  thread_.join();
  // Nobody runs the stack now: those who wait are told so.
  std::list<std::unique_ptr<Wait>> waits = std::exchange(waits_, {});
  for (const std::unique_ptr<Wait>& wait : waits) Finish(wait->call, false);
  waits.clear();
  std::deque<Call*> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(calls_);
  }
  for (Call* call : calls) Finish(*call, false);
  runner_.reset();
}

// Wakes the caller; the call is void afterwards.
void ThreadWaiter::Finish(Call& call, bool result) {
  // Notified under the lock: the caller destroys the condition variable as soon as it sees `done`.
  const std::lock_guard<std::mutex> lock(mutex_);
  call.result = result;
  call.done = true;
  call.woken.notify_one();
}

bool ThreadWaiter::Submit(Call& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (stopped_) return false;
  calls_.push_back(&call);
  if (!std::exchange(posted_, true)) {
    context_.Post([this] { RunCalls(); });
  }
  call.woken.wait(lock, [&call] { return call.done; });
  return call.result;
}

bool ThreadWaiter::Run(absl::FunctionRef<void()> call) {
  if (OnStackThread()) {
    call();
    return true;
  }
  Call submitted;
  submitted.run = &call;
  return Submit(submitted);
}

bool ThreadWaiter::WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) {
  if (OnStackThread()) return ready();
  Call submitted;
  submitted.ready = &ready;
  submitted.deadline = deadline;
  return Submit(submitted);
}

void ThreadWaiter::RunCalls() {
  std::deque<Call*> calls;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls.swap(calls_);
    posted_ = false;
  }
  for (Call* call : calls) {
    if (call->run != nullptr) {
      (*call->run)();
      Finish(*call, true);
    } else {
      StartWait(*call);
    }
  }
}

void ThreadWaiter::StartWait(Call& call) {
  if ((*call.ready)()) return Finish(call, true);
  const auto place = waits_.insert(waits_.end(), std::make_unique<Wait>(call));
  if (!call.deadline) return;
  (*place)->timer = std::make_unique<FunctionTimer>([this, place] {
    const std::unique_ptr<Wait> over = std::move(*place);
    waits_.erase(place);
    Finish(over->call, false);
  });
  context_.timers().Arm(*(*place)->timer, *call.deadline);
}

void ThreadWaiter::Notify() {
  if (waits_.empty() || std::exchange(check_deferred_, true)) return;
  context_.Defer([this] { CheckWaits(); });
}

void ThreadWaiter::CheckWaits() {
  check_deferred_ = false;
  for (auto it = waits_.begin(); it != waits_.end();) {
    Wait& wait = **it;
    if ((*wait.call.ready)()) {
      Finish(wait.call, true);
      it = waits_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace tapwire
