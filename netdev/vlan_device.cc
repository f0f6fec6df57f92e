// SPDX-License-Identifier: Apache-2.0
// The 802.1Q upper device.
//
//   stack ─► VLAN device ─► tag in the metadata ─► lower device's transmit path, which writes the
//                                                  tag into the frame unless the device inserts it
//   stack ◄─ VLAN device ◄─ receive core, which looks the tag up among the VLAN devices above
//
// Unlike a macvlan, a VLAN device shares the life of its lower one: it goes down and comes up with
// it. As long as nobody gives it an address of its own it has the lower's.
#include "netdev/vlan_device.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/log.h"
#include "netdev/base/status_util.h"
#include "netdev/tx_path.h"
#include "netdev/wire/vlan.h"

namespace tapwire::netdev {
namespace {

// What users may switch. As in Linux, without what needs FCoE.
constexpr FeatureSet kVlanDeviceFeatures =
    kGsoSoftware | kGsoEncapAll |
    FeatureSet{Feature::kHwCsum, Feature::kSg, Feature::kFragList, Feature::kHighDma,
               Feature::kSctpCrc};

// What the lower device can do for packets in a tunnel in a VLAN.
FeatureSet TunnelFeatures(const NetDevice& lower) {
  const FeatureSet set = lower.hw_enc_features() & (kCsumMask | kGsoSoftware | kGsoEncapAll);
  if (!set.HasAny(kGsoEncapAll) || !set.HasAny(kCsumMask)) return {};
  return (set & ~kCsumMask) | Feature::kHwCsum;
}

class VlanDevice final : public NetDevice, private NetdevObserver {
 public:
  VlanDevice(NetContext& context, Init init, NetDevice& lower, const VlanOptions& options)
      : NetDevice(context, std::move(init)),
        lower_(lower),
        tag_{.protocol = options.protocol, .vlan_id = options.vlan_id},
        follows_mac_(!options.mac.has_value()),
        lower_mac_(lower.mac()) {}

  absl::string_view kind() const override { return "vlan"; }
  uint32_t parent_ifindex() const override { return lower_.ifindex(); }
  VlanTag tag() const { return tag_; }

  // The second half of registration: from now on frames and events arrive.
  absl::Status Attach() {
    TW_RETURN_IF_ERROR(lower_.LinkUpper(*this));
    lower_.AddObserver(*this);
    FollowLink();
    lower_.AddVlanUpper(tag_.protocol, tag_.vlan_id, *this);
    return absl::OkStatus();
  }

 protected:
  absl::Status OnInit() override {
    TW_RETURN_IF_ERROR(lower_.AddVlanId(tag_.protocol, tag_.vlan_id));
    set_hw_features(kVlanDeviceFeatures);
    set_features(kVlanDeviceFeatures);
    set_vlan_features(lower_.vlan_features() & ~FeatureSet{Feature::kFcoeCrc, Feature::kFso});
    set_hw_enc_features(TunnelFeatures(lower_));
    InheritTsoLimits(lower_);
    FollowLink();
    return absl::OkStatus();
  }
  void OnUninit() override { lower_.RemoveVlanId(tag_.protocol, tag_.vlan_id); }

  void OnUnregister() override {
    Unlink();
    lower_.RemoveVlanUpper(*this);
    lower_.UnlinkUpper(*this);
    lower_.RemoveVlanId(tag_.protocol, tag_.vlan_id);
  }

  absl::Status OnUp() override {
    if (!lower_.is_up()) {
      return ErrnoStatus(ENETDOWN, absl::StrCat(name(), ": take ", lower_.name(),
                                                " up, then its VLAN devices come up too"));
    }
    if (mac() != lower_.mac() && !InheritMac()) TW_RETURN_IF_ERROR(lower_.AddUnicast(mac()));
    if (is_allmulti()) static_cast<void>(lower_.ChangeAllMulti(1));
    if (is_promiscuous()) static_cast<void>(lower_.ChangePromiscuity(1));
    lower_mac_ = lower_.mac();
    FollowLink();
    return absl::OkStatus();
  }

  void OnDown() override {
    SyncUnicast({});
    SyncMulticastList({});
    if (is_allmulti()) static_cast<void>(lower_.ChangeAllMulti(-1));
    if (is_promiscuous()) static_cast<void>(lower_.ChangePromiscuity(-1));
    if (mac() != lower_mac_) lower_.RemoveUnicast(mac());
    SetCarrier(false);
  }

  absl::Status OnSetMtu(uint32_t mtu) override {
    if (mtu <= lower_.mtu()) return absl::OkStatus();
    return ErrnoStatus(
        ERANGE, absl::StrCat(name(), ": MTU ", mtu, " is above that of ", lower_.name(), ", ",
                             lower_.mtu(), "; raise that one first"));
  }

