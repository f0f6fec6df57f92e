// SPDX-License-Identifier: Apache-2.0
// `tapwire pkt` as a user sees it: what it prints and how it ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/command.h"

namespace tapwire::apps {
namespace {

using ::testing::HasSubstr;

class PktCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / (std::string("pkt_") + info->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Script(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }

  int RunPkt(std::vector<std::string> args) {
    args.insert(args.begin(), {"tapwire", "pkt"});
    std::vector<const char*> argv;
    for (const std::string& arg : args) argv.push_back(arg.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = RunCommandLine(static_cast<int>(argv.size()), argv.data());
    output_ = testing::internal::GetCapturedStdout();
    errors_ = testing::internal::GetCapturedStderr();
    return code;
  }

  std::filesystem::path folder_;
  std::string output_, errors_;
};

constexpr const char* kGood = "0 socket(..., SOCK_DGRAM, IPPROTO_UDP) = 3\n+0 close(3) = 0\n";
constexpr const char* kBad = "0 socket(..., SOCK_DGRAM, IPPROTO_UDP) = 3\n+0 close(3) = 1\n";
constexpr const char* kNoSuch = "0 splice(1, 2) = 0\n";

TEST_F(PktCommandTest, PassingScriptsEndWithZero) {
  const std::string good = Script("good.pkt", kGood);
  EXPECT_EQ(RunPkt({good, good}), 0);
  EXPECT_EQ(output_, "2 passed, 0 failed, 0 unsupported\n");
  EXPECT_EQ(RunPkt({"-v", good}), 0);
  EXPECT_THAT(output_, HasSubstr("good.pkt: passed"));
}

TEST_F(PktCommandTest, FailuresAreNamedAndEndWithOne) {
  const std::string bad = Script("bad.pkt", kBad);
  EXPECT_EQ(RunPkt({Script("good.pkt", kGood), bad, Script("odd.pkt", kNoSuch)}), 1);
  EXPECT_THAT(output_, HasSubstr(bad + ":2:1: close() gave 0, expected 1\n"));
  EXPECT_THAT(output_, HasSubstr("1 passed, 1 failed, 1 unsupported\n"));
}

TEST_F(PktCommandTest, UnsupportedIsCountedByReasonAndEndsWithThree) {
  const std::string odd = Script("odd.pkt", kNoSuch);
  EXPECT_EQ(RunPkt({odd, odd, Script("good.pkt", kGood)}), 3);
  EXPECT_THAT(output_, HasSubstr(odd + ":1:1: unsupported: system call splice\n"));
  EXPECT_THAT(output_, HasSubstr("1 passed, 0 failed, 2 unsupported\n"
                                 "  unsupported 2: system call splice\n"));
}

TEST_F(PktCommandTest, SyntaxErrorsAreFailures) {
  const std::string bad = Script("bad.pkt", "0 socket(\n");
  EXPECT_EQ(RunPkt({bad}), 1);
  EXPECT_THAT(output_, HasSubstr(bad + ":2:1: "));
  EXPECT_EQ(RunPkt({Script("empty.pkt", "")}), 1);
}

TEST_F(PktCommandTest, BadUsageEndsWithTwo) {
  EXPECT_EQ(RunPkt({}), 2);
  EXPECT_EQ(RunPkt({(folder_ / "none.pkt").string()}), 2);
  EXPECT_THAT(errors_, HasSubstr("cannot read"));
  EXPECT_EQ(RunPkt({folder_.string()}), 2);
  EXPECT_EQ(RunPkt({"--ip-version", "ipv5", Script("good.pkt", kGood)}), 2);
  EXPECT_EQ(RunPkt({"--mtu", "5", Script("good.pkt", kGood)}), 2);
  EXPECT_EQ(RunPkt({"--profile", "bsd", Script("good.pkt", kGood)}), 2);
  EXPECT_EQ(RunPkt({"-D", "novalue", Script("good.pkt", kGood)}), 2);
}

TEST_F(PktCommandTest, DefinesReplaceWords) {
  const std::string script =
      Script("d.pkt", "0 socket(..., SOCK_DGRAM, 0) = FD\n+0 close(FD) = RESULT\n");
  EXPECT_EQ(RunPkt({"-D", "FD=3", "-D", "RESULT=0", script}), 0);
  EXPECT_EQ(RunPkt({"-D", "FD=3", "-D", "RESULT=5", script}), 1);
}

}  // namespace
}  // namespace tapwire::apps
