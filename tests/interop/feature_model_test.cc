// SPDX-License-Identifier: Apache-2.0
//
// The feature model compared with the kernel's. The same stacking is made of the kernel's devices
// and of ours; the same random commands go to both; after each of them every bit that both know by
// name must be in the same state, and the commands must have said the same.
//
// Kinds of devices that this kernel does not have are left out: the table below holds more than any
// one machine has.
//
// TAPWIRE_FEATURE_SEED=N runs another sequence, TAPWIRE_FEATURE_STEPS=N a longer one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "drivers/tap/unique_fd.h"
#include "netdev/base/seeded_random.h"
#include "netdev/base/status_util.h"
#include "netdev/dummy.h"
#include "netdev/ethtool.h"
#include "netdev/macvlan.h"
#include "netdev/net_context.h"
#include "netdev/registry.h"
#include "netdev/veth.h"
#include "netdev/vlan_device.h"
#include "tests/interop/kernel_features.h"
#include "tests/testutil/fake_clock.h"
#include "tests/testutil/tap_fixture.h"

namespace tapwire::interop {
namespace {

using netdev::Feature;
using netdev::FeatureSet;
using netdev::LegacyFeature;
using netdev::NetContext;
using netdev::NetDevice;

// What a TAP's owner switches by TUNSETOFFLOAD, and nobody can have on without that.
constexpr FeatureSet kTapOffloads{
    Feature::kHwCsum,          Feature::kTso,      Feature::kTso6,
    Feature::kTsoEcn,          Feature::kGsoUdpL4, Feature::kGsoUdpTunnel,
    Feature::kGsoUdpTunnelCsum};

// A device of ours that claims what one of the kernel's was found to claim.
class StandIn final : public NetDevice {
 public:
  StandIn(NetContext& context, const std::string& name, const KernelFeatures& claims, bool tap)
      : NetDevice(context, {.name = name}), offloads_(tap ? FeatureSet() : kTapOffloads) {
    const FeatureSet features = claims.wanted | (claims.active & ~claims.changeable);
    set_hw_features(claims.changeable);
    set_features(features);
    set_vlan_features(features & ~netdev::kVlanOffloads);
  }
  absl::string_view kind() const override { return "stand-in"; }

  // TUNSETOFFLOAD: what is switched on is also asked for.
  void SetOffloads(FeatureSet offloads) {
    offloads_ = offloads;
    RequestFeatures(kTapOffloads, offloads);
  }

 protected:
  FeatureSet FixFeatures(FeatureSet wanted) override {
    return wanted & (offloads_ | ~kTapOffloads);
  }
  bool is_queueless() const override { return true; }
  netdev::TxResult StartXmit(PacketPtr /*packet*/, bool /*more*/) override {
    return netdev::TxResult::kSent;
  }

