// SPDX-License-Identifier: Apache-2.0
// The source addresses of a port's macvlans in source mode, found by address: what each received
// frame is asked for. One address may be on the lists of several macvlans.
#pragma once

#include <cstddef>
#include <vector>

#include "netdev/wire/mac_address.h"

namespace tapwire::netdev {

class Macvlan;

// Of the tables that a port keeps by address. Addresses are configured here, not chosen by peers,
// so the hash needs no secret.
inline constexpr size_t kMacvlanTableBuckets = 256;
size_t MacvlanTableBucket(const MacAddress& address);

class MacvlanSources {
 public:
  // A second Add() of the same pair has no effect.
  void Add(const MacAddress& address, Macvlan& macvlan);
  void Remove(const MacAddress& address, const Macvlan& macvlan);
  bool empty() const { return entries_ == 0; }

  // fn(Macvlan&), which must not change the table.
  template <typename Fn>
  void ForEach(const MacAddress& address, Fn&& fn) const {
    if (empty()) return;
    for (const Entry& entry : buckets_[MacvlanTableBucket(address)]) {
      if (entry.address == address) fn(*entry.macvlan);
    }
  }

 private:
  struct Entry {
    MacAddress address;
    Macvlan* macvlan;
  };
  std::vector<std::vector<Entry>> buckets_;  // none until the first Add()
  size_t entries_ = 0;
};

}  // namespace tapwire::netdev
