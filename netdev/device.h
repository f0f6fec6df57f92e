// SPDX-License-Identifier: Apache-2.0
// NetDevice: what drivers and upper devices derive from. Holds the identity, state, feature words,
// limits, statistics and hooks of one interface; the frames themselves travel through rx_path and
// tx_path, which call the virtual operations here.
//
// Life: created by a factory, given to Registry::Register() (which owns it from then on), Up() /
// Down() any number of times, Registry::Unregister(). All calls on the context's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "netdev/base/counter.h"
#include "netdev/base/drop_reason.h"
#include "netdev/base/intrusive_list.h"
#include "netdev/features.h"
#include "netdev/net_context.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/mac_address.h"

namespace tapwire::netdev {

class NetDevice;
class TxQueue;

// What became of a packet that was given to the transmit side. The packet is consumed in all cases.
enum class TxResult : uint8_t {
  kSent,
  kQueued,
  kCongested,  // taken, or dropped and counted below: counts as sent, the sender should slow down
  kNoBuffer,
  kNoRoute,
  kDeviceDown,
  kTooBig,
  kDropped
};
absl::string_view TxResultName(TxResult result);
inline bool TxOk(TxResult r) {
  return r == TxResult::kSent || r == TxResult::kQueued || r == TxResult::kCongested;
}

enum class NetdevEvent : uint8_t {
  kRegister,
  kUp,
  kGoingDown,
  kDown,
  kChange,
  kChangeMtu,
  kChangeAddr,
  kFeatChange,
  kUnregister,
  kPreTypeChange,  // may be vetoed
  kNotifyPeers,    // this and the next two: upper devices tell their own watchers too
  kBondingFailover,
  kResendIgmp,
};
absl::string_view NetdevEventName(NetdevEvent event);

// RFC 2863 §6 ifOperStatus, as `ip link` shows it after "state".
enum class OperState : uint8_t { kDown, kLowerLayerDown, kTesting, kDormant, kUp };
absl::string_view OperStateName(OperState state);

enum class GroMode : uint8_t;  // netdev/gro.h

// What kind of link layer a device has. Only Ethernet devices carry macvlans and VLANs.
enum class LinkType : uint8_t { kEthernet, kLoopback, kOther };

// Told of events of the devices it watches (NetDevice::AddObserver or Registry::AddObserver; one of
// the two at a time). May add and remove observers, itself included, and change or unregister the
// device. A change made by an earlier observer may have overtaken the event: look at the device.
class NetdevObserver : public ListHook<NetdevObserver> {
 public:
  virtual ~NetdevObserver() = default;
  virtual void OnNetdevEvent(NetDevice& device, NetdevEvent event) = 0;
  // Asked before kPreTypeChange, and after a change of the address with kChangeAddr: an error stops
  // the type change, and is what SetMac() returns.
  virtual absl::Status MayChange(NetDevice& /*device*/, NetdevEvent /*event*/) {
    return absl::OkStatus();
  }
};

// A protocol's entry: gets every frame of one EtherType that a device passes up, with data() at the
// Ethernet header and meta l2_offset / ether_type set. kAllTypes gets what nobody else takes.
class PacketType : public ListHook<PacketType> {
 public:
  static constexpr uint16_t kAllTypes = 0;
  enum class Binding : uint8_t {
    kFinal,  // frames that end on the device: a stack's entry
    kBound,  // also frames that arrived on it and went on to an upper device, and those a handler
             // left to bound entries only (RxHandlerResult::kExact)
  };
  explicit PacketType(uint16_t ether_type, Binding binding = Binding::kFinal)
      : ether_type_(ether_type), binding_(binding) {}
  virtual ~PacketType() = default;
  uint16_t ether_type() const { return ether_type_; }
  Binding binding() const { return binding_; }
  virtual void Receive(PacketPtr packet, NetDevice& device) = 0;

