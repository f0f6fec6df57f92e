// SPDX-License-Identifier: Apache-2.0
#include "apps/host_options.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "netdev/base/status_util.h"
#include "stack/path_mtu.h"

namespace tapwire::apps {
namespace {

constexpr uint32_t kMaxBusyPollUs = 1'000'000;
constexpr char kNetHelp[] =
    "device: tap[,name=tw0][,dev=/dev/net/tun][,fd=N][,fdsocket=PATH][,userns][,kernel=CIDR]"
    "[,mac=ADDR][,mtu=N][,queues=N][,csum=off][,tso=off][,uso=off], or "
    "veth[,name=][,mac=][,mtu=][,csum=off][,tso=off] for a pair inside this process";

absl::Status BadSpec(absl::string_view spec, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("--net ", spec, ": ", problem));
}

absl::StatusOr<bool> ParseSwitch(absl::string_view spec, absl::string_view key,
                                 absl::string_view value) {
  if (value == "on" || value == "1" || value == "true") return true;
  if (value == "off" || value == "0" || value == "false") return false;
  return BadSpec(spec, absl::StrCat(key, "= takes on or off, not '", value, "'"));
}

template <typename Number>
absl::Status ParseNumber(absl::string_view spec, absl::string_view text, uint32_t low,
                         uint32_t high, Number& out) {
  uint32_t value = 0;
  // SimpleAtoi() also takes signs and spaces.
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!digits || !absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return BadSpec(spec, absl::StrCat("'", text, "' is not a number from ", low, " to ", high));
  }
  out = static_cast<Number>(value);
  return absl::OkStatus();
}

// Whether a host can have it: no group, no broadcast and not the address of the subnet itself.
bool IsHostAddress(const IpPrefix& prefix) {
  const IpAddress& address = prefix.address;
  const int width = address.is_v4() ? 32 : 128;
  const bool has_subnet_address = prefix.length > 0 && prefix.length < width - 1;  // RFC 3021, 6164
  const std::optional<Ipv4Address> broadcast = prefix.Broadcast();
  return !address.IsUnspecified() && !address.IsMulticast() && !address.IsLimitedBroadcast() &&
         !(has_subnet_address && address == prefix.Network()) &&
         !(broadcast.has_value() && address == IpAddress(*broadcast));
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
  if (!IsHostAddress(*prefix)) {
    return BadSpec(spec, absl::StrCat("kernel=", value, " is not the address of a host"));
  }
  options.tap.kernel_addrs.push_back(*prefix);
  return absl::OkStatus();
}

absl::Status ParseName(absl::string_view spec, absl::string_view value, HostOptions& options) {
  const bool veth = options.kind == DeviceKind::kVeth;
  const absl::Status valid = drivers::CheckTapName(value);
  if (!valid.ok()) return BadSpec(spec, valid.message());
  if (veth && absl::StrContains(value, '%')) {
    return BadSpec(spec, absl::StrCat("'", value, "': no kernel chooses a number for a veth"));
  }
  options.tap.name = std::string(value);
  return absl::OkStatus();
}

// Of a TAP only.
absl::Status ParseTapKey(absl::string_view spec, absl::string_view key, absl::string_view value,
                         drivers::TapOptions& tap) {
  if (key == "dev") {
    tap.device_path = std::string(value);
  } else if (key == "fd") {
    return ParseNumber(spec, value, 0, 1u << 20, tap.fd.emplace());
  } else if (key == "fdsocket") {
    tap.fd_socket = std::string(value);
  } else if (key == "queues") {
    return ParseNumber(spec, value, 1, drivers::kMaxTapQueues, tap.queues);
  } else if (key == "userns") {
    TW_ASSIGN_OR_RETURN(tap.userns, ParseSwitch(spec, key, value));
  } else {
    return BadSpec(spec, absl::StrCat("unknown option '", key, "'; ", kNetHelp));
  }
  return absl::OkStatus();
}

absl::Status ParseKey(absl::string_view spec, absl::string_view key, absl::string_view value,
                      HostOptions& options) {
  if (value.empty() && (key == "name" || key == "dev" || key == "fdsocket")) {
    return BadSpec(spec, absl::StrCat(key, "= is empty"));
  }
  if (key == "name") return ParseName(spec, value, options);
  if (key == "mtu") {
    return ParseNumber(spec, value, 68, drivers::TapDevice::kMaxMtu, options.tap.mtu);
  }
  if (key == "mac") return ParseAddressKey(spec, key, value, options);
  if (key == "csum" || key == "tso") return ParseOffload(spec, key, value, options);
  if (options.kind != DeviceKind::kTap) {
    return BadSpec(spec, absl::StrCat("veth has no option '", key, "'"));
  }
  if (key == "uso") return ParseOffload(spec, key, value, options);
  if (key == "kernel") return ParseAddressKey(spec, key, value, options);
  return ParseTapKey(spec, key, value, options.tap);
}

