// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/timer_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "netdev/base/seeded_random.h"

namespace tapwire {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

Time At(Duration since_zero) { return Time(since_zero); }

// Writes its id into a shared log when it fires, then does what the test wants.
class LoggingTimer : public Timer {
 public:
  LoggingTimer(std::vector<int>& log, int id) : log_(log), id_(id) {}

  std::function<void()> then;

 private:
  void OnExpired() override {
    log_.push_back(id_);
    if (then) {
      std::function<void()> action = then;  // `then` goes if the action destroys this timer
      action();
    }
  }

  std::vector<int>& log_;
  int id_;
};

class TimerQueueTest : public ::testing::Test {
 protected:
  ~TimerQueueTest() override { EXPECT_EQ(queue_.armed_count(), armed_at_end_); }

  std::unique_ptr<LoggingTimer> Make(int id) { return std::make_unique<LoggingTimer>(log_, id); }

  std::vector<int> log_;
  TimerQueue queue_;
  size_t armed_at_end_ = 0;
};

TEST_F(TimerQueueTest, EmptyQueueHasNoDeadline) {
  EXPECT_EQ(queue_.next_deadline(), std::nullopt);
  EXPECT_EQ(queue_.RunExpired(At(hours(1))), 0);
}

TEST_F(TimerQueueTest, NeverFiresBeforeItsDeadline) {
  // Both deadlines lie in one tick of 8,192 ns; the wheel must still tell them apart.
  auto early = Make(1), late = Make(2);
  queue_.Arm(*late, Time(Duration(16390)));
  queue_.Arm(*early, Time(Duration(16385)));
  EXPECT_EQ(queue_.RunExpired(Time(Duration(16384))), 0);
  EXPECT_EQ(queue_.RunExpired(Time(Duration(16385))), 1);
  EXPECT_EQ(queue_.next_deadline(), Time(Duration(16390)));
  EXPECT_EQ(queue_.RunExpired(Time(Duration(16389))), 0);
  EXPECT_EQ(queue_.RunExpired(Time(Duration(16390))), 1);
  EXPECT_EQ(log_, (std::vector<int>{1, 2}));
}

TEST_F(TimerQueueTest, EqualDeadlinesFireInTheOrderOfArming) {
  std::vector<std::unique_ptr<LoggingTimer>> timers;
  for (int i = 0; i < 10; ++i) {
    timers.push_back(Make(i));
    queue_.Arm(*timers.back(), At(milliseconds(5)));
  }
  queue_.Arm(*timers[3], At(milliseconds(5)));  // moves behind the others
  queue_.RunExpired(At(milliseconds(5)));
  EXPECT_EQ(log_, (std::vector<int>{0, 1, 2, 4, 5, 6, 7, 8, 9, 3}));
}

TEST_F(TimerQueueTest, EqualDeadlinesKeepTheirOrderAcrossLevels) {
  // The first is armed while the deadline is levels away, the second when it is near.
  auto first = Make(1), second = Make(2), third = Make(3);
  const Time deadline = At(seconds(100));
  queue_.Arm(*first, deadline);
  queue_.RunExpired(At(seconds(90)));
  queue_.Arm(*second, deadline);
  queue_.RunExpired(deadline - microseconds(1));
  queue_.Arm(*third, deadline);
  EXPECT_EQ(queue_.RunExpired(deadline), 3);
  EXPECT_EQ(log_, (std::vector<int>{1, 2, 3}));
}

TEST_F(TimerQueueTest, ManyDeadlinesWithinOneTickFireSorted) {
  SeededRandom random(7);
  std::vector<std::unique_ptr<LoggingTimer>> timers;
  std::vector<std::pair<int64_t, int>> expected;
  for (int i = 0; i < 500; ++i) {
    timers.push_back(Make(i));
    const int64_t ns = 8192 * 1000 + static_cast<int64_t>(random.Uniform(97));
    queue_.Arm(*timers.back(), Time(Duration(ns)));
    expected.emplace_back(ns, i);
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  EXPECT_EQ(queue_.next_deadline(), Time(Duration(expected.front().first)));
  queue_.RunExpired(At(seconds(1)));
  ASSERT_EQ(log_.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(log_[i], expected[i].second);
  }
}

// Covers: bug:B109
TEST_F(TimerQueueTest, ClockJumpFiresEachDueTimerOnceInOrder) {
  SeededRandom random(3);
  std::vector<std::unique_ptr<LoggingTimer>> timers;
  std::vector<std::pair<Time, int>> due;
  const Time start = At(hours(24 * 20));
  const Time target = start + hours(8);
  queue_.RunExpired(start);
  for (int i = 0; i < 2000; ++i) {
    timers.push_back(Make(i));
    const Time deadline = start + milliseconds(random.Uniform(10 * 3600 * 1000));
    queue_.Arm(*timers.back(), deadline);
    if (deadline <= target) {
      due.emplace_back(deadline, i);
    }
  }
  std::stable_sort(due.begin(), due.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  EXPECT_EQ(queue_.RunExpired(target), static_cast<int>(due.size()));
  ASSERT_EQ(log_.size(), due.size());
  for (size_t i = 0; i < due.size(); ++i) {
    ASSERT_EQ(log_[i], due[i].second) << "at " << i;
  }
  EXPECT_EQ(queue_.RunExpired(target), 0);
  EXPECT_EQ(queue_.armed_count(), timers.size() - due.size());
}

// Covers: bug:B109
TEST_F(TimerQueueTest, PeriodicTimerFiresOncePerRunAfterAClockJump) {
  auto timer = Make(1);
  timer->then = [&] { queue_.Arm(*timer, timer->deadline() + milliseconds(10)); };
  queue_.Arm(*timer, At(milliseconds(10)));
  EXPECT_EQ(queue_.RunExpired(At(hours(8))), 1);
  EXPECT_EQ(queue_.next_deadline(), At(milliseconds(20)));  // overdue, and said so
  EXPECT_EQ(queue_.RunExpired(At(hours(8))), 1);
  queue_.Cancel(*timer);
}

// Covers: bug:B109
TEST_F(TimerQueueTest, MillisecondWrapIsNoBoundary) {
  const Time wrap = At(milliseconds(int64_t{1} << 32));
  auto before = Make(1), after = Make(2);
  queue_.RunExpired(wrap - seconds(1));
  queue_.Arm(*after, wrap + milliseconds(1));
  queue_.Arm(*before, wrap - milliseconds(1));
  EXPECT_EQ(queue_.RunExpired(wrap), 1);
  EXPECT_EQ(queue_.RunExpired(wrap + milliseconds(1)), 1);
  EXPECT_EQ(log_, (std::vector<int>{1, 2}));
}

TEST_F(TimerQueueTest, ExtremeDeadlinesAreExact) {
  auto never = Make(1), past = Make(2), far = Make(3);
  queue_.RunExpired(At(hours(1)));
  queue_.Arm(*never, kInfiniteFuture);
  EXPECT_EQ(queue_.next_deadline(), kInfiniteFuture);
  const Time far_deadline = kInfiniteFuture - Duration(1);
  queue_.Arm(*far, far_deadline);
  EXPECT_EQ(queue_.next_deadline(), far_deadline);
  queue_.Arm(*past, Time::min());
  EXPECT_LT(*queue_.next_deadline(), Time());
  EXPECT_EQ(queue_.RunExpired(At(hours(1))), 1);
  EXPECT_EQ(queue_.RunExpired(far_deadline - Duration(1)), 0);
  EXPECT_EQ(queue_.RunExpired(far_deadline), 1);
  EXPECT_EQ(queue_.RunExpired(kInfiniteFuture), 1);
  EXPECT_EQ(log_, (std::vector<int>{2, 3, 1}));
}

TEST_F(TimerQueueTest, RunnerNeverWakesForNothing) {
  // A host that sleeps until next_deadline() must find at least one timer due each time, however
  // many levels the deadlines are moved down.
  SeededRandom random(11);
  std::vector<std::unique_ptr<LoggingTimer>> timers;
  for (int i = 0; i < 300; ++i) {
    timers.push_back(Make(i));
    const int64_t ns = static_cast<int64_t>(random.Next64() >> (1 + random.Uniform(60)));
    queue_.Arm(*timers.back(), Time(Duration(ns)));
  }
  Time now{};
  while (const std::optional<Time> next = queue_.next_deadline()) {
    now = std::max(now, *next);
    EXPECT_GT(queue_.RunExpired(now), 0);
  }
  EXPECT_EQ(log_.size(), timers.size());
}

TEST_F(TimerQueueTest, CallbackMayDestroyItselfAndOthers) {
  auto first = Make(1), second = Make(2), third = Make(3), far = Make(4);
  queue_.Arm(*first, At(milliseconds(1)));
  queue_.Arm(*second, At(milliseconds(2)));
  queue_.Arm(*third, At(milliseconds(3)));
  queue_.Arm(*far, At(hours(3)));
  first->then = [&] {
    second.reset();  // due in this run, and now it never fires
    far.reset();
    first.reset();
  };
  EXPECT_EQ(queue_.RunExpired(At(milliseconds(5))), 2);
  EXPECT_EQ(log_, (std::vector<int>{1, 3}));
  EXPECT_EQ(queue_.next_deadline(), std::nullopt);
}

TEST_F(TimerQueueTest, CallbackMayPostponeAndCancelTimersOfTheSameRun) {
  auto first = Make(1), second = Make(2), third = Make(3);
  queue_.Arm(*first, At(milliseconds(1)));
  queue_.Arm(*second, At(milliseconds(2)));
  queue_.Arm(*third, At(milliseconds(3)));
  first->then = [&] {
    EXPECT_EQ(queue_.next_deadline(), At(milliseconds(2)));
    queue_.Cancel(*second);
    queue_.Arm(*third, At(seconds(1)));
    EXPECT_EQ(queue_.next_deadline(), At(seconds(1)));
    EXPECT_EQ(queue_.RunExpired(At(seconds(2))), 0);  // no nesting
  };
  EXPECT_EQ(queue_.RunExpired(At(milliseconds(5))), 1);
  EXPECT_FALSE(second->armed());
  EXPECT_EQ(third->deadline(), At(seconds(1)));
  EXPECT_EQ(queue_.RunExpired(At(seconds(1))), 1);
  EXPECT_EQ(log_, (std::vector<int>{1, 3}));
}

TEST_F(TimerQueueTest, TimerArmedByACallbackWaitsForTheNextRun) {
  auto first = Make(1), second = Make(2);
  first->then = [&] { queue_.Arm(*second, At(milliseconds(2))); };
  queue_.Arm(*first, At(milliseconds(1)));
  EXPECT_EQ(queue_.RunExpired(At(milliseconds(9))), 1);
  EXPECT_EQ(queue_.next_deadline(), At(milliseconds(2)));
  EXPECT_EQ(queue_.RunExpired(At(milliseconds(9))), 1);
}

TEST_F(TimerQueueTest, DestroyedTimerIsForgottenByTheDeadlineCache) {
  // The destructor does not know the queue; the cached minimum must still notice, in a slot of
  // many.
  std::vector<std::unique_ptr<LoggingTimer>> timers;
  for (int i = 0; i < 50; ++i) {
    timers.push_back(Make(i));
    queue_.Arm(*timers.back(), At(seconds(10) + microseconds(100 * (50 - i))));
  }
  while (!timers.empty()) {
    EXPECT_EQ(queue_.next_deadline(), timers.back()->deadline());
    timers.pop_back();
  }
  EXPECT_EQ(queue_.next_deadline(), std::nullopt);
}

TEST_F(TimerQueueTest, QueueThatGoesFirstLeavesItsTimersUnarmed) {
  auto timer = Make(1);
  {
    TimerQueue queue;
    queue.Arm(*timer, At(seconds(1)));
  }
  EXPECT_FALSE(timer->armed());
}

TEST_F(TimerQueueTest, FunctionTimerMayDestroyOrRearmItself) {
  int calls = 0;
  std::unique_ptr<FunctionTimer> timer;
  timer = std::make_unique<FunctionTimer>([&, payload = std::vector<int>(100, 7)] {
    if (++calls == 1) {
      queue_.Arm(*timer, At(seconds(2)));
    } else {
      timer.reset();
    }
    EXPECT_EQ(payload[99], 7);  // the function outlives the timer while it runs
  });
  queue_.Arm(*timer, At(seconds(1)));
  EXPECT_EQ(queue_.RunExpired(At(seconds(1))), 1);
  EXPECT_EQ(queue_.RunExpired(At(seconds(2))), 1);
  EXPECT_EQ(timer, nullptr);
  EXPECT_EQ(calls, 2);
}

// The queue against a sorted list that is searched from end to end.
class TimerQueueModelTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint32_t kTimers = 150;

  struct Expected {
    std::optional<Time> deadline;
    uint64_t sequence = 0;
    bool in_batch = false;
  };

  class ModelTimer : public Timer {
   public:
    ModelTimer(TimerQueueModelTest& test, uint32_t id) : test_(test), id_(id) {}

   private:
    void OnExpired() override { test_.OnFired(id_); }

    TimerQueueModelTest& test_;
    uint32_t id_;
  };

  TimerQueueModelTest() : random_(GetParam()), model_(kTimers) {
    for (uint32_t i = 0; i < kTimers; ++i) {
      timers_.push_back(std::make_unique<ModelTimer>(*this, i));
    }
  }

  // Few distinct values in part of the cases, so that equal deadlines are common.
  Time RandomDeadline() {
    switch (random_.Uniform(5)) {
      case 0:
        return now_ + milliseconds(random_.Uniform(4));
      case 1:
        return now_ + Duration(random_.Uniform(20000));
      case 2:
        return now_ - Duration(random_.Uniform(1000000));
      case 3:
        return At(hours(1) * (1 + now_.time_since_epoch() / hours(1)));
      default:
        return now_ + Duration(static_cast<int64_t>(random_.Next64() >> (4 + random_.Uniform(50))));
    }
  }

  void Mutate() {
    const uint32_t id = random_.Uniform(kTimers);
    switch (random_.Uniform(6)) {
      case 0:
        queue_.Cancel(*timers_[id]);
        model_[id] = Expected();
        break;
      case 1:
        timers_[id] = std::make_unique<ModelTimer>(*this, id);
        model_[id] = Expected();
        break;
      default:
        const Time deadline = RandomDeadline();
        queue_.Arm(*timers_[id], deadline);
        model_[id] = Expected{deadline, ++sequence_};
    }
  }

  // The first of the batch by (deadline, order of arming).
  std::optional<uint32_t> NextOfBatch() const {
    std::optional<uint32_t> best;
    for (uint32_t i = 0; i < kTimers; ++i) {
      if (model_[i].in_batch &&
          (!best || std::pair(*model_[i].deadline, model_[i].sequence) <
                        std::pair(*model_[*best].deadline, model_[*best].sequence))) {
        best = i;
      }
    }
    return best;
  }

  void OnFired(uint32_t id) {
    ++fired_;
    ASSERT_EQ(NextOfBatch(), id);
    EXPECT_FALSE(timers_[id]->armed());
    model_[id] = Expected();
    for (uint32_t n = random_.Uniform(3); n > 0; --n) {
      Mutate();  // may destroy the timer that fires
    }
    CheckDeadline();
  }

  void CheckDeadline() {
    std::optional<Time> least;
    size_t armed = 0;
    for (const Expected& expected : model_) {
      if (expected.deadline) {
        ++armed;
        least = std::min(least.value_or(kInfiniteFuture), *expected.deadline);
      }
    }
    ASSERT_EQ(queue_.next_deadline(), least);
    ASSERT_EQ(queue_.armed_count(), armed);
  }

  void Run() {
    for (Expected& expected : model_) {
      expected.in_batch = expected.deadline && *expected.deadline <= now_;
    }
    const int before = fired_;
    const int count = queue_.RunExpired(now_);
    EXPECT_EQ(count, fired_ - before);
    ASSERT_EQ(NextOfBatch(), std::nullopt);
  }

  void Step() {
    switch (random_.Uniform(20)) {
      case 0:
        now_ += hours(8);
        break;
      case 1:
        now_ += milliseconds(random_.Uniform(1000));
        break;
      case 2:
        now_ += Duration(random_.Uniform(30000));
        break;
      case 3:
        now_ = std::max(now_, queue_.next_deadline().value_or(now_));
        break;
      default:
        Mutate();
        CheckDeadline();
        return;
    }
    Run();
    CheckDeadline();
  }

  SeededRandom random_;
  TimerQueue queue_;
  std::vector<Expected> model_;
  std::vector<std::unique_ptr<ModelTimer>> timers_;
  Time now_ = At(seconds(1));
  uint64_t sequence_ = 0;
  int fired_ = 0;
};

TEST_P(TimerQueueModelTest, RandomOperationsAgreeWithASortedList) {
  for (int i = 0; i < 25000 && !HasFatalFailure(); ++i) {
    // Staying below 2^61 ns leaves room for the largest random distance.
    if (now_ > Time(Duration(int64_t{1} << 61))) {
      break;
    }
    Step();
  }
  EXPECT_GT(fired_, 1000);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TimerQueueModelTest, ::testing::Range<uint64_t>(1, 5));

}  // namespace
}  // namespace tapwire
