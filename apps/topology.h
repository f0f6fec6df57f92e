// SPDX-License-Identifier: Apache-2.0
// Topology: the devices of all `--net` flags, stacked as these say, and the further stacks of
// `--stack`. The command's own stack is the caller's; here is only which device it gets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "apps/net_spec.h"
#include "apps/stack_spec.h"
#include "netdev/net_context.h"
#include "stack/config.h"
#include "stack/stack.h"

namespace tapwire::apps {

// The IP addresses that the far end of a `--net veth` has while no other flag uses it, and the
// defaults for `--addr` at the near end; IPv6 only on a link that can carry it.
inline constexpr char kVethPeer4[] = "10.9.0.1/24";
inline constexpr char kVethPeer6[] = "fd00:9::1/64";
inline constexpr char kVethAddr4[] = "10.9.0.2/24";
inline constexpr char kVethAddr6[] = "fd00:9::2/64";

// UDP and TCP. A host answers for ports that nobody has opened too: by a reset, by port
// unreachable. Without a protocol it would say that it has none.
void InstallTransports(Stack& stack);

// The default routes that --gateway or gateway= name; `flag` is for messages. A link-local gateway
// is one on `interface`.
absl::Status AddGateways(Stack& stack, Interface& interface, const std::vector<IpAddress>& gateways,
                         absl::string_view flag);

// What --net and --stack ask for.
struct TopologyOptions {
  std::vector<NetSpec> devices;  // a lower device before those on it
  std::vector<StackSpec> stacks;
  std::string on;  // name of the device of the command's own stack; empty: the last
};

class Topology final {
 public:
  // `context` outlives the topology, which takes its stacks with it; the devices stay.
  Topology(netdev::NetContext& context, TopologyOptions options);
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  // Makes the devices, all down. `on_tap` is called for each TAP before it is registered. Errors
  // name the flag: kInvalidArgument for what no device layer would do, else why a TAP cannot be
  // had.
  using TapCallback = absl::AnyInvocable<void(drivers::TapDevice&)>;
  absl::Status CreateDevices(TapCallback on_tap);
  // The device of the command's own stack. After CreateDevices().
  netdev::NetDevice& own_device() const { return *own_; }
  // Makes the further stacks. `config` is for those of --stack; the far end of a veth has no
  // conflict detection: it is alone on the wire when it starts.
  absl::Status CreateStacks(const StackConfig& config);
  // Brings all devices up.
  absl::Status Up();
  // Addresses and gateways of the further stacks. After Up().
  absl::Status AddAddresses();

  struct NamedStack {
    StackSpec spec;
    bool automatic = false;  // far end of a veth
    std::unique_ptr<Stack> stack;
    std::vector<uint32_t> ifindexes = {};  // as spec.devices
  };
  const std::vector<std::unique_ptr<NamedStack>>& stacks() const { return stacks_; }
  // The stack at the far end of the first veth that has one; null if there is none.
  Stack* peer_stack() const;

 private:
  struct MadeDevice {
    const NetSpec* spec;
    netdev::NetDevice* device;
    netdev::NetDevice* far_end;  // of a veth
  };

  absl::StatusOr<netdev::NetDevice*> Create(const NetSpec& spec, TapCallback& on_tap);
  absl::StatusOr<netdev::NetDevice*> CreateTap(const NetSpec& spec, TapCallback& on_tap);
  absl::StatusOr<netdev::NetDevice*> CreateVeth(const NetSpec& spec);
  absl::StatusOr<netdev::NetDevice*> CreateDummy(const NetSpec& spec);
  absl::StatusOr<netdev::NetDevice*> CreateUpper(const NetSpec& spec);
  absl::Status ChooseOwn();
  absl::Status CreateStack(const StackConfig& config, const StackSpec& spec, bool automatic);
  absl::StatusOr<netdev::NetDevice*> FindForStack(const std::string& name) const;
  bool IsUsed(const netdev::NetDevice& device) const;

  netdev::NetContext& context_;
  const TopologyOptions options_;
  std::vector<MadeDevice> made_;
  netdev::NetDevice* far_end_ = nullptr;  // of the veth that is being made
  netdev::NetDevice* own_ = nullptr;
  std::vector<std::unique_ptr<NamedStack>> stacks_;
};

}  // namespace tapwire::apps
