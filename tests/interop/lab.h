// SPDX-License-Identifier: Apache-2.0
// Lab: a stack on a TAP, and the kernel of this machine at the other end, in the network namespace
// of the calling thread.
//
//   10.9.0.1/24, fd00:9::1/64 [kernel] tw0 ---- TAP ---- tw0 [stack] 10.9.0.2/24, fd00:9::2/64
//
// Both ends run in one thread: the stack moves on only inside RunUntil() and RunFor(), and while a
// program that Run() started is waited for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "apps/capture/checker.h"
#include "apps/udp_echo.h"
#include "drivers/tap/tap_device.h"
#include "netdev/base/random.h"
#include "netdev/capture_tap.h"
#include "netdev/fault_injector.h"
#include "netdev/net_context.h"
#include "netdev/pcapng_writer.h"
#include "stack/sockets/system_environment.h"
#include "stack/sockets/thread_runner.h"
#include "stack/stack.h"
#include "stack/tcp/tcp.h"
#include "tests/testutil/checker_tap.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/tap_fixture.h"
#include "tests/testutil/tshark.h"

namespace tapwire::interop {

inline constexpr char kTapName[] = "tw0";
inline constexpr Ipv4Address kKernel4{10, 9, 0, 1};
inline constexpr Ipv4Address kStack4{10, 9, 0, 2};
inline constexpr Ipv6Address kKernel6 = Ipv6Address::FromGroups({0xfd00, 9, 0, 0, 0, 0, 0, 1});
inline constexpr Ipv6Address kStack6 = Ipv6Address::FromGroups({0xfd00, 9, 0, 0, 0, 0, 0, 2});
inline constexpr MacAddress kKernelMac{0x02, 0, 0, 0x09, 0, 0x01};
inline constexpr MacAddress kStackMac{0x02, 0, 0, 0x09, 0, 0x02};
inline constexpr uint16_t kEchoPort = 7;

inline IpAddress KernelAddress(IpFamily family) {
  return family == IpFamily::kV4 ? IpAddress(kKernel4) : IpAddress(kKernel6);
}
inline IpAddress StackAddress(IpFamily family) {
  return family == IpFamily::kV4 ? IpAddress(kStack4) : IpAddress(kStack6);
}

// Without conflict detection, so that addresses can be used at once.
StackConfig ConfigWithoutDad();

struct LabOptions {
  std::string node = drivers::kDefaultTapNode;
  std::string name = kTapName;
  bool offloads = true;  // false: csum=off,tso=off
  MacAddress mac = kStackMac;
  StackConfig config = ConfigWithoutDad();
  // What the kernel's end is given, as `ip -batch` lines. Empty: kKernelMac, its addresses, and up.
  std::vector<std::string> kernel_lines = {};
  bool echo = true;  // UDP echo on kEchoPort
  tcp::Config tcp = {};
  // Makes the wire bad: between the stack and the TAP. The capture is taken above.
  std::optional<netdev::FaultInjector::Options> faults = {};
  // Frames are judged as they come, by our own checker only, instead of kept for the judges: for
  // long transfers.
  bool judge_at_once = false;
  // The stack's clock stands still unless the test moves it, and its randomness has a fixed seed.
  bool scripted = false;
};

class Lab {
 public:
  // The calling thread must have a namespace of its own and, in it, CAP_NET_ADMIN.
  static absl::StatusOr<std::unique_ptr<Lab>> Create(const LabOptions& options);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  const LabOptions& options() const { return options_; }
  netdev::NetContext& context() { return *context_; }
  Stack& stack() { return *stack_; }
  Interface& interface() { return *interface_; }
  drivers::TapDevice& tap() { return *tap_; }
  ThreadRunner& runner() { return *runner_; }
  FakeClock& clock() { return test_environment_.clock; }  // of a scripted lab

  // Runs the stack until `done`, which is asked between batches. Its last answer.
  bool RunUntil(absl::FunctionRef<bool()> done, Duration limit = std::chrono::seconds(10));
  void RunFor(Duration time);
  // Takes in what the kernel has sent already and does what follows from it, without waiting.
  void RunReady();
  // Runs a program while the stack runs.
  testutil::CommandResult Run(const std::vector<std::string>& argv,
                              testutil::CommandOptions options = {});
  // The same without waiting for its end.
  std::unique_ptr<testutil::Command> Start(const std::vector<std::string>& argv,
                                           testutil::CommandOptions options = {});

  // Everything the device sent and received, checksums completed. Up to date after this call.
  const std::string& FlushCapture();
  // With judge_at_once: what the checker thinks so far.
  const capture::CheckReport& checker_report() const { return checker_.report(); }
  // None without the option.
  netdev::FaultInjector* faults() { return faults_; }

 private:
  explicit Lab(const LabOptions& options);
  absl::Status Open();
  absl::Status SetUpKernel();
  absl::Status AddFaults();
  void StartCapture();
  void Turn();

  LabOptions options_;
  SystemEnvironment system_environment_;
  TestEnvironment test_environment_{20'261'130};
  std::unique_ptr<netdev::NetContext> context_;
  testutil::TempFile capture_file_{".pcapng"};
  std::unique_ptr<netdev::PcapngWriter> writer_;
  std::unique_ptr<netdev::CaptureTap> capture_;
  capture::CaptureChecker checker_;
  std::unique_ptr<testutil::CheckerTap> checker_tap_;
  drivers::TapDevice* tap_ = nullptr;
  netdev::FaultInjector* faults_ = nullptr;
  netdev::NetDevice* device_ = nullptr;  // what the stack stands on
  std::unique_ptr<Stack> stack_;
  Interface* interface_ = nullptr;
  std::unique_ptr<apps::UdpEcho> echo_;
  std::unique_ptr<ThreadRunner> runner_;  // none in a scripted lab
};

}  // namespace tapwire::interop
