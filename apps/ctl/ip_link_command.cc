// SPDX-License-Identifier: Apache-2.0
// `ip link set|add|del`: the words of iproute2 6.1, the refusals of rtnetlink.

#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/ctl/command_line.h"
#include "netdev/base/status_util.h"
#include "netdev/dummy.h"
#include "netdev/macvlan.h"
#include "netdev/registry.h"
#include "netdev/vlan_device.h"

namespace tapwire::apps::ctl {
namespace {

using netdev::NetDevice;
using Problem = std::optional<Reply>;  // nothing: go on

constexpr size_t kMaxNameLength = 15;

Reply Refused(const absl::Status& status) {
  return Fail(kIpRefused,
              absl::StrCat("RTNETLINK answers: ", strerror(StatusToErrno(status)), "\n"));
}
Problem IfRefused(const absl::Status& status) {
  return status.ok() ? std::nullopt : Problem(Refused(status));
}
Reply RefusedBecause(absl::string_view why) {
  return Fail(kIpRefused, absl::StrCat("Error: ", why, ".\n"));
}
Reply WrongArgument(absl::string_view word, absl::string_view why) {
  return Fail(kIpUsage, absl::StrCat("Error: argument \"", word, "\" is wrong: ", why, "\n"));
}
Reply DuplicateOrGarbage(absl::string_view word) {
  return Fail(kIpUsage, absl::StrCat("Error: either \"dev\" is duplicate, or \"", word,
                                     "\" is a garbage.\n"));
}

// ---- Values ----

Problem TakeNumber(Words& words, const std::string& why, int64_t& number) {
  if (words.done()) return IpIncomplete();
  const absl::string_view word = words.Take();
  if (!absl::SimpleAtoi(word, &number)) return WrongArgument(word, why);
  return std::nullopt;
}

// The device takes it as 32 bits without a sign; what cannot be one is out of its range anyway.
uint32_t Clamped(int64_t number) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(number < 0 ? 0 : number > kMax ? kMax : number);
}

Problem TakeMtu(Words& words, std::optional<uint32_t>& mtu) {
  int64_t number = 0;
  if (Problem bad = TakeNumber(words, "Invalid \"mtu\" value\n", number)) return bad;
  mtu = Clamped(number);
  return std::nullopt;
}

Problem TakeMac(Words& words, std::optional<MacAddress>& mac) {
  if (words.done()) return IpIncomplete();
  const absl::string_view word = words.Take();
  mac = MacAddress::Parse(word);
  if (!mac) return Fail(kIpError, absl::StrCat("\"", word, "\" is invalid lladdr.\n"));
  return std::nullopt;
}

Problem TakeSwitch(Words& words, absl::string_view key, std::optional<bool>& on) {
  if (words.done()) return IpIncomplete();
  const absl::string_view word = words.Take();
  if (word != "on" && word != "off") {
    return Fail(kIpError, absl::StrCat("Error: argument of \"", key,
                                       "\" must be \"on\" or \"off\", not \"", word, "\"\n"));
  }
  on = word == "on";
  return std::nullopt;
}

bool IsValidName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength && name != "." && name != ".." &&
         name.find_first_of("/: \t\n\v\f\r") == absl::string_view::npos;
}

// ---- set ----

struct LinkChange {
  NetDevice* device = nullptr;
  std::optional<uint32_t> mtu;
  std::optional<MacAddress> mac;
  std::optional<bool> up, promiscuous, allmulti;
};

Problem TakeSetWord(World& world, Words& words, LinkChange& change, absl::string_view& name) {
  const absl::string_view word = words.Take();
  if (word == "up" || word == "down") {
    change.up = word == "up";
    return std::nullopt;
  }
  if (word == "mtu") return TakeMtu(words, change.mtu);
  if (word == "address") return TakeMac(words, change.mac);
  if (word == "promisc") return TakeSwitch(words, word, change.promiscuous);
  if (word == "allmulticast") return TakeSwitch(words, word, change.allmulti);
  absl::string_view device = word;
  if (word == "dev") {
    if (words.done()) return IpIncomplete();
    device = words.Take();
  }
  if (!name.empty()) return DuplicateOrGarbage(device);
  name = device;
  change.device = world.context.registry().Find(name);
  return std::nullopt;
}

