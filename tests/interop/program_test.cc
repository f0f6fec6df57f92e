// SPDX-License-Identifier: Apache-2.0
// The tapwire program against the kernel: what it answers, prints and exits with.

#include "tests/interop/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "drivers/tap/userns_record.h"
#include "tests/interop/exchange.h"
#include "tests/interop/kernel_side.h"
#include "tests/interop/lab.h"
#include "tests/interop/verdict.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using testutil::Command;
using testutil::CommandResult;
using testutil::Pattern;
using testutil::TempFile;
using Words = std::vector<std::string>;

Words Join(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words kStackAddresses = {"--addr", "10.9.0.2/24", "--addr", "fd00:9::2/64", "--dad", "off"};

Words RunFlags(const std::string& node, const Words& more = {}) {
  return Join(Join(Join({"run"}, NetFlags(node)), kStackAddresses), more);
}

template <typename Done>
bool WaitUntil(Done done, Duration limit = seconds(10)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

class InteropProgramTest : public testutil::NetnsFixture {
 protected:
  CommandResult RunTapwire(const Words& arguments) { return Run(Tapwire(arguments)); }
  CommandResult PingTo(const std::string& target, const Words& more = {}) {
    return RunTapwire(
        Join(Join(Join({"ping"}, NetFlags(tun_node())), kStackAddresses), Join(more, {target})));
  }
};

// One datagram to the program's echo service and back.
void ExpectEcho(IpFamily family, size_t size) {
  KernelUdp client(family);
  const ByteVector data = Pattern(size);
  std::optional<KernelUdp::Received> reply;
  // Sent again where the kernel has not taken note of a new carrier yet.
  for (int attempt = 0; attempt < 5 && !reply.has_value(); ++attempt) {
    ASSERT_EQ(client.Send(data, Endpoint{StackAddress(family), kEchoPort, 0}), 0);
    (void)WaitUntil([&] { return (reply = client.Receive()).has_value(); }, seconds(2));
  }
  ASSERT_TRUE(reply.has_value()) << size;
  EXPECT_EQ(reply->data, data);
}

// ---- run ----

TEST_F(InteropProgramTest, RunAnswersUntilItIsInterrupted) {
  const TempFile pcap(".pcapng");
  Command run(Tapwire(RunFlags(tun_node(), {"--echo", "7", "--stats", "--pcap", pcap.path()})));
  ASSERT_TRUE(run.WaitForOutput("ready: tap tw0 mac ")) << run.output();
  ASSERT_TRUE(run.WaitForOutput("echo 7/udp\n")) << run.output();
  for (const char* target : {"10.9.0.2", "fd00:9::2"}) {
    const CommandResult ping = Run({"ping", "-n", "-c2", "-i0.01", "-w5", target});
    EXPECT_EQ(ping.exit_code, 0) << ping.output;
  }
  ExpectEcho(IpFamily::kV4, 65'507);
  ExpectEcho(IpFamily::kV6, 1'000);
  // A broadcast that claims to be from the stack itself.
  const ByteVector spoofed = testutil::Frame()
                                 .Eth(kKernelMac, MacAddress::kBroadcast())
                                 .Ipv4({.source = kStack4, .destination = {10, 9, 0, 255}})
                                 .Udp({.source_port = 1, .destination_port = 7})
                                 .Build();
  ASSERT_EQ(RawFrameSocket(kTapName).Send(spoofed), 0);

  run.Signal(SIGUSR1);  // statistics, and on it goes
  EXPECT_TRUE(run.WaitForOutput("IpInReceives ")) << run.output();
  const size_t before = run.output().size();
  run.Signal(SIGINT);
  const CommandResult result = run.Wait();
  EXPECT_EQ(result.exit_code, 0);
  const std::string end = result.output.substr(before);
  EXPECT_THAT(end, HasSubstr("echo: 2 datagrams, 66507 bytes, 0 send errors\n"));
  EXPECT_THAT(end, HasSubstr("drop.ipv4_source_own"));
  for (const char* counter : {"tw0.rx_packets", "tw0.tx_packets", "IcmpInEchos", "Icmp6InEchos",
                              "UdpInDatagrams", "Udp6InDatagrams", "IpReasmOKs", "IpFragCreates"}) {
    EXPECT_THAT(end, HasSubstr(absl::StrCat("\n", counter, " "))) << end;
  }
  const CaptureVerdict verdict = JudgeCapture(pcap.path());
  EXPECT_EQ(verdict.complaints, "");
  EXPECT_GT(verdict.good_checksums, 0u);
}

// Interrupted twice, or by SIGTERM, with a TAP that somebody removes: it always ends.
TEST_F(InteropProgramTest, RunEndsBySigterm) {
  Command run(Tapwire(RunFlags(tun_node())));
  ASSERT_TRUE(run.WaitForOutput("ready: ")) << run.output();
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait().exit_code, 0);
  // The TAP was the program's own, and went with it.
  EXPECT_NE(Run({"ip", "link", "show", "dev", kTapName}).exit_code, 0);
}

TEST_F(InteropProgramTest, ClosedTcpPortsRefuse) {
  Command program(Tapwire(RunFlags(tun_node())));
  ASSERT_TRUE(program.WaitForOutput("ready:")) << program.output();
  for (const char* target : {"TCP4:10.9.0.2:9", "TCP6:[fd00:9::2]:9"}) {
    const CommandResult client = Run({"socat", "-u", "/dev/null", target});
    EXPECT_EQ(client.exit_code, 1);
    EXPECT_THAT(client.output, HasSubstr("Connection refused")) << target;
  }
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait().exit_code, 0);
}

// Covers: bug:B94
TEST_F(InteropProgramTest, RunSaysThatItsTapWasRemoved) {
  Command run(Tapwire(RunFlags(tun_node(), {"--echo", "7", "--stats"})));
  ASSERT_TRUE(run.WaitForOutput("ready: ")) << run.output();
  ExpectEcho(IpFamily::kV4, 100);
  Ip(absl::StrCat("link del ", kTapName));
  const CommandResult result = run.Wait();
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("tapwire run: tw0: "));
  EXPECT_THAT(result.output, HasSubstr("the interface was removed while in use"));
  EXPECT_THAT(result.output, HasSubstr("UdpInDatagrams"));  // the statistics come all the same
}

TEST_F(InteropProgramTest, RunRefusesATapThatIsBusyOrAnAddressThatIsTaken) {
  Command first(Tapwire(RunFlags(tun_node())));
  ASSERT_TRUE(first.WaitForOutput("ready: ")) << first.output();
  const CommandResult second = RunTapwire(RunFlags(tun_node()));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.output, HasSubstr("tw0"));
  EXPECT_THAT(second.output, HasSubstr("(16)"));
  first.Signal(SIGINT);
  EXPECT_EQ(first.Wait().exit_code, 0);

  Ip(absl::StrCat("tuntap add dev ", kTapName, " mode tap vnet_hdr"));
  Ip(absl::StrCat("addr add ", kKernel6.ToString(), "/64 dev ", kTapName, " nodad"));
  Ip(absl::StrCat("link set ", kTapName, " up"));
  const CommandResult taken =
      RunTapwire({"run", "--net", absl::StrCat("tap,name=", kTapName, ",dev=", tun_node()),
                  "--addr", absl::StrCat(kKernel6.ToString(), "/64")});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_THAT(taken.output, HasSubstr("--addr fd00:9::1/64: another host on tw0 has this address"));
}

