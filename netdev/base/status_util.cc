// SPDX-License-Identifier: Apache-2.0
#include "netdev/base/status_util.h"

#include <cerrno>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tapwire {
namespace {

constexpr absl::string_view kErrnoPayload = "tapwire/errno";

int ErrnoOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kCancelled:
      return ECANCELED;
    case absl::StatusCode::kInvalidArgument:
      return EINVAL;
    case absl::StatusCode::kDeadlineExceeded:
      return ETIMEDOUT;
    case absl::StatusCode::kNotFound:
      return ENOENT;
    case absl::StatusCode::kAlreadyExists:
      return EEXIST;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return EACCES;
    case absl::StatusCode::kResourceExhausted:
      return ENOBUFS;
    case absl::StatusCode::kFailedPrecondition:
      return EINVAL;
    case absl::StatusCode::kAborted:
      return ECONNRESET;
    case absl::StatusCode::kOutOfRange:
      return ERANGE;
    case absl::StatusCode::kUnimplemented:
      return EOPNOTSUPP;
    case absl::StatusCode::kUnavailable:
      return ECONNREFUSED;
    default:
      return EIO;
  }
}

// As absl has it, but for errors of sockets, whose codes there say the wrong thing to a caller or
// nothing: "failed precondition", "already exists" and "unknown".
absl::StatusCode CodeOfErrno(int err) {
  switch (err) {
    case EADDRINUSE:
      return absl::StatusCode::kAlreadyExists;
    case EADDRNOTAVAIL:
      return absl::StatusCode::kInvalidArgument;
    case EMSGSIZE:
      return absl::StatusCode::kOutOfRange;
    default:
      return absl::ErrnoToStatusCode(err);
  }
}

}  // namespace

absl::Status ErrnoStatus(int err, absl::string_view what) {
  absl::Status status(CodeOfErrno(err), absl::ErrnoToStatus(err, what).message());
  if (!status.ok()) {
    status.SetPayload(kErrnoPayload, absl::Cord(absl::StrCat(err)));
  }
  return status;
}

int StatusToErrno(const absl::Status& status) {
  if (const auto payload = status.GetPayload(kErrnoPayload); payload.has_value()) {
    int err = 0;
    if (absl::SimpleAtoi(std::string(*payload), &err)) {
      return err;
    }
  }
  return ErrnoOfCode(status.code());
}

}  // namespace tapwire
