// SPDX-License-Identifier: Apache-2.0
// `tapwire pcap check FILE`: the capture checker on anybody's capture.

#include <cstdio>
#include <memory>
#include <string>

#include "apps/capture/checker.h"
#include "apps/capture/pcap_reader.h"
#include "apps/command.h"
#include "apps/report.h"

namespace tapwire::apps {
namespace {

struct CheckFlags {
  std::string file;
  uint32_t mtu = 0;
  bool strict_checksums = false;
  bool quiet = false;
};

// 0 nothing wrong, 1 findings or a file that cannot be read to its end.
int RunCheck(const CheckFlags& flags) {
  capture::CheckFileOptions options;
  options.mtu = flags.mtu;
  options.checker.accept_pseudo_sums = !flags.strict_checksums;
  absl::StatusOr<capture::CheckReport> report = capture::CheckFile(flags.file, options);
  if (!report.ok()) {
    ReportError("pcap check", report.status());
    return 1;
  }
  const auto from = flags.quiet ? capture::Severity::kWarning : capture::Severity::kNote;
  const bool complete = report->incomplete.empty();
  if (!complete) {
    report->incomplete = OneLine(report->incomplete) + "; what follows there was not checked";
  }
  std::fputs(report->ToString(from).c_str(), stdout);
  return complete && report->clean() ? 0 : 1;
}

}  // namespace

void RegisterPcap(CLI::App& root, int& exit_code) {
  CLI::App* pcap = root.add_subcommand("pcap", "work on capture files");
  pcap->require_subcommand(1);
  CLI::App* check = pcap->add_subcommand(
      "check", "report what no correct host would have sent; exit 1 if anything");
  auto flags = std::make_shared<CheckFlags>();
  check->add_option("file", flags->file, "pcap or pcapng file")->required();
  check
      ->add_option("--mtu", flags->mtu,
                   "bytes of IP packet the link carries; longer frames are reported")
      ->check(CLI::Range(68, 65535));
  check->add_flag(
      "--strict-checksums", flags->strict_checksums,
      "report checksums that hold only the pseudo-header sum (left to the device) as wrong");
  check->add_flag("-q,--quiet", flags->quiet, "leave notes out");
  check->callback([flags, &exit_code] { exit_code = RunCheck(*flags); });
}

}  // namespace tapwire::apps
