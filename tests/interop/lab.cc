// SPDX-License-Identifier: Apache-2.0
#include "tests/interop/lab.h"

#include <poll.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/poll.h"
#include "netdev/registry.h"
#include "stack/udp/udp.h"
#include "tests/interop/kernel_side.h"

namespace tapwire::interop {
namespace {

using std::chrono::milliseconds;

// How long the stack may sleep while the kernel's end is looked at by the test itself.
constexpr Duration kSlice = milliseconds(1);

Duration WallClockOffset(netdev::NetContext& context) {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Duration>(wall) - context.RefreshNow().time_since_epoch();
}

}  // namespace

StackConfig ConfigWithoutDad() {
  StackConfig config;
  config.duplicate_address_detection = false;
  return config;
}

Lab::Lab(const LabOptions& options) : options_(options) {
  context_ = std::make_unique<netdev::NetContext>(
      options.scripted ? test_environment_.environment() : system_environment_.environment());
}

Lab::~Lab() = default;

absl::StatusOr<std::unique_ptr<Lab>> Lab::Create(const LabOptions& options) {
  std::unique_ptr<Lab> lab(new Lab(options));
  TW_RETURN_IF_ERROR(lab->Open());
  return lab;
}

absl::Status Lab::Open() {
  TW_ASSIGN_OR_RETURN(std::unique_ptr<drivers::TapDevice> tap,
                      drivers::TapDevice::Open(*context_, {.name = options_.name,
                                                           .device_path = options_.node,
                                                           .mac = options_.mac,
                                                           .csum = options_.offloads,
                                                           .tso = options_.offloads}));
  TW_RETURN_IF_ERROR(SetUpKernel());
  TW_ASSIGN_OR_RETURN(tap_, context_->registry().Register(std::move(tap)));
  device_ = tap_;
  TW_RETURN_IF_ERROR(AddFaults());
  StartCapture();
  stack_ = std::make_unique<Stack>(*context_, options_.config);
  Udp::Install(*stack_);
  tcp::Tcp::Install(*stack_, options_.tcp);
  TW_ASSIGN_OR_RETURN(interface_, stack_->AddInterface(*device_));
  TW_RETURN_IF_ERROR(device_->Up());
  TW_RETURN_IF_ERROR(interface_->AddAddress({kStack4, 24}));
  TW_RETURN_IF_ERROR(interface_->AddAddress({kStack6, 64}));
  if (options_.echo) {
    TW_ASSIGN_OR_RETURN(echo_, apps::UdpEcho::Start(*stack_, kEchoPort));
  }
  if (!options_.scripted) {
    TW_ASSIGN_OR_RETURN(runner_, ThreadRunner::Create(context_.get()));
  }
  return absl::OkStatus();
}

// Kernel addresses without conflict detection of their own, and no router solicitations that nobody
// would answer.
absl::Status Lab::SetUpKernel() {
  const std::string& dev = options_.name;
  for (const char* name : {"accept_ra", "accept_dad", "router_solicitations"}) {
    TW_RETURN_IF_ERROR(WriteSysctl(absl::StrCat("ipv6/conf/", dev, "/", name), "0"));
  }
  if (!options_.kernel_lines.empty()) return IpBatch(options_.kernel_lines);
  return IpBatch({absl::StrCat("link set ", dev, " address ", kKernelMac.ToString()),
                  absl::StrCat("addr add ", kKernel4.ToString(), "/24 dev ", dev),
                  absl::StrCat("addr add ", kKernel6.ToString(), "/64 dev ", dev, " nodad"),
                  absl::StrCat("link set ", dev, " up")});
}

absl::Status Lab::AddFaults() {
  if (!options_.faults) return absl::OkStatus();
  TW_ASSIGN_OR_RETURN(faults_, netdev::FaultInjector::Create(*context_, *tap_, *options_.faults));
  device_ = faults_;
  return absl::OkStatus();
}

void Lab::StartCapture() {
  if (options_.judge_at_once) {
    checker_tap_ = std::make_unique<testutil::CheckerTap>(checker_, *device_);
    return;
  }
  auto file = netdev::FileSink::Create(capture_file_.path());
  EXPECT_TRUE(file.ok()) << file.status();
  writer_ =
      std::make_unique<netdev::PcapngWriter>(*std::move(file), netdev::PcapngWriter::Options());
  capture_ = std::make_unique<netdev::CaptureTap>(
      *writer_, netdev::CaptureTap::Options{.wall_clock_offset = WallClockOffset(*context_)});
  capture_->Attach(*device_);
}

const std::string& Lab::FlushCapture() {
  EXPECT_TRUE(writer_->Flush().ok());
  return capture_file_.path();
}

void Lab::RunReady() {
  for (const netdev::PollFd& fd : context_->CollectPollFds()) {
    pollfd ready = {.fd = fd.fd, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 0) > 0) fd.poll->Schedule();
  }
  while (context_->RunOnce()) {
  }
}

void Lab::Turn() {
  if (runner_ != nullptr) {
    runner_->RunFor(kSlice);
  } else {
    RunReady();
    std::this_thread::sleep_for(kSlice);
  }
}

bool Lab::RunUntil(absl::FunctionRef<bool()> done, Duration limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    Turn();
  }
  return true;
}

void Lab::RunFor(Duration time) {
  RunUntil([] { return false; }, time);
}

std::unique_ptr<testutil::Command> Lab::Start(const std::vector<std::string>& argv,
                                              testutil::CommandOptions options) {
  if (!options.pump) options.pump = [this] { Turn(); };
  return std::make_unique<testutil::Command>(argv, std::move(options));
}

testutil::CommandResult Lab::Run(const std::vector<std::string>& argv,
                                 testutil::CommandOptions options) {
  return Start(argv, std::move(options))->Wait();
}

}  // namespace tapwire::interop
