// SPDX-License-Identifier: Apache-2.0
// The program as a whole, in process: exit codes, which stream, and pings over the veth pair that
// needs neither TAP nor privilege.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "apps/command.h"
#include "tests/testutil/tshark.h"

namespace tapwire::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int exit_code = -1;
  std::string out;  // standard output
  std::string err;  // standard error
};

// A control socket of its own for each run of the tests, wherever they run side by side.
const bool kOwnRuntimeFolder = [] {
  static char folder[] = "/tmp/tapwire-test-XXXXXX";
  const bool made = mkdtemp(folder) != nullptr && setenv("XDG_RUNTIME_DIR", folder, 1) == 0;
  std::atexit([] {
    rmdir((std::string(folder) + "/tapwire").c_str());
    rmdir(folder);
  });
  return made;
}();

Outcome RunProgram(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tapwire");
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  Outcome outcome;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  outcome.exit_code = RunCommandLine(static_cast<int>(argv.size()), argv.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

const std::vector<std::vector<std::string>>& Commands() {
  static const auto* commands = new std::vector<std::vector<std::string>>{
      {}, {"ping"}, {"echo"}, {"run"}, {"userns-exec"}, {"ctl"}, {"pcap"}, {"pcap", "check"}};
  return *commands;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

// ---- Help and version ----

TEST(CommandLineTest, HelpGoesToStandardOutput) {
  for (std::vector<std::string> command : Commands()) {
    SCOPED_TRACE(Joined(command));
    command.push_back("--help");
    const Outcome outcome = RunProgram(command);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Usage: "));
    EXPECT_THAT(outcome.err, IsEmpty());
  }
}

TEST(CommandLineTest, HelpListsTheCommandsAndTheSharedFlags) {
  const std::string all = RunProgram({"--help"}).out;
  for (const char* name : {"ping", "echo", "run", "userns-exec", "pcap"}) {
    EXPECT_THAT(all, HasSubstr(std::string("\n  ") + name + " "));
  }
  for (const char* command : {"ping", "echo", "run"}) {
    const std::string help = RunProgram({command, "--help"}).out;
    for (const char* flag :
         {"--net", "--addr", "--gateway", "--pcap", "--userns", "--stats", "--dad"}) {
      EXPECT_THAT(help, HasSubstr(flag)) << command;
    }
  }
}

TEST(CommandLineTest, VersionGoesToStandardOutput) {
  for (const char* flag : {"--version", "-V"}) {
    const Outcome outcome = RunProgram({flag});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, MatchesRegex("tapwire [0-9]+\\.[0-9]+\\.[0-9]+\n"));
    EXPECT_THAT(outcome.err, IsEmpty());
  }
}

// ---- Bad usage ----

TEST(CommandLineTest, BadUsageIsOneLineOnStandardErrorAndTwo) {
  const std::vector<std::vector<std::string>> bad = {
      {},
      {"frobnicate"},
      {"--frobnicate"},
      {"ping"},
      {"ping", "--net", "veth"},
      {"ping", "--frobnicate", "10.9.0.1"},
      {"ping", "-c", "0", "10.9.0.1"},
      {"ping", "-c", "many", "10.9.0.1"},
      {"ping", "-s", "65528", "10.9.0.1"},
      {"ping", "-t", "256", "10.9.0.1"},
      {"ping", "-i", "0", "10.9.0.1"},
      {"ping", "-i", "nan", "10.9.0.1"},
      {"ping", "-i", "-1", "10.9.0.1"},
      {"ping", "-W", "NaN", "10.9.0.1"},
      {"ping", "-W", "inf", "10.9.0.1"},
      {"ping", "-w", "-nan", "10.9.0.1"},
      {"ping", "-w", "-0.5", "10.9.0.1"},
      {"ping", "-M", "maybe", "10.9.0.1"},
      {"ping", "10.9.0.1", "10.9.0.2"},
      {"ping", "--net", "veth", "example.org"},
      {"ping", "--net", "veth", "-6", "10.9.0.1"},
      {"ping", "--net", "veth", "-4", "fd00:9::1"},
      {"ping", "--net", "veth", "fe80::1%eth9"},
      {"ping", "--net", "bridge", "10.9.0.1"},
      {"ping", "--addr"},
      {"echo", "-p", "0"},
      {"echo", "--port", "65536"},
      {"echo", "surplus"},
      {"run", "--echo", "0"},
      {"run", "--busy-poll", "-1"},
      {"run", "--busy-poll", "1000001"},
      {"run", "--busy-poll", "5ms"},
      {"run", "--net", "tap,mtu=1"},
      {"run", "--net", "veth", "--addr", "10.9.0.2"},
      {"run", "--net", "veth", "--addr", "224.0.0.1/24"},
      {"run", "--net", "veth", "--gateway", "10.99.0.1"},
      {"run", "--net", "tap,fd=7", "--userns"},
      {"run", "--net", "tap,name=sixteen-bytes-xx"},
      {"run", "--net", "tap,name=a\nb"},
      {"run", "--net", "veth", "--addr", "10.9.0.2/24", "--addr", "10.9.0.2/24"},
      {"run", "--net", "veth,mtu=1000", "--addr", "fd00:9::2/64"},
      {"run", "--net", "veth", "--gateway", "10.9.0.255"},
      {"run", "--net", "veth", "--gateway", "10.9.0.1", "--gateway", "10.9.0.3"},
      {"run", "--net", "veth", "--pcap", ""},
      {"run", "--net", "veth", "--stats=5"},
      {"run", "--net", "veth\n\x1b[2J"},
      {"run", "--net", "macvlan,lower=low"},
      {"run", "--net", "dummy,name=low", "--on", "high"},
      {"run", "--net", "dummy,name=low", "--stack", "dev=high"},
      {"run", "--net", "dummy,name=low", "--ctl", "/nonexistent-folder/" + std::string(200, 'x')},
      {"ctl"},
      {"ctl", "--socket", "", "ip", "link"},
      {"ctl", "--socket"},
      {"one\ntwo"},
      {"userns-exec"},
      {"userns-exec", "--pid", "0", "--", "true"},
      {"pcap"},
      {"pcap", "check"},
      {"pcap", "check", "--mtu", "10", "file"},
      {"pcap", "frobnicate"},
      {"lab", "frobnicate"},
  };
  for (const std::vector<std::string>& arguments : bad) {
    SCOPED_TRACE(Joined(arguments));
    const Outcome outcome = RunProgram(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, StartsWith("tapwire"));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_EQ(outcome.err.back(), '\n');
  }
}

TEST(CommandLineTest, BadUsageSaysWhatToDo) {
  EXPECT_THAT(RunProgram({"ping"}).err,
              AllOf(HasSubstr("target"), HasSubstr("(see 'tapwire ping --help')")));
  EXPECT_THAT(RunProgram({"ping", "--frob", "10.9.0.1"}).err, HasSubstr("--frob"));
  EXPECT_THAT(RunProgram({"ping", "-s", "65528", "10.9.0.1"}).err,
              AllOf(HasSubstr("-s"), HasSubstr("65527")));
  EXPECT_THAT(RunProgram({"run", "--net", "tap,mtu=1"}).err,
              HasSubstr("tapwire run: --net tap,mtu=1: '1' is not a number from 68 to 65521"));
  EXPECT_THAT(RunProgram({"run", "--net", "veth", "--gateway", "10.99.0.1"}).err,
              HasSubstr("--gateway 10.99.0.1: "));
  EXPECT_THAT(RunProgram({"lab", "frobnicate"}).err,
              HasSubstr("unknown command 'frobnicate' (see 'tapwire lab --help')"));
  EXPECT_THAT(RunProgram({"lab", "macvlan-rx", "--pairs", "0"}).err,
              HasSubstr("(see 'tapwire lab macvlan-rx --help')"));
  EXPECT_THAT(RunProgram({"lab"}).err, Not(HasSubstr("unknown")));
}

// ---- ping over veth ----

TEST(CommandLineTest, PingOverVethPrintsWhatPingPrints) {
  const Outcome v4 = RunProgram({"ping", "--net", "veth", "-c", "2", "-i", "0.001", "10.9.0.1"});
  EXPECT_EQ(v4.exit_code, 0);
  EXPECT_THAT(v4.err, IsEmpty());
  EXPECT_THAT(v4.out,
              MatchesRegex("PING 10\\.9\\.0\\.1 \\(10\\.9\\.0\\.1\\) 56\\(84\\) bytes of data\\.\n"
                           "64 bytes from 10\\.9\\.0\\.1: icmp_seq=1 ttl=64 time=[0-9.]+ ms\n"
                           "64 bytes from 10\\.9\\.0\\.1: icmp_seq=2 ttl=64 time=[0-9.]+ ms\n"
                           "\n--- 10\\.9\\.0\\.1 ping statistics ---\n"
                           "2 packets transmitted, 2 received, 0% packet loss, time [0-9]+ms\n"
                           "rtt min/avg/max/mdev = [0-9.]+/[0-9.]+/[0-9.]+/[0-9.]+ ms\n"));
  const Outcome v6 = RunProgram(
      {"ping", "--net", "veth", "--dad", "off", "-c", "1", "-q", "-s", "65527", "fd00:9::1"});
  EXPECT_EQ(v6.exit_code, 0);
  EXPECT_THAT(v6.out, AllOf(HasSubstr("1 received, 0% packet loss"), Not(HasSubstr("bytes from"))));
}

TEST(CommandLineTest, PingSaysWhatWentWrong) {
  const std::vector<std::string> ping = {"ping", "--net", "veth", "--dad", "off", "-c", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), ping.begin(), ping.end());
    return RunProgram(more);
  };
  const Outcome silent = with({"-W", "0.1", "10.9.0.77"});
  EXPECT_EQ(silent.exit_code, 1);
  EXPECT_THAT(silent.out, HasSubstr("1 packets transmitted, 0 received, 100% packet loss"));
  // From the first request to the last, as ping has it.
  const Outcome twice =
      RunProgram({"ping", "--net", "veth", "-c", "2", "-i", "0.2", "-W", "0.1", "10.9.0.77"});
  EXPECT_THAT(twice.out, MatchesRegex("(.|\n)*time [2-9][0-9][0-9]ms(.|\n)*"));
  const Outcome no_route = with({"192.0.2.1"});
  EXPECT_EQ(no_route.exit_code, 2);
  EXPECT_THAT(no_route.err, AllOf(HasSubstr("tapwire ping: "), HasSubstr("192.0.2.1")));
  const Outcome too_big = with({"-M", "do", "-s", "2000", "10.9.0.1"});
  EXPECT_EQ(too_big.exit_code, 2);
  EXPECT_THAT(too_big.err, HasSubstr("Message too long"));
}