 private:
  uint16_t ether_type_;
  Binding binding_;
};

// First look at every frame of a device, before protocols: how upper devices take their frames.
enum class RxHandlerResult : uint8_t {
  kPass,      // go on as if there were no handler
  kConsumed,  // the handler took (or dropped and counted) the packet
  kAnother,   // meta.rx_device was changed: run the receive core again on that device
  kExact,     // go on, but only to PacketTypes of Binding::kBound
};
class RxHandler {
 public:
  virtual ~RxHandler() = default;
  // Takes the packet (leaving it null) with kConsumed only; may replace it by another (a private
  // copy) with any result.
  virtual RxHandlerResult HandleFrame(PacketPtr& packet, NetDevice& device) = 0;
};

enum class TapDirection : uint8_t { kReceive, kTransmit };
// Sees every frame of a device (capture). Transmitted frames are shown only after the device took
// them (kSent or kQueued), as they were given to it; received ones before any handler, with kSent.
// Must not change the device or its taps.
class PacketTap : public ListHook<PacketTap> {
 public:
  virtual ~PacketTap() = default;
  virtual void OnFrame(const Packet& packet, const NetDevice& device, TapDirection direction,
                       TxResult result) = 0;
};

// X(field, "ip -s link / ethtool -S name", "help")
#define TAPWIRE_DEVICE_STATS(X)                                                                 \
  X(rx_packets, "rx_packets", "Frames received from the wire side")                             \
  X(rx_bytes, "rx_bytes", "Bytes received, link header included")                               \
  X(rx_errors, "rx_errors", "Received frames that were damaged or had impossible metadata")     \
  X(rx_dropped, "rx_dropped", "Good frames that were dropped before a protocol saw them")       \
  X(rx_nohandler, "rx_nohandler", "Frames left to bound protocols of which there is none")      \
  X(rx_multicast, "multicast", "Multicast frames received")                                     \
  X(tx_packets, "tx_packets", "Frames the device accepted for sending (a super-packet is one)") \
  X(tx_bytes, "tx_bytes", "Bytes accepted for sending, link header included")                   \
  X(tx_errors, "tx_errors", "Sends the device failed")                                          \
  X(tx_dropped, "tx_dropped", "Packets dropped before the device saw them")                     \
  X(tx_gso_segmented, "tx_gso_segmented", "Super-packets segmented in software")                \
  X(tx_csum_software, "tx_csum_software", "Transport checksums computed in software")           \
  X(tx_linearized, "tx_linearized", "Packets copied into one buffer since the device lacks SG")
TAPWIRE_COUNTER_STRUCT(DeviceStats, TAPWIRE_DEVICE_STATS);

class NetDevice {
 public:
  static constexpr uint32_t kLinkHeaderLength = 14;
  static constexpr uint32_t kDefaultGsoMaxSize = 65536;
  static constexpr uint32_t kDefaultGsoMaxSegs = 65535;

  struct Init {
    std::string name;
    MacAddress mac{};       // zero: a random locally administered one is made
    uint32_t mtu = 1500;    // bytes of network packet
    uint32_t min_mtu = 68;  // RFC 791: every IPv4 link must carry 68
    uint32_t max_mtu = 65535;
    LinkType link_type = LinkType::kEthernet;
  };

  virtual ~NetDevice();
  NetDevice(const NetDevice&) = delete;
  NetDevice& operator=(const NetDevice&) = delete;

  NetContext& context() const { return context_; }
  const std::string& name() const { return name_; }
  uint32_t ifindex() const { return ifindex_; }  // 0 until registered, then unique in the context
  const MacAddress& mac() const { return mac_; }
  uint32_t mtu() const { return mtu_; }
  uint32_t min_mtu() const { return min_mtu_; }
  uint32_t max_mtu() const { return max_mtu_; }
  bool is_up() const { return up_; }
  bool has_carrier() const { return carrier_; }
  bool is_running() const { return up_ && carrier_; }
  bool is_loopback() const { return link_type_ == LinkType::kLoopback; }
  LinkType link_type() const { return link_type_; }
  // Asks the observers, tells them, changes. An error is an observer's veto.
  absl::Status ChangeLinkType(LinkType type);
  // The device below as `ip link` shows it behind the name's '@'; the own index if there is none.
  virtual uint32_t parent_ifindex() const { return ifindex_; }
  bool is_dormant() const { return dormant_; }
  bool is_testing() const { return testing_; }
  OperState oper_state() const;
  // Kind as `ip -d link` shows it: "tap", "veth", …
  virtual absl::string_view kind() const = 0;