 private:
  FeatureSet offloads_;
};

// ---- The table ----

struct LowerKind {
  const char* name;  // as `ip` knows it
  // How the kernel's is made: arguments of `ip`, "@" stands for the name. Empty: a TAP.
  const char* command;
  // Ours; null: a stand-in.
  absl::StatusOr<NetDevice*> (*create)(NetContext& context, const std::string& name);
  // Bits that ours has otherwise by design, and so has a macvlan on it, which inherits kFragList.
  FeatureSet apart;
};

absl::StatusOr<NetDevice*> MakeVeth(NetContext& context, const std::string& name) {
  auto pair = netdev::CreateVethPair(context, {.name_a = name, .name_b = name + "p"});
  if (!pair.ok()) return pair.status();
  return pair->first;
}

absl::StatusOr<NetDevice*> MakeDummy(NetContext& context, const std::string& name) {
  return netdev::CreateDummy(context, {.name = name});
}

// What no packet of ours is: tunnels, SCTP, chains of packets. And a tag always travels in the
// metadata between the ends of our pair, so there is nothing to switch.
constexpr FeatureSet kVethApart =
    netdev::kGsoEncapAll | FeatureSet{Feature::kSctpCrc,      Feature::kFragList,
                                      Feature::kHwVlanCtagTx, Feature::kHwVlanCtagRx,
                                      Feature::kHwVlanStagTx, Feature::kHwVlanStagRx};

constexpr char kVethCommand[] = "link add @ type veth peer name @p";
constexpr char kDummyCommand[] = "link add @ type dummy";

const LowerKind kLowerKinds[] = {
    {.name = "veth", .command = kVethCommand, .create = nullptr, .apart = {}},
    {.name = "veth", .command = kVethCommand, .create = &MakeVeth, .apart = kVethApart},
    {.name = "tap", .command = "", .create = nullptr, .apart = {}},
    // Claims everything that can be done in software.
    {.name = "bridge", .command = "link add @ type bridge", .create = nullptr, .apart = {}},
    {.name = "ifb", .command = "link add @ type ifb", .create = nullptr, .apart = {}},
    {.name = "dummy", .command = kDummyCommand, .create = nullptr, .apart = {}},
    {.name = "dummy", .command = kDummyCommand, .create = &MakeDummy, .apart = {}},
};

struct UpperChoice {
  std::string name;
  std::string lower;
  netdev::MacvlanMode mode;  // of a macvlan
  uint16_t id;               // of a VLAN
};

struct UpperKind {
  const char* name;
  std::string (*kernel_arguments)(const UpperChoice& choice);  // what follows "type NAME"
  absl::Status (*create)(NetContext& context, const UpperChoice& choice);
  FeatureSet apart;
};

uint32_t IndexOf(NetContext& context, const std::string& name) {
  const NetDevice* device = context.registry().Find(absl::string_view(name));
  return device == nullptr ? 0 : device->ifindex();
}

std::string MacvlanArguments(const UpperChoice& choice) {
  return absl::StrCat("mode ", netdev::MacvlanModeName(choice.mode));
}
absl::Status MakeMacvlan(NetContext& context, const UpperChoice& choice) {
  const auto mode = static_cast<uint32_t>(choice.mode);
  return netdev::CreateMacvlan(context, IndexOf(context, choice.lower),
                               {.name = choice.name, .mode = mode})
      .status();
}

std::string VlanArguments(const UpperChoice& choice) { return absl::StrCat("id ", choice.id); }
absl::Status MakeVlan(NetContext& context, const UpperChoice& choice) {
  return netdev::CreateVlan(context, IndexOf(context, choice.lower),
                            {.name = choice.name, .vlan_id = choice.id})
      .status();
}

const UpperKind kUpperKinds[] = {
    {"macvlan", &MacvlanArguments, &MakeMacvlan, {}},
    // We know nothing of FCoE.
    {"vlan", &VlanArguments, &MakeVlan, {Feature::kFcoeCrc, Feature::kFso}},
};

constexpr netdev::MacvlanMode kModes[] = {
    netdev::MacvlanMode::kBridge, netdev::MacvlanMode::kVepa, netdev::MacvlanMode::kPrivate,
    netdev::MacvlanMode::kSource, netdev::MacvlanMode::kPassthru};

constexpr LegacyFeature kLegacyFeatures[] = {LegacyFeature::kRxCsum, LegacyFeature::kTxCsum,
                                             LegacyFeature::kSg,     LegacyFeature::kTso,
                                             LegacyFeature::kGso,    LegacyFeature::kGro};

constexpr size_t kMaxUppers = 5;

// ---- Words ----

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

// "on, wanted off, changeable"
std::string StateText(bool active, bool wanted, bool changeable) {
  return absl::StrCat(active ? "on" : "off", wanted ? ", wanted" : ", not wanted",
                      changeable ? ", changeable" : ", fixed");
}

std::string ErrorText(int err) { return err == 0 ? "done" : std::strerror(err); }

std::string CompareErrors(int kernel, int ours) {
  if (kernel == ours) return "";
  return absl::StrCat("kernel: ", ErrorText(kernel), "; ours: ", ErrorText(ours));
}

// `ip` tells the errno, or a sentence of the kernel's instead.
std::string CompareCreation(const testutil::CommandResult& kernel, const absl::Status& ours) {
  if (kernel.ok() && ours.ok()) return "";
  const bool same_error = !kernel.ok() && !ours.ok() &&
                          (absl::StrContains(kernel.output, std::strerror(StatusToErrno(ours))) ||
                           absl::StartsWith(kernel.output, "Error:"));
  if (same_error) return "";
  return absl::StrCat("kernel: ", kernel.ok() ? "done" : kernel.output,
                      "; ours: ", ours.ToString());
}

// ---- The runner ----

// A device on both sides.
struct Twin {
  std::string name;
  std::string what;  // for messages
  NetDevice* ours;
  FeatureSet apart;
};

class FeatureModelInterop : public testutil::NetnsFixture,
                            public ::testing::WithParamInterface<std::tuple<size_t, uint64_t>> {
 protected:
  void SetUp() override {
    NetnsFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    context_ = std::make_unique<NetContext>(environment_.environment());
    MakeKernelLower();
    if (HasFailure() || ethtool_ == nullptr) return;
    FindUpperKinds();
    if (HasFailure() || IsSkipped()) return;
    MakeOurLower();
  }
  void TearDown() override {
    twins_.clear();
    context_.reset();
    tap_.Reset();
    NetnsFixture::TearDown();
  }

  const LowerKind& lower() const { return kLowerKinds[std::get<0>(GetParam())]; }
  bool is_tap() const { return lower().command[0] == '\0'; }

  void MakeKernelLower() {
    if (is_tap()) {
      MakeKernelTap();
    } else {
      const std::string command = absl::StrReplaceAll(lower().command, {{"@", kLower}});
      const testutil::CommandResult made = Run(Words(absl::StrCat("ip ", command)));
      if (absl::StrContains(made.output, "Unknown device type")) {
        // No skipped test: there is nothing this machine lacks that it ought to have.
        std::printf("this kernel has no devices of type %s: nothing to compare\n", lower().name);
        return;
      }
      ASSERT_TRUE(made.ok()) << made.output;
    }
    auto ethtool = KernelEthtool::Open(kLower);
    ASSERT_TRUE(ethtool.ok()) << ethtool.status();
    ethtool_ = std::make_unique<KernelEthtool>(*std::move(ethtool));
  }

  void MakeKernelTap() {
    tap_.Reset(open(tun_node().c_str(), O_RDWR | O_CLOEXEC));
    ifreq request = {};
    std::strcpy(request.ifr_name, kLower);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    ASSERT_EQ(ioctl(tap_.get(), TUNSETIFF, &request), 0) << std::strerror(errno);
  }

  void FindUpperKinds() {
    for (const UpperKind& kind : kUpperKinds) {
      const UpperChoice trial{.name = "trial", .lower = kLower, .mode = kModes[0], .id = 1};
      if (!MakeKernelUpper(kind, trial).ok()) continue;
      Ip("link del trial");
      uppers_.push_back(&kind);
    }
    if (uppers_.empty()) GTEST_SKIP() << "this kernel has no macvlans";
  }

  testutil::CommandResult MakeKernelUpper(const UpperKind& kind, const UpperChoice& choice) {
    return Run(Words(absl::StrCat("ip link add link ", choice.lower, " name ", choice.name,
                                  " type ", kind.name, " ", kind.kernel_arguments(choice))));
  }

  void MakeOurLower() {
    const auto claims = ethtool_->Read(kLower);
    ASSERT_TRUE(claims.ok()) << claims.status();
    auto device = lower().create != nullptr
                      ? lower().create(*context_, kLower)
                      : context_->registry().Register(
                            std::make_unique<StandIn>(*context_, kLower, *claims, is_tap()));
    ASSERT_TRUE(device.ok()) << device.status();
    twins_.push_back({.name = kLower,
                      .what = absl::StrCat("lower ", lower().name),
                      .ours = *device,
                      .apart = lower().apart});
    // The kernel's devices have reasons of their own to start without some.
    const FeatureSet common = claims->changeable & ~lower().apart;
    ASSERT_TRUE(netdev::SetFeaturesBulk(**device, common, claims->wanted).ok());
  }

  static std::vector<std::string> Words(const std::string& text) {
    return absl::StrSplit(text, ' ', absl::SkipEmpty());
  }

  // ---- Steps: what the commands said differently, or nothing ----

  std::string Step() {
    const uint32_t dice = random_.Uniform(100);
    if (dice < 60) return ToggleBulk();
    if (dice < 78) return ToggleLegacy();
    if (dice < 84) return ToggleUp();
    if (dice < 91) return AddUpper();
    if (dice < 95) return RemoveUpper();
    return is_tap() ? ToggleOffloads() : ToggleBulk();
  }

  Twin& AnyTwin() { return twins_[random_.Uniform(static_cast<uint32_t>(twins_.size()))]; }
  bool Chance(uint32_t percent) { return random_.Uniform(100) < percent; }

  FeatureSet AnyBitOf(FeatureSet set) {
    std::vector<int> positions;
    for (int i = 0; i < 64; ++i) {
      if (set.bits() >> i & 1) positions.push_back(i);
    }
    if (positions.empty()) return {};
    const uint32_t chosen = random_.Uniform(static_cast<uint32_t>(positions.size()));
    return FeatureSet::FromBits(uint64_t{1} << positions[chosen]);
  }

  // Mostly what can be changed, at times what cannot.
  FeatureSet SomeBits(const Twin& twin) {
    const FeatureSet known = ethtool_->known() & ~twin.apart;
    if (Chance(5)) return FeatureSet::FromBits(random_.Next64()) & known & netdev::kEthtoolBits;
    FeatureSet bits;
    for (uint32_t n = 1 + random_.Uniform(4); n > 0; --n) {
      bits |= AnyBitOf(Chance(80) ? known & twin.ours->hw_features() : known);
    }
    return bits;
  }

  std::string ToggleBulk() {
    Twin& twin = AnyTwin();
    const FeatureSet valid = SomeBits(twin);
    const FeatureSet wanted = FeatureSet::FromBits(random_.Next64()) & valid;
    step_ = absl::StrCat(twin.name, ": switch ", FeatureSetToString(valid), " to {",
                         FeatureSetToString(wanted), "}");
    const auto before = ethtool_->Read(twin.name);
    const KernelEthtool::Outcome kernel = ethtool_->SetBulk(twin.name, valid, wanted);
    const auto after = ethtool_->Read(twin.name);
    const auto ours = netdev::SetFeaturesBulk(*twin.ours, valid, wanted);
    const int our_error = StatusToErrno(ours.status());
    if (kernel.error != our_error) return CompareErrors(kernel.error, our_error);
    if (!before.ok() || !after.ok()) return "the kernel's device cannot be read";
    if (!ours.ok()) return "";
    const FeatureSet changed = (before->active ^ after->active) & ~twin.apart;
    std::string difference;
    const auto compare = [&](const char* what, bool kernels, bool our) {
      if (kernels == our) return;
      absl::StrAppend(&difference, what, ": kernel: ", kernels, ", ours: ", our, "; ");
    };
    compare("UNSUPPORTED", (kernel.flags & ETHTOOL_F_UNSUPPORTED) != 0, ours->unsupported);
    compare("WISH", (kernel.flags & ETHTOOL_F_WISH) != 0, ours->wish);
    compare("as the kernel's change", true, (ours->changed & ~twin.apart) == changed);
    return difference;
  }

  std::string ToggleLegacy() {
    Twin& twin = AnyTwin();
    const LegacyFeature feature = kLegacyFeatures[random_.Uniform(std::size(kLegacyFeatures))];
    const bool on = Chance(50);
    step_ = absl::StrCat(twin.name, ": ", netdev::LegacyFeatureName(feature), on ? " on" : " off");
    const int kernel = ethtool_->SetLegacy(twin.name, feature, on);
    const int ours = StatusToErrno(netdev::SetLegacyFeature(*twin.ours, feature, on));
    return CompareErrors(kernel, ours);
  }

  std::string ToggleUp() {
    Twin& twin = AnyTwin();
    const bool up = !twin.ours->is_up();
    step_ = absl::StrCat(twin.name, up ? ": up" : ": down");
    const int kernel = ethtool_->SetUp(twin.name, up);
    int ours = 0;
    if (up) {
      ours = StatusToErrno(twin.ours->Up());
    } else {
      twin.ours->Down();
    }
    return CompareErrors(kernel, ours);
  }

  std::string AddUpper() {
    if (twins_.size() > kMaxUppers) return RemoveUpper();
    const Twin& below = AnyTwin();
    const UpperKind& kind = *uppers_[random_.Uniform(static_cast<uint32_t>(uppers_.size()))];
    const UpperChoice choice{.name = absl::StrCat("u", ++made_),
                             .lower = below.name,
                             .mode = kModes[random_.Uniform(std::size(kModes))],
                             .id = static_cast<uint16_t>(1 + random_.Uniform(8))};
    const std::string what =
        absl::StrCat(kind.name, " ", kind.kernel_arguments(choice), " on ", below.name);
    step_ = absl::StrCat("add ", choice.name, ", ", what);
    const FeatureSet apart = kind.apart | (below.apart & FeatureSet(Feature::kFragList));
    const absl::Status ours = kind.create(*context_, choice);
    const std::string difference = CompareCreation(MakeKernelUpper(kind, choice), ours);
    NetDevice* device = context_->registry().Find(absl::string_view(choice.name));
    if (device != nullptr) {
      twins_.push_back({.name = choice.name, .what = what, .ours = device, .apart = apart});
    }
    return difference;
  }

  // With what stands on it.
  std::string RemoveUpper() {
    if (twins_.size() < 2) return AddUpper();
    const Twin& twin = twins_[1 + random_.Uniform(static_cast<uint32_t>(twins_.size() - 1))];
    step_ = absl::StrCat("remove ", twin.name);
    Ip(absl::StrCat("link del ", twin.name));
    context_->registry().Unregister(*twin.ours);
    context_->RunOnce();
    std::string difference;
    std::erase_if(twins_, [&](const Twin& other) {
      const bool ours_gone = context_->registry().Find(absl::string_view(other.name)) == nullptr;
      const bool kernels_gone = if_nametoindex(other.name.c_str()) == 0;
      if (ours_gone != kernels_gone) {
        absl::StrAppend(&difference, other.name, kernels_gone ? " is gone" : " is there",
                        " in the kernel, ours is not; ");
      }
      return ours_gone;
    });
    return difference;
  }

  std::string ToggleOffloads() {
    unsigned flags = 0;
    FeatureSet offloads;
    const auto add = [&](unsigned flag, FeatureSet feature) {
      if (!Chance(60)) return;
      flags |= flag;
      offloads |= feature;
    };
    add(TUN_F_CSUM, Feature::kHwCsum);
    if (flags != 0) {
      add(TUN_F_TSO4, Feature::kTso);
      add(TUN_F_TSO6, Feature::kTso6);
      if (flags & (TUN_F_TSO4 | TUN_F_TSO6)) add(TUN_F_TSO_ECN, Feature::kTsoEcn);
      add(kTunUso4And6, Feature::kGsoUdpL4);
    }
    step_ = absl::StrCat(kLower, ": TUNSETOFFLOAD ", FeatureSetToString(offloads));
    if (ioctl(tap_.get(), TUNSETOFFLOAD, flags) != 0) {
      // USO is unknown before 6.2.
      return (flags & kTunUso4And6) != 0 ? "" : std::strerror(errno);
    }
    static_cast<StandIn*>(twins_[0].ours)->SetOffloads(offloads);
    return "";
  }

  // ---- States ----

  std::string Difference(const Twin& twin) const {
    const auto kernel = ethtool_->Read(twin.name);
    if (!kernel.ok()) return kernel.status().ToString();
    std::string difference;
    for (int i = 0; i < 64; ++i) {
      const FeatureSet bit = FeatureSet::FromBits(uint64_t{1} << i);
      if (!(ethtool_->known() & ~twin.apart).HasAny(bit)) continue;
      const auto feature = static_cast<Feature>(i);
      const netdev::FeatureState state = netdev::FeatureStateOf(*twin.ours, feature);
      const std::string kernels =
          StateText(kernel->active.Has(feature), kernel->wanted.Has(feature),
                    kernel->changeable.Has(feature));
      const std::string ours =
          StateText(state.on, twin.ours->wanted_features().Has(feature), !state.fixed);
      if (kernels == ours) continue;
      absl::StrAppend(&difference, twin.name, " (", twin.what, ") ", netdev::FeatureName(i),
                      ": kernel: ", kernels, "; ours: ", ours, "\n");
    }
    return difference.empty() ? LegacyDifference(twin) : difference;
  }

  std::string LegacyDifference(const Twin& twin) const {
    for (const LegacyFeature feature : kLegacyFeatures) {
      if (netdev::LegacyFeatureMask(feature).HasAny(twin.apart)) continue;
      bool kernel = false;
      const int err = ethtool_->GetLegacy(twin.name, feature, kernel);
      if (err == 0 && kernel == netdev::GetLegacyFeature(*twin.ours, feature)) continue;
      return absl::StrCat(twin.name, " (", twin.what, ") ", netdev::LegacyFeatureName(feature),
                          ": kernel: ",
                          err != 0 ? std::strerror(err)
                          : kernel ? "on"
                                   : "off",
                          "; ours: the opposite");
    }
    return "";
  }

  std::string Difference() const {
    std::string difference;
    for (const Twin& twin : twins_) absl::StrAppend(&difference, Difference(twin));
    return difference;
  }

  static constexpr char kLower[] = "d0";
  static constexpr unsigned kTunUso4And6 = 0x20 | 0x40;  // TUN_F_USO4, TUN_F_USO6 of newer headers

  const uint64_t seed_ = FromEnvironment("TAPWIRE_FEATURE_SEED", std::get<1>(GetParam()));
  SeededRandom random_{seed_};
  TestEnvironment environment_;
  std::unique_ptr<NetContext> context_;
  drivers::UniqueFd tap_;
  std::unique_ptr<KernelEthtool> ethtool_;
  std::vector<const UpperKind*> uppers_;
  std::vector<Twin> twins_;  // the lower device first
  int made_ = 0;
  std::string step_ = "start";
};

std::string NameOf(const ::testing::TestParamInfo<std::tuple<size_t, uint64_t>>& info) {
  const LowerKind& kind = kLowerKinds[std::get<0>(info.param)];
  return absl::StrCat(kind.create == nullptr ? "LikeAKernels_" : "Our_", kind.name, "_seed",
                      std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Kinds, FeatureModelInterop,
                         ::testing::Combine(::testing::Range<size_t>(0, std::size(kLowerKinds)),
                                            ::testing::Values(1, 2)),
                         NameOf);

TEST_P(FeatureModelInterop, EveryBitIsInTheKernelsState) {
  if (ethtool_ == nullptr) return;
  ASSERT_EQ(Difference(), "") << "at the start";
  const uint64_t steps = FromEnvironment("TAPWIRE_FEATURE_STEPS", 400);
  std::string history;
  for (uint64_t i = 0; i < steps; ++i) {
    const std::string answers = Step();
    absl::StrAppend(&history, "\nstep ", i, ": ", step_);
    ASSERT_EQ(absl::StrCat(answers, Difference()), "") << "seed " << seed_ << ", after" << history;
  }
  EXPECT_GT(made_, 0);
}

}  // namespace
}  // namespace tapwire::interop
