// SPDX-License-Identifier: Apache-2.0
// Device features: the 64-bit word of Linux's feature model, its ethtool names and group masks.
// Positions follow Linux 6.18; they are not an interface, the ethtool strings are.
// The dependency rules are here; who may change which word and when is in device.*.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tapwire::netdev {

enum class Feature : uint8_t {
  kSg = 0,
  kIpCsum = 1,
  kHwCsum = 3,
  kIpv6Csum = 4,
  kHighDma = 5,
  kFragList = 6,
  kHwVlanCtagTx = 7,
  kHwVlanCtagRx = 8,
  kHwVlanCtagFilter = 9,
  kVlanChallenged = 10,
  kGso = 11,
  kGro = 14,
  kLro = 15,
  // One run in the order of the per-packet GSO type bits: required feature = type << 16.
  kTso = 16,
  kGsoRobust = 17,
  kTsoEcn = 18,
  kTsoMangleId = 19,
  kTso6 = 20,
  kFso = 21,
  kGsoGre = 22,
  kGsoGreCsum = 23,
  kGsoIpxip4 = 24,
  kGsoIpxip6 = 25,
  kGsoUdpTunnel = 26,
  kGsoUdpTunnelCsum = 27,
  kGsoPartial = 28,
  kGsoTunnelRemcsum = 29,
  kGsoSctp = 30,
  kGsoEsp = 31,
  kGsoUdp = 32,
  kGsoUdpL4 = 33,
  kGsoFragList = 34,
  kGsoAccEcn = 35,
  kFcoeCrc = 36,
  kSctpCrc = 37,
  kNtuple = 38,
  kRxHash = 39,
  kRxCsum = 40,
  kNocacheCopy = 41,
  kLoopback = 42,
  kRxFcs = 43,
  kRxAll = 44,
  kHwVlanStagTx = 45,
  kHwVlanStagRx = 46,
  kHwVlanStagFilter = 47,
  kHwL2fwDoffload = 48,
  kHwTc = 49,
  kHwEsp = 50,
  kHwEspTxCsum = 51,
  kRxUdpTunnelPort = 52,
  kHwTlsTx = 53,
  kHwTlsRx = 54,
  kGroHw = 55,
  kHwTlsRecord = 56,
  kGroFragList = 57,
  kHwMacsec = 58,
  kGroUdpFwd = 59,
  kHwHsrTagIns = 60,
  kHwHsrTagRm = 61,
  kHwHsrFwd = 62,
  kHwHsrDup = 63,
};

// A set of features; set algebra by the usual operators.
class FeatureSet {
 public:
  constexpr FeatureSet() = default;
  constexpr FeatureSet(Feature f)
      : bits_(uint64_t{1} << static_cast<int>(f)) {}  // NOLINT: implicit on purpose
  constexpr FeatureSet(std::initializer_list<Feature> list) {
    for (Feature f : list) bits_ |= FeatureSet(f).bits_;
  }
  static constexpr FeatureSet FromBits(uint64_t bits) {
    FeatureSet s;
    s.bits_ = bits;
    return s;
  }

  constexpr uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool Has(Feature f) const { return (bits_ & FeatureSet(f).bits_) != 0; }
  constexpr bool HasAll(FeatureSet s) const { return (bits_ & s.bits_) == s.bits_; }
  constexpr bool HasAny(FeatureSet s) const { return (bits_ & s.bits_) != 0; }

  friend constexpr FeatureSet operator|(FeatureSet a, FeatureSet b) {
    return FromBits(a.bits_ | b.bits_);
  }
  friend constexpr FeatureSet operator&(FeatureSet a, FeatureSet b) {
    return FromBits(a.bits_ & b.bits_);
  }
  friend constexpr FeatureSet operator^(FeatureSet a, FeatureSet b) {
    return FromBits(a.bits_ ^ b.bits_);
  }
  friend constexpr FeatureSet operator~(FeatureSet a) { return FromBits(~a.bits_); }
  constexpr FeatureSet& operator|=(FeatureSet o) {
    bits_ |= o.bits_;
    return *this;
  }
  constexpr FeatureSet& operator&=(FeatureSet o) {
    bits_ &= o.bits_;
    return *this;
  }
  friend constexpr bool operator==(FeatureSet, FeatureSet) = default;

