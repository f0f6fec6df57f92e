// SPDX-License-Identifier: Apache-2.0
#include "apps/capture/ipv4_id_tracker.h"

namespace tapwire::capture {

Ipv4IdTracker::Verdict Ipv4IdTracker::Add(const Key& key, uint64_t digest, int64_t now_ns,
                                          int64_t window_ns) {
  while (!by_age_.empty() &&
         (now_ns - by_age_.front().first > window_ns || by_age_.size() > kMaxEntries)) {
    const auto& [time_ns, old_key] = by_age_.front();
    const auto entry = uses_.find(old_key);
    if (entry != uses_.end() && entry->second.time_ns == time_ns) uses_.erase(entry);
    by_age_.pop_front();
  }
  by_age_.emplace_back(now_ns, key);
  const auto [entry, is_new] = uses_.try_emplace(key, Use{now_ns, digest});
  if (is_new) return Verdict::kNew;
  const bool copy = entry->second.digest == digest;
  entry->second = Use{now_ns, digest};
  return copy ? Verdict::kCopy : Verdict::kReused;
}

}  // namespace tapwire::capture
