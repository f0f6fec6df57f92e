// SPDX-License-Identifier: Apache-2.0
// Host: building, readiness and the loop.

#include "apps/host.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/host_parts.h"
#include "drivers/tap/tap_device.h"
#include "netdev/base/status_util.h"
#include "netdev/registry.h"

namespace tapwire::apps {
namespace {

StackConfig ConfigFor(const HostOptions& options) {
  StackConfig config;
  config.duplicate_address_detection = options.dad != DadMode::kOff;
  config.arp_probe = options.dad == DadMode::kOn;
  return config;
}

}  // namespace

Host::Host(uv_loop_t* loop, const HostOptions& options) : loop_(loop), options_(options) {}

// In the reverse order of building: callbacks first, then what they might touch.
Host::~Host() {
  signals_.reset();
  holder_watches_.clear();
  device_watch_.reset();
  capture_.reset();
  stack_.reset();
  topology_.reset();
  runner_.reset();
}

absl::StatusOr<std::unique_ptr<Host>> Host::Create(uv_loop_t* loop, const HostOptions& options) {
  std::unique_ptr<Host> host(new Host(loop, options));
  TW_RETURN_IF_ERROR(host->Start());
  return host;
}

absl::Status Host::Start() {
  environment_ = std::make_unique<Environment>();
  context_ = std::make_unique<netdev::NetContext>(
      tapwire::Environment{&environment_->clock, &environment_->random});
  stack_ = std::make_unique<Stack>(*context_, ConfigFor(options_));
  InstallTransports(*stack_);
  TW_RETURN_IF_ERROR(CreateDevices());
  TW_RETURN_IF_ERROR(StartCapture());
  TW_RETURN_IF_ERROR(CreateStacks());
  TW_RETURN_IF_ERROR(topology_->Up());
  TW_RETURN_IF_ERROR(AddAddresses());
  TW_ASSIGN_OR_RETURN(runner_, UvRunner::Attach(loop_, context_.get()));
  runner_->SetBusyPoll(options_.busy_poll);
  return StartSignals();
}

absl::Status Host::CreateDevices() {
  topology_ = std::make_unique<Topology>(*context_, options_.topology);
  TW_RETURN_IF_ERROR(topology_->CreateDevices([this](drivers::TapDevice& tap) {
    tap.SetGoneCallback([this](const absl::Status& why) {
      device_lost_ = true;
      Stop(why);
    });
  }));
  device_ = &topology_->own_device();
  device_watch_ = std::make_unique<DeviceWatch>(*this);
  context_->registry().AddObserver(*device_watch_);
  for (const netdev::NetDevice* device : context_->registry().devices()) {
    const auto* tap = dynamic_cast<const drivers::TapDevice*>(device);
    if (tap != nullptr) TW_RETURN_IF_ERROR(WatchHolder(*tap));
  }
  return absl::OkStatus();
}

// The end of the process that holds the user namespace does not stop the TAP, so nothing else would
// tell of it.
absl::Status Host::WatchHolder(const drivers::TapDevice& tap) {
  if (tap.userns_watch_fd() < 0) return absl::OkStatus();
  TW_ASSIGN_OR_RETURN(
      holder_watches_[tap.ifindex()],
      UvReadable::Watch(
          loop_, tap.userns_watch_fd(), [name = tap.name(), pid = tap.userns_holder()] {
            std::fprintf(stderr,
                         "tapwire: %s: the helper process of its user namespace (pid %d) has "
                         "ended; userns-exec cannot enter it any more, the TAP works on\n",
                         name.c_str(), pid);
          }));
  return absl::OkStatus();
}

absl::Status Host::CreateStacks() {
  TW_ASSIGN_OR_RETURN(interface_, stack_->AddInterface(*device_));
  return topology_->CreateStacks(ConfigFor(options_));
}

absl::Status Host::AddAddresses() {
  WatchAddresses(*interface_, "--addr ", options_.addresses);
  for (const auto& named : topology_->stacks()) {
    for (size_t i = 0; i < named->ifindexes.size(); ++i) {
      WatchAddresses(*named->stack->FindInterface(named->ifindexes[i]),
                     "--stack addr=", named->spec.devices[i].addresses);
    }
  }
  for (const IpPrefix& address : options_.addresses) {
    TW_RETURN_IF_ERROR(interface_->AddAddress(address));
  }
  TW_RETURN_IF_ERROR(AddGateways(*stack_, *interface_, options_.gateways, "--gateway "));
  return topology_->AddAddresses();
}

void Host::OnDeviceGone(netdev::NetDevice& device) {
  holder_watches_.erase(device.ifindex());
  if (&device != device_) return;
  device_ = nullptr;
  interface_ = nullptr;
  device_lost_ = true;
  if (runner_ != nullptr) {
    Stop(absl::NotFoundError(absl::StrCat(device.name(), ": the device was removed while in use")));
  }
}

absl::Status Host::StartCapture() {
  if (options_.pcap.empty()) return absl::OkStatus();
  TW_ASSIGN_OR_RETURN(std::unique_ptr<netdev::FileSink> file,
                      netdev::FileSink::Create(options_.pcap));
  const auto wall =
      std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
  const Duration offset = wall - context_->RefreshNow().time_since_epoch();
  capture_ = std::make_unique<Capture>(std::make_unique<CaptureSink>(std::move(file)),
                                       options_.pcap_raw, offset);
  capture_->tap.Attach(*device_);
  return absl::OkStatus();
}

absl::Status Host::StartSignals() {
  signals_ = std::make_unique<Signals>(loop_);
  TW_RETURN_IF_ERROR(signals_->OnInterrupt([this] {
    if (on_interrupt_) {
      on_interrupt_();
    } else {
      Stop();
    }
  }));
  return signals_->On(SIGUSR1, [this] { PrintStats(stderr); });
}

absl::Status Host::SetQuitCallback(absl::AnyInvocable<void()> on_quit) {
  on_quit_ = std::move(on_quit);
  return signals_->On(SIGQUIT, [this] { on_quit_(); });
}

bool Host::capture_failed() const { return capture_ != nullptr && !capture_->writer.status().ok(); }

void Host::WatchAddresses(Interface& interface, const std::string& flag,
                          const std::vector<IpPrefix>& wanted) {
  interface.SetAddressCallback([this, flag, wanted, device = interface.device().name()](
                                   const IpAddress& address, bool duplicate) {
    for (const IpPrefix& one : wanted) {
      if (duplicate && one.address == address && address_status_.ok()) {
        address_status_ = absl::AlreadyExistsError(
            absl::StrCat(flag, one.ToString(), ": another host on ", device, " has this address"));
      }
    }
    CheckReady();
  });
}

// The link-local address counts too: it is the right source for link-local destinations.
bool Host::HasTentative() const {
  const auto tentative = [](const Interface* interface) {
    if (interface == nullptr) return false;
    for (const InterfaceAddress& address : interface->addresses()) {
      if (address.state == AddressState::kTentative) return true;
    }
    return false;
  };
  if (tentative(interface_)) return true;
  for (const auto& named : topology_->stacks()) {
    for (const uint32_t ifindex : named->ifindexes) {
      if (!named->automatic && tentative(named->stack->FindInterface(ifindex))) return true;
    }
  }
  return false;
}

void Host::CheckReady() {
  if (!on_ready_ || HasTentative()) return;
  // Not from inside the stack's own call: the command starts sockets and sends from here.
  context_->Defer([ready = std::exchange(on_ready_, nullptr), status = address_status_]() mutable {
    ready(status);
  });
}

absl::Status Host::Run(ReadyCallback on_ready) {
  on_ready_ = std::move(on_ready);
  runner_->Ref();  // the host itself is what keeps the loop alive
  if (device_lost_ || !result_.ok()) return result_;
  CheckReady();
  uv_run(loop_, UV_RUN_DEFAULT);
  if (capture_) (void)capture_->writer.Flush();  // see capture_failed()
  return result_;
}

void Host::Stop(absl::Status status) {
  if (result_.ok()) result_ = std::move(status);
  runner_->Unref();
  uv_stop(loop_);
}

std::string Host::Describe() const {
  if (device_ == nullptr) return "no device";
  std::string text = absl::StrCat(device_->kind(), " ", device_->name(), " mac ",
                                  device_->mac().ToString(), " mtu ", device_->mtu());
  for (const bool automatic : {false, true}) {  // the link-local address comes last
    for (const InterfaceAddress& a : interface_->addresses()) {
      if (a.address.IsLinkLocal() == automatic) absl::StrAppend(&text, " ", a.prefix().ToString());
    }
  }
  return text;
}

}  // namespace tapwire::apps
