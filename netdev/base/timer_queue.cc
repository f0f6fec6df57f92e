// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/timer_queue.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "netdev/base/check.h"

namespace tapwire {
namespace {

// Tells sentinels from timers; Arm() moves a real deadline of this value by one nanosecond.
constexpr int64_t kSentinelDeadline = std::numeric_limits<int64_t>::min();

int64_t Nanoseconds(Time time) { return time.time_since_epoch().count(); }

// Merges two chains linked by `next` that end in null. Of equal deadlines those of `a` come first.
internal::TimerLink* Merge(internal::TimerLink* a, internal::TimerLink* b) {
  internal::TimerLink* merged = nullptr;
  internal::TimerLink** end = &merged;
  while (a != nullptr && b != nullptr) {
    internal::TimerLink*& least = b->link_deadline < a->link_deadline ? b : a;
    *end = least;
    end = &least->link_next;
    least = least->link_next;
  }
  *end = a != nullptr ? a : b;
  return merged;
}

}  // namespace

void Timer::Detach() {
  internal::TimerLink* previous = TimerQueue::Prev(*this);
  if (!TimerQueue::IsMarked(*this) && previous != link_next) {
    // Neither the only timer of its slot nor the known minimum: the queue need not hear of it.
    previous->link_next = link_next;
    TimerQueue::SetPrev(*link_next, previous);
    return;
  }
  internal::TimerLink* sentinel = link_next;
  while (sentinel->link_deadline != kSentinelDeadline) {
    sentinel = sentinel->link_next;
  }
  static_cast<internal::TimerSlot*>(sentinel)->queue->Remove(*this);
}

void FunctionTimer::OnExpired() {
  // The function may destroy this object, and with it the member it would run from.
  bool destroyed = false;
  destroyed_ = &destroyed;
  absl::AnyInvocable<void()> function = std::move(function_);
  function();
  if (!destroyed) {
    destroyed_ = nullptr;
    function_ = std::move(function);
  }
}

TimerQueue::TimerQueue() {
  const auto initialize = [this](Slot& slot) {
    slot.link_next = &slot;
    SetPrev(slot, &slot);
    slot.link_deadline = kSentinelDeadline;
    slot.queue = this;
  };
  std::for_each(slots_.begin(), slots_.end(), initialize);
  initialize(expired_);
}

TimerQueue::~TimerQueue() {
  TW_DCHECK(!running_, "a timer callback destroyed its queue");
  for (auto index = FirstSlot(); index.has_value(); index = FirstSlot()) {
    Remove(*slots_[*index].link_next);
  }
}

void TimerQueue::Append(Slot& slot, Link& link) {
  Link* last = Prev(slot);
  last->link_next = &link;
  SetPrev(link, last);
  link.link_next = &slot;
  SetPrev(slot, &link);
}

void TimerQueue::Insert(Link& link) {
  // A deadline before the present tick is due now: it shares the slot of the present tick.
  const int64_t tick = std::max(link.link_deadline >> kTickShift, current_tick_);
  const auto difference = static_cast<uint64_t>(tick ^ current_tick_);
  const auto highest_bit = static_cast<unsigned>(std::bit_width(difference | 1)) - 1;
  const size_t level = highest_bit / kDigitBits;
  const auto digit = static_cast<size_t>(tick >> (level * kDigitBits)) & (kSlotsPerLevel - 1);
  Append(slots_[level * kSlotsPerLevel + digit], link);
  occupied_[level] |= uint64_t{1} << digit;
  occupied_levels_ |= 1U << level;
}

void TimerQueue::Remove(Link& link) {
  Link* previous = Prev(link);
  Link* following = link.link_next;
  if (IsMarked(link)) {
    minimum_ = nullptr;
  }
  previous->link_next = following;
  SetPrev(*following, previous);
  link.link_prev = 0;
  link.link_next = nullptr;
  if (previous == following) {
    OnSlotEmpty(static_cast<const Slot&>(*previous));
  }
}

void TimerQueue::OnSlotEmpty(const Slot& slot) {
  if (&slot == &expired_) {
    return;
  }
  const auto index = static_cast<size_t>(&slot - slots_.data());
  const size_t level = index / kSlotsPerLevel;
  occupied_[level] &= ~(uint64_t{1} << (index % kSlotsPerLevel));
  if (occupied_[level] == 0) {
    occupied_levels_ &= ~(1U << level);
  }
}

void TimerQueue::RememberMinimum(Link& link) const {
  if (minimum_ != nullptr) {
    minimum_->link_prev &= ~kMinimumMark;
  }
  minimum_ = &link;
  link.link_prev |= kMinimumMark;
}

void TimerQueue::Arm(Timer& timer, Time deadline) {
  if (timer.armed()) {
    Remove(timer);
  }
  Link& link = timer;
  link.link_deadline = std::max(Nanoseconds(deadline), kSentinelDeadline + 1);
  const bool only = occupied_levels_ == 0;
  Insert(link);
  if (only || (minimum_ != nullptr && link.link_deadline < minimum_->link_deadline)) {
    RememberMinimum(link);
  }
}

void TimerQueue::Cancel(Timer& timer) {
  if (timer.armed()) {
    Remove(timer);
  }
}

std::optional<size_t> TimerQueue::FirstSlot() const {
  if (occupied_levels_ == 0) {
    return std::nullopt;
  }
  const auto level = static_cast<size_t>(std::countr_zero(occupied_levels_));
  return level * kSlotsPerLevel + static_cast<size_t>(std::countr_zero(occupied_[level]));
}

// First tick of a slot: the present tick with the digit of the slot's level replaced and all lower
// digits zero.
int64_t TimerQueue::SlotStart(size_t index) const {
  const size_t shift = index / kSlotsPerLevel * kDigitBits;
  const int64_t higher_digits = current_tick_ >> (shift + kDigitBits) << kDigitBits;
  return (higher_digits | static_cast<int64_t>(index % kSlotsPerLevel)) << shift;
}

std::optional<Time> TimerQueue::next_deadline() const {
  std::optional<int64_t> least;
  if (minimum_ == nullptr && occupied_levels_ != 0) {
    const Slot& slot = slots_[*FirstSlot()];
    Link* earliest = slot.link_next;
    for (Link* link = earliest->link_next; link != &slot; link = link->link_next) {
      if (link->link_deadline < earliest->link_deadline) {
        earliest = link;
      }
    }
    RememberMinimum(*earliest);
  }
  if (minimum_ != nullptr) {
    least = minimum_->link_deadline;
  }
  if (!IsEmpty(expired_)) {  // asked by a callback: the rest of the batch is due already
    least = std::min(least.value_or(kInfiniteFuture.time_since_epoch().count()),
                     expired_.link_next->link_deadline);
  }
  return least.has_value() ? std::optional<Time>(Time(Duration(*least))) : std::nullopt;
}

// Bottom-up merge sort, stable: run i of `runs` holds 2^i timers or none.
void TimerQueue::SortByDeadline(Slot& slot) {
  bool sorted = true;
  for (const Link* link = slot.link_next; link->link_next != &slot && sorted;
       link = link->link_next) {
    sorted = link->link_deadline <= link->link_next->link_deadline;
  }
  if (sorted) {
    return;
  }
  std::array<Link*, 48> runs{};
  Prev(slot)->link_next = nullptr;
  for (Link* link = slot.link_next; link != nullptr;) {
    Link* run = std::exchange(link, link->link_next);
    run->link_next = nullptr;
    size_t i = 0;
    for (; runs[i] != nullptr; ++i) {
      run = Merge(std::exchange(runs[i], nullptr), run);
    }
    runs[i] = run;
  }
  Link* all = nullptr;
  for (Link* run : runs) {
    all = Merge(run, all);
  }
  Link* last = &slot;
  for (Link* link = all; link != nullptr; link = link->link_next) {
    last->link_next = link;
    SetPrev(*link, last);
    last = link;
  }
  last->link_next = &slot;
  SetPrev(slot, last);
}

void TimerQueue::CollectFromTick(Slot& slot, int64_t now) {
  SortByDeadline(slot);
  while (!IsEmpty(slot) && slot.link_next->link_deadline <= now) {
    Link& link = *slot.link_next;
    Remove(link);
    Append(expired_, link);
  }
}

// The wheel enters this slot: its timers now differ from the present tick in a lower digit only.
void TimerQueue::Cascade(Slot& slot) {
  Link* link = slot.link_next;
  Prev(slot)->link_next = nullptr;
  slot.link_next = &slot;
  SetPrev(slot, &slot);
  OnSlotEmpty(slot);
  while (link != nullptr) {
    Link* following = link->link_next;
    Insert(*link);
    link = following;
  }
}

void TimerQueue::CollectExpired(int64_t now) {
  const int64_t now_tick = std::max(now >> kTickShift, current_tick_);
  for (auto index = FirstSlot(); index.has_value(); index = FirstSlot()) {
    const int64_t start = SlotStart(*index);
    if (start > now_tick) {
      break;
    }
    current_tick_ = start;
    Slot& slot = slots_[*index];
    if (*index >= kSlotsPerLevel) {
      Cascade(slot);
      continue;
    }
    CollectFromTick(slot, now);
    if (!IsEmpty(slot)) {
      break;  // due later within the present tick
    }
  }
  current_tick_ = now_tick;
}

int TimerQueue::RunExpired(Time now) {
  if (running_) {
    return 0;
  }
  running_ = true;
  CollectExpired(Nanoseconds(now));
  int count = 0;
  while (!IsEmpty(expired_)) {
    auto& timer = static_cast<Timer&>(*expired_.link_next);
    Remove(timer);
    ++count;
    timer.OnExpired();
  }
  running_ = false;
  return count;
}

size_t TimerQueue::armed_count() const {
  size_t count = 0;
  const auto add = [&count](const Slot& slot) {
    for (const Link* link = slot.link_next; link != &slot; link = link->link_next) {
      ++count;
    }
  };
  std::for_each(slots_.begin(), slots_.end(), add);
  add(expired_);
  return count;
}

}  // namespace tapwire
