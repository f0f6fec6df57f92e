// SPDX-License-Identifier: Apache-2.0
//
// Stands in for libFuzzer where it is missing: feeds every file named on the command line, and all
// files below every directory named, to the fuzz target once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

// Sorted, so that a run is the same everywhere. False if the path cannot be read.
bool Collect(const fs::path& path, std::vector<fs::path>& files) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    files.push_back(path);
    return true;
  }
  const auto first = files.size();
  for (auto it = fs::recursive_directory_iterator(path, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_regular_file()) files.push_back(it->path());
  }
  std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  return !error;
}

bool RunFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file),
                                std::istreambuf_iterator<char>()};
  // A copy of the exact size: the sanitizer sees reads behind it.
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FILE_OR_DIRECTORY...\n", argv[0]);
    return 2;
  }
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!Collect(argv[i], files)) {
      std::fprintf(stderr, "%s: cannot read\n", argv[i]);
      return 1;
    }
  }
  for (const fs::path& file : files) {
    // Flushed before the input runs, so that a crash shows which one it was.
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    if (!RunFile(file)) {
      std::fprintf(stderr, "%s: cannot read\n", file.c_str());
      return 1;
    }
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
