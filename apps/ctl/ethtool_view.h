// SPDX-License-Identifier: Apache-2.0
// What ethtool prints about the features, the driver and the statistics of a device, in the layout
// of ethtool 6.1.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "netdev/device.h"
#include "netdev/ethtool.h"
#include "netdev/features.h"

namespace tapwire::apps::ctl {

// `ethtool -k`, with `json` as --json.
std::string FeatureTable(const netdev::NetDevice& device, bool json);

// The features that a word of `ethtool -K` names: an old short or long name ("tso",
// "tcp-segmentation-offload") stands for a group, any other is one feature's own. nullopt: unknown.
std::optional<netdev::FeatureSet> FeaturesNamed(absl::string_view word);

// What `ethtool -K` asked for and what came of it.
struct FeatureChange {
  netdev::FeatureSet asked;    // the bits that were named
  netdev::FeatureSet values;   // …and what they should be
  netdev::FeatureSet changed;  // of the active set
  netdev::FeatureSet active;   // after it
};
// "Actual changes:" and a line for each surprise; empty if just what was asked for has happened.
std::string ChangeTable(const FeatureChange& change);
// Nothing that was asked for is in effect that was not before: ethtool fails then.
bool NothingChanged(const FeatureChange& change);

std::string DriverTable(const netdev::NetDevice& device);      // `ethtool -i`
std::string StatisticsTable(const netdev::NetDevice& device);  // `ethtool -S`

}  // namespace tapwire::apps::ctl