  // Administrative state; idempotent, and told to observers. Up() fails with the driver's reason,
  // or kFailedPrecondition for a device that is not registered or in the middle of a change. Down()
  // drops what waits in the transmit queue.
  absl::Status Up();
  void Down();
  // kInvalidArgument outside the device's range. Waiting frames that are too long now are dropped.
  absl::Status SetMtu(uint32_t mtu);
  // kInvalidArgument for a group address or zero; else the driver's reason.
  absl::Status SetMac(const MacAddress& mac);
  // Called by drivers when the link comes or goes. What waits in the transmit queue of a device
  // that loses its link is dropped: it would be stale when the link returns.
  void SetCarrier(bool on);
  // RFC 2863 states of a link that is there but waits for something, or is under test.
  void SetDormant(bool on);
  void SetTesting(bool on);
  // kNotifyPeers, kBondingFailover, kResendIgmp: sent by whoever moved the link elsewhere.
  void SendEvent(NetdevEvent event) { Notify(event); }

  // Reference-counted receive filter, see Accepts(). Removing a group that was not added has no
  // effect.
  void AddMulticast(const MacAddress& group);
  void RemoveMulticast(const MacAddress& group);
  bool HasMulticast(const MacAddress& group) const;
  // Further unicast addresses that are for this device, reference-counted. A device is
  // promiscuous while it has more than it can filter (unicast_filter_slots()).
  absl::Status AddUnicast(const MacAddress& address);
  void RemoveUnicast(const MacAddress& address);
  bool HasUnicast(const MacAddress& address) const;
  // By +1 or -1. kOutOfRange (EOVERFLOW), and no change, when 2^32 - 1 would be passed;
  // below 0 it wraps, as in Linux.
  absl::Status ChangePromiscuity(int by);
  absl::Status ChangeAllMulti(int by);
  void SetPromiscuous(bool on) { static_cast<void>(ChangePromiscuity(on ? 1 : -1)); }
  bool is_promiscuous() const { return promiscuity_ > 0; }
  bool is_allmulti() const { return allmulti_ > 0; }
  // One of it may be the device's own, for want of unicast filter slots.
  uint32_t promiscuity() const { return promiscuity_; }
  uint32_t allmulti() const { return allmulti_; }
  struct FilterAddress {
    MacAddress address;
    uint32_t references = 0;
    uint32_t synced = 0;  // of these, by upper devices
  };
  const std::vector<FilterAddress>& unicast_list() const { return unicast_; }
  const std::vector<FilterAddress>& multicast_list() const { return multicast_; }
  // As AddMulticast()/RemoveMulticast(), by an upper device: counted apart.
  void SyncMulticast(const MacAddress& group);
  void UnsyncMulticast(const MacAddress& group);
  // Whether a frame to `destination` passes the receive filter: mac(), broadcast, an address or
  // group that was added, any group with allmulti, anything while promiscuous. The receive core
  // does not filter.
  bool Accepts(const MacAddress& destination) const;

  // Feature words, named as in Linux: `features` is what is active, `hw_features` what users may
  // change, `wanted_features` what they asked for (a subset of it); the last two limit tagged and
  // tunnelled packets. What users may not change is carried from one active set to the next.
  FeatureSet features() const { return features_; }
  FeatureSet hw_features() const { return hw_features_; }
  FeatureSet wanted_features() const { return wanted_features_; }
  FeatureSet vlan_features() const { return vlan_features_; }
  FeatureSet hw_enc_features() const { return hw_enc_features_; }
  // Kinds of segmentation that work with kGsoPartial only.
  FeatureSet gso_partial_features() const { return gso_partial_features_; }
  // A super-packet of this many bytes or more, link header included, or of more segments, is cut in
  // software. At most tso_max_*, the limits of the device itself.
  uint32_t gso_max_size() const { return gso_max_size_; }
  uint32_t gso_max_segs() const { return gso_max_segs_; }
  uint32_t tso_max_size() const { return tso_max_size_; }
  uint32_t tso_max_segs() const { return tso_max_segs_; }
  // kInvalidArgument for zero segments or above tso_max_*.
  absl::Status SetGsoMaxSize(uint32_t bytes);
  absl::Status SetGsoMaxSegs(uint32_t segs);
  // A packet is merged by GRO up to fewer bytes than this, counted from the network header.
  uint32_t gro_max_size() const { return gro_max_size_; }
  // Whether received frames are merged, while rx-gro is on; see netdev/gro.h. Any time.
  GroMode gro_mode() const { return gro_mode_; }
  void SetGroMode(GroMode mode) { gro_mode_ = mode; }
  // A stack forwards what it receives from this device: LRO goes off for good (DisableLro()).
  void SetForwarding(bool on);
  bool is_forwarding() const { return forwarding_; }
  // Switches the features of `mask` as in `values`, as far as the device lets users change them,
  // and recomputes the active set. Returns the bits of `mask` that users cannot change. A request
  // that is granted by hw_features but not active yet (missing prerequisite) is remembered.
  // netdev/ethtool.h has the commands of ethtool, with their errors.
  FeatureSet RequestFeatures(FeatureSet mask, FeatureSet values);
  // Recomputes the active set from hw/wanted and FixFeatures, calls SetFeatures on a change, has
  // lower devices follow, and sends kFeatChange if anything changed (Update) or always (Change).
  void UpdateFeatures();
  void ChangeFeatures();
  // Takes LRO out of the wanted set, here and below: merged frames cannot be forwarded. A device
  // that keeps it is logged.
  void DisableLro();

