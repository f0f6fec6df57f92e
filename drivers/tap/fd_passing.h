// SPDX-License-Identifier: Apache-2.0
//
// File descriptors over UNIX sockets (SCM_RIGHTS, unix(7)).
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "drivers/tap/unique_fd.h"

namespace tapwire::drivers {

// Most descriptors one message carries here; Linux allows 253.
inline constexpr size_t kMaxPassedFds = 64;

// Sends `count` ≤ kMaxPassedFds descriptors with `size` > 0 bytes of data. Returns 0 or an errno.
// Allocates nothing, so it may be called between fork() and exec().
int SendFds(int socket, const int* fds, size_t count, const void* data, size_t size);

// Receives one message of at most `size` bytes into `data`; *received gets the length. Descriptors
// arrive close-on-exec. Returns 0 or an errno (ECONNRESET: the peer closed without a message).
int ReceiveFds(int socket, std::vector<UniqueFd>& fds, void* data, size_t size, size_t* received);

// Connects to the UNIX stream socket at `path`, waits at most `timeout_ms` for one message and
// returns the descriptors it brings (at least one).
absl::StatusOr<std::vector<UniqueFd>> ReceiveFdsFromPath(absl::string_view path, int timeout_ms);

}  // namespace tapwire::drivers
