// SPDX-License-Identifier: Apache-2.0
#include "stack/ipv4/ipv4_id.h"

#include <algorithm>
#include <array>

namespace tapwire {

Ipv4IdSource::Ipv4IdSource(Random& random) : random_(random), key_(SipKey::Generate(random)) {}

uint16_t Ipv4IdSource::Take(Ipv4Address source, Ipv4Address destination, uint8_t protocol,
                            uint16_t count) {
  Entry& entry = Find(source, destination, protocol);
  const uint16_t first = entry.next;
  entry.next = static_cast<uint16_t>(entry.next + count);
  return first;
}

Ipv4IdSource::Entry& Ipv4IdSource::Find(Ipv4Address source, Ipv4Address destination,
                                        uint8_t protocol) {
  if (table_.empty()) table_.resize(kSets * kWays);
  if (++stamp_ == 0) stamp_ = 1;  // after 2^32 datagrams the order of age is off for a while
  std::array<uint8_t, 9> flow;
  source.CopyTo(flow.data());
  destination.CopyTo(flow.data() + 4);
  flow[8] = protocol;
  Entry* const set = &table_[SipHash13(key_, flow) % kSets * kWays];
  Entry* const end = set + kWays;
  Entry* entry = std::find_if(set, end, [&](const Entry& e) {
    return e.used != 0 && e.source == source && e.destination == destination &&
           e.protocol == protocol;
  });
  if (entry == end) {
    entry =
        std::min_element(set, end, [](const Entry& a, const Entry& b) { return a.used < b.used; });
    *entry = {.source = source,
              .destination = destination,
              .next = static_cast<uint16_t>(random_.Next32()),
              .protocol = protocol};
  }
  entry->used = stamp_;
  return *entry;
}

}  // namespace tapwire
