// SPDX-License-Identifier: Apache-2.0
// The dummy device, with the features of Linux's: it can claim everything, since nothing it is
// given has to be right on a wire.
#include "netdev/dummy.h"

#include <memory>
#include <utility>

namespace tapwire::netdev {
namespace {

constexpr FeatureSet kDummyFeatures =
    kGsoSoftware | kGsoEncapAll |
    FeatureSet{Feature::kSg, Feature::kFragList, Feature::kHwCsum, Feature::kHighDma};

class Dummy final : public NetDevice {
 public:
  Dummy(NetContext& context, Init init, bool offloads) : NetDevice(context, std::move(init)) {
    if (!offloads) return;
    set_features(kDummyFeatures);
    set_hw_features(kDummyFeatures);
    set_hw_enc_features(kDummyFeatures);
  }

  absl::string_view kind() const override { return "dummy"; }

 protected:
  TxResult StartXmit(PacketPtr /*packet*/, bool /*more*/) override { return TxResult::kSent; }
  bool is_queueless() const override { return true; }
};

}  // namespace

absl::StatusOr<NetDevice*> CreateDummy(NetContext& context, DummyOptions options) {
  Registry& registry = context.registry();
  if (options.name.empty()) options.name = registry.FreeName("dummy");
  NetDevice::Init init{.name = std::move(options.name), .mac = options.mac, .mtu = options.mtu};
  auto device =
      registry.Register(std::make_unique<Dummy>(context, std::move(init), options.offloads));
  if (!device.ok()) return device.status();
  return *device;
}

}  // namespace tapwire::netdev
