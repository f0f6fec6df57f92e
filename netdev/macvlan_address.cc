// SPDX-License-Identifier: Apache-2.0
// Opening and closing, addresses, address lists, promiscuity, MTU and link state: everything in
// which a macvlan asks something of its lower device, or follows it.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/macvlan.h"
#include "netdev/macvlan_port.h"

namespace tapwire::netdev {
namespace {

using AddressList = std::vector<NetDevice::FilterAddress>;

bool Lists(const AddressList& list, const MacAddress& address) {
  return std::any_of(list.begin(), list.end(), [&](const NetDevice::FilterAddress& entry) {
    return entry.address == address;
  });
}

// Brings what was synced into line with the list: remove(address) for what left it,
// add(address) -> bool for what is new.
template <typename Add, typename Remove>
void Sync(std::vector<MacAddress>& synced, const AddressList& list, Add&& add, Remove&& remove) {
  const auto gone = std::remove_if(synced.begin(), synced.end(), [&](const MacAddress& address) {
    if (Lists(list, address)) return false;
    remove(address);
    return true;
  });
  synced.erase(gone, synced.end());
  for (const NetDevice::FilterAddress& entry : list) {
    const bool known = std::find(synced.begin(), synced.end(), entry.address) != synced.end();
    if (!known && add(entry.address)) synced.push_back(entry.address);
  }
}

}  // namespace

// ---- Open and stop ----

absl::Status Macvlan::OnUp() {
  if (!port_->is_passthru()) {
    TW_RETURN_IF_ERROR(OpenFilters());
  } else if ((flags_ & kMacvlanNoPromisc) == 0) {
    TW_RETURN_IF_ERROR(lower_.ChangePromiscuity(1));
  }
  port_->EnterTable(*this, mac());
  return absl::OkStatus();
}

absl::Status Macvlan::OpenFilters() {
  TW_RETURN_IF_ERROR(CheckAddressFree(mac()));
  TW_RETURN_IF_ERROR(lower_.AddUnicast(mac()));
  absl::Status status;
  if (is_allmulti()) status = lower_.ChangeAllMulti(1);
  if (status.ok() && is_promiscuous()) {
    status = lower_.ChangePromiscuity(1);
    if (!status.ok() && is_allmulti()) lower_.ChangeAllMulti(-1).IgnoreError();
  }
  if (!status.ok()) lower_.RemoveUnicast(mac());
  return status;
}

void Macvlan::OnDown() {
  Sync(
      synced_unicast_, {}, [](const MacAddress&) { return false; },
      [&](const MacAddress& address) { lower_.RemoveUnicast(address); });
  Sync(
      synced_multicast_, {}, [](const MacAddress&) { return false; },
      [&](const MacAddress& group) { lower_.UnsyncMulticast(group); });
  if (!port_->is_passthru()) {
    CloseFilters();
  } else if ((flags_ & kMacvlanNoPromisc) == 0) {
    lower_.ChangePromiscuity(-1).IgnoreError();
  }
  port_->LeaveTable(*this);
}

void Macvlan::CloseFilters() {
  if (is_allmulti()) lower_.ChangeAllMulti(-1).IgnoreError();
  if (is_promiscuous()) lower_.ChangePromiscuity(-1).IgnoreError();
  lower_.RemoveUnicast(mac());
}

// ---- The address ----

absl::Status Macvlan::CheckAddressFree(const MacAddress& mac) const {
  if (!port_->IsAddressInUse(mac)) return absl::OkStatus();
  return ErrnoStatus(EADDRINUSE, absl::StrCat(name(), ": ", mac.ToString(), " is in use by ",
                                              mac == lower_.mac() ? "" : "a macvlan of ",
                                              lower_.name(), "; choose another address"));
}

absl::Status Macvlan::OnSetMac(const MacAddress& mac) {
  if (port_->is_passthru()) {
    if (mac != lower_.mac()) TW_RETURN_IF_ERROR(ChangeLowerAddress(mac));
  } else {
    TW_RETURN_IF_ERROR(CheckAddressFree(mac));
  }
  if (!in_table_) return absl::OkStatus();
  if (!port_->is_passthru()) {
    TW_RETURN_IF_ERROR(lower_.AddUnicast(mac));
    lower_.RemoveUnicast(table_mac_);
  }
  port_->LeaveTable(*this);
  port_->EnterTable(*this, mac);
  return absl::OkStatus();
}

absl::Status Macvlan::ChangeLowerAddress(const MacAddress& mac) {
  port_->set_address_changing(true);
  absl::Status status = lower_.SetMac(mac);
  port_->set_address_changing(false);
  return status;
}

// ---- Lists and flags ----

void Macvlan::OnRxModeChange() {
  ComputeFilter();
  SyncLists();
  port_->multicast().RecomputeFilters();
}

void Macvlan::ComputeFilter() {
  if (is_promiscuous() || is_allmulti()) {
    filter_.Fill();
    return;
  }
  filter_.Clear();
  filter_.Add(MacvlanFilter::IndexOf(MacAddress::kBroadcast(), filter_salt_));
  for (const FilterAddress& entry : multicast_list()) {
    filter_.Add(MacvlanFilter::IndexOf(entry.address, filter_salt_));
  }
}

void Macvlan::SyncLists() {
  Sync(
      synced_unicast_, unicast_list(),
      [&](const MacAddress& address) { return lower_.AddUnicast(address).ok(); },
      [&](const MacAddress& address) { lower_.RemoveUnicast(address); });
  Sync(
      synced_multicast_, multicast_list(),
      [&](const MacAddress& group) {
        lower_.SyncMulticast(group);
        return true;
      },
      [&](const MacAddress& group) { lower_.UnsyncMulticast(group); });
}

void Macvlan::OnRxFlagsChange(bool promiscuous_changed, bool allmulti_changed) {
  // Nobody is there to be told of a count that has reached its end.
  if (allmulti_changed) lower_.ChangeAllMulti(is_allmulti() ? 1 : -1).IgnoreError();
  if (promiscuous_changed && !port_->is_passthru()) {
    lower_.ChangePromiscuity(is_promiscuous() ? 1 : -1).IgnoreError();
  }
}

absl::Status Macvlan::AddFdb(const MacAddress& address) {
  if (address.IsZero()) {
    return ErrnoStatus(EINVAL, absl::StrCat(name(), ": a filter entry needs an address; give one"));
  }
  const bool listed = address.IsMulticast() ? HasMulticast(address) : HasUnicast(address);
  if (!address.IsMulticast() && !port_->is_passthru()) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat(name(),
                                                ": takes unicast filter entries in passthru "
                                                "mode only; use an address of its own"));
  }
  if (listed) {
    return ErrnoStatus(EEXIST,
                       absl::StrCat(name(), ": ", address.ToString(), " is in the filter already"));
  }
  if (!address.IsMulticast()) return AddUnicast(address);
  AddMulticast(address);
  return absl::OkStatus();
}

