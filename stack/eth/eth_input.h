// SPDX-License-Identifier: Apache-2.0
// Ethernet input: the packet types a Stack registers on each of its devices. Checks the MAC
// addresses, removes the link header (Ethernet II; RFC 1042 SNAP is accepted, RFC 1122 §2.3.3) and
// dispatches on EtherType to ARP, IPv4 and IPv6. Sets meta l3_offset.
#pragma once

#include <memory>
#include <vector>

#include "netdev/device.h"

namespace tapwire {

class Interface;
class Stack;

class EthInput {
 public:
  explicit EthInput(Stack& stack);
  ~EthInput();
  void Attach(Interface& interface);  // registers the packet types on interface.device()
  void Detach(Interface& interface);

 private:
  class Sink;
  // Both consume the packet; drops are counted at the stack. `packet` data() is at the Ethernet
  // header, in Dispatch() behind it.
  void Receive(PacketPtr packet, Interface& interface);
  void Dispatch(PacketPtr packet, Interface& interface, uint16_t ether_type);
  // Removes the LLC/SNAP header behind the Ethernet header; the inner type, 0 if there is none.
  static uint16_t PullSnap(Packet& packet);

  Stack& stack_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace tapwire