  absl::Status OnSetMac(const MacAddress& address) override {
    if (is_up()) {
      if (address != lower_mac_) TW_RETURN_IF_ERROR(lower_.AddUnicast(address));
      if (mac() != lower_mac_) lower_.RemoveUnicast(mac());
    }
    follows_mac_ = false;
    return absl::OkStatus();
  }

  void OnRxModeChange() override {
    SyncUnicast(unicast_list());
    SyncMulticastList(multicast_list());
  }
  void OnRxFlagsChange(bool promiscuous_changed, bool allmulti_changed) override {
    if (allmulti_changed) static_cast<void>(lower_.ChangeAllMulti(is_allmulti() ? 1 : -1));
    if (promiscuous_changed) {
      static_cast<void>(lower_.ChangePromiscuity(is_promiscuous() ? 1 : -1));
    }
  }
  size_t unicast_filter_slots() const override { return SIZE_MAX; }

  FeatureSet FixFeatures(FeatureSet wanted) override {
    FeatureSet lower =
        IntersectFeatures(lower_.vlan_features() | Feature::kRxCsum, lower_.features());
    // So that users can switch checksumming here, whatever kind the lower device has.
    if (lower.HasAny({Feature::kIpCsum, Feature::kIpv6Csum})) lower |= Feature::kHwCsum;
    return IntersectFeatures(wanted, lower) | (wanted & (kSoftFeatures | kGsoSoftware));
  }

  TxResult StartXmit(PacketPtr packet, bool /*more*/) override {
    packet->meta.vlan_present = true;
    packet->meta.vlan_proto = tag_.protocol;
    packet->meta.vlan_tci = tag_.vlan_id;  // priority 0
    const TxResult result = TxPath::Transmit(std::move(packet), lower_);
    // The reason was counted below.
    if (!TxOk(result)) stats().tx_dropped.Inc();
    return result;
  }
  bool is_queueless() const override { return true; }

 private:
  void OnNetdevEvent(NetDevice& /*lower*/, NetdevEvent event) override {
    switch (event) {
      case NetdevEvent::kUp:
        if (absl::Status status = Up(); !status.ok()) {
          TW_LOG(kWarning) << name() << ": stays down: " << status.ToString();
        }
        FollowLink();
        return;
      case NetdevEvent::kDown:
        Down();
        FollowLink();
        return;
      case NetdevEvent::kChange:
        FollowLink();
        return;
      case NetdevEvent::kChangeAddr:
        if (is_up()) FollowMac();
        return;
      case NetdevEvent::kChangeMtu:
        if (mtu() > lower_.mtu()) static_cast<void>(SetMtu(lower_.mtu()));
        return;
      case NetdevEvent::kFeatChange:
        InheritTsoLimits(lower_);
        set_hw_enc_features(TunnelFeatures(lower_));
        UpdateFeatures();
        return;
      case NetdevEvent::kUnregister:
        context().registry().Unregister(*this);
        return;
      case NetdevEvent::kNotifyPeers:
      case NetdevEvent::kBondingFailover:
      case NetdevEvent::kResendIgmp:
        SendEvent(event);
        return;
      case NetdevEvent::kRegister:
      case NetdevEvent::kGoingDown:
      case NetdevEvent::kPreTypeChange:
        return;
    }
  }

  absl::Status MayChange(NetDevice& /*lower*/, NetdevEvent event) override {
    if (event != NetdevEvent::kPreTypeChange) return absl::OkStatus();
    return ErrnoStatus(EBUSY, absl::StrCat(lower_.name(), ": carries ", name(),
                                           "; remove that before the link type changes"));
  }

  // Carrier and the states beyond it are those of the lower device.
  void FollowLink() {
    SetDormant(lower_.is_dormant());
    SetTesting(lower_.is_testing());
    SetCarrier(lower_.has_carrier());
  }

  // Takes the lower's address, if this device has none of its own.
  bool InheritMac() {
    if (!follows_mac_) return false;
    set_mac(lower_.mac());
    Notify(NetdevEvent::kChangeAddr);
    return true;
  }

  // The lower's address changed while both are up: an address of our own must be in its filter
  // exactly while it is another.
  void FollowMac() {
    const MacAddress before = std::exchange(lower_mac_, lower_.mac());
    if (before == lower_mac_ || InheritMac()) return;
    if (mac() != before && mac() == lower_mac_) lower_.RemoveUnicast(mac());
    if (mac() == before && mac() != lower_mac_) static_cast<void>(lower_.AddUnicast(mac()));
  }

