// SPDX-License-Identifier: Apache-2.0
// What the macvlans of one lower device share: the receive handler that finds the macvlan of a
// frame, the tables it looks in, and the watch over the lower device.
//
// Made with the first macvlan. It leaves the lower device with the last one; the object itself
// lives as long as a macvlan that has not been destroyed yet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netdev/device.h"
#include "netdev/macvlan_multicast.h"
#include "netdev/macvlan_source.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::netdev {

class Macvlan;

class MacvlanPort final : public std::enable_shared_from_this<MacvlanPort>,
                          public RxHandler,
                          private NetdevObserver {
 public:
  // The port of `lower`; a new one if it has none, which leaves again when the last reference goes
  // without a macvlan having joined. EINVAL: not Ethernet; EBUSY: somebody else has its receive
  // handler.
  static absl::StatusOr<std::shared_ptr<MacvlanPort>> Of(NetDevice& lower);
  ~MacvlanPort() override;

  NetDevice& lower() { return lower_; }
  // All of them, up or down, in the order of their creation.
  const std::vector<Macvlan*>& macvlans() const { return macvlans_; }
  void Join(Macvlan& macvlan);
  void Leave(Macvlan& macvlan);

  // One macvlan has the device to itself. The device's address is remembered, and given back when
  // the port leaves.
  bool is_passthru() const { return passthru_; }
  void BecomePassthru();
  // While the macvlan itself changes the address of the lower device.
  void set_address_changing(bool on) { address_changing_ = on; }

  // The macvlan that is up with this address; null if there is none.
  Macvlan* Find(const MacAddress& address) const;
  // Whether the lower device or a macvlan that is up has it.
  bool IsAddressInUse(const MacAddress& address) const;
  void EnterTable(Macvlan& macvlan, const MacAddress& address);
  void LeaveTable(Macvlan& macvlan);

  MacvlanSources& sources() { return sources_; }
  MacvlanMulticast& multicast() { return multicast_; }
  const MacvlanMulticast& multicast() const { return multicast_; }
  // After a macvlan changed its wish.
  void RecomputeQueueLimit();

  RxHandlerResult HandleFrame(PacketPtr& packet, NetDevice& device) override;

 private:
  explicit MacvlanPort(NetDevice& lower) : lower_(lower), multicast_(*this) {}

  absl::Status Open();
  void Close();

  RxHandlerResult HandleUnicast(PacketPtr& packet, const wire::EthernetHeader& ethernet);
  RxHandlerResult HandleGroup(PacketPtr& packet, const wire::EthernetHeader& ethernet);
  bool DeliverBySource(const Packet& packet, const MacAddress& source) const;

  void OnNetdevEvent(NetDevice& device, NetdevEvent event) override;
  absl::Status MayChange(NetDevice& device, NetdevEvent event) override;
  absl::Status FollowLowerAddress();
  template <typename Fn>
  void ForEachMacvlan(Fn&& fn);

  NetDevice& lower_;
  bool open_ = false;
  bool passthru_ = false;
  bool address_changing_ = false;
  MacAddress saved_mac_;
  std::vector<Macvlan*> macvlans_;
  std::array<Macvlan*, kMacvlanTableBuckets> table_{};  // chains of those that are up
  MacvlanSources sources_;
  MacvlanMulticast multicast_;
};

}  // namespace tapwire::netdev
