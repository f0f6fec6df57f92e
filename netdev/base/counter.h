// SPDX-License-Identifier: Apache-2.0
//
// Counters of one thread. Plain integers: readers on other threads get a snapshot through
// Executor::Post.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tapwire {

// Counts up; wraps after 2^64.
class Counter {
 public:
  constexpr void Inc(uint64_t n = 1) { value_ += n; }
  constexpr uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

// One counter per value of the dense enum E, whose values are 0 … N-1.
template <typename E, size_t N>
class EnumCounters {
 public:
  static constexpr size_t kSize = N;

  constexpr void Inc(E which, uint64_t n = 1) { counters_[static_cast<size_t>(which)].Inc(n); }
  constexpr uint64_t value(E which) const { return counters_[static_cast<size_t>(which)].value(); }

  // Sum over all values.
  constexpr uint64_t total() const {
    uint64_t sum = 0;
    for (const Counter& counter : counters_) {
      sum += counter.value();
    }
    return sum;
  }

  // Calls fn(E, uint64_t value) for every counter, zero or not, in the order of the enum.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    for (size_t i = 0; i < N; ++i) {
      fn(static_cast<E>(i), counters_[i].value());
    }
  }

 private:
  std::array<Counter, N> counters_{};
};

}  // namespace tapwire

#define TAPWIRE_COUNTER_FIELD_(field, name, help) ::tapwire::Counter field;
#define TAPWIRE_COUNTER_VISIT_(field, name, help) \
  visitor(absl::string_view(name), absl::string_view(help), field.value());

// Makes a struct of Counters from a list X(field, "name", "help text"):
//
//   #define UDP_COUNTERS(X) X(in_datagrams, "UdpInDatagrams", "Datagrams delivered") X(…) …
//   TAPWIRE_COUNTER_STRUCT(UdpCounters, UDP_COUNTERS);
//
// ForEach calls visitor(name, help, value) for every field in the order of the list.
#define TAPWIRE_COUNTER_STRUCT(Name, LIST)  \
  struct Name {                             \
    LIST(TAPWIRE_COUNTER_FIELD_)            \
    template <typename Visitor>             \
    void ForEach(Visitor&& visitor) const { \
      LIST(TAPWIRE_COUNTER_VISIT_)          \
    }                                       \
  }
