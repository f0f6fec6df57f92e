// SPDX-License-Identifier: Apache-2.0
//
// The few rtnetlink(7) requests that set up the kernel's end of a TAP: link up, MTU, addresses.
// Nothing here allocates memory, so all of it may run between fork() and exec(). Results are 0 or
// an errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "drivers/tap/unique_fd.h"
#include "netdev/wire/ip_address.h"

namespace tapwire::drivers {

// A rtnetlink socket in the network namespace of the thread that opened it.
class KernelLink {
 public:
  int Open();
  // Interface index of `name`; ENODEV if there is none here.
  static int IndexOf(const char* name, int& ifindex);
  // MTU of `name` in this network namespace; 0 if there is none here.
  static uint32_t MtuOf(const char* name);
  static int SetMtuOf(const char* name, uint32_t mtu);
  // Queues of the TAP `name` that descriptors are attached to, of all processes; 0 if this network
  // namespace has no such TAP or its kernel does not tell.
  static uint32_t AttachedQueuesOf(const char* name);

  // Brings an interface up; mtu 0 leaves the MTU.
  int SetUp(int ifindex, uint32_t mtu);
  // Adds an address. IPv6 ones are usable at once, without duplicate address detection: the other
  // end of the wire is this program. An address that is there already is no error.
  int AddAddress(int ifindex, const IpPrefix& prefix);

 private:
  int Transact(std::span<const uint8_t> request);

  UniqueFd socket_;
  uint32_t sequence_ = 0;
};

}  // namespace tapwire::drivers
