// SPDX-License-Identifier: Apache-2.0
#include "apps/pkt/packetdrill/script_waiter.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tapwire::packetdrill {
namespace {

// Frames or timers without end at one moment: a fault of the stack that must not hang the program.
constexpr int kMostBatches = 100'000;
constexpr int kMostStandingSteps = 100'000;
// How long the main thread may wait for itself.
constexpr Duration kLongestWait = std::chrono::hours(24);
// Real time. A woken thread is gone within some 50 us; the limit only guards against a hang.
constexpr long kLookEveryNs = 20'000;
constexpr int kMostLooks = 25'000;
// Rule 6; the program gives up a call after a second.
constexpr std::chrono::milliseconds kLookAtMainEvery{10};
constexpr int kQuietLooks = 3;

bool ReadThreadFile(pid_t tid, absl::string_view name, std::string& text) {
  const std::string path = absl::StrCat("/proc/self/task/", tid, "/", name);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  text.resize(512);
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return size > 0;
}

// State letter of a thread of this process; 'X' if it is gone.
char ThreadState(pid_t tid) {
  std::string text;
  if (!ReadThreadFile(tid, "stat", text)) return 'X';
  // "tid (name) S …", and the name may hold anything.
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() ? text[name_end + 2] : 'X';
}

// Not sched_yield(): the main thread may have a real-time priority that the other has not.
void ShortRealPause() {
  const timespec pause = {0, kLookEveryNs};
  nanosleep(&pause, nullptr);
}

}  // namespace

ScriptWaiter::ScriptWaiter(netdev::NetContext& context, pkt::ScriptClock& clock)
    : context_(context), clock_(clock), main_tid_(gettid()) {}

ScriptWaiter::Lock ScriptWaiter::Enter() {
  Lock lock(mutex_);
  Resume();  // under the mutex any thread may be the stack's
  context_.RefreshNow();
  if (IsMainThread()) ++main_calls_;
  return lock;
}

bool ScriptWaiter::IsMainThread() const { return gettid() == main_tid_; }

ScriptWaiter::Caller& ScriptWaiter::ThisCaller() { return callers_[gettid()]; }

// A time that was not asked for is not that of the call that starts now.
void ScriptWaiter::ForgetEnd() {
  const auto caller = callers_.find(gettid());
  if (caller != callers_.end()) caller->second.end_at.reset();
}

// ---- Waits ----

bool ScriptWaiter::Run(absl::FunctionRef<void()> call) {
  Lock lock = Enter();
  if (stopped_) return false;
  ForgetEnd();
  call();
  SettleAndWake(lock);
  return true;
}

bool ScriptWaiter::WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) {
  Lock lock = Enter();
  if (stopped_) return false;
  Wait wait{ready, deadline, IsMainThread() ? nullptr : &ThisCaller()};
  const auto place = waits_.insert(waits_.end(), &wait);
  changed_ = true;  // so that it is looked at now
  SettleAndWake(lock);
  if (wait.caller != nullptr) {
    SleepUntilDone(lock, wait);
  } else if (PassTimeFor(lock, wait); !wait.done) {
    std::fprintf(
        stderr,
        "tapwire-packetdrill: a call that the script does not mark as blocking would never "
        "return\n");
  }
  waits_.erase(place);
  return wait.result;
}

void ScriptWaiter::SleepUntilDone(Lock& lock, Wait& wait) {
  int quiet_looks = 0;
  while (!wait.done) {
    const uint64_t calls = main_calls_;
    wait.woken.wait_for(lock, kLookAtMainEvery, [&wait] { return wait.done; });
    Resume();
    if (wait.done) break;
    quiet_looks = main_calls_ == calls && IsAwaitedByMain() ? quiet_looks + 1 : 0;
    if (quiet_looks >= kQuietLooks) PassTimeFor(lock, wait);
  }
  wait.caller->waking = false;
}

bool ScriptWaiter::IsAwaitedByMain() const {
  std::string text;
  if (!ReadThreadFile(main_tid_, "syscall", text)) return ThreadState(main_tid_) == 'S';
  int number = -1;
  return absl::SimpleAtoi(text.substr(0, text.find(' ')), &number) && number == SYS_futex;
}

void ScriptWaiter::PassTimeFor(Lock& lock, const Wait& wait) {
  const Time latest = clock_.Now() + kLongestWait;
  while (!wait.done && AdvanceStep(lock, latest)) {
  }
}

