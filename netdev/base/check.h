// SPDX-License-Identifier: Apache-2.0
//
// Checks of states that cannot happen unless this code is wrong. Never for anything a peer or a
// user can cause: that is a DropReason or a Status.
#pragma once

namespace tapwire {

// Writes one line to standard error and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression,
                              const char* message = "");

}  // namespace tapwire

// TW_CHECK(condition) or TW_CHECK(condition, "what it means").
#define TW_CHECK(condition, ...)                     \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::tapwire::CheckFailed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__))

// As TW_CHECK in debug builds; compiled but not evaluated when NDEBUG is defined.
#ifdef NDEBUG
#define TW_DCHECK(condition, ...) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define TW_DCHECK(condition, ...) TW_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