TEST_F(InteropProgramTest, EchoCommandServesOnItsPort) {
  Command echo(
      Tapwire(Join(Join(Join({"echo"}, NetFlags(tun_node())), kStackAddresses), {"-p", "7"})));
  ASSERT_TRUE(echo.WaitForOutput("echo 7/udp\n")) << echo.output();
  ExpectEcho(IpFamily::kV6, 65'527);
  echo.Signal(SIGINT);
  const CommandResult result = echo.Wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("echo: 1 datagrams, 65527 bytes, 0 send errors\n"));
}

// ---- ping ----

TEST_F(InteropProgramTest, PingPrintsWhatPingPrints) {
  const CommandResult v4 = PingTo("10.9.0.1", {"-c", "3", "-i", "0.01"});
  EXPECT_EQ(v4.exit_code, 0);
  EXPECT_THAT(v4.output,
              MatchesRegex("PING 10\\.9\\.0\\.1 \\(10\\.9\\.0\\.1\\) 56\\(84\\) bytes of data\\.\n"
                           "64 bytes from 10\\.9\\.0\\.1: icmp_seq=1 ttl=64 time=[0-9.]+ ms\n"
                           "64 bytes from 10\\.9\\.0\\.1: icmp_seq=2 ttl=64 time=[0-9.]+ ms\n"
                           "64 bytes from 10\\.9\\.0\\.1: icmp_seq=3 ttl=64 time=[0-9.]+ ms\n"
                           "\n"
                           "--- 10\\.9\\.0\\.1 ping statistics ---\n"
                           "3 packets transmitted, 3 received, 0% packet loss, time [0-9]+ms\n"
                           "rtt min/avg/max/mdev = [0-9]+\\.[0-9][0-9][0-9]/[0-9.]+/[0-9.]+/"
                           "[0-9]+\\.[0-9][0-9][0-9] ms\n"));
  const CommandResult v6 = PingTo("fd00:9::1", {"-c", "1", "-s", "65527"});
  EXPECT_EQ(v6.exit_code, 0) << v6.output;
  EXPECT_THAT(v6.output, HasSubstr("65535 bytes from fd00:9::1: icmp_seq=1 ttl=64 time="));
  const CommandResult group = PingTo("ff02::1%tw0", {"-c", "1"});
  EXPECT_EQ(group.exit_code, 0) << group.output;
  // Its link-local address may still be in doubt; then it answers from another one.
  EXPECT_THAT(group.output,
              ContainsRegex("64 bytes from (fe80::[0-9a-f:]+|fd00:9::1): icmp_seq=1 "));
}

