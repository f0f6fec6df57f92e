// SPDX-License-Identifier: Apache-2.0
// Path MTU learned from ICMP (RFC 1191, RFC 8201), per destination, bounded and aged. Only reports
// that a transport has recognised as being about its own traffic get here (RFC 5927).
//
// Timer: one, for the entry that ages first; when it goes, routes are invalidated so that senders
// try the larger size again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "netdev/base/time.h"
#include "netdev/base/timer_queue.h"
#include "netdev/wire/ip_address.h"

namespace tapwire {

class Stack;

// RFC 8200 §5: what every IPv6 link carries.
inline constexpr uint32_t kIpv6MinimumMtu = 1280;

class PathMtuCache final : private Timer {
 public:
  explicit PathMtuCache(Stack& stack);

  // The usable MTU towards `destination`: min(device_mtu, learned and not yet aged).
  uint32_t Get(const IpAddress& destination, uint32_t device_mtu) const;
  // A report of `mtu` while packets of up to `current` were sent. Never raises; clamps to the floor
  // (config.min_path_mtu_v4; IPv6 1280: lower reports are ignored, RFC 8201 §4). IPv4 0 means a
  // router older than RFC 1191: the next plateau below `current` (§7.1). True if the value went
  // down.
  bool Report(const IpAddress& destination, uint32_t mtu, uint32_t current);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    uint32_t mtu;
    Time expires;
    std::list<IpAddress>::iterator age;
  };
  void OnExpired() override;
  void Remember(const IpAddress& destination, uint32_t mtu);
  void ForgetOldest();

  Stack& stack_;
  absl::flat_hash_map<IpAddress, Entry> entries_;
  std::list<IpAddress> by_age_;  // front: oldest
};

}  // namespace tapwire
