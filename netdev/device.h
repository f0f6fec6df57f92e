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
  kNoBuffer,
  kNoRoute,
  kDeviceDown,
  kTooBig,
  kDropped
};
absl::string_view TxResultName(TxResult result);
inline bool TxOk(TxResult r) { return r == TxResult::kSent || r == TxResult::kQueued; }

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
};
absl::string_view NetdevEventName(NetdevEvent event);

// Told of events of the devices it watches (NetDevice::AddObserver or Registry::AddObserver; one of
// the two at a time). May add and remove observers, itself included, and change or unregister the
// device. A change made by an earlier observer may have overtaken the event: look at the device.
class NetdevObserver : public ListHook<NetdevObserver> {
 public:
  virtual ~NetdevObserver() = default;
  virtual void OnNetdevEvent(NetDevice& device, NetdevEvent event) = 0;
};

// A protocol's entry: gets every frame of one EtherType that a device passes up, with data() at the
// Ethernet header and meta l2_offset / ether_type set. kAllTypes gets what nobody else takes.
class PacketType : public ListHook<PacketType> {
 public:
  static constexpr uint16_t kAllTypes = 0;
  explicit PacketType(uint16_t ether_type) : ether_type_(ether_type) {}
  virtual ~PacketType() = default;
  uint16_t ether_type() const { return ether_type_; }
  virtual void Receive(PacketPtr packet, NetDevice& device) = 0;

 private:
  uint16_t ether_type_;
};

// First look at every frame of a device, before protocols: how upper devices take their frames.
enum class RxHandlerResult : uint8_t {
  kPass,      // go on as if there were no handler
  kConsumed,  // the handler took (or dropped and counted) the packet
  kAnother,   // meta.rx_device was changed: run the receive core again on that device
};
class RxHandler {
 public:
  virtual ~RxHandler() = default;
  // May take the packet (leaving it null) only when it returns kConsumed.
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
  };

  virtual ~NetDevice();
  NetDevice(const NetDevice&) = delete;
  NetDevice& operator=(const NetDevice&) = delete;

  NetContext& context() const { return context_; }
  const std::string& name() const { return name_; }
  uint32_t ifindex() const { return ifindex_; }  // 0 until registered, then unique in the context
  const MacAddress& mac() const { return mac_; }
  uint32_t mtu() const { return mtu_; }
  bool is_up() const { return up_; }
  bool has_carrier() const { return carrier_; }
  bool is_running() const { return up_ && carrier_; }
  virtual bool is_loopback() const { return false; }
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

  // Reference-counted receive filter, see Accepts(). Removing a group that was not added has no
  // effect.
  void AddMulticast(const MacAddress& group);
  void RemoveMulticast(const MacAddress& group);
  bool HasMulticast(const MacAddress& group) const;
  void SetPromiscuous(bool on);  // reference-counted
  bool is_promiscuous() const { return promiscuity_ > 0; }
  // Whether a frame to `destination` is for this device: mac(), broadcast, a group that was added,
  // or anything while promiscuous. The receive core does not filter; protocols ask.
  bool Accepts(const MacAddress& destination) const;

  // Feature words, named as in Linux: `features` is what is active, `hw_features` what users may
  // change, `wanted_features` what they asked for (a subset of it); the last two limit tagged and
  // tunnelled packets. What users may not change is carried from one active set to the next.
  FeatureSet features() const { return features_; }
  FeatureSet hw_features() const { return hw_features_; }
  FeatureSet wanted_features() const { return wanted_features_; }
  FeatureSet vlan_features() const { return vlan_features_; }
  FeatureSet hw_enc_features() const { return hw_enc_features_; }
  // A super-packet of this many bytes or more, link header included, or of more segments, is cut in
  // software.
  uint32_t gso_max_size() const { return gso_max_size_; }
  uint32_t gso_max_segs() const { return gso_max_segs_; }
  // Switches the features of `mask` as in `values`, as far as the device lets users change them,
  // and recomputes the active set. Returns the bits of `mask` that users cannot change. A request
  // that is granted by hw_features but not active yet (missing prerequisite) is remembered.
  FeatureSet RequestFeatures(FeatureSet mask, FeatureSet values);

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

  // Hooks; not owned. Objects unlink themselves on destruction. The first PacketType of an
  // EtherType gets its frames.
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

  // Descriptors to watch while up; see NetContext::CollectPollFds.
  virtual std::vector<PollFd> poll_fds() const { return {}; }

 protected:
  // Impossible values in `init` are found at registration. The driver sets features, hardware
  // features and limits in its constructor.
  NetDevice(NetContext& context, Init init);

  // Driver operations, called by this class, the registry and tx_path only. is_up() is already true
  // in OnUp() and already false in OnDown().
  virtual absl::Status OnUp() { return absl::OkStatus(); }
  virtual void OnDown() {}
  // May refuse a value that passed the general checks; mtu() and mac() still give the old one.
  virtual absl::Status OnSetMtu(uint32_t /*mtu*/) { return absl::OkStatus(); }
  virtual absl::Status OnSetMac(const MacAddress& /*mac*/) { return absl::OkStatus(); }
  // The receive filter changed while up, or the device came up.
  virtual void OnRxModeChange() {}
  // The device left the registry (down, observers told) and will be destroyed after the batch.
  virtual void OnUnregister() {}
  // Drops what the device cannot do together or now. Must depend on nothing but the device's state,
  // and should remove a feature whose prerequisite is missing rather than add the prerequisite. The
  // general dependency rules are applied to the result.
  virtual FeatureSet FixFeatures(FeatureSet wanted) { return wanted; }
  // Makes the device do `features`. On failure the active set stays as it was, unless the driver
  // corrected it by set_features().
  virtual absl::Status SetFeatures(FeatureSet /*features*/) { return absl::OkStatus(); }
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
  // Largest super-packet, link header included, and most segments that the device cuts itself.
  void set_gso_limits(uint32_t max_size, uint32_t max_segs) {
    gso_max_size_ = max_size;
    gso_max_segs_ = max_segs;
  }
  // Recomputes the active set from hw/wanted and FixFeatures, calls SetFeatures on a change and
  // sends kFeatChange.
  void UpdateFeatures();

 private:
  friend class Registry;
  friend class TxPath;
  friend class RxPath;
  friend class TxQueue;

  enum class Registration : uint8_t { kNew, kRegistered, kLeft };

  // What every registered device must have, apart from a free name.
  absl::Status CheckRegistrable() const;
  void PrepareForRegistration();
  // One run of the update algorithm; whether observers must be told.
  bool RecomputeFeatures();
  void RxModeChanged();
  void UnregisterIfAsked();

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
  int promiscuity_ = 0;
  FeatureSet features_, hw_features_, wanted_features_, vlan_features_, hw_enc_features_;
  uint32_t gso_max_size_ = kDefaultGsoMaxSize;
  uint32_t gso_max_segs_ = kDefaultGsoMaxSegs;
  DeviceStats stats_;
  DropCounters drops_;
  struct Multicast {
    MacAddress group;
    int references;
  };
  std::vector<Multicast> multicast_;
  RxHandler* rx_handler_ = nullptr;
  IntrusiveList<PacketType, PacketType> packet_types_;
  IntrusiveList<PacketTap, PacketTap> taps_;
  IntrusiveList<NetdevObserver, NetdevObserver> observers_;
  std::unique_ptr<TxQueue> tx_queue_;
  bool queueless_ = false;  // is_queueless(), asked once
};

}  // namespace tapwire::netdev
