// SPDX-License-Identifier: Apache-2.0
//
// Timers of one thread: a hierarchical wheel of slots whose placement follows the highest 6-bit
// digit in which the deadline differs from the wheel's present tick.
//
//   level 0: 64 slots of 2^13 ns      the ticks that share all digits but the last with the present
//   level 1: 64 slots of 2^19 ns      …
//   level 8: up to the end of Time    so no deadline is "beyond the wheel"
//
// From the placement follow all properties: everything on level n is due before anything on level
// n+1, within a level slots are due in index order, and the earliest deadline is the minimum of the
// first non-empty slot. A slot is moved down (cascaded) when RunExpired() enters it, never by a
// wake-up of its own. A clock that jumps ahead visits each armed timer, not each tick.
//
// Thread-compatible; everything happens on the owner's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "netdev/base/time.h"

namespace tapwire {

class TimerQueue;

namespace internal {

// Links and deadline of a timer, or the sentinel of a slot's ring. (The prefix keeps the names out
// of the way of classes that derive from Timer.)
struct TimerLink {
  // The lowest bit marks the timer whose deadline the queue has cached as its minimum.
  uintptr_t link_prev = 0;
  TimerLink* link_next = nullptr;
  int64_t link_deadline = 0;  // ns; kSentinelDeadline in a sentinel
};

// Ring of the timers of a slot, oldest first.
struct TimerSlot : TimerLink {
  TimerQueue* queue = nullptr;
};

}  // namespace internal

// Base of everything that can be due. Derive and keep as a member or base; 32 bytes. Being
// destroyed while armed cancels the timer. Must not be armed on two queues at once.
class Timer : private internal::TimerLink {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  virtual ~Timer() {
    if (armed()) {
      Detach();
    }
  }

  bool armed() const { return link_next != nullptr; }

  // Meaningful while armed.
  Time deadline() const { return Time(Duration(link_deadline)); }

 protected:
  // Called once per Arm(), no earlier than the deadline, by TimerQueue::RunExpired(). The timer is
  // not armed any more. May arm, cancel and destroy any timer, this one included.
  virtual void OnExpired() = 0;

 private:
  friend class TimerQueue;

  // Leaves the queue without knowing which it is.
  void Detach();
};

static_assert(sizeof(Timer) <= 32);

// Timer that calls a function; for places where a derived class would be noise.
class FunctionTimer : public Timer {
 public:
  explicit FunctionTimer(absl::AnyInvocable<void()> function) : function_(std::move(function)) {}
  ~FunctionTimer() override {
    if (destroyed_ != nullptr) {
      *destroyed_ = true;
    }
  }

 private:
  void OnExpired() override;

  absl::AnyInvocable<void()> function_;
  bool* destroyed_ = nullptr;  // set while function_ runs, which may destroy this object
};

class TimerQueue {
 public:
  TimerQueue();
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;
  // Timers still armed are cancelled.
  ~TimerQueue();

  // Arms `timer` for `deadline`, which may be past (due at the next RunExpired) or kInfiniteFuture.
  // A timer that is armed is moved, and then counts as armed last among equal deadlines.
  void Arm(Timer& timer, Time deadline);

  // No effect on a timer that is not armed.
  void Cancel(Timer& timer);

  // The exact earliest deadline of all armed timers; nullopt if there is none. Cached: costs a walk
  // over the first non-empty slot only after the earliest timer went away.
  std::optional<Time> next_deadline() const;

  // Runs the timers with deadline <= now, by deadline and, among equals, in the order in which they
  // were armed. Timers armed by the callbacks wait for the next call, even if they are due already,
  // so that a timer which re-arms itself in the past cannot keep the caller here. `now` must not go
  // back. Returns the number of callbacks run. A call from inside a callback does nothing.
  int RunExpired(Time now);

  // Walks all timers: for statistics and tests.
  size_t armed_count() const;

 private:
  friend class Timer;

  using Link = internal::TimerLink;
  using Slot = internal::TimerSlot;

  static constexpr int kTickShift = 13;
  static constexpr int kDigitBits = 6;
  static constexpr size_t kSlotsPerLevel = size_t{1} << kDigitBits;
  static constexpr size_t kLevels = 9;  // 13 + 9 * 6 >= 63 bits
  static constexpr size_t kWheelSlots = kLevels * kSlotsPerLevel;
  static constexpr uintptr_t kMinimumMark = 1;

  static Link* Prev(const Link& link) {
    return reinterpret_cast<Link*>(link.link_prev & ~kMinimumMark);
  }
  static void SetPrev(Link& link, Link* prev) {
    link.link_prev = reinterpret_cast<uintptr_t>(prev) | (link.link_prev & kMinimumMark);
  }
  static bool IsMarked(const Link& link) { return (link.link_prev & kMinimumMark) != 0; }
  static bool IsEmpty(const Slot& slot) { return slot.link_next == &slot; }
  static void Append(Slot& slot, Link& link);
  static void SortByDeadline(Slot& slot);

  void Insert(Link& link);
  void Remove(Link& link);
  void OnSlotEmpty(const Slot& slot);
  void RememberMinimum(Link& link) const;
  std::optional<size_t> FirstSlot() const;
  int64_t SlotStart(size_t index) const;
  void Cascade(Slot& slot);
  void CollectExpired(int64_t now);
  void CollectFromTick(Slot& slot, int64_t now);

  std::array<Slot, kWheelSlots> slots_;
  std::array<uint64_t, kLevels> occupied_{};  // one bit per non-empty slot
  uint32_t occupied_levels_ = 0;              // one bit per non-zero word of occupied_
  int64_t current_tick_ = 0;
  Slot expired_;                     // due, in order, not yet called back
  mutable Link* minimum_ = nullptr;  // the marked timer, if the minimum is known
  bool running_ = false;
};

}  // namespace tapwire
