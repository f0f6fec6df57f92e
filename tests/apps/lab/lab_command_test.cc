// SPDX-License-Identifier: Apache-2.0
// `tapwire lab` as a user sees it, with runs that are too short to tell anything.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "apps/command.h"
#include "nlohmann/json.hpp"

namespace tapwire::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

int RunTapwireLab(std::vector<std::string> args) {
  args.insert(args.begin(), {"tapwire", "lab"});
  std::vector<const char*> argv;
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  return RunCommandLine(static_cast<int>(argv.size()), argv.data());
}

class LabCommandTest : public testing::Test {
 protected:
  int RunLab(std::vector<std::string> args) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = RunTapwireLab(std::move(args));
    output_ = testing::internal::GetCapturedStdout();
    errors_ = testing::internal::GetCapturedStderr();
    return code;
  }
  // What was printed must be one object and nothing else.
  Json Object() const { return Json::parse(output_); }

  std::string output_, errors_;
};

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

void ExpectFigures(const Json& variant) {
  EXPECT_GT(variant["median"].get<double>(), 0);
  EXPECT_LE(variant["min"].get<double>(), variant["median"].get<double>());
  EXPECT_GE(variant["max"].get<double>(), variant["median"].get<double>());
}

const std::vector<std::string> kShort = {"--pairs", "1", "--seconds", "0.05"};
// With the kernel's processes, which on a busy machine take a while to get a CPU.
const std::vector<std::string> kWithKernel = {"--pairs", "1", "--seconds", "0.5"};

std::vector<std::string> With(std::vector<std::string> args, const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Null without root, or where the kernel lacks something.
void ExpectKernel(const Json& kernel) {
  if (kernel.is_null()) return;
  ASSERT_THAT(Keys(kernel), ElementsAre("variants"));
  EXPECT_THAT(Keys(kernel["variants"]), ElementsAre("plain", "gso_max_segs_1", "veth_no_offloads"));
  for (const auto& [name, variant] : kernel["variants"].items()) ExpectFigures(variant);
}

TEST_F(LabCommandTest, FeaturesPrintOneObject) {
  ASSERT_EQ(RunLab(With({"macvlan-features", "--json"}, kWithKernel)), 0) << output_ << errors_;
  const Json object = Object();
  EXPECT_THAT(Keys(object),
              ElementsAre("experiment", "variants", "ratio", "mail", "kernel", "runs"));
  for (const char* name : {"always_on", "inherited", "inherited_late"}) {
    ExpectFigures(object["variants"][name]);
  }
  ExpectKernel(object["kernel"]);
  EXPECT_EQ(object["runs"], 1);
}

TEST_F(LabCommandTest, RxPrintsOneObject) {
  ASSERT_EQ(RunLab(With({"macvlan-rx", "--json", "--flows", "10"}, kWithKernel)), 0)
      << output_ << errors_;
  const Json object = Object();
  EXPECT_THAT(Keys(object),
              ElementsAre("experiment", "variants", "ratio", "mail", "kernel", "runs", "points"));
  ASSERT_EQ(object["points"].size(), 1u);
  EXPECT_EQ(object["points"][0]["n"], 10);
  for (const char* name : {"reinject", "queue"}) {
    ExpectFigures(object["variants"][name]);
    EXPECT_EQ(object["variants"][name], object["points"][0]["variants"][name]);
  }
  ExpectKernel(object["kernel"]);
}

TEST_F(LabCommandTest, RxTableHasEverySource) {
  ASSERT_EQ(RunLab(With({"macvlan-rx", "--no-kernel", "--flows", "2,10"}, kShort)), 0)
      << output_ << errors_;
  EXPECT_THAT(output_, StartsWith("macvlan: optimize the receive path"));
  EXPECT_THAT(output_, HasSubstr("  10   208101   211534"));
  EXPECT_THAT(output_, HasSubstr("The client on another thread"));
  EXPECT_THAT(output_, HasSubstr("behind a TAP"));
  EXPECT_THAT(output_, HasSubstr("The kernel's figures: left out"));
}

TEST_F(LabCommandTest, FeaturesTableNeedsNoPrivilege) {
  ASSERT_EQ(RunLab(With({"macvlan-features", "--no-kernel"}, kShort)), 0) << output_ << errors_;
  EXPECT_THAT(output_, HasSubstr("5507.35"));
  EXPECT_THAT(output_, HasSubstr("1204.61"));
}

TEST_F(LabCommandTest, BadFlagsAreUsageErrors) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"macvlan"},
      {"macvlan-features", "surplus"},
      {"macvlan-features", "--seconds", "0"},
      {"macvlan-features", "--seconds", "nan"},
      {"macvlan-features", "--seconds", "1s"},
      {"macvlan-features", "--seconds", "-1"},
      {"macvlan-features", "--seconds", ""},
      {"macvlan-features", "--pairs", "0"},
      {"macvlan-features", "--pairs", "x"},
      {"macvlan-features", "--full", "--seconds", "1"},
      {"macvlan-features", "--json=yes"},
      {"macvlan-features", "--flows", "10"},
      {"macvlan-rx", "--flows", "0"},
      {"macvlan-rx", "--flows", "1001"},
      {"macvlan-rx", "--flows", "10,x"},
      {"macvlan-rx", "--flows"},
  };
  for (const std::vector<std::string>& args : bad) {
    EXPECT_EQ(RunLab(args), 2) << testing::PrintToString(args);
    EXPECT_THAT(errors_, StartsWith("tapwire: "));
    EXPECT_EQ(output_, "");
  }
}

TEST_F(LabCommandTest, HelpNamesBothLabs) {
  EXPECT_EQ(RunLab({"--help"}), 0);
  EXPECT_THAT(output_, HasSubstr("macvlan-features"));
  EXPECT_THAT(output_, HasSubstr("macvlan-rx"));
}

// An object also then, and exit code 1; no process stays behind.
TEST_F(LabCommandTest, InterruptedLabSaysSo) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    dup2(fds[1], STDOUT_FILENO);
    close(fds[0]);
    close(fds[1]);
    signal(SIGINT, SIG_IGN);  // until the lab listens
    const int code = RunTapwireLab({"macvlan-features", "--json", "--seconds", "100"});
    std::fflush(stdout);
    _exit(code);
  }
  close(fds[1]);
  int status = 0;
  for (int i = 0; i < 200 && waitpid(pid, &status, WNOHANG) == 0; ++i) {
    // A second signal within two seconds would end it at once.
    if (i % 20 == 5) kill(pid, SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  std::string said(1000, '\0');
  const ssize_t n = read(fds[0], said.data(), said.size());  // 0 once every process has gone
  said.resize(n > 0 ? static_cast<size_t>(n) : 0);
  EXPECT_EQ(Json::parse(said)["error"], "interrupted");
  char rest;
  EXPECT_EQ(read(fds[0], &rest, 1), 0);
  close(fds[0]);
}

}  // namespace
}  // namespace tapwire::apps