TEST_F(InteropProgramTest, PingWithoutReplyExitsWithOne) {
  const CommandResult silent = PingTo("10.9.0.99", {"-c", "2", "-i", "0.1", "-W", "0.2"});
  EXPECT_EQ(silent.exit_code, 1);
  EXPECT_THAT(silent.output,
              HasSubstr("\n2 packets transmitted, 0 received, 100% packet loss, time "));
  EXPECT_THAT(silent.output, Not(HasSubstr("rtt ")));
  // RFC 1122 §2.3.2.2: after three questions in vain.
  const CommandResult unreachable = PingTo("10.9.0.98", {"-c", "1", "-W", "4"});
  EXPECT_EQ(unreachable.exit_code, 1);
  EXPECT_THAT(unreachable.output,
              HasSubstr("From 10.9.0.2 icmp_seq=1 Destination Host Unreachable\n"));
  EXPECT_THAT(unreachable.output, HasSubstr("0 received, +1 errors, 100% packet loss"));
}

TEST_F(InteropProgramTest, PingThatCannotStartExitsWithTwo) {
  const CommandResult no_route = PingTo("192.0.2.1", {"-c", "1"});
  EXPECT_EQ(no_route.exit_code, 2);
  EXPECT_THAT(no_route.output, HasSubstr("tapwire ping: "));
  EXPECT_THAT(no_route.output, HasSubstr("192.0.2.1"));
  const CommandResult no_node =
      RunTapwire({"ping", "--net", "tap,dev=/nonexistent/tun", "10.9.0.1"});
  EXPECT_EQ(no_node.exit_code, 2);
  EXPECT_THAT(no_node.output, AllOf(HasSubstr("/nonexistent/tun"), HasSubstr("(2)")));
  EXPECT_EQ(RunTapwire({"ping", "not-an-address"}).exit_code, 2);
}