  // Stacked devices. The link lasts until it is taken back or either is unregistered.
  // kFailedPrecondition (EBUSY) for a loop, kAlreadyExists for a second link, kResourceExhausted
  // (EMLINK) for a stack of more than 8.
  absl::Status LinkUpper(NetDevice& upper);
  void UnlinkUpper(NetDevice& upper);
  const std::vector<NetDevice*>& uppers() const { return uppers_; }
  const std::vector<NetDevice*>& lowers() const { return lowers_; }
  // The VLAN device above that takes frames with this tag; null if there is none.
  NetDevice* VlanUpper(uint16_t protocol, uint16_t vlan_id) const {
    for (const VlanLink& link : vlan_uppers_) {
      if (link.vlan_id == vlan_id && link.protocol == protocol) return link.upper;
    }
    return nullptr;
  }
  // For an upper device that LinkUpper() linked; ends with that link.
  void AddVlanUpper(uint16_t protocol, uint16_t vlan_id, NetDevice& upper);
  void RemoveVlanUpper(const NetDevice& upper);
  // VLAN ids a filtering device must let through, reference-counted. Fails with the driver's
  // reason.
  absl::Status AddVlanId(uint16_t protocol, uint16_t vlan_id);
  void RemoveVlanId(uint16_t protocol, uint16_t vlan_id);
  // A macvlan port: other upper devices that want all frames are refused.
  bool is_macvlan_port() const { return macvlan_port_; }
  // Frames wait in a queue of the device before it sends them.
  bool has_tx_queue() const { return !queueless_; }

  const DeviceStats& stats() const { return stats_; }
  DeviceStats& stats() { return stats_; }
  const DropCounters& drops() const { return drops_; }
  // Count a drop at this device and free the packet, which may be null if it never came to be:
  // Drop* for good packets (rx_dropped, tx_dropped), Fail* for damaged ones and failed sends
  // (rx_errors, tx_errors). Whoever decides that a packet goes nowhere calls one of them, once.
  void DropRx(PacketPtr packet, DropReason reason);
  void DropTx(PacketPtr packet, DropReason reason);
  void FailRx(PacketPtr packet, DropReason reason);
  void FailTx(PacketPtr packet, DropReason reason);
  // Driver statistics beyond DeviceStats, ethtool -S style, in stable order.
  virtual void ForEachDriverStat(
      const std::function<void(absl::string_view name, uint64_t value)>&) const {}

  // Hooks; not owned. Objects unlink themselves on destruction. Every PacketType of an EtherType
  // gets its frames, the first of kAllTypes what nobody else takes.
  void AddPacketType(PacketType& type) { packet_types_.PushBack(type); }
  // Whether a protocol takes this EtherType from the device already.
  bool HasPacketType(uint16_t ether_type) const {
    for (const PacketType& type : packet_types_) {
      if (type.ether_type() == ether_type) return true;
    }
    return false;
  }
  void AddTap(PacketTap& tap) { taps_.PushBack(tap); }
  void AddObserver(NetdevObserver& observer) { observers_.PushBack(observer); }
  bool has_taps() const { return !taps_.empty(); }
  // One handler at a time: kAlreadyExists when another is set. Not owned; must be cleared before it
  // is destroyed.
  absl::Status SetRxHandler(RxHandler* handler);
  void ClearRxHandler() { rx_handler_ = nullptr; }
  RxHandler* rx_handler() const { return rx_handler_; }

  // Descriptors to watch while up; see NetContext::CollectPollFds.
  virtual std::vector<PollFd> poll_fds() const { return {}; }

 protected:
  // Impossible values in `init` are found at registration. The driver sets features, hardware
  // features and limits in its constructor.
  NetDevice(NetContext& context, Init init);

