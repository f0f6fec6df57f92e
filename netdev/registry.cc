// SPDX-License-Identifier: Apache-2.0
// Registration and removal of devices. Removal has two steps: the device leaves the tables and goes
// down at once, and is destroyed at the end of the batch, since its own code may be on the call
// stack.
#include "netdev/registry.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "netdev/base/status_util.h"

namespace tapwire::netdev {
namespace {

constexpr size_t kMaxNameLength = 15;  // Linux: IFNAMSIZ with its terminator

// Linux: names that would not survive as a path component or a word of a command
// line are refused.
bool IsValidName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength) return false;
  if (name == "." || name == "..") return false;
  for (const char c : name) {
    if (c == '/' || c == ':' || c == '\0' || absl::ascii_isspace(static_cast<unsigned char>(c))) {
      return false;
    }
  }
  return true;
}

}  // namespace

Registry::Registry(NetContext& context) : context_(context) {
  by_index_.emplace_back();  // ifindex 0 names no device
}

Registry::~Registry() = default;

void Registry::UnregisterAll() {
  for (size_t i = by_index_.size(); i-- > 1;) {
    if (by_index_[i] != nullptr) Unregister(*by_index_[i]);
  }
  DestroyUnregistered();
}

absl::Status Registry::Add(std::unique_ptr<NetDevice> device) {
  if (device == nullptr) {
    return absl::InvalidArgumentError("no device to register");
  }
  const std::string& name = device->name();
  if (!IsValidName(name)) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' cannot name a device: use 1 to ",
                                                   kMaxNameLength,
                                                   " bytes without '/', ':' and white space"));
  }
  if (Find(name) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("a device named '", name, "' exists already; choose another name"));
  }
  TW_RETURN_IF_ERROR(device->CheckRegistrable());

  TW_RETURN_IF_ERROR(device->OnInit());
  if (absl::Status status = device->CheckVlanFilter(); !status.ok()) {
    device->OnUninit();
    return status;
  }
  NetDevice& added = *device;
  added.PrepareForRegistration();
  added.ifindex_ = static_cast<uint32_t>(by_index_.size());
  by_index_.push_back(std::move(device));
  added.registration_ = NetDevice::Registration::kRegistered;
  // Nobody can have seen other features yet, so there is no event for them.
  added.RecomputeFeatures();
  added.Notify(NetdevEvent::kRegister);
  return absl::OkStatus();
}

void Registry::Unregister(NetDevice& device) {
  if (device.registration_ != NetDevice::Registration::kRegistered) return;
  if (device.in_transition_) {
    device.unregister_after_change_ = true;
    return;
  }
  device.Down();
  // An observer of that may have unregistered it.
  if (device.registration_ != NetDevice::Registration::kRegistered) return;
  device.registration_ = NetDevice::Registration::kLeft;
  unregistered_.push_back(std::move(by_index_[device.ifindex_]));
  device.Notify(NetdevEvent::kUnregister);
  device.OnUnregister();
  device.UnlinkAll();
}

void Registry::DestroyUnregistered() {
  // Destructors may unregister further devices (an upper one its lower one).
  while (!unregistered_.empty()) {
    std::vector<std::unique_ptr<NetDevice>> going = std::move(unregistered_);
    unregistered_.clear();
    going.clear();
  }
}

NetDevice* Registry::Find(absl::string_view name) const {
  for (const std::unique_ptr<NetDevice>& device : by_index_) {
    if (device != nullptr && device->name() == name) return device.get();
  }
  return nullptr;
}

std::vector<NetDevice*> Registry::devices() const {
  std::vector<NetDevice*> list;
  for (const std::unique_ptr<NetDevice>& device : by_index_) {
    if (device != nullptr) list.push_back(device.get());
  }
  return list;
}

std::string Registry::FreeName(absl::string_view prefix) const {
  for (uint32_t i = 0;; ++i) {
    std::string name = absl::StrCat(prefix, i);
    if (Find(name) == nullptr) return name;
  }
}

}  // namespace tapwire::netdev
