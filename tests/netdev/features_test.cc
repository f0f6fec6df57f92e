// SPDX-License-Identifier: Apache-2.0
#include "netdev/features.h"

#include <map>
#include <random>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "netdev/gso.h"
#include "netdev/packet/slab_pool.h"
#include "tests/netdev/frame_builder.h"

namespace tapwire::netdev {
namespace {

using enum Feature;

TEST(FeatureNameTest, UnusedPositionsAreEmptyAndAllOthersDiffer) {  // Covers: netdev:F-02
  std::set<std::string> names;
  for (int i = 0; i < 64; ++i) {
    const std::string name(FeatureName(i));
    const bool unnamed = i == 2 || i == 12 || i == 13 || i == 32;
    EXPECT_EQ(name.empty(), unnamed) << i;
    if (!name.empty()) {
      EXPECT_TRUE(names.insert(name).second) << name;
    }
  }
  EXPECT_EQ(names.size(), 60u);
  EXPECT_EQ(FeatureName(-1), "");
  EXPECT_EQ(FeatureName(64), "");
}

TEST(FeatureNameTest, NamesAreThoseEthtoolPrints) {
  const std::map<std::string, Feature> expected = {
      {"tx-scatter-gather", kSg},
      {"tx-checksum-ipv4", kIpCsum},
      {"tx-checksum-ip-generic", kHwCsum},
      {"tx-checksum-ipv6", kIpv6Csum},
      {"tx-generic-segmentation", kGso},
      {"rx-gro", kGro},
      {"rx-lro", kLro},
      {"tx-tcp-segmentation", kTso},
      {"tx-tcp-ecn-segmentation", kTsoEcn},
      {"tx-tcp-mangleid-segmentation", kTsoMangleId},
      {"tx-tcp6-segmentation", kTso6},
      {"tx-udp-segmentation", kGsoUdpL4},
      {"tx-gso-list", kGsoFragList},
      {"tx-tcp-accecn-segmentation", kGsoAccEcn},
      {"rx-checksum", kRxCsum},
      {"l2-fwd-offload", kHwL2fwDoffload},
      {"rx-gro-hw", kGroHw},
      {"hsr-dup-offload", kHwHsrDup},
  };
  for (const auto& [name, feature] : expected) {
    EXPECT_EQ(FeatureName(static_cast<int>(feature)), name);
    EXPECT_EQ(FeatureByName(name), feature) << name;
  }
  EXPECT_EQ(FeatureByName(""), std::nullopt);
  EXPECT_EQ(FeatureByName("tx-nonsense"), std::nullopt);
}

TEST(FeatureNameTest, SetsAreListedInBitOrder) {
  EXPECT_EQ(FeatureSetToString({}), "");
  EXPECT_EQ(FeatureSetToString({kTso, kSg}), "tx-scatter-gather,tx-tcp-segmentation");
  EXPECT_EQ(FeatureSetToString({kGsoUdp}), "bit32");
}

TEST(FeatureMaskTest, GsoItselfIsNoSegmentationKind) {  // Covers: netdev:M-01
  EXPECT_FALSE(kGsoMask.Has(kGso));
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(kGsoMask.Has(static_cast<Feature>(i)), i >= 16 && i <= 35) << i;
  }
}

TEST(FeatureMaskTest, SoftwareKinds) {  // Covers: netdev:M-02
  EXPECT_TRUE(kGsoSoftware.HasAll(
      {kTso, kTso6, kTsoEcn, kTsoMangleId, kGsoSctp, kGsoUdpL4, kGsoFragList, kGsoAccEcn}));
  EXPECT_FALSE(kGsoSoftware.HasAny({kGsoUdp, kGsoPartial, kGsoGre, kGsoGreCsum, kGsoIpxip4,
                                    kGsoIpxip6, kGsoUdpTunnel, kGsoUdpTunnelCsum}));
}

// Covers: netdev:F-01
TEST(RequiredFeaturesTest, FixedIdNeedsTheRightToRepeatIds) {
  SlabPool pool{SlabPool::Options{}};
  const PacketPtr packet = testing::MakePacket(pool, testing::BuildFrame({}));
  ASSERT_NE(packet, nullptr);
  packet->meta.gso.type = GsoType::kTcpv4 | GsoType::kFixedId;
  EXPECT_EQ(RequiredGsoFeatures(*packet), (FeatureSet{kTso, kTsoMangleId}));
}

TEST(FixDependenciesTest, GenericChecksumWins) {  // Covers: netdev:D-01
  EXPECT_EQ(FixDependencies({kHwCsum, kIpCsum, kSg, kTso}), (FeatureSet{kHwCsum, kSg, kTso}));
}

TEST(FixDependenciesTest, SegmentationNeedsScatterGather) {  // Covers: netdev:D-02
  EXPECT_EQ(FixDependencies({kHwCsum, kTso, kTso6, kGso}), FeatureSet{kHwCsum});
}

TEST(FixDependenciesTest, TsoNeedsIpv4Checksum) {  // Covers: netdev:D-03
  EXPECT_EQ(FixDependencies({kSg, kIpv6Csum, kTso, kTso6, kTsoEcn, kTsoMangleId, kGso}),
            (FeatureSet{kSg, kIpv6Csum, kTso6, kGso}));
}

TEST(FixDependenciesTest, Tso6NeedsIpv6Checksum) {
  EXPECT_EQ(FixDependencies({kSg, kIpCsum, kTso, kTso6}), (FeatureSet{kSg, kIpCsum, kTso}));
}

TEST(FixDependenciesTest, EcnSurvivesBesideTso6) {  // Covers: netdev:D-04
  const FeatureSet set{kSg, kIpv6Csum, kTso6, kTsoEcn};
  EXPECT_EQ(FixDependencies(set), set);
}

TEST(FixDependenciesTest, EcnAloneGoes) {  // Covers: netdev:D-05
  EXPECT_EQ(FixDependencies({kSg, kTsoEcn, kHwCsum}), (FeatureSet{kSg, kHwCsum}));
}

TEST(FixDependenciesTest, GsoNeedsNoChecksum) {  // Covers: netdev:D-06
  EXPECT_EQ(FixDependencies({kSg, kGso}), (FeatureSet{kSg, kGso}));
}

TEST(FixDependenciesTest, UdpSegmentationNeedsBothFamilies) {  // Covers: netdev:D-11
  EXPECT_EQ(FixDependencies({kSg, kIpCsum, kGsoUdpL4}), (FeatureSet{kSg, kIpCsum}));
  const FeatureSet both{kSg, kIpCsum, kIpv6Csum, kGsoUdpL4};
  EXPECT_EQ(FixDependencies(both), both);
  const FeatureSet generic{kSg, kHwCsum, kGsoUdpL4};
  EXPECT_EQ(FixDependencies(generic), generic);
}

TEST(FixDependenciesTest, LroNeedsNoReceiveChecksum) {  // Covers: netdev:D-12
  EXPECT_EQ(FixDependencies({kLro}), FeatureSet{kLro});
}

// The merge that can be undone wins, unless what it needs is missing.
TEST(FixDependenciesTest, OneWayOfMergingInHardware) {  // Covers: netdev:D-07, netdev:D-08
  EXPECT_EQ(FixDependencies({kGroHw, kLro, kRxCsum}), (FeatureSet{kGroHw, kRxCsum}));
  EXPECT_EQ(FixDependencies({kGroHw, kLro}), FeatureSet{kLro});
}

TEST(FixDependenciesTest, FrameCheckSequencesForbidMerging) {  // Covers: netdev:D-09
  EXPECT_EQ(FixDependencies({kGroHw, kLro, kRxCsum, kRxFcs}), (FeatureSet{kRxCsum, kRxFcs}));
}

TEST(FixDependenciesTest, PartialKindsNeedPartialSegmentation) {  // Covers: netdev:D-10
  const FeatureSet partial{kGsoGre, kGsoUdpTunnel};
  const FeatureSet with_kind{kSg, kHwCsum, kTso, kGsoGre};
  EXPECT_EQ(FixDependencies(with_kind, partial), (FeatureSet{kSg, kHwCsum, kTso}));
  EXPECT_EQ(FixDependencies(with_kind | kGsoPartial, partial), with_kind | kGsoPartial);
  EXPECT_EQ(FixDependencies(with_kind), with_kind) << "tunnel kinds as such need nothing";
}

TEST(FixDependenciesTest, TlsNeedsChecksums) {
  EXPECT_EQ(FixDependencies({kHwTlsTx, kHwTlsRx, kIpCsum}), FeatureSet{kIpCsum});
  const FeatureSet served{kHwTlsTx, kHwTlsRx, kIpCsum, kIpv6Csum, kRxCsum};
  EXPECT_EQ(FixDependencies(served), served);
}

// The rules once more, one line each, in their order.
FeatureSet FixedByHand(FeatureSet s, FeatureSet partial) {
  const auto drop = [&s](FeatureSet what) { s &= ~what; };
  const auto both = [&s] { return s.Has(kHwCsum) || (s.Has(kIpCsum) && s.Has(kIpv6Csum)); };
  if (s.Has(kHwCsum)) drop({kIpCsum, kIpv6Csum});
  if (!s.Has(kSg)) drop({kTso, kTso6, kTsoEcn, kTsoMangleId});
  if (!s.Has(kHwCsum) && !s.Has(kIpCsum) && s.Has(kTso)) drop({kTso, kTsoEcn});
  if (!s.Has(kHwCsum) && !s.Has(kIpv6Csum)) drop(kTso6);
  if (!s.Has(kTso)) drop(kTsoMangleId);
  if (s.Has(kTsoEcn) && !s.Has(kTso) && !s.Has(kTso6) && !s.Has(kTsoMangleId)) drop(kTsoEcn);
  if (!s.Has(kSg)) drop(kGso);
  if (!s.Has(kGsoPartial)) drop(partial);
  if (!s.Has(kRxCsum)) drop(kGroHw);
  if (s.Has(kRxFcs)) drop({kLro, kGroHw});
  if (s.Has(kGroHw)) drop(kLro);
  if (!both()) drop({kHwTlsTx, kGsoUdpL4});
  if (!s.Has(kRxCsum)) drop(kHwTlsRx);
  return s;
}

TEST(FixDependenciesTest, RandomSetsAreFixedByTheRulesAndOnce) {  // Covers: netdev:D-13
  std::mt19937_64 random(15);
  for (int i = 0; i < 100000; ++i) {
    const FeatureSet set = FeatureSet::FromBits(random());
    const FeatureSet partial = FeatureSet::FromBits(random()) & kGsoEncapAll;
    const FeatureSet fixed = FixDependencies(set, partial);
    ASSERT_EQ(fixed, FixedByHand(set, partial)) << FeatureSetToString(set);
    ASSERT_TRUE(set.HasAll(fixed)) << "rules only remove";
    ASSERT_EQ(FixDependencies(fixed, partial), fixed) << FeatureSetToString(set);
  }
}

TEST(FixDependenciesTest, SecondPassChangesNothing) {
  // Every set of the features the rules speak of.
  const Feature about[] = {kSg,   kIpCsum, kHwCsum,      kIpv6Csum, kGso,   kTso,
                           kTso6, kTsoEcn, kTsoMangleId, kGsoUdpL4, kGroHw, kLro};
  for (uint32_t bits = 0; bits < 1u << std::size(about); ++bits) {
    FeatureSet set;
    for (size_t i = 0; i < std::size(about); ++i) {
      if (bits >> i & 1) set |= about[i];
    }
    const FeatureSet fixed = FixDependencies(set);
    EXPECT_TRUE(set.HasAll(fixed)) << "rules only remove";
    EXPECT_EQ(FixDependencies(fixed), fixed) << FeatureSetToString(set);
  }
}

TEST(IntersectFeaturesTest, GenericChecksumStandsForBothFamilies) {  // Covers: netdev:A-06
  const FeatureSet generic{kHwCsum, kSg};
  const FeatureSet ipv4{kIpCsum, kSg, kTso};
  EXPECT_EQ(IntersectFeatures(generic, ipv4), (FeatureSet{kIpCsum, kSg}));
  EXPECT_EQ(IntersectFeatures(ipv4, generic), (FeatureSet{kIpCsum, kSg}));
  EXPECT_EQ(IntersectFeatures(generic, generic), generic);
  EXPECT_EQ(IntersectFeatures(generic, {kSg}), FeatureSet{kSg});
  EXPECT_EQ(IntersectFeatures({kHwCsum}, {kIpCsum, kIpv6Csum}), (FeatureSet{kIpCsum, kIpv6Csum}));
  EXPECT_EQ(IntersectFeatures({kIpCsum}, {kIpv6Csum}), FeatureSet());
}

TEST(IncrementFeaturesTest, GenericChecksumReplacesTheOthers) {  // Covers: netdev:A-01
  EXPECT_EQ(IncrementFeatures({kSg, kIpCsum}, {kHwCsum}, {kSg, kHwCsum}),
            (FeatureSet{kSg, kHwCsum}));
}

TEST(IncrementFeaturesTest, OtherBitsStayAsTheyAre) {  // Covers: netdev:A-02
  EXPECT_EQ(IncrementFeatures({kGro, kGso}, {}, {}), (FeatureSet{kGro, kGso}));
  EXPECT_EQ(IncrementFeatures({}, {kGro, kRxCsum, kLro}, ~FeatureSet()), FeatureSet());
}

TEST(IncrementFeaturesTest, MaskLimitsWhatIsAdded) {  // Covers: netdev:A-03, netdev:A-05
  EXPECT_EQ(IncrementFeatures({}, {kTso}, {}), FeatureSet());
  EXPECT_EQ(IncrementFeatures({}, {kIpv6Csum}, {kHwCsum}), FeatureSet{kIpv6Csum});
  EXPECT_EQ(IncrementFeatures({}, {kIpv6Csum}, {kIpCsum}), FeatureSet());
  EXPECT_EQ(IncrementFeatures({kTso}, {}, {}), FeatureSet{kTso}) << "and removes nothing";
}

TEST(IncrementFeaturesTest, SomeMustBeEverywhere) {  // Covers: netdev:A-04
  EXPECT_EQ(IncrementFeatures({kNocacheCopy}, {}, {kNocacheCopy}), FeatureSet());
  EXPECT_EQ(IncrementFeatures(kAllForAll, {kSg, kIpCsum, kTso}, {kSg, kHwCsum, kTso}),
            (FeatureSet{kSg, kIpCsum, kTso}));
}

TEST(IncrementFeaturesTest, VlanChallengeIsInheritedInAnyCase) {
  EXPECT_EQ(IncrementFeatures({}, {kSg, kIpCsum, kVlanChallenged}, {kSg}),
            (FeatureSet{kSg, kVlanChallenged}));
}

// Every combination of one bit in the three sets; checksum bits influence each other and are above.
TEST(IncrementFeaturesTest, TruthTable) {
  constexpr FeatureSet kAnyOne{kTso,       kTso6,     kTsoEcn,    kTsoMangleId,
                               kGsoSctp,   kGsoUdpL4, kGsoAccEcn, kGsoFragList,
                               kGsoRobust, kSg,       kHighDma,   kFragList};
  constexpr FeatureSet kEveryOne{kNocacheCopy, kFso};
  for (int position = 0; position < 64; ++position) {
    const auto bit = static_cast<Feature>(position);
    if (FeatureSet{kIpCsum, kHwCsum, kIpv6Csum, kVlanChallenged}.Has(bit)) continue;
    for (int combination = 0; combination < 8; ++combination) {
      const bool all = combination & 4, one = combination & 2, mask = combination & 1;
      const bool expected = kAnyOne.Has(bit)     ? all || (one && mask)
                            : kEveryOne.Has(bit) ? all && one
                                                 : all;
      const auto set = [bit](bool on) { return on ? FeatureSet(bit) : FeatureSet(); };
      EXPECT_EQ(IncrementFeatures(set(all), set(one), set(mask)), set(expected))
          << position << " " << combination;
    }
  }
}

TEST(IncrementFeaturesTest, BaseAndSegmentationHelpers) {
  EXPECT_EQ(BaseFeatures({kSg, kTso, kHwCsum, kGro, kVlanChallenged}),
            (FeatureSet{kHwCsum, kGro, kNocacheCopy, kFso}));
  EXPECT_EQ(AddTsoFeatures({kSg, kHwCsum, kNocacheCopy}, {kSg, kHwCsum, kTso, kTso6}),
            (FeatureSet{kSg, kHwCsum, kNocacheCopy, kTso, kTso6}));
}

TEST(CanChecksumTest, ByProtocol) {
  EXPECT_TRUE(CanChecksum({kHwCsum}, 0x1234));
  EXPECT_TRUE(CanChecksum({kIpCsum}, 0x0800));
  EXPECT_FALSE(CanChecksum({kIpCsum}, 0x86dd));
  EXPECT_TRUE(CanChecksum({kIpv6Csum}, 0x86dd));
  EXPECT_FALSE(CanChecksum({kIpv6Csum, kIpCsum}, 0x0806));
}

}  // namespace
}  // namespace tapwire::netdev
