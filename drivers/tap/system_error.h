// SPDX-License-Identifier: Apache-2.0
//
// Status of a failed system call that also says what the user can do about it.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tapwire::drivers {

// "<what>: <text of err> (<err>)", followed by ": <remedy>" unless that is empty. Code and errno
// are those of ErrnoStatus(), so StatusToErrno() gives `err` back.
absl::Status SystemError(int err, absl::string_view what, absl::string_view remedy = "");

}  // namespace tapwire::drivers
