// SPDX-License-Identifier: Apache-2.0
// The macvlan upper device: further Ethernet devices, each with an address of its own, on one lower
// device. Modes, flags, source lists, features and counters are those of Linux's macvlan.
//
// Frames between a macvlan and the lower device's own stack are never exchanged locally, in any
// mode: both reach each other only through a switch outside that reflects frames, or not at all.
//
// Features: scatter-gather, generic checksumming and all software segmentation are always on,
// whatever the lower device lacks: a packet is cut and summed once, when the lower device sends it,
// and never when it goes to another macvlan in bridge mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "netdev/device.h"
#include "netdev/macvlan_filter.h"
#include "netdev/registry.h"

namespace tapwire::netdev {

class MacvlanPort;

// Values as in Linux's interface: bits, so that a delivery can name several modes.
enum class MacvlanMode : uint32_t {
  kPrivate = 1,   // no traffic with other macvlans, not even reflected broadcasts
  kVepa = 2,      // traffic with other macvlans through a reflecting switch outside
  kBridge = 4,    // direct traffic with other macvlans in bridge mode
  kPassthru = 8,  // the only macvlan takes the lower device over
  kSource = 16,   // receives frames by their source address
};
absl::string_view MacvlanModeName(MacvlanMode mode);  // "private", "vepa", …
std::optional<MacvlanMode> MacvlanModeByName(absl::string_view name);

inline constexpr uint16_t kMacvlanNoPromisc = 1;  // passthru: leave the lower's promiscuity alone
inline constexpr uint16_t kMacvlanNoDst = 2;      // source mode: matching frames go nowhere else

// How received unicast frames reach the macvlan.
enum class MacvlanRx : uint8_t {
  kReinject,  // the receive core runs again on the macvlan, in the same call
  kQueue,     // through the backlog, as before Linux 3.18: for experiments
};

// A change of a source-mode macvlan's list of addresses.
struct MacvlanSourceChange {
  enum class Command : uint8_t { kAdd = 0, kDel = 1, kFlush = 2, kSet = 3 };
  Command command = Command::kFlush;
  std::optional<MacAddress> address = {};  // kAdd, kDel; also taken by kSet
  std::vector<MacAddress> list = {};       // kSet
};

// Values are checked by CreateMacvlan() and Macvlan::Change(), so that a tool can pass on what it
// was given.
struct MacvlanOptions {
  std::string name = {};  // empty: the first free of macvlan0, macvlan1, …
  uint32_t mode = static_cast<uint32_t>(MacvlanMode::kVepa);
  uint16_t flags = 0;                  // kMacvlanNoPromisc, kMacvlanNoDst
  std::optional<MacAddress> mac = {};  // unset: random, locally administered
  std::optional<uint32_t> mtu = {};    // bytes; unset: the lower's
  std::optional<MacvlanSourceChange> source = {};
  uint32_t broadcast_queue_packets = 1000;       // wish; the port uses the largest of its macvlans'
  std::optional<int32_t> broadcast_cutoff = {};  // of the port: more subscribers than this go
                                                 // through the worker; negative: none do. Default 1
  // Experiments only: false copies the lower's features and adds none, as before Linux 3.14.
  bool always_on = true;
  MacvlanRx rx = MacvlanRx::kReinject;
};

struct MacvlanChange {
  std::optional<uint32_t> mode = {};
  std::optional<uint16_t> flags = {};
  std::optional<uint32_t> broadcast_queue_packets = {};
  std::optional<int32_t> broadcast_cutoff = {};
  std::optional<MacvlanSourceChange> source = {};
};

class Macvlan final : public NetDevice {
 public:
  ~Macvlan() override;

  absl::string_view kind() const override { return "macvlan"; }
  uint32_t parent_ifindex() const override;
  NetDevice& lower() const { return lower_; }

  MacvlanMode mode() const { return mode_; }
  uint16_t flags() const { return flags_; }
  bool always_on() const { return always_on_; }
  MacvlanRx rx() const { return rx_; }
  std::vector<MacAddress> sources() const;  // in the order they were added
  uint32_t broadcast_queue_packets() const { return broadcast_queue_packets_; }
  uint32_t used_broadcast_queue_packets() const;  // of the port
  int32_t broadcast_cutoff() const;               // of the port

  // Changes what is set, in Linux's order. Errors (EINVAL): to or from passthru, a source change
  // in another mode, unknown mode or flag. What was done before an error stays done.
  absl::Status Change(const MacvlanChange& change);