TEST(CommandLineTest, PingToALinkLocalAddressNeedsNoZone) {
  // Whoever answers to ff02::1 is asked again by its own address.
  const Outcome group = RunProgram({"ping", "--net", "veth", "--dad", "off", "-c", "1", "ff02::1"});
  ASSERT_EQ(group.exit_code, 0) << group.err;
  const size_t at = group.out.find("bytes from fe80::");
  ASSERT_NE(at, std::string::npos) << group.out;
  EXPECT_THAT(group.out, HasSubstr("icmp_seq=1"));
}

// RFC 8200 §5: below 1280 bytes there is IPv4 only.
TEST(CommandLineTest, PingOverVethWithASmallMtu) {
  const std::vector<std::string> ping = {"ping", "--net", "veth,mtu=68", "--dad", "off", "-c", "1"};
  const auto to = [&](const char* target) {
    std::vector<std::string> arguments = ping;
    arguments.push_back(target);
    return RunProgram(arguments);
  };
  const Outcome v4 = to("10.9.0.1");
  EXPECT_EQ(v4.exit_code, 0) << v4.err;
  EXPECT_EQ(to("fd00:9::1").exit_code, 2);
}

// Sends a signal to this process once the loop can be expected to run.
class SignalLater {
 public:
  SignalLater(int signal_number, std::chrono::milliseconds after)
      : thread_([=] {
          std::this_thread::sleep_for(after);
          kill(getpid(), signal_number);
        }) {}
  ~SignalLater() { thread_.join(); }

