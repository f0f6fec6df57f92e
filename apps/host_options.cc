// SPDX-License-Identifier: Apache-2.0
#include "apps/host_options.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "netdev/base/status_util.h"

namespace tapwire::apps {
namespace {

constexpr char kNetHelp[] =
    "device: tap[,name=tw0][,dev=/dev/net/tun][,fd=N][,fdsocket=PATH][,userns][,kernel=CIDR]"
    "[,mac=ADDR][,mtu=N][,queues=N][,csum=off][,tso=off][,uso=off], or "
    "veth[,mac=][,mtu=][,csum=off] for a pair inside this process";

absl::Status BadSpec(absl::string_view spec, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("--net ", spec, ": ", problem));
}

absl::StatusOr<bool> ParseSwitch(absl::string_view spec, absl::string_view key,
                                 absl::string_view value) {
  if (value == "on") return true;
  if (value == "off") return false;
  return BadSpec(spec, absl::StrCat(key, "= takes on or off, not '", value, "'"));
}

template <typename Number>
absl::Status ParseNumber(absl::string_view spec, absl::string_view text, uint32_t low,
                         uint32_t high, Number& out) {
  uint32_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return BadSpec(spec, absl::StrCat("'", text, "' is not a number from ", low, " to ", high));
  }
  out = static_cast<Number>(value);
  return absl::OkStatus();
}

absl::Status ParseOffload(absl::string_view spec, absl::string_view key, absl::string_view value,
                          HostOptions& options) {
  TW_ASSIGN_OR_RETURN(const bool on, ParseSwitch(spec, key, value));
  if (key == "csum") options.tap.csum = on;
  if (key == "tso") options.tap.tso = on;
  if (key == "uso") options.tap.uso = on;
  if (!on && key != "uso") options.offloads = false;
  return absl::OkStatus();
}

absl::Status ParseAddressKey(absl::string_view spec, absl::string_view key, absl::string_view value,
                             HostOptions& options) {
  if (key == "mac") {
    std::optional<MacAddress> mac = MacAddress::Parse(value);
    if (!mac || !mac->IsUnicast() || mac->IsZero()) {
      return BadSpec(spec, absl::StrCat("'", value, "' is not a unicast MAC address"));
    }
    options.tap.mac = *mac;
    return absl::OkStatus();
  }
  std::optional<IpPrefix> prefix = IpPrefix::Parse(value);
  if (!prefix) return BadSpec(spec, absl::StrCat("'", value, "' is not ADDRESS/LENGTH"));
  options.tap.kernel_addrs.push_back(*prefix);
  return absl::OkStatus();
}

absl::Status ParseKey(absl::string_view spec, absl::string_view key, absl::string_view value,
                      HostOptions& options) {
  drivers::TapOptions& tap = options.tap;
  if (key == "mac" || key == "kernel") return ParseAddressKey(spec, key, value, options);
  if (key == "csum" || key == "tso" || key == "uso") return ParseOffload(spec, key, value, options);
  if (key == "name") {
    tap.name = std::string(value);
  } else if (key == "mtu") {
    return ParseNumber(spec, value, 68, drivers::TapDevice::kMaxMtu, tap.mtu);
  } else if (options.kind != DeviceKind::kTap) {
    return BadSpec(spec, absl::StrCat("veth has no option '", key, "'"));
  } else if (key == "dev") {
    tap.device_path = std::string(value);
  } else if (key == "fd") {
    return ParseNumber(spec, value, 0, 1u << 20, tap.fd.emplace());
  } else if (key == "fdsocket") {
    tap.fd_socket = std::string(value);
  } else if (key == "queues") {
    return ParseNumber(spec, value, 1, drivers::kMaxTapQueues, tap.queues);
  } else if (key == "userns") {
    tap.userns = true;
  } else {
    return BadSpec(spec, absl::StrCat("unknown option '", key, "'; ", kNetHelp));
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
  command.add_option("--net", flags.net, kNetHelp)->capture_default_str();
  command
      .add_option("--addr", flags.addresses,
                  "address of the stack with prefix length, 10.9.0.2/24; repeat")
      ->expected(1)
      ->take_all();
  command.add_option("--gateway", flags.gateways, "default gateway; one per family")
      ->expected(1)
      ->take_all();
  command.add_option("--pcap", flags.pcap, "capture all frames of the device to this pcapng file");
  command.add_flag("--pcap-raw", flags.pcap_raw,
                   "capture checksums as they are in memory, not completed");
  command.add_flag("--userns", flags.userns,
                   "make the TAP in a user and network namespace of its own");
  command.add_option("--dad", flags.dad, "check addresses before use: auto (IPv6 only), on, off")
      ->capture_default_str();
  command.add_flag("--stats", flags.stats, "print counters and drop reasons at the end");
}

absl::Status ParseNetSpec(absl::string_view spec, HostOptions& options) {
  std::vector<absl::string_view> parts = absl::StrSplit(spec, ',');
  if (parts[0] == "tap")
    options.kind = DeviceKind::kTap;
  else if (parts[0] == "veth")
    options.kind = DeviceKind::kVeth;
  else
    return BadSpec(spec, absl::StrCat("unknown device '", parts[0], "'; ", kNetHelp));
  for (size_t i = 1; i < parts.size(); ++i) {
    std::pair<absl::string_view, absl::string_view> kv =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    TW_RETURN_IF_ERROR(ParseKey(spec, kv.first, kv.second, options));
  }
  return absl::OkStatus();
}

absl::StatusOr<HostOptions> ParseHostFlags(const HostFlags& flags) {
  HostOptions options;
  TW_RETURN_IF_ERROR(ParseNetSpec(flags.net, options));
  TW_RETURN_IF_ERROR(ParseDad(flags, options));
  for (const std::string& text : flags.addresses) {
    std::optional<IpPrefix> prefix = IpPrefix::Parse(text);
    if (!prefix) {
      return absl::InvalidArgumentError(
          absl::StrCat("--addr ", text, ": is not ADDRESS/LENGTH, as 10.9.0.2/24"));
    }
    options.addresses.push_back(*prefix);
  }
  for (const std::string& text : flags.gateways) {
    std::optional<IpAddress> address = IpAddress::Parse(text);
    if (!address)
      return absl::InvalidArgumentError(absl::StrCat("--gateway ", text, ": is not an address"));
    options.gateways.push_back(*address);
  }
  options.tap.userns = options.tap.userns || flags.userns;
  if (options.tap.userns && (options.tap.fd || !options.tap.fd_socket.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--net ", flags.net, ": userns makes a TAP, fd and fdsocket bring one; choose"));
  }
  options.pcap = flags.pcap;
  options.pcap_raw = flags.pcap_raw;
  options.stats = flags.stats;
  return options;
}

}  // namespace tapwire::apps
