// SPDX-License-Identifier: Apache-2.0
// Host: the stack of a command on a libuv loop, built from the shared flags, with what every
// command needs around it: readiness (addresses checked), loss of the device, signals, capture,
// statistics. The other devices and stacks that the flags ask for live in the same process
// (apps/topology.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "apps/host_options.h"
#include "apps/topology.h"
#include "netdev/net_context.h"
#include "stack/stack.h"
#include "uv.h"

namespace tapwire {
class UvRunner;
}  // namespace tapwire

namespace tapwire::apps {

class Signals;
class UvReadable;

class Host final {
 public:
  // Makes the devices, starts the stacks and addresses them. Errors name the file, the errno and a
  // remedy. `loop` must outlive the host.
  static absl::StatusOr<std::unique_ptr<Host>> Create(uv_loop_t* loop, const HostOptions& options);
  ~Host();

  // Runs the loop until Stop(): calls `on_ready` once when every address given is usable (or known
  // to be taken: then with its error). Returns what Stop() was given, or why the device was lost.
  using ReadyCallback = absl::AnyInvocable<void(absl::Status)>;
  absl::Status Run(ReadyCallback on_ready);
  void Stop(absl::Status status = absl::OkStatus());
  // First SIGINT or SIGTERM; default: Stop(). A second one ends the process at once.
  void SetInterruptCallback(absl::AnyInvocable<void()> on_interrupt) {
    on_interrupt_ = std::move(on_interrupt);
  }
  // SIGQUIT (ping's interim line). Fails if the process is out of descriptors.
  absl::Status SetQuitCallback(absl::AnyInvocable<void()> on_quit);

  uv_loop_t* loop() const { return loop_; }
  netdev::NetContext& context() { return *context_; }
  Stack& stack() { return *stack_; }
  Topology& topology() { return *topology_; }
  Stack* peer_stack() { return topology_->peer_stack(); }
  Interface& interface() { return *interface_; }  // from Create() until the run ends
  // One line: device, MAC, addresses.
  std::string Describe() const;
  // Non-zero counters and drop reasons with their explanations.
  void PrintStats(std::FILE* out) const;
  // --stats was given.
  bool wants_stats() const { return options_.stats; }
  // The capture is not whole; said on stderr when it happened. Known for sure after Run().
  bool capture_failed() const;

 private:
  struct Environment;
  struct Capture;
  class DeviceWatch;
  Host(uv_loop_t* loop, const HostOptions& options);

  absl::Status Start();
  absl::Status CreateDevices();
  absl::Status CreateStacks();
  absl::Status AddAddresses();
  absl::Status StartCapture();
  absl::Status StartSignals();
  void WatchAddresses(Interface& interface, const std::string& flag,
                      const std::vector<IpPrefix>& wanted);
  bool HasTentative() const;
  void CheckReady();
  absl::Status WatchHolder(const drivers::TapDevice& tap);
  void OnDeviceGone(netdev::NetDevice& device);

  uv_loop_t* loop_;
  HostOptions options_;
  std::unique_ptr<Environment> environment_;
  std::unique_ptr<netdev::NetContext> context_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<Stack> stack_;
  std::unique_ptr<Topology> topology_;
  std::unique_ptr<DeviceWatch> device_watch_;
  std::unique_ptr<UvRunner> runner_;
  std::unique_ptr<Signals> signals_;
  // Of the user namespaces of TAPs, by ifindex; goes before its device.
  std::map<uint32_t, std::unique_ptr<UvReadable>> holder_watches_;
  // Null once the device was removed, which ends the run.
  Interface* interface_ = nullptr;
  netdev::NetDevice* device_ = nullptr;
  ReadyCallback on_ready_;
  absl::AnyInvocable<void()> on_interrupt_, on_quit_;
  absl::Status address_status_, result_;
  bool device_lost_ = false;
};

}  // namespace tapwire::apps