  // Makes what the lower device was given for this one equal to `list`.
  template <typename Add, typename Remove>
  static void Sync(const std::vector<FilterAddress>& list, std::vector<MacAddress>& given, Add add,
                   Remove remove) {
    const auto wanted = [&](const MacAddress& address) {
      return std::any_of(list.begin(), list.end(),
                         [&](const FilterAddress& entry) { return entry.address == address; });
    };
    for (size_t i = given.size(); i-- > 0;) {
      const MacAddress address = given[i];
      if (wanted(address)) continue;
      given.erase(given.begin() + static_cast<ptrdiff_t>(i));
      remove(address);
    }
    for (const FilterAddress& entry : list) {
      if (std::find(given.begin(), given.end(), entry.address) != given.end()) continue;
      if (add(entry.address)) given.push_back(entry.address);
    }
  }
  void SyncUnicast(const std::vector<FilterAddress>& list) {
    Sync(
        list, given_unicast_,
        [&](const MacAddress& address) { return lower_.AddUnicast(address).ok(); },
        [&](const MacAddress& address) { lower_.RemoveUnicast(address); });
  }
  void SyncMulticastList(const std::vector<FilterAddress>& list) {
    Sync(
        list, given_multicast_,
        [&](const MacAddress& address) {
          lower_.SyncMulticast(address);
          return true;
        },
        [&](const MacAddress& address) { lower_.UnsyncMulticast(address); });
  }

  NetDevice& lower_;
  const VlanTag tag_;
  bool follows_mac_;
  MacAddress lower_mac_;  // as followed while up: our address is in its filter if it differs
  std::vector<MacAddress> given_unicast_, given_multicast_;
};

absl::Status CheckOptions(const NetDevice& lower, const VlanOptions& options) {
  if (options.protocol != wire::EtherType::kVlan && options.protocol != wire::EtherType::kQinQ) {
    return ErrnoStatus(EPROTONOSUPPORT,
                       absl::StrCat(lower.name(), ": no VLAN has the tag type 0x",
                                    absl::Hex(options.protocol), "; use 0x8100 or 0x88a8"));
  }
  if (options.vlan_id >= wire::kVlanMaxId) {
    return ErrnoStatus(ERANGE, absl::StrCat(lower.name(), ": VLAN id ", options.vlan_id,
                                            " is outside 0..", wire::kVlanMaxId - 1));
  }
  if (options.mac.has_value() && !options.mac->IsUnicast()) {
    return ErrnoStatus(EADDRNOTAVAIL,
                       absl::StrCat(lower.name(), ": ", options.mac->ToString(),
                                    " cannot be the address of a VLAN device; leave it out, or "
                                    "use one that is neither zero nor a group address"));
  }
  if (lower.link_type() != LinkType::kEthernet || lower.features().Has(Feature::kVlanChallenged)) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat(lower.name(),
                                                ": cannot carry tagged frames; put "
                                                "the VLAN on an Ethernet device"));
  }
  if (lower.VlanUpper(options.protocol, options.vlan_id) != nullptr) {
    return ErrnoStatus(EEXIST, absl::StrCat(lower.name(), ": has a device for VLAN ",
                                            options.vlan_id, " already; choose another id"));
  }
  if (options.mtu.has_value() && *options.mtu > lower.mtu()) {
    return ErrnoStatus(EINVAL, absl::StrCat(lower.name(), ": a VLAN device with MTU ", *options.mtu,
                                            " does not fit; its own MTU is ", lower.mtu()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NetDevice*> CreateVlan(NetContext& context, uint32_t lower_ifindex,
                                      VlanOptions options) {
  if (lower_ifindex == 0) {
    return ErrnoStatus(EINVAL, absl::StrCat("VLAN ", options.vlan_id, ": name its lower device"));
  }
  NetDevice* lower = context.registry().Find(lower_ifindex);
  if (lower == nullptr) {
    return ErrnoStatus(ENODEV, absl::StrCat("VLAN ", options.vlan_id, ": no device has the index ",
                                            lower_ifindex));
  }
  TW_RETURN_IF_ERROR(CheckOptions(*lower, options));
  if (options.name.empty()) options.name = absl::StrCat(lower->name(), ".", options.vlan_id);
  NetDevice::Init init{.name = options.name,
                       .mac = options.mac.value_or(lower->mac()),
                       .mtu = options.mtu.value_or(lower->mtu())};
  auto device = context.registry().Register(
      std::make_unique<VlanDevice>(context, std::move(init), *lower, options));
  if (!device.ok()) return device.status();
  if (absl::Status status = (*device)->Attach(); !status.ok()) {
    context.registry().Unregister(**device);
    return status;
  }
  return *device;
}

std::optional<VlanTag> VlanTagOf(const NetDevice& device) {
  const auto* vlan = dynamic_cast<const VlanDevice*>(&device);
  if (vlan == nullptr) return std::nullopt;
  return vlan->tag();
}

}  // namespace tapwire::netdev
