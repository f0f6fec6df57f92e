// SPDX-License-Identifier: Apache-2.0
// Names of the socket interface that scripts use for numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tapwire::pkt {

// AF_INET, SO_ERROR, MSG_PEEK, EPOLLIN …; errno names too.
std::optional<int64_t> FindSymbol(absl::string_view name);
std::optional<int> FindErrno(absl::string_view name);
// "EAGAIN"; the number if it has no name.
std::string ErrnoName(int error);

}  // namespace tapwire::pkt