 private:
  uint64_t bits_ = 0;
};

inline constexpr FeatureSet kCsumMask{Feature::kIpCsum, Feature::kIpv6Csum, Feature::kHwCsum};
inline constexpr FeatureSet kAllTso{Feature::kTso, Feature::kTso6, Feature::kTsoEcn,
                                    Feature::kTsoMangleId};
// Every "device segments this kind" bit; kGso itself is not a member.
inline constexpr FeatureSet kGsoMask =
    FeatureSet::FromBits(((uint64_t{1} << 36) - 1) & ~((uint64_t{1} << 16) - 1));
inline constexpr FeatureSet kGsoSoftware =
    kAllTso |
    FeatureSet{Feature::kGsoSctp, Feature::kGsoUdpL4, Feature::kGsoFragList, Feature::kGsoAccEcn};
inline constexpr FeatureSet kGsoEncapAll{Feature::kGsoGre,       Feature::kGsoGreCsum,
                                         Feature::kGsoIpxip4,    Feature::kGsoIpxip6,
                                         Feature::kGsoUdpTunnel, Feature::kGsoUdpTunnelCsum};
// How IncrementFeatures() folds a lower device into an upper one: OR, AND; all other bits stay.
inline constexpr FeatureSet kOneForAll =
    kGsoSoftware | FeatureSet{Feature::kGsoRobust, Feature::kSg, Feature::kHighDma,
                              Feature::kFragList, Feature::kVlanChallenged};
inline constexpr FeatureSet kAllForAll{Feature::kNocacheCopy, Feature::kFso};
// Not wanted above: off below.
inline constexpr FeatureSet kUpperDisables{Feature::kLro};
// Always changeable by users: on, and off, by default.
inline constexpr FeatureSet kSoftFeatures{Feature::kGso, Feature::kGro};
inline constexpr FeatureSet kSoftFeaturesOff{Feature::kGroFragList, Feature::kGroUdpFwd};
inline constexpr FeatureSet kVlanOffloads{Feature::kHwVlanCtagTx,     Feature::kHwVlanCtagRx,
                                          Feature::kHwVlanCtagFilter, Feature::kHwVlanStagTx,
                                          Feature::kHwVlanStagRx,     Feature::kHwVlanStagFilter};
// Requests that name these are refused.
inline constexpr FeatureSet kNeverChange{Feature::kVlanChallenged};
inline constexpr FeatureSet kEthtoolBits = ~kNeverChange;

// The ethtool string of a bit position 0..63; empty for unused positions and for kGsoUdp.
absl::string_view FeatureName(int position);
std::optional<Feature> FeatureByName(absl::string_view ethtool_name);
// Comma-separated ethtool names in bit order, for messages and statistics. A bit
// without a name is shown by its position ("bit32").
std::string FeatureSetToString(FeatureSet set);

// Drops every feature whose prerequisites are missing from `set`. The rules run in
// a fixed order, each on the result of the one before; a second pass changes
// nothing. `gso_partial` are the kinds of segmentation that need kGsoPartial.
FeatureSet FixDependencies(FeatureSet set, FeatureSet gso_partial = {});

// Folds a lower device's set `one` into an upper device's accumulating set `all`: kOneForAll and
// checksum bits are added as far as `mask` has them, kAllForAll bits must be in both, all others
// stay as they are in `all`. The mask never removes what `all` has.
FeatureSet IncrementFeatures(FeatureSet all, FeatureSet one, FeatureSet mask);
// What to start from before folding lower devices: without kOneForAll, with kAllForAll.
FeatureSet BaseFeatures(FeatureSet features);
// Lets a software device keep segmentation for the last device on the way.
FeatureSet AddTsoFeatures(FeatureSet features, FeatureSet mask);

// What two devices can both do: set intersection, except that generic checksumming
// (kHwCsum) on one side stands for kIpCsum and kIpv6Csum as well.
FeatureSet IntersectFeatures(FeatureSet a, FeatureSet b);

// Whether a device with `set` completes checksums of this network protocol, given
// as the EtherType behind any tags.
bool CanChecksum(FeatureSet set, uint16_t ether_type);

}  // namespace tapwire::netdev
