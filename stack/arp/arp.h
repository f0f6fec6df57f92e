// SPDX-License-Identifier: Apache-2.0
// ARP for one interface (RFC 826) with address conflict detection (RFC 5227).
//
//   StartProbe: 0–1 s, 3 probes 1–2 s apart, 2 s  ->  usable, or the conflict seen meanwhile
//   Announce:   2 announcements 2 s apart
//   afterwards: a conflicting packet is answered by an announcement, at most one in 10 s
//
// Timers: one per address being probed or announced.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "netdev/base/log_every_n.h"
#include "netdev/packet/packet.h"
#include "netdev/wire/arp.h"
#include "stack/neighbor.h"

namespace tapwire {

class Interface;
class Stack;

class Arp final : public NeighborResolver {
 public:
  explicit Arp(Interface& interface);
  ~Arp() override;

  // `packet` data() is at the ARP header. Consumes it; drops are counted at the stack.
  DropReason Input(PacketPtr packet);

  // RFC 5227 §2.1.1: probes `address`, then calls Interface::OnAddressChecked once.
  void StartProbe(const Ipv4Address& address);
  // Stops probing, announcing and defending it (address removed, interface down).
  void Cancel(const Ipv4Address& address);
  // RFC 5227 §2.3: two announcements 2 s apart.
  void Announce(const Ipv4Address& address);

  void Solicit(const IpAddress& target, std::optional<MacAddress> unicast_to,
               const IpAddress& source) override;
  void ReportUnreachable(PacketPtr packet, const IpAddress& target) override;

 private:
  struct Probe;  // state of one address under detection, announcement or defence

  DropReason Process(const wire::ArpHeader& arp, const Packet& packet);
  DropReason CheckSender(const wire::ArpHeader& arp) const;
  bool IsConflict(const wire::ArpHeader& arp) const;
  void OnConflict(const wire::ArpHeader& arp, const Ipv4Address& address);
  void Defend(Probe& probe);
  void Reply(const wire::ArpHeader& request);
  std::optional<Ipv4Address> SolicitSource(const Ipv4Address& target,
                                           const IpAddress& source) const;
  void SendRequest(const Ipv4Address& sender, const Ipv4Address& target, const MacAddress& to);
  bool Send(const wire::ArpFields& fields, const MacAddress& to);

  Probe* Find(const Ipv4Address& address) const;
  Probe& FindOrAdd(const Ipv4Address& address);
  void OnTimer(Probe& probe);
  Duration ProbeDelay();

  Stack& stack_;
  Interface& interface_;
  std::vector<std::unique_ptr<Probe>> probes_;
  int failed_probes_ = 0;  // conflicts while probing (RFC 5227 §2.1.1, MAX_CONFLICTS)
  Time last_probe_start_;
  LogEveryN conflict_log_;
};

}  // namespace tapwire
