// SPDX-License-Identifier: Apache-2.0
// Remembers the identifications of non-atomic IPv4 datagrams (RFC 6864 §4).
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "apps/capture/bytes.h"
#include "apps/capture/checker.h"

namespace tapwire::capture {

class Ipv4IdTracker {
 public:
  static constexpr size_t kMaxEntries = 1u << 20;

  // RFC 6864 §4.3: unique per source, destination and protocol.
  struct Key {
    uint32_t interface = 0;
    Direction direction = Direction::kUnknown;
    uint8_t protocol = 0;
    uint16_t id = 0;
    uint32_t source = 0, destination = 0;

    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine(std::move(state), key.interface, key.direction, key.protocol, key.id,
                        key.source, key.destination);
    }
  };
  enum class Verdict : uint8_t { kNew, kReused, kCopy };

  // `digest` tells a copy of the same datagram from another one with its identification.
  Verdict Add(const Key& key, uint64_t digest, int64_t now_ns, int64_t window_ns);

 private:
  struct Use {
    int64_t time_ns;
    uint64_t digest;
  };
  absl::flat_hash_map<Key, Use> uses_;
  std::deque<std::pair<int64_t, Key>> by_age_;  // oldest first; may name entries used again since
};

}  // namespace tapwire::capture
