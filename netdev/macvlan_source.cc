// SPDX-License-Identifier: Apache-2.0
#include "netdev/macvlan_source.h"

#include <algorithm>
#include <cstdint>

#include "netdev/base/byteorder.h"

namespace tapwire::netdev {

size_t MacvlanTableBucket(const MacAddress& address) {
  const uint8_t* bytes = address.bytes().data();
  const uint64_t value = uint64_t{LoadBe16(bytes)} << 32 | LoadBe32(bytes + 2);
  return (value * 0x9e3779b97f4a7c15U) >> 56;
}

void MacvlanSources::Add(const MacAddress& address, Macvlan& macvlan) {
  if (buckets_.empty()) buckets_.resize(kMacvlanTableBuckets);
  std::vector<Entry>& bucket = buckets_[MacvlanTableBucket(address)];
  for (const Entry& entry : bucket) {
    if (entry.address == address && entry.macvlan == &macvlan) return;
  }
  bucket.push_back({.address = address, .macvlan = &macvlan});
  ++entries_;
}

void MacvlanSources::Remove(const MacAddress& address, const Macvlan& macvlan) {
  if (empty()) return;
  std::vector<Entry>& bucket = buckets_[MacvlanTableBucket(address)];
  const auto entry = std::find_if(bucket.begin(), bucket.end(), [&](const Entry& candidate) {
    return candidate.address == address && candidate.macvlan == &macvlan;
  });
  if (entry == bucket.end()) return;
  bucket.erase(entry);
  --entries_;
}

}  // namespace tapwire::netdev
