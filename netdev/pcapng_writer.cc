// SPDX-License-Identifier: Apache-2.0
// Every block:   type | total length | body, padded to 4 | total length again.
// Every option:  code | length | value, padded to 4; the list ends with code 0.
#include "netdev/pcapng_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"

namespace tapwire::netdev {
namespace {

constexpr uint32_t kSectionHeader = 0x0a0d0d0a, kInterfaceDescription = 1, kEnhancedPacket = 6;
constexpr uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr uint16_t kLinkTypeEthernet = 1;
constexpr uint16_t kEndOfOptions = 0, kComment = 1;
constexpr uint16_t kSectionApplication = 4;
constexpr uint16_t kInterfaceName = 2, kInterfaceNote = 3, kInterfaceMac = 6, kTimeResolution = 9;
constexpr uint16_t kPacketFlags = 2;
constexpr uint8_t kNanoseconds = 9;  // if_tsresol: a power of ten
// epb_flags beyond the direction.
constexpr uint32_t kChecksumNotReady = 1u << 9, kSegmentationOffloaded = 1u << 11;
constexpr size_t kMaxOption = 0xffff;

void Put16(std::vector<uint8_t>& out, uint16_t value) {
  out.push_back(static_cast<uint8_t>(value));
  out.push_back(static_cast<uint8_t>(value >> 8));
}

void Put32(std::vector<uint8_t>& out, uint32_t value) {
  Put16(out, static_cast<uint16_t>(value));
  Put16(out, static_cast<uint16_t>(value >> 16));
}

void PutPadded(std::vector<uint8_t>& out, std::span<const uint8_t> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
  out.resize((out.size() + 3) / 4 * 4);
}

void PutOption(std::vector<uint8_t>& out, uint16_t code, std::span<const uint8_t> value) {
  value = value.first(std::min(value.size(), kMaxOption));
  Put16(out, code);
  Put16(out, static_cast<uint16_t>(value.size()));
  PutPadded(out, value);
}

void PutTextOption(std::vector<uint8_t>& out, uint16_t code, absl::string_view text) {
  if (text.empty()) return;
  PutOption(out, code, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void PutEndOfOptions(std::vector<uint8_t>& out) {
  Put16(out, kEndOfOptions);
  Put16(out, 0);
}

uint32_t PacketFlags(const PcapngPacket& packet) {
  uint32_t flags = static_cast<uint32_t>(packet.direction);
  if (packet.checksum_not_ready) flags |= kChecksumNotReady;
  if (packet.segmentation_offload) flags |= kSegmentationOffloaded;
  return flags;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileSink>> FileSink::Create(const std::string& path) {
  if (path == "-") return std::unique_ptr<FileSink>(new FileSink(stdout, "standard output"));
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr)
    return ErrnoStatus(errno, absl::StrCat("cannot create the capture file '", path, "'"));
  return std::unique_ptr<FileSink>(new FileSink(file, path));
}

FileSink::~FileSink() {
  if (file_ != stdout) std::fclose(file_);
}

absl::Status FileSink::Write(std::span<const uint8_t> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size()) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot write to the capture file '", path_, "'"));
}

absl::Status FileSink::Flush() {
  if (std::fflush(file_) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot write to the capture file '", path_, "'"));
}

PcapngWriter::PcapngWriter(std::unique_ptr<ByteSink> sink, Options options)
    : sink_(std::move(sink)), options_(std::move(options)) {
  BeginBlock(kSectionHeader);
  Put32(block_, kByteOrderMagic);
  Put16(block_, 1);  // version 1.0
  Put16(block_, 0);
  Put32(block_, 0xffffffff);  // section length: not known beforehand
  Put32(block_, 0xffffffff);
  PutTextOption(block_, kSectionApplication, options_.application);
  PutEndOfOptions(block_);
  EndBlock();
}

PcapngWriter::~PcapngWriter() { Note(Flush()); }

uint32_t PcapngWriter::AddInterface(const Interface& interface) {
  BeginBlock(kInterfaceDescription);
  Put16(block_, kLinkTypeEthernet);
  Put16(block_, 0);
  Put32(block_, options_.snap_length);
  PutTextOption(block_, kInterfaceName, interface.name);
  PutTextOption(block_, kInterfaceNote, interface.description);
  if (!interface.mac.IsZero()) PutOption(block_, kInterfaceMac, interface.mac.bytes());
  PutOption(block_, kTimeResolution, std::array<uint8_t, 1>{kNanoseconds});
  PutEndOfOptions(block_);
  EndBlock();
  return interfaces_++;
}

bool PcapngWriter::WritePacket(const PcapngPacket& packet) {
  if (!status_.ok()) {
    stats_.lost.Inc();
    return false;
  }
  BeginBlock(kEnhancedPacket);
  Put32(block_, packet.interface);
  Put32(block_, static_cast<uint32_t>(packet.time_ns >> 32));
  Put32(block_, static_cast<uint32_t>(packet.time_ns));
  Put32(block_, static_cast<uint32_t>(packet.captured.size()));
  Put32(block_, packet.original_length);
  PutPadded(block_, packet.captured);
  PutTextOption(block_, kComment, packet.comment);
  if (const uint32_t flags = PacketFlags(packet); flags != 0) {
    Put16(block_, kPacketFlags);
    Put16(block_, 4);
    Put32(block_, flags);
  }
  PutEndOfOptions(block_);
  const bool written = EndBlock();
  (written ? stats_.packets : stats_.lost).Inc();
  return written;
}

absl::Status PcapngWriter::Flush() {
  if (status_.ok()) Note(sink_->Flush());
  return status_;
}

// Leaves room for the total length, which EndBlock() knows.
void PcapngWriter::BeginBlock(uint32_t type) {
  block_.clear();
  Put32(block_, type);
  Put32(block_, 0);
}

// Sends the block in one piece, so that a sink sees whole blocks only.
bool PcapngWriter::EndBlock() {
  const auto total = static_cast<uint32_t>(block_.size() + 4);
  Put32(block_, total);
  std::copy_n(block_.end() - 4, 4, block_.begin() + 4);
  if (!status_.ok()) return false;
  Note(sink_->Write(block_));
  if (!status_.ok()) return false;
  stats_.bytes.Inc(total);
  return true;
}

void PcapngWriter::Note(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

}  // namespace tapwire::netdev
