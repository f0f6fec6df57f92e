// SPDX-License-Identifier: Apache-2.0
#include "apps/ctl/ethtool_view.h"

#include <array>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/ctl/json_text.h"
#include "netdev/base/drop_reason.h"
#include "netdev/vlan_device.h"

namespace tapwire::apps::ctl {
namespace {

using netdev::Feature;
using netdev::FeatureSet;
using netdev::NetDevice;

// ethtool's names from before there was a string for each feature. A group is all features whose
// strings fit the pattern, in which '*' stands for anything.
struct OldName {
  absl::string_view short_name, long_name, pattern;
};
constexpr std::array<OldName, 12> kOldNames = {{
    {"rx", "rx-checksumming", "rx-checksum"},
    {"tx", "tx-checksumming", "tx-checksum-*"},
    {"sg", "scatter-gather", "tx-scatter-gather*"},
    {"tso", "tcp-segmentation-offload", "tx-tcp*-segmentation"},
    {"ufo", "udp-fragmentation-offload", "tx-udp-fragmentation"},
    {"gso", "generic-segmentation-offload", "tx-generic-segmentation"},
    {"gro", "generic-receive-offload", "rx-gro"},
    {"lro", "large-receive-offload", "rx-lro"},
    {"rxvlan", "rx-vlan-offload", "rx-vlan-hw-parse"},
    {"txvlan", "tx-vlan-offload", "tx-vlan-hw-insert"},
    {"ntuple", "ntuple-filters", "rx-ntuple-filter"},
    {"rxhash", "receive-hashing", "rx-hashing"},
}};

bool Fits(absl::string_view name, absl::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == absl::string_view::npos) return name == pattern;
  const absl::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  return name.size() >= head.size() + tail.size() && absl::StartsWith(name, head) &&
         absl::EndsWith(name, tail);
}

// In bit order.
std::vector<Feature> AllFeatures() {
  std::vector<Feature> all;
  for (int bit = 0; bit < 64; ++bit) {
    if (!netdev::FeatureName(bit).empty()) all.push_back(static_cast<Feature>(bit));
  }
  return all;
}

absl::string_view NameOf(Feature feature) { return netdev::FeatureName(static_cast<int>(feature)); }

std::vector<Feature> Members(const OldName& group) {
  std::vector<Feature> members;
  for (const Feature feature : AllFeatures()) {
    if (Fits(NameOf(feature), group.pattern)) members.push_back(feature);
  }
  return members;
}

const char* OnOff(bool on) { return on ? "on" : "off"; }

// One line, or one member of the JSON object, after the other.
class FeaturePrinter {
 public:
  FeaturePrinter(const NetDevice& device, bool json) : device_(device), wants_json_(json) {
    json_["ifname"] = device.name();
    text_ = absl::StrCat("Features for ", device.name(), ":\n");
  }

  void One(absl::string_view name, Feature feature, absl::string_view indent = "") {
    const netdev::FeatureState state = FeatureStateOf(device_, feature);
    absl::StrAppend(&text_, indent, name, ": ", FeatureStateText(state), "\n");
    json_[std::string(name)] = {{"active", state.on},
                                {"fixed", state.fixed},
                                {"requested", device_.wanted_features().Has(feature)}};
  }
  // On if one of its members is; these follow.
  void Group(absl::string_view name, const std::vector<Feature>& members) {
    bool on = false;
    for (const Feature feature : members) on = on || device_.features().Has(feature);
    absl::StrAppend(&text_, name, ": ", OnOff(on), "\n");
    json_[std::string(name)] = {{"active", on}, {"fixed", nullptr}, {"requested", nullptr}};
    for (const Feature feature : members) One(NameOf(feature), feature, "\t");
  }
  std::string Take() {
    return wants_json_ ? JsonText(Json::array({json_}), /*pretty=*/true) : std::move(text_);
  }

 private:
  const NetDevice& device_;
  const bool wants_json_;
  Json json_;
  std::string text_;
};

struct DriverInfo {
  std::string driver, version, firmware;
};

DriverInfo DriverOf(const NetDevice& device) {
  if (netdev::VlanTagOf(device)) return {"802.1Q VLAN Support", "1.8", "N/A"};
  if (device.kind() == "macvlan") return {"macvlan", "0.1", ""};
  return {std::string(device.kind()), TAPWIRE_VERSION, ""};
}

}  // namespace

std::string FeatureTable(const NetDevice& device, bool json) {
  FeaturePrinter printer(device, json);
  FeatureSet shown;
  for (const OldName& group : kOldNames) {
    const std::vector<Feature> members = Members(group);
    for (const Feature feature : members) shown |= feature;
    if (members.size() == 1) {
      printer.One(group.long_name, members[0]);
    } else if (!members.empty()) {
      printer.Group(group.long_name, members);
    }
  }
  for (const Feature feature : AllFeatures()) {
    if (!shown.Has(feature)) printer.One(NameOf(feature), feature);
  }
  return printer.Take();
}

std::optional<FeatureSet> FeaturesNamed(absl::string_view word) {
  for (const OldName& group : kOldNames) {
    if (word != group.short_name && word != group.long_name) continue;
    FeatureSet set;
    for (const Feature feature : Members(group)) set |= feature;
    return set;
  }
  const std::optional<Feature> feature = netdev::FeatureByName(word);
  if (!feature) return std::nullopt;
  return FeatureSet(*feature);
}

namespace {

// Asked for and not so.
FeatureSet Refused(const FeatureChange& change) {
  return (change.values ^ change.active) & change.asked;
}

}  // namespace

bool NothingChanged(const FeatureChange& change) {
  return (change.asked & ~Refused(change)).empty() && change.changed.empty();
}

std::string ChangeTable(const FeatureChange& change) {
  const FeatureSet refused = Refused(change);
  if (refused.empty() && (change.changed & ~change.asked).empty()) return "";
  std::string text = "Actual changes:\n";
  for (const Feature feature : AllFeatures()) {
    if (!refused.Has(feature) && !change.changed.Has(feature)) continue;
    absl::StrAppend(&text, NameOf(feature), ": ", OnOff(change.active.Has(feature)));
    if (refused.Has(feature)) {
      absl::StrAppend(&text, " [requested ", OnOff(change.values.Has(feature)), "]");
    } else if (!change.asked.Has(feature)) {
      text += " [not requested]";
    }
    text += '\n';
  }
  return text;
}

std::string DriverTable(const NetDevice& device) {
  const DriverInfo info = DriverOf(device);
  return absl::StrCat("driver: ", info.driver, "\nversion: ", info.version,
                      "\nfirmware-version: ", info.firmware,
                      "\nexpansion-rom-version: \nbus-info: \nsupports-statistics: yes\n"
                      "supports-test: no\nsupports-eeprom-access: no\n"
                      "supports-register-dump: no\nsupports-priv-flags: no\n");
}

std::string StatisticsTable(const NetDevice& device) {
  std::string text = "NIC statistics:\n";
  const auto line = [&text](absl::string_view name, uint64_t value) {
    absl::StrAppend(&text, "     ", name, ": ", value, "\n");
  };
  device.stats().ForEach([&](absl::string_view name, absl::string_view /*help*/, uint64_t value) {
    line(name, value);
  });
  device.ForEachDriverStat(line);
  device.drops().ForEach([&](DropReason reason, uint64_t value) {
    if (value != 0) line(absl::StrCat("drop_", DropReasonName(reason)), value);
  });
  return text;
}

}  // namespace tapwire::apps::ctl
