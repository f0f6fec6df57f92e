// SPDX-License-Identifier: Apache-2.0
// Dead gateway detection (RFC 1122 §3.3.1.4, RFC 4861 §6.3.6): remembers which gateways of the
// route table do not answer, so that Stack::FindRoute takes another route of the same prefix while
// there is one. The evidence is the neighbour tables'; a dead gateway is asked for again now and
// then.
#pragma once

#include <cstdint>
#include <vector>

#include "netdev/base/time.h"
#include "netdev/wire/ip_address.h"

namespace tapwire {

class Interface;
class Stack;

class GatewayMonitor {
 public:
  explicit GatewayMonitor(Stack& stack) : stack_(stack) {}

  // A neighbour stopped answering, or is known (again). Invalidates routes if it is a gateway whose
  // state changed.
  void OnReachability(uint32_t ifindex, const IpAddress& address, bool reachable);
  // Whether `gateway` is known not to answer. Asks for it again, at most twice a minute.
  bool IsDead(Interface& interface, const IpAddress& gateway);
  // The link came up or the interface goes: what was known about its neighbours is void.
  void Forget(uint32_t ifindex);

 private:
  struct DeadGateway {
    uint32_t ifindex;
    IpAddress address;
    Time asked;
  };
  bool IsGateway(uint32_t ifindex, const IpAddress& address) const;
  DeadGateway* Find(uint32_t ifindex, const IpAddress& address);

  Stack& stack_;
  std::vector<DeadGateway> dead_;  // at most one per gateway of the route table
};

}  // namespace tapwire