  // Which of the inherited features the user of this device accepts; all of them by default.
  // kLro alone makes a difference. Recomputes the features.
  void SetUserFeatures(FeatureSet accepted);

  // Static filter entries, as `bridge fdb add … dev`: unicast in passthru mode only (EOPNOTSUPP),
  // multicast always.
  absl::Status AddFdb(const MacAddress& address);
  absl::Status DeleteFdb(const MacAddress& address);

 protected:
  absl::Status OnInit() override;
  void OnUninit() override;
  absl::Status OnUp() override;
  void OnDown() override;
  void OnUnregister() override;
  absl::Status OnSetMtu(uint32_t mtu) override;
  absl::Status OnSetMac(const MacAddress& mac) override;
  void OnRxModeChange() override;
  void OnRxFlagsChange(bool promiscuous_changed, bool allmulti_changed) override;
  size_t unicast_filter_slots() const override { return SIZE_MAX; }
  bool filters_vlans() const override { return true; }
  absl::Status OnAddVlanId(uint16_t protocol, uint16_t vlan_id) override;
  void OnRemoveVlanId(uint16_t protocol, uint16_t vlan_id) override;
  FeatureSet FixFeatures(FeatureSet wanted) override;
  FeatureSet FeaturesCheck(const Packet& /*packet*/, FeatureSet features) const override {
    return features;
  }
  TxResult StartXmit(PacketPtr packet, bool more) override;
  bool is_queueless() const override { return true; }

 private:
  friend class MacvlanMulticast;
  friend class MacvlanPort;
  friend absl::StatusOr<Macvlan*> CreateMacvlan(NetContext& context, uint32_t lower_ifindex,
                                                MacvlanOptions options);
  Macvlan(Init init, const MacvlanOptions& options, std::shared_ptr<MacvlanPort> port);

  // The life on the lower device: from OnInit() to whichever end comes first.
  void LeaveLower();
  absl::Status ChangeFlags(uint16_t flags);
  absl::Status ChangeSources(const MacvlanSourceChange& change);
  void AddSource(const MacAddress& address);
  void RemoveSource(const MacAddress& address);
  void FlushSources();

  absl::Status OpenFilters();
  void CloseFilters();
  absl::Status CheckAddressFree(const MacAddress& mac) const;
  absl::Status ChangeLowerAddress(const MacAddress& mac);
  void ComputeFilter();
  void SyncLists();

  void InitFeatures();

  // What the lower device's events mean here.
  void FollowLinkState();
  void FollowFeatures();
  void FollowMtu();

  // Reception, called by the port. Of a copy that could not be delivered the caller knows nothing.
  RxHandlerResult ReceiveUnicast(PacketPtr& packet);
  void ReceiveReflection(PacketPtr packet);
  void ReceiveSourceCopy(const Packet& frame);
  bool WantsGroup(const MacAddress& group) const {
    return in_table_ && filter_.Has(MacvlanFilter::IndexOf(group, filter_salt_));
  }
  void ReceiveGroupCopy(const Packet& frame);
  void ReceiveLocalGroupCopy(const Packet& frame);
  bool Enqueue(PacketPtr packet, LinkTarget target);
  void CountReceived(bool delivered, size_t bytes, bool group);
  PacketPtr Copy(const Packet& frame);

  NetDevice& lower_;
  std::shared_ptr<MacvlanPort> port_;  // shared by the macvlans of one lower device
  bool joined_ = false;                // one of the port's macvlans
  MacvlanMode mode_;
  uint16_t flags_ = 0;
  bool always_on_;
  MacvlanRx rx_;
  uint32_t broadcast_queue_packets_;
  FeatureSet user_features_;
  std::vector<MacAddress> sources_;

  // The place in the port's table of addresses, which the port keeps.
  bool in_table_ = false;
  MacAddress table_mac_;
  Macvlan* table_next_ = nullptr;

  MacvlanFilter filter_;
  uint32_t filter_salt_;
  // What the lower device's lists hold on behalf of this device's.
  std::vector<MacAddress> synced_unicast_, synced_multicast_;
};

// Makes a macvlan on the device with that index (a macvlan there stands for its own lower device)
// and registers it; it stays down. The registry owns it; it is unregistered with its lower device,
// or by Registry::Unregister(). Errors carry the errno of Linux: EINVAL, ENODEV, EBUSY,
// EADDRNOTAVAIL, EEXIST, EMLINK; nothing is left behind.
absl::StatusOr<Macvlan*> CreateMacvlan(NetContext& context, uint32_t lower_ifindex,
                                       MacvlanOptions options);

}  // namespace tapwire::netdev
