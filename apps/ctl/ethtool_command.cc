// SPDX-License-Identifier: Apache-2.0
// `ethtool -k|-K|-i|-S DEV` with the words, errors and exit codes of ethtool 6.1.

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/ctl/command_line.h"
#include "apps/ctl/ethtool_view.h"
#include "netdev/base/status_util.h"
#include "netdev/ethtool.h"
#include "netdev/registry.h"

namespace tapwire::apps::ctl {
namespace {

using netdev::FeatureSet;
using netdev::NetDevice;

// Exit codes of ethtool, each of a place in its source.
constexpr int kUsage = 1, kNoDevice = 1, kNoDeviceForInfo = 71, kFeatureError = 92,
              kNoDeviceForStats = 96;
constexpr char kBadLine[] =
    "ethtool: bad command line argument(s)\nFor more information run ethtool -h\n";
constexpr char kNoSuchDevice[] =
    "netlink error: no device matches name (offset 24)\nnetlink error: No such device\n";
constexpr char kHelp[] =
    "Usage:\n"
    "        ethtool [ --json ] -k|--show-features DEVNAME\tGet state of protocol offload and "
    "other "
    "features\n"
    "        ethtool -K|--features DEVNAME FEATURE on|off ...\tSet them\n"
    "        ethtool -i|--driver DEVNAME\tShow driver information\n"
    "        ethtool -S|--statistics DEVNAME\tShow adapter statistics\n"
    "        ethtool -h|--help\tShow this help\n"
    "        ethtool --version\tShow version number\n";

enum class Command { kShow, kSet, kInfo, kStatistics };

std::optional<Command> CommandOf(absl::string_view word) {
  struct Spelling {
    absl::string_view word;
    Command command;
  };
  static constexpr std::array<Spelling, 10> kSpellings = {{
      {"-k", Command::kShow},
      {"--show-features", Command::kShow},
      {"--show-offload", Command::kShow},
      {"-K", Command::kSet},
      {"--features", Command::kSet},
      {"--offload", Command::kSet},
      {"-i", Command::kInfo},
      {"--driver", Command::kInfo},
      {"-S", Command::kStatistics},
      {"--statistics", Command::kStatistics},
  }};
  for (const Spelling& spelling : kSpellings) {
    if (spelling.word == word) return spelling.command;
  }
  return std::nullopt;
}

// Where ethtool's request has the name of its first feature: behind three headers and the name of
// the device, with its terminator padded to four bytes.
size_t FirstNameOffset(const NetDevice& device) {
  constexpr size_t kHeaders = 20 + 4 + 4 + 8 + 12;
  return kHeaders + (device.name().size() + 1 + 3) / 4 * 4;
}

// `FEATURE on|off …` into the bits that are named and their values.
std::optional<Reply> ParseFeatures(Words& words, const NetDevice& device, FeatureSet& asked,
                                   FeatureSet& values) {
  while (!words.done()) {
    const absl::string_view name = words.Take();
    const bool missing = words.done();
    const absl::string_view value = words.Take();
    if (value != "on" && value != "off") {
      return Fail(kUsage,
                  absl::StrCat("ethtool (-K): flag '", missing ? "(null)" : value,
                               "' for parameter '", name, "' is not followed by 'on' or 'off'\n"));
    }
    const std::optional<FeatureSet> named = FeaturesNamed(name);
    if (!named) {
      return Fail(kFeatureError, absl::StrCat("netlink error: bit name not found (offset ",
                                              FirstNameOffset(device),
                                              ")\nnetlink error: Operation not supported\n"));
    }
    asked |= *named;
    values = value == "on" ? values | *named : values & ~*named;
  }
  return std::nullopt;
}

Reply SetFeatures(NetDevice& device, Words words) {
  FeatureChange change;
  if (auto bad = ParseFeatures(words, device, change.asked, change.values)) return *bad;
  const absl::StatusOr<netdev::FeatureRequestResult> result =
      SetFeaturesNetlink(device, change.asked, change.values);
  if (!result.ok()) {
    return Fail(kFeatureError,
                absl::StrCat("netlink error: attempt to change non-ethtool features (offset ",
                             FirstNameOffset(device),
                             ")\nnetlink error: ", strerror(StatusToErrno(result.status())), "\n"));
  }
  change.changed = result->changed;
  change.active = device.features();
  Reply reply = Print(ChangeTable(change));
  if (NothingChanged(change)) {
    reply.exit_code = kUsage;
    reply.err = "Could not change any device features\n";
  }
  return reply;
}

Reply NoDevice(Command command) {
  switch (command) {
    case Command::kInfo:
      return Fail(kNoDeviceForInfo, "Cannot get driver information: No such device\n");
    case Command::kStatistics:
      return Fail(kNoDeviceForStats, "Cannot get stats strings information: No such device\n");
    case Command::kSet:
      return Fail(kFeatureError, kNoSuchDevice);
    case Command::kShow:
      break;
  }
  return Fail(kNoDevice, kNoSuchDevice);
}

}  // namespace

Reply RunEthtool(World& world, const Argv& argv) {
  Words words(argv, 1);
  if (words.TakeIf("-h") || words.TakeIf("--help")) return Print(kHelp);
  if (words.TakeIf("--version")) return Print("ethtool of tapwire " TAPWIRE_VERSION "\n");
  const bool json = words.TakeIf("--json");
  const std::optional<Command> command = CommandOf(words.Take());
  if (!command || words.done() || (json && *command != Command::kShow)) {
    return Fail(kUsage, kBadLine);
  }
  NetDevice* device = world.context.registry().Find(words.Take());
  if (*command != Command::kSet && !words.done()) {
    return Fail(kUsage, absl::StrCat("ethtool: unexpected parameter '", words.Peek(), "'\n"));
  }
  if (device == nullptr) return NoDevice(*command);
  switch (*command) {
    case Command::kShow:
      return Print(FeatureTable(*device, json));
    case Command::kSet:
      return SetFeatures(*device, words);
    case Command::kInfo:
      return Print(DriverTable(*device));
    case Command::kStatistics:
      break;
  }
  return Print(StatisticsTable(*device));
}

}  // namespace tapwire::apps::ctl
