// SPDX-License-Identifier: Apache-2.0
// The feature words of a device: what registration adds to them, the update, size limits.
//
// One run of the update:
//
//   (features & ~hw_features) | wanted     what users cannot change is carried over
//   FixFeatures()                          the driver removes what it cannot do
//   FixDependencies()                      the general rules
//   upper devices                          what one of them must not see is off
//   SetFeatures()                          the driver puts it into effect, if it differs
//   lower devices                          follow what is off here, each by a run of its own
//   features = result
//
// A lower device's run tells its observers, of which one may be the device above: its inner run
// then stores the set, and the outer run stores the same set again.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "netdev/device.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::netdev {
namespace {

// Linux: 8 times the most segments of a super-packet.
constexpr uint32_t kGreatestTsoSize = 8 * NetDevice::kDefaultGsoMaxSegs;

constexpr FeatureSet kVlanFilters{Feature::kHwVlanCtagFilter, Feature::kHwVlanStagFilter};

}  // namespace

absl::Status NetDevice::CheckVlanFilter() const {
  if (!(features_ | hw_features_).HasAny(kVlanFilters) || filters_vlans()) return absl::OkStatus();
  return ErrnoStatus(EINVAL, absl::StrCat(name_,
                                          ": claims to filter VLAN ids without a way to set "
                                          "them; drop rx-vlan-filter from its features"));
}

void NetDevice::PrepareForRegistration() {
  queueless_ = is_queueless();
  hw_features_ |= kSoftFeatures | kSoftFeaturesOff;
  features_ |= kSoftFeatures;
  wanted_features_ = features_ & hw_features_;
  if (!is_loopback()) hw_features_ |= Feature::kNocacheCopy;
  for (FeatureSet* set : {&hw_features_, &vlan_features_, &hw_enc_features_}) {
    if (set->Has(Feature::kTso)) *set |= Feature::kTsoMangleId;
  }
  vlan_features_ |= Feature::kHighDma;
  hw_enc_features_ |= FeatureSet{Feature::kSg, Feature::kGsoPartial};
}

FeatureSet NetDevice::RequestFeatures(FeatureSet mask, FeatureSet values) {
  const FeatureSet changeable = mask & hw_features_ & ~kNeverChange;
  Want(changeable, values);
  UpdateFeatures();
  return mask & ~changeable;
}

void NetDevice::UpdateFeatures() {
  if (RecomputeFeatures()) Notify(NetdevEvent::kFeatChange);
}

void NetDevice::ChangeFeatures() {
  RecomputeFeatures();
  Notify(NetdevEvent::kFeatChange);
}

FeatureSet NetDevice::ComputeFeatures() {
  const FeatureSet candidate = FixFeatures((features_ & ~hw_features_) | wanted_features_);
  if (candidate.Has(Feature::kHwCsum) && candidate.HasAny({Feature::kIpCsum, Feature::kIpv6Csum})) {
    TW_LOG(kWarning) << name_ << ": generic and protocol-specific checksumming exclude each other; "
                     << "using the generic one";
  }
  return DropDisabledByUppers(FixDependencies(candidate, gso_partial_features_));
}

bool NetDevice::RecomputeFeatures() {
  const FeatureSet candidate = ComputeFeatures();
  bool changed = false;
  bool apply = false;
  if (candidate != features_) {
    const absl::StatusOr<FeatureOutcome> outcome = SetFeatures(candidate);
    if (!outcome.ok()) {
      TW_LOG(kError) << name_ << ": could not set features to " << FeatureSetToString(candidate)
                     << ": " << outcome.status().ToString();
      return true;  // the driver may have changed some of them
    }
    changed = true;
    apply = *outcome == FeatureOutcome::kApply;
  }
  SyncLowers(candidate);
  return apply ? ApplyFeatures(candidate) : changed;
}