absl::Status Macvlan::DeleteFdb(const MacAddress& address) {
  if (!address.IsMulticast() && !port_->is_passthru()) {
    return ErrnoStatus(EOPNOTSUPP, absl::StrCat(name(),
                                                ": has unicast filter entries in passthru "
                                                "mode only"));
  }
  if (!(address.IsMulticast() ? HasMulticast(address) : HasUnicast(address))) {
    return ErrnoStatus(ENOENT, absl::StrCat(name(), ": ", address.ToString(),
                                            " is not in the filter; list its entries"));
  }
  if (address.IsMulticast()) {
    RemoveMulticast(address);
  } else {
    RemoveUnicast(address);
  }
  return absl::OkStatus();
}

absl::Status Macvlan::OnAddVlanId(uint16_t protocol, uint16_t vlan_id) {
  return lower_.AddVlanId(protocol, vlan_id);
}

void Macvlan::OnRemoveVlanId(uint16_t protocol, uint16_t vlan_id) {
  lower_.RemoveVlanId(protocol, vlan_id);
}

// ---- MTU and link ----

absl::Status Macvlan::OnSetMtu(uint32_t mtu) {
  if (mtu <= lower_.mtu()) return absl::OkStatus();
  return ErrnoStatus(EINVAL, absl::StrCat(name(), ": MTU ", mtu, " is above ", lower_.mtu(),
                                          ", that of ", lower_.name(), "; choose one up to it"));
}

void Macvlan::FollowMtu() {
  // Below what a macvlan may have, it keeps its own.
  if (mtu() > lower_.mtu()) SetMtu(lower_.mtu()).IgnoreError();
}

void Macvlan::FollowLinkState() {
  const OperState state = lower_.oper_state();
  SetDormant(state == OperState::kDormant);
  SetTesting(state == OperState::kTesting);
  SetCarrier(lower_.has_carrier());
}

}  // namespace tapwire::netdev
