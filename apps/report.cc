// SPDX-License-Identifier: Apache-2.0
#include "apps/report.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace tapwire::apps {

int ReportError(absl::string_view command, const absl::Status& status, int failure) {
  std::fflush(stdout);
  const std::string message(status.message());
  std::fprintf(stderr, "tapwire %s: %s\n", std::string(command).c_str(), message.c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : failure;
}

std::string DescribeIcmpError(IcmpErrorKind kind, uint32_t value) {
  switch (kind) {
    case IcmpErrorKind::kNetUnreachable:
      return "Destination Net Unreachable";
    case IcmpErrorKind::kHostUnreachable:
      return "Destination Host Unreachable";
    case IcmpErrorKind::kProtocolUnreachable:
      return "Destination Protocol Unreachable";
    case IcmpErrorKind::kPortUnreachable:
      return "Destination Port Unreachable";
    case IcmpErrorKind::kPacketTooBig:
      return absl::StrCat("Packet too big: mtu=", value);
    case IcmpErrorKind::kAdminProhibited:
      return "Packet filtered";
    case IcmpErrorKind::kTtlExceeded:
      return "Time to live exceeded";
    case IcmpErrorKind::kReassemblyTimeout:
      return "Frag reassembly time exceeded";
    case IcmpErrorKind::kParameterProblem:
    case IcmpErrorKind::kUnrecognizedOption:
    case IcmpErrorKind::kIncompleteHeaderChain:
      return absl::StrCat("Parameter problem: pointer = ", value);
    case IcmpErrorKind::kOther:
      return "ICMP error";
  }
  return "ICMP error";
}

}  // namespace tapwire::apps