Problem ChangeMtu(NetDevice& device, uint32_t mtu) {
  if (mtu < device.min_mtu()) return RefusedBecause("mtu less than device minimum");
  if (mtu > device.max_mtu()) return RefusedBecause("mtu greater than device maximum");
  return IfRefused(device.SetMtu(mtu));
}

Problem ChangeMac(NetDevice& device, const MacAddress& mac) {
  // As rtnetlink, before the device is asked.
  if (!mac.IsUnicast() || mac.IsZero()) return Refused(ErrnoStatus(EADDRNOTAVAIL, device.name()));
  return IfRefused(device.SetMac(mac));
}

// A user's wish counts once, however often it is said.
Problem ChangeRxFlag(NetDevice& device, bool on, std::set<uint32_t>& wishes,
                     absl::Status (NetDevice::*change)(int)) {
  if (on == wishes.contains(device.ifindex())) return std::nullopt;
  if (Problem bad = IfRefused((device.*change)(on ? 1 : -1))) return bad;
  if (on) {
    wishes.insert(device.ifindex());
  } else {
    wishes.erase(device.ifindex());
  }
  return std::nullopt;
}

// In the kernel's order: what was done before an error stays done.
Reply Apply(World& world, const LinkChange& change) {
  NetDevice& device = *change.device;
  Problem bad;
  if (change.mac) bad = ChangeMac(device, *change.mac);
  if (!bad && change.mtu) bad = ChangeMtu(device, *change.mtu);
  if (!bad && change.promiscuous) {
    bad =
        ChangeRxFlag(device, *change.promiscuous, world.promiscuous, &NetDevice::ChangePromiscuity);
  }
  if (!bad && change.allmulti) {
    bad = ChangeRxFlag(device, *change.allmulti, world.allmulti, &NetDevice::ChangeAllMulti);
  }
  if (!bad && change.up) {
    if (*change.up) {
      bad = IfRefused(device.Up());
    } else {
      device.Down();
    }
  }
  return bad ? *bad : Reply{};
}

// ---- add ----

struct LinkRequest {
  const NetDevice* lower = nullptr;
  absl::string_view lower_name, name, kind;
  std::optional<uint32_t> mtu;
  std::optional<MacAddress> mac;
};

Problem TakeAddWord(Words& words, LinkRequest& request) {
  const absl::string_view word = words.Take();
  if (word == "mtu") return TakeMtu(words, request.mtu);
  if (word == "address") return TakeMac(words, request.mac);
  if (word == "link" || word == "name" || word == "dev" || word == "type") {
    if (words.done()) return IpIncomplete();
  }
  if (word == "link") {
    request.lower_name = words.Take();
  } else if (word == "type") {
    request.kind = words.Take();
  } else {
    const absl::string_view name = word == "name" || word == "dev" ? words.Take() : word;
    if (!request.name.empty()) return DuplicateOrGarbage(name);
    if (!IsValidName(name)) return WrongArgument(name, "\"name\" not a valid ifname");
    request.name = name;
  }
  return std::nullopt;
}

Problem TakeMode(Words& words, netdev::MacvlanOptions& options) {
  if (words.done()) return IpIncomplete();
  const absl::string_view word = words.Take();
  const std::optional<netdev::MacvlanMode> mode = netdev::MacvlanModeByName(word);
  if (!mode) {
    return Fail(kIpError, absl::StrCat("Error: argument of \"mode\" must be \"private\", \"vepa\", "
                                       "\"bridge\", \"passthru\" or \"source\", not \"",
                                       word, "\"\n"));
  }
  options.mode = static_cast<uint32_t>(*mode);
  return std::nullopt;
}

Problem TakeMacvlanFlag(absl::string_view word, netdev::MacvlanOptions& options) {
  if (word == "nopromisc") {
    options.flags |= netdev::kMacvlanNoPromisc;
  } else if (word == "nodst") {
    options.flags |= netdev::kMacvlanNoDst;
  } else if (word != "null") {
    return Fail(kIpError, absl::StrCat("Error: argument of \"flag\" must be \"nopromisc\", "
                                       "\"nodst\" or \"null\", not \"",
                                       word, "\"\n"));
  }
  return std::nullopt;
}

