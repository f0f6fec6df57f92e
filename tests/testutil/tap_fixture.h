// SPDX-License-Identifier: Apache-2.0
//
// What tests against the kernel of this machine share: network namespaces of their own, a device
// node for TAPs, programs with a time limit, other users. Nothing here touches the namespace the
// test was started in. Works as root and, where user namespaces are allowed, as any user.
//
//   class MyTest : public NetnsFixture { … };
//   TEST_F(MyTest, KernelAnswersPing) {
//     auto tap = TapDevice::Open(context, {.name = "tw0", .device_path = tun_node()});
//     …
//     Ip("addr add 10.9.0.1/24 dev tw0");
//     CommandResult ping = Run({"ping", "-c1", "10.9.0.2"}, {.pump = [&] { runner->RunFor(5ms);
//     }}); EXPECT_TRUE(ping.ok()) << ping.output;
//   }
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tapwire::testutil {

// True if the environment's TAPWIRE_REQUIRE lists `what` ("tap", separated by commas): then a test
// that cannot run has failed.
bool IsRequired(absl::string_view what);

// Leaves the test (a void function): as skipped, or as failed where TAPs are required. `reason`
// names the file and the errno.
#define TW_SKIP_WITHOUT_TAP(reason)                      \
  if (::tapwire::testutil::IsRequired("tap"))            \
    GTEST_FAIL() << "TAPWIRE_REQUIRE=tap: " << (reason); \
  else                                                   \
    GTEST_SKIP() << (reason)

// ---- Programs ----

struct CommandResult {
  int exit_code = -1;      // 127: not found; -1: killed by a signal
  bool timed_out = false;  // and killed for it
  std::string output;      // standard output and error as they came
  bool ok() const { return exit_code == 0; }
};

struct CommandOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(20);
  // Called over and over while the program runs; should take a few milliseconds (run the stack). By
  // default the wait just sleeps.
  std::function<void()> pump = {};
  std::string input = {};  // its standard input
  // Runs in the child before the program: change user, enter a namespace. False gives exit code
  // 126.
  std::function<bool()> prepare = {};
};

// A program running in the namespaces of the thread that started it.
class Command {
 public:
  explicit Command(const std::vector<std::string>& argv, CommandOptions options = {});
  ~Command();  // kills it if it still runs
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Takes in output and looks whether it has ended.
  bool Running();
  // Until it ends, or its time is up.
  CommandResult Wait();
  // Until `text` has appeared in the output (true), it ends or its time is up.
  bool WaitForOutput(absl::string_view text);
  void Signal(int signal_number);
  const std::string& output() const { return result_.output; }
  pid_t pid() const { return pid_; }

 private:
  void TakeOutput();
  bool Turn();

  CommandOptions options_;
  std::chrono::steady_clock::time_point deadline_;
  pid_t pid_ = -1;
  int output_fd_ = -1;
  bool ended_ = false;
  CommandResult result_;
};

// ---- Device nodes ----

// A TUN/TAP node that can be opened: /dev/net/tun, or one made for the occasion.
class TunNode {
 public:
  // `for_everybody`: other users must be able to open it too. The error names what was tried.
  static absl::StatusOr<std::unique_ptr<TunNode>> Find(bool for_everybody);
  ~TunNode();  // removes what was made
  TunNode(const TunNode&) = delete;
  TunNode& operator=(const TunNode&) = delete;
  const std::string& path() const { return path_; }

 private:
  TunNode(std::string path, std::string directory)
      : path_(std::move(path)), directory_(std::move(directory)) {}
  std::string path_;
  std::string directory_;  // ours to remove; empty for /dev/net/tun
};

// ---- Users ----

inline constexpr uid_t kNobody = 65534;

// Runs `body`, assertions and all, in a child process with this uid and gid and no capabilities.
// What it prints is printed; a failed or skipped `body` fails or skips the calling test. Needs root
// (true also as the only user of a user namespace, where other uids do not exist: then it skips).
void RunAsUser(uid_t uid, const std::function<void()>& body);

// ---- Namespaces ----

// Puts each test into a fresh network namespace with only lo, which is up, and finds a node.
class NetnsFixture : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const std::string& tun_node() const { return node_->path(); }

  // Runs a program here. The test goes on whatever comes out.
  CommandResult Run(const std::vector<std::string>& argv, CommandOptions options = {});
  // Runs `ip` with these arguments, separated by spaces; the test fails if it fails.
  std::string Ip(absl::string_view arguments);
  // Writes below /proc/sys/net ("ipv6/conf/tw0/accept_ra"); the test fails if it cannot.
  void Sysctl(absl::string_view name, absl::string_view value);
  // A file of this namespace's /proc/net ("snmp").
  static std::string ProcNet(absl::string_view name);
  // The kernel's counters of bad checksums by name ("UdpInCsumErrors", "Icmp6InCsumErrors", …).
  static std::map<std::string, uint64_t> KernelCsumErrors();
  // A counter of /proc/net/snmp ("Udp", "InDatagrams") or snmp6 ("", "Udp6InDatagrams").
  static uint64_t KernelCounter(absl::string_view group, absl::string_view name);

 private:
  std::unique_ptr<TunNode> node_;
  int original_netns_ = -1;
};

// Moves the calling thread to a new network namespace; without privilege, the process to a new user
// namespace first (once). The error names the call and the errno.
absl::Status EnterNewNetns();

}  // namespace tapwire::testutil
