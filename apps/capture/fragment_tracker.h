// SPDX-License-Identifier: Apache-2.0
// Follows fragments of a capture until a datagram is whole, and sees when they contradict.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "apps/capture/bytes.h"
#include "apps/capture/checker.h"

namespace tapwire::capture {

// RFC 791 §3.2, RFC 8200 §4.5, with the place of capture: one frame seen at both ends of a link is
// no duplicate.
struct FragmentKey {
  uint32_t interface = 0;
  Direction direction = Direction::kUnknown;
  uint8_t protocol = 0;  // IPv4 only
  uint32_t id = 0;
  Address source, destination;

  friend bool operator==(const FragmentKey&, const FragmentKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const FragmentKey& key) {
    return H::combine(std::move(state), key.interface, key.direction, key.protocol, key.id,
                      key.source, key.destination);
  }
};

struct FragmentPiece {
  uint32_t offset = 0;  // bytes
  bool more = false;
  Bytes payload;            // all of it; pieces cut by the snap length are not given
  uint8_t next_header = 0;  // of the first fragment: what the whole carries
};

class FragmentTracker {
 public:
  static constexpr size_t kMaxDatagrams = 256;
  static constexpr int64_t kLifetimeNs = int64_t{60} * 1'000'000'000;

  struct Verdict {
    bool overlap = false;
    bool copy = false;                             // exactly a piece that is there already
    std::optional<std::vector<uint8_t>> complete;  // the payload, once whole
    uint8_t next_header = 0;                       // with `complete`
  };
  // A datagram with an overlap is forgotten: what follows of it starts anew.
  Verdict Add(const FragmentKey& key, const FragmentPiece& piece, int64_t now_ns);

 private:
  struct Datagram {
    int64_t first_seen_ns = 0;
    std::vector<std::pair<uint32_t, uint32_t>> ranges;  // sorted, disjoint, [begin, end)
    std::vector<uint8_t> data;
    std::optional<uint32_t> total;
    uint8_t next_header = 0;
    std::list<FragmentKey>::iterator age;
  };

  void Expire(int64_t now_ns);
  void Forget(const FragmentKey& key);
  static bool Insert(Datagram& datagram, const FragmentPiece& piece, bool& copy);
  static bool IsComplete(const Datagram& datagram);

  absl::flat_hash_map<FragmentKey, Datagram> datagrams_;
  std::list<FragmentKey> by_age_;  // oldest first
};

}  // namespace tapwire::capture
