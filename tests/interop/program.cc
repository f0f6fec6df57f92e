// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/interop/lab.h"

namespace tapwire::interop {
namespace {

// Kept open: a path through /proc works also for a user who may not enter the build folder.
int OpenProgram() {
  const char* given = std::getenv("TAPWIRE_PROGRAM");
  const char* path = given == nullptr ? TAPWIRE_PROGRAM : given;
  const int fd = open(path, O_PATH);
  EXPECT_GE(fd, 0) << path << ": " << std::strerror(errno);
  return fd;
}

}  // namespace

std::vector<std::string> Tapwire(const std::vector<std::string>& arguments) {
  static const int fd = OpenProgram();
  std::vector<std::string> argv = {absl::StrCat("/proc/self/fd/", fd)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

std::vector<std::string> NetFlags(const std::string& node, const std::string& more) {
  return {"--net",
          absl::StrCat("tap,name=", kTapName, ",dev=", node, ",kernel=", kKernel4.ToString(),
                       "/24,kernel=", kKernel6.ToString(), "/64", more)};
}

}  // namespace tapwire::interop
