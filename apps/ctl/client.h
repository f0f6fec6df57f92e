// SPDX-License-Identifier: Apache-2.0
// The asking side of the control socket; blocking.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/ctl/ctl.h"

namespace tapwire::apps::ctl {

// Sends `argv` to the process that listens at `path` (empty: at the first default path where one
// does) and waits for the reply. Errors say which socket and what to do.
absl::StatusOr<Reply> Ask(const std::string& path, const std::vector<std::string>& argv,
                          std::chrono::milliseconds timeout = std::chrono::seconds(10));

}  // namespace tapwire::apps::ctl
