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
#include "netdev/veth.h"
#include "stack/path_mtu.h"
#include "stack/tcp/tcp.h"
#include "stack/udp/udp.h"

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
  holder_watch_.reset();
  capture_.reset();
  stack_.reset();
  peer_stack_.reset();
  runner_.reset();
}

absl::StatusOr<std::unique_ptr<Host>> Host::Create(uv_loop_t* loop, const HostOptions& options) {
  std::unique_ptr<Host> host(new Host(loop, options));
  TW_RETURN_IF_ERROR(host->Start());
  return host;
}

namespace {

// A host answers for ports that nobody has opened too: by a reset, by port unreachable. Without a
// protocol it would say that it has none.
void InstallTransports(Stack& stack) {
  Udp::Install(stack);
  tcp::Tcp::Install(stack);
}

}  // namespace

absl::Status Host::Start() {
  environment_ = std::make_unique<Environment>();
  context_ = std::make_unique<netdev::NetContext>(
      tapwire::Environment{&environment_->clock, &environment_->random});
  stack_ = std::make_unique<Stack>(*context_, ConfigFor(options_));
  InstallTransports(*stack_);
  TW_RETURN_IF_ERROR(options_.kind == DeviceKind::kTap ? OpenTap() : OpenVeth());
  TW_RETURN_IF_ERROR(StartCapture());
  TW_ASSIGN_OR_RETURN(interface_, stack_->AddInterface(*device_));
  interface_->SetAddressCallback(
      [this](const IpAddress& a, bool duplicate) { OnAddress(a, duplicate); });
  TW_RETURN_IF_ERROR(device_->Up());
  TW_RETURN_IF_ERROR(AddAddresses());
  TW_RETURN_IF_ERROR(AddGateways());
  TW_ASSIGN_OR_RETURN(runner_, UvRunner::Attach(loop_, context_.get()));
  runner_->SetBusyPoll(options_.busy_poll);
  return StartSignals();
}

absl::Status Host::OpenTap() {
  absl::StatusOr<std::unique_ptr<drivers::TapDevice>> tap =
      drivers::TapDevice::Open(*context_, options_.tap);
  // The flags were right, whatever the errno's code says: no usage error.
  if (!tap.ok()) return absl::FailedPreconditionError(tap.status().message());
  drivers::TapDevice& device = **tap;
  device.SetGoneCallback([this](const absl::Status& why) {
    device_lost_ = true;
    Stop(why);
  });
  TW_ASSIGN_OR_RETURN(device_, context_->registry().Register(*std::move(tap)));
  return WatchHolder(device);
}

// The end of the process that holds the user namespace does not stop the TAP, so nothing else would
// tell of it.
absl::Status Host::WatchHolder(const drivers::TapDevice& tap) {
  if (tap.userns_watch_fd() < 0) return absl::OkStatus();
  TW_ASSIGN_OR_RETURN(
      holder_watch_,
      UvReadable::Watch(loop_, tap.userns_watch_fd(), [this, pid = tap.userns_holder()] {
        std::fprintf(stderr,
                     "tapwire: %s: the helper process of its user namespace (pid %d) has ended; "
                     "userns-exec cannot enter it any more, the TAP works on\n",
                     device_->name().c_str(), pid);
      }));
  return absl::OkStatus();
}

absl::Status Host::OpenVeth() {
  netdev::VethOptions veth;
  if (!options_.tap.name.empty()) veth.name_a = options_.tap.name;
  veth.name_b = "peer0";
  veth.mac_a = options_.tap.mac;
  if (options_.tap.mtu != 0) veth.mtu = options_.tap.mtu;
  veth.offloads = options_.offloads;
  std::pair<netdev::NetDevice*, netdev::NetDevice*> pair;
  TW_ASSIGN_OR_RETURN(pair, netdev::CreateVethPair(*context_, veth));
  device_ = pair.first;
  return StartPeer(*pair.second);
}

absl::Status Host::StartPeer(netdev::NetDevice& device) {
  StackConfig config = ConfigFor(options_);
  config.duplicate_address_detection = false;  // alone on the wire when it starts
  peer_stack_ = std::make_unique<Stack>(*context_, config);
  InstallTransports(*peer_stack_);
  Interface* peer = nullptr;
  TW_ASSIGN_OR_RETURN(peer, peer_stack_->AddInterface(device));
  TW_RETURN_IF_ERROR(device.Up());
  TW_RETURN_IF_ERROR(peer->AddAddress(*IpPrefix::Parse(kVethPeer4)));
  // RFC 8200 §5: a smaller link carries IPv4 only.
  if (device.mtu() < kIpv6MinimumMtu) return absl::OkStatus();
  return peer->AddAddress(*IpPrefix::Parse(kVethPeer6));
}

absl::Status Host::AddAddresses() {
  for (const IpPrefix& address : options_.addresses) {
    TW_RETURN_IF_ERROR(interface_->AddAddress(address));
  }
  return absl::OkStatus();
}

absl::Status Host::AddGateways() {
  for (const IpAddress& gateway : options_.gateways) {
    RouteEntry entry{.prefix = {IpAddress::Unspecified(gateway.family()), 0},
                     .gateway = gateway,
                     .interface = gateway.IsLinkLocal() ? interface_ : nullptr};
    const absl::Status status = stack_->AddRoute(entry);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("--gateway ", gateway.ToString(), ": ", status.message()));
    }
  }
  return absl::OkStatus();
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

void Host::OnAddress(const IpAddress& address, bool duplicate) {
  for (const IpPrefix& wanted : options_.addresses) {
    if (duplicate && wanted.address == address && address_status_.ok()) {
      address_status_ =
          absl::AlreadyExistsError(absl::StrCat("--addr ", wanted.ToString(), ": another host on ",
                                                device_->name(), " has this address"));
    }
  }
  CheckReady();
}

void Host::CheckReady() {
  if (!on_ready_) return;
  // The link-local address too: it is the right source for link-local destinations.
  for (const InterfaceAddress& address : interface_->addresses()) {
    if (address.state == AddressState::kTentative) return;
  }
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
