// SPDX-License-Identifier: Apache-2.0
#include "apps/report.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tapwire::apps {
namespace {

int output_error = 0;  // errno of the first failed flush of stdout

}  // namespace

std::string OneLine(absl::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&line, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  return line;
}

void FlushOutput(std::FILE* out) {
  // Only now is the reason known: what could not be written is gone, and the next flush succeeds.
  if (std::fflush(out) != 0 && out == stdout && output_error == 0) output_error = errno;
}

int FinishOutput(int exit_code) {
  FlushOutput();
  if (std::ferror(stdout) == 0 && output_error == 0) return exit_code;
  const std::string reason =
      output_error == 0 ? "" : absl::StrCat(": ", std::generic_category().message(output_error));
  std::fprintf(stderr, "tapwire: cannot write to stdout%s\n", reason.c_str());
  std::clearerr(stdout);
  output_error = 0;
  return exit_code == 0 ? 1 : exit_code;
}

int ReportError(absl::string_view command, const absl::Status& status, int failure) {
  FlushOutput();
  const std::string message = OneLine(status.message());
  std::fprintf(stderr, "tapwire %s: %s\n", std::string(command).c_str(), message.c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : failure;
}

std::string DescribeIcmpError(IcmpErrorKind kind, uint32_t value) {
  switch (kind) {
    case IcmpErrorKind::kNetUnreachable:
    case IcmpErrorKind::kBeyondScope:
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
