// SPDX-License-Identifier: Apache-2.0
// Reads capture files (pcap and pcapng, through libpcap) frame by frame.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/capture/checker.h"

struct pcap;

namespace tapwire::capture {

struct CapturedFrame {
  uint64_t number = 0;  // as other tools count: from 1
  int64_t time_ns = 0;  // since 1970
  LinkType link = LinkType::kEthernet;
  uint32_t original_length = 0;
  std::span<const uint8_t> bytes;  // valid until the next call of Next()
};

class PcapReader {
 public:
  // Fails with kNotFound or kInvalidArgument, naming the file, if it cannot be opened, is no
  // capture or has a link type other than Ethernet, raw IP or Linux cooked.
  static absl::StatusOr<PcapReader> Open(const std::string& path);

  // The next frame; nullopt at the end of the file. kDataLoss for a file that breaks off.
  absl::StatusOr<std::optional<CapturedFrame>> Next();

 private:
  struct PcapClose {
    void operator()(pcap* handle) const;
  };

  explicit PcapReader(std::unique_ptr<pcap, PcapClose> handle, std::string path)
      : handle_(std::move(handle)), path_(std::move(path)) {}
  // Takes the cooked header off; Ethernet stays as it is.
  void SetBytes(CapturedFrame& frame, std::span<const uint8_t> bytes) const;

  std::unique_ptr<pcap, PcapClose> handle_;
  std::string path_;
  int data_link_ = 0;
  uint64_t count_ = 0;
};

struct CheckFileOptions {
  CheckerOptions checker = {};
  uint32_t mtu = 0;  // 0: lengths are not judged
};

// Checks a whole file. One that breaks off (its writer was killed) is judged as far as it goes, and
// the report says so in `incomplete`. Fails only if the file cannot be opened.
absl::StatusOr<CheckReport> CheckFile(const std::string& path,
                                      const CheckFileOptions& options = {});

}  // namespace tapwire::capture