// "macaddr add MAC" or "macaddr set MAC…".
Problem TakeSources(Words& words, netdev::MacvlanOptions& options) {
  using Command = netdev::MacvlanSourceChange::Command;
  netdev::MacvlanSourceChange change;
  if (words.done()) return IpIncomplete();
  const absl::string_view command = words.Take();
  change.command = command == "add" ? Command::kAdd : Command::kSet;
  if (command != "add" && command != "set") {
    return Fail(kIpError, absl::StrCat("macvlan: unknown option \"", command, "\"?\n"));
  }
  std::optional<MacAddress> mac;
  if (command == "add") {
    if (Problem bad = TakeMac(words, mac)) return bad;
    change.address = mac;
  } else {
    while (MacAddress::Parse(words.Peek())) change.list.push_back(*MacAddress::Parse(words.Take()));
  }
  options.source = std::move(change);
  return std::nullopt;
}

// The switches of experiments, which iproute2 does not have.
Problem TakeExperiment(absl::string_view word, Words& words, netdev::MacvlanOptions& options) {
  if (word == "always_on") {
    std::optional<bool> on;
    if (Problem bad = TakeSwitch(words, word, on)) return bad;
    options.always_on = *on;
    return std::nullopt;
  }
  if (words.done()) return IpIncomplete();
  const absl::string_view way = words.Take();
  if (way != "queue" && way != "reinject") {
    return Fail(kIpError, absl::StrCat("Error: argument of \"rx\" must be \"reinject\" or "
                                       "\"queue\", not \"",
                                       way, "\"\n"));
  }
  options.rx = way == "queue" ? netdev::MacvlanRx::kQueue : netdev::MacvlanRx::kReinject;
  return std::nullopt;
}

Problem TakeMacvlanWord(Words& words, netdev::MacvlanOptions& options) {
  const absl::string_view word = words.Take();
  int64_t number = 0;
  if (word == "mode") return TakeMode(words, options);
  if (word == "nopromisc" || word == "nodst") return TakeMacvlanFlag(word, options);
  if (word == "macaddr") return TakeSources(words, options);
  if (word == "always_on" || word == "rx") return TakeExperiment(word, words, options);
  if (word == "flag") {
    return words.done() ? Problem(IpIncomplete()) : TakeMacvlanFlag(words.Take(), options);
  }
  if (word == "bcqueuelen") {
    if (Problem bad = TakeNumber(words, "Illegal value for \"bcqueuelen\"\n", number)) return bad;
    options.broadcast_queue_packets = Clamped(number);
    return std::nullopt;
  }
  if (word == "bccutoff") {
    if (Problem bad = TakeNumber(words, "Illegal value for \"bccutoff\"\n", number)) return bad;
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    options.broadcast_cutoff = static_cast<int32_t>(number < 0      ? -1
                                                    : number > kMax ? kMax
                                                                    : number);
    return std::nullopt;
  }
  return Fail(kIpError, absl::StrCat("macvlan: unknown option \"", word,
                                     "\"?\nUsage: ... macvlan mode MODE [flag MODE_FLAG] MODE_OPTS "
                                     "[bcqueuelen BC_QUEUE_LEN] [bccutoff BC_CUTOFF]\n"));
}

Reply AddMacvlan(World& world, Words words, const LinkRequest& request) {
  netdev::MacvlanOptions options;
  while (!words.done()) {
    if (Problem bad = TakeMacvlanWord(words, options)) return *bad;
  }
  options.name = std::string(request.name);
  options.mac = request.mac;
  options.mtu = request.mtu;
  const uint32_t lower = request.lower == nullptr ? 0 : request.lower->ifindex();
  if (lower == 0) return Refused(ErrnoStatus(EINVAL, "no lower device"));
  const auto made = CreateMacvlan(world.context, lower, std::move(options));
  return made.ok() ? Reply{} : Refused(made.status());
}

