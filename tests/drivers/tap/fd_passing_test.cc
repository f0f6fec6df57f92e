// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/fd_passing.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "netdev/base/status_util.h"

namespace tapwire::drivers {
namespace {

using ::testing::HasSubstr;

bool SameFile(int a, int b) {
  struct stat info_a;
  struct stat info_b;
  return fstat(a, &info_a) == 0 && fstat(b, &info_b) == 0 && info_a.st_ino == info_b.st_ino &&
         info_a.st_dev == info_b.st_dev;
}

class FdPassingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    a_.Reset(pair[0]);
    b_.Reset(pair[1]);
  }

  UniqueFd a_;
  UniqueFd b_;
};

TEST_F(FdPassingTest, DescriptorsAndDataArriveTogether) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  UniqueFd read_end(pipe_fds[0]);
  UniqueFd write_end(pipe_fds[1]);
  ASSERT_EQ(SendFds(a_.get(), pipe_fds, 2, "hi", 2), 0);
  std::vector<UniqueFd> fds;
  std::array<char, 16> data;
  size_t received = 0;
  ASSERT_EQ(ReceiveFds(b_.get(), fds, data.data(), data.size(), &received), 0);
  EXPECT_EQ(std::string(data.data(), received), "hi");
  ASSERT_EQ(fds.size(), 2u);
  EXPECT_TRUE(SameFile(fds[0].get(), pipe_fds[0]));
  EXPECT_NE(fds[0].get(), pipe_fds[0]);
  EXPECT_NE(fcntl(fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(FdPassingTest, MessageWithoutDescriptorsIsNoError) {
  ASSERT_EQ(SendFds(a_.get(), nullptr, 0, "x", 1), 0);
  std::vector<UniqueFd> fds;
  char data;
  size_t received = 0;
  ASSERT_EQ(ReceiveFds(b_.get(), fds, &data, 1, &received), 0);
  EXPECT_TRUE(fds.empty());
}

TEST_F(FdPassingTest, ClosedPeerIsConnectionReset) {
  a_.Reset();
  std::vector<UniqueFd> fds;
  char data;
  size_t received = 0;
  EXPECT_EQ(ReceiveFds(b_.get(), fds, &data, 1, &received), ECONNRESET);
}

TEST_F(FdPassingTest, TooManyDescriptorsAreRefused) {
  const std::vector<int> fds(kMaxPassedFds + 1, 0);
  EXPECT_EQ(SendFds(a_.get(), fds.data(), fds.size(), "x", 1), EINVAL);
  EXPECT_EQ(SendFds(a_.get(), fds.data(), 1, "", 0), EINVAL);
}

// ---- By path ----

class FdSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/tapwire-fd-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    directory_ = directory;
    path_ = directory_ + "/socket";
  }
  void TearDown() override {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }

  void Listen() {
    listener_.Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener_.get(), 1), 0);
  }

  std::string directory_;
  std::string path_;
  UniqueFd listener_;
};

TEST_F(FdSocketTest, DescriptorIsReceived) {
  Listen();
  std::thread server([this] {
    UniqueFd client(accept(listener_.get(), nullptr, nullptr));
    const int fd = listener_.get();
    EXPECT_EQ(SendFds(client.get(), &fd, 1, "x", 1), 0);
  });
  const auto fds = ReceiveFdsFromPath(path_, 5000);
  server.join();
  ASSERT_TRUE(fds.ok()) << fds.status();
  ASSERT_EQ(fds->size(), 1u);
  EXPECT_TRUE(SameFile(fds->front().get(), listener_.get()));
}

TEST_F(FdSocketTest, MissingSocketNamesPathErrnoAndRemedy) {
  const auto fds = ReceiveFdsFromPath(path_, 10);
  ASSERT_FALSE(fds.ok());
  EXPECT_EQ(StatusToErrno(fds.status()), ENOENT);
  EXPECT_THAT(std::string(fds.status().message()),
              AllOf(HasSubstr(path_), HasSubstr("No such file or directory (2)"),
                    HasSubstr("start the program")));
}

TEST_F(FdSocketTest, SilentServerTimesOut) {
  Listen();
  const auto fds = ReceiveFdsFromPath(path_, 20);
  ASSERT_FALSE(fds.ok());
  EXPECT_EQ(StatusToErrno(fds.status()), ETIMEDOUT);
}

TEST_F(FdSocketTest, ServerWithoutDescriptorIsAnError) {
  Listen();
  std::thread server([this] {
    UniqueFd client(accept(listener_.get(), nullptr, nullptr));
    EXPECT_EQ(SendFds(client.get(), nullptr, 0, "x", 1), 0);
  });
  const auto fds = ReceiveFdsFromPath(path_, 5000);
  server.join();
  ASSERT_FALSE(fds.ok());
  EXPECT_THAT(std::string(fds.status().message()), HasSubstr("no descriptor"));
}

TEST_F(FdSocketTest, PathThatDoesNotFitIsRefused) {
  EXPECT_EQ(ReceiveFdsFromPath(std::string(108, 'x'), 10).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReceiveFdsFromPath("", 10).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tapwire::drivers
