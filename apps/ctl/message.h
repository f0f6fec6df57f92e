// SPDX-License-Identifier: Apache-2.0
// The two messages of the control socket: one request, one reply, then it is closed.
//
//   request:  length (4 bytes) of what follows, then the words, each ended by a zero byte
//   reply:    exit code, length of standard output, length of standard error (4 bytes each), then
//             both texts
//
// Numbers are big-endian. Every length is bounded before a byte is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "apps/ctl/ctl.h"

namespace tapwire::apps::ctl {

inline constexpr size_t kRequestHeader = 4;
inline constexpr size_t kMaxRequest = 16 * 1024;  // without its header
inline constexpr size_t kReplyHeader = 12;
inline constexpr size_t kMaxReply = 64u << 20;  // without its header

// kInvalidArgument: too long, or a word with a zero byte in it.
absl::StatusOr<std::string> EncodeRequest(const std::vector<std::string>& argv);
// The whole length of the request that begins with `bytes`; nullopt: too few bytes to tell.
// kInvalidArgument: no request.
absl::StatusOr<std::optional<size_t>> RequestLength(absl::string_view bytes);
// `bytes` is all of it.
absl::StatusOr<std::vector<std::string>> DecodeRequest(absl::string_view bytes);

std::string EncodeReply(const Reply& reply);
absl::StatusOr<std::optional<size_t>> ReplyLength(absl::string_view bytes);
absl::StatusOr<Reply> DecodeReply(absl::string_view bytes);

}  // namespace tapwire::apps::ctl
