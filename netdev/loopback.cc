// SPDX-License-Identifier: Apache-2.0
// The loopback device: sends into the context's backlog and receives from there.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/veth.h"
#include "netdev/virtual_features.h"

namespace tapwire::netdev {
namespace {

constexpr uint32_t kLoopbackMtu = 65536;  // Linux

class Loopback final : public NetDevice {
 public:
  Loopback(NetContext& context, std::string name)
      : NetDevice(context, Init{.name = std::move(name),
                                .mtu = kLoopbackMtu,
                                .max_mtu = kLoopbackMtu,
                                .link_type = LinkType::kLoopback}) {
    set_mac(MacAddress());
    set_features(kVirtualDeviceFeatures | FeatureSet{Feature::kVlanChallenged, Feature::kLoopback});
    set_hw_features(kGsoSoftware);
    set_vlan_features(kVirtualDeviceFeatures);
  }

  absl::string_view kind() const override { return "loopback"; }

 protected:
  absl::Status OnSetMac(const MacAddress& /*mac*/) override {
    return absl::FailedPreconditionError(
        absl::StrCat(name(), ": a loopback device has no link-layer address to set"));
  }

  FeatureSet FeaturesCheck(const Packet& /*packet*/, FeatureSet features) const override {
    return features;
  }

  TxResult StartXmit(PacketPtr packet, bool /*more*/) override {
    context().EnqueueBacklog(std::move(packet), *this);
    return TxResult::kSent;
  }

  bool is_queueless() const override { return true; }
};

}  // namespace

absl::StatusOr<NetDevice*> CreateLoopback(NetContext& context, absl::string_view name) {
  auto device = context.registry().Register(std::make_unique<Loopback>(context, std::string(name)));
  if (!device.ok()) return device.status();
  return *device;
}

}  // namespace tapwire::netdev
