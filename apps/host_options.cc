// SPDX-License-Identifier: Apache-2.0
#include "apps/host_options.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "apps/spec_text.h"
#include "netdev/base/status_util.h"
#include "stack/path_mtu.h"

namespace tapwire::apps {
namespace {

constexpr uint32_t kMaxBusyPollUs = 1'000'000;

// The device of the command's own stack, as far as the flags tell.
const NetSpec& OwnDevice(const TopologyOptions& topology) {
  for (const NetSpec& spec : topology.devices) {
    if (!topology.on.empty() && spec.name() == topology.on) return spec;
  }
  return topology.devices.back();
}

// 0: not known before the device is made.
uint32_t MtuOf(const TopologyOptions& topology, const NetSpec& spec) {
  if (spec.mtu() != 0 || !spec.has_lower()) return spec.mtu();
  for (const NetSpec& lower : topology.devices) {
    // A lower device comes first, so this ends.
    if (&lower == &spec) break;
    if (lower.name() == spec.lower) return MtuOf(topology, lower);
  }
  return 0;
}

absl::Status ParseTopology(const HostFlags& flags, TopologyOptions& topology) {
  for (const std::string& text : flags.net) {
    TW_ASSIGN_OR_RETURN(NetSpec spec, ParseNetSpec(text));
    topology.devices.push_back(std::move(spec));
  }
  if (topology.devices.empty()) topology.devices.emplace_back();
  for (const std::string& text : flags.stacks) {
    TW_ASSIGN_OR_RETURN(StackSpec spec, ParseStackSpec(text));
    topology.stacks.push_back(std::move(spec));
  }
  topology.on = flags.on;
  return absl::OkStatus();
}

absl::Status ParseAddresses(const HostFlags& flags, HostOptions& options) {
  const NetSpec& own = OwnDevice(options.topology);
  const uint32_t mtu = MtuOf(options.topology, own);
  const bool carries_v6 = mtu == 0 || mtu >= kIpv6MinimumMtu;
  for (const std::string& text : flags.addresses) {
    const auto bad = [&text](absl::string_view problem) {
      return absl::InvalidArgumentError(absl::StrCat("--addr ", text, ": ", problem));
    };
    std::optional<IpPrefix> prefix = IpPrefix::Parse(text);
    if (!prefix) return bad("is not ADDRESS/LENGTH, as 10.9.0.2/24");
    if (prefix->address.is_v6() && !carries_v6) {
      return bad(absl::StrCat("IPv6 needs an MTU of ", kIpv6MinimumMtu, ", not ", mtu));
    }
    for (const IpPrefix& other : options.addresses) {
      if (other.address == prefix->address) return bad("is given twice");
    }
    options.addresses.push_back(*prefix);
  }
  if (own.kind == DeviceKind::kVeth && options.addresses.empty()) {
    options.addresses = {*IpPrefix::Parse(kVethAddr4)};
    if (carries_v6) options.addresses.push_back(*IpPrefix::Parse(kVethAddr6));
  }
  return absl::OkStatus();
}

// After the addresses, which must not be the same.
absl::Status CheckKernelAddresses(const NetSpec& spec, const HostOptions& options) {
  const SpecText text("--net", spec.text);
  for (const IpPrefix& kernel : spec.tap.kernel_addrs) {
    const std::string key = absl::StrCat("kernel=", kernel.ToString());
    if (kernel.address.is_v6() && spec.mtu() != 0 && spec.mtu() < kIpv6MinimumMtu) {
      return text.Bad(absl::StrCat(key, ": IPv6 needs an MTU of ", kIpv6MinimumMtu));
    }
    for (const IpPrefix& own : options.addresses) {
      if (own.address == kernel.address) {
        return text.Bad(absl::StrCat(key, " is the stack's own address (--addr) too"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ParseGateways(const HostFlags& flags, HostOptions& options) {
  for (const std::string& text : flags.gateways) {
    const auto bad = [&text](absl::string_view problem) {
      return absl::InvalidArgumentError(absl::StrCat("--gateway ", text, ": ", problem));
    };
    std::optional<IpAddress> address = IpAddress::Parse(text);
    if (!address) return bad("is not an address");
    for (const IpAddress& other : options.gateways) {
      if (other.family() == address->family()) return bad("is the second one of its family");
    }
    for (const IpPrefix& own : options.addresses) {
      // RFC 4291 §2.6.1: for IPv6 the subnet's address is that of its routers.
      if (address->is_v4() && own.Contains(*address) &&
          !IsHostAddress(IpPrefix{*address, own.length})) {
        return bad(absl::StrCat("is the subnet or broadcast address of ", own.ToString()));
      }
    }
    options.gateways.push_back(*address);
  }
  return absl::OkStatus();
}

// --userns is for every TAP.
absl::Status ApplyUserns(bool userns, TopologyOptions& topology) {
  bool any_tap = false;
  for (NetSpec& spec : topology.devices) {
    if (spec.kind != DeviceKind::kTap) continue;
    any_tap = true;
    spec.tap.userns = spec.tap.userns || userns;
    if (spec.tap.userns && (spec.tap.fd || !spec.tap.fd_socket.empty())) {
      return SpecText("--net", spec.text)
          .Bad("userns makes a TAP, fd and fdsocket bring one; choose");
    }
  }
  if (userns && !any_tap) {
    return absl::InvalidArgumentError(
        absl::StrCat("--userns: ", DeviceKindName(topology.devices.back().kind),
                     " needs no TAP and no user namespace"));
  }
  return absl::OkStatus();
}

absl::Status ParseDad(const HostFlags& flags, HostOptions& options) {
  if (flags.dad == "auto")
    options.dad = DadMode::kAuto;
  else if (flags.dad == "on")
    options.dad = DadMode::kOn;
  else if (flags.dad == "off")
    options.dad = DadMode::kOff;
  else
    return absl::InvalidArgumentError(absl::StrCat("--dad ", flags.dad, ": takes auto, on or off"));
  return absl::OkStatus();
}

}  // namespace

void AddHostFlags(CLI::App& command, HostFlags& flags) {
  command.add_option("--net", flags.net, kNetHelp)->expected(1)->take_all()->default_str("tap");
  command.add_option("--on", flags.on,
                     "name of the device that --addr and --gateway are for (the last --net)");
  command.add_option("--stack", flags.stacks, kStackHelp)->expected(1)->take_all();
  command
      .add_option("--addr", flags.addresses,
                  "address of the stack with prefix length, 10.9.0.2/24; repeat")
      ->expected(1)
      ->take_all();
  command.add_option("--gateway", flags.gateways, "default gateway; one per family")
      ->expected(1)
      ->take_all();
  command.add_option("--pcap", flags.pcap, "capture all frames of the device to this pcapng file")
      ->check(CLI::Validator(
          [](std::string& path) { return path.empty() ? "is empty" : std::string(); }, "PATH"));
  command.add_flag("--pcap-raw", flags.pcap_raw,
                   "capture checksums as they are in memory, not completed");
  command.add_flag("--userns", flags.userns,
                   "make the TAP in a user and network namespace of its own");
  command.add_option("--dad", flags.dad, "check addresses before use: auto (IPv6 only), on, off")
      ->capture_default_str();
  command.add_flag("--stats", flags.stats, "print counters and drop reasons at the end");
  command
      .add_option("--busy-poll", flags.busy_poll_us,
                  "microseconds for which to go on polling after work before going to sleep: "
                  "answers sooner, keeps a CPU busy")
      ->check(CLI::Range(uint32_t{0}, kMaxBusyPollUs))
      ->capture_default_str();
}

absl::StatusOr<HostOptions> ParseHostFlags(const HostFlags& flags) {
  HostOptions options;
  TW_RETURN_IF_ERROR(ParseTopology(flags, options.topology));
  TW_RETURN_IF_ERROR(ParseDad(flags, options));
  TW_RETURN_IF_ERROR(ParseAddresses(flags, options));
  for (const NetSpec& spec : options.topology.devices) {
    TW_RETURN_IF_ERROR(CheckKernelAddresses(spec, options));
  }
  TW_RETURN_IF_ERROR(ParseGateways(flags, options));
  TW_RETURN_IF_ERROR(ApplyUserns(flags.userns, options.topology));
  options.pcap = flags.pcap;
  options.pcap_raw = flags.pcap_raw;
  options.stats = flags.stats;
  options.busy_poll = std::chrono::microseconds(flags.busy_poll_us);
  return options;
}

}  // namespace tapwire::apps
