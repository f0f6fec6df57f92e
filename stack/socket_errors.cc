// SPDX-License-Identifier: Apache-2.0
#include "stack/socket_errors.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"

namespace tapwire {
namespace {

int ErrnoOf(netdev::TxResult result) {
  switch (result) {
    case netdev::TxResult::kSent:
    case netdev::TxResult::kQueued:
    case netdev::TxResult::kCongested:
      return 0;
    case netdev::TxResult::kNoBuffer:
      return ENOBUFS;
    case netdev::TxResult::kNoRoute:
      return ENETUNREACH;
    case netdev::TxResult::kDeviceDown:
      return ENETDOWN;
    case netdev::TxResult::kTooBig:
      return EMSGSIZE;
    case netdev::TxResult::kDropped:
      return EIO;
  }
  return EIO;
}

int ErrnoOf(IcmpErrorKind kind) {
  switch (kind) {
    case IcmpErrorKind::kNetUnreachable:
    case IcmpErrorKind::kBeyondScope:
      return ENETUNREACH;
    case IcmpErrorKind::kHostUnreachable:
    case IcmpErrorKind::kTtlExceeded:
    case IcmpErrorKind::kReassemblyTimeout:
      return EHOSTUNREACH;
    case IcmpErrorKind::kProtocolUnreachable:
      return ENOPROTOOPT;
    case IcmpErrorKind::kPortUnreachable:
      return ECONNREFUSED;
    case IcmpErrorKind::kPacketTooBig:
      return EMSGSIZE;
    case IcmpErrorKind::kAdminProhibited:
      return EACCES;
    case IcmpErrorKind::kParameterProblem:
    case IcmpErrorKind::kUnrecognizedOption:
    case IcmpErrorKind::kIncompleteHeaderChain:
    case IcmpErrorKind::kOther:
      return EPROTO;
  }
  return EPROTO;
}

}  // namespace

absl::Status SendError(netdev::TxResult result, absl::string_view what) {
  return ErrnoStatus(ErrnoOf(result), what);
}

absl::Status MessageTooLong(absl::string_view what, size_t size) {
  return ErrnoStatus(EMSGSIZE, absl::StrCat(what, " of ", size, " bytes"));
}

absl::Status IcmpErrorStatus(const IcmpErrorInfo& error) {
  return ErrnoStatus(ErrnoOf(error.kind), absl::StrCat("ICMP type ", static_cast<int>(error.type),
                                                       " code ", static_cast<int>(error.code),
                                                       " from ", error.reporter.ToString()));
}

}  // namespace tapwire
