// SPDX-License-Identifier: Apache-2.0
// Names, dependency rules and intersection of device features.
#include "netdev/features.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::netdev {
namespace {

constexpr int kPositions = 64;

constexpr std::array<const char*, kPositions> kNames = {
    "tx-scatter-gather",
    "tx-checksum-ipv4",
    "",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv6",
    "highdma",
    "tx-scatter-gather-fraglist",
    "tx-vlan-hw-insert",
    "rx-vlan-hw-parse",
    "rx-vlan-filter",
    "vlan-challenged",
    "tx-generic-segmentation",
    "",
    "",
    "rx-gro",
    "rx-lro",
    "tx-tcp-segmentation",
    "tx-gso-robust",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-fcoe-segmentation",
    "tx-gre-segmentation",
    "tx-gre-csum-segmentation",
    "tx-ipxip4-segmentation",
    "tx-ipxip6-segmentation",
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-gso-partial",
    "tx-tunnel-remcsum-segmentation",
    "tx-sctp-segmentation",
    "tx-esp-segmentation",
    "",  // UDP fragmentation offload is history; tools never showed it
    "tx-udp-segmentation",
    "tx-gso-list",
    "tx-tcp-accecn-segmentation",
    "tx-checksum-fcoe-crc",
    "tx-checksum-sctp",
    "rx-ntuple-filter",
    "rx-hashing",
    "rx-checksum",
    "tx-nocache-copy",
    "loopback",
    "rx-fcs",
    "rx-all",
    "tx-vlan-stag-hw-insert",
    "rx-vlan-stag-hw-parse",
    "rx-vlan-stag-filter",
    "l2-fwd-offload",
    "hw-tc-offload",
    "esp-hw-offload",
    "esp-tx-csum-hw-offload",
    "rx-udp_tunnel-port-offload",
    "tls-hw-tx-offload",
    "tls-hw-rx-offload",
    "rx-gro-hw",
    "tls-hw-record",
    "rx-gro-list",
    "macsec-hw-offload",
    "rx-udp-gro-forwarding",
    "hsr-tag-ins-offload",
    "hsr-tag-rm-offload",
    "hsr-fwd-offload",
    "hsr-dup-offload",
};

// Generic checksumming, or both protocol-specific kinds.
bool ChecksumsBothFamilies(FeatureSet s) {
  return s.Has(Feature::kHwCsum) || s.HasAll({Feature::kIpCsum, Feature::kIpv6Csum});
}

// If `broken` says so, `drop` leaves the set.
struct DependencyRule {
  bool (*broken)(FeatureSet);
  FeatureSet drop;
};

template <size_t kRules>
FeatureSet Apply(const DependencyRule (&rules)[kRules], FeatureSet set) {
  for (const DependencyRule& rule : rules) {
    if (rule.broken(set)) set &= ~rule.drop;
  }
  return set;
}

// Order matters: kTso that leaves for want of a checksum takes kTsoMangleId along.
constexpr DependencyRule kTransmitRules[] = {
    // Generic checksumming includes the others; a device must not claim both ways.
    {[](FeatureSet s) { return s.Has(Feature::kHwCsum); }, {Feature::kIpCsum, Feature::kIpv6Csum}},
    // Segments share payload fragments.
    {[](FeatureSet s) { return !s.Has(Feature::kSg); }, kAllTso},
    // Whoever cuts segments must sum each of them.
    {[](FeatureSet s) {
       return s.Has(Feature::kTso) && !s.HasAny({Feature::kHwCsum, Feature::kIpCsum});
     },
     {Feature::kTso, Feature::kTsoEcn}},
    {[](FeatureSet s) {
       return !s.HasAny({Feature::kHwCsum, Feature::kIpv6Csum});
     },
     Feature::kTso6},
    {[](FeatureSet s) { return !s.Has(Feature::kTso); }, Feature::kTsoMangleId},
    // ECN handling is a manner of segmenting, not a kind of its own.
    {[](FeatureSet s) { return (s & kAllTso) == Feature::kTsoEcn; }, Feature::kTsoEcn},
    {[](FeatureSet s) { return !s.Has(Feature::kSg); }, Feature::kGso},
};

// A device merges received frames in one way, and only in a way that what it does beside it allows:
// a reversible merge needs verified checksums, no merge keeps a frame check sequence per frame.
constexpr DependencyRule kReceiveRules[] = {
    {[](FeatureSet s) { return !s.Has(Feature::kRxCsum); }, Feature::kGroHw},
    {[](FeatureSet s) { return s.Has(Feature::kRxFcs); }, Feature::kLro},
    {[](FeatureSet s) { return s.Has(Feature::kRxFcs); }, Feature::kGroHw},
    {[](FeatureSet s) { return s.Has(Feature::kGroHw); }, Feature::kLro},
    {[](FeatureSet s) { return !ChecksumsBothFamilies(s); }, Feature::kHwTlsTx},
    {[](FeatureSet s) { return !s.Has(Feature::kRxCsum); }, Feature::kHwTlsRx},
    {[](FeatureSet s) { return !ChecksumsBothFamilies(s); }, Feature::kGsoUdpL4},
};

}  // namespace

