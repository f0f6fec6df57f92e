// SPDX-License-Identifier: Apache-2.0
#include "drivers/tap/userns_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace tapwire::drivers {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Each test has a runtime directory of its own.
class UsernsRecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* old = getenv("XDG_RUNTIME_DIR");
    if (old != nullptr) old_runtime_ = old;
    char directory[] = "/tmp/tapwire-record-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    runtime_ = directory;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    child_ = fork();
    if (child_ == 0) {
      pause();
      _exit(0);
    }
  }
  void TearDown() override {
    EndChild();
    if (old_runtime_.has_value()) {
      setenv("XDG_RUNTIME_DIR", old_runtime_->c_str(), 1);
    } else {
      unsetenv("XDG_RUNTIME_DIR");
    }
    EXPECT_EQ(std::system(absl::StrCat("rm -rf ", runtime_).c_str()), 0);
  }

  void EndChild() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    child_ = -1;
  }

  // A namespace that the child pretends to hold.
  UsernsInstance Instance(pid_t pid) const {
    return {.pid = pid,
            .holder_pid = child_,
            .holder_start = ProcessStartTime(child_),
            .tap_name = "tw0",
            .addresses = "10.9.0.1/24 fd00:9::1/64"};
  }

  std::optional<std::string> old_runtime_;
  std::string runtime_;
  pid_t child_ = -1;
};

TEST_F(UsernsRecordTest, TextFormIsReadBack) {
  const UsernsInstance instance = Instance(1234);
  EXPECT_EQ(internal::ParseUsernsRecord(internal::FormatUsernsRecord(instance)), instance);
}

TEST_F(UsernsRecordTest, ForeignTextIsNoRecord) {
  for (const char* text :
       {"", "\n", "pid=1", "holder=1", "pid=x\nholder=2", "pid=0\nholder=2", "pid=-5\nholder=2",
        "pid=99999999999\nholder=2", "pid=1\nholder=2\nholder_start=x", "===\n==", "pid"}) {
    EXPECT_EQ(internal::ParseUsernsRecord(text), std::nullopt) << text;
  }
}

TEST_F(UsernsRecordTest, WrittenRecordIsListedUntilItsOwnerGoes) {
  const UsernsInstance instance = Instance(getpid());
  {
    auto record = UsernsRecord::Write(instance);
    ASSERT_TRUE(record.ok()) << record.status();
    const auto list = ListUsernsInstances();
    ASSERT_TRUE(list.ok());
    EXPECT_THAT(*list, ElementsAre(instance));
  }
  EXPECT_THAT(*ListUsernsInstances(), IsEmpty());
}

TEST_F(UsernsRecordTest, DirectoryIsForTheUserAlone) {
  auto record = UsernsRecord::Write(Instance(getpid()));
  ASSERT_TRUE(record.ok()) << record.status();
  struct stat info;
  ASSERT_EQ(stat((runtime_ + "/tapwire").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(UsernsRecordTest, DirectoryOpenToOthersIsNotUsed) {
  const std::string directory = runtime_ + "/tapwire";
  ASSERT_EQ(mkdir(directory.c_str(), 0777), 0);
  ASSERT_EQ(chmod(directory.c_str(), 0777), 0);
  auto record = UsernsRecord::Write(Instance(getpid()));
  // The other place is taken instead.
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_NE(
      access(absl::StrCat("/tmp/tapwire-", geteuid(), "/", getpid(), "-", child_).c_str(), F_OK),
      -1);
  std::ofstream(directory + "/1-2") << "pid=1\nholder=2\n";
  EXPECT_THAT(*ListUsernsInstances(), ElementsAre(Instance(getpid())));
}

TEST_F(UsernsRecordTest, SymbolicLinkInItsPlaceIsNotFollowed) {
  ASSERT_EQ(mkdir((runtime_ + "/elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(symlink((runtime_ + "/elsewhere").c_str(), (runtime_ + "/tapwire").c_str()), 0);
  auto record = UsernsRecord::Write(Instance(getpid()));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(rmdir((runtime_ + "/elsewhere").c_str()), 0) << "something was written there";
}

TEST_F(UsernsRecordTest, RecordsOfDeadHoldersAreIgnoredAndRemoved) {
  const UsernsInstance instance = Instance(getpid());
  auto record = UsernsRecord::Write(instance);
  ASSERT_TRUE(record.ok()) << record.status();
  const std::string path =
      absl::StrCat(runtime_, "/tapwire/", instance.pid, "-", instance.holder_pid);
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  EndChild();
  EXPECT_THAT(*ListUsernsInstances(), IsEmpty());
  EXPECT_EQ(access(path.c_str(), F_OK), -1);
}

TEST_F(UsernsRecordTest, ReusedPidIsNotTakenForTheHolder) {
  UsernsInstance instance = Instance(getpid());
  --instance.holder_start;
  auto record = UsernsRecord::Write(instance);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_THAT(*ListUsernsInstances(), IsEmpty());
}

TEST_F(UsernsRecordTest, TheOnlyOneIsFoundWithoutPid) {
  const auto nothing = FindUsernsInstance(std::nullopt);
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.status().code(), absl::StatusCode::kNotFound);

  const UsernsInstance instance = Instance(getpid());
  auto record = UsernsRecord::Write(instance);
  ASSERT_TRUE(record.ok()) << record.status();
  for (const std::optional<pid_t> pid :
       {std::optional<pid_t>(), std::optional<pid_t>(getpid()), std::optional<pid_t>(child_)}) {
    const auto found = FindUsernsInstance(pid);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, instance);
  }
  const pid_t other = std::max(getpid(), child_) + 1;  // often the child has the next number
  EXPECT_THAT(std::string(FindUsernsInstance(other).status().message()),
              AllOf(HasSubstr(absl::StrCat("pid ", other)), HasSubstr("tw0")));
}

TEST_F(UsernsRecordTest, SeveralAreListedInTheError) {
  auto first = UsernsRecord::Write(Instance(1001));
  UsernsInstance other = Instance(1002);
  other.tap_name = "tw7";
  auto second = UsernsRecord::Write(other);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto found = FindUsernsInstance(std::nullopt);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(std::string(found.status().message()),
              AllOf(HasSubstr("--pid"), HasSubstr("pid 1001 (TAP tw0, kernel side 10.9.0.1/24"),
                    HasSubstr("pid 1002 (TAP tw7")));
  const auto chosen = FindUsernsInstance(1002);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->tap_name, "tw7");
}

TEST_F(UsernsRecordTest, StartTimeTellsProcessesApart) {
  EXPECT_GT(ProcessStartTime(getpid()), 0u);
  EXPECT_GE(ProcessStartTime(child_), ProcessStartTime(getpid()));
  const pid_t gone = child_;
  EndChild();
  EXPECT_EQ(ProcessStartTime(gone), 0u);
}

}  // namespace
}  // namespace tapwire::drivers