 private:
  std::thread thread_;
};

// ---- Lost output ----

TEST(CommandLineTest, CaptureThatIsFullIsSaidOnceAndWhenItHappens) {
  Outcome outcome;
  {
    const SignalLater interrupt(SIGINT, std::chrono::milliseconds(500));
    outcome = RunProgram({"run", "--net", "veth", "--pcap", "/dev/full"});
  }
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "tapwire: cannot write to the capture file '/dev/full': No space left on device; the "
            "capture ends here\n");
}

// ---- run ----

TEST(CommandLineTest, RunEndsWithStatisticsWhenInterrupted) {
  const testutil::TempFile pcap(".pcapng");
  Outcome outcome;
  {
    const SignalLater interrupt(SIGINT, std::chrono::milliseconds(500));
    outcome = RunProgram({"run", "--net", "veth,name=v7,mac=02:00:00:00:00:07", "--dad", "off",
                          "--echo", "7", "--stats", "--pcap", pcap.path()});
  }
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("ready: veth v7 mac 02:00:00:00:00:07 mtu 1500 10.9.0.2/24 "
                                      "fd00:9::2/64 "));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr(" echo 7/udp\n"), HasSubstr("echo: 0 datagrams, 0 bytes"),
                    HasSubstr("v7.tx_packets")));
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_EQ(RunProgram({"pcap", "check", "--mtu", "1500", pcap.path()}).exit_code, 0);
}

