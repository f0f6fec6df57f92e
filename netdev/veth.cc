// SPDX-License-Identifier: Apache-2.0
// The veth pair: two devices, each other's wire. A frame goes from one end's StartXmit into the
// context's backlog and from there to the other end's receive core, so a receiver that answers does
// not run inside its sender. Metadata goes along: a checksum nobody needs is never computed.
#include "netdev/veth.h"

#include <memory>
#include <utility>

#include "netdev/tx_path.h"
#include "netdev/virtual_features.h"

namespace tapwire::netdev {
namespace {

// A tag crosses in the metadata, where the receive core would put it anyway.
constexpr FeatureSet kTagOffloads{Feature::kHwVlanCtagTx, Feature::kHwVlanCtagRx,
                                  Feature::kHwVlanStagTx, Feature::kHwVlanStagRx};

class Veth final : public NetDevice {
 public:
  Veth(NetContext& context, Init init, bool offloads) : NetDevice(context, std::move(init)) {
    if (offloads) {
      set_features(kVirtualDeviceFeatures | kTagOffloads);
      set_hw_features(kVirtualDeviceFeatures | kTagOffloads);
      set_vlan_features(kVirtualDeviceFeatures);
    }
    SetCarrier(false);
  }

  void Connect(Veth* peer) { peer_ = peer; }

  absl::string_view kind() const override { return "veth"; }

 protected:
  absl::Status OnUp() override {
    const bool link = peer_ != nullptr && peer_->is_up();
    SetCarrier(link);
    if (link) peer_->SetCarrier(true);
    return absl::OkStatus();
  }

  void OnDown() override {
    SetCarrier(false);
    if (peer_ != nullptr) peer_->SetCarrier(false);
  }

  // One end is of no use without the other.
  void OnUnregister() override {
    Veth* peer = std::exchange(peer_, nullptr);
    if (peer == nullptr) return;
    peer->peer_ = nullptr;
    context().registry().Unregister(*peer);
  }

  FeatureSet FeaturesCheck(const Packet& /*packet*/, FeatureSet features) const override {
    return features;
  }

  TxResult StartXmit(PacketPtr packet, bool /*more*/) override {
    if (peer_ == nullptr) {
      DropTx(std::move(packet), DropReason::kTxCarrierOff);
      return TxResult::kDeviceDown;
    }
    // A link carries what its far end can take: the ends may have different MTUs.
    if (!FitsPeer(*packet)) {
      peer_->DropRx(std::move(packet), DropReason::kLinkOverMtu);
      return TxResult::kSent;
    }
    context().EnqueueBacklog(std::move(packet), *peer_);
    return TxResult::kSent;
  }

  bool is_queueless() const override { return true; }

 private:
  bool FitsPeer(const Packet& packet) const {
    return peer_->mtu() >= mtu() || TxPath::CheckMetadata(packet, *peer_) == DropReason::kNone;
  }

  Veth* peer_ = nullptr;
};

}  // namespace

absl::StatusOr<std::pair<NetDevice*, NetDevice*>> CreateVethPair(NetContext& context,
                                                                 const VethOptions& options) {
  Registry& registry = context.registry();
  const auto make = [&](const std::string& name, const MacAddress& mac) {
    return std::make_unique<Veth>(
        context, NetDevice::Init{.name = name, .mac = mac, .mtu = options.mtu}, options.offloads);
  };
  auto end_a = make(options.name_a, options.mac_a);
  auto end_b = make(options.name_b, options.mac_b);
  // Before observers hear of either end and may take it up.
  end_a->Connect(end_b.get());
  end_b->Connect(end_a.get());
  auto first = registry.Register(std::move(end_a));
  if (!first.ok()) return first.status();
  auto second = registry.Register(std::move(end_b));
  if (!second.ok()) {
    (*first)->Connect(nullptr);
    registry.Unregister(**first);
    return second.status();
  }
  return std::pair<NetDevice*, NetDevice*>(*first, *second);
}

}  // namespace tapwire::netdev