absl::string_view FeatureName(int position) {
  if (position < 0 || position >= kPositions) return "";
  return kNames[static_cast<size_t>(position)];
}

std::optional<Feature> FeatureByName(absl::string_view ethtool_name) {
  if (ethtool_name.empty()) return std::nullopt;
  for (int i = 0; i < kPositions; ++i) {
    if (FeatureName(i) == ethtool_name) return static_cast<Feature>(i);
  }
  return std::nullopt;
}

std::string FeatureSetToString(FeatureSet set) {
  std::string text;
  for (int i = 0; i < kPositions; ++i) {
    if (!set.Has(static_cast<Feature>(i))) continue;
    const absl::string_view name = FeatureName(i);
    absl::StrAppend(&text, text.empty() ? "" : ",",
                    name.empty() ? absl::StrCat("bit", i) : std::string(name));
  }
  return text;
}

FeatureSet FixDependencies(FeatureSet set, FeatureSet gso_partial) {
  set = Apply(kTransmitRules, set);
  if (!set.Has(Feature::kGsoPartial)) set &= ~gso_partial;
  return Apply(kReceiveRules, set);
}

FeatureSet IncrementFeatures(FeatureSet all, FeatureSet one, FeatureSet mask) {
  if (mask.Has(Feature::kHwCsum)) mask |= kCsumMask;
  mask |= Feature::kVlanChallenged;  // no upper device can lift it
  all |= one & (kOneForAll | kCsumMask) & mask;
  all &= one | ~kAllForAll;
  if (all.Has(Feature::kHwCsum)) all &= ~FeatureSet{Feature::kIpCsum, Feature::kIpv6Csum};
  return all;
}

FeatureSet BaseFeatures(FeatureSet features) { return (features & ~kOneForAll) | kAllForAll; }

FeatureSet AddTsoFeatures(FeatureSet features, FeatureSet mask) {
  return IncrementFeatures(features, kAllTso | kAllForAll, mask);
}

FeatureSet IntersectFeatures(FeatureSet a, FeatureSet b) {
  constexpr FeatureSet kSpecific{Feature::kIpCsum, Feature::kIpv6Csum};
  const bool a_generic = a.Has(Feature::kHwCsum);
  const bool b_generic = b.Has(Feature::kHwCsum);
  if (a_generic && !b_generic) a |= kSpecific;
  if (b_generic && !a_generic) b |= kSpecific;
  return a & b;
}

bool CanChecksum(FeatureSet set, uint16_t ether_type) {
  if (set.Has(Feature::kHwCsum)) return true;
  switch (ether_type) {
    case wire::EtherType::kIpv4:
      return set.Has(Feature::kIpCsum);
    case wire::EtherType::kIpv6:
      return set.Has(Feature::kIpv6Csum);
    default:
      return false;
  }
}

}  // namespace tapwire::netdev
