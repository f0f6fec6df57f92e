// SPDX-License-Identifier: Apache-2.0
#include "netdev/ethtool.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"

namespace tapwire::netdev {

// The parts of the update that commands take one by one: unlike NetDevice::UpdateFeatures() they
// announce a change of the active set only.
class FeatureCommands {
 public:
  static void Request(NetDevice& device, FeatureSet mask, FeatureSet values) {
    const FeatureSet before = device.features_;
    device.Want(mask, values);
    device.RecomputeFeatures();
    if (device.features_ != before) device.Notify(NetdevEvent::kFeatChange);
  }
};

namespace {

absl::Status CheckNames(const NetDevice& device, FeatureSet valid) {
  const FeatureSet foreign = valid & ~kEthtoolBits;
  if (foreign.empty()) return absl::OkStatus();
  return ErrnoStatus(EINVAL,
                     absl::StrCat(device.name(), ": ", FeatureSetToString(foreign),
                                  " is a property of the device; leave it out of the request"));
}

FeatureRequestResult ResultOf(const NetDevice& device, FeatureSet before, FeatureSet missed) {
  return {.wish = !missed.empty(), .changed = before ^ device.features()};
}

}  // namespace

FeatureState FeatureStateOf(const NetDevice& device, Feature feature) {
  FeatureState state;
  state.on = device.features().Has(feature);
  state.fixed = !device.hw_features().Has(feature) || kNeverChange.Has(feature);
  state.requested = !state.fixed && device.wanted_features().Has(feature) != state.on;
  return state;
}

std::string FeatureStateText(const FeatureState& state) {
  const char* const value = state.on ? "on" : "off";
  if (state.fixed) return absl::StrCat(value, " [fixed]");
  if (state.requested) return absl::StrCat(value, " [requested ", state.on ? "off" : "on", "]");
  return value;
}

absl::StatusOr<FeatureRequestResult> SetFeaturesBulk(NetDevice& device, FeatureSet valid,
                                                     FeatureSet wanted) {
  TW_RETURN_IF_ERROR(CheckNames(device, valid));
  const FeatureSet before = device.features();
  const FeatureSet mask = valid & device.hw_features();
  FeatureCommands::Request(device, mask, wanted);
  FeatureRequestResult result =
      ResultOf(device, before, (device.wanted_features() ^ device.features()) & mask);
  result.unsupported = mask != valid;
  return result;
}

absl::StatusOr<FeatureRequestResult> SetFeaturesNetlink(NetDevice& device, FeatureSet valid,
                                                        FeatureSet wanted) {
  TW_RETURN_IF_ERROR(CheckNames(device, valid));
  const FeatureSet before = device.features();
  const FeatureSet mask = valid & device.hw_features();
  if (!((device.wanted_features() ^ wanted) & mask).empty()) {
    FeatureCommands::Request(device, mask, wanted);
  }
  return ResultOf(device, before, (wanted ^ device.features()) & valid);
}

absl::string_view LegacyFeatureName(LegacyFeature feature) {
  switch (feature) {
    case LegacyFeature::kRxCsum:
      return "rx";
    case LegacyFeature::kTxCsum:
      return "tx";
    case LegacyFeature::kSg:
      return "sg";
    case LegacyFeature::kTso:
      return "tso";
    case LegacyFeature::kGso:
      return "gso";
    case LegacyFeature::kGro:
      return "gro";
    case LegacyFeature::kLro:
      return "lro";
  }
  return "";
}

FeatureSet LegacyFeatureMask(LegacyFeature feature) {
  switch (feature) {
    case LegacyFeature::kRxCsum:
      return Feature::kRxCsum;
    case LegacyFeature::kTxCsum:
      return kCsumMask | FeatureSet{Feature::kFcoeCrc, Feature::kSctpCrc};
    case LegacyFeature::kSg:
      return {Feature::kSg, Feature::kFragList};
    case LegacyFeature::kTso:
      return kAllTso;
    case LegacyFeature::kGso:
      return Feature::kGso;
    case LegacyFeature::kGro:
      return Feature::kGro;
    case LegacyFeature::kLro:
      return Feature::kLro;
  }
  return {};
}

bool GetLegacyFeature(const NetDevice& device, LegacyFeature feature) {
  return device.features().HasAny(LegacyFeatureMask(feature));
}

absl::Status SetLegacyFeature(NetDevice& device, LegacyFeature feature, bool on) {
  const FeatureSet mask = LegacyFeatureMask(feature) & device.hw_features();
  if (mask.empty()) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat(device.name(), ": ", LegacyFeatureName(feature),
                                                " cannot be changed; it is fixed"));
  }
  FeatureCommands::Request(device, mask, on ? mask : FeatureSet());
  return absl::OkStatus();
}

}  // namespace tapwire::netdev
