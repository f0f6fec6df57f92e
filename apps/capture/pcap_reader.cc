// SPDX-License-Identifier: Apache-2.0
#include "apps/capture/pcap_reader.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tapwire::capture {
namespace {

constexpr size_t kCookedLength = 16;   // LINKTYPE_LINUX_SLL: the protocol is the last field
constexpr size_t kCooked2Length = 20;  // LINKTYPE_LINUX_SLL2: the protocol is the first field

bool IsSupported(int data_link) {
  constexpr std::array<int, 6> kSupported = {DLT_EN10MB, DLT_RAW,       DLT_IPV4,
                                             DLT_IPV6,   DLT_LINUX_SLL, DLT_LINUX_SLL2};
  return std::find(kSupported.begin(), kSupported.end(), data_link) != kSupported.end();
}

}  // namespace

void PcapReader::PcapClose::operator()(pcap* handle) const { pcap_close(handle); }

absl::StatusOr<PcapReader> PcapReader::Open(const std::string& path) {
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  std::unique_ptr<pcap, PcapClose> handle(pcap_open_offline_with_tstamp_precision(
      path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error.data()));
  if (handle == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read a capture from '", path, "': ", error.data()));
  }
  const int data_link = pcap_datalink(handle.get());
  if (!IsSupported(data_link)) {
    const char* name = pcap_datalink_val_to_name(data_link);
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has link type ", name != nullptr ? name : "unknown", " (",
                     data_link, "); Ethernet, raw IP and Linux cooked can be read"));
  }
  PcapReader reader(std::move(handle), path);
  reader.data_link_ = data_link;
  return reader;
}

absl::StatusOr<std::optional<CapturedFrame>> PcapReader::Next() {
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  const int result = pcap_next_ex(handle_.get(), &header, &data);
  if (result == PCAP_ERROR_BREAK) return std::nullopt;
  if (result != 1) {
    return absl::DataLossError(absl::StrCat("'", path_, "' breaks off after frame ", count_, ": ",
                                            pcap_geterr(handle_.get())));
  }
  CapturedFrame frame;
  frame.number = ++count_;
  // With nanosecond precision tv_usec holds nanoseconds.
  frame.time_ns = int64_t{header->ts.tv_sec} * 1'000'000'000 + header->ts.tv_usec;
  frame.original_length = header->len;
  SetBytes(frame, {data, header->caplen});
  return frame;
}

void PcapReader::SetBytes(CapturedFrame& frame, std::span<const uint8_t> bytes) const {
  size_t header = 0;
  if (data_link_ == DLT_LINUX_SLL) header = kCookedLength;
  if (data_link_ == DLT_LINUX_SLL2) header = kCooked2Length;
  frame.link = data_link_ == DLT_EN10MB ? LinkType::kEthernet : LinkType::kRawIp;
  header = std::min(header, bytes.size());
  frame.bytes = bytes.subspan(header);
  frame.original_length -= std::min<uint32_t>(frame.original_length, static_cast<uint32_t>(header));
}

absl::StatusOr<CheckReport> CheckFile(const std::string& path, const CheckFileOptions& options) {
  absl::StatusOr<PcapReader> reader = PcapReader::Open(path);
  if (!reader.ok()) return reader.status();
  CaptureChecker checker(options.checker);
  for (;;) {
    absl::StatusOr<std::optional<CapturedFrame>> next = reader->Next();
    if (!next.ok()) {
      CheckReport report = checker.report();
      report.incomplete = std::string(next.status().message());
      return report;
    }
    if (!next->has_value()) return checker.report();
    const CapturedFrame& captured = **next;
    Frame frame;
    frame.number = captured.number;
    frame.time_ns = captured.time_ns;
    frame.link = captured.link;
    frame.original_length = captured.original_length;
    frame.mtu = options.mtu;
    frame.bytes = captured.bytes;
    checker.Check(frame);
  }
}

}  // namespace tapwire::capture
