// SPDX-License-Identifier: Apache-2.0
#include "stack/path_mtu.h"

#include <algorithm>
#include <array>

#include "stack/stack.h"

namespace tapwire {
namespace {

// RFC 1191 §7.1, table 7-1: MTUs of links in use, which a router that does not say its own is
// likely to have.
constexpr std::array<uint32_t, 11> kPlateaus = {65535, 32000, 17914, 8166, 4352, 2002,
                                                1492,  1006,  508,   296,  68};

uint32_t NextPlateau(uint32_t current) {
  const auto* it =
      std::find_if(kPlateaus.begin(), kPlateaus.end(), [&](uint32_t p) { return p < current; });
  return it == kPlateaus.end() ? kPlateaus.back() : *it;
}

}  // namespace

PathMtuCache::PathMtuCache(Stack& stack) : stack_(stack) {}

uint32_t PathMtuCache::Get(const IpAddress& destination, uint32_t device_mtu) const {
  if (entries_.empty()) return device_mtu;
  const auto it = entries_.find(destination);
  if (it == entries_.end() || it->second.expires <= stack_.now()) return device_mtu;
  return std::min(device_mtu, it->second.mtu);
}

bool PathMtuCache::Report(const IpAddress& destination, uint32_t mtu, uint32_t current) {
  if (destination.is_v4()) {
    if (mtu == 0) mtu = NextPlateau(current);
    // RFC 1191 §3: never below 68. Linux: 552, since smaller reports are forged more often than
    // true.
    mtu = std::max(mtu, std::max(stack_.config().min_path_mtu_v4, 68u));
  } else if (mtu < kIpv6MinimumMtu) {
    return false;  // RFC 8201 §4: discard the report as a whole
  }
  const uint32_t effective = Get(destination, current);
  // RFC 8201 §4, RFC 1191 §6.3: a report must not raise the estimate, and an equal one keeps it
  // fresh.
  const bool lower = mtu < effective;
  if (!lower && !(mtu == effective && entries_.contains(destination))) return false;
  Remember(destination, mtu);
  if (!lower) return false;
  stack_.InvalidateRoutes();
  return true;
}

void PathMtuCache::Remember(const IpAddress& destination, uint32_t mtu) {
  const size_t limit = stack_.config().path_mtu_max_entries;
  auto it = entries_.find(destination);
  if (it == entries_.end()) {
    if (limit == 0) return;
    while (entries_.size() >= limit) ForgetOldest();
    by_age_.push_back(destination);
    it = entries_.emplace(destination, Entry{}).first;
    it->second.age = std::prev(by_age_.end());
  } else {
    by_age_.splice(by_age_.end(), by_age_, it->second.age);
  }
  it->second.mtu = mtu;
  it->second.expires = stack_.now() + stack_.config().path_mtu_timeout;
  if (!armed()) stack_.timers().Arm(*this, it->second.expires);
}

void PathMtuCache::ForgetOldest() {
  entries_.erase(by_age_.front());
  by_age_.pop_front();
}

// RFC 1191 §6.3, RFC 8201 §4: an increase is tried 10 minutes after the last report.
void PathMtuCache::OnExpired() {
  bool raised = false;
  while (!by_age_.empty() && entries_.find(by_age_.front())->second.expires <= stack_.now()) {
    ForgetOldest();
    raised = true;
  }
  if (raised) stack_.InvalidateRoutes();
  if (!by_age_.empty()) {
    stack_.timers().Arm(*this, entries_.find(by_age_.front())->second.expires);
  }
}

}  // namespace tapwire
