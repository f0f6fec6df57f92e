// SPDX-License-Identifier: Apache-2.0
// Wireshark's opinion of a capture: an oracle from outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapwire::testutil {

// Whether tshark can be run. A test that needs it skips, naming the package, if not.
bool HaveTshark();

// Runs `tshark -r path -T fields -e … ` with the fields joined by tab, one string per frame, and
// checksum verification switched on for all protocols. Fails the test if tshark does.
std::vector<std::string> TsharkFields(const std::string& path,
                                      const std::vector<std::string>& fields);
// Numbers of the frames that a display filter selects.
std::vector<uint64_t> TsharkSelect(const std::string& path, const std::string& filter);

// A path for a file of this test, removed with the object.
class TempFile {
 public:
  explicit TempFile(const std::string& suffix);
  ~TempFile();
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }
  std::vector<uint8_t> Read() const;

 private:
  std::string path_;
};

}  // namespace tapwire::testutil
