// SPDX-License-Identifier: Apache-2.0
// The one table between what the stack reports and what socket users get: TxResult and ICMP errors
// as absl::Status that carries the errno a POSIX socket would give (StatusToErrno).
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "netdev/device.h"
#include "stack/ip.h"

namespace tapwire {

// OK for kSent and kQueued; ENOBUFS, ENETUNREACH, ENETDOWN, EMSGSIZE, EIO otherwise.
absl::Status SendError(netdev::TxResult result, absl::string_view what);
// EMSGSIZE with the size in the message.
absl::Status MessageTooLong(absl::string_view what, size_t size);
// RFC 1122 §4.1.3.3 and Linux's table: ECONNREFUSED for port unreachable, EHOSTUNREACH,
// ENETUNREACH, EMSGSIZE, ENOPROTOOPT, EACCES, EPROTO.
absl::Status IcmpErrorStatus(const IcmpErrorInfo& error);

}  // namespace tapwire
