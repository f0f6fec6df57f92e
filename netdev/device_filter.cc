// SPDX-License-Identifier: Apache-2.0
// The receive filter of a device: address lists, promiscuity, allmulti, VLAN ids. All of it is
// counted, since several upper devices and protocols ask for the same independently.
//
// A device that cannot filter as many unicast addresses as are wanted takes one promiscuity for
// itself, and gives it back when they fit. No address of the list is lost meanwhile.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/device.h"
#include "netdev/wire/ethernet.h"

namespace tapwire::netdev {
namespace {

using FilterAddress = NetDevice::FilterAddress;

template <typename List>
auto FindAddress(List& list, const MacAddress& address) {
  return std::find_if(list.begin(), list.end(),
                      [&](const FilterAddress& entry) { return entry.address == address; });
}

// Whether the address is new.
bool AddReference(std::vector<FilterAddress>& list, const MacAddress& address, bool synced) {
  auto entry = FindAddress(list, address);
  const bool is_new = entry == list.end();
  if (is_new) entry = list.insert(list.end(), {.address = address});
  ++entry->references;
  if (synced) ++entry->synced;
  return is_new;
}

// Whether the address left the list. Only references of the same kind are taken back.
bool RemoveReference(std::vector<FilterAddress>& list, const MacAddress& address, bool synced) {
  const auto entry = FindAddress(list, address);
  if (entry == list.end()) return false;
  if ((synced ? entry->synced : entry->references - entry->synced) == 0) return false;
  if (synced) --entry->synced;
  if (--entry->references > 0) return false;
  list.erase(entry);
  return true;
}

// Linux: the counters wrap below zero, and refuse to pass their maximum.
absl::Status ChangeCount(uint32_t& count, int by, const std::string& what) {
  if (by > 0 && count == std::numeric_limits<uint32_t>::max()) {
    return ErrnoStatus(
        EOVERFLOW, absl::StrCat(what, " was asked for too often; give it back elsewhere first"));
  }
  count = by > 0 ? count + 1 : count - 1;
  return absl::OkStatus();
}

}  // namespace

void NetDevice::AddMulticast(const MacAddress& group) {
  if (AddReference(multicast_, group, /*synced=*/false)) RxModeChanged();
}

void NetDevice::RemoveMulticast(const MacAddress& group) {
  if (RemoveReference(multicast_, group, /*synced=*/false)) RxModeChanged();
}

// How many upper devices want a group decides where a macvlan port copies its frames, so every
// change of the count is told.
void NetDevice::SyncMulticast(const MacAddress& group) {
  AddReference(multicast_, group, /*synced=*/true);
  RxModeChanged();
}

void NetDevice::UnsyncMulticast(const MacAddress& group) {
  RemoveReference(multicast_, group, /*synced=*/true);
  RxModeChanged();
}

bool NetDevice::HasMulticast(const MacAddress& group) const {
  return FindAddress(multicast_, group) != multicast_.end();
}

absl::Status NetDevice::AddUnicast(const MacAddress& address) {
  if (!address.IsUnicast()) {
    return ErrnoStatus(EINVAL, absl::StrCat(name_, ": ", address.ToString(),
                                            " is no unicast address; give one to filter by"));
  }
  if (AddReference(unicast_, address, /*synced=*/false)) RxModeChanged();
  return absl::OkStatus();
}

void NetDevice::RemoveUnicast(const MacAddress& address) {
  if (RemoveReference(unicast_, address, /*synced=*/false)) RxModeChanged();
}

bool NetDevice::HasUnicast(const MacAddress& address) const {
  return FindAddress(unicast_, address) != unicast_.end();
}

absl::Status NetDevice::ChangePromiscuity(int by) {
  const RxFlags before = rx_flags();
  TW_RETURN_IF_ERROR(ChangeCount(promiscuity_, by, absl::StrCat(name_, ": promiscuous mode")));
  TellRxFlags(before);
  return absl::OkStatus();
}

absl::Status NetDevice::ChangeAllMulti(int by) {
  const RxFlags before = rx_flags();
  TW_RETURN_IF_ERROR(ChangeCount(allmulti_, by, absl::StrCat(name_, ": reception of all groups")));
  TellRxFlags(before);
  return absl::OkStatus();
}

void NetDevice::TellRxFlags(RxFlags before) {
  const bool promiscuous_changed = before.promiscuous != is_promiscuous();
  const bool allmulti_changed = before.allmulti != is_allmulti();
  if (!promiscuous_changed && !allmulti_changed) return;
  if (up_) OnRxFlagsChange(promiscuous_changed, allmulti_changed);
  RxModeChanged();
}

void NetDevice::FollowUnicastList() {
  const bool too_many = unicast_.size() > unicast_filter_slots();
  if (too_many == unicast_promiscuous_) return;
  const RxFlags before = rx_flags();
  if (!ChangeCount(promiscuity_, too_many ? 1 : -1, name_).ok()) return;  // promiscuous anyway
  unicast_promiscuous_ = too_many;
  if (up_ && before.promiscuous != is_promiscuous()) OnRxFlagsChange(true, false);
}

void NetDevice::RxModeChanged() {
  FollowUnicastList();
  if (up_) OnRxModeChange();
}

bool NetDevice::Accepts(const MacAddress& destination) const {
  if (destination == mac_ || is_promiscuous()) return true;
  if (!destination.IsMulticast()) return HasUnicast(destination);
  return destination.IsBroadcast() || is_allmulti() || HasMulticast(destination);
}

bool NetDevice::FiltersVlanIds(uint16_t protocol) const {
  return features_.Has(protocol == wire::EtherType::kQinQ ? Feature::kHwVlanStagFilter
                                                          : Feature::kHwVlanCtagFilter);
}

absl::Status NetDevice::AddVlanId(uint16_t protocol, uint16_t vlan_id) {
  for (VlanId& entry : vlan_ids_) {
    if (entry.protocol == protocol && entry.vlan_id == vlan_id) {
      ++entry.references;
      return absl::OkStatus();
    }
  }
  if (FiltersVlanIds(protocol)) TW_RETURN_IF_ERROR(OnAddVlanId(protocol, vlan_id));
  vlan_ids_.push_back({.protocol = protocol, .vlan_id = vlan_id, .references = 1});
  return absl::OkStatus();
}

void NetDevice::RemoveVlanId(uint16_t protocol, uint16_t vlan_id) {
  const auto entry = std::find_if(vlan_ids_.begin(), vlan_ids_.end(), [&](const VlanId& candidate) {
    return candidate.protocol == protocol && candidate.vlan_id == vlan_id;
  });
  if (entry == vlan_ids_.end() || --entry->references > 0) return;
  vlan_ids_.erase(entry);
  if (FiltersVlanIds(protocol)) OnRemoveVlanId(protocol, vlan_id);
}

// All of them or, after an error, none.
absl::Status NetDevice::PushVlanIds(uint16_t protocol) {
  for (size_t i = 0; i < vlan_ids_.size(); ++i) {
    if (vlan_ids_[i].protocol != protocol) continue;
    absl::Status status = OnAddVlanId(protocol, vlan_ids_[i].vlan_id);
    if (status.ok()) continue;
    while (i-- > 0) {
      if (vlan_ids_[i].protocol == protocol) OnRemoveVlanId(protocol, vlan_ids_[i].vlan_id);
    }
    return status;
  }
  return absl::OkStatus();
}

void NetDevice::WithdrawVlanIds(uint16_t protocol) {
  for (const VlanId& entry : vlan_ids_) {
    if (entry.protocol == protocol) OnRemoveVlanId(protocol, entry.vlan_id);
  }
}

}  // namespace tapwire::netdev
