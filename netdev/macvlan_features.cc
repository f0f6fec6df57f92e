// SPDX-License-Identifier: Apache-2.0
// What a macvlan claims of features: what software below can make good in any case, and of the rest
// what the lower device has.
//
// Always on is only what has a fallback: kSg (one linear buffer), kHwCsum (a software sum), every
// kind of segmentation (software). hw_features has none of it, so that no user can switch it off.
#include "netdev/macvlan.h"
#include "netdev/macvlan_port.h"

namespace tapwire::netdev {
namespace {

constexpr FeatureSet kAlwaysOn =
    FeatureSet{Feature::kSg, Feature::kHwCsum, Feature::kGsoRobust} | kGsoSoftware | kGsoEncapAll;

constexpr FeatureSet kInherited{Feature::kSg,
                                Feature::kHwCsum,
                                Feature::kHighDma,
                                Feature::kFragList,
                                Feature::kGso,
                                Feature::kTso,
                                Feature::kTsoEcn,
                                Feature::kTso6,
                                Feature::kLro,
                                Feature::kGro,
                                Feature::kRxCsum,
                                Feature::kHwVlanCtagFilter,
                                Feature::kHwVlanStagFilter};

// Before Linux 3.14 the checksums of single protocols and the robustness against foreign headers
// were inherited too. The kinds of segmentation that came later are treated alike.
constexpr FeatureSet kInheritedAlone =
    kInherited | kAllTso |
    FeatureSet{Feature::kIpCsum, Feature::kIpv6Csum, Feature::kGsoRobust, Feature::kGsoUdpL4,
               Feature::kGsoAccEcn};

FeatureSet Added(bool always_on) { return always_on ? kAlwaysOn : FeatureSet(); }
FeatureSet Inherited(bool always_on) { return always_on ? kInherited : kInheritedAlone; }

}  // namespace

void Macvlan::InitFeatures() {
  user_features_ = Inherited(always_on_);
  set_features((lower_.features() & user_features_) | Added(always_on_));
  set_hw_features(Feature::kLro);
  set_vlan_features((lower_.vlan_features() & user_features_) | Added(always_on_));
  set_hw_enc_features(hw_enc_features() | features());
  InheritTsoLimits(lower_);
}

FeatureSet Macvlan::FixFeatures(FeatureSet wanted) {
  const FeatureSet inherited = Inherited(always_on_);
  wanted |= kAllForAll;
  wanted &= user_features_ | ~inherited;
  FeatureSet low = lower_.features();
  if (!wanted.Has(Feature::kLro)) low &= ~FeatureSet(Feature::kLro);
  if (!always_on_) return low & inherited;
  // From the bits the lower device decides alone (segmentation by software, GRO, checksums of
  // received frames, …) IncrementFeatures() takes its state, wanted here or not.
  return (IncrementFeatures(low, wanted, wanted) | kAlwaysOn) & (kAlwaysOn | inherited);
}

void Macvlan::FollowFeatures() {
  InheritTsoLimits(lower_);
  UpdateFeatures();
}

void Macvlan::SetUserFeatures(FeatureSet accepted) {
  user_features_ = accepted;
  UpdateFeatures();
}

}  // namespace tapwire::netdev
