// SPDX-License-Identifier: Apache-2.0
// ScriptWaiter: time and threads under the packetdrill program.
//
// Time is virtual and moves only here: by usleep() and the wait for a packet as far as they ask,
// stopping at every timer of the stack on the way, and by one microsecond per reading, since the
// program spins on its clock for the last bit of each wait.
//
// The program has two threads. The main one plays the script: packets, the clock, and calls that do
// not block. The other makes the calls that the script marks as blocking; they overlap with what
// the main thread does. One mutex is around everything. The rules between the two:
//
//   1. A call that has to wait sleeps on a condition variable, never spins: the program looks into
//      /proc whether its second thread is asleep before it plays on.
//   2. What a call waits for can only come about by something that another thread does here (a
//      packet goes in, time passes). That thread looks at all waits after each step, makes those
//      calls that can be made now, on behalf of the sleepers, and so knows the moment of virtual
//      time at which each one ended.
//   3. Time then stands still until the woken thread has left and has either gone to sleep
//      elsewhere (it is done, and waits for its next call) or holds us up for too long. It may
//      sleep for a lock of the program that the main thread holds right now; that looks the same,
//      and so cannot end in a deadlock.
//   4. In that case its next reading of the clock still is the moment at which its call ended: the
//      program reads the end of a call right after the return.
//   5. If the main thread itself has to wait nobody else moves time: it does so itself, from timer
//      to timer, until the call can be made or nothing can ever happen any more.
//   6. The same holds for the second thread while the main one is outside and waits for it: before
//      its next call, and when the script is over. That is looked for in /proc from time to time; a
//      main thread that sleeps for something else, as in a shell command, does not count.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>

#include "absl/functional/function_ref.h"
#include "apps/pkt/world.h"
#include "netdev/net_context.h"
#include "stack/sockets/waiter.h"

namespace tapwire::packetdrill {

class ScriptWaiter final : public Waiter {
 public:
  // The caller is the main thread. `clock` is the one that `context` reads.
  ScriptWaiter(netdev::NetContext& context, pkt::ScriptClock& clock);
  ~ScriptWaiter() override = default;
  ScriptWaiter(const ScriptWaiter&) = delete;
  ScriptWaiter& operator=(const ScriptWaiter&) = delete;

  bool Run(absl::FunctionRef<void()> call) override;
  bool WaitUntil(absl::FunctionRef<bool()> ready, std::optional<Time> deadline) override;
  void Notify() override { changed_ = true; }

  // Lets `duration` pass.
  void Sleep(Duration duration);
  // The time; each reading is later than the one before.
  Time ReadClock();
  // Moves time from event to event until `done`, which is asked with the stack to itself. False:
  // `limit` would have passed, or nothing is going to happen.
  bool PassTimeUntil(absl::FunctionRef<bool()> done, Duration limit);

  // Ends all calls that wait (they return false), and later ones at once.
  void Stop();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // A thread that has waited here.
  struct Caller {
    bool waking = false;         // its wait is over, but it has not left yet
    bool settled = true;         // rule 3 is done with
    std::optional<Time> end_at;  // rule 4
  };
  struct Wait {
    absl::FunctionRef<bool()> ready;
    std::optional<Time> deadline;
    Caller* caller = nullptr;  // null: the main thread
    bool done = false;
    bool result = false;
    std::condition_variable woken = {};
  };

  Lock Enter();
  // Between giving the lock up and holding it again.
  void Resume() { context_.DetachFromThread(); }
  bool IsMainThread() const;
  Caller& ThisCaller();
  void ForgetEnd();
  // Runs what is to be done at this time, the waits included.
  void Settle();
  // True: one has ended.
  bool CheckWaits();
  void Finish(Wait& wait, bool result);
  void SleepUntilDone(Lock& lock, Wait& wait);
  // Rules 5 and 6.
  void PassTimeFor(Lock& lock, const Wait& wait);
  bool IsAwaitedByMain() const;
  // Settle(), then rule 3. Gives the lock up meanwhile.
  void SettleAndWake(Lock& lock);
  void AwaitWoken(Lock& lock, pid_t tid, Caller& caller);
  // The next moment at which something happens by itself.
  std::optional<Time> NextEvent() const;
  // To the next event. False: it is beyond `limit`, there is none, or there is no end to them.
  bool AdvanceStep(Lock& lock, Time limit);
  void AdvanceTo(Lock& lock, Time time);

  netdev::NetContext& context_;
  pkt::ScriptClock& clock_;
  const pid_t main_tid_;

  std::mutex mutex_;  // guards the stack, the clock and what follows
  std::list<Wait*> waits_;
  std::map<pid_t, Caller> callers_;  // by thread id
  bool changed_ = false;
  bool stopped_ = false;
  int standing_steps_ = 0;   // events since the clock last moved
  uint64_t main_calls_ = 0;  // of the main thread, to see whether it does anything
};

}  // namespace tapwire::packetdrill
