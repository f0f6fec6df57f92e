// SPDX-License-Identifier: Apache-2.0
// Sequence numbers (RFC 9293 §3.4): 32 bits, compared modulo 2^32. Two numbers are comparable while
// they are less than 2^31 apart, which windows of at most 1 GiB (RFC 7323 §2.3) guarantee.
#pragma once

#include <cstdint>

namespace tapwire::tcp {

class Seq {
 public:
  constexpr Seq() = default;
  constexpr explicit Seq(uint32_t value) : value_(value) {}
  constexpr uint32_t value() const { return value_; }

  friend constexpr Seq operator+(Seq s, uint32_t n) { return Seq(s.value_ + n); }
  friend constexpr Seq operator-(Seq s, uint32_t n) { return Seq(s.value_ - n); }
  constexpr Seq& operator+=(uint32_t n) {
    value_ += n;
    return *this;
  }
  // How far `a` is ahead of `b`; negative if it is behind.
  friend constexpr int32_t operator-(Seq a, Seq b) {
    return static_cast<int32_t>(a.value_ - b.value_);
  }

  friend constexpr bool operator==(Seq, Seq) = default;
  // Modular: not a total order, so no sorted container may be keyed by it.
  friend constexpr bool operator<(Seq a, Seq b) { return a - b < 0; }
  friend constexpr bool operator>(Seq a, Seq b) { return b < a; }
  friend constexpr bool operator<=(Seq a, Seq b) { return !(b < a); }
  friend constexpr bool operator>=(Seq a, Seq b) { return !(a < b); }

 private:
  uint32_t value_ = 0;
};

constexpr Seq Earlier(Seq a, Seq b) { return a < b ? a : b; }
constexpr Seq Later(Seq a, Seq b) { return a < b ? b : a; }
// Bytes from `from` to `to`; 0 if `to` is not ahead.
constexpr uint32_t Distance(Seq from, Seq to) {
  return from < to ? static_cast<uint32_t>(to - from) : 0;
}
// start ≤ s < start + length.
constexpr bool InWindow(Seq s, Seq start, uint32_t length) {
  return static_cast<uint32_t>(s.value() - start.value()) < length;
}

}  // namespace tapwire::tcp