// Keys that are right by themselves and say nothing, or something else, together.
absl::Status CheckKeys(absl::string_view spec, const std::set<absl::string_view>& keys) {
  if (keys.contains("fd") && keys.contains("fdsocket")) {
    return BadSpec(spec, "fd= and fdsocket= exclude each other");
  }
  if (!keys.contains("fd") && !keys.contains("fdsocket")) return absl::OkStatus();
  for (const char* key : {"dev", "queues"}) {
    if (keys.contains(key)) {
      return BadSpec(spec, absl::StrCat(key,
                                        "= has no meaning for descriptors that are open "
                                        "already (fd=, fdsocket=)"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseAddresses(const HostFlags& flags, HostOptions& options) {
  const bool carries_v6 = options.tap.mtu == 0 || options.tap.mtu >= kIpv6MinimumMtu;
  for (const std::string& text : flags.addresses) {
    const auto bad = [&text](absl::string_view problem) {
      return absl::InvalidArgumentError(absl::StrCat("--addr ", text, ": ", problem));
    };
    std::optional<IpPrefix> prefix = IpPrefix::Parse(text);
    if (!prefix) return bad("is not ADDRESS/LENGTH, as 10.9.0.2/24");
    if (prefix->address.is_v6() && !carries_v6) {
      return bad(absl::StrCat("IPv6 needs an MTU of ", kIpv6MinimumMtu, ", not ", options.tap.mtu));
    }
    for (const IpPrefix& other : options.addresses) {
      if (other.address == prefix->address) return bad("is given twice");
    }
    options.addresses.push_back(*prefix);
  }
  if (options.kind == DeviceKind::kVeth && options.addresses.empty()) {
    options.addresses = {*IpPrefix::Parse(kVethAddr4)};
    if (carries_v6) options.addresses.push_back(*IpPrefix::Parse(kVethAddr6));
  }
  return absl::OkStatus();
}

// After the addresses, which must not be the same.
absl::Status CheckKernelAddresses(const HostFlags& flags, const HostOptions& options) {
  for (const IpPrefix& kernel : options.tap.kernel_addrs) {
    const std::string text = absl::StrCat("kernel=", kernel.ToString());
    if (kernel.address.is_v6() && options.tap.mtu != 0 && options.tap.mtu < kIpv6MinimumMtu) {
      return BadSpec(flags.net, absl::StrCat(text, ": IPv6 needs an MTU of ", kIpv6MinimumMtu));
    }
    for (const IpPrefix& own : options.addresses) {
      if (own.address == kernel.address) {
        return BadSpec(flags.net, absl::StrCat(text, " is the stack's own address (--addr) too"));
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

absl::Status CheckUserns(const HostFlags& flags, const HostOptions& options) {
  if (flags.userns && options.kind != DeviceKind::kTap) {
    return absl::InvalidArgumentError("--userns: veth needs no TAP and no user namespace");
  }
  if (options.tap.userns && (options.tap.fd || !options.tap.fd_socket.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--net ", flags.net, ": userns makes a TAP, fd and fdsocket bring one; choose"));
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

absl::Status ParseNetSpec(absl::string_view spec, HostOptions& options) {
  std::vector<absl::string_view> parts = absl::StrSplit(spec, ',');
  if (parts[0] == "tap")
    options.kind = DeviceKind::kTap;
  else if (parts[0] == "veth")
    options.kind = DeviceKind::kVeth;
  else
    return BadSpec(spec, absl::StrCat("unknown device '", parts[0], "'; ", kNetHelp));
  std::set<absl::string_view> keys;
  for (size_t i = 1; i < parts.size(); ++i) {
    std::pair<absl::string_view, absl::string_view> kv =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    if (parts[i] == "userns") kv.second = "on";
    TW_RETURN_IF_ERROR(ParseKey(spec, kv.first, kv.second, options));
    if (!keys.insert(kv.first).second && kv.first != "kernel") {
      return BadSpec(spec, absl::StrCat(kv.first, "= is given twice"));
    }
  }
  return CheckKeys(spec, keys);
}

absl::StatusOr<HostOptions> ParseHostFlags(const HostFlags& flags) {
  HostOptions options;
  TW_RETURN_IF_ERROR(ParseNetSpec(flags.net, options));
  TW_RETURN_IF_ERROR(ParseDad(flags, options));
  TW_RETURN_IF_ERROR(ParseAddresses(flags, options));
  TW_RETURN_IF_ERROR(CheckKernelAddresses(flags, options));
  TW_RETURN_IF_ERROR(ParseGateways(flags, options));
  options.tap.userns = options.tap.userns || flags.userns;
  TW_RETURN_IF_ERROR(CheckUserns(flags, options));
  options.pcap = flags.pcap;
  options.pcap_raw = flags.pcap_raw;
  options.stats = flags.stats;
  options.busy_poll = std::chrono::microseconds(flags.busy_poll_us);
  return options;
}

}  // namespace tapwire::apps