TEST_F(InteropProgramTest, InterruptedPingPrintsItsSummary) {
  Command ping(Tapwire(Join(Join(Join({"ping"}, NetFlags(tun_node())), kStackAddresses),
                            {"-i", "0.05", "10.9.0.1"})));
  ASSERT_TRUE(ping.WaitForOutput("icmp_seq=3 ")) << ping.output();
  ping.Signal(SIGQUIT);
  EXPECT_TRUE(ping.WaitForOutput(" packets, 0% loss, min/avg/max/mdev = ")) << ping.output();
  ping.Signal(SIGINT);
  const CommandResult result = ping.Wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("--- 10.9.0.1 ping statistics ---\n"));
}

// ---- pcap check ----

TEST_F(InteropProgramTest, PcapCheckFindsWhatIsDamaged) {
  constexpr char kMark[] = "find me in the capture file";
  auto lab = Lab::Create({.node = tun_node()});
  ASSERT_TRUE(lab.ok()) << lab.status();
  StackPingsKernel(**lab);
  KernelUdp client(IpFamily::kV4);
  const std::string mark = kMark;
  const ByteVector data(mark.begin(), mark.end());
  ASSERT_EQ(client.Send(data, Endpoint{kStack4, kEchoPort, 0}), 0);
  ASSERT_TRUE((*lab)->RunUntil([&] { return client.Receive().has_value(); }));
  const std::string path = (*lab)->FlushCapture();
  const CommandResult good = RunTapwire({"pcap", "check", "--mtu", "1500", path});
  EXPECT_EQ(good.exit_code, 0) << good.output;

  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const size_t at = bytes.find(mark);
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 0x20;
  const TempFile damaged(".pcapng");
  std::ofstream(damaged.path(), std::ios::binary) << bytes;
  const CommandResult bad = RunTapwire({"pcap", "check", damaged.path()});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.output, HasSubstr(": error: checksum: "));
  EXPECT_THAT(JudgeCapture(damaged.path()).complaints, HasSubstr("tshark: "));  // both see it
  EXPECT_EQ(RunTapwire({"pcap", "check", "/nonexistent.pcapng"}).exit_code, 1);
}

// ---- --userns ----

