// SPDX-License-Identifier: Apache-2.0
// `tapwire run` and `tapwire ctl` as a user has them: two processes and a socket.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "apps/ctl/json_text.h"

namespace tapwire::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int RunWords(std::vector<std::string> words) {
  words.insert(words.begin(), "tapwire");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return RunCommandLine(static_cast<int>(argv.size()), argv.data());
}

class CtlCommandTest : public ::testing::Test {
 protected:
  CtlCommandTest() {
    char folder[] = "/tmp/tapwire-ctl-XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    setenv("XDG_RUNTIME_DIR", folder, 1);
  }
  ~CtlCommandTest() override {
    if (pid_ > 0) End();
    rmdir((folder_ + "/tapwire").c_str());
    EXPECT_EQ(rmdir(folder_.c_str()), 0) << "the socket was left behind";
  }
  // Starts `tapwire run` and waits until it is ready.
  void StartRun(std::vector<std::string> words) {
    words.insert(words.begin(), "run");
    int out[2];
    ASSERT_EQ(pipe(out), 0);
    std::fflush(nullptr);
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      close(out[0]);
      close(out[1]);
      const int code = RunWords(words);
      std::fflush(nullptr);
      _exit(code);
    }
    close(out[1]);
    char c = 0;
    while (read(out[0], &c, 1) == 1 && c != '\n') ready_ += c;
    close(out[0]);
    ASSERT_THAT(ready_, HasSubstr("ready: "));
  }
  int End() {
    int status = 0;
    kill(pid_, SIGTERM);
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int Ctl(std::vector<std::string> words) {
    words.insert(words.begin(), "ctl");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = RunWords(words);
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  std::string folder_, ready_, out_, err_;
  pid_t pid_ = 0;
};

const std::vector<std::string> kMacvlans = {"--dad",   "off",
                                            "--net",   "dummy,name=low",
                                            "--net",   "macvlan,lower=low,name=mv0,mode=bridge",
                                            "--net",   "macvlan,lower=low,name=mv1,mode=bridge",
                                            "--addr",  "10.0.0.2/24",
                                            "--addr",  "fd00::2/64",
                                            "--stack", "dev=mv0,addr=10.0.0.1/24,addr=fd00::1/64"};

TEST_F(CtlCommandTest, IpAndEthtoolOfARunningHost) {
  StartRun(kMacvlans);
  EXPECT_THAT(ready_, AllOf(HasSubstr("macvlan mv1 "), HasSubstr(" 10.0.0.2/24 fd00::2/64")));
  EXPECT_EQ(Ctl({"ip", "-br", "addr", "show", "dev", "mv0"}), 0) << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("UP             10.0.0.1/24 "), HasSubstr(" fd00::1/64 ")));
  EXPECT_EQ(Ctl({"ip", "-j", "link"}), 0);
  const auto json = ctl::Json::parse(out_, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_array()) << out_;
  EXPECT_EQ(json.size(), 5u);  // two loopback devices
  EXPECT_EQ(
      Ctl({"--socket", folder_ + "/" + "tapwire/run.sock", "ethtool", "-K", "low", "gro", "off"}),
      0)
      << err_;
  EXPECT_EQ(Ctl({"ethtool", "-k", "mv0"}), 0);
  EXPECT_THAT(out_, HasSubstr("generic-receive-offload: off"));
  EXPECT_EQ(Ctl({"ethtool", "-k", "nosuch"}), 1);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(err_, HasSubstr("netlink error: No such device\n"));
  EXPECT_EQ(Ctl({"ip", "link", "set", "nosuch", "up"}), 1);
  EXPECT_EQ(Ctl({"ip", "link", "add", "link", "low", "name", "mv2", "type", "macvlan"}), 0);
  EXPECT_EQ(Ctl({"ip", "link", "del", "mv2"}), 0);
  EXPECT_EQ(Ctl({"ip", "--help"}), 255);
  EXPECT_EQ(End(), 0);
  EXPECT_EQ(Ctl({"ip", "link"}), 1);
  EXPECT_THAT(err_, HasSubstr("no 'tapwire run' answers there"));
}

TEST_F(CtlCommandTest, RunEndsWhenItsOwnDeviceIsRemoved) {
  StartRun(kMacvlans);
  EXPECT_EQ(Ctl({"ip", "link", "del", "low"}), 0) << err_;
  int status = 0;
  waitpid(std::exchange(pid_, 0), &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(CtlCommandTest, SocketsOfAUsersChoiceMustBeHad) {
  const std::string path = folder_ + "/own.sock";
  std::vector<std::string> words = kMacvlans;
  words.insert(words.end(), {"--ctl", path});
  StartRun(words);
  EXPECT_EQ(Ctl({"--socket", path, "ip", "route"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("10.0.0.0/24 dev mv0 proto kernel scope link src 10.0.0.1 \n"));
  EXPECT_EQ(Ctl({"--socket", path, "ip", "-6", "route"}), 0);
  EXPECT_THAT(out_, HasSubstr("fd00::/64 dev mv1 proto kernel pref medium\n"));
  ::testing::internal::CaptureStderr();
  words.insert(words.begin(), "run");
  EXPECT_EQ(RunWords(words), 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("another process answers there"));
  EXPECT_EQ(End(), 0);
}

}  // namespace
}  // namespace tapwire::apps
