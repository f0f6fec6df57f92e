// SPDX-License-Identifier: Apache-2.0
// Writes pcapng capture files: one section, interfaces with nanosecond stamps, enhanced packet
// blocks with direction and comment. Blocks are little-endian on every machine, so that the same
// run gives the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "netdev/base/counter.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::netdev {

// Where bytes of a file go.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // Takes all of `bytes` or fails. May buffer: an error can show at a later Write or Flush.
  virtual absl::Status Write(std::span<const uint8_t> bytes) = 0;
  virtual absl::Status Flush() = 0;
};

// A file, buffered; "-" is standard output. Closed (and flushed) by the destructor.
class FileSink final : public ByteSink {
 public:
  // Creates or empties the file. The error names it and the reason.
  static absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& path);
  ~FileSink() override;
  absl::Status Write(std::span<const uint8_t> bytes) override;
  absl::Status Flush() override;

 private:
  FileSink(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}

  std::FILE* file_;
  std::string path_;
};

// Collects in memory.
class MemorySink final : public ByteSink {
 public:
  absl::Status Write(std::span<const uint8_t> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  absl::Status Flush() override { return absl::OkStatus(); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// What an enhanced packet block says about the frame (values of the two low bits of epb_flags).
enum class PcapngDirection : uint8_t { kUnknown = 0, kInbound = 1, kOutbound = 2 };

struct PcapngPacket {
  uint32_t interface = 0;                  // as AddInterface() returned
  uint64_t time_ns = 0;                    // since 1970
  std::span<const uint8_t> captured = {};  // at most the snap length
  uint32_t original_length = 0;
  PcapngDirection direction = PcapngDirection::kUnknown;
  bool checksum_not_ready = false;    // the checksum in these bytes is left to a device
  bool segmentation_offload = false;  // a super-packet that a device will cut
  absl::string_view comment = {};     // empty: none
};

class PcapngWriter {
 public:
  struct Options {
    std::string application = "tapwire";
    uint32_t snap_length = 0;  // declared per interface; 0: no limit
  };

  // `sink` gets the section header at once.
  PcapngWriter(std::unique_ptr<ByteSink> sink, Options options);
  // Flushes; an error then can only be counted, so call Flush() before if it matters.
  ~PcapngWriter();
  PcapngWriter(const PcapngWriter&) = delete;
  PcapngWriter& operator=(const PcapngWriter&) = delete;

  struct Interface {
    std::string name = {};
    std::string description = {};  // empty: none
    MacAddress mac = {};           // zero: not said
  };
  // Declares an Ethernet interface; returns its number.
  uint32_t AddInterface(const Interface& interface);

  // After the first failure nothing more is written: the packet is only counted, so that a full
  // disk costs one message and no time. True if written.
  bool WritePacket(const PcapngPacket& packet);
  absl::Status Flush();

  // The first error, or OK.
  const absl::Status& status() const { return status_; }
  uint32_t snap_length() const { return options_.snap_length; }

  struct Stats {
    Counter packets;  // written
    Counter bytes;    // of whole blocks
    Counter lost;     // packets not written because of an error
  };
  const Stats& stats() const { return stats_; }

 private:
  void BeginBlock(uint32_t type);
  bool EndBlock();
  void Note(const absl::Status& status);

  std::unique_ptr<ByteSink> sink_;
  Options options_;
  absl::Status status_;
  Stats stats_;
  uint32_t interfaces_ = 0;
  std::vector<uint8_t> block_;  // being built; reused
};

}  // namespace tapwire::netdev
