// SPDX-License-Identifier: Apache-2.0
// The tapwire program where something is missing or in the way: closed descriptors, limits, pipes
// that nobody reads, a TAP with two owners, a helper that dies. It says so in one line, and ends.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "drivers/tap/unique_fd.h"
#include "drivers/tap/userns_record.h"
#include "tests/interop/lab.h"
#include "tests/interop/program.h"

namespace tapwire::interop {
namespace {

using drivers::UniqueFd;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testutil::Command;
using testutil::CommandOptions;
using testutil::CommandResult;
using testutil::TempFile;
using Words = std::vector<std::string>;

Words Join(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kAddress = {"--addr", "10.9.0.2/24", "--dad", "off"};
const Words kVethPing = {"ping", "--net", "veth", "--dad", "off", "-c", "1", "10.9.0.1"};

// Until the pipe takes no more; false after ten seconds.
bool WaitUntilFull(int writer) {
  for (int i = 0; i < 1000; ++i) {
    pollfd state = {.fd = writer, .events = POLLOUT, .revents = 0};
    if (poll(&state, 1, 0) == 0) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

// Whether the process has a handler for the signal.
bool Catches(pid_t pid, int signal_number) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(status, line)) {
    if (!absl::StartsWith(line, "SigCgt:")) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (signal_number - 1) & 1) != 0;
  }
  return false;
}

class ProgramTroubleTest : public testutil::NetnsFixture {
 protected:
  CommandResult RunTapwire(const Words& arguments, CommandOptions options = {}) {
    return Run(Tapwire(arguments), std::move(options));
  }
  // With the shell's redirections behind the command.
  CommandResult RunInShell(const Words& arguments, const std::string& redirections) {
    return Run(
        Join({"sh", "-c", absl::StrCat("exec \"$0\" \"$@\" ", redirections)}, Tapwire(arguments)));
  }
  Words Net(const std::string& options) const {
    return {"--net", absl::StrCat("tap,name=", kTapName, ",dev=", tun_node(), options)};
  }
};

TEST_F(ProgramTroubleTest, StandardDescriptorsMayBeClosed) {
  for (const char* closed : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"}) {
    EXPECT_EQ(RunInShell(kVethPing, closed).exit_code, 0) << closed;
  }
}

TEST_F(ProgramTroubleTest, TooFewDescriptorsAreOneLine) {
  const char* given = std::getenv("TAPWIRE_PROGRAM");
  const std::string program = given == nullptr ? TAPWIRE_PROGRAM : given;
  for (const Words& net : {Words{"--net", "veth"}, Net(",kernel=10.9.0.1/24")}) {
    const Words arguments = Join(Join({program, "run"}, net), kAddress);
    int refused = 0;
    bool ready = false;
    // With fewer the program itself cannot be loaded.
    for (rlim_t limit = 5; !ready && limit < 64; ++limit) {
      CommandOptions options;
      options.prepare = [limit] {
        closefrom(STDERR_FILENO + 1);
        const rlimit both = {limit, limit};
        return setrlimit(RLIMIT_NOFILE, &both) == 0;
      };
      Command command(arguments, options);
      ready = command.WaitForOutput("ready: ");
      if (ready) command.Signal(SIGINT);
      const CommandResult result = command.Wait();
      // Neither the dynamic linker nor a sanitizer that has come to look at memory can go on.
      if (ready || absl::StrContains(result.output, "shared librar") ||
          absl::StrContains(result.output, "runtime error: ")) {
        continue;
      }
      ++refused;
      EXPECT_EQ(result.exit_code, 1) << limit << ": " << result.output;
      EXPECT_THAT(result.output,
                  AllOf(HasSubstr("tapwire run: "), HasSubstr("Too many open files")));
      EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
    }
    EXPECT_TRUE(ready);
    EXPECT_GT(refused, 0);
  }
}

// ---- Signals ----

// Its lines fill a pipe that nobody reads.
TEST_F(ProgramTroubleTest, SecondInterruptEndsAProcessThatIsStuckInAWrite) {
  for (const int signal_number : {SIGINT, SIGTERM}) {
    int pipe_fds[2];
    ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
    const UniqueFd reader(pipe_fds[0]);
    const UniqueFd writer(pipe_fds[1]);
    // One page, full within a second.
    ASSERT_GT(fcntl(writer.get(), F_SETPIPE_SZ, 4096), 0);
    CommandOptions options;
    options.prepare = [&] { return dup2(pipe_fds[1], STDOUT_FILENO) >= 0; };
    Command ping(Tapwire({"ping", "--net", "veth", "--dad", "off", "-i", "0.001", "10.9.0.1"}),
                 options);
    ASSERT_TRUE(WaitUntilFull(writer.get()));
    std::this_thread::sleep_for(milliseconds(300));  // for the last bytes that still go in
    ping.Signal(signal_number);
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_TRUE(ping.Running());
    ping.Signal(signal_number);
    const CommandResult result = ping.Wait();
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 130);
  }
}

TEST_F(ProgramTroubleTest, CaptureIntoAPipeWithoutReaderCanBeInterrupted) {
  const TempFile fifo(".fifo");
  ASSERT_EQ(unlink(fifo.path().c_str()), 0);
  ASSERT_EQ(mkfifo(fifo.path().c_str(), 0600), 0);
  Command run(Tapwire({"run", "--net", "veth", "--pcap", fifo.path()}));
  std::this_thread::sleep_for(milliseconds(300));
  ASSERT_TRUE(run.Running());
  run.Signal(SIGINT);
  EXPECT_FALSE(run.Wait().timed_out);
}

TEST_F(ProgramTroubleTest, StatisticsMayBeAskedForAtAnyTime) {
  for (int i = 0; i < 20; ++i) {
    Command ping(Tapwire(kVethPing));
    while (ping.Running() && !Catches(ping.pid(), SIGUSR1)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    while (ping.Running()) {
      ping.Signal(SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    EXPECT_EQ(ping.Wait().exit_code, 0) << ping.output();
  }
}

// ---- Output ----

TEST_F(ProgramTroubleTest, OutputThatIsLostIsSaid) {
  const std::string says = "tapwire: cannot write to stdout: No space left on device\n";
  for (const Words& arguments : {Words{"--help"}, Words{"-V"}, kVethPing}) {
    const CommandResult result = RunInShell(arguments, ">/dev/full");
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_EQ(result.output, says);
  }
}

// ---- The kernel's side ----

TEST_F(ProgramTroubleTest, SecondProcessOnAMultiQueueTapIsRefused) {
  Command first(Tapwire(Join(Join({"run"}, Net(",queues=2,kernel=10.9.0.1/24")), kAddress)));
  ASSERT_TRUE(first.WaitForOutput("ready: ")) << first.output();
  for (const char* queues : {"", ",queues=2"}) {
    const CommandResult second = RunTapwire(Join(Join({"run"}, Net(queues)), kAddress));
    EXPECT_EQ(second.exit_code, 1);
    EXPECT_THAT(second.output, AllOf(HasSubstr("tw0"), HasSubstr("(16)"), HasSubstr("another")));
  }
  const CommandResult ping = Run({"ping", "-n", "-c1", "-w5", "10.9.0.2"});
  EXPECT_EQ(ping.exit_code, 0) << ping.output;
  first.Signal(SIGINT);
  EXPECT_EQ(first.Wait().exit_code, 0);
}

TEST_F(ProgramTroubleTest, RefusalOfTheKernelHasItsOwnReason) {
  Sysctl("ipv6/conf/default/disable_ipv6", "1");
  const CommandResult result =
      RunTapwire(Join(Join({"run"}, Net(",kernel=fd00:9::1/64")), kAddress));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, AllOf(HasSubstr("disable_ipv6"), Not(HasSubstr("CAP_NET_ADMIN"))));
}

// RFC 4291 §2.6.1: the subnet's address is answered by a router, from an address of its own.
TEST_F(ProgramTroubleTest, ReplyFromAnotherAddressIsMarked) {
  Sysctl("ipv6/conf/all/forwarding", "1");
  const CommandResult ping = RunTapwire(
      Join(Join({"ping"}, Net(",kernel=fd00:9::1/64")),
           {"--addr", "fd00:9::2/64", "--dad", "off", "-c", "1", "-W", "5", "fd00:9::"}));
  EXPECT_EQ(ping.exit_code, 0) << ping.output;
  EXPECT_THAT(ping.output, HasSubstr("64 bytes from fd00:9::1: icmp_seq=1 "));
  EXPECT_THAT(ping.output, HasSubstr(" ms (DIFFERENT ADDRESS!)\n"));
  EXPECT_THAT(ping.output, HasSubstr("1 packets transmitted, 1 received"));
}

TEST_F(ProgramTroubleTest, EndOfTheNamespaceHelperIsSaidOnce) {
  Command run(Tapwire(Join(Join({"run", "--userns"}, Net(",kernel=10.9.0.1/24")), kAddress)));
  ASSERT_TRUE(run.WaitForOutput("ready: ")) << run.output();
  const auto instance = drivers::FindUsernsInstance(run.pid());
  ASSERT_TRUE(instance.ok()) << instance.status();
  const std::string holder = absl::StrCat("(pid ", instance->holder_pid, ") has ended");
  EXPECT_THAT(run.output(), Not(HasSubstr("has ended")));
  ASSERT_EQ(kill(instance->holder_pid, SIGKILL), 0);
  EXPECT_TRUE(run.WaitForOutput(holder)) << run.output();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(run.Running());
  run.Signal(SIGINT);
  const CommandResult result = run.Wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.find(holder), result.output.rfind(holder));
}

}  // namespace
}  // namespace tapwire::interop
