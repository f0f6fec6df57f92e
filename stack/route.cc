// SPDX-License-Identifier: Apache-2.0
#include "stack/route.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "stack/interface.h"

namespace tapwire {
namespace {

std::string Describe(const RouteEntry& entry) {
  std::string text = absl::StrCat("route ", entry.prefix.ToString());
  if (entry.gateway) absl::StrAppend(&text, " via ", entry.gateway->ToString());
  if (entry.interface != nullptr) {
    absl::StrAppend(&text, " dev ", entry.interface->device().name());
  }
  return text;
}

bool SameRoute(const RouteEntry& a, const RouteEntry& b) {
  return a.prefix == b.prefix && a.gateway == b.gateway && a.interface == b.interface &&
         a.metric == b.metric;
}

// The order of the table, age aside.
bool Before(const RouteEntry& a, const RouteEntry& b) {
  if (a.prefix.length != b.prefix.length) return a.prefix.length > b.prefix.length;
  return a.metric < b.metric;
}

RouteEntry Normalized(RouteEntry entry) {
  entry.prefix.address = entry.prefix.Network();
  return entry;
}

absl::Status Check(const RouteEntry& entry) {
  const IpAddress& network = entry.prefix.address;
  if (entry.interface == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(entry), ": name an interface"));
  }
  if (entry.prefix.length < 0 || entry.prefix.length > (network.is_v4() ? 32 : 128)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Describe(entry), ": the prefix length must be 0 to ", network.is_v4() ? 32 : 128));
  }
  if (!entry.gateway) return absl::OkStatus();
  if (entry.gateway->family() != network.family()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(entry), ": the gateway must be an ",
                                                   network.is_v4() ? "IPv4" : "IPv6",
                                                   " address, as the prefix is"));
  }
  if (entry.gateway->IsUnspecified() || entry.gateway->IsMulticast() ||
      entry.gateway->IsLimitedBroadcast() || entry.gateway->IsLoopback()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(entry), ": the gateway must be the address of one host"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RouteTable::Add(const RouteEntry& entry) {
  if (absl::Status status = Check(entry); !status.ok()) return status;
  const RouteEntry added = Normalized(entry);
  for (const RouteEntry& e : entries_) {
    if (SameRoute(e, added)) {
      return absl::AlreadyExistsError(absl::StrCat(Describe(added), ": exists already"));
    }
  }
  entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), added, Before), added);
  Touch();
  return absl::OkStatus();
}

absl::Status RouteTable::Remove(const RouteEntry& entry) {
  const RouteEntry wanted = Normalized(entry);
  auto it = std::find_if(entries_.begin(), entries_.end(),
                         [&](const RouteEntry& e) { return SameRoute(e, wanted); });
  if (it == entries_.end()) {
    return absl::NotFoundError(absl::StrCat(Describe(wanted), ": no such route"));
  }
  entries_.erase(it);
  Touch();
  return absl::OkStatus();
}

void RouteTable::RemoveInterface(const Interface& interface) {
  std::erase_if(entries_, [&](const RouteEntry& e) { return e.interface == &interface; });
  Touch();
}

const RouteEntry* RouteTable::Lookup(const IpAddress& destination,
                                     const Interface* interface) const {
  for (const RouteEntry& e : entries_) {
    if (interface != nullptr && e.interface != interface) continue;
    if (e.prefix.Contains(destination) && e.interface->device().is_running()) {
      return &e;
    }
  }
  return nullptr;
}

}  // namespace tapwire
