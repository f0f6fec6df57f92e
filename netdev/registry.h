// SPDX-License-Identifier: Apache-2.0
// Registry: the devices of one NetContext by name and ifindex. Owns them.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "netdev/device.h"

namespace tapwire::netdev {

class Registry {
 public:
  explicit Registry(NetContext& context);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Takes ownership, gives the device its ifindex, adjusts its feature words and tells observers.
  // Fails with kAlreadyExists for a name in use, kInvalidArgument for a bad one (1–15 bytes, no
  // '/', ':' or white space, as Linux), an MTU outside the device's range or a group MAC; then the
  // device is destroyed.
  template <typename Device>
  absl::StatusOr<Device*> Register(std::unique_ptr<Device> device) {
    Device* raw = device.get();
    absl::Status status = Add(std::move(device));
    if (!status.ok()) return status;
    return raw;
  }
  // Takes the device down, removes it from the tables, tells observers (kUnregister), and destroys
  // it at the end of the batch. In the middle of a state change of the device: after it. No effect
  // on a device that is leaving already.
  void Unregister(NetDevice& device);

  NetDevice* Find(absl::string_view name) const;
  // O(1); nullptr for an index that is gone.
  NetDevice* Find(uint32_t ifindex) const {
    return ifindex < by_index_.size() ? by_index_[ifindex].get() : nullptr;
  }
  // In order of ifindex.
  std::vector<NetDevice*> devices() const;
  // A free name: "veth0", "veth1", … for prefix "veth".
  std::string FreeName(absl::string_view prefix) const;
  // Told of events of every device, after the device's own observers.
  void AddObserver(NetdevObserver& observer) { observers_.PushBack(observer); }

 private:
  friend class NetContext;
  friend class NetDevice;
  absl::Status Add(std::unique_ptr<NetDevice> device);
  bool has_unregistered() const { return !unregistered_.empty(); }
  void DestroyUnregistered();
  // The end of the context: newest first, then destroys them.
  void UnregisterAll();

  NetContext& context_;
  // An index is never given out twice: frames on their way name their device by it.
  std::vector<std::unique_ptr<NetDevice>> by_index_;  // [0] stays empty
  std::vector<std::unique_ptr<NetDevice>> unregistered_;
  IntrusiveList<NetdevObserver, NetdevObserver> observers_;
};

}  // namespace tapwire::netdev