  // Driver operations, called by this class, the registry and tx_path only. is_up() is already true
  // in OnUp() and already false in OnDown().
  // Registration: before its adjustments of the feature words; after a later failure, OnUninit().
  virtual absl::Status OnInit() { return absl::OkStatus(); }
  virtual void OnUninit() {}
  virtual absl::Status OnUp() { return absl::OkStatus(); }
  virtual void OnDown() {}
  // May refuse a value that passed the general checks; mtu() and mac() still give the old one.
  virtual absl::Status OnSetMtu(uint32_t /*mtu*/) { return absl::OkStatus(); }
  virtual absl::Status OnSetMac(const MacAddress& /*mac*/) { return absl::OkStatus(); }
  // The receive filter (address lists, promiscuity, allmulti) changed while up, or the device came
  // up.
  virtual void OnRxModeChange() {}
  // is_promiscuous() or is_allmulti() changed, while up.
  virtual void OnRxFlagsChange(bool /*promiscuous_changed*/, bool /*allmulti_changed*/) {}
  // How many addresses of AddUnicast() the device receives without being promiscuous; with more in
  // the list it is, until they fit again.
  virtual size_t unicast_filter_slots() const { return 0; }
  // Frames of this VLAN id are wanted, or no more. Devices that claim kHwVlanCtagFilter or
  // kHwVlanStagFilter say so in filters_vlans() and have both.
  virtual bool filters_vlans() const { return false; }
  virtual absl::Status OnAddVlanId(uint16_t /*protocol*/, uint16_t /*vlan_id*/) {
    return absl::OkStatus();
  }
  virtual void OnRemoveVlanId(uint16_t /*protocol*/, uint16_t /*vlan_id*/) {}
  // The device left the registry (down, observers told) and will be destroyed after the batch.
  virtual void OnUnregister() {}
  // Drops what the device cannot do together or now. Must depend on nothing but the device's state,
  // and should remove a feature whose prerequisite is missing rather than add the prerequisite. The
  // general dependency rules are applied to the result.
  virtual FeatureSet FixFeatures(FeatureSet wanted) { return wanted; }
  // Makes the device do `features`. kHandled: the driver wrote the active set itself, by
  // set_features(). On failure the active set stays as the driver left it.
  enum class FeatureOutcome : uint8_t { kApply, kHandled };
  virtual absl::StatusOr<FeatureOutcome> SetFeatures(FeatureSet /*features*/) {
    return FeatureOutcome::kApply;
  }
  // Narrows the features that apply to one packet. The default is for hardware: a frame with two or
  // more VLAN tags is neither segmented nor checksummed by protocol. Devices without own limits
  // return `features`.
  virtual FeatureSet FeaturesCheck(const Packet& packet, FeatureSet features) const;
  // Sends one validated frame. `more`: another call follows at once (delay the doorbell), unless
  // the driver stops its queue in this call. With a result other than kSent and kQueued the driver
  // has counted the loss by DropTx() or FailTx(); sent frames are counted by the caller.
  virtual TxResult StartXmit(PacketPtr packet, bool more) = 0;
  // Devices without a queue of their own (veth, loopback, upper devices) are handed packets
  // directly. Asked once, at registration.
  virtual bool is_queueless() const { return false; }

  // For drivers that can take no more frames: nothing is given to StartXmit() until WakeTxQueue().
  // Frames wait in the queue meanwhile. Up() wakes it. No effect on queue-less devices.
  void StopTxQueue();
  void WakeTxQueue();
  bool tx_queue_stopped() const;

  // Tells the device's observers, then the registry's.
  void Notify(NetdevEvent event);
  void set_mac(const MacAddress& mac) { mac_ = mac; }  // before registration
  void set_features(FeatureSet f) { features_ = f; }
  void set_hw_features(FeatureSet f) { hw_features_ = f; }
  void set_vlan_features(FeatureSet f) { vlan_features_ = f; }
  void set_hw_enc_features(FeatureSet f) { hw_enc_features_ = f; }
  void set_gso_partial_features(FeatureSet f) { gso_partial_features_ = f; }
  // Largest super-packet, link header included, and most segments that the device cuts itself.
  // Lowers gso_max_* to them, never raises those.
  void set_tso_limits(uint32_t max_size, uint32_t max_segs);
  // Those of a lower device, with the size capped at 524,280 bytes.
  void InheritTsoLimits(const NetDevice& lower);
  // For upper devices that count rx_packets, rx_bytes and multicast where they take a frame: the
  // receive core leaves these alone.
  void set_counts_received(bool on) { counts_received_ = on; }