FeatureSet NetDevice::DropDisabledByUppers(FeatureSet candidate) const {
  for (const NetDevice* upper : uppers_) {
    candidate &= ~(kUpperDisables & ~upper->wanted_features_);
  }
  return candidate;
}

void NetDevice::SyncLowers(FeatureSet candidate) {
  // Observers of a lower device may change the links.
  const std::vector<NetDevice*> lowers = lowers_;
  for (NetDevice* lower : lowers) {
    if (std::find(lowers_.begin(), lowers_.end(), lower) == lowers_.end()) continue;
    const FeatureSet disabled = kUpperDisables & ~candidate & lower->features_;
    if (!disabled.empty()) DisableOnLower(*lower, disabled);
  }
}

void NetDevice::DisableOnLower(NetDevice& lower, FeatureSet disabled) {
  lower.Want(disabled, FeatureSet());
  lower.RecomputeFeatures();
  if (lower.features_.HasAny(disabled)) {
    TW_LOG(kWarning) << lower.name_ << ": keeps " << FeatureSetToString(disabled) << ", which "
                     << name_ << " on top of it must not have";
    return;
  }
  lower.Notify(NetdevEvent::kFeatChange);
}

// A driver that is to filter VLAN ids sees the feature on while it is given them, and while it is
// told to forget them.
bool NetDevice::ApplyFeatures(FeatureSet candidate) {
  absl::Status pushed;
  for (const auto& [feature, protocol] :
       {std::pair{Feature::kHwVlanCtagFilter, wire::EtherType::kVlan},
        std::pair{Feature::kHwVlanStagFilter, wire::EtherType::kQinQ}}) {
    if (!(candidate ^ features_).Has(feature)) continue;
    if (!candidate.Has(feature)) {
      WithdrawVlanIds(protocol);
      continue;
    }
    features_ = candidate;
    pushed.Update(PushVlanIds(protocol));
  }
  features_ = candidate;
  if (pushed.ok()) return true;
  TW_LOG(kError) << name_ << ": could not set its VLAN filter: " << pushed.ToString();
  return false;
}

void NetDevice::DisableLro() {
  Want(Feature::kLro, FeatureSet());
  UpdateFeatures();
  if (features_.Has(Feature::kLro)) {
    TW_LOG(kWarning) << name_ << ": cannot switch rx-lro off; what it merges cannot be forwarded";
  }
  const std::vector<NetDevice*> lowers = lowers_;
  for (NetDevice* lower : lowers) lower->DisableLro();
}

void NetDevice::SetForwarding(bool on) {
  if (forwarding_ == on) return;
  forwarding_ = on;
  if (on) DisableLro();
}

absl::Status NetDevice::SetGsoMaxSize(uint32_t bytes) {
  if (bytes > tso_max_size_) {
    return ErrnoStatus(
        EINVAL, absl::StrCat(name_, ": super-packets of ", bytes,
                             " bytes are too large; the device takes up to ", tso_max_size_));
  }
  gso_max_size_ = bytes;
  return absl::OkStatus();
}

absl::Status NetDevice::SetGsoMaxSegs(uint32_t segs) {
  if (segs == 0 || segs > tso_max_segs_) {
    return ErrnoStatus(EINVAL,
                       absl::StrCat(name_, ": super-packets of ", segs,
                                    " segments are impossible; choose 1 to ", tso_max_segs_));
  }
  gso_max_segs_ = segs;
  return absl::OkStatus();
}

void NetDevice::set_tso_limits(uint32_t max_size, uint32_t max_segs) {
  tso_max_size_ = std::min(max_size, kGreatestTsoSize);
  tso_max_segs_ = max_segs;
  gso_max_size_ = std::min(gso_max_size_, tso_max_size_);
  gso_max_segs_ = std::min(gso_max_segs_, tso_max_segs_);
}

void NetDevice::InheritTsoLimits(const NetDevice& lower) {
  set_tso_limits(lower.tso_max_size_, lower.tso_max_segs_);
}

}  // namespace tapwire::netdev