void ScriptWaiter::Finish(Wait& wait, bool result) {
  wait.done = true;
  wait.result = result;
  if (wait.caller == nullptr) return;
  wait.caller->waking = true;
  wait.caller->settled = false;
  wait.caller->end_at = clock_.Now();
  wait.woken.notify_one();
}

bool ScriptWaiter::CheckWaits() {
  changed_ = false;
  bool any = false;
  for (Wait* wait : waits_) {
    if (wait->done) continue;
    const bool ready = wait->ready();
    if (!ready && !(wait->deadline && clock_.Now() >= *wait->deadline)) continue;
    Finish(*wait, ready);
    any = true;
  }
  return any;
}

// ---- Time ----

void ScriptWaiter::Settle() {
  const auto due = [this] {
    return std::any_of(waits_.begin(), waits_.end(), [this](const Wait* wait) {
      return !wait->done && wait->deadline && clock_.Now() >= *wait->deadline;
    });
  };
  for (int i = 0; i < kMostBatches; ++i) {
    context_.RunOnce();
    if (context_.has_pending_work()) continue;
    // What a call does on behalf of a sleeper can be something to send.
    if (!(changed_ || due()) || !CheckWaits()) {
      if (!context_.has_pending_work()) return;
    }
  }
  std::fprintf(stderr, "tapwire-packetdrill: the stack has work without end at one moment\n");
}

void ScriptWaiter::SettleAndWake(Lock& lock) {
  Settle();
  for (auto& [tid, caller] : callers_) {
    if (!caller.settled && tid != gettid()) AwaitWoken(lock, tid, caller);
  }
}

void ScriptWaiter::AwaitWoken(Lock& lock, pid_t tid, Caller& caller) {
  for (int looks = 0; looks < kMostLooks && !caller.settled; ++looks) {
    const bool left = !caller.waking;
    lock.unlock();
    const char state = ThreadState(tid);
    const bool running = state == 'R' || state == 'D';
    if (!left || running) ShortRealPause();
    lock.lock();
    Resume();
    if (left && !running) break;
  }
  caller.settled = true;
}

std::optional<Time> ScriptWaiter::NextEvent() const {
  std::optional<Time> next = context_.next_deadline();
  for (const Wait* wait : waits_) {
    if (wait->done || !wait->deadline) continue;
    if (!next || *wait->deadline < *next) next = wait->deadline;
  }
  return next;
}

bool ScriptWaiter::AdvanceStep(Lock& lock, Time limit) {
  const std::optional<Time> next = NextEvent();
  if (!next || *next > limit) return false;
  if (*next > clock_.Now()) {
    clock_.Set(*next);
    standing_steps_ = 0;
  } else if (++standing_steps_ > kMostStandingSteps) {
    return false;
  }
  context_.RefreshNow();
  SettleAndWake(lock);
  return true;
}

void ScriptWaiter::AdvanceTo(Lock& lock, Time time) {
  SettleAndWake(lock);
  while (clock_.Now() < time && AdvanceStep(lock, time)) {
  }
  if (clock_.Now() < time) clock_.Set(time);
  context_.RefreshNow();
}

void ScriptWaiter::Sleep(Duration duration) {
  Lock lock = Enter();
  AdvanceTo(lock, clock_.Now() + std::max(duration, Duration{0}));
}

Time ScriptWaiter::ReadClock() {
  constexpr Duration kStep = std::chrono::microseconds(1);
  Lock lock = Enter();
  if (!IsMainThread()) {
    Caller& caller = ThisCaller();
    if (const std::optional<Time> end_at = std::exchange(caller.end_at, std::nullopt)) {
      return *end_at;
    }
  }
  AdvanceTo(lock, clock_.Now() + kStep);
  return clock_.Now();
}

bool ScriptWaiter::PassTimeUntil(absl::FunctionRef<bool()> done, Duration limit) {
  Lock lock = Enter();
  const Time latest = clock_.Now() + limit;
  SettleAndWake(lock);
  while (!done()) {
    if (!AdvanceStep(lock, latest)) return false;
  }
  return true;
}

void ScriptWaiter::Stop() {
  const Lock lock = Enter();
  stopped_ = true;
  for (Wait* wait : waits_) {
    if (!wait->done) Finish(*wait, false);
  }
}

}  // namespace tapwire::packetdrill
