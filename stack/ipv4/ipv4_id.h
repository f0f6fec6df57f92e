// SPDX-License-Identifier: Apache-2.0
// Identifications for IPv4 datagrams that may be fragmented (RFC 6864 §4.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "netdev/base/random.h"
#include "netdev/base/siphash.h"
#include "netdev/wire/ip_address.h"

namespace tapwire {

// One counter per (source, destination, protocol), starting at a random value, in a table of fixed
// size. A destination sees only its own counter, so nobody can watch our traffic with others or
// guess identifications of theirs; and a value does not come back before the counter has gone
// round, unless 2048 other flows push it out, when it starts anew at random.
class Ipv4IdSource {
 public:
  explicit Ipv4IdSource(Random& random);

  // The first of `count` successive identifications (a super-packet becomes that many datagrams).
  uint16_t Take(Ipv4Address source, Ipv4Address destination, uint8_t protocol, uint16_t count = 1);

 private:
  static constexpr size_t kSets = 256;
  static constexpr size_t kWays = 8;

  struct Entry {
    Ipv4Address source;
    Ipv4Address destination;
    uint32_t used = 0;  // stamp of the last use; 0: free
    uint16_t next = 0;
    uint8_t protocol = 0;
  };

  Entry& Find(Ipv4Address source, Ipv4Address destination, uint8_t protocol);

  Random& random_;
  SipKey key_;  // secret, so that nobody can aim flows at one set
  uint32_t stamp_ = 0;
  std::vector<Entry> table_;  // made with the first datagram
};

}  // namespace tapwire