// A directory of this user alone for the records of namespaces, so that other tests that run at the
// same time are not found.
class PrivateRuntimeDir {
 public:
  PrivateRuntimeDir() {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
    setenv("XDG_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~PrivateRuntimeDir() {
    unsetenv("XDG_RUNTIME_DIR");
    rmdir((path_ + "/tapwire").c_str());
    rmdir(path_.c_str());
  }

 private:
  std::string path_ = "/tmp/tapwire-run-XXXXXX";
};

// Whether the process has ended; one that nobody has waited for yet counts as ended.
bool HasEnded(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  if (!std::getline(file, stat)) return true;
  // "PID (name) STATE …"
  return absl::StartsWith(stat.substr(stat.rfind(')') + 1), " Z");
}

void RunInUserns(const std::string& node) {
  const PrivateRuntimeDir runtime_dir;
  const Words flags = Join(Join(Join({"run", "--userns"}, NetFlags(node)), kStackAddresses),
                           {"--echo", "7", "--stats"});
  const auto exec = [](const Words& more) {
    return Command(Tapwire(Join({"userns-exec"}, more))).Wait();
  };
  EXPECT_EQ(exec({"--", "true"}).exit_code, 1);  // nobody to join yet

  Command first(Tapwire(flags));
  ASSERT_TRUE(first.WaitForOutput("ready: ")) << first.output();
  for (const char* target : {"10.9.0.2", "fd00:9::2"}) {
    const CommandResult ping = exec({"--", "ping", "-n", "-c1", "-w5", target});
    EXPECT_EQ(ping.exit_code, 0) << ping.output;
  }
  // Its exit code and arguments pass through.
  EXPECT_EQ(exec({"--", "sh", "-c", "exit 7"}).exit_code, 7);
  EXPECT_EQ(exec({"--", "no-such-program"}).exit_code, 127);
  // The kernel's end is in there and nowhere else.
  EXPECT_EQ(exec({"--", "ip", "link", "show", "dev", kTapName}).exit_code, 0);
  EXPECT_NE(Command({"ip", "link", "show", "dev", kTapName}).Wait().exit_code, 0);

  Command second(Tapwire(flags));
  ASSERT_TRUE(second.WaitForOutput("ready: ")) << second.output();
  const CommandResult ambiguous = exec({"--", "true"});
  EXPECT_EQ(ambiguous.exit_code, 1);
  for (const Command* command : {&first, &second}) {
    EXPECT_THAT(ambiguous.output, HasSubstr(absl::StrCat(command->pid())));
  }
  const Words by_pid = {"--pid", absl::StrCat(second.pid()), "--"};
  const CommandResult chosen = exec(Join(by_pid, {"ping", "-n", "-c1", "-w5", "10.9.0.2"}));
  EXPECT_EQ(chosen.exit_code, 0) << chosen.output;

  // The namespace does not outlive a process that had no time to clean up.
  const auto instance = drivers::FindUsernsInstance(first.pid());
  ASSERT_TRUE(instance.ok()) << instance.status();
  EXPECT_FALSE(HasEnded(instance->holder_pid));
  first.Signal(SIGKILL);
  first.Wait();
  EXPECT_TRUE(WaitUntil([&] { return HasEnded(instance->holder_pid); }));
  EXPECT_EQ(exec({"--", "true"}).exit_code, 0);  // the only one again

  const auto other = drivers::FindUsernsInstance(second.pid());
  ASSERT_TRUE(other.ok()) << other.status();
  second.Signal(SIGINT);
  EXPECT_EQ(second.Wait().exit_code, 0) << second.output();
  EXPECT_TRUE(WaitUntil([&] { return HasEnded(other->holder_pid); }));
}

TEST_F(InteropProgramTest, UserNamespaceNeedsNoPrivilege) {
  auto node = testutil::TunNode::Find(/*for_everybody=*/true);
  if (!node.ok()) {
    TW_SKIP_WITHOUT_TAP(node.status().message());
  }
  (void)Tapwire({});  // opened while we may
  testutil::RunAsUser(testutil::kNobody, [&] { RunInUserns((*node)->path()); });
}

// A persistent TAP that belongs to the user: no capability, no namespace.
TEST_F(InteropProgramTest, TapOfAUserNeedsNoPrivilege) {
  auto node = testutil::TunNode::Find(/*for_everybody=*/true);
  if (!node.ok()) {
    TW_SKIP_WITHOUT_TAP(node.status().message());
  }
  const CommandResult made = Run({"ip", "tuntap", "add", "dev", kTapName, "mode", "tap", "vnet_hdr",
                                  "user", absl::StrCat(testutil::kNobody)});
  if (!made.ok()) {  // where that user does not exist: in a user namespace of one user
    TW_SKIP_WITHOUT_TAP(made.output);
  }
  ASSERT_TRUE(WriteSysctl(absl::StrCat("ipv6/conf/", kTapName, "/accept_dad"), "0").ok());
  ASSERT_TRUE(IpBatch({absl::StrCat("addr add 10.9.0.1/24 dev ", kTapName),
                       absl::StrCat("addr add fd00:9::1/64 dev ", kTapName, " nodad"),
                       absl::StrCat("link set ", kTapName, " up")})
                  .ok());
  (void)Tapwire({});
  testutil::RunAsUser(testutil::kNobody, [&] {
    const Words net = {"--net", absl::StrCat("tap,name=", kTapName, ",dev=", (*node)->path())};
    Command run(Tapwire(Join(Join(Join({"run"}, net), kStackAddresses), {"--echo", "7"})));
    ASSERT_TRUE(run.WaitForOutput("ready: ")) << run.output();
    ExpectEcho(IpFamily::kV4, 10'000);
    ExpectEcho(IpFamily::kV6, 10'000);
    run.Signal(SIGINT);
    EXPECT_EQ(run.Wait().exit_code, 0) << run.output();
  });
  Ip(absl::StrCat("link show dev ", kTapName));  // still there
}

}  // namespace
}  // namespace tapwire::interop
