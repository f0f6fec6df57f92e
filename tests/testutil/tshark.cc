// SPDX-License-Identifier: Apache-2.0
#include "tests/testutil/tshark.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tapwire::testutil {
namespace {

constexpr const char* kVerify =
    " -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -o tcp.check_checksum:TRUE"
    " -o ip.defragment:TRUE -o ipv6.defragment:TRUE";

// What ports carry stays bytes: an ephemeral port may be one that tshark gives to a protocol (48898
// is AMS), which then finds the payload malformed.
constexpr const char* kPayloadIsData = " -d tcp.port==1-65535,data -d udp.port==1-65535,data";

std::vector<std::string> Lines(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    output.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  std::vector<std::string> lines = absl::StrSplit(output, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace

bool HaveTshark() { return std::system("command -v tshark >/dev/null 2>&1") == 0; }

std::vector<std::string> TsharkFields(const std::string& path,
                                      const std::vector<std::string>& fields) {
  std::string command = absl::StrCat("HOME=/nonexistent tshark -n -r '", path, "'", kVerify,
                                     kPayloadIsData, " -T fields");
  for (const std::string& field : fields) absl::StrAppend(&command, " -e ", field);
  return Lines(command + " 2>/dev/null");
}

std::vector<uint64_t> TsharkSelect(const std::string& path, const std::string& filter) {
  std::vector<uint64_t> frames;
  for (const std::string& line :
       Lines(absl::StrCat("HOME=/nonexistent tshark -n -r '", path, "'", kVerify, kPayloadIsData,
                          " -Y '", filter, "' -T fields -e frame.number 2>/dev/null"))) {
    uint64_t number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(line, &number)) << line;
    frames.push_back(number);
  }
  return frames;
}

TempFile::TempFile(const std::string& suffix) : path_(::testing::TempDir()) {
  absl::StrAppend(&path_, "tapwire-XXXXXX", suffix);
  const int fd = mkstemps(path_.data(), static_cast<int>(suffix.size()));
  EXPECT_GE(fd, 0) << path_;
  if (fd >= 0) close(fd);
}

TempFile::~TempFile() { unlink(path_.c_str()); }

std::vector<uint8_t> TempFile::Read() const {
  std::ifstream file(path_, std::ios::binary);
  return std::vector<uint8_t>(std::istreambuf_iterator<char>(file), {});
}

}  // namespace tapwire::testutil
