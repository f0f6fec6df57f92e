// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/capture/pcap_reader.h"
#include "tests/interop/kernel_side.h"
#include "tests/testutil/tshark.h"

namespace tapwire::interop {
namespace {

// Wireshark's values of a checksum status field, its severity "Error", and the direction bits of a
// received frame.
constexpr char kBad[] = "0";
constexpr char kGood[] = "1";
constexpr char kSeverityError[] = "8388608";
constexpr char kReceived[] = "0x00000001";

// What tshark is asked for, in this order.
enum Column : size_t {
  kNumber,
  kDirection,
  kIp,
  kIcmp,
  kIcmpv6,
  kIgmp,
  kUdp,
  kTcp,
  kMalformed,
  kSeverity,
  kMessage,
};
const std::vector<std::string>& TsharkColumns() {
  static const auto* columns =
      new std::vector<std::string>{"frame.number",           "frame.packet_flags_direction",
                                   "ip.checksum.status",     "icmp.checksum.status",
                                   "icmpv6.checksum.status", "igmp.checksum.status",
                                   "udp.checksum.status",    "tcp.checksum.status",
                                   "_ws.malformed",          "_ws.expert.severity",
                                   "_ws.expert.message"};
  return *columns;
}

// A field holds one value per header of its kind, separated by commas: an ICMP error quotes one.
uint64_t CountValue(const std::string& field, absl::string_view value) {
  const std::vector<absl::string_view> values = absl::StrSplit(field, ',');
  return static_cast<uint64_t>(std::count(values.begin(), values.end(), value));
}

void JudgeLine(const std::string& line, CaptureVerdict& verdict) {
  const std::vector<std::string> fields = absl::StrSplit(line, '\t');
  ASSERT_EQ(fields.size(), TsharkColumns().size()) << line;
  ++verdict.frames;
  uint64_t errors = CountValue(fields[kSeverity], kSeverityError);
  uint64_t bad = fields[kMalformed].empty() ? 0 : 1;
  for (const Column column : {kIp, kIcmp, kIcmpv6, kIgmp, kUdp, kTcp}) {
    bad += CountValue(fields[column], kBad);
    verdict.good_checksums += CountValue(fields[column], kGood);
  }
  // What the kernel quotes it quotes as it got it: where we had left the checksum to it,
  // unfinished.
  const bool is_icmp = !fields[kIcmp].empty() || !fields[kIcmpv6].empty();
  if (is_icmp && fields[kDirection] == kReceived) {
    const uint64_t quoted = CountValue(fields[kUdp], kBad) + CountValue(fields[kTcp], kBad);
    bad -= quoted;
    errors -= std::min(errors, quoted);
  }
  if (bad + errors > 0) absl::StrAppend(&verdict.complaints, "tshark: ", line, "\n");
}

uint64_t StackCsumErrors(const Mib& mib) {
  return mib.ip.in_csum_errors.value() + mib.icmp.in_csum_errors.value() +
         mib.icmp6.in_csum_errors.value() + mib.udp.in_csum_errors.value() +
         mib.udp6.in_csum_errors.value() + mib.tcp.in_csum_errors.value();
}

}  // namespace

CaptureVerdict JudgeCapture(const std::string& path) {
  CaptureVerdict verdict;
  if (testutil::HaveTshark()) {
    for (const std::string& line : testutil::TsharkFields(path, TsharkColumns())) {
      JudgeLine(line, verdict);
    }
  } else {
    verdict.complaints = "tshark cannot be run: install the package tshark\n";
  }
  const auto report = capture::CheckFile(path);
  if (!report.ok()) {
    absl::StrAppend(&verdict.complaints, report.status().ToString(), "\n");
  } else if (!report->clean() || !report->incomplete.empty()) {
    absl::StrAppend(&verdict.complaints, report->ToString(capture::Severity::kWarning));
  }
  return verdict;
}

void ExpectGoodChecksums(Lab& lab) {
  for (const auto& [counter, errors] : KernelCsumErrors()) EXPECT_EQ(errors, 0u) << counter;
  EXPECT_EQ(StackCsumErrors(lab.stack().mib()), 0u);
}

void ExpectClean(Lab& lab) {
  ExpectGoodChecksums(lab);
  EXPECT_EQ(lab.tap().drops().total(), 0u) << "drops at the device";
  const CaptureVerdict verdict = JudgeCapture(lab.FlushCapture());
  EXPECT_EQ(verdict.complaints, "");
  // Otherwise tshark has verified nothing.
  EXPECT_GT(verdict.good_checksums, 0u);
}

}  // namespace tapwire::interop
