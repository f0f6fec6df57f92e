// SPDX-License-Identifier: Apache-2.0
// Stacked devices: who is above whom, and the VLAN devices above by tag.
//
// The links form a graph without loops: a device may have several lower ones (a bond) and several
// upper ones (macvlans). Its height is limited, so walks along the links may be recursive.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"
#include "netdev/device.h"

namespace tapwire::netdev {
namespace {

// Linux: devices on one way from the bottom to the top.
constexpr size_t kMaxStackedDevices = 8;

void Erase(std::vector<NetDevice*>& list, const NetDevice& device) {
  list.erase(std::remove(list.begin(), list.end(), &device), list.end());
}

}  // namespace

size_t NetDevice::HeightAbove() const {
  size_t height = 0;
  for (const NetDevice* upper : uppers_) height = std::max(height, upper->HeightAbove());
  return height + 1;
}

size_t NetDevice::HeightBelow() const {
  size_t height = 0;
  for (const NetDevice* lower : lowers_) height = std::max(height, lower->HeightBelow());
  return height + 1;
}

bool NetDevice::IsBelow(const NetDevice& other) const {
  return std::any_of(uppers_.begin(), uppers_.end(), [&](const NetDevice* upper) {
    return upper == &other || upper->IsBelow(other);
  });
}

absl::Status NetDevice::LinkUpper(NetDevice& upper) {
  if (registration_ != Registration::kRegistered ||
      upper.registration_ != Registration::kRegistered) {
    return absl::FailedPreconditionError(
        absl::StrCat(upper.name_, ": cannot be put on ", name_, ": register both devices first"));
  }
  if (&upper == this || upper.IsBelow(*this)) {
    return ErrnoStatus(EBUSY, absl::StrCat(upper.name_, ": cannot be put on ", name_,
                                           ", which is above it; that would be a loop"));
  }
  if (HeightBelow() + upper.HeightAbove() > kMaxStackedDevices) {
    return ErrnoStatus(EMLINK,
                       absl::StrCat(upper.name_, ": more than ", kMaxStackedDevices,
                                    " devices on each other; put it on a device below ", name_));
  }
  if (IsBelow(upper)) {
    return ErrnoStatus(EEXIST, absl::StrCat(upper.name_, ": is above ", name_, " already"));
  }
  uppers_.push_back(&upper);
  upper.lowers_.push_back(this);
  return absl::OkStatus();
}

void NetDevice::UnlinkUpper(NetDevice& upper) {
  RemoveVlanUpper(upper);
  Erase(uppers_, upper);
  Erase(upper.lowers_, *this);
}

void NetDevice::UnlinkAll() {
  while (!uppers_.empty()) UnlinkUpper(*uppers_.back());
  while (!lowers_.empty()) lowers_.back()->UnlinkUpper(*this);
}

void NetDevice::AddVlanUpper(uint16_t protocol, uint16_t vlan_id, NetDevice& upper) {
  vlan_uppers_.push_back({.protocol = protocol, .vlan_id = vlan_id, .upper = &upper});
}

void NetDevice::RemoveVlanUpper(const NetDevice& upper) {
  vlan_uppers_.erase(std::remove_if(vlan_uppers_.begin(), vlan_uppers_.end(),
                                    [&](const VlanLink& link) { return link.upper == &upper; }),
                     vlan_uppers_.end());
}

}  // namespace tapwire::netdev