TEST(CommandLineTest, CaptureThatCannotBeWrittenIsNamed) {
  const Outcome outcome = RunProgram({"run", "--net", "veth", "--pcap", "/nonexistent/out.pcapng"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("tapwire run: "), HasSubstr("/nonexistent/out.pcapng"),
                                 HasSubstr("No such file or directory")));
}

TEST(CommandLineTest, TapThatCannotBeOpenedIsNamed) {
  const Outcome outcome = RunProgram({"run", "--net", "tap,dev=/nonexistent/tun"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("/nonexistent/tun"), HasSubstr("No such file")));
}

// ---- pcap check ----

TEST(CommandLineTest, PcapCheckNamesWhatItCannotRead) {
  const testutil::TempFile file(".pcap");
  std::ofstream(file.path()) << "this is no capture";
  for (const std::string& path : {std::string("/nonexistent.pcap"), file.path()}) {
    const Outcome outcome = RunProgram({"pcap", "check", path});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("tapwire pcap check: "), HasSubstr(path)));
  }
}

// A capture of one good frame, as pcapng; `damage` changes it.
std::string CheckDamaged(const std::function<void(std::vector<uint8_t>&)>& damage, int& exit_code) {
  const testutil::TempFile file(".pcapng");
  const Outcome ping = RunProgram(
      {"ping", "--net", "veth", "--dad", "off", "-c", "1", "--pcap", file.path(), "10.9.0.1"});
  EXPECT_EQ(ping.exit_code, 0) << ping.err;
  std::vector<uint8_t> bytes = file.Read();
  damage(bytes);
  std::ofstream(file.path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const Outcome outcome = RunProgram({"pcap", "check", file.path()});
  exit_code = outcome.exit_code;
  return outcome.out;
}

TEST(CommandLineTest, PcapCheckFailsOnWhatItCannotReadToItsEnd) {
  // Of the last block: type, length, …, length.
  const auto last_block = [](const std::vector<uint8_t>& bytes) {
    const uint8_t* trailer = bytes.data() + bytes.size() - 4;
    return bytes.size() - (trailer[0] | static_cast<size_t>(trailer[1]) << 8);
  };
  using Bytes = std::vector<uint8_t>;
  const std::vector<std::function<void(Bytes&)>> damages = {
      [](Bytes& b) { b.resize(b.size() - 1); },       [](Bytes& b) { b.resize(b.size() - 30); },
      [&](Bytes& b) { b[last_block(b) + 4] = 0; },  // length 0, or another one
      [&](Bytes& b) { b[last_block(b) + 4] = 7; },  // no multiple of four
      [&](Bytes& b) { b[last_block(b) + 7] = 0x7f; },  // huge
      [&](Bytes& b) { b[b.size() - 4] ^= 0x40; },  // trailer differs
      [&](Bytes& b) { b[last_block(b) + 8] = 0x09; },  // of no interface
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    int exit_code = -1;
    const std::string out = CheckDamaged(damages[i], exit_code);
    EXPECT_EQ(exit_code, 1) << i;
    EXPECT_THAT(out, AllOf(HasSubstr("breaks off after frame"),
                           HasSubstr("what follows there was not checked")))
        << i;
  }
  int exit_code = -1;
  CheckDamaged([](Bytes&) {}, exit_code);
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace tapwire::apps