 private:
  friend class Registry;
  friend class TxPath;
  friend class RxPath;
  friend class TxQueue;
  friend class MacvlanPort;      // marks its lower device
  friend class FeatureCommands;  // of netdev/ethtool.cc

  enum class Registration : uint8_t { kNew, kRegistered, kLeft };

  // What every registered device must have, apart from a free name.
  absl::Status CheckRegistrable() const;
  absl::Status CheckVlanFilter() const;
  void PrepareForRegistration();
  void UnlinkAll();

  void SetLinkFlag(bool& flag, bool on);
  absl::Status AskObservers(NetdevEvent event);
  void UnregisterIfAsked();

  // Replaces the part `mask` of the wanted set.
  void Want(FeatureSet mask, FeatureSet values) {
    wanted_features_ = (wanted_features_ & ~mask) | (values & mask);
  }
  // One run of the update algorithm; whether observers must be told.
  bool RecomputeFeatures();
  FeatureSet ComputeFeatures();
  FeatureSet DropDisabledByUppers(FeatureSet candidate) const;
  void SyncLowers(FeatureSet candidate);
  void DisableOnLower(NetDevice& lower, FeatureSet disabled);
  bool ApplyFeatures(FeatureSet candidate);
  bool FiltersVlanIds(uint16_t protocol) const;
  absl::Status PushVlanIds(uint16_t protocol);
  void WithdrawVlanIds(uint16_t protocol);

  struct RxFlags {
    bool promiscuous, allmulti;
  };
  RxFlags rx_flags() const { return {is_promiscuous(), is_allmulti()}; }
  void RxModeChanged();
  void TellRxFlags(RxFlags before);
  void FollowUnicastList();

  // Devices on the longest way up or down, this one included.
  size_t HeightAbove() const;
  size_t HeightBelow() const;
  bool IsBelow(const NetDevice& other) const;

  NetContext& context_;
  std::string name_;
  MacAddress mac_;
  uint32_t mtu_;
  uint32_t min_mtu_;
  uint32_t max_mtu_;
  uint32_t ifindex_ = 0;
  Registration registration_ = Registration::kNew;
  bool up_ = false;
  bool in_transition_ = false;            // inside Up() or Down(): no nested ones
  bool unregister_after_change_ = false;  // asked for in the middle of one
  bool carrier_ = true;
  bool dormant_ = false;
  bool testing_ = false;
  bool unicast_promiscuous_ = false;  // one of promiscuity_ is for want of a unicast filter
  bool macvlan_port_ = false;
  bool counts_received_ = false;
  LinkType link_type_;
  uint32_t promiscuity_ = 0;
  uint32_t allmulti_ = 0;
  FeatureSet features_, hw_features_, wanted_features_, vlan_features_, hw_enc_features_;
  FeatureSet gso_partial_features_;
  uint32_t gso_max_size_ = kDefaultGsoMaxSize;
  uint32_t gso_max_segs_ = kDefaultGsoMaxSegs;
  uint32_t tso_max_size_ = kDefaultGsoMaxSize;
  uint32_t tso_max_segs_ = kDefaultGsoMaxSegs;
  uint32_t gro_max_size_ = kDefaultGsoMaxSize;
  GroMode gro_mode_{};  // kAuto
  bool forwarding_ = false;
  DeviceStats stats_;
  DropCounters drops_;
  std::vector<FilterAddress> unicast_, multicast_;
  std::vector<NetDevice*> uppers_, lowers_;
  struct VlanLink {
    uint16_t protocol, vlan_id;
    NetDevice* upper;
  };
  std::vector<VlanLink> vlan_uppers_;
  struct VlanId {
    uint16_t protocol, vlan_id;
    uint32_t references;
  };
  std::vector<VlanId> vlan_ids_;
  RxHandler* rx_handler_ = nullptr;
  IntrusiveList<PacketType, PacketType> packet_types_;
  IntrusiveList<PacketTap, PacketTap> taps_;
  IntrusiveList<NetdevObserver, NetdevObserver> observers_;
  std::unique_ptr<TxQueue> tx_queue_;
  bool queueless_ = false;  // is_queueless(), asked once
};

}  // namespace tapwire::netdev
