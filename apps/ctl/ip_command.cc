// SPDX-License-Identifier: Apache-2.0
// `ip [OPTIONS] OBJECT [show …]` with the words, errors and exit codes of iproute2 6.1.

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/ctl/command_line.h"
#include "apps/ctl/ip_view.h"
#include "netdev/registry.h"

namespace tapwire::apps::ctl {
namespace {

using netdev::NetDevice;

constexpr char kUsage[] =
    "Usage: ip [ OPTIONS ] OBJECT { COMMAND | help }\n"
    "where  OBJECT := { address | link | neighbor | neighbour | route }\n"
    "       OPTIONS := { -V[ersion] | -s[tatistics] | -d[etails] |\n"
    "                    -j[son] | -p[retty] | -br[ief] | -o[neline] |\n"
    "                    -f[amily] { inet | inet6 | link } | -4 | -6 | -0 |\n"
    "                    -n[etns] name | -c[olor] }\n"
    "       COMMAND := show [ [ dev ] DEVICE ] [ up ] [ type TYPE ]\n"
    "       ip link set { DEVICE | dev DEVICE } [ { up | down } ] [ mtu MTU ] [ address LLADDR ]\n"
    "                   [ promisc { on | off } ] [ allmulticast { on | off } ]\n"
    "       ip link add [ link DEVICE ] [ name ] NAME [ mtu MTU ] [ address LLADDR ]\n"
    "                   type { dummy | macvlan [ mode MODE ] ... | vlan id ID }\n"
    "       ip link delete { DEVICE | dev DEVICE }\n";

// ---- Options ----

std::optional<Reply> SetFamily(absl::string_view family, IpFlags& flags) {
  if (family == "inet") {
    flags.family = IpFamily::kV4;
  } else if (family == "inet6") {
    flags.family = IpFamily::kV6;
  } else if (family == "link") {
    flags.family.reset();
  } else {
    return Fail(kIpUsage, absl::StrCat("Error: argument \"", family,
                                       "\" is wrong: invalid protocol family\n\n"));
  }
  return std::nullopt;
}

std::optional<Reply> SetStack(const World& world, absl::string_view name, IpFlags& flags) {
  flags.stack = std::string(name);
  for (const World::NamedStack& stack : world.stacks) {
    if (stack.name == name) return std::nullopt;
  }
  return Fail(kIpError, absl::StrCat("Cannot open network namespace \"", name,
                                     "\": No such file or directory\n"));
}

// One option that stands alone; false if it is none.
bool SetPlainOption(absl::string_view word, IpFlags& flags) {
  if (word == "-4") {
    flags.family = IpFamily::kV4;
  } else if (word == "-6") {
    flags.family = IpFamily::kV6;
  } else if (word == "-0") {
    flags.family.reset();
  } else if (ShortFor(word, {"-statistics", "-stats"})) {
    ++flags.statistics;
  } else if (ShortFor(word, {"-details"})) {
    flags.details = true;
  } else if (ShortFor(word, {"-json"})) {
    flags.json = true;
  } else if (ShortFor(word, {"-pretty"})) {
    flags.pretty = true;
  } else if (word != "-b" && ShortFor(word, {"-brief"})) {  // -b is -batch
    flags.brief = true;
  } else if (ShortFor(word, {"-oneline"})) {
    flags.oneline = true;
  } else {
    // Output that a program takes in is never coloured.
    return ShortFor(word.substr(0, word.find('=')), {"-color"});
  }
  return true;
}

// Takes all words that begin with '-'. A reply ends the command.
std::optional<Reply> TakeOptions(const World& world, Words& words, IpFlags& flags) {
  while (absl::StartsWith(words.Peek(), "-")) {
    absl::string_view word = words.Take();
    if (word == "--") break;
    if (absl::StartsWith(word, "--")) word.remove_prefix(1);
    if (word.size() > 1 && SetPlainOption(word, flags)) continue;
    const bool is_family = ShortFor(word, {"-family"}), is_stack = ShortFor(word, {"-netns"});
    if (word.size() > 1 && (is_family || is_stack)) {
      if (words.done()) return IpIncomplete();
      std::optional<Reply> bad =
          is_family ? SetFamily(words.Take(), flags) : SetStack(world, words.Take(), flags);
      if (bad) return bad;
    } else if (word.size() > 1 && ShortFor(word, {"-Version"})) {
      return Print("ip utility of tapwire " TAPWIRE_VERSION "\n");
    } else if (word == "-h" || word == "-help") {
      return Fail(kIpUsage, kUsage);
    } else {
      return Fail(kIpUsage, absl::StrCat("Option \"", word, "\" is unknown, try \"ip -help\".\n"));
    }
  }
  return std::nullopt;
}

// ---- Filters of `show` ----

struct Filter {
  const NetDevice* device = nullptr;
  bool up = false;
  std::string kind;
};

// Of links and addresses: a bare word is a device.
std::optional<Reply> TakeLinkFilter(const World& world, Words& words, Filter& filter) {
  while (!words.done()) {
    absl::string_view word = words.Take();
    if (word == "up") {
      filter.up = true;
    } else if (word == "type") {
      if (words.done()) return IpIncomplete();
      filter.kind = std::string(words.Take());
    } else {
      if (word == "dev") {
        if (words.done()) return IpIncomplete();
        word = words.Take();
      }
      if (filter.device != nullptr) {
        return Fail(kIpUsage, absl::StrCat("Error: either \"dev\" is duplicate, or \"", word,
                                           "\" is a garbage.\n"));
      }
      filter.device = world.context.registry().Find(word);
      if (filter.device == nullptr) {
        return Fail(kIpError, absl::StrCat("Device \"", word, "\" does not exist.\n"));
      }
    }
  }
  return std::nullopt;
}

// Of neighbours and routes.
std::optional<Reply> TakeDeviceFilter(const World& world, Words& words, Filter& filter) {
  while (!words.done()) {
    const absl::string_view word = words.Take();
    if (word != "dev") {
      return Fail(kIpError, absl::StrCat("Error: any valid prefix is expected rather than \"", word,
                                         "\".\n"));
    }
    if (words.done()) return IpIncomplete();
    filter.device = world.context.registry().Find(words.Peek());
    if (filter.device == nullptr) return IpCannotFind(words.Take());
    words.Take();
  }
  return std::nullopt;
}

bool Shows(const World& world, const NetDevice& device, const Filter& filter,
           const IpFlags& flags) {
  if (filter.device != nullptr && filter.device != &device) return false;
  if (filter.up && !device.is_up()) return false;
  if (!filter.kind.empty() && filter.kind != device.kind()) return false;
  if (flags.stack.empty()) return true;
  const std::vector<Stack*> stacks = StacksOf(world, flags);
  return std::any_of(stacks.begin(), stacks.end(), [&](const Stack* stack) {
    return stack->FindInterface(device.ifindex()) != nullptr;
  });
}

Devices Shown(const World& world, const Filter& filter, const IpFlags& flags) {
  Devices shown;
  for (const NetDevice* device : world.context.registry().devices()) {
    if (Shows(world, *device, filter, flags)) shown.push_back(device);
  }
  return shown;
}

// ---- Objects ----

enum class Object { kLink, kAddress, kNeighbor, kRoute };

// In the order of iproute2, where "n" is neighbor and "l" is link.
std::optional<Object> ObjectOf(absl::string_view word) {
  if (ShortFor(word, {"address"})) return Object::kAddress;
  if (ShortFor(word, {"route"})) return Object::kRoute;
  if (ShortFor(word, {"link"})) return Object::kLink;
  if (ShortFor(word, {"neighbor", "neighbour"})) return Object::kNeighbor;
  return std::nullopt;
}

const char* HelpName(Object object) {
  switch (object) {
    case Object::kLink:
      return "link";
    case Object::kAddress:
      return "address";
    case Object::kNeighbor:
      return "neigh";
    case Object::kRoute:
      break;
  }
  return "route";
}

Reply Show(const World& world, Object object, Words words, const IpFlags& flags) {
  Filter filter;
  const bool links = object == Object::kLink || object == Object::kAddress;
  std::optional<Reply> bad =
      links ? TakeLinkFilter(world, words, filter) : TakeDeviceFilter(world, words, filter);
  if (bad) return *bad;
  switch (object) {
    case Object::kLink:
      return Print(LinkTable(world, Shown(world, filter, flags), flags));
    case Object::kAddress:
      return Print(AddressTable(world, Shown(world, filter, flags), flags));
    case Object::kNeighbor:
      return Print(NeighborTable(world, filter.device, flags));
    case Object::kRoute:
      break;
  }
  return Print(RouteTable(world, filter.device, flags));
}

Reply RunObject(World& world, Object object, Words words, const IpFlags& flags) {
  const absl::string_view command = words.Take();
  if (command.empty() || ShortFor(command, {"show", "lst", "list"})) {
    return Show(world, object, words, flags);
  }
  if (ShortFor(command, {"help"})) return Fail(kIpUsage, kUsage);
  if (object == Object::kLink) {
    if (ShortFor(command, {"add"})) return IpLinkAdd(world, words);
    if (ShortFor(command, {"set", "change"})) return IpLinkSet(world, words);
    if (ShortFor(command, {"delete"})) return IpLinkDelete(world, words);
  }
  return Fail(kIpUsage, absl::StrCat("Command \"", command, "\" is unknown, try \"ip ",
                                     HelpName(object), " help\".\n"));
}

}  // namespace

Reply IpIncomplete() {
  return Fail(kIpUsage, "Command line is not complete. Try option \"help\"\n");
}

Reply IpCannotFind(absl::string_view device) {
  return Fail(kIpError, absl::StrCat("Cannot find device \"", device, "\"\n"));
}

Reply RunIp(World& world, const Argv& argv) {
  Words words(argv, 1);
  IpFlags flags;
  if (std::optional<Reply> reply = TakeOptions(world, words, flags)) return *reply;
  if (words.done()) return Fail(kIpUsage, kUsage);
  const absl::string_view word = words.Take();
  const std::optional<Object> object = ObjectOf(word);
  if (!object) {
    if (word == "help") return Fail(kIpUsage, kUsage);
    return Fail(kIpError, absl::StrCat("Object \"", word, "\" is unknown, try \"ip help\".\n"));
  }
  return RunObject(world, *object, words, flags);
}

Reply Execute(World& world, const std::vector<std::string>& argv) {
  const auto is_gone = [&](uint32_t ifindex) {
    return world.context.registry().Find(ifindex) == nullptr;
  };
  std::erase_if(world.promiscuous, is_gone);
  std::erase_if(world.allmulti, is_gone);
  if (!argv.empty() && argv[0] == "ip") return RunIp(world, argv);
  if (!argv.empty() && argv[0] == "ethtool") return RunEthtool(world, argv);
  return Fail(2, absl::StrCat("tapwire ctl: '", argv.empty() ? "" : argv[0],
                              "' is unknown; there are ip and ethtool\n"));
}

}  // namespace tapwire::apps::ctl