Problem TakeVlanWord(Words& words, netdev::VlanOptions& options, int64_t& id) {
  const absl::string_view word = words.Take();
  if (word == "id") return TakeNumber(words, "id is invalid", id);
  if (word != "protocol") {
    return Fail(kIpError, absl::StrCat("vlan: unknown option \"", word,
                                       "\"?\nUsage: ... vlan id VLANID [ protocol VLANPROTO ]\n"));
  }
  if (words.done()) return IpIncomplete();
  const absl::string_view protocol = words.Take();
  const std::string lower = absl::AsciiStrToLower(protocol);
  if (lower != "802.1q" && lower != "802.1ad") {
    return WrongArgument(protocol, "protocol is invalid");
  }
  options.protocol = lower == "802.1q" ? wire::EtherType::kVlan : wire::EtherType::kQinQ;
  return std::nullopt;
}

Reply AddVlan(World& world, Words words, const LinkRequest& request) {
  netdev::VlanOptions options;
  int64_t id = -1;
  while (!words.done()) {
    if (Problem bad = TakeVlanWord(words, options, id)) return *bad;
  }
  if (id == -1) return RefusedBecause("8021q: VLAN id not specified");
  if (id < 0 || id > 4094) return RefusedBecause("8021q: Invalid VLAN id");
  if (request.lower == nullptr) return RefusedBecause("8021q: link not specified");
  options.vlan_id = static_cast<uint16_t>(id);
  options.name = std::string(request.name);
  options.mac = request.mac;
  options.mtu = request.mtu;
  const auto made = CreateVlan(world.context, request.lower->ifindex(), std::move(options));
  return made.ok() ? Reply{} : Refused(made.status());
}

Reply AddDummy(World& world, Words words, const LinkRequest& request) {
  if (!words.done()) {
    return Fail(kIpError, absl::StrCat("dummy: unknown option \"", words.Peek(), "\"?\n"));
  }
  netdev::DummyOptions options;
  options.name = std::string(request.name);
  options.mac = request.mac.value_or(MacAddress());
  if (request.mtu) options.mtu = *request.mtu;
  const auto made = CreateDummy(world.context, std::move(options));
  return made.ok() ? Reply{} : Refused(made.status());
}

}  // namespace

Reply IpLinkSet(World& world, Words words) {
  LinkChange change;
  absl::string_view name;
  while (!words.done()) {
    if (Problem bad = TakeSetWord(world, words, change, name)) return *bad;
  }
  if (name.empty()) {
    return Fail(kIpUsage, "Not enough information: \"dev\" argument is required.\n");
  }
  if (change.device == nullptr) return IpCannotFind(name);
  return Apply(world, change);
}

Reply IpLinkAdd(World& world, Words words) {
  LinkRequest request;
  while (!words.done() && request.kind.empty()) {
    if (Problem bad = TakeAddWord(words, request)) return *bad;
  }
  if (request.kind.empty()) {
    return Fail(kIpError, "Not enough information: \"type\" argument is required\n");
  }
  const netdev::Registry& registry = world.context.registry();
  if (!request.lower_name.empty()) {
    request.lower = registry.Find(request.lower_name);
    if (request.lower == nullptr) return IpCannotFind(request.lower_name);
  }
  if (registry.Find(request.name) != nullptr) {
    return Refused(ErrnoStatus(EEXIST, std::string(request.name)));
  }
  if (request.kind == "macvlan") return AddMacvlan(world, words, request);
  if (request.kind == "vlan") return AddVlan(world, words, request);
  if (request.kind == "dummy") return AddDummy(world, words, request);
  return RefusedBecause("Unknown device type");
}

Reply IpLinkDelete(World& world, Words words) {
  absl::string_view name, kind;
  while (!words.done()) {
    const absl::string_view word = words.Take();
    if ((word == "dev" || word == "type") && words.done()) return IpIncomplete();
    if (word == "type") {
      kind = words.Take();
      continue;
    }
    const absl::string_view device = word == "dev" ? words.Take() : word;
    if (!name.empty()) return DuplicateOrGarbage(device);
    name = device;
  }
  if (name.empty()) {
    return Fail(kIpUsage, "Not enough information: \"dev\" argument is required.\n");
  }
  NetDevice* device = world.context.registry().Find(name);
  if (device == nullptr) return IpCannotFind(name);
  if (device->is_loopback() || (!kind.empty() && kind != device->kind())) {
    return Refused(ErrnoStatus(EOPNOTSUPP, device->name()));
  }
  world.context.registry().Unregister(*device);
  return {};
}

}  // namespace tapwire::apps::ctl
