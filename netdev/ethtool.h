// SPDX-License-Identifier: Apache-2.0
// The feature commands of ethtool, with their rules and errors; texts are printed by the tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "netdev/device.h"
#include "netdev/features.h"

namespace tapwire::netdev {

// State of one bit as `ethtool -k` shows it.
struct FeatureState {
  bool on = false;         // in features
  bool fixed = false;      // users cannot change it
  bool requested = false;  // not fixed, and wanted says otherwise than `on`: "[requested …]"
};
FeatureState FeatureStateOf(const NetDevice& device, Feature feature);
// "on", "off [fixed]", "off [requested on]".
std::string FeatureStateText(const FeatureState& state);

// What became of a bulk request.
struct FeatureRequestResult {
  bool unsupported = false;  // some bits cannot be changed and were ignored
  bool wish = false;         // some bits were recorded but are not in effect
  FeatureSet changed;        // of the active set
};
// ETHTOOL_SFEATURES: kInvalidArgument (EINVAL), and nothing done, if `valid` names a bit outside
// kEthtoolBits. Sends kFeatChange if the active set differs from before.
absl::StatusOr<FeatureRequestResult> SetFeaturesBulk(NetDevice& device, FeatureSet valid,
                                                     FeatureSet wanted);
// The netlink form: as above, but bits outside hw_features are masked silently, and nothing is
// computed if the wanted set does not change.
absl::StatusOr<FeatureRequestResult> SetFeaturesNetlink(NetDevice& device, FeatureSet valid,
                                                        FeatureSet wanted);

// The old commands that switch several bits at once.
enum class LegacyFeature : uint8_t { kRxCsum, kTxCsum, kSg, kTso, kGso, kGro, kLro };
absl::string_view LegacyFeatureName(LegacyFeature feature);  // "rx", "tx", "sg", …
FeatureSet LegacyFeatureMask(LegacyFeature feature);
bool GetLegacyFeature(const NetDevice& device, LegacyFeature feature);
// kUnimplemented (EOPNOTSUPP) if no bit of the mask can be changed. What the driver refuses is
// logged, not returned.
absl::Status SetLegacyFeature(NetDevice& device, LegacyFeature feature, bool on);

}  // namespace tapwire::netdev
