// SPDX-License-Identifier: Apache-2.0
//
// Between absl::Status and errno, and the two macros that pass errors on.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tapwire {

// Status of a failed system call: "<what>: <text of err>". Remembers `err`, so that StatusToErrno
// gives it back. err = 0 gives OK.
absl::Status ErrnoStatus(int err, absl::string_view what);

// The errno for a status: the one it was made from, else the usual one for its code (0 for OK).
// Socket errors without a common code are made with ErrnoStatus, so nothing is lost.
int StatusToErrno(const absl::Status& status);

}  // namespace tapwire

#define TW_CONCAT_INNER_(a, b) a##b
#define TW_CONCAT_(a, b) TW_CONCAT_INNER_(a, b)

// Returns from the function if `expression`, an absl::Status, is not OK.
#define TW_RETURN_IF_ERROR(expression)       \
  do {                                       \
    absl::Status tw_status_ = (expression);  \
    if (!tw_status_.ok()) return tw_status_; \
  } while (false)

// TW_ASSIGN_OR_RETURN(auto fd, OpenDevice(name)): assigns the value, or returns the status.
#define TW_ASSIGN_OR_RETURN(target, expression) \
  TW_ASSIGN_OR_RETURN_(TW_CONCAT_(tw_statusor_, __LINE__), target, expression)
#define TW_ASSIGN_OR_RETURN_(statusor, target, expression) \
  auto statusor = (expression);                            \
  if (!statusor.ok()) return std::move(statusor).status(); \
  target = *std::move(statusor)
