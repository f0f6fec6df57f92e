// SPDX-License-Identifier: Apache-2.0
#include "apps/capture/fragment_tracker.h"

#include <algorithm>

namespace tapwire::capture {

FragmentTracker::Verdict FragmentTracker::Add(const FragmentKey& key, const FragmentPiece& piece,
                                              int64_t now_ns) {
  Expire(now_ns);
  auto [entry, is_new] = datagrams_.try_emplace(key);
  Datagram& datagram = entry->second;
  if (is_new) {
    datagram.first_seen_ns = now_ns;
    datagram.age = by_age_.insert(by_age_.end(), key);
  }

  Verdict verdict;
  if (!Insert(datagram, piece, verdict.copy)) {
    verdict.overlap = true;
    Forget(key);
    return verdict;
  }
  if (piece.offset == 0) datagram.next_header = piece.next_header;
  if (IsComplete(datagram)) {
    verdict.next_header = datagram.next_header;
    verdict.complete = std::move(datagram.data);
    Forget(key);
  } else if (datagrams_.size() > kMaxDatagrams) {
    const FragmentKey oldest = by_age_.front();
    Forget(oldest);
  }
  return verdict;
}

void FragmentTracker::Expire(int64_t now_ns) {
  while (!by_age_.empty()) {
    const FragmentKey oldest = by_age_.front();
    if (now_ns - datagrams_[oldest].first_seen_ns <= kLifetimeNs) return;
    Forget(oldest);
  }
}

void FragmentTracker::Forget(const FragmentKey& key) {
  const auto entry = datagrams_.find(key);
  by_age_.erase(entry->second.age);
  datagrams_.erase(entry);
}

// False for an overlap or for an end that contradicts what is known.
bool FragmentTracker::Insert(Datagram& datagram, const FragmentPiece& piece, bool& copy) {
  const uint32_t begin = piece.offset;
  const uint32_t end = begin + static_cast<uint32_t>(piece.payload.size());
  auto& ranges = datagram.ranges;
  const auto next = std::lower_bound(ranges.begin(), ranges.end(), std::pair{begin, uint32_t{0}});
  if (next != ranges.end() && next->first == begin && next->second == end) {
    copy = std::equal(piece.payload.span().begin(), piece.payload.span().end(),
                      datagram.data.begin() + begin) &&
           piece.more == (datagram.total != end);
    return copy;
  }
  if (next != ranges.end() && next->first < end) return false;
  if (next != ranges.begin() && std::prev(next)->second > begin) return false;
  if (datagram.total.has_value() && (!piece.more || end > *datagram.total)) return false;
  if (!piece.more && !ranges.empty() && ranges.back().second > end) return false;

  if (!piece.more) datagram.total = end;
  ranges.insert(next, {begin, end});
  if (datagram.data.size() < end) datagram.data.resize(end);
  std::copy(piece.payload.span().begin(), piece.payload.span().end(),
            datagram.data.begin() + begin);
  return true;
}

bool FragmentTracker::IsComplete(const Datagram& datagram) {
  if (!datagram.total.has_value()) return false;
  uint32_t covered = 0;
  for (const auto& [begin, end] : datagram.ranges) {
    if (begin != covered) return false;
    covered = end;
  }
  return covered == *datagram.total;
}

}  // namespace tapwire::capture
