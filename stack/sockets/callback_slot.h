// SPDX-License-Identifier: Apache-2.0
// CallbackSlot: holds one user callback that, while it runs, may replace or clear itself or destroy
// the object that owns the slot's holder. The holder must outlive the call (shared ownership).
#pragma once

#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"

namespace tapwire {

template <typename Signature>
class CallbackSlot {
 public:
  void Set(absl::AnyInvocable<Signature> callback) {
    callback_ = std::move(callback);
    ++generation_;
  }
  void Clear() { Set(nullptr); }
  explicit operator bool() const { return static_cast<bool>(callback_); }
  // Empties the slot, for a callback that is called a last time.
  absl::AnyInvocable<Signature> Take() {
    ++generation_;
    return std::exchange(callback_, nullptr);
  }

  // Runs the callback from a place of its own, and puts it back unless it was replaced meanwhile.
  template <typename... Args>
  void Call(Args&&... args) {
    const uint32_t generation = generation_;
    absl::AnyInvocable<Signature> running = std::exchange(callback_, nullptr);
    running(std::forward<Args>(args)...);
    if (generation == generation_) callback_ = std::move(running);
  }

 private:
  absl::AnyInvocable<Signature> callback_;
  uint32_t generation_ = 0;
};

}  // namespace tapwire
